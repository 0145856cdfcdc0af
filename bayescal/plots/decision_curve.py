"""Decision curve: net benefit of using a forecast, of treating all and of treating none, against the threshold."""

import numpy as np
from matplotlib.axes import Axes

from bayescal.evaluation.decisions import DecisionCurve
from bayescal.plots import BLACK, BLUE, GREY, VERMILLION, axes_or_new, draw_band, percent
from bayescal.validation import ParameterValueError

BELOW = 0.3  # how far the y axis goes below 0, as a share of its way above: treating all falls without end
LEGEND = 1.5  # top of the y axis over the highest curve below the legend
STRIP = 0.03  # height of the strip of thresholds at which the forecast is better, in units of the y axis


def plot_decision_curve(result: DecisionCurve, *, ax: Axes | None = None) -> Axes:
    """Draw net benefit against the threshold, with credible bands.

    Parameters
    ----------
    result : DecisionCurve
        What `bayescal.decision_curve` returns; its ``ci_prob`` is that of the bands (pointwise).
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes drawn on. The black strip at the bottom marks the thresholds at which using the forecast is better than
        treating all and treating none with a posterior probability of at least ``ci_prob``.

    Raises
    ------
    ParameterValueError
        If `result` is not of `bayescal.decision_curve`.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(random_state=0, progressbar=False).fit(days["ens"], days["rain"])
    >>> bc.plot_decision_curve(bc.decision_curve(cal)).get_ylabel()
    'net benefit (events treated for each case)'
    """
    if not isinstance(result, DecisionCurve):
        raise ParameterValueError(
            f"result must be what bayescal.decision_curve returns, got {type(result).__name__}. Call it first."
        )
    ax = axes_or_new(ax, (6.4, 4.6))
    table = result.table
    t = table.index.to_numpy()
    marker = "o" if len(t) == 1 else "None"
    level = percent(result.ci_prob)
    for name, label, color, style, order in (
        ("use", "use the forecast", BLUE, "-", 2.0),
        ("all", "treat all", VERMILLION, "--", 2.5),  # its dashes show where the lines are one
    ):
        lower, upper = table[f"{name}_lower"].to_numpy(), table[f"{name}_upper"].to_numpy()
        draw_band(ax, t, lower, upper, color, style)
        (line,) = ax.plot(t, table[f"{name}_mean"], color=color, linestyle=style, linewidth=1.8, marker=marker)
        line.set(label=f"{label}, {level} credible band", zorder=order)
    ax.axhline(0.0, color=GREY, linestyle=":", linewidth=1.2, label="treat none")
    end = max(0.05, min(1.0, 1.02 * t.max()))
    highest = table[["use_upper", "all_upper"]].max(axis=1)
    # the legend stands at the upper right, above whatever is there
    top = max(1.08 * highest.max(), LEGEND * highest[t > 0.4 * end].max(), 1e-3)
    floor = -BELOW * top
    useful = table["p_useful"].to_numpy() >= result.ci_prob
    if useful.any():
        # a bar for each threshold, half way to its neighbours
        edges = np.concatenate([t[:1], 0.5 * (t[1:] + t[:-1]), t[-1:]])
        if len(t) == 1:
            edges += np.array([-0.01, 0.01])
        bars = np.stack([edges[:-1], np.diff(edges)], axis=1)[useful]
        label = f"the forecast is better than both,\nwith probability {level} or more"
        ax.broken_barh(bars.tolist(), (floor, STRIP * (top - floor)), color=BLACK, linewidth=0, label=label)
    ax.set(xlim=(0.0, end), ylim=(floor, top))
    ax.set(xlabel="threshold, the probability from which on a case is treated")
    ax.set(ylabel="net benefit (events treated for each case)")
    ax.legend(fontsize="small", loc="upper right")
    return ax
