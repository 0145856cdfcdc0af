"""From distances and labels to parts: settings of all hyperparameters with weights, by maximum or by posterior."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayescal.casimac import features
from bayescal.casimac.features import FeatureProcess
from bayescal.casimac.latent import LatentProcess
from bayescal.casimac.neighbours import Neighbours, Pull, latents
from bayescal.casimac.posterior import Located, locate, sample_posterior
from bayescal.casimac.prediction import Parts, shared_lengths
from bayescal.casimac.selection import can_be_left_out, left_out, log_losses, pseudo_posterior
from bayescal.inference import sampling

PREDICTED = 200  # posterior draws that predictions are computed from


@dataclass(frozen=True)
class Weighted:
    """Transformations that have weight, their latents, and the weights of transformations with spreads."""

    pulls: list[Pull]  # G
    scales: np.ndarray  # (G,) root mean squares of f
    zs: np.ndarray  # (G, n, q), f divided by them
    spreads: np.ndarray  # (S,)
    weight: np.ndarray  # (G, S), summing to 1
    loss: float  # mean leave-one-out log loss of the average of weights; NaN where nothing was left out
    located: Located


@dataclass(frozen=True)
class Posterior:
    """Draws ``(chain, draw)`` of the hyperparameters, and how the sampler fared."""

    draws: dict[str, np.ndarray]
    sampled: sampling.Draws
    interpolation_error: float


def scaled_latents(neighbours: Neighbours, pull: Pull, vertices: np.ndarray) -> tuple[np.ndarray, float]:
    """f divided by its root mean square, and that."""
    z = latents(neighbours, pull, vertices)
    scale = float(np.sqrt((z**2).mean()))
    return z / scale, scale


def weigh(
    process: LatentProcess,
    neighbours: Neighbours,
    vertices: np.ndarray,
    pulls: list[Pull],
    spreads: Sequence[float],
) -> Weighted:
    """Weights by leave-one-out; where there is nothing to choose, or nothing can be left out, equal ones."""
    pairs = [scaled_latents(neighbours, pull, vertices) for pull in pulls]
    zs, scales = np.stack([z for z, _ in pairs]), np.array([scale for _, scale in pairs])
    located = locate(process, zs)
    counted = [can_be_left_out(neighbours, pull) for pull in pulls]
    common = np.logical_and.reduce(counted)
    weight, loss = np.full((len(pulls), len(spreads)), 1 / (len(pulls) * len(spreads))), np.nan
    if common.any():
        losses = np.empty_like(weight)
        for g, pull in enumerate(pulls):
            mode = (float(located.mode[g, 0]), float(located.mode[g, 1]))
            found = left_out(process, neighbours, pull, vertices, zs[g], scales[g], mode)
            losses[g] = log_losses(found, neighbours.codes, spreads, vertices, common)
        weight = pseudo_posterior(losses)
        loss = float((weight * losses).sum() / common.sum())
    live = np.flatnonzero(weight.sum(axis=1))
    kept = Located(located.mode[live], located.mean[live], located.factor[live])
    return Weighted([pulls[g] for g in live], scales[live], zs[live], np.array(spreads), weight[live], loss, kept)


def point_parts(process: LatentProcess, chosen: Weighted) -> Parts:
    """The most probable length-scales and noise ratio of each transformation, with every spread of weight."""
    g, s = np.nonzero(chosen.weight)
    if isinstance(process, FeatureProcess):
        log_length, log_noise = features.point_estimate(process, chosen.zs, chosen.weight.sum(axis=1))
    else:
        log_length, log_noise = chosen.located.mode.T
    signal = np.empty(len(chosen.pulls))
    for k, z in enumerate(chosen.zs):
        signal[k] = np.exp(process.log_density(log_length[k], log_noise[k], z)[1]) / process.shape(z)
    return Parts(
        weight=chosen.weight[g, s],
        transformation=g,
        log_length=log_length[g],
        log_noise=log_noise[g],
        signal=signal[g],
        spread=chosen.spreads[s],
        xi=np.zeros((len(g), chosen.zs.shape[2])),
    )


def draw_posterior(
    process: LatentProcess, chosen: Weighted, settings: sampling.SamplerSettings, rng: np.random.Generator
) -> Posterior:
    """Sample all hyperparameters."""
    weight, error = chosen.weight.sum(axis=1), 0.0
    if isinstance(process, FeatureProcess):
        found = features.sample_posterior(process, chosen.zs, weight, settings, rng)
    else:
        found, error = sample_posterior(process, chosen.zs, weight, chosen.located, settings, rng)
    draws = dict(found.posterior)
    g = draws["transformation"]
    share = np.cumsum(chosen.weight, axis=1) / chosen.weight.sum(axis=1, keepdims=True)
    draws["spread"] = chosen.spreads[(rng.random((*g.shape, 1)) > share[g]).sum(axis=-1)]
    return Posterior(draws, found, error)


def posterior_parts(posterior: Posterior, axes: int, rng: np.random.Generator) -> tuple[Parts, tuple[int, np.ndarray]]:
    """Evenly chosen draws as parts of equal weight; with the number of chains, and the chosen draws of each."""
    chains, draws = posterior.draws["spread"].shape
    each = min(draws, max(1, PREDICTED // chains))
    kept = np.linspace(0, draws - 1, each).round().astype(int)
    size = chains * each
    flat = {name: value[:, kept].reshape(size, *value.shape[2:]) for name, value in posterior.draws.items()}
    log_length = np.log(flat["length_scale"])
    parts = Parts(
        weight=np.full(size, 1 / size),
        transformation=flat["transformation"],
        log_length=shared_lengths(log_length) if log_length.ndim == 1 else log_length,
        log_noise=np.log(flat["noise_ratio"]),
        signal=flat["signal_variance"],
        spread=flat["spread"],
        xi=rng.normal(size=(size, axes)),
    )
    return parts, (chains, kept)
