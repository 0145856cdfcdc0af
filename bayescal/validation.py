"""The one place where inputs are judged, and the one place where input errors are worded.

Every function takes what a user passed and returns trusted NumPy arrays: float64, finite, C-contiguous, never a view
that a later step could write through. Each error says what was wrong, where, what is allowed, what came, the next step.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

SCORE_KINDS = ("proba", "logit", "raw")
CLASS_SCORE_KINDS = ("proba", "logit")  # of several classes
PROBA_TOLERANCE = 1e-6  # rounding of a float32 softmax; values this far outside [0, 1] are clipped
LARGEST = {"logit": 1e6, "raw": 1e150}  # beyond, these are no log-odds, or have no square
WEIGHTS = (1e-12, 1e12)  # outside, sums of weights and of their logs lose the other rows
PAIR_TOLERANCE = 1e-5  # |p0 + p1 - 1| of a float32 pair
ROW_TOLERANCE = 1e-3  # |sum - 1| of a row of several classes, which may be written with four digits


class ScoreValueError(ValueError):
    """Scores that no calibrator can read."""


class LabelValueError(ValueError):
    """Labels that do not define a classification problem."""


class WeightValueError(ValueError):
    """Sample weights that are not frequencies."""


class ParameterValueError(ValueError):
    """A setting outside its domain."""


class FileFormatError(ValueError):
    """A file that bayescal did not write, or that is damaged."""


class NoPosteriorError(RuntimeError, AttributeError):
    """An interval or draws were asked of a point estimate; an AttributeError too, so that ``hasattr`` says no."""


class ConvergenceWarning(UserWarning):
    """The sampler's draws cannot be trusted yet."""


class CalibrationWarning(UserWarning):
    """The answer rests on the prior, or on an assumption that the data contradict."""


@contextmanager
def quiet(*categories: type[Warning]) -> Iterator[None]:
    """Silence warnings that the caller will give itself."""
    with warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True)
class Scores:
    """Scores of one classifier or of several, one row for each case."""

    values: np.ndarray  # (n,), or (n, M) of M >= 2 classifiers; float64
    feature_names: np.ndarray | None  # (columns,) str, when a data frame came
    n_features: int


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
class Forecast:
    """Probabilities that were stated of one class, and whether it came; rows of weight 0 are left out."""

    outcome: np.ndarray  # (n,) float64 in {0, 1}
    proba: np.ndarray  # (n,) float64 in [0, 1]
    weight: np.ndarray | None  # (n,) > 0; None: each row is one case
    positive: Any = None  # label of that class, where it was asked for


@dataclass(frozen=True)
class ClassForecast:
    """Probabilities that were stated of every class, and which of them came; rows of weight 0 are left out."""

    codes: np.ndarray  # (n,) number of the column of the class that came
    proba: np.ndarray  # (n, C) float64 in [0, 1], C >= 2
    weight: np.ndarray | None  # (n,) > 0; None: each row is one case
    classes: np.ndarray | None = None  # (C,) labels in column order, where C > 2


@dataclass(frozen=True)
class _Words:
    """What a function calls its arguments."""

    y: str = "y"
    scores: str = "scores"
    classes: str = "classes"
    ask: str = "Pass classes=[...], the labels in column order, to the constructor"


METRIC_WORDS = _Words("y_true", "y_proba", "labels", "Pass labels=[...], the labels in column order")


def check_scores(
    scores: Any, score_kind: str, *, name: str = "scores", columns: str | int = "one", fitting: bool = True
) -> Scores:
    """Read scores: ``(n,)``, ``(n, 1)`` or pairs ``(1 - p, p)`` of one classifier, or ``(n, M)`` of M classifiers.

    `columns` is "one" classifier, "several" (M >= 2), "any" number, or how many scores the fit had. Where it is "any",
    two columns of probabilities are a pair if every row sums to 1, and two classifiers' otherwise. To predict, there
    may be no rows, and a score may be as far out as it likes.
    """
    feature_names = _feature_names(scores)
    array = _numeric(scores, name)
    if array.ndim == 0 or array.ndim > 2:
        raise ScoreValueError(
            f"{name} must have 1 or 2 dimensions, got shape {array.shape}. Pass one row for each case."
        )
    n_features = 1 if array.ndim == 1 else array.shape[1]
    if fitting and array.shape[0] == 0:
        raise ScoreValueError(f"{name} is empty (shape {array.shape}). Pass at least one row.")
    _refuse_not_finite(array, name)
    if columns == "any":
        is_pair = n_features == 2 and score_kind == "proba" and not _not_pairs(array).size
        columns = "one" if n_features <= 1 or is_pair else n_features
    if columns in ("one", 1):
        _refuse_several(n_features, score_kind, name)
    elif columns == "several":
        if n_features < 2 or (n_features == 2 and score_kind == "proba" and not _not_pairs(array).size):
            raise ScoreValueError(
                f"{name} must have one column for each of two or more classifiers, got "
                + ("one." if n_features < 2 else "two columns that sum to 1 in every row, which is one classifier's.")
                + " Calibrators of one score are platt, beta, isotonic and bernstein."
            )
    elif n_features != columns:
        raise ScoreValueError(
            f"{name} must have {columns} columns, one for each classifier of the fit, got {n_features}."
        )
    if fitting and score_kind != "proba" and (largest := float(np.abs(array).max())) > LARGEST[score_kind]:
        raise ScoreValueError(
            f"{name} must lie within {LARGEST[score_kind]:g} of 0 when score_kind={score_kind!r}, got {largest:g}. "
            + (
                "Log-odds are that of a probability; say score_kind='raw' for other values."
                if score_kind == "logit"
                else "Divide them by a constant first."
            )
        )
    if score_kind == "proba":
        array = _probabilities(array, name, PERCENTAGES if fitting else OTHER_KIND)
    if columns in ("one", 1):
        array = _positive_column(array, name) if n_features == 2 else array.reshape(-1)
    return Scores(np.array(array, dtype=np.float64, order="C"), feature_names, n_features)


def check_labels(y: Any, n: int, *, classes: Sequence[Any] | None = None, name: str = "y") -> Labels:
    """Read binary labels of any kind; the positive class is ``classes[1]``, by default the larger in sorted order."""
    values = label_values(y, n, name=name)
    seen = np.unique(values)
    if classes is not None:
        known = _given_classes(classes)
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


def check_class_scores(
    scores: Any, score_kind: str, *, name: str = "scores", columns: int | None = None, fitting: bool = True
) -> Scores:
    """Read scores ``(n, C)`` of C >= 2 classes: probabilities whose rows sum to 1, or logits."""
    feature_names = _feature_names(scores)
    array = _numeric(scores, name)
    if array.ndim != 2:
        raise ScoreValueError(
            f"{name} must have 2 dimensions, a row for each case and a column for each class, got shape {array.shape}."
        )
    size = array.shape[1]
    if columns is None and size < 2:
        raise ScoreValueError(
            f"{name} must have one column for each of two or more classes, got {size}. "
            "Calibrators of one score are platt, beta, isotonic and bernstein."
        )
    if columns is not None and size != columns:
        raise ScoreValueError(f"{name} must have {columns} columns, one for each class of the fit, got {size}.")
    if fitting and not len(array):
        raise ScoreValueError(f"{name} is empty (shape {array.shape}). Pass at least one row.")
    _refuse_not_finite(array, name)
    if score_kind == "proba":
        array = _probabilities(array, name, "Divide percentages by 100, or say score_kind='logit' for logits.")
        _refuse_sums(array, f"{name} with score_kind='proba'", ", or say score_kind='logit' for logits")
    elif (
        fitting and (largest := float((array / 2 - array.min(axis=1, keepdims=True) / 2).max()) * 2) > LARGEST["logit"]
    ):
        raise ScoreValueError(
            f"logits of a row must lie within {LARGEST['logit']:g} of each other, got {largest:g} in {name}. "
            "Pass what the classifier takes the softmax of."
        )
    return Scores(np.array(array, dtype=np.float64, order="C"), feature_names, size)


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
        known = _given_classes(classes, columns, words.classes)
        where = f"{words.classes}={known.tolist()!r}"
    elif names is not None and {_label_text(label) for label in seen.tolist()} & set(names):
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


def check_forecast(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    *,
    pos_label: Any = None,
    labels: Sequence[Any] | None = None,
) -> Forecast:
    """Read outcomes and the probabilities stated of the positive class: ``(n,)``, ``(n, 1)`` or pairs ``(n, 2)``.

    A pair's columns are those of `labels`, by default named after the labels or of the two labels in sorted order. The
    positive class is `pos_label`, by default the second label.
    """
    array = _stated(y_proba)
    if array.ndim == 2 and array.shape[1] > 2:
        raise ScoreValueError(
            f"y_proba must state the probability of one class, shape (n,), (n, 1) or (n, 2), got shape {array.shape}. "
            "Pass one class's column and whether it came, or take a metric of several classes such as class_wise_ece."
        )
    values = label_values(y_true, len(array), name="y_true")
    positive, column = _positive_label(values, pos_label, labels)
    if array.ndim == 2 and array.shape[1] == 2:
        _positive_column(array, "y_proba")
        names = column_names(y_proba)
        if labels is None and names is not None and _label_text(positive) in names:
            column = names.index(_label_text(positive))
        if column is None:
            raise LabelValueError(
                f"y_true holds the single class {str(positive)!r}, and which of the two columns is its own cannot be "
                "guessed. Pass labels=[...], the labels in column order, or the column of the positive class alone."
            )
        array = array[:, column]
    outcome = np.asarray(values == positive, dtype=np.float64)
    return Forecast(*_present(outcome, array.reshape(-1), sample_weight), positive=positive)


def check_class_forecast(
    y_true: Any, y_proba: Any, sample_weight: Any = None, *, labels: Sequence[Any] | None = None
) -> ClassForecast:
    """Read outcomes and the probabilities stated of every class, ``(n, C)``; of two classes as `check_forecast` does.

    The columns are those of `labels`; by default they are named after the labels, or are the sorted labels seen, or are
    numbered by whole labels from 0.
    """
    array = _stated(y_proba)
    if array.ndim == 1 or array.shape[1] <= 2:
        read = check_forecast(y_true, y_proba, sample_weight, labels=labels)
        pairs = np.column_stack([1.0 - read.proba, read.proba])
        return ClassForecast(read.outcome.astype(np.intp), pairs, read.weight)
    _refuse_sums(array, "y_proba")
    read_labels = check_class_labels(
        y_true, len(array), array.shape[1], classes=labels, names=column_names(y_proba), words=METRIC_WORDS
    )
    return ClassForecast(*_present(read_labels.codes, array, sample_weight), classes=read_labels.classes)


def check_grid_forecast(y_true: Any, scores: Any, sample_weight: Any = None, *, pos_label: Any = None) -> Forecast:
    """Read outcomes and M scores in [0, 1] of each case, ``(n, M)`` or ``(n,)``; `proba` is ``(n, M)``."""
    array = _stated(scores, "scores", "Take the distribution function of the training scores for scores of any range.")
    values = label_values(y_true, len(array), name="y_true")
    positive, _ = _positive_label(values, pos_label, None)
    outcome = np.asarray(values == positive, dtype=np.float64)
    return Forecast(*_present(outcome, array.reshape(len(array), -1), sample_weight))


def check_estimates(values: Any, n: int) -> np.ndarray:
    """What a function given by the user says of n points: probabilities ``(n,)``, or of both classes ``(n, 2)``."""
    array = _stated(values, "predict_proba(centres)", "Return probabilities.")
    if array.shape not in ((n,), (n, 1), (n, 2)):
        raise ScoreValueError(
            f"predict_proba must return shape ({n},) or ({n}, 2) for {n} centres of cells, got {array.shape}. "
            "Pass predict_proba of a calibrator that is fitted to these scores."
        )
    return _positive_column(array, "predict_proba(centres)") if array.shape == (n, 2) else array.reshape(-1)


def states_several_classes(y_proba: Any) -> bool:
    """Whether probabilities come in three columns or more."""
    shape = np.shape(y_proba)
    return len(shape) == 2 and shape[1] > 2


def check_class_weights(values: Any, name: str) -> np.ndarray:
    """One finite, nonnegative number for each class, ``(C,)``."""
    array = _numeric(values, name, ParameterValueError)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all() or (array < 0).any():
        shown = f"shape {array.shape}" if array.ndim != 1 or not array.size else repr(array.tolist())
        raise ParameterValueError(
            f"{name} must be one finite number for each class, at least 0, got {shown}. "
            "Pass target proportion over source proportion, class by class."
        )
    return array


def column_names(scores: Any) -> list[str] | None:
    """Names of a table's columns as text; None for an array, and for columns that are numbered from 0."""
    columns = getattr(scores, "columns", None)
    if columns is None or not hasattr(scores, "shape"):
        return None
    names = list(columns)
    return None if names == list(range(len(names))) else [_label_text(name) for name in names]


def check_column_order(scores: Any, classes: np.ndarray) -> None:
    """Refuse a table whose columns are named after the classes and stand in another order."""
    names, expected = column_names(scores), [_label_text(label) for label in classes.tolist()]
    if names is not None and names != expected and sorted(names) == sorted(expected):
        raise ScoreValueError(
            f"scores has the columns {names}, but the classes are in the order {expected}. "
            "Select the columns in that order."
        )


def label_values(y: Any, n: int, *, name: str = "y") -> np.ndarray:
    """Labels as a one-dimensional array of one sortable type, none missing, none continuous."""
    if np.ma.is_masked(y):
        raise LabelValueError(f"{name} {_masked(y)}. Drop the rows whose outcome is unknown.")
    values = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
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


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Read frequencies: finite, nonnegative, not all zero; ``(n,)``."""
    if sample_weight is None:
        return None
    weight = _numeric(sample_weight, "sample_weight", error=WeightValueError)
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.shape != (n,):
        raise WeightValueError(f"sample_weight must have shape ({n},), one weight for each row, got {weight.shape}.")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if bad.size:
        raise WeightValueError(
            f"sample_weight must be finite and nonnegative; {bad.size} of {n} are not, first {weight[bad[0]].item()!r} "
            f"at row {bad[0]}. Weights count how many cases a row stands for."
        )
    far = np.flatnonzero((weight > 0) & ((weight < WEIGHTS[0]) | (weight > WEIGHTS[1])))
    if far.size:
        raise WeightValueError(
            f"sample_weight must be 0 or within [{WEIGHTS[0]:g}, {WEIGHTS[1]:g}]; {far.size} of {n} are not, first "
            f"{weight[far[0]].item()!r} at row {far[0]}. Weights count the cases that a row stands for; multiply them "
            "by a constant."
        )
    if not weight.any():
        raise WeightValueError(
            f"sample_weight is zero in all {n} rows. Leave it out, or give at least one row a weight."
        )
    return np.array(weight)


def check_choice(value: Any, allowed: Sequence[str], name: str) -> str:
    """A word out of a short list."""
    if not isinstance(value, str) or value not in allowed:
        raise ParameterValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """A whole number, at least `minimum`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        raise ParameterValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}.")
    return int(value)


def check_nonnegative(value: Any, name: str) -> float:
    """A finite number, at least 0."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value < 0:
        raise ParameterValueError(f"{name} must be a finite number, at least 0, got {value!r}.")
    return float(value)


def check_fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise ParameterValueError(f"{name} must be a number between 0 and 1 (exclusive), got {value!r}.")
    return float(value)


def check_threshold(value: Any, name: str = "threshold") -> float:
    """A probability, 0 and 1 included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterValueError(f"{name} must be a probability in [0, 1], got {value!r}.")
    return float(value)


def _feature_names(scores: Any) -> np.ndarray | None:
    columns = getattr(scores, "columns", None)
    if columns is None or not hasattr(scores, "shape"):
        return None
    names = [column for column in columns if isinstance(column, str)]
    return np.asarray(names, dtype=object) if len(names) == len(columns) else None


def _numeric(values: Any, name: str, error: type[ValueError] = ScoreValueError) -> np.ndarray:
    if hasattr(values, "toarray"):
        raise error(f"{name} is a sparse matrix. Pass a dense array.")
    if np.ma.is_masked(values):
        raise error(f"{name} {_masked(values)}. Drop or impute them first.")
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):
        missing = np.asarray(values.isna())
        if missing.any():
            first = np.argwhere(missing)[0]
            column = getattr(values, "name", None) if missing.ndim == 1 else values.columns[first[1]]
            raise error(
                f"{name} has {int(missing.sum())} missing values in {len(missing)} rows, first at row {first[0]}"
                f"{f' of column {column!r}' if column is not None else ''}. Drop or impute them first."
            )
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise error(f"{name} is complex. Pass real numbers.")
        if array.dtype.kind in "Mm":
            raise error(f"{name} holds dates. Pass numbers.")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, error):
            raise
        raise error(
            f"{name} must hold numbers in rows of equal length, got {type(values).__name__}: {problem}."
        ) from None


def _masked(values: Any) -> str:
    """What is hidden in a masked array, whose plain array would show the fillers as data."""
    rows = np.argwhere(np.ma.getmaskarray(values))[:, 0]
    return f"has {len(rows)} masked values in {len(values)} rows, first at row {rows[0]}"


def _refuse_not_finite(array: np.ndarray, name: str) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ScoreValueError(
            f"{name} must be finite; {len(bad)} of {array.size} values are NaN or infinite, first "
            f"{array[tuple(bad[0])].item()!r} at {_position(bad[0], array)}. Drop or impute these rows."
        )


def _position(index: np.ndarray, array: np.ndarray) -> str:
    return f"row {index[0]}" + (f", column {index[1]}" if array.ndim == 2 and array.shape[1] > 1 else "")


PERCENTAGES = (
    "Divide percentages by 100. Pass score_kind='logit' for log-odds or score_kind='raw' for decision values, before "
    "fitting."
)
OTHER_KIND = "Divide percentages by 100; the fit was of probabilities, and other scores need a fit of their own."


def _probabilities(array: np.ndarray, name: str, next_step: str) -> np.ndarray:
    bad = np.argwhere((array < -PROBA_TOLERANCE) | (array > 1 + PROBA_TOLERANCE))
    if len(bad):
        value = array[tuple(bad[0])].item()
        raise ScoreValueError(
            f"{name} must lie in [0, 1] as probabilities do; {len(bad)} of {array.size} do not, first {value!r} at "
            f"{_position(bad[0], array)}. {next_step}"
        )
    return np.clip(array, 0.0, 1.0)


def _refuse_sums(array: np.ndarray, name: str, otherwise: str = "") -> None:
    """Rows of several classes that do not sum to 1."""
    sums = array.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > ROW_TOLERANCE)
    if bad.size:
        raise ScoreValueError(
            f"rows of {name} must sum to 1 (within {ROW_TOLERANCE:g}); {bad.size} of {len(array)} do not, first "
            f"{sums[bad[0]]:.6g} at row {bad[0]}. Pass the probabilities of all classes{otherwise}."
        )


def _not_pairs(array: np.ndarray) -> np.ndarray:
    """Rows of ``(n, 2)`` that do not sum to 1."""
    return np.flatnonzero(np.abs(array.sum(axis=1) - 1.0) > PAIR_TOLERANCE)


def _refuse_several(n_features: int, score_kind: str, name: str) -> None:
    if n_features > 2 or n_features == 0 or (n_features == 2 and score_kind != "proba"):
        raise ScoreValueError(
            f"{name} must be one column (or two columns of probabilities with score_kind='proba'), got {n_features} "
            f"columns with score_kind={score_kind!r}. Select the column of the score for the positive class."
        )


def _positive_column(array: np.ndarray, name: str) -> np.ndarray:
    bad = _not_pairs(array)
    if bad.size:
        raise ScoreValueError(
            f"rows of a two-column {name} must sum to 1; {bad.size} of {len(array)} do not, first "
            f"{array[bad[0]].sum():.6g} at row {bad[0]}. Pass the column of the positive class alone."
        )
    return array[:, 1]


def _one_type(values: np.ndarray, name: str) -> np.ndarray:
    """Labels of an object column: strings as they are, booleans, numbers and dates as NumPy's; no other survives."""
    kinds = {_label_kind(value): row for row, value in reversed(list(enumerate(values)))}
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


def _label_kind(value: Any) -> type:
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


def _given_classes(classes: Sequence[Any], size: int = 2, name: str = "classes") -> np.ndarray:
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


def _label_text(label: Any) -> str:
    """A label as a column is named: whole numbers without a decimal point."""
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if is_whole else str(label)


def _named_classes(seen: np.ndarray, names: list[str], words: _Words) -> np.ndarray:
    """Labels that the columns are named after, of the type of the labels seen."""
    if len(set(names)) < len(names):
        raise ScoreValueError(
            f"{words.scores} has two columns of one name ({', '.join(names)}). Name each after its class."
        )
    known = {_label_text(label): label for label in seen.tolist()}
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


def _known_pair(seen: np.ndarray) -> np.ndarray | None:
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
    pair = _known_pair(seen)
    if pair is not None:
        return pair
    raise LabelValueError(
        f"{name} holds the single class {seen.tolist()[0]!r}, and the other one cannot be guessed. "
        "Pass classes=[negative, positive] to the constructor, or add cases of the other class."
    )


def _stated(
    values: Any,
    name: str = "y_proba",
    next_step: str = "Divide percentages by 100; scores that state no probability need a calibrator first.",
) -> np.ndarray:
    """Numbers in [0, 1] of one or two dimensions, at least a row."""
    array = _numeric(values, name)
    if array.ndim not in (1, 2) or not array.size:
        raise ScoreValueError(
            f"{name} must have one dimension or two and at least one row, got shape {array.shape}. "
            "Pass one row for each case."
        )
    low, high = array.min(), array.max()
    if low >= 0 and high <= 1:
        return array
    _refuse_not_finite(array, name)
    return _probabilities(array, name, next_step)


def _present(
    outcome: np.ndarray, proba: np.ndarray, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Outcomes, probabilities and weights of the rows whose weight is not 0."""
    weight = check_sample_weight(sample_weight, len(outcome))
    if weight is None or weight.all():
        return outcome, proba, weight
    used = weight > 0
    return outcome[used], proba[used], weight[used]


def _two_labels(values: np.ndarray) -> np.ndarray:
    """The labels of a binary outcome, sorted."""
    if values.dtype.kind in "biuf":  # ten million rows need no sort
        low, high = values.min(), values.max()
        neighbours = values.dtype.kind != "f" and int(high) - int(low) <= 1
        if neighbours or ((values == low) | (values == high)).all():
            return np.unique(np.array([low, high]))
    seen = np.unique(values)
    if len(seen) > 2:
        shown = ", ".join(repr(label) for label in seen[:5].tolist())
        raise LabelValueError(
            f"y_true must hold two classes, got {len(seen)} ({shown}{', ...' if len(seen) > 5 else ''}). "
            "Compare one class with the rest, or pass the probabilities of every class to a metric that takes them."
        )
    return seen


def _positive_label(values: np.ndarray, pos_label: Any, labels: Sequence[Any] | None) -> tuple[Any, int | None]:
    """The label of the positive class, and its column in a pair where that is known."""
    if pos_label is not None and (np.ndim(pos_label) or pd.isna(pos_label)):
        raise ParameterValueError(
            f"pos_label must be one label, got {pos_label!r}. Pass the label of the positive class."
        )
    seen = _two_labels(values)
    known: np.ndarray | None = None
    if labels is not None:
        known = _given_classes(labels, name="labels")
    elif len(seen) == 2:
        known = seen
    elif pos_label is not None and pos_label != seen[0]:
        known = _with_seen(pos_label, seen)
    else:
        known = _known_pair(seen)
    if known is None:
        if pos_label is not None:
            return seen[0], None
        raise LabelValueError(
            f"y_true holds the single class {seen.tolist()[0]!r}, and the other one cannot be guessed. "
            "Pass pos_label, the label of the positive class."
        )
    unknown = [label for label in seen.tolist() if label not in known.tolist()]
    if unknown:
        raise LabelValueError(f"y_true holds {unknown[0]!r}, which is not among labels={known.tolist()!r}.")
    if pos_label is None:
        return known[1], 1
    column = [k for k in (0, 1) if known[k] == pos_label]
    if not column:
        raise ParameterValueError(
            f"pos_label must be one of the labels {known.tolist()!r}, got {pos_label!r}. "
            "Pass the label whose probability y_proba states."
        )
    return known[column[0]], column[0]


def _with_seen(pos_label: Any, seen: np.ndarray) -> np.ndarray:
    """The single label that was seen and another of its kind, sorted."""
    if _label_kind(seen.tolist()[0]) is not _label_kind(pos_label):
        raise ParameterValueError(
            f"pos_label must be a label of the kind that y_true holds, such as {seen.tolist()[0]!r}, got {pos_label!r}."
        )
    return np.unique(np.array([seen[0], pos_label], dtype=seen.dtype if seen.dtype.kind == "O" else None))
