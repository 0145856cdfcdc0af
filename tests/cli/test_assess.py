"""``bayescal assess``: what it shows and writes, and what it refuses."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bayescal as bc

from .helpers import cases, listing, refused, run, strict_json

FILES = ["assess.json", "curve.csv", "measures.csv", "reliability.png", "report.html"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in") / "cases.csv"
    cases().to_csv(path, index=False)
    return path


def assess(table: Any, *more: Any) -> Any:
    asked = ["--proba", "p", "--label", "state", "--positive", "ill", "--curve", "platt"]
    return run("assess", table, *asked, *more)


def test_writes_what_the_library_says(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = assess(table, "--seed", 3, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert listing(out) == FILES
    frame = cases()
    expected = bc.assess(frame["state"], frame["p"], pos_label="ill", curve="platt", random_state=3)
    written = strict_json(out / "assess.json")
    summary = expected.summary()
    assert [row["measure"] for row in written["measures"]] == summary.index.tolist()
    assert [row["mean"] for row in written["measures"]] == pytest.approx(summary["mean"].tolist())
    assert [row["lower"] for row in written["measures"]] == pytest.approx(summary["lower"].tolist())
    assert written["probability_of_small_error"] == expected.probability(ici__lt=0.05)
    assert written["probability_calibrated"] == pytest.approx(expected.probability_calibrated)
    assert written["data"]["positive"] == "ill" and written["data"]["cases"] == len(frame)
    curve = pd.read_csv(out / "curve.csv")
    assert curve["mean"].to_numpy() == pytest.approx(expected.curve["mean"].to_numpy())
    page = (out / "report.html").read_text(encoding="utf-8")
    for words in ("ICI (ECE without bins)", "<code>ill</code>", "data:image/png;base64,", "seed"):
        assert words in page
    assert 'src="http' not in page
    shown = " ".join(result.stdout.split())
    assert f"{len(frame)} cases of cases.csv" in shown
    assert "calibration in the large" in shown


def test_a_name_is_escaped_and_weights_count(tmp_path: Path) -> None:
    frame = cases().rename(columns={"p": "<b>p</b>"})
    frame["times"] = 2
    frame.to_csv(tmp_path / "in.csv", index=False)
    asked = [
        "--proba",
        "<b>p</b>",
        "--label",
        "state",
        "--weight",
        "times",
        "--curve",
        "platt",
        "--out",
        tmp_path / "o",
    ]
    assert run("assess", tmp_path / "in.csv", *asked).exit_code == 0
    written = strict_json(tmp_path / "o" / "assess.json")
    assert written["data"]["cases"] == 2 * written["data"]["rows"] == 2 * len(frame)
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "<b>p</b>" not in page and "&lt;b&gt;p" in page


def test_consistency_band_is_drawn_and_explained(table: Path, tmp_path: Path) -> None:
    assert assess(table, "--out", tmp_path / "without").exit_code == 0
    assert assess(table, "--consistency", "--out", tmp_path / "with").exit_code == 0
    pages = [(tmp_path / name / "report.html").read_text(encoding="utf-8") for name in ("without", "with")]
    assert ["hatched band" in page for page in pages] == [False, True]
    pictures = [(tmp_path / name / "reliability.png").read_bytes() for name in ("without", "with")]
    assert pictures[0] != pictures[1]
    written = [strict_json(tmp_path / name / "assess.json") for name in ("without", "with")]
    assert [one["settings"]["consistency"] for one in written] == [False, True]
    assert written[0]["measures"] == written[1]["measures"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--curve", "copula"), "--curve"),
        (("--ci-prob", "1"), "--ci-prob"),
        (("--positive", "gone"), "gone"),
        (("--weight", "none"), "none"),
    ],
)
def test_wrong_settings_are_refused(table: Path, tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    result = assess(table, *more, "--out", tmp_path / "out")
    refused(result, says)
    assert not (tmp_path / "out").exists()


def test_scores_that_are_no_probabilities_are_refused(tmp_path: Path) -> None:
    frame = cases()
    frame.loc[3, "p"] = 7.5
    frame.to_csv(tmp_path / "in.csv", index=False)
    result = assess(tmp_path / "in.csv", "--out", tmp_path / "out")
    refused(result, "probability column 'p'", "7.5 at line 5", "Divide percentages by 100")
    assert "--score-kind" not in result.stderr  # this command has none
    assert not (tmp_path / "out").exists()
