"""Arrays of numbers: finite, probabilities, pairs and rows that sum to 1, weights."""

from typing import Any

import numpy as np
import pandas as pd

from bayescal.validation.errors import ParameterValueError, ScoreValueError, WeightValueError

PROBA_TOLERANCE = 1e-6  # rounding of a float32 softmax; values this far outside [0, 1] are clipped
WEIGHTS = (1e-12, 1e12)  # outside, sums of weights and of their logs lose the other rows
PAIR_TOLERANCE = 1e-5  # |p0 + p1 - 1| of a float32 pair, where two columns could be two classifiers' scores
ROW_TOLERANCE = 1e-3  # |sum - 1| of the probabilities of all classes, which may be written with four digits


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Read frequencies: finite, nonnegative, not all zero; ``(n,)``."""
    if sample_weight is None:
        return None
    weight = numeric(sample_weight, "sample_weight", error=WeightValueError)
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.shape != (n,):
        raise WeightValueError(
            f"sample_weight must have shape ({n},), got {weight.shape}. Pass one weight for each row."
        )
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


def check_class_weights(values: Any, name: str) -> np.ndarray:
    """One finite, nonnegative number for each class, ``(C,)``."""
    array = numeric(values, name, ParameterValueError)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all() or (array < 0).any():
        shown = f"shape {array.shape}" if array.ndim != 1 or not array.size else repr(array.tolist())
        raise ParameterValueError(
            f"{name} must be one finite number for each class, at least 0, got {shown}. "
            "Pass target proportion over source proportion, class by class."
        )
    return array


def check_row_order(**named: Any) -> None:
    """Refuse pandas objects that hold the same index in different orders, since rows are paired by position."""
    indexed = {name: value.index for name, value in named.items() if isinstance(value, pd.Series | pd.DataFrame)}
    if len(indexed) < 2:
        return
    (first, index), *others = indexed.items()
    for name, other in others:
        if len(other) == len(index) and not other.equals(index) and set(other) == set(index):
            row = int(np.flatnonzero(other.to_numpy() != index.to_numpy())[0])
            raise ParameterValueError(
                f"{name} and {first} have the same index in different orders, first at row {row} ({other[row]!r} and "
                f"{index[row]!r}); rows are paired by position. Pass {name}.loc[{first}.index] to pair them by index, "
                f"or {name}.to_numpy() if their order is right."
            )


def numeric(values: Any, name: str, error: type[ValueError] = ScoreValueError) -> np.ndarray:
    if hasattr(values, "toarray"):
        raise error(f"{name} is a sparse matrix. Pass a dense array.")
    if np.ma.is_masked(values):
        raise error(f"{name} {masked(values)}. Drop or impute them first.")
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


def masked(values: Any) -> str:
    """What is hidden in a masked array, whose plain array would show the fillers as data."""
    rows = np.argwhere(np.ma.getmaskarray(values))[:, 0]
    return f"has {len(rows)} masked values in {len(values)} rows, first at row {rows[0]}"


def refuse_not_finite(array: np.ndarray, name: str) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ScoreValueError(
            f"{name} must be finite; {len(bad)} of {array.size} values are NaN or infinite, first "
            f"{array[tuple(bad[0])].item()!r} at {_position(bad[0], array)}. Drop or impute these rows."
        )


def _position(index: np.ndarray, array: np.ndarray) -> str:
    return f"row {index[0]}" + (f", column {index[1]}" if array.ndim == 2 and array.shape[1] > 1 else "")


def probabilities(array: np.ndarray, name: str, next_step: str) -> np.ndarray:
    bad = np.argwhere((array < -PROBA_TOLERANCE) | (array > 1 + PROBA_TOLERANCE))
    if len(bad):
        value = array[tuple(bad[0])].item()
        raise ScoreValueError(
            f"{name} must lie in [0, 1] as probabilities do; {len(bad)} of {array.size} do not, first {value!r} at "
            f"{_position(bad[0], array)}. {next_step}"
        )
    return np.clip(array, 0.0, 1.0)


def stated(
    values: Any,
    name: str = "y_proba",
    next_step: str = "Divide percentages by 100; scores that state no probability need a calibrator first.",
) -> np.ndarray:
    """Numbers in [0, 1] of one or two dimensions, at least a row."""
    array = numeric(values, name)
    if array.ndim not in (1, 2) or not array.size:
        raise ScoreValueError(
            f"{name} must have one dimension or two and at least one row, got shape {array.shape}. "
            "Pass one row for each case."
        )
    low, high = array.min(), array.max()
    if low >= 0 and high <= 1:
        return array
    refuse_not_finite(array, name)
    return probabilities(array, name, next_step)


def refuse_sums(array: np.ndarray, name: str, otherwise: str = "") -> None:
    """Rows of several classes that do not sum to 1."""
    sums = array.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > ROW_TOLERANCE)
    if bad.size:
        raise ScoreValueError(
            f"rows of {name} must sum to 1 (within {ROW_TOLERANCE:g}); {bad.size} of {len(array)} do not, first "
            f"{sums[bad[0]]:.6g} at row {bad[0]}. Pass the probabilities of all classes{otherwise}."
        )


def not_pairs(array: np.ndarray) -> np.ndarray:
    """Rows of ``(n, 2)`` that do not sum to 1."""
    return np.flatnonzero(np.abs(array.sum(axis=1) - 1.0) > PAIR_TOLERANCE)


def positive_column(array: np.ndarray, name: str) -> np.ndarray:
    bad = np.flatnonzero(np.abs(array.sum(axis=1) - 1.0) > ROW_TOLERANCE)
    if bad.size:
        raise ScoreValueError(
            f"rows of a two-column {name} must sum to 1; {bad.size} of {len(array)} do not, first "
            f"{array[bad[0]].sum():.6g} at row {bad[0]}. Pass the column of the positive class alone."
        )
    return array[:, 1]
