"""Point metrics: `bayescal.metrics` against other packages and against values derived by hand.

`data/metrics/recorded.json` holds forecasts and what scikit-learn, statsmodels, relplot, model-diagnostics,
uncertainty-calibration and scikit-misc say of them; `record.py` beside it made it.
"""

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

import bayescal as bc
from bayescal import metrics
from bayescal.calibrators.base import Calibrator
from bayescal.evaluation.metrics.bins import in_bins
from bayescal.evaluation.metrics.smooth import calibration_distances

RECORDED = json.loads((Path(__file__).parent / "data/metrics/recorded.json").read_text(encoding="utf-8"))
TWO, THREE = RECORDED["two_classes"], RECORDED["three_classes"]
Y, P, W = (np.array(TWO[key]) for key in ("y", "p", "w"))
CODES, SEVERAL = np.array(THREE["y"]), np.array(THREE["p"])
EXACT = {"rel": 1e-12, "abs": 1e-14}
BINARY = [
    metrics.area_deviation,
    metrics.brier_score,
    metrics.calibration_distances,
    metrics.calibration_in_the_large,
    metrics.calibration_intercept,
    metrics.calibration_slope,
    metrics.corp_decomposition,
    metrics.debiased_ece,
    metrics.ece,
    metrics.ici,
    metrics.log_loss,
    metrics.mce,
    metrics.proba_loss,
    metrics.smooth_ece,
    metrics.spiegelhalter_z,
]
OF_CLASSES = [
    metrics.brier_score,
    metrics.class_wise_ece,
    metrics.class_wise_mce,
    metrics.log_loss,
    metrics.proba_loss,
    metrics.top_label_ece,
    metrics.top_label_mce,
]


def test_every_metric_is_in_one_of_the_lists() -> None:
    listed = {f.__name__ for f in BINARY + OF_CLASSES} | {"grid_errors", "net_benefit", "weight_mse"}
    assert listed == set(metrics.__all__)


# ------------------------------------------------------------------------------
# Against other packages
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "weight"), [("", None), ("_weighted", W)], ids=["plain", "weighted"])
def test_scores_are_scikit_learns(suffix: str, weight: np.ndarray | None) -> None:
    found = TWO["found"]
    assert metrics.brier_score(Y, P, sample_weight=weight) == pytest.approx(found["brier" + suffix], **EXACT)
    assert metrics.log_loss(Y, P, sample_weight=weight) == pytest.approx(found["log_loss" + suffix], **EXACT)


def test_scores_of_several_classes_are_scikit_learns() -> None:
    assert metrics.brier_score(CODES, SEVERAL) == pytest.approx(THREE["found"]["brier"], **EXACT)
    half = metrics.brier_score(CODES, SEVERAL, scale_by_half=True)
    assert half == pytest.approx(THREE["found"]["brier"] / 2, **EXACT)
    assert metrics.log_loss(CODES, SEVERAL) == pytest.approx(THREE["found"]["log_loss"], **EXACT)


@pytest.mark.parametrize("n_bins", [5, 10, 15])
def test_bins_of_equal_width_are_scikit_learns(n_bins: int) -> None:
    found = TWO["found"]["equal_width"][str(n_bins)]
    assert metrics.ece(Y, P, n_bins=n_bins) == pytest.approx(found["ece"], **EXACT)
    assert metrics.mce(Y, P, n_bins=n_bins) == pytest.approx(found["mce"], **EXACT)


@pytest.mark.parametrize("n_bins", [5, 10, 15])
def test_bins_of_equal_mass_are_those_of_uncertainty_calibration(n_bins: int) -> None:
    found = TWO["found"]["ece_equal_mass"][str(n_bins)]
    assert metrics.ece(Y, P, n_bins=n_bins, strategy="quantile") == pytest.approx(found, **EXACT)


def test_debiased_errors_are_those_of_uncertainty_calibration() -> None:
    found = TWO["found"]
    square = metrics.debiased_ece(Y, P, strategy="quantile", norm="l2")
    assert square == pytest.approx(found["rms_debiased_equal_mass"], **EXACT)
    simulated = found["debiased_equal_mass"]  # mean of 400 calls that simulate what has a closed form here
    absolute = metrics.debiased_ece(Y, P, strategy="quantile")
    assert absolute == pytest.approx(simulated["mean"], abs=4 * simulated["standard_error"])


def test_errors_of_classes_are_those_of_uncertainty_calibration() -> None:
    found = THREE["found"]
    assert metrics.top_label_ece(CODES, SEVERAL) == pytest.approx(found["top_label"], **EXACT)
    assert metrics.class_wise_ece(CODES, SEVERAL) == pytest.approx(found["class_wise"], **EXACT)
    by_mass = metrics.class_wise_ece(CODES, SEVERAL, strategy="quantile")
    assert by_mass == pytest.approx(found["class_wise_equal_mass"], **EXACT)


@pytest.mark.parametrize(("name", "weight"), [("logistic", None), ("logistic_weighted", W)], ids=["plain", "weighted"])
def test_slope_and_intercepts_are_those_of_statsmodels(name: str, weight: np.ndarray | None) -> None:
    found = TWO["found"][name]
    # both stop when steps are below 1e-9
    assert metrics.calibration_slope(Y, P, sample_weight=weight) == pytest.approx(found["slope"], abs=1e-8)
    assert metrics.calibration_intercept(Y, P, sample_weight=weight) == pytest.approx(found["intercept"], abs=1e-8)
    in_the_large = metrics.calibration_in_the_large(Y, P, sample_weight=weight)
    assert in_the_large == pytest.approx(found["in_the_large"], abs=1e-8)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("corp_brier", {}), ("corp_brier_weighted", {"sample_weight": W}), ("corp_log", {"score": "log"})],
)
def test_corp_is_that_of_model_diagnostics(name: str, settings: dict[str, Any]) -> None:
    assert metrics.corp_decomposition(Y, P, **settings)._asdict() == pytest.approx(TWO["found"][name], **EXACT)


def test_corp_of_a_published_forecast() -> None:
    # printed in the README of the authors' R package reliabilitydiag (EMOS at Niamey), to three digits
    days = bc.datasets.load_rain_niamey()
    parts = metrics.corp_decomposition(days["rain"], days["emos"])
    assert [float(f"{part:.3g}") for part in parts] == [0.232, 0.0183, 0.0305, 0.244]


def test_distances_are_those_of_loess() -> None:
    # scikit-misc runs the loess of Cleveland, Grosse and Shyu that R's default is
    assert metrics.calibration_distances(Y, P)._asdict() == pytest.approx(TWO["found"]["loess"], rel=1e-9)
    assert metrics.ici(Y, P) == metrics.calibration_distances(Y, P).ici


def test_smooth_ece_is_that_of_relplot() -> None:
    # relplot halves [0, 1] ten times for the width
    assert metrics.smooth_ece(Y, P) == pytest.approx(TWO["found"]["smooth_ece"], abs=2**-10)


# ------------------------------------------------------------------------------
# Against values derived by hand
# ------------------------------------------------------------------------------


def test_smooth_ece_is_its_definition() -> None:
    y, p = np.array([0, 1, 1, 0, 1]), np.array([0.0, 0.11, 0.42, 0.77, 1.0])
    sigma = metrics.smooth_ece(y, p)
    images = np.array([sign * p + shift for shift in range(-4, 5, 2) for sign in (1, -1)])  # reflections at 0 and 1

    def smoothed(t: float) -> float:
        return abs(norm.pdf(t, images, sigma).sum(axis=0) @ (y - p)) / len(p)

    integral, _ = quad(smoothed, 0, 1, limit=500, epsabs=1e-9)
    assert integral == pytest.approx(sigma, abs=1e-5)  # a grid of 2^13 cells


@pytest.mark.parametrize("level", [0.0, 0.3, 0.5, 1.0])
def test_smooth_ece_of_one_level_is_its_distance(level: float) -> None:
    # all cases at one point: the integral of a density times their mean difference, whatever the width
    y = [1, 1, 1, 0, 0, 0, 0, 0]
    assert metrics.smooth_ece(y, np.full(8, level)) == pytest.approx(abs(0.375 - level), abs=1e-6)


def test_smooth_ece_of_certain_forecasts() -> None:
    assert metrics.smooth_ece([0, 1], [0.0, 1.0]) == 0.0
    assert metrics.smooth_ece([1, 1], [0.0, 0.0]) == pytest.approx(1.0)


def test_area_between_curve_and_diagonal() -> None:
    # points (0.1, 0.5) and (0.7, 0.5): +0.4 and -0.2 over a width of 0.6, crossing after 0.4: 0.08 + 0.02
    y, p = [0, 1, 0, 1], [0.1, 0.1, 0.7, 0.7]
    assert metrics.area_deviation(y, p) == pytest.approx(0.1)
    # and on one side: (0.1, 0.5), (0.5, 1): 0.4 and 0.5 over 0.4
    assert metrics.area_deviation([0, 1, 1], [0.1, 0.1, 0.5]) == pytest.approx(0.18)
    assert metrics.area_deviation([0, 1], [0.32, 0.38]) == 0.0  # a single point


def test_area_is_that_of_the_drawn_curve(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    p = rng.random(400)
    y = (rng.random(400) < 0.5).astype(int)
    bins = in_bins(p, y.astype(float), None, 10, "uniform")
    x = np.linspace(bins.stated[0], bins.stated[-1], 200_001)
    area = np.trapezoid(np.abs(np.interp(x, bins.stated, bins.observed) - x), x)
    assert metrics.area_deviation(y, p) == pytest.approx(area, abs=1e-8)  # the step squared


def test_proba_loss_is_the_probability_withheld() -> None:
    assert metrics.proba_loss([1, 0], [0.9, 0.3]) == pytest.approx((0.1 + 0.3) / 2)
    assert metrics.proba_loss([0, 2], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]], sample_weight=[1, 3]) == pytest.approx(0.35)


def test_weight_mse_is_the_mean_over_classes() -> None:
    assert metrics.weight_mse([1.0, 2.0, 0.0], [1.0, 1.0, 0.5]) == pytest.approx(1.25 / 3)
    assert metrics.weight_mse(xr.DataArray([1.0, 3.0], dims="class"), pd.Series([2.0, 3.0])) == pytest.approx(0.5)


def test_spiegelhalter_by_hand() -> None:
    # p = 0.2: 3 of 4 came; (y - p)(1 - 2 p): 3 * 0.8 * 0.6 - 0.2 * 0.6 = 1.32; variance 4 * 0.36 * 0.16 = 0.2304
    found = metrics.spiegelhalter_z([1, 1, 1, 0], [0.2] * 4)
    assert found.statistic == pytest.approx(1.32 / 0.48)
    assert found.pvalue == pytest.approx(2 * norm.sf(1.32 / 0.48))
    assert metrics.spiegelhalter_z([1, 0], [0.0, 1.0]) == (np.inf, 0.0)
    assert np.isnan(metrics.spiegelhalter_z([0, 1], [0.0, 0.5])).all()


def test_slope_of_separated_and_constant_forecasts() -> None:
    assert metrics.calibration_slope([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.9]) == np.inf  # they touch: no finite maximum
    assert metrics.calibration_slope([1, 1, 0, 0], [0.1, 0.2, 0.4, 0.9]) == -np.inf
    assert np.isnan(metrics.calibration_intercept([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9]))
    assert np.isnan(metrics.calibration_slope([0, 1], [0.3, 0.3]))
    assert np.isnan(metrics.calibration_slope([1, 1], [0.3, 0.4]))
    assert metrics.calibration_in_the_large([1, 1], [0.3, 0.4]) == np.inf
    assert metrics.calibration_in_the_large([0, 0], [0.3, 0.4]) == -np.inf
    # ln 3 - (-2 ln 3): three of four came where 1/10 was stated
    assert metrics.calibration_in_the_large([1, 1, 1, 0], [0.1] * 4) == pytest.approx(np.log(3) + np.log(9))


def test_slope_of_far_and_certain_forecasts_is_finite() -> None:
    y, p = np.tile([0, 1], 50), np.tile([0.0, 1.0, 1.0, 0.0, 0.5], 20)  # log-odds ±13.8
    assert np.isfinite(metrics.calibration_slope(y, p)) and np.isfinite(metrics.calibration_intercept(y, p))
    rare = metrics.calibration_in_the_large(np.arange(1000) < 500, np.full(1000, 1e-9))
    assert rare == pytest.approx(-logit(1e-6))  # half of them came where 1e-6 counts as stated


def test_identity_is_a_fixed_point() -> None:
    level = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
    p = np.repeat(level, 10)
    y = np.concatenate([np.arange(10) < round(10 * s) for s in level]).astype(int)  # as many as stated
    assert metrics.calibration_slope(y, p) == pytest.approx(1.0, abs=1e-9)
    assert metrics.calibration_intercept(y, p) == pytest.approx(0.0, abs=1e-9)
    assert metrics.calibration_in_the_large(y, p) == pytest.approx(0.0, abs=1e-9)
    for f in (metrics.ece, metrics.mce, metrics.smooth_ece, metrics.area_deviation):
        assert f(y, p) == pytest.approx(0.0, abs=1e-12)
    assert metrics.corp_decomposition(y, p).miscalibration == pytest.approx(0.0, abs=1e-15)


def test_log_score_of_a_certain_wrong_forecast_is_all_miscalibration() -> None:
    parts = metrics.corp_decomposition([0, 1, 1], [1.0, 0.5, 0.7], score="log")
    assert parts.score == parts.miscalibration == np.inf
    assert np.isfinite(parts.discrimination)


def test_debiased_error_by_hand() -> None:
    # one bin, 2 of 5 came, 0.8 stated: error 0.4, share's variance 0.24 / 5 or, unbiased, 0.24 / 4
    y, p = [1, 1, 0, 0, 0], np.full(5, 0.8)
    assert metrics.debiased_ece(y, p, norm="l2") == pytest.approx(np.sqrt(0.16 - 0.06))
    expectation, _ = quad(lambda x: abs(x) * norm.pdf(x, 0.4, np.sqrt(0.048)), -3, 3, points=[0])
    assert metrics.debiased_ece(y, p) == pytest.approx(0.8 - expectation, abs=1e-8)
    # a bin of one case says nothing of its spread
    assert metrics.debiased_ece([1], [0.8]) == pytest.approx(0.2) and metrics.debiased_ece([1], [0.8], norm="l2") == 0.0


def test_debiased_errors_of_calibrated_forecasts_are_smaller(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    p = rng.random((400, 300))
    y = (rng.random(p.shape) < p).astype(int)
    plain = np.mean([metrics.ece(*row) for row in zip(y, p, strict=True)])
    debiased = np.mean([metrics.debiased_ece(*row) for row in zip(y, p, strict=True)])
    # of a bin's error N(0, s^2): E|N| = s sqrt(2 / pi), and E|N(error, s^2)| is sqrt(2) times that
    assert debiased / plain == pytest.approx(2 - np.sqrt(2), abs=0.06)


# ------------------------------------------------------------------------------
# ICI: a curve of its own
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[0.2, 0.5, 0.0], [0.9, -0.4, 0.3]])
def test_distances_of_a_parabola_are_exact(shape: list[float], random_seed: int) -> None:
    # shares of the outcomes that lie on a parabola in p, by weights: the local parabola is that one
    p = np.sort(np.random.default_rng(random_seed).random(40))
    q = np.polynomial.polynomial.polyval(p, shape)
    y, w = np.repeat([0, 1], 40), np.concatenate([1 - q, q])
    found = metrics.calibration_distances(y, np.tile(p, 2), sample_weight=w)
    distance = np.sort(np.abs(q - p))
    expected = [distance.mean(), distance[19], distance[35], distance[-1]]
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_distances_with_few_distinct_probabilities() -> None:
    # one level: its share; two levels with a neighbourhood that reaches one or both: each its own
    assert metrics.calibration_distances([1, 0, 0, 0], [0.5] * 4) == (0.25, 0.25, 0.25, 0.25)
    y, p = [1, 0, 0, 0, 1, 1, 1, 0], np.repeat([0.3, 0.6], 4)
    np.testing.assert_allclose(metrics.calibration_distances(y, p), [0.1, 0.05, 0.15, 0.15], atol=1e-12)
    assert metrics.ici([1], [0.2]) == pytest.approx(0.8)


def test_many_rows_are_grouped_without_harm(random_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(random_seed)
    p = expit(rng.normal(-2, 1.5, 2200))
    y = (rng.random(2200) < p**1.3).astype(int)
    grouped = np.array(calibration_distances(y, p))
    module = inspect.getmodule(calibration_distances)
    monkeypatch.setattr(module, "MAX_POINTS", 10_000)
    exact = np.array(calibration_distances(y, p))
    monkeypatch.setattr(module, "MANY", 1000)
    monkeypatch.setattr(module, "MAX_POINTS", 2000)
    fine = np.array(calibration_distances(y, p))
    np.testing.assert_allclose(grouped, exact, atol=1e-3)
    np.testing.assert_allclose(fine, exact, atol=1e-3)
    assert not np.array_equal(fine, grouped)


def test_the_same_words_as_the_posterior() -> None:
    # the measures of a curve that is known exactly, from `bayescal.miscalibration` and from outcomes in its shares
    class Line(Calibrator):
        score_kind, classes_, _n_scores, _draw_shape = "proba", np.array([0, 1]), 1, (1, 1)

        def fit(self) -> "Line":
            return self

        def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
            return expit(0.4 + 0.8 * logit(scores))[None]

    p = np.linspace(0.05, 0.95, 50)
    q = expit(0.4 + 0.8 * logit(p))
    draws = bc.miscalibration(Line(), p).draws
    forecast = np.repeat([0, 1], 50), np.tile(p, 2)
    weight = np.concatenate([1 - q, q])
    for name in ("slope", "intercept", "in_the_large"):
        f = getattr(metrics, f"calibration_{name}")
        assert f(*forecast, sample_weight=weight) == pytest.approx(draws[name].item(), abs=1e-7)


# ------------------------------------------------------------------------------
# Grid errors of fused scores
# ------------------------------------------------------------------------------


def test_grid_errors_by_hand() -> None:
    scores = [[0.1, 0.1]] * 4 + [[0.9, 1.0]] * 5 + [[0.9, 0.1]] * 2
    y = [1, 0, 0, 0, *[1, 1, 1, 1, 0], *[1, 0]]
    found = metrics.grid_errors(y, scores, lambda s: s.prod(axis=1), n_cells=2, min_cases=4)
    np.testing.assert_allclose(found.centres, [[0.25, 0.25], [0.75, 0.75]])
    np.testing.assert_allclose(found.share, [0.25, 0.8])
    np.testing.assert_allclose(found.estimate, [0.0625, 0.5625])
    np.testing.assert_array_equal(found.cases, [4, 5])
    assert found.mce == pytest.approx(0.2375)
    assert found.ece == pytest.approx((0.1875 + 0.2375) / 2)
    weighted = metrics.grid_errors(
        y, scores, lambda s: s.prod(axis=1), n_cells=2, min_cases=4, sample_weight=[1] * 9 + [2] * 2
    )
    assert len(weighted.cases) == 3
    every = metrics.grid_errors(y, scores, lambda s: s.prod(axis=1), n_cells=2, min_cases=0)
    assert len(every.cases) == 3  # a cell without a case has no share


def test_grid_errors_of_a_calibrator_and_of_one_score(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores = rng.random((300, 2))
    y = (rng.random(300) < scores.mean(axis=1)).astype(int)
    fused = bc.BernsteinCalibrator(inference="point", degree=(2, 2)).fit(scores, y)
    found = metrics.grid_errors(y, scores, fused.predict_proba, n_cells=3, min_cases=10)
    np.testing.assert_array_equal(found.estimate, fused.predict_proba(found.centres)[:, 1])
    one = metrics.grid_errors(y, scores[:, 0], lambda s: s[:, 0], n_cells=5, min_cases=1)
    assert one.centres.shape == (5, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scores": [[0.1, 1.2], [0.3, 0.4]]}, "scores must lie in"),
        ({"min_cases": 3}, "min_cases must not be above"),
        ({"n_cells": 0}, "n_cells must be a whole number"),
        ({"n_cells": 10_000}, "at most 16777216 cells"),
        ({"predict_proba": lambda s: np.full(len(s), 2.0)}, "predict_proba\\(centres\\) must lie"),
        ({"predict_proba": lambda s: np.full(len(s) + 1, 0.5)}, "predict_proba must return shape"),
    ],
)
def test_grid_errors_refuse(change: dict[str, Any], says: str) -> None:
    given = {"scores": [[0.1, 0.2], [0.3, 0.4]], "predict_proba": lambda s: s[:, 0], "min_cases": 1, **change}
    with pytest.raises(ValueError, match=says):
        metrics.grid_errors([0, 1], given.pop("scores"), given.pop("predict_proba"), **given)


# ------------------------------------------------------------------------------
# Input
# ------------------------------------------------------------------------------


def test_signature_is_scikit_learns() -> None:
    for f in BINARY + OF_CLASSES:
        first, second, *rest = inspect.signature(f).parameters.values()
        assert (first.name, second.name) == ("y_true", "y_proba")
        assert all(p.kind is p.KEYWORD_ONLY for p in rest)
        assert rest[0].name == "sample_weight" and rest[0].default is None


@pytest.mark.parametrize("f", BINARY, ids=lambda f: f.__name__)
def test_labels_of_any_kind_and_either_positive_class(f: Any) -> None:
    expected = f(Y, P)
    for names in (np.array(["no", "yes"]), np.array([-1, 1]), np.array([False, True]), np.array([3.0, 7.0])):
        np.testing.assert_array_equal(f(names[Y], P), expected)
        np.testing.assert_array_equal(f(names[Y], P, pos_label=names[1]), expected)
    # the other class's probability, called positive
    np.testing.assert_array_equal(f(1 - Y, P, pos_label=0), expected)
    np.testing.assert_array_equal(f(np.array(["yes", "a no"])[Y], P, pos_label="a no"), expected)


@pytest.mark.parametrize("f", OF_CLASSES, ids=lambda f: f.__name__)
def test_columns_follow_labels(f: Any) -> None:
    names, expected = np.array(["ape", "bee", "cow"]), f(CODES, SEVERAL)
    assert f(names[CODES], SEVERAL) == expected
    turned = SEVERAL[:, [2, 0, 1]]
    assert f(names[CODES], turned, labels=["cow", "ape", "bee"]) == pytest.approx(expected, **EXACT)
    assert f(names[CODES], pd.DataFrame(turned, columns=["cow", "ape", "bee"])) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("f", [metrics.class_wise_ece, metrics.top_label_ece, metrics.top_label_mce])
def test_two_classes_of_metrics_of_several(f: Any) -> None:
    assert f(Y, P) == f(Y, np.column_stack([1 - P, P]))
    if f is metrics.class_wise_ece:  # rows of one class mirror the other's, and edges of bins the other side
        assert f(Y, P) == pytest.approx(metrics.ece(Y, P), **EXACT)


def test_a_pair_reads_its_columns_by_label() -> None:
    y, pair = np.array(["no", "yes", "yes"]), [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    assert metrics.brier_score(y, pair) == pytest.approx((0.04 + 0.09 + 0.36) / 3)
    assert metrics.brier_score(y, pair, pos_label="no") == pytest.approx((0.04 + 0.09 + 0.36) / 3)
    assert metrics.brier_score(y, pair, labels=["yes", "no"]) == pytest.approx((0.64 + 0.49 + 0.16) / 3)
    named = pd.DataFrame(pair, columns=["yes", "no"])
    assert metrics.brier_score(y, named) == pytest.approx((0.64 + 0.49 + 0.16) / 3)
    assert metrics.ece(["yes"], named[:1], pos_label="yes") == pytest.approx(0.2)
    assert metrics.ece(["no"], pair[:1], pos_label="yes") == pytest.approx(0.2)


BAD = [
    ([0, 1], [0.2, 1.01], {}, bc.ScoreValueError, "y_proba must lie in .0, 1. as probabilities do; 1 of 2"),
    ([0, 1], [0.2, np.nan], {}, bc.ScoreValueError, "y_proba must be finite; 1 of 2"),
    ([0, 1], [], {}, bc.ScoreValueError, "at least one row"),
    ([0, 1], ["a", "b"], {}, bc.ScoreValueError, "y_proba must hold numbers"),
    ([0, 1, 1], [0.2, 0.7], {}, bc.LabelValueError, "y_true has 3 labels for 2 rows"),
    ([0, 1, 2], [0.2, 0.7, 0.1], {}, bc.LabelValueError, "y_true must hold two classes, got 3"),
    ([0, None], [0.2, 0.7], {}, bc.LabelValueError, "missing labels"),
    (["a", "a"], [0.2, 0.7], {}, bc.LabelValueError, "single class 'a'.*Pass pos_label"),
    (["a", "a"], [[0.2, 0.8]] * 2, {"pos_label": "a"}, bc.LabelValueError, "which of the two columns"),
    ([0, 1], [0.2, 0.7], {"pos_label": 2}, bc.ParameterValueError, "pos_label must be one of the labels .0, 1., got 2"),
    ([0, 1], [0.2, 0.7], {"pos_label": [0, 1]}, bc.ParameterValueError, "pos_label must be one label, got .0, 1."),
    ([0, 0], [0.2, 0.7], {"pos_label": np.nan}, bc.ParameterValueError, "pos_label must be one label, got nan"),
    (["a", "a"], [0.2, 0.7], {"pos_label": 1}, bc.ParameterValueError, "pos_label must be a label of the kind"),
    ([0, 1], [[0.2, 0.7], [0.5, 0.5]], {}, bc.ScoreValueError, "two-column y_proba must sum to 1"),
    ([0, 1], [0.2, 0.7], {"sample_weight": [1, -1]}, bc.WeightValueError, "nonnegative"),
    ([0, 1], [0.2, 0.7], {"sample_weight": [1, 1, 1]}, bc.WeightValueError, "sample_weight must have shape"),
]


@pytest.mark.parametrize("f", BINARY, ids=lambda f: f.__name__)
def test_bad_input_of_two_classes(f: Any) -> None:
    for y, p, settings, error, says in BAD:
        with pytest.raises(error, match=says):
            f(y, p, **settings)


@pytest.mark.parametrize("f", OF_CLASSES, ids=lambda f: f.__name__)
def test_bad_input_of_several_classes(f: Any) -> None:
    p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
    for y, proba, settings, error, says in [
        ([0, 1], [[0.2, 0.2, 0.1], [0.1, 0.8, 0.1]], {}, bc.ScoreValueError, "rows of y_proba must sum to 1"),
        ([0, 1], [[0.5, 0.6, -0.1], [0.1, 0.8, 0.1]], {}, bc.ScoreValueError, "y_proba must lie in"),
        (["a", "b"], p, {}, bc.LabelValueError, "cannot be guessed. Pass labels=.*, the labels in column order"),
        (
            ["a", "d"],
            p,
            {"labels": ["a", "b", "c"]},
            bc.LabelValueError,
            "y_true holds 'd', which is not among labels=",
        ),
        (["a", "b"], p, {"labels": ["a", "b"]}, bc.ParameterValueError, "labels must name 3 different labels"),
        ([0, 1, 2, 3], p * 2, {}, bc.LabelValueError, "y_true holds 4 classes .* but y_proba has 3 columns"),
    ]:
        with pytest.raises(error, match=says):
            f(y, proba, **settings)


@pytest.mark.parametrize("f", [metrics.brier_score, metrics.log_loss, metrics.proba_loss])
def test_pos_label_says_nothing_of_several_classes(f: Any) -> None:
    with pytest.raises(bc.ParameterValueError, match="pos_label names the positive class of two"):
        f(CODES, SEVERAL, pos_label=1)


def test_bad_settings_are_refused() -> None:
    for f, settings, says in [
        (metrics.ece, {"n_bins": 0}, "n_bins must be a whole number"),
        (metrics.mce, {"strategy": "kmeans"}, "strategy must be one of 'uniform', 'quantile'"),
        (metrics.debiased_ece, {"norm": "max"}, "norm must be one of"),
        (metrics.class_wise_ece, {"average": "micro"}, "average must be one of"),
        (metrics.corp_decomposition, {"score": "crps"}, "score must be one of"),
        (metrics.ici, {"span": 0}, "span must be a number between 0 and 1"),
        (metrics.brier_score, {"scale_by_half": "yes"}, "scale_by_half must be True, False or 'auto'"),
    ]:
        with pytest.raises(bc.ParameterValueError, match=says):
            f([0, 1], [0.2, 0.7], **settings)
    for true, estimated, says in [
        ([1.0, 2.0], [1.0], "must hold the same classes, got 2 and 1"),
        ([1.0, -1.0], [1.0, 1.0], "w_true must be one finite number for each class"),
        ([1.0, 1.0], [1.0, np.inf], "w_estimated must be one finite number for each class"),
    ]:
        with pytest.raises(bc.ParameterValueError, match=says):
            metrics.weight_mse(true, estimated)


def test_callers_arrays_are_not_changed_and_may_be_read_only() -> None:
    y, p, several = Y.copy(), P.copy(), SEVERAL.copy()
    for array in (y, p, several):
        array.setflags(write=False)
    for f in BINARY:
        f(y, p, sample_weight=W)
    for f in OF_CLASSES:
        f(CODES, several)
    np.testing.assert_array_equal(p, P)
    np.testing.assert_array_equal(several, SEVERAL)


def test_metrics_warn_of_nothing_at_the_ends() -> None:
    y, p = [0, 1, 0, 1, 1], [0.0, 1.0, 1.0, 0.0, 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in BINARY:
            f(y, p)


def test_agreement_with_the_scikit_learn_at_hand(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    p, w = rng.random(50), rng.random(50) + 0.1
    y = (rng.random(50) < p).astype(int)
    assert metrics.brier_score(y, p, sample_weight=w) == pytest.approx(brier_score_loss(y, p, sample_weight=w), **EXACT)
    assert metrics.log_loss(y, p, sample_weight=w) == pytest.approx(sklearn_log_loss(y, p, sample_weight=w), **EXACT)


def test_slope_solves_its_equations_wherever_it_is_finite(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    for _ in range(100):
        n = rng.integers(2, 60)
        p = expit(rng.choice([-20, -5, 0, 5, 20]) + rng.choice([0.01, 1, 5, 15]) * rng.normal(size=n))
        y = (rng.random(n) < rng.choice([0.02, 0.5, 0.9])).astype(int)
        w = 10.0 ** rng.uniform(-2, 2, n)
        x = logit(np.clip(p, 1e-6, 1 - 1e-6))
        slope, intercept, in_the_large = (
            f(y, p, sample_weight=w)
            for f in (metrics.calibration_slope, metrics.calibration_intercept, metrics.calibration_in_the_large)
        )
        share = w / w.sum()
        if np.isfinite(slope):
            residual = share * (y - expit(intercept + slope * x))
            assert residual.sum() == pytest.approx(0, abs=1e-8) and residual @ x == pytest.approx(0, abs=1e-7)
        else:
            separated = np.ptp(y) and (x[y == 1].min() >= x[y == 0].max() or x[y == 1].max() <= x[y == 0].min())
            assert separated or not np.ptp(y) or not np.ptp(x)
        if np.ptp(y):
            assert share @ expit(in_the_large + x) == pytest.approx(share @ y, abs=1e-9)


def test_slope_of_many_rows_is_that_of_the_rows(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x = rng.normal(-1, 2, 70_000)  # more than are fitted at once
    y = (rng.random(len(x)) < expit(0.3 + 0.6 * x)).astype(int)
    slope, intercept = metrics.calibration_slope(y, expit(x)), metrics.calibration_intercept(y, expit(x))
    residual = y - expit(intercept + slope * x)
    assert residual.mean() == pytest.approx(0, abs=1e-9) and np.mean(residual * x) == pytest.approx(0, abs=1e-9)
    apart = (x > 0).astype(int)
    assert metrics.calibration_slope(apart, expit(x)) == np.inf
    apart[np.argmin(x)] = 1  # one in 70,000 is on the wrong side
    assert 0 < metrics.calibration_slope(apart, expit(x)) < np.inf


def test_slope_that_hangs_on_next_to_no_weight_is_not_available() -> None:
    y, p, w = [0, 0, 1, 1, 0], [0.1, 0.2, 0.7, 0.8, 0.9], [1e6, 1e6, 1e6, 1e6, 1e-10]
    assert np.isnan(metrics.calibration_slope(y, p, sample_weight=w))
