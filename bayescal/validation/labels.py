"""Labels of two classes or more, and the columns that are named after them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

from bayescal.validation.arrays import masked
from bayescal.validation.errors import LabelValueError, ParameterValueError, ScoreValueError


@dataclass(frozen=True)
class Labels:
    """Binary labels."""

    classes: np.ndarray  # (2,), sorted or as the user ordered them
    positive: np.ndarray  # (n,) float64 in {0, 1}


@dataclass(frozen=True)
class ClassLabels:
    """Labels of several classes."""

    classes: np.ndarray  # (C,) in the order of the columns
    codes: np.ndarray  # (n,) column numbers


@dataclass(frozen=True)
class _Words:
    """What a function calls its arguments."""

    y: str = "y"
    scores: str = "scores"
    classes: str = "classes"
    ask: str = "Pass classes=[...], the labels in column order, to the constructor"


METRIC_WORDS = _Words("y_true", "y_proba", "labels", "Pass labels=[...], the labels in column order")


def check_labels(y: Any, n: int, *, classes: Sequence[Any] | None = None, name: str = "y") -> Labels:
    """Read binary labels of any kind; the positive class is ``classes[1]``, by default the larger in sorted order."""
    values = label_values(y, n, name=name)
    seen = np.unique(values)
    if classes is not None:
        known = given_classes(classes)
        unknown = [c for c in seen if c not in known]
        if unknown:
            raise LabelValueError(f"{name} holds {str(unknown[0])!r}, which is not among classes={known.tolist()!r}.")
    elif len(seen) > 2:
        shown = ", ".join(repr(c) for c in seen[:5].tolist())
        raise LabelValueError(
            f"{name} must hold two classes, got {len(seen)} ({shown}{', ...' if len(seen) > 5 else ''}). "
            "For more classes use a multi-class calibrator, or compare one class with the rest."
        )
    elif len(seen) == 1:
        known = _complete_pair(seen, name)
    else:
        known = seen
    return Labels(known, np.asarray(values == known[1], dtype=np.float64))


def check_class_labels(
    y: Any,
    n: int,
    columns: int,
    *,
    classes: Sequence[Any] | None = None,
    names: list[str] | None = None,
    words: _Words = _Words(),
) -> ClassLabels:
    """Read labels of the classes that `columns` columns stand for; which is which by `classes`, `names` or order.

    In this order: `classes` as given; the names of the columns, if labels are among them; the sorted labels seen, if
    there are as many; column numbers, if the labels are whole numbers from 0.
    """
    values = label_values(y, n, name=words.y)
    seen, inverse = np.unique(values, return_inverse=True)
    if classes is not None:
        known = given_classes(classes, columns, words.classes)
        where = f"{words.classes}={known.tolist()!r}"
    elif names is not None and {label_text(label) for label in seen.tolist()} & set(names):
        known = _named_classes(seen, names, words)
        where = f"the columns of {words.scores}, {', '.join(names)}"
    else:
        known = _classes_of_columns(seen, columns, words)
        where = f"the {columns} columns of {words.scores}"
    number = {label: k for k, label in enumerate(known.tolist())}
    unknown = [label for label in seen.tolist() if label not in number]
    if unknown:
        raise LabelValueError(f"{words.y} holds {unknown[0]!r}, which is not among {where}.")
    return ClassLabels(known, np.array([number[label] for label in seen.tolist()])[inverse])


def label_values(y: Any, n: int, *, name: str = "y") -> np.ndarray:
    """Labels as a one-dimensional array of one sortable type, none missing, none continuous."""
    if np.ma.is_masked(y):
        raise LabelValueError(f"{name} {masked(y)}. Drop the rows whose outcome is unknown.")
    try:
        values = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    except ValueError:
        raise LabelValueError(
            f"{name} must have one label for each row, got rows of unequal length. Pass a flat list of labels."
        ) from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise LabelValueError(f"{name} must have one label for each row, got shape {values.shape}.")
    if len(values) != n:
        raise LabelValueError(f"{name} has {len(values)} labels for {n} rows of scores. Pass one label for each row.")
    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        column = f" (column {y.name!r})" if getattr(y, "name", None) is not None else ""
        raise LabelValueError(
            f"{name}{column} has {missing.size} missing labels in {n} rows, first at row {missing[0]}. "
            "Drop the rows whose outcome is unknown."
        )
    if values.dtype.kind == "O":
        values = _one_type(values, name)
        if isinstance(values[0], str):
            return values
    if values.dtype.kind == "f":
        fractions = np.flatnonzero(values != np.floor(values))
        if fractions.size or not np.isfinite(values).all():
            row = fractions[0] if fractions.size else int(np.flatnonzero(~np.isfinite(values))[0])
            raise LabelValueError(
                f"{name} must hold class labels, got the continuous value {values[row].item()!r} at row {row}. "
                "Pass the observed class, not a probability."
            )
    elif values.dtype.kind not in "biuUSMm":
        raise LabelValueError(
            f"{name} has dtype {values.dtype}, which cannot be a label. Pass numbers, booleans or strings."
        )
    return values


def column_names(scores: Any) -> list[str] | None:
    """Names of a table's columns as text; None for an array, and for columns that are numbered from 0."""
    columns = getattr(scores, "columns", None)
    if columns is None or not hasattr(scores, "shape"):
        return None
    names = list(columns)
    return None if names == list(range(len(names))) else [label_text(name) for name in names]


def check_column_order(scores: Any, classes: np.ndarray) -> None:
    """Refuse a table whose columns are named after the classes and stand in another order."""
    names, expected = column_names(scores), [label_text(label) for label in classes.tolist()]
    if names is not None and names != expected and sorted(names) == sorted(expected):
        raise ScoreValueError(
            f"scores has the columns {names}, but the classes are in the order {expected}. "
            "Select the columns in that order."
        )


def _one_type(values: np.ndarray, name: str) -> np.ndarray:
    """Labels of an object column: strings as they are, booleans, numbers and dates as NumPy's; no other survives."""
    kinds = {label_kind(value): row for row, value in reversed(list(enumerate(values)))}
    if len(kinds) > 1:
        shown = sorted({type(v).__name__ for v in values})
        raise LabelValueError(f"{name} mixes labels of the types {', '.join(shown)}. Pass labels of one type.")
    kind = next(iter(kinds))
    if kind is str:
        return values
    try:
        if kind is date:
            return _dates(values)
        if kind in (bool, float):
            array = np.asarray(values.tolist())
            return array if array.dtype.kind != "O" else _whole_numbers(values)
        problem = "is none of these"
    except (TypeError, ValueError, OverflowError) as error:
        problem = str(error)
    raise LabelValueError(
        f"{name} must hold numbers, booleans, strings or dates, got {repr(values[0])[:40]} of the "
        f"type {type(values[0]).__name__} at row 0: {problem}. Pass names of the classes, such as these values as text."
    )


def label_kind(value: Any) -> type:
    for kind, types in ((bool, bool | np.bool_), (str, str), (float, Number), (date, date | np.datetime64)):
        if isinstance(value, types):
            return kind
    return type(value)


def _whole_numbers(values: np.ndarray) -> np.ndarray:
    """Decimals, fractions and the like, if a float is equal to them."""
    array = np.array([float(value) for value in values])
    if any(mine != theirs for mine, theirs in zip(array.tolist(), values, strict=True)):
        raise ValueError("no float is equal to it")
    return array


def _dates(values: np.ndarray) -> np.ndarray:
    if all(type(value) is date for value in values):
        return np.asarray(values.tolist(), dtype="datetime64[D]")
    stamps = pd.to_datetime(values.tolist())
    if stamps.tz is not None:
        raise ValueError("a date with a time zone")
    return np.asarray(stamps)


def given_classes(classes: Sequence[Any], size: int = 2, name: str = "classes") -> np.ndarray:
    known = np.asarray(classes)
    if known.ndim == 1 and known.dtype.kind == "O" and known.size:
        known = _one_type(known, name)
    if known.shape != (size,) or len(set(known.tolist())) < size:
        which = (
            "two different labels (negative, positive)"
            if size == 2
            else f"{size} different labels, one for each column"
        )
        raise ParameterValueError(f"{name} must name {which}, got {classes!r}.")
    return known


def label_text(label: Any) -> str:
    """A label as a column is named: whole numbers without a decimal point."""
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if is_whole else str(label)


def _named_classes(seen: np.ndarray, names: list[str], words: _Words) -> np.ndarray:
    """Labels that the columns are named after, of the type of the labels seen."""
    if len(set(names)) < len(names):
        raise ScoreValueError(
            f"{words.scores} has two columns of one name ({', '.join(names)}). Name each after its class."
        )
    known = {label_text(label): label for label in seen.tolist()}
    if seen.dtype.kind in "OU":
        return np.array([known.get(name, name) for name in names], dtype=object if seen.dtype.kind == "O" else None)
    try:
        return np.array([known[name] if name in known else type(seen.tolist()[0])(name) for name in names])
    except ValueError:
        raise LabelValueError(
            f"{words.y} holds {seen.tolist()[0]!r} after which a column of {words.scores} is named, but not all "
            f"columns are named after classes ({', '.join(names)}). {words.ask}."
        ) from None


def _classes_of_columns(seen: np.ndarray, columns: int, words: _Words) -> np.ndarray:
    """Labels in column order, by the labels seen alone."""
    if len(seen) == columns:
        return seen
    if len(seen) > columns:
        shown = ", ".join(repr(label) for label in seen[:5].tolist())
        raise LabelValueError(
            f"{words.y} holds {len(seen)} classes ({shown}{', ...' if len(seen) > 5 else ''}), but {words.scores} has "
            f"{columns} columns, one for each class. Pass a column for each class."
        )
    if columns == 2:
        return _complete_pair(seen, words.y)
    if seen.dtype.kind in "iuf" and seen[0] >= 0 and seen[-1] < columns:
        return np.arange(columns).astype(np.promote_types(seen.dtype, np.min_scalar_type(columns - 1)))
    shown = ", ".join(repr(label) for label in seen[:5].tolist())
    raise LabelValueError(
        f"{words.y} holds {len(seen)} classes ({shown}{', ...' if len(seen) > 5 else ''}) and {words.scores} has "
        f"{columns} columns: which is which cannot be guessed. {words.ask}."
    )


def known_pair(seen: np.ndarray) -> np.ndarray | None:
    """Both classes of a sample that shows one: known for 0/1, booleans and -1/1."""
    label = seen[0]
    if seen.dtype.kind == "b":
        return np.array([False, True])
    if seen.dtype.kind in "iuf" and label in (0, 1):
        return np.array([0, 1], dtype=seen.dtype)
    if seen.dtype.kind in "if" and label == -1:
        return np.array([-1, 1], dtype=seen.dtype)
    return None


def _complete_pair(seen: np.ndarray, name: str) -> np.ndarray:
    """Both classes of a sample that shows one, asked for where they are not known."""
    pair = known_pair(seen)
    if pair is not None:
        return pair
    raise LabelValueError(
        f"{name} holds the single class {seen.tolist()[0]!r}, and the other one cannot be guessed. "
        "Add cases of the other class, or pass classes=[negative, positive] to the calibrator."
    )
