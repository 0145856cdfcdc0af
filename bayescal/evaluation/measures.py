"""Measures of calibration in NumPy, for one curve or for the draws of a posterior at once.

Distances between stated and actual probability, logistic fits to the outcomes, and the grouping of many scores.
"""

from dataclasses import dataclass

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


def point_groups(distinct: np.ndarray, totals: np.ndarray, score_kind: str) -> np.ndarray:
    """Number of the group, `MAX_POINTS` at most, of each of many rising scores with `totals` cases; both ends alone.

    Groups are cut at equal steps of the mean of two shares, that of the cases and that of the range of log-odds: none
    holds more than 2 / `MAX_POINTS` of either.
    """
    log_odds = log_odds_of(distinct, score_kind)
    cases = (np.cumsum(totals) - 0.5 * totals) / totals.sum()
    width = (log_odds - log_odds[0]) / max(log_odds[-1] - log_odds[0], np.finfo(float).tiny)
    group = 1 + (0.5 * (cases + width) * (MAX_POINTS - 2)).astype(int)
    group[0], group[-1] = 0, MAX_POINTS - 1
    return np.unique(group, return_inverse=True)[1]


def distances(stated: np.ndarray, q: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
    """The measures of q - s, ``(draws,)`` each, of curves q ``(draws, m)`` at m stated probabilities."""
    share = weight / weight.sum()
    found: dict[str, np.ndarray] = {name: np.empty(len(q)) for name in ("ici", "e50", "e90", "emax")}
    for rows in _blocks(q):
        distance = np.abs(q[rows] - stated)
        found["ici"][rows] = distance @ share
        found["emax"][rows] = distance.max(axis=1)
        order = np.argsort(distance, axis=1)
        reached = np.cumsum(share[order], axis=1)
        for name, level in (("e50", 0.5), ("e90", 0.9)):
            # the smallest distance that at least this share of the cases does not exceed; the margin is for rounding
            position = np.argmax(reached >= level - 1e-12, axis=1)
            column = np.take_along_axis(order, position[:, None], axis=1)
            found[name][rows] = np.take_along_axis(distance, column, axis=1)[:, 0]
    return {**found, "bias": (q - stated) @ share}


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


def logistic_fits(
    design: np.ndarray, offset: np.ndarray, q: np.ndarray, share: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Coefficients ``(draws, k)`` of ``offset + design @ b`` that fit outcomes of probability q ``(draws, m)``.

    Newton's method on all draws at once, with steps halved until the likelihood does not fall. `design` is ``(m, k)``,
    `share` the share of the cases at each point, `start` ``(draws, k)``. q lies strictly between 0 and 1.
    """
    return np.concatenate([_logistic_block(design, offset, q[rows], share, start[rows]) for rows in _blocks(q)])


def _logistic_block(
    design: np.ndarray, offset: np.ndarray, q: np.ndarray, share: np.ndarray, start: np.ndarray
) -> np.ndarray:
    k = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(-1, k * k)

    def likelihood(b: np.ndarray, q: np.ndarray) -> np.ndarray:
        eta = offset + b @ design.T
        return (q * eta - np.logaddexp(0, eta)) @ share

    b = start.copy()
    value = likelihood(b, q)
    active = np.arange(len(q))
    for _ in range(NEWTON_STEPS):
        p = expit(offset + b[active] @ design.T)
        gradient = (share * (q[active] - p)) @ design
        hessian = ((share * p * (1 - p)) @ products).reshape(-1, k, k)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        todo = np.arange(len(active))
        while todo.size:
            rows = active[todo]
            reached = likelihood(b[rows] + step[todo], q[rows])
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


def _blocks(q: np.ndarray) -> list[slice]:
    """Blocks of draws of bounded memory."""
    size = max(1, BLOCK // q.shape[1])
    return [slice(start, start + size) for start in range(0, len(q), size)]
