"""The library's models against the specifications in `models/`: the same log density, prior and map, without MCMC.

Platt and beta have the same free variables on both sides, and their log densities are compared whole; so are those of
the Bernstein surface, whose field is linear in the library's, and of the spline, whose bends are a rotation of the
library's. Isotonic and Bernstein sample the Dirichlet through other
variables, so that the chain is shown link by link: the likelihoods agree as functions of the increments; the increments
are normalised variables x = gamma exp(-boost / alpha); the density of x is that of Gamma(alpha, 1), which normalised is
Dirichlet(alpha); and alpha is the specification's. The copula has its own tests in `test_copula.py`.
"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import expit, logit

import bayescal as bc
from bayescal.calibrators.surface import make_lattice
from bayescal.registry import CALIBRATORS

MODELS = Path(__file__).parents[1] / "models"
NAMES = ("platt", "beta", "isotonic", "bernstein", "spline", "bernstein_surface")
SEVERAL = {"bernstein_surface": "bernstein"}  # specifications for several scores, and the calibrator's name
DIRICHLET = ("isotonic", "bernstein")
KINDS = ("proba", "logit", "raw")
RUN = Mode(
    linker="py", optimizer="fast_run"
)  # all rewrites of the default mode, nothing compiled: a call or 20 is enough
POINTS = 20
TOLERANCE = 1e-8  # absolute, of differences of log densities (tests/README.md)


def load(name: str) -> ModuleType:
    """The specification ``models/<name>.py``."""
    spec = importlib.util.spec_from_file_location(f"models_{name}", MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pair(NamedTuple):
    """The library's model of weighted rows, and the specification's of the same rows repeated."""

    name: str
    calibrator: Any
    job: Any  # what the calibrator learns of the rows before it samples
    library: pm.Model
    plain: pm.Model
    scores: np.ndarray  # of the repeated rows, of the calibrator's kind


def as_probability(scores: np.ndarray, name: str, kind: str) -> np.ndarray:
    """What the card says to pass as scores when they are of another kind."""
    if kind == "proba":
        return scores
    if kind == "logit":
        return expit(scores)
    if name in ("platt", "spline"):
        return expit((scores - scores.mean()) / scores.std())
    return (stats.rankdata(scores, axis=0) - 0.5) / len(scores)


def make_pair(name: str, kind: str, seed: int) -> Pair:
    """60 rows with ties, scores of 0 and 1 and weights 0 to 3; `seed` draws them."""
    rng = np.random.default_rng(seed)
    proba = np.concatenate([rng.random(56).round(2), [0.0, 1.0, 0.5, 0.5]])
    y = (rng.random(60) < proba).astype(int)
    if name in SEVERAL:
        proba = np.column_stack([proba, rng.permutation(proba)])
        proba[:2] = [[0.0, 0.0], [1.0, 1.0]]
    scores = {"proba": proba, "logit": logit(proba.clip(0.01, 0.99)), "raw": (30 * proba - 10).round()}[kind]
    weight = rng.integers(0, 4, 60)
    method = SEVERAL.get(name, name)
    calibrator = CALIBRATORS[method].load()(score_kind=kind)
    job = calibrator._prepare(scores, y, weight)
    rows = np.repeat(np.arange(60), weight)
    sizes = {"steps": calibrator.steps} if name == "isotonic" else {}
    plain = load(name).model(as_probability(scores[rows], name, kind), y[rows], **asdict(job.priors), **sizes)
    library = bc.build_model(method, scores, y, sample_weight=weight, score_kind=kind)
    return Pair(name, calibrator, job, library, plain, scores[rows])


@pytest.fixture(scope="module")
def pairs() -> Callable[..., Pair]:
    """`make_pair`, each pair made once."""
    made: dict[tuple[str, str, int], Pair] = {}

    def get(name: str, kind: str = "proba", seed: int = 0) -> Pair:
        key = (name, kind, seed)
        if key not in made:
            made[key] = make_pair(*key)
        return made[key]

    return get


def compile_likelihood(model: pm.Model, of: str) -> Callable[[np.ndarray], float]:
    """Log likelihood of the observed variable as a function of another variable of the model."""
    y = model["y"]
    return pytensor.function([model[of]], pm.logp(y, model.rvs_to_values[y]).sum(), mode=RUN)


def as_specified(pair: Pair, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Points or draws of the library's variables in those of the specification."""
    if "bends" in values:
        return values | {"bends": values["bends"] @ rotation(pair)}
    if "field" not in values:
        return values
    deviation = values["field"] @ make_lattice((6, 6)).field.T
    return {key: value for key, value in values.items() if key != "field"} | {"deviation": deviation}


def rotation(pair: Pair) -> np.ndarray:
    """What turns bends ``(J,)`` of the library into those of the specification, ``(J, J)``."""
    theirs = pair.plain["basis"].get_value()
    features = pair.calibrator._features(pair.calibrator._coordinate(pair.scores, pair.job.scale), pair.job.scale)
    turned, _, rank, _ = np.linalg.lstsq(theirs, features[:, 1:])
    assert rank == features.shape[1] - 1
    np.testing.assert_allclose(theirs @ turned, features[:, 1:], rtol=0, atol=1e-9)
    return turned.T


def differences(values: Sequence[Any]) -> np.ndarray:
    """Differences from the first value."""
    return np.array(values[1:]) - values[0]


# Platt, beta, the spline and the surface: the whole log density


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["platt", "beta", "spline", "bernstein_surface"])
def test_log_density_is_the_specifications(pairs: Callable[..., Pair], name: str, kind: str, random_seed: int) -> None:
    pair = pairs(name, kind, random_seed)
    start = pair.library.initial_point()
    assert as_specified(pair, start).keys() == pair.plain.initial_point().keys()
    rng = np.random.default_rng(random_seed)
    points = [{key: rng.normal(size=np.shape(value)) for key, value in start.items()} for _ in range(POINTS)]
    library, plain = (model.compile_logp(mode=RUN) for model in (pair.library, pair.plain))
    expected = differences([plain(as_specified(pair, point)) for point in points])
    np.testing.assert_allclose(differences([library(point) for point in points]), expected, rtol=0, atol=TOLERANCE)
    assert np.ptp(expected) > 1.0  # the points tell densities apart


@pytest.mark.parametrize("kind", KINDS)
def test_bends_are_a_rotation_of_the_specifications(pairs: Callable[..., Pair], kind: str, random_seed: int) -> None:
    # radial functions there, truncated powers here; both with the penalty's matrix made the identity
    turned = rotation(pairs("spline", kind, random_seed))
    assert turned.shape == (8, 8)
    np.testing.assert_allclose(turned @ turned.T, np.eye(8), rtol=0, atol=1e-9)


# Isotonic and Bernstein: likelihood and prior


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DIRICHLET)
def test_likelihood_is_the_specifications(pairs: Callable[..., Pair], name: str, kind: str, random_seed: int) -> None:
    pair = pairs(name, kind, random_seed)
    pieces = len(pair.plain.coords["piece"])
    points = np.random.default_rng(random_seed).dirichlet(np.ones(pieces), POINTS)
    library, plain = (compile_likelihood(model, "increments") for model in (pair.library, pair.plain))
    expected = differences([plain(point) for point in points])
    np.testing.assert_allclose(differences([library(point) for point in points]), expected, rtol=0, atol=TOLERANCE)
    assert np.ptp(expected) > 1.0


@pytest.mark.parametrize("name", DIRICHLET)
def test_likelihood_is_exact_at_both_ends(name: str) -> None:
    # a positive at the lowest score has the probability of the first increment, a negative at the highest that of the
    # last one; 1 - q would round the latter to 0
    model = bc.build_model(name, [0.0, 1.0], [1, 0])
    increments = np.full(len(model.coords["piece"]), 1.0)
    increments[[0, -1]] = 0.0
    increments /= increments.sum()
    increments[[0, -1]] = 1e-30, 1e-40
    assert compile_likelihood(model, "increments")(increments) == pytest.approx(
        np.log(1e-30) + np.log(1e-40), rel=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DIRICHLET)
def test_base_and_prior_of_the_concentration_are_the_specifications(
    pairs: Callable[..., Pair], name: str, kind: str
) -> None:
    pair = pairs(name, kind)
    np.testing.assert_allclose(pair.library["base"].eval(), pair.plain["base"].eval(), rtol=0, atol=1e-14)
    at = np.geomspace(0.01, 100.0, 7)
    priors = pair.job.priors
    expected = stats.lognorm(priors.concentration_log_sd, scale=np.exp(priors.concentration_log_mean)).logpdf(at)
    for model in (pair.library, pair.plain):
        logp = model.compile_logp(vars=[model["concentration"]], jacobian=False, mode=RUN)
        start = model.initial_point()
        found = [logp({**start, "concentration_log__": np.log(kappa)}) for kappa in at]
        np.testing.assert_allclose(differences(found), differences(expected), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", DIRICHLET)
def test_specification_says_dirichlet(pairs: Callable[..., Pair], name: str, random_seed: int) -> None:
    model = pairs(name).plain
    base = model["base"].eval()
    increments = model["increments"]
    value = increments.type()
    logp = pytensor.function([model["concentration"], value], pm.logp(increments, value), mode=RUN)
    rng = np.random.default_rng(random_seed)
    for kappa in (0.5, 3.0, 40.0):
        at = rng.dirichlet(np.ones(len(base)))
        at[-1] = 1 - at[:-1].sum()  # SciPy asks for a sum of 1 to the last digit
        assert logp(kappa, at) == pytest.approx(stats.dirichlet(kappa * base).logpdf(at), rel=1e-10)


def test_increments_are_normalised_boosted_gammas(pairs: Callable[..., Pair], random_seed: int) -> None:
    model = pairs("bernstein").library
    names = ("concentration", "gamma", "boost")
    increments = pytensor.function([model[name] for name in names], model["increments"], mode=RUN)
    base = model["base"].eval()
    rng = np.random.default_rng(random_seed)
    for _ in range(POINTS):
        kappa, gamma, boost = rng.lognormal(), rng.gamma(1.5, size=len(base)), rng.exponential(size=len(base))
        x = gamma * np.exp(-boost / (kappa * base))
        np.testing.assert_allclose(increments(kappa, gamma, boost), x / x.sum(), rtol=1e-10, atol=1e-300)


def test_boosted_gamma_has_the_density_of_a_gamma() -> None:
    # The density of x = gamma exp(-boost / alpha) is the integral over boost = w of
    #     f_gamma(x exp(w / alpha)) exp(w / alpha) f_boost(w),
    # with both densities from the library's own model, whose base stands for alpha under a concentration of 1.
    alpha = np.array([0.01, 0.03, 0.1, 0.3, 0.9, 1.0, 3.0, 20.0])
    model = bc.build_model("bernstein", [0.2, 0.8], [0, 1], degree=len(alpha) - 2)
    with model:
        pm.set_data({"base": alpha})
    point = {**model.initial_point(), "concentration_log__": np.array(0.0)}
    logp = model.compile_logp(vars=[model["gamma"], model["boost"]], jacobian=False, sum=False, mode=RUN)
    node, weight = np.polynomial.legendre.leggauss(20)
    panels = 20
    for probability in (0.01, 0.1, 0.5, 0.9, 0.99):
        x = stats.gamma(alpha).ppf(probability)
        # in v = w / alpha the integrand grows like exp(v) and falls like exp(-x exp(v)): beyond `last` it is below
        # exp(-700), and more than 45 before that below exp(-38) of its maximum
        last = np.log(700.0 / x)
        first = np.maximum(0.0, last - 45.0)
        density = np.zeros(len(alpha))
        for k in range(panels):
            for t, w in zip(node, weight, strict=True):
                half = (last - first) / panels / 2
                v = first + (2 * k + 1 + t) * half
                log_gamma, log_boost = logp({**point, "gamma_log__": np.log(x) + v, "boost_log__": np.log(alpha * v)})
                density += w * half * alpha * np.exp(log_gamma + log_boost + v)
        np.testing.assert_allclose(density, stats.gamma(alpha).pdf(x), rtol=1e-8)


# All: prior draws, map, gradient

SIZE = 20_000
STANDARD_ERRORS = 5.0  # some 90 means are compared: one in 20,000 runs strays by chance


def assert_mean(draws: np.ndarray, expected: Any) -> None:
    """The mean of draws ``(SIZE, ...)`` is the expected one within its standard error."""
    z = (draws.mean(axis=0) - expected) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert np.abs(z).max() < STANDARD_ERRORS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["platt", "beta", "spline"])
def test_prior_draws_have_the_moments_of_the_prior(
    pairs: Callable[..., Pair], name: str, kind: str, random_seed: int
) -> None:
    pair = pairs(name, kind)
    draws = pair.calibrator._prior_draws(np.random.default_rng(random_seed), SIZE, pair.job.priors, pair.job.scale)
    prior = asdict(pair.job.priors)
    assert draws.keys() == {variable.name for variable in pair.plain.free_RVs}
    for parameter, values in draws.items():
        if parameter == "bends":
            assert_mean(values, 0.0)
            assert_mean(values**2, 1.0)
            continue
        if parameter == "roughness":  # exponential: the mean is the standard deviation
            assert_mean(values, prior["roughness_mean"])
            assert_mean((values - prior["roughness_mean"]) ** 2, prior["roughness_mean"] ** 2)
            continue
        log = f"{parameter}_log_mean" in prior
        key = f"{parameter}_log" if log else parameter
        values = np.log(values) if log else values
        assert_mean(values, prior[f"{key}_mean"])
        assert_mean((values - prior[f"{key}_mean"]) ** 2, prior[f"{key}_sd"] ** 2)


@pytest.mark.parametrize("name", DIRICHLET)
def test_prior_draws_have_the_moments_of_the_dirichlet(pairs: Callable[..., Pair], name: str, random_seed: int) -> None:
    pair = pairs(name)
    priors = pair.job.priors
    draws = pair.calibrator._prior_draws(np.random.default_rng(random_seed), SIZE, priors, pair.job.scale)
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    kappa = np.exp(priors.concentration_log_mean + priors.concentration_log_sd * node)
    base = pair.plain["base"].eval()
    # mean and variance of a Dirichlet(kappa g): g and g (1 - g) / (kappa + 1), the latter averaged over kappa
    assert_mean(draws["increments"], base)
    variance = base * (1 - base) * (weight @ (1 / (kappa + 1))) / weight.sum()
    assert_mean((draws["increments"] - base) ** 2, variance)
    assert_mean(np.log(draws["concentration"]), priors.concentration_log_mean)
    assert_mean((np.log(draws["concentration"]) - priors.concentration_log_mean) ** 2, priors.concentration_log_sd**2)
    assert_mean(draws["gamma"] - draws["concentration"][:, None] * base, 1.0)  # Gamma(alpha + 1, 1)
    assert_mean(draws["boost"], 1.0)


def compile_probability(model: pm.Model) -> Callable[..., np.ndarray]:
    """Probability of each case, the parameter of the observed variable, as a function of the free variables."""
    y = model["y"].owner
    (p,) = y.op.dist_params(y)
    return pytensor.function(model.free_RVs, p, mode=RUN, on_unused_input="ignore")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_map_is_the_specifications(pairs: Callable[..., Pair], name: str, kind: str, random_seed: int) -> None:
    pair = pairs(name, kind, random_seed)
    draws = pair.calibrator._prior_draws(np.random.default_rng(random_seed), POINTS, pair.job.priors, pair.job.scale)
    features = pair.calibrator._features(pair.calibrator._coordinate(pair.scores, pair.job.scale), pair.job.scale)
    log_odds = pair.calibrator._log_odds(features, draws)
    probability = compile_probability(pair.plain)
    variables = [variable.name for variable in pair.plain.free_RVs]
    draws = as_specified(pair, draws)
    expected = np.array([probability(*(draws[variable][k] for variable in variables)) for k in range(POINTS)])
    np.testing.assert_allclose(expit(log_odds), expected, rtol=0, atol=1e-13)
    inside = (expected > 1e-4) & (expected < 1 - 1e-4)
    np.testing.assert_allclose(log_odds[inside], logit(expected[inside]), rtol=0, atol=1e-9)
    assert inside.mean() > 0.3


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SEVERAL])  # surface: kinks, test_surface.py
def test_gradient_is_that_of_finite_differences(pairs: Callable[..., Pair], name: str, random_seed: int) -> None:
    model = pairs(name).library
    start = model.initial_point()
    value, gradient = model.compile_logp(mode=RUN), model.compile_dlogp(mode=RUN)
    rng = np.random.default_rng(random_seed)
    h = 1e-3
    for _ in range(3):
        point = {key: rng.normal(size=np.shape(v)) for key, v in start.items()}
        found = []
        for key in point:
            for index in np.ndindex(np.shape(point[key])):

                def along(step: float, key: str = key, index: tuple[int, ...] = index, at: Any = point) -> float:
                    moved = np.array(at[key])
                    moved[index] += step
                    return float(value({**at, key: moved}))

                # central differences on seven points: the error is of the order of h^6, and of rounding / h
                found.append(
                    (along(3 * h) - along(-3 * h)) / (60 * h)
                    - 9 * (along(2 * h) - along(-2 * h)) / (60 * h)
                    + 45 * (along(h) - along(-h)) / (60 * h)
                )
        np.testing.assert_allclose(gradient(point), found, rtol=1e-6, atol=1e-7)
