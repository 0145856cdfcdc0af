"""Leave-one-out predictive densities of a fitted calibrator, by importance sampling."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from bayescal.calibrators.scale import distinct_rows

if TYPE_CHECKING:
    from bayescal.calibrators.binary import BinaryCalibrator

SMOOTHED_CELLS = 1000  # distinct (score, outcome) cells up to which the ratios' tails are Pareto-smoothed
SMOOTHED_DRAWS = 25  # fewer leave a tail of fewer than the five draws that a Pareto distribution is fitted to
BLOCK = 512


def pointwise_loo(calibrator: "BinaryCalibrator") -> np.ndarray:
    """log p(y_i | y_-i) for each calibration row, ``(n,)``; 0 for rows of weight 0, which count for nothing.

    Rows that share score and outcome share the value. Beyond `SMOOTHED_CELLS` cells no single row moves the posterior
    enough for the ratios to have a tail, and they are used as they are; so are those of hardly any draws. Vehtari,
    Gelman & Gabry (2017), Eq. 8 and 10.
    """
    rows = calibrator._require_rows()
    used = rows.weight > 0
    enough = np.prod(calibrator._draw_shape) >= SMOOTHED_DRAWS
    pairs = np.column_stack([rows.scores, rows.positive])[used]
    cells, inverse = distinct_rows(pairs)
    elpd = np.empty(len(cells))
    for start in range(0, len(cells), BLOCK):
        part = cells[start : start + BLOCK]
        log_likelihood = calibrator._log_likelihood_at(_scores_of(part, rows.scores.ndim), part[:, -1]).T
        value = np.log(log_likelihood.shape[1]) - logsumexp(-log_likelihood, axis=1)
        if len(cells) <= SMOOTHED_CELLS and enough:
            tail = _has_tail(log_likelihood)
            log_weights = _smoothed(log_likelihood[tail], calibrator._draw_shape)
            value[tail] = logsumexp(log_likelihood[tail] + log_weights, axis=1) - logsumexp(log_weights, axis=1)
        elpd[start : start + BLOCK] = value
    values = np.zeros(len(used))
    values[used] = elpd[inverse]
    return values


def _scores_of(cells: np.ndarray, ndim: int) -> np.ndarray:
    return cells[:, :-1] if ndim == 2 else cells[:, 0]


def _has_tail(log_likelihood: np.ndarray) -> np.ndarray:
    """Which rows ``(m,)`` of finite ratios have a tail, draws that are not all alike, to fit a distribution to."""
    n = log_likelihood.shape[1]
    size = int(min(0.2 * n, 3 * np.sqrt(n)))
    lowest = np.partition(log_likelihood, size - 1, axis=1)[:, :size]
    finite = np.isfinite(lowest).all(axis=1)
    spread = np.where(finite, lowest.max(axis=1), 0.0) - np.where(finite, lowest.min(axis=1), 0.0)
    return spread >= np.finfo(float).tiny


def _smoothed(log_likelihood: np.ndarray, draw_shape: tuple[int, int]) -> np.ndarray:
    """Pareto-smoothed log weights ``(m, draws)``; rows where smoothing fails keep their raw ones."""
    from arviz_stats.base import array_stats

    if not len(log_likelihood):
        return -log_likelihood
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draws = log_likelihood.reshape(len(log_likelihood), *draw_shape)
        smoothed = array_stats.psislw(draws, r_eff=1.0, axis=(-2, -1))[0].reshape(log_likelihood.shape)
    return np.where(np.isfinite(smoothed).all(axis=1, keepdims=True), smoothed, -log_likelihood)
