"""Fixtures of the command line's tests: a table, and a fit of it."""

from pathlib import Path
from typing import Any

import pytest

from .helpers import cases, run


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file with 60 cases: id, p, state (ill, ok)."""
    path = tmp_path_factory.mktemp("in") / "cases.csv"
    cases().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def fit_args(table: Path) -> list[Any]:
    """A quick fit of that file with a posterior."""
    return ["fit", table, "--score", "p", "--label", "state", "--positive", "ill", "--method", "platt", "--draws", 500]


@pytest.fixture(scope="session")
def fitted(fit_args: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that this fit wrote."""
    out = tmp_path_factory.mktemp("fitted") / "new folder"
    result = run(*fit_args, "--out", out)
    assert result.exit_code == 0, result.stderr
    return out
