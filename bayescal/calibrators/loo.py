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
    """log p(y_i | s_i, other rows) for each calibration row, ``(n,)``; 0 for rows of weight 0, which count for nothing.

    A draw's importance ratio is 1 over the factor by which the row changed its posterior density: the row's likelihood,
    or what the calibrator says of it (`_log_factor_at`: a power of the likelihood, the joint density of scores and
    outcome). Rows that share scores and outcome share the value. Beyond `SMOOTHED_CELLS` cells no single row moves the
    posterior enough for the ratios to have a tail, and they are used as they are; so are those of hardly any draws.
    Vehtari, Gelman & Gabry (2017), Eq. 8 and 10.
    """
    rows = calibrator._require_rows()
    used = rows.weight > 0
    enough = np.prod(calibrator._draw_shape) >= SMOOTHED_DRAWS
    pairs = np.column_stack([rows.scores, rows.positive])[used]
    cells, inverse = distinct_rows(pairs)
    elpd = np.empty(len(cells))
    for start in range(0, len(cells), BLOCK):
        part = cells[start : start + BLOCK]
        at = _scores_of(part, rows.scores.ndim), part[:, -1]
        log_likelihood, log_factor = calibrator._log_likelihood_at(*at).T, calibrator._log_factor_at(*at).T
        log_weights = -log_factor
        if len(cells) <= SMOOTHED_CELLS and enough:
            tail = _has_tail(log_factor)
            log_weights[tail] = _smoothed(log_factor[tail], calibrator._draw_shape)
        with np.errstate(invalid="ignore"):
            product = np.where(np.isneginf(log_likelihood), 0.0, log_likelihood + log_weights)  # ruled out: -inf below
        elpd[start : start + BLOCK] = logsumexp(product, axis=1) - logsumexp(log_weights, axis=1)
    values = np.zeros(len(used))
    values[used] = elpd[inverse]
    return values


def _scores_of(cells: np.ndarray, ndim: int) -> np.ndarray:
    return cells[:, :-1] if ndim == 2 else cells[:, 0]


def _has_tail(log_factor: np.ndarray) -> np.ndarray:
    """Which rows ``(m,)`` of finite ratios have a tail, draws that are not all alike, to fit a distribution to."""
    n = log_factor.shape[1]
    size = int(min(0.2 * n, 3 * np.sqrt(n)))
    lowest = np.partition(log_factor, size - 1, axis=1)[:, :size]
    finite = np.isfinite(lowest).all(axis=1)
    spread = np.where(finite, lowest.max(axis=1), 0.0) - np.where(finite, lowest.min(axis=1), 0.0)
    return spread >= np.finfo(float).tiny


def _smoothed(log_factor: np.ndarray, draw_shape: tuple[int, int]) -> np.ndarray:
    """Pareto-smoothed log weights ``(m, draws)``; rows where smoothing fails keep their raw ones."""
    from arviz_stats.base import array_stats

    if not len(log_factor):
        return -log_factor
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draws = log_factor.reshape(len(log_factor), *draw_shape)
        smoothed = array_stats.psislw(draws, r_eff=1.0, axis=(-2, -1))[0].reshape(log_factor.shape)
    return np.where(np.isfinite(smoothed).all(axis=1, keepdims=True), smoothed, -log_factor)
