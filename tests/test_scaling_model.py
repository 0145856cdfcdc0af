"""The specification `models/scaling.py`: it runs and says what it is, and the library's calibrators are its members.

The counterpart, for models of several classes, of `test_models.py` and `test_densities.py`.
"""

import importlib.util
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from arviz_stats.base import array_stats
from pytensor.compile.mode import Mode
from scipy.special import log_softmax, softmax

import bayescal as bc
from bayescal.registry import CALIBRATORS

MODELS = Path(__file__).parents[1] / "models"
REFERENCE = MODELS / "reference"
MEMBERS = ("temperature", "no-bias-vector", "bias-corrected-temperature", "vector")
SPREADS = ("scale_spread_sd", "bias_spread_sd")  # 0 where a member is without
RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled
POINTS = 20


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATION = load(MODELS / "scaling.py")
STORED = json.loads((REFERENCE / "three_classes.json").read_text(encoding="utf-8"))


def defaults() -> dict[str, float]:
    """Keyword arguments of the specification with their defaults."""
    parameters = inspect.signature(SPECIFICATION.model).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def arguments_of(priors: Any) -> dict[str, float]:
    """Keyword arguments of the specification for the priors of a member."""
    return dict.fromkeys(SPREADS, 0.0) | asdict(priors)


def rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of a data set that is hard for some member."""
    rng = np.random.default_rng(0)
    many = softmax(2 * rng.normal(size=(1000, 4)), axis=1)
    return {
        "two rows": (np.array([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2]]), np.array([0, 1])),
        "two classes": (np.array([[0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), np.array([0, 0, 1])),
        "one class": (softmax(rng.normal(size=(30, 3)), axis=1), np.zeros(30, dtype=int)),
        "constant": (np.full((30, 3), 1 / 3), np.arange(30) % 3),
        "separated": (softmax(3 * np.eye(3)[np.arange(30) % 3], axis=1), np.arange(30) % 3),
        "zeros and ones": (np.eye(3)[np.arange(30) % 3], np.arange(30) // 10),
        "a thousand": (many, (np.cumsum(many, axis=1) < rng.random((1000, 1))).sum(axis=1).clip(max=3)),
    }[kind]


DATA = ("two rows", "two classes", "one class", "constant", "separated", "zeros and ones", "a thousand")


# The specification


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", MEMBERS)
def test_log_density_is_finite(name: str, data: str, random_seed: int) -> None:
    model = SPECIFICATION.model(*rows(data), **STORED["posteriors"][name]["arguments"])
    logp, start = model.compile_logp(mode=RUN), model.initial_point()
    assert np.isfinite(logp(start))
    rng = np.random.default_rng(random_seed)
    for _ in range(5):
        assert np.isfinite(logp({key: rng.normal(size=np.shape(value)) for key, value in start.items()}))


@pytest.mark.parametrize("name", MEMBERS)
def test_one_row_is_one_case_and_every_axis_is_named(name: str) -> None:
    scores, y = rows("a thousand")
    model = SPECIFICATION.model(scores, y, **STORED["posteriors"][name]["arguments"])
    (observed,) = model.observed_RVs
    assert observed.name == "y" and model.named_vars_to_dims["y"] == ("case",)
    np.testing.assert_array_equal(model.rvs_to_values[observed].eval(), y)
    assert isinstance(observed.owner.op, pm.Categorical.rv_type)
    for variable in [*model.basic_RVs, *model.deterministics, *model.data_vars]:
        dims = model.named_vars_to_dims.get(variable.name, ())
        assert len(dims) == variable.ndim, variable.name
        assert all(len(model.coords[dim]) == size for dim, size in zip(dims, variable.shape.eval(), strict=True))


def test_card_has_every_section_and_states_the_defaults() -> None:
    card = inspect.getdoc(SPECIFICATION)
    sections = ["~ Categorical", "Story. ", "Priors\n", "Prior predictive", "Plain NUTS", "Limits\n", "References\n"]
    at = [card.find(section) for section in sections]
    assert min(at) > 0 and at == sorted(at), dict(zip(sections, at, strict=True))
    assert "uv run python models/reference/card.py scaling``" in card
    given = defaults()
    assert (
        f"temperature ~ LogNormal({given['temperature_log_mean']:g}, {given['temperature_log_sd']:g})" in card
        and f"scale_spread ~ HalfNormal({given['scale_spread_sd']:g})" in card
        and f"bias_spread ~ HalfNormal({given['bias_spread_sd']:g})" in card
    )


# The library's calibrators are the members


@pytest.mark.parametrize("name", MEMBERS)
def test_defaults_are_those_of_the_library(name: str) -> None:
    entry = CALIBRATORS[name]
    found = asdict(entry.load_priors()())
    left_out = {key for key in SPREADS if STORED["posteriors"][name]["arguments"][key] == 0}
    assert found == {key: value for key, value in defaults().items() if key not in left_out}


SHOWN = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # the columns and
PROBABILITIES = (0.05, 0.5, 0.95)  # the rows of the card's table


def test_card_shows_the_prior_predictive(random_seed: int) -> None:
    # The table was computed from the specification by `card.py`, from 20,000 draws; the draws here are the library's.
    scores, size = np.arange(1, 100) / 100, 20_000
    table = np.column_stack([scores, (1 - scores) / 2, (1 - scores) / 2])
    cal = bc.VectorScaling()
    job = cal._prepare(table, np.arange(99) % 3, None)
    rng = np.random.default_rng(random_seed)
    draws = cal._prior_draws(rng, size, job.priors, job.scale)
    q = softmax(cal._logits(cal._coordinate(table, job.scale), draws), axis=-1)[..., 0]
    at = np.searchsorted(scores, SHOWN - 1e-9)
    columns = [*q[:, at].T, np.abs(q - scores).mean(axis=1), (rng.random(q.shape) < q).mean(axis=1)]
    for probability in PROBABILITIES:
        (line,) = re.findall(rf"^ +{100 * probability:.0f} % +([\d. ]+)$", SPECIFICATION.__doc__, re.MULTILINE)
        shown = np.array(line.split(), dtype=float)
        assert len(shown) == len(columns)
        error = 5 * np.sqrt(2 * probability * (1 - probability) / size)  # of a share, both sides drawn
        for value, column in zip(shown, columns, strict=True):
            assert (column <= value - 0.0051).mean() - error <= probability <= (column <= value + 0.0051).mean() + error


def make_pair(name: str, kind: str, seed: int) -> tuple[Any, Any, pm.Model, pm.Model, np.ndarray]:
    """Calibrator, job, its model of 60 weighted rows with ties and zeros, and the specification's of repeated rows."""
    rng = np.random.default_rng(seed)
    logits = np.round(3 * rng.normal(size=(60, 4)), 1)
    logits[30:40] = logits[:10]
    scores = softmax(logits, axis=1)
    if kind == "proba":
        scores[0], scores[1] = [0, 0, 1, 0], [0.5, 0.5, 0, 0]
    weight, y = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    calibrator = CALIBRATORS[name].load()(score_kind=kind)
    given = scores if kind == "proba" else logits + rng.normal(size=(60, 1))  # a constant of each row is no matter
    job = calibrator._prepare(given, y, weight)
    repeated = np.repeat(np.arange(60), weight)
    plain = SPECIFICATION.model(scores[repeated], y[repeated], **arguments_of(job.priors))
    library = bc.build_model(name, given, y, sample_weight=weight, score_kind=kind)
    return calibrator, job, library, plain, given[repeated]


@pytest.mark.parametrize("kind", ["proba", "logit"])
@pytest.mark.parametrize("name", MEMBERS)
def test_log_density_is_the_specifications(name: str, kind: str, random_seed: int) -> None:
    _, _, library, plain, _ = make_pair(name, kind, random_seed)
    start = library.initial_point()
    assert start.keys() == plain.initial_point().keys()
    rng = np.random.default_rng(random_seed)
    points = [{key: 0.5 * rng.normal(size=np.shape(value)) for key, value in start.items()} for _ in range(POINTS)]
    found, expected = (
        [model(point) for point in points] for model in (m.compile_logp(mode=RUN) for m in (library, plain))
    )
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-12, atol=1e-8)
    assert np.ptp(expected) > 1.0


@pytest.mark.parametrize("name", MEMBERS)
def test_map_is_the_specifications(name: str, random_seed: int) -> None:
    calibrator, job, _, plain, scores = make_pair(name, "logit", random_seed)
    draws = calibrator._prior_draws(np.random.default_rng(random_seed), POINTS, job.priors, job.scale)
    found = softmax(calibrator._logits(calibrator._coordinate(scores, job.scale), draws), axis=-1)
    y = plain["y"].owner
    (p,) = y.op.dist_params(y)
    probability = pytensor.function(plain.free_RVs, p, mode=RUN)
    names = [variable.name for variable in plain.free_RVs]
    expected = [probability(*(draws[variable][k] for variable in names)) for k in range(POINTS)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", MEMBERS)
def test_gradient_is_that_of_finite_differences(name: str, random_seed: int) -> None:
    _, _, model, _, _ = make_pair(name, "logit", random_seed)
    start = model.initial_point()
    value, gradient = model.compile_logp(mode=RUN), model.compile_dlogp(mode=RUN)
    rng = np.random.default_rng(random_seed)
    h = 1e-4
    for _ in range(3):
        point = {key: 0.5 * rng.normal(size=np.shape(v)) for key, v in start.items()}
        found = []
        for key in point:
            for index in np.ndindex(np.shape(point[key])):
                step = np.zeros(np.shape(point[key]))
                step[index] = h
                up, down = (value({**point, key: point[key] + s}) for s in (step, -step))
                found.append((up - down) / (2 * h))
        # central differences: the error is of the order of h^2 times the third derivative, below 1e-5 of the values
        np.testing.assert_allclose(gradient(point), found, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", MEMBERS)
def test_prior_draws_are_those_of_the_specification(name: str, random_seed: int) -> None:
    size = 20_000
    calibrator, job, library, _, _ = make_pair(name, "logit", 0)
    draws = calibrator._prior_draws(np.random.default_rng(random_seed), size, job.priors, job.scale)
    given = asdict(job.priors)
    standard = {
        "temperature": (np.log(draws["temperature"]) - given["temperature_log_mean"]) / given["temperature_log_sd"]
    }
    for spread, raw in (("scale_spread", "scale_raw"), ("bias_spread", "bias_raw")):
        if f"{spread}_sd" in given:
            assert (draws[spread] >= 0).all()
            signs = np.random.default_rng(0).choice([-1, 1], size)  # a half normal with random signs is normal
            standard |= {spread: signs * draws[spread] / given[f"{spread}_sd"], raw: draws[raw]}
    assert standard.keys() == {variable.name for variable in library.free_RVs}
    for value in standard.values():
        for moment, expected, sd in ((value, 0.0, 1.0), (value**2, 1.0, np.sqrt(2.0)), (value**4, 3.0, np.sqrt(96.0))):
            assert np.abs(moment.mean(axis=0) - expected).max() < 5 * sd / np.sqrt(size)  # 5 standard errors


# The references


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The scripts that made the references, which import each other by name."""
    monkeypatch.syspath_prepend(REFERENCE)
    return lambda name: load(REFERENCE / f"{name}.py")


def test_reference_holds_the_data_and_the_members(scripts: Callable[[str], ModuleType]) -> None:
    module = scripts("softmax")
    made = module.three_classes()
    assert {key: STORED[key] for key in made} == made
    assert tuple(STORED["posteriors"]) == tuple(module.MEMBERS) == MEMBERS
    for name, left_out in module.MEMBERS.items():
        # If this fails: uv run python models/reference/softmax.py
        assert STORED["posteriors"][name]["arguments"] == {**defaults(), **left_out}


@pytest.mark.parametrize("name", MEMBERS)
def test_slice_sampling_has_the_density_of_the_specification(
    scripts: Callable[[str], ModuleType], name: str, random_seed: int
) -> None:
    rng = np.random.default_rng(random_seed)
    scores, y = softmax(2 * rng.normal(size=(40, 3)), axis=1), np.arange(40) % 3
    arguments = STORED["posteriors"][name]["arguments"]
    module = scripts("softmax")
    target = module.scaling(scores, y, scores[:1], arguments)
    w = rng.normal(size=(20, target.size))
    found = module.parameters(w, target)
    points = []
    for k in range(20):
        point = {"temperature_log__": np.log(found["temperature"][k])}
        for j, spread in enumerate(target.spreads):
            first = 1 + 4 * j
            point[f"{spread}_log__"] = np.log(found[spread][k])
            point[spread.replace("spread", "raw")] = w[k, first + 1 : first + 4]
        points.append(point)
    model = SPECIFICATION.model(scores, y, **arguments)
    likelihood = model.compile_logp(vars=[model["y"]], mode=RUN)
    expected = [likelihood(point) for point in points]
    np.testing.assert_allclose(module.log_likelihood(w, target), expected, rtol=0, atol=1e-8)
    prior = model.compile_logp(vars=model.free_RVs, mode=RUN)
    log_spreads = sum((np.log(found[spread]) for spread in target.spreads), np.zeros(20))
    difference = [prior(point) for point in points] + 0.5 * (w**2).sum(axis=1) - log_spreads
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)


def test_temperatures_reference_is_the_sum_over_a_grid() -> None:
    x, y = log_softmax(np.log(STORED["scores"]), axis=1), np.array(STORED["y"])
    kept = STORED["posteriors"]["temperature"]
    given = kept["arguments"]
    log_t = np.linspace(-4, 4, 4001)
    eta = x / np.exp(log_t)[:, None, None]
    logp = log_softmax(eta, axis=-1)[:, np.arange(len(y)), y].sum(axis=1)
    logp -= 0.5 * ((log_t - given["temperature_log_mean"]) / given["temperature_log_sd"]) ** 2
    weight = np.exp(logp - logp.max())
    weight /= weight.sum()
    expected = {"mean": weight @ log_t, "sd": np.sqrt(weight @ (log_t - weight @ log_t) ** 2)}
    stored = kept["functionals"]["log(temperature)"]
    for key, value in expected.items():
        assert abs(value - stored[key]) <= 4 * stored[f"{key}_se"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEMBERS)
def test_fit_agrees_with_the_reference(name: str, random_seed: int) -> None:
    fit = CALIBRATORS[name].load()(draws=2000, chains=4, random_state=random_seed)
    fit.fit(np.array(STORED["scores"]), np.array(STORED["y"]))
    assert fit.diagnostics_.attrs["verdict"] == "passed"
    strays = []
    for label, expected in STORED["posteriors"][name]["functionals"].items():
        if label.startswith("q("):
            row, column = re.fullmatch(r"q\((.+)\)\[(\d)\]", label).groups()
            draws = fit.proba_draws([[float(s) for s in row.split(",")]]).values[:, :, 0, int(column)]
        elif label.startswith("log("):
            draws = np.log(fit.idata_.posterior[label[4:-1]].values)
        else:
            draws = fit.idata_.posterior[label].values
        found = {"mean": draws.mean(), "sd": draws.std()}
        errors = {key: array_stats.mcse(draws, chain_axis=0, draw_axis=1, method=key) for key in found}
        for key, probability in {"q05": 0.05, "q50": 0.5, "q95": 0.95}.items():
            found[key] = np.quantile(draws, probability)
            errors[key] = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="quantile", prob=probability)
        for key, value in found.items():
            error = 4 * np.hypot(errors[key], expected[f"{key}_se"])
            if not abs(value - expected[key]) <= error:
                strays.append(f"{key} of {label}: {value:.5f}, not {expected[key]:.5f} within {error:.5f}")
    assert strays == []
