"""The specification `models/casimac_generative.py`: its density by other means, its names, and what its card states."""

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pytensor.compile.mode import Mode
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import halfnorm, lognorm, norm

RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATION = load(Path(__file__).parents[1] / "models" / "casimac_generative.py")


def keyword_arguments() -> dict[str, Any]:
    parameters = inspect.signature(SPECIFICATION.model).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def case(rng: np.random.Generator, classes: int, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, 2)), rng.permutation(np.arange(n) % classes)


def largest(a: np.ndarray, own: int) -> float:
    """Probability that of independent Normal(a_k, 1) the one of `own` is the largest."""
    others = np.delete(a, own)
    return quad(
        lambda v: norm.pdf(v - a[own]) * ndtr(v - others).prod(), a[own] - 12, a[own] + 12, epsabs=0, epsrel=1e-11
    )[0]


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_density_is_that_of_cones(classes: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, classes)
    model = SPECIFICATION.model(x, y)
    logp = model.compile_logp(mode=RUN)
    distance = np.linalg.norm(x[:, None] - x, axis=-1)
    middle = np.median(distance[np.triu_indices(len(x), 1)])
    axes = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]
    np.testing.assert_allclose(axes @ axes.T, np.eye(classes) - 1 / classes, atol=1e-12)  # of a regular simplex
    difference = []
    for _ in range(4):
        ell, amplitude = np.exp(rng.normal(size=2))
        raw = rng.normal(size=(len(x), classes - 1))
        r = np.sqrt(5) * distance / ell
        f = amplitude * np.linalg.cholesky((1 + r + r**2 / 3) * np.exp(-r) + 1e-6 * np.eye(len(x))) @ raw
        likelihood = [largest(axes @ f[i], y[i]) for i in range(len(x))]
        expected = (
            lognorm.logpdf(ell, 1.0, scale=middle)
            + halfnorm.logpdf(amplitude, scale=3.0)
            + np.log([ell, amplitude]).sum()  # logs are the coordinates
            + norm.logpdf(raw).sum()
            + np.log(likelihood).sum()
        )
        found = logp({"length_scale_log__": np.log(ell), "amplitude_log__": np.log(amplitude), "raw": raw})
        difference.append(float(found - expected))
    # PyMC's constants of the laws are off by up to 1e-8
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)
    assert abs(difference[0]) < 1e-7


def test_two_classes_are_a_probit_regression(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    f, axes = rng.normal(size=20) * 3, np.linalg.svd(np.eye(2) - 0.5)[0][:, 0]
    found = [largest(axes * value, 1) for value in f]
    np.testing.assert_allclose(found, ndtr(np.sign(axes[1]) * f), rtol=0, atol=1e-10)


def test_density_is_finite_on_hard_data(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    hard = {
        "two cases": (np.array([[-1.0], [1.0]]), np.array([0, 1])),
        "a duplicate with two labels": (np.array([[0.0], [0.0], [1.0]]), np.array([0, 1, 0])),
        "six classes": case(rng, 6, 12),
    }
    for x, y in hard.values():
        model = SPECIFICATION.model(x, y)
        logp = model.compile_logp(mode=RUN)
        for scale in (-2.0, 0.0, 2.0):
            point = {"length_scale_log__": scale, "amplitude_log__": scale, "raw": rng.normal(size=(len(x), y.max()))}
            assert np.isfinite(logp(point))


def test_every_axis_is_named(random_seed: int) -> None:
    x, y = case(np.random.default_rng(random_seed), 3)
    model = SPECIFICATION.model(x, y)
    assert model.named_vars_to_dims["y"] == ("case",)
    for variable in [*model.basic_RVs, *model.deterministics, *model.data_vars]:
        dims = model.named_vars_to_dims.get(variable.name, ())
        assert len(dims) == variable.ndim, variable.name
        assert all(
            len(model.coords[dim]) == size for dim, size in zip(dims, variable.shape.eval(mode=RUN), strict=True)
        )


def test_card_has_every_section_and_states_the_defaults() -> None:
    card = inspect.getdoc(SPECIFICATION)
    sections = ["~ MvNormal", "Story. ", "Priors\n", "Prior predictive", "Limits\n", "References\n"]
    at = [card.find(section) for section in sections]
    assert min(at) > 0 and at == sorted(at), dict(zip(sections, at, strict=True))
    given = keyword_arguments()
    assert f"length_scale ~ LogNormal(log m, {given['length_scale_log_sd']:g})" in card
    assert f"amplitude ~ HalfNormal({given['amplitude_sd']:g})" in card


def likelier_below(q: float, amplitude_sd: float) -> float:
    """Prior probability that the likelier of two classes has a probability below q."""
    at = norm.ppf(q)
    return quad(lambda a: halfnorm.pdf(a, scale=amplitude_sd) * (2 * ndtr(at / a) - 1), 0, 12 * amplitude_sd)[0]


def test_card_shows_the_prior() -> None:
    given = keyword_arguments()
    for probability in (0.05, 0.5, 0.95):
        ell = lognorm.ppf(probability, given["length_scale_log_sd"])
        r = np.sqrt(5) / ell
        height = brentq(
            lambda t, p=probability: likelier_below(ndtr(t), given["amplitude_sd"]) - p, 1e-6, 8.0, xtol=1e-10
        )
        expected = [
            ell,
            (1 + r + r**2 / 3) * np.exp(-r),
            halfnorm.ppf(probability, scale=given["amplitude_sd"]),
            ndtr(height),
        ]
        (line,) = re.findall(rf"^ +{100 * probability:.0f} % +([\d. ]+)$", SPECIFICATION.__doc__, re.MULTILINE)
        np.testing.assert_allclose([float(word) for word in line.split()], expected, rtol=0, atol=0.00501)
