"""The smallest number of cases at which intervals are narrow enough, from simulated widths.

Of the widths at each size the quantile `assurance` is taken: the smallest that so large a share does not exceed. Its
logarithm falls with log n; isotonic regression makes it monotone, straight lines go between the sizes, and the answer
is where they reach the wanted width.
"""

import math
from collections.abc import Sequence

import numpy as np

from bayescal.pav import isotonic_fit

RESAMPLES, RESAMPLE_LEVEL = 500, 0.9  # of the Monte Carlo interval


def needed_cases(
    sizes: Sequence[int], widths: np.ndarray, width: float, assurance: float, rng: np.random.Generator
) -> tuple[int | None, tuple[int | None, int | None]]:
    """Smallest number of cases, and its Monte Carlo interval, from widths ``(sizes, repeats)``."""
    log_n = np.log(sizes)

    def crossing(values: np.ndarray) -> float:
        level = np.quantile(values, assurance, axis=1, method="inverted_cdf")
        knots, fitted = isotonic_fit(log_n, -np.log(np.maximum(level, np.finfo(float).tiny)))
        target = -math.log(width)
        k = int(np.searchsorted(fitted, target))
        if k == 0 or k == len(fitted):
            return float(sizes[0]) if k == 0 else math.inf
        step = (target - fitted[k - 1]) / (fitted[k] - fitted[k - 1])
        return math.exp(knots[k - 1] + step * (knots[k] - knots[k - 1]))

    def whole(n: float) -> int | None:
        return None if n == math.inf else math.ceil(n * (1 - 1e-12))

    repeats = widths.shape[1]
    again = np.sort([crossing(widths[:, rng.integers(repeats, size=repeats)]) for _ in range(RESAMPLES)])
    low, high = (again[round(end * (RESAMPLES - 1))] for end in (0.5 - RESAMPLE_LEVEL / 2, 0.5 + RESAMPLE_LEVEL / 2))
    return whole(crossing(widths)), (whole(low), whole(high))
