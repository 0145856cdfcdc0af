"""Reduce draws of probabilities to means and intervals, in blocks of bounded memory."""

from collections.abc import Callable

import numpy as np

from bayescal.calibrators.scale import distinct_rows

BLOCK = 2**22  # numbers of one block of draws x rows (32 MB)
EXACT_LIMIT = 2**14  # distinct scores up to which every one is evaluated
FIRST_NODES = 2**9 + 1  # of more distinct scores, those that are evaluated before gaps are halved
TOLERANCE = 1e-4  # of a mean or an end of an interval


def interval(draws: np.ndarray, ci_prob: float, ci_kind: str) -> np.ndarray:
    """Lower and upper ends over the first axis, ``(2, m, ...)``: equal tails, or the shortest interval."""
    if ci_kind == "eti":
        tail = 0.5 * (1 - ci_prob)
        return np.quantile(draws, [tail, 1 - tail], axis=0)
    ordered = np.sort(draws, axis=0)
    inside = max(1, int(np.ceil(ci_prob * len(ordered))))
    widths = ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]
    start = np.argmin(widths, axis=0)[None]
    return np.concatenate([np.take_along_axis(ordered, end, axis=0) for end in (start, start + inside - 1)])


def summarise_in_blocks(
    scores: np.ndarray,
    draws_at: Callable[[np.ndarray], np.ndarray],
    summary: Callable[[np.ndarray], np.ndarray],
    tolerance: float | None,
) -> np.ndarray:
    """Summarise draws at scores ``(m,)`` or ``(m, M)`` by `summary`: ``(draws, b) -> (k, b)``; ``(k, m)`` in [0, 1].

    Equal rows are computed once. Beyond `EXACT_LIMIT` distinct scores of one classifier, gaps between computed ones
    are halved until no row of the summary changes by more than `tolerance` across a gap, and filled by straight lines.
    Where every draw is nondecreasing in the score, so are means, quantiles and shares of draws above a threshold: lines
    between the ends of a gap are off by less than `tolerance`, and not at all where it is 0. None computes every
    distinct score, for curves that may fall, and so it is for several classifiers.
    """
    distinct, inverse = distinct_rows(scores)
    if tolerance is None or len(distinct) <= EXACT_LIMIT or distinct.ndim == 2:
        return summarise_rows(distinct, draws_at, summary)[:, inverse]
    last = len(distinct) - 1
    nodes = np.unique(np.linspace(0, last, FIRST_NODES).astype(int))
    table = summarise_rows(distinct[nodes], draws_at, summary)
    while True:
        changes = (np.abs(np.diff(table, axis=1)) > tolerance).any(axis=0)
        gaps = np.flatnonzero(changes & (np.diff(nodes) > 1))
        if not gaps.size:
            break
        between = (nodes[gaps] + nodes[gaps + 1]) // 2
        table = np.insert(table, gaps + 1, summarise_rows(distinct[between], draws_at, summary), axis=1)
        nodes = np.insert(nodes, gaps + 1, between)
    left = np.searchsorted(nodes, np.arange(last + 1), side="right") - 1
    right = np.minimum(left + 1, len(nodes) - 1)
    halves = distinct / 2  # a gap between scores of either sign could overflow
    start, gap = halves[nodes[left]], halves[nodes[right]] - halves[nodes[left]]
    position = np.divide(halves - start, gap, out=np.zeros(last + 1), where=gap > 0)
    lines = table[:, left] + position * (table[:, right] - table[:, left])
    return np.clip(lines, 0.0, 1.0)[:, inverse]


def summarise_rows(
    points: np.ndarray,
    draws_at: Callable[[np.ndarray], np.ndarray],
    summary: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Summarise draws at every row by `summary`: ``(draws, b, ...) -> (k, b, ...)``; ``(k, m, ...)`` in [0, 1]."""
    drawn = draws_at(points[:1])
    first = summary(drawn)
    size = max(1, BLOCK // max(1, drawn.size))
    table = np.empty((len(first), len(points), *first.shape[2:]))
    for start in range(0, len(points), size):
        table[:, start : start + size] = summary(draws_at(points[start : start + size]))
    return np.clip(table, 0.0, 1.0)
