"""How many contract tests there are and ran, for each calibrator: a suite that silently shrinks is green too."""

from collections import Counter
from pathlib import Path

import pytest

from bayescal.registry import CALIBRATORS

# kind of inference -> tests of each choice in conftest.py, with one seed, slow ones included; raise with each new test
CHECKS = {
    "nuts": {"every": 68, "one": 6, "several": 4, "fewest": 47, "not any": 1, "monotone": 3, "classes": 20},
    "point": {"every": 56, "one": 13, "several": 11, "fewest": 51, "not any": 1, "monotone": 1, "classes": 19},
}
TWO_CLASSES = {
    "nuts": {"every": 5, "several": 1, "fewest": 1},
    "point": {"every": 3, "several": 1, "fewest": 4},
}
MONOTONE = {"platt-nuts", "bernstein-nuts", "bernstein-point"}  # of several scores
MAY_FALL = {"spline"}  # of one score


def test_every_selected_check_ran(selected: Counter[str], ran: Counter[str]) -> None:
    assert ran == selected


def test_every_calibrator_has_every_check(collected: dict[str, Counter[str]]) -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    if set(collected) != files:
        pytest.skip("counts only when the whole folder runs")
    expected = {}
    for name, entry in CALIBRATORS.items():
        for inference in entry.inferences:
            checks, variant = Counter(CHECKS[inference]), f"{name}-{inference}"
            always = checks["every"] + (0 if entry.columns == "any" else checks["not any"])
            if entry.columns == "classes":
                expected[variant] = always + checks["fewest"] + checks["several"] + checks["classes"]
                continue
            two = TWO_CLASSES[inference]
            checks, always = checks + Counter(two), always + two["every"]
            if entry.columns != "several":
                monotone = 0 if name in MAY_FALL else checks["monotone"]
                expected[variant] = always + checks["one"] + checks["fewest"] + monotone
            if entry.columns != "one":
                fewest = checks["fewest"] if entry.columns == "several" else 0
                monotone = checks["monotone"] if variant in MONOTONE else 0
                expected[f"{variant}-several"] = always + checks["several"] + fewest + monotone
    assert sum(collected.values(), Counter()) == expected
