"""The Bernstein surface of several scores: support and symmetries of its prior, its precision, its quadratic program.

That the library's model is the one in `models/bernstein_surface.py` is in `test_densities.py`, that its fits agree with
a reference posterior in `test_models.py`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binom

import bayescal as bc
from bayescal.calibrators.bernstein import BernsteinSurfacePriors, monotone_least_squares
from bayescal.calibrators.surface import (
    Lattice,
    coefficients_and_complements,
    fill,
    fusion,
    fusion_sticks,
    likelihood_power,
    make_lattice,
    surface_basis,
    surface_draws,
)
from bayescal.inference.kernels.fill import fill_nodes, fill_nodes_gradient, fill_sticks

DEGREES = [(6, 6), (2, 4), (1, 3), (4, 2, 4), (1, 2, 3), (2, 2, 2, 2)]
RUN = Mode(linker="py", optimizer="fast_run")
STANDARD_ERRORS = 5.0  # one in 1.7 million means strays farther by chance
over_degrees = pytest.mark.parametrize("degrees", DEGREES, ids=str)


def as_array(values: np.ndarray, degrees: tuple[int, ...]) -> np.ndarray:
    """Values of nodes ``(N, ...)`` on the axes of the lattice, ``(K_1 + 1, ..., K_M + 1, ...)``."""
    return values.reshape(*(k + 1 for k in degrees), *values.shape[1:])


def smallest_step(values: np.ndarray, axes: int) -> float:
    """Smallest difference of neighbours along the first `axes` axes."""
    return min(np.diff(values, axis=axis).min() for axis in range(axes))


def prior_draws(seed: int, size: int, degrees: tuple[int, ...]) -> dict[str, np.ndarray]:
    return surface_draws(np.random.default_rng(seed), size, BernsteinSurfacePriors().vector(), degrees)


# The prior's support: the monotone cone, all of it


@over_degrees
def test_draws_are_nondecreasing_over_the_lattice(degrees, random_seed):
    beta, rest = coefficients_and_complements(prior_draws(random_seed, 500, degrees)["sticks"], degrees)
    assert beta.min() >= 0 and rest.min() >= 0
    assert smallest_step(as_array(beta.T, degrees), len(degrees)) >= 0
    assert smallest_step(as_array(-rest.T, degrees), len(degrees)) >= 0
    np.testing.assert_allclose(beta + rest, 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("degrees", "points"), [((6, 6), 33), ((2, 4), 33), ((1, 2, 3), 13), ((2, 2, 2, 2), 6)])
def test_draws_are_nondecreasing_over_the_domain(degrees, points, random_seed):
    calibrator = bc.BernsteinCalibrator(degree=degrees)
    grid = np.array(list(product(np.linspace(0, 1, points), repeat=len(degrees))))
    features = calibrator._features(grid, {"degrees": np.array(degrees)})
    draws = prior_draws(random_seed, 100, degrees)
    log_odds = calibrator._log_odds(features, draws).T.reshape(*[points] * len(degrees), 100)
    # sums of up to 81 rounded products: relative 1e-14 of either probability
    assert smallest_step(log_odds, len(degrees)) >= -1e-13
    assert np.ptp(log_odds, axis=tuple(range(len(degrees)))).max() > 1


def sticks_of(beta: np.ndarray) -> np.ndarray:
    """The stick of every node of a monotone array: its place between what its neighbours leave, in plain loops."""
    top = np.array(beta.shape) - 1
    d = np.empty_like(beta)
    for x in np.ndindex(*beta.shape):
        level = sum(x) - top.sum() / 2
        below = [beta[tuple(x - e)] for e in np.eye(len(x), dtype=int) if min(x - e) >= 0]
        above = [beta[tuple(x + e)] for e in np.eye(len(x), dtype=int) if max(x + e - top) <= 0]
        if level == 0:
            d[x] = beta[x]
        elif level > 0:
            d[x] = (beta[x] - max(below)) / (1 - max(below))
        else:
            d[x] = beta[x] / min(above)
    return d


def running_maximum(values: np.ndarray) -> np.ndarray:
    for axis in range(values.ndim):
        values = np.maximum.accumulate(values, axis=axis)
    return values


SHAPES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "random": lambda rng, u: running_maximum(rng.random(u.shape[1:])),
    "late": lambda rng, u: running_maximum(rng.beta(0.05, 1.0, u.shape[1:])),
    "product": lambda rng, u: u.prod(axis=0),
    "one is enough": lambda rng, u: 1 - (1 - u).prod(axis=0),
    "maximum": lambda rng, u: u.max(axis=0),
    "minimum": lambda rng, u: u.min(axis=0),
    "mean": lambda rng, u: u.mean(axis=0),
    "first only": lambda rng, u: u[0],
    "plateau": lambda rng, u: np.where(u.mean(axis=0) > 0.5, 0.9, 0.1),
    "concave": lambda rng, u: u.mean(axis=0) ** 0.1,
}


@over_degrees
@pytest.mark.parametrize("shape", SHAPES)
def test_every_monotone_array_has_its_sticks(shape, degrees, random_seed):
    rng = np.random.default_rng(random_seed)
    axes = [np.sort(rng.uniform(0.01, 0.99, k + 1)) for k in degrees]
    beta = SHAPES[shape](rng, np.stack(np.meshgrid(*axes, indexing="ij"))).clip(1e-6, 1 - 1e-6)
    assert smallest_step(beta, beta.ndim) >= 0
    d = sticks_of(beta)
    assert d.min() >= 0 and d.max() <= 1  # 0 above the middle level and 1 below it are ties
    found, rest = fill(d.ravel(), 1 - d.ravel(), make_lattice(degrees))
    np.testing.assert_allclose(as_array(found, degrees), beta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(as_array(rest, degrees), 1 - beta, rtol=0, atol=1e-10)


def test_support_holds_arrays_far_from_supermodular(random_seed):
    # beta(1, 1) - beta(1, 0) - beta(0, 1) + beta(0, 0) of the squares: a double sum of nonnegative weights has none < 0
    beta = as_array(prior_draws(random_seed, 2000, (6, 6))["coefficients"].T, (6, 6))
    crossed = np.diff(np.diff(beta, axis=0), axis=1)
    assert (crossed.sum(axis=(0, 1)) < -0.2).mean() > 0.02
    assert (crossed.sum(axis=(0, 1)) > 0.2).mean() > 0.02
    assert (crossed.min(axis=(0, 1)) < 0).mean() > 0.9


# The fusion in the middle of it


INTERACTIONS = np.array([0.0, 1e-9, -1e-9, 1e-4, -1e-4, 0.01, -0.01, 1.0, -1.0, 6.0, -6.0])


def power_mean(intercept: float, slope: np.ndarray, interaction: float, degrees: tuple[int, ...]) -> list[Decimal]:
    """`fusion` with 60 digits: M times the log of the power mean of the scores' own odds, node by node."""
    with localcontext(prec=60):
        found, t = [], Decimal(interaction)
        for x in product(*(range(k + 1) for k in degrees)):
            own = [(Decimal(i) + Decimal("0.25")) / (k - i + Decimal("0.25")) for i, k in zip(x, degrees, strict=True)]
            z = [Decimal(a) * odds.ln() for a, odds in zip(slope, own, strict=True)]
            mean = ((sum((t * v).exp() for v in z) / len(z)).ln() / t) if t else sum(z) / len(z)
            found.append(Decimal(intercept) + len(z) * mean)
        return found


@over_degrees
def test_fusion_is_a_power_mean(degrees, random_seed):
    rng = np.random.default_rng(random_seed)
    slope, intercept = np.abs(rng.normal(0, 1.2, (len(INTERACTIONS), len(degrees)))), rng.normal(size=len(INTERACTIONS))
    found = fusion(intercept, slope, INTERACTIONS, make_lattice(degrees))
    for eta, c, a, t in zip(found, intercept, slope, INTERACTIONS, strict=True):
        # below an interaction of 1e-4 the series leaves out t^2 / 6 of the third cumulant of z, above it rounding / t
        tolerance = len(a) * 1e-8 * (1 + np.ptp(a.max() * make_lattice(degrees).centre) ** 3)
        np.testing.assert_allclose(eta, np.array(power_mean(c, a, t, degrees), dtype=float), rtol=0, atol=tolerance)


@over_degrees
def test_fusion_tends_to_the_larger_and_the_smaller(degrees, random_seed):
    slope = np.abs(np.random.default_rng(random_seed).normal(0, 1.2, len(degrees)))
    lattice = make_lattice(degrees)
    z = slope * lattice.centre
    for t, extreme in ((1e4, z.max(axis=1)), (-1e4, z.min(axis=1))):
        (eta,) = fusion(np.zeros(1), slope[None], np.array([t]), lattice)
        np.testing.assert_allclose(eta, len(degrees) * extreme, atol=len(degrees) * np.log(len(degrees)) / 1e4 + 1e-12)


@over_degrees
def test_without_roughness_it_is_the_fusion(degrees, random_seed):
    rng = np.random.default_rng(random_seed)
    lattice = make_lattice(degrees)
    intercept, slope = rng.normal(0, 2, 50), rng.lognormal(-0.5, 1.2, (50, len(degrees)))
    slope[0], slope[1] = 1e-6, 20.0
    interaction = rng.normal(0, 1.5, 50)
    interaction[:10] = 0.0
    eta = fusion(intercept, slope, interaction, lattice)
    beta, rest = coefficients_and_complements(fusion_sticks(eta, lattice), degrees)
    # steps of the log-odds below 1e-9 are raised to that, and at most sum(degrees) of them add up
    np.testing.assert_allclose(beta, expit(eta), rtol=1e-7)
    np.testing.assert_allclose(rest, expit(-eta), rtol=1e-7)


def test_cases_count_for_less_the_more_there_are():
    assert likelihood_power(0, (6, 6), 0.1) == likelihood_power(1000, (4, 4), 0.0) == 1.0
    assert likelihood_power(60, (6, 6), 0.6) == pytest.approx(0.5**0.5)  # derived: (1 + 0.6 * 60 / 36)^(-2/4)
    assert likelihood_power(100, (2, 4), 0.1) == pytest.approx(0.5**0.5)  # derived: the mean of 2^2 and 4^2 is 10
    assert likelihood_power(60, (6,) * 4, 0.6) == pytest.approx(0.5 ** (2 / 3))
    counted = [n * likelihood_power(n, (6, 6), 0.6) for n in range(1, 2000)]
    assert (np.diff(counted) > 0).all()


def test_weight_of_the_model_is_the_power_of_the_cases(random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y, weight = rng.random((50, 2)), np.arange(50) % 2, rng.integers(0, 3, 50)
    for coarsening in (0.0, 3.0):
        model = bc.build_model("bernstein", scores, y, sample_weight=weight, priors={"coarsening": coarsening})
        expected = weight.sum() * (1 + coarsening * weight.sum() / 36) ** -0.5
        assert model["weight"].get_value().sum() == pytest.approx(expected)


# Symmetries


@over_degrees
def test_classes_are_symmetric(degrees, random_seed):
    # (s, y) -> (1 - s, 1 - y) turns the lattice round: x -> K - x, which reverses the order of the nodes
    rng = np.random.default_rng(random_seed)
    lattice = make_lattice(degrees)
    sticks = rng.normal(0, 2, (20, len(lattice.nodes)))
    beta, rest = coefficients_and_complements(sticks, degrees)
    turned_beta, turned_rest = coefficients_and_complements(-sticks[:, ::-1], degrees)
    np.testing.assert_array_equal(turned_beta, rest[:, ::-1])
    np.testing.assert_array_equal(turned_rest, beta[:, ::-1])
    intercept, slope, interaction = rng.normal(size=20), rng.lognormal(size=(20, len(degrees))), rng.normal(size=20)
    eta, turned = fusion(intercept, slope, interaction, lattice), fusion(-intercept, slope, -interaction, lattice)
    np.testing.assert_allclose(-turned[:, ::-1], eta, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        -fusion_sticks(-eta[:, ::-1], lattice)[:, ::-1], fusion_sticks(eta, lattice), rtol=1e-12, atol=1e-12
    )
    correlation = lattice.field @ lattice.field.T
    np.testing.assert_allclose(correlation[::-1, ::-1], correlation, rtol=0, atol=1e-14)


@over_degrees
def test_scores_are_exchangeable(degrees, random_seed):
    rng = np.random.default_rng(random_seed)
    lattice = make_lattice(degrees)
    permutation = rng.permutation(len(degrees))
    permuted = tuple(degrees[m] for m in permutation)
    number = as_array(np.arange(len(lattice.nodes)), degrees).transpose(permutation).ravel()
    sticks = rng.normal(0, 2, (20, len(lattice.nodes)))
    for found, expected in zip(
        coefficients_and_complements(sticks[:, number], permuted),
        coefficients_and_complements(sticks, degrees),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected[:, number])
    intercept, slope, interaction = rng.normal(size=20), rng.lognormal(size=(20, len(degrees))), rng.normal(size=20)
    other, eta = make_lattice(permuted), fusion(intercept, slope, interaction, lattice)
    permuted_eta = fusion(intercept, slope[:, permutation], interaction, other)
    np.testing.assert_allclose(permuted_eta, eta[:, number], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        fusion_sticks(eta[:, number], other), fusion_sticks(eta, lattice)[:, number], rtol=1e-12, atol=1e-12
    )
    correlation = lattice.field @ lattice.field.T
    np.testing.assert_allclose(other.field @ other.field.T, correlation[np.ix_(number, number)], rtol=0, atol=1e-14)


# Precision


def fill_exactly(z: np.ndarray, lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """`fill` with 500 digits, node by node, from log-odds of sticks ``(N,)``."""
    beta: dict[tuple[int, ...], Decimal] = {}
    top = np.array(lattice.degrees)
    with localcontext(prec=500):
        for i in sorted(range(len(z)), key=lambda i: abs(2 * lattice.nodes[i].sum() - top.sum())):
            x = lattice.nodes[i]
            d = 1 / (1 + (-Decimal(z[i])).exp())
            below = [beta[tuple(x - e)] for e in np.eye(len(x), dtype=int) if tuple(x - e) in beta]
            above = [beta[tuple(x + e)] for e in np.eye(len(x), dtype=int) if tuple(x + e) in beta]
            low, high = (max(below), 1) if 2 * x.sum() > top.sum() else (0, min(above, default=1))
            beta[tuple(x)] = low + (high - low) * d
        values = [beta[tuple(x)] for x in lattice.nodes]
        return np.array([float(v) for v in values]), np.array([float(1 - v) for v in values])


@over_degrees
@pytest.mark.parametrize("shift", [-40.0, 0.0, 40.0])
def test_coefficients_are_exact_at_both_ends(degrees, shift, random_seed):
    lattice = make_lattice(degrees)
    z = np.random.default_rng(random_seed).normal(shift, 5, len(lattice.nodes))
    expected_beta, expected_rest = fill_exactly(z, lattice)
    beta, rest = coefficients_and_complements(z[None], degrees)
    np.testing.assert_allclose(beta[0], expected_beta, rtol=1e-13)
    np.testing.assert_allclose(rest[0], expected_rest, rtol=1e-13)
    assert shift == 0 or min(expected_beta.min(), expected_rest.min()) < 1e-16


# The compiled kernel


def kernel_inputs(lattice: Lattice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return lattice.order, lattice.side, lattice.inwards


@over_degrees
@pytest.mark.parametrize("spread", [1.0, 30.0])  # at 30 coefficients round to 1, complements do not
def test_kernel_fills_as_numpy_does(degrees, spread, random_seed):
    lattice = make_lattice(degrees)
    rng = np.random.default_rng(random_seed)
    for z in rng.normal(0, spread, (20, len(lattice.nodes))):
        expected = fill(expit(z), expit(-z), lattice)
        for found, values in zip(fill_nodes(z, *kernel_inputs(lattice)), expected, strict=True):
            np.testing.assert_allclose(found, values, rtol=1e-13)


def smallest_gap(z: np.ndarray, lattice: Lattice) -> float:
    """Smallest difference of the log-odds of two different neighbours one step inwards: 0 is a kink."""
    beta, rest = fill(expit(z), expit(-z), lattice)
    log_odds = np.log(beta) - np.log(rest)
    outer = lattice.side != 0
    gaps = [np.abs(log_odds[a] - log_odds[b]) for a, b in product(lattice.inwards[outer].T, repeat=2)]
    different = [a != b for a, b in product(lattice.inwards[outer].T, repeat=2)]
    return float(np.concatenate(gaps)[np.concatenate(different)].min())


@over_degrees
def test_gradient_is_that_of_finite_differences(degrees, random_seed):
    lattice = make_lattice(degrees)
    rng = np.random.default_rng(random_seed)
    size, h = len(lattice.nodes), 1e-4
    z = rng.normal(0, 1.5, size)
    while smallest_gap(z, lattice) < 10 * h:  # differences across a kink are no derivatives
        z = rng.normal(0, 1.5, size)
    beta_bar, rest_bar = rng.normal(size=(2, size))

    def value(at: np.ndarray) -> float:
        beta, rest = fill(expit(at), expit(-at), lattice)
        return float(beta_bar @ beta + rest_bar @ rest)

    # on five points: the error is of the order of h^4, and of rounding / h
    steps = h * np.eye(size)
    expected = [(8 * (value(z + e) - value(z - e)) - (value(z + 2 * e) - value(z - 2 * e))) / (12 * h) for e in steps]
    filled = fill_nodes(z, *kernel_inputs(lattice))
    found = fill_nodes_gradient(z, *kernel_inputs(lattice), *filled, beta_bar, rest_bar)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)

    at = pt.dvector("at")
    beta, rest = fill_sticks(at, *kernel_inputs(lattice))
    whole = pytensor.function([at], pt.grad((beta_bar * beta + rest_bar * rest).sum(), at), mode=RUN)
    np.testing.assert_allclose(whole(z), found, rtol=1e-13)
    half = pytensor.function([at], pt.grad((rest_bar * rest).sum(), at), mode=RUN)  # beta is disconnected
    expected_half = fill_nodes_gradient(z, *kernel_inputs(lattice), *filled, np.zeros(size), rest_bar)
    np.testing.assert_allclose(half(z), expected_half, rtol=1e-13)


def test_compiled_kernel_is_the_python_one(random_seed):
    lattice = make_lattice((2, 4))
    rng = np.random.default_rng(random_seed)
    z, weight = rng.normal(0, 2, (2, len(lattice.nodes)))
    at = pt.dvector("at")
    beta, rest = fill_sticks(at, *kernel_inputs(lattice))
    outputs = [beta, rest, pt.grad((weight * beta - weight**2 * rest).sum(), at)]
    expected = pytensor.function([at], outputs, mode=RUN)(z)
    for found, values in zip(pytensor.function([at], outputs, mode="NUMBA")(z), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-13)


# Basis and degree elevation


@over_degrees
def test_basis_is_that_of_binomial_counts(degrees, random_seed):
    t = np.concatenate([np.random.default_rng(random_seed).random((30, len(degrees))), np.eye(len(degrees))])
    basis = surface_basis(t, degrees)
    np.testing.assert_allclose(basis.sum(axis=1), 1, rtol=1e-13)
    nodes = np.array(list(product(*(range(k + 1) for k in degrees))))
    expected = binom.pmf(nodes, np.array(degrees), t[:, None]).prod(axis=2)
    np.testing.assert_allclose(basis, expected, rtol=1e-11, atol=1e-300)


def elevated(beta: np.ndarray) -> np.ndarray:
    """Coefficients ``(K + 2, K + 2)`` of the same surface as ``(K + 1, K + 1)``. Wang & Liu (2020), Eq. 16 and 17."""
    n = len(beta)  # K + 1
    padded = np.zeros((n + 2, n + 2))  # beta_(k1, k2) at (k1 + 1, k2 + 1); terms outside have the factor 0
    padded[1:-1, 1:-1] = beta
    k1, k2 = np.indices((n + 1, n + 1))
    return (
        (n - k1) * (n - k2) * padded[1:, 1:]
        + (n - k1) * k2 * padded[1:, :-1]
        + k1 * (n - k2) * padded[:-1, 1:]
        + k1 * k2 * padded[:-1, :-1]
    ) / n**2


@pytest.mark.parametrize("degree", [1, 2, 5, 6])
def test_degree_elevation_keeps_surface_and_cone(degree, random_seed):
    rng = np.random.default_rng(random_seed)
    beta = running_maximum(rng.random((degree + 1, degree + 1)))
    higher = elevated(beta)
    t = rng.random((200, 2))
    low = surface_basis(t, (degree, degree)) @ beta.ravel()
    np.testing.assert_allclose(surface_basis(t, (degree + 1, degree + 1)) @ higher.ravel(), low, rtol=1e-12)
    assert smallest_step(higher, 2) >= -1e-15  # Eq. 18
    np.testing.assert_allclose(higher[[0, -1], [0, -1]], beta[[0, -1], [0, -1]], rtol=1e-14)


# Prior draws


def assert_mean(draws: np.ndarray, expected: float | np.ndarray) -> None:
    """The mean of draws ``(size, ...)`` is the expected one within its standard error."""
    z = (draws.mean(axis=0) - expected) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert np.abs(z).max() < STANDARD_ERRORS


def test_prior_draws_have_the_moments_of_the_prior(random_seed):
    degrees = (2, 4)
    prior = BernsteinSurfacePriors(intercept_mean=0.3, intercept_sd=0.7, slope_sd=0.8, interaction_sd=0.5)
    draws = surface_draws(np.random.default_rng(random_seed), 20_000, prior.vector(), degrees)
    for values, mean, sd in (
        (draws["intercept"], 0.3, 0.7),
        (draws["interaction"], 0.0, 0.5),
        (draws["field"], 0.0, 1.0),
    ):
        assert_mean(values, mean)
        assert_mean((values - mean) ** 2, sd**2)
    for name, sd in (("roughness", prior.roughness_sd), ("slope", 0.8)):
        assert draws[name].min() >= 0
        assert_mean(draws[name], sd * np.sqrt(2 / np.pi))
        assert_mean(draws[name] ** 2, sd**2)
    lattice = make_lattice(degrees)
    centre = fusion_sticks(fusion(draws["intercept"], draws["slope"], draws["interaction"], lattice), lattice)
    deviation = (draws["sticks"] - centre) / draws["roughness"][:, None]
    for i, j in product(range(len(lattice.nodes)), repeat=2):
        distance = np.abs(lattice.nodes[i] - lattice.nodes[j]) / np.array(degrees)
        assert_mean(deviation[:, i] * deviation[:, j], np.exp(-2 * distance.sum()))


def test_prior_is_symmetric_and_centred(random_seed):
    # E q(s) + E q(1 - s) = 1 by the symmetry of the classes, E q(a, b) = E q(b, a) by that of the scores
    beta = prior_draws(random_seed, 20_000, (6, 6))["coefficients"]
    a, b = np.random.default_rng(random_seed).random((2, 20))
    at, turned, swapped = (beta @ surface_basis(np.column_stack(s), (6, 6)).T for s in ((a, b), (1 - a, 1 - b), (b, a)))
    assert_mean(at + turned, 1.0)
    assert_mean(at - swapped, 0.0)
    assert_mean(beta @ surface_basis(np.full((1, 2), 0.5), (6, 6)).T, 0.5)


# The quadratic program


def program(seed: int, n: int, degrees: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores ``(n, M)``, labels and weights of a surface with kinks."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, len(degrees)))
    return scores, (rng.random(n) < scores.max(axis=1) ** 2).astype(int), rng.integers(1, 4, n)


def mean_squared_error(beta: np.ndarray, basis: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    return float(weight @ (basis @ beta - y) ** 2 / weight.sum())


def plain_program(basis: np.ndarray, y: np.ndarray, weight: np.ndarray, degrees: tuple[int, ...]) -> np.ndarray:
    """Wang & Liu (2020), Eq. 10-13, over the rows, by a general-purpose optimiser."""
    size = basis.shape[1]
    number = as_array(np.arange(size), degrees)
    rises = []
    for axis in range(len(degrees)):
        low, high = np.delete(number, -1, axis).ravel(), np.delete(number, 0, axis).ravel()
        rises.append(np.eye(size)[high] - np.eye(size)[low])
    left = np.concatenate([*rises, np.eye(size)[:1], -np.eye(size)[-1:]])
    right = np.concatenate([np.zeros(len(left) - 1), [-1.0]])
    found = minimize(
        mean_squared_error,
        np.linspace(0.2, 0.8, size),
        args=(basis, y, weight),
        jac=lambda beta, *_: 2 * basis.T @ (weight * (basis @ beta - y)) / weight.sum(),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda beta: left @ beta - right, "jac": lambda beta: left},
        options={"ftol": 1e-12, "maxiter": 2000},
    )
    assert found.success, found.message
    return found.x


@pytest.mark.parametrize(
    ("degrees", "weighted"),
    [
        ((5,), False),
        ((12,), True),
        ((2, 4), False),
        ((2, 4), True),
        ((5, 5), True),
        ((1, 2, 3), True),
        ((2, 2, 2), False),
    ],
    ids=str,
)
def test_point_estimate_solves_the_quadratic_program(degrees, weighted, random_seed):
    scores, y, weight = program(random_seed, 150, degrees)
    scores, weight = (scores.round(1), weight) if weighted else (scores, np.ones(150))  # the former with ties
    basis = binom.pmf(
        np.array(list(product(*(range(k + 1) for k in degrees)))), np.array(degrees), scores[:, None]
    ).prod(axis=2)
    fit = bc.BernsteinCalibrator(inference="point", degree=degrees).fit(scores, y, sample_weight=weight)
    beta = fit.point_estimate_["coefficients"]
    assert smallest_step(as_array(beta, degrees), len(degrees)) >= 0
    assert beta.min() >= 0 and beta.max() <= 1
    expected = mean_squared_error(plain_program(basis, y, weight, degrees), basis, y, weight)
    assert abs(mean_squared_error(beta, basis, y, weight) - expected) < 1e-6
    np.testing.assert_allclose(fit.predict_proba(scores)[:, 1], basis @ beta, rtol=0, atol=1e-12)


def test_weight_two_is_the_row_twice(random_seed):
    scores, y, weight = program(random_seed, 80, (2, 4))
    once = bc.BernsteinCalibrator(inference="point", degree=(2, 4)).fit(scores, y, sample_weight=weight)
    rows = np.repeat(np.arange(80), weight)
    repeated = bc.BernsteinCalibrator(inference="point", degree=(2, 4)).fit(scores[rows], y[rows])
    np.testing.assert_allclose(
        once.point_estimate_["coefficients"], repeated.point_estimate_["coefficients"], rtol=0, atol=1e-10
    )


def test_program_costs_less_than_its_gram_matrix(random_seed):
    degrees = (5, 5)
    calibrator = bc.BernsteinCalibrator(inference="point", degree=degrees)
    scores, y, _ = program(random_seed, 100_000, degrees)
    job = calibrator._prepare(scores, y, None)
    edges = make_lattice(degrees).edges

    def seconds(function, *arguments):
        times = []
        for _ in range(3):
            start = time.process_time()
            result = function(*arguments)
            times.append(time.process_time() - start)
        return min(times), result

    forming, (gram, target) = seconds(calibrator._normal_equations, job.support, job.scale)
    solving, _ = seconds(monotone_least_squares, gram, target, edges)
    assert gram.shape == (36, 36)
    assert solving < forming


# Errors


def test_a_program_that_is_not_solved_is_an_error():
    unbounded = -np.eye(9)  # falls without end along every axis
    with pytest.raises(bc.ParameterValueError, match=r"program of 9 Bernstein coefficients cannot be solved \(\w+\)"):
        monotone_least_squares(unbounded, np.ones(9), make_lattice((2, 2)).edges)


def test_degrees_are_checked():
    scores, y = np.random.default_rng(0).random((30, 2)), np.arange(30) % 2
    with pytest.raises(bc.ParameterValueError, match=r"even sum over several scores, got \(2, 3\)"):
        bc.BernsteinCalibrator(degree=(2, 3)).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match=r"one for each of 2 scores, got \(4, 4, 4\)"):
        bc.BernsteinCalibrator(degree=(4, 4, 4)).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match=r"one for each of 1 scores"):
        bc.BernsteinCalibrator(degree=(4, 4)).fit(scores[:, 0], y)
    with pytest.raises(bc.ParameterValueError, match="degree must be"):
        bc.BernsteinCalibrator(degree=(0, 4)).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match="roughness_sd must be a positive"):
        bc.BernsteinCalibrator(priors={"roughness_sd": 0.0}).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match="coarsening must be zero or a positive finite number, got -1"):
        bc.BernsteinCalibrator(priors={"coarsening": -1.0}).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match="concentration_log_mean"):
        bc.BernsteinCalibrator(priors={"concentration_log_mean": 1.0}).fit(scores, y)


def test_default_degree_grows_with_the_cases(random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y = rng.random((300, 2)), np.arange(300) % 2
    for rows, size in ((299, 7**2), (300, 9**2)):
        few = bc.BernsteinCalibrator(inference="point").fit(scores[:rows], y[:rows])
        assert few.point_estimate_["coefficients"].shape == (size,)
        assert bc.build_model("bernstein", scores[:rows], y[:rows])["field"].eval().shape == (size,)
    weighted = bc.BernsteinCalibrator(inference="point").fit(scores[:150], y[:150], np.full(150, 2.0))
    assert weighted.point_estimate_["coefficients"].shape == (9**2,)  # cases count, not rows


def test_default_slopes_of_more_scores_are_smaller():
    for columns in (2, 3, 4):
        priors = bc.BernsteinCalibrator()._default_priors(columns)
        expected = {**asdict(BernsteinSurfacePriors()), "slope_sd": 1.2 * np.sqrt(2 / columns)}
        assert asdict(priors) == expected
        of_ranks = bc.BernsteinCalibrator("raw")._default_priors(columns)
        assert asdict(of_ranks) == {**expected, "intercept_sd": 3.0}
