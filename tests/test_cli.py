"""The command line: what it writes, what it refuses, and with which exit code.

Most tests run the commands in this process; those on pipes, signals and imports start a process of their own.
"""

import json
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
from scipy.special import expit
from scipy.stats import norm
from typer.testing import CliRunner

import bayescal as bc
from bayescal.cli import app
from bayescal.cli.guard import in_options
from bayescal.inference.convergence import assess_convergence
from bayescal.registry import CALIBRATORS

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


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file with 60 cases: id, p, state (ill, ok)."""
    path = tmp_path_factory.mktemp("in") / "cases.csv"
    cases().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def fit_args(table: Path) -> list[Any]:
    """A quick fit of that file with a posterior."""
    return ["fit", table, "--score", "p", "--label", "state", "--positive", "ill", "--method", "platt", "--draws", 500]


@pytest.fixture(scope="module")
def fitted(fit_args: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that this fit wrote."""
    out = tmp_path_factory.mktemp("fitted") / "new folder"
    result = run(*fit_args, "--out", out)
    assert result.exit_code == 0, result.stderr
    return out


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


# ------------------------------------------------------------------------------
# help, version, models
# ------------------------------------------------------------------------------


def test_help_lists_the_commands_that_there_are() -> None:
    result = run("--help")
    assert result.exit_code == 0
    commands = result.stdout.partition("Commands:")[2].split("Exit codes")[0]
    assert [line.split()[0] for line in commands.splitlines() if line.startswith("  ") and line[2] != " "][:4] == [
        "demo",
        "fit",
        "predict",
        "models",
    ]


def test_version() -> None:
    assert run("--version").stdout == f"bayescal {bc.__version__}\n"


def test_models_has_a_line_for_every_calibrator() -> None:
    lines = run("models").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(CALIBRATORS)
    reads = {"one": " 1 score ", "several": " 2+ scores ", "any": " 1+ scores "}
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
# several scores
# ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rain() -> Path:
    """The shipped table of rain forecasts."""
    return bc.datasets.path_rain_niamey()


@pytest.fixture(scope="module")
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


# ------------------------------------------------------------------------------
# predict
# ------------------------------------------------------------------------------


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
    pd.testing.assert_frame_equal(point_fit(out / "calibrated.csv", out, "--weight", "times"), again)


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


# ------------------------------------------------------------------------------
# Wrong usage and wrong input: exit code 2, one line, nothing written
# ------------------------------------------------------------------------------


def refused(result: Any, *words: str) -> None:
    """Assert that the user was told, in one line, and nothing else was said."""
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("bayescal: ") and result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr


GOOD = "p,y\n0.1,0\n0.4,1\n0.6,0\n0.9,1\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", ["is empty"], id="empty file"),
        pytest.param("p,y\n", ["has a header and no rows"], id="empty table"),
        pytest.param("q,y\n0.1,0\n0.9,1\n", ["no column 'p'", "'q', 'y'"], id="no score column"),
        pytest.param("p,Y\n0.1,0\n0.9,1\n", ["no column 'y'", "did you mean 'Y'"], id="no label column"),
        pytest.param("p,y\n0.1,0\nnan,1\n", ["'p'", "not finite", "line 3"], id="NaN"),
        pytest.param("p,y\n0.1,0\ninf,1\n", ["'p'", "not finite", "line 3"], id="infinite"),
        pytest.param("p,y\n0.1,0\n1e400,1\n", ["'p'", "not finite", "line 3"], id="too large for a float"),
        pytest.param("p,y\n0.1,0\n,1\n", ["'p'", "empty", "line 3"], id="missing score"),
        pytest.param("p,y\n0.1,0\nhigh,1\n", ["'p'", "not numeric", "line 3"], id="text score"),
        pytest.param("p,y\n0.1,0\n0.9,\n", ["'y'", "empty", "line 3"], id="missing label"),
        pytest.param("p,y\n0.1,a\n0.9,a\n", ["single class 'a'", "other class", "--positive"], id="one class"),
        pytest.param("p,y\n0.1,a\n0.5,b\n0.9,c\n", ["'y'", "two classes, got 3"], id="three classes"),
        pytest.param("p,y\n0.1,0\n2.5,1\n", ["[0, 1]", "2.5", "line 3", "--score-kind logit"], id="not probabilities"),
        pytest.param("p,y\n0.1,0\n0.2,0,1\n", ["as many cells", "line 3"], id="ragged"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0", ["in.csv"], id="not a table"),
    ],
)
def test_bad_tables_are_refused(content: str | bytes, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(run("fit", path, "--score", "p", "--label", "y", "--out", tmp_path / "out"), str(path), *words)
    assert listing(tmp_path) == ["in.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--positive", "sick"], ["--positive", "'sick'", "'0'", "'1'"]),
        (["--method", "magic"], ["--method", "'platt'", "'magic'"]),
        (["--score", "q"], ["no column 'q'"]),
        (["--score", "p"], ["'p' was named more than once"]),
        (["--score", "q", "--method", "beta"], ["'beta' reads one score", "given 2 times", "platt, bernstein, copula"]),
        (["--method", "mrmic", "--inference", "point"], ["'mrmic' fuses two or more", "given 1 time;", "isotonic"]),
        (["--score", "q", "--method", "mrmic"], ["'mrmic'", "no --inference nuts", "--inference point"]),
        (["--ci-prob", "90"], ["--ci-prob", "between 0 and 1", "90"]),
        (["--inference", "point"], ["'auto'", "no --inference point", "--inference nuts", "--method"]),
        (["--weight", "nothing"], ["no column 'nothing'"]),
        (["--weight", "y"], ["'y' was named more than once"]),
    ],
    ids=lambda value: value[0] if value[0].startswith("--") else "",
)
def test_bad_options_are_refused(options: list[str], words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(GOOD)
    refused(run("fit", path, "--score", "p", "--label", "y", "--out", tmp_path / "out", *options), *words)
    assert listing(tmp_path) == ["in.csv"]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("1,1,-1,1", ["nonnegative", "line 4"]),
        ("0,0,0,0", ["zero in all 4 rows"]),
        ("1,1,,1", ["'w'", "empty", "line 4"]),
    ],
)
def test_bad_weights_are_refused(weights: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    lines = GOOD.splitlines()
    path.write_text("\n".join(f"{line},{w}" for line, w in zip(lines, ["w", *weights.split(",")], strict=True)))
    args = ["--method", "platt", "--weight", "w", "--out", tmp_path / "out"]
    refused(run("fit", path, "--score", "p", "--label", "y", *args), *words)
    assert listing(tmp_path) == ["in.csv"]


FIT = ["fit", "--score", "p", "--label", "y"]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param([*FIT, "in.csv", "--method", "magic"], id="option"),
        pytest.param([*FIT, "in.csv", "--inference", "point"], id="method without a point estimate"),
        pytest.param([*FIT, "in.csv", "--score", "w", "--method", "isotonic"], id="method of one score"),
        pytest.param([*FIT, "in.csv", "--method", "copula"], id="method of several scores"),
        pytest.param([*FIT, "in.csv", "--score", "w", "--method", "mrmic"], id="method without a posterior"),
        pytest.param([*FIT, "odds.csv", "--score", "q"], id="one of several scores"),
        pytest.param([*FIT, "nothing.csv"], id="file"),
        pytest.param([*FIT, "in.csv", "--weight", "nothing"], id="column"),
        pytest.param([*FIT, "in.csv", "--positive", "sick"], id="label"),
        pytest.param([*FIT, "odds.csv"], id="scores"),
        pytest.param([*FIT, "in.csv", "--weight", "w"], id="weights"),
        pytest.param([*FIT, "in.csv", "--out", "in.csv"], id="output"),
        pytest.param(["predict", "m.nc", "nothing.csv", "--out", "o.csv"], id="file to predict"),
        pytest.param(["predict", "m.nc", "in.csv", "--out", "o.xlsx"], id="kind of output"),
    ],
)
def test_wrong_input_is_refused_before_slow_imports(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("p,y,w\n0.1,0,1\n0.9,1,-1\n")
    (tmp_path / "odds.csv").write_text("q,p,y\n0.3,0.1,0\n0.2,1.9,1\n")
    program = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print({'pymc', 'pytensor', 'nutpie', 'arviz', 'matplotlib', 'sklearn', 'scipy.stats'}"
        " & {*sys.modules}))\n"
        f"sys.argv[1:] = {args!r}\n"
        "runpy.run_module('bayescal', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "set()\n"), done.stderr
    assert "m.nc" not in done.stderr  # no model was looked for
    assert listing(tmp_path) == ["in.csv", "odds.csv"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    args = ["--score", "p", "--label", "y", "--out", tmp_path / "out"]
    refused(run("fit", tmp_path / "nothing.csv", *args), "nothing.csv", "does not exist")
    refused(run("fit", tmp_path, *args), "is a directory")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("out", ["in.csv", "in.csv/out"])
def test_output_that_cannot_be_written(out: str, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(GOOD)
    args = ["--score", "p", "--label", "y", "--method", "platt", "--inference", "point"]
    refused(run("fit", path, *args, "--out", tmp_path / out), "in.csv")
    assert listing(tmp_path) == ["in.csv"] and path.read_text() == GOOD


def test_usage_errors_of_the_parser(table: Path) -> None:
    for args in (["fit", table], ["fit", table, "--score-kind", "odds"], ["assess"], ["fit", "--seed", "-1"]):
        result = run(*args)
        assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.stderr


def test_bad_models_are_refused(fitted: Path, table: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.nc"
    damaged.write_bytes((fitted / "posterior.nc").read_bytes()[:5000])
    out = tmp_path / "out.csv"
    refused(run("predict", damaged, table, "--out", out), "damaged.nc")
    refused(run("predict", table, table, "--out", out), "cases.csv")
    refused(run("predict", tmp_path / "nothing.nc", table, "--out", out), "nothing.nc")
    assert listing(tmp_path) == ["damaged.nc"]


def test_bad_predictions_are_refused(fitted: Path, table: Path, tmp_path: Path) -> None:
    model, out = fitted / "posterior.nc", tmp_path / "out.csv"
    other = tmp_path / "other.csv"
    other.write_text("risk\n0.5\n1.5\n")
    refused(run("predict", model, other, "--out", out), "no column 'p'", "'risk'")
    refused(run("predict", model, other, "--score", "risk", "--out", out), "[0, 1]", "1.5", "line 3")
    refused(run("predict", model, table, "--out", out, "--threshold", "1.5"), "--threshold", "1.5")
    refused(run("predict", model, table, "--out", out, "--ci-prob", "1"), "--ci-prob")
    refused(run("predict", model, table, "--out", tmp_path / "nowhere" / "out.csv"), "nowhere")
    assert listing(tmp_path) == ["other.csv"]


def test_point_models_have_no_interval_to_give(table: Path, tmp_path: Path) -> None:
    point_fit(table, tmp_path / "fit")
    model = tmp_path / "fit" / "posterior.nc"
    for option in ("--threshold", "--ci-prob"):
        refused(run("predict", model, table, "--out", tmp_path / "out.csv", option, "0.5"), option, "point estimate")
    assert listing(tmp_path) == ["fit"]


def test_model_without_column_names_asks_for_one(table: Path, tmp_path: Path) -> None:
    rows = cases()
    ill = rows["state"] == "ill"
    bc.PlattCalibrator(inference="point").fit(rows["p"].to_numpy(), ill).save(tmp_path / "m.nc")
    refused(run("predict", tmp_path / "m.nc", table, "--out", tmp_path / "out.csv"), "--score")
    assert run("predict", tmp_path / "m.nc", table, "--out", tmp_path / "out.csv", "--score", "p").exit_code == 0


def test_errors_of_the_program_are_not_dressed_as_the_users(
    fit_args: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("shapes do not match")

    monkeypatch.setattr(bc.PlattCalibrator, "fit", fail)
    with pytest.raises(ValueError, match="shapes do not match"):
        run(*fit_args, "--out", tmp_path / "out")
    assert listing(tmp_path) == []


# ------------------------------------------------------------------------------
# Answers with a warning, and no answer in time
# ------------------------------------------------------------------------------


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


def only_options(text: str) -> bool:
    """Whether advice is for somebody at a command line, who has no variable ``calibrator``."""
    return not any(word in text for word in ("calibrator", "az.", "draws=", "tune=", "chains=", "priors="))


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
    assert listing(tmp_path / "out") == FILES
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert [score["name"] for score in summary["data"]["scores"]] == ["ens"]
    assert summary["data"]["positives"] == 53
    assert sum(row["weight"] for row in summary["stacking"]) == pytest.approx(1)
    rows = {row["measure"]: row for row in summary["miscalibration"]}
    # the ensemble says 0.787 on average and it rains on 0.576 of the days: too high by 0.21
    assert rows["bias"]["lower"] < 0.576 - 0.787 < rows["bias"]["upper"] < 0
    shown = " ".join(result.stdout.split())
    for words in ("ensemble", "ICI", "Stacking weights", "Convergence passed", "report.html"):
        assert words in shown
