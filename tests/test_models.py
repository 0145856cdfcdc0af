"""The specifications in `models/`: they run, they say what they are, and the library's fits agree with the references.

That the library's models are the specified ones is in `test_densities.py`; what a file in `models/` may contain is in
`test_house.py`.
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
import pytest
from arviz_stats.base import array_stats
from pytensor.compile.mode import Mode
from scipy.special import expit

from bayescal.calibrators.bernstein import DEFAULT_DEGREES
from bayescal.calibrators.surface import make_lattice
from bayescal.registry import CALIBRATORS

MODELS = Path(__file__).parents[1] / "models"
REFERENCE = MODELS / "reference"
# specifications of models that are not binary calibrators', and where their tests are
ELSEWHERE = {
    "casimac": "test_casimac_model.py",
    "casimac_generative": "test_casimac_generative_model.py",
    "confusion": "test_label_shift_models.py",
    "label_shift": "test_label_shift_models.py",
    "scaling": "test_scaling_model.py",
}
NAMES = sorted({path.stem for path in MODELS.glob("*.py")} - ELSEWHERE.keys())
# name of the calibrator, and whether the specification is that of its model for several scores
SPECIFIED = {
    name: (name, entry.columns == "several")
    for name, entry in CALIBRATORS.items()
    if entry.priors_name and entry.columns != "classes"
} | {f"{name}_surface": (name, True) for name, entry in CALIBRATORS.items() if entry.several_priors_name}
WITHOUT_REFERENCE = {"copula"}  # what it draws exactly is tested against quadrature in test_copula.py
SIZES = ("degree", "steps")  # arguments of a specification that are no prior settings
RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled


def load(path: Path) -> ModuleType:
    """The module in a file outside any package."""
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATIONS = {name: load(MODELS / f"{name}.py") for name in NAMES}


def keyword_arguments(name: str) -> dict[str, Any]:
    """Keyword arguments of a specification with their defaults."""
    parameters = inspect.signature(SPECIFICATIONS[name].model).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def calibrator(name: str, arguments: dict[str, Any], **settings: Any) -> Any:
    """The library's calibrator under the keyword arguments of a specification."""
    sizes = {key: value for key, value in arguments.items() if key in SIZES}
    priors = {key: value for key, value in arguments.items() if key not in SIZES}
    return CALIBRATORS[SPECIFIED[name][0]].load()(priors=priors, **sizes, **settings)


def scores_of(name: str, column: np.ndarray) -> np.ndarray:
    """A column of scores; for a model of several scores two that are equal."""
    return np.column_stack([column, column]) if SPECIFIED[name][1] else column


def test_every_model_of_the_library_is_specified() -> None:
    assert sorted(SPECIFIED) == NAMES
    assert all((Path(__file__).parent / file).exists() for file in ELSEWHERE.values())


# The files run


def rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels of a data set that is hard for some model."""
    rng = np.random.default_rng(0)
    many = rng.random(1000)
    return {
        "two rows": (np.array([0.2, 0.7]), np.array([0, 1])),
        "two equal rows": (np.array([0.7, 0.7]), np.array([0, 1])),
        "one class": (np.linspace(0.1, 0.9, 30), np.zeros(30, dtype=int)),
        "constant": (np.full(30, 0.7), np.repeat([0, 1], 15)),
        "separated": (np.linspace(0.0, 1.0, 30), np.repeat([0, 1], 15)),
        "reversed": (np.linspace(0.0, 1.0, 30), np.repeat([1, 0], 15)),
        "zeros and ones": (np.repeat([0.0, 1.0], 10), np.tile([0, 1], 10)),
        "a thousand": (many, (rng.random(1000) < many**2).astype(int)),
    }[kind]


DATA = ["two rows", "two equal rows", "one class", "constant", "separated", "reversed", "zeros and ones", "a thousand"]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", NAMES)
def test_log_density_is_finite(name: str, data: str, random_seed: int) -> None:
    scores, y = rows(data)
    model = SPECIFICATIONS[name].model(scores_of(name, scores), y)
    logp = model.compile_logp(mode=RUN)
    start = model.initial_point()
    assert np.isfinite(logp(start))
    rng = np.random.default_rng(random_seed)
    for _ in range(5):
        assert np.isfinite(logp({key: rng.normal(size=np.shape(value)) for key, value in start.items()}))


@pytest.mark.parametrize("name", NAMES)
def test_one_row_is_one_case_and_every_axis_is_named(name: str) -> None:
    scores, y = rows("constant")
    model = SPECIFICATIONS[name].model(scores_of(name, scores), y)
    (observed,) = model.observed_RVs
    assert observed.name == "y" and model.named_vars_to_dims["y"] == ("case",)
    np.testing.assert_array_equal(model.rvs_to_values[observed].eval(), y)
    assert isinstance(observed.owner.op, pm.Bernoulli.rv_type)
    for variable in [*model.basic_RVs, *model.deterministics, *model.data_vars]:
        dims = model.named_vars_to_dims.get(variable.name, ())
        assert len(dims) == variable.ndim, variable.name
        assert all(len(model.coords[dim]) == size for dim, size in zip(dims, variable.shape.eval(), strict=True))


# The files say what they are


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_the_library(name: str) -> None:
    of, several = SPECIFIED[name]
    entry = CALIBRATORS[of]
    constructor = inspect.signature(entry.load()).parameters
    sizes = {size: constructor[size].default for size in SIZES if size in constructor}
    if "degree" in sizes:
        sizes["degree"] = DEFAULT_DEGREES[2 if several else 1]
    assert keyword_arguments(name) == {**asdict(entry.load_priors(several=several)()), **sizes}


@pytest.mark.parametrize("name", NAMES)
def test_card_has_every_section(name: str) -> None:
    card = inspect.getdoc(SPECIFICATIONS[name])
    sections = ["~ Bernoulli", "Story. ", "Priors\n", "Prior predictive", "Limits\n", "References\n"]
    at = [card.find(section) for section in sections]
    assert min(at) > 0 and at == sorted(at), dict(zip(sections, at, strict=True))
    assert f"uv run python models/reference/card.py {name}``" in card


@pytest.mark.parametrize("name", NAMES)
def test_card_states_the_defaults(name: str) -> None:
    given = {key: value for key, value in keyword_arguments(name).items() if key not in SIZES}
    card = SPECIFICATIONS[name].__doc__
    for key in given:
        stem, _, last = key.rpartition("_")
        value = f"{given[key]:g}"
        laws = (f"HalfNormal({value})", f"Beta({value}, {value})", f"Normal(0, {value})")
        said = [f"{key} = {value}", *(f"{stem} ~ {law}" for law in laws)]
        if last in ("mean", "sd") and {f"{stem}_mean", f"{stem}_sd"} <= given.keys():
            mean, sd, parameter = given[f"{stem}_mean"], given[f"{stem}_sd"], stem.removesuffix("_log")
            law = "LogNormal" if stem.endswith("_log") else "Normal"
            said = [f"{parameter} ~ {law}({text}, {sd:g})" for text in (f"{mean:g}", f"log {np.exp(mean):g}")]
        assert any(line in card for line in said), f"the card of {name} says none of {said}"


SHOWN = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # the columns and
PROBABILITIES = (0.05, 0.5, 0.95)  # the rows of the card's table


@pytest.mark.parametrize("name", [name for name in NAMES if name != "copula"])  # the library has more families there
def test_card_shows_the_prior_predictive(name: str, random_seed: int) -> None:
    # The table was computed from the specification by `card.py`, from 20,000 draws; the draws here are the library's.
    scores, size = np.arange(1, 100) / 100, 20_000
    cal = calibrator(name, keyword_arguments(name))
    job = cal._prepare(scores_of(name, scores), np.arange(99) % 2, None)
    rng = np.random.default_rng(random_seed)
    draws = cal._prior_draws(rng, size, job.priors, job.scale)
    q = expit(cal._log_odds(cal._features(cal._coordinate(scores_of(name, scores), job.scale), job.scale), draws))
    at = np.searchsorted(scores, SHOWN - 1e-9)
    columns = [*q[:, at].T, np.abs(q - scores).mean(axis=1), (rng.random(q.shape) < q).mean(axis=1)]
    card = SPECIFICATIONS[name].__doc__
    for probability in PROBABILITIES:
        (line,) = re.findall(rf"^ +{100 * probability:.0f} % +([\d. ]+)$", card, re.MULTILINE)
        shown = np.array(line.split(), dtype=float)
        assert len(shown) == len(columns)
        error = 5 * np.sqrt(2 * probability * (1 - probability) / size)  # of a share, both sides drawn
        for value, column in zip(shown, columns, strict=True):
            assert (column <= value - 0.0051).mean() - error <= probability <= (column <= value + 0.0051).mean() + error


# The references


def stored(data: str) -> dict[str, Any]:
    """A file of reference posteriors."""
    return json.loads((REFERENCE / f"{data}.json").read_text(encoding="utf-8"))


DATA_SETS = ("niamey", "synthetic", "two_scores")
REFERENCES = [(data, name) for data in DATA_SETS for name in sorted(stored(data)["posteriors"])]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The scripts that made the references, which import each other by name."""
    monkeypatch.syspath_prepend(REFERENCE)
    return lambda name: load(REFERENCE / f"{name}.py")


@pytest.mark.parametrize("data", DATA_SETS)
def test_reference_holds_the_data_and_the_models_that_it_names(scripts: Callable[[str], ModuleType], data: str) -> None:
    made = getattr(scripts("make_reference"), data)()
    kept = stored(data)
    several = np.ndim(kept["scores"]) == 2
    assert set(kept["posteriors"]) == {name for name in NAMES if SPECIFIED[name][1] == several} - WITHOUT_REFERENCE
    assert {key: kept[key] for key in made} == made


@pytest.mark.parametrize("name", ["platt", "beta"])
def test_quadrature_has_the_density_of_the_specification(
    scripts: Callable[[str], ModuleType], name: str, random_seed: int
) -> None:
    scores, y = rows("zeros and ones")
    scores = np.concatenate([scores, np.linspace(0.1, 0.9, 9)])
    y = np.concatenate([y, np.arange(9) % 2])
    arguments = keyword_arguments(name)
    target = scripts("quadrature").posterior(name, scores, y, arguments)
    logp = SPECIFICATIONS[name].model(scores, y, **arguments).compile_logp(mode=RUN)
    order = ("intercept", "slope_log__") if name == "platt" else ("c", "a_log__", "b_log__")
    points = np.random.default_rng(random_seed).normal(size=(20, len(order)))
    found = np.array([target.log_density(point[0], list(point[1:])) for point in points])
    expected = np.array([logp(dict(zip(order, point, strict=True))) for point in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("data", ["niamey", "synthetic"])
def test_quadrature_gives_what_is_stored(scripts: Callable[[str], ModuleType], data: str) -> None:
    kept = stored(data)
    posterior = kept["posteriors"]["platt"]
    at = np.array([float(label[2:-1]) for label in posterior["functionals"] if label.startswith("q(")])
    made, _ = scripts("quadrature").reference(
        "platt", np.array(kept["scores"]), np.array(kept["y"]), at, posterior["arguments"]
    )
    assert made.keys() == posterior["functionals"].keys()
    for label, summary in made.items():
        assert summary == pytest.approx(posterior["functionals"][label], abs=1e-8)


def test_slice_sampling_has_the_density_of_the_specification(
    scripts: Callable[[str], ModuleType], random_seed: int
) -> None:
    rng = np.random.default_rng(random_seed)
    scores, y = rng.random((40, 2)), np.arange(40) % 2
    arguments = keyword_arguments("bernstein_surface")
    module = scripts("elliptical")
    target = module.surface(scores, y, scores[:1], arguments)
    w = rng.normal(size=(20, target.size))
    intercept, slope, interaction, roughness = module.hyperparameters(w, target)
    deviation = w[:, -len(target.nodes) :] @ target.factor.T
    order = ("intercept", "slope_log__", "interaction", "roughness_log__", "deviation")
    values = zip(intercept, np.log(slope), interaction, np.log(roughness), deviation, strict=True)
    points = [dict(zip(order, value, strict=True)) for value in values]
    model = SPECIFICATIONS["bernstein_surface"].model(scores, y, **arguments)
    likelihood = model.compile_logp(vars=[model["y"], model["coarsening"]], mode=RUN)
    expected = [likelihood(point) for point in points]
    np.testing.assert_allclose(module.log_likelihood(w, target), expected, rtol=0, atol=1e-8)
    # the prior of w is standard normal; with d log(slope) = d log |w| the specification's has a term more for each
    prior = model.compile_logp(vars=model.free_RVs, mode=RUN)
    jacobian = np.log(roughness) + np.log(slope).sum(axis=1)
    difference = [prior(point) for point in points] + 0.5 * (w**2).sum(axis=1) - jacobian
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)


@pytest.fixture(scope="module")
def fits() -> Callable[[str, str, int], Any]:
    """The library's fit of a reference posterior, each made once."""
    made: dict[tuple[str, str, int], Any] = {}

    def get(data: str, name: str, seed: int) -> Any:
        if (data, name, seed) not in made:
            kept = stored(data)
            cal = calibrator(name, kept["posteriors"][name]["arguments"], draws=2000, chains=4, random_state=seed)
            made[data, name, seed] = cal.fit(np.array(kept["scores"]), np.array(kept["y"]))
        return made[data, name, seed]

    return get


@pytest.mark.slow
@pytest.mark.parametrize(("data", "name"), REFERENCES)
def test_reference_is_that_of_the_defaults(data: str, name: str) -> None:
    # If this fails: uv run python models/reference/make_reference.py
    assert stored(data)["posteriors"][name]["arguments"] == keyword_arguments(name)


@pytest.mark.slow
@pytest.mark.parametrize(("data", "name"), REFERENCES)
def test_fit_agrees_with_the_reference(
    fits: Callable[[str, str, int], Any], data: str, name: str, random_seed: int
) -> None:
    fit = fits(data, name, random_seed)
    strays = []
    for label, expected in stored(data)["posteriors"][name]["functionals"].items():
        if label.startswith("q("):
            draws = fit.proba_draws([[float(s) for s in label[2:-1].split(",")]]).values[:, :, 0, 1]
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
            # a quantile at the very end of [0, 1] has no spread; references are exact to 1e-6
            error = 4 * np.hypot(errors[key], expected.get(f"{key}_se", 0.0)) + 1e-6
            if not abs(value - expected[key]) <= error:
                strays.append(f"{key} of {label}: {value:.5f}, not {expected[key]:.5f} within {error:.5f}")
    assert strays == []


@pytest.mark.slow
@pytest.mark.parametrize(("data", "name"), REFERENCES)
def test_posterior_draws_go_through_the_specified_map(
    fits: Callable[[str, str, int], Any], data: str, name: str, random_seed: int
) -> None:
    fit = fits(data, name, random_seed)
    kept = stored(data)
    scores, y = np.array(kept["scores"]), np.array(kept["y"])
    model = SPECIFICATIONS[name].model(scores, y, **kept["posteriors"][name]["arguments"])
    observed = model["y"].owner
    (probability,) = observed.op.dist_params(observed)
    with model:
        pm.Deterministic("q", probability, dims="case")
        posterior = fit.idata_.posterior.to_dataset()
        if "deviation" in model.named_vars:  # the library draws independent variables instead
            factor = make_lattice(tuple(fit._scale["degrees"])).field
            posterior["deviation"] = (("chain", "draw", "node"), posterior["field"].values @ factor.T)
        if "bends" in model.named_vars:  # the library's are a rotation of them
            theirs = fit._features(fit._coordinate(scores, fit._scale), fit._scale)[:, 1:]
            turned = np.linalg.lstsq(model["basis"].get_value(), theirs)[0]
            posterior["bends"] = (("chain", "draw", "bend"), posterior["bends"].values @ turned.T)
        posterior = posterior[[variable.name for variable in model.free_RVs]]
        expected = pm.compute_deterministics(posterior.isel(draw=slice(0, 50)), var_names=["q"], progressbar=False)["q"]
    found = fit.proba_draws(scores).isel(draw=slice(0, 50))[..., 1]
    np.testing.assert_allclose(found.values, expected.transpose("chain", "draw", "case").values, rtol=0, atol=1e-12)
