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

GRID = np.linspace(0.0, 1.0, 41)

# name -> how labels 0/1 are written, and the classes that come back
LABELS: dict[str, tuple[Callable[[np.ndarray], Any], list[Any]]] = {
    "bool": (lambda y: y.astype(bool), [False, True]),
    "list": (lambda y: y.tolist(), [0, 1]),
    "column": (lambda y: y[:, None], [0, 1]),
    "minus one and one": (lambda y: 2 * y - 1, [-1, 1]),
    "one and two": (lambda y: y + 1, [1, 2]),
    "forty and ten": (lambda y: np.array([10, 40])[y], [10, 40]),
    "uint8": (lambda y: y.astype(np.uint8), [0, 1]),
    "float": (lambda y: y.astype(float), [0.0, 1.0]),
    "float32": (lambda y: y.astype(np.float32), [0.0, 1.0]),
    "big-endian": (lambda y: y.astype(">i4"), [0, 1]),
    "strings": (lambda y: np.array(["neg", "pos"])[y], ["neg", "pos"]),
    "words for missing": (lambda y: np.array(["NA", "None"])[y], ["NA", "None"]),
    "object": (lambda y: np.array(["healthy", "ill"], dtype=object)[y], ["healthy", "ill"]),
    "object of numbers": (lambda y: y.astype(object), [0, 1]),
    "Series": (lambda y: pd.Series(y, index=np.arange(len(y))[::-1]), [0, 1]),
    "DataFrame": (lambda y: pd.DataFrame({"outcome": y}), [0, 1]),
    "Categorical": (lambda y: pd.Categorical(np.array(["no", "yes"])[y], categories=["yes", "no"]), ["no", "yes"]),
    "Series of categories": (lambda y: pd.Series(np.array(["no", "yes"])[y], dtype="category"), ["no", "yes"]),
    "Series of numeric categories": (lambda y: pd.Series(y, dtype="category"), [0, 1]),
    "Int64": (lambda y: pd.Series(y, dtype="Int64"), [0, 1]),
    "boolean": (lambda y: pd.Series(y.astype(bool), dtype="boolean"), [False, True]),
    "string": (lambda y: pd.Series(np.array(["no", "yes"])[y], dtype="string"), ["no", "yes"]),
    "arrow integers": (lambda y: pd.Series(y, dtype=pd.ArrowDtype(pa.int64())), [0, 1]),
    "arrow booleans": (lambda y: pd.Series(y.astype(bool), dtype=pd.ArrowDtype(pa.bool_())), [False, True]),
    "arrow strings": (lambda y: pd.Series(np.array(["no", "yes"])[y], dtype=pd.ArrowDtype(pa.string())), ["no", "yes"]),
    "polars integers": (lambda y: pl.Series("outcome", y), [0, 1]),
    "polars strings": (lambda y: pl.Series(np.array(["no", "yes"])[y]), ["no", "yes"]),
    "polars categories": (lambda y: pl.Series(np.array(["no", "yes"])[y], dtype=pl.Categorical), ["no", "yes"]),
}


def read_only(scores: np.ndarray) -> np.ndarray:
    copy = scores.copy()
    copy.setflags(write=False)
    return copy


def memory_mapped(scores: np.ndarray, folder: Path) -> np.ndarray:
    path = folder / "scores.npy"
    np.save(path, scores)
    return np.load(path, mmap_mode="r")


# name -> how scores are held; all of them hold the same float64 numbers
CONTAINERS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "list": lambda s, _: s.tolist(),
    "column": lambda s, _: s[:, None],
    "read-only": lambda s, _: read_only(s),
    "memory map": memory_mapped,
    "every second": lambda s, _: np.repeat(s, 2)[::2],
    "backwards": lambda s, _: s[::-1].copy()[::-1],
    "column of a Fortran array": lambda s, _: np.asfortranarray(np.stack([s, s + 1], axis=1))[:, :1],
    "big-endian": lambda s, _: s.astype(">f8"),
    "object": lambda s, _: s.astype(object),
    "Series": lambda s, _: pd.Series(s, index=np.arange(len(s))[::-1], name="risk"),
    "DataFrame": lambda s, _: pd.DataFrame({"risk": s}),
    "Float64": lambda s, _: pd.Series(s, dtype="Float64"),
    "DataFrame of Float64": lambda s, _: pd.DataFrame({"risk": pd.array(s, dtype="Float64")}),
    "arrow": lambda s, _: pd.Series(s, dtype=pd.ArrowDtype(pa.float64())),
    "polars Series": lambda s, _: pl.Series("risk", s),
    "polars DataFrame": lambda s, _: pl.DataFrame({"risk": s}),
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


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(make_point: Make, point: Calibrator, cases, kind: str) -> None:
    write, classes = LABELS[kind]
    cal = make_point().fit(cases.scores, write(cases.y))
    np.testing.assert_array_equal(cal.predict_proba(GRID), point.predict_proba(GRID))
    predicted = cal.predict(GRID)
    assert cal.classes_.tolist() == classes
    assert predicted.tolist() == [classes[k] for k in point.predict(GRID)]
    assert {type(label) for label in predicted.tolist()} == {type(label) for label in classes}


@pytest.mark.parametrize("kind", ["strings", "boolean"])
def test_labels_do_not_change_the_draws(make_posterior: Make, posterior: Calibrator, cases, kind: str) -> None:
    write, classes = LABELS[kind]
    cal = make_posterior().fit(cases.scores, write(cases.y))
    np.testing.assert_array_equal(cal.proba_draws(GRID).to_numpy(), posterior.proba_draws(GRID).to_numpy())
    assert cal.proba_draws(GRID).coords["class"].to_numpy().tolist() == classes
    np.testing.assert_array_equal(cal.idata_.observed_data.y, cases.y)


def test_classes_say_which_label_is_positive(make: Make, cases) -> None:
    words = np.array(["relapse", "well"])
    cal = make(classes=["well", "relapse"]).fit(cases.scores, words[1 - cases.y])
    assert cal.classes_.tolist() == ["well", "relapse"]
    expected = make().fit(*cases)
    np.testing.assert_array_equal(cal.predict_proba(GRID), expected.predict_proba(GRID))
    assert cal.predict([1.0])[0] == cal.classes_[expected.predict([1.0])[0]]


def test_a_label_outside_classes_is_refused(make: Make, cases) -> None:
    with pytest.raises(bc.LabelValueError, match="classes"):
        make(classes=["no", "yes"]).fit(cases.scores, np.array(["no", "maybe"])[cases.y])


BAD_LABELS = {
    "missing": (lambda y: pd.Series(y, dtype="Int64", name="outcome").mask(np.arange(len(y)) == 7), "'outcome'.*row 7"),
    "NaN": (lambda y: np.where(np.arange(len(y)) == 7, np.nan, y), "1 missing.*row 7"),
    "None": (lambda y: [None if i == 7 else int(k) for i, k in enumerate(y)], "1 missing.*row 7"),
    "polars null": (lambda y: pl.Series([None if i == 7 else int(k) for i, k in enumerate(y)]), "1 missing.*row 7"),
    "continuous": (lambda y: np.where(np.arange(len(y)) == 7, 0.5, y), r"continuous value 0\.5 at row 7"),
    "infinite": (lambda y: np.where(np.arange(len(y)) == 7, np.inf, y), "inf at row 7"),
    "three": (lambda y: np.where(np.arange(len(y)) == 7, 2, y), "two classes, got 3"),
    "mixed": (lambda y: np.where(np.arange(len(y)) == 7, "ill", y.astype(object)), "types int, str"),
    "short": (lambda y: y[:-1], "59 labels for 60 rows"),
    "wide": (lambda y: np.stack([y, 1 - y], axis=1), r"shape \(60, 2\)"),
}


@pytest.mark.parametrize("fault", BAD_LABELS)
def test_bad_labels_are_refused(make: Make, cases, fault: str) -> None:
    write, says = BAD_LABELS[fault]
    with pytest.raises(bc.LabelValueError, match=says):
        make().fit(cases.scores, write(cases.y))


# Scores


@pytest.mark.parametrize("kind", CONTAINERS)
def test_scores_of_any_container(make_point: Make, point: Calibrator, cases, kind: str, tmp_path: Path) -> None:
    held = CONTAINERS[kind]
    cal = make_point().fit(held(cases.scores, tmp_path), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(held(GRID, tmp_path)), point.predict_proba(GRID))


@pytest.mark.parametrize("kind", ["memory map", "polars DataFrame"])
def test_containers_do_not_change_the_draws(make_posterior, posterior, cases, kind: str, tmp_path: Path) -> None:
    held = CONTAINERS[kind]
    cal = make_posterior().fit(held(cases.scores, tmp_path), cases.y)
    drawn = cal.proba_draws(held(GRID, tmp_path)).to_numpy()
    np.testing.assert_array_equal(drawn, posterior.proba_draws(GRID).to_numpy())


# 1 - p is exact for multiples of 2^-10
FINE = np.arange(0, 1025, 64) / 1024


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


def test_pairs_of_probabilities_do_not_change_the_draws(make_posterior: Make, cases) -> None:
    fine = np.round(cases.scores * 1024) / 1024
    cal = make_posterior().fit(np.stack([1 - fine, fine], axis=1), cases.y)
    drawn = cal.proba_draws(np.stack([1 - FINE, FINE], axis=1)).to_numpy()
    np.testing.assert_array_equal(drawn, make_posterior().fit(fine, cases.y).proba_draws(FINE).to_numpy())


def test_float32_scores_are_the_same_numbers(make: Make, cases) -> None:
    coarse = cases.scores.astype(np.float32)
    cal = make().fit(coarse, cases.y)
    np.testing.assert_array_equal(
        cal.predict_proba(coarse), make().fit(coarse.astype(float), cases.y).predict_proba(coarse.astype(float))
    )
    assert cal.predict_proba(coarse).dtype == np.float64


def test_integer_scores(make: Make, fitted: Calibrator, cases) -> None:
    points = np.round(cases.scores * 1000).astype(int)
    cal = make(score_kind="raw").fit(points, cases.y)
    expected = make(score_kind="raw").fit(points.astype(float), cases.y)
    np.testing.assert_array_equal(cal.predict_proba(points), expected.predict_proba(points.astype(float)))
    np.testing.assert_array_equal(fitted.predict_proba(np.array([0, 1])), fitted.predict_proba([0.0, 1.0]))


def test_scores_of_exactly_zero_and_one(make: Make, cases) -> None:
    scores = cases.scores.copy()
    scores[[0, 1]], scores[[2, 3]] = 0.0, 1.0
    y = cases.y.copy()
    y[:4] = [0, 1, 0, 1]  # certain and right, certain and wrong
    cal = make().fit(scores, y)
    proba = cal.predict_proba([0.0, 1e-300, 1.0 - 2**-53, 1.0])[:, 1]
    assert np.isfinite(proba).all()
    assert (np.diff(proba) >= 0).all()
    if hasattr(cal, "idata_"):
        assert np.isfinite(cal.idata_.log_likelihood.y).all()


@pytest.mark.parametrize("score_kind", ["logit", "raw"])
def test_other_kinds_of_scores(make: Make, cases, score_kind: str) -> None:
    log_odds = np.log(cases.scores) - np.log1p(-cases.scores)
    cal = make(score_kind=score_kind).fit(log_odds, cases.y)
    far = np.array([-1e6, -50.0, *log_odds.round(3)[:5], 50.0, 1e6])
    proba = cal.predict_proba(far)
    assert ((proba >= 0) & (proba <= 1)).all()
    assert (np.diff(proba[np.argsort(far), 1]) >= -1e-15).all()


BAD_SCORES = {
    "NaN": (lambda s: np.where(np.arange(len(s)) == 7, np.nan, s), "1 of .*row 7"),
    "infinite": (lambda s: np.where(np.arange(len(s)) == 7, np.inf, s), "1 of .*row 7"),
    "missing": (lambda s: pd.Series(s, dtype="Float64", name="risk").mask(np.arange(len(s)) == 7), "row 7.*'risk'"),
    "outside [0, 1]": (lambda s: np.where(np.arange(len(s)) == 7, 1.01, s), r"\[0, 1\].*1\.01 at row 7"),
    "empty": (lambda s: s[:0], "empty"),
    "three columns": (lambda s: np.stack([s, s, s], axis=1), "3 columns"),
    "pairs that do not sum to 1": (lambda s: np.stack([s, s], axis=1), "sum to 1"),
    "three dimensions": (lambda s: s[:, None, None], "1 or 2 dimensions"),
    "a number": (lambda s: 0.5, "1 or 2 dimensions"),
    "complex": (lambda s: s + 1j, "complex"),
    "dates": (lambda s: np.full(len(s), "2020-01-01", dtype="M8[D]"), "dates"),
    "words": (lambda s: ["high"] * len(s), "numbers"),
    "ragged": (lambda s: [[0.1], [0.2, 0.3]], "numbers"),
}


SEVERAL_SCORES = ("three columns", "pairs that do not sum to 1")  # which some calibrators can be fitted to


@pytest.mark.parametrize("fault", BAD_SCORES)
def test_bad_scores_are_refused(make: Make, fitted: Calibrator, cases, fault: str) -> None:
    write, says = BAD_SCORES[fault]
    if fitted._columns == "one" or fault not in SEVERAL_SCORES:
        with pytest.raises(bc.ScoreValueError, match=says):
            make().fit(write(cases.scores), cases.y)
    if fault != "empty":
        with pytest.raises(bc.ScoreValueError, match=says):
            fitted.predict_proba(write(cases.scores))


@pytest.mark.parametrize("nothing", [[], np.empty((0, 1)), np.empty((0, 2))], ids=["list", "(0, 1)", "(0, 2)"])
def test_no_rows_have_no_answers(fitted: Calibrator, nothing: object) -> None:
    assert fitted.predict_proba(nothing).shape == (0, 2)
    assert fitted.predict(nothing).shape == (0,)
    if hasattr(fitted, "idata_"):
        assert fitted.predict_interval(nothing).shape == (0, 2, 2)
        assert fitted.predict_exceedance(nothing, 0.5).shape == (0, 2)
        assert fitted.predict_table(nothing).shape == (0, 4)
        assert fitted.proba_draws(nothing).shape == (fitted.chains, fitted.draws, 0, 2)


BAD_WEIGHTS = {
    "negative": (lambda n: np.where(np.arange(n) == 7, -1.0, 1.0), "1 of .*row 7"),
    "NaN": (lambda n: np.where(np.arange(n) == 7, np.nan, 1.0), "row 7"),
    "infinite": (lambda n: np.where(np.arange(n) == 7, np.inf, 1.0), "row 7"),
    "short": (lambda n: np.ones(n - 1), "shape"),
    "all zero": (lambda n: np.zeros(n), "zero"),
    "words": (lambda n: ["much"] * n, "numbers"),
}


@pytest.mark.parametrize("fault", BAD_WEIGHTS)
def test_bad_weights_are_refused(make: Make, cases, fault: str) -> None:
    write, says = BAD_WEIGHTS[fault]
    with pytest.raises(bc.WeightValueError, match=f"sample_weight.*{says}"):
        make().fit(*cases, sample_weight=write(len(cases.y)))


# Frames


def test_feature_names_are_kept_and_checked(make: Make, cases) -> None:
    cal = make().fit(pd.DataFrame({"risk": cases.scores}), cases.y)
    assert cal.feature_names_in_.tolist() == ["risk"]
    cal.predict_proba(pl.DataFrame({"risk": GRID}))
    cal.predict_proba(GRID)  # nothing to compare
    with pytest.raises(bc.ScoreValueError, match=r"'age'.*'risk'"):
        cal.predict_proba(pd.DataFrame({"age": GRID}))
    unnamed = make().fit(pd.DataFrame(cases.scores), cases.y)  # columns that are not words are no names
    assert not hasattr(unnamed, "feature_names_in_")
    pairs = pd.DataFrame({"benign": 1 - cases.scores, "malignant": cases.scores})
    assert make().fit(pairs, cases.y).feature_names_in_.tolist() == ["benign", "malignant"]


def test_table_keeps_the_index(posterior: Calibrator) -> None:
    index = pd.Index(["ann", "bob", "ann"], name="patient")
    from_series = posterior.predict_table(pd.Series([0.2, 0.5, 0.8], index=index))
    from_frame = posterior.predict_table(pd.DataFrame({"risk": [0.2, 0.5, 0.8]}, index=index))
    pd.testing.assert_frame_equal(from_series, from_frame)
    pd.testing.assert_index_equal(from_series.index, index)
    assert posterior.predict_table([0.2, 0.5]).index.tolist() == [0, 1]


def test_nothing_of_the_callers_is_changed(make: Make, cases) -> None:
    scores, y, weight = cases.scores.copy(), cases.y.copy(), np.full(len(cases.y), 2.0)
    frame = pd.DataFrame({"risk": scores})
    cal = make().fit(scores, y, weight)
    for held in (scores, frame, scores[:, None]):
        cal.predict_proba(held)
        cal.predict(held)
        if hasattr(cal, "idata_"):
            cal.predict_interval(held, ci_kind="hdi")
            cal.predict_table(held)
    np.testing.assert_array_equal(scores, cases.scores)
    np.testing.assert_array_equal(y, cases.y)
    np.testing.assert_array_equal(weight, 2.0)
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"risk": cases.scores}))


def test_a_fit_does_not_follow_later_changes_of_the_arrays(make_posterior: Make, cases) -> None:
    scores, y, weight = cases.scores.copy(), cases.y.copy(), np.full(len(cases.y), 2.0)
    cal = make_posterior().fit(scores, y, weight)
    scores[:], y[:], weight[:] = 0.5, 1, 7.0
    np.testing.assert_array_equal(cal.idata_.constant_data.scores, cases.scores)
    np.testing.assert_array_equal(cal.idata_.observed_data.y, cases.y)
    np.testing.assert_array_equal(cal.idata_.constant_data.weight, 2.0)
