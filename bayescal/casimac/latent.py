"""The latent Gaussian process with its signal variance integrated out.

    Z_j ~ Normal(0, s (K + lam I)),      j = 1 .. q,      s ~ InverseGamma(a0, b0)
    log p(Z | l, lam) = -q/2 log|K + lam I| - a log b + const
    a = a0 + n q / 2,      b = b0 + tr(Z' (K + lam I)^-1 Z) / 2
    s | Z, l, lam ~ InverseGamma(a, b)
    z* | Z, l, lam, s ~ Normal(k*' (K + lam I)^-1 Z, s (1 + lam - k*' (K + lam I)^-1 k*) I)

K is the correlation matrix of length-scale l, lam the noise ratio, q = C - 1. With K = Q diag(w) Q' the density costs
O(n) for every further lam and Z: the transformations that are compared (`selection.py`) share their decompositions.
The predictive law is isotropic, because all latent axes share kernel and signal variance; `cones.py` needs that.

Rasmussen & Williams (2006), "Gaussian processes for machine learning", eqs. 2.25, 2.26, 4.9, 4.14, 4.17.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh

from bayescal.casimac.settings import CASIMACPriors


def _matern32(r: np.ndarray) -> np.ndarray:
    r = np.sqrt(3) * r
    return (1 + r) * np.exp(-r)


def _matern52(r: np.ndarray) -> np.ndarray:
    r = np.sqrt(5) * r
    return (1 + r + r**2 / 3) * np.exp(-r)


def _rbf(r: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * r**2)


KERNELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"matern32": _matern32, "matern52": _matern52, "rbf": _rbf}


@dataclass
class LatentProcess:
    """The prior of the latents of the training cases, and the density of latents under it.

    `kernel` maps distance / length-scale to correlation; None says that `distance` is the correlation matrix itself,
    in which no length-scale takes part.
    """

    distance: np.ndarray  # (n, n)
    kernel: Callable[[np.ndarray], np.ndarray] | None
    priors: CASIMACPriors
    center: float = field(init=False)  # of log l: the log of the median distance
    _fixed: tuple[np.ndarray, np.ndarray] | None = field(init=False, default=None)

    reads_features = False  # rows are given by their distances to the training cases

    def __post_init__(self) -> None:
        middle = float(np.median(self.distance[np.triu_indices(len(self.distance), 1)]))
        self.center = float(np.log(middle)) if middle > 0 and self.kernel is not None else 0.0

    def correlation(self, log_length: Any) -> np.ndarray:
        """K ``(n, n)``."""
        return self.distance if self.kernel is None else self.kernel(self.distance * np.exp(-log_length))

    def correlation_to(self, cross: np.ndarray, log_length: Any) -> np.ndarray:
        """Correlations ``(m, n)`` of rows, given by what `kernel` reads of them, with the training cases."""
        return cross if self.kernel is None else self.kernel(cross * np.exp(-log_length))

    def spectrum(self, log_length: Any) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues ``(n,)``, at least 0, and eigenvectors ``(n, n)`` of K."""
        if self.kernel is not None:
            return _decompose(self.correlation(log_length))
        if self._fixed is None:
            self._fixed = _decompose(self.distance)
        return self._fixed

    def log_prior(self, log_length: Any, log_noise: Any) -> Any:
        """Of log l and log lam, up to a constant."""
        p = self.priors
        return -0.5 * (
            ((log_length - self.center) / p.length_scale_log_sd) ** 2
            + ((log_noise - p.noise_ratio_log_mean) / p.noise_ratio_log_sd) ** 2
        )

    def shape(self, z: np.ndarray) -> float:
        """a, the shape of the inverse gamma law of s."""
        return self.priors.signal_variance_shape + 0.5 * z.shape[0] * z.shape[1]

    def log_density(self, log_length: Any, log_noise: float, z: np.ndarray) -> tuple[float, float]:
        """Log posterior density of (log l, log lam) up to a constant, and log b, by Cholesky."""
        covariance = self.correlation(log_length) + np.exp(log_noise) * np.eye(len(z))
        factor = cholesky(covariance, lower=True)
        log_scale = float(np.log(self.priors.signal_variance_scale + 0.5 * (z * cho_solve((factor, True), z)).sum()))
        log_likelihood = -z.shape[1] * np.log(np.diag(factor)).sum() - self.shape(z) * log_scale
        prior = self.log_prior(np.asarray(log_length), np.asarray(log_noise))
        return float(log_likelihood + prior), log_scale

    def inverse(self, log_length: Any, log_noise: float) -> np.ndarray:
        """(K + lam I)^-1 ``(n, n)``."""
        covariance = self.correlation(log_length) + np.exp(log_noise) * np.eye(len(self.distance))
        return cho_solve((cholesky(covariance, lower=True), True), np.eye(len(covariance)))

    def table(self, log_lengths: np.ndarray, log_noises: np.ndarray, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density and log b, each ``(G, lengths, noises)``, for G sets of latents ``(G, n, q)``."""
        count, n, q = zs.shape
        columns = np.moveaxis(zs, 0, 1).reshape(n, count * q)
        log_density = np.empty((count, len(log_lengths), len(log_noises)))
        log_scale = np.empty_like(log_density)
        for i, log_length in enumerate(log_lengths):
            values, vectors = self.spectrum(log_length)
            eigen = values[:, None] + np.exp(log_noises)
            square = ((vectors.T @ columns) ** 2).reshape(n, count, q).sum(axis=2)
            log_scale[:, i] = np.log(self.priors.signal_variance_scale + 0.5 * square.T @ (1 / eigen))
            log_density[:, i] = -0.5 * q * np.log(eigen).sum(axis=0) - self.shape(zs[0]) * log_scale[:, i]
        return log_density + self.log_prior(log_lengths[:, None], log_noises), log_scale


def _decompose(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = eigh(correlation, driver="evd", overwrite_a=False)
    return np.maximum(values, 0.0), vectors
