"""What a reliability diagram shows of a fit or of an assessment: curves, bands, the rows behind them, and names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayescal.calibrators.base import Calibrator
from bayescal.evaluation.assessment import Assessment
from bayescal.plots import BLUE, VERMILLION, class_name, score_grid, score_name
from bayescal.validation import ParameterValueError, ScoreValueError

FORECASTS = "a fitted calibrator, an assessment of two classes (bayescal.assess), or a dict of those by name"


@dataclass(frozen=True)
class Series:
    """One curve of the diagram."""

    name: str
    color: str
    linestyle: str
    marker: str
    x: np.ndarray  # of the curve
    stated: np.ndarray  # of the calibration rows


@dataclass(frozen=True)
class Diagram:
    """What is drawn: a calibration curve, what it was learnt from, and names."""

    raw: Series | None  # the forecast as it came
    calibrated: Series | None
    mean: np.ndarray  # of the curve
    band: np.ndarray | None  # its lower and upper end
    positive: np.ndarray  # of the calibration rows
    weight: np.ndarray
    of_class: tuple[str, ...]  # words for the cases of the negative and of the positive class
    positive_name: str
    x_label: str

    @property
    def series(self) -> list[Series]:
        """The curves in the order in which they are drawn."""
        return [one for one in (self.raw, self.calibrated) if one is not None]


def diagram_of(forecast: Any, which: str, ci_prob: float) -> Diagram:
    """The diagram of a fit or of an assessment; refuses anything else."""
    if isinstance(forecast, Assessment):
        return _of_assessment(forecast, which, ci_prob)
    if isinstance(forecast, Calibrator):
        return _of_calibrator(forecast, which, ci_prob)
    hint = " Pass its by_class." if hasattr(forecast, "by_class") else ""
    raise ParameterValueError(f"plot_reliability draws {FORECASTS}, got {type(forecast).__name__}.{hint}")


def _of_calibrator(calibrator: Calibrator, which: str, ci_prob: float) -> Diagram:
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
    raw = calibrated = None
    if which != "calibrated":
        x, stated = (expit(s) if calibrator.score_kind == "logit" else s for s in (at, scores))
        raw = Series("raw score", VERMILLION, "--", "o", x, stated)
    if which != "raw":
        calibrated = Series("calibrated", BLUE, "-", "s", mean, calibrator.predict_proba(scores)[:, 1])
    of_class = tuple(f"of {class_name(label)}" for label in calibrator.classes_)
    name = class_name(calibrator.classes_[1])
    label = _x_label(which, name, score_name(calibrator))
    return Diagram(raw, calibrated, mean, band, rows.positive[used], rows.weight[used], of_class, name, label)


def _of_assessment(assessment: Assessment, which: str, ci_prob: float) -> Diagram:
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
    raw = Series("forecast", VERMILLION, "--", "o", at, rows)
    label = _x_label("both", name, "forecast")
    of_class = "others", f"of {name}"
    return Diagram(raw, None, curve["mean"].to_numpy(), band, positive, weight[used], of_class, name, label)


def _grid(scores: np.ndarray, score_kind: str) -> np.ndarray:
    """Scores to draw at, within the range of the rows; log-odds are spread evenly as probabilities."""
    low, high = scores.min(), scores.max()
    if score_kind != "logit":
        return score_grid(low, high, scores)
    with np.errstate(divide="ignore"):
        return np.clip(logit(score_grid(expit(low), expit(high), expit(scores))), low, high)


def _x_label(which: str, positive_name: str, name: str) -> str:
    if which == "raw":
        return f"{name} (stated probability of {positive_name})"
    return f"{'calibrated' if which == 'calibrated' else 'stated'} probability of {positive_name}"
