"""Widths of simulated intervals against the number of labelled cases."""

import numpy as np
from matplotlib.axes import Axes

from bayescal.evaluation.planning import SPREAD, Plan
from bayescal.plots import BLACK, BLUE, VERMILLION, axes_or_new, draw_band, percent
from bayescal.validation import ParameterValueError

APART = 0.09  # of two labels below the axis, as a share of it
LEGEND = 1.6  # top of the y axis over the wanted width, so that the legend does not cover its line


def plot_plan(result: Plan, *, ax: Axes | None = None) -> Axes:
    """Draw how narrow intervals become with more labelled cases, and where they are narrow enough.

    Parameters
    ----------
    result : Plan
        What `bayescal.plan` returns.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes drawn on. Below each size stands the share of its simulations that reached the wanted width.

    Raises
    ------
    ParameterValueError
        If `result` is not of `bayescal.plan`.

    Examples
    --------
    >>> import bayescal as bc
    >>> found = bc.plan([0.1, 0.3, 0.6, 0.9], sizes=[50, 500], width=0.2, repeats=3, random_state=0)
    >>> bc.plot_plan(found).get_ylabel()
    'mean width of 90 % intervals'
    """
    if not isinstance(result, Plan):
        raise ParameterValueError(
            f"result must be what bayescal.plan returns, got {type(result).__name__}. Call it first."
        )
    ax = axes_or_new(ax, (6.4, 4.4))
    table = result.table
    n = table.index.to_numpy(dtype=float)
    lower, upper = table["width_lower"].to_numpy(), table["width_upper"].to_numpy()
    low, high = (f"{100 * end:g}" for end in SPREAD)
    band = draw_band(ax, n, lower, upper, BLUE, "-")
    band.set_label(f"{low} to {high} % of the simulations")
    ax.plot(n, table["width_mean"], color=BLUE, marker="o", markersize=5, linewidth=1.8, label="mean")
    ax.axhline(result.width, color=VERMILLION, linestyle="--", linewidth=1.4, label=f"wanted: {result.width:g}")
    if result.needed is not None and len(n) > 1:
        label = f"{result.needed} cases: reached with probability {result.assurance:g}"
        if result.needed == n[0]:
            label = f"{result.needed} cases or fewer: reached with probability {result.assurance:g}"
        ax.axvline(result.needed, color=BLACK, linestyle=":", linewidth=1.4, label=label)
    ax.set_xscale("log")
    ax.minorticks_off()
    shown = _apart(np.log(n))
    reached = table["probability"].to_numpy()
    ax.set_xticks(n[shown], [f"{n[k]:.7g}\n{percent(round(reached[k], 2))}" for k in shown])
    ax.set_xlabel("labelled cases, and below: share of simulations that reached the wanted width")
    ax.set_ylabel(f"mean width of {percent(result.ci_prob)} intervals")
    ax.set_ylim(0.0, max(1.1 * float(upper.max()), LEGEND * result.width))
    margin = np.exp(0.04 * np.log(n[-1] / n[0])) if len(n) > 1 else 1.5
    ax.set_xlim(n[0] / margin, n[-1] * margin)
    ax.legend(fontsize="small", loc="upper right")
    return ax


def _apart(x: np.ndarray) -> list[int]:
    """Which of rising values to label, so that no two labels touch; the last is among them."""
    shown = [len(x) - 1]
    for k in range(len(x) - 2, -1, -1):
        if x[shown[-1]] - x[k] >= APART * (x[-1] - x[0]):
            shown.append(k)
    return shown[::-1]
