"""Section E: labels, classes, containers."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.logistic import fit_logistic

Make = Callable[..., Calibrator]

S = np.array([-1.2, -0.3, 0.1, 0.4, -0.8, 1.5])
Y = np.array([0, 1, 0, 1, 0, 1])


# Case 38: encodings of labels


@pytest.mark.parametrize(
    "y",
    [
        Y.astype(bool),
        2 * Y - 1,
        Y - 1,
        Y + 1,
        np.array(["neg", "pos"])[Y],
        np.array(["neg", "pos"], dtype=object)[Y],
        pd.Categorical(np.array(["neg", "pos"])[Y]),
        Y.astype(float),
    ],
    ids=["bool", "-1/1", "-1/0", "1/2", "strings", "objects", "Categorical", "float"],
)
def test_case_38_encodings_do_not_change_the_answer(y: object) -> None:
    def fit(labels: object) -> bc.PlattCalibrator:
        return bc.PlattCalibrator("logit", "point").fit(S, labels)

    assert fit(y).predict_proba(S).tolist() == fit(Y).predict_proba(S).tolist()
    assert set(fit(y).predict(S)) <= set(np.asarray(y))


def test_case_38_maximum_likelihood() -> None:
    # computed with scikit-learn without penalty, and scipy
    assert fit_logistic(S[:, None], Y, np.ones(6)) == pytest.approx([0.3320922, 2.7927328], abs=1e-6)


@pytest.mark.parametrize("y", [[0, 0.5, 1, 0, 0.5, 1], np.linspace(0.1, 0.9, 6)], ids=["halves", "continuous"])
def test_case_38_continuous_labels_are_refused(calibrator: Make, y: object) -> None:
    with pytest.raises(bc.LabelValueError, match="continuous value"):
        calibrator("platt", score_kind="logit").fit(S, y)


def of_objects(negative: object, positive: object) -> np.ndarray:
    column = np.empty(6, dtype=object)
    column[:] = [(negative, positive)[label] for label in Y]
    return column


DAY, LATER = "2020-02-29", "2024-02-29"
OBJECTS = {
    "Decimal": (of_objects(Decimal(0), Decimal(1)), np.float64),
    "Fraction": (of_objects(Fraction(0), Fraction(1)), np.float64),
    "numbers beyond 64 bits": (of_objects(2**70, 2**71), np.float64),
    "Timestamp": (of_objects(pd.Timestamp(DAY), pd.Timestamp(LATER)), np.datetime64),
    "datetime": (of_objects(datetime(2020, 2, 29, 12), datetime(2024, 2, 29)), np.datetime64),
    "date": (of_objects(date(2020, 2, 29), date(2024, 2, 29)), np.datetime64),
    "datetime64 objects": (of_objects(np.datetime64(DAY), np.datetime64(LATER)), np.datetime64),
    "datetime64": (np.array([DAY, LATER], dtype="datetime64[ns]")[Y], np.datetime64),
    "bytes": (np.array([b"no", b"yes"])[Y], np.bytes_),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("given", [False, True], ids=["sorted", "classes="])
def test_case_38_numbers_and_dates_in_an_object_column(kind: str, given: bool, tmp_path: Path) -> None:
    y, scalar = OBJECTS[kind]
    classes = [y[1], y[0]] if given else None  # the positive class first: not as sorted
    cal = bc.PlattCalibrator("logit", "point", classes=classes).fit(S, y)
    expected = bc.PlattCalibrator("logit", "point").fit(S, Y).predict_proba(S)
    np.testing.assert_allclose(cal.predict_proba(S)[:, ::-1] if given else cal.predict_proba(S), expected, atol=1e-8)
    assert cal.classes_.tolist() == sorted(cal.classes_.tolist(), reverse=given)
    assert issubclass(cal.classes_.dtype.type, scalar)
    found = cal.predict(S)
    assert [bool(a == b) for a, b in zip(found, y, strict=True)] == ((expected[:, 1] >= 0.5) == Y).tolist()
    cal.save(tmp_path / "fit.nc")
    came_back = bc.load(tmp_path / "fit.nc")
    assert came_back.classes_.dtype == cal.classes_.dtype
    np.testing.assert_array_equal(came_back.predict(S), found)
    np.testing.assert_array_equal(came_back.fit(S, y).predict_proba(S), cal.predict_proba(S))  # classes= too


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (((1, 2), (3, 4)), "type tuple"),
        ((b"no", b"yes"), "type bytes"),
        ((timedelta(1), timedelta(2)), "type timedelta"),
        ((Decimal("0.1"), Decimal("0.2")), "type Decimal at row 0: no float is equal"),
        ((10**30, 10**30 + 1), "type int at row 0: no float is equal"),
        ((10**400, 1), "type int at row 0: int too large"),
        ((pd.Timestamp(DAY, tz="UTC"), pd.Timestamp(LATER, tz="UTC")), "type Timestamp at row 0: a date with a time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_case_38_labels_that_cannot_be_kept_are_refused_by_their_type(pair: tuple, says: str) -> None:
    with pytest.raises(bc.LabelValueError, match=f"{says}.*Pass names of the classes, such as these values as text"):
        bc.PlattCalibrator("logit", "point").fit(S, of_objects(*pair))
    with pytest.raises(bc.LabelValueError, match="mixes labels of the types"):
        bc.PlattCalibrator("logit", "point").fit(S, of_objects(pair[0], "no"))


# Case 39: labels that are not 0 and 1


@pytest.mark.parametrize("pair", [(10, 40), (0, 2), (2, 5), (-3, 0)])
def test_case_39_columns_belong_to_sorted_labels(pair: tuple[int, int]) -> None:
    cal = bc.PlattCalibrator("logit", "point").fit(S, np.array(pair)[Y])
    plain = bc.PlattCalibrator("logit", "point").fit(S, Y)
    assert cal.classes_.tolist() == list(pair)
    np.testing.assert_array_equal(cal.predict_proba(S), plain.predict_proba(S))
    np.testing.assert_array_equal(cal.predict(S), np.array(pair)[plain.predict(S)])


@pytest.mark.parametrize("labels", [(10, 20, 40), (0, 2, 5), (-1, 0, 1)])
def test_case_39_of_three_classes(labels: tuple[int, int, int]) -> None:
    logits = np.array(
        [[0.1, 0.2, 1.0], [2.0, 0.3, 0.5], [0.2, 1.5, 0.1], [0.4, 0.1, 0.9], [0.2, 0.1, 0.3], [0.1, 0.4, 0]]
    )
    y = np.array([2, 0, 1, 2, 0, 1])
    cal = bc.BiasCorrectedTemperatureScaling("logit", "point").fit(logits, np.array(labels)[y])
    plain = bc.BiasCorrectedTemperatureScaling("logit", "point").fit(logits, y)
    assert cal.classes_.tolist() == list(labels)
    np.testing.assert_array_equal(cal.predict_proba(logits), plain.predict_proba(logits))
    np.testing.assert_array_equal(cal.predict(logits), np.array(labels)[plain.predict(logits)])


# Case 42: nullable and extension dtypes


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "category", "int64[pyarrow]", "bool[pyarrow]"])
def test_case_42_nullable_labels(calibrator: Make, dtype: str) -> None:
    plain = bc.PlattCalibrator("logit", "point").fit(S, Y)
    y = pd.Series(Y.astype(bool) if "bool" in dtype else Y).astype(dtype)
    cal = bc.PlattCalibrator("logit", "point").fit(pd.Series(S, dtype="Float64"), y)
    np.testing.assert_array_equal(cal.predict_proba(S), plain.predict_proba(S))


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "category", "int64[pyarrow]", "Float64"])
def test_case_42_missing_labels_are_counted_and_named(calibrator: Make, dtype: str) -> None:
    values = [True, None, False, None, True, False] if dtype == "boolean" else [1, None, 0, None, 1, 0]
    if dtype == "string":
        values = ["yes", None, "no", None, "yes", "no"]
    y = pd.Series(values, dtype=dtype, name="outcome")
    with pytest.raises(
        bc.LabelValueError, match=r"\(column 'outcome'\) has 2 missing labels in 6 rows, first at row 1"
    ):
        calibrator("platt", score_kind="logit").fit(S, y)


# Case 43: arrays that cannot be written to, or do not lie in order

FOUR, FOUR_Y = np.array([0.9, 0.1, 0.5, 0.3]), np.array([1, 0, 1, 0])


def hard_to_read(kind: str, folder: Path) -> np.ndarray:
    if kind == "read-only":
        held = FOUR.copy()
        held.setflags(write=False)
        return held
    if kind == "memory map":
        FOUR.tofile(folder / "scores.bin")
        return np.memmap(folder / "scores.bin", dtype=float, mode="r")
    if kind == "strided":
        return np.column_stack([FOUR, np.full(4, np.nan)])[:, ::2]
    if kind == "Fortran":
        return np.asfortranarray(np.column_stack([1 - FOUR, FOUR]))
    return FOUR.astype(">f8")


@pytest.mark.parametrize("kind", ["read-only", "memory map", "strided", "Fortran", "big-endian"])
def test_case_43_arrays_of_any_layout(calibrator: Make, kind: str, tmp_path: Path) -> None:
    held = hard_to_read(kind, tmp_path)
    before = np.array(held)
    cal = calibrator("isotonic", inference="point").fit(held, FOUR_Y)
    assert cal.predict_proba(held)[:, 1] == pytest.approx([1, 0, 1, 0], abs=1e-12)  # derived: already in order
    np.testing.assert_array_equal(held, before)


# Case 44: NaN and infinity


@pytest.mark.parametrize("name", ["platt", "beta", "isotonic", "bernstein", "auto"])
def test_case_44_scores_that_are_not_finite(calibrator: Make, name: str) -> None:
    with pytest.raises(bc.ScoreValueError, match=r"1 of 4 values are NaN or infinite, first .*nan.* at row 1"):
        calibrator(name).fit([0.1, np.nan, 0.8, 0.4], [0, 1, 0, 1])
    with pytest.raises(bc.ScoreValueError, match=r"2 of 3 values are NaN or infinite, first .*-inf.* at row 0"):
        calibrator(name, score_kind="raw").fit([-np.inf, 0.0, np.inf], [0, 1, 1])
    frame = pd.DataFrame({"risk": [0.1, None, 0.8, 0.4]})
    with pytest.raises(bc.ScoreValueError, match=r"row 1.*column 'risk'"):
        calibrator(name).fit(frame, [0, 1, 0, 1])


def test_case_44_labels_that_are_missing(calibrator: Make) -> None:
    with pytest.raises(bc.LabelValueError, match="1 missing labels in 4 rows, first at row 1"):
        calibrator("platt").fit([0.1, 0.2, 0.8, 0.4], [0, np.nan, 1, 1])
