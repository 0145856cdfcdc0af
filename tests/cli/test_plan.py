"""``bayescal plan``: what it writes and says, and what it refuses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescal as bc
from bayescal.cli.plan_work import PlanOptions
from bayescal.evaluation.planning import SIZES

from .helpers import listing, refused, run, strict_json

FILES = ["plan.csv", "plan.json", "plan.png"]
QUICK = ["--sizes", "30, 300", "--repeats", 4, "--width", 0.2, "--draws", 400]


def plan(path: Any, out: Path, *more: Any, stdin: str | None = None) -> Any:
    return run("plan", path, "--score", "ens", "--out", out, *more, stdin=stdin)


@pytest.fixture(scope="module")
def planned(rain: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What a plan from labelled days wrote, and said."""
    out = tmp_path_factory.mktemp("plan") / "out"
    result = plan(rain, out, "--label", "rain", "--seed", 3, "--ci-prob", 0.8, *QUICK)
    assert (result.exit_code, result.stderr) == (0, "")
    return out, " ".join(result.stdout.split())


def test_writes_its_files_and_nothing_else(planned: tuple[Path, str]) -> None:
    out, _ = planned
    assert listing(out) == FILES and listing(out.parent) == ["out"]
    assert (out / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_says_and_writes_what_the_library_finds(planned: tuple[Path, str]) -> None:
    out, said = planned
    days = bc.datasets.load_rain_niamey()
    found = bc.plan(
        days["ens"], days["rain"], sizes=[30, 300], repeats=4, width=0.2, ci_prob=0.8, draws=400, random_state=3
    )
    pd.testing.assert_frame_equal(pd.read_csv(out / "plan.csv", index_col="n"), found.table)
    summary = strict_json(out / "plan.json")
    assert summary["schema"] == 1 and summary["warnings"] == [] and summary["diagnostics"] == {"verdict": "passed"}
    assert summary["data"] == {"file": "rain_niamey.csv", "rows": 92, "positive": 1}
    assert (summary["answer"], summary["needed"]) == (found.answer, found.needed)
    assert summary["needed_range"] == list(found.needed_range)
    assert [row["n"] for row in summary["by_size"]] == [30, 300]
    for row, (_, expected) in zip(summary["by_size"], found.table.iterrows(), strict=True):
        assert row["width_mean"] == pytest.approx(expected["width_mean"])
    settings = summary["settings"]
    assert (settings["seed"], settings["ci_prob"], settings["width"], settings["assurance"]) == (3, 0.8, 0.2, 0.8)
    for words in ("92 scores ens of rain_niamey.csv, with the labels rain as a pilot", "80 % intervals", found.answer):
        assert words in said


def test_the_same_seed_gives_the_same_files(planned: tuple[Path, str], rain: Path, tmp_path: Path) -> None:
    asked = ["--label", "rain", "--ci-prob", 0.8, *QUICK]
    assert plan(rain, tmp_path / "again", *asked, "--seed", 3).exit_code == 0
    assert plan(rain, tmp_path / "other", *asked, "--seed", 4).exit_code == 0
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (planned[0] / name).read_bytes(), name
        assert (tmp_path / "other" / name).read_bytes() != (planned[0] / name).read_bytes(), name


def test_scores_alone_at_given_scores_from_standard_input(tmp_path: Path) -> None:
    log_odds = np.linspace(-3, 3, 40).round(3)
    text = "ens\n" + "\n".join(map(str, log_odds)) + "\n"
    settings = ["--score-kind", "logit", "--at", "-1,0.5", "--method", "beta", *QUICK]
    result = plan("-", tmp_path, *settings, stdin=text)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "40 scores ens of standard input, taken at their word" in " ".join(result.stdout.split())
    found = bc.plan(
        log_odds,
        calibrator="beta",
        score_kind="logit",
        at=[-1, 0.5],
        sizes=[30, 300],
        repeats=4,
        width=0.2,
        draws=400,
        random_state=0,
    )
    summary = strict_json(tmp_path / "plan.json")
    assert summary["diagnostics"] is None and summary["settings"]["at"] == [-1, 0.5]
    assert [row["width_mean"] for row in summary["by_size"]] == pytest.approx(found.table["width_mean"].tolist())


def test_the_positive_label(tmp_path: Path) -> None:
    p = np.tile(np.linspace(0.05, 0.95, 10), 4)
    state = np.where(np.arange(40) % 10 + np.arange(40) // 10 > 6, "ill", "ok")
    pd.DataFrame({"ens": p, "state": state}).to_csv(tmp_path / "in.csv", index=False)
    result = plan(tmp_path / "in.csv", tmp_path / "out", "--label", "state", "--positive", "ill", *QUICK)
    assert (result.exit_code, result.stderr) == (0, "")  # "ok" would be ranked in reverse, with a warning
    assert strict_json(tmp_path / "out" / "plan.json")["data"]["positive"] == "ill"


def test_small_sizes_are_said_to_lack_a_class(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ens\n" + "0.01\n" * 20)
    result = plan(tmp_path / "in.csv", tmp_path / "out", "--sizes", "2", "--repeats", 2, "--width", 0.9)
    assert (result.exit_code, result.stderr) == (0, "")
    said = " ".join(result.stdout.split())
    assert "Some simulations of 2 cases had none of one class" in said and "2 labelled cases, the smallest size" in said


def test_the_defaults_are_the_librarys() -> None:
    assert PlanOptions("p").sizes == SIZES
    help_text = " ".join(run("plan", "--help").stdout.split())
    assert ",".join(map(str, SIZES)) in help_text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--width", 0], ["--width must be a number between 0 and 1"]),
        (["--width", 2], ["--width must be a number between 0 and 1"]),
        (["--assurance", 1], ["--assurance must be"]),
        (["--ci-prob", 90], ["--ci-prob must be"]),
        (["--sizes", "ten"], ["--sizes must be whole numbers that commas separate, got 'ten'"]),
        (["--sizes", "10,0"], ["--sizes must be a whole number of at least 1, got 0"]),
        (["--sizes", "10000000000"], ["sizes must be at most 1000000000"]),
        (["--at", "x"], ["--at must be numbers that commas separate"]),
        (["--at", "0.5,7"], ["--at must lie in [0, 1]"]),
        (["--at", "nan"], ["--at must be finite"]),
        (["--method", "copula"], ["--method must be one of 'platt'"]),
        (["--score-kind", "raw"], ["--score-kind raw", "--label"]),
        (["--positive", "1"], ["--positive has no meaning without --label"]),
        (["--label", "y", "--positive", "2"], ["--positive must be a label"]),
        (["--label", "nothing"], ["has no column 'nothing'"]),
        (["--label", "one"], ["single class 5"]),
    ],
)
def test_refusals(more: list[Any], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ens,y,one\n0.1,0,5\n0.9,1,5\n0.4,1,5\n")
    refused(plan(tmp_path / "in.csv", tmp_path / "out", *more), *words)
    assert listing(tmp_path) == ["in.csv"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ens\n0.1\nnan\n", ["line 3"]),
        ("ens\n0.1\n\n0.2\n", ["line 3"]),
        ("ens\n0.1\n1.5\n", ["score column 'ens' must lie in [0, 1]", "line 3"]),
        ("ens\n", ["no rows"]),
        ("p\n0.1\n", ["has no column 'ens'"]),
    ],
)
def test_refusals_of_tables(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(text)
    refused(plan(tmp_path / "in.csv", tmp_path / "out"), "in.csv", *words)
    assert listing(tmp_path) == ["in.csv"]


def test_the_file_that_is_read_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text("ens\n0.1\n0.9\n")
    refused(plan(tmp_path / "plan.csv", tmp_path), "is the file that is read")
    assert listing(tmp_path) == ["plan.csv"]


@pytest.mark.parametrize("more", [["--width", "2"], ["--score-kind", "raw"], ["--label", "nothing"], ["--at", "3"]])
def test_wrong_input_is_refused_before_slow_imports(more: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ens\n0.1\n0.9\n")
    program = (
        "import atexit, runpy, sys\n"
        "heavy = {'pymc', 'pytensor', 'nutpie', 'arviz', 'matplotlib', 'sklearn'}\n"
        "atexit.register(lambda: print(heavy & {*sys.modules}))\n"
        f"sys.argv[1:] = {['plan', 'in.csv', '--score', 'ens', *more]!r}\n"
        "runpy.run_module('bayescal', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "set()\n"), done.stderr
