"""The specification `models/casimac.py`: what it says, what the library's density is, and its reference posterior."""

import importlib.util
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats
from pytensor.compile.mode import Mode
from scipy.stats import invgamma, lognorm

import bayescal as bc
from bayescal.casimac.fitting import PREDICTED
from bayescal.casimac.prediction import Predictor

MODELS = Path(__file__).parents[1] / "models"
REFERENCE = MODELS / "reference"
RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATION = load(MODELS / "casimac.py")
STORED = json.loads((REFERENCE / "casimac.json").read_text(encoding="utf-8"))
NAMES = ("length_scale", "noise_ratio", "signal_variance")


def keyword_arguments() -> dict[str, Any]:
    parameters = inspect.signature(SPECIFICATION.model).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def case(rng: np.random.Generator, n: int = 12, latents: int = 2) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, 3)), rng.normal(size=(n, latents))


def points(rng: np.random.Generator, count: int = 20) -> list[dict[str, float]]:
    return [dict(zip(NAMES, np.exp(rng.normal(size=3)), strict=True)) for _ in range(count)]


def log_density(model: pm.Model) -> Any:
    logp = model.compile_logp(mode=RUN)
    return lambda point: float(logp({f"{name}_log__": np.log(value) for name, value in point.items()}))


def test_density_is_that_of_normal_laws(random_seed: int) -> None:
    # the same laws by SciPy and NumPy; logs of the three parameters are the coordinates, hence the Jacobian
    rng = np.random.default_rng(random_seed)
    x, z = case(rng)
    at = log_density(SPECIFICATION.model(x, z))
    distance = np.linalg.norm(x[:, None] - x, axis=-1)
    middle = np.median(distance[np.triu_indices(len(x), 1)])
    difference = []
    for point in points(rng):
        ell, noise, signal = (point[name] for name in NAMES)
        r = np.sqrt(5) * distance / ell
        covariance = signal * ((1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(len(x)))
        expected = (
            lognorm.logpdf(ell, 1.0, scale=middle)
            + lognorm.logpdf(noise, 1.5, scale=0.1)
            + invgamma.logpdf(signal, 2.0, scale=1.0)
            - z.size / 2 * np.log(2 * np.pi)
            - z.shape[1] / 2 * np.linalg.slogdet(covariance)[1]
            - 0.5 * (z * np.linalg.solve(covariance, z)).sum()
            + np.log([ell, noise, signal]).sum()
        )
        difference.append(at(point) - expected)
    # PyMC's constant of the normal law is off by 1e-9 for each axis and case
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)
    assert abs(difference[0]) < 1e-7


def test_density_is_finite_on_hard_data(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    hard = {
        "two cases": (np.array([[-1.0], [1.0]]), np.array([[-1.0], [1.0]])),
        "a duplicate": (np.array([[0.0], [0.0], [1.0]]), np.array([[0.5], [-0.5], [1.0]])),
        "ten classes": case(rng, 30, 9),
    }
    for x, z in hard.values():
        at = log_density(SPECIFICATION.model(x, z))
        assert all(np.isfinite(at(point)) for point in points(rng, 5))


def test_every_axis_is_named(random_seed: int) -> None:
    x, z = case(np.random.default_rng(random_seed))
    model = SPECIFICATION.model(x, z)
    assert model.named_vars_to_dims["z"] == ("latent", "case")
    np.testing.assert_array_equal(model.rvs_to_values[model["z"]].eval(mode=RUN), z.T)
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
    sd, mean = given["noise_ratio_log_sd"], np.exp(given["noise_ratio_log_mean"])
    assert f"noise_ratio ~ LogNormal(log {mean:g}, {sd:g})" in card
    assert f"length_scale ~ LogNormal(log m, {given['length_scale_log_sd']:g})" in card
    shape, scale = given["signal_variance_shape"], given["signal_variance_scale"]
    assert f"signal_variance ~ InverseGamma({shape:g}, {scale:g})" in card


def test_card_shows_the_prior() -> None:
    given = keyword_arguments()
    for probability in (0.05, 0.5, 0.95):
        ell = lognorm.ppf(probability, given["length_scale_log_sd"])
        r = np.sqrt(5) / ell
        expected = [
            ell,
            (1 + r + r**2 / 3) * np.exp(-r),  # rises with the length-scale, so its quantile is that of the quantile
            lognorm.ppf(probability, given["noise_ratio_log_sd"], scale=np.exp(given["noise_ratio_log_mean"])),
            invgamma.ppf(probability, given["signal_variance_shape"], scale=given["signal_variance_scale"]),
        ]
        (line,) = re.findall(rf"^ +{100 * probability:.0f} % +([\d. ]+)$", SPECIFICATION.__doc__, re.MULTILINE)
        np.testing.assert_allclose([float(word) for word in line.split()], expected, rtol=0, atol=0.00501)


def test_reference_is_that_of_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REFERENCE)
    script = load(REFERENCE / "gaussian_process.py")
    assert {key: STORED[key] for key in script.data()} == script.data()
    assert STORED["posterior"]["arguments"] == keyword_arguments() == script.ARGUMENTS


def test_quadrature_has_the_density_of_the_specification(monkeypatch: pytest.MonkeyPatch, random_seed: int) -> None:
    # at a given signal variance, joint = density of the other two times the inverse gamma law of that variance
    monkeypatch.syspath_prepend(REFERENCE)
    script = load(REFERENCE / "gaussian_process.py")
    rng = np.random.default_rng(random_seed)
    x, z = case(rng)
    arguments = {key: value * rng.uniform(0.5, 2) for key, value in keyword_arguments().items()}
    at = log_density(SPECIFICATION.model(x, z, **arguments))
    target = script.Density(x, z, arguments)
    difference = []
    for point in points(rng):
        ell, noise, signal = (point[name] for name in NAMES)
        found, scale = target.at(np.log(ell), np.log(noise))
        law = invgamma.logpdf(signal, target.shape, scale=scale) + np.log(signal)
        difference.append(at(point) - found - law)
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)


def test_fit_agrees_with_the_reference(random_seed: int) -> None:
    # the transformation of the reference, fixed; turned vertices change no probability
    fixed = {"gamma": 0.5, "k_alpha": 1, "k_beta": 1, "spread": 1}
    clf = bc.CASIMACClassifier(**fixed, draws=1000, random_state=random_seed).fit(STORED["x"], STORED["y"])
    expected = STORED["posterior"]["functionals"]
    for name in NAMES:
        draws = np.log(clf.idata_.posterior[name].values)
        found = {"mean": draws.mean(), "sd": draws.std()}
        error = {key: array_stats.mcse(draws, chain_axis=0, draw_axis=1, method=key) for key in found}
        for key, probability in {"q05": 0.05, "q50": 0.5, "q95": 0.95}.items():
            found[key] = np.quantile(draws, probability)
            error[key] = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="quantile", prob=probability)
        for key, value in found.items():
            # 4 standard errors, and what halving the steps of the reference changed
            assert abs(value - expected[f"log({name})"][key]) <= 4 * error[key] + 1e-4, (name, key)
    at = np.array([[0.0, 0.0], [1.0, 0.5]])
    stored = [[expected[f"proba({a},{b})"][str(k)] for k in range(3)] for a, b in at.tolist()]
    made, weights = clf._fit.predictor, np.eye(PREDICTED)
    cross = clf._fit.space.kernel_to_cases(clf._fit.space.scaled(at))
    each = [
        Predictor(made.process, made.zs, replace(made.parts, weight=weight), made.vertices).proba(cross)
        for weight in weights
    ]
    error = np.std(each, axis=0) / np.sqrt(PREDICTED)
    assert (np.abs(clf.predict_proba(at) - stored) <= 4 * error + 1e-4).all()
