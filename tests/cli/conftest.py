"""Fixtures of the command line's tests: tables, and fits of them."""

from pathlib import Path
from typing import Any

import pytest

import bayescal as bc

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


@pytest.fixture(scope="session")
def rain() -> Path:
    """The shipped table of rain forecasts."""
    return bc.datasets.path_rain_niamey()


@pytest.fixture(scope="session")
def fused(rain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fit of two forecasts."""
    out = tmp_path_factory.mktemp("fused") / "out"
    args = ["--label", "rain", "--method", "platt", "--draws", 500, "--out", out]
    result = run("fit", rain, "--score", "logistic", "--score", "emos", *args)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = " ".join(result.stdout.split())
    for words in (
        "Scores logistic, emos, each read as a probability",
        "observed nearby",
        "90 % interval",
        "surface.png",
    ):
        assert words in shown
    return out
