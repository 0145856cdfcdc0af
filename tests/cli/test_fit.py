"""The commands that list and that fit one score: what they write and say."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescal as bc
from bayescal.registry import CALIBRATORS

from .helpers import FILES, RESULTS, cases, listing, point_fit, refused, run, strict_json

# ------------------------------------------------------------------------------
# help, version, models
# ------------------------------------------------------------------------------


def test_help_lists_the_commands_that_there_are() -> None:
    result = run("--help")
    assert result.exit_code == 0
    commands = result.stdout.partition("Commands:")[2].split("Exit codes")[0]
    assert [line.split()[0] for line in commands.splitlines() if line.startswith("  ") and line[2] != " "][:8] == [
        "demo",
        "fit",
        "predict",
        "shift",
        "plan",
        "assess",
        "compare",
        "models",
    ]


def test_version() -> None:
    assert run("--version").stdout == f"bayescal {bc.__version__}\n"


def test_models_has_a_line_for_every_calibrator() -> None:
    lines = run("models").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(CALIBRATORS)
    reads = {"one": " 1 score ", "several": " 2+ scores ", "any": " 1+ scores ", "classes": " 2+ classes "}
    for entry, line in zip(CALIBRATORS.values(), lines, strict=True):
        assert entry.summary in line and reads[entry.columns] in line


# ------------------------------------------------------------------------------
# fit
# ------------------------------------------------------------------------------


def test_fit_writes_its_files_and_nothing_else(fitted: Path) -> None:
    assert listing(fitted) == FILES
    assert listing(fitted.parent) == [fitted.name]


def test_calibrated_rows_are_the_input_with_the_models_answer(fitted: Path, table: Path) -> None:
    written = pd.read_csv(fitted / "calibrated.csv")
    before = pd.read_csv(table)
    pd.testing.assert_frame_equal(written[before.columns], before)
    assert written.columns.tolist() == [*before.columns, *RESULTS]
    assert (written["lower"] < written["mean"]).all() and (written["mean"] < written["upper"]).all()
    model = bc.load(fitted / "posterior.nc")
    assert model.classes_.tolist() == ["ok", "ill"]
    np.testing.assert_allclose(written[RESULTS], model.predict_table(before[["p"]]), rtol=1e-12)


def test_summary_says_what_was_done(fitted: Path) -> None:
    summary = strict_json(fitted / "summary.json")
    state = cases()["state"]
    assert summary["schema"] == 1
    assert (
        summary["data"]
        | {
            "file": "cases.csv",
            "rows": 60,
            "cases": 60,
            "score_kind": "proba",
            "label": "state",
            "negative": "ok",
            "positive": "ill",
            "negatives": (state == "ok").sum(),
            "positives": (state == "ill").sum(),
            "weight": None,
        }
        == summary["data"]
    )
    assert [score["name"] for score in summary["data"]["scores"]] == ["p"]
    assert (
        summary["settings"] | {"method": "platt", "seed": 0, "draws": 500, "chains": 4, "ci_prob": 0.9}
        == summary["settings"]
    )
    assert summary["stacking"] is None
    assert summary["warnings"] == []
    assert summary["diagnostics"]["verdict"] == "passed"
    assert {row["parameter"] for row in summary["diagnostics"]["parameters"]} == {"intercept", "slope"}
    assert summary["versions"]["bayescal"] == bc.__version__


def test_summary_agrees_with_the_library(fitted: Path) -> None:
    summary = strict_json(fitted / "summary.json")
    table = bc.miscalibration(bc.load(fitted / "posterior.nc")).summary()
    for row in summary["miscalibration"]:
        for column in RESULTS:
            assert row[column] == pytest.approx(table.loc[row["measure"], column], rel=1e-9)


def test_same_seed_same_files(fit_args: list[Any], fitted: Path, tmp_path: Path) -> None:
    assert run(*fit_args, "--out", tmp_path / "again").exit_code == 0
    assert run(*fit_args, "--seed", 1, "--out", tmp_path / "other").exit_code == 0
    for name in set(FILES) - {"posterior.nc"}:  # HDF5 files hold times
        assert (tmp_path / "again" / name).read_bytes() == (fitted / name).read_bytes(), name
        assert (tmp_path / "other" / name).read_bytes() != (fitted / name).read_bytes(), name


def test_results_replace_earlier_ones_and_leave_other_files(fit_args: list[Any], tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    assert run(*fit_args, "--out", tmp_path).exit_code == 0
    assert listing(tmp_path) == sorted([*FILES, "notes.txt"])
    assert strict_json(tmp_path / "summary.json")["schema"] == 1


def test_default_folder_is_in_the_current_one(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args = ["fit", table, "--score", "p", "--label", "state", "--method", "platt", "--inference", "point"]
    assert run(*args).exit_code == 0
    assert listing(tmp_path) == ["bayescal-out"]


def test_screen_says_the_essentials_and_takes_names_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    cases().rename(columns={"p": "[bold]p[/nothing]"}).to_csv(path, index=False)
    args = ["--label", "state", "--positive", "ill", "--method", "platt", "--draws", 500, "--seed", 7]
    result = run("fit", path, "--score", "[bold]p[/nothing]", *args, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    shown = " ".join(result.stdout.split())
    for words in ("[bold]p[/nothing]", "seed 7", "90 % interval", "Convergence passed", "report.html"):
        assert words in shown
    assert result.stderr == ""  # no progress where there is no terminal


def test_positive_label_turns_the_answer_round(table: Path, tmp_path: Path) -> None:
    ok = point_fit(table, tmp_path / "a")  # the last in sorted order
    also_ok = point_fit(table, tmp_path / "b", "--positive", "ok")
    ill = point_fit(table, tmp_path / "c", "--positive", " ill ")
    pd.testing.assert_frame_equal(ok, also_ok)
    np.testing.assert_allclose(ill["mean"], 1 - ok["mean"], atol=1e-8)  # two optimisers' runs


def test_positive_label_of_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,state\n0.1,1\n0.4,2\n0.6,1\n0.9,2\n")
    two = point_fit(path, tmp_path / "a")
    one = point_fit(path, tmp_path / "b", "--positive", "1")
    np.testing.assert_allclose(one["mean"], 1 - two["mean"], atol=1e-8)
    assert strict_json(tmp_path / "b" / "summary.json")["data"]["positive"] == 1


def test_weight_counts_rows(table: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(table)
    rows["times"] = np.arange(len(rows)) % 3
    rows.to_csv(tmp_path / "weighted.csv", index=False)
    rows.loc[rows.index.repeat(rows["times"])].to_csv(tmp_path / "repeated.csv", index=False)
    weighted = point_fit(tmp_path / "weighted.csv", tmp_path / "a", "--weight", "times")
    repeated = point_fit(tmp_path / "repeated.csv", tmp_path / "b")
    again = repeated.drop_duplicates("id").set_index("id")["mean"]
    np.testing.assert_allclose(weighted.set_index("id").loc[again.index, "mean"], again, rtol=1e-9)
    data = strict_json(tmp_path / "a" / "summary.json")["data"]
    assert (data["rows"], data["cases"], data["weight"]) == (60, 60, "times")  # 20 x (0 + 1 + 2)


@pytest.mark.parametrize("kind", ["logit", "raw"])
def test_other_kinds_of_scores(kind: str, tmp_path: Path) -> None:
    rows = cases()
    rows["p"] = np.log(rows["p"] / (1 - rows["p"])) * (1 if kind == "logit" else 100)
    rows.to_csv(tmp_path / "in.csv", index=False)
    args = ["--label", "state", "--positive", "ill", "--method", "platt", "--draws", 500, "--score-kind", kind]
    result = run("fit", tmp_path / "in.csv", "--score", "p", *args, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert (summary["miscalibration"] is None) == (kind == "raw")
    means = [row["mean"] for row in summary["map"]]
    assert len(means) >= 4 and means == sorted(means)


# ------------------------------------------------------------------------------
# point estimates
# ------------------------------------------------------------------------------


def test_point_estimate_is_the_librarys(table: Path, tmp_path: Path) -> None:
    written = point_fit(table, tmp_path / "out", "--positive", "ill")
    assert listing(tmp_path / "out") == FILES
    assert written.columns.tolist() == ["id", "p", "state", "mean"]
    rows = cases()
    library = bc.PlattCalibrator(inference="point", classes=["ok", "ill"]).fit(rows["p"], rows["state"].to_numpy(str))
    expected = library.predict_proba(rows["p"])[:, 1]
    np.testing.assert_allclose(written["mean"], expected, rtol=1e-12)
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert summary["settings"]["seed"] is None and summary["diagnostics"] is None and summary["priors"] is None
    predicted = tmp_path / "predicted.csv"
    assert run("predict", tmp_path / "out" / "posterior.nc", table, "--out", predicted).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv(predicted), written)


@pytest.mark.parametrize("option", ["--ci-prob=0.8", "--seed=0", "--draws=10", "--chains=2", "--tune=5"])
def test_point_estimate_takes_no_option_of_the_sampler(option: str, table: Path, tmp_path: Path) -> None:
    args = ["--score", "p", "--label", "state", "--method", "platt", "--inference", "point", "--out", tmp_path / "out"]
    refused(run("fit", table, *args, option), option.partition("=")[0], "leave it out")
    assert listing(tmp_path) == []


# ------------------------------------------------------------------------------
# Reported faults K 70 and K 71, from end to end
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbfscore,label\r\n0.1,0\r\n0.9,1\r\n", id="byte-order mark, CRLF"),
        pytest.param(b"score , label\n0.1, 0\n0.9 ,1\n", id="spaces"),
        pytest.param(b'"score","label"\n"0.1","0"\n"0.9","1"\n', id="quotes"),
        pytest.param(b"score;label\n0,1;0\n0,9;1\n", id="decimal comma"),
    ],
)
def test_headers_and_numbers_as_programs_write_them(content: bytes, tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_bytes(content)
    args = ["--score", "score", "--label", "label", "--method", "platt", "--inference", "point", "--out", out]
    assert run("fit", path, *args).exit_code == 0
    written = pd.read_csv(out / "calibrated.csv")
    assert written.columns.tolist() == ["score", "label", "mean"]
    assert written["label"].tolist() == [0, 1]
    # Platt's targets for one case of each class are 1/3 and 2/3; with two points they are met exactly
    np.testing.assert_allclose(written["mean"], [1 / 3, 2 / 3], atol=1e-6)
    assert run("predict", out / "posterior.nc", path, "--out", tmp_path / "again.csv").exit_code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "again.csv")["mean"], written["mean"], rtol=1e-12)


def test_labels_with_spaces_are_one_class_and_na_is_a_label(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,state\n0.1,NA\n0.2, NA\n0.8,None\n0.9,None \n")
    point_fit(path, tmp_path / "out")
    data = strict_json(tmp_path / "out" / "summary.json")["data"]
    assert (data["negative"], data["positive"], data["negatives"], data["positives"]) == ("NA", "None", 2, 2)


# ------------------------------------------------------------------------------
# demo
# ------------------------------------------------------------------------------


def test_demo_calibrates_the_shipped_data(tmp_path: Path) -> None:
    result = run("demo", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert listing(tmp_path / "out") == sorted([*FILES, "four_forecasts"])
    fused = strict_json(tmp_path / "out" / "four_forecasts" / "summary.json")
    assert [score["name"] for score in fused["data"]["scores"]] == ["ens", "emos", "logistic", "epc"]
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert [score["name"] for score in summary["data"]["scores"]] == ["ens"]
    assert summary["data"]["positives"] == 53
    assert sum(row["weight"] for row in summary["stacking"]) == pytest.approx(1)
    rows = {row["measure"]: row for row in summary["miscalibration"]}
    # the ensemble says 0.787 on average and it rains on 0.576 of the days: too high by 0.21
    assert rows["bias"]["lower"] < 0.576 - 0.787 < rows["bias"]["upper"] < 0
    shown = " ".join(result.stdout.split())
    for words in ("ensemble", "ICI", "Stacking weights", "Convergence passed", "report.html", "all four"):
        assert words in shown
