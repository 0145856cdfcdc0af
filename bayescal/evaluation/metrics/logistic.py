"""Calibration slope and intercepts from logistic regression on the stated log-odds, and Spiegelhalter's test.

slope, intercept        logit P = intercept + slope * logit p,      maximum likelihood        ("weak" calibration)
in the large            logit P = in_the_large + logit p,           maximum likelihood
Spiegelhalter           z = sum (y - p)(1 - 2 p) / sqrt(sum (1 - 2 p)^2 p (1 - p))
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr

from bayescal.calibrators.scale import PROBA_CLIP
from bayescal.evaluation.measures import StandardisedLine, logistic_fits
from bayescal.validation import check_forecast

MANY = 2**16  # rows, beyond which the slope is fitted to groups of them first
GROUPS = 2**12


class SpiegelhalterTest(NamedTuple):
    """Statistic of Spiegelhalter's test, and its two-sided p-value."""

    statistic: float
    pvalue: float


def calibration_slope(y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None) -> float:
    """Calibration slope: how much the log-odds of the outcome grow with those that were stated.

    The slope of ``logit P(y = 1) = intercept + slope * logit p`` by maximum likelihood. 1 is calibrated; below 1 the
    probabilities are too extreme, above 1 too timid.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels; taken within 1e-6 of 0
        and 1.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    float
        The slope. Infinite where a threshold separates the classes; NaN where all probabilities or all outcomes are
        equal, or only rows of less than about 1e-6 of the others' weight keep a threshold from separating the classes.

    See Also
    --------
    calibration_intercept : The intercept beside it.
    calibration_in_the_large : The intercept with the slope held at 1.

    References
    ----------
    Cox, D. (1958). Two further applications of a model for binary regression. Biometrika 45.

    Van Calster, B., McLernon, D., van Smeden, M., Wynants, L. and Steyerberg, E. (2019). Calibration: the Achilles heel
    of predictive analytics. BMC Medicine 17.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.calibration_slope([0, 1] + [0, 0, 1] + [1, 1, 0], [0.5] * 2 + [0.2] * 3 + [0.8] * 3)
    0.5
    """
    return _weak(y_true, y_proba, sample_weight, pos_label)[1]


def calibration_intercept(y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None) -> float:
    """Calibration intercept beside the calibration slope ("weak" calibration).

    The intercept of ``logit P(y = 1) = intercept + slope * logit p`` by maximum likelihood: the log-odds of the outcome
    where 1/2 was stated. 0 is calibrated, together with a slope of 1.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels; taken within 1e-6 of 0
        and 1.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    float
        The intercept, in log-odds. NaN where the slope is NaN or infinite.

    See Also
    --------
    calibration_in_the_large : What is usually reported as the calibration intercept.

    References
    ----------
    Cox, D. (1958). Two further applications of a model for binary regression. Biometrika 45.

    Van Calster, B., Nieboer, D., Vergouwe, Y., De Cock, B., Pencina, M. and Steyerberg, E. (2016). A calibration
    hierarchy for risk models was defined: from utopia to empirical data. Journal of Clinical Epidemiology 74.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.calibration_intercept([0, 1, 1, 0, 0, 1], [0.5, 0.5, 0.5, 0.2, 0.2, 0.2])
    0.693147...
    """
    return _weak(y_true, y_proba, sample_weight, pos_label)[0]


def calibration_in_the_large(y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None) -> float:
    """Calibration in the large: the calibration intercept with the slope held at 1.

    The constant of ``logit P(y = 1) = in_the_large + logit p`` by maximum likelihood, which makes the mean of the
    shifted probabilities the share of positives. 0 is calibrated; positive: the probabilities are too low.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels; taken within 1e-6 of 0
        and 1.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    float
        The intercept, in log-odds. Infinite where all outcomes are equal.

    References
    ----------
    Cox, D. (1958). Two further applications of a model for binary regression. Biometrika 45.

    Van Calster, B., McLernon, D., van Smeden, M., Wynants, L. and Steyerberg, E. (2019). Calibration: the Achilles heel
    of predictive analytics. BMC Medicine 17.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.calibration_in_the_large([0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5])  # ln(1/3)
    -1.098612...
    """
    log_odds, outcome, share = _read(y_true, y_proba, sample_weight, pos_label)
    if outcome.min() == outcome.max():
        return float("inf" if outcome[0] else "-inf")
    mean = float(share @ outcome)
    # between the answers to all cases stated as the lowest, and as the highest
    low, high = (float(logit(mean) - end) for end in (log_odds.max(), log_odds.min()))
    return float(brentq(lambda shift: share @ expit(log_odds + shift) - mean, low - 1e-6, high + 1e-6, xtol=1e-12))


def spiegelhalter_z(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, pos_label: Any = None
) -> SpiegelhalterTest:
    """Spiegelhalter's test of calibration.

    ``z = sum (y - p)(1 - 2 p) / sqrt(sum (1 - 2 p)^2 p (1 - p))`` is the Brier score less its expectation for a
    calibrated forecast, in standard deviations. It is about standard normal if the forecast is calibrated and cases are
    independent.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one. Here their size matters, not their ratios alone.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    SpiegelhalterTest
        Named tuple of ``statistic``, positive where the Brier score is worse than its expectation, and the two-sided
        ``pvalue``. NaN where every probability is 0, 1/2 or 1, unless one that was certain is wrong: then infinite.

    Notes
    -----
    A large p-value is no evidence of calibration: with few cases little is rejected, and errors of opposite effect on
    the Brier score cancel.

    References
    ----------
    Spiegelhalter, D. (1986). Probabilistic prediction in patient management and clinical trials. Statistics in
    Medicine 5.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> test = bc.metrics.spiegelhalter_z(days["rain"], days["ens"])
    >>> test.pvalue < 0.001
    True
    """
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    lean = 1.0 - 2.0 * read.proba
    weighted = lean if read.weight is None else read.weight * lean
    total = float(weighted @ (read.outcome - read.proba))
    spread = float((weighted * lean) @ (read.proba * (1.0 - read.proba)))
    certain = np.inf if total > 0 else np.nan
    statistic = certain if spread == 0 else total / np.sqrt(spread)
    return SpiegelhalterTest(float(statistic), float(2.0 * ndtr(-abs(statistic))))


def _read(y_true: Any, y_proba: Any, sample_weight: Any, pos_label: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stated log-odds, outcomes and shares of the cases."""
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    weight = np.ones(len(read.proba)) if read.weight is None else read.weight
    return logit(np.clip(read.proba, PROBA_CLIP, 1.0 - PROBA_CLIP)), read.outcome, weight / weight.sum()


def _weak(y_true: Any, y_proba: Any, sample_weight: Any, pos_label: Any) -> tuple[float, float]:
    """Intercept and slope."""
    log_odds, outcome, share = _read(y_true, y_proba, sample_weight, pos_label)
    if outcome.min() == outcome.max() or log_odds.min() == log_odds.max():
        return np.nan, np.nan
    came = outcome > 0
    positive, negative = log_odds[came], log_odds[~came]
    if positive.min() >= negative.max():
        return np.nan, np.inf
    if negative.min() >= positive.max():
        return np.nan, -np.inf
    line = StandardisedLine.of(log_odds, share)
    # from here Newton's steps do not overshoot to where every case is certain
    start = np.array([[logit(share @ outcome), 0.0]])
    try:
        if len(log_odds) > MANY:
            start = _grouped_fit(line.design[:, 1], outcome, share, start)
        fitted = logistic_fits(line.design, np.zeros(len(log_odds)), outcome[None], share, start)
    except np.linalg.LinAlgError:  # all but rows of next to no weight are separated
        return np.nan, np.nan
    intercept, slope = line.coefficients(fitted)
    return float(intercept[0]), float(slope[0])


def _grouped_fit(z: np.ndarray, outcome: np.ndarray, share: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The fit to neighbours as one, from which the fit to all is two steps away."""
    low, high = z.min(), z.max()
    group = ((z - low) * (GROUPS / (high - low))).astype(np.intp)
    mass, total, ones = (np.bincount(group, values) for values in (share, share * z, share * outcome))
    held = mass > 0
    mass, total, ones = mass[held], total[held], ones[held]
    design = np.column_stack([np.ones(len(mass)), total / mass])
    fitted = logistic_fits(design, np.zeros(len(mass)), np.clip(ones / mass, 0.0, 1.0)[None], mass, start)
    return fitted if np.isfinite(fitted).all() else start
