"""Scores of probabilities: Brier, log loss, probability loss; the CORP decomposition; error of label-shift weights.

    Brier           mean over cases of sum over classes (1{y = k} - p_k)^2, halved for two classes
    log loss        mean of -ln p_y
    probability     mean of 1 - p_y
    CORP            score = miscalibration - discrimination + uncertainty

p_y is the probability that was stated of the class that came. The first two are proper: nobody gains by stating
another probability than his own. The third is not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayescal.pav import isotonic_fit, isotonic_predict
from bayescal.validation import (
    ParameterValueError,
    check_choice,
    check_class_forecast,
    check_class_weights,
    check_forecast,
    states_several_classes,
)


class Decomposition(NamedTuple):
    """Parts of a score: ``score = miscalibration - discrimination + uncertainty``."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_score(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    labels: Sequence[Any] | None = None,
    scale_by_half: bool | str = "auto",
) -> float:
    """Mean squared distance between stated probabilities and outcomes; lower is better.

    Two classes: ``mean (y - p)^2``, within [0, 1]. More: ``mean sum_k (1{y = k} - p_k)^2``, within [0, 2].

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n,), (n, 1) or (n, n_classes), in [0, 1]
        Probability of the positive class, or of every class; rows of classes sum to 1.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class of two; None takes the second of the labels in sorted order.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.
    scale_by_half : bool or "auto", default="auto"
        Whether to halve the sum over classes. ``"auto"`` halves it for two classes alone, as is the custom.

    Returns
    -------
    float
        The score.

    References
    ----------
    Brier, G. (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review 78.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.brier_score([0, 1, 1], [0.2, 0.7, 0.45])
    0.144166...
    >>> bc.metrics.brier_score(["a", "c"], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]], labels=["a", "b", "c"])
    0.15
    """
    if not isinstance(scale_by_half, bool | np.bool_) and scale_by_half != "auto":
        raise ParameterValueError(f"scale_by_half must be True, False or 'auto', got {scale_by_half!r}.")
    if states_several_classes(y_proba):
        _refuse_pos_label(pos_label)
        read = check_class_forecast(y_true, y_proba, sample_weight, labels=labels)
        error = read.proba.copy()
        error[np.arange(len(error)), read.codes] -= 1.0
        total = weighted_mean(np.einsum("ij,ij->i", error, error), read.weight)
        return 0.5 * total if scale_by_half is not False and scale_by_half != "auto" else total
    one = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label, labels=labels)
    half = _brier(one.outcome, one.proba, one.weight)
    return half if scale_by_half else 2.0 * half


def log_loss(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    labels: Sequence[Any] | None = None,
) -> float:
    """Mean negative log of the probability that was stated of what came; lower is better.

    ``mean -ln p_y``. Nothing is clipped: whoever gave a probability of 0 to what came has an infinite loss.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n,), (n, 1) or (n, n_classes), in [0, 1]
        Probability of the positive class, or of every class; rows of classes sum to 1 and are not made to.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class of two; None takes the second of the labels in sorted order.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.

    Returns
    -------
    float
        The loss in nats; infinity if a probability of 0 was given to an outcome.

    Notes
    -----
    scikit-learn clips probabilities at the resolution of their type (2.2e-16 for doubles), which makes a certain and
    wrong forecast cost 36 nats. Clip first, ``np.clip(p, 1e-6, 1 - 1e-6)``, where a finite loss is wanted, and say so.

    References
    ----------
    Good, I. J. (1952). Rational decisions. Journal of the Royal Statistical Society B 14.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.log_loss([1, 0, 1], [1.0, 0.0, 0.5])
    0.231049...
    >>> bc.metrics.log_loss([0], [1.0])
    inf
    """
    outcome = _of_outcome(y_true, y_proba, sample_weight, pos_label, labels)
    return _mean_log(*outcome)


def proba_loss(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    labels: Sequence[Any] | None = None,
) -> float:
    """Mean probability that was withheld from what came; lower is better.

    ``1 - mean p_y``, within [0, 1]. It is no proper score where outcomes are uncertain: stating 1 for the likelier
    class lowers it. Its source uses it where the true class is a function of the features.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any kind.
    y_proba : array-like of shape (n,), (n, 1) or (n, n_classes), in [0, 1]
        Probability of the positive class, or of every class; rows of classes sum to 1.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class of two; None takes the second of the labels in sorted order.
    labels : sequence of labels, default=None
        The classes in column order; None reads them from the outcomes, in sorted order.

    Returns
    -------
    float
        The loss.

    References
    ----------
    Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification. PLOS ONE 18,
    eq. 44.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.proba_loss(["a", "b", "c"], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
    0.4
    """
    proba, weight = _of_outcome(y_true, y_proba, sample_weight, pos_label, labels)
    return 1.0 - weighted_mean(proba, weight)


def corp_decomposition(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    score: str = "brier",
) -> Decomposition:
    """Split a score into miscalibration, discrimination and uncertainty by isotonic regression.

    With S the mean score, r the stated probabilities after isotonic regression on the outcomes, and c the share of
    positives::

        miscalibration = S(p) - S(r),    discrimination = S(c) - S(r),    uncertainty = S(c)

    so that ``score = miscalibration - discrimination + uncertainty``; no part is negative.

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
    score : {"brier", "log"}, default="brier"
        The score to split: the Brier score of two classes, or the log loss.

    Returns
    -------
    Decomposition
        Named tuple of ``score``, ``miscalibration``, ``discrimination`` and ``uncertainty``.

    References
    ----------
    Dimitriadis, T., Gneiting, T. and Jordan, A. (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> parts = bc.metrics.corp_decomposition(days["rain"], days["ens"])
    >>> [round(part, 3) for part in parts]
    [0.266, 0.066, 0.044, 0.244]
    """
    mean_score = {"brier": _brier, "log": _log}[check_choice(score, ("brier", "log"), "score")]
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    knots, values = isotonic_fit(read.proba, read.outcome, read.weight)
    recalibrated = mean_score(read.outcome, isotonic_predict(knots, values, read.proba), read.weight)
    stated = mean_score(read.outcome, read.proba, read.weight)
    share = np.full(len(read.outcome), np.clip(weighted_mean(read.outcome, read.weight), 0.0, 1.0))
    constant = mean_score(read.outcome, share, read.weight)
    # isotonic regression is the best of all increasing maps, these two among them; rounding may say otherwise
    return Decomposition(stated, max(stated - recalibrated, 0.0), max(constant - recalibrated, 0.0), constant)


def weight_mse(w_true: Any, w_estimated: Any) -> float:
    """Mean squared error of the class weights of a label shift.

    ``mean_k (w_estimated_k - w_true_k)^2`` over classes, where a class's weight is its proportion in the target over
    that in the source.

    Parameters
    ----------
    w_true : array-like of shape (n_classes,), >= 0
        True weights.
    w_estimated : array-like of shape (n_classes,), >= 0
        Estimated weights of the same classes in the same order.

    Returns
    -------
    float
        The error.

    References
    ----------
    Alexandari, A., Kundaje, A. and Shrikumar, A. (2020). Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation. ICML, section 3.5.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.weight_mse([0.5, 2.0], [0.6, 1.8])
    0.025
    """
    true = check_class_weights(w_true, "w_true")
    estimated = check_class_weights(w_estimated, "w_estimated")
    if true.shape != estimated.shape:
        raise ParameterValueError(
            f"w_true and w_estimated must hold the same classes, got {len(true)} and {len(estimated)}. "
            "Pass one weight for each class to both."
        )
    return float(np.mean((estimated - true) ** 2))


def weighted_mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Mean over cases."""
    return float(values.mean() if weight is None else weight @ values / weight.sum())


def _refuse_pos_label(pos_label: Any) -> None:
    if pos_label is not None:
        raise ParameterValueError(
            f"pos_label names the positive class of two, and y_proba states more, got {pos_label!r}. "
            "Pass labels=[...], the labels in column order."
        )


def _of_outcome(
    y_true: Any, y_proba: Any, sample_weight: Any, pos_label: Any, labels: Sequence[Any] | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Probability that was stated of the class that came, ``(n,)``, and weights."""
    if states_several_classes(y_proba):
        _refuse_pos_label(pos_label)
        read = check_class_forecast(y_true, y_proba, sample_weight, labels=labels)
        return np.take_along_axis(read.proba, read.codes[:, None], axis=1)[:, 0], read.weight
    one = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label, labels=labels)
    return _stated_of_outcome(one.outcome, one.proba), one.weight


def _stated_of_outcome(outcome: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """p where it came, 1 - p where it did not."""
    stated = 1.0 - outcome
    stated -= proba
    return np.abs(stated, out=stated)


def _mean_log(proba: np.ndarray, weight: np.ndarray | None) -> float:
    with np.errstate(divide="ignore"):
        return -weighted_mean(np.log(proba), weight) + 0.0  # no negative zero


def _brier(outcome: np.ndarray, proba: np.ndarray, weight: np.ndarray | None) -> float:
    return weighted_mean((outcome - proba) ** 2, weight)


def _log(outcome: np.ndarray, proba: np.ndarray, weight: np.ndarray | None) -> float:
    return _mean_log(_stated_of_outcome(outcome, proba), weight)
