"""How many contract tests there are and ran, for each calibrator: a suite that silently shrinks is green too."""

from collections import Counter
from pathlib import Path

import pytest

from bayescal.registry import CALIBRATORS

# kind of inference -> tests of each choice in conftest.py, with one seed, slow ones included; raise with each new test
CHECKS = {
    "nuts": {"every": 73, "one": 6, "several": 5, "fewest": 48, "not any": 1, "monotone": 3},
    "point": {"every": 59, "one": 13, "several": 12, "fewest": 55, "not any": 1, "monotone": 1},
}
MONOTONE = {"platt-nuts", "bernstein-nuts", "bernstein-point", "auto-nuts"}  # of several scores


def test_every_selected_check_ran(selected: Counter[str], ran: Counter[str]) -> None:
    assert ran == selected


def test_every_calibrator_has_every_check(collected: dict[str, Counter[str]]) -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    if set(collected) != files:
        pytest.skip("counts only when the whole folder runs")
    expected = {}
    for name, entry in CALIBRATORS.items():
        if entry.columns == "classes":
            continue
        for inference in entry.inferences:
            checks, variant = CHECKS[inference], f"{name}-{inference}"
            always = checks["every"] + (0 if entry.columns == "any" else checks["not any"])
            if entry.columns != "several":
                expected[variant] = always + checks["one"] + checks["fewest"] + checks["monotone"]
            if entry.columns != "one":
                fewest = checks["fewest"] if entry.columns == "several" else 0
                monotone = checks["monotone"] if variant in MONOTONE else 0
                expected[f"{variant}-several"] = always + checks["several"] + fewest + monotone
    assert sum(collected.values(), Counter()) == expected
