"""Calibration errors of several fused scores on a grid of cells, without a single number that they are fused to.

In each cell of a grid on [0, 1]^M that holds enough cases, the share of positives stands for the true probability and
is compared with the estimate at the cell's centre.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayescal.evaluation.metrics.bins import EDGE
from bayescal.validation import (
    ParameterValueError,
    check_count,
    check_estimates,
    check_grid_forecast,
    check_nonnegative,
)

MOST_CELLS = 2**24


class GridErrors(NamedTuple):
    """Errors over the cells that hold enough cases, and these cells."""

    ece: float
    mce: float
    centres: np.ndarray  # (cells, M)
    share: np.ndarray  # (cells,) of positives
    estimate: np.ndarray  # (cells,) of the probability at the centre
    cases: np.ndarray  # (cells,)


def grid_errors(
    y_true: Any,
    scores: Any,
    predict_proba: Callable[[np.ndarray], Any],
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    n_cells: int = 10,
    min_cases: float = 1000,
) -> GridErrors:
    """ECE and MCE of fused scores on a grid: mean and maximum over cells of the distance from share to estimate.

    With G the cells of a uniform grid on [0, 1]^M that hold at least `min_cases` cases, f the share of positives in
    each and f^ the estimate at its centre: ``ECE = sum_G |f - f^| / |G|`` and ``MCE = max_G |f - f^|``. Cells count
    alike, however many cases they hold.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    scores : array-like of shape (n, M) or (n,), in [0, 1]
        Scores of M classifiers, each on [0, 1]: the paper takes the distribution function of the training scores.
    predict_proba : callable
        Takes centres of cells ``(cells, M)`` and returns the fused probability of the positive class ``(cells,)``, or
        of both classes ``(cells, 2)``: `predict_proba` of a fitted calibrator.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.
    n_cells : int, default=10
        Cells along each score, each with its left edge and the last with both.
    min_cases : float, >= 0, default=1000
        Cells with fewer cases are left out, and so are those without a case.

    Returns
    -------
    GridErrors
        Named tuple of ``ece`` and ``mce``, and of the cells compared: ``centres``, ``share``, ``estimate``, ``cases``.

    Raises
    ------
    ParameterValueError
        If no cell holds enough cases.

    References
    ----------
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI,
    section 5.2.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores, y = [[0.2, 0.3]] * 4 + [[0.9, 0.8]] * 4, [0, 0, 0, 1] + [1, 1, 0, 1]
    >>> found = bc.metrics.grid_errors(y, scores, lambda s: s.mean(axis=1), n_cells=2, min_cases=4)
    >>> found.ece, found.share
    (0.0, array([0.25, 0.75]))
    """
    n_cells, min_cases = check_count(n_cells, "n_cells"), check_nonnegative(min_cases, "min_cases")
    read = check_grid_forecast(y_true, scores, sample_weight, pos_label=pos_label)
    shape = (n_cells,) * read.proba.shape[1]
    if (size := n_cells ** len(shape)) > MOST_CELLS:
        raise ParameterValueError(
            f"n_cells must make at most {MOST_CELLS} cells, got {n_cells} along each of {len(shape)} scores. "
            "Take fewer cells, or fewer scores."
        )
    place = np.minimum((read.proba * n_cells + EDGE).astype(np.intp), n_cells - 1)
    cell = np.ravel_multi_index(tuple(place.T), shape)
    cases = np.bincount(cell, read.weight, size).astype(np.float64)
    ones = np.bincount(cell, read.outcome if read.weight is None else read.weight * read.outcome, size)
    used = np.flatnonzero((cases > 0) & (cases >= min_cases))
    if not used.size:
        raise ParameterValueError(
            f"min_cases must not be above the cases of the fullest cell, {cases.max():g}, got {min_cases:g}. "
            "Take fewer cells along each score, or accept fewer cases in a cell."
        )
    centres = (np.column_stack(np.unravel_index(used, shape)) + 0.5) / n_cells
    share = ones[used] / cases[used]
    estimate = check_estimates(predict_proba(centres), len(centres))
    error = np.abs(share - estimate)
    return GridErrors(float(error.mean()), float(error.max()), centres, share, estimate, cases[used])
