"""Whether outcomes contradict a calibration curve that rises with the forecast.

The cases are cut into bins of about equal numbers, in the order of the forecast. The statistic is twice the log
likelihood ratio of free shares of positives in the bins against shares that rise (pooled adjacent violators): 0 where
the shares rise, large where they fall. Its posterior predictive p-value compares it with that of outcomes replicated
from draws of a rising curve: Gelman, Meng & Stern (1996), section 2.
"""

import numpy as np
from scipy.special import xlogy

MOST_BINS = 10
CASES_PER_BIN = 10
SURPRISING = 0.01  # p-value below which a user is warned


def monotonicity_p_value(cases: np.ndarray, events: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> float:
    """Share of replicated outcomes whose shares fall as much as those seen, ``(m,)`` cases and q ``(draws, m)``.

    1 where there are too few cases for two bins. Cases of a bin are rounded to a whole number.
    """
    bins = int(np.clip(cases.sum() // CASES_PER_BIN, 1, MOST_BINS))
    group = ((np.cumsum(cases) - 0.5 * cases) * (bins / cases.sum())).astype(int)
    group = np.unique(group, return_inverse=True)[1]
    size = np.bincount(group, weights=cases)
    member = (np.arange(size.size) == group[:, None]) * (cases / size[group])[:, None]
    whole = np.maximum(1, np.round(size)).astype(np.int64)
    seen = np.bincount(group, weights=events) / size * whole
    replicated = rng.binomial(whole, np.clip(q @ member, 0.0, 1.0))
    statistic = _deviance_of_rise(np.vstack([seen, replicated]), whole)
    return float(np.mean(statistic[1:] >= statistic[0] - 1e-9))


def _deviance_of_rise(positives: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Statistic ``(r,)`` of positives ``(r, bins)`` among cases ``(bins,)``."""
    rising = rising_shares(positives, cases)
    free = positives / cases

    def likelihood(share: np.ndarray) -> np.ndarray:
        return (xlogy(positives, share) + xlogy(cases - positives, 1 - share)).sum(axis=1)

    return 2 * (likelihood(free) - likelihood(rising))


def rising_shares(positives: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Best rising shares ``(r, bins)``, by ``max over a <= k of min over b >= k`` of the shares of bins a to b."""
    before = np.concatenate([np.zeros((len(positives), 1)), np.cumsum(positives, axis=1)], axis=1)
    start = np.concatenate([[0.0], np.cumsum(cases)])
    bins = len(cases)
    best = np.full(positives.shape, -np.inf)
    for a in range(bins):
        shares = (before[:, a + 1 :] - before[:, [a]]) / (start[a + 1 :] - start[a])
        least = np.minimum.accumulate(shares[:, ::-1], axis=1)[:, ::-1]  # over b >= k, for k >= a
        best[:, a:] = np.maximum(best[:, a:], least)
    return np.clip(best, 0.0, 1.0)
