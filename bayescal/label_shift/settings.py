"""What a user says about the target: a prior or known proportions, and labels of some of its cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescal.validation import LabelValueError, ParameterValueError, label_values

CONCENTRATION = 0.5  # of the Dirichlet prior: a class may well be near absent
SUM_TOLERANCE = 1e-6  # of proportions that are meant to sum to 1


@dataclass(frozen=True)
class Prior:
    """Either is None."""

    concentration: np.ndarray | None  # (C,), positive
    known: np.ndarray | None  # (C,), proportions


def read_prior(prior: Any, classes: np.ndarray) -> Prior:
    """Read Dirichlet concentrations, one for all classes or one for each, or known proportions, which sum to 1."""
    if prior is None:
        return Prior(np.full(len(classes), CONCENTRATION), None)
    try:
        given = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    allowed = (
        f"prior must be a positive Dirichlet concentration, {len(classes)} of them (one for each class), or "
        f"{len(classes)} known proportions that sum to 1"
    )
    if isinstance(prior, bool | str) or given.shape not in ((), (len(classes),)) or not np.isfinite(given).all():
        raise ParameterValueError(f"{allowed}, got {prior!r}. The order is that of the classes, {classes.tolist()}.")
    if given.ndim and (given >= 0).all() and abs(given.sum() - 1) <= SUM_TOLERANCE:
        return Prior(None, given / given.sum())
    if (given <= 0).any():
        raise ParameterValueError(f"{allowed}, got {prior!r}.")
    return Prior(np.broadcast_to(given, len(classes)).copy(), None)


def class_numbers(y: Any, n: int, classes: np.ndarray, name: str) -> np.ndarray:
    """Column numbers ``(n,)`` of labels, all of which must be among `classes`."""
    values = label_values(y, n, name=name)
    order = np.argsort(classes, kind="stable")
    try:
        place = np.searchsorted(classes[order], values)
    except TypeError:
        place = np.zeros(len(values), dtype=int)
    numbers = order[np.minimum(place, len(classes) - 1)]
    unknown = np.flatnonzero(classes[numbers] != values)
    if unknown.size:
        raise LabelValueError(
            f"{name} holds {values[unknown[:1]].tolist()[0]!r} at row {unknown[0]}, which is not among the classes of "
            f"the fit, {classes.tolist()}."
        )
    return numbers


def label_counts(labelled: Any, classes: np.ndarray) -> np.ndarray:
    """How often each class occurs among labels of target cases, ``(C,)``."""
    if labelled is None:
        return np.zeros(len(classes))
    values = np.asarray(labelled)
    return np.bincount(class_numbers(values, len(values), classes, "labelled"), minlength=len(classes)).astype(float)
