"""Section A: logistic calibration, huge and degenerate data."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit, logit

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.beta import BetaCalibrator, beta_maximum_likelihood
from bayescal.calibrators.logistic import fit_logistic
from bayescal.registry import CALIBRATORS

Make = Callable[..., Calibrator]

# the faults are those of curves of one score; test_bad_input.py has separated, reversed and equal scores of several
ALL = [name for name, entry in CALIBRATORS.items() if entry.columns in ("one", "any")]


def log_odds_draws(cal: Calibrator, scores: np.ndarray) -> np.ndarray:
    """Draws of the log-odds of the positive class, (draws, m)."""
    return logit(cal.proba_draws(scores).to_numpy()[..., 1].reshape(-1, len(scores)))


# Case 02: input that is calibrated is a fixed point


LEVELS = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
P = np.repeat(LEVELS, 10)
Y = np.concatenate([np.r_[np.ones(round(10 * p)), np.zeros(10 - round(10 * p))] for p in LEVELS]).astype(int)


def test_case_02_logistic_on_log_odds_is_the_identity() -> None:
    intercept, slope = fit_logistic(logit(P)[:, None], Y, np.ones(60))
    assert (intercept, slope) == pytest.approx((0.0, 1.0), abs=1e-6)  # derived: the score equations hold by level


def test_case_02_beta_on_log_scores_is_the_identity() -> None:
    features = np.column_stack([np.log(P), -np.log1p(-P)])
    assert beta_maximum_likelihood(features, Y, np.ones(60)) == pytest.approx((1.0, 1.0, 0.0), abs=1e-6)  # derived
    estimate = BetaCalibrator(inference="point").fit(P, Y).point_estimate_
    assert [estimate[name].item() for name in "abc"] == pytest.approx([1.0, 1.0, 0.0], abs=1e-5)


def test_case_02_temperature_is_one() -> None:
    pairs = np.column_stack([1 - P, P])
    cal = bc.TemperatureScaling("proba", "point").fit(pairs, Y)
    np.testing.assert_allclose(cal.predict_proba(pairs), pairs, rtol=0, atol=1e-7)  # derived: the score equation holds


def test_case_02_logistic_on_the_probability_itself_is_not() -> None:
    # computed with scipy: the fault, a family that does not hold the identity
    intercept, slope = fit_logistic(P[:, None], Y, np.ones(60))
    assert slope == pytest.approx(5.005, abs=1e-3)
    assert expit(intercept + slope * np.array([0.1, 0.9])) == pytest.approx([0.119, 0.881], abs=1e-3)


@pytest.mark.parametrize("name", ["platt", "beta", "bernstein"])
def test_case_02_calibrated_probabilities_stay_as_they_are(calibrator: Make, name: str) -> None:
    # 60,000 cases leave the prior no say: sd of a level at most 0.005, and the levels share few parameters
    cal = calibrator(name).fit(P, Y, np.full(60, 1000.0))
    assert cal.predict_proba(LEVELS)[:, 1] == pytest.approx(LEVELS, abs=0.01)
    assert cal.predict_point(LEVELS)[:, 1] == pytest.approx(LEVELS, abs=1e-3)


# Case 03: perfect separation


def test_case_03_smoothed_targets_keep_the_estimate_finite() -> None:
    scores, y = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1])
    cal = bc.PlattCalibrator("logit", "point").fit(scores, y)
    estimate = cal.point_estimate_
    # computed with two optimisers: targets 3/4 and 1/4; derived: the intercept is 0 by symmetry
    assert estimate["slope"] == pytest.approx(0.6739964, abs=1e-6)
    assert estimate["intercept"] == pytest.approx(0.0, abs=1e-8)
    assert cal.predict_proba(scores)[:, 1] == pytest.approx([0.2061987, 0.3376026, 0.6623974, 0.7938013], abs=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_case_03_separated_classes_have_an_answer(calibrator: Make, name: str) -> None:
    scores = np.linspace(-2, 2, 30)
    with pytest.warns(bc.CalibrationWarning, match="separates the classes completely"):
        cal = calibrator(name, score_kind="raw").fit(scores, (scores > 0).astype(int))
    p = cal.predict_proba(scores)[:, 1]
    assert ((p > 0) & (p < 1)).all()
    assert name == "spline" or (np.diff(p) >= -1e-14).all()
    assert p[0] < 0.3 and p[-1] > 0.7
    assert cal.diagnostics_.attrs["divergences"] <= 0.1 * cal.draws * cal.chains


def test_case_03_two_rows_are_answered_symmetrically(calibrator: Make) -> None:
    cal = calibrator("platt", score_kind="logit", draws=1000, tune=500).fit([-1.0, 1.0], [0, 1])
    low, high = cal.predict_proba([-1.0, 1.0])[:, 1]
    assert low < 0.5 < high
    # derived: the prior is symmetric under s -> -s, y -> 1 - y; 2,000 draws of sd below 0.2, ESS at least a quarter
    assert low + high == pytest.approx(1.0, abs=4 * 0.2 * np.sqrt(4 / 2000))


# Case 04: scores that rank in reverse

REVERSED = np.arange(1.0, 7.0)
REVERSED_Y = np.array([1, 1, 0, 1, 0, 0])


@pytest.mark.parametrize("name", ["beta", "isotonic", "bernstein"])
def test_case_04_monotone_estimates_are_constant(calibrator: Make, name: str) -> None:
    with pytest.warns(bc.CalibrationWarning, match=r"reverse \(AUC 0\.11\)"):  # derived: 1 of 9 pairs is in order
        cal = calibrator(name, score_kind="raw", inference="point").fit(REVERSED, REVERSED_Y)
    assert cal.predict_proba(REVERSED)[:, 1] == pytest.approx(np.full(6, 0.5), abs=1e-4)  # derived: all pool to 3/6


def test_case_04_a_decreasing_estimate_is_said() -> None:
    # computed with scipy: maximum likelihood
    assert fit_logistic(REVERSED[:, None], REVERSED_Y, np.ones(6)) == pytest.approx([4.2491, -1.2140], abs=1e-3)
    with pytest.warns(bc.CalibrationWarning) as caught:
        cal = bc.PlattCalibrator("raw", "point").fit(REVERSED, REVERSED_Y)
    assert cal.point_estimate_["slope"] < 0
    assert any("the fitted map decreases" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", [name for name in ALL if name != "spline"])
def test_case_04_no_posterior_draw_decreases(calibrator: Make, name: str) -> None:
    scores = np.arange(30.0)
    with pytest.warns(bc.CalibrationWarning, match="reverse.*flipped silently"):
        cal = calibrator(name, score_kind="raw").fit(scores, (scores < 15).astype(int))
    grid = np.linspace(-5, 35, 401)
    assert np.diff(log_odds_draws(cal, grid), axis=1).min() >= -1e-9
    assert cal.predict_proba(scores)[:, 1].mean() == pytest.approx(0.5, abs=0.15)


# Case 06: a million rows, rare events, weights that are counts

FEW = (np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 1, 0, 1]), np.array([990_000, 10_000, 5_000, 5_000]))


@pytest.mark.parametrize(
    "name", [name if name == "platt" else pytest.param(name, marks=pytest.mark.slow) for name in ALL]
)
def test_case_06_a_million_rows(calibrator: Make, name: str) -> None:
    scores, y, count = FEW
    many = np.repeat(scores, count), np.repeat(y, count)
    weighted = calibrator(name).fit(scores, y, count)
    start = time.perf_counter()
    tracemalloc.start()
    cal = calibrator(name).fit(*many)
    interval = cal.predict_interval(many[0])
    assert cal.idata_.attrs["pointwise"].startswith("left out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.perf_counter() - start < 120  # seconds, on a loaded machine; draws x rows would be 1.9 GB even here
    assert peak < 600e6
    assert interval.shape == (1_010_000, 2, 2)
    p = cal.predict_proba([0.0, 1.0])[:, 1]
    np.testing.assert_allclose(weighted.predict_proba([0.0, 1.0])[:, 1], p, rtol=0, atol=1e-12)
    assert p == pytest.approx([0.01, 0.5], abs=5e-3)  # derived: two levels, so the fractions; sd 0.0001 and 0.005


def test_case_06_the_logistic_is_saturated(calibrator: Make) -> None:
    scores, y, count = FEW
    cal = calibrator("platt", score_kind="logit", draws=1000, tune=500).fit(scores, y, count)
    found = cal.idata_.posterior.mean()
    # derived: logit 0.01 and logit 0.5 - logit 0.01; the prior moves them by less than 1e-2
    assert float(found.intercept) == pytest.approx(-4.59511985, abs=1e-2)
    assert float(found.slope) == pytest.approx(4.59511985, abs=1e-2)


# Case 07: constant scores

CONSTANT = np.full(10, 0.7)
CONSTANT_Y = np.r_[np.ones(3), np.zeros(7)].astype(int)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("platt", 0.317778),  # derived: (3 * 4/5 + 7 * 1/9) / 10
        ("beta", 0.317778),  # the classes do not overlap, so smoothed targets here too
        ("isotonic", 0.3),  # derived: 3 of 10
        ("bernstein", 0.3),
    ],
)
def test_case_07_estimate_at_constant_scores_is_the_base_rate(calibrator: Make, name: str, expected: float) -> None:
    with pytest.warns(bc.CalibrationWarning, match="all scores are equal"):
        cal = calibrator(name, inference="point").fit(CONSTANT, CONSTANT_Y)
    low, at, high = cal.predict_proba([0.1, 0.7, 0.95])[:, 1]
    assert at == pytest.approx(expected, abs=1e-5)
    assert low <= at + 1e-12 and at <= high + 1e-12


@pytest.mark.parametrize("name", ALL)
def test_case_07_posterior_at_constant_scores(calibrator: Make, name: str) -> None:
    with pytest.warns(bc.CalibrationWarning, match="all scores are equal"):
        cal = calibrator(name).fit(CONSTANT, CONSTANT_Y)
    low, at, high = cal.predict_proba([0.1, 0.7, 0.95])[:, 1]
    assert low <= at <= high
    assert 0.2 < at < 0.5  # 3 of 10, drawn towards the prior's 0.7
    lower, upper = cal.predict_interval([0.7])[0, 1]
    assert lower < 0.3 < upper
    if name in ("platt", "beta", "bernstein"):  # elsewhere only the prior speaks
        spread = log_odds_draws(cal, np.array([0.1, 0.7, 0.95])).std(axis=0)
        assert spread[1] < spread[0] and spread[1] < spread[2]


def test_case_07_standardising_constant_raw_scores(calibrator: Make) -> None:
    with pytest.warns(bc.CalibrationWarning, match="all scores are equal"):
        cal = calibrator("platt", score_kind="raw").fit(np.full(10, 1e9), CONSTANT_Y)
    assert np.isfinite(cal.predict_proba([1e9 - 1, 1e9, 1e9 + 1])).all()
