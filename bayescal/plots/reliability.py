"""Reliability diagram: the probability that was stated against the frequency that is observed.

    raw score           x = s,              y = q(s),  with its credible band
    calibrated          x = mean of q(s),   y = q(s),  with its credible band

Both rest on the same posterior of the calibration curve q. The calibrated curve's mean is the diagonal by construction:
what it shows is its band, how well the probabilities are known, and how far they reach. The points are the data alone:
observed shares in bins with intervals of Jeffreys' prior, Beta(1/2, 1/2), whose end is 0 or 1 where the share is.
Brown, Cai & DasGupta (2001), section 4.1.2. The consistency band is the data's answer to another question: what would
be seen if the forecast were calibrated (`bayescal.plots.consistency`).
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.container import ErrorbarContainer
from matplotlib.legend_handler import HandlerTuple
from scipy.special import betaincinv

from bayescal.calibrators.base import Calibrator
from bayescal.evaluation.assessment import Assessment
from bayescal.plots import BLACK, GREY, axes_or_new, draw_band, legend_place, percent
from bayescal.plots.consistency import Consistency, consistency_band
from bayescal.plots.diagram import FORECASTS, Diagram, Series, diagram_of
from bayescal.validation import ParameterValueError, check_choice, check_count, check_flag, check_fraction

Bins = int | Sequence[float] | np.ndarray | None
Forecast = Calibrator | Assessment

MOST_BINS = 10
ROWS_PER_BIN = 10
PANEL = 4.2  # inches, of each of several panels
STRIP = 0.11  # height of each class's histogram, in units of the y axis
BASE = -0.04 - STRIP  # where the histograms of both classes meet
HISTOGRAM_BINS = 40


@dataclass(frozen=True)
class ObservedShares:
    """Share of positives in each bin that holds a case, all ``(bins,)``."""

    x: np.ndarray  # mean of the probabilities stated
    share: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    cases: np.ndarray  # sum of the weights


@dataclass(frozen=True)
class _Panel:
    """What is drawn on one Axes."""

    diagram: Diagram
    shares: list[ObservedShares]  # of each series; empty where they are not drawn
    corp: Consistency | None


@overload
def plot_reliability(
    calibrator: Forecast,
    *,
    which: str = "both",
    ci_prob: float = 0.9,
    bins: Bins = None,
    shares: bool = True,
    consistency: bool = False,
    histogram: bool = True,
    ax: Axes | None = None,
) -> Axes: ...
@overload
def plot_reliability(
    calibrator: Mapping[Any, Forecast],
    *,
    which: str = "both",
    ci_prob: float = 0.9,
    bins: Bins = None,
    shares: bool = True,
    consistency: bool = False,
    histogram: bool = True,
    ax: Sequence[Axes] | np.ndarray | None = None,
) -> np.ndarray: ...
def plot_reliability(
    calibrator: Forecast | Mapping[Any, Forecast],
    *,
    which: str = "both",
    ci_prob: float = 0.9,
    bins: Bins = None,
    shares: bool = True,
    consistency: bool = False,
    histogram: bool = True,
    ax: Axes | Sequence[Axes] | np.ndarray | None = None,
) -> Axes | np.ndarray:
    """Draw the reliability of the raw score and of the calibrated probability, with credible bands.

    Parameters
    ----------
    calibrator : calibrator, Assessment, or dict of them by name
        Fitted, with its calibration rows; a point estimate is drawn without bands. Or what `bayescal.assess` found: the
        forecast is drawn as it came. Several are drawn side by side, one panel each under its name, with the same
        axes: their bands would hide each other in one.
    which : {"both", "raw", "calibrated"}, default="both"
        The score as it came, the calibrated probability, or both. Raw scores (``score_kind="raw"``) state no
        probability: ``"both"`` then draws the calibrated one alone. An assessed forecast is the raw score, and has no
        calibrated one.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the bands (pointwise) and of the intervals of the observed shares; share of calibrated
        forecasts in the consistency band (pointwise).
    bins : int or sequence of float, default=None
        Number of bins of about equal numbers of cases, equal probabilities kept together, or edges that rise from 0 to
        1, the left one belonging to its bin and 1 to the last; None takes up to 10 bins of 10 cases or more. Bins
        without a case are left out.
    shares : bool, default=True
        Whether to draw the shares observed in bins, with their Jeffreys intervals.
    consistency : bool, default=False
        Whether to draw the CORP curve of the score as it came (isotonic regression of the outcomes) and its consistency
        band: where that curve would lie if the score were calibrated.
    histogram : bool, default=True
        Whether to draw the distribution of the score by class below the diagram: of the raw score if it is drawn, of
        the calibrated probability otherwise.
    ax : matplotlib.axes.Axes, or as many of them as forecasts, default=None
        Where to draw; None makes a new figure. With several, the legend is in the first Axes, or below all panels of a
        new figure.

    Returns
    -------
    matplotlib.axes.Axes, or ndarray of them
        The Axes drawn on; of a dict, an array with one for each forecast.

    Raises
    ------
    ScoreValueError
        If ``which="raw"`` is asked of raw scores, or the calibrator was fitted to several scores.
    ParameterValueError
        If a setting is outside its domain, the calibrated probability is asked of an assessment, the consistency band
        of raw scores or of the calibrated probability alone, or there are not as many Axes as forecasts.
    NoPosteriorError
        If the calibrator was saved without its calibration rows.

    Notes
    -----
    The credible band says where the calibration curve is, given these outcomes; the consistency band where the CORP
    curve of a calibrated forecast would be, before any outcome was seen. A CORP curve that leaves the band speaks
    against calibration; one that stays inside, with few cases, for little.

    The consistency band is made of 1000 sets of outcomes drawn with the stated probabilities at the forecasts at hand,
    with the same random numbers in every call. The calibrated probability has none: it was fitted to these outcomes,
    and would lie too near to them.

    References
    ----------
    Brown, L., Cai, T. and DasGupta, A. (2001). Interval estimation for a binomial proportion. Statistical Science 16.

    Bröcker, J. and Smith, L. (2007). Increasing the reliability of reliability diagrams. Weather and Forecasting 22,
    651-661.

    Dimitriadis, T., Gneiting, T. and Jordan, A. (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118(8), e2016191118.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores, y = [0.1, 0.2, 0.3, 0.4, 0.4, 0.6, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 1, 0, 1, 0, 1, 1, 1]
    >>> cal = bc.PlattCalibrator(inference="point").fit(scores, y)
    >>> bc.plot_reliability(cal, which="raw", consistency=True).get_ylabel()
    'observed frequency of class 1'
    >>> other = bc.BetaCalibrator(inference="point").fit(scores, y)
    >>> [ax.get_title() for ax in bc.plot_reliability({"Platt": cal, "beta": other})]
    ['Platt', 'beta']
    """
    check_choice(which, ("both", "raw", "calibrated"), "which")
    ci_prob = check_fraction(ci_prob, "ci_prob")
    for name, flag in (("shares", shares), ("consistency", consistency), ("histogram", histogram)):
        check_flag(flag, name)
    forecasts = calibrator if isinstance(calibrator, Mapping) else {"": calibrator}
    panels = [_panel(diagram_of(one, which, ci_prob), bins, shares, consistency, ci_prob) for one in forecasts.values()]
    if isinstance(calibrator, Mapping):
        return _side_by_side(list(calibrator), panels, histogram, ci_prob, ax)
    if not (ax is None or isinstance(ax, Axes)):
        raise ParameterValueError(f"ax must be a matplotlib Axes where one forecast is drawn, got {type(ax).__name__}.")
    ax = axes_or_new(ax, (6, 6))
    entries = _draw(ax, panels[0], histogram, ci_prob, _cases(panels[0].shares))
    _set_limits_and_legend(ax, entries, panels[0], histogram)
    return ax


def _panel(diagram: Diagram, bins: Bins, shares: bool, consistency: bool, ci_prob: float) -> _Panel:
    """Compute what one Axes shows beside the curves."""
    cut = _check_bins(bins, diagram.weight)
    drawn = diagram.series if shares else []
    found = [observed_shares(one.stated, diagram.positive, diagram.weight, cut, ci_prob) for one in drawn]
    if not consistency:
        return _Panel(diagram, found, None)
    if diagram.raw is None:
        raise ParameterValueError(
            "consistency=True compares outcomes with the probabilities stated by the score as it came: use which='raw' "
            "or 'both', with scores of score_kind 'proba' or 'logit'."
        )
    return _Panel(diagram, found, consistency_band(diagram.raw.stated, diagram.positive, diagram.weight, ci_prob))


def _side_by_side(
    names: list[Any],
    panels: list[_Panel],
    histogram: bool,
    ci_prob: float,
    ax: Axes | Sequence[Axes] | np.ndarray | None,
) -> np.ndarray:
    """Draw a panel for each forecast, all with the same limits and with one legend."""
    if not panels:
        raise ParameterValueError(f"plot_reliability draws {FORECASTS}, got a dict without any.")
    axes = _new_axes(len(panels)) if ax is None else np.array(ax, dtype=object).reshape(-1)
    if len(axes) != len(panels):
        raise ParameterValueError(f"ax must hold an Axes for each of the {len(panels)} forecasts, got {len(axes)}.")
    cases = _cases([found for panel in panels for found in panel.shares])
    entries: dict[str, Any] = {}
    for name, one, panel in zip(names, axes, panels, strict=True):
        entries |= _draw(one, panel, histogram, ci_prob, cases)
        one.set_title(_title(name), fontsize="medium")
    if ax is None:
        for one in axes:
            one.set(xlim=(-0.02, 1.02), ylim=(_floor(histogram), 1.02))
        _legend(axes[0].figure, entries, loc="outside lower center", ncols=min(len(axes), 3))
        _label_once(axes)
    else:
        _set_limits_and_legend(axes[0], entries, panels[0], histogram)
        for one in axes[1:]:
            one.set(xlim=axes[0].get_xlim(), ylim=axes[0].get_ylim())
    return axes


def _title(name: Any) -> str:
    """A name in one or two lines; of a longer one the beginning and the end. Dollars are not mathematics."""
    text = " ".join(str(name).split())
    short = text if len(text) <= 60 else f"{text[:28]} ... {text[-26:]}"
    return textwrap.fill(short, 30).replace("$", r"\$")


def _new_axes(count: int) -> np.ndarray:
    """Axes of a new pyplot figure: up to three in a row, more in a square."""
    from matplotlib import pyplot as plt

    columns = count if count <= 3 else math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    size = (PANEL * columns, PANEL * rows + 0.8)
    axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1].reshape(-1)
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def _label_once(axes: np.ndarray) -> None:
    """Keep the labels of the first column and of the last panel of each column, where all panels have the same."""
    columns = axes[0].get_gridspec().ncols

    def labels(ax: Axes) -> tuple[str, ...]:
        return ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.get_yticklabels())

    if len({labels(ax) for ax in axes}) > 1:
        return
    for k, ax in enumerate(axes):
        if k % columns:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
        if k + columns < len(axes):
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)


def _draw(ax: Axes, panel: _Panel, histogram: bool, ci_prob: float, cases: str) -> dict[str, Any]:
    """Draw all but limits and legend; returns the legend's entries."""
    diagram = panel.diagram
    entries: dict[str, Any] = {
        "perfect calibration": ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)[0]
    }
    if panel.corp is not None:
        entries |= _draw_corp(ax, panel.corp, ci_prob)
    for one in diagram.series:
        entries |= _draw_curve(ax, one, diagram.mean, diagram.band, ci_prob)
    if panel.shares:
        points = tuple(_draw_shares(ax, one, found) for one, found in zip(diagram.series, panel.shares, strict=True))
        entries[f"observed, {cases} each,\n{percent(ci_prob)} Jeffreys interval"] = points
    ticks = {0.2 * k: f"{0.2 * k:.1f}" for k in range(6)}
    if histogram:
        stated = diagram.series[0].stated
        ticks |= _draw_histogram(ax, stated, diagram.positive, diagram.weight, diagram.of_class)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.set_ylabel(f"observed frequency of {diagram.positive_name}")
    ax.set_xlabel(diagram.x_label)
    return entries


def observed_shares(
    stated: np.ndarray, positive: np.ndarray, weight: np.ndarray, bins: int | np.ndarray, ci_prob: float
) -> ObservedShares:
    """Share of positives, with Jeffreys' interval, in bins of probabilities ``(n,)``; every case is in one bin.

    `bins` is a number of bins of about equal numbers of cases, or edges. Equal probabilities share a bin.
    """
    distinct, inverse = np.unique(stated, return_inverse=True)
    totals = np.bincount(inverse, weights=weight)
    if isinstance(bins, np.ndarray):
        # rounded, for the edges 0.1 k of linspace are not the decimal numbers
        group = np.searchsorted(bins.round(12), distinct.round(12), side="right") - 1
        group = np.minimum(group, len(bins) - 2)
    else:
        group = ((np.cumsum(totals) - 0.5 * totals) * (bins / totals.sum())).astype(int)
    group = np.unique(group, return_inverse=True)[1][inverse]
    cases = np.bincount(group, weights=weight)
    ones = np.bincount(group, weights=weight * positive)
    tail = 0.5 * (1 - ci_prob)
    lower = np.where(ones > 0, betaincinv(ones + 0.5, cases - ones + 0.5, tail), 0.0)
    upper = np.where(ones < cases, betaincinv(ones + 0.5, cases - ones + 0.5, 1 - tail), 1.0)
    share = ones / cases
    # with weights far below 1 the prior pulls an interval away from a share near an end
    return ObservedShares(
        np.bincount(group, weights=weight * stated) / cases,
        share,
        np.minimum(lower, share),
        np.maximum(upper, share),
        cases,
    )


def _check_bins(bins: Any, weight: np.ndarray) -> int | np.ndarray:
    """A number of bins, or their edges."""
    if bins is None:
        return int(np.clip(weight.sum() // ROWS_PER_BIN, 1, MOST_BINS))
    if isinstance(bins, int | np.integer):
        return check_count(bins, "bins")
    try:
        edges = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ParameterValueError(f"bins must be a whole number or edges that rise from 0 to 1, got {bins!r}.")
    return edges


def _draw_curve(ax: Axes, one: Series, mean: np.ndarray, band: np.ndarray | None, ci_prob: float) -> dict[str, Any]:
    """Draw a curve and its band; returns the legend's entry."""
    order = np.argsort(one.x, kind="stable")
    x = one.x[order]
    if x[0] == x[-1] and band is not None:  # all forecasts are equal: the curve is a point
        ends = np.abs(band[:, :1] - mean[0])
        bar = ax.errorbar(x[:1], mean[:1], yerr=ends, color=one.color, fmt="_", markersize=12, linewidth=3, alpha=0.6)
        return {f"{one.name}, {percent(ci_prob)} credible interval": bar}
    (line,) = ax.plot(x, mean[order], color=one.color, linestyle=one.linestyle, linewidth=1.8, label=one.name)
    if band is None:
        return {f"{one.name}, point estimate": line}
    patch = draw_band(ax, x, band[0][order], band[1][order], one.color, one.linestyle)
    return {f"{one.name}, {percent(ci_prob)} credible band": (patch, line)}


def _draw_corp(ax: Axes, corp: Consistency, ci_prob: float) -> dict[str, Any]:
    """Draw the CORP curve and its band, hatched; returns the legend's entry."""
    if len(corp.x) == 1:
        ends = np.abs(np.stack([corp.lower, corp.upper]) - corp.x)
        bar = ax.errorbar(corp.x, corp.x, yerr=ends, color=GREY, fmt="none", capsize=8)
        ax.plot(corp.x, corp.curve, color=BLACK, marker="x", linestyle="none", label="CORP curve")
        return {f"CORP curve (x), {percent(ci_prob)} consistency interval": bar}
    band = ax.fill_between(
        corp.x, corp.lower, corp.upper, facecolor="none", edgecolor=to_rgba(GREY, 0.5), hatch="////", linewidth=0.0
    )
    (line,) = ax.plot(corp.x, corp.curve, color=BLACK, linewidth=1.0, label="CORP curve")
    return {f"CORP curve, {percent(ci_prob)} consistency band": (band, line)}


def _draw_shares(ax: Axes, one: Series, shares: ObservedShares) -> ErrorbarContainer:
    return ax.errorbar(
        shares.x,
        shares.share,
        yerr=np.stack([shares.share - shares.lower, shares.upper - shares.share]),
        fmt=one.marker,
        color=one.color,
        markersize=5.5,
        markerfacecolor="white" if one.marker == "o" else one.color,
        markeredgecolor=one.color,
        elinewidth=0.9,
        zorder=3,
    )


def _draw_histogram(
    ax: Axes, stated: np.ndarray, positive: np.ndarray, weight: np.ndarray, of_class: tuple[str, ...]
) -> dict[float, str]:
    """Bars of the positive class upwards and of the negative downwards, below 0; returns ticks and their labels."""
    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    counts = [np.histogram(stated, edges, weights=weight * (positive == k))[0] for k in (1, 0)]
    largest = max(count.max() for count in counts)
    for count, sign, color in zip(counts, (1, -1), (BLACK, GREY), strict=True):
        shown = count > 0
        ax.bar(
            edges[:-1][shown],
            sign * STRIP * count[shown] / largest,
            width=1 / HISTOGRAM_BINS,
            bottom=BASE,
            align="edge",
            color=color,
            alpha=0.8,
        )
    ax.axhline(BASE, color=BLACK, linewidth=0.6)
    return {BASE + (k - 0.5) * STRIP: f"{weight[positive == k].sum():g} {name}" for k, name in enumerate(of_class)}


def _floor(histogram: bool) -> float:
    """Lower end of the y axis."""
    return BASE - STRIP - 0.02 if histogram else -0.02


def _set_limits_and_legend(ax: Axes, entries: dict[str, Any], panel: _Panel, histogram: bool) -> None:
    """Limits that leave room for a legend that covers nothing of the panel, nor the diagonal."""
    diagonal = np.linspace(0, 1, 101)
    points = [(diagonal, diagonal)]
    ends = [panel.diagram.mean] if panel.diagram.band is None else panel.diagram.band
    points += [(one.x, end) for one in panel.diagram.series for end in ends]
    points += [(found.x, end) for found in panel.shares for end in (found.lower, found.upper)]
    if panel.corp is not None:
        points += [(panel.corp.x, y) for y in (panel.corp.curve, panel.corp.lower, panel.corp.upper)]
    x, y = (np.concatenate(parts) for parts in zip(*points, strict=True))
    floor = _floor(histogram)
    lines = sum(1 + label.count("\n") for label in entries)
    corner, more = legend_place(ax, x, y, lines, span=1.02 - floor)
    top = 1.02 + more
    ax.set(xlim=(-0.02, 1.02), ylim=(floor, top))
    place = (0.01, 0.99) if corner == "upper left" else (0.99, (0.01 - floor) / (top - floor))
    _legend(ax, entries, loc=corner, bbox_to_anchor=place, borderaxespad=0.0)


def _legend(owner: Any, entries: dict[str, Any], **place: Any) -> None:
    """Legend of an Axes or a figure."""
    handlers = {tuple: _Overlay()}
    owner.legend(entries.values(), entries.keys(), fontsize="small", handler_map=handlers, **place)


class _Overlay(HandlerTuple):
    """A band below its line in one legend entry; markers side by side."""

    def create_artists(self, legend: Any, orig_handle: Any, *args: Any) -> Any:
        beside = all(isinstance(handle, ErrorbarContainer) for handle in orig_handle)
        self._ndivide = len(orig_handle) if beside else 1
        return super().create_artists(legend, orig_handle, *args)


def _cases(drawn: list[ObservedShares]) -> str:
    counts = np.concatenate([shares.cases for shares in drawn] or [np.zeros(1)])
    low, high = counts.min(), counts.max()
    return f"{low:g} cases" if low == high else f"{low:g}–{high:g} cases"
