"""Pool adjacent violators (PAV): calibration by isotonic regression, and the functions of AI::Calibrate.

For scores s_1 <= ... <= s_n, outcomes y_i and weights w_i > 0, isotonic regression finds

    f = argmin  sum_i w_i (y_i - f_i)^2    subject to    f_1 <= ... <= f_n,

whose solution is f_i = max_{a <= i} min_{b >= i} mean(y_a, ..., y_b), with weighted means (Ayer et al. 1955).
It is constant on blocks of neighbours, and each block's value is its mean. Two ways of reading a map from it:

- `isotonic_fit`, `isotonic_predict`: equal scores are pooled first, so that the order of the rows does not
  matter, and the map is linear between the ends of neighbouring blocks. Arrays are trusted, and never
  changed.
- `calibrate`, `score_prob`, `print_mapping`: the meaning of the Perl module AI::Calibrate 1.5 (Fawcett 2012),
  whose map is a step function of thresholds and which takes the points one by one. Points are checked.

After the sort everything is linear in the number of rows.

References
----------
Ayer, Brunk, Ewing, Reid & Silverman (1955), An empirical distribution function for sampling with incomplete
information, Annals of Mathematical Statistics 26(4).
Fawcett & Niculescu-Mizil (2007), PAV and the ROC convex hull, Machine Learning 68(1).
"""

from collections.abc import Iterable, Sequence
from typing import Any, TextIO, overload

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

__all__ = ["calibrate", "isotonic_fit", "isotonic_predict", "print_mapping", "score_prob"]

type FloatArray = npt.NDArray[np.float64]
type Pairs = Iterable[Sequence[float]] | npt.NDArray[Any]


def isotonic_fit(
    scores: npt.NDArray[Any], y: npt.NDArray[Any], sample_weight: npt.NDArray[Any] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Fit an increasing map by isotonic regression.

    Equal scores are pooled by their weighted mean before the regression.

    Parameters
    ----------
    scores : ndarray of shape (n,), finite
        Scores, in any order.
    y : ndarray of shape (n,), finite
        Responses; 0 and 1 for outcomes.
    sample_weight : ndarray of shape (n,), finite, >= 0, default None
        Weight of each row; a row of weight zero is as good as absent. None gives every row the weight 1.

    Returns
    -------
    knots : ndarray of shape (k,), strictly increasing
        Lowest and highest score of every block (one knot where these are the same score).
    values : ndarray of shape (k,), non-decreasing, within [min(y), max(y)]
        Value of the map at each knot.

    Raises
    ------
    ValueError
        If no row has a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> knots, values = isotonic_fit(np.array([0.1, 0.3, 0.3, 0.6, 0.9]), np.array([0, 1, 0, 0, 1]))
    >>> knots
    array([0.1, 0.3, 0.6, 0.9])
    >>> values.round(3)
    array([0.   , 0.333, 0.333, 1.   ])
    """
    x, response = np.asarray(scores, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if w is not None and not (present := w > 0).all():
        x, response, w = x[present], response[present], w[present]
    if x.size == 0:
        raise ValueError(
            "isotonic regression needs at least one row of positive weight, got none. Check sample_weight."
        )

    order = np.argsort(x)  # not stable, and need not be: equal scores are pooled
    x = x[order]
    first = np.flatnonzero(np.concatenate(([True], x[1:] != x[:-1])))
    if w is None:
        weight = np.diff(first, append=x.size)
        total = np.add.reduceat(response[order], first)
    else:
        weight = np.add.reduceat(w[order], first)
        total = np.add.reduceat((w * response)[order], first)

    edges, means = _pool(total, weight)
    lowest, highest = edges[:-1], edges[1:] - 1
    is_knot = np.zeros(first.size, dtype=bool)
    is_knot[lowest] = is_knot[highest] = True
    # Rounding can take a weighted mean out of the range of y.
    values = np.repeat(np.clip(means, response.min(), response.max()), 1 + (highest > lowest))
    return x[first[is_knot]], values


def isotonic_predict(knots: FloatArray, values: FloatArray, scores: npt.NDArray[Any]) -> FloatArray:
    """Evaluate the map of `isotonic_fit`: linear between knots, constant outside them.

    Parameters
    ----------
    knots : ndarray of shape (k,), finite, strictly increasing
        First result of `isotonic_fit`.
    values : ndarray of shape (k,), finite, non-decreasing
        Second result of `isotonic_fit`.
    scores : ndarray of any shape, real or infinite, not NaN
        Scores to map.

    Returns
    -------
    ndarray of the shape of scores, within [values[0], values[-1]]
        Value of the map; non-decreasing in the score, and equal to `values` at the knots.

    Examples
    --------
    >>> import numpy as np
    >>> knots, values = isotonic_fit(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 0, 1, 1]))
    >>> isotonic_predict(knots, values, np.array([0.1, 0.2, 0.5, 0.8, 0.95]))
    array([0. , 0. , 0.5, 1. , 1. ])
    """
    s = np.clip(np.asarray(scores, dtype=np.float64), knots[0], knots[-1])
    if knots[-1] / 2 - knots[0] / 2 > np.finfo(np.float64).max / 2:  # a gap could overflow
        knots, s = knots / 2, s / 2
    left = np.searchsorted(knots, s, side="right") - 1
    right = np.minimum(left + 1, knots.size - 1)
    # The position within a gap is in [0, 1) however small the gap; a slope would overflow for denormal gaps.
    gap = knots[right] - knots[left]
    position = np.divide(s - knots[left], gap, out=np.zeros_like(gap), where=gap > 0)
    low, high = values[left], values[right]
    return np.minimum(low + position * (high - low), high)


def calibrate(points: Pairs, already_sorted: bool = False) -> list[tuple[float, float]]:
    """Map classifier scores to probabilities as the Perl function `AI::Calibrate::calibrate` does.

    Parameters
    ----------
    points : iterable of (score, class) pairs, or ndarray of shape (n, 2)
        Score (real or infinite; larger means more positive) and class (0 or 1) of each case; n may be 0.
    already_sorted : bool, default False
        True takes the points in the order given, which must then be that of descending scores (not checked).

    Returns
    -------
    list of (threshold, probability) tuples
        In descending order of both: a score at or above `threshold`, and below the threshold before it, has
        `probability` in (0, 1]; a score below the last threshold has probability 0.

    Raises
    ------
    ValueError
        If a point is not a pair, a score is NaN, or a class is neither 0 nor 1.

    See Also
    --------
    isotonic_fit : Pools equal scores, takes weights, interpolates.

    Notes
    -----
    The Perl code, not its manual, is followed where the two differ:

    - A threshold is the lowest score of its block. The manual's example lists the highest (0.7 -> 3/4 where
      the code returns 0.5 -> 3/4), which would send the rest of a block to the probability of the next one.
    - A last block of probability 0 has no row: the code compares it with a final entry (-1e10, 0) that is
      never returned. The manual's row 0.02 -> 0 does not exist, and scores below -1e10 are handled as any
      others.
    - The manual's reading of its own table names 3/4 where the table has 1/2 and 1/3.
    - The manual gives the time as O(n^2); the worst case of the code (zeros above ones) is O(n^3). Here it is
      linear after the sort.

    Points are pooled one by one after a stable sort, so equal scores stay apart and their order matters:
    [(0.8, 0), (0.8, 1)] gives [(0.8, 0.5)], but [(0.8, 1), (0.8, 0)] gives [(0.8, 1.0)]. A threshold can then
    appear twice, and `score_prob` returns the first. `isotonic_fit` does not depend on the order.

    The code averages step by step over partly pooled blocks. In exact arithmetic this is isotonic regression:
    if x > b joins a block of mean b, the mean of x and any part of the block is above b, so the loop goes on
    until the block is whole. Its rounding errors (about 1e-14) show in one place: neighbouring blocks of the
    same mean can come out as separate rows whose probabilities differ in the last digits, which moves no
    look-up by more. Here they are always one row, with the lowest threshold, and every probability is a
    ratio of counts, correctly rounded.

    References
    ----------
    Fawcett (2012), AI::Calibrate 1.5, CPAN.
    Fawcett & Niculescu-Mizil (2007), PAV and the ROC convex hull, Machine Learning 68(1), Table 1.

    Examples
    --------
    >>> calibrate([(0.9, 1), (0.8, 1), (0.7, 0), (0.6, 1), (0.2, 0)])
    [(0.8, 1.0), (0.6, 0.5)]
    """
    scores, classes = _pairs(points, "points", "score", "class").T
    _refuse(np.isnan(scores), scores, "scores", "be numbers", "Remove these points.")
    _refuse((classes != 0) & (classes != 1), classes, "classes", "be 0 or 1", "Code the positive class as 1.")
    if scores.size == 0:
        return []
    if not already_sorted:
        order = np.argsort(-scores, kind="stable")
        scores, classes = scores[order], classes[order]

    ascending, y = scores[::-1], classes[::-1]
    edges, probabilities = _pool(y, np.ones(y.size, dtype=np.int64))
    thresholds = ascending[edges[:-1]]
    emitted = probabilities > 0
    return list(zip(thresholds[emitted][::-1].tolist(), probabilities[emitted][::-1].tolist(), strict=True))


@overload
def score_prob(mapping: Pairs, score: float) -> float: ...
@overload
def score_prob(mapping: Pairs, score: Sequence[float] | npt.NDArray[Any]) -> FloatArray: ...
def score_prob(mapping: Pairs, score: float | Sequence[float] | npt.NDArray[Any]) -> float | FloatArray:
    """Look up the probability of a score in the mapping that `calibrate` returned.

    Parameters
    ----------
    mapping : iterable of (threshold, probability) pairs
        Result of `calibrate`; may be empty.
    score : float or array_like of any shape, real or infinite
        Score or scores to look up.

    Returns
    -------
    float or ndarray of the shape of score, in [0, 1]
        Probability of the first row whose threshold is at or below the score, and 0 where there is none.

    Raises
    ------
    ValueError
        If a row of the mapping is not a pair, or a score is NaN (for which the Perl code returns 0).

    Examples
    --------
    >>> mapping = calibrate([(0.9, 1), (0.8, 1), (0.7, 0), (0.6, 1), (0.2, 0)])
    >>> score_prob(mapping, 0.75)
    0.5
    >>> score_prob(mapping, [100.0, 0.8, 0.6, 0.59])
    array([1. , 1. , 0.5, 0. ])
    """
    thresholds, probabilities = _pairs(mapping, "mapping", "threshold", "probability").T
    s = np.asarray(score, dtype=np.float64)
    _refuse(np.isnan(s).ravel(), s.ravel(), "scores", "be numbers", "Remove these scores.")
    # The running minimum makes "first row at or below" a binary search for any order of the rows.
    row = np.searchsorted(-np.minimum.accumulate(thresholds), -s)
    found = np.append(probabilities, 0.0)[row]
    return float(found) if s.ndim == 0 else found


def print_mapping(mapping: Pairs, file: TextIO | None = None) -> None:
    """Print a mapping, one line per range of scores, in the format of the Perl function.

    Parameters
    ----------
    mapping : iterable of (threshold, probability) pairs
        Result of `calibrate`; may be empty.
    file : text file, default None
        Where to print; None prints to standard output.

    Raises
    ------
    ValueError
        If a row of the mapping is not a pair.

    Notes
    -----
    As in the Perl code, the upper bound on the first line is always 1.000, though higher scores belong to it
    too, and a last line down to 0.000 with probability 0 follows unless the last threshold is exactly 0, even
    where that threshold is negative. For scores in [0, 1] the lines mean what they say. The manual's sample
    has two decimals and rows of probability 0; the code prints three, and `calibrate` returns no such rows.

    Examples
    --------
    >>> print_mapping(calibrate([(0.9, 1), (0.8, 1), (0.7, 0), (0.6, 1), (0.2, 0)]))
    1.000 > SCORE >= 0.800     prob = 1.000
    0.800 > SCORE >= 0.600     prob = 0.500
    0.600 > SCORE >= 0.000     prob = 0.000
    """
    bound = 1.0
    rows = _pairs(mapping, "mapping", "threshold", "probability").tolist()
    for threshold, probability in rows:
        print(f"{bound:.3f} > SCORE >= {threshold:.3f}     prob = {probability:.3f}", file=file)
        bound = threshold
    if bound != 0:
        print(f"{bound:.3f} > SCORE >= {0:.3f}     prob = {0:.3f}", file=file)


def _pool(total: FloatArray, weight: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Pool adjacent violators of total / weight into k blocks: k + 1 edges, k strictly increasing means."""
    blocks = isotonic_regression(total / weight, weights=weight).blocks
    # One division per block: counts give correctly rounded means, so equal means come out equal.
    # With other weights rounding can make neighbours decrease, which the maximum mends.
    means = np.maximum.accumulate(np.add.reduceat(total, blocks[:-1]) / np.add.reduceat(weight, blocks[:-1]))
    starts = np.concatenate(([True], means[1:] > means[:-1]))
    return np.append(blocks[:-1][starts], blocks[-1]), means[starts]


def _pairs(rows: Pairs, what: str, first: str, second: str) -> FloatArray:
    """Turn an iterable of pairs into an array of shape (n, 2)."""
    try:
        array = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} must be ({first}, {second}) pairs of numbers, which could not be read ({error}). "
            "Pass for example zip(scores, y)."
        ) from error
    if array.ndim == 1 and array.size == 0:
        return array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"{what} must be ({first}, {second}) pairs, an array of shape (n, 2); got shape {array.shape}. "
            "Pass for example zip(scores, y)."
        )
    return array


def _refuse(bad: npt.NDArray[np.bool_], values: FloatArray, what: str, rule: str, remedy: str) -> None:
    """Raise a ValueError that counts the bad values and shows the first one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{what} must {rule}; {int(bad.sum())} of {bad.size} are not, "
            f"first {values[row].item()!r} at row {row}. {remedy}"
        )
