"""Bins of stated probabilities.

Every case is in one bin, equal probabilities share one, and a bin without a case is left out.
"""

from typing import NamedTuple

import numpy as np

from bayescal.validation import check_choice, check_count

STRATEGIES = ("uniform", "quantile")
EDGE = 5e-13  # p * n_bins this far below a whole number is that number: 0.6 * 10 may be 5.999...


class Bins(NamedTuple):
    """Bins that hold a case, in rising order, all ``(bins,)``."""

    cases: np.ndarray  # sum of the weights
    stated: np.ndarray  # mean probability
    observed: np.ndarray  # share of the outcomes


def check_settings(n_bins: int, strategy: str) -> None:
    check_count(n_bins, "n_bins")
    check_choice(strategy, STRATEGIES, "strategy")


def in_bins(proba: np.ndarray, outcome: np.ndarray, weight: np.ndarray | None, n_bins: int, strategy: str) -> Bins:
    """Bins that hold a case."""
    if strategy == "uniform":
        number = np.minimum((proba * n_bins + EDGE).astype(np.intp), n_bins - 1)
    else:
        number = np.searchsorted(_quantile_edges(proba, weight, n_bins), proba, side="left")
    cases = np.bincount(number, weights=weight, minlength=n_bins).astype(np.float64)
    stated = np.bincount(number, weights=proba if weight is None else weight * proba, minlength=n_bins)
    observed = np.bincount(number, weights=outcome if weight is None else weight * outcome, minlength=n_bins)
    used = cases > 0
    return Bins(cases[used], stated[used] / cases[used], observed[used] / cases[used])


def _quantile_edges(proba: np.ndarray, weight: np.ndarray | None, n_bins: int) -> np.ndarray:
    """For k = 1, ..., n_bins - 1 the smallest probability that k / n_bins of the cases do not exceed.

    An edge belongs to the bin on its left: a case's bin is that of the share of cases below it, rounded down.
    """
    if weight is None:
        # the smallest whole number of cases that is not below k n / n_bins
        rank = np.unique([-(-k * len(proba) // n_bins) - 1 for k in range(1, n_bins)]).astype(np.intp)
        return np.partition(proba, rank)[rank] if rank.size else np.empty(0)
    order = np.argsort(proba)
    reached = np.cumsum(weight[order])
    target = np.arange(1, n_bins) * (reached[-1] / n_bins)
    return proba[order][np.searchsorted(reached, target * (1.0 - 1e-12))]


def bin_errors(bins: Bins) -> np.ndarray:
    return np.abs(bins.observed - bins.stated)


def expected(bins: Bins) -> float:
    return float(bin_errors(bins) @ bins.cases / bins.cases.sum())


def maximum(bins: Bins) -> float:
    return float(bin_errors(bins).max())
