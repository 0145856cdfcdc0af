"""The simplex, its cones and their probabilities, and the training-data transformation f."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import nnls
from scipy.stats import multivariate_normal, norm

from bayescal.casimac.cones import cone_probabilities, sampled_cone_probabilities
from bayescal.casimac.neighbours import FLOOR, Neighbours, Pull, find_neighbours, latents
from bayescal.casimac.simplex import barycentric, compress, decompress, first_cone, simplex_vertices

SIZES = (2, 3, 4, 7, 26, 100)


@pytest.mark.parametrize("n", SIZES)
def test_simplex_is_regular_with_unit_vertices_around_0(n: int) -> None:
    # eq. 10; equal products are what regular means
    p = simplex_vertices(n)
    assert p.shape == (n, n - 1)
    np.testing.assert_allclose(p.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(p @ p.T, np.where(np.eye(n) > 0, 1.0, -1 / (n - 1)), rtol=0, atol=1e-12)


def test_simplex_of_two_classes_is_that_of_the_paper() -> None:
    np.testing.assert_allclose(simplex_vertices(2), [[-1.0], [1.0]], rtol=1e-15)


@pytest.mark.parametrize("n", SIZES[:4])
def test_nearest_vertex_is_the_cone_that_mirrored_vertices_span(n: int, random_seed: int) -> None:
    # Theorem 8 of the paper: eq. 31 is eq. 11
    p = simplex_vertices(n)
    for z in np.random.default_rng(random_seed).normal(size=(20, n - 1)):
        (found,) = first_cone(z[None], p)
        assert found == np.linalg.norm(z - p, axis=1).argmin()
        _, distance = nnls(-np.delete(p, found, axis=0).T, z)
        assert distance < 1e-10
        for other in set(range(n)) - {found}:
            assert nnls(-np.delete(p, other, axis=0).T, z)[1] > 1e-10


@pytest.mark.parametrize("n", SIZES[:4])
def test_first_of_the_cones_that_meet(n: int) -> None:
    p = simplex_vertices(n)
    assert first_cone(np.zeros((1, n - 1)), p) == 0
    for a, b in itertools.combinations(range(n), 2):
        assert first_cone((p[a] + p[b])[None] if n > 2 else np.zeros((1, 1)), p) == a


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_compression_is_one_to_one_and_keeps_cones(n: int, seed: int) -> None:
    p = simplex_vertices(n)
    z = 2 * np.random.default_rng(seed).normal(size=(10, n - 1))
    c = compress(z, p)
    weights = barycentric(c, p)
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(first_cone(c, p), first_cone(z, p))
    np.testing.assert_allclose(decompress(c, p), z, rtol=0, atol=1e-7)


def test_compression_is_regular_where_it_is_flat(random_seed: int) -> None:
    # its derivative at 0, from softmax: sum_y p_y p_y' / n = I / (n - 1)
    n = 4
    p = simplex_vertices(n)
    step = 1e-5 * np.eye(n - 1)
    slope = (compress(step, p) - compress(-step, p)) / 2e-5
    np.testing.assert_allclose(slope, np.eye(n - 1) / (n - 1), rtol=0, atol=1e-9)


# Probabilities of the cones


def case(rng: np.random.Generator, n: int, rows: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sd = np.exp(rng.uniform(-2, 1, rows))
    return rng.normal(size=(rows, n - 1)), sd, simplex_vertices(n)


def test_two_classes_have_the_normal_distribution_function(random_seed: int) -> None:
    mean, sd, p = case(np.random.default_rng(random_seed), 2)
    expected = norm.cdf(mean[:, 0] / sd)
    np.testing.assert_allclose(cone_probabilities(mean, sd, p)[:, 1], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [3, 4, 10, 30])
def test_integral_is_that_of_adaptive_quadrature(n: int, random_seed: int) -> None:
    # P(y) = integral phi(t) prod_{l != y} Phi(t + (mu_y - mu_l) / tau) dt, by QUADPACK for each class by itself
    mean, sd, p = case(np.random.default_rng(random_seed), n, 5)
    found = cone_probabilities(mean, sd, p)
    for i in range(len(mean)):
        height = p @ mean[i] / (sd[i] * np.sqrt(n / (n - 1)))
        for y in range(n):
            others = height[y] - np.delete(height, y)
            expected, _ = (
                quad(lambda t, o=others: norm.pdf(t) * norm.cdf(t + o).prod(), -9, 9, epsabs=1e-12, limit=200)
                if n <= 4
                else quad(
                    lambda t, o=others: np.exp(-t * t / 2 + norm.logcdf(t + o).sum()) / np.sqrt(2 * np.pi),
                    -9,
                    9,
                    epsabs=1e-11,
                    limit=100,
                )
            )
            assert found[i, y] == pytest.approx(expected, abs=1e-8)


def test_three_classes_agree_with_the_bivariate_normal_law(random_seed: int) -> None:
    mean, sd, p = case(np.random.default_rng(random_seed), 3, 10)
    found = cone_probabilities(mean, sd, p)
    for i, y in itertools.product(range(len(mean)), range(3)):
        edges = p[y] - np.delete(p, y, axis=0)
        law = multivariate_normal(cov=sd[i] ** 2 * edges @ edges.T)
        assert found[i, y] == pytest.approx(law.cdf(edges @ mean[i]), abs=1e-8)


@pytest.mark.parametrize("n", [2, 3, 4, 10])
def test_shares_of_draws_agree(n: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    mean, sd, p = case(rng, n, 5)
    size = 100_000
    found = cone_probabilities(mean, sd, p)
    axes = np.repeat(sd[:, None], n - 1, axis=1)
    shares = sampled_cone_probabilities(mean, axes, p, rng.normal(size=(size, n - 1)))
    # 5 standard errors of a share, of 5 n of them; half a draw is added to each
    np.testing.assert_allclose(shares, found, rtol=0, atol=5 * np.sqrt(0.25 / size) + n / size)


def test_logs_of_small_probabilities_are_right() -> None:
    # three classes, mean at a vertex: by QUADPACK with the density of the largest factored out
    p = simplex_vertices(3)
    for spread in (0.5, 0.2, 0.15):
        found = cone_probabilities(p[:1], np.array([spread]), p)[0, 1]
        height = p @ p[0] / (spread * np.sqrt(1.5))

        def log_integrand(t: float, h: np.ndarray = height) -> float:
            return float(norm.logpdf(t) + norm.logcdf(t + h[1] - h[[0, 2]]).sum())

        line = np.arange(-20, 40, 0.01)
        values = np.array([log_integrand(t) for t in line])
        expected = values.max() + np.log(np.exp(values - values.max()).sum() * 0.01)
        assert np.log(found) == pytest.approx(expected, abs=1e-6)


def test_without_spread_the_nearest_vertex_is_certain() -> None:
    p = simplex_vertices(4)
    found = cone_probabilities(0.3 * p[[2, 0]], np.array([0.0, 0.0]), p)
    assert found.argmax(axis=1).tolist() == [2, 0]
    np.testing.assert_allclose(found.max(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_far_latents_and_wide_ones_stay_probabilities(n: int) -> None:
    p = simplex_vertices(n)
    mean = np.concatenate([1e12 * p[:1], p[:1], 1e-300 * p[:1]])
    found = cone_probabilities(mean, np.array([1e-9, 1e12, 1.0]), p)
    assert np.isfinite(found).all() and (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(found[1], 1 / n, rtol=0, atol=1e-8)


# The transformation


def neighbours_of(x: np.ndarray, codes: np.ndarray, most: int = 4) -> Neighbours:
    return find_neighbours(np.linalg.norm(x[:, None] - x, axis=-1), codes, int(codes.max()) + 1, most)


@pytest.mark.parametrize(("k_alpha", "k_beta"), [(1, 1), (2, 3), (3, 1)])
def test_transformation_is_that_of_the_paper(k_alpha: int, k_beta: int, random_seed: int) -> None:
    # eqs. 14-16, written out
    rng = np.random.default_rng(random_seed)
    x, codes = rng.normal(size=(24, 2)), np.arange(24) % 3
    p, alpha, beta = simplex_vertices(3), 0.3, 1.7

    def mean_distance(i: int, y: int, k: int) -> float:
        return np.sort([np.linalg.norm(x[i] - x[j]) for j in range(24) if j != i and codes[j] == y])[:k].mean()

    expected = np.zeros((24, 2))
    for i in range(24):
        expected[i] = alpha / mean_distance(i, codes[i], k_alpha) * p[codes[i]]
        for y in {0, 1, 2} - {codes[i]}:
            expected[i] -= beta * mean_distance(i, y, k_beta) * p[y]
    found = latents(neighbours_of(x, codes), Pull(alpha, beta, k_alpha, k_beta), p)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_array_equal(first_cone(found, p), codes)  # eq. 21


def test_of_two_classes_it_is_the_signed_distance() -> None:
    # eq. 5 of the paper: alpha = 0, beta = 1, k = 1
    x, codes = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([0, 1, 0, 1])
    found = latents(neighbours_of(x, codes), Pull(0.0, 1.0, 1, 1), simplex_vertices(2))
    np.testing.assert_allclose(found[:, 0], [-1, 1, -2, 4], rtol=1e-12)


def test_cases_that_coincide_have_finite_latents_inside_their_cones(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x = np.repeat(rng.normal(size=(6, 2)), 3, axis=0)
    codes = np.arange(18) % 2  # every point has both labels
    p = simplex_vertices(2)
    for pull in (Pull(0.5, 0.5, 1, 1), Pull(0.0, 1.0, 1, 1), Pull(1.0, 0.0, 2, 2)):
        found = latents(neighbours_of(x, codes), pull, p)
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(first_cone(found, p), codes)
    middle = np.median(np.linalg.norm(x[:, None] - x, axis=-1)[np.triu_indices(18, 1)])
    found = latents(neighbours_of(x, codes), Pull(0.0, 1.0, 1, 1), p)
    np.testing.assert_allclose(np.abs(found[:, 0]), FLOOR * middle, rtol=1e-12)
