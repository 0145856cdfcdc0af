"""Answers with a warning, and no answer in time: warnings, convergence, signals, pipes."""

import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescal as bc
from bayescal.cli.guard import in_options
from bayescal.inference.convergence import assess_convergence

from .helpers import BAYESCAL, FILES, listing, point_fit, refused, run, strict_json


def only_options(text: str) -> bool:
    """Whether advice is for somebody at a command line, who has no variable ``calibrator``."""
    return not any(word in text for word in ("calibrator", "az.", "draws=", "tune=", "chains=", "priors="))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("p,y\n0.2,0\n0.8,1\n", "of class 0; the answer leans on the prior", id="two rows"),
        pytest.param("p,y\n0.2,0\n0.6,0\n0.8,0\n", "no case of class 1", id="one class of 0 and 1"),
        pytest.param("p,y\n" + "0.3,1\n0.3,0\n" * 6, "all scores are equal", id="equal scores"),
    ],
)
def test_thin_data_give_an_answer_and_a_warning(content: str, words: str, tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text(content)
    result = run("fit", path, "--score", "p", "--label", "y", "--method", "platt", "--draws", 500, "--out", out)
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()
    assert all(line.startswith("bayescal: warning: ") for line in lines)
    assert any(words in line for line in lines)
    texts = [line.removeprefix("bayescal: warning: ") for line in lines]
    assert strict_json(out / "summary.json")["warnings"] == texts
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "Warnings of this fit" in report and words in report


@pytest.mark.parametrize(
    ("labels", "positive", "classes"),
    [(["no", "no"], "yes", ["no", "yes"]), ([1, 1], "2", [1, 2]), ([0, 0], "1", [0, 1]), ([1, 1], "0", [1, 0])],
)
def test_positive_label_that_no_case_has_is_the_other_class(
    labels: list[Any], positive: str, classes: list[Any], tmp_path: Path
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    pd.DataFrame({"p": [0.2, 0.8], "state": labels}).to_csv(path, index=False)
    written = point_fit(path, out, "--positive", positive)
    assert (written["mean"] < 0.5).all()
    summary = strict_json(out / "summary.json")
    assert [summary["data"]["negative"], summary["data"]["positive"]] == classes
    assert f"no case of class {positive} among 2; a point estimate of so little" in summary["warnings"][0]


@pytest.mark.parametrize(("label", "positive"), [("no", "no"), ("no", " "), ("2", "yes"), ("2", "2"), ("0", "yes")])
def test_positive_label_that_leaves_the_other_class_open(label: str, positive: str, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"p,y\n0.1,{label}\n0.9,{label}\n")
    args = ["--score", "p", "--label", "y", "--positive", positive, "--out", tmp_path / "out"]
    refused(run("fit", path, *args), "'y'", "--positive")
    assert listing(tmp_path) == ["in.csv"]


def test_warnings_of_others_take_their_usual_way(
    fit_args: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = bc.PlattCalibrator.fit

    def warn_and_fit(self: Any, *args: Any) -> Any:
        warnings.warn("something is deprecated", FutureWarning, stacklevel=1)
        return fit(self, *args)

    monkeypatch.setattr(bc.PlattCalibrator, "fit", warn_and_fit)
    with pytest.warns(FutureWarning, match="something is deprecated"):
        result = run(*fit_args, "--out", tmp_path / "out")
    assert result.exit_code == 0 and result.stderr == ""
    assert strict_json(tmp_path / "out" / "summary.json")["warnings"] == []


@pytest.mark.parametrize("diverging", [False, True])
@pytest.mark.parametrize(("chains", "draws"), [(1, 9), (4, 2), (4, 9)])
def test_advice_on_convergence_is_in_options(diverging: bool, chains: int, draws: int) -> None:
    values = np.arange(chains * draws, dtype=float).reshape(chains, draws)
    found = assess_convergence({"slope": values}, np.full((chains, draws), diverging), values)
    assert not only_options(found.message)
    assert only_options(in_options(found.message))


def test_no_convergence_is_exit_code_3_with_files(fit_args: list[Any], tmp_path: Path) -> None:
    result = run(*fit_args, "--draws", 4, "--tune", 2, "--chains", 2, "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert "convergence failed" in result.stderr and "--tune 2000" in result.stderr
    assert only_options(result.stderr)
    assert only_options(strict_json(tmp_path / "out" / "summary.json")["diagnostics"]["message"])
    assert listing(tmp_path / "out") == FILES
    assert strict_json(tmp_path / "out" / "summary.json")["diagnostics"]["verdict"] == "failed"
    assert "did not converge" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_interrupted_fit_writes_nothing(fit_args: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bc.PlattCalibrator, "fit", interrupt)
    result = run(*fit_args, "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == "bayescal: interrupted, nothing was written\n"
    assert listing(tmp_path) == []


@pytest.mark.parametrize(("sent", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_signals_stop_the_sampler(fit_args: list[Any], tmp_path: Path, sent: signal.Signals, word: str) -> None:
    args = [*map(str, fit_args), "--draws", "500000", "--out", str(tmp_path / "out")]
    program = (
        "import sys, nutpie\n"
        "start = nutpie.sample\n"
        "def sample(*args, **settings):\n"
        "    run = start(*args, **settings)\n"
        "    print('sampling', flush=True)\n"
        "    return run\n"
        "nutpie.sample = sample\n"
        "from bayescal.cli import main\n"
        f"sys.argv[1:] = {args!r}\n"
        "main()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = process.stdout.readline()
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(sent)
        stdout, stderr = process.communicate(timeout=60)
    assert (started, stdout) == ("sampling\n", "")
    assert stderr == f"bayescal: {word}, nothing was written\n"
    assert process.returncode == 128 + sent
    assert listing(tmp_path) == []


def test_closed_pipe_is_no_error(fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    pd.DataFrame({"p": np.linspace(0, 1, 20_000)}).to_csv(path, index=False)
    args = ["predict", str(fitted / "posterior.nc"), str(path), "--out", "-"]
    with subprocess.Popen([*BAYESCAL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "p,mean,sd,lower,upper\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141  # 128 + SIGPIPE
