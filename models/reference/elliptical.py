"""Posterior summaries of the Bernstein surface and of the spline by elliptical slice sampling: no PyMC.

Every parameter of a model is a function of independent standard normal variables w. Of the surface

    intercept = mean + sd w_0,      slope_m = sd |w_m|,      interaction = sd w_(M+1),      roughness = sd |w_(M+2)|,
    deviation = L (w_(M+3), ...),   L L' the correlation of the deviations

and of the spline

    intercept = mean + sd w_0,      slope = mean + sd w_1,   roughness = -mean log Phi(w_2),     bends = (w_3, ...)

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
from scipy.special import log_ndtr

CHAINS, WARMUP, KEPT = gibbs.CHAINS, 300, 1500
IMPORTANCE_DRAWS, CHUNK = 3_000_000, 20_000
UPDATES = {"bernstein_surface": 1, "spline": 2}
LINE = ("intercept", "slope")  # of the spline


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


class Spline(NamedTuple):
    """Columns 1, x and the bends, at the cases (signed by their labels) and at the scores to summarise; the prior."""

    signed: np.ndarray  # (n, 2 + J), times 1 for a positive case and -1 for a negative one
    at: np.ndarray  # (m, 2 + J)
    arguments: dict[str, Any]

    @property
    def size(self) -> int:
        """How many standard normal variables there are."""
        return 1 + self.at.shape[1]


def spline(scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]) -> Spline:
    """The model of `spline.py`, in the radial functions abs(x - knot)^3 instead of its truncated ones.

    Combinations c of them with sum c = 0 and sum c knot = 0 are linear beyond the knots, and have the roughness
    c' E c with E = abs(knot - knot)^3 / 12. Bends that differ by a rotation have the same prior.
    """
    x, new = (np.log(s / (1 - s)) for s in (np.clip(scores, 1e-6, 1 - 1e-6), np.clip(at, 1e-6, 1 - 1e-6)))
    distinct = np.unique(x)
    knots = np.quantile(distinct, np.linspace(0.05, 0.95, min(10, len(distinct))))

    def radial(u: np.ndarray) -> np.ndarray:
        return np.abs(u[:, None] - knots) ** 3 / 12

    def straight(u: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(u)), u])

    free = np.linalg.svd(straight(knots))[0][:, 2:]
    variance, directions = np.linalg.eigh(free.T @ radial(knots) @ free)
    combined = free @ directions / np.sqrt(variance)
    line = np.linalg.lstsq(straight(x), radial(x) @ combined)[0]
    size = np.sqrt((((radial(knots) @ combined) - straight(knots) @ line) ** 2).sum(axis=1).mean())

    def columns(u: np.ndarray) -> np.ndarray:
        return np.column_stack([straight(u), (radial(u) @ combined - straight(u) @ line) / size])

    return Spline(np.where(y > 0, 1.0, -1.0)[:, None] * columns(x), columns(new), arguments)


def spline_coefficients(w: np.ndarray, model: Spline) -> np.ndarray:
    """Intercept, slope and roughness times the bends, ``(k, 2 + J)``."""
    given = model.arguments
    line = np.column_stack([given[f"{name}_mean"] + given[f"{name}_sd"] * w[:, i] for i, name in enumerate(LINE)])
    return np.column_stack([line, -given["roughness_mean"] * log_ndtr(w[:, 2:3]) * w[:, 3:]])


def spline_log_likelihood(w: np.ndarray, model: Spline) -> np.ndarray:
    """Of all cases, ``(k,)``."""
    return -np.logaddexp(0.0, -spline_coefficients(w, model) @ model.signed.T).sum(axis=1)


def spline_functionals(w: np.ndarray, model: Spline) -> np.ndarray:
    """Intercept, slope, log roughness, and q at the scores to summarise, ``(k, 3 + m)``."""
    found = spline_coefficients(w, model)
    q = 1 / (1 + np.exp(-found @ model.at.T))
    return np.column_stack([found[:, :2], np.log(-model.arguments["roughness_mean"] * log_ndtr(w[:, 2])), q])


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
    *,
    updates: int = 1,
) -> np.ndarray:
    """Kept draws of the functionals, ``(KEPT, CHAINS, functional)``, of this model or another of standard normals.

    A sweep is so many updates.
    """
    w = rng.normal(size=(CHAINS, model.size))
    value = log_likelihood(w, model)
    kept = np.empty((KEPT, *functionals(w, model).shape))
    for sweep in range(WARMUP + KEPT):
        for _ in range(updates):
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
    rng = np.random.default_rng(gibbs.SEED)
    if name == "spline":
        functions = (spline(scores, y, at, arguments), spline_log_likelihood, spline_functionals)
        labels = (*LINE, "log(roughness)", *(f"q({s:g})" for s in at))
    else:
        functions = (surface(scores, y, at, arguments), log_likelihood, functionals)
        labels = ("intercept", "log(roughness)", *(f"q({', '.join(f'{t:g}' for t in s)})" for s in at))
    draws = slices(rng, *functions, updates=UPDATES[name])
    accepted = gibbs.check(draws, importance(rng, *functions))
    return gibbs.tabulate(labels, draws), accepted
