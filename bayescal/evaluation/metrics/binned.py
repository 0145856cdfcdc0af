"""Calibration errors of the positive class in bins, and the area between a binned reliability curve and the diagonal.

With bins b of n_b cases, p_b the mean of the stated probabilities in a bin and y_b the share of the outcomes:

    ECE     sum_b (n_b / n) |y_b - p_b|             expected calibration error
    MCE     max_b |y_b - p_b|                       maximum calibration error

These depend on the bins, and with few cases they are far from 0 for a calibrated forecast too.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr

from bayescal.evaluation.metrics.bins import Bins, bin_errors, check_settings, expected, in_bins, maximum
from bayescal.validation import check_choice, check_forecast


def ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
) -> float:
    """Expected calibration error of the probability of the positive class, in bins.

    ``sum_b (n_b / n) |y_b - p_b|``: the mean over bins, weighted by their cases, of the distance between the share of
    positives and the mean of the stated probabilities. Bins without a case count for nothing.

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
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.

    Returns
    -------
    float
        The error, within [0, 1].

    See Also
    --------
    top_label_ece : Of the class given the highest probability, which is what papers on networks call ECE.
    ici : Without bins.

    References
    ----------
    Naeini, M. P., Cooper, G. and Hauskrecht, M. (2015). Obtaining well calibrated probabilities using Bayesian binning.
    AAAI.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.ece([1, 1, 0, 0], [0.95, 0.97, 0.03, 0.04])
    0.0375
    """
    return expected(_positive_bins(y_true, y_proba, sample_weight, pos_label, n_bins, strategy))


def mce(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
) -> float:
    """Maximum calibration error of the probability of the positive class, in bins.

    ``max_b |y_b - p_b|`` over bins that hold a case, however few.

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
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.

    Returns
    -------
    float
        The error, within [0, 1].

    References
    ----------
    Naeini, M. P., Cooper, G. and Hauskrecht, M. (2015). Obtaining well calibrated probabilities using Bayesian binning.
    AAAI.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.mce([1, 1, 0, 0], [0.95, 0.97, 0.03, 0.04])
    0.04
    """
    return maximum(_positive_bins(y_true, y_proba, sample_weight, pos_label, n_bins, strategy))


def debiased_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    norm: str = "l1",
) -> float:
    """Calibration error in bins, less what chance adds to it.

    The share y_b of the n_b outcomes in a bin varies by ``v_b = y_b (1 - y_b) / n_b``, which makes errors too large on
    average::

        "l1"    2 ECE - sum_b (n_b / n) E|N_b|,                          N_b normal of mean y_b - p_b and variance v_b
        "l2"    sqrt max(0, sum_b (n_b / n) ((y_b - p_b)^2 - u_b)),      u_b = y_b (1 - y_b) / (n_b - 1)

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
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.
    norm : {"l1", "l2"}, default="l1"
        Of absolute errors, comparable with `ece`, or the root of the mean of squared ones.

    Returns
    -------
    float
        The error. ``"l1"`` may be negative; 0 is calibrated.

    Notes
    -----
    ``"l1"`` takes away some of the bias: of what chance adds to the ECE of a calibrated forecast, ``2 - sqrt(2)``, or
    59 %, remains. The squared error before the maximum with 0 is unbiased. With ``"l2"``, a bin of one case or less
    cannot tell how its share varies and counts as 0.

    References
    ----------
    Kumar, A., Liang, P. and Ma, T. (2019). Verified uncertainty calibration. NeurIPS.
    The expectation that they simulate has a closed form, used here: Leone, F., Nelson, L. and Nottingham, R. (1961),
    The folded normal distribution. Technometrics 3.

    Examples
    --------
    >>> import bayescal as bc
    >>> y, p = [0, 0, 0, 1, 0, 1, 1, 1], [0.2, 0.2, 0.2, 0.2, 0.8, 0.8, 0.8, 0.8]
    >>> bc.metrics.ece(y, p)
    0.05
    >>> bc.metrics.debiased_ece(y, p)
    -0.077...
    >>> bc.metrics.debiased_ece(y, p, norm="l2")
    0.0
    """
    check_choice(norm, ("l1", "l2"), "norm")
    bins = _positive_bins(y_true, y_proba, sample_weight, pos_label, n_bins, strategy)
    share, error, spread = bins.cases / bins.cases.sum(), bin_errors(bins), bins.observed * (1.0 - bins.observed)
    if norm == "l1":
        deviation = np.sqrt(np.maximum(spread, 0.0) / bins.cases)
        return float(share @ (2.0 * error - _folded_normal_mean(error, deviation)))
    known = bins.cases > 1.0
    square = error[known] ** 2 - spread[known] / (bins.cases[known] - 1.0)
    return float(np.sqrt(max(share[known] @ square, 0.0)))


def area_deviation(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
) -> float:
    """Area between a binned reliability curve and the diagonal.

    The points (p_b, y_b) of the bins that hold a case are joined by straight lines, and the area between these and the
    diagonal is taken from the first point to the last. Crossings are accounted for: areas on both sides add up.

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
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.

    Returns
    -------
    float
        The area, within [0, 1]; 0 where one bin holds all cases.

    References
    ----------
    Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification. PLOS ONE 18,
    section 3.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.area_deviation([0, 0, 1, 1], [0.1, 0.1, 0.7, 0.7])  # from (0.1, 0) to (0.7, 1)
    0.075
    """
    bins = _positive_bins(y_true, y_proba, sample_weight, pos_label, n_bins, strategy)
    gap, width = bins.observed - bins.stated, np.diff(bins.stated)
    left, right = np.abs(gap[:-1]), np.abs(gap[1:])
    mean = 0.5 * (left + right)
    crosses = gap[:-1] * gap[1:] < 0  # two triangles
    mean[crosses] = 0.5 * (left[crosses] ** 2 + right[crosses] ** 2) / (left[crosses] + right[crosses])
    return float(mean @ width)


def _positive_bins(y_true: Any, y_proba: Any, sample_weight: Any, pos_label: Any, n_bins: int, strategy: str) -> Bins:
    """Bins of the probability of the positive class."""
    check_settings(n_bins, strategy)
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    return in_bins(read.proba, read.outcome, read.weight, n_bins, strategy)


def _folded_normal_mean(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """E|N| of N normal, for means that are not negative; the mean itself where nothing varies."""
    varies = deviation > 0
    ratio = np.divide(mean, deviation, out=np.zeros_like(mean), where=varies)
    folded = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(varies, folded, mean)
