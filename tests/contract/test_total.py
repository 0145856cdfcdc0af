"""How many contract tests there are and ran, for each calibrator: a suite that silently shrinks is green too."""

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bayescal.registry import CALIBRATORS

# tests for each calibrator and kind of inference, with one seed, slow ones included; raise them with each new test
POSTERIOR_CHECKS = 141
POINT_CHECKS = 128


def test_every_selected_check_ran(request: pytest.FixtureRequest, ran: Counter[str]) -> None:
    selected: Counter[str] = Counter()
    for item in request.session.items:
        if item.path.parent == Path(__file__).parent and hasattr(item, "callspec"):
            selected.update(str(v) for name, v in item.callspec.params.items() if name.endswith("variant"))
    assert ran == selected


def test_every_calibrator_has_every_check() -> None:
    expected = {f"{name}-nuts": POSTERIOR_CHECKS for name in CALIBRATORS}
    for name, entry in CALIBRATORS.items():
        if "inference" in inspect.signature(entry.load()).parameters:
            expected[f"{name}-point"] = POINT_CHECKS
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", "."],
        cwd=Path(__file__).parent,
        env=os.environ | {"BAYESCAL_TEST_SEEDS": "42"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert Counter(re.findall(r"\[(\w+-(?:nuts|point))\b", done.stdout)) == expected
