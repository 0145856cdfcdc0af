"""Probabilities of the cones under a normal law with covariance sd^2 I: a one-dimensional integral for all classes.

    u_y = p_y . z,      z ~ Normal(m, sd^2 I),      tau^2 = sd^2 n / (n - 1),      a_y = p_y . m / tau
    P(cone_y) = integral of phi(v - a_y) prod_{k != y} Phi(v - a_k) over v

Cov(u_y, u_k) = sd^2 p_y . p_k = tau^2 (1{y = k} - 1 / n), which is the covariance of v_y - mean(v) for independent
v_y ~ Normal(p_y . m, tau^2). cone_y says u_y >= u_k for all k, and a common shift changes none of that, so P(cone_y) is
the probability that v_y is the largest of independent normal variables; of two, Phi((a_y - a_k) / sqrt 2).

The trapezoid rule converges exponentially here. Its grid ends 6.4 above the largest a; below, it ends where the
integrand of the least likely class has vanished, so that logs of probabilities down to 1e-30 are right, too.
"""

import math

import numba
import numpy as np
from scipy.special import ndtr

STEPS = (
    (4, 0.6),
    (5, 0.5),
    (10, 0.4),
    (50, 0.3),
    (200, 0.25),
    (np.inf, 0.2),
)  # by number of classes; errors below 1e-8
DEEPEST, FINENESS = 15, 64  # of the table of Phi: to 15 below 0, 64 nodes a unit; errors of 2e-10, and 1e-6 in logs
NARROWEST, WIDEST = 6.4, 13.5  # reach of the grid above and below the largest a
FARTHEST = 30.0  # of an a below the largest: probabilities of about 1e-100 and less are told apart no more
SMALLEST = 1e-300  # no probability is 0, since its log may be taken


def cone_probabilities(mean: np.ndarray, sd: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Probabilities ``(m, n)``, each row summing to 1, of the cones under Normal(mean, sd^2 I).

    Parameters
    ----------
    mean
        ``(m, n - 1)``.
    sd
        ``(m,)``, at least 0; where it is 0, the first of the nearest vertices has probability 1.
    vertices
        ``(n, n - 1)``, of `simplex_vertices`.
    """
    n = len(vertices)
    heights = mean @ vertices.T
    below = heights - heights.max(axis=1, keepdims=True)
    tau = np.sqrt(n / (n - 1)) * sd[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a = np.maximum(below / tau, -FARTHEST)
    certain = ~(sd > 0)
    if certain.any():
        first = below[certain].argmax(axis=1)
        a[certain] = -FARTHEST
        a[np.flatnonzero(certain), first] = 0.0
    if n == 2:
        upper = ndtr((a[:, 1] - a[:, 0]) / np.sqrt(2))
        return np.stack([ndtr((a[:, 0] - a[:, 1]) / np.sqrt(2)), upper], axis=1)
    return _integrate(np.ascontiguousarray(a), integration_step(n), TABLE)


def integration_step(n_classes: int) -> float:
    """Distance of the integral's nodes."""
    return next(step for most, step in STEPS if n_classes <= most)


@numba.njit(cache=True, error_model="numpy")
def normal_at(x: float, table: np.ndarray) -> tuple[float, float]:
    """Density of the normal law at x, and its distribution function at -abs(x)."""
    place = (DEEPEST - abs(x)) * FINENESS
    if not place > 0.0:
        return 0.0, 0.0
    k = min(int(place), len(table) - 2)
    r = place - k
    # cubic with values and slopes of the table at both ends
    w0, w1 = r * r * (3.0 - 2.0 * r), r * (1.0 - r) * (1.0 - r) / FINENESS
    w2 = r * r * (r - 1.0) / FINENESS
    below = table[k, 0] + w0 * (table[k + 1, 0] - table[k, 0]) + w1 * table[k, 1] + w2 * table[k + 1, 1]
    density = table[k, 1] + w0 * (table[k + 1, 1] - table[k, 1]) + w1 * table[k, 2] + w2 * table[k + 1, 2]
    return density, below


@numba.njit(cache=True, error_model="numpy")
def _integrate(a: np.ndarray, step: float, table: np.ndarray) -> np.ndarray:
    """The integral for rows ``(m, n)`` of a whose largest entry is 0."""
    rows, n = a.shape
    out = np.zeros((rows, n))
    share, before, density = np.empty(n), np.empty(n), np.empty(n)
    for i in range(rows):
        lowest = 0.0
        for y in range(n):
            lowest = min(lowest, a[i, y])
        start = min(-NARROWEST, max(0.5 * lowest - 5.0, -WIDEST))
        nodes = math.ceil((NARROWEST - start) / step) + 1
        for t in range(nodes):
            v = NARROWEST - t * step
            product = 1.0
            for y in range(n):  # of the classes before y ..
                x = v - a[i, y]
                density[y], below = normal_at(x, table)
                share[y] = 1.0 - below if x > 0 else below
                before[y] = product
                product *= share[y]
            product = 1.0
            for y in range(n - 1, -1, -1):  # .. times those after it
                out[i, y] += density[y] * before[y] * product
                product *= share[y]
        total = 0.0
        for y in range(n):
            total += out[i, y]
        for y in range(n):
            out[i, y] = max(out[i, y] / total, SMALLEST)
    return out


def _normal_table() -> np.ndarray:
    """Phi, its density and the density's slope ``(nodes, 3)`` from -DEEPEST to 0."""
    x = np.arange(-DEEPEST * FINENESS, 1) / FINENESS
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    return np.column_stack([ndtr(x), density, -x * density])


TABLE = _normal_table()


def sampled_cone_probabilities(mean: np.ndarray, sd: np.ndarray, vertices: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Shares ``(m, n)`` of latents mean + sd * draws in each cone, where sd ``(m, n - 1)`` differs from axis to axis.

    `draws` ``(S, n - 1)`` are standard normal, the same for every row. Half a draw is added to every cone.
    """
    out = np.empty((len(mean), len(vertices)))
    for i in range(len(mean)):
        heights = (mean[i] + sd[i] * draws) @ vertices.T
        out[i] = np.bincount(heights.argmax(axis=1), minlength=len(vertices)) + 0.5
    return out / out.sum(axis=1, keepdims=True)
