"""Prior and posterior of each parameter of a calibrator: what the data have said."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.generative import GenerativeCalibrator
from bayescal.calibrators.summaries import interval
from bayescal.plots import BLUE, GREY, percent
from bayescal.validation import ParameterValueError, check_fraction

COLUMNS = 3
SHOWN = 0.99  # share of the posterior that the axis shows, and of the prior
WIDEST = 4  # times the posterior's width to either side, where the prior is that wide


def plot_prior_posterior(
    calibrator: Calibrator,
    *,
    parameters: str | Sequence[str] | None = None,
    ci_prob: float = 0.9,
    axes: Any = None,
) -> np.ndarray:
    """Draw prior and posterior of each parameter.

    Parameters
    ----------
    calibrator : calibrator
        Fitted with ``inference="nuts"``; a single model, not an average.
    parameters : str or sequence of str, default=None
        Names of variables of ``idata_.posterior``; None takes all but the sampler's auxiliary ones, such as ``gamma``
        and ``boost``.
    ci_prob : float in (0, 1), default=0.9
        Probability of the intervals that are drawn for each element of a vector. Scalars are drawn as densities.
    axes : array-like of matplotlib.axes.Axes, default=None
        Where to draw, one for each parameter; None makes a new figure.

    Returns
    -------
    ndarray of matplotlib.axes.Axes of shape (parameters,)
        The Axes drawn on, in the order of the parameters.

    Raises
    ------
    NoPosteriorError
        If the calibrator was fitted with ``inference="point"``.
    ParameterValueError
        If the calibrator is an average, a name is unknown, the number of axes is not that of the parameters, or
        `ci_prob` is outside its domain.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores = [0.02, 0.05, 0.1, 0.3, 0.4, 0.6, 0.7, 0.9, 0.95, 0.98] * 2
    >>> y = [0, 0, 1, 0, 0, 1, 0, 1, 1, 1] + [0, 1, 0, 0, 1, 0, 1, 1, 0, 1]
    >>> cal = bc.PlattCalibrator(random_state=1, progressbar=False).fit(scores, y)
    >>> [ax.get_xlabel() for ax in bc.plot_prior_posterior(cal)]
    ['intercept', 'slope']
    """
    ci_prob = check_fraction(ci_prob, "ci_prob")
    calibrator._require_posterior("plot_prior_posterior")
    if not isinstance(calibrator, GenerativeCalibrator):
        raise ParameterValueError(
            "plot_prior_posterior needs a single model, and an average has no parameters of its own. Pass a member, "
            f"such as calibrator.members_[{next(iter(calibrator.members_))!r}]."
        )
    prior, posterior = calibrator.idata_["prior"], calibrator.idata_["posterior"]
    known = [str(name) for name in posterior.data_vars]
    if parameters is None:
        names = [name for name in known if name not in calibrator._auxiliary]
    else:
        names = [parameters] if isinstance(parameters, str) else list(parameters)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ParameterValueError(
            f"parameters must name variables out of {', '.join(known)}, got {unknown[0] if unknown else parameters!r}."
        )
    drawn_on = _axes(axes, len(names))
    for ax, name in zip(drawn_on, names, strict=True):
        draws = [group[name].to_numpy() for group in (prior, posterior)]
        draws = [value.reshape(-1, *value.shape[2:]) for value in draws]
        if draws[0].ndim == 1:
            _draw_densities(ax, draws[0], draws[1])
            ax.set(xlabel=name, ylabel="density", yticks=[])
        else:
            _draw_elements(ax, draws[0], draws[1], ci_prob)
            ax.set(xlabel=f"element of {name}", ylabel=f"mean, {percent(ci_prob)} interval")
    drawn_on[0].legend(fontsize="small")
    return drawn_on


def _axes(axes: Any, count: int) -> np.ndarray:
    if axes is not None:
        given = np.asarray(axes, dtype=object).reshape(-1)
        if len(given) != count:
            raise ParameterValueError(f"axes must be one for each of the {count} parameters, got {len(given)}.")
        return given
    from matplotlib import pyplot as plt

    columns = min(count, COLUMNS)
    lines = -(-count // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 2.8 * lines), layout="constrained", squeeze=False
    )
    for unused in grid.reshape(-1)[count:]:
        figure.delaxes(unused)
    return grid.reshape(-1)[:count]


def _draw_densities(ax: Axes, prior: np.ndarray, posterior: np.ndarray) -> None:
    tails = [0.5 * (1 - SHOWN), 0.5 * (1 + SHOWN)]
    (prior_low, prior_high), (low, high) = np.quantile(prior, tails), np.quantile(posterior, tails)
    reach = WIDEST * (high - low)
    low, high = min(low, max(prior_low, low - reach)), max(high, min(prior_high, high + reach))
    at, density = _density(prior, low, high)
    ax.plot(at, density, color=GREY, linestyle="--", linewidth=1.4, label="prior")
    at, density = _density(posterior, low, high)
    ax.fill_between(at, density, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(at, density, color=BLUE, linewidth=1.8, label="posterior")
    ax.set_xlim(low, high)
    ax.set_ylim(bottom=0)


def _density(draws: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Kernel density between `low` and `high`; draws far outside, which would coarsen it, only count in its scale."""
    from arviz_stats.base import array_stats

    near = draws[(draws >= 2 * low - high) & (draws <= 2 * high - low)]
    at, density, _ = array_stats.kde(near, grid_len=1024)
    shown = (at >= low) & (at <= high)
    return at[shown], density[shown] * (len(near) / len(draws))


def _draw_elements(ax: Axes, prior: np.ndarray, posterior: np.ndarray, ci_prob: float) -> None:
    element = np.arange(prior.shape[1])
    for draws, shift, color, marker, label in (
        (prior, -0.15, GREY, "o", "prior"),
        (posterior, 0.15, BLUE, "s", "posterior"),
    ):
        mean = draws.mean(axis=0)
        lower, upper = interval(draws, ci_prob, "eti")
        ax.errorbar(
            element + shift,
            mean,
            # the mean of a skewed parameter may lie outside its central interval
            yerr=np.maximum(0, np.stack([mean - lower, upper - mean])),
            fmt=marker,
            markersize=4,
            markerfacecolor="white" if marker == "o" else color,
            color=color,
            elinewidth=1,
            label=label,
        )
    ax.locator_params(axis="x", integer=True)
