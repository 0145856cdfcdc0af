"""The observed variable of every binary model: outcomes of rows that share a score, counted."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pytensor.tensor as pt


def bernoulli_counts(log_odds: "pt.TensorVariable", positives: Any, totals: Any) -> None:
    """Add the observed variable ``y`` with dim ``score``.

    For a distinct score with n cases of which k are positive, up to a constant that no parameter enters,

        log p(k | eta) = k eta - n log(1 + exp(eta)),      0 <= k <= n,

    which holds for whole and fractional counts (sample weights) alike, and never evaluates log 0.
    """
    import pymc as pm
    import pytensor.tensor as pt

    pm.CustomDist(
        "y",
        log_odds,
        totals,
        logp=lambda k, eta, n: k * eta - n * pt.softplus(eta),
        random=_draw,
        observed=positives,
        dims="score",
    )


def _draw(log_odds: np.ndarray, totals: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
    proba = 1.0 / (1.0 + np.exp(-log_odds))
    return rng.binomial(np.round(totals).astype(np.int64), proba, size=size).astype(np.float64)
