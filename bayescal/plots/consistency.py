"""CORP curve, and where it would lie if the forecast were calibrated.

    CORP curve         f = argmin sum_i (y_i - f_i)^2 over f that rise with the forecast p (pooled adjacent violators)
    consistency band   quantiles, at each p, of the same curve of outcomes drawn as y_i ~ Bernoulli(p_i)

Dimitriadis, Gneiting & Jordan (2021). They, and Bröcker & Smith (2007) for bins, draw the forecasts with replacement
too; here the forecasts are those at hand, at each of which the curve that was observed is compared with the band.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from bayescal.evaluation.miscalibration import distinct_points

RESAMPLES = 1000
SEED = 0  # always the same, so that a picture is a function of what it shows


@dataclass(frozen=True)
class Consistency:
    """CORP curve and consistency band at the distinct forecasts, all ``(m,)``."""

    x: np.ndarray
    curve: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def consistency_band(stated: np.ndarray, positive: np.ndarray, weight: np.ndarray, ci_prob: float) -> Consistency:
    """CORP curve of the rows ``(n,)`` and, pointwise, the band that holds a share `ci_prob` of calibrated ones.

    Weights are positive numbers of cases. More than 2000 distinct forecasts are grouped with their neighbours.
    """
    x, group = distinct_points(stated, weight, "proba")
    cases = np.bincount(group, weights=weight)
    events = np.bincount(group, weights=weight * positive)
    rng = np.random.default_rng(SEED)
    whole = np.floor(cases + 1e-9)
    part = np.maximum(cases - whole, 0.0)  # of a case
    shape = (RESAMPLES, len(x))
    drawn = rng.binomial(whole.astype(np.int64), x, shape) + part * (rng.random(shape) < x)
    curves = np.stack([_rising(row, cases) for row in drawn])
    tail = 0.5 * (1 - ci_prob)
    lower, upper = np.quantile(curves, [tail, 1 - tail], axis=0, method="inverted_cdf")  # values that a curve takes
    return Consistency(x, _rising(events, cases), lower, upper)


def _rising(events: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Isotonic regression of the shares of events, within rounding of [0, 1]."""
    return np.clip(isotonic_regression(events / cases, weights=cases).x, 0.0, 1.0)
