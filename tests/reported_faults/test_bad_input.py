"""Input that is barely enough, or not enough: an answer with a warning where there is one, else one clear error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.registry import CALIBRATORS

Make = Callable[..., Calibrator]

# names and numbers of scores; mrmic has no posterior, and tests of its own on such input
ONE = [(name, 1) for name, entry in CALIBRATORS.items() if entry.columns in ("one", "any")]
SEVERAL = [(name, 2) for name, entry in CALIBRATORS.items() if entry.columns in ("several", "any")]
ALL = ONE + [(name, n_scores) for name, n_scores in SEVERAL if name != "mrmic"]
GRID = np.linspace(0.0, 1.0, 21)
THIRTY = np.linspace(0.03, 0.97, 30)


def columns(scores: Any, n_scores: int) -> np.ndarray:
    """The scores, or beside them those of a classifier that orders the cases alike and is surer of each."""
    s = np.asarray(scores)
    return s if n_scores == 1 else np.stack([s, s**2 * (3 - 2 * s)], axis=1)


def is_an_answer(cal: Calibrator, n_scores: int) -> None:
    """Probabilities that rise with the score where they must, with intervals that are neither points nor everything."""
    table = cal.predict_table(columns(GRID, n_scores))
    assert np.isfinite(table).all(axis=None)
    assert ((table["lower"] >= 0) & (table["upper"] <= 1)).all()
    assert ((table["mean"] > 0) & (table["mean"] < 1))[1:-1].all()
    can_fall = cal._name in ("copula", "spline") or (cal._name == "auto" and n_scores > 1)  # with a copula in it
    assert can_fall or np.diff(table["mean"]).min() >= -1e-14
    width = (table["upper"] - table["lower"]).to_numpy()
    assert (width[1:-1] > 0).all()  # at scores of 0 and 1 a steep curve reaches 0 and 1 to the last digit
    assert width.max() > 0.02
    assert width.min() < 0.98


@pytest.mark.parametrize(("name", "n_scores"), ALL)
@pytest.mark.parametrize("label", [0, 1])
def test_one_class(calibrator: Make, name: str, n_scores: int, label: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match=f"no case of class {1 - label} among 30; the answer leans on"):
        cal = calibrator(name).fit(columns(THIRTY, n_scores), np.full(30, label))
    assert cal.classes_.tolist() == [0, 1]
    is_an_answer(cal, n_scores)
    mean = cal.predict_proba(columns(THIRTY, n_scores))[:, 1].mean()
    assert abs(mean - label) < 0.4  # a map that was trusted as it is would say 0.5


@pytest.mark.parametrize("label", ["ill", 2, 40])
def test_one_class_whose_opposite_cannot_be_guessed(calibrator: Make, label: object) -> None:
    with pytest.raises(bc.LabelValueError, match=r"single class .*classes=\[negative, positive\]"):
        calibrator("platt").fit(THIRTY, [label] * 30)


@pytest.mark.parametrize("inference", ["nuts", "point"])
def test_one_class_of_two_that_are_named(calibrator: Make, inference: str) -> None:
    with pytest.warns(bc.CalibrationWarning, match="no case of class ill"):
        cal = calibrator("platt", classes=["well", "ill"], inference=inference).fit(THIRTY, ["well"] * 30)
    assert cal.classes_.tolist() == ["well", "ill"]
    assert np.isfinite(cal.predict_proba(GRID)).all()


@pytest.mark.parametrize(("name", "n_scores"), [(name, n_scores) for name, n_scores in ALL if name != "auto"])
@pytest.mark.parametrize("label", [0, 1])
def test_estimate_from_one_class(calibrator: Make, name: str, n_scores: int, label: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match="no case of class"):
        cal = calibrator(name, inference="point").fit(columns(THIRTY, n_scores), np.full(30, label))
    p = cal.predict_proba(columns(GRID, n_scores))[:, 1]
    assert np.isfinite(p).all()
    assert np.abs(p - label).max() < 0.1


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_one_positive_in_thirty(calibrator: Make, name: str, n_scores: int) -> None:
    y = np.zeros(30, dtype=int)
    y[24] = 1
    with pytest.warns(bc.CalibrationWarning, match="only 1 case of class 1"):
        # a mean of .035 by the copula is told from 1/30 only with more draws than other tests take
        cal = calibrator(name, draws=1000, chains=4).fit(columns(THIRTY, n_scores), y)
    is_an_answer(cal, n_scores)
    mean = cal.predict_proba(columns(THIRTY, n_scores))[:, 1].mean()
    assert 1 / 30 < mean < 0.3  # between the base rate and the scores' 0.5


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_all_scores_equal(calibrator: Make, name: str, n_scores: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match="all scores are equal; only the base rate is learned"):
        cal = calibrator(name).fit(columns(np.full(30, 0.4), n_scores), np.arange(30) % 3 == 0)
    is_an_answer(cal, n_scores)
    found = cal.predict_proba(columns([0.4], n_scores))[0, 1]
    assert found == pytest.approx(1 / 3, abs=0.1)  # sd of a rate from 30 cases: 0.09


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_perfect_separation(calibrator: Make, name: str, n_scores: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match="a threshold on the score separates the classes completely"):
        cal = calibrator(name).fit(columns(THIRTY, n_scores), (THIRTY > 0.5).astype(int))
    is_an_answer(cal, n_scores)
    assert cal.predict(columns(THIRTY, n_scores)).tolist() == (THIRTY > 0.5).astype(int).tolist()


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_reversed_scores(calibrator: Make, name: str, n_scores: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match=r"rank the classes in reverse \(AUC 0\.00\)"):
        cal = calibrator(name).fit(columns(THIRTY, n_scores), (THIRTY < 0.5).astype(int))
    is_an_answer(cal, n_scores)


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_scores_at_zero_and_one(calibrator: Make, name: str, n_scores: int) -> None:
    scores = np.r_[0.0, 0.0, THIRTY[2:-2], 1.0, 1.0]
    y = (np.arange(30) % 2 == 0).astype(int)  # certain and wrong at both ends
    cal = calibrator(name).fit(columns(scores, n_scores), y)
    is_an_answer(cal, n_scores)
    assert np.isfinite(cal.idata_.log_likelihood.y).all()


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_two_rows(calibrator: Make, name: str, n_scores: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match="only 1 case of class 0"):
        cal = calibrator(name).fit(columns([0.3, 0.8], n_scores), [0, 1])
    is_an_answer(cal, n_scores)
    low, high = cal.predict_proba(columns([0.3, 0.8], n_scores))[:, 1]
    assert low < 0.5 < high


@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_one_row(calibrator: Make, name: str, n_scores: int) -> None:
    with pytest.warns(bc.CalibrationWarning, match="no case of class 0"):
        cal = calibrator(name).fit(columns([0.3], n_scores), [1])
    is_an_answer(cal, n_scores)


@pytest.mark.parametrize("name", sorted(dict(ALL)))
@pytest.mark.parametrize("scores", [[], np.empty((0, 1)), np.empty((0, 2))], ids=["list", "(0, 1)", "(0, 2)"])
def test_an_empty_table_is_refused(calibrator: Make, name: str, scores: object) -> None:
    with pytest.raises(bc.ScoreValueError, match="scores is empty"):
        calibrator(name).fit(scores, [])


@pytest.mark.parametrize("fault", ["NaN score", "infinite score", "NaN label", "negative weight"])
@pytest.mark.parametrize(("name", "n_scores"), ALL)
def test_what_cannot_be_read_is_refused_before_sampling(calibrator: Make, name: str, n_scores: int, fault: str) -> None:
    scores, y, weight = THIRTY.copy(), (np.arange(30) % 2).astype(float), np.ones(30)
    if fault == "NaN score":
        scores[3] = np.nan
    elif fault == "infinite score":
        scores[3] = np.inf
    elif fault == "NaN label":
        y[3] = np.nan
    else:
        weight[3] = -1.0

    def never(done: int, total: int, divergences: int) -> None:
        raise AssertionError("sampled")

    with pytest.raises(ValueError, match="row 3") as caught:
        calibrator(name, progressbar=never).fit(columns(scores, n_scores), y, weight)
    assert isinstance(caught.value, bc.ScoreValueError | bc.LabelValueError | bc.WeightValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("score_kind", "factor"), [("raw", 1e300), ("logit", 1e300)])
def test_scores_that_have_no_square_are_refused(score_kind: str, factor: float) -> None:
    scores = np.linspace(0.1, 0.9, 12) * factor
    with pytest.raises(bc.ScoreValueError, match="must lie within"):
        bc.PlattCalibrator(score_kind=score_kind).fit(scores, np.arange(12) % 2)


def test_no_rows_are_predicted() -> None:
    cal = bc.PlattCalibrator(inference="point").fit(np.linspace(0.1, 0.9, 12), np.arange(12) % 2)
    assert cal.predict_proba([]).shape == (0, 2)
    assert cal.predict(np.empty((0, 1))).shape == (0,)
