"""The scores and labels of a table, judged cell by cell, and the table itself for copying through."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bayescal.tables.files import Cells, TableError, listing, load_cells, place

_POINT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_COMMA = _POINT.replace(r"\.", ",")
_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+$"
_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"
# Leading zeros mark codes ("007"); 18 digits always fit int64.
_INTEGER = re.compile(r"([+-]?(?:0|[1-9][0-9]{0,17}))(?:\.0*|,0)?")
_SCORE_REMEDY = "Correct these cells, impute them, or drop their rows."
_COMMA_REMEDY = (
    "Write decimal points, or decimal commas in all score columns of a file that ';' separates, "
    "and no thousands separators."
)
_LABEL_REMEDY = "Fill in these labels or drop their rows."


@dataclass(frozen=True, eq=False)
class Table:
    """A score table whose scores and labels have been checked.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n, n_columns)
        The rows as they came, for copying through: the cell text of a text file, less spaces after
        separators, with points for decimal commas; or the values of a Parquet file. Column names are without
        surrounding spaces.
    scores : ndarray of shape (n, M), float64, finite
        The score columns, in the order in which they were asked for.
    labels : ndarray of shape (n,), int64 or str, or None
        Observed classes; None if no label column was asked for.
    columns : tuple of str, length M
        Names of the score columns.
    source : str
        What messages call the table: its path, or "standard input".
    positions : ndarray of shape (n,), int64, 1 or more
        Where each row starts: the line of a text file, as an editor counts, or the row number in a Parquet
        file.
    unit : {"line", "row"}
        What `positions` count.
    """

    frame: pd.DataFrame
    scores: np.ndarray
    labels: np.ndarray | None
    columns: tuple[str, ...]
    source: str
    positions: np.ndarray
    unit: str

    def place(self, rows: int | Sequence[int] | np.ndarray) -> str:
        """Say where rows are in the file, for a message.

        Parameters
        ----------
        rows : int or array-like of int, in [0, n)
            One or more rows of `scores`.

        Returns
        -------
        str
            Such as ``"line 4"`` or ``"lines 4, 9 and 12"``; at most five places are named.
        """
        return place(self.unit, self.positions[np.atleast_1d(rows)])


def read_table(path: str | os.PathLike[str], *, score_columns: Sequence[str], label_column: str | None = None) -> Table:
    r"""Read a table of scores, and of labels if they are asked for.

    Text files are UTF-8, with or without byte-order mark, or UTF-16 or UTF-32 with one. Their separator is
    that of comma, semicolon, tab and ``|`` under which the header holds the columns asked for. Parquet and
    gzip are recognised by their content. A blank line is no row, unless it stands between the rows of a
    one-column file, where it is an empty cell. Only an empty cell is missing: "NA", "None" and "nan" are
    labels like any other.

    Spaces around names, scores and labels are not part of them: ``" pos"`` and ``"pos"`` are one class.
    Labels that are all whole numbers (``"1"``, ``"+1"``, ``"1.0"``, but not ``"01"``) become integers;
    otherwise all stay text, and so do the truth values of a Parquet file (``"True"``).

    Decimal commas are read where the separator is not a comma and no score has a decimal point. Where every
    comma could also separate thousands (``"1,234"``), they are read only if the separator is a semicolon.
    By the same rule every other column that holds numbers with decimal commas and nothing else is copied
    through with decimal points, so that a result table has one convention, and is read again.

    Parameters
    ----------
    path : str or path-like
        CSV, TSV or Parquet file; ``"-"`` is standard input.
    score_columns : sequence of str, length M >= 1
        Names of the columns with scores, distinct.
    label_column : str or None, default None
        Name of the column with observed classes, not one of `score_columns`.

    Returns
    -------
    Table
        The table, with finite scores and no label missing.

    Raises
    ------
    TableError
        If the file cannot be read, is ragged or lacks a column, if a score is empty, not a number or not
        finite, or if a label is empty. The message counts the cells and names their lines.
    TypeError
        If `score_columns` is one string.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bayescal.tables import read_table
    >>> with TemporaryDirectory() as directory:
    ...     path = Path(directory) / "cases.csv"
    ...     _ = path.write_text("score;label\n0,12;0\n0,87;1\n")
    ...     table = read_table(path, score_columns=["score"], label_column="label")
    >>> table.scores.ravel().tolist(), table.labels.tolist()
    ([0.12, 0.87], [0, 1])
    >>> table.place(1)
    'line 3'
    """
    if isinstance(score_columns, str):
        raise TypeError(f"score_columns must be a sequence of names; pass [{score_columns!r}].")
    columns = [name.strip() for name in score_columns]
    asked = columns if label_column is None else [*columns, label_column.strip()]
    if not columns:
        raise TableError("at least one score column must be named, got none.")
    twice = sorted({name for name in asked if asked.count(name) > 1})
    if twice:
        raise TableError(
            f"a column has one part in a fit, but {listing(twice)} was named more than once; name it once."
        )
    cells = load_cells(path, asked)
    faults = _Faults(cells)
    scores = _score_matrix(cells, columns, faults)
    labels = None if label_column is None else _label_array(cells, asked[-1], faults)
    faults.check()
    copied = _with_decimal_points(cells, columns)
    frame = pa.Table.from_arrays(copied, names=cells.names).to_pandas(types_mapper=pd.ArrowDtype)
    return Table(frame, scores, labels, tuple(columns), cells.source, cells.positions, cells.unit)


@dataclass
class _Faults:
    """What is wrong with a table's cells, and the next step for the first of it."""

    cells: Cells
    sentences: list[str] = field(default_factory=list)
    remedy: str = ""

    def count(self, wrong: np.ndarray, kind: str, text: Callable[[int], str] | None = None) -> list[str]:
        """Say how many cells are wrong, where, and how the first one reads; nothing if none is."""
        rows = np.flatnonzero(wrong)
        if not len(rows):
            return []
        where = place(self.cells.unit, self.cells.positions[rows])
        if text is not None:
            cell = text(int(rows[0]))
            shown = repr(cell if len(cell) <= 40 else f"{cell[:40]}...")
            where += f", first {shown}" if len(rows) > 1 else f", {shown}"
        return [f"{len(rows)} of {len(wrong)} cells {'is' if len(rows) == 1 else 'are'} {kind} ({where})"]

    def add(self, requirement: str, counts: list[str], remedy: str) -> None:
        if counts:
            self.sentences.append(f"{requirement}, but {', '.join(counts)}")
            self.remedy = self.remedy or remedy

    def check(self) -> None:
        if self.sentences:
            raise TableError(f"{self.cells.source}: {'; '.join(self.sentences)}. {self.remedy}")


def _text_of(column: pa.ChunkedArray) -> pa.Array:
    """Cells as text without surrounding spaces; a null or a NaN is empty."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.fill_null(pc.utf8_trim_whitespace(column.combine_chunks().cast(pa.string())), "")
    values = column.to_pylist()
    return pa.array(["" if v is None or v != v else str(v).strip() for v in values], pa.string())


def _matches(text: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _score_matrix(cells: Cells, names: list[str], faults: _Faults) -> np.ndarray:
    columns = {name: cells.columns[cells.names.index(name)] for name in names}
    texts = {name: _text_of(column) for name, column in columns.items() if not _is_number(column.type)}
    commas = _has_decimal_commas(list(texts.values()), cells.separator)
    scores = np.empty((len(cells.positions), len(names)))
    for j, name in enumerate(names):
        if name in texts:
            scores[:, j] = _parsed_scores(texts[name], name, commas, faults)
        else:
            scores[:, j] = _typed_scores(columns[name].combine_chunks(), name, faults)
    return scores


def _has_decimal_commas(texts: list[pa.Array], separator: str | None) -> bool:
    if separator in (None, ",") or not texts:
        return False
    text = pa.concat_arrays(texts)
    with_comma = text.filter(pa.array(_matches(text, _COMMA) & _matches(text, ",")))
    with_point = _matches(text, _POINT) & _matches(text, r"\.")
    if not len(with_comma) or with_point.any():
        return False
    return separator == ";" or not _matches(with_comma, _THOUSANDS).all()


def _with_decimal_points(cells: Cells, names: list[str]) -> list[pa.ChunkedArray]:
    """All columns; those of numbers with decimal commas, which the scores do not contradict, with points."""
    if cells.separator in (None, ","):
        return cells.columns
    scores = [_text_of(cells.columns[cells.names.index(name)]) for name in names]

    def converted(column: pa.ChunkedArray) -> pa.ChunkedArray:
        text = _text_of(column)
        numbers_only = _matches(text, f"{_COMMA}|^$").all()
        if numbers_only and _has_decimal_commas([*scores, text], cells.separator):
            return pc.replace_substring(column, ",", ".")
        return column

    return [converted(column) for column in cells.columns]


def _parsed_scores(text: pa.Array, name: str, commas: bool, faults: _Faults) -> np.ndarray:
    numeric = _matches(text, _COMMA if commas else _POINT)
    numbers = text.filter(pa.array(numeric))
    values = np.full(len(text), np.nan)
    values[numeric] = (pc.replace_substring(numbers, ",", ".") if commas else numbers).cast(pa.float64())
    if np.isfinite(values).all():
        return values

    def cell(row: int) -> str:
        return text[row].as_py()

    empty = _matches(text, "^$")
    wrong = ~numeric & ~empty & ~_matches(text, _NOT_FINITE)
    not_finite = ~np.isfinite(values) & ~empty & ~wrong
    counts = faults.count(empty, "empty") + faults.count(wrong, "not numeric", cell)
    counts += faults.count(not_finite, "not finite", cell)
    remedy = _COMMA_REMEDY if np.any(wrong & _matches(text, _COMMA)) else _SCORE_REMEDY
    faults.add(f"column {name!r} must hold a finite number in every row", counts, remedy)
    return values


def _typed_scores(column: pa.Array, name: str, faults: _Faults) -> np.ndarray:
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    empty = column.is_null().to_numpy(zero_copy_only=False)
    not_finite = ~np.isfinite(values) & ~empty
    counts = faults.count(empty, "empty")
    counts += faults.count(not_finite, "not finite", lambda row: str(values[row]))
    faults.add(f"column {name!r} must hold a finite number in every row", counts, _SCORE_REMEDY)
    return values


def _label_array(cells: Cells, name: str, faults: _Faults) -> np.ndarray:
    codes = _text_of(cells.columns[cells.names.index(name)]).dictionary_encode()
    words = codes.dictionary.to_pylist()
    indices = codes.indices.to_numpy()
    if "" in words:
        counts = faults.count(indices == words.index(""), "empty")
        faults.add(f"label column {name!r} must name a class in every row", counts, _LABEL_REMEDY)
    integers = [match[1] for word in words if (match := _INTEGER.fullmatch(word))]
    if len(integers) == len(words):
        return np.array(integers, dtype=np.int64)[indices]
    return np.array(words, dtype=np.str_)[indices]
