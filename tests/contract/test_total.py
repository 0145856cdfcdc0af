"""How many contract tests there are and ran, for each calibrator: a suite that silently shrinks is green too."""

import inspect
from collections import Counter
from pathlib import Path

import pytest

from bayescal.registry import CALIBRATORS

# tests for each calibrator and kind of inference, with one seed, slow ones included; raise them with each new test
POSTERIOR_CHECKS = 132
POINT_CHECKS = 128


def test_every_selected_check_ran(selected: Counter[str], ran: Counter[str]) -> None:
    assert ran == selected


def test_every_calibrator_has_every_check(collected: dict[str, Counter[str]]) -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    if set(collected) != files:
        pytest.skip("counts only when the whole folder runs")
    read_one = {name: entry for name, entry in CALIBRATORS.items() if entry.columns != "several"}
    expected = {f"{name}-nuts": POSTERIOR_CHECKS for name in read_one}
    for name, entry in read_one.items():
        if "inference" in inspect.signature(entry.load()).parameters:
            expected[f"{name}-point"] = POINT_CHECKS
    assert sum(collected.values(), Counter()) == expected
