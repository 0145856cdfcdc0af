"""The command that predicts."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescal as bc

from .helpers import BAYESCAL, RESULTS, listing, point_fit, refused, run


def test_predicting_the_calibration_rows_gives_what_fit_wrote(fitted: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    result = run("predict", fitted / "posterior.nc", table, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "60 rows written" in result.stdout
    pd.testing.assert_frame_equal(pd.read_csv(out), pd.read_csv(fitted / "calibrated.csv"))


def test_exceedance_and_level(fitted: Path, table: Path, tmp_path: Path) -> None:
    for name, more in {"a": ["--threshold", "0.5"], "b": ["--ci-prob", "0.5"]}.items():
        assert run("predict", fitted / "posterior.nc", table, "--out", tmp_path / f"{name}.csv", *more).exit_code == 0
    a, b = (pd.read_csv(tmp_path / f"{name}.csv") for name in "ab")
    expected = bc.load(fitted / "posterior.nc").predict_exceedance(a[["p"]], 0.5)[:, 1]
    assert a.columns.tolist() == ["id", "p", "state", *RESULTS, "exceedance"]
    np.testing.assert_allclose(a["exceedance"], expected, rtol=1e-12)
    assert ((a["lower"] < b["lower"]) & (b["upper"] < a["upper"])).all()


def test_score_of_another_name_through_pipes(fitted: Path, table: Path) -> None:
    renamed = pd.read_csv(table).rename(columns={"p": "risk"})[["risk"]]
    args = ["predict", fitted / "posterior.nc", "-", "--score", "risk", "--out", "-"]
    done = subprocess.run(
        [*BAYESCAL, *map(str, args)], input=renamed.to_csv(index=False), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = pd.DataFrame([line.split(",") for line in done.stdout.splitlines()[1:]], dtype=float)
    np.testing.assert_array_equal(written[[1, 2, 3, 4]], pd.read_csv(fitted / "calibrated.csv")[RESULTS])


def test_tables_of_other_kinds(fitted: Path, table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).to_parquet(tmp_path / "in.parquet")
    assert (
        run("predict", fitted / "posterior.nc", tmp_path / "in.parquet", "--out", tmp_path / "out.tsv").exit_code == 0
    )
    written = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    pd.testing.assert_frame_equal(written, pd.read_csv(fitted / "calibrated.csv"))


def test_scores_outside_the_unit_interval_are_refused_without_options_that_predict_lacks(
    fitted: Path, fused: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.csv").write_text("p\n0.5\n55\n")
    (tmp_path / "two.csv").write_text("logistic,emos\n0.5,0.2\n0.5,-3\n")
    for folder, name, value in ((fitted, "one.csv", "55.0"), (fused, "two.csv", "-3.0")):
        result = run("predict", folder / "posterior.nc", tmp_path / name, "--out", tmp_path / "out.csv")
        refused(result, "[0, 1]", value, "line 3", "Divide percentages by 100", "need a fit of their own")
        assert "--score-kind" not in result.stderr and "score_kind" not in result.stderr
    assert listing(tmp_path) == ["one.csv", "two.csv"]


@pytest.mark.parametrize("name", ["out.xlsx", "out.txt", "out"])
def test_tables_that_cannot_be_written_are_refused_before_any_work(name: str, fitted: Path, tmp_path: Path) -> None:
    result = run("predict", tmp_path / "nothing.nc", fitted / "calibrated.csv", "--out", tmp_path / name)
    refused(result, name, ".csv, .tsv, .tab", ".parquet or .pq")
    assert listing(tmp_path) == []


def test_decimal_commas_come_back_as_points_and_are_read_again(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text("id;age;p;state;times\n07;44,5;0,10;no;1,5\nb;50;0,9;yes;2\nc;;0,4;yes;1\nd;60,25;0,35;no;1\n")
    written = point_fit(path, out, "--weight", "times")
    header, first, *_ = (out / "calibrated.csv").read_text().splitlines()
    assert header == "id,age,p,state,times,mean"
    assert first.startswith("07,44.5,0.10,no,1.5,0.")
    assert run("predict", out / "posterior.nc", out / "calibrated.csv", "--out", tmp_path / "again.csv").exit_code == 0
    again = pd.read_csv(tmp_path / "again.csv")
    pd.testing.assert_frame_equal(again[written.columns], written)
    np.testing.assert_allclose(again["mean_bayescal"], written["mean"], rtol=1e-12)
    fitted_again = point_fit(out / "calibrated.csv", tmp_path / "again", "--weight", "times")
    pd.testing.assert_frame_equal(fitted_again, again)


def test_predicting_needs_no_sampler(fitted: Path, table: Path) -> None:
    program = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print({'pymc', 'pytensor', 'nutpie', 'matplotlib'} & {*sys.modules}))\n"
        f"sys.argv[1:] = ['predict', {str(fitted / 'posterior.nc')!r}, {str(table)!r}]\n"
        "sys.argv += ['--out', '-', '--threshold', '0.5']\n"
        "runpy.run_module('bayescal', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("id,p,state,mean,sd,lower,upper,exceedance\n") and done.stdout.endswith("set()\n")


def test_a_classifier_of_features_is_refused(table: Path, tmp_path: Path) -> None:
    x = np.array([[0.0], [0.2], [0.4], [1.0], [1.2], [1.4]])
    model = tmp_path / "classifier.nc"
    bc.CASIMACClassifier(inference="point").fit(x, [0, 0, 0, 1, 1, 1]).save(model)
    result = run("predict", model, table, "--out", tmp_path / "out.csv")
    refused(result, "classifier.nc classifies features", "bc.load")
    assert listing(tmp_path) == ["classifier.nc"]
