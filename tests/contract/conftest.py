"""The calibrators of the registry as fixtures: a test that takes one runs on all of them.

======================  =================================================================
fixture                 runs once for each
======================  =================================================================
`make`, `fitted`        calibrator and kind of inference: a factory; a shared fit, read-only
`make_posterior`, ...   calibrator that has a posterior
`make_point`, ...       calibrator that has a point estimate
======================  =================================================================

A calibrator that is added to the registry joins; `test_total.py` asserts that none is left out. Fits are tiny: what is
tested holds for any draws. Tests that need draws of some quality ask for them.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bayescal.calibrators.base import Calibrator
from bayescal.registry import CALIBRATORS
from bayescal.validation import ConvergenceWarning

Make = Callable[..., Calibrator]

# fewer than 400 draws: the gate fails, and does not start a second, more careful run
TINY = {"draws": 80, "tune": 100, "chains": 2, "random_state": 1}
ROWS = 60

COLLECTED: dict[str, Counter[str]] = {}  # file -> variant -> tests, before any is deselected
RAN: Counter[str] = Counter()  # variant -> contract tests that ran


@dataclass(frozen=True)
class Variant:
    """A calibrator of the registry with one kind of inference."""

    name: str
    inference: str

    def __str__(self) -> str:
        return f"{self.name}-{self.inference}"

    def make(self, **settings: Any) -> Calibrator:
        """Construct it with the tiny settings, or with others."""
        known = kinds_of_inference(self.name)
        chosen = {"inference": self.inference} if known != ("nuts",) else {}
        return CALIBRATORS[self.name].load()(**{**TINY, **chosen, **settings})


def kinds_of_inference(name: str) -> tuple[str, ...]:
    """What the constructor's argument `inference` can be; a class without the argument has only the posterior."""
    return CALIBRATORS[name].inferences


ONE_SCORE = [name for name, entry in CALIBRATORS.items() if entry.columns != "several"]  # the suite's scores are one's
VARIANTS = [Variant(name, inference) for name in ONE_SCORE for inference in kinds_of_inference(name)]
POSTERIORS = [variant for variant in VARIANTS if variant.inference == "nuts"]
POINTS = [variant for variant in VARIANTS if variant.inference == "point"]


class Cases(NamedTuple):
    """Labelled scores: no ties, both classes well mixed, so that no fit has a reason to warn."""

    scores: np.ndarray  # (n,) in (0, 1)
    y: np.ndarray  # (n,) 0 or 1


@cache
def simulate(seed: int, n: int = ROWS) -> Cases:
    rng = np.random.default_rng([seed, n])
    scores = (rng.permutation(n) + rng.uniform(0.1, 0.9, n)) / n
    y = (rng.random(n) < 0.15 + 0.7 * scores**1.5).astype(int)
    for array in (scores, y):
        array.setflags(write=False)
    return Cases(scores, y)


@cache
def shared_fit(variant: Variant, seed: int) -> Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return variant.make().fit(*simulate(seed))


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
            of_file.update(variants_of(item))


def parameters(item: pytest.Item) -> dict[str, Any]:
    """Parameters of a test, fixtures with parameters among them."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def variants_of(item: pytest.Item) -> list[str]:
    """The variant that a test runs on, if any."""
    return [str(value) for value in parameters(item).values() if isinstance(value, Variant)]


@pytest.fixture
def cases(random_seed: int) -> Cases:
    """The calibration rows of the shared fits."""
    return simulate(random_seed)


@pytest.fixture
def other_cases(random_seed: int) -> Cases:
    """Other rows, another number of them."""
    return simulate(random_seed, ROWS + 15)


@pytest.fixture(params=VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> Iterator[Variant]:
    yield request.param
    RAN[str(request.param)] += 1


@pytest.fixture(params=POSTERIORS, ids=str)
def posterior_variant(request: pytest.FixtureRequest) -> Iterator[Variant]:
    yield request.param
    RAN[str(request.param)] += 1


@pytest.fixture(params=POINTS, ids=str)
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
    return Counter(v for item in request.session.items if item.path.parent == here for v in variants_of(item))
