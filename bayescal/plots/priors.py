"""Proportions of the classes in source and target, side by side, with credible intervals where there are some."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator
from sklearn.utils.validation import check_is_fitted

from bayescal.label_shift.adapted import share_interval
from bayescal.label_shift.adapter import LabelShiftAdapter
from bayescal.plots import BLUE, VERMILLION, axes_or_new, class_name, percent
from bayescal.validation import check_fraction

APART = 0.12  # of the two markers of a class, whose lines are 1 apart
NAMED = 40  # lines up to which each has its name
LONG = 60  # characters of names that stand side by side; more are turned


def plot_priors(adapter: LabelShiftAdapter, *, ci_prob: float = 0.9, ax: Any = None) -> Axes:
    """Draw the proportions of the classes in the source beside those found for the target.

    Parameters
    ----------
    adapter : LabelShiftAdapter
        Fitted and adapted. A point method is drawn without intervals, and so are known proportions.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals, which are those of ``prior_interval``.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes drawn on.

    Raises
    ------
    ParameterValueError
        If `ci_prob` is outside its domain.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    >>> ad = bc.LabelShiftAdapter(method="em").fit(proba, [0, 0, 1, 1]).adapt(proba[:3])
    >>> bc.plot_priors(ad).get_ylabel()
    'proportion of cases'
    """
    check_is_fitted(adapter, "weights_")
    ci_prob = check_fraction(ci_prob, "ci_prob")
    classes = adapter.classes_
    ax = axes_or_new(ax, (max(4.0, min(12.0, 1.5 + 0.8 * len(classes))), 3.8))
    bayesian = adapter.method.startswith("bayes")
    for side, name, color, marker, means in (
        (-1, "source", BLUE, "o", adapter.source_prior_),
        (1, "target", VERMILLION, "s", adapter.target_prior_),
    ):
        at = np.arange(len(classes)) + side * APART
        label = f"{name}, posterior mean" if bayesian else f"{name}, point estimate"
        reach = None
        if bayesian:
            draws = adapter.idata_.posterior[f"{name}_prior"].values.reshape(-1, len(classes))
            lower, upper = share_interval(draws, ci_prob)
            if (upper > lower).any():
                label += f", {percent(ci_prob)} interval"
            reach = np.maximum([means.values - lower, upper - means.values], 0.0)
        ax.errorbar(at, means.values, yerr=reach, fmt=marker, color=color, markersize=5, capsize=3, label=label)
    ax.set(xlabel="class", ylabel="proportion of cases", xlim=(-0.6, len(classes) - 0.4))
    ax.set_ylim(bottom=0.0)
    if len(classes) <= NAMED:
        names = [class_name(label).removeprefix("class ") for label in classes]
        ax.xaxis.set_major_locator(FixedLocator(list(range(len(classes)))))
        ax.xaxis.set_major_formatter(FixedFormatter(names))
        ax.tick_params(axis="x", rotation=90 if sum(map(len, names)) > LONG else 0)
    else:
        ax.set_xlabel("number of the class, from 0")
    ax.legend(fontsize="small")
    return ax
