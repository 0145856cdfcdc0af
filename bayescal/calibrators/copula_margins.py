"""Densities of one classifier's scores within a class, on standardised log-odds z in [-7, 7].

    f(z) = b(z) exp(theta_1 phi_1(z) + ... + theta_K phi_K(z)) / Z(theta),      b = p (1 - p),   p = 1 / (1 + exp(-z))

An exponential family around the logistic density b, under which p is uniform. The terms are

    log p, log(1 - p)            exponents of the two tails: with these alone p is a beta variable
    log^2 p, log^2(1 - p)        their curvatures: normal, lighter and heavier tails
    cos(k pi a), k = 1 .. 8      bends in between, a = 2 asin(sqrt(p)) / pi: Chebyshev polynomials, finest at both ends

so that the sums of the terms over the cases of a class are all that its margin needs of the data, however many they
are. Z and the distribution function are trapezoid sums on a fixed grid, which is finest at both ends, where a density
with a positive curvature piles up. Kooperberg & Stone (1991) fit such log-linear
densities with splines; that the ratio of two of them is one again makes them a density-ratio model, Qin & Zhang (1997).
"""

import numpy as np
from scipy.special import logsumexp

from bayescal.calibrators.scale import Scale

LIMIT = 7.0  # of z; scores beyond stand at the limit
BENDS = 8
TAIL_TERMS = 4
TERMS = TAIL_TERMS + BENDS
GRID = LIMIT * np.sin(np.linspace(-0.5, 0.5, 161) * np.pi)
WIDTH = np.diff(GRID)
LOGISTIC_SD = float(np.pi / np.sqrt(3))


def learn_spread(x: np.ndarray, weight: np.ndarray) -> Scale:
    """Mean and spread of log-odds ``(m, M)``, column by column; a column without spread has spread 1."""
    mean = np.average(x, axis=0, weights=weight)
    sd = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    return {"margin_mean": mean, "margin_sd": np.where(sd > 1e-9 * (1 + np.abs(mean)), sd, 1.0)}


def standardise(x: np.ndarray, scale: Scale) -> np.ndarray:
    """Log-odds ``(m, M)`` as z, of mean 0 and the standard deviation of a logistic variable."""
    return np.clip((x - scale["margin_mean"]) / scale["margin_sd"] * LOGISTIC_SD, -LIMIT, LIMIT)


def terms(z: np.ndarray) -> np.ndarray:
    """The terms phi ``(..., K)`` at z; those of the tails have mean 0 under the logistic density, or nearly so."""
    low, high = -np.logaddexp(0, -z), -np.logaddexp(0, z)
    angle = 2 * np.arctan(np.exp(z / 2))
    bends = np.cos(angle[..., None] * np.arange(1, BENDS + 1))
    return np.concatenate([np.stack([low + 1, high + 1, low**2 - 2, high**2 - 2], axis=-1), bends], axis=-1)


_TERM = np.arange(TERMS)
IS_EXPONENT = (_TERM < 2).astype(float)
IS_CURVATURE = ((_TERM >= 2) & (_TERM < TAIL_TERMS)).astype(float)
BEND_DECAY = np.where(
    _TERM >= TAIL_TERMS, 1 / np.maximum(_TERM - TAIL_TERMS + 1, 1), 0.0
)  # standard deviation of bend k: 1 / k
TILT = np.zeros((2, TERMS))  # where the prior mean of the tilt stands
TILT[1, :2] = 1.0, -1.0
GRID_TERMS = terms(GRID)
LOG_LOGISTIC = -np.logaddexp(0, -GRID) - np.logaddexp(0, GRID)
LOG_WEIGHT = LOG_LOGISTIC + np.log(np.convolve(WIDTH, [0.5, 0.5]))  # trapezoid rule times b


def log_density_and_distribution(theta: np.ndarray, z: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log f(z) / b(z) and F(z), each ``(S, m)``, of draws theta ``(S, K)`` at z ``(m,)`` with terms phi ``(m, K)``."""
    exponent = theta @ GRID_TERMS.T
    log_z = logsumexp(exponent + LOG_WEIGHT, axis=1, keepdims=True)
    f = np.exp(exponent + LOG_LOGISTIC - log_z)
    cumulative = np.zeros_like(f)
    np.cumsum((f[:, 1:] + f[:, :-1]) * (WIDTH / 2), axis=1, out=cumulative[:, 1:])
    cell = np.clip(np.searchsorted(GRID, z, side="right") - 1, 0, len(WIDTH) - 1)
    share = (z - GRID[cell]) / WIDTH[cell]
    distribution = cumulative[:, cell] * (1 - share) + cumulative[:, cell + 1] * share
    return theta @ phi.T - log_z, distribution
