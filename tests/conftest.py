"""Fixtures and settings that all tests share."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before anything imports matplotlib, and in the environment, so that command lines run as subprocesses
# draw without a display too.
os.environ["MPLBACKEND"] = "Agg"

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

SEEDS_VARIABLE = "BAYESCAL_TEST_SEEDS"
DEFAULT_SEEDS = "42"

# The first call of a compiled function takes seconds, later ones microseconds: no deadline per example.
settings.register_profile("bayescal", deadline=None)
settings.load_profile("bayescal")


def parse_seeds(text: str) -> list[int]:
    """The seeds that `text` asks for: one ("42") or a range with both ends ("0-19")."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise pytest.UsageError(
            f"{SEEDS_VARIABLE} must be one seed, as in 42, or a rising range, as in 0-19; it is {text!r}."
        )
    return list(range(first, last + 1))


def requested_seeds() -> list[int]:
    """The seeds of this run."""
    return parse_seeds(os.environ.get(SEEDS_VARIABLE, DEFAULT_SEEDS))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for doctests in the package only; files here that hold no tests are scripts and helpers."""
    is_other = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if is_other else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadFileScheduling":
    """Keep the tests of a file in one process, and those of `contract/`, which share fits and counts, all in one."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrContract(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "contract" if nodeid.startswith("tests/contract/") else super()._split_scope(nodeid)

    return ByFileOrContract(config, log)


def pytest_report_header() -> str:
    """Say in the header which seeds run, so that a failure can be repeated from the log."""
    return f"{SEEDS_VARIABLE}: {os.environ.get(SEEDS_VARIABLE, DEFAULT_SEEDS)}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `random_seed` once for each seed of this run."""
    if "random_seed" in metafunc.fixturenames:
        metafunc.parametrize("random_seed", requested_seeds())


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close the figures that a test leaves open: at the twenty-first matplotlib warns, which is an error."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
