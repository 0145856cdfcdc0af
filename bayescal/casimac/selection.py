"""How much each transformation and spread is worth: leave-one-out predictions that do not see the label left out.

Deleting case i changes the latents of those that had it among their neighbours. With P = (K + lam I)^-1 and Z_j^(-i)
the latents of the others without it, the prediction at i from all others is

    mean_i = -sum_{j != i} P_ij Z_j^(-i) / P_ii
           = Z_i - (P Z)_i / P_ii - sum_j P_ij (Z_j^(-i) - Z_j) / P_ii,      variance_i = s / P_ii

where the last sum has as many terms as cases have i among their neighbours. Without it the latents of the others still
tell the label of i, and transformations that tell more win. l, lam, s, the scale of the latents and the floor of the
distances are those of all cases.

Weights are a pseudo-posterior over transformations and spreads c, multipliers of the predictive standard deviation:

    weight proportional to prod_i P(y_i | others),      uniform over the grid

Rasmussen & Williams (2006), eq. 5.12, for leave-one-out with latents that stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayescal.casimac.cones import cone_probabilities
from bayescal.casimac.latent import LatentProcess
from bayescal.casimac.neighbours import Neighbours, Pull, changes

SMALLEST = 1e-300  # of a probability whose log is taken
WEIGHT_MIN = 1e-3  # of a transformation that stays in the average, by the heaviest


@dataclass(frozen=True)
class LeftOut:
    """Predictions at each case from all others."""

    mean: np.ndarray  # (n, q)
    variance: np.ndarray  # (n,)


def left_out(
    process: LatentProcess,
    neighbours: Neighbours,
    pull: Pull,
    vertices: np.ndarray,
    z: np.ndarray,
    scale: float,
    at: tuple[float, float],
) -> LeftOut:
    """Leave-one-out predictions of the latents ``z = f / scale`` at (log l, log lam), without the label left out."""
    inverse = process.inverse(*at)
    diagonal = np.diag(inverse)
    solved = inverse @ z
    log_scale = np.log(process.priors.signal_variance_scale + 0.5 * float((z * solved).sum()))
    signal = np.exp(log_scale) / process.shape(z)
    moved = np.zeros_like(z)
    codes = neighbours.codes
    if pull.alpha:
        found = changes(neighbours, pull.k_alpha, own=True)
        weight = inverse[found.left_out, found.other] * found.change * (pull.alpha / scale)
        np.add.at(moved, found.left_out, weight[:, None] * vertices[codes[found.other]])
    if pull.beta:
        found = changes(neighbours, pull.k_beta, own=False)
        weight = inverse[found.left_out, found.other] * found.change * (-pull.beta / scale)
        np.add.at(moved, found.left_out, weight[:, None] * vertices[codes[found.left_out]])
    return LeftOut(z - (solved + moved) / diagonal[:, None], signal / diagonal)


def can_be_left_out(neighbours: Neighbours, pull: Pull) -> np.ndarray:
    """Cases ``(n,)`` without which every class still has the neighbours that the transformation asks for."""
    fewest = max(2 + pull.k_alpha if pull.alpha else 0, 1 + pull.k_beta if pull.beta else 0)
    return neighbours.sizes[neighbours.codes] >= fewest


def log_losses(
    found: LeftOut, codes: np.ndarray, spreads: Sequence[float], vertices: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """Sum over the counted cases of -log P(their label | others), for every spread."""
    out = np.empty(len(spreads))
    mean, sd, own = found.mean[counted], np.sqrt(found.variance[counted]), codes[counted]
    for i, spread in enumerate(spreads):
        p = cone_probabilities(mean, spread * sd, vertices)
        out[i] = -np.log(np.maximum(p[np.arange(len(own)), own], SMALLEST)).sum()
    return out


def pseudo_posterior(losses: np.ndarray) -> np.ndarray:
    """Weights summing to 1 from log losses ``(transformations, spreads)``, small ones dropped."""
    weight = np.exp(losses.min() - losses)
    weight[weight < WEIGHT_MIN] = 0.0
    return weight / weight.sum()
