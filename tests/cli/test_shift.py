"""``bayescal shift``: what it writes and says, and what it refuses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import bayescal as bc
from bayescal.cli import ShiftMethod
from bayescal.label_shift.notes import METHODS

from .helpers import listing, refused, run, strict_json

FILES = ["adapted.csv", "priors.png", "report.html", "shift.nc", "summary.json"]
COLUMNS = ["p_dog", "p_cat", "p_cow"]
SCORES = ",".join(COLUMNS)
POINT = ["--method", "em", "--inference", "point"]
GIVEN = ["--calibrator", "none"]  # a posterior that takes no sampler


def cases(n: int, q: list[float], seed: int) -> pd.DataFrame:
    """Calibrated probabilities, at equal proportions, of n animals in proportions q of dog, cat, cow."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=q)
    p = softmax(2 * (2 * np.eye(3)[y] + rng.normal(size=(n, 3))), axis=1)
    return pd.DataFrame(p.round(6), columns=COLUMNS).assign(animal=np.array(["dog", "cat", "cow"])[y])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """source.csv, and target.csv with its columns in another order and one more."""
    path = tmp_path_factory.mktemp("shift")
    cases(120, [1 / 3, 1 / 3, 1 / 3], 0).to_csv(path / "source.csv", index=False)
    target = cases(150, [0.1, 0.2, 0.7], 1).drop(columns="animal")
    target.assign(id=[f"c{i}" for i in range(150)])[["id", *COLUMNS[::-1]]].to_csv(path / "target.csv", index=False)
    return path


def shift(folder: Path, out: Path, *more: Any, source: Any = "source.csv", target: Any = "target.csv") -> Any:
    files = ["--source", folder / source, "--target", folder / target]
    return run("shift", *files, "--scores", SCORES, "--label", "animal", "--out", out, *more)


@pytest.fixture(scope="module")
def bayes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bayes") / "out"
    result = shift(folder, out, *GIVEN, "--draws", 200, "--ci-prob", 0.8, "--seed", 4)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = " ".join(result.stdout.split())
    for words in ("120 labelled cases of source.csv", "150 cases without labels of target.csv", "p_cow", "80 %"):
        assert words in shown
    return out


def test_the_options_are_the_librarys_methods() -> None:
    assert [method.value for method in ShiftMethod] == list(METHODS)


def test_writes_its_files_and_nothing_else(bayes: Path) -> None:
    assert listing(bayes) == FILES and listing(bayes.parent) == ["out"]


def test_adapted_rows_are_the_targets_with_the_adapters_answer(bayes: Path, folder: Path) -> None:
    written, before = pd.read_csv(bayes / "adapted.csv"), pd.read_csv(folder / "target.csv")
    pd.testing.assert_frame_equal(written[before.columns], before)
    source = pd.read_csv(folder / "source.csv").sort_index(axis=1)  # p_cat, p_cow, p_dog: as the sorted labels
    ad = bc.LabelShiftAdapter(draws=200, random_state=4)
    ad.fit(source.drop(columns="animal").to_numpy(), source["animal"].to_numpy())
    scores = before[["p_cat", "p_cow", "p_dog"]].to_numpy()
    ad.adapt(scores)
    for k, label in enumerate(["cat", "cow", "dog"]):
        # another order of the classes gives other draws
        np.testing.assert_allclose(written[f"mean_{label}"], ad.predict_proba(scores)[:, k], atol=0.03)
        assert (written[f"lower_{label}"] <= written[f"upper_{label}"]).all()
    loaded = bc.load(bayes / "shift.nc")
    assert loaded.classes_.tolist() == ["dog", "cat", "cow"]
    mean, ends = loaded.predict_proba(before[COLUMNS]), loaded.predict_interval(before[COLUMNS], 0.8)
    expected = np.concatenate([mean[:, :, None], ends], axis=2).reshape(len(before), 9)
    names = [f"{name}_{label}" for label in loaded.classes_ for name in ("mean", "lower", "upper")]
    assert written.columns.tolist() == [*before.columns, *names]
    np.testing.assert_allclose(written[names], expected, rtol=1e-12, atol=1e-300)


def test_summary_agrees_with_the_library(bayes: Path) -> None:
    summary, ad = strict_json(bayes / "summary.json"), bc.load(bayes / "shift.nc")
    assert summary["schema"] == 1 and summary["warnings"] == [] and summary["diagnostics"] is None
    assert summary["data"]["source"] == {"file": "source.csv", "rows": 120}
    assert (summary["settings"]["seed"], summary["settings"]["draws"], summary["settings"]["ci_prob"]) == (4, 200, 0.8)
    limits = ad.prior_interval(0.8).values
    for k, row in enumerate(summary["classes"]):
        assert (row["label"], row["column"]) == (ad.classes_[k], COLUMNS[k])
        assert row["target_prior"]["mean"] == pytest.approx(float(ad.target_prior_[k]))
        assert [row["target_prior"][end] for end in ("lower", "upper")] == pytest.approx(limits[k])
        assert row["weights"]["mean"] == pytest.approx(float(ad.weights_[k]))
    assert summary["classes"][2]["target_prior"]["mean"] == pytest.approx(0.7, abs=0.15)


def test_report_says_what_a_reader_needs(bayes: Path) -> None:
    page = (bayes / "report.html").read_text(encoding="utf-8")
    for words in ("target.csv", "look alike in source and target", "80 % credible interval", "<code>cow</code>"):
        assert words in page
    assert page.count("<img") == 1 and "data:image/png;base64," in page and "http" not in page
    assert (bayes / "priors.png").read_bytes().startswith(b"\x89PNG")


def test_same_seed_same_files(bayes: Path, folder: Path, tmp_path: Path) -> None:
    asked = [*GIVEN, "--draws", 200, "--ci-prob", 0.8]
    assert shift(folder, tmp_path / "again", *asked, "--seed", 4).exit_code == 0
    assert shift(folder, tmp_path / "other", *asked, "--seed", 5).exit_code == 0
    for name in set(FILES) - {"shift.nc"}:  # HDF5 files hold times
        assert (tmp_path / "again" / name).read_bytes() == (bayes / name).read_bytes(), name
        assert (tmp_path / "other" / name).read_bytes() != (bayes / name).read_bytes(), name


@pytest.mark.parametrize("method", [method for method in METHODS if not method.startswith("bayes")])
def test_point_methods_write_no_intervals(method: str, folder: Path, tmp_path: Path) -> None:
    assert shift(folder, tmp_path, "--method", method, "--inference", "point").exit_code == 0
    written = pd.read_csv(tmp_path / "adapted.csv")
    assert written.columns.tolist()[4:] == ["mean_dog", "mean_cat", "mean_cow"]
    summary = strict_json(tmp_path / "summary.json")
    assert [row["target_prior"]["lower"] for row in summary["classes"]] == [None] * 3
    assert summary["settings"]["ci_prob"] is None and summary["classes"][2]["target_prior"]["mean"] > 0.5
    assert "No intervals" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_one_column_stands_for_two_classes(tmp_path: Path) -> None:
    rows = cases(150, [0.5, 0.5, 0.0], 2).assign(dog=lambda frame: (frame["animal"] == "dog").astype(int))
    rows.to_csv(tmp_path / "source.csv", index=False)
    cases(200, [0.1, 0.9, 0.0], 3).to_csv(tmp_path / "target.csv", index=False)
    files = ["--source", tmp_path / "source.csv", "--target", tmp_path / "target.csv", "--out", tmp_path / "out"]
    assert run("shift", *files, "--scores", "p_dog", "--label", "dog", *POINT).exit_code == 0
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert [row["label"] for row in summary["classes"]] == [0, 1] and summary["settings"]["calibrator"] == "platt"
    assert summary["classes"][1]["target_prior"]["mean"] == pytest.approx(0.1, abs=0.1)


def test_known_proportions(folder: Path, tmp_path: Path) -> None:
    assert shift(folder, tmp_path, *POINT, "--prior", "0.2, 0.2, 0.6").exit_code == 0
    summary = strict_json(tmp_path / "summary.json")
    assert [row["target_prior"]["mean"] for row in summary["classes"]] == [0.2, 0.2, 0.6]
    assert "were given, not estimated" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_conservative_is_the_librarys_source_of_labels(folder: Path, tmp_path: Path) -> None:
    assert shift(folder, tmp_path, *GIVEN, "--draws", 100, "--conservative").exit_code == 0
    assert strict_json(tmp_path / "summary.json")["settings"]["conservative"]
    ad = bc.load(tmp_path / "shift.nc")
    counts = pd.read_csv(folder / "source.csv")["animal"].value_counts()[ad.classes_].to_numpy()
    expected = (counts + 1) / (counts + 1).sum()  # mean of Dirichlet(counts + 1)
    assert ad.source == "labels"
    np.testing.assert_allclose(ad.source_prior_, expected, atol=4 * np.sqrt(0.25 / 123 / 100))


@pytest.mark.parametrize(("names", "given"), [("a,b,c", "dog,cat,cow"), ("b,c,a", None)])
def test_columns_of_other_names(names: str, given: str | None, folder: Path, tmp_path: Path) -> None:
    for name in ("source", "target"):  # sorted labels are cat, cow, dog
        table = pd.read_csv(folder / f"{name}.csv").rename(columns=dict(zip(COLUMNS, "abc", strict=True)))
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    asked = ["--scores", names, "--label", "animal", *POINT, *(["--classes", given] if given else [])]
    files = ["--source", tmp_path / "source.csv", "--target", tmp_path / "target.csv"]
    assert run("shift", *files, *asked, "--out", tmp_path / "out").exit_code == 0
    found = {row["label"]: row["column"] for row in strict_json(tmp_path / "out" / "summary.json")["classes"]}
    assert found == {"dog": "a", "cat": "b", "cow": "c"}


def test_one_target_row(folder: Path, tmp_path: Path) -> None:
    pd.read_csv(folder / "target.csv")[:1].to_csv(tmp_path / "one.csv", index=False)
    assert shift(folder, tmp_path / "out", *GIVEN, "--draws", 100, target=tmp_path / "one.csv").exit_code == 0
    written = pd.read_csv(tmp_path / "out" / "adapted.csv")
    assert len(written) == 1 and np.isfinite(written.filter(like="mean_").to_numpy()).all()


def test_warnings_are_lines_and_in_the_files(folder: Path, tmp_path: Path) -> None:
    source = pd.read_csv(folder / "source.csv")
    source[source["animal"] != "cow"].to_csv(tmp_path / "in.csv", index=False)
    result = shift(folder, tmp_path / "out", *GIVEN, "--draws", 100, source=tmp_path / "in.csv")
    assert result.exit_code == 0 and "1 of 3 classes have no source case, first 'cow'" in result.stderr
    summary = strict_json(tmp_path / "out" / "summary.json")
    assert result.stderr == "".join(f"bayescal: warning: {text}\n" for text in summary["warnings"])


def test_a_sampler_that_did_not_converge(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayescal.label_shift.adapter.ACCEPTED_MIN", 1.1)  # of all transitions
    result = shift(folder, tmp_path, *GIVEN, "--draws", 100)
    assert result.exit_code == 3 and "accepted" in result.stderr and listing(tmp_path) == FILES
    assert strict_json(tmp_path / "summary.json")["diagnostics"]["verdict"] == "failed"
    assert "did not converge. Do not use" in (tmp_path / "report.html").read_text(encoding="utf-8")


# Wrong input: one line, nothing written, nothing slow imported

TABLES = {
    "nan.csv": lambda t: t.assign(p_cat=t["p_cat"].where(t.index != 3)),
    "sums.csv": lambda t: t.assign(p_cat=t["p_cat"] + 0.1 * (t.index == 5)),
    "none.csv": lambda t: t[:0],
    "column.csv": lambda t: t.drop(columns="p_cow"),
    "horse.csv": lambda t: t.assign(animal=t["animal"].where(t.index != 5, "horse")),
    "percent.csv": lambda t: t.assign(**{name: 100 * t[name] for name in COLUMNS}),
}
WRONG = [
    (["--target", "nan.csv"], ["nan.csv", "'p_cat'", "empty", "line 5"]),
    (["--target", "sums.csv"], ["sums.csv", "must sum to 1", "line 7", "--score-kind logit"]),
    (["--source", "sums.csv"], ["sums.csv", "must sum to 1", "line 7"]),
    (["--target", "none.csv"], ["none.csv", "no rows"]),
    (["--target", "column.csv"], ["column.csv", "no column 'p_cow'"]),
    (["--target", "nothing.csv"], ["nothing.csv", "does not exist"]),
    (["--source", "percent.csv"], ["percent.csv", "[0, 1]", "Divide percentages by 100"]),
    (["--source", "horse.csv"], ["horse.csv", "'animal' holds 4 classes", "'horse'", "3 columns"]),
    (["--label", "Animal"], ["no column 'Animal'", "did you mean 'animal'"]),
    (["--scores", "p_dog"], ["'animal' must hold two classes, got 3"]),
    (["--scores", ","], ["--scores must name at least one column"]),
    (["--classes", "dog,cat"], ["--classes must name 3 different labels"]),
    (["--classes", "dog,cat,pig"], ["'animal' holds 'cow'", "not among the classes ['dog', 'cat', 'pig']"]),
    (["--calibrator", "platt"], ["--calibrator must be one of temperature", "none", "3 score columns", "'platt'"]),
    (["--calibrator", "none", "--score-kind", "logit"], ["--calibrator none", "leave --score-kind out"]),
    (["--score-kind", "raw"], ["--score-kind", "'raw'"]),
    (["--inference", "point"], ["--method bayes needs --inference nuts"]),
    (["--method", "em", "--ci-prob", "0.8"], ["--ci-prob has no meaning with --method em"]),
    (["--method", "em", "--conservative"], ["--conservative is for --method bayes"]),
    (["--ci-prob", "90"], ["--ci-prob", "90"]),
    (["--prior", "half"], ["--prior must be numbers", "'half'"]),
    (["--source", "-", "--target", "-"], ["only one of --source and --target"]),
]


@pytest.fixture(scope="module")
def wrong_tables(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrong")
    source = pd.read_csv(folder / "source.csv")
    for name in ("source.csv", "target.csv"):
        (path / name).write_bytes((folder / name).read_bytes())
    for name, change in TABLES.items():
        change(source).to_csv(path / name, index=False)
    return path


@pytest.mark.parametrize(("more", "words"), WRONG, ids=lambda value: " ".join(value[:2]))
def test_wrong_input_is_refused(
    more: list[str], words: list[str], wrong_tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wrong_tables)
    asked = ["--source", "source.csv", "--target", "target.csv", "--scores", SCORES, "--label", "animal"]
    for option, value in zip(more[::2], more[1::2], strict=False):
        if option in asked:
            asked[asked.index(option) + 1] = value
            more = [word for word in more if word not in (option, value)]
    refused(run("shift", *asked, *more, "--out", tmp_path / "out"), *words)
    assert listing(tmp_path) == []


def test_is_refused_before_slow_imports(wrong_tables: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from bayescal.cli import app\n"
        "for line in sys.stdin.read().splitlines():\n"
        "    result = CliRunner().invoke(app, line.split())\n"
        "    assert result.exit_code == 2, line + result.output\n"
        "print({'pymc', 'pytensor', 'nutpie', 'arviz', 'matplotlib', 'sklearn', 'scipy.stats'} & {*sys.modules})\n"
    )
    start = f"shift --label animal --out {tmp_path / 'out'} --scores"
    lines = [
        f"{start} {SCORES} --source source.csv --target sums.csv",
        f"{start} {SCORES} --source horse.csv --target target.csv",
        f"{start} {SCORES} --source source.csv --target column.csv",
        f"{start} {SCORES} --source source.csv --target target.csv --calibrator platt",
    ]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, cwd=wrong_tables)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
    assert listing(tmp_path) == []


def test_what_the_method_cannot_do_is_refused(folder: Path, tmp_path: Path) -> None:
    source = pd.read_csv(folder / "source.csv")
    source[source["animal"] != "cow"].to_csv(tmp_path / "in.csv", index=False)
    out = tmp_path / "out"
    refused(
        shift(folder, out, *GIVEN, "--method", "bbse-hard", source=tmp_path / "in.csv"),
        "in.csv: --method bbse-hard needs source cases of every class",
        "use --method bayes",
    )
    refused(shift(folder, out, *POINT, "--prior", "2"), "--method em has no prior. Use --method bayes")
    refused(shift(folder, out, *POINT, "--prior", "0.1,0.2"), "prior must be", "3 of them", "['dog', 'cat', 'cow']")
    assert listing(tmp_path) == ["in.csv"]


def test_writing_over_what_is_read_is_refused(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "adapted.csv"
    target.write_bytes((folder / "target.csv").read_bytes())
    refused(shift(folder, tmp_path, *POINT, target=target), "adapted.csv is the file that is read")
    assert listing(tmp_path) == ["adapted.csv"]


def test_predict_refuses_an_adapter(bayes: Path, folder: Path, tmp_path: Path) -> None:
    result = run("predict", bayes / "shift.nc", folder / "target.csv", "--out", tmp_path / "out.csv")
    refused(result, "shift.nc adapts to another place", "bayescal shift")
    assert listing(tmp_path) == []
