"""The commands on several scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescal as bc

from .helpers import FILES, FILES_OF_SEVERAL, RESULTS, listing, refused, run, strict_json


def test_fused_rows_are_the_librarys(fused: Path, rain: Path) -> None:
    assert listing(fused) == FILES_OF_SEVERAL
    written, rows = pd.read_csv(fused / "calibrated.csv"), bc.datasets.load_rain_niamey()
    assert written.columns.tolist() == [*pd.read_csv(rain).columns, *RESULTS]
    model = bc.PlattCalibrator(draws=500, random_state=0, progressbar=False).fit(
        rows[["logistic", "emos"]], rows["rain"]
    )
    np.testing.assert_allclose(written[RESULTS], model.predict_table(rows[["logistic", "emos"]]), rtol=1e-9)
    assert "Fusion of the scores" in (fused / "report.html").read_text(encoding="utf-8")


def test_predicting_reads_the_same_columns_by_name(fused: Path, rain: Path, tmp_path: Path) -> None:
    expected = pd.read_csv(fused / "calibrated.csv")
    turned = pd.read_csv(rain)[["emos", "rain", "logistic"]]
    turned.to_csv(tmp_path / "turned.csv", index=False)
    turned.rename(columns={"emos": "b", "logistic": "a"}).to_csv(tmp_path / "renamed.csv", index=False)
    for name, scores in {
        "turned": [],
        "renamed": ["--score", "a", "--score", "b"],
        "turned.csv": ["--score", "emos", "--score", "logistic"],  # names of the fit, in whatever order
    }.items():
        path = tmp_path / f"{name.removesuffix('.csv')}.csv"
        result = run("predict", fused / "posterior.nc", path, *scores, "--out", tmp_path / "out.csv")
        assert result.exit_code == 0, result.stderr
        np.testing.assert_array_equal(pd.read_csv(tmp_path / "out.csv")[RESULTS], expected[RESULTS])


def test_predicting_needs_every_score(fused: Path, rain: Path, tmp_path: Path) -> None:
    model, out = fused / "posterior.nc", tmp_path / "out.csv"
    refused(run("predict", model, rain, "--score", "emos", "--out", out), "given 2 times", "logistic, emos", "got 1")
    (tmp_path / "one.csv").write_text("emos\n0.5\n")
    refused(run("predict", model, tmp_path / "one.csv", "--out", out), "no column 'logistic'")
    assert listing(tmp_path) == ["one.csv"]


def test_point_estimate_of_three_scores_with_weights(rain: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(rain).assign(times=np.arange(92) % 3)
    rows.to_csv(tmp_path / "in.csv", index=False)
    scores = ["--score", "ens", "--score", "emos", "--score", "logistic", "--weight", "times"]
    args = ["--label", "rain", "--method", "mrmic", "--inference", "point", "--out", tmp_path / "out"]
    result = run("fit", tmp_path / "in.csv", *scores, *args)
    assert (result.exit_code, result.stderr) == (0, "")
    assert listing(tmp_path / "out") == FILES_OF_SEVERAL
    names = ["ens", "emos", "logistic"]
    library = bc.MRMICCalibrator().fit(rows[names], rows["rain"], rows["times"])
    written = pd.read_csv(tmp_path / "out" / "calibrated.csv")
    np.testing.assert_allclose(written["mean"], library.predict_proba(rows[names])[:, 1], rtol=1e-9)


def test_pictures_of_an_earlier_fit_do_not_stay(rain: Path, tmp_path: Path) -> None:
    args = ["--label", "rain", "--method", "platt", "--inference", "point", "--out", tmp_path]
    (tmp_path / "surface.png").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    assert run("fit", rain, "--score", "emos", *args).exit_code == 0
    assert listing(tmp_path) == sorted([*FILES, "notes.txt", "surface.png"])  # nothing said that it was a fit's
    assert run("fit", rain, "--score", "emos", "--score", "ens", *args).exit_code == 0
    assert listing(tmp_path) == sorted([*FILES_OF_SEVERAL, "notes.txt"])
    assert run("fit", rain, "--score", "emos", *args).exit_code == 0
    assert listing(tmp_path) == sorted([*FILES, "notes.txt"])


def test_an_average_of_fusions_has_weights(rain: Path, tmp_path: Path) -> None:
    scores = ["--score", "logistic", "--score", "emos", "--label", "rain", "--draws", 500]
    assert run("fit", rain, *scores, "--out", tmp_path / "out").exit_code == 0
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert summary["settings"]["method"] == "auto"
    assert sum(row["weight"] for row in summary["stacking"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("a,b,y\n0.1,0.2,0\n0.9,2.5,1\n", ["'b'", "[0, 1]", "2.5", "line 3"], id="not probabilities"),
        pytest.param("a,b,y\n0.1,0.2,0\n,0.5,1\n", ["'a'", "empty", "line 3"], id="missing"),
        pytest.param("a,b,y\n0.1,0.9,0\n0.7,0.3,1\n", ["sum to 1", "one classifier"], id="a pair of one classifier"),
    ],
)
def test_bad_tables_of_several_scores_are_refused(content: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(content)
    args = ["--score", "a", "--score", "b", "--label", "y", "--out", tmp_path / "out"]
    refused(run("fit", tmp_path / "in.csv", *args), *words)
    assert listing(tmp_path) == ["in.csv"]


def test_warnings_name_the_score_column(rain: Path, tmp_path: Path) -> None:
    pd.read_csv(rain).assign(dry=lambda rows: 1 - rows["emos"]).to_csv(tmp_path / "in.csv", index=False)
    args = ["--label", "rain", "--method", "platt", "--inference", "point", "--out", tmp_path / "out"]
    result = run("fit", tmp_path / "in.csv", "--score", "logistic", "--score", "dry", *args)
    assert result.exit_code == 0
    assert "score column 'dry': the scores rank the classes in reverse" in result.stderr
    assert "score column 'dry'" in strict_json(tmp_path / "out" / "summary.json")["warnings"][0]
