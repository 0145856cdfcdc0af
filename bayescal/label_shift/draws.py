"""The cut posterior: draws of the calibrator, of the source proportions given each, and of the target's given both.

    calibrator  ~  its posterior, given the labelled source cases
    p           =  sum_r v_r p(x_r),      v ~ Dirichlet(1/2, .., 1/2) over the source cases
    q           ~  Dirichlet(a) x prod_k sum_i q_i p_i(x_k) / p_i

p_i is the mean of the calibrated probability over the source (Alexandari, Kundaje & Shrikumar 2020, Lemma A). It is
known from few cases only: with their plain mean, intervals of the weights q / p covered 42 to 65 % of a nominal 90 %.
The Bayesian bootstrap has v ~ Dirichlet(1, .., 1). Its intervals still covered 81 to 96 % only, for a calibrator of two
or a dozen parameters is never quite right; with half a case for each, it was 88 to 98 %, at 1.2 times the width (both
on the settings of ``tests/studies/label_shift_coverage.py`` that the half was chosen on).

All arrays of draws begin with one axis of all draws.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from bayescal.inference.sampling import one_blas_thread
from bayescal.label_shift.posterior import draw_proportions, modes

CASE_WEIGHT = 0.5  # that a source case has in the bootstrap
BLOCK = 2**20  # numbers of draws x cases x classes that are worked on at a time (8 MB)
STARTS = 8  # draws whose mean ratios the search for modes starts from
GROUPS = 2000  # that many cases of two classes are put into, by their log-odds
MANY = 20_000  # cases of two classes, beyond which they are put into groups
GROUP_ERROR = 0.05  # largest distance of a case's log-odds from those of its group, in any draw


@dataclass(frozen=True)
class Target:
    """Draws of the proportions given the target, and how the sampler did."""

    q: np.ndarray  # (S, C)
    accepted: np.ndarray  # (S,) share of accepted transitions
    ignored: int  # cases that no class with a source proportion explains


def draw_source(proba_draws: Callable[[slice], np.ndarray], n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Bootstrap means of calibrated probabilities over n source cases, one for each draw ``(S, C)``.

    ``proba_draws(rows)`` gives the probabilities of some cases ``(S, rows, C)``.
    """
    weights = rng.standard_gamma(CASE_WEIGHT, (size, n)) + 1e-300
    weights /= weights.sum(axis=1, keepdims=True)
    total = 0.0
    for rows in slices(n, size):
        total = total + (weights[:, None, rows] @ proba_draws(rows))[:, 0]
    return np.asarray(total)


def draw_target(
    proba: Callable[[slice], np.ndarray],
    weight: np.ndarray,
    source: np.ndarray,
    concentration: np.ndarray,
    rng: np.random.Generator,
) -> Target:
    """Draw q for each draw of the calibrator and of p.

    Parameters
    ----------
    proba
        ``proba(draws)`` gives calibrated probabilities of the target cases ``(draws, N, C)``, in several threads.
    weight
        Cases that each row stands for, ``(N,)``.
    source
        Draws of p, ``(S, C)``. A class with p = 0 in any draw is left out, with q = 0.
    concentration
        a and the labels of other target cases, added up: ``(C,)``.
    rng
        Generator of all draws.
    """
    size, classes = source.shape
    kept = (source > 0).all(axis=0)
    shape = concentration[kept]

    def ratios(draws: slice) -> tuple[np.ndarray, np.ndarray]:
        """Ratios scaled to a largest entry of 1, and which cases have one above 0; the others say nothing."""
        block = proba(draws)
        block = (block if kept.all() else block[..., kept]) / source[draws][:, None, kept]
        largest = block.max(axis=2, keepdims=True)
        explained = largest[..., 0] > 0
        if not explained.all():
            block[~explained], largest[~explained] = 1.0, 1.0
        block /= largest
        return block, explained

    def work(job: tuple[slice, np.random.Generator]) -> tuple[np.ndarray, np.ndarray, int]:
        rows, explained = ratios(job[0])
        q, accepted = draw_proportions(rows, weight, shape, start, job[1])
        return q, accepted, int((weight * ~explained).sum(axis=1).max())

    with one_blas_thread():
        middle = np.mean([ratios(slice(s, s + 1))[0][0] for s in range(0, size, -(-size // STARTS))], axis=0)
        start = modes(middle[None], weight, shape, np.full(len(shape), 1 / len(shape)))[0]
        blocks = list(slices(size, middle.size))
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as pool:
            found = list(pool.map(work, zip(blocks, rng.spawn(len(blocks)), strict=True)))
    q = np.zeros((size, classes))
    q[:, kept] = np.concatenate([part[0] for part in found])
    return Target(q, np.concatenate([part[1] for part in found]), max(part[2] for part in found))


def score_log_odds(values: np.ndarray, score_kind: str) -> np.ndarray | None:
    """Log-odds ``(N,)`` of trusted scores ``(N,)`` or ``(N, 2)`` of two classes; None where there is no such column."""
    if values.ndim == 1:
        return logit(np.clip(values, 1e-15, 1 - 1e-15)) if score_kind == "proba" else values
    if values.shape[1] != 2 or score_kind == "raw":
        return None
    if score_kind == "logit":
        return values[:, 1] - values[:, 0]
    return np.diff(np.log(np.maximum(values, 1e-15)), axis=1)[:, 0]


def group_two(log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put cases with nearly the same log-odds ``(N,)`` into groups.

    Returns the group of each case ``(N,)``, the cases in each group, and the case of each that is next to its mean.
    Half of the groups are equally wide, half equally full; where neither cuts, cases stay together.
    """
    even = np.linspace(0, 1, GROUPS // 2)
    ends = np.quantile(log_odds, [0, 1])
    edges = np.union1d(ends[0] + even * (ends[1] - ends[0]), np.quantile(log_odds, even))
    group = np.unique(np.searchsorted(edges, log_odds), return_inverse=True)[1]
    weight = np.bincount(group).astype(float)
    mean = np.bincount(group, weights=log_odds) / weight
    order = np.lexsort((np.abs(log_odds - mean[group]), group))
    first = np.concatenate([[0], np.cumsum(weight.astype(int))[:-1]])
    return group, weight, order[first]


def slices(n: int, width: int) -> Iterator[slice]:
    """Cut n entries of `width` numbers each into blocks of about `BLOCK` numbers."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
