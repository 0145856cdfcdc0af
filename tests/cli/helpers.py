"""Run the command line in this process, and look at what it wrote."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm
from typer.testing import CliRunner

from bayescal.cli import app

FILES_OF_SEVERAL = ["calibrated.csv", "posterior.nc", "report.html", "summary.json", "surface.png"]
FILES = ["calibrated.csv", "calibration_map.png", "posterior.nc", "reliability.png", "report.html", "summary.json"]
RESULTS = ["mean", "sd", "lower", "upper"]
BAYESCAL = [sys.executable, "-m", "bayescal"]


def run(*args: Any, stdin: str | bytes | None = None) -> Any:
    """Run a command in this process; an error that is not meant for the user is raised."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def strict_json(path: Path) -> Any:
    """JSON without NaN and Infinity, which Python would read and others would not."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{path.name} holds {word}")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def cases(n: int = 60) -> pd.DataFrame:
    """Labelled cases whose score is over-confident: true log-odds are half of the stated ones.

    No random numbers: quantiles of a normal distribution, and labels by steps of the golden ratio.
    """
    i = np.arange(n)
    log_odds = 2 * norm.ppf((i + 0.5) / n)
    ill = (i * 0.6180339887) % 1 < expit(log_odds / 2)
    names = [f"p{k:03d}" for k in i]
    return pd.DataFrame({"id": names, "p": expit(log_odds).round(4), "state": np.where(ill, "ill", "ok")})


def point_fit(path: Path, out: Path, *more: Any) -> pd.DataFrame:
    """calibrated.csv of a point estimate, which takes no sampling."""
    result = run(
        "fit",
        path,
        "--score",
        "p",
        "--label",
        "state",
        "--method",
        "platt",
        "--inference",
        "point",
        "--out",
        out,
        *more,
    )
    assert result.exit_code == 0, result.stderr
    return pd.read_csv(out / "calibrated.csv")


def refused(result: Any, *words: str) -> None:
    """Assert that the user was told, in one line, and nothing else was said."""
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("bayescal: ") and result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr
