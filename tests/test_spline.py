"""The spline: what it is made of, its estimate, and assessments of forecasts that fall."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import bayescal as bc
from bayescal.calibrators.spline import (
    bends_at,
    choose_roughness,
    fit_bends,
    learn_bends,
    natural_splines,
    unit_penalty,
)


def test_bends_have_the_unit_penalty_and_no_line(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, weight = rng.normal(size=80), rng.integers(1, 4, 80).astype(float)
    bends = learn_bends(x, weight)
    found = bends_at(x, bends)
    np.testing.assert_allclose((weight * found.T) @ np.column_stack([np.ones(80), x]), 0.0, rtol=0, atol=1e-9)
    assert np.mean((bends_at(bends["knots"], bends) ** 2).sum(axis=1)) == pytest.approx(1.0, rel=1e-9)
    # the integral of products of second derivatives, which are lines between knots: Simpson's rule is exact
    knots = np.array([0.0, 0.1, 0.25, 0.6, 0.7, 1.0])
    shapes = unit_penalty(knots)
    steps = np.sort(np.concatenate([knots, (knots[1:] + knots[:-1]) / 2]))
    second = (np.abs(steps[:, None] - knots) / 2) @ shapes
    gram = sum(
        (steps[k + 2] - steps[k]) / 6 * (np.outer(a, a) + 4 * np.outer(b, b) + np.outer(c, c))
        for k in range(0, len(steps) - 2, 2)
        for a, b, c in [second[k : k + 3]]
    )
    np.testing.assert_allclose(gram, np.eye(4), rtol=0, atol=1e-9)


def test_curve_is_straight_beyond_the_knots_and_smooth_at_them(random_seed: int) -> None:
    x = np.random.default_rng(random_seed).normal(size=60)
    bends = learn_bends(x, np.ones(60))
    for end, side in ((bends["knots"][0], -1), (bends["knots"][-1], 1)):
        out = natural_splines(end + side * np.array([0.0, 1.0, 2.0, 5.0]), bends["knots"], bends["shapes"])
        np.testing.assert_allclose(out[2:] - out[0], np.outer([2.0, 5.0], out[1] - out[0]), rtol=0, atol=1e-9)
        h = 1e-5
        left, at, right = natural_splines(end + h * np.array([-1.0, 0.0, 1.0]), bends["knots"], bends["shapes"])
        # the slope is continuous, and so is the second derivative, which is 0 there: differences of the order of h^3
        np.testing.assert_allclose(right - at, at - left, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("scores", "bends"), [([0.4] * 9, 0), ([0.2, 0.6] * 5, 0), ([0.2, 0.4, 0.6] * 4, 1)])
def test_few_distinct_scores_have_few_bends(scores: list[float], bends: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal = bc.SplineCalibrator(inference="point").fit(scores, np.arange(len(scores)) % 2)
    assert len(cal.point_estimate_.get("bends", ())) == bends


def test_estimate_maximises_the_penalised_likelihood(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x = rng.normal(size=50)
    features = np.column_stack([x, bends_at(x, learn_bends(x, np.ones(50)))])
    successes, totals = rng.uniform(0.05, 0.95, 50), np.ones(50)

    def loss(b: np.ndarray) -> float:
        eta = b[0] + b[1] * x + 0.8 * features[:, 1:] @ b[2:]
        return float((np.logaddexp(0, eta) - successes * eta).sum() + b[2:] @ b[2:] / 2)

    expected = minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-6})
    # BFGS stops at a gradient of 1e-6 or at the rounding of differences; curvatures of bends are at least 1
    np.testing.assert_allclose(fit_bends(features, successes, totals, 0.8), expected.x, rtol=0, atol=1e-4)


def test_roughness_is_that_of_the_curve_where_cases_abound() -> None:
    # of 10^7 cases at each of 40 scores the bends are known, and the likelihood of tau is that of tau z_j: largest at
    # the root mean square of tau z_j; among a grid of ratio 1.26
    x = np.linspace(-2.5, 2.5, 40)
    features = np.column_stack([x, bends_at(x, learn_bends(x, np.ones(40)))])
    totals = np.full(40, 1e7)
    curve = 0.3 - x + features[:, 1:] @ np.array([2.0, -1.0, 1.5, 0.5, -2.0, 1.0, 0.0, 1.0])
    found = choose_roughness(features, totals * expit(curve), totals)
    expected = np.sqrt(np.mean(np.array([2.0, -1.0, 1.5, 0.5, -2.0, 1.0, 0.0, 1.0]) ** 2))
    assert expected / 1.26 < found < expected * 1.26
    assert choose_roughness(features, totals * expit(0.3 - x), totals) <= 0.05  # the least of the grid, or 0


def falling(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three hundred forecasts after which events were the rarer, the surer they were promised."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, 300)
    return (rng.random(300) < expit(-logit(p))).astype(int), p


def test_assessment_of_a_falling_forecast(random_seed: int) -> None:
    y, p = falling(random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bc.assess(y, p, curve="spline", random_state=1, progressbar=False)
        rising = bc.assess(y, p, curve="platt", random_state=1, progressbar=False)
    low, high = found.curve_at([0.2, 0.8])["mean"].to_numpy()
    assert low > 0.6 and high < 0.4  # 0.8 and 0.2; a rising curve says 0.5 of both
    # of outcomes with probability 1 - p the mean distance is that of p and 1 - p, 0.45
    assert found.draws["ici"].mean() > rising.draws["ici"].mean() + 0.1
    assert found.monotonicity_p_value > 0.001 >= rising.monotonicity_p_value


def test_predictions_of_a_large_batch_follow_a_narrow_bump() -> None:
    # answers of rising curves are interpolated in a large batch, which would cut this one
    x = np.linspace(0.02, 0.98, 400)
    y = (np.arange(400) % 10 < 10 * (0.1 + 0.8 * np.exp(-(((x - 0.5) / 0.08) ** 2)))).astype(int)
    cal = bc.SplineCalibrator(draws=50, tune=100, chains=2, random_state=1, progressbar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal.fit(x, y)
    many = np.concatenate([np.linspace(1e-9, 1e-3, 20_000), np.linspace(0.3, 0.7, 21)])
    np.testing.assert_allclose(cal.predict_proba(many)[-21:], cal.predict_proba(many[-21:]), rtol=0, atol=1e-12)


def test_a_stack_with_a_spline_in_it_may_fall(random_seed: int) -> None:
    y, p = falling(random_seed)
    cal = bc.StackedCalibrator(members=("platt", "spline"), draws=100, tune=100, chains=2, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal.fit(p, y)
    assert not cal._rises
    assert cal.weights_["spline"] > 0.9
