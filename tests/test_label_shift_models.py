"""The specifications `models/label_shift.py` and `models/confusion.py`: what they say is what the library draws from.

The counterpart, for models of class proportions, of `test_models.py` and `test_densities.py`.
"""

import importlib.util
import inspect
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats
from pytensor.compile.mode import Mode
from scipy.stats import beta, dirichlet, multinomial

from bayescal.label_shift.confusion_posterior import SPREAD, sample_confusion
from bayescal.label_shift.posterior import draw_proportions
from bayescal.label_shift.proportions import evidence
from bayescal.label_shift.settings import CONCENTRATION

MODELS = Path(__file__).parents[1] / "models"
REFERENCE = MODELS / "reference"
RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled
ESS = ({"method": "bulk"}, {"method": "tail", "prob": (0.05, 0.95)})
NAMES = ("label_shift", "confusion")
DEFAULTS = {
    "label_shift": {"concentration": CONCENTRATION},
    "confusion": {"concentration": CONCENTRATION, "spread": SPREAD},
}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATIONS = {name: load(MODELS / f"{name}.py") for name in NAMES}


def stored(name: str) -> dict[str, Any]:
    return json.loads((REFERENCE / f"{name}.json").read_text(encoding="utf-8"))


def log_density(model: pm.Model) -> Callable[[dict[str, np.ndarray]], float]:
    """Log density at values of the simplex-valued variables themselves."""
    logp = model.compile_logp(jacobian=False, mode=RUN)

    def at(point: dict[str, np.ndarray]) -> float:
        logs = {name: np.log(value) for name, value in point.items()}  # PyMC's simplex transform: centred logs
        return float(
            logp({f"{name}_simplex__": x[..., :-1] - x.mean(axis=-1, keepdims=True) for name, x in logs.items()})
        )

    return at


def small_proba(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return rng.dirichlet(np.ones(k), size=n)


# The files run and say what they are


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_the_library(name: str) -> None:
    parameters = inspect.signature(SPECIFICATIONS[name].model).parameters.values()
    given = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert given == {"labelled": None, **DEFAULTS[name]}
    assert stored(name)["arguments"] == DEFAULTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_card_has_every_section(name: str) -> None:
    card = inspect.getdoc(SPECIFICATIONS[name])
    sections = ["~ Dirichlet", "Story. ", "Priors\n", "Prior predictive", "Plain NUTS", "Limits\n", "References\n"]
    at = [card.find(section) for section in sections]
    assert min(at) > 0 and at == sorted(at), dict(zip(sections, at, strict=True))


def test_cards_show_the_prior_predictive() -> None:
    shares = np.array([0.05, 0.5, 0.95])
    of_q = [beta(0.5, (k - 1) / 2).ppf(shares) for k in (2, 5, 10)]
    of_matrix = [beta(1 / k, 1 - 1 / k).ppf(shares) for k in (2, 5, 10)]
    for name, columns in (("label_shift", of_q), ("confusion", [*of_matrix, *of_q])):
        for share, row in zip(shares, np.transpose(columns), strict=True):
            line = next(
                x for x in SPECIFICATIONS[name].__doc__.splitlines() if x.strip().startswith(f"{share:.0%}"[:-1] + " %")
            )
            assert [float(x) for x in line.split()[2:]] == [float(f"{value:.2f}") for value in row]


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize("classes", [2, 5])
def test_log_density_is_finite(rows: int, classes: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    proba = small_proba(rng, rows, classes)
    source = rng.multinomial(rows, np.ones(classes * classes) / classes**2).reshape(classes, classes)
    target = rng.multinomial(rows, np.ones(classes) / classes)
    models = [
        SPECIFICATIONS["label_shift"].model(proba, np.full(classes, 1 / classes)),
        SPECIFICATIONS["label_shift"].model(proba, np.full(classes, 1 / classes), labelled=np.ones(classes, dtype=int)),
        SPECIFICATIONS["confusion"].model(source, target, labelled=np.ones(classes, dtype=int)),
    ]
    for model in models:
        logp, start = model.compile_logp(mode=RUN), model.initial_point()
        assert np.isfinite(logp(start))
        assert np.isfinite(logp({key: rng.normal(size=value.shape) for key, value in start.items()}))


@pytest.mark.parametrize("name", NAMES)
def test_every_axis_is_named(name: str) -> None:
    arguments = (
        (np.full((4, 3), 1 / 3), np.full(3, 1 / 3)) if name == "label_shift" else (np.eye(3, dtype=int), [1, 1, 1])
    )
    model = SPECIFICATIONS[name].model(*arguments, labelled=[1, 0, 2])
    for variable in [*model.basic_RVs, *model.data_vars]:
        assert len(model.named_vars_to_dims.get(variable.name, ())) == variable.ndim, variable.name


# They are what they say: labels summed out by brute force, conjugate limits


def test_likelihood_sums_over_all_labellings(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    proba, source = small_proba(rng, 4, 3), rng.dirichlet(np.ones(3) * 3)
    logp = log_density(SPECIFICATIONS["label_shift"].model(proba, source))
    points = rng.dirichlet(np.ones(3), size=5)
    expected = []
    for q in points:
        total = sum(
            np.prod([q[label] * proba[row, label] / source[label] for row, label in enumerate(labels)])
            for labels in product(range(3), repeat=4)
        )
        expected.append(np.log(total) + dirichlet.logpdf(q, np.full(3, CONCENTRATION)))
    np.testing.assert_allclose([logp({"q": q}) for q in points], expected, rtol=0, atol=1e-8)


def test_certain_cases_and_labels_are_conjugate(random_seed: int) -> None:
    # cases whose class is certain are labels: both make the posterior Dirichlet(0.5 + counts)
    rng = np.random.default_rng(random_seed)
    counts = np.array([3, 0, 5])
    certain = np.repeat(np.eye(3), counts, axis=0)
    model = SPECIFICATIONS["label_shift"].model(certain, np.array([0.2, 0.3, 0.5]), labelled=np.array([1, 2, 0]))
    logp = log_density(model)
    points = rng.dirichlet(np.ones(3), size=5)
    found = np.array([logp({"q": q}) for q in points])
    expected = np.array([dirichlet.logpdf(q, 0.5 + counts + [1, 2, 0]) for q in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=0, atol=1e-8)


def test_confusion_sums_over_all_classes_of_the_target(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    source, target = np.array([[3, 1], [0, 2]]), np.array([2, 1])
    logp = log_density(SPECIFICATIONS["confusion"].model(source, target))
    found, expected = [], []
    for _ in range(5):
        p, q, matrix = rng.dirichlet([1, 1]), rng.dirichlet([1, 1]), rng.dirichlet([1, 1], size=2)
        found.append(logp({"p": p, "q": q, "confusion": matrix}))
        log = dirichlet.logpdf(p, [0.5, 0.5]) + dirichlet.logpdf(q, [0.5, 0.5])
        log += sum(dirichlet.logpdf(row, [0.5, 0.5]) for row in matrix)
        log += multinomial.logpmf(source.sum(axis=1), source.sum(), p)
        log += sum(multinomial.logpmf(n, n.sum(), row) for n, row in zip(source, matrix, strict=True))
        # predictions 0, 0, 1, and every way in which the three cases may be of class 0 or 1
        ways = sum(
            np.prod([q[i] * matrix[i, j] for i, j in zip(classes, (0, 0, 1), strict=True)])
            for classes in product(range(2), repeat=3)
        )
        expected.append(log + np.log(3 * ways))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


# The references, and the library's draws


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that made the references."""
    monkeypatch.syspath_prepend(REFERENCE)
    return load(REFERENCE / "proportions.py")


@pytest.mark.parametrize("name", NAMES)
def test_reference_holds_the_data_that_it_names(script: ModuleType, name: str) -> None:
    made = getattr(script, f"{name}_data")()
    assert {key: stored(name)[key] for key in made} == made


def test_quadrature_gives_what_is_stored(script: ModuleType) -> None:
    kept = stored("confusion")
    expected = kept["functionals"]["p[1]"]
    a, b = np.array(kept["source"]).sum(axis=1)[::-1] + 0.5
    law = beta(a, b)
    exact = {"mean": law.mean(), "sd": law.std(), "q05": law.ppf(0.05), "q50": law.ppf(0.5), "q95": law.ppf(0.95)}
    assert expected == pytest.approx(exact, abs=1e-8)
    assert script.beta_summaries(a, b) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("i", range(3))
def test_quadrature_has_the_density_of_the_specification(script: ModuleType, i: int) -> None:
    # the marginal density of q_i on a line, by summing the specification's over a fine grid of the other share
    kept = stored("label_shift")
    proba, source, labelled = (np.array(kept[key]) for key in ("proba", "source", "labelled"))
    t, density = script.share_of_label_shift(kept, kept["arguments"], i)(0.5, 0.2)
    use = np.flatnonzero(np.abs(t - 0.25) < 2)[::2]
    shares = 1 / (1 + np.exp(-np.arange(-12, 12, 0.5)))
    logp = log_density(SPECIFICATIONS["label_shift"].model(proba, source, labelled=labelled))
    others = [(i + 1) % 3, (i + 2) % 3]
    expected = []
    for q in 1 / (1 + np.exp(-t[use])):
        total = 0.0
        for share in shares:
            point = np.zeros(3)
            point[i], point[others] = q, (1 - q) * np.array([share, 1 - share])
            # from q to (logit q_i, logit share): the Jacobian is q_i (1 - q_i)^2 share (1 - share)
            total += np.exp(logp({"q": point}) + 60) * q * (1 - q) ** 2 * share * (1 - share)
        expected.append(total)
    np.testing.assert_allclose(density[use] / density[use[0]], np.array(expected) / expected[0], rtol=1e-3)


def agrees(draws: np.ndarray, expected: dict[str, float]) -> list[str]:
    """What summaries of draws ``(S,)`` are not within four standard errors of the expected ones.

    Quantiles are judged by the share of draws below the expected one, whose error does not have to be estimated.
    """
    chains = draws.reshape(4, -1)
    size = min(float(array_stats.ess(chains, chain_axis=0, draw_axis=1, **how)) for how in ESS)
    found = {"mean": draws.mean(), "sd": draws.std()}
    wanted = {key: expected[key] for key in found}
    errors = {key: float(array_stats.mcse(chains, chain_axis=0, draw_axis=1, method=key)) for key in found}
    for key, share in {"q05": 0.05, "q50": 0.5, "q95": 0.95}.items():
        found[key], wanted[key] = np.mean(draws <= expected[key]), share
        errors[key] = np.sqrt(share * (1 - share) / min(size, len(draws)))
    return [
        f"{key}: {found[key]:.5f}, not {wanted[key]:.5f} within {4 * errors[key]:.5f}"
        for key in found
        if not abs(found[key] - wanted[key]) <= 4 * errors[key] + 1e-6
    ]


def test_draws_agree_with_the_reference(random_seed: int) -> None:
    kept = stored("label_shift")
    proba, source, labelled = (np.array(kept[key]) for key in ("proba", "source", "labelled"))
    given = evidence(proba, source)
    rng = np.random.default_rng(random_seed)
    rows = np.repeat(given.rows[None], 4000, axis=0)
    q, accepted = draw_proportions(rows, given.weight, CONCENTRATION + labelled, np.ones(3) / 3, rng)
    assert accepted.mean() > 0.8
    assert {i: agrees(q[:, i], kept["functionals"][f"q[{i}]"]) for i in range(3)} == {0: [], 1: [], 2: []}


@pytest.mark.parametrize("classes", [2, 3])
def test_certain_cases_give_draws_of_the_conjugate_posterior(classes: int, random_seed: int) -> None:
    counts = np.array([0, 4, 7])[:classes]
    given = evidence(np.repeat(np.eye(classes), counts, axis=0), np.full(classes, 1 / classes))
    rng = np.random.default_rng(random_seed)
    rows = np.repeat(given.rows[None], 4000, axis=0)
    q, _ = draw_proportions(rows, given.weight, np.full(classes, 0.5), np.ones(classes) / classes, rng)
    for i in range(classes):
        law = beta(counts[i] + 0.5, counts.sum() - counts[i] + 0.5 * (classes - 1))
        exact = {"mean": law.mean(), "sd": law.std(), "q05": law.ppf(0.05), "q50": law.ppf(0.5), "q95": law.ppf(0.95)}
        assert agrees(q[:, i], exact) == []


def test_confusion_draws_agree_with_the_reference(random_seed: int) -> None:
    kept = stored("confusion")
    source, target, labelled = (np.array(kept[key]) for key in ("source", "target", "labelled"))
    rng = np.random.default_rng(random_seed)
    p, q = sample_confusion(source, target, np.full(2, CONCENTRATION), labelled, 100, rng)
    assert agrees(q[..., 1].reshape(-1), kept["functionals"]["q[1]"]) == []
    assert agrees(p[..., 1].reshape(-1), kept["functionals"]["p[1]"]) == []


def test_confusion_draws_of_two_ways_of_sampling_agree(random_seed: int) -> None:
    # with predictions that are never wrong, t are counts of classes: q is Dirichlet(0.5 + t) but for the rows' prior
    rng = np.random.default_rng(random_seed)
    source, target = np.diag([40_000, 30_000, 20_000]), np.array([50, 5, 20])
    _, q = sample_confusion(source, target, np.full(3, 0.5), np.zeros(3), 60, rng)
    for i in range(3):
        law = beta(target[i] + 0.5, target.sum() - target[i] + 1.0)
        exact = {"mean": law.mean(), "sd": law.std(), "q05": law.ppf(0.05), "q50": law.ppf(0.5), "q95": law.ppf(0.95)}
        assert agrees(q[..., i].reshape(-1), exact) == []


def test_log_gamma_shape() -> None:
    # normalised gamma variables are a Dirichlet variable: the density that the sampler works on, at two points
    a = np.array([0.5, 2.0, 3.0])
    e = np.array([[0.1, -1.0, 0.7], [-0.5, 0.2, 0.3]])
    e[1] += np.log(np.exp(e[0]).sum() / np.exp(e[1]).sum())  # the sum is independent of the shares
    q = np.exp(e) / np.exp(e).sum(axis=1, keepdims=True)
    found = (a * e - np.exp(e)).sum(axis=1)
    expected = [dirichlet.logpdf(x, a) + np.log(x).sum() for x in q]  # and the Jacobian of the logs
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=1e-12)
