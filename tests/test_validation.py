"""Inputs that would be fitted as something they are not, and must be refused."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescal as bc

SCORES = np.linspace(0.05, 0.95, 20)
Y = np.tile([0, 1], 10)
MASK = np.arange(20) == 7


def fit(scores: Any, y: Any, weight: Any = None) -> bc.PlattCalibrator:
    return bc.PlattCalibrator(inference="point").fit(scores, y, weight)


def test_masked_values_are_missing_values() -> None:
    with pytest.raises(bc.ScoreValueError, match=r"scores has 1 masked values in 20 rows, first at row 7"):
        fit(np.ma.masked_array(SCORES, MASK), Y)
    with pytest.raises(bc.LabelValueError, match=r"y has 1 masked values in 20 rows, first at row 7"):
        fit(SCORES, np.ma.masked_array(Y, MASK))
    with pytest.raises(bc.WeightValueError, match=r"sample_weight has 1 masked values in 20 rows, first at row 7"):
        fit(SCORES, Y, np.ma.masked_array(np.ones(20), MASK))
    with pytest.raises(bc.ScoreValueError, match="first at row 7"):
        fit(SCORES, Y).predict_proba(np.ma.masked_array(SCORES[:, None], MASK))
    nothing_hidden = np.ma.masked_array(SCORES, np.zeros(20, dtype=bool))
    np.testing.assert_array_equal(fit(nothing_hidden, Y).predict_proba(SCORES), fit(SCORES, Y).predict_proba(SCORES))


REFUSALS = """
import sys
import bayescal as bc
from bayescal.registry import CALIBRATORS

SCORES = {"one": [0.1, 0.6, 0.9], "several": [[0.1, 0.2], [0.6, 0.7], [0.9, 0.5]]}
for name, entry in CALIBRATORS.items():
    if entry.columns not in ("one", "any", "several"):
        continue
    cls, scores = entry.load(), SCORES["several" if entry.columns == "several" else "one"]
    settings = [s for s in ({"draws": 0}, {"chains": "a"}, {"random_state": -1}) if next(iter(s)) in cls().get_params()]
    wrong_rows = [({}, [[2.0, 0.1]] * 3, [0, 1, 1]), ({}, scores, [0, 1, 2]), ({}, scores, [0, 1])]
    for given, rows, y in wrong_rows + [(s, scores, [0, 1, 1]) for s in [{"score_kind": "odds"}, *settings]]:
        try:
            cls(**given).fit(rows, y)
        except (bc.ScoreValueError, bc.LabelValueError, bc.ParameterValueError):
            continue
        raise SystemExit(f"{name} took {given}")
print(sorted({"pymc", "pytensor", "nutpie", "arviz"} & {*sys.modules}))
"""


def test_wrong_input_and_settings_are_refused_before_the_sampler_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", REFUSALS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("far", [1e300, 2e12, 1e-13, 1e-300])
def test_weights_that_drown_or_vanish_are_refused(far: float) -> None:
    weight = np.where(MASK, far, 1.0)
    with pytest.raises(bc.WeightValueError, match=r"0 or within \[1e-12, 1e\+12\]; 1 of 20 are not, first .* at row 7"):
        fit(SCORES, Y, weight)


@pytest.mark.parametrize("name", ["PlattCalibrator", "BetaCalibrator", "IsotonicCalibrator", "BernsteinCalibrator"])
@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_the_smallest_and_the_largest_weights_are_answered(name: str, size: float) -> None:
    calibrator = getattr(bc, name)(inference="point")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.CalibrationWarning)  # of hardly any cases
        p = calibrator.fit(SCORES, Y, np.full(20, size)).predict_proba(SCORES)
    assert np.isfinite(p).all()


def test_one_column_is_not_numbered() -> None:
    with pytest.raises(bc.ScoreValueError, match=r"first 84\.4 at row 1\. Divide percentages"):
        fit(np.array([[0.2], [84.4]]), [0, 1])
    with pytest.raises(bc.ScoreValueError, match=r"first 84\.4 at row 1, column 1\. Divide percentages"):
        fit(np.array([[0.2, 0.1], [0.3, 84.4]]), [0, 1])


def test_a_point_estimate_does_not_claim_a_prior() -> None:
    for y, scores in ((np.zeros(20), SCORES), (Y, np.full(20, 0.3)), (np.repeat([0, 1], 10), SCORES)):
        with pytest.warns(bc.CalibrationWarning) as caught:
            fit(scores, y)
        assert all("prior" not in str(warning.message) for warning in caught)


def test_miscalibration_of_an_array_says_what_to_pass() -> None:
    with pytest.raises(bc.ParameterValueError, match="must be a fitted calibrator, got ndarray"):
        bc.miscalibration(SCORES)


def test_labels_in_rows_of_unequal_length() -> None:
    with pytest.raises(bc.LabelValueError, match="unequal length"):
        bc.metrics.brier_score([[1], [0, 1]], [0.1, 0.2])


def test_pairs_of_half_precision() -> None:
    p = np.random.default_rng(0).random(200)
    pairs = np.column_stack([1 - p, p]).astype(np.float16)
    assert np.abs(pairs.astype(float).sum(axis=1) - 1).max() > 1e-5
    y = (p > 0.5).astype(int)
    assert bc.metrics.brier_score(y, pairs) == bc.metrics.brier_score(y, pairs[:, 1])


def shuffled(values: Any) -> Any:
    return pd.DataFrame(values).sample(frac=1, random_state=0)


ROW_ORDERS = {
    "calibrator": lambda: fit(shuffled(SCORES), pd.Series(Y)),
    "weights": lambda: fit(SCORES, pd.Series(Y), shuffled(np.ones(20))),
    "classes": lambda: bc.TemperatureScaling(inference="point").fit(shuffled(np.full((20, 3), 1 / 3)), pd.Series(Y)),
    "shift": lambda: bc.LabelShiftAdapter(calibrator=None, method="em").fit(shuffled([[0.5, 0.5]] * 20), pd.Series(Y)),
    "metric": lambda: bc.metrics.brier_score(pd.Series(Y), shuffled(SCORES)[0]),
    "metric of classes": lambda: bc.metrics.class_wise_ece(pd.Series(Y), shuffled(np.full((20, 3), 1 / 3))),
    "assess": lambda: bc.assess(pd.Series(Y), shuffled(SCORES)),
}


@pytest.mark.parametrize("call", ROW_ORDERS.values(), ids=ROW_ORDERS)
def test_one_index_in_two_orders_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(bc.ParameterValueError, match=r"same index in different orders, first at row 0.*\.loc\[y"):
        call()


def test_rows_are_paired_by_position_where_no_index_says_otherwise() -> None:
    expected = bc.metrics.brier_score(Y, SCORES)
    later = pd.Series(Y, index=np.arange(100, 120))
    assert bc.metrics.brier_score(later, pd.Series(SCORES)) == expected
    assert bc.metrics.brier_score(pd.Series(Y), pd.DataFrame({"p": SCORES})) == expected
    assert bc.metrics.brier_score(pd.Series(Y), shuffled(SCORES)[0].to_numpy()) != expected


@pytest.mark.parametrize("value", [3, "yes", 0.5])
def test_a_progress_bar_is_there_or_not(value: Any) -> None:
    with pytest.raises(bc.ParameterValueError, match="progressbar must be None"):
        bc.PlattCalibrator(progressbar=value).fit(SCORES, Y)
    with pytest.raises(bc.ParameterValueError, match="progressbar must be None"):
        bc.plan(SCORES, sizes=[10], repeats=2, progressbar=value)


@pytest.mark.parametrize("name", ["shares", "consistency", "histogram"])
def test_flags_of_the_diagram(name: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=f"{name} must be True or False, got 'x'"):
        bc.plot_reliability(fit(SCORES, Y), **{name: "x"})


def test_percent_are_told_from_shares() -> None:
    with pytest.raises(bc.ParameterValueError, match=r"ci_prob must be .* got 90\. Pass 0\.9 for 90 %\."):
        bc.plan(SCORES, ci_prob=90)
    with pytest.raises(bc.ParameterValueError, match=r"got 1\.$"):
        bc.plan(SCORES, ci_prob=1)


def test_labels_are_shown_as_a_user_writes_them() -> None:
    with pytest.warns(bc.CalibrationWarning, match="assessment of 1: all scores are equal"):
        bc.assess(Y, np.full(20, 0.5), curve="platt", random_state=0)
