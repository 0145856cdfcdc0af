"""Net benefit of acting on a forecast at a threshold.

    NB(t) = TP / n - FP / n * t / (1 - t)

Who treats from a probability of t on says by it that a treatment without need weighs t / (1 - t) times as much as one
that was needed. Vickers & Elkin (2006).
"""

from typing import Any

import numpy as np

from bayescal.evaluation.metrics.scores import weighted_mean
from bayescal.validation import ParameterValueError, check_forecast, check_threshold


def net_benefit(
    y_true: Any, y_proba: Any, threshold: float, *, sample_weight: Any = None, pos_label: Any = None
) -> float:
    """Net benefit of treating the cases whose stated probability is the threshold or more; higher is better.

    ``TP / n - FP / n * t / (1 - t)``, in events treated for each case: treating nobody has 0, and no rule has more than
    the share of events.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability of the positive class, or of both classes in the order of their labels.
    threshold : float in [0, 1)
        The probability t from which on a case is treated.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.

    Returns
    -------
    float
        The net benefit, at most the share of the positive class.

    Notes
    -----
    Treating everybody is a forecast of 1 for every case. `bayescal.decision_curve` has the net benefit at many
    thresholds, with intervals.

    References
    ----------
    Vickers, A. and Elkin, E. (2006). Decision curve analysis: a novel method for evaluating prediction models. Medical
    Decision Making 26, 565-574.

    Examples
    --------
    >>> import bayescal as bc
    >>> bc.metrics.net_benefit([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.9], 0.2)  # 2/4 - 1/4 * 0.2/0.8
    0.4375
    """
    t = check_odds_threshold(threshold)
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label)
    gain = np.where(read.outcome > 0, 1.0, -t / (1.0 - t))
    return weighted_mean(np.where(read.proba >= t, gain, 0.0), read.weight)


def check_odds_threshold(value: Any, name: str = "threshold") -> float:
    """A probability below 1: the odds of 1 have no value."""
    t = check_threshold(value, name)
    if t == 1:
        raise ParameterValueError(
            f"{name} must be below 1, got {value!r}: at 1 a treatment that was not needed weighs infinitely much."
        )
    return t
