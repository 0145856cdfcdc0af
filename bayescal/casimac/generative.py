"""The generative variant: latents are unknown, and a label says no more than the cone that the noisy latent lies in.

    f_j ~ Normal(0, amplitude^2 K),      j = 1 .. q,      K = correlation matrix of length-scale l, plus 1e-6 I
    P(y_i = y) = P(f_i + e in cone_y),      e ~ Normal(0, I)
               = integral of phi(v) prod_{k != y} Phi(v + a_iy - a_ik) over v,      a_iy = p_y . f_i / tau
    log l = c + s t,      t ~ Normal(0, 1),      amplitude ~ HalfNormal(A),      f = amplitude L(t) r,      K = L L'

tau^2 = n / (n - 1) as in `cones.py`. It is the model of `models/casimac_generative.py`. NUTS samples (t, log amplitude,
r). Cholesky factors L are computed at length-scales of a grid and interpolated by cubic splines in t, so that a
gradient costs some n^2 multiplications and n C terms at each node of the integral; `interpolation_error` is the largest
difference found between K and the interpolant's L L' at a sample of draws. Beyond the grid L stays what it is at its
end.

Of new cases, given l, amplitude and f: mean amplitude k*' L'^-1 r and what is left open, amplitude^2 (1 + 1e-6 -
|L^-1 k*|^2). A draw of the probability is the mass of the cone under Normal(f*, I), where f* = mean + sqrt(left open)
xi with a standard normal xi, the same at all rows; averaged over xi, it is the mass under Normal(mean, (1 + left
open) I).

Rasmussen & Williams (2006), "Gaussian processes for machine learning", eqs. 2.25, 2.26, 3.9.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

from bayescal.casimac.cones import TABLE, cone_probabilities, integration_step, normal_at
from bayescal.casimac.latent import KERNELS
from bayescal.casimac.prediction import BLOCK, KEPT
from bayescal.casimac.settings import GenerativeCASIMACPriors
from bayescal.inference import sampling
from bayescal.inference.convergence import assess_convergence

if TYPE_CHECKING:
    import pymc as pm

VERSION = 1  # of `log_density`; PyTensor's disk cache holds compiled ones by it
JITTER = 1e-6  # on the diagonal of K
REACH = 3.5  # of t: prior standard deviations to both sides
FINENESS = 0.1  # of the grid, in log l
WIDE = 6.0  # the integral's reach about its middle
FARTHEST = 30.0  # of a label's a below the largest: the density ends there
CHECKED = 4  # draws at which the interpolant is compared with K


@dataclass(frozen=True)
class Target:
    """What `log_density` reads."""

    factors: np.ndarray  # (nodes, n (n + 1) / 2), lower triangles of L, row by row
    slopes: np.ndarray  # their derivatives in t
    codes: np.ndarray  # (n,) column numbers of the labels
    directions: np.ndarray  # (C, q), p_y / tau
    table: np.ndarray  # of the normal law
    numbers: np.ndarray  # reach of t, the amplitude's scale, the integral's step


@dataclass(frozen=True)
class Process:
    """The prior of the latents of the training cases."""

    cases: np.ndarray  # (n, d)
    kernel: str
    priors: GenerativeCASIMACPriors

    def center(self) -> float:
        """c: the log of the median distance between cases."""
        middle = float(np.median(cdist(self.cases, self.cases)[np.triu_indices(len(self.cases), 1)]))
        return float(np.log(middle)) if middle > 0 else 0.0

    def correlation_to(self, rows: np.ndarray, length: float) -> np.ndarray:
        """Correlations ``(m, n)`` of rows ``(m, d)`` with the training cases."""
        return KERNELS[self.kernel](cdist(rows, self.cases) / length)

    def factor(self, length: float) -> np.ndarray:
        """L ``(n, n)``."""
        k = self.correlation_to(self.cases, length)
        k[np.diag_indices(len(k))] += JITTER
        return cholesky(k, lower=True)

    def target(self, codes: np.ndarray, vertices: np.ndarray) -> Target:
        """The posterior given labels."""
        nodes = grid_size(self.priors)
        t, lower = np.linspace(-REACH, REACH, nodes), np.tril_indices(len(self.cases))
        lengths = np.exp(self.center() + self.priors.length_scale_log_sd * t)
        factors = np.stack([self.factor(length)[lower] for length in lengths])
        slopes = CubicSpline(t, factors, axis=0)(t, 1)
        tau = np.sqrt(len(vertices) / (len(vertices) - 1))
        numbers = np.array([REACH, self.priors.amplitude_sd, integration_step(len(vertices))])
        return Target(factors, slopes, codes.astype(np.int32), vertices / tau, TABLE, numbers)


def grid_size(priors: GenerativeCASIMACPriors) -> int:
    """Length-scales at which factors are computed."""
    return max(4, math.ceil(2 * REACH * priors.length_scale_log_sd / FINENESS) + 1)


@numba.njit(cache=True, error_model="numpy")
def interpolate(t: float, factors: np.ndarray, slopes: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """L and its derivative in t, both ``(n (n + 1) / 2,)``."""
    nodes = len(factors)
    step = 2.0 * reach / (nodes - 1)
    place = (t + reach) / step
    if not 0.0 < place < nodes - 1.0:
        return factors[0 if place < 1.0 else nodes - 1].copy(), np.zeros(factors.shape[1])
    k = min(int(place), nodes - 2)
    r = place - k
    rest = 1.0 - r
    a0, a1 = (1.0 + 2.0 * r) * rest * rest, r * r * (3.0 - 2.0 * r)
    b0, b1 = r * rest * rest * step, -r * r * rest * step
    da, db0, db1 = 6.0 * r * rest / step, rest * (1.0 - 3.0 * r), r * (3.0 * r - 2.0)
    at = a0 * factors[k] + b0 * slopes[k] + a1 * factors[k + 1] + b1 * slopes[k + 1]
    return at, da * (factors[k + 1] - factors[k]) + db0 * slopes[k] + db1 * slopes[k + 1]


@numba.njit(cache=True, error_model="numpy")
def log_cone(a: np.ndarray, own: int, step: float, table: np.ndarray, gradient: np.ndarray) -> float:
    """Log probability that of Normal(a_k, 1) the one of `own` is the largest; -inf where it is hopeless.

    a and gradient, which is filled, are ``(C,)``.
    """
    classes = len(a)
    largest = a[own]
    for k in range(classes):
        gradient[k] = 0.0
        largest = max(largest, a[k])
    if not largest - a[own] < FARTHEST:
        return -np.inf
    middle = 0.5 * (largest - a[own])  # of two laws, the integrand's mode lies about there
    total = 0.0
    density, share = np.empty(classes), np.empty(classes)
    for node in range(int(2.0 * WIDE / step) + 1):
        v = middle - WIDE + node * step
        product = normal_at(v, table)[0]
        for k in range(classes):
            if k != own:
                x = v + a[own] - a[k]
                density[k], below = normal_at(x, table)
                share[k] = 1.0 - below if x > 0 else below
                product *= share[k]
        total += product
        for k in range(classes):
            if k != own and share[k] > 0.0:
                gradient[k] -= product * density[k] / share[k]
    if not total > 0.0:
        return -np.inf
    for k in range(classes):
        if k != own:
            gradient[k] /= total
            gradient[own] -= gradient[k]
    return np.log(total * step)


@numba.njit(cache=True, error_model="numpy")
def log_density(
    point: np.ndarray,
    factors: np.ndarray,
    slopes: np.ndarray,
    codes: np.ndarray,
    directions: np.ndarray,
    table: np.ndarray,
    numbers: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Log posterior density of (t, log amplitude, r), r row by row, up to a constant; and its gradient."""
    n, (classes, axes) = len(codes), directions.shape
    reach, scale, step = numbers
    gradient = np.zeros(len(point))
    amplitude = np.exp(point[1])
    lower, slope = interpolate(point[0], factors, slopes, reach)
    value = -0.5 * point[0] ** 2 + point[1] - 0.5 * (amplitude / scale) ** 2
    gradient[0], gradient[1] = -point[0], 1.0 - (amplitude / scale) ** 2
    a, by_a = np.empty(classes), np.empty(classes)
    f, by_f = np.empty(axes), np.empty(axes)
    start = 0
    for i in range(n):
        f[:] = 0.0
        for k in range(i + 1):
            for j in range(axes):
                f[j] += lower[start + k] * point[2 + k * axes + j]
        f *= amplitude
        for y in range(classes):
            a[y] = 0.0
            for j in range(axes):
                a[y] += directions[y, j] * f[j]
        found = log_cone(a, codes[i], step, table, by_a)
        if not found > -np.inf:
            return -np.inf, np.zeros(len(point))
        value += found
        for j in range(axes):
            by_f[j] = 0.0
            for y in range(classes):
                by_f[j] += by_a[y] * directions[y, j]
            gradient[1] += by_f[j] * f[j]
            by_f[j] *= amplitude
        for k in range(i + 1):
            inner = 0.0
            for j in range(axes):
                inner += by_f[j] * point[2 + k * axes + j]
                gradient[2 + k * axes + j] += lower[start + k] * by_f[j]
            gradient[0] += slope[start + k] * inner
        start += i + 1
    for k in range(2, len(point)):
        value -= 0.5 * point[k] ** 2
        gradient[k] -= point[k]
    return value, gradient


def build(size: int, **data: np.ndarray) -> "pm.Model":
    """The PyMC model that is sampled: u, whose log density is `log_density`."""
    import pymc as pm

    from bayescal.inference.kernels.compiled import Compiled

    with pm.Model(coords={"axis": np.arange(size)}) as model:
        u = pm.Flat("u", dims="axis", initval=np.zeros(size))
        held = [pm.Data(name, value) for name, value in data.items()]
        pm.Potential("log_density", Compiled(log_density, VERSION).make_node(u, *held).outputs[0])
    return model


@dataclass(frozen=True)
class Posterior:
    """Draws ``(chain, draw, ..)`` of length_scale, amplitude and latent ``(n, q)``; and how the sampler fared."""

    draws: dict[str, np.ndarray]
    sampled: sampling.Draws
    interpolation_error: float


def sample_posterior(
    process: Process, codes: np.ndarray, vertices: np.ndarray, settings: sampling.SamplerSettings
) -> Posterior:
    """Sample length-scale, amplitude and the latents of the training cases."""
    target, (n, q) = process.target(codes, vertices), (len(codes), vertices.shape[1])
    size = 2 + n * q
    found = sampling.sample(("casimac", "generative", size), lambda **data: build(size, **data), vars(target), settings)
    u = found.posterior["u"]
    flat = u.reshape(-1, size)
    amplitude, lower = np.exp(flat[:, 1]), np.tril_indices(n)
    length = np.exp(process.center() + process.priors.length_scale_log_sd * np.clip(flat[:, 0], -REACH, REACH))
    latent, error = np.empty((len(flat), n, q)), 0.0
    factor = np.zeros((n, n))
    checked = set(np.linspace(0, len(flat) - 1, CHECKED).astype(int).tolist())
    for s, point in enumerate(flat):
        factor[lower] = interpolate(point[0], target.factors, target.slopes, REACH)[0]
        latent[s] = amplitude[s] * factor @ point[2:].reshape(n, q)
        if s in checked:
            k = process.correlation_to(process.cases, length[s]) + JITTER * np.eye(n)
            error = max(error, float(np.abs(factor @ factor.T - k).max()))
    shape = u.shape[:2]
    draws = {
        "length_scale": length.reshape(shape),
        "amplitude": amplitude.reshape(shape),
        "latent": latent.reshape(*shape, n, q),
    }
    convergence = assess_convergence(draws, found.statistics["diverging"], found.statistics["energy"])
    return Posterior(draws, sampling.Draws(draws, found.statistics, convergence, found.sampler), error)


@dataclass(frozen=True)
class Parts:
    """Draws that predictions are made of, arrays ``(P, ..)``."""

    length: np.ndarray
    amplitude: np.ndarray
    latent: np.ndarray  # (P, n, q)
    xi: np.ndarray  # (P, q)

    def __len__(self) -> int:
        return len(self.length)


class GenerativePredictor:
    """Probabilities at rows of features."""

    reads_features = True

    def __init__(self, process: Process, parts: Parts, vertices: np.ndarray) -> None:
        self.process, self.parts, self.vertices = process, parts, vertices
        self._factors: list[np.ndarray] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_factors": []}

    @property
    def rows_at_a_time(self) -> int:
        """Rows of one block."""
        return max(1, BLOCK // len(self.process.cases))

    def proba(self, rows: np.ndarray) -> np.ndarray:
        """Mean class probabilities ``(m, C)``."""
        out = np.zeros((len(rows), len(self.vertices)))
        for mean, left in self._laws(rows):
            out += cone_probabilities(mean, np.sqrt(1 + left), self.vertices)
        return out / len(self.parts)

    def proba_draws(self, rows: np.ndarray) -> np.ndarray:
        """Draws ``(P, m, C)`` of the class probabilities given what the process leaves open."""
        ones = np.ones(len(rows))
        return np.stack([cone_probabilities(z, ones, self.vertices) for z in self.latent_draws(rows)])

    def latent_draws(self, rows: np.ndarray) -> np.ndarray:
        """Draws ``(P, m, q)`` of the process."""
        out = np.empty((len(self.parts), len(rows), self.vertices.shape[1]))
        for i, (mean, left) in enumerate(self._laws(rows)):
            out[i] = mean + np.sqrt(left)[:, None] * self.parts.xi[i]
        return out

    def mean_latent(self, rows: np.ndarray) -> np.ndarray:
        """Mean ``(m, q)`` of the process."""
        return np.mean([mean for mean, _ in self._laws(rows)], axis=0)

    def _laws(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        with sampling.one_blas_thread():
            return [self.at(i, rows) for i in range(len(self.parts))]

    def at(self, i: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean ``(m, q)`` of the process and what it leaves open ``(m,)``, given one draw."""
        p, factor = self.parts, self._factor(i)
        along = solve_triangular(factor, self.process.correlation_to(rows, p.length[i]).T, lower=True)
        mean = along.T @ solve_triangular(factor, p.latent[i], lower=True)
        return mean, p.amplitude[i] ** 2 * np.maximum(1 + JITTER - (along**2).sum(axis=0), 0.0)

    def _factor(self, i: int) -> np.ndarray:
        if len(self.parts) * len(self.process.cases) ** 2 > KEPT:
            return self.process.factor(self.parts.length[i])
        if not self._factors:
            self._factors = [self.process.factor(length) for length in self.parts.length]
        return self._factors[i]
