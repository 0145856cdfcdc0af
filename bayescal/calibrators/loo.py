"""Leave-one-out predictive densities of a fitted calibrator, by importance sampling."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from bayescal.calibrators.binary import BinaryCalibrator

SMOOTHED_CELLS = 1000  # distinct (score, outcome) cells up to which the ratios' tails are Pareto-smoothed
SMOOTHED_DRAWS = 25  # fewer leave a tail of fewer than the five draws that a Pareto distribution is fitted to
BLOCK = 512


def pointwise_loo(calibrator: "BinaryCalibrator") -> np.ndarray:
    """log p(y_i | y_-i) for each calibration row, ``(n,)``.

    Rows that share score and outcome share the value. Beyond `SMOOTHED_CELLS` cells no single row moves the posterior
    enough for the ratios to have a tail, and they are used as they are; so are those of hardly any draws. Vehtari,
    Gelman & Gabry (2017), Eq. 8 and 10.
    """
    rows = calibrator._require_rows()
    enough = np.prod(calibrator._draw_shape) >= SMOOTHED_DRAWS
    cells, inverse = np.unique(np.column_stack([rows.scores, rows.positive]), axis=0, return_inverse=True)
    elpd = np.empty(len(cells))
    for start in range(0, len(cells), BLOCK):
        part = cells[start : start + BLOCK]
        log_likelihood = calibrator._log_likelihood_at(part[:, 0], part[:, 1]).T
        log_weights = -log_likelihood
        if len(cells) <= SMOOTHED_CELLS and enough:
            log_weights = _smoothed(log_likelihood, calibrator._draw_shape)
        elpd[start : start + BLOCK] = logsumexp(log_likelihood + log_weights, axis=1) - logsumexp(log_weights, axis=1)
    return elpd[inverse.reshape(-1)]


def _smoothed(log_likelihood: np.ndarray, draw_shape: tuple[int, int]) -> np.ndarray:
    """Pareto-smoothed log weights ``(m, draws)``; rows whose ratios have no tail keep them as they are."""
    from arviz_stats.base import array_stats

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draws = log_likelihood.reshape(len(log_likelihood), *draw_shape)
        smoothed = array_stats.psislw(draws, r_eff=1.0, axis=(-2, -1))[0].reshape(log_likelihood.shape)
    return np.where(np.isfinite(smoothed).all(axis=1, keepdims=True), smoothed, -log_likelihood)
