"""Surface over two scores: the probability that each pair stands for, and how well it is known.

Two panels, filled contours of the posterior mean and of the width of the credible interval, with the calibration rows
on top. With more than two scores they are slices: the scores that are not drawn are held at values that the title says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import patheffects, rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import Rows
from bayescal.plots import (
    BLACK,
    KIND,
    class_name,
    map_limits,
    percent,
    score_name,
)
from bayescal.validation import ParameterValueError, ScoreValueError, check_choice, check_fraction, check_scores

COLORS = {"mean": "Blues", "width": "Oranges"}
GRID = 40  # steps along each axis, and half as many between quantiles of the cases
POSITIONS = 100  # along each axis; of the cases of a class that share one, one is drawn
BELOW = 0.66  # inches from the axis to the legend, below ticks and two lines of label, where the font size is 10
MARGIN = 0.02  # of the axis, for the markers of cases at its ends


def plot_surface(
    calibrator: Calibrator,
    *,
    which: str = "both",
    scores: Sequence[int | str] = (0, 1),
    held: Mapping[int | str, float] | None = None,
    ci_prob: float = 0.9,
    ax: Any = None,
) -> Axes | np.ndarray:
    """Draw the probability over two scores, beside the width of its credible interval.

    Parameters
    ----------
    calibrator : calibrator
        Fitted to two or more scores. A point estimate has no interval: ``"both"`` draws its probabilities alone.
    which : {"both", "mean", "width"}, default="both"
        The posterior mean (or the point estimate), the width of the credible interval, or both.
    scores : sequence of two int or str, default=(0, 1)
        The scores of the horizontal and of the vertical axis: numbers of columns, from 0, or names that the fit saw.
    held : mapping of int or str to float, default=None
        Values of the scores that are not drawn, by number or name. Those left out are held at the medians of the
        calibration rows.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the interval whose width is drawn.
    ax : matplotlib.axes.Axes or array-like of two, default=None
        Where to draw: one Axes for each panel. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes or ndarray of two
        The Axes drawn on: one if there is one panel, an array of two if there are both.

    Raises
    ------
    ScoreValueError
        If the calibrator was fitted to one score, or a held value is no score.
    ParameterValueError
        If a column is unknown or named twice, the number of Axes is not that of the panels, or a setting is outside its
        domain.
    NoPosteriorError
        If the width of a point estimate is asked for; or if the picture needs the calibration rows (for medians, or for
        the range of scores that are not probabilities) and the calibrator was saved without them.

    Notes
    -----
    Probabilities are drawn over all of [0, 1], other scores over the range of the calibration rows. All rows are shown
    on a slice, whatever their other scores are; of rows of one class that nearly coincide, one.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(inference="point").fit(days[["emos", "logistic"]], days["rain"])
    >>> bc.plot_surface(cal).get_xlabel()
    'score emos\\n(stated probability of class 1)'
    """
    check_is_fitted(calibrator, "classes_")
    if calibrator._n_scores == 1:
        raise ScoreValueError(
            "plot_surface draws over two scores, and this calibrator was fitted to one. Use plot_calibration_map."
        )
    check_choice(which, ("both", *COLORS), "which")
    ci_prob = check_fraction(ci_prob, "ci_prob")
    if which == "width":
        calibrator._require_posterior("the width of the interval")
    panels = [which] if which != "both" else ["mean"] if calibrator._is_point else list(COLORS)
    axes = _check_axes(ax, panels)
    columns = _check_pair(calibrator, scores)
    at = _held_row(calibrator, columns, held)
    rows = calibrator._rows if calibrator.score_kind == "proba" else calibrator._require_rows()
    x, y = (_positions(rows, column, calibrator.score_kind) for column in columns)

    surfaces = _surfaces(calibrator, at, columns, x, y, ci_prob)
    if axes is None:
        from matplotlib import pyplot as plt

        axes = plt.subplots(1, len(panels), figsize=(5.6 * len(panels), 5.2), layout="constrained", squeeze=False)[1][0]
    positive_name = class_name(calibrator.classes_[1])
    titles = {
        "mean": f"{'point estimate' if calibrator._is_point else 'posterior mean'}: probability of {positive_name}",
        "width": f"how well it is known: width of the {percent(ci_prob)} interval",
    }
    for panel, one in zip(panels, axes, strict=True):
        _draw_contours(one, x, y, surfaces[panel], COLORS[panel])
        for axis, column, ends in zip("xy", columns, (x, y), strict=True):
            margin = MARGIN * (ends[-1] - ends[0])
            kind = KIND[calibrator.score_kind].format(positive_name)
            one.set(
                **{
                    f"{axis}lim": (ends[0] - margin, ends[-1] + margin),
                    f"{axis}label": f"{score_name(calibrator, column)}\n({kind})",
                }
            )
        if rows is not None:
            _draw_rows(one, rows, columns, (x, y), calibrator.classes_)
        one.set_title("\n".join([titles[panel], *_held_words(calibrator, at, columns)]), fontsize="medium")
    return axes[0] if len(panels) == 1 else axes


def _check_axes(given: Any, panels: list[str]) -> np.ndarray | None:
    if given is None:
        return None
    axes = np.atleast_1d(np.asarray(given, dtype=object)).reshape(-1)
    if len(axes) != len(panels):
        raise ParameterValueError(
            f"ax must hold {len(panels)} Axes, one for each panel ({', '.join(panels)}), got {len(axes)}. "
            "Pass which='mean' or which='width' to draw one panel."
        )
    return axes


def _check_pair(calibrator: Calibrator, given: Any) -> tuple[int, int]:
    """Numbers of the two columns to draw."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
        raise ParameterValueError(f"scores must name two of the fit's columns, such as (0, 1), got {given!r}.")
    first, second = (_column(calibrator, one, "scores") for one in given)
    if first == second:
        raise ParameterValueError(f"scores must name two different columns, got {given!r}.")
    return first, second


def _column(calibrator: Calibrator, given: Any, setting: str) -> int:
    """Number of a column that was given by number or name."""
    names = [str(name) for name in getattr(calibrator, "feature_names_in_", [])]
    if isinstance(given, str) and given in names:
        return names.index(given)
    is_number = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_number or not 0 <= given < calibrator._n_scores:
        also = f", or names out of {', '.join(map(repr, names))}" if names else ""
        raise ParameterValueError(
            f"columns in {setting} must be numbers from 0 to {calibrator._n_scores - 1}{also}, got {given!r}."
        )
    return int(given)


def _held_row(calibrator: Calibrator, columns: tuple[int, int], held: Any) -> np.ndarray:
    """Scores ``(M,)`` that stay as they are; NaN in the two columns that are drawn."""
    if held is not None and not isinstance(held, Mapping):
        raise ParameterValueError(f"held must map columns to values, such as {{2: 0.5}}, got {held!r}.")
    at = np.full(calibrator._n_scores, np.nan)
    for given, value in ({} if held is None else held).items():
        column = _column(calibrator, given, "held")
        if column in columns:
            raise ParameterValueError(f"held gives a value to column {given!r}, which is drawn. Leave it out.")
        at[column] = check_scores([value], calibrator.score_kind, name=f"held[{given!r}]", fitting=False).values[0]
    left = [j for j in range(len(at)) if np.isnan(at[j]) and j not in columns]
    if left:
        rows = calibrator._require_rows()
        at[left] = np.quantile(rows.scores[:, left], 0.5, axis=0, weights=rows.weight, method="inverted_cdf")
    return at


def _held_words(calibrator: Calibrator, at: np.ndarray, columns: tuple[int, int]) -> list[str]:
    names = [score_name(calibrator, j).removeprefix("score ") for j in range(len(at))]
    held = [f"{name} = {at[j]:.3g}" for j, name in enumerate(names) if j not in columns]
    return [f"at {', '.join(held)}"] if held else []


def _positions(rows: Rows | None, column: int, score_kind: str) -> np.ndarray:
    """Scores of a column to compute the surface at, denser where cases are and where probabilities near 0 and 1."""
    seen = np.empty(0) if rows is None else rows.scores[rows.weight > 0, column]
    low, high = map_limits(seen, score_kind)
    even = np.linspace(0, 1, GRID + 1)
    shares = np.sin(0.5 * np.pi * even) ** 2 if score_kind == "proba" else even
    dense = np.quantile(seen, np.linspace(0, 1, GRID // 2 + 1)) if seen.size else seen
    return np.union1d(low + (high - low) * shares, dense)


def _surfaces(
    calibrator: Calibrator, at: np.ndarray, columns: tuple[int, int], x: np.ndarray, y: np.ndarray, ci_prob: float
) -> dict[str, np.ndarray]:
    """What the panels show at every pair, ``(len(y), len(x))`` each."""
    cells = np.tile(at, (len(y) * len(x), 1))
    cells[:, columns[0]], cells[:, columns[1]] = np.tile(x, len(y)), np.repeat(y, len(x))
    shape = (len(y), len(x))
    if calibrator._is_point:
        return {"mean": calibrator.predict_proba(cells)[:, 1].reshape(shape)}
    table = calibrator.predict_table(cells, ci_prob)
    width = table["upper"] - table["lower"]
    return {"mean": table["mean"].to_numpy().reshape(shape), "width": width.to_numpy().reshape(shape)}


def _draw_contours(ax: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, colors: str) -> None:
    """Filled contours, lines with their values, and a colour bar inside of the Axes' own frame."""
    middle = 0.5 * (values.min() + values.max())
    half = max(0.5 * np.ptp(values), 0.01)  # a flat surface has no contours to show but those of rounding
    levels = np.clip(MaxNLocator(10, steps=[1, 2, 5, 10]).tick_values(middle - half, middle + half), 0.0, 1.0)
    levels = np.unique(levels.round(12))
    filled = ax.contourf(x, y, values, levels=levels, cmap=colors, alpha=0.85)
    lines = ax.contour(x, y, values, levels=levels, colors=BLACK, linewidths=0.6)
    for text in ax.clabel(lines, fontsize="x-small"):
        text.set_path_effects([patheffects.withStroke(linewidth=2, foreground="white")])
    ax.figure.colorbar(filled, cax=ax.inset_axes((1.03, 0.0, 0.04, 1.0)), ticks=levels)


def _draw_rows(
    ax: Axes, rows: Rows, columns: tuple[int, int], grids: tuple[np.ndarray, np.ndarray], classes: np.ndarray
) -> None:
    """A marker for each case, told apart by shape and shade; larger and on top where a class has fewer."""
    used = rows.weight > 0
    pairs, positive, weight = rows.scores[used][:, columns], rows.positive[used] > 0, rows.weight[used]
    low, high = (np.array([grid[end] for grid in grids]) for end in (0, -1))
    for of_class, label, marker, face, edge in (
        (~positive, classes[0], "o", "white", BLACK),
        (positive, classes[1], "^", BLACK, "white"),
    ):
        cells = np.round((pairs[of_class] - low) / (high - low) * POSITIONS)
        shown = pairs[of_class][np.unique(cells, axis=0, return_index=True)[1]]
        size = float(np.clip(60 / np.sqrt(max(len(shown), 1)), 3.0, 5.5))
        ax.plot(
            shown[:, 0],
            shown[:, 1],
            linestyle="none",
            marker=marker,
            markersize=1.3 * size if marker == "^" else size,  # a triangle's white edge leaves less of it
            markerfacecolor=face,
            markeredgecolor=edge,
            markeredgewidth=0.7,
            zorder=2.2 if of_class.mean() < 0.5 else 2.1,
            label=f"{weight[of_class].sum():g} cases: {class_name(label)}",
        )
    below = ScaledTranslation(0.0, -BELOW * rcParams["font.size"] / 10.0, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + below,
        ncols=2,
        frameon=False,
        fontsize="small",
        borderpad=0.0,
    )
