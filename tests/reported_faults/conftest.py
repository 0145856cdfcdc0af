"""Fixtures of the tests of reported faults.

Faults that users of other packages reported, one test or more for each. The number in a test's name is the case's, the
inputs are ours. Where a case is about every calibrator alike, `tests/contract` holds its test:

| case | what | in tests/contract |
|---|---|---|
| 19 | clone, get_params, cross_val_score, refit | test_estimator.py |
| 62 | seeds, cores, processes | test_engine.py |
| 64 | pickle, joblib, deepcopy, a fresh process | test_persistence.py |
| 68 | spawn without a main guard, joblib, daemonic workers | test_engine.py |
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayescal.calibrators.base import Calibrator
from bayescal.registry import CALIBRATORS

# fewer than 400 draws: the gate fails, and does not start a second, more careful run
TINY = {"draws": 120, "tune": 150, "chains": 2, "random_state": 1}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tiny fits do not pass the gate, and faulty data have more than one warning: tests ask for those they mean."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::bayescal.CalibrationWarning"))


@pytest.fixture
def calibrator() -> Callable[..., Calibrator]:
    """Make a calibrator by its name in the registry, with tiny settings or others."""

    def make(name: str, **settings: Any) -> Calibrator:
        return CALIBRATORS[name].load()(**{**TINY, **settings})

    return make
