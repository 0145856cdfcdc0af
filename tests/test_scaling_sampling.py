"""What makes scaling fast to sample: the fused log likelihood, and spreads drawn anew given what the cases see."""

import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import log_softmax

import bayescal as bc
from bayescal.calibrators.spreads import draw_bias_spread, draw_scale_spread
from bayescal.inference.kernels.softmax import log_likelihood, scaled_log_likelihood

SIZES = [(1, 2), (3, 3), (300, 10), (129, 40)]


def problem(rows: int, classes: int, seed: int) -> list[np.ndarray]:
    """x, counts, totals, scale, bias; some rows are far from the others, some are without cases."""
    rng = np.random.default_rng(seed)
    x = log_softmax(4 * rng.normal(size=(rows, classes)), axis=1)
    x[0, 0] = -2000.0
    counts = rng.integers(0, 3, (rows, classes)).astype(float)
    counts[rows // 2] = 0
    scale, bias = rng.lognormal(0, 0.5, classes), rng.normal(0, 1, classes)
    return [x, counts, counts.sum(axis=1), scale, bias]


def test_log_likelihood_is_that_of_the_formula(random_seed: int) -> None:
    x, counts, totals, scale, bias = problem(50, 4, random_seed)
    expected = (counts * log_softmax(scale * x + bias, axis=1)).sum()
    assert log_likelihood(x, counts, totals, scale, bias)[0] == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def compiled() -> pytensor.compile.Function:
    """Value and gradient in scale and bias, as the sampler has them."""
    given = [pt.dmatrix(), pt.dmatrix(), pt.dvector(), pt.dvector(), pt.dvector()]
    value = scaled_log_likelihood(*given)
    return pytensor.function(given, [value, *pt.grad(value, given[3:])], mode="NUMBA")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_compiled_kernel_gives_value_and_gradient(size: tuple[int, int], compiled, random_seed: int) -> None:
    given = problem(*size, random_seed)
    # the same sums in another order, and an exponential that is right to 1e-15
    for found, expected in zip(compiled(*given), log_likelihood(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * (1 + np.abs(given[0]).max() * size[0]))


def test_gradient_is_that_of_finite_differences(compiled, random_seed: int) -> None:
    given = problem(30, 3, random_seed)
    given[0][0, 0] = -5.0
    h = 1e-5
    _, *gradients = compiled(*given)
    for which, gradient in zip((3, 4), gradients, strict=True):
        for k in range(3):
            ends = []
            for step in (h, -h):
                moved = [value.copy() for value in given]
                moved[which][k] += step
                ends.append(log_likelihood(*moved)[0])
            # the error of a central difference is h^2 times a third derivative of some hundreds
            assert gradient[k] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-5, rel=1e-6)


def test_what_is_not_finite_is_not_dressed_up(compiled) -> None:
    x, counts, totals, _, bias = problem(20, 3, 0)
    for bad in (np.nan, np.inf):
        assert not np.isfinite(compiled(x, counts, totals, np.array([bad, 1.0, 1.0]), bias)[0])


# Spreads

GRID = np.linspace(-9.0, 3.0, 6001)  # of log spread


def distribution(log_density: np.ndarray) -> stats.rv_continuous:
    """The distribution function of log spread from its log density on the grid."""
    mass = np.exp(log_density - log_density.max())
    reached = np.cumsum(mass) - 0.5 * mass
    return lambda u: np.interp(u, GRID, reached / mass.sum())


@pytest.mark.parametrize("classes", [2, 3, 10, 300])
@pytest.mark.parametrize("size", [0.02, 0.3, 3.0])
def test_bias_spread_has_its_law(classes: int, size: float, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    bias, draws = rng.normal(0, size, classes), 4000
    found = draw_bias_spread(np.tile(bias, (draws, 1)), 1.3, rng)
    spread = np.exp(GRID)
    log_density = stats.halfnorm.logpdf(spread, scale=1.3) + stats.norm.logpdf(bias[:, None], 0, spread).sum(0) + GRID
    assert stats.kstest(np.log(found), distribution(log_density)).pvalue > 1e-4


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("size", [0.02, 0.3, 3.0])
def test_scale_spread_and_temperature_have_their_law(classes: int, size: float, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    log_scale, draws = 0.4 + rng.normal(0, size, classes), 4000
    found, t = draw_scale_spread(np.tile(log_scale, (draws, 1)), 0.2, 0.7, 0.5, rng)
    one = np.ones((classes, classes))
    log_density = stats.halfnorm.logpdf(np.exp(GRID), scale=0.5) + GRID
    log_density += [
        stats.multivariate_normal.logpdf(log_scale, np.full(classes, 0.2), np.exp(2 * u) * np.eye(classes) + 0.49 * one)
        for u in GRID
    ]
    assert stats.kstest(np.log(found), distribution(log_density)).pvalue > 1e-4
    # t given spread and log scales, by the normal conditional formula
    precision = classes / found**2 + 1 / 0.49
    standard = (t - (log_scale.sum() / found**2 + 0.2 / 0.49) / precision) * np.sqrt(precision)
    assert stats.kstest(standard, "norm").pvalue > 1e-4


def test_redrawing_leaves_what_the_cases_see(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    cal = bc.VectorScaling()
    draws = {
        "temperature": rng.lognormal(size=(2, 30)),
        "scale_spread": rng.uniform(0.01, 1, (2, 30)),
        "bias_spread": rng.uniform(0.01, 1, (2, 30)),
        "scale_raw": rng.normal(size=(2, 30, 5)),
        "bias_raw": rng.normal(size=(2, 30, 5)),
    }
    redraw = cal._redraw(bc.priors.VectorPriors())
    assert redraw is not None
    found = redraw(draws, rng)
    before, after = cal._with_scale_and_bias(draws), cal._with_scale_and_bias(found)
    for name in ("scale", "bias"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-10)
    for name in ("temperature", "scale_spread", "bias_spread"):
        assert (found[name] != draws[name]).all() and found[name].shape == (2, 30)


def test_biases_that_are_all_zero_have_a_finite_spread() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = draw_bias_spread(np.zeros((5, 4)), 1.0, np.random.default_rng(0))
    assert (found >= 0).all() and np.isfinite(found).all()
