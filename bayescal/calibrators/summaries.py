"""Reduce draws of probabilities to means and intervals, in blocks of bounded memory."""

from collections.abc import Callable

import numpy as np

BLOCK = 2**22  # numbers of one block of draws x rows (32 MB)
EXACT_LIMIT = 2**14  # distinct scores up to which every one is evaluated


def interval(draws: np.ndarray, ci_prob: float, ci_kind: str) -> np.ndarray:
    """Lower and upper ends over the first axis, ``(2, m)``: equal tails, or the shortest interval."""
    if ci_kind == "eti":
        tail = 0.5 * (1 - ci_prob)
        return np.quantile(draws, [tail, 1 - tail], axis=0)
    ordered = np.sort(draws, axis=0)
    inside = max(1, int(np.ceil(ci_prob * len(ordered))))
    widths = ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]
    start = np.argmin(widths, axis=0)
    columns = np.arange(ordered.shape[1])
    return np.stack([ordered[start, columns], ordered[start + inside - 1, columns]])


def summarise_in_blocks(
    scores: np.ndarray,
    draws_at: Callable[[np.ndarray], np.ndarray],
    lattice: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]] | None,
    summary: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Summarise draws at scores ``(m,)`` by `summary`: ``(draws, b) -> (k, b)``; returns ``(k, m)`` in [0, 1].

    Equal scores are computed once. Beyond `EXACT_LIMIT` distinct scores the summary is computed at the nodes of a fixed
    lattice of working coordinates and interpolated linearly. Means are off by less than 1e-6 and ends of intervals by
    less than 1e-4; an end that falls into the gap between members of an average that disagree, where any value is as
    good, by less than 1e-3.
    """
    distinct, inverse = np.unique(scores, return_inverse=True)
    if lattice is not None and len(distinct) > EXACT_LIMIT:
        coordinate, nodes, at_nodes = lattice(distinct)
        if len(nodes) < len(distinct):
            table = _in_blocks(nodes, at_nodes, summary)
            return np.stack([np.interp(coordinate, nodes, row) for row in table])[:, inverse]
    return _in_blocks(distinct, draws_at, summary)[:, inverse]


def _in_blocks(
    points: np.ndarray,
    draws_at: Callable[[np.ndarray], np.ndarray],
    summary: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    first = summary(draws_at(points[:1]))
    size = max(1, BLOCK // draws_at(points[:1]).shape[0])
    table = np.empty((len(first), len(points)))
    for start in range(0, len(points), size):
        table[:, start : start + size] = summary(draws_at(points[start : start + size]))
    return np.clip(table, 0.0, 1.0)
