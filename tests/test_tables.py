"""Score tables as bytes on disk in, result tables out: `bayescal.tables`.

Cases "K 70" and "K 71" are reports of users of other programs: what hides in a header, what in a number.
"""

import csv
import gzip
import io
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescal.tables import Table, TableError, read_table, write_table

MARK = b"\xef\xbb\xbf"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Table]:
    """Write bytes to a file and read them as a table."""

    def write_and_read(
        content: bytes,
        scores: tuple[str, ...] = ("score",),
        label: str | None = "label",
        name: str = "cases.csv",
    ) -> Table:
        path = tmp_path / name
        path.write_bytes(content)
        return read_table(path, score_columns=scores, label_column=label)

    return write_and_read


def values(table: Table) -> tuple[list[float], list[int | str]]:
    """First score column and labels."""
    assert table.labels is not None
    return table.scores[:, 0].tolist(), table.labels.tolist()


# -----------------------------------------------------------------------------
# Encodings, line ends, quotes, spaces
# -----------------------------------------------------------------------------

PLAIN = "score,label\n0.1,é\n0.9,ß\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        MARK + PLAIN.encode(),
        MARK + PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.rstrip("\n").encode(),
        PLAIN.encode("utf-16"),
        PLAIN.encode("utf-16-le").join([b"\xff\xfe", b""]),
        PLAIN.encode("utf-16-be").join([b"\xfe\xff", b""]),
        PLAIN.encode("utf-32"),
        MARK + b'"score","label"\n"0.1","' + "é".encode() + b'"\n0.9,' + "ß".encode() + b"\n",
        " score , label \n 0.1 , é \n 0.9\t, ß\u00a0\n".encode(),
        'score, "label"\n0.1, "é"\n0.9, "ß"\n'.encode(),
        b"\n\n" + PLAIN.replace("\n", "\n\n").encode() + b"\n  \n",
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        PLAIN.replace(",", "|").encode(),
        gzip.compress(PLAIN.encode(), mtime=0),
    ],
    ids=[
        "plain",
        "mark",
        "mark and CRLF",
        "CR",
        "no end of last line",
        "UTF-16",
        "UTF-16-LE",
        "UTF-16-BE",
        "UTF-32",
        "quotes behind a mark",
        "spaces",
        "quotes behind spaces",
        "blank lines",
        "semicolon",
        "tab",
        "bar",
        "gzip",
    ],
)
def test_same_table_in_every_dress(read: Callable[..., Table], content: bytes) -> None:
    table = read(content)
    assert values(table) == ([0.1, 0.9], ["é", "ß"])
    assert list(table.frame.columns) == ["score", "label"]
    assert table.scores.dtype == np.float64
    assert table.scores.shape == (2, 1)
    assert table.columns == ("score",)


def test_k70_mark_in_front_of_the_header(read: Callable[..., Table]) -> None:
    assert values(read(b"\xef\xbb\xbfscore,label\r\n0.1,0\r\n0.9,1\r\n")) == ([0.1, 0.9], [0, 1])


def test_k70_spaces_make_no_second_class(read: Callable[..., Table]) -> None:
    table = read(b"score , label\n0.1, pos\n0.2,pos\n0.3,neg \n")
    assert values(table) == ([0.1, 0.2, 0.3], ["pos", "pos", "neg"])


def test_names_asked_for_may_have_spaces(read: Callable[..., Table]) -> None:
    assert read(PLAIN.encode(), scores=(" score",), label="label ").columns == ("score",)


@pytest.mark.parametrize("name", ["cases.tsv", "cases.TAB", "cases.csv", "cases.txt", "cases"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_is_the_one_under_which_the_names_are_found(
    read: Callable[..., Table], separator: str, name: str
) -> None:
    # Under every other separator the header has as many or more cells.
    decoy = "".join(sorted({",", ";", "\t", "|"} - {separator}))
    text = separator.join(["score", f"x{decoy * 3}", "label\n0.5", "note", "1\n"])
    assert values(read(text.encode(), name=name)) == ([0.5], [1])


def test_name_that_holds_a_separator(read: Callable[..., Table]) -> None:
    assert read(b'"a,b";c\n0.5;1\n', scores=("a,b",), label="c").scores.tolist() == [[0.5]]
    assert read(b'"a;b",c\n0.5,1\n', scores=("a;b",), label="c").scores.tolist() == [[0.5]]


def test_extension_decides_for_one_column(read: Callable[..., Table]) -> None:
    assert read(b"score\n0,5\n", label=None, name="cases.tsv").scores.tolist() == [[0.5]]
    with pytest.raises(TableError, match=r"header \(1, separator ','\), but 1 of 1 does not \(line 2; line 2 has 2\)"):
        read(b"score\n0,5\n", label=None)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MARK + PLAIN.encode())))
    table = read_table("-", score_columns=["score"], label_column="label")
    assert values(table) == ([0.1, 0.9], ["é", "ß"])
    assert table.source == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"score\nx\n")))
    with pytest.raises(TableError, match=r"^standard input: column 'score'"):
        read_table("-", score_columns=["score"])


def test_score_columns_in_the_order_asked_for(read: Callable[..., Table]) -> None:
    table = read(b"a,b,c,label\n1,2,3,x\n4,5,6,y\n", scores=("c", "a"), label=None)
    assert table.scores.tolist() == [[3.0, 1.0], [6.0, 4.0]]
    assert table.columns == ("c", "a")
    assert table.labels is None


# -----------------------------------------------------------------------------
# Numbers
# -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1e-3", 1e-3),
        ("-2E+2", -200.0),
        ("007", 7.0),
        ("1e-400", 0.0),
    ],
)
def test_numbers(read: Callable[..., Table], cell: str, number: float) -> None:
    assert read(f"score\n{cell}\n".encode(), label=None).scores.tolist() == [[number]]


@pytest.mark.parametrize(
    "cell",
    [
        "abc",
        "1_000",
        "0x1F",
        "1e",
        ".",
        "+",
        "0.5f",
        "True",
        "50%",
        "−1",
        "١",
        "NA",
        "None",
        "0.1 0.2",
        "1e5.0",
    ],
)
def test_what_is_no_number(read: Callable[..., Table], cell: str) -> None:
    with pytest.raises(TableError) as caught:
        read(f"score\n0.5\n{cell}\n0.7\n".encode(), label=None)
    assert f"1 of 3 cells is not numeric (line 3, {cell!r})" in str(caught.value)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "+INF", "nan", "NaN", "1e400", "-1e400"])
def test_k71_what_is_not_finite(read: Callable[..., Table], cell: str) -> None:
    with pytest.raises(TableError) as caught:
        read(f"score\n0.5\n0.6\n{cell}\n".encode(), label=None)
    requirement = "column 'score' must hold a finite number in every row"
    assert f"{requirement}, but 1 of 3 cells is not finite (line 4, {cell!r})" in str(caught.value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@settings(max_examples=50)
def test_numbers_are_read_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    path = tmp_path_factory.mktemp("numbers") / "scores.csv"
    for separator, mark in [(",", "."), (";", ",")]:
        rows = [f"{x!r}{separator}a\n".replace(".", mark) for x in numbers]
        path.write_text(f"score{separator}label\n" + "".join(rows))
        assert read_table(path, score_columns=["score"]).scores[:, 0].tobytes() == np.array(numbers).tobytes()


def test_k71_decimal_commas(read: Callable[..., Table]) -> None:
    assert values(read(b"score;label\n0,12;0\n0,87;1\n")) == ([0.12, 0.87], [0, 1])
    table = read(b"score\tb\tlabel\n0,12\t1\tx\n2\t-3,5e1\ty\n", scores=("score", "b"))
    assert table.scores.tolist() == [[0.12, 1.0], [2.0, -35.0]]


def test_k71_decimal_commas_never_glue_columns(read: Callable[..., Table]) -> None:
    message = r"2 of 2 do not \(lines 2 and 3; line 2 has 3\).*separate cells by ';' if numbers have decimal commas"
    with pytest.raises(TableError, match=message):
        read(b"score,label\n0,12,0\n0,87,1\n")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"score;b;label\n0,5;0.5;x\n", r"1 of 1 cells is not numeric \(line 2, '0,5'\)"),
        (b"score;b;label\n0.5;0;x\n0,5;0;x\n", r"1 of 2 cells is not numeric \(line 3, '0,5'\)"),
        (b"score;b;label\n1.234,5;0;x\n0,5;0;x\n", r"1 of 2 cells is not numeric \(line 2, '1.234,5'\)"),
        (b"score;b;label\nabc;0;x\n0,5;0;x\n", r"1 of 2 cells is not numeric \(line 2, 'abc'\)"),
        (b'score,b,label\n"0,5",0,x\n', r"1 of 1 cells is not numeric \(line 2, '0,5'\)"),
    ],
    ids=["mixed columns", "mixed rows", "thousands", "text among them", "quoted in a comma-separated file"],
)
def test_commas_that_could_mean_two_things(read: Callable[..., Table], content: bytes, fault: str) -> None:
    with pytest.raises(TableError, match=fault):
        read(content, scores=("score", "b"))


@pytest.mark.parametrize(
    ("content", "copied"),
    [
        (b"score;a;b\n0,5;44,50;7\n0,6;;8,25\n", [["0.5", "44.50", "7"], ["0.6", "", "8.25"]]),
        (b"score;a;b\n0,5;x,y;1,2 \n0,6;1,5;3\n", [["0.5", "x,y", "1.2 "], ["0.6", "1,5", "3"]]),
        (b"score;a;b\n0,5;1.234,5;1,2,3\n0,6;1;4\n", [["0.5", "1.234,5", "1,2,3"], ["0.6", "1", "4"]]),
        (b"score;a;b\n12;1,5;1\n7;-2,5e3;1\n", [["12", "1.5", "1"], ["7", "-2.5e3", "1"]]),
        (b"score;a;b\n0.5;1,5;1\n0.6;2,5;1\n", [["0.5", "1,5", "1"], ["0.6", "2,5", "1"]]),
        (b"score\ta\tb\n12\t1,234\t1,5\n7\t1\t1\n", [["12", "1,234", "1.5"], ["7", "1", "1"]]),
        (b"score\ta\tb\n0,5\t1,234\t1,5\n1\t1\t1\n", [["0.5", "1.234", "1.5"], ["1", "1", "1"]]),
        (b'score,a,b\n0.5,"1,5","1"\n', [["0.5", "1,5", "1"]]),
    ],
    ids=[
        "every column",
        "words",
        "other numbers",
        "whole scores",
        "points in scores",
        "thousands behind whole scores",
        "decimals behind decimals",
        "separated by commas",
    ],
)
def test_columns_of_decimal_commas_are_copied_with_points(
    read: Callable[..., Table], content: bytes, copied: list[list[str]]
) -> None:
    assert read(content, label=None).frame.to_numpy().tolist() == copied


def test_thousands_or_decimals(read: Callable[..., Table]) -> None:
    with pytest.raises(TableError, match=r"2 of 3 cells are not numeric \(lines 2 and 3, first '1,234'\).*thousands"):
        read(b"score\tlabel\n1,234\t0\n12,345\t1\n7\t1\n")
    assert values(read(b"score;label\n1,234;0\n12,345;1\n")) == ([1.234, 12.345], [0, 1])
    assert values(read(b"score\tlabel\n1,234\t0\n0,345\t1\n")) == ([1.234, 0.345], [0, 1])


# -----------------------------------------------------------------------------
# Labels
# -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["0", "1"], [0, 1]),
        (["1.0", "0.0", "1", "0."], [1, 0, 1, 0]),
        (["-1", "+1", " 1"], [-1, 1, 1]),
        (["999999999999999999", "0"], [999999999999999999, 0]),
        (["NA", "None", "null", "nan", "N/A", "NaN"], ["NA", "None", "null", "nan", "N/A", "NaN"]),
        (["pos", " pos", "pos "], ["pos", "pos", "pos"]),
        (["01", "1"], ["01", "1"]),
        (["1.5", "1"], ["1.5", "1"]),
        (["1", "a"], ["1", "a"]),
        (["True", "False"], ["True", "False"]),
        (["1e0", "0"], ["1e0", "0"]),
        (["9999999999999999999", "0"], ["9999999999999999999", "0"]),
    ],
)
def test_labels(read: Callable[..., Table], cells: list[str], labels: list[int | str]) -> None:
    table = read(("score,label\n" + "".join(f"0.5,{cell}\n" for cell in cells)).encode())
    assert values(table)[1] == labels
    assert {type(label) for label in values(table)[1]} == {type(labels[0])}


def test_whole_numbers_with_decimal_commas(read: Callable[..., Table]) -> None:
    assert values(read(b"score;label\n0,5;1,0\n0,5;0,0\n"))[1] == [1, 0]


def test_k71_blank_label_is_reported_and_classes_stay_integers(read: Callable[..., Table]) -> None:
    message = r"label column 'label' must name a class in every row, but 1 of 3 cells is empty \(line 4\)"
    with pytest.raises(TableError, match=message):
        read(b"score,label\n0.1,0\n0.9,1\n0.5,\n")
    table = read(b"score,label\n0.1,0\n0.9,1\n")
    assert table.labels is not None
    assert table.labels.dtype == np.int64


def test_blank_labels_and_their_lines(read: Callable[..., Table]) -> None:
    rows = [f"0.5,{'a' if i % 2 else ' '}\n" for i in range(14)]
    with pytest.raises(TableError, match=r"7 of 14 cells are empty \(lines 2, 4, 6, 8, 10 and 2 more\)"):
        read(("score,label\n" + "".join(rows)).encode())


# -----------------------------------------------------------------------------
# Faults, and where they are
# -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (MARK, "is empty"),
        (b" \n\n", "is empty"),
        (b"score,label\n", "has a header and no rows"),
        (b"score,label\n\n", "has a header and no rows"),
        (
            b"Score,lable\n1,2\n",
            r"no column 'score' \(did you mean 'Score'\?\), no column 'label' \(did you mean 'lable'\?\)",
        ),
        (b"SCORE,label\n1,2\n", r"no column 'score' \(did you mean 'SCORE'\?\)"),
        (b"id,y\n1,2\n", "no column 'score', no column 'label'; the columns found are 'id', 'y'"),
        (b"score,label,score\n1,2,3\n", "names must differ, but 'score' comes more than once"),
        (b"score, score,label\n1,2,3\n", "names must differ, but 'score' comes more than once"),
        (b"score,label,a,b,a,b\n1,2,3,4,5,6\n", "names must differ, but 'a', 'b' come more than once"),
        (b"score,label\n0.1,0\n0.2\n\n0.3,1,2\n", r"2 of 3 do not \(lines 3 and 5; line 3 has 1\)"),
        (b"score,label\n0.1,0,\n", r"1 of 1 does not \(line 2; line 2 has 3\)"),
        (b'score,label\n0.1,"a\n0.2,b\n', "row that starts at line 2 cannot be split into cells"),
        (b'score,label\n0.1,a\n0.2,"b"c\n', "row that starts at line 3 cannot be split into cells"),
        (b'"score,label\n0.1,a\n', "row that starts at line 1 cannot be split into cells"),
        (b"score,label\r\n0.1,a\r\n0.2,\xe9\r\n", "is not UTF-8 text: line 3 holds the byte 0xe9"),
        (b"score,label\r0.1,a\r0.2,\xe9\r", "is not UTF-8 text: line 3 holds the byte 0xe9"),
        (PLAIN.encode("utf-16")[:-1], "is not UTF-16 text: line 3"),
        (b"score,label\n0.1,\0\n", "is not text: line 2 holds a null character"),
        (PLAIN.encode("utf-16-le"), "is not text: line 1 holds a null|is not UTF-8"),
        (b"PK\x03\x04\x14\x00", "workbook or a zip"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "damaged gzip"),
        (b"\x1f\x8b" + b"x" * 20, "damaged gzip"),
        (b"PAR1" + b"x" * 20, "not a readable Parquet file"),
        (b"score label\n0.1 a\n", "the columns found are 'score label'"),
        (b"score\n0.1\n\n0.2\n\n", "the columns found are 'score'"),
    ],
)
def test_file_faults(read: Callable[..., Table], content: bytes, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read(content)
    assert "cases.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_columns_are_not_all_listed(read: Callable[..., Table]) -> None:
    header = ",".join(f"x{i}" for i in range(300))
    with pytest.raises(TableError, match="'x18', 'x19' and 280 more"):
        read(f"{header}\n".encode(), scores=("zzz",), label=None)


def test_nameless_columns_are_copied_through(read: Callable[..., Table], tmp_path: Path) -> None:
    content = "score,label,,\n0.1,a,,\n"
    write_table(read(content.encode()).frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == content


def test_all_faults_of_all_columns_at_once(read: Callable[..., Table]) -> None:
    with pytest.raises(TableError) as caught:
        read(b"score,b,label\n0.1,0,a\ninf,1,a\nnan,x,a\nabc,1,a\n,0,a\n0.3,y,\n,1,\n", scores=("score", "b"))
    assert str(caught.value).partition("cases.csv: ")[2] == (
        "column 'score' must hold a finite number in every row, but "
        "2 of 7 cells are empty (lines 6 and 8), 1 of 7 cells is not numeric (line 5, 'abc'), "
        "2 of 7 cells are not finite (lines 3 and 4, first 'inf'); "
        "column 'b' must hold a finite number in every row, but "
        "2 of 7 cells are not numeric (lines 4 and 7, first 'x'); "
        "label column 'label' must name a class in every row, but 2 of 7 cells are empty (lines 7 and 8). "
        "Correct these cells, impute them, or drop their rows."
    )


def test_long_cells_and_line_ends_stay_out_of_the_message(read: Callable[..., Table]) -> None:
    with pytest.raises(TableError) as caught:
        read(b'score,label\n"x\ny' + b"z" * 1000 + b'",a\n')
    assert "'x\\nyzzz" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_blank_line_in_one_column_is_an_empty_cell(read: Callable[..., Table]) -> None:
    with pytest.raises(TableError, match=r"2 of 4 cells are empty \(lines 3 and 4\)"):
        read(b"score\n0.1\n\n\n0.2\n\n\n", label=None)
    with pytest.raises(TableError, match=r"3 of 6 cells are empty \(lines 3, 5 and 6\)"):
        read(b"score\n0.1\n\n0.2\n\n\n0.3\n", label=None)
    assert read(b"score\n0.1\n0.2\n\n\n", label=None).scores.tolist() == [[0.1], [0.2]]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "a\nb", "\n\n", "a\r\nb", 'say "a"', "x,y"]), st.integers(0, 2)),
        min_size=1,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
@settings(max_examples=100)
def test_line_numbers_are_those_of_an_editor(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], end: str, data: st.DataObject
) -> None:
    bad = data.draw(st.integers(0, len(rows) - 1))
    text = f"note,score,label{end}"
    expected = 0
    for i, (note, blank_lines) in enumerate(rows):
        if i == bad:
            expected = len(text.encode().splitlines()) + 1  # of bytes: only CR, LF and CRLF end a line
        cell = '"' + note.replace('"', '""') + '"'
        text += f"{cell},{'oops' if i == bad else 0.5},a{end}" + end * blank_lines
    path = tmp_path_factory.mktemp("lines") / "cases.csv"
    path.write_bytes(text.encode())
    with pytest.raises(TableError, match=rf"1 of {len(rows)} cells is not numeric \(line {expected}, 'oops'\)"):
        read_table(path, score_columns=["score"], label_column="label")


def test_place_of_rows(read: Callable[..., Table]) -> None:
    table = read(b"score\n" + b"0.5\n" * 9, label=None)
    assert table.place(0) == "line 2"
    assert table.place([0, 3]) == "lines 2 and 5"
    assert table.place(np.arange(9)) == "lines 2, 3, 4, 5, 6 and 4 more"


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"nothing\.csv does not exist"):
        read_table(tmp_path / "nothing.csv", score_columns=["score"])
    with pytest.raises(TableError, match="is a directory"):
        read_table(tmp_path, score_columns=["score"])
    with pytest.raises(TableError, match="cannot be read: Not a directory"):
        read_table(Path(__file__) / "x.csv", score_columns=["score"])


@pytest.mark.parametrize(
    ("scores", "label", "error", "message"),
    [
        ((), None, TableError, "at least one score column"),
        (("score", " score"), None, TableError, "'score' was named more than once"),
        (("score",), "score", TableError, "'score' was named more than once"),
        ("score", None, TypeError, r"pass \['score'\]"),
    ],
)
def test_columns_asked_for(
    read: Callable[..., Table],
    scores: tuple[str, ...],
    label: str | None,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        read(PLAIN.encode(), scores=scores, label=label)


# -----------------------------------------------------------------------------
# Parquet
# -----------------------------------------------------------------------------


def parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["cases.parquet", "cases.pq", "cases.csv"])
def test_parquet_is_known_by_its_content(read: Callable[..., Table], name: str) -> None:
    table = read(parquet(score=[0.1, 0.9], label=["NA", " pos"]), name=name)
    assert values(table) == ([0.1, 0.9], ["NA", "pos"])
    assert table.place([0, 1]) == "rows 1 and 2"


def test_text_is_no_parquet(read: Callable[..., Table]) -> None:
    with pytest.raises(TableError, match="not a readable Parquet file"):
        read(PLAIN.encode(), name="cases.parquet")


@pytest.mark.parametrize(
    "scores",
    [
        pd.array([1, 0], dtype="Int64"),
        np.array([1, 0], dtype=np.float16),
        np.array([1, 0], dtype=np.uint8),
        [Decimal("1.00"), Decimal("0.00")],
        pd.Categorical([1.0, 0.0]),
        ["1", " 0.0"],
    ],
    ids=["Int64", "float16", "uint8", "decimals", "categories", "text"],
)
def test_parquet_scores(read: Callable[..., Table], scores: object) -> None:
    assert read(parquet(score=scores), label=None, name="a.parquet").scores.tolist() == [[1.0], [0.0]]


def test_parquet_integers_beyond_float64_are_rounded(read: Callable[..., Table]) -> None:
    content = parquet(score=[2**53 + 1, -(2**62)])
    assert read(content, label=None, name="a.parquet").scores.tolist() == [[2.0**53], [-(2.0**62)]]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([0, 1], [0, 1]),
        ([0.0, 1.0], [0, 1]),
        (pd.array([0, 1], dtype="Int64"), [0, 1]),
        ([False, True], ["False", "True"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
        (["None", "nan"], ["None", "nan"]),
        ([0.5, 1.0], ["0.5", "1.0"]),
    ],
)
def test_parquet_labels(read: Callable[..., Table], column: object, labels: list[int | str]) -> None:
    table = read(parquet(score=[0.1, 0.9], label=column), name="a.parquet")
    assert values(table)[1] == labels


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (
            [0.5, None, np.inf, 0.5, -np.inf],
            r"1 of 5 cells is empty \(row 2\), 2 of 5 cells are not finite \(rows 3 and 5, first 'inf'\)",
        ),
        (["0.5", None, "x"], r"1 of 3 cells is empty \(row 2\), 1 of 3 cells is not numeric \(row 3, 'x'\)"),
        ([True, True], r"2 of 2 cells are not numeric \(rows 1 and 2, first 'True'\)"),
    ],
    ids=["numbers", "text", "truth values"],
)
def test_parquet_score_faults(read: Callable[..., Table], column: object, fault: str) -> None:
    with pytest.raises(TableError, match=fault):
        read(parquet(score=column), label=None, name="a.parquet")


@pytest.mark.parametrize("column", [["a", None], [1.0, np.nan], pd.array([1, None], dtype="Int64"), ["a", " "]])
def test_parquet_missing_labels(read: Callable[..., Table], column: object) -> None:
    with pytest.raises(TableError, match=r"label column 'label' .* 1 of 2 cells is empty \(row 2\)"):
        read(parquet(score=[0.1, 0.2], label=column), name="a.parquet")


def test_parquet_nan_that_is_no_null_is_not_a_class(tmp_path: Path) -> None:
    import polars as pl  # keeps NaN and null apart, where pandas writes both as null

    pl.DataFrame({"score": [0.1, float("nan")], "label": [1.0, float("nan")]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"is not finite \(row 2, 'nan'\); label .* is empty \(row 2\)"):
        read_table(tmp_path / "a.parquet", score_columns=["score"], label_column="label")


def test_parquet_index_and_values_are_copied_through(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": pd.array([3, None], dtype="Int64"), "score": [0.25, 0.5]})
    frame.set_index(pd.Index(["a", "b"], name="id")).to_parquet(tmp_path / "in.parquet")
    table = read_table(tmp_path / "in.parquet", score_columns=["score"])
    write_table(table.frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "n,score,id\n3,0.25,a\n,0.5,b\n"


# -----------------------------------------------------------------------------
# Large tables
# -----------------------------------------------------------------------------


def test_reading_costs_a_few_passes_of_the_csv_module(tmp_path: Path) -> None:
    n = 150_000  # more than two chunks
    scores = np.random.default_rng(5).random(n)
    text = "id,score,label\n" + "".join(f"{i},{x!r},{i % 2}\n" for i, x in enumerate(scores.tolist()))
    (tmp_path / "big.csv").write_text(text)
    bare, ours = np.inf, np.inf
    for _ in range(3):
        start = time.perf_counter()
        for _ in csv.reader(io.StringIO(text)):
            pass
        middle = time.perf_counter()
        table = read_table(tmp_path / "big.csv", score_columns=["score"], label_column="label")
        bare, ours = min(bare, middle - start), min(ours, time.perf_counter() - middle)
    assert ours < 12 * bare  # 4 measured; a step that is quadratic in the rows takes hundreds
    np.testing.assert_array_equal(table.scores[:, 0], scores)
    np.testing.assert_array_equal(table.labels, np.arange(n) % 2)
    assert table.place(n - 1) == f"line {n + 1}"


def test_no_sampler_is_imported() -> None:
    samplers = "{'pymc', 'pytensor', 'nutpie', 'arviz'}"
    program = f"import bayescal.tables, sys; sys.exit(bool({samplers} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
