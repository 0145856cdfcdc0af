"""Features and labels of CASIMAC: read as scikit-learn reads them, standardised, and turned into distances."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from bayescal.casimac.latent import KERNELS
from bayescal.validation import LabelValueError, ParameterValueError, ScoreValueError

ASYMMETRY = 1e-8  # of a metric or kernel, by its largest value
NEGATIVE = 1e-6  # of an eigenvalue of a kernel matrix, by the largest
METRICS = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "hamming", "minkowski",
    "sqeuclidean",
)  # fmt: skip


@dataclass(frozen=True)
class Space:
    """The training cases in feature space: standardised numbers, or objects that metric and kernel can read."""

    cases: Any  # (n, d), or a list of n objects
    mean: np.ndarray | None  # (d,); None where nothing is standardised
    scale: np.ndarray | None
    metric: str | Callable[[Any, Any], float]
    kernel: str | Callable[[Any, Any], Any]

    def scaled(self, rows: Any) -> Any:
        """Rows in the units of the training cases."""
        return rows if self.mean is None else (rows - self.mean) / self.scale

    def metric_to_cases(self, rows: Any) -> np.ndarray:
        """Distances ``(m, n)`` by the metric, of rows in the units of the cases."""
        if isinstance(rows, np.ndarray):
            return cdist(rows, self.cases, self.metric)
        assert callable(self.metric)
        return np.array([[float(self.metric(a, b)) for b in self.cases] for a in rows]).reshape(len(rows), -1)

    def kernel_to_cases(self, rows: Any) -> np.ndarray:
        """Euclidean distances ``(m, n)``, which the kernel takes, or a callable kernel's own values."""
        if callable(self.kernel):
            return np.asarray(self.kernel(rows, self.cases), dtype=float).reshape(len(rows), len(self.cases))
        return cdist(rows, self.cases)


def check_metric(metric: Any) -> None:
    """A name of SciPy's or a callable."""
    if not callable(metric) and metric not in METRICS:
        raise ParameterValueError(
            f"metric must be one of {', '.join(map(repr, METRICS))}, or a callable of two rows, got {metric!r}."
        )


def check_kernel(kernel: Any) -> None:
    """A name or a callable."""
    if not callable(kernel) and kernel not in KERNELS:
        raise ParameterValueError(
            f"kernel must be one of {', '.join(map(repr, KERNELS))}, or a callable of two sets of rows, got {kernel!r}."
        )


def read_cases(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Space, np.ndarray, np.ndarray]:
    """Training cases, the sorted classes, and column numbers of the labels.

    Where metric and kernel are both callables, X may hold anything that they can read.
    """
    if callable(estimator.metric) and callable(estimator.kernel) and not isinstance(X, np.ndarray):
        X, y = list(X), column_or_1d(y, warn=True)
        if len(X) != len(y):
            raise LabelValueError(f"y has {len(y)} labels for {len(X)} rows of features. Pass one label for each row.")
    else:
        X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_min_samples=2)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise LabelValueError(
            f"y must hold at least two classes, got one class, {classes.tolist()[0]!r}. Add cases of another class."
        )
    mean = scale = None
    if isinstance(X, np.ndarray) and estimator.standardize:
        mean, scale = X.mean(axis=0), X.std(axis=0)
        constant = ~(scale > 1e-12 * np.maximum(np.abs(X).max(axis=0), 1e-300))
        scale = np.where(constant, 1.0, scale)
    space = Space(X, mean, scale, estimator.metric, estimator.kernel)
    return Space(space.scaled(X), mean, scale, estimator.metric, estimator.kernel), classes, codes


def read_rows(estimator: BaseEstimator, space: Space, X: Any) -> Any:
    """New rows in the units of the training cases."""
    if not isinstance(space.cases, np.ndarray):
        return list(X)
    return space.scaled(validate_data(estimator, X, dtype=np.float64, reset=False))


def check_distances(distance: np.ndarray) -> np.ndarray:
    """What a semimetric must be on the training cases: finite, at least 0, symmetric, 0 on the diagonal."""
    largest = np.abs(distance).max()
    if not np.isfinite(largest) or (distance < 0).any():
        raise ScoreValueError("metric must give finite distances of at least 0; it does not on the training cases.")
    off = np.abs(distance - distance.T).max()
    if off > ASYMMETRY * largest or np.abs(np.diag(distance)).max() > ASYMMETRY * largest:
        raise ParameterValueError(
            "metric must be symmetric, and 0 from a case to itself; it is not on the training cases. "
            "Pass d(a, b) with d(a, b) = d(b, a) and d(a, a) = 0."
        )
    return 0.5 * (distance + distance.T)


def check_correlation(values: np.ndarray) -> np.ndarray:
    """What a callable kernel must give on the training cases: a correlation matrix."""
    if not np.isfinite(values).all() or np.abs(values - values.T).max() > ASYMMETRY:
        raise ParameterValueError("kernel must give a finite symmetric matrix; it does not on the training cases.")
    if np.abs(np.diag(values) - 1).max() > ASYMMETRY:
        raise ParameterValueError(
            "kernel must be 1 from a case to itself; it is not on the training cases. Divide it by "
            "sqrt(k(a, a) k(b, b))."
        )
    lowest = float(np.linalg.eigvalsh(values)[0])
    if lowest < -NEGATIVE * len(values):
        raise ParameterValueError(
            f"kernel must be positive semidefinite; its matrix on the training cases has the eigenvalue {lowest:.3g}. "
            "exp(-distance / scale) is, for distances that embed in a Euclidean space."
        )
    return 0.5 * (values + values.T)
