"""What a user must know of an adaptation: refusals of what a method cannot do, and warnings."""

import warnings
from typing import Any

import numpy as np

from bayescal.label_shift.calibrated import has_draws
from bayescal.label_shift.settings import Prior
from bayescal.validation import CalibrationWarning, ConvergenceWarning, LabelValueError, ParameterValueError

BAYES = ("bayes", "bayes-confusion")
CONFUSION = ("bbse-hard", "bbse-soft", "rlls-hard", "rlls-soft")
METHODS = ("bayes", "em", *CONFUSION, "bayes-confusion")
ACCEPTED_MIN = 0.6  # of the transitions, on average over draws
R_HAT_MAX = 1.05  # of chains of the confusion posterior, which are many and short


def refuse(method: str, calibrator: Any, prior: Prior, given: Any, counts: np.ndarray, classes: np.ndarray) -> None:
    """Refuse what a method cannot do, and warn of classes that rest on a prior."""
    if prior.concentration is not None and given is not None and method not in BAYES:
        raise ParameterValueError(
            f"prior={given!r} is a Dirichlet concentration, and method={method!r} has no prior. Use method='bayes', or "
            "pass known proportions, which sum to 1."
        )
    if method == "bayes" and not has_draws(calibrator):
        raise ParameterValueError(
            f"method='bayes' needs a calibrator with a posterior, and this {type(calibrator).__name__} holds a point "
            "estimate. Construct it with inference='nuts', or use method='em'."
        )
    absent = np.flatnonzero(counts == 0)
    if absent.size and method in CONFUSION and prior.known is None:
        raise LabelValueError(
            f"method={method!r} needs source cases of every class, and {absent.size} of {len(classes)} have none, "
            f"first {classes[absent[:1]].tolist()[0]!r}. Add cases, leave the column out, or use method='bayes'."
        )
    if absent.size:
        warnings.warn(
            f"{absent.size} of {len(classes)} classes have no source case, first {classes[absent[:1]].tolist()[0]!r}: "
            "what is said of them rests on the priors and on the scores.",
            CalibrationWarning,
            stacklevel=3,
        )


def warn_about_left_out(kept: np.ndarray, classes: np.ndarray, ignored: int) -> None:
    left_out = np.flatnonzero(~kept)
    if left_out.size:
        warnings.warn(
            f"{left_out.size} of {len(classes)} classes, first {classes[left_out[:1]].tolist()[0]!r}, have probability "
            "0 for every source case. They have no weight, and are left out with a target proportion of 0.",
            CalibrationWarning,
            stacklevel=5,
        )
    if ignored:
        warnings.warn(
            f"{ignored} target cases have probability 0 for every class with a source proportion, and were ignored.",
            CalibrationWarning,
            stacklevel=5,
        )


def warn_about_mixing(q: np.ndarray) -> None:
    from arviz_stats.base import array_stats

    r_hat = np.array([array_stats.rhat(q[..., i], chain_axis=0, draw_axis=1) for i in range(q.shape[2])], dtype=float)
    if not (r_hat <= R_HAT_MAX).all():
        warnings.warn(
            f"R-hat of the target proportions from confusion counts is {np.nanmax(r_hat):.2f} (limit {R_HAT_MAX}). "
            "Use method='bayes', or raise draws.",
            ConvergenceWarning,
            stacklevel=5,
        )
