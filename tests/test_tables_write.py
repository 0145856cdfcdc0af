"""Result tables and directories of outputs, whole or not at all: `bayescal.tables.write`."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayescal.tables.write
from bayescal.tables import (
    TableError,
    add_columns,
    atomic_path,
    check_not_read,
    check_output,
    read_table,
    staged_outputs,
    write_table,
)

RESULTS = pd.DataFrame({"mean": [0.25, 0.1 + 0.2], "sd": [0.5, 1e-5], "lower": [0.0, 0.0], "upper": [1.0, 1.0]})


def test_rows_order_and_cell_text_are_kept(tmp_path: Path) -> None:
    content = b'id;score;label;note\n007;0,50;NA;"a;\nb"\n1.10;1e-01;None;\n'
    (tmp_path / "in.csv").write_bytes(content)
    table = read_table(tmp_path / "in.csv", score_columns=["score"], label_column="label")
    write_table(add_columns(table.frame, RESULTS), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (
        b"id,score,label,note,mean,sd,lower,upper\n"
        b'007,0.50,NA,"a;\nb",0.25,0.5,0.0,1.0\n'
        b"1.10,1e-01,None,,0.30000000000000004,1e-05,0.0,1.0\n"
    )


cell_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(cell_text, cell_text.filter(lambda text: text.strip() != "")), min_size=1))
@settings(max_examples=40)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    directory = tmp_path_factory.mktemp("round")
    frame = pd.DataFrame(rows, columns=["note", "label"], dtype=object).assign(score=np.arange(len(rows)) / 7)
    for name in ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"]:
        write_table(frame, directory / name)
        table = read_table(directory / name, score_columns=["score"], label_column="label")
        np.testing.assert_array_equal(table.scores[:, 0], frame["score"])
        assert table.labels is not None
        if table.labels.dtype.kind == "U":
            assert table.labels.tolist() == [label.strip() for _, label in rows]
        # Spaces behind a separator are the one thing that is not kept.
        assert [note.lstrip(" ") for note, _ in rows] == [note.lstrip(" ") for note in table.frame["note"]]
        write_table(table.frame, directory / f"again-{name}")
        again = read_table(directory / f"again-{name}", score_columns=["score"], label_column="label")
        pd.testing.assert_frame_equal(again.frame, table.frame)
        np.testing.assert_array_equal(again.labels, table.labels)


def test_extension_decides_the_format(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x,y"], "b": [1]})
    for name in ["o.tsv", "o.TAB", "o.tsv.gz", "o.csv", "o.a.csv", "o.csv.gz", "o.parquet", "o.pq"]:
        write_table(frame, tmp_path / name)
    assert (tmp_path / "o.tsv").read_bytes() == (tmp_path / "o.TAB").read_bytes() == b"a\tb\nx,y\t1\n"
    assert gzip.decompress((tmp_path / "o.tsv.gz").read_bytes()) == b"a\tb\nx,y\t1\n"
    assert (tmp_path / "o.csv").read_bytes() == (tmp_path / "o.a.csv").read_bytes() == b'a,b\n"x,y",1\n'
    assert gzip.decompress((tmp_path / "o.csv.gz").read_bytes()) == b'a,b\n"x,y",1\n'
    for name in ["o.parquet", "o.pq"]:
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / name), frame, check_dtype=False)


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("out.xlsx", "the extension '.xlsx'"),
        ("out.csv.bz2", "the extension '.bz2'"),
        ("out.parquet.gz", "the extension '.gz'"),
        ("out.CSVX", "the extension '.csvx'"),
        ("out.txt", "the extension '.txt'"),
        ("csv", "no extension"),
        (".csv", "no extension"),
    ],
)
def test_other_extensions_are_refused(tmp_path: Path, name: str, got: str) -> None:
    message = rf"{name}: a table is written as \.csv, \.tsv, \.tab .*, \.parquet or \.pq, got {got}; give"
    for attempt in (check_output, lambda path: write_table(RESULTS, path)):
        with pytest.raises(TableError, match=message):
            attempt(tmp_path / name)
    assert tree(tmp_path) == {}


def test_devices_take_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", os.devnull, tmp_path / "pipe"):
        check_output(path)
    write_table(RESULTS, os.devnull)


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(pd.DataFrame({"a": ["x"]}), "-")
    assert capsys.readouterr().out == "a\nx\n"


def test_taken_names_get_a_suffix_as_a_set() -> None:
    rows = pd.DataFrame({"mean": ["1", "2"], "x": ["3", "4"]}, index=[5, 9])
    assert list(add_columns(rows[["x"]], RESULTS)) == ["x", "mean", "sd", "lower", "upper"]
    once = add_columns(rows, RESULTS)
    assert list(once)[2:] == ["mean_bayescal", "sd_bayescal", "lower_bayescal", "upper_bayescal"]
    assert list(add_columns(once, RESULTS))[6:] == [
        "mean_bayescal2",
        "sd_bayescal2",
        "lower_bayescal2",
        "upper_bayescal2",
    ]
    assert once["mean"].tolist() == ["1", "2"]
    assert once["mean_bayescal"].tolist() == RESULTS["mean"].tolist()
    assert list(rows) == ["mean", "x"]


def test_results_of_other_length_are_refused() -> None:
    with pytest.raises(ValueError, match="must have 3 rows, one for each input row, got 2"):
        add_columns(pd.DataFrame({"x": [1, 2, 3]}), RESULTS)


def tree(directory: Path) -> dict[str, bytes | None]:
    """Every path below a directory, with the content of files."""
    paths = sorted(directory.rglob("*"))
    return {path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None for path in paths}


INTERRUPTIONS = [RuntimeError("no"), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.parametrize("interruption", INTERRUPTIONS, ids=repr)
@pytest.mark.parametrize("old", [None, b"old"])
def test_file_is_whole_or_as_before(tmp_path: Path, old: bytes | None, interruption: BaseException) -> None:
    path = tmp_path / "fit.nc"
    if old is not None:
        path.write_bytes(old)
    before = tree(tmp_path)

    def write_half() -> None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"half")
            assert temporary.parent == path.parent
            raise interruption

    with pytest.raises(type(interruption)):
        write_half()
    assert tree(tmp_path) == before
    with atomic_path(str(path)) as temporary:
        temporary.write_bytes(b"whole")
        assert path.exists() == (old is not None)
    assert tree(tmp_path) == {"fit.nc": b"whole"}


@pytest.mark.parametrize(("name", "ending"), [("a.png", ".png"), ("a.csv.gz", ".csv.gz"), ("a", ""), ("x" * 250, "")])
def test_temporary_file_has_the_extension(tmp_path: Path, name: str, ending: str) -> None:
    with atomic_path(tmp_path / name) as temporary:
        temporary.touch()
        assert "".join(temporary.suffixes) == ending
    assert list(tree(tmp_path)) == [name]


def test_failed_table_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(frame: pd.DataFrame, path: Path, **settings: object) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(OSError, match="No space left"):
        write_table(RESULTS, tmp_path / "out.csv")
    assert tree(tmp_path) == {}


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    path = tmp_path / "out.csv"
    write_table(RESULTS, path)
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o640)
    write_table(RESULTS, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_are_followed_and_devices_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "real" / "out.csv")
    write_table(RESULTS[["sd"]], tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real" / "out.csv").read_text() == "sd\n0.5\n1e-05\n"
    with atomic_path(os.devnull) as path:
        assert str(path) == os.devnull


def test_places_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IsADirectoryError, match="is a directory; give the name of a file"):
        write_table(RESULTS, tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere is not an existing directory"):
        write_table(RESULTS, tmp_path / "nowhere" / "out.csv")
    with pytest.raises(FileNotFoundError, match="nowhere is not an existing directory"):
        check_output(tmp_path / "nowhere" / "out.csv")
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out.csv"):
        pass  # the body writes nothing
    with pytest.raises(NotADirectoryError, match="file is a file"), staged_outputs(tmp_path / "file"):
        pytest.fail("entered")
    with (
        pytest.raises(OSError, match="file is not an existing directory"),
        staged_outputs(tmp_path / "file" / "x"),
    ):
        pytest.fail("entered")
    with pytest.raises(FileNotFoundError, match="is empty"), staged_outputs(""):
        pytest.fail("entered")
    # Through `os.access`, since a superuser may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        write_table(RESULTS, tmp_path / "out.csv")
    with pytest.raises(PermissionError, match="cannot be written to"), staged_outputs(tmp_path / "out"):
        pytest.fail("entered")
    assert tree(tmp_path) == {"file": b""}


def fill(stage: Path) -> None:
    for name in ["posterior.nc", "report.html", "summary.json"]:
        (stage / name).write_bytes(b"new " + name.encode())


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A directory with two files of a run before, and with others' files."""
    directory = tmp_path / "outputs"
    (directory / "notes").mkdir(parents=True)
    for name in ["report.html", "summary.json", "mine.txt", "notes/a"]:
        (directory / name).write_bytes(b"old " + name.encode())
    return directory


def test_outputs_move_in_beside_others(outputs: Path) -> None:
    with staged_outputs(outputs) as stage:
        fill(stage)
        assert (outputs / "report.html").read_bytes() == b"old report.html"
        assert stage.is_relative_to(outputs)
    assert tree(outputs) == {
        "mine.txt": b"old mine.txt",
        "notes": None,
        "notes/a": b"old notes/a",
        "posterior.nc": b"new posterior.nc",
        "report.html": b"new report.html",
        "summary.json": b"new summary.json",
    }


def test_stale_files_go_when_new_ones_move_in(outputs: Path) -> None:
    with staged_outputs(outputs, ["mine.txt", "notes", "nothing.png", "report.html"]) as stage:
        fill(stage)
        assert (outputs / "mine.txt").exists()
    assert sorted(tree(outputs)) == ["notes", "notes/a", "posterior.nc", "report.html", "summary.json"]
    assert (outputs / "report.html").read_bytes() == b"new report.html"


def test_output_directory_is_made_with_its_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with staged_outputs("a/b") as stage:
        monkeypatch.chdir("/")  # a relative name is one of the directory at the start
        fill(stage)
    assert sorted(tree(tmp_path)) == ["a", "a/b", "a/b/posterior.nc", "a/b/report.html", "a/b/summary.json"]


@pytest.mark.parametrize("interruption", INTERRUPTIONS, ids=repr)
@pytest.mark.parametrize("existing", ["", "a"])
def test_interrupted_outputs_leave_nothing(tmp_path: Path, existing: str, interruption: BaseException) -> None:
    (tmp_path / existing).mkdir(exist_ok=True)
    before = tree(tmp_path)

    def write_half() -> None:
        with staged_outputs(tmp_path / "a" / "b") as stage:
            fill(stage)
            raise interruption

    with pytest.raises(type(interruption)):
        write_half()
    assert tree(tmp_path) == before


# Six renames: a stale file and two old ones are put aside, three new ones move in.
@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("done", [False, True], ids=["before the rename", "after the rename"])
def test_failure_while_moving_is_undone(outputs: Path, monkeypatch: pytest.MonkeyPatch, nth: int, done: bool) -> None:
    before = tree(outputs)
    calls = 0
    replace = os.replace

    def fail_once(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls != nth or done:
            replace(source, target)
        if calls == nth:
            raise KeyboardInterrupt

    monkeypatch.setattr(bayescal.tables.write.os, "replace", fail_once)
    with pytest.raises(KeyboardInterrupt), staged_outputs(outputs, ["mine.txt"]) as stage:
        fill(stage)
    assert calls >= nth
    assert tree(outputs) == before


def test_devices_and_standard_streams_may_be_read_and_written(tmp_path: Path) -> None:
    check_not_read("-", "-")
    check_not_read("/dev/null", "/dev/null")
    check_not_read(tmp_path / "new.csv", tmp_path / "new.csv")  # nothing to overwrite


def test_directory_in_the_stage_is_refused(outputs: Path) -> None:
    before = tree(outputs)
    with pytest.raises(IsADirectoryError, match="where a file should go"), staged_outputs(outputs) as stage:
        (stage / "figures").mkdir()
    assert tree(outputs) == before


def test_directory_in_place_of_an_output_is_refused(outputs: Path) -> None:
    before = tree(outputs)
    with pytest.raises(IsADirectoryError, match="notes is a directory"), staged_outputs(outputs) as stage:
        (stage / "notes").touch()
    assert tree(outputs) == before
