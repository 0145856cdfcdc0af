"""Pictures: a fit in, matplotlib Axes out. One plot per file; what they share is here."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from bayescal.calibrators.base import Calibrator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection

# Okabe & Ito's colours, told apart by colour-blind readers; line styles and markers differ too, for print in grey.
VERMILLION = "#D55E00"
BLUE = "#0072B2"
GREEN = "#009E73"
PURPLE = "#CC79A7"
BLACK = "#000000"
GREY = "#777777"
KIND = {"proba": "stated probability of {}", "logit": "stated log-odds of {}", "raw": "larger: {} is likelier"}
MEMBER_STYLES = ((VERMILLION, "--"), (GREEN, "-."), (PURPLE, (0, (5, 1))), (BLACK, (0, (1, 1))))

LEGEND_LINE, LEGEND_WIDTH = 0.175, 2.5  # inches, of small text where the font size is 10


def axes_or_new(ax: "Axes | None", figsize: tuple[float, float]) -> "Axes":
    """The Axes given, or those of a new pyplot figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def draw_band(
    ax: "Axes", x: np.ndarray, lower: np.ndarray, upper: np.ndarray, color: str, linestyle: str
) -> "PolyCollection":
    """A band with visible edges."""
    from matplotlib.colors import to_rgba

    face, edge = to_rgba(color, 0.2), to_rgba(color, 0.7)
    return ax.fill_between(x, lower, upper, facecolor=face, edgecolor=edge, linestyle=linestyle, linewidth=0.9)


def percent(ci_prob: float) -> str:
    """A probability as people write it.

    >>> percent(0.9)
    '90 %'
    """
    return f"{100 * ci_prob:.4g} %"


def class_name(label: object) -> str:
    """A class in words, short enough for an axis.

    >>> class_name(1), class_name("no rain in the morning")
    ('class 1', 'class no rain in th…')
    """
    return f"class {_short(label, 14)}"


def score_name(calibrator: Calibrator, column: int = 0) -> str:
    """What a score is called: the column that the fit saw, or just the score, or its number among several."""
    names = getattr(calibrator, "feature_names_in_", None)
    if names is not None and len(names) == calibrator._n_scores:
        return f"score {_short(names[column], 20)}"
    return "score" if calibrator._n_scores == 1 else f"score column {column}"


def _short(name: object, longest: int) -> str:
    """A user's word on one line, no longer than that; dollars are not mathematics."""
    text = " ".join(str(name).split())
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def map_limits(seen: np.ndarray, score_kind: str) -> tuple[float, float]:
    """Ends of a score's axis: all probabilities, or the range of the scores seen and a little more."""
    if score_kind == "proba":
        return 0.0, 1.0
    low, high = float(seen.min()), float(seen.max())
    margin = 0.05 * (high - low) if high > low else 1.0
    return low - margin, high + margin


def score_grid(low: float, high: float, seen: np.ndarray) -> np.ndarray:
    """Scores to draw a curve through: even steps, and finer where cases are dense."""
    inside = seen[(seen >= low) & (seen <= high)]
    dense = np.quantile(inside, np.linspace(0, 1, 101)) if inside.size else inside
    return np.union1d(np.linspace(low, high, 401), dense)


def legend_place(
    ax: "Axes", x: np.ndarray, y: np.ndarray, lines: int, span: float
) -> tuple[Literal["upper left", "lower right"], float]:
    """Where a small legend covers none of the points (x, y), and how far to extend the y axis above 1 for it.

    The place is above the points at the left or below those at the right. x and y lie in [0, 1]; the y axis is `span`
    long before it is extended.
    """
    from matplotlib import rcParams

    unit = ax.figure.dpi * rcParams["font.size"] / 10.0
    share = min(0.6, LEGEND_LINE * (lines + 0.4) * unit / ax.bbox.height)
    width = min(1.0, LEGEND_WIDTH * unit / ax.bbox.width)
    above = 1 - y[x <= width].max(initial=0.0)
    below = y[x >= 1 - width].min(initial=1.0)
    if above < span * share <= below:
        return "lower right", 0.0
    return "upper left", max(0.0, (span * share - above) / (1 - share))
