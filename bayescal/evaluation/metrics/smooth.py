"""Calibration errors without bins, from a smooth reliability curve.

    smooth ECE      fixed point of  sigma -> integral over t in [0, 1] of |mean K_sigma(t, p) (y - p)|
    ICI             mean |q(p) - p|,  with E50, E90 and Emax its median, its 90 % quantile and maximum

K_sigma is a normal density of standard deviation sigma that is reflected at 0 and 1, and q a local quadratic regression
of the outcomes on the probabilities.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dct
from scipy.optimize import brentq

from bayescal.evaluation.measures import MAX_POINTS, distances, point_groups
from bayescal.validation import check_forecast, check_fraction

CELLS = 2**13  # of the grid on [0, 1] that smooths; the narrowest kernel is 8 of them wide
NARROWEST = 1e-3  # kernel
MANY = 2**16  # rows, beyond which probabilities within 2^-14 of each other are one point of the curve
FINE = 2**14
SINGULAR = 1e-10  # of the largest eigenvalue: a local fit through fewer points than it has coefficients


class CalibrationDistances(NamedTuple):
    """Distances between stated and actual probability over the cases."""

    ici: float
    e50: float
    e90: float
    emax: float


def smooth_ece(y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None) -> float:
    """Smooth expected calibration error: no bins, and no width to choose.

    The differences y - p are smoothed over [0, 1] by a reflected normal kernel of standard deviation sigma, and
    ``smECE_sigma`` is the integral of the smoothed function's absolute value, which falls as sigma grows. The measure
    is its value where it equals sigma.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    float
        The error, within [0, 1]; 0 is calibrated.

    Notes
    -----
    The kernel is never narrower than 0.001: where the fixed point lies below, the value at 0.001 is returned, which is
    smaller still. Smoothing is a cosine transform of a grid of 2^13 cells, so ten million rows cost one pass.

    References
    ----------
    Błasiok, J. and Nakkiran, P. (2024). Smooth ECE: principled reliability diagrams via kernel smoothing. ICLR.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.smooth_ece([1] * 4 + [0] * 6, [0.7] * 10)
    0.300...
    """
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    difference = (read.outcome - read.proba) / len(read.outcome)
    if read.weight is not None:
        difference = (read.outcome - read.proba) * (read.weight / read.weight.sum())
    place = read.proba * CELLS
    left = np.minimum(place.astype(np.intp), CELLS - 1)
    place -= left  # share of the difference that goes to the right
    mass = np.bincount(left, weights=difference, minlength=CELLS + 1)
    right = np.bincount(left, weights=difference * place, minlength=CELLS + 1)
    mass -= right
    mass[1:] += right[:-1]
    mass[[0, -1]] *= 2.0
    waves = dct(mass, type=1) / 2.0  # sum over rows of (y - p) cos(pi k p)
    frequency = np.pi * np.arange(CELLS + 1)

    def error(sigma: float) -> float:
        smoothed = np.abs(dct(waves * np.exp(-0.5 * (sigma * frequency) ** 2), type=1))
        return float((smoothed.sum() - 0.5 * (smoothed[0] + smoothed[-1])) / CELLS)

    if error(NARROWEST) <= NARROWEST or error(1.0) >= 1.0:
        return error(NARROWEST)
    return error(brentq(lambda sigma: error(sigma) - sigma, NARROWEST, 1.0, xtol=1e-9))


def ici(y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None, span: float = 0.75) -> float:
    """Integrated calibration index: mean distance between stated and actual probability.

    ``mean |q(p) - p|`` over cases, where q is a smooth curve through the outcomes; see `calibration_distances`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.
    span : float in (0, 1), default=0.75
        Share of the cases that each point of the curve is fitted to.

    Returns
    -------
    float
        The index, within [0, 1]; 0 is calibrated.

    See Also
    --------
    calibration_distances : With E50, E90 and Emax.

    References
    ----------
    Austin, P. and Steyerberg, E. (2019). The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models. Statistics in Medicine 38, section 2.1.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> bc.metrics.ici(days["rain"], days["ens"])
    0.2169...
    """
    return calibration_distances(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, span=span).ici


def calibration_distances(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None, span: float = 0.75
) -> CalibrationDistances:
    """ICI, E50, E90 and Emax: mean, median, 90 % quantile and maximum of the distance between stated and actual.

    The distance of a case is ``|q(p) - p|``. The calibration curve q is local regression (loess): at each p a parabola
    is fitted by least squares to the nearest cases, a share `span` of all, with weights ``(1 - (d / h)^3)^3`` at
    distance d when the farthest is at h. Values outside [0, 1] are moved to its ends.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.
    span : float in (0, 1), default=0.75
        Share of the cases that each point of the curve is fitted to.

    Returns
    -------
    CalibrationDistances
        Named tuple of ``ici``, ``e50``, ``e90`` and ``emax``, each within [0, 1].

    Notes
    -----
    The curve follows chance too: with few cases these distances are far from 0 for a calibrated forecast.
    `bayescal.miscalibration` has their posterior.

    More than 2000 distinct probabilities are grouped as in `bayescal.miscalibration`, and beyond 65,536 rows those
    within 2^-14 of each other before.

    References
    ----------
    Austin, P. and Steyerberg, E. (2019). The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models. Statistics in Medicine 38, section 2.1.

    Cleveland, W. (1979). Robust locally weighted regression and smoothing scatterplots. JASA 74.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> found = bc.metrics.calibration_distances(days["rain"], days["ens"])
    >>> found.ici < found.e90 < found.emax
    True
    """
    span = check_fraction(span, "span")
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    weight = np.ones(len(read.proba)) if read.weight is None else read.weight
    points, cases, share = _curve_points(read.proba, read.outcome, weight)
    curve = np.clip(_local_quadratic(points, share, cases, span), 0.0, 1.0)
    found = distances(points, curve[None], cases / cases.sum())
    return CalibrationDistances(*(float(found[name][0]) for name in CalibrationDistances._fields))


def _curve_points(
    proba: np.ndarray, outcome: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rising probabilities, the cases at each and their share of outcomes, `MAX_POINTS` at most."""
    if len(proba) > MANY:
        cell = (proba * FINE).astype(np.intp)
        cases, ones, stated = (np.bincount(cell, w) for w in (weight, weight * outcome, weight * proba))
        held = cases > 0
        cases, ones = cases[held], ones[held]
        points = stated[held] / cases
    else:
        points, row = np.unique(proba, return_inverse=True)
        cases, ones = np.bincount(row, weight), np.bincount(row, weight * outcome)
    if len(points) > MAX_POINTS:
        group = point_groups(points, cases, "proba", MAX_POINTS)
        stated, ones, cases = (np.bincount(group, w) for w in (cases * points, ones, cases))
        points = stated / cases
    return points, cases, ones / cases


def _local_quadratic(x: np.ndarray, y: np.ndarray, weight: np.ndarray, span: float) -> np.ndarray:
    """Local quadratic regression of y on strictly rising x, at x."""
    farthest = _neighbourhoods(x, weight, span)
    fitted = np.empty(len(x))
    size = max(1, 2**18 // len(x))
    for rows in (slice(start, start + size) for start in range(0, len(x), size)):
        u = x - x[rows, None]
        alone = farthest[rows] == 0  # a neighbourhood of one point
        u = np.where(alone[:, None], np.where(u == 0, 0.0, 2.0), u / np.where(alone, 1.0, farthest[rows])[:, None])
        weighted = weight * np.clip(1.0 - np.abs(u) ** 3, 0.0, None) ** 3
        moments, products = np.empty((len(u), 5)), np.empty((len(u), 3))
        for k in range(5):
            moments[:, k] = weighted.sum(axis=1)
            if k < 3:
                products[:, k] = weighted @ y
            weighted *= u
        normal = moments[:, np.add.outer(np.arange(3), np.arange(3))]
        fitted[rows] = (np.linalg.pinv(normal, SINGULAR, hermitian=True)[:, 0] * products).sum(axis=1)
    return fitted


def _neighbourhoods(x: np.ndarray, weight: np.ndarray, span: float) -> np.ndarray:
    """Distance from each of rising x within which a share `span` of the weight lies, by bisection."""
    reached = np.concatenate([[0.0], np.cumsum(weight)])
    target = span * reached[-1] * (1.0 - 1e-12)

    def holds(distance: np.ndarray) -> np.ndarray:
        first, last = np.searchsorted(x, x - distance, "left"), np.searchsorted(x, x + distance, "right")
        return reached[last] - reached[first] >= target

    low, high = np.zeros(len(x)), np.where(holds(np.zeros(len(x))), 0.0, x[-1] - x[0])
    for _ in range(55):  # to the last bit of 1; a case on the rim has no weight
        middle = 0.5 * (low + high)
        enough = holds(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
