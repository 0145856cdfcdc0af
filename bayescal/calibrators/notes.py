"""Warnings that a fit owes its user."""

import warnings
from pathlib import Path

import numpy as np

from bayescal.inference.convergence import Convergence
from bayescal.validation import CalibrationWarning, ConvergenceWarning

_PACKAGE = str(Path(__file__).parents[1])  # a warning points to the line that called the package
FEW_CASES = 5.0
REVERSED_Z = -1.5


def warn_about_data(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, classes: np.ndarray, name: str
) -> None:
    """Say where the answer will rest on the prior rather than on the data."""
    for text in describe_data(scores, positive, weight, classes):
        _warn(f"{name} calibration: {text}", CalibrationWarning)


def warn_about_map(decreasing: bool, name: str) -> None:
    """Say that a fitted point estimate decreases in the score."""
    if decreasing:
        _warn(
            f"{name} calibration: the fitted map decreases, higher scores get lower probabilities. Check the direction "
            "of the score and the order of the classes.",
            CalibrationWarning,
        )


def warn_about_convergence(found: Convergence, name: str) -> None:
    """Say that the draws did not pass the gate."""
    if found.verdict != "passed":
        _warn(f"{name} calibration, convergence {found.verdict}: {found.message}", ConvergenceWarning)


def describe_data(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, classes: np.ndarray) -> list[str]:
    """What is special about the calibration rows, in words."""
    used = weight > 0
    scores, positive, weight = scores[used], positive[used] > 0, weight[used]
    counts = np.array([weight[~positive].sum(), weight[positive].sum()])
    said = []
    rare = int(counts.argmin())
    if counts.min() == 0:
        said.append(f"no case of class {classes[rare]!s} among {counts.sum():g}; the answer leans on the prior.")
    elif counts.min() < FEW_CASES:
        cases = "case" if counts[rare] == 1 else "cases"
        said.append(f"only {counts[rare]:g} {cases} of class {classes[rare]!s}; the answer leans on the prior.")
    if scores.ndim == 1:
        return said + _describe_scores(scores, positive, weight)
    for j, column in enumerate(scores.T):
        said += [f"score column {j}: {text}" for text in _describe_scores(column, positive, weight)]
    return said


def _describe_scores(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> list[str]:
    if scores.min() == scores.max():
        return ["all scores are equal; only the base rate is learned, and other scores are answered from the prior."]
    if positive.all() or not positive.any():
        return []
    said = []
    if scores[~positive].max() < scores[positive].min():
        said.append("a threshold on the score separates the classes completely; the steepness rests on the prior.")
    z, auc = _rank_test(scores, positive, weight)
    if z < REVERSED_Z:
        said.append(
            f"the scores rank the classes in reverse (AUC {auc:.2f}). Check which class is the positive one; if "
            "small scores mean positive, pass the negated score. Nothing is flipped silently."
        )
    return said


def _rank_test(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mann-Whitney statistic, standardised under no association, and the AUC; weights count cases."""
    distinct, inverse = np.unique(scores, return_inverse=True)
    ones = np.bincount(inverse, weights=weight * positive, minlength=len(distinct))
    zeros = np.bincount(inverse, weights=weight * ~positive, minlength=len(distinct))
    n1, n0 = ones.sum(), zeros.sum()
    auc = float((ones * (np.cumsum(zeros) - 0.5 * zeros)).sum() / (n1 * n0))
    return (auc - 0.5) / np.sqrt((n1 + n0 + 1) / (12 * n1 * n0)), auc


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, skip_file_prefixes=(_PACKAGE,))
