"""Section C: beta calibration."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.bernstein import bernstein_basis
from bayescal.calibrators.beta import BetaCalibrator

Make = Callable[..., Calibrator]


def beta_map(p: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
    """The library's map at given parameters."""
    cal = BetaCalibrator()
    parameters = {"a": np.array([a]), "b": np.array([b]), "c": np.array([c])}
    return expit(cal._log_odds(cal._features(cal._coordinate(p, {}), {}), parameters))[0]


# Case 17: all parameters are used


def test_case_17_midpoint_enters_as_c() -> None:
    a, b, m = 2.0, 0.5, 0.3
    c = b * np.log1p(-m) - a * np.log(m)
    assert c == pytest.approx(2.2296081, abs=1e-7)  # computed
    found = beta_map(np.array([0.3, 0.6, 0.05]), a, b, c)
    assert found == pytest.approx([0.5, 0.8410555, 0.0232890], abs=1e-7)  # derived: f(m) = 1/2; computed


def test_case_17_symmetric_variant_crosses_at_the_midpoint() -> None:
    m = 0.3
    found = beta_map(np.array([m]), 1.7, 1.7, 1.7 * (np.log1p(-m) - np.log(m)))
    assert found == pytest.approx([0.5], abs=1e-12)  # derived


SCORES = np.linspace(0.02, 0.98, 40)
OUTCOMES = np.tile([0, 0, 1, 0, 1, 1, 1, 0], 5)
GRID = np.array([0.001, 0.1, 0.35, 0.5, 0.8, 0.999])

BY_HAND: dict[str, Callable] = {
    "platt": lambda d, s: expit(d["intercept"] + d["slope"] * np.log(s / (1 - s))),
    "beta": lambda d, s: expit(d["c"] + d["a"] * np.log(s) - d["b"] * np.log(1 - s)),
    "bernstein": lambda d, s: bernstein_basis(np.array([s]), len(d["coefficients"]) - 1)[0] @ d["coefficients"],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_case_17_predictions_can_be_recomputed_from_the_estimate(calibrator: Make, name: str) -> None:
    cal = calibrator(name, inference="point").fit(SCORES, OUTCOMES)
    by_hand = [BY_HAND[name](cal.point_estimate_, s) for s in GRID]
    assert cal.predict_proba(GRID)[:, 1] == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize("name", BY_HAND)
def test_case_17_draws_can_be_recomputed_from_the_posterior(calibrator: Make, name: str) -> None:
    cal = calibrator(name).fit(SCORES, OUTCOMES)
    posterior = cal.idata_.posterior
    for k, s in enumerate(GRID):
        for chain, draw in ((0, 0), (1, 7)):
            one = {v: posterior[v].to_numpy()[chain, draw] for v in posterior.data_vars}
            found = cal.proba_draws(GRID).to_numpy()[chain, draw, k, 1]
            assert found == pytest.approx(BY_HAND[name](one, s), abs=1e-9)


# Case 18: the constrained optimum

P = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
Y = np.array([1, 0, 1, 0, 0, 0, 1, 1, 1, 1])


def test_case_18_exponents_do_not_turn_negative() -> None:
    cal = BetaCalibrator(inference="point").fit(np.tile(P, 2), np.tile(Y, 2))
    estimate = cal.point_estimate_
    # computed with scipy under a, b >= 0; without the constraint a = -4.03, and the map is not monotone
    found = [estimate[name].item() for name in "abc"]
    assert found == pytest.approx([0.0, 1.958956, -0.909028], abs=1e-5)
    assert cal.predict_proba([0.05, 0.9])[:, 1] == pytest.approx([0.308200, 0.973445], abs=1e-6)
    assert (np.diff(cal.predict_proba(np.linspace(0, 1, 501))[:, 1]) >= 0).all()


def test_case_18_every_draw_increases(calibrator: Make) -> None:
    cal = calibrator("beta").fit(np.tile(P, 2), np.tile(Y, 2))
    assert all((cal.idata_.posterior[name] > 0).all() for name in "ab")
    drawn = cal.proba_draws(np.linspace(0, 1, 501)).to_numpy()[..., 1]
    assert np.diff(drawn, axis=-1).min() >= -1e-14
