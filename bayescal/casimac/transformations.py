"""Which transformations a fit looks at: those that the user fixed, or a grid of gamma and of neighbour numbers."""

from typing import Any

import numpy as np

from bayescal.casimac.neighbours import Pull
from bayescal.casimac.settings import GAMMAS, NEIGHBOURS, SPREADS
from bayescal.validation import ParameterValueError, check_count, check_nonnegative

AUTO = "auto"


def read_pulls(alpha: Any, beta: Any, gamma: Any, k_alpha: Any, k_beta: Any, smallest: int) -> list[Pull]:
    """Transformations to average over, within conditions (18): k_alpha <= c - 1, k_beta <= c, alpha + beta > 0.

    `smallest` is c, the number of cases of the smallest class.
    """
    weights = _weights(alpha, beta, gamma)
    if smallest < 2:
        if all(a > 0 for a, _ in weights):
            raise ParameterValueError(
                "a class has a single case, which has no neighbour of its own class to be attracted by (k_alpha <= c - "
                "1 with c = 1). Pass gamma=1, or add cases."
            )
        weights = [(a, b) for a, b in weights if a == 0]
    numbers_alpha, numbers_beta = (
        _numbers(k, name, smallest - less) for k, name, less in ((k_alpha, "k_alpha", 1), (k_beta, "k_beta", 0))
    )
    pairs = [(a, b) for a in numbers_alpha for b in numbers_beta]
    if k_alpha == AUTO and k_beta == AUTO:
        pairs = [(a, b) for a, b in pairs if a == b] or [(numbers_alpha[0], numbers_beta[0])]
    found = [Pull(a, b, ka, kb) for a, b in weights for ka, kb in pairs]
    same = {(p.alpha, p.beta, p.k_alpha if p.alpha else 0, p.k_beta if p.beta else 0): p for p in found}
    return list(same.values())


def read_spreads(spread: Any) -> tuple[float, ...]:
    """Multipliers of the predictive standard deviation to average over."""
    if isinstance(spread, str) and spread == AUTO:
        return SPREADS
    if isinstance(spread, str) or check_nonnegative(spread, "spread") < 1:
        raise ParameterValueError(f"spread must be 'auto' or a number of at least 1, got {spread!r}.")
    return (float(spread),)


def _weights(alpha: Any, beta: Any, gamma: Any) -> list[tuple[float, float]]:
    if alpha is not None or beta is not None:
        if alpha is None or beta is None or gamma != AUTO:
            raise ParameterValueError(
                f"alpha and beta go together and without gamma, got alpha={alpha!r}, beta={beta!r}, gamma={gamma!r}."
            )
        a, b = check_nonnegative(alpha, "alpha"), check_nonnegative(beta, "beta")
        if not a + b > 0:
            raise ParameterValueError("alpha + beta must be positive (condition 18), got 0 and 0.")
        return [(a, b)]
    if isinstance(gamma, str) and gamma == AUTO:
        return [(1.0 - g, g) for g in GAMMAS]
    if isinstance(gamma, str) or check_nonnegative(gamma, "gamma") > 1:
        raise ParameterValueError(f"gamma must be 'auto' or a number in [0, 1], got {gamma!r}.")
    return [(1.0 - float(gamma), float(gamma))]


def _numbers(k: Any, name: str, most: int) -> list[int]:
    if isinstance(k, str) and k == AUTO:
        return [number for number in NEIGHBOURS if number <= most - 1] or [1]
    number = check_count(k, name)
    if number > max(most, 1):
        raise ParameterValueError(
            f"{name} must be at most {max(most, 1)}, by condition 18 and the smallest class of y, got {number}."
        )
    return [number]


def describe(pull: Pull) -> dict[str, float]:
    """A transformation in numbers, gamma too where alpha + beta = 1."""
    total = pull.alpha + pull.beta
    return {
        "alpha": pull.alpha,
        "beta": pull.beta,
        "gamma": pull.beta if np.isclose(total, 1.0) else np.nan,
        "k_alpha": pull.k_alpha,
        "k_beta": pull.k_beta,
    }
