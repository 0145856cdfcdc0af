"""Wrong usage and wrong input: exit code 2, one line, nothing written."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bayescal as bc

from .helpers import cases, listing, point_fit, refused, run

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
        (["--score", "q", "--method", "vector"], ["'vector' calibrates several classes", "bc.VectorScaling"]),
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


@pytest.mark.parametrize("spelling", ["same", "dots", "link", "hard link"])
@pytest.mark.parametrize("kind", ["table", "model"])
def test_predicting_over_what_is_read_is_refused(kind: str, spelling: str, fitted: Path, tmp_path: Path) -> None:
    table, model = tmp_path / "in.csv", tmp_path / "model.csv"  # a model of whatever name
    table.write_text("p\n0.5\n")
    model.write_bytes((fitted / "posterior.nc").read_bytes())
    before = table.read_bytes(), model.read_bytes()
    source = table if kind == "table" else model
    out = {"same": source, "dots": tmp_path / "x" / ".." / source.name}.get(spelling, tmp_path / "out.csv")
    if spelling == "link":
        out.symlink_to(source.name)
    elif spelling == "hard link":
        out.hardlink_to(source)
    (tmp_path / "x").mkdir()
    refused(run("predict", model, table, "--out", out), "is the file that is read", source.name)
    assert (table.read_bytes(), model.read_bytes()) == before


def test_fitting_over_what_is_read_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "calibrated.csv"
    table.write_text(GOOD)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "calibrated.csv").symlink_to(table)
    args = ["--score", "p", "--label", "y", "--method", "platt", "--inference", "point"]
    refused(run("fit", table, *args, "--out", tmp_path), "calibrated.csv is the file that is read")
    refused(run("fit", table, *args, "--out", tmp_path / "out"), "calibrated.csv is the file that is read")
    assert listing(tmp_path) == ["calibrated.csv", "out"] and table.read_text() == GOOD
    assert (tmp_path / "out" / "calibrated.csv").is_symlink()


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


def test_predict_refuses_a_calibrator_of_several_classes(tmp_path: Path) -> None:
    rows = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]] * 10
    cal = bc.TemperatureScaling(inference="point").fit(rows, [0, 1, 2, 0, 1, 1] * 5)
    cal.save(tmp_path / "fit.nc")
    (tmp_path / "new.csv").write_text(GOOD)
    out = ["--out", tmp_path / "out.csv"]
    refused(run("predict", tmp_path / "fit.nc", tmp_path / "new.csv", *out), "fit.nc calibrates several", "bc.load")
    assert listing(tmp_path) == ["fit.nc", "new.csv"]
