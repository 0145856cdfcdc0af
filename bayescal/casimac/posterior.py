"""The posterior of length-scale and noise ratio, averaged over transformations, by NUTS.

The target is p(g, l, lam) = w_g p(log l, log lam | Z_g), where w_g is the weight of transformation g (`selection.py`)
and Z_g are its latents. For each g, (log l, log lam) = m_g + L_g u, with mean m_g and Cholesky factor L_g of about the
covariance of that posterior: in u all of them are about standard normal, and so is their mixture

    log p(u) = log sum_g w_g p(m_g + L_g u | Z_g) |det L_g|

NUTS samples u; g is drawn exactly given u, and the signal variance exactly given all. Where a transformation is fixed
by the user there is one g, and u is a linear map of its two parameters.

The densities are analytic. They are computed at Chebyshev nodes in log l, with one eigendecomposition for each node
and none for any lam or g, and interpolated. What the sampler sees is an interpolant in u, of one shape for all data:
one compilation serves every fit. `error` is the largest difference found between interpolant and Cholesky's density at
a sample of draws.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev
from scipy.interpolate import RectBivariateSpline
from scipy.special import logsumexp

from bayescal.casimac.latent import LatentProcess
from bayescal.inference import sampling
from bayescal.inference.convergence import assess_convergence

if TYPE_CHECKING:
    import pymc as pm

REACH = 8.0  # of u
DEGREE = 96  # of the interpolant in u, along each axis
COARSE = 17  # length-scales at which the posterior is located
CHECKED = 4  # draws at which the interpolant is compared with the density itself


@dataclass(frozen=True)
class Located:
    """Where the posterior of each of G sets of latents lies, in (log l, log lam)."""

    mode: np.ndarray  # (G, 2)
    mean: np.ndarray  # (G, 2)
    factor: np.ndarray  # (G, 2, 2), lower Cholesky factor of the covariance


def locate(process: LatentProcess, zs: np.ndarray) -> Located:
    """Mode, mean and covariance of each posterior, good to a few per cent: a coarse table and splines through it."""
    p = process.priors
    lengths = process.center + np.linspace(-1, 1, COARSE) * min(4 * p.length_scale_log_sd, 4.0)
    noises = p.noise_ratio_log_mean + np.linspace(-1, 1, 81) * min(6 * p.noise_ratio_log_sd, 9.0)
    tables = process.table(lengths, noises, zs)[0]
    found = [_moments(RectBivariateSpline(lengths, noises, table), lengths, noises) for table in tables]
    return Located(*(np.stack(parts) for parts in zip(*found, strict=True)))


def _moments(
    spline: RectBivariateSpline, lengths: np.ndarray, noises: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mode, mean and Cholesky factor of the covariance, on a grid over all and then on one about the mode."""
    a, b = np.linspace(lengths[0], lengths[-1], 201), noises
    for last in (False, True):
        log_density = spline(a, b)
        weight = np.exp(log_density - log_density.max())
        weight /= weight.sum()
        along, across = weight.sum(axis=1), weight.sum(axis=0)
        mean = np.array([along @ a, across @ b])
        sd = np.sqrt([along @ (a - mean[0]) ** 2, across @ (b - mean[1]) ** 2])
        sd = np.maximum(sd, [0.5 * (a[1] - a[0]), 0.5 * (b[1] - b[0])])
        if not last:
            a = np.linspace(max(lengths[0], mean[0] - 7 * sd[0]), min(lengths[-1], mean[0] + 7 * sd[0]), 91)
            b = np.linspace(max(noises[0], mean[1] - 7 * sd[1]), min(noises[-1], mean[1] + 7 * sd[1]), 91)
    i, j = np.unravel_index(log_density.argmax(), log_density.shape)
    cross = float((a - mean[0]) @ weight @ (b - mean[1])) / sd[0]
    low = np.sqrt(max(sd[1] ** 2 - cross**2, 0.01 * sd[1] ** 2))
    return np.array([a[i], b[j]]), mean, np.array([[sd[0], 0.0], [cross, low]])


@dataclass(frozen=True)
class Surrogate:
    """Polynomials, in a box of (log l, log lam), of the log density and of log b of each transformation."""

    low: np.ndarray  # (2,)
    high: np.ndarray  # (2,)
    density: np.ndarray  # (G, a, b), Chebyshev coefficients
    scale: np.ndarray  # (G, a, b)

    def at(self, coefficients: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Values ``(S,)`` of one polynomial ``(a, b)`` at points ``(S, 2)``."""
        x = np.clip(2 * (points - self.low) / (self.high - self.low) - 1, -1, 1)
        first = chebyshev.chebvander(x[:, 0], coefficients.shape[0] - 1)
        second = chebyshev.chebvander(x[:, 1], coefficients.shape[1] - 1)
        return ((first @ coefficients) * second).sum(axis=1)


def interpolate_densities(process: LatentProcess, zs: np.ndarray, located: Located) -> Surrogate:
    """The polynomials, over the box that REACH of every u can reach."""
    reach = REACH * np.abs(located.factor).sum(axis=2)
    low, high = (located.mean - reach).min(axis=0), (located.mean + reach).max(axis=0)
    width = high - low
    most = 120 if len(process.distance) <= 200 else 48  # posteriors of many cases are narrow
    lengths = 12 if process.kernel is None else int(np.clip(np.ceil(9 + 10 * width[0]), 12, most))
    noises = int(np.clip(np.ceil(12 + 6 * width[1]), 12, 96))
    nodes = [
        middle + half * chebyshev.chebpts1(size)
        for middle, half, size in zip((low + high) / 2, width / 2, (lengths, noises), strict=True)
    ]
    density, scale = process.table(nodes[0], nodes[1], zs)
    return Surrogate(low, high, _coefficients(density), _coefficients(scale))


def _coefficients(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients of values ``(.., a, b)`` at the nodes of `chebpts1`."""
    for axis in (-2, -1):
        m = values.shape[axis]
        transform = chebyshev.chebvander(chebyshev.chebpts1(m), m - 1).T * (2 / m)
        transform[0] /= 2
        values = np.moveaxis(np.tensordot(transform, values, axes=(1, axis)), 0, axis)
    return values


@dataclass(frozen=True)
class Mixture:
    """The target in u."""

    located: Located
    surrogate: Surrogate
    log_weight: np.ndarray  # (G,) log w_g + log |det L_g| - log of the integral of p_g

    def parts(self, u: np.ndarray) -> np.ndarray:
        """Log densities ``(S, G)`` of each transformation's part at u ``(S, 2)``."""
        out = np.empty((len(u), len(self.log_weight)))
        for g, weight in enumerate(self.log_weight):
            points = self.located.mean[g] + u @ self.located.factor[g].T
            out[:, g] = weight + self.surrogate.at(self.surrogate.density[g], points)
        return out


def mixture(process: LatentProcess, zs: np.ndarray, weight: np.ndarray, located: Located) -> Mixture:
    """The target for transformations with weights ``(G,)``."""
    surrogate = interpolate_densities(process, zs, located)
    line = np.linspace(-REACH, REACH, 73)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    raw = Mixture(located, surrogate, np.zeros(len(weight)))
    integral = logsumexp(raw.parts(grid), axis=0) + 2 * np.log(line[1] - line[0])
    return replace(raw, log_weight=np.log(weight) - integral)


def interpolant_of(target: Mixture) -> np.ndarray:
    """Chebyshev coefficients ``(DEGREE, DEGREE)`` of log p(u) on the square."""
    nodes = REACH * chebyshev.chebpts1(DEGREE)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    return _coefficients(logsumexp(target.parts(grid), axis=1).reshape(DEGREE, DEGREE))


def build(coefficients: np.ndarray) -> "pm.Model":
    """The PyMC model that is sampled: u, whose log density is the interpolant."""
    import pymc as pm

    from bayescal.inference.kernels.interpolant import interpolant

    with pm.Model(coords={"axis": np.arange(2)}) as model:
        u = pm.Flat("u", dims="axis", initval=np.zeros(2))
        pm.Potential("log_density", interpolant(u, pm.Data("coefficients", coefficients), np.float64(REACH)))
    return model


def sample_posterior(
    process: LatentProcess,
    zs: np.ndarray,
    weight: np.ndarray,
    located: Located,
    settings: sampling.SamplerSettings,
    rng: np.random.Generator,
) -> tuple[sampling.Draws, float]:
    """Draws of ``transformation``, ``length_scale``, ``noise_ratio``, ``signal_variance``, and the error found."""
    target = mixture(process, zs, weight, located)
    coefficients = interpolant_of(target)
    found = sampling.sample(("casimac",), build, {"coefficients": coefficients}, settings)
    u = found.posterior["u"]
    shape, flat = u.shape[:2], u.reshape(-1, 2)
    parts = target.parts(np.clip(flat, -REACH, REACH))
    g = (parts + rng.gumbel(size=parts.shape)).argmax(axis=1)
    points = located.mean[g] + np.einsum("sij,sj->si", located.factor[g], flat)
    log_scale = np.empty(len(flat))
    for k in np.unique(g):
        log_scale[g == k] = target.surrogate.at(target.surrogate.scale[k], points[g == k])
    signal = np.exp(log_scale) / rng.standard_gamma(process.shape(zs[0]), size=len(flat))
    posterior = {
        "length_scale": np.exp(points[:, 0]).reshape(shape),
        "noise_ratio": np.exp(points[:, 1]).reshape(shape),
        "signal_variance": signal.reshape(shape),
    }
    convergence = assess_convergence(posterior, found.statistics["diverging"], found.statistics["energy"])
    posterior["transformation"] = g.reshape(shape)
    error = _error(process, zs, target, coefficients, flat)
    return replace(found, posterior=posterior, convergence=convergence), error


def _error(process: LatentProcess, zs: np.ndarray, target: Mixture, coefficients: np.ndarray, u: np.ndarray) -> float:
    """Largest error found at a few draws: of the polynomials of one transformation, and of the interpolant of all."""
    few = u[np.linspace(0, len(u) - 1, CHECKED).astype(int)]
    g = int(target.parts(few[:1])[0].argmax())
    points = target.located.mean[g] + few @ target.located.factor[g].T
    exact = np.array([process.log_density(a, b, zs[g])[0] for a, b in points])
    of_one = exact - target.surrogate.at(target.surrogate.density[g], points)
    seen = chebyshev.chebval2d(few[:, 0] / REACH, few[:, 1] / REACH, coefficients)
    of_all = seen - logsumexp(target.parts(few), axis=1)
    return float(np.abs(of_one).max() + np.abs(of_all).max())
