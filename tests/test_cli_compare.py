"""``bayescal compare``: what it shows and writes, and what it refuses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescal as bc

from .cli.helpers import cases, listing, refused, run, strict_json

POINTS = ["--method", "platt-point", "--method", "beta-point"]
FILES = ["compare.csv", "compare.json"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in") / "cases.csv"
    cases().to_csv(path, index=False)
    return path


def compare(table: Any, *more: Any, stdin: Any = None) -> Any:
    return run("compare", table, "--score", "p", "--label", "state", "--positive", "ill", *more, stdin=stdin)


def test_writes_what_the_library_says(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["--method", "platt", "--method", "beta-point", "--seed", 3, "--draws", 500, "--out", out]
    result = compare(table, *asked)
    assert (result.exit_code, result.stderr) == (0, "") and listing(out) == FILES
    frame = cases()
    fits = {
        "platt": bc.PlattCalibrator(draws=500, random_state=3, classes=["ok", "ill"]).fit(frame["p"], frame["state"]),
        "beta-point": bc.BetaCalibrator(inference="point", classes=["ok", "ill"]).fit(frame["p"], frame["state"]),
    }
    expected, sensitivity = bc.compare(fits, random_state=3), bc.prior_sensitivity(fits["platt"])
    pd.testing.assert_frame_equal(
        pd.read_csv(out / "compare.csv", index_col="calibrator"), expected, check_dtype=False, rtol=1e-9
    )
    written = strict_json(out / "compare.json")
    assert [row["calibrator"] for row in written["table"]] == expected.index.tolist()
    assert [row["elpd"] for row in written["table"]] == pytest.approx(expected["elpd"].tolist())
    assert [row["stacking_weight"] for row in written["table"]] == pytest.approx(expected["stacking_weight"].tolist())
    assert [one["calibrator"] for one in written["sensitivity"]] == ["platt"]
    assert written["sensitivity"][0]["message"] == sensitivity.attrs["message"]
    assert written["data"]["cases"] == 60 and written["data"]["positive"] == "ill" and written["settings"]["seed"] == 3
    shown = " ".join(result.stdout.split())
    for words in ("60 cases of cases.csv", "beta-point", "--folds 60", f"platt: {sensitivity.attrs['message']}"):
        assert words in shown


def test_same_seed_same_files_and_nothing_without_out(table: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert compare(table, *POINTS, "--out", tmp_path / folder).exit_code == 0
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    before = listing(table.parent)
    assert compare(table, *POINTS).exit_code == 0 and listing(table.parent) == before


def test_probability_zero_is_said_and_json_stays_json(table: Path, tmp_path: Path) -> None:
    result = compare(table, "--method", "isotonic-point", "--method", "platt-point", "--out", tmp_path)
    assert result.exit_code == 0
    assert "isotonic-point: probability 0 was given to what happened" in result.stderr and "at line " in result.stderr
    last = strict_json(tmp_path / "compare.json")["table"][-1]
    assert (last["calibrator"], last["elpd"], last["elpd_is_minus_infinity"]) == ("isotonic-point", None, True)
    assert np.isneginf(pd.read_csv(tmp_path / "compare.csv")["elpd"].iloc[-1])


def test_awkward_values(tmp_path: Path) -> None:
    frame = cases()
    rows = "".join(
        f"{p:.4f}".replace(".", ",") + f";{s};{k % 3}\r\n" for k, (p, s) in enumerate(frame[["p", "state"]].values)
    )
    text = "\ufeff Risiko (%) ;Zustand;n\r\n" + rows.replace("ill", "kränk")
    asked = ["--score", "Risiko (%)", "--label", "Zustand", "--positive", "kränk", "--weight", "n", "--folds", 4]
    result = run("compare", "-", *asked, *POINTS, "--out", tmp_path / "out", stdin=text.encode())
    assert (result.exit_code, result.stderr) == (0, "")
    data = strict_json(tmp_path / "out" / "compare.json")["data"]
    assert (data["file"], data["positive"], data["rows"], data["cases"]) == ("standard input", "kränk", 60, 60.0)


def test_a_sampler_that_did_not_converge(table: Path, tmp_path: Path) -> None:
    result = compare(table, "--method", "platt", "--method", "platt-point", "--draws", 60, "--out", tmp_path)
    assert result.exit_code == 3 and "convergence failed" in result.stderr and listing(tmp_path) == FILES


def test_several_scores(tmp_path: Path) -> None:
    asked = ["--score", "ens", "--score", "emos", "--label", "rain", "--method", "mrmic", "--method", "platt-point"]
    assert run("compare", bc.datasets.path_rain_niamey(), *asked, "--out", tmp_path).exit_code == 0
    assert {row["method"] for row in strict_json(tmp_path / "compare.json")["table"]} == {"kfold"}


WRONG = [
    (["--method", "platt"], ["--method must name two or more different methods", "platt"]),
    (["--method", "platt", "--method", "platt"], ["two or more different methods"]),
    (["--method", "platt", "--method", "copula"], ["--method must be one of platt", "for 1 score", "'copula'"]),
    (["--method", "platt", "--method", "auto-point"], ["'auto-point'"]),
    (["--positive", "Ill"], ["--positive must be a label", "'Ill'"]),
    (["--score", "q"], ["no column 'q'"]),
    (["--score-kind", "logit", "--weight", "id"], ["'id'"]),
]


@pytest.mark.parametrize(("more", "words"), WRONG, ids=lambda value: " ".join(value[:4]))
def test_wrong_usage_is_refused(more: list[str], words: list[str], table: Path, tmp_path: Path) -> None:
    refused(compare(table, *more, "--out", tmp_path / "out"), *words)
    assert listing(tmp_path) == []


def test_is_refused_before_slow_imports(table: Path) -> None:
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from bayescal.cli import app\n"
        "result = CliRunner().invoke(app, sys.argv[1:])\n"
        "assert result.exit_code == 2, result.output\n"
        "print({'pymc', 'pytensor', 'nutpie', 'arviz', 'matplotlib', 'sklearn', 'scipy.stats'} & {*sys.modules})\n"
    )
    command = ["compare", str(table), "--score", "p", "--label", "state", "--positive", "sick"]
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
