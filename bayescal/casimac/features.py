"""The latent process with a length-scale for each feature.

    log l_d = log l + s e_d,      log l ~ Normal(c, t^2),      e_d ~ Normal(0, 1),      d = 1 .. D
    r_ab^2 = sum_d (x_ad - x_bd)^2 / l_d^2

l is integrated out: log l_1 .. log l_D ~ Normal(c, t^2 1 1' + s^2 I). Given them, all is as in `latent.py`.

With several transformations g of weights w_g, the length-scales are common to all of them and follow

    log p(l_1 .. l_D, lam) = log prior + sum_g w_g log p(Z_g | l_1 .. l_D, lam)

which of all laws is the one nearest to the posteriors of the transformations, by the mean Kullback-Leibler divergence
with weights w_g; of one transformation it is the posterior. The weights are those found with a shared length-scale:
leave-one-out predictions with length-scales of features that saw the label left out are too good. Given the
length-scales, g is drawn by its weight, noise ratio and signal variance exactly given g.

NUTS samples u in (log l_1 .. log l_D, log lam) = m + L u, where m is the mode and L L' the inverse of the negative
Hessian there. A gradient costs about n^3 / 2 + n^2 D multiplications, and each draw an eigendecomposition where there
are several transformations.

Rasmussen & Williams (2006), eqs. 5.1, 5.9.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from bayescal.casimac.latent import KERNELS, LatentProcess
from bayescal.inference import sampling
from bayescal.inference.convergence import assess_convergence

if TYPE_CHECKING:
    import pymc as pm

VERSION = 1  # of `log_density`; PyTensor's disk cache holds compiled ones by it
FARTHEST = 6.0  # prior standard deviations from the prior mean within which the mode is looked for
STEP = 1e-4  # of the differences of gradients that make the Hessian
FLATTEST = 1e-2  # least curvature that is taken for one, by that of the prior
GRID = 61  # values of log lam from which it is drawn


@dataclass
class FeatureProcess(LatentProcess):
    """The prior of the latents of the training cases; ``log_length`` is ``(D,)``, and rows are features ``(m, D)``."""

    cases: np.ndarray  # (n, D)

    reads_features = True

    def correlation(self, log_length: Any) -> np.ndarray:
        """K ``(n, n)``."""
        return self.correlation_to(self.cases, log_length)

    def correlation_to(self, rows: np.ndarray, log_length: Any) -> np.ndarray:
        """Correlations ``(m, n)`` of rows ``(m, D)`` with the training cases."""
        assert self.kernel is not None
        return self.kernel(cdist(rows * np.exp(-log_length), self.cases * np.exp(-log_length)))

    def log_prior(self, log_length: Any, log_noise: Any) -> Any:
        """Of log l_1 .. log l_D and log lam, up to a constant."""
        p = self.priors
        noise = (log_noise - p.noise_ratio_log_mean) / p.noise_ratio_log_sd
        off = log_length - self.center
        return -0.5 * (noise**2 + off @ _precision(self) @ off)

    def target(self, zs: np.ndarray, weight: np.ndarray) -> "Target":
        """The density of length-scales and noise ratio that transformations with weights ``(G,)`` have in common."""
        p = self.priors
        columns = np.ascontiguousarray(np.moveaxis(zs, 0, 1).reshape(len(self.cases), -1))
        numbers = [self.center, p.length_scale_log_sd, p.feature_log_sd, p.noise_ratio_log_mean, p.noise_ratio_log_sd]
        kernel = [known is self.kernel for known in KERNELS.values()].index(True)
        numbers += [p.signal_variance_shape, p.signal_variance_scale, kernel]
        return Target(np.ascontiguousarray(self.cases), columns, weight / weight.sum(), np.array(numbers))


def _precision(process: FeatureProcess) -> np.ndarray:
    """Prior precision ``(D, D)`` of the log length-scales."""
    size, s, t = process.cases.shape[1], process.priors.feature_log_sd, process.priors.length_scale_log_sd
    return (np.eye(size) - t**2 / (s**2 + size * t**2)) / s**2


@dataclass(frozen=True)
class Target:
    """What `log_density` reads."""

    cases: np.ndarray  # (n, D)
    columns: np.ndarray  # (n, G q)
    weight: np.ndarray  # (G,), summing to 1
    numbers: np.ndarray  # center, t, s, mean and sd of log lam, shape and scale of the signal's variance, kernel

    def at(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and gradient at (log l_1 .. log l_D, log lam)."""
        return log_density(point, self.cases, self.columns, self.weight, self.numbers)

    def mode(self) -> np.ndarray:
        """The most probable (log l_1 .. log l_D, log lam), from the prior's mean on."""
        center, t, s, mean, sd = self.numbers[:5]
        start = np.append(np.full(self.cases.shape[1], center), mean)
        reach = FARTHEST * np.append(np.full(self.cases.shape[1], np.hypot(s, t)), sd)

        def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.at(point)
            return -value, -gradient

        found = minimize(objective, start, jac=True, bounds=np.column_stack([start - reach, start + reach]))
        return found.x

    def factor(self, mode: np.ndarray) -> np.ndarray:
        """L ``(D + 1, D + 1)`` with L L' about the inverse of the negative Hessian at the mode."""
        steps = STEP * np.eye(len(mode))
        hessian = np.array([(self.at(mode - h)[1] - self.at(mode + h)[1]) / (2 * STEP) for h in steps])
        _, t, s, _, sd = self.numbers[:5]
        scale = np.append(np.full(len(mode) - 1, np.hypot(s, t)), sd)
        values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T) * np.outer(scale, scale))
        return scale[:, None] * vectors / np.sqrt(np.maximum(values, FLATTEST))


@numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def log_density(
    point: np.ndarray, x: np.ndarray, z: np.ndarray, weight: np.ndarray, numbers: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log density of `Target` up to a constant, and its gradient ``(D + 1,)``; -inf where K + lam I is singular."""
    n, size = x.shape
    count = len(weight)
    axes = z.shape[1] // count
    center, t, s, noise_mean, noise_sd, shape, scale, kernel = numbers
    shape += 0.5 * n * axes
    gradient = np.zeros(size + 1)
    y = np.empty((n, size))
    for d in range(size):
        for i in range(n):
            y[i, d] = x[i, d] * np.exp(-point[d])
    # K + lam I, and -K'(r) / r beside it
    noise = np.exp(point[size])
    factor, slope = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            square = 0.0
            for d in range(size):
                square += (y[i, d] - y[j, d]) ** 2
            if kernel == 0.0:
                r = np.sqrt(3.0 * square)
                e = np.exp(-r)
                factor[i, j], slope[i, j] = (1.0 + r) * e, 3.0 * e
            elif kernel == 1.0:
                r = np.sqrt(5.0 * square)
                e = np.exp(-r)
                factor[i, j], slope[i, j] = (1.0 + r + r * r / 3.0) * e, 5.0 / 3.0 * (1.0 + r) * e
            else:
                e = np.exp(-0.5 * square)
                factor[i, j], slope[i, j] = e, e
        factor[i, i] = 1.0 + noise
    # Cholesky in place, row by row
    log_determinant = 0.0
    for i in range(n):
        for j in range(i + 1):
            rest = factor[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            if i == j:
                if not rest > 0.0:
                    return -np.inf, gradient
                factor[i, i] = np.sqrt(rest)
                log_determinant += 0.5 * np.log(rest)
            else:
                factor[i, j] = rest / factor[j, j]
    # L^-1, and the lower half of (K + lam I)^-1
    half = np.zeros((n, n))
    for i in range(n):
        for k in range(i):
            f = factor[i, k]
            for j in range(k + 1):
                half[i, j] -= f * half[k, j]
        f = 1.0 / factor[i, i]
        for j in range(i):
            half[i, j] *= f
        half[i, i] = f
    inverse = np.zeros((n, n))
    for k in range(n):
        for i in range(k + 1):
            f = half[k, i]
            for j in range(i + 1):
                inverse[i, j] += f * half[k, j]
    for i in range(n):
        for j in range(i):
            inverse[j, i] = inverse[i, j]
    solved = inverse @ z
    value = -axes * log_determinant
    scaled = np.empty_like(solved)
    for g in range(count):
        b = scale
        for j in range(g * axes, (g + 1) * axes):
            for i in range(n):
                b += 0.5 * solved[i, j] * z[i, j]
        value -= weight[g] * shape * np.log(b)
        scaled[:, g * axes : (g + 1) * axes] = solved[:, g * axes : (g + 1) * axes] * (0.5 * weight[g] * shape / b)
    # derivative by K: W = -q/2 (K + lam I)^-1 + sum_g w_g a / (2 b_g) A_g A_g'
    outer = scaled @ solved.T
    for i in range(n):
        gradient[size] += (outer[i, i] - 0.5 * axes * inverse[i, i]) * noise
        for j in range(i):
            w = 2.0 * (outer[i, j] - 0.5 * axes * inverse[i, j]) * slope[i, j]
            for d in range(size):
                gradient[d] += w * (y[i, d] - y[j, d]) ** 2
    # prior
    off = point[size] - noise_mean
    value -= 0.5 * (off / noise_sd) ** 2
    gradient[size] -= off / noise_sd**2
    total = 0.0
    for d in range(size):
        total += point[d] - center
    shrunk = t**2 / (s**2 + size * t**2) * total
    for d in range(size):
        off = point[d] - center
        value -= 0.5 * off * (off - shrunk) / s**2
        gradient[d] -= (off - shrunk) / s**2
    return value, gradient


def build(mode: np.ndarray, factor: np.ndarray, **data: np.ndarray) -> "pm.Model":
    """The PyMC model that is sampled: u, whose image mode + factor u has `log_density`."""
    import pymc as pm

    from bayescal.inference.kernels.compiled import Compiled

    with pm.Model(coords={"axis": np.arange(len(mode))}) as model:
        u = pm.Flat("u", dims="axis", initval=np.zeros(len(mode)))
        point = pm.Data("mode", mode) + pm.Data("factor", factor) @ u
        held = [pm.Data(name, value) for name, value in data.items()]
        pm.Potential("log_density", Compiled(log_density, VERSION).make_node(point, *held).outputs[0])
    return model


def sample_posterior(
    process: FeatureProcess,
    zs: np.ndarray,
    weight: np.ndarray,
    settings: sampling.SamplerSettings,
    rng: np.random.Generator,
) -> sampling.Draws:
    """Draws of ``transformation``, ``length_scale``, ``noise_ratio`` and ``signal_variance``."""
    target = process.target(zs, weight)
    mode = target.mode()
    data = {"mode": mode, "factor": target.factor(mode)} | vars(target)
    found = sampling.sample(("casimac", "each", len(mode)), build, data, settings)
    points = mode + found.posterior["u"] @ data["factor"].T
    shape, flat = points.shape[:2], points.reshape(-1, len(mode))
    g = rng.choice(len(zs), size=len(flat), p=target.weight)
    log_noise, signal = flat[:, -1].copy(), np.empty(len(flat))
    with sampling.one_blas_thread():
        for i, (point, k) in enumerate(zip(flat, g, strict=True)):
            if len(zs) > 1:
                grid, log_law = noise_law(process, process.spectrum(point[:-1]), zs[k])
                log_noise[i] = _draw(grid, log_law, rng)
            signal[i] = np.exp(process.log_density(point[:-1], log_noise[i], zs[k])[1])
    signal /= rng.standard_gamma(process.shape(zs[0]), size=len(flat))
    posterior = {
        "length_scale": np.exp(points[..., :-1]),
        "noise_ratio": np.exp(log_noise).reshape(shape),
        "signal_variance": signal.reshape(shape),
    }
    convergence = assess_convergence(posterior, found.statistics["diverging"], found.statistics["energy"])
    posterior["transformation"] = g.reshape(shape)
    return replace(found, posterior=posterior, convergence=convergence)


def noise_law(
    process: FeatureProcess, spectrum: tuple[np.ndarray, np.ndarray], z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of log lam and their log densities, both ``(GRID,)``, given length-scales and latents ``(n, q)``."""
    p = process.priors
    square = ((spectrum[1].T @ z) ** 2).sum(axis=1)
    middle, reach = p.noise_ratio_log_mean, min(6 * p.noise_ratio_log_sd, 9.0)
    for last in (False, False, True):
        grid = middle + reach * np.linspace(-1, 1, GRID)
        eigen = spectrum[0][:, None] + np.exp(grid)
        log_law = -0.5 * z.shape[1] * np.log(eigen).sum(axis=0)
        log_law -= process.shape(z) * np.log(p.signal_variance_scale + 0.5 * square @ (1 / eigen))
        log_law -= 0.5 * ((grid - p.noise_ratio_log_mean) / p.noise_ratio_log_sd) ** 2
        if not last:
            weight = np.exp(log_law - log_law.max())
            weight /= weight.sum()
            middle = float(weight @ grid)
            reach = min(reach, 6 * float(np.sqrt(weight @ (grid - middle) ** 2)) + 2 * float(grid[1] - grid[0]))
    return grid, log_law


def _draw(grid: np.ndarray, log_law: np.ndarray, rng: np.random.Generator) -> float:
    """A draw by the inverse of the distribution function."""
    weight = np.exp(log_law - log_law.max())
    below = np.append(0.0, np.cumsum(weight[1:] + weight[:-1]))
    return float(np.interp(rng.random() * below[-1], below, grid))


def point_estimate(process: FeatureProcess, zs: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most probable log length-scales ``(G, D)``, all alike, and given them log lam ``(G,)``."""
    log_length = process.target(zs, weight).mode()[:-1]
    return np.tile(log_length, (len(zs), 1)), most_probable_noises(process, log_length, zs)


def most_probable_noises(process: FeatureProcess, log_length: np.ndarray, zs: np.ndarray) -> np.ndarray:
    """log lam of each transformation ``(G,)`` given length-scales."""
    spectrum = process.spectrum(log_length)
    laws = [noise_law(process, spectrum, z) for z in zs]
    return np.array([grid[log_law.argmax()] for grid, log_law in laws])
