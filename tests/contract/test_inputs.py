"""Contract: what labels and scores are made of does not change the answer, and nothing of the caller's is changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescal as bc
from bayescal.calibrators.base import Calibrator

Make = Callable[..., Calibrator]

ANSWERS = ["no", "yes", "zero"]
WORDS = np.array(ANSWERS)

# name -> how labels 0, 1 and, of three classes, 2 are written, and the classes that come back
LABELS: dict[str, tuple[Callable[[np.ndarray], Any], list[Any]]] = {
    "list": (lambda y: y.tolist(), [0, 1, 2]),
    "column": (lambda y: y[:, None], [0, 1, 2]),
    "minus one and one": (lambda y: 2 * y - 1, [-1, 1, 3]),
    "one and two": (lambda y: y + 1, [1, 2, 3]),
    "forty and ten": (lambda y: np.array([10, 40, 50])[y], [10, 40, 50]),
    "uint8": (lambda y: y.astype(np.uint8), [0, 1, 2]),
    "float": (lambda y: y.astype(float), [0.0, 1.0, 2.0]),
    "float32": (lambda y: y.astype(np.float32), [0.0, 1.0, 2.0]),
    "big-endian": (lambda y: y.astype(">i4"), [0, 1, 2]),
    "strings": (lambda y: np.array(["neg", "pos", "unsure"])[y], ["neg", "pos", "unsure"]),
    "words for missing": (lambda y: np.array(["NA", "None", "nan"])[y], ["NA", "None", "nan"]),
    "object": (lambda y: np.array(["healthy", "ill", "unsure"], dtype=object)[y], ["healthy", "ill", "unsure"]),
    "object of numbers": (lambda y: y.astype(object), [0, 1, 2]),
    "Series": (lambda y: pd.Series(y, index=np.arange(len(y))[::-1]), [0, 1, 2]),
    "DataFrame": (lambda y: pd.DataFrame({"outcome": y}), [0, 1, 2]),
    "Categorical": (lambda y: pd.Categorical(WORDS[y], categories=["yes", "no", "zero"]), ANSWERS),
    "Series of categories": (lambda y: pd.Series(WORDS[y], dtype="category"), ANSWERS),
    "Series of numeric categories": (lambda y: pd.Series(y, dtype="category"), [0, 1, 2]),
    "Int64": (lambda y: pd.Series(y, dtype="Int64"), [0, 1, 2]),
    "string": (lambda y: pd.Series(WORDS[y], dtype="string"), ANSWERS),
    "arrow integers": (lambda y: pd.Series(y, dtype=pd.ArrowDtype(pa.int64())), [0, 1, 2]),
    "arrow strings": (lambda y: pd.Series(WORDS[y], dtype=pd.ArrowDtype(pa.string())), ANSWERS),
    "polars integers": (lambda y: pl.Series("outcome", y), [0, 1, 2]),
    "polars strings": (lambda y: pl.Series(WORDS[y]), ANSWERS),
    "polars categories": (lambda y: pl.Series(WORDS[y], dtype=pl.Categorical), ANSWERS),
}
# labels of two classes alone
BOOLEANS: dict[str, Callable[[np.ndarray], Any]] = {
    "bool": lambda y: y.astype(bool),
    "boolean": lambda y: pd.Series(y.astype(bool), dtype="boolean"),
    "arrow booleans": lambda y: pd.Series(y.astype(bool), dtype=pd.ArrowDtype(pa.bool_())),
}


def read_only(scores: np.ndarray) -> np.ndarray:
    copy = scores.copy()
    copy.setflags(write=False)
    return copy


def memory_mapped(scores: np.ndarray, folder: Path) -> np.ndarray:
    path = folder / "scores.npy"
    np.save(path, scores)
    return np.load(path, mmap_mode="r")


def frame(scores: np.ndarray) -> pd.DataFrame:
    """A table of one score, or of several."""
    table = pd.DataFrame(scores)
    return table.set_axis(["risk", "marker", "third"][: table.shape[1]], axis=1)


def polars_frame(scores: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({name: column.to_numpy() for name, column in frame(scores).items()})


# name -> how scores are held; all of them hold the same float64 numbers
CONTAINERS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "list": lambda s, _: s.tolist(),
    "read-only": lambda s, _: read_only(s),
    "memory map": memory_mapped,
    "every second": lambda s, _: np.repeat(s, 2, axis=0)[::2],
    "backwards": lambda s, _: s[::-1].copy()[::-1],
    "big-endian": lambda s, _: s.astype(">f8"),
    "object": lambda s, _: s.astype(object),
    "DataFrame": lambda s, _: frame(s).set_index(np.arange(len(s))[::-1]),
    "DataFrame of Float64": lambda s, _: frame(s).astype("Float64"),
    "DataFrame of arrow": lambda s, _: frame(s).astype(pd.ArrowDtype(pa.float64())),
    "polars DataFrame": lambda s, _: polars_frame(s),
}
COLUMN: dict[str, Callable[[np.ndarray], Any]] = {
    "column": lambda s: s[:, None],
    "column of a Fortran array": lambda s: np.asfortranarray(np.stack([s, s + 1], axis=1))[:, :1],
    "Series": lambda s: pd.Series(s, index=np.arange(len(s))[::-1], name="risk"),
    "Float64": lambda s: pd.Series(s, dtype="Float64"),
    "arrow": lambda s: pd.Series(s, dtype=pd.ArrowDtype(pa.float64())),
    "polars Series": lambda s: pl.Series("risk", s),
}
COLUMNS: dict[str, Callable[[np.ndarray], Any]] = {
    "Fortran": np.asfortranarray,
    "transposed": lambda s: s.T.copy().T,
    "columns of a wider array": lambda s: np.repeat(s, 3, axis=1)[:, ::3],
    "list of arrays": list,
    "DataFrame of two kinds": lambda s: frame(s).astype({"marker": "Float64"}),
    "DataFrame of columns from elsewhere": lambda s: frame(s).assign(id="a")[frame(s).columns],
}

# shapes and containers of pairs (1 - p, p)
PAIRS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda pairs: pairs,
    "Fortran": np.asfortranarray,
    "columns of a wider array": lambda pairs: np.repeat(pairs, 2, axis=1)[:, ::2],
    "DataFrame": lambda pairs: pd.DataFrame(pairs, columns=["benign", "malignant"]),
    "polars": lambda pairs: pl.DataFrame(pairs, schema=["benign", "malignant"]),
}


# Labels


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(make_point: Make, point: Calibrator, cases, grid, kind: str) -> None:
    write, classes = LABELS[kind]
    classes = classes[: len(point.classes_)]
    cal = make_point().fit(cases.scores, write(cases.y))
    np.testing.assert_array_equal(cal.predict_proba(grid), point.predict_proba(grid))
    predicted = cal.predict(grid)
    assert cal.classes_.tolist() == classes
    assert predicted.tolist() == [classes[k] for k in point.predict(grid)]
    assert {type(label) for label in predicted.tolist()} == {type(label) for label in classes}


@pytest.mark.variants("fewest scores")
@pytest.mark.variants("two classes")
@pytest.mark.parametrize("kind", BOOLEANS)
def test_booleans_as_labels(make_point: Make, point: Calibrator, cases, grid, kind: str) -> None:
    cal = make_point().fit(cases.scores, BOOLEANS[kind](cases.y))
    np.testing.assert_array_equal(cal.predict_proba(grid), point.predict_proba(grid))
    assert cal.classes_.tolist() == [False, True]
    assert {type(label) for label in cal.predict(grid).tolist()} == {bool}


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize("kind", ["strings", "Int64"])
def test_labels_do_not_change_the_draws(make_posterior: Make, posterior, cases, grid, kind: str) -> None:
    write, classes = LABELS[kind]
    classes = classes[: len(posterior.classes_)]
    cal = make_posterior().fit(cases.scores, write(cases.y))
    np.testing.assert_array_equal(cal.proba_draws(grid).to_numpy(), posterior.proba_draws(grid).to_numpy())
    assert cal.proba_draws(grid).coords["class"].to_numpy().tolist() == classes
    np.testing.assert_array_equal(cal.idata_.observed_data.y, cases.y)


@pytest.mark.variants("fewest scores")
def test_classes_say_which_label_is_which(make: Make, cases, grid) -> None:
    words = ["well", "relapse", "dead"][: max(cases.y) + 1]  # the positive class of two is the second
    cal = make(classes=words).fit(cases.scores, np.array(words)[cases.y])
    assert cal.classes_.tolist() == words
    expected = make().fit(*cases)
    np.testing.assert_array_equal(cal.predict_proba(grid), expected.predict_proba(grid))
    assert cal.predict(grid[-1:])[0] == cal.classes_[expected.predict(grid[-1:])[0]]


@pytest.mark.variants("fewest scores")
def test_a_label_outside_classes_is_refused(make: Make, cases) -> None:
    with pytest.raises(bc.LabelValueError, match=r"'maybe'.*classes"):
        make(classes=ANSWERS[: max(cases.y) + 1]).fit(cases.scores, np.array(["no", "maybe", "zero"])[cases.y])


BAD_LABELS = {
    "missing": (lambda y: pd.Series(y, dtype="Int64", name="outcome").mask(np.arange(len(y)) == 7), "'outcome'.*row 7"),
    "NaN": (lambda y: np.where(np.arange(len(y)) == 7, np.nan, y), "1 missing.*row 7"),
    "None": (lambda y: [None if i == 7 else int(k) for i, k in enumerate(y)], "1 missing.*row 7"),
    "polars null": (lambda y: pl.Series([None if i == 7 else int(k) for i, k in enumerate(y)]), "1 missing.*row 7"),
    "continuous": (lambda y: np.where(np.arange(len(y)) == 7, 0.5, y), r"continuous value 0\.5 at row 7"),
    "infinite": (lambda y: np.where(np.arange(len(y)) == 7, np.inf, y), "inf at row 7"),
    "mixed": (lambda y: np.where(np.arange(len(y)) == 7, "ill", y.astype(object)), "types int, str"),
    "short": (lambda y: y[:-1], "59 labels for 60 rows"),
    "wide": (lambda y: np.stack([y, 1 - y], axis=1), r"shape \(60, 2\)"),
}


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize("fault", BAD_LABELS)
def test_bad_labels_are_refused(make: Make, cases, fault: str) -> None:
    write, says = BAD_LABELS[fault]
    with pytest.raises(bc.LabelValueError, match=says):
        make().fit(cases.scores, write(cases.y))


@pytest.mark.variants("fewest scores")
@pytest.mark.variants("two classes")
def test_a_third_label_is_refused(make: Make, cases) -> None:
    with pytest.raises(bc.LabelValueError, match="two classes, got 3"):
        make().fit(cases.scores, np.where(np.arange(len(cases.y)) == 7, 2, cases.y))


# Scores


@pytest.mark.parametrize("kind", CONTAINERS)
def test_scores_of_any_container(make_point: Make, point: Calibrator, cases, grid, kind: str, tmp_path: Path) -> None:
    held = CONTAINERS[kind]
    cal = make_point().fit(held(cases.scores, tmp_path), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(held(grid, tmp_path)), point.predict_proba(grid))


@pytest.mark.variants("one score")
@pytest.mark.parametrize("kind", COLUMN)
def test_one_score_of_any_container(make_point: Make, point: Calibrator, cases, grid, kind: str) -> None:
    cal = make_point().fit(COLUMN[kind](cases.scores), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(COLUMN[kind](grid)), point.predict_proba(grid))


@pytest.mark.variants("several scores")
@pytest.mark.parametrize("kind", COLUMNS)
def test_several_scores_of_any_container(make_point: Make, point: Calibrator, cases, grid, kind: str) -> None:
    cal = make_point().fit(COLUMNS[kind](cases.scores), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(COLUMNS[kind](grid)), point.predict_proba(grid))


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize("kind", ["memory map", "polars DataFrame"])
def test_containers_do_not_change_the_draws(
    make_posterior: Make, posterior: Calibrator, cases, grid, kind: str, tmp_path: Path
) -> None:
    held = CONTAINERS[kind]
    cal = make_posterior().fit(held(cases.scores, tmp_path), cases.y)
    drawn = cal.proba_draws(held(grid, tmp_path)).to_numpy()
    np.testing.assert_array_equal(drawn, posterior.proba_draws(grid).to_numpy())


# 1 - p is exact for multiples of 2^-10
FINE = np.arange(0, 1025, 64) / 1024


@pytest.mark.variants("one score")
@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_of_probabilities(make_point: Make, cases, kind: str) -> None:
    fine = np.round(cases.scores * 1024) / 1024
    held = PAIRS[kind]
    cal = make_point().fit(held(np.stack([1 - fine, fine], axis=1)), cases.y)
    expected = make_point().fit(fine, cases.y)
    pairs = held(np.stack([1 - FINE, FINE], axis=1))
    np.testing.assert_array_equal(cal.predict_proba(pairs), expected.predict_proba(FINE))
    np.testing.assert_array_equal(cal.predict_proba(FINE), expected.predict_proba(FINE))  # (n,) after (n, 2)
    swapped = held(np.stack([FINE, 1 - FINE], axis=1))
    np.testing.assert_array_equal(cal.predict_proba(swapped), expected.predict_proba(1 - FINE))


@pytest.mark.variants("one score")
def test_pairs_of_probabilities_do_not_change_the_draws(make_posterior: Make, cases) -> None:
    fine = np.round(cases.scores * 1024) / 1024
    cal = make_posterior().fit(np.stack([1 - fine, fine], axis=1), cases.y)
    drawn = cal.proba_draws(np.stack([1 - FINE, FINE], axis=1)).to_numpy()
    np.testing.assert_array_equal(drawn, make_posterior().fit(fine, cases.y).proba_draws(FINE).to_numpy())


@pytest.mark.variants("fewest scores")
def test_float32_scores_are_the_same_numbers(make: Make, cases) -> None:
    coarse = cases.scores.astype(np.float32)
    cal = make().fit(coarse, cases.y)
    np.testing.assert_array_equal(
        cal.predict_proba(coarse), make().fit(coarse.astype(float), cases.y).predict_proba(coarse.astype(float))
    )
    assert cal.predict_proba(coarse).dtype == np.float64


@pytest.mark.variants("fewest scores")
def test_integer_scores(make: Make, fitted: Calibrator, cases, grid, other_kind: str) -> None:
    points = np.round(cases.scores * 1000).astype(int)
    cal = make(score_kind=other_kind).fit(points, cases.y)
    expected = make(score_kind=other_kind).fit(points.astype(float), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(points), expected.predict_proba(points.astype(float)))
    ends = grid[[0, -1]]
    np.testing.assert_array_equal(fitted.predict_proba(ends.astype(int)), fitted.predict_proba(ends))


def alike(values: Any, n_scores: int) -> np.ndarray:
    """The same number for every score of a row."""
    return np.array(values) if n_scores == 1 else np.stack([values] * n_scores, axis=1)


@pytest.mark.variants("two classes")
@pytest.mark.filterwarnings("ignore:.*cases have a score of 0 or 1:bayescal.CalibrationWarning")
def test_scores_of_exactly_zero_and_one(variant, cases, n_scores: int) -> None:
    scores = cases.scores.copy()
    scores[[0, 1]], scores[[2, 3]] = 0.0, 1.0
    y = cases.y.copy()
    y[:4] = [0, 1, 0, 1]  # certain and right, certain and wrong
    cal = variant.make().fit(scores, y)
    proba = cal.predict_proba(alike([0.0, 1e-300, 1.0 - 2**-53, 1.0], n_scores))[:, 1]
    assert np.isfinite(proba).all()
    assert not variant.is_monotone or (np.diff(proba) >= 0).all()
    if hasattr(cal, "idata_"):
        assert np.isfinite(cal.idata_.log_likelihood.y).all()


@pytest.mark.variants("two classes")
@pytest.mark.parametrize("score_kind", ["logit", "raw"])
def test_other_kinds_of_scores(variant, cases, n_scores: int, score_kind: str) -> None:
    log_odds = np.log(cases.scores) - np.log1p(-cases.scores)
    cal = variant.make(score_kind=score_kind).fit(log_odds, cases.y)
    far = np.sort([-1e6, -50.0, *log_odds.ravel().round(3)[:5], 50.0, 1e6])
    proba = cal.predict_proba(alike(far, n_scores))[:, 1]
    assert ((proba >= 0) & (proba <= 1)).all()
    assert not variant.is_monotone or (np.diff(proba) >= -1e-15).all()


def spoil(scores: np.ndarray, value: float) -> np.ndarray:
    """Another value in row 7, of several scores in column 1."""
    spoilt = scores.copy()
    spoilt[(7, 1)[: scores.ndim]] = value
    return spoilt


BAD_SCORES = {
    "NaN": (lambda s: spoil(s, np.nan), "1 of .*row 7"),
    "infinite": (lambda s: spoil(s, np.inf), "1 of .*row 7"),
    "missing": (lambda s: frame(s).astype("Float64").mask(frame(spoil(s, 2.0)) > 1), "1 missing.*row 7 of column '"),
    "outside [0, 1]": (lambda s: spoil(s, 1.01), r"\[0, 1\].*1\.01 at row 7"),
    "empty": (lambda s: s[:0], "empty"),
    "three dimensions": (lambda s: s.reshape(len(s), 1, -1), "2 dimensions"),
    "a number": (lambda s: 0.5, "2 dimensions"),
    "complex": (lambda s: s + 1j, "complex"),
    "dates": (lambda s: np.full(s.shape, "2020-01-01", dtype="M8[D]"), "dates"),
    "words": (lambda s: np.full(s.shape, "high").tolist(), "numbers"),
    "ragged": (lambda s: [[0.1], [0.2, 0.3]], "numbers"),
}


@pytest.mark.parametrize("fault", BAD_SCORES)
def test_bad_scores_are_refused(make: Make, fitted: Calibrator, cases, fault: str) -> None:
    write, says = BAD_SCORES[fault]
    with pytest.raises(bc.ScoreValueError, match=says):
        make().fit(write(cases.scores), cases.y)
    if fault != "empty":
        with pytest.raises(bc.ScoreValueError, match=says):
            fitted.predict_proba(write(cases.scores))


@pytest.mark.variants("several scores")
@pytest.mark.parametrize("fault", ["NaN", "infinite", "missing", "outside [0, 1]"])
def test_the_column_of_a_bad_score_is_said(make: Make, cases, fault: str) -> None:
    where = "row 7 of column 'marker'" if fault == "missing" else "row 7, column 1"
    with pytest.raises(bc.ScoreValueError, match=where):
        make().fit(BAD_SCORES[fault][0](cases.scores), cases.y)


# number of scores -> other columns, and what is said of them
OTHER_COLUMNS: dict[int, list[tuple[Callable[[np.ndarray], np.ndarray], str]]] = {
    1: [
        (lambda s: np.stack([s, s, s], axis=1), "3 columns"),
        (lambda s: np.stack([s, s], axis=1), "sum to 1"),
    ],
    2: [
        (lambda s: s[:, :1], "one column for each of two or more"),
        (lambda s: s[:, 0], "one column for each of two or more"),
        (lambda s: np.stack([1 - s[:, 0], s[:, 0]], axis=1), "which is one classifier's"),
    ],
    3: [
        (lambda s: s[:, :1], "one column for each of two or more classes"),
        (lambda s: s[:, 0], "2 dimensions"),
    ],
}


@pytest.mark.variants("not any number")
def test_columns_that_it_does_not_read_are_refused(make: Make, cases, n_scores: int) -> None:
    for write, says in OTHER_COLUMNS[n_scores]:
        with pytest.raises(bc.ScoreValueError, match=says):
            make().fit(write(cases.scores), cases.y)


@pytest.mark.variants("one score")
def test_other_columns_than_the_one_of_the_fit_are_refused(fitted: Calibrator, grid: np.ndarray) -> None:
    for write, says in OTHER_COLUMNS[1]:
        with pytest.raises(bc.ScoreValueError, match=says):
            fitted.predict_proba(write(grid))


@pytest.mark.variants("several scores")
@pytest.mark.variants("two classes")
def test_other_columns_than_the_two_of_the_fit_are_refused(fitted: Calibrator, grid: np.ndarray) -> None:
    for wrong in (grid[:, 0], grid[:, :1], np.repeat(grid, 2, axis=1), []):
        with pytest.raises(bc.ScoreValueError, match="must have 2 columns"):
            fitted.predict_proba(wrong)
    pairs = np.stack([1 - grid[:, 0], grid[:, 0]], axis=1)  # sum to 1, and are two classifiers' all the same
    assert fitted.predict_proba(pairs).shape == (len(grid), 2)


def test_no_rows_have_no_answers(fitted: Calibrator, n_scores: int) -> None:
    for nothing in {1: [[], np.empty((0, 1)), np.empty((0, 2))], 2: [np.empty((0, 2))], 3: [np.empty((0, 3))]}[
        n_scores
    ]:
        size = len(fitted.classes_)
        assert fitted.predict_proba(nothing).shape == (0, size)
        assert fitted.predict(nothing).shape == (0,)
        if hasattr(fitted, "idata_"):
            assert fitted.predict_interval(nothing).shape == (0, size, 2)
            assert fitted.predict_exceedance(nothing, 0.5).shape == (0, size)
            assert fitted.predict_table(nothing).shape == (0, 4)
            assert fitted.proba_draws(nothing).shape == (fitted.chains, fitted.draws, 0, size)


BAD_WEIGHTS = {
    "negative": (lambda n: np.where(np.arange(n) == 7, -1.0, 1.0), "1 of .*row 7"),
    "NaN": (lambda n: np.where(np.arange(n) == 7, np.nan, 1.0), "row 7"),
    "infinite": (lambda n: np.where(np.arange(n) == 7, np.inf, 1.0), "row 7"),
    "short": (lambda n: np.ones(n - 1), "shape"),
    "all zero": (lambda n: np.zeros(n), "zero"),
    "words": (lambda n: ["much"] * n, "numbers"),
}


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize("fault", BAD_WEIGHTS)
def test_bad_weights_are_refused(make: Make, cases, fault: str) -> None:
    write, says = BAD_WEIGHTS[fault]
    with pytest.raises(bc.WeightValueError, match=f"sample_weight.*{says}"):
        make().fit(*cases, sample_weight=write(len(cases.y)))


# Frames


def test_feature_names_are_kept_and_checked(make: Make, cases, grid) -> None:
    cal = make().fit(frame(cases.scores), cases.y)
    assert cal.feature_names_in_.tolist() == frame(grid).columns.tolist()
    cal.predict_proba(polars_frame(grid))
    cal.predict_proba(grid)  # nothing to compare
    with pytest.raises(bc.ScoreValueError, match=r"'age'.*'risk'"):
        cal.predict_proba(frame(grid).rename(columns={"risk": "age"}))


@pytest.mark.variants("several scores")
def test_columns_in_another_order_are_refused(make_point: Make, cases, grid) -> None:
    cal = make_point().fit(frame(cases.scores), cases.y)
    names = frame(grid).columns.tolist()
    with pytest.raises(bc.ScoreValueError, match=r"'marker', 'risk'.*'risk', 'marker'"):
        cal.predict_proba(frame(grid)[["marker", "risk", *names[2:]]])


def test_columns_that_are_not_words_are_no_names(make_point: Make, cases) -> None:
    assert not hasattr(make_point().fit(pd.DataFrame(cases.scores), cases.y), "feature_names_in_")


@pytest.mark.variants("one score")
def test_names_of_pairs_are_kept(make_point: Make, cases) -> None:
    pairs = pd.DataFrame({"benign": 1 - cases.scores, "malignant": cases.scores})
    assert make_point().fit(pairs, cases.y).feature_names_in_.tolist() == ["benign", "malignant"]


@pytest.mark.variants("two classes")
def test_table_keeps_the_index(posterior: Calibrator, grid: np.ndarray) -> None:
    index = pd.Index(["ann", "bob", "ann"], name="patient")
    table = posterior.predict_table(frame(grid[[20, 50, 80]]).set_index(index))
    pd.testing.assert_index_equal(table.index, index)
    np.testing.assert_array_equal(table, posterior.predict_table(grid[[20, 50, 80]]))
    assert posterior.predict_table(grid[:2]).index.tolist() == [0, 1]


@pytest.mark.variants("one score")
def test_table_keeps_the_index_of_a_series(posterior: Calibrator) -> None:
    series = pd.Series([0.2, 0.5, 0.8], index=pd.Index(["ann", "bob", "ann"], name="patient"))
    pd.testing.assert_frame_equal(posterior.predict_table(series), posterior.predict_table(series.to_frame()))


def test_nothing_of_the_callers_is_changed(make: Make, cases) -> None:
    scores, y, weight = cases.scores.copy(), cases.y.copy(), np.full(len(cases.y), 2.0)
    given = frame(scores)
    cal = make().fit(scores, y, weight)
    for held in (scores, given, scores.reshape(len(scores), -1)):
        cal.predict_proba(held)
        cal.predict(held)
        if hasattr(cal, "idata_"):
            cal.predict_interval(held, ci_kind="hdi")
            cal.predict_table(held)
    np.testing.assert_array_equal(scores, cases.scores)
    np.testing.assert_array_equal(y, cases.y)
    np.testing.assert_array_equal(weight, 2.0)
    pd.testing.assert_frame_equal(given, frame(cases.scores))


def test_a_fit_does_not_follow_later_changes_of_the_arrays(make_posterior: Make, cases) -> None:
    scores, y, weight = cases.scores.copy(), cases.y.copy(), np.full(len(cases.y), 2.0)
    cal = make_posterior().fit(scores, y, weight)
    scores[:], y[:], weight[:] = 0.5, 1, 7.0
    np.testing.assert_array_equal(cal.idata_.constant_data.scores, cases.scores)
    np.testing.assert_array_equal(cal.idata_.observed_data.y, cases.y)
    np.testing.assert_array_equal(cal.idata_.constant_data.weight, 2.0)
