"""Calibrated probabilities by chosen posterior draws of a fitted calibrator, or as a user gives them."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.generative import GenerativeCalibrator
from bayescal.validation import (
    Scores,
    check_class_labels,
    check_class_scores,
    check_column_order,
    check_row_order,
    column_names,
)

CHAINS = 4  # that draws are put into where the calibrator has none


class Calibrated(BaseEstimator):
    """Scores that are calibrated probabilities already, one column for each class."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    def fit(self, scores: Any, y: Any) -> Self:
        """Learn which class each column is of."""
        read = check_class_scores(scores, "proba")
        n, size = read.values.shape
        check_row_order(y=y, scores=scores)
        self.classes_ = check_class_labels(y, n, size, classes=self.classes, names=column_names(scores)).classes
        check_column_order(scores, self.classes_)
        return self

    def predict_proba(self, scores: Any) -> np.ndarray:
        """The scores, with rows that sum to 1."""
        values = self._check_new_scores(scores).values
        return values / values.sum(axis=1, keepdims=True)

    def _check_new_scores(self, scores: Any) -> Scores:
        check_is_fitted(self, "classes_")
        read = check_class_scores(scores, "proba", columns=len(self.classes_), fitting=False)
        check_column_order(scores, self.classes_)
        return read


def has_draws(calibrator: Any) -> bool:
    """Whether a fitted calibrator has a posterior; probabilities as given have no need of one."""
    return isinstance(calibrator, Calibrated) or not calibrator._is_point


def choose_draws(calibrator: Any, draws: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Numbers ``(S,)`` of about `draws` posterior draws, evenly spaced in every chain, and their (chains, draws)."""
    if isinstance(calibrator, Calibrated):
        each = -(-draws // CHAINS)
        return np.zeros(CHAINS * each, dtype=int), (CHAINS, each)
    chains, length = calibrator._draw_shape
    each = min(length, -(-draws // chains))
    within = np.linspace(0, length - 1, each).round().astype(int)
    return (np.arange(chains)[:, None] * length + within).reshape(-1), (chains, each)


def proba_at(calibrator: Any, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Probabilities ``(S, m, C)`` of trusted scores by the draws of these numbers."""
    if isinstance(calibrator, Calibrated):
        p = values / values.sum(axis=1, keepdims=True)
        return np.repeat(p[None], len(numbers), axis=0)
    if not isinstance(calibrator, GenerativeCalibrator):
        return calibrator._by_class(calibrator._proba_draws(values))[numbers]
    few = copy.copy(calibrator)
    few._posterior = {name: draws[None, numbers] for name, draws in calibrator._flat.items()}
    return few._by_class(few._proba_draws(values))
