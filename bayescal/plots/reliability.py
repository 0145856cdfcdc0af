"""Reliability diagram: the probability that was stated against the frequency that is observed.

    raw score           x = s,              y = q(s),  with its credible band
    calibrated          x = mean of q(s),   y = q(s),  with its credible band

Both rest on the same posterior of the calibration curve q. The calibrated curve's mean is the diagonal by construction:
what it shows is its band, how well the probabilities are known, and how far they reach. The points are the data alone:
observed shares in bins with intervals of Jeffreys' prior, Beta(1/2, 1/2), whose end is 0 or 1 where the share is.
Brown, Cai & DasGupta (2001), section 4.1.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.legend_handler import HandlerTuple
from scipy.special import betaincinv, expit, logit

from bayescal.calibrators.base import Calibrator
from bayescal.evaluation.assessment import Assessment
from bayescal.plots import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    axes_or_new,
    class_name,
    draw_band,
    legend_place,
    percent,
    score_grid,
    score_name,
)
from bayescal.validation import ParameterValueError, ScoreValueError, check_choice, check_count, check_fraction

MOST_BINS = 10
ROWS_PER_BIN = 10
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
class _Series:
    """One curve of the diagram."""

    name: str
    color: str
    linestyle: str
    marker: str
    x: np.ndarray  # of the curve
    stated: np.ndarray  # of the calibration rows


@dataclass(frozen=True)
class _Diagram:
    """What is drawn: a calibration curve, what it was learnt from, and names."""

    series: list[_Series]
    mean: np.ndarray  # of the curve
    band: np.ndarray | None  # its lower and upper end
    positive: np.ndarray  # of the calibration rows
    weight: np.ndarray
    of_class: tuple[str, ...]  # words for the cases of the negative and of the positive class
    positive_name: str
    x_label: str


def plot_reliability(
    calibrator: Calibrator | Assessment,
    *,
    which: str = "both",
    ci_prob: float = 0.9,
    bins: int | Sequence[float] | None = None,
    histogram: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the reliability of the raw score and of the calibrated probability, with credible bands.

    Parameters
    ----------
    calibrator : calibrator or Assessment
        Fitted, with its calibration rows; a point estimate is drawn without bands. Or what `bayescal.assess` found: the
        forecast is drawn as it came.
    which : {"both", "raw", "calibrated"}, default="both"
        The score as it came, the calibrated probability, or both. Raw scores (``score_kind="raw"``) state no
        probability: ``"both"`` then draws the calibrated one alone. An assessed forecast is the raw score, and has no
        calibrated one.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the bands (pointwise) and of the intervals of the observed shares.
    bins : int or sequence of float, default=None
        Number of bins of about equal numbers of cases, equal probabilities kept together, or edges that rise from 0 to
        1, the left one belonging to its bin and 1 to the last; None takes up to 10 bins of 10 cases or more. Bins
        without a case are left out.
    histogram : bool, default=True
        Whether to draw the distribution of the score by class below the diagram: of the raw score if it is drawn, of
        the calibrated probability otherwise.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes drawn on.

    Raises
    ------
    ScoreValueError
        If ``which="raw"`` is asked of raw scores, or the calibrator was fitted to several scores.
    ParameterValueError
        If a setting is outside its domain, or the calibrated probability is asked of an assessment.
    NoPosteriorError
        If the calibrator was saved without its calibration rows.

    References
    ----------
    Brown, L., Cai, T. and DasGupta, A. (2001). Interval estimation for a binomial proportion. Statistical Science 16.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores, y = [0.1, 0.2, 0.3, 0.4, 0.4, 0.6, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 1, 0, 1, 0, 1, 1, 1]
    >>> cal = bc.PlattCalibrator(inference="point").fit(scores, y)
    >>> bc.plot_reliability(cal, which="raw").get_ylabel()
    'observed frequency of class 1'
    """
    check_choice(which, ("both", "raw", "calibrated"), "which")
    ci_prob = check_fraction(ci_prob, "ci_prob")
    if isinstance(calibrator, Assessment):
        diagram = _of_assessment(calibrator, which, ci_prob)
    else:
        diagram = _of_calibrator(calibrator, which, ci_prob)
    series, mean, band = diagram.series, diagram.mean, diagram.band
    cut = _check_bins(bins, diagram.weight)
    shares = [observed_shares(one.stated, diagram.positive, diagram.weight, cut, ci_prob) for one in series]

    ax = axes_or_new(ax, (6, 6))
    entries: dict[str, Any] = {
        "perfect calibration": ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)[0]
    }
    for one in series:
        entries |= _draw_curve(ax, one, mean, band, ci_prob)
    points = tuple(_draw_shares(ax, one, found) for one, found in zip(series, shares, strict=True))
    entries[f"observed, {_cases(shares)} each,\n{percent(ci_prob)} Jeffreys interval"] = points
    ticks = {0.2 * k: f"{0.2 * k:.1f}" for k in range(6)}
    if histogram:
        ticks |= _draw_histogram(ax, series[0].stated, diagram.positive, diagram.weight, diagram.of_class)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.set_ylabel(f"observed frequency of {diagram.positive_name}")
    ax.set_xlabel(diagram.x_label)
    drawn_x = [one.x for one in series] * 2 + [found.x for found in shares] * 2
    drawn_y = [edge for edge in ((mean, mean) if band is None else band) for _ in series]
    drawn_y += [found.lower for found in shares] + [found.upper for found in shares]
    _set_limits_and_legend(ax, entries, np.concatenate(drawn_x), np.concatenate(drawn_y), histogram)
    return ax


def _of_calibrator(calibrator: Calibrator, which: str, ci_prob: float) -> _Diagram:
    """The raw score and the calibrated probability of a fit."""
    calibrator._require_one_score("plot_reliability")
    if calibrator.score_kind == "raw":
        if which == "raw":
            raise ScoreValueError(
                "which='raw' compares the score with observed frequencies, and scores of score_kind='raw' state no "
                "probability. Use which='calibrated'."
            )
        which = "calibrated"
    rows = calibrator._require_rows()
    used = rows.weight > 0
    scores = rows.scores[used]
    at = _grid(scores, calibrator.score_kind)
    mean = calibrator.predict_proba(at)[:, 1]
    band = None if calibrator._is_point else calibrator.predict_interval(at, ci_prob)[:, 1].T
    series = []
    if which != "calibrated":
        x, stated = (expit(s) if calibrator.score_kind == "logit" else s for s in (at, scores))
        series.append(_Series("raw score", VERMILLION, "--", "o", x, stated))
    if which != "raw":
        series.append(_Series("calibrated", BLUE, "-", "s", mean, calibrator.predict_proba(scores)[:, 1]))
    of_class = tuple(f"of {class_name(label)}" for label in calibrator.classes_)
    name = class_name(calibrator.classes_[1])
    label = _x_label(which, name, score_name(calibrator))
    return _Diagram(series, mean, band, rows.positive[used], rows.weight[used], of_class, name, label)


def _of_assessment(assessment: Assessment, which: str, ci_prob: float) -> _Diagram:
    """A forecast as it came."""
    if which == "calibrated":
        raise ParameterValueError(
            "which='calibrated' needs a calibrator, and an assessment only judges the forecast as it came, got an "
            "Assessment. Leave which out, or pass assessment.calibrator."
        )
    stated, cases, events = assessment.stated, assessment.cases, assessment.events
    at = score_grid(stated[0], stated[-1], np.repeat(stated, 2))
    curve = assessment.curve_at(at, ci_prob)
    band = np.stack([curve["lower"].to_numpy(), curve["upper"].to_numpy()])
    weight = np.concatenate([cases - events, events])
    used = weight > 1e-9 * cases.sum()  # what rounding leaves of cases minus events is no case
    rows = np.concatenate([stated, stated])[used]
    positive = np.repeat([0.0, 1.0], len(stated))[used]
    name = class_name(assessment.positive)
    series = [_Series("forecast", VERMILLION, "--", "o", at, rows)]
    label = _x_label("both", name, "forecast")
    of_class = "others", f"of {name}"
    return _Diagram(series, curve["mean"].to_numpy(), band, positive, weight[used], of_class, name, label)


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


def _grid(scores: np.ndarray, score_kind: str) -> np.ndarray:
    """Scores to draw at, within the range of the rows; log-odds are spread evenly as probabilities."""
    low, high = scores.min(), scores.max()
    if score_kind != "logit":
        return score_grid(low, high, scores)
    with np.errstate(divide="ignore"):
        return np.clip(logit(score_grid(expit(low), expit(high), expit(scores))), low, high)


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


def _draw_curve(ax: Axes, one: _Series, mean: np.ndarray, band: np.ndarray | None, ci_prob: float) -> dict[str, Any]:
    """Draw a curve and its band; returns the legend's entry."""
    order = np.argsort(one.x, kind="stable")
    x = one.x[order]
    (line,) = ax.plot(x, mean[order], color=one.color, linestyle=one.linestyle, linewidth=1.8, label=one.name)
    if band is None:
        return {f"{one.name}, point estimate": line}
    patch = draw_band(ax, x, band[0][order], band[1][order], one.color, one.linestyle)
    return {f"{one.name}, {percent(ci_prob)} credible band": (patch, line)}


def _draw_shares(ax: Axes, one: _Series, shares: ObservedShares) -> ErrorbarContainer:
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


def _set_limits_and_legend(ax: Axes, entries: dict[str, Any], x: np.ndarray, y: np.ndarray, histogram: bool) -> None:
    """Limits that leave room for a legend that covers none of the points (x, y), nor the diagonal."""
    floor = BASE - STRIP - 0.02 if histogram else -0.02
    lines = sum(1 + label.count("\n") for label in entries)
    diagonal = np.linspace(0, 1, 101)
    corner, more = legend_place(
        ax, np.concatenate([x, diagonal]), np.concatenate([y, diagonal]), lines, span=1.02 - floor
    )
    top = 1.02 + more
    ax.set(xlim=(-0.02, 1.02), ylim=(floor, top))
    ax.legend(
        entries.values(),
        entries.keys(),
        loc=corner,
        bbox_to_anchor=(0.01, 0.99) if corner == "upper left" else (0.99, (0.01 - floor) / (top - floor)),
        borderaxespad=0.0,
        fontsize="small",
        handler_map={tuple: _Overlay()},
    )


class _Overlay(HandlerTuple):
    """A band below its line in one legend entry; markers side by side."""

    def create_artists(self, legend: Any, orig_handle: Any, *args: Any) -> Any:
        beside = all(isinstance(handle, ErrorbarContainer) for handle in orig_handle)
        self._ndivide = len(orig_handle) if beside else 1
        return super().create_artists(legend, orig_handle, *args)


def _cases(drawn: list[ObservedShares]) -> str:
    counts = np.concatenate([shares.cases for shares in drawn])
    low, high = counts.min(), counts.max()
    return f"{low:g} cases" if low == high else f"{low:g}–{high:g} cases"


def _x_label(which: str, positive_name: str, name: str) -> str:
    if which == "raw":
        return f"{name} (stated probability of {positive_name})"
    return f"{'calibrated' if which == 'calibrated' else 'stated'} probability of {positive_name}"
