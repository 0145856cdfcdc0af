"""Warnings that a fit owes its user."""

import warnings
from pathlib import Path

import numpy as np

from bayescal.inference.convergence import Convergence
from bayescal.validation import CalibrationWarning, ConvergenceWarning

_PACKAGE = str(Path(__file__).parents[1])  # a warning points to the line that called the package
FEW_CASES = 5.0
REVERSED_Z = -1.5
FEW_LEVELS = 5


def warn_about_data(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, classes: np.ndarray, name: str, *, point: bool = False
) -> None:
    """Say where the answer will rest on the prior rather than on the data, or on nothing if it is a point estimate."""
    for text in describe_data(scores, positive, weight, classes, point=point):
        warn(f"{name} calibration: {text}", CalibrationWarning)


def warn_about_classes(
    counts: np.ndarray, classes: np.ndarray, name: str, *, zeros: int, smoothed: bool, point: bool
) -> None:
    """Say which of several classes have few cases or none, and where the likelihood has no maximum."""
    absent, few = counts == 0, (counts > 0) & (counts < FEW_CASES)
    no_maximum = "the likelihood has no maximum, and " * smoothed
    rule = "Platt's smoothed targets stand in for the labels" if smoothed else "a point estimate is not to be trusted"
    leans = no_maximum + (rule if point else "the answer leans on the prior")
    said = [
        text + _some_classes(classes[those])
        for text, those in (("no case of ", absent), ("fewer than 5 cases of ", few))
        if those.any()
    ]
    if said:
        warn(f"{name} calibration: {' and '.join(said)} among {counts.sum():g}; {leans}.", CalibrationWarning)
    elif smoothed:
        warn(f"{name} calibration: the scores separate the classes; {leans}.", CalibrationWarning)
    if zeros:
        warn(
            f"{name} calibration: {zeros} cases are of a class to which their scores give probability 0; 1e-12 stands "
            "in for it, and has much leverage. Smooth the classifier's probabilities, or pass logits.",
            CalibrationWarning,
        )


def _some_classes(labels: np.ndarray) -> str:
    """The first labels of many, in words."""
    shown = ", ".join(str(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
    return f"class {shown}" if len(labels) == 1 else f"{len(labels)} classes ({shown})"


def warn_about_ends(texts: list[str], name: str) -> None:
    """Say that scores of 0 and 1 carry the fit."""
    for text in texts:
        warn(f"{name} calibration: {text}", CalibrationWarning)


def warn_about_few_levels(levels: list[int], name: str) -> None:
    """Say that scores of few different values have no density."""
    for column, number in enumerate(levels):
        if 1 < number < FEW_LEVELS:
            warn(
                f"{name} calibration: score column {column} has {number} different values, and the model is of scores "
                "with a density; with so few its answers can be far off. Fuse these scores with PlattCalibrator or "
                "BernsteinCalibrator.",
                CalibrationWarning,
            )


def warn_about_map(decreasing: bool, name: str) -> None:
    """Say that a fitted point estimate decreases in the score."""
    if decreasing:
        warn(
            f"{name} calibration: the fitted map decreases, higher scores get lower probabilities. Check the direction "
            "of the score and the order of the classes.",
            CalibrationWarning,
        )


def warn_about_convergence(found: Convergence, name: str) -> None:
    """Say that the draws did not pass the gate."""
    if found.verdict != "passed":
        warn(f"{name} calibration, convergence {found.verdict}: {found.message}", ConvergenceWarning)


def describe_data(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, classes: np.ndarray, *, point: bool = False
) -> list[str]:
    """What is special about the calibration rows, in words; a point estimate has no prior to fall back on."""
    leans = "a point estimate of so little is not to be trusted" if point else "the answer leans on the prior"
    used = weight > 0
    scores, positive, weight = scores[used], positive[used] > 0, weight[used]
    counts = np.array([weight[~positive].sum(), weight[positive].sum()])
    said = []
    rare = int(counts.argmin())
    if counts.min() == 0:
        said.append(f"no case of class {classes[rare]!s} among {counts.sum():g}; {leans}.")
    elif counts.min() < FEW_CASES:
        cases = "case" if counts[rare] == 1 else "cases"
        said.append(f"only {counts[rare]:g} {cases} of class {classes[rare]!s}; {leans}.")
    if scores.ndim == 1:
        return said + _describe_scores(scores, positive, weight, point)
    for j, column in enumerate(scores.T):
        said += [f"score column {j}: {text}" for text in _describe_scores(column, positive, weight, point)]
    return said


def _describe_scores(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, point: bool) -> list[str]:
    if scores.min() == scores.max():
        others = "is a guess" if point else "comes from the prior"
        return [f"all scores are equal; only the base rate is learned, and what is said of other scores {others}."]
    if positive.all() or not positive.any():
        return []
    said = []
    if scores[~positive].max() < scores[positive].min():
        steep = "is set by a rule, not by the data" if point else "rests on the prior"
        said.append(f"a threshold on the score separates the classes completely; the steepness {steep}.")
    z, auc = _rank_test(scores, positive, weight)
    if z < REVERSED_Z:
        said.append(
            f"the scores rank the classes in reverse (AUC {auc:.2f}). Check which class is the positive one; if "
            "small scores mean positive, pass the negated score (1 - p of a probability). Nothing is flipped silently."
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


def warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, skip_file_prefixes=(_PACKAGE,))
