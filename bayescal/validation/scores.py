"""Scores that a calibrator reads: of one classifier, of several, or of every class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescal.validation.arrays import (
    not_pairs,
    numeric,
    positive_column,
    probabilities,
    refuse_not_finite,
    refuse_sums,
)
from bayescal.validation.errors import ScoreValueError

SCORE_KINDS = ("proba", "logit", "raw")
CLASS_SCORE_KINDS = ("proba", "logit")  # of several classes
LARGEST = {"logit": 1e6, "raw": 1e150}  # beyond, these are no log-odds, or have no square
PERCENTAGES = (
    "Divide percentages by 100. Pass score_kind='logit' for log-odds or score_kind='raw' for decision values, before "
    "fitting."
)
OTHER_KIND = "Divide percentages by 100; the fit was of probabilities, and other scores need a fit of their own."


@dataclass(frozen=True)
class Scores:
    """Scores of one classifier or of several, one row for each case."""

    values: np.ndarray  # (n,), or (n, M) of M >= 2 classifiers; float64
    feature_names: np.ndarray | None  # (columns,) str, when a data frame came
    n_features: int


def check_scores(
    scores: Any, score_kind: str, *, name: str = "scores", columns: str | int = "one", fitting: bool = True
) -> Scores:
    """Read scores: ``(n,)``, ``(n, 1)`` or pairs ``(1 - p, p)`` of one classifier, or ``(n, M)`` of M classifiers.

    `columns` is "one" classifier, "several" (M >= 2), "any" number, or how many scores the fit had. Where it is "any",
    two columns of probabilities are a pair if every row sums to 1, and two classifiers' otherwise. To predict, there
    may be no rows, and a score may be as far out as it likes.
    """
    feature_names = _feature_names(scores)
    array = numeric(scores, name)
    if array.ndim == 0 or array.ndim > 2:
        raise ScoreValueError(
            f"{name} must have 1 or 2 dimensions, got shape {array.shape}. Pass one row for each case."
        )
    n_features = 1 if array.ndim == 1 else array.shape[1]
    if fitting and array.shape[0] == 0:
        raise ScoreValueError(f"{name} is empty (shape {array.shape}). Pass at least one row.")
    refuse_not_finite(array, name)
    if columns == "any":
        is_pair = n_features == 2 and score_kind == "proba" and not not_pairs(array).size
        columns = "one" if n_features <= 1 or is_pair else n_features
    if columns in ("one", 1):
        _refuse_several(n_features, score_kind, name)
    elif columns == "several":
        if n_features < 2 or (n_features == 2 and score_kind == "proba" and not not_pairs(array).size):
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
        array = probabilities(array, name, PERCENTAGES if fitting else OTHER_KIND)
    if columns in ("one", 1):
        array = positive_column(array, name) if n_features == 2 else array.reshape(-1)
    return Scores(np.array(array, dtype=np.float64, order="C"), feature_names, n_features)


def check_class_scores(
    scores: Any, score_kind: str, *, name: str = "scores", columns: int | None = None, fitting: bool = True
) -> Scores:
    """Read scores ``(n, C)`` of C >= 2 classes: probabilities whose rows sum to 1, or logits."""
    feature_names = _feature_names(scores)
    array = numeric(scores, name)
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
    refuse_not_finite(array, name)
    if score_kind == "proba":
        array = probabilities(array, name, "Divide percentages by 100, or say score_kind='logit' for logits.")
        refuse_sums(array, f"{name} with score_kind='proba'", ", or say score_kind='logit' for logits")
    elif (
        fitting and (largest := float((array / 2 - array.min(axis=1, keepdims=True) / 2).max()) * 2) > LARGEST["logit"]
    ):
        raise ScoreValueError(
            f"logits of a row must lie within {LARGEST['logit']:g} of each other, got {largest:g} in {name}. "
            "Pass what the classifier takes the softmax of."
        )
    return Scores(np.array(array, dtype=np.float64, order="C"), feature_names, size)


def _refuse_several(n_features: int, score_kind: str, name: str) -> None:
    if n_features > 2 or n_features == 0 or (n_features == 2 and score_kind != "proba"):
        raise ScoreValueError(
            f"{name} must be one column (or two columns of probabilities with score_kind='proba'), got {n_features} "
            f"columns with score_kind={score_kind!r}. Select the column of the score for the positive class."
        )


def _feature_names(scores: Any) -> np.ndarray | None:
    columns = getattr(scores, "columns", None)
    if columns is None or not hasattr(scores, "shape"):
        return None
    names = [column for column in columns if isinstance(column, str)]
    return np.asarray(names, dtype=object) if len(names) == len(columns) else None
