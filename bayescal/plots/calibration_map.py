"""Calibration map: the score against the probability that it stands for."""

from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from scipy.special import expit

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import BinaryCalibrator
from bayescal.calibrators.summaries import interval
from bayescal.plots import (
    BLACK,
    BLUE,
    GREY,
    KIND,
    MEMBER_STYLES,
    VERMILLION,
    axes_or_new,
    class_name,
    draw_band,
    legend_place,
    map_limits,
    percent,
    score_grid,
    score_name,
)
from bayescal.validation import ParameterValueError, check_fraction

RUG = 0.035  # distance of the rugs from 0 and 1
RUG_POSITIONS = 500  # along the axis; closer cases are drawn once


def plot_calibration_map(
    calibrator: Calibrator,
    *,
    ci_prob: float = 0.9,
    prior: bool = False,
    point: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the probability that each score stands for, with its credible band.

    Parameters
    ----------
    calibrator : calibrator
        Fitted. A point estimate is drawn without a band.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the band at each score.
    prior : bool, default=False
        Whether to draw the prior's mean and band too.
    point : bool, default=True
        Whether to draw the frequentist point estimate beside the posterior; the members' posterior means where the
        calibrator is an average.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The Axes drawn on.

    Raises
    ------
    ScoreValueError
        If the calibrator was fitted to several scores.
    ParameterValueError
        If the prior of a `StackedCalibrator` is asked for, or `ci_prob` is outside its domain.
    NoPosteriorError
        If the prior of a point estimate is asked for; or if the scores are not probabilities and the calibrator was
        saved without its calibration rows, whose range the axis takes.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores, y = [0.1, 0.2, 0.3, 0.4, 0.4, 0.6, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 1, 0, 1, 0, 1, 1, 1]
    >>> cal = bc.PlattCalibrator(inference="point").fit(scores, y)
    >>> bc.plot_calibration_map(cal).get_xlabel()
    'score (stated probability of class 1)'
    """
    ci_prob = check_fraction(ci_prob, "ci_prob")
    calibrator._require_one_score("plot_calibration_map")
    rows = calibrator._rows if calibrator.score_kind == "proba" else calibrator._require_rows()
    seen = np.empty(0) if rows is None else rows.scores[rows.weight > 0]
    at = score_grid(*map_limits(seen, calibrator.score_kind), seen)
    band = _prior_band(calibrator, at, ci_prob) if prior else None
    ax = axes_or_new(ax, (6, 6))
    curves = []
    if band is not None:
        draw_band(ax, at, band[0], band[1], GREY, ":").set_label(f"prior, {percent(ci_prob)} band")
        curves += list(band)
    if calibrator.score_kind != "raw":
        stated = expit(at) if calibrator.score_kind == "logit" else at
        ax.plot(at, stated, color=GREY, linestyle=":", linewidth=1.2, label="score taken at its word")
    mean = calibrator.predict_proba(at)[:, 1]
    curves.append(mean)
    if calibrator._is_point:
        ax.plot(at, mean, color=BLUE, linewidth=1.8, label="point estimate")
    else:
        lower, upper = calibrator.predict_interval(at, ci_prob)[:, 1].T
        curves += [lower, upper]
        draw_band(ax, at, lower, upper, BLUE, "-").set_label(f"{percent(ci_prob)} credible band")
        ax.plot(at, mean, color=BLUE, linewidth=1.8, label="posterior mean")
        if point:
            curves += _draw_points(ax, calibrator, at)
    legend_lines = len(ax.get_legend_handles_labels()[1]) + (rows is not None)
    inside = (at - at[0]) / (at[-1] - at[0])
    corner, more = legend_place(ax, np.tile(inside, len(curves)), np.concatenate(curves), legend_lines, 1 + 4 * RUG)
    positive_name = class_name(calibrator.classes_[1])
    top = 1 + more
    if rows is not None:
        positive = rows.positive[rows.weight > 0] > 0
        _draw_rug(ax, seen[positive], top + RUG, (at[0], at[-1]), BLACK, f"cases: {positive_name} at the top")
        _draw_rug(ax, seen[~positive], -RUG, (at[0], at[-1]), BLACK, None)
    margin = 0.02 * (at[-1] - at[0])
    ax.set(xlim=(at[0] - margin, at[-1] + margin), ylim=(-2 * RUG, top + 2 * RUG))
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_xlabel(f"{score_name(calibrator)} ({KIND[calibrator.score_kind].format(positive_name)})")
    ax.set_ylabel(f"probability of {positive_name}")
    height = top + 4 * RUG
    place = (0.01, (top + 2 * RUG) / height) if corner == "upper left" else (0.99, (0.01 + 2 * RUG) / height)
    ax.legend(loc=corner, bbox_to_anchor=place, borderaxespad=0.0, fontsize="small")
    return ax


def _prior_band(calibrator: Calibrator, at: np.ndarray, ci_prob: float) -> np.ndarray:
    """Lower and upper end of the prior of the calibration map, ``(2, m)``."""
    if not isinstance(calibrator, BinaryCalibrator):
        raise ParameterValueError(
            "prior=True needs a single model, and this is an average of several. Pass a member, such as "
            f"calibrator.members_[{next(iter(calibrator.members_))!r}]."
        )
    draws = {str(name): value.to_numpy()[0] for name, value in calibrator.idata_["prior"].data_vars.items()}
    features = calibrator._features(calibrator._coordinate(at, calibrator._scale), calibrator._scale)
    return interval(expit(calibrator._log_odds(features, draws)), ci_prob, "eti")


def _draw_points(ax: Axes, calibrator: Calibrator, at: np.ndarray) -> list[np.ndarray]:
    """The point estimate, or the members' means."""
    if isinstance(calibrator, BinaryCalibrator):
        estimate = calibrator.predict_point(at)[:, 1]
        ax.plot(at, estimate, color=VERMILLION, linestyle="--", linewidth=1.4, label="point estimate")
        return [estimate]
    means = []
    for (name, member), (color, style) in zip(calibrator.members_.items(), cycle(MEMBER_STYLES)):
        means.append(member.predict_proba(at)[:, 1])
        label = f"{name}, weight {calibrator.weights_[name]:.2f}"
        ax.plot(at, means[-1], color=color, linestyle=style, linewidth=0.9, label=label)
    return means


def _draw_rug(
    ax: Axes, scores: np.ndarray, height: float, limits: tuple[float, float], color: str, label: str | None
) -> None:
    """A short line for each case."""
    low, high = limits
    position = np.unique(np.round((scores - low) / (high - low) * RUG_POSITIONS)) / RUG_POSITIONS
    ax.plot(
        low + position * (high - low),
        np.full(len(position), height),
        linestyle="none",
        marker="|",
        markersize=7,
        markeredgewidth=0.7,
        color=color,
        label=label,
    )
