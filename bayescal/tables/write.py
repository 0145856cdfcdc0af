"""Results on disk, whole or not at all."""

import itertools
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd

from bayescal.tables.files import TableError

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = (".parquet", ".pq")


def add_columns(frame: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Put result columns to the right of the rows they belong to.

    If the rows already have a column of one of the new names, all new names get the suffix ``_bayescal``, so
    that they can be told from the old ones as a set; if that is taken too, ``_bayescal2``, ``_bayescal3`` and
    so on.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n, k)
        Rows of the input, such as `Table.frame`.
    results : pandas.DataFrame of shape (n, r)
        New columns, row by row in the same order; the index is not looked at.

    Returns
    -------
    pandas.DataFrame of shape (n, k + r)
        A new frame.

    Raises
    ------
    ValueError
        If the numbers of rows differ.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescal.tables import add_columns
    >>> rows = pd.DataFrame({"id": ["a", "b"], "mean": ["1.50", "2"]})
    >>> print(add_columns(rows, pd.DataFrame({"mean": [0.2, 0.7], "sd": [0.1, 0.1]})).to_string())
      id  mean  mean_bayescal  sd_bayescal
    0  a  1.50            0.2          0.1
    1  b     2            0.7          0.1
    """
    if len(frame) != len(results):
        raise ValueError(f"results must have {len(frame)} rows, one for each input row, got {len(results)}.")
    taken = set(frame.columns)
    suffixes = itertools.chain(["", "_bayescal"], (f"_bayescal{k}" for k in itertools.count(2)))
    suffix = next(end for end in suffixes if taken.isdisjoint(f"{name}{end}" for name in results.columns))
    parts = [frame.reset_index(drop=True), results.reset_index(drop=True).add_suffix(suffix)]
    return pd.concat(parts, axis="columns")


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    r"""Write a table whole or not at all.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n, k)
        Rows to write; the index is left out. Missing values become empty cells.
    path : str or path-like
        ``.csv`` gives comma-separated text, ``.tsv`` and ``.tab`` tab-separated text, in UTF-8 with decimal
        points and ``\n`` as line end; a further ``.gz`` compresses text; ``.parquet`` and ``.pq`` give Parquet.
        ``"-"`` is standard output; it, a device and a pipe take comma-separated text.

    Raises
    ------
    TableError
        If the name has another extension, or none.
    OSError
        If the file cannot be written; nothing is left behind then.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescal.tables import write_table
    >>> write_table(pd.DataFrame({"label": ["NA", "pos"], "mean": [0.25, 0.75]}), "-")
    label,mean
    NA,0.25
    pos,0.75
    """
    separator = _separator_of(path)
    if os.fspath(path) == "-":
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    with atomic_path(path) as temporary:
        if separator is None:
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            frame.to_csv(temporary, sep=separator, index=False, encoding="utf-8", lineterminator="\n")


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, a path that `write_table` could not write to.

    Parameters
    ----------
    path : str or path-like
        As for `write_table`.

    Raises
    ------
    TableError
        If the name has an extension that no table is written with, or none.
    OSError
        If the directory does not exist or cannot be written to, or if `path` is a directory.

    Examples
    --------
    >>> from bayescal.tables import check_output
    >>> check_output("cases.tsv.gz")
    >>> check_output("cases.xlsx")
    Traceback (most recent call last):
    bayescal.tables.files.TableError: cases.xlsx: a table is written as .csv, .tsv, ..., got the extension '.xlsx'...
    """
    _separator_of(path)


def check_not_read(path: str | os.PathLike[str], *sources: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, to write to a file that is read, under whatever names.

    Parameters
    ----------
    path : str or path-like
        File to write; ``"-"``, devices and pipes cannot be overwritten.
    *sources : str or path-like
        Files that are read.

    Raises
    ------
    TableError
        If `path` is one of `sources`, or a link to one.

    Examples
    --------
    >>> from bayescal.tables import check_not_read
    >>> check_not_read("-", "-")
    """
    target = Path(path)
    for source in map(Path, sources):
        if target.is_file() and source.is_file() and target.samefile(source):
            raise TableError(f"{path} is the file that is read ({source}); write to another one.")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Let a file appear whole or not at all.

    Yields a name in the same directory, with the same extension, for the body to write to. When the body
    ends, that file takes the place of `path`, with the permissions of the file it replaces; when the body
    fails or is interrupted, it is removed and `path` is as before. A link is followed. A device or pipe is
    yielded as it is.

    Parameters
    ----------
    path : str or path-like
        File to be written, in a directory that exists.

    Yields
    ------
    pathlib.Path
        Where the body writes.

    Raises
    ------
    OSError
        If the directory does not exist or cannot be written to, if `path` is a directory, or if the body
        wrote nothing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bayescal.tables import atomic_path
    >>> with TemporaryDirectory() as directory:
    ...     with atomic_path(Path(directory) / "summary.json") as path:
    ...         _ = path.write_text("{}")
    ...     print([file.name for file in Path(directory).iterdir()])
    ['summary.json']
    """
    target = _target(Path(path))
    if target is None:
        yield Path(path)
        return
    temporary = target.with_name(f".bayescal-{secrets.token_hex(4)}{''.join(target.suffixes[-2:])}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def staged_outputs(directory: str | os.PathLike[str], stale: Collection[str] = ()) -> Iterator[Path]:
    """Let a set of files appear in a directory whole or not at all.

    Yields a new directory inside the target for the body to write files to. When the body ends, they all move
    up, in place of files of the same names; other files are left alone. When the body fails or is
    interrupted, or when a file cannot be moved, the target is as before, and not there if it was not there
    before.

    Parameters
    ----------
    directory : str or path-like
        Target; made, with its parents, if it does not exist.
    stale : collection of str, default=()
        Names of files that an earlier run may have left in the target. Those that the body does not write go.

    Yields
    ------
    pathlib.Path
        Where the body writes, without subdirectories.

    Raises
    ------
    OSError
        If the target is not a directory or cannot be written to, or if a directory stands where a file should
        go.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bayescal.tables import staged_outputs
    >>> with TemporaryDirectory() as directory:
    ...     with staged_outputs(Path(directory) / "out") as stage:
    ...         _ = (stage / "summary.json").write_text("{}")
    ...     print([file.name for file in (Path(directory) / "out").iterdir()])
    ['summary.json']
    """
    if not os.fspath(directory):
        raise FileNotFoundError("the name of the output directory is empty; give one, or '.' for the current one.")
    target = Path(os.path.abspath(directory))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{directory} is a file; give the name of a directory to write to.")
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    _check_directory(made[-1].parent if made else target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bayescal-", dir=target) as temporary:
            stage = Path(temporary) / "new"
            stage.mkdir()
            yield stage
            _move_up(stage, target, Path(temporary) / "old", stale)
    except BaseException:
        with suppress(OSError):  # somebody else has put something there meanwhile
            for folder in made:
                folder.rmdir()
        raise


def _move_up(stage: Path, target: Path, old: Path, stale: Collection[str]) -> None:
    names = sorted(file.name for file in stage.iterdir())
    for name in names:
        if (stage / name).is_dir() or (target / name).is_dir():
            raise IsADirectoryError(f"{target / name} is a directory where a file should go; move it away.")
    gone = [name for name in set(stale) - set(names) if (target / name).is_file()]
    aside = [*gone, *(name for name in names if os.path.lexists(target / name))]
    old.mkdir()
    try:
        for name in aside:
            os.replace(target / name, old / name)
        for name in names:
            os.replace(stage / name, target / name)
    except BaseException:
        for name in names:
            if name not in aside:
                (target / name).unlink(missing_ok=True)
        for name in aside:
            if os.path.lexists(old / name):
                os.replace(old / name, target / name)
        raise


def _separator_of(path: str | os.PathLike[str]) -> str | None:
    """What separates the cells of the file that will be written; None for Parquet."""
    if os.fspath(path) == "-" or _target(Path(path)) is None:
        return _SEPARATORS[".csv"]
    name = Path(os.fspath(path).lower())
    if name.suffix in _PARQUET:
        return None
    extension = Path(name.stem).suffix if name.suffix == ".gz" else name.suffix
    if extension not in _SEPARATORS:
        got = f"the extension {name.suffix!r}" if name.suffix else "no extension"
        raise TableError(
            f"{os.fspath(path)}: a table is written as .csv, .tsv, .tab (each also with .gz), .parquet or .pq, "
            f"got {got}; give the file another name, or '-' for standard output."
        )
    return _SEPARATORS[extension]


def _target(path: Path) -> Path | None:
    """The file that will appear, links followed; None for a device or pipe."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file to write.")
    if path.exists() and not path.is_file():
        return None
    target = Path(os.path.realpath(path))
    _check_directory(target.parent)
    return target


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is not an existing directory; make it, or write elsewhere.")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"directory {directory} cannot be written to; write elsewhere.")
