"""The latent process: density, leave-one-out without the label left out, posterior by the interpolant."""

import importlib.util
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from pytensor.compile.mode import Mode
from scipy.stats import invgamma

from bayescal.casimac.cones import cone_probabilities
from bayescal.casimac.fitting import Weighted, draw_posterior, scaled_latents, weigh
from bayescal.casimac.latent import KERNELS, LatentProcess
from bayescal.casimac.neighbours import Neighbours, Pull, find_neighbours, latents
from bayescal.casimac.posterior import DEGREE, REACH, build, interpolant_of, locate, mixture
from bayescal.casimac.selection import can_be_left_out, left_out, log_losses, pseudo_posterior
from bayescal.casimac.settings import CASIMACPriors
from bayescal.casimac.simplex import simplex_vertices
from bayescal.inference.sampling import SamplerSettings

RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled


def specification() -> Any:
    path = Path(__file__).parents[1] / "models" / "casimac.py"
    spec = importlib.util.spec_from_file_location("models_casimac", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def distances(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x[:, None] - x, axis=-1)


def case(seed: int, n: int = 30, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features and codes of overlapping classes, none of fewer than five cases."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    return rng.normal(size=(n, 2)) + 1.5 * np.column_stack([np.cos(codes), np.sin(2 * codes)]), codes


def process_of(x: np.ndarray, kernel: str = "matern52", **priors: float) -> LatentProcess:
    return LatentProcess(distances(x), KERNELS[kernel], CASIMACPriors(**priors))


# The density


def test_density_is_that_of_the_specification(random_seed: int) -> None:
    # joint density of three parameters = collapsed density of two times the inverse gamma law of the signal variance
    rng = np.random.default_rng(random_seed)
    x, z = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    priors = CASIMACPriors(0.7, 0.5, -1.5, 1.2, 3.0, 0.8)
    process = LatentProcess(distances(x), KERNELS["matern52"], priors)
    given = {name: value for name, value in asdict(priors).items() if name != "feature_log_sd"}
    logp = specification().model(x, z, **given).compile_logp(mode=RUN)
    difference = []
    for log_length, log_noise, log_signal in rng.normal(size=(20, 3)):
        found, log_scale = process.log_density(log_length, log_noise, z)
        law = invgamma.logpdf(np.exp(log_signal), process.shape(z), scale=np.exp(log_scale)) + log_signal
        names = ("length_scale_log__", "noise_ratio_log__", "signal_variance_log__")
        joint = logp(dict(zip(names, (log_length, log_noise, log_signal), strict=True)))
        difference.append(float(joint) - found - law)
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)


def test_defaults_are_those_of_the_specification() -> None:
    kept = specification().model.__kwdefaults__ | {"feature_log_sd": 0.5}
    assert asdict(CASIMACPriors()) == kept
    assert "With `feature_log_sd`, the library's 0.5," in specification().model.__doc__


def test_kernels_are_those_of_scikit_learn(random_seed: int) -> None:
    from sklearn.gaussian_process.kernels import RBF, Matern

    x = np.random.default_rng(random_seed).normal(size=(15, 3))
    theirs = {"matern32": Matern(0.7, nu=1.5), "matern52": Matern(0.7, nu=2.5), "rbf": RBF(0.7)}
    for name, kernel in theirs.items():
        np.testing.assert_allclose(process_of(x, name).correlation(np.log(0.7)), kernel(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_table_is_the_density(kernel: str, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, zs = rng.normal(size=(20, 2)), rng.normal(size=(3, 20, 2))
    process = process_of(x, kernel)
    lengths, noises = np.array([-1.0, 0.5]), np.array([-4.0, 0.0, 1.0])
    density, scale = process.table(lengths, noises, zs)
    for g, z in enumerate(zs):
        for i, a in enumerate(lengths):
            for j, b in enumerate(noises):
                expected = process.log_density(a, b, z)
                assert (density[g, i, j], scale[g, i, j]) == pytest.approx(expected, rel=1e-8)


# Leave-one-out


PULLS = [Pull(0.5, 0.5, 1, 1), Pull(0.3, 0.7, 3, 3), Pull(0.0, 1.0, 1, 2), Pull(1.0, 0.0, 2, 1)]


def without(
    i: int, x: np.ndarray, codes: np.ndarray, pull: Pull, scale: float, floor: float, vertices: np.ndarray
) -> np.ndarray:
    """Latents of the others when case i is deleted, by computing them anew."""
    kept = np.delete(np.arange(len(x)), i)
    fewer = find_neighbours(distances(x[kept]), codes[kept], len(vertices), 4)
    return latents(replace(fewer, floor=floor), pull, vertices) / scale


def with_duplicates(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Some cases of one class and some of two coincide."""
    x = x.copy()
    x[3], x[7] = x[0], x[8]
    return x


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("pull", PULLS)
def test_leave_one_out_is_deletion(pull: Pull, duplicates: bool, random_seed: int) -> None:
    x, codes = case(random_seed)
    if duplicates:
        x = with_duplicates(x, codes)
    vertices = simplex_vertices(3)
    neighbours = find_neighbours(distances(x), codes, 3, 4)
    z, scale = scaled_latents(neighbours, pull, vertices)
    process = process_of(x)
    at = (0.3, -2.0)
    found = left_out(process, neighbours, pull, vertices, z, scale, at)
    signal = np.exp(process.log_density(*at, z)[1]) / process.shape(z)
    correlation, noise = process.correlation(at[0]), np.exp(at[1])
    for i in range(len(x)):
        others = np.delete(np.arange(len(x)), i)
        weight = np.linalg.solve(
            correlation[np.ix_(others, others)] + noise * np.eye(len(others)), correlation[others, i]
        )
        mean = weight @ without(i, x, codes, pull, scale, neighbours.floor, vertices)
        np.testing.assert_allclose(found.mean[i], mean, rtol=0, atol=1e-10)
        assert found.variance[i] == pytest.approx(signal * (1 + noise - weight @ correlation[others, i]), rel=1e-8)


def test_latents_of_the_others_tell_the_label_left_out(random_seed: int) -> None:
    # labels that are noise: left out properly nothing predicts them; with latents that stay they look predictable
    rng = np.random.default_rng(random_seed)
    x, codes = rng.normal(size=(60, 2)), np.arange(60) % 2
    vertices, pull = simplex_vertices(2), Pull(0.0, 1.0, 1, 1)
    neighbours = find_neighbours(distances(x), codes, 2, 4)
    z, scale = scaled_latents(neighbours, pull, vertices)
    process, at = process_of(x), (-0.5, -2.0)
    proper = left_out(process, neighbours, pull, vertices, z, scale, at)
    inverse = process.inverse(*at)
    naive = replace(proper, mean=z - inverse @ z / np.diag(inverse)[:, None])
    everyone = np.full(60, True)
    losses = [log_losses(found, codes, [1.0], vertices, everyone)[0] for found in (proper, naive)]
    assert losses[0] > losses[1] + 5


def test_classes_too_small_to_lose_a_case_are_not_left_out() -> None:
    codes = np.array([0] * 6 + [1] * 3 + [2] * 2)
    neighbours = find_neighbours(distances(np.arange(11.0)[:, None]), codes, 3, 4)
    assert can_be_left_out(neighbours, Pull(0.5, 0.5, 1, 1)).tolist() == [True] * 9 + [False] * 2
    assert can_be_left_out(neighbours, Pull(0.5, 0.5, 3, 1)).tolist() == [True] * 6 + [False] * 5
    assert can_be_left_out(neighbours, Pull(0.0, 1.0, 3, 1)).all()


def test_weights_are_the_products_of_probabilities() -> None:
    losses = np.array([[1.0, 2.0], [3.0, 30.0]])
    expected = np.exp(-losses)
    expected[1, 1] = 0  # less than a thousandth of the heaviest
    np.testing.assert_allclose(pseudo_posterior(losses), expected / expected.sum(), rtol=1e-12)


# The posterior


def weighted(
    x: np.ndarray, codes: np.ndarray, pulls: list[Pull], kernel: str = "matern52"
) -> tuple[LatentProcess, Neighbours, Weighted]:
    process, vertices = process_of(x, kernel), simplex_vertices(int(codes.max()) + 1)
    neighbours = find_neighbours(distances(x), codes, len(vertices), 4)
    return process, neighbours, weigh(process, neighbours, vertices, pulls, (1.0, 2.0))


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("n", [9, 60])
def test_interpolated_densities_are_the_densities(n: int, kernel: str, random_seed: int) -> None:
    x, codes = case(random_seed, n)
    process, _, chosen = weighted(x, codes, PULLS[:1] if n == 9 else PULLS, kernel)
    target = mixture(process, chosen.zs, chosen.weight.sum(axis=1), chosen.located)
    u = np.random.default_rng(random_seed).uniform(-4, 4, size=(20, 2))
    for g, z in enumerate(chosen.zs):
        points = target.located.mean[g] + u @ target.located.factor[g].T
        exact = np.array([process.log_density(a, b, z)[0] for a, b in points])
        found = target.surrogate.at(target.surrogate.density[g], points)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-2)


def test_parts_have_their_weights_and_the_interpolant_is_their_sum(random_seed: int) -> None:
    process, _, chosen = weighted(*case(random_seed, 40), PULLS)
    weight = chosen.weight.sum(axis=1)
    target = mixture(process, chosen.zs, weight, chosen.located)
    line = np.linspace(-REACH, REACH, 97)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    parts = np.exp(target.parts(grid))
    np.testing.assert_allclose(parts.sum(axis=0) * (line[1] - line[0]) ** 2, weight, rtol=1e-3, atol=1e-9)
    coefficients = interpolant_of(target)
    found = np.exp(chebyshev.chebgrid2d(line / REACH, line / REACH, coefficients)).ravel()
    expected = parts.sum(axis=1)
    # total variation distance of the two laws: about 1e-6, and up to 4e-3 where tails of parts cross (20 seeds)
    assert 0.5 * np.abs(found / found.sum() - expected / expected.sum()).sum() < 1e-2
    logp = build(coefficients).compile_logp(mode=RUN)
    for u in np.random.default_rng(random_seed).uniform(-3, 3, size=(10, 2)):
        assert float(logp({"u": u})) == pytest.approx(chebyshev.chebval2d(*u / REACH, coefficients), rel=1e-9)


def test_gradient_of_the_interpolant_is_that_of_differences(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    model = build(rng.normal(size=(DEGREE, DEGREE)) / np.add.outer(np.arange(DEGREE), np.arange(DEGREE) + 1) ** 4)
    logp, slope = model.compile_logp(mode=RUN), model.compile_dlogp(mode=RUN)
    for u in [*rng.uniform(-7.9, 7.9, size=(10, 2)), np.array([8.5, 1.0]), np.array([-9.0, -8.2])]:
        step = 1e-5 * np.eye(2)
        expected = [(logp({"u": u + d}) - logp({"u": u - d})) / 2e-5 for d in step]
        np.testing.assert_allclose(slope({"u": u}), expected, rtol=1e-5, atol=1e-6)


def test_posterior_is_located(random_seed: int) -> None:
    # moments by a plain grid of the density itself
    x, codes = case(random_seed, 30)
    process, vertices = process_of(x), simplex_vertices(3)
    z, _ = scaled_latents(find_neighbours(distances(x), codes, 3, 4), PULLS[0], vertices)
    located = locate(process, z[None])
    a = process.center + np.linspace(-4, 4, 121)
    b = process.priors.noise_ratio_log_mean + np.linspace(-9, 9, 121)
    log_density = process.table(a, b, z[None])[0][0]
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = np.array([weight.sum(axis=1) @ a, weight.sum(axis=0) @ b])
    sd = np.sqrt([weight.sum(axis=1) @ (a - mean[0]) ** 2, weight.sum(axis=0) @ (b - mean[1]) ** 2])
    # whitening alone depends on it: a tenth of a standard deviation is plenty
    assert (np.abs(located.mean[0] - mean) < 0.1 * sd).all()
    factor = located.factor[0]
    np.testing.assert_allclose(np.sqrt((factor**2).sum(axis=1)), sd, rtol=0.1)
    assert log_density.max() - process.log_density(*located.mode[0], z)[0] < 0.05


def test_draws_have_the_moments_of_the_posterior(random_seed: int) -> None:
    # a single transformation, so that quadrature of the density is the reference
    x, codes = case(random_seed, 30)
    process, _, chosen = weighted(x, codes, PULLS[:1])
    settings = SamplerSettings(draws=1000, tune=300, chains=4, seed=random_seed)
    found = draw_posterior(process, chosen, settings, np.random.default_rng(random_seed))
    assert found.sampled.convergence.verdict == "passed", found.sampled.convergence.message
    assert found.interpolation_error < 1e-3
    a = process.center + np.linspace(-4, 4, 121)
    b = process.priors.noise_ratio_log_mean + np.linspace(-9, 9, 121)
    log_density, log_scale = (table[0] for table in process.table(a, b, chosen.zs))
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    table = found.sampled.convergence.table
    expected = {
        "length_scale": (weight.sum(axis=1), a),
        "noise_ratio": (weight.sum(axis=0), b),
    }
    for name, (marginal, values) in expected.items():
        draws = np.log(found.draws[name]).ravel()
        mean = marginal @ values
        sd = np.sqrt(marginal @ (values - mean) ** 2)
        assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(table.ess_bulk[name])
        assert draws.std() == pytest.approx(sd, rel=0.15)
    shape = process.shape(chosen.zs[0])
    mean = float((weight * np.exp(log_scale)).sum() / (shape - 1))  # of the inverse gamma law
    draws = found.draws["signal_variance"].ravel()
    assert abs(draws.mean() - mean) < 5 * draws.std() / np.sqrt(table.ess_bulk["signal_variance"])
    share = (found.draws["spread"] == 2.0).mean()
    assert share == pytest.approx(chosen.weight[0, 1], abs=5 * np.sqrt(0.25 / draws.size))


def test_average_over_spreads_is_that_of_the_cones(random_seed: int) -> None:
    # the loss of a spread is that of probabilities with so many times the standard deviation
    x, codes = case(random_seed)
    vertices = simplex_vertices(3)
    neighbours = find_neighbours(distances(x), codes, 3, 4)
    z, scale = scaled_latents(neighbours, PULLS[0], vertices)
    found = left_out(process_of(x), neighbours, PULLS[0], vertices, z, scale, (0.0, -2.0))
    p = cone_probabilities(found.mean, 3 * np.sqrt(found.variance), vertices)
    expected = -np.log(p[np.arange(30), codes]).sum()
    assert log_losses(found, codes, [3.0], vertices, np.full(30, True))[0] == pytest.approx(expected, rel=1e-12)
