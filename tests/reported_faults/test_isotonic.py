"""Section B: PAV and other monotone maps."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.bernstein import bernstein_basis
from bayescal.pav import isotonic_fit, isotonic_predict

Make = Callable[..., Calibrator]


# Case 10: zero weights


def test_case_10_zero_weight_is_no_row(calibrator: Make) -> None:
    x, y, w = np.arange(1.0, 7.0), np.array([0, 1, 0, 1, 0, 1]), np.array([1, 0, 2, 1, 0, 3.0])
    cal = calibrator("isotonic", score_kind="raw", inference="point").fit(x, y, w)
    np.testing.assert_array_equal(cal.predict_proba(x)[:, 1] >= 0.5, [0, 0, 0, 1, 1, 1])
    knots, values = isotonic_fit(x[w > 0], y[w > 0], w[w > 0])
    np.testing.assert_array_equal(cal.predict_proba(x)[:, 1], isotonic_predict(knots, values, x))
    np.testing.assert_array_equal(cal.predict_proba(x[w > 0])[:, 1], [0, 0, 1, 1])  # computed with scikit-learn


def test_case_10_all_weights_zero_is_refused(calibrator: Make) -> None:
    with pytest.raises(bc.WeightValueError, match="zero in all 4 rows"):
        calibrator("isotonic").fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], np.zeros(4))


@pytest.mark.parametrize("name", ["isotonic", "auto"])
def test_case_10_a_row_of_weight_zero_that_the_draws_rule_out(calibrator: Make, name: str) -> None:
    # a thousand negatives say that the first step is 0; the positive there has weight 0, and log 0 times 0 is 0
    scores = np.linspace(0.01, 0.99, 40)
    y = (scores > 0.5).astype(int)
    weight = np.full(40, 1000.0)
    y[0], weight[0] = 1, 0.0
    cal = calibrator(name).fit(scores, y, weight)
    assert np.isfinite(cal.predict_proba(scores)).all()
    if name == "auto":
        assert cal.weights_.sum() == pytest.approx(1.0)


# Case 11: weights that are no frequencies


@pytest.mark.parametrize("w", [[1, -1, 1, 1], [1, np.nan, 1, 1], [1, 1, 1]], ids=["negative", "NaN", "short"])
def test_case_11_bad_weights_are_named(calibrator: Make, w: list[float]) -> None:
    with pytest.raises(bc.WeightValueError, match="sample_weight must"):
        calibrator("isotonic", score_kind="raw").fit([1.0, 2, 3, 4], [0, 1, 0, 1], w)


# Case 12: scores that differ by denormal amounts


def test_case_12_pav_of_near_duplicates() -> None:
    knots, values = isotonic_fit(np.array([0.0, 3e-322, 2e-315, 1.0]), np.array([0.2, 0.2, 0.6, 0.6]), np.ones(4))
    at = isotonic_predict(knots, values, np.array([0, 1e-322, 1e-316, 1e-9, 0.5, 1]))
    assert np.isfinite(at).all()
    assert (np.diff(at) >= 0).all()
    assert at.min() >= 0.2 - 1e-15 and at.max() <= 0.6 + 1e-15  # derived: means of the responses


@pytest.mark.parametrize("name", ["platt", "beta", "isotonic", "bernstein"])
@pytest.mark.parametrize("score_kind", ["proba", "raw"])
def test_case_12_calibrators_of_near_duplicates(calibrator: Make, name: str, score_kind: str) -> None:
    scores = np.r_[np.array([0.0, 3e-322, 2e-315]), np.linspace(0.05, 1, 27)]
    y = np.r_[np.tile([0, 1, 0], 5), np.tile([1, 1, 0], 5)]
    cal = calibrator(name, score_kind=score_kind, inference="point").fit(scores, y)
    p = cal.predict_proba(np.array([0, 1e-322, 1e-316, 1e-9, 0.5, 1]))[:, 1]
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= -1e-14).all()


# Case 13: scores outside the range of the calibration rows


def test_case_13_pav_outside_the_range(calibrator: Make) -> None:
    cal = calibrator("isotonic", inference="point").fit([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    p = cal.predict_proba([0.1, 0.2, 0.5, 0.8, 0.95])[:, 1]
    assert p == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-12)  # computed with scikit-learn, out_of_bounds="clip"


def test_case_13_bernstein_clips_its_argument() -> None:
    coefficients = np.array([0.05, 0.2, 0.6, 0.9])
    value = bernstein_basis(np.array([-0.5, 0.0, 0.5, 1.0, 1.3]), 3) @ coefficients
    assert value == pytest.approx([0.05, 0.05, 0.41875, 0.9, 0.9], abs=1e-12)  # derived: weights 1/8, 3/8, 3/8, 1/8


@pytest.mark.parametrize("name", ["platt", "beta", "isotonic", "bernstein", "auto"])
def test_case_13_posteriors_outside_the_range(calibrator: Make, name: str) -> None:
    scores = np.linspace(-1, 1, 30)
    cal = calibrator(name, score_kind="raw").fit(scores, np.tile([0, 0, 1, 1, 0, 1], 5))
    p = cal.predict_proba([-1e300, -1e6, -1, 1, 1e6, 1e300])[:, 1]
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= -1e-14).all()
    if name in ("beta", "isotonic", "bernstein"):  # ranks: constant outside
        assert p[[0, 1, 4, 5]] == pytest.approx(p[[2, 2, 3, 3]], abs=1e-12)


# Case 14: what keeps the ranking

RANKED_Y = np.array([0, 0, 1, 0, 1, 0, 1, 1])


def test_case_14_pav_makes_ties(calibrator: Make) -> None:
    cal = calibrator("isotonic", score_kind="raw", inference="point").fit(np.arange(8.0), RANKED_Y)
    p = cal.predict_proba(np.arange(8.0))[:, 1]
    assert p == pytest.approx([0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1], abs=1e-12)  # derived: two violating pairs pool
    assert roc_auc_score(RANKED_Y, p) == 0.875  # derived: 14 of 16 pairs, ties half


@pytest.mark.parametrize("name", ["platt", "beta", "bernstein"])
def test_case_14_smooth_maps_keep_the_ranking(calibrator: Make, name: str) -> None:
    scores = (np.arange(8) + 0.5) / 8
    assert roc_auc_score(RANKED_Y, scores) == 0.8125  # derived: 13 of 16 pairs
    cal = calibrator(name).fit(scores, RANKED_Y)
    assert roc_auc_score(RANKED_Y, cal.predict_proba(scores)[:, 1]) == 0.8125


# Case 15: running time of PAV


def test_case_15_pav_is_linear_on_adversarial_orders() -> None:
    n = 200_000
    i = np.arange(n)
    start = time.perf_counter()
    values = isotonic_fit(i.astype(float), -i + 1.5 * (i % 2), np.ones(n))[1]
    assert time.perf_counter() - start < 2  # a quadratic one takes minutes
    assert np.unique(values) == pytest.approx([-99998.75], abs=1e-6)  # derived: one block, the mean


def test_case_15_pav_of_random_labels_is_linear(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    start = time.perf_counter()
    values = isotonic_fit(np.arange(1e6), rng.integers(0, 2, 10**6).astype(float), np.ones(10**6))[1]
    assert time.perf_counter() - start < 5
    assert (np.diff(values) >= 0).all()
    assert 0 <= values[0] < 0.5 < values[-1] <= 1
