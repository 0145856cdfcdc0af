"""From the bytes of a file to named columns of cells, each with the place it came from.

One reader, `csv.reader` in strict mode, decides what a cell of a text file is, for the happy path and for the
place in an error alike, so that the two cannot differ.
"""

import csv
import difflib
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_SEPARATORS = (",", ";", "\t", "|")
_CHUNK = 65_536  # rows held as Python strings at a time: bounds the memory that a long file takes
_MARKS = (  # utf-32 before utf-16: its mark starts with the other's
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_LINE_END = re.compile("\r\n|\r|\n")


class TableError(ValueError):
    """A score table that cannot be read, or that holds cells that no calibration can use."""


@dataclass(frozen=True)
class Cells:
    """A table before its cells are judged.

    Parameters
    ----------
    names : list of str
        Column names without surrounding spaces.
    columns : list of pyarrow.ChunkedArray
        Text as it stands in the file, or typed values of a Parquet file.
    positions : ndarray of shape (n,), int64, 1 or more
        The line at which each row starts, as an editor counts, or the row number in a Parquet file.
    source : str
        What messages call the table.
    unit : {"line", "row"}
        What `positions` count.
    separator : str or None
        Of a text file.
    """

    names: list[str]
    columns: list[pa.ChunkedArray]
    positions: np.ndarray
    source: str
    unit: str
    separator: str | None


def load_cells(path: str | os.PathLike[str], asked: list[str]) -> Cells:
    """Read a file in which the columns `asked` for are present, and at least one row.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    asked : list of str
        Column names without surrounding spaces.

    Returns
    -------
    Cells
        All columns of the file.

    Raises
    ------
    TableError
        If the file cannot be read, is ragged, lacks a column or has no rows.
    """
    source = "standard input" if os.fspath(path) == "-" else os.fspath(path)
    raw = _read_bytes(path, source)
    # By its magic number, so that standard input needs no option.
    if raw.startswith(b"PAR1") or source.lower().endswith((".parquet", ".pq")):
        cells = _parse_parquet(raw, source)
    else:
        cells = _parse_text(_decode(raw, source), asked, source)
    _check_names(cells, asked)
    if not len(cells.positions):
        raise TableError(f"{source} has a header and no rows; a score table needs at least one row.")
    return cells


def check_input(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, a path at which there is no file.

    Parameters
    ----------
    path : str or path-like
        As for `load_cells`.

    Raises
    ------
    TableError
        If there is nothing, or a directory.
    """
    if os.fspath(path) == "-":
        return
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise TableError(f"{path} does not exist; give the path of a CSV, TSV or Parquet file.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from error
    if stat.S_ISDIR(mode):
        raise TableError(f"{path} is a directory; give the path of a CSV, TSV or Parquet file.")


def place(unit: str, positions: np.ndarray, limit: int = 5) -> str:
    """Name the first places of at least one: ``"line 4"``, ``"lines 4, 9 and 3 more"``."""
    shown = [str(position) for position in positions[:limit]]
    last = f"{len(positions) - limit} more" if len(positions) > limit else shown.pop()
    return f"{unit}{'s' * (len(positions) > 1)} {' and '.join(filter(None, [', '.join(shown), last]))}"


def listing(names: Sequence[str], limit: int = 20) -> str:
    """Quote the first names of at least one."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more


def _read_bytes(path: str | os.PathLike[str], source: str) -> bytes:
    check_input(path)
    try:
        raw = sys.stdin.buffer.read() if os.fspath(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise TableError(f"{source} cannot be read: {error.strerror}.") from error
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(f"{source} is a damaged gzip file ({error}); copy it again.") from error
    return raw


def _decode(raw: bytes, source: str) -> str:
    if raw.startswith(b"PK\x03\x04"):
        raise TableError(f"{source} is a workbook or a zip file, not text; save the sheet as CSV UTF-8.")
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_at(raw[: error.start].decode(encoding, errors="replace"))
        raise TableError(
            f"{source} is not {encoding.removesuffix('-sig').upper()} text: line {line} holds the byte "
            f"0x{raw[error.start]:02x}; save the table as CSV UTF-8."
        ) from None
    if "\0" in text:
        line = _line_at(text[: text.index("\0")])
        raise TableError(f"{source} is not text: line {line} holds a null character; give a CSV, TSV or Parquet file.")
    return text


def _line_at(before: str) -> int:
    return len(_LINE_END.findall(before)) + 1


def _rows(text: str, separator: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line at which each starts."""
    lines = io.StringIO(text, newline="")  # line ends untranslated: quoted cells keep theirs
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    start = 1
    try:
        for row in reader:
            yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise TableError(
            f"{source}: the row that starts at line {start} cannot be split into cells ({error}); "
            "check its quotation marks."
        ) from None


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _separator(text: str, asked: list[str], source: str) -> str:
    """Find the separator under which the header holds most of the names asked for, then most names."""
    # The extension decides only where the header leaves it open.
    is_tab = source.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    best, best_rank = "\t" if is_tab else _SEPARATORS[0], (-1, -1)
    for separator in dict.fromkeys((best, *_SEPARATORS)):
        try:
            header = next((row for _, row in _rows(text, separator, source) if not _is_blank(row)), [])
        except TableError:  # the quotes make no sense under this separator
            continue
        rank = len({name.strip() for name in header}.intersection(asked)), len(header)
        if rank > best_rank:
            best, best_rank = separator, rank
    return best


def _parse_text(text: str, asked: list[str], source: str) -> Cells:
    separator = _separator(text, asked, source)
    rows = _rows(text, separator, source)
    names = [name.strip() for name in next((row for _, row in rows if not _is_blank(row)), [])]
    if not names:
        raise TableError(f"{source} is empty; a score table needs a header and at least one row.")
    width = len(names)
    starts: list[int] = []
    ragged: list[tuple[int, int]] = []
    blank_lines: list[int] = []
    chunk: list[list[str]] = []
    chunks: list[list[pa.Array]] = []
    for start, row in rows:
        if len(row) == width:
            if blank_lines and width == 1:
                starts += blank_lines
                chunk += [[""]] * len(blank_lines)
                blank_lines.clear()
            starts.append(start)
            chunk.append(row)
            if len(chunk) >= _CHUNK:
                chunks.append(_columns(chunk))
                chunk.clear()
        elif _is_blank(row):
            blank_lines.append(start)
        else:
            ragged.append((start, len(row)))
    if ragged:
        count = f"{len(ragged)} of {len(ragged) + len(starts)} {'does' if len(ragged) == 1 else 'do'} not"
        lines = place("line", np.array([line for line, _ in ragged]))
        decimals = ", and separate cells by ';' if numbers have decimal commas" if separator == "," else ""
        raise TableError(
            f"{source}: every row must have as many cells as the header ({width}, separator {separator!r}), "
            f"but {count} ({lines}; line {ragged[0][0]} has {ragged[0][1]}). "
            f"Quote cells that hold the separator{decimals}."
        )
    if chunk or not chunks:
        chunks.append(_columns(chunk) if chunk else [pa.array([], pa.string())] * width)
    columns = [pa.chunked_array(parts) for parts in zip(*chunks, strict=True)]
    return Cells(names, columns, np.array(starts, dtype=np.int64), source, "line", separator)


def _columns(rows: list[list[str]]) -> list[pa.Array]:
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]


def _parse_parquet(raw: bytes, source: str) -> Cells:
    try:
        table = pq.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise TableError(f"{source} is not a readable Parquet file ({reason}); write it again.") from error
    names = [name.strip() for name in table.column_names]
    return Cells(names, table.columns, np.arange(1, table.num_rows + 1), source, "row", None)


def _check_names(cells: Cells, asked: list[str]) -> None:
    # Spreadsheets export empty columns without a name; nobody can ask for them, so they may repeat.
    repeated = sorted({name for name in cells.names if name and cells.names.count(name) > 1})
    if repeated:
        raise TableError(
            f"{cells.source}: column names must differ, but {listing(repeated)} "
            f"{'comes' if len(repeated) == 1 else 'come'} more than once; rename all but one."
        )
    missing = [_with_suggestion(name, cells.names) for name in asked if name not in cells.names]
    if missing:
        raise TableError(
            f"{cells.source} has no column {', no column '.join(missing)}; "
            f"the columns found are {listing(cells.names)}."
        )


def _with_suggestion(name: str, names: list[str]) -> str:
    folded = {other.casefold(): other for other in names if other}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    return f"{name!r} (did you mean {folded[close[0]]!r}?)" if close else repr(name)
