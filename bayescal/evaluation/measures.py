"""Measures of calibration in NumPy, for one curve or for the draws of a posterior at once.

Distances between stated and actual probability, logistic fits to the outcomes, and the grouping of many scores.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayescal.calibrators.scale import LOGIT_CLIP, PROBA_CLIP
from bayescal.calibrators.summaries import BLOCK

MAX_POINTS = 2000  # distinct scores at which the curve is evaluated; more are grouped to this many neighbours
NEWTON_STEPS = 100


def log_odds_of(scores: np.ndarray, score_kind: str) -> np.ndarray:
    """Stated log-odds, within ±13.8."""
    log_odds = scores if score_kind == "logit" else logit(np.clip(scores, PROBA_CLIP, 1 - PROBA_CLIP))
    return np.clip(log_odds, -LOGIT_CLIP, LOGIT_CLIP)


def point_groups(distinct: np.ndarray, totals: np.ndarray, score_kind: str, most: int = MAX_POINTS) -> np.ndarray:
    """Number of the group, `most` at most, of each of many rising scores with `totals` cases; both ends alone.

    Groups are cut at equal steps of the mean of two shares, that of the cases and that of the range of log-odds: none
    holds more than 2 / `most` of either.
    """
    log_odds = log_odds_of(distinct, score_kind)
    cases = (np.cumsum(totals) - 0.5 * totals) / totals.sum()
    width = (log_odds - log_odds[0]) / max(log_odds[-1] - log_odds[0], np.finfo(float).tiny)
    group = 1 + (0.5 * (cases + width) * (most - 2)).astype(int)
    group[0], group[-1] = 0, most - 1
    return np.unique(group, return_inverse=True)[1]


def averages(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Averages ``(draws,)`` of values ``(draws, m)`` over the cases, whose share is ``(m,)`` or each draw's own."""
    return values @ share if share.ndim == 1 else np.einsum("ij,ij->i", values, share)


def distances(stated: np.ndarray, q: np.ndarray, share: np.ndarray) -> dict[str, np.ndarray]:
    """The measures of q - s, ``(draws,)`` each, of curves q ``(draws, m)`` at m stated probabilities.

    `share` is the share of the cases at each, ``(m,)`` or ``(draws, m)``.
    """
    found: dict[str, np.ndarray] = {name: np.empty(len(q)) for name in ("ici", "e50", "e90", "emax")}
    for rows in _blocks(q):
        distance = np.abs(q[rows] - stated)
        of_rows = _of(share, rows)
        found["ici"][rows] = averages(distance, of_rows)
        found["emax"][rows] = distance.max(axis=1)
        order = np.argsort(distance, axis=1)
        sorted_share = of_rows[order] if share.ndim == 1 else np.take_along_axis(of_rows, order, axis=1)
        reached = np.cumsum(sorted_share, axis=1)
        for name, level in (("e50", 0.5), ("e90", 0.9)):
            # the smallest distance that at least this share of the cases does not exceed; the margin is for rounding
            position = np.argmax(reached >= level - 1e-12, axis=1)
            column = np.take_along_axis(order, position[:, None], axis=1)
            found[name][rows] = np.take_along_axis(distance, column, axis=1)[:, 0]
    return {**found, "bias": averages(q - stated, share)}


def score_parts(stated: np.ndarray, q: np.ndarray, share: np.ndarray) -> dict[str, np.ndarray]:
    """Expected Brier score, its parts and the expected log loss, ``(draws,)`` each, of outcomes of probability q.

    brier = miscalibration - discrimination + uncertainty. The log loss takes `stated` within 1e-6 of 0 and 1.
    """
    rate = averages(q, share)
    kept = np.clip(stated, PROBA_CLIP, 1 - PROBA_CLIP)
    parts = {
        "miscalibration": averages((q - stated) ** 2, share),
        "discrimination": averages((q - rate[:, None]) ** 2, share),
        "uncertainty": rate * (1 - rate),
    }
    return {
        "brier": parts["miscalibration"] - parts["discrimination"] + parts["uncertainty"],
        **parts,
        "log_loss": averages(-(q * np.log(kept) + (1 - q) * np.log1p(-kept)), share),
    }


@dataclass(frozen=True)
class StandardisedLine:
    """Intercept and slope in log-odds that are moved and scaled to mean 0 and variance 1."""

    design: np.ndarray  # (m, 2)
    centre: float
    spread: float

    @classmethod
    def of(cls, log_odds: np.ndarray, share: np.ndarray) -> "StandardisedLine":
        """Of m log-odds that are not all equal and their shares of the cases."""
        centre = float(share @ log_odds)
        spread = float(np.sqrt(share @ (log_odds - centre) ** 2))
        return cls(np.column_stack([np.ones(len(log_odds)), (log_odds - centre) / spread]), centre, spread)

    def coefficients(self, fitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intercept and slope in the log-odds themselves, ``(draws,)`` each."""
        slope = fitted[:, 1] / self.spread
        return fitted[:, 0] - slope * self.centre, slope


def logistic_measures(log_odds: np.ndarray, q: np.ndarray, share: np.ndarray) -> dict[str, np.ndarray]:
    """Slope with its intercept, and the intercept beside slope 1, ``(draws,)`` each.

    `share` is the share of the cases at each of the m log-odds, ``(m,)`` or ``(draws, m)``.
    """
    q = np.clip(q, PROBA_CLIP, 1 - PROBA_CLIP)  # every maximum is finite
    one = np.ones((len(log_odds), 1))
    usual = share if share.ndim == 1 else share.mean(axis=0)
    grid = np.linspace(-2 * LOGIT_CLIP, 2 * LOGIT_CLIP, 1001)
    start = np.interp(averages(q, share), expit(grid[:, None] + log_odds) @ usual, grid)
    in_the_large = logistic_fits(one, log_odds, q, share, start[:, None])[:, 0]
    if len(log_odds) == 1:
        undefined = np.full(len(q), np.nan)
        return {"slope": undefined, "intercept": undefined, "in_the_large": in_the_large}
    line = StandardisedLine.of(log_odds, usual)
    # least squares on the curve's log-odds: exact where the curve is a line in them
    start = logit(q) @ (line.design * usual[:, None])
    intercept, slope = line.coefficients(logistic_fits(line.design, np.zeros(len(log_odds)), q, share, start))
    return {"slope": slope, "intercept": intercept, "in_the_large": in_the_large}


def logistic_fits(
    design: np.ndarray, offset: np.ndarray, q: np.ndarray, share: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Coefficients ``(draws, k)`` of ``offset + design @ b`` that fit outcomes of probability q ``(draws, m)``.

    Newton's method on all draws at once, with steps halved until the likelihood does not fall. `design` is ``(m, k)``,
    `share` the share of the cases at each point, ``(m,)`` or each draw's own, `start` ``(draws, k)``. q lies strictly
    between 0 and 1.
    """
    return np.concatenate(
        [_logistic_block(design, offset, q[rows], _of(share, rows), start[rows]) for rows in _blocks(q)]
    )


def _logistic_block(
    design: np.ndarray, offset: np.ndarray, q: np.ndarray, share: np.ndarray, start: np.ndarray
) -> np.ndarray:
    k = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(-1, k * k)

    def likelihood(b: np.ndarray, rows: np.ndarray) -> np.ndarray:
        eta = offset + b @ design.T
        return averages(q[rows] * eta - np.logaddexp(0, eta), _of(share, rows))

    b = start.copy()
    active = np.arange(len(q))
    value = likelihood(b, active)
    for _ in range(NEWTON_STEPS):
        p = expit(offset + b[active] @ design.T)
        weight = _of(share, active)
        gradient = (weight * (q[active] - p)) @ design
        hessian = ((weight * p * (1 - p)) @ products).reshape(-1, k, k)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        todo = np.arange(len(active))
        while todo.size:
            rows = active[todo]
            reached = likelihood(b[rows] + step[todo], rows)
            fell = reached < value[rows] - 1e-12
            value[rows[~fell]] = reached[~fell]
            todo = todo[fell]
            step[todo] *= 0.5
        b[active] += step
        active = active[np.abs(step).max(axis=1) > 1e-9]
        if not active.size:
            return b
    b[active] = np.nan
    return b


def _of(share: np.ndarray, rows: Any) -> np.ndarray:
    """Shares of some draws, where each has its own."""
    return share if share.ndim == 1 else share[rows]


def _blocks(q: np.ndarray) -> list[slice]:
    """Blocks of draws of bounded memory."""
    size = max(1, BLOCK // q.shape[1])
    return [slice(start, start + size) for start in range(0, len(q), size)]
