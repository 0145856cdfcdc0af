"""Calibration errors of forecasts of several classes, in bins.

    top label       of the class given the highest probability, and whether it came
    class-wise      of each class against the rest

Neither sees all of a forecast: errors that cancel between classes hide from the first, and what depends on several
probabilities at once from the second.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayescal.evaluation.metrics.bins import Bins, check_settings, expected, in_bins, maximum
from bayescal.validation import check_choice, check_class_forecast


def top_label_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    labels: Sequence[Any] | None = None,
    n_bins: int = 10,
    strategy: str = "uniform",
) -> float:
    """Expected calibration error of the highest probability of each row, in bins.

    As `ece`, of the probability of the class that was given most (the first of several) and of whether that class came.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n, n_classes), (n,) or (n, 1), in [0, 1]
        Probability of every class, rows that sum to 1; or of the second of two classes in sorted order.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of [0, 1] of equal width, each with its left edge and the last with both; or of about equally many cases,
        equal probabilities kept in one.

    Returns
    -------
    float
        The error, within [0, 1].

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. (2017). On calibration of modern neural networks. ICML.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]]
    >>> bc.metrics.top_label_ece([1, 1, 2, 1], p, labels=[0, 1, 2])
    0.425
    """
    return expected(_top_bins(y_true, y_proba, sample_weight, labels, n_bins, strategy))


def top_label_mce(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    labels: Sequence[Any] | None = None,
    n_bins: int = 10,
    strategy: str = "uniform",
) -> float:
    """Maximum calibration error of the highest probability of each row, in bins.

    As `mce`, of the probability of the class that was given most (the first of several) and of whether that class came.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n, n_classes), (n,) or (n, 1), in [0, 1]
        Probability of every class, rows that sum to 1; or of the second of two classes in sorted order.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of [0, 1] of equal width, each with its left edge and the last with both; or of about equally many cases,
        equal probabilities kept in one.

    Returns
    -------
    float
        The error, within [0, 1].

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. (2017). On calibration of modern neural networks. ICML.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]]
    >>> bc.metrics.top_label_mce([1, 1, 2, 1], p, labels=[0, 1, 2])
    0.7
    """
    return maximum(_top_bins(y_true, y_proba, sample_weight, labels, n_bins, strategy))


def class_wise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    labels: Sequence[Any] | None = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    average: str | None = "macro",
) -> float | np.ndarray:
    """Expected calibration error of each class against the rest, in bins; their mean.

    As `ece`, of the probability p_k and of whether class k came, for every class in turn.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n, n_classes), (n,) or (n, 1), in [0, 1]
        Probability of every class, rows that sum to 1; or of the second of two classes in sorted order.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.
    average : {"macro", None}, default="macro"
        The plain mean over classes, or None: the error of each.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        The error, or that of each class in column order; within [0, 1].

    References
    ----------
    Kull, M., Perello-Nieto, M., Kängsepp, M., Silva Filho, T., Song, H. and Flach, P. (2019). Beyond temperature
    scaling: obtaining well-calibrated multi-class probabilities with Dirichlet calibration. NeurIPS.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]]
    >>> bc.metrics.class_wise_ece([1, 1, 2, 1], p, average=None)
    array([0.275, 0.3  , 0.225])
    """
    return _class_wise(expected, y_true, y_proba, sample_weight, labels, n_bins, strategy, average)


def class_wise_mce(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    labels: Sequence[Any] | None = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    average: str | None = "macro",
) -> float | np.ndarray:
    """Maximum calibration error of each class against the rest, in bins; their mean.

    As `mce`, of the probability p_k and of whether class k came, for every class in turn.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n, n_classes), (n,) or (n, 1), in [0, 1]
        Probability of every class, rows that sum to 1; or of the second of two classes in sorted order.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, each with its left edge and the last with both; or of about equally many cases, equal
        probabilities kept in one.
    average : {"macro", None}, default="macro"
        The plain mean over classes, or None: the error of each.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        The error, or that of each class in column order; within [0, 1].

    References
    ----------
    Kull, M., Perello-Nieto, M., Kängsepp, M., Silva Filho, T., Song, H. and Flach, P. (2019). Beyond temperature
    scaling: obtaining well-calibrated multi-class probabilities with Dirichlet calibration. NeurIPS.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]]
    >>> bc.metrics.class_wise_mce([1, 1, 2, 1], p, average=None)
    array([0.7, 0.4, 0.4])
    """
    return _class_wise(maximum, y_true, y_proba, sample_weight, labels, n_bins, strategy, average)


def _top_bins(
    y_true: Any, y_proba: Any, sample_weight: Any, labels: Sequence[Any] | None, n_bins: int, strategy: str
) -> Bins:
    """Bins of the highest probability."""
    check_settings(n_bins, strategy)
    read = check_class_forecast(y_true, y_proba, sample_weight, labels=labels)
    top = read.proba.argmax(axis=1)
    highest = np.take_along_axis(read.proba, top[:, None], axis=1)[:, 0]
    return in_bins(highest, (top == read.codes).astype(np.float64), read.weight, n_bins, strategy)


def _class_wise(
    measure: Callable[[Bins], float],
    y_true: Any,
    y_proba: Any,
    sample_weight: Any,
    labels: Sequence[Any] | None,
    n_bins: int,
    strategy: str,
    average: str | None,
) -> float | np.ndarray:
    """A measure of each class against the rest."""
    check_settings(n_bins, strategy)
    if average is not None:
        check_choice(average, ("macro",), "average")
    read = check_class_forecast(y_true, y_proba, sample_weight, labels=labels)
    each = np.array(
        [
            measure(in_bins(stated, (read.codes == k).astype(np.float64), read.weight, n_bins, strategy))
            for k, stated in enumerate(read.proba.T)
        ]
    )
    return each if average is None else float(each.mean())
