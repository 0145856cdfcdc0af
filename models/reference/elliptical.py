"""Posterior summaries of the Bernstein surface by elliptical slice sampling: NumPy only, no PyMC.

Every parameter of the model is a function of independent standard normal variables w:

    intercept = mean + sd w_0,      slope_m = sd |w_m|,      interaction = sd w_(M+1),      roughness = sd |w_(M+2)|,
    deviation = L (w_(M+3), ...),   L L' the correlation of the deviations

So the posterior of w is a standard normal density times a power of the likelihood, for which an update needs no step
size and no gradient: draw another standard normal vector v and a threshold below the likelihood of w, and shrink an
angle towards 0 until w cos(angle) + v sin(angle) is above it. Murray, Adams & MacKay (2010), "Elliptical slice
sampling", AISTATS.

Chains, batches and the acceptance rule are those of `gibbs.py`, importance sampling from the prior included.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import gibbs
import numpy as np

CHAINS, WARMUP, KEPT = gibbs.CHAINS, 300, 1500
IMPORTANCE_DRAWS, CHUNK = 3_000_000, 20_000


class Surface(NamedTuple):
    """Lattice, basis at the cases and at the scores to summarise, and the prior."""

    degrees: np.ndarray  # (M,)
    nodes: np.ndarray  # (N, M)
    place: np.ndarray  # (N, M) log((x_m + 1/4) / (K_m - x_m + 1/4))
    factor: np.ndarray  # (N, N) L
    positives: np.ndarray  # (n1, N)
    negatives: np.ndarray  # (n0, N)
    at: np.ndarray  # (m, N)
    arguments: dict[str, Any]

    @property
    def size(self) -> int:
        """How many standard normal variables there are."""
        return len(self.degrees) + 3 + len(self.nodes)


def surface(scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]) -> Surface:
    """The model of `bernstein_surface.py`."""
    degrees = np.broadcast_to(arguments["degree"], scores.shape[1])
    nodes = np.array(list(np.ndindex(*(degrees + 1))))
    place = np.log((nodes + 0.25) / (degrees - nodes + 0.25))
    apart = (np.abs(nodes[:, None] - nodes) / degrees).sum(axis=2)

    def basis(s: np.ndarray) -> np.ndarray:
        product = np.ones((len(s), 1))
        for t, k in zip(s.T[:, :, None], degrees, strict=True):
            one = np.zeros((len(t), k + 1))
            one[:, 0] = 1.0
            for _ in range(k):  # of one degree more: (1 - t) times itself and t times its left neighbour
                one = (1 - t) * one + t * np.column_stack([np.zeros(len(t)), one[:, :-1]])
            product = (product[:, :, None] * one[:, None]).reshape(len(s), -1)
        return product

    factor = np.linalg.cholesky(np.exp(-2 * apart))
    return Surface(degrees, nodes, place, factor, basis(scores[y > 0]), basis(scores[y == 0]), basis(at), arguments)


def hyperparameters(w: np.ndarray, model: Surface) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Intercept ``(k,)``, slopes ``(k, M)``, interaction ``(k,)`` and roughness ``(k,)``."""
    given, columns = model.arguments, len(model.degrees)
    return (
        given["intercept_mean"] + given["intercept_sd"] * w[:, 0],
        given["slope_sd"] * np.abs(w[:, 1 : columns + 1]),
        given["interaction_sd"] * w[:, columns + 1],
        given["roughness_sd"] * np.abs(w[:, columns + 2]),
    )


def fused_odds(w: np.ndarray, model: Surface) -> np.ndarray:
    """exp(eta) ``(N, k)``: a power mean of the scores' own odds, of exponent interaction, to the power M."""
    intercept, slope, interaction, _ = hyperparameters(w, model)
    own = np.exp(model.place[:, :, None] * slope.T)  # (N, M, k)
    return np.exp(intercept) * np.mean(own**interaction, axis=1) ** (own.shape[1] / interaction)


def coefficients(w: np.ndarray, model: Surface) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their complements ``(N, k)``, node by node from the middle level outwards."""
    roughness, odds = hyperparameters(w, model)[3], fused_odds(w, model)
    bend = np.exp(roughness * (model.factor @ w[:, len(model.degrees) + 3 :].T))  # of the odds of a stick
    mu, rest_mu = odds / (1 + odds), 1 / (1 + odds)
    beta, rest = np.empty_like(mu), np.empty_like(mu)
    number = {tuple(x): i for i, x in enumerate(model.nodes)}
    twice = 2 * model.nodes.sum(axis=1) - model.degrees.sum()
    for i in np.argsort(np.abs(twice), kind="stable"):
        side = np.sign(twice[i])
        steps = [tuple(model.nodes[i] - side * axis) for axis in np.eye(len(model.degrees), dtype=int)]
        near = [number[x] for x in steps if x in number]
        if side == 0:
            d = 1 / (1 + 1 / (odds[i] * bend[i]))
            beta[i], rest[i] = d, 1 / (1 + odds[i] * bend[i])
        elif side > 0:
            low, room = mu[near].max(axis=0), rest_mu[near].min(axis=0)
            ratio = np.where(low < 0.5, mu[i] - low, room - rest_mu[i]) / rest_mu[i] * bend[i]
            low, room = beta[near].max(axis=0), rest[near].min(axis=0)
            beta[i], rest[i] = low + room / (1 + 1 / ratio), room / (1 + ratio)
        else:
            low, room = rest_mu[near].max(axis=0), mu[near].min(axis=0)
            ratio = np.where(low < 0.5, rest_mu[i] - low, room - mu[i]) / mu[i] / bend[i]
            low, room = rest[near].max(axis=0), beta[near].min(axis=0)
            rest[i], beta[i] = low + room / (1 + 1 / ratio), room / (1 + ratio)
    return beta, rest


def log_likelihood(w: np.ndarray, model: Surface) -> np.ndarray:
    """Of the cases, as many as they count, ``(k,)``."""
    beta, rest = coefficients(w, model)
    cases, columns = len(model.positives) + len(model.negatives), len(model.degrees)
    power = (1 + model.arguments["coarsening"] * cases / np.mean(model.degrees**2)) ** (-columns / (columns + 2))
    return power * (np.log(model.positives @ beta).sum(axis=0) + np.log(model.negatives @ rest).sum(axis=0))


def functionals(w: np.ndarray, model: Surface) -> np.ndarray:
    """Intercept, log roughness, and q at the scores to summarise, ``(k, 2 + m)``."""
    intercept, _, _, roughness = hyperparameters(w, model)
    return np.column_stack([intercept, np.log(roughness), (model.at @ coefficients(w, model)[0]).T])


def update(
    rng: np.random.Generator, w: np.ndarray, value: np.ndarray, model: Any, log_likelihood: Callable = log_likelihood
) -> None:
    """One elliptical slice of every chain; `w` and its log likelihood `value` are replaced."""
    start, other = w.copy(), rng.normal(size=w.shape)
    threshold = value + np.log(rng.random(len(w)))
    angle = rng.uniform(0, 2 * np.pi, len(w))
    low, high = angle - 2 * np.pi, angle.copy()
    left = np.arange(len(w))
    while len(left):
        turn = angle[left, None]
        w[left] = start[left] * np.cos(turn) + other[left] * np.sin(turn)
        value[left] = log_likelihood(w[left], model)
        left = left[~(value[left] > threshold[left])]
        low[left] = np.where(angle[left] < 0, angle[left], low[left])
        high[left] = np.where(angle[left] < 0, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])


def slices(
    rng: np.random.Generator,
    model: Any,
    log_likelihood: Callable = log_likelihood,
    functionals: Callable = functionals,
) -> np.ndarray:
    """Kept draws of the functionals, ``(KEPT, CHAINS, functional)``, of this model or another of standard normals."""
    w = rng.normal(size=(CHAINS, model.size))
    value = log_likelihood(w, model)
    kept = np.empty((KEPT, *functionals(w, model).shape))
    for sweep in range(WARMUP + KEPT):
        update(rng, w, value, model, log_likelihood)
        if sweep >= WARMUP:
            kept[sweep - WARMUP] = functionals(w, model)
    return kept


def importance(
    rng: np.random.Generator,
    model: Any,
    log_likelihood: Callable = log_likelihood,
    functionals: Callable = functionals,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Means of the functionals by weighted prior draws, their standard errors, and the effective sample size."""
    values, logs = [], []
    for _ in range(IMPORTANCE_DRAWS // CHUNK):
        w = rng.normal(size=(CHUNK, model.size))
        logs.append(log_likelihood(w, model))
        values.append(functionals(w, model))
    return gibbs.weighted(np.concatenate(values), np.concatenate(logs))


def reference(
    name: str, scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]
) -> tuple[dict[str, gibbs.Summary], gibbs.Summary]:
    """Summaries of every functional with their standard errors, and what the acceptance rule found."""
    model = {"bernstein_surface": surface}[name](scores, y, at, arguments)
    rng = np.random.default_rng(gibbs.SEED)
    draws = slices(rng, model)
    accepted = gibbs.check(draws, importance(rng, model))
    labels = ("intercept", "log(roughness)", *(f"q({', '.join(f'{t:g}' for t in s)})" for s in at))
    return gibbs.tabulate(labels, draws), accepted
