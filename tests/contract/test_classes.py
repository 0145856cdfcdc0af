"""Contract of calibrators of several classes: what the other files ask of two classes, and what only several have."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayescal as bc
from bayescal.calibrators.base import Calibrator

Make = Callable[..., Calibrator]

several_classes = pytest.mark.variants("several classes")


def named(scores: np.ndarray) -> pd.DataFrame:
    """Columns named after classes."""
    return pd.DataFrame(scores, columns=["bee", "ape", "cow"])


# Which column is which class


@several_classes
@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_columns_that_are_named_after_the_labels_say_which_is_which(make, fitted, cases, grid, container: type) -> None:
    words = np.array(["bee", "ape", "cow"])
    cal = make().fit(container(dict(named(cases.scores))), words[cases.y])
    assert cal.classes_.tolist() == words.tolist()
    np.testing.assert_array_equal(cal.predict_proba(grid), fitted.predict_proba(grid))
    assert set(cal.predict(grid)) <= set(words)


@several_classes
@pytest.mark.parametrize("names", [["20", "5", "10"], [20, 5, 10]])
def test_columns_may_be_named_after_numbers(make: Make, fitted: Calibrator, cases, grid, names: list) -> None:
    cal = make().fit(pd.DataFrame(cases.scores, columns=names), np.array([20, 5, 10])[cases.y])
    assert cal.classes_.tolist() == [20, 5, 10]
    np.testing.assert_array_equal(cal.predict_proba(grid), fitted.predict_proba(grid))
    other = pd.DataFrame(grid, columns=[names[2], *names[:2]])
    with pytest.raises(bc.ScoreValueError, match=r"'10', '20', '5'.*'20', '5', '10'"):
        cal.predict_proba(other)


@several_classes
def test_columns_in_another_order_than_the_classes_are_refused(make: Make, cases, grid) -> None:
    words = np.array(["ape", "bee", "cow"])
    with pytest.raises(bc.ScoreValueError, match=r"'bee', 'ape', 'cow'.*'ape', 'bee', 'cow'"):
        make(classes=words.tolist()).fit(named(cases.scores), words[cases.y])
    cal = make().fit(cases.scores, words[cases.y])  # an array has no names, but a table has
    with pytest.raises(bc.ScoreValueError, match=r"'bee', 'ape', 'cow'.*'ape', 'bee', 'cow'"):
        cal.predict_proba(named(grid))


@several_classes
def test_a_label_after_which_no_column_is_named_is_refused(make: Make, cases) -> None:
    with pytest.raises(bc.LabelValueError, match=r"'dog'.*bee, ape, cow"):
        make().fit(named(cases.scores), np.array(["bee", "dog", "cow"])[cases.y])


@several_classes
def test_a_class_without_cases_keeps_its_column(make: Make, cases, grid) -> None:
    kept = cases.y != 1
    with pytest.warns(bc.CalibrationWarning, match="no case of class 1 among"):
        cal = make().fit(cases.scores[kept], cases.y[kept])  # whole numbers from 0: column numbers
    assert cal.classes_.tolist() == [0, 1, 2]
    proba = cal.predict_proba(grid)
    assert np.isfinite(proba).all() and (proba[1:-1, 1] > 0).any()
    words = np.array(["ape", "bee", "cow"])
    with pytest.raises(bc.LabelValueError, match=r"2 classes \('ape', 'cow'\).*3 columns.*classes=\[\.\.\.\]"):
        make().fit(cases.scores[kept], words[cases.y[kept]])
    with pytest.warns(bc.CalibrationWarning, match="no case of class bee"):
        told = make(classes=words.tolist()).fit(cases.scores[kept], words[cases.y[kept]])
    np.testing.assert_array_equal(told.predict_proba(grid), proba)


@several_classes
@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0, 1, 5], None),  # as many labels as columns: sorted
        ([0, 5, 5], r"2 classes \(0, 5\).*3 columns.*classes="),
        ([-1, 1, 1], r"2 classes \(-1, 1\).*classes="),
        ([0, 1, 7, 9], "4 classes.*3 columns"),
    ],
)
def test_labels_that_are_no_column_numbers(make: Make, cases, labels: list[int], says: str | None) -> None:
    y = np.array(labels)[np.where(np.arange(len(cases.y)) == 7, len(labels) - 1, cases.y)]
    if says is None:
        assert make().fit(cases.scores, y).classes_.tolist() == labels
        return
    with pytest.raises(bc.LabelValueError, match=says):
        make().fit(cases.scores, y)


@several_classes
def test_classes_are_as_many_as_columns(make: Make, cases) -> None:
    for wrong in ([0, 1], [0, 1, 2, 3], [0, 1, 1], 3):
        with pytest.raises(bc.ParameterValueError, match="classes must name 3 different labels"):
            make(classes=wrong).fit(*cases)


@several_classes
def test_permuted_classes_have_permuted_answers(make_point: Make, point: Calibrator, cases, grid) -> None:
    order = np.array([2, 0, 1])
    cal = make_point().fit(cases.scores[:, order], np.argsort(order)[cases.y])
    # two optimisations, each with a gradient of the mean log likelihood below 1e-10
    np.testing.assert_allclose(cal.predict_proba(grid[:, order]), point.predict_proba(grid)[:, order], atol=1e-6)


# Scores


@several_classes
def test_a_constant_added_to_the_logits_of_a_row_is_no_matter(make: Make, cases, random_seed: int) -> None:
    logits = np.log(cases.scores)
    shift = np.random.default_rng(random_seed).normal(0, 20, (len(logits), 1))
    one, other = make(score_kind="logit").fit(logits, cases.y), make(score_kind="logit").fit(logits + shift, cases.y)
    # the sampler's path is a function of the numbers, and rounding differs: only point estimates are compared closely
    tolerance = 1e-8 if one._is_point else 0.15
    np.testing.assert_allclose(other.predict_proba(logits - shift), one.predict_proba(logits), rtol=0, atol=tolerance)


@several_classes
def test_far_logits_and_probabilities_of_zero(make: Make, fitted: Calibrator, cases) -> None:
    far = [[1e300, -1e300, 0.0], [1.7e308, -1.7e308, 0.0], [0.0, 0.0, 0.0], [-1e6, 1e6, 0.0], [50.0, 0.0, -50.0]]
    proba = make(score_kind="logit").fit(np.log(cases.scores), cases.y).predict_proba(far)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    scores, y = cases.scores.copy(), cases.y.copy()
    scores[:3], y[:3] = np.eye(3), [0, 0, 1]  # certain and right, certain and wrong
    with pytest.warns(bc.CalibrationWarning, match="2 cases are of a class to which their scores give probability 0"):
        cal = make().fit(scores, y)
    assert np.isfinite(cal.predict_proba(np.eye(3))).all()
    if hasattr(cal, "idata_"):
        assert np.isfinite(cal.idata_.log_likelihood.y).all()


@several_classes
def test_rows_that_do_not_sum_to_one_are_refused(make: Make, fitted: Calibrator, cases) -> None:
    wrong = cases.scores.copy()
    wrong[7] = [0.2, 0.2, 0.1]
    for ask in (lambda: make().fit(wrong, cases.y), lambda: fitted.predict_proba(wrong)):
        with pytest.raises(bc.ScoreValueError, match=r"sum to 1 .*1 of 60 do not, first 0\.5 at row 7.*'logit'"):
            ask()
    assert fitted.predict_proba(cases.scores.round(4)).shape == (60, 3)  # as tables are written


@several_classes
def test_raw_scores_are_refused(make: Make, cases) -> None:
    with pytest.raises(bc.ParameterValueError, match=r"score_kind must be one of 'proba', 'logit', got 'raw'"):
        make(score_kind="raw").fit(*cases)


@several_classes
def test_logits_too_far_apart_are_refused(make: Make, cases) -> None:
    logits = np.log(cases.scores)
    logits[7, 1] = -2e6
    with pytest.raises(bc.ScoreValueError, match=r"within 1e\+06 of each other"):
        make(score_kind="logit").fit(logits, cases.y)


@several_classes
def test_other_columns_than_those_of_the_fit_are_refused(fitted: Calibrator, grid: np.ndarray) -> None:
    for wrong in (grid[:, :2], np.repeat(grid, 2, axis=1)):
        with pytest.raises(bc.ScoreValueError, match="must have 3 columns, one for each class of the fit"):
            fitted.predict_proba(wrong)
    with pytest.raises(bc.ScoreValueError, match="2 dimensions"):
        fitted.predict_proba(grid[:, 0])


# Tables


@several_classes
def test_table_has_a_row_for_each_case_and_class(posterior: Calibrator, grid: np.ndarray) -> None:
    drawn = posterior.proba_draws(grid).to_numpy().reshape(-1, *grid.shape)
    table = posterior.predict_table(grid, ci_prob=0.8)
    assert table.columns.tolist() == ["mean", "sd", "lower", "upper"]
    assert table.index.names == ["obs", "class"]
    assert table.attrs == {"ci_prob": 0.8}
    expected = {
        "mean": drawn.mean(axis=0),
        "sd": drawn.std(axis=0),
        "lower": np.quantile(drawn, 0.1, axis=0),
        "upper": np.quantile(drawn, 0.9, axis=0),
    }
    for name, values in expected.items():
        wide = table[name].unstack("class")
        assert wide.columns.tolist() == [0, 1, 2]
        np.testing.assert_allclose(wide, values, rtol=0, atol=1e-12)


@several_classes
def test_table_of_classes_keeps_the_index(posterior: Calibrator, grid: np.ndarray) -> None:
    index = pd.Index(["ann", "bob", "ann"], name="patient")
    table = posterior.predict_table(pd.DataFrame(grid[20:23], index=index))
    assert table.index.names == ["patient", "class"]
    assert table.index.get_level_values("patient").tolist() == ["ann"] * 3 + ["bob"] * 3 + ["ann"] * 3
    np.testing.assert_array_equal(table, posterior.predict_table(grid[20:23]))
