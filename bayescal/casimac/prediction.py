"""From hyperparameters to class probabilities at new rows, in blocks of bounded memory.

A part is one setting of all hyperparameters: transformation g, l, lam, signal variance s and spread c, with a weight.
Given a part, the latent of a new case is Normal(mean, c^2 s (v + lam) I) with v = 1 - k*' (K + lam I)^-1 k*: v is what
the process leaves open at the case, lam the noise. The probability of a class is the mass of its cone. A draw of that
probability, given what the process leaves open, is the mass under Normal(mean + c sqrt(s v) xi, c^2 s lam I) with a
standard normal xi, the same at all rows, so that a row's draws do not depend on the rows beside it. Averaged over xi
both are the same.

Parts with nearly the same l share one decomposition of K: of posterior draws sorted by l, `SHARE` neighbours take the
mean of their log l.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayescal.casimac.cones import cone_probabilities
from bayescal.casimac.latent import LatentProcess

SHARE = 8
BLOCK = 2**20  # numbers of one block of rows x training cases (8 MB)
KEPT = 2**25  # numbers of decompositions that are kept between calls (256 MB)


@dataclass(frozen=True)
class Parts:
    """Settings of the hyperparameters, arrays ``(P,)``; `xi` is ``(P, q)``.

    `log_length` is ``(P, D)`` with a length-scale for each feature.
    """

    weight: np.ndarray
    transformation: np.ndarray
    log_length: np.ndarray
    log_noise: np.ndarray
    signal: np.ndarray
    spread: np.ndarray
    xi: np.ndarray

    def __len__(self) -> int:
        return len(self.weight)


@dataclass(frozen=True)
class Group:
    """Predictions of parts with one length-scale at a block of rows."""

    which: np.ndarray  # (p,) numbers of the parts
    mean: np.ndarray  # (p, m, q)
    open: np.ndarray  # (p, m), v


def shared_lengths(log_length: np.ndarray) -> np.ndarray:
    """Log length-scales of draws in which neighbours by size have one in common."""
    order = np.argsort(log_length, kind="stable")
    out = np.empty_like(log_length)
    for chunk in np.array_split(order, max(1, len(order) // SHARE)):
        out[chunk] = log_length[chunk].mean()
    return out


class Predictor:
    """Probabilities at rows given by their distances to the training cases, or by what else the process reads."""

    def __init__(self, process: LatentProcess, zs: np.ndarray, parts: Parts, vertices: np.ndarray) -> None:
        self.process, self.zs, self.parts, self.vertices = process, zs, parts, vertices
        self._spectra: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_spectra": {}}

    @property
    def reads_features(self) -> bool:
        """Whether rows are given by their features, and not by their distances to the training cases."""
        return self.process.reads_features

    @property
    def rows_at_a_time(self) -> int:
        """Rows of one block."""
        return max(1, BLOCK // self.zs.shape[1])

    def proba(self, cross: np.ndarray) -> np.ndarray:
        """Mean class probabilities ``(m, C)`` at rows with distances ``(m, n)`` to the training cases."""
        p = self.parts
        out = np.zeros((len(cross), len(self.vertices)))
        for group in self.groups(cross):
            for mean, left, i in zip(group.mean, group.open, group.which, strict=True):
                sd = p.spread[i] * np.sqrt(p.signal[i] * (left + np.exp(p.log_noise[i])))
                out += p.weight[i] * cone_probabilities(mean, sd, self.vertices)
        return out

    def proba_draws(self, cross: np.ndarray) -> np.ndarray:
        """Draws ``(P, m, C)`` of the class probabilities given what the process leaves open."""
        p = self.parts
        out = np.empty((len(p), len(cross), len(self.vertices)))
        for i, at in self._process_draws(cross):
            sd = np.full(len(cross), p.spread[i] * np.sqrt(p.signal[i] * np.exp(p.log_noise[i])))
            out[i] = cone_probabilities(at, sd, self.vertices)
        return out

    def latent_draws(self, cross: np.ndarray) -> np.ndarray:
        """Draws ``(P, m, q)`` of the process."""
        out = np.empty((len(self.parts), len(cross), self.zs.shape[2]))
        for i, at in self._process_draws(cross):
            out[i] = at
        return out

    def mean_latent(self, cross: np.ndarray) -> np.ndarray:
        """Mean ``(m, q)`` of the process."""
        out = np.zeros((len(cross), self.zs.shape[2]))
        for group in self.groups(cross):
            out += np.tensordot(self.parts.weight[group.which], group.mean, axes=1)
        return out

    def _process_draws(self, cross: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        p = self.parts
        for group in self.groups(cross):
            for mean, left, i in zip(group.mean, group.open, group.which, strict=True):
                yield i, mean + (p.spread[i] * np.sqrt(p.signal[i] * left))[:, None] * p.xi[i]

    def groups(self, cross: np.ndarray) -> Iterator[Group]:
        """Means and what is left open, for the parts of one length-scale at a time."""
        p = self.parts
        lengths, of_part = np.unique(p.log_length, axis=0, return_inverse=True)
        for number, log_length in enumerate(lengths):
            which = np.flatnonzero(of_part == number)
            values, vectors = self._spectrum(log_length)
            along = self.process.correlation_to(cross, log_length) @ vectors
            inverse = 1 / (values[:, None] + np.exp(p.log_noise[which]))  # (n, p)
            used, place = np.unique(p.transformation[which], return_inverse=True)
            turned = np.stack([vectors.T @ self.zs[g] for g in used])[place]  # (p, n, q)
            mean = np.matmul(along, turned * inverse.T[:, :, None])
            yield Group(which, mean, np.maximum(1.0 - ((along**2) @ inverse).T, 0.0))

    def _spectrum(self, log_length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = log_length.tobytes()
        if key not in self._spectra:
            found = self.process.spectrum(log_length)
            if (len(self._spectra) + 1) * found[1].size > KEPT:
                return found
            self._spectra[key] = found
        return self._spectra[key]
