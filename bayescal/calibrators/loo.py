"""Leave-one-out predictive densities of a fitted calibrator, by importance sampling."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from bayescal.calibrators.scale import distinct_rows

if TYPE_CHECKING:
    from bayescal.calibrators.binary import BinaryCalibrator

SMOOTHED_CELLS = 1000  # distinct (score, outcome) cells up to which the ratios' tails are Pareto-smoothed
SMOOTHED_DRAWS = 25  # fewer leave a tail of fewer than the five draws that a Pareto distribution is fitted to
BLOCK = 512

# scores and outcomes of m cells -> log likelihood and log of the posterior's factor, each (draws, m)
Densities = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Loo:
    """Log predictive densities of the outcome of each row; 0 for rows of weight 0, which count for nothing."""

    elpd: np.ndarray  # (n,) given the other rows
    lppd: np.ndarray  # (n,) given all rows
    pareto_k: np.ndarray  # (n,) of the ratios' tail; NaN where there is none, or it was not smoothed


def pointwise_loo(calibrator: "BinaryCalibrator") -> np.ndarray:
    """log p(y_i | s_i, other rows) for each calibration row, ``(n,)``; 0 for rows of weight 0."""
    rows = calibrator._require_rows()

    def densities(scores: np.ndarray, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return calibrator._log_likelihood_at(scores, outcome), calibrator._log_factor_at(scores, outcome)

    return leave_one_out(rows.scores, rows.positive, rows.weight, densities, calibrator._draw_shape).elpd


def leave_one_out(
    scores: np.ndarray, outcome: np.ndarray, weight: np.ndarray, densities: Densities, draw_shape: tuple[int, int]
) -> Loo:
    """Leave out each row in turn, one case of it, by importance sampling from draws of the shape (chains, draws).

    A draw's importance ratio is 1 over the factor by which the row changed its posterior density: the row's likelihood,
    or what the calibrator says of it (`_log_factor_at`: a power of the likelihood, the joint density of scores and
    outcome). Rows that share scores and outcome share the value. Beyond `SMOOTHED_CELLS` cells no single row moves the
    posterior enough for the ratios to have a tail, and they are used as they are; so are those of hardly any draws.
    Vehtari, Gelman & Gabry (2017), Eq. 8 and 10.
    """
    used = weight > 0
    size = int(np.prod(draw_shape))
    cells, inverse = distinct_rows(np.column_stack([scores, outcome])[used])
    smooth = len(cells) <= SMOOTHED_CELLS and size >= SMOOTHED_DRAWS
    found = np.full((3, len(cells)), np.nan)
    for start in range(0, len(cells), BLOCK):
        part = cells[start : start + BLOCK]
        log_likelihood, log_factor = (d.T for d in densities(_scores_of(part, scores.ndim), part[:, -1]))
        log_weights, pareto_k = -log_factor, np.full(len(part), np.nan)
        if smooth:
            tail = _has_tail(log_factor)
            log_weights[tail], pareto_k[tail] = _smoothed(log_factor[tail], draw_shape)
        with np.errstate(invalid="ignore"):
            product = np.where(np.isneginf(log_likelihood), 0.0, log_likelihood + log_weights)  # ruled out: -inf below
        elpd = logsumexp(product, axis=1) - logsumexp(log_weights, axis=1)
        lppd = logsumexp(log_likelihood, axis=1) - np.log(size)
        found[:, start : start + BLOCK] = elpd, lppd, pareto_k
    values = np.stack([np.zeros(len(used)), np.zeros(len(used)), np.full(len(used), np.nan)])
    values[:, used] = found[:, inverse]
    return Loo(*values)


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


def _smoothed(log_factor: np.ndarray, draw_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pareto-smoothed log weights ``(m, draws)`` and k ``(m,)``; rows where smoothing fails keep their raw ones."""
    from arviz_stats.base import array_stats

    if not len(log_factor):
        return -log_factor, np.empty(0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draws = log_factor.reshape(len(log_factor), *draw_shape)
        smoothed, pareto_k = array_stats.psislw(draws, r_eff=1.0, axis=(-2, -1))
    smoothed = smoothed.reshape(log_factor.shape)
    return np.where(np.isfinite(smoothed).all(axis=1, keepdims=True), smoothed, -log_factor), pareto_k
