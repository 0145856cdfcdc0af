"""Copula families: densities against statsmodels, mpmath and integration; h-functions; Kendall's tau; the edges."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescal.calibrators.copula_families import EDGE, FAMILIES, LARGEST_TAU, conditional, log_density

NAMES = list(FAMILIES)
DEPENDENT = [name for name in NAMES if name != "independence"]
RECORDED = json.loads((Path(__file__).parent / "data/copulas/recorded.json").read_text(encoding="utf-8"))
EDGES = np.array([EDGE, 1e-9, 1e-6, 1e-3, 0.03, 0.3, 0.5, 0.7, 0.97, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 - EDGE])
U, V = (grid.reshape(-1) for grid in np.meshgrid(EDGES, EDGES))
TAUS = np.array([0.0, 1e-12, 1e-8, 1e-4, 0.02, 0.2, 0.5, 0.8, 0.95, LARGEST_TAU])

units = st.floats(0.0, 1.0)
taus = st.floats(-1.0, 1.0)


def logit_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) and weights of the trapezoid rule in log-odds, on which every density here is smooth."""
    x = np.linspace(-27.6, 27.6, count)  # from 1e-12 to 1 - 1e-12
    u = 1 / (1 + np.exp(-x))
    return u, (x[1] - x[0]) * u * (1 - u)


def recorded(source: str) -> list[Any]:
    return [(source, name, row) for name, rows in RECORDED[source]["families"].items() for row in rows]


@pytest.mark.parametrize(("source", "name", "row"), [*recorded("statsmodels"), *recorded("mpmath")])
def test_density_is_the_recorded_one(source: str, name: str, row: dict[str, Any]) -> None:
    # statsmodels in the interior; mpmath with 60 digits from 1e-12 to 1 - 1e-9 and up to a tau of 0.95 or more
    u, v = np.array(RECORDED[source]["points"]).T
    found = FAMILIES[name].density(u, v, np.array(row["parameter"]))
    np.testing.assert_allclose(found, row["log_density"], rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "t", "clayton", "gumbel", "frank"])
def test_parameter_of_kendalls_tau_is_statsmodels(name: str) -> None:
    rows = RECORDED["statsmodels"]["families"][name]
    expected = [row["parameter"] for row in rows]
    found = FAMILIES[name].parameter(np.array(RECORDED["statsmodels"]["taus"]))
    np.testing.assert_allclose(found, expected, rtol=1e-7)  # theirs for Frank's family comes from a root finder


def test_gaussian_density_at_the_centre() -> None:
    # 1 / sqrt(1 - 0.6^2) at the medians
    assert np.exp(log_density("gaussian", 0.5, 0.5, 2 / np.pi * np.arcsin(0.6))) == pytest.approx(1.25, rel=1e-12)


@pytest.mark.parametrize("tau", [-0.9, -0.3, 0.0, 1e-8, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_density_integrates_to_one(name: str, tau: float) -> None:
    u, weight = logit_nodes(900)
    mass = np.exp(log_density(name, u[:, None], u, tau)) * weight[:, None] * weight
    assert mass.sum() == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("tau", [-0.9, -0.3, 1e-8, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_conditional_is_the_integral_of_the_density(name: str, tau: float) -> None:
    at = np.array([1e-6, 0.004, 0.2, 0.5, 0.77, 0.998])
    node, weight = np.polynomial.legendre.leggauss(12)
    for u in (1e-5, 0.03, 0.4, 0.9, 0.9999):
        edges = np.linspace(np.log(1e-12), np.log(u / (1 - u)), 401)  # log-odds
        x = (edges[:-1, None] + np.diff(edges)[:, None] * (node + 1) / 2).reshape(-1)
        w = (np.diff(edges)[:, None] * weight / 2).reshape(-1)
        t = 1 / (1 + np.exp(-x))
        area = np.exp(log_density(name, t[:, None], at, tau)) * (w * t * (1 - t))[:, None]
        np.testing.assert_allclose(conditional(name, np.array(u), at, tau), area.sum(axis=0), rtol=0, atol=3e-6)


@pytest.mark.parametrize("tau", [0.02, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", DEPENDENT)
def test_tau_is_kendalls(name: str, tau: float) -> None:
    # tau = 1 - 4 E h(U | v) h(V | u) over uniform u, v (Nelsen 2006, section 5.1.1)
    u, weight = logit_nodes(700)
    h = conditional(name, u[:, None], u, tau)
    found = 1 - 4 * np.einsum("ij,i,j->", h * h.T, weight, weight)
    assert found == pytest.approx(tau, abs=2e-6)


@pytest.mark.parametrize("name", DEPENDENT)
def test_tau_and_parameter_are_inverse(name: str) -> None:
    family = FAMILIES[name]
    np.testing.assert_allclose(family.kendall(family.parameter(TAUS)), TAUS, rtol=0, atol=1e-7)
    assert (np.diff(family.parameter(TAUS)) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_finite_at_the_edges(name: str) -> None:
    for tau in [*TAUS, *-TAUS]:
        with np.errstate(all="raise", under="ignore"):
            density, h = log_density(name, U, V, tau), conditional(name, U, V, tau)
        assert np.isfinite(density).all()
        assert h.min() >= 0.0 and h.max() <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_exact_zeros_and_ones_are_taken_for_the_edge(name: str) -> None:
    corner = np.array([0.0, 1.0])
    inside = np.array([EDGE, 1 - EDGE])
    for function in (log_density, conditional):
        np.testing.assert_array_equal(
            function(name, corner[:, None], corner, 0.5), function(name, inside[:, None], inside, 0.5)
        )


@pytest.mark.parametrize("name", ["gaussian", "t"])
def test_a_correlation_near_one_is_finite(name: str) -> None:
    with np.errstate(all="raise", under="ignore"):
        density = FAMILIES[name].density(U, V, np.array(1 - 1e-12))
    assert np.isfinite(density).all()
    assert (density[U == V] > 10.0).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "t"])  # the t copula keeps dependent tails
def test_no_dependence_is_independence(name: str) -> None:
    inside = np.linspace(0.01, 0.99, 25)
    np.testing.assert_allclose(log_density(name, inside[:, None], inside, 0.0), 0.0, atol=1e-7)
    np.testing.assert_allclose(log_density(name, inside[:, None], inside, 1e-8), 0.0, atol=1e-5)
    h = conditional(name, inside[:, None], inside, 1e-8)
    np.testing.assert_allclose(h, np.broadcast_to(inside[:, None], h.shape), atol=1e-6)


@pytest.mark.parametrize("tau", [-0.9, -0.2, 1e-4, 0.02, 0.5, 0.9])
@pytest.mark.parametrize("name", DEPENDENT)
def test_derivative_in_tau_is_finite(name: str, tau: float) -> None:
    # central differences of two step sizes agree, so that there is a derivative, and no rounding in its place
    one, two = (
        (log_density(name, U, V, tau + step) - log_density(name, U, V, tau - step)) / (2 * step)
        for step in (1e-3 * abs(tau), 2e-3 * abs(tau))
    )
    assert np.isfinite(one).all()
    np.testing.assert_allclose(one, two, rtol=0.05, atol=1e-3)


@given(u=units, v=units, tau=taus)
@pytest.mark.parametrize("name", NAMES)
def test_negative_dependence_reflects(name: str, u: float, v: float, tau: float) -> None:
    v = float(np.clip(v, 1e-6, 1 - 1e-6))  # 1 - v is not at the edge
    for function in (log_density, conditional):
        if tau != 0:
            np.testing.assert_array_equal(function(name, u, v, -abs(tau)), function(name, u, 1 - v, abs(tau)))


@pytest.mark.parametrize("name", ["gaussian", "frank", "plackett"])
def test_reflection_is_the_familys_own_negative_parameter(name: str) -> None:
    inside = np.linspace(0.05, 0.95, 10)
    u, v = inside[:, None], inside
    a = FAMILIES[name].parameter(np.array(0.4))
    if name == "gaussian":
        own = FAMILIES[name].density(u, v, -a)
    elif name == "frank":  # its textbook density, of either sign of the parameter
        below = 1 - np.exp(a) - (1 - np.exp(a * u)) * (1 - np.exp(a * v))
        own = np.log(-a * (1 - np.exp(a)) * np.exp(a * (u + v)) / below**2)
    else:
        own = FAMILIES[name].density(u, v, 1 / a)
    np.testing.assert_allclose(log_density(name, u, v, -0.4), own, atol=1e-10)


@given(u=units, v=units, tau=taus)
@pytest.mark.parametrize("name", NAMES)
def test_density_is_symmetric_and_rotation_turns_it(name: str, u: float, v: float, tau: float) -> None:
    tau = abs(tau)
    assert log_density(name, u, v, tau) == pytest.approx(log_density(name, v, u, tau), rel=1e-9, abs=1e-9)
    if name in ("independence", "gaussian", "t", "frank", "plackett"):
        u, v = np.clip([u, v], 1e-3, 1 - 1e-3)  # where 1 - u loses no digits
        assert log_density(name, u, v, tau) == pytest.approx(log_density(name, 1 - u, 1 - v, tau), rel=1e-7, abs=1e-7)


@given(u=units, other=units, v=units, tau=taus)
@pytest.mark.parametrize("name", NAMES)
def test_conditional_is_a_distribution_function(name: str, u: float, other: float, v: float, tau: float) -> None:
    low, high = conditional(name, np.sort([u, other]), v, tau)
    assert 0.0 <= low <= high + 1e-12 <= 1.0 + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_shapes_broadcast(name: str) -> None:
    u, v, tau = np.full((5, 1), 0.3), np.full((5, 1), 0.6), np.linspace(-0.9, 0.9, 4)
    for function in (log_density, conditional):
        together = function(name, u, v, tau)
        assert together.shape == (5, 4)
        alone = [float(function(name, 0.3, 0.6, t)) for t in tau]
        np.testing.assert_allclose(together[0], alone, rtol=1e-13, atol=1e-13)
