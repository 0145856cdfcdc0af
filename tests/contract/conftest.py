"""The calibrators of the registry as fixtures: a test that takes one runs on all of them.

============================  ==================================================================
fixture                       runs once for each
============================  ==================================================================
`make`, `fitted`              variant: a factory; a shared fit, read-only
`make_posterior`, ...         variant that has a posterior
`make_point`, ...             variant that has a point estimate
`cases`, `other_cases`        labelled rows with as many scores as the test's variant reads
`grid`                        new scores, as many: from 0 to 1, or a lattice over the unit square
============================  ==================================================================

A variant is a calibrator, a kind of inference and a number of scores: one, two, or either where it reads any number;
three where it reads one for each class, of which there are three then, and two otherwise.
`@pytest.mark.variants(choice)` runs a test on some of them; `CHOICES` lists which. A calibrator that is added to the
registry joins; `test_total.py` asserts that none is left out. Fits are tiny: what is tested holds for any draws. Tests
that need draws of some quality ask for them.
"""

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import softmax

from bayescal.calibrators.base import Calibrator
from bayescal.registry import CALIBRATORS
from bayescal.validation import ConvergenceWarning

Make = Callable[..., Calibrator]

# fewer than 400 draws: the gate fails, and does not start a second, more careful run
TINY = {"draws": 80, "tune": 100, "chains": 2, "random_state": 1, "progressbar": False}
ROWS = 60

COLLECTED: dict[str, Counter[str]] = {}  # file -> variant -> tests, before any is deselected
RAN: Counter[str] = Counter()  # variant -> contract tests that ran


@dataclass(frozen=True)
class Variant:
    """A calibrator of the registry with one kind of inference, on so many scores."""

    name: str
    inference: str
    n_scores: int

    def __str__(self) -> str:
        return f"{self.name}-{self.inference}" + ("-several" if self.n_scores == 2 else "")

    def make(self, **settings: Any) -> Calibrator:
        """Construct it with those of the tiny settings that it knows, or with others."""
        calibrator = CALIBRATORS[self.name].load()
        known = inspect.signature(calibrator).parameters
        tiny = {key: value for key, value in {"inference": self.inference, **TINY}.items() if key in known}
        return calibrator(**{**tiny, **settings})

    @property
    def columns(self) -> str:
        """How many scores the calibrator reads: "one", "several", "any" number, or one for each of the "classes"."""
        return CALIBRATORS[self.name].columns

    @property
    def is_monotone(self) -> bool:
        """Whether no higher score lowers the answer: most of one score; of several, models with that order in them."""
        ordered = ("platt-nuts", "bernstein-nuts", "bernstein-point")
        return self.name not in MAY_FALL if self.n_scores == 1 else f"{self.name}-{self.inference}" in ordered


MAY_FALL = ("spline",)  # of one score
NUMBERS = {"one": (1,), "any": (1, 2), "several": (2,), "classes": (3,)}
VARIANTS = [
    Variant(name, inference, n_scores)
    for name, entry in CALIBRATORS.items()
    for inference in entry.inferences
    for n_scores in NUMBERS[entry.columns]
]
POSTERIORS = [variant for variant in VARIANTS if variant.inference == "nuts"]
POINTS = [variant for variant in VARIANTS if variant.inference == "point"]

CHOICES: dict[str, Callable[[Variant], bool]] = {
    "one score": lambda variant: variant.n_scores == 1,
    "several scores": lambda variant: variant.n_scores > 1,
    "two classes": lambda variant: variant.columns != "classes",
    "several classes": lambda variant: variant.columns == "classes",
    "fewest scores": lambda variant: variant.n_scores == min(NUMBERS[variant.columns]),  # where the number is no matter
    "not any number": lambda variant: variant.columns != "any",
    "monotone": lambda variant: variant.is_monotone,
}


class Cases(NamedTuple):
    """Labelled scores: no ties, both classes well mixed, so that no fit has a reason to warn."""

    scores: np.ndarray  # (n,) in (0, 1), or (n, 2) of classifiers that agree in part, or (n, 3) of classes, with sum 1
    y: np.ndarray  # (n,) 0 or 1, or 2


@cache
def simulate(seed: int, n_scores: int, n: int = ROWS) -> Cases:
    rng = np.random.default_rng([seed, n])
    if n_scores == 3:
        return simulate_classes(rng, n)
    scores = (rng.permutation(n) + rng.uniform(0.1, 0.9, n)) / n
    truth = scores
    if n_scores == 2:
        ranks = (scores + rng.normal(0, 0.3, n)).argsort().argsort()
        scores = np.column_stack([scores, ((ranks + rng.uniform(0.1, 0.9, n)) / n) ** 1.2])
        truth = scores.mean(axis=1)
    y = (rng.random(n) < 0.15 + 0.7 * truth**1.5).astype(int)
    for array in (scores, y):
        array.setflags(write=False)
    return Cases(scores, y)


def simulate_classes(rng: np.random.Generator, n: int) -> Cases:
    logits = 1.5 * rng.normal(size=(n, 3))
    truth = softmax(0.5 * logits + [0.3, 0.0, -0.3], axis=1)
    y = (np.cumsum(truth, axis=1)[:, :2] < rng.random((n, 1))).sum(axis=1)
    scores = softmax(logits, axis=1)
    for array in (scores, y):
        array.setflags(write=False)
    return Cases(scores, y)


@cache
def shared_fit(variant: Variant, seed: int) -> Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return variant.make().fit(*simulate(seed, variant.n_scores))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "variants(choice): run on the variants of this choice, see CHOICES")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every variant of the kind that it takes, or on those that its marks choose."""
    chosen = [CHOICES[mark.args[0]] for mark in metafunc.definition.iter_markers("variants")]
    for fixture, variants in (("variant", VARIANTS), ("posterior_variant", POSTERIORS), ("point_variant", POINTS)):
        if fixture in metafunc.fixturenames:
            mine = [variant for variant in variants if all(choice(variant) for choice in chosen)]
            metafunc.parametrize(fixture, mine, ids=str, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count the tests; and let fits pass that are too tiny for the convergence gate."""
    COLLECTED.clear()
    mine = [item for item in items if item.path.parent == Path(__file__).parent]
    seeds = {parameters(item).get("random_seed") for item in mine} - {None}
    for item in mine:
        item.add_marker(pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning"))
        of_file = COLLECTED.setdefault(item.path.name, Counter())
        if parameters(item).get("random_seed") in {None, min(seeds, default=None)}:
            of_file.update(map(str, variants_of(item)))


def parameters(item: pytest.Item) -> dict[str, Any]:
    """Parameters of a test, fixtures with parameters among them."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def variants_of(item: pytest.Item) -> list[Variant]:
    """The variant that a test runs on, if any."""
    return [value for value in parameters(item).values() if isinstance(value, Variant)]


@pytest.fixture
def n_scores(request: pytest.FixtureRequest) -> int:
    """How many scores the test's variant reads; one where a test has no variant."""
    return max((variant.n_scores for variant in variants_of(request.node)), default=1)


@pytest.fixture
def cases(random_seed: int, n_scores: int) -> Cases:
    """The calibration rows of the shared fits."""
    return simulate(random_seed, n_scores)


@pytest.fixture
def other_cases(random_seed: int, n_scores: int) -> Cases:
    """Other rows, another number of them."""
    return simulate(random_seed, n_scores, ROWS + 15)


@pytest.fixture
def grid_of() -> Callable[[int], np.ndarray]:
    """New scores by their number, (101,), (100, 2) or (105, 3): both ends and all corners among them."""

    def grid_of(n_scores: int) -> np.ndarray:
        if n_scores == 3:
            return np.array([(i, j, 13 - i - j) for i in range(14) for j in range(14 - i)]) / 13
        return np.linspace(0.0, 1.0, 101) if n_scores == 1 else np.array(list(np.ndindex(10, 10))) / 9

    return grid_of


@pytest.fixture
def grid(grid_of: Callable[[int], np.ndarray], n_scores: int) -> np.ndarray:
    return grid_of(n_scores)


@pytest.fixture
def other_kind(request: pytest.FixtureRequest) -> str:
    """Another kind of scores that the test's variant reads, whatever the numbers are."""
    return "logit" if any(variant.columns == "classes" for variant in variants_of(request.node)) else "raw"


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[Variant]:
    yield request.param
    RAN[str(request.param)] += 1


@pytest.fixture
def posterior_variant(request: pytest.FixtureRequest) -> Iterator[Variant]:
    yield request.param
    RAN[str(request.param)] += 1


@pytest.fixture
def point_variant(request: pytest.FixtureRequest) -> Iterator[Variant]:
    yield request.param
    RAN[str(request.param)] += 1


@pytest.fixture
def make(variant: Variant) -> Make:
    return variant.make


@pytest.fixture
def make_posterior(posterior_variant: Variant) -> Make:
    return posterior_variant.make


@pytest.fixture
def make_point(point_variant: Variant) -> Make:
    return point_variant.make


@pytest.fixture
def make_one_posterior() -> Make:
    """The first calibrator, for what does not depend on the calibrator and is dear."""
    return POSTERIORS[0].make


@pytest.fixture
def fitted(variant: Variant, random_seed: int) -> Calibrator:
    return shared_fit(variant, random_seed)


@pytest.fixture
def posterior(posterior_variant: Variant, random_seed: int) -> Calibrator:
    return shared_fit(posterior_variant, random_seed)


@pytest.fixture
def point(point_variant: Variant, random_seed: int) -> Calibrator:
    return shared_fit(point_variant, random_seed)


@pytest.fixture
def fit_of_every_variant(random_seed: int) -> dict[Variant, Calibrator]:
    """The shared fits, for what is too dear to be done one by one."""
    return {variant: shared_fit(variant, random_seed) for variant in VARIANTS}


@pytest.fixture
def collected() -> dict[str, Counter[str]]:
    return COLLECTED


@pytest.fixture
def ran() -> Counter[str]:
    return RAN


@pytest.fixture
def selected(request: pytest.FixtureRequest) -> Counter[str]:
    """variant -> contract tests that this run was to run."""
    here = Path(__file__).parent
    items = [item for item in request.session.items if item.path.parent == here]
    return Counter(str(variant) for item in items for variant in variants_of(item))
