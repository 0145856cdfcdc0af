"""Outcomes beside the probabilities that were stated of them: what metrics and assessment read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayescal.validation.arrays import check_row_order, check_sample_weight, positive_column, refuse_sums, stated
from bayescal.validation.errors import LabelValueError, ParameterValueError, ScoreValueError
from bayescal.validation.labels import (
    METRIC_WORDS,
    check_class_labels,
    column_names,
    given_classes,
    known_pair,
    label_kind,
    label_text,
    label_values,
)


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
    array = stated(y_proba)
    if array.ndim == 2 and array.shape[1] > 2:
        raise ScoreValueError(
            f"y_proba must state the probability of one class, shape (n,), (n, 1) or (n, 2), got shape {array.shape}. "
            "Pass one class's column and whether it came, or take a metric of several classes such as class_wise_ece."
        )
    check_row_order(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight)
    values = label_values(y_true, len(array), name="y_true")
    positive, column = _positive_label(values, pos_label, labels)
    if array.ndim == 2 and array.shape[1] == 2:
        positive_column(array, "y_proba")
        names = column_names(y_proba)
        if labels is None and names is not None and label_text(positive) in names:
            column = names.index(label_text(positive))
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
    array = stated(y_proba)
    if array.ndim == 1 or array.shape[1] <= 2:
        read = check_forecast(y_true, y_proba, sample_weight, labels=labels)
        pairs = np.column_stack([1.0 - read.proba, read.proba])
        return ClassForecast(read.outcome.astype(np.intp), pairs, read.weight)
    refuse_sums(array, "y_proba")
    check_row_order(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight)
    read_labels = check_class_labels(
        y_true, len(array), array.shape[1], classes=labels, names=column_names(y_proba), words=METRIC_WORDS
    )
    return ClassForecast(*_present(read_labels.codes, array, sample_weight), classes=read_labels.classes)


def check_grid_forecast(y_true: Any, scores: Any, sample_weight: Any = None, *, pos_label: Any = None) -> Forecast:
    """Read outcomes and M scores in [0, 1] of each case, ``(n, M)`` or ``(n,)``; `proba` is ``(n, M)``."""
    array = stated(scores, "scores", "Take the distribution function of the training scores for scores of any range.")
    check_row_order(y_true=y_true, scores=scores, sample_weight=sample_weight)
    values = label_values(y_true, len(array), name="y_true")
    positive, _ = _positive_label(values, pos_label, None)
    outcome = np.asarray(values == positive, dtype=np.float64)
    return Forecast(*_present(outcome, array.reshape(len(array), -1), sample_weight))


def check_estimates(values: Any, n: int) -> np.ndarray:
    """What a function given by the user says of n points: probabilities ``(n,)``, or of both classes ``(n, 2)``."""
    array = stated(values, "predict_proba(centres)", "Return probabilities.")
    if array.shape not in ((n,), (n, 1), (n, 2)):
        raise ScoreValueError(
            f"predict_proba must return shape ({n},) or ({n}, 2) for {n} centres of cells, got {array.shape}. "
            "Pass predict_proba of a calibrator that is fitted to these scores."
        )
    return positive_column(array, "predict_proba(centres)") if array.shape == (n, 2) else array.reshape(-1)


def states_several_classes(y_proba: Any) -> bool:
    """Whether probabilities come in three columns or more."""
    shape = np.shape(y_proba)
    return len(shape) == 2 and shape[1] > 2


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
        known = given_classes(labels, name="labels")
    elif len(seen) == 2:
        known = seen
    elif pos_label is not None and pos_label != seen[0]:
        known = _with_seen(pos_label, seen)
    else:
        known = known_pair(seen)
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
    if label_kind(seen.tolist()[0]) is not label_kind(pos_label):
        raise ParameterValueError(
            f"pos_label must be a label of the kind that y_true holds, such as {seen.tolist()[0]!r}, got {pos_label!r}."
        )
    return np.unique(np.array([seen[0], pos_label], dtype=seen.dtype if seen.dtype.kind == "O" else None))
