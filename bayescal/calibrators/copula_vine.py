"""The dependence of several scores within a class: a canonical vine of pair copulas, each averaged over its family.

    c(u_1 .. u_M) = product over k < j of c_kj(u_j|k-1, u_k|k-1),      u_j|k = h_kj(u_j|k-1 | u_k|k-1),   u_j|0 = u_j

where u_j|k is the distribution function of score j given scores 1 .. k: one pair for M = 2, three for M = 3, six for
M = 4, in the order of the columns. Aas, Czado, Frigessi & Bakken (2009), "Pair-copula constructions of multiple
dependence". Each pair has a family, all equally likely, and a Kendall's tau = 0.95 tanh(x), x ~ Normal. Given the u of
a class, family and x are drawn from their joint posterior, a table of likelihoods that is exact but for its grid in x.
"""

from collections.abc import Callable

import numpy as np

from bayescal.calibrators.copula_families import FAMILIES, conditional, log_density

NAMES = tuple(FAMILIES)
MOST_TAU = 0.95
U_CLIP = 1e-4  # nearer to 0 and 1 no calibration set of a size for this package says anything of the copula
COARSE = np.linspace(-2.25, 2.25, 46)  # x: finds where the likelihood lies
FINE = 16  # values of x in that region
REGION = 18.0  # log posterior below its maximum at which the region of a family ends
NEGLIGIBLE = 25.0  # log posterior below that of the best family at which a family is left out
SCOUTS = 12  # draws that find the region for all
TABLES = 500_000  # draws x rows for which tables are made; beyond, neighbouring draws share one
BLOCK = 2**17  # numbers of one block of draws x rows x grid

Array = np.ndarray


def pair_count(n_scores: int) -> int:
    """How many pair copulas a vine has."""
    return n_scores * (n_scores - 1) // 2


def prior_draws(
    rng: np.random.Generator, shape: tuple[int, ...], families: Array, mean: float, sd: float
) -> tuple[Array, Array]:
    """Families (numbers in `NAMES`, of those in `families`) and taus of the prior."""
    return rng.choice(families, size=shape), MOST_TAU * np.tanh(rng.normal(mean, sd, shape))


def posterior_draws(
    rng: np.random.Generator, u: Array, weight: Array, families: Array, mean: float, sd: float
) -> tuple[Array, Array]:
    """Family and tau, each ``(S, P)``, for draws u ``(S, n, M)`` of the margins at rows of weights ``(n,)``."""
    drawn = []
    u = np.clip(u, U_CLIP, 1 - U_CLIP)
    while u.shape[2] > 1:
        root, following = u[:, :, 0], []
        for other in np.moveaxis(u[:, :, 1:], 2, 0):
            drawn.append(_draw_pair(rng, other, root, weight, families, mean, sd))
            following.append(_by_family(conditional, other, root, *drawn[-1]))
        u = np.clip(np.stack(following, axis=2), U_CLIP, 1 - U_CLIP)
    family, tau = zip(*drawn, strict=True)
    return np.stack(family, axis=1), np.stack(tau, axis=1)


def vine_log_density(u: Array, family: Array, tau: Array) -> Array:
    """Log density ``(S, m)`` at u ``(S, m, M)`` of families and taus ``(S, P)``."""
    total, pair = np.zeros(u.shape[:2]), 0
    u = np.clip(u, U_CLIP, 1 - U_CLIP)
    while u.shape[2] > 1:
        root, following = u[:, :, 0], []
        for other in np.moveaxis(u[:, :, 1:], 2, 0):
            total += _by_family(log_density, other, root, family[:, pair], tau[:, pair])
            if u.shape[2] > 2:
                following.append(_by_family(conditional, other, root, family[:, pair], tau[:, pair]))
            pair += 1
        u = np.clip(np.stack(following, axis=2), U_CLIP, 1 - U_CLIP) if following else u[:, :, :1]
    return total


def _by_family(function: Callable[..., Array], u: Array, v: Array, family: Array, tau: Array) -> Array:
    """function(name, u, v, tau) at u, v ``(S, m)`` where each draw has its own family and tau ``(S,)``."""
    out = np.empty(u.shape)
    for number in np.unique(family):
        for sign in (tau < 0, tau >= 0):
            of = np.flatnonzero((family == number) & sign)
            if of.size:
                out[of] = function(NAMES[number], u[of], v[of], tau[of, None])
    return out


def log_likelihood(name: str, u: Array, v: Array, weight: Array, tau: Array) -> Array:
    """Log likelihood ``(S, G)`` of a family at taus ``(G,)`` for u, v ``(S, n)``."""
    out = np.zeros((len(u), len(tau)))
    block = max(1, BLOCK // max(1, u.shape[1] * len(tau)))
    for sign in (tau < 0, tau >= 0):
        if not sign.any():
            continue
        for start in range(0, len(u), block):
            part = slice(start, start + block)
            density = log_density(name, u[part, :, None], v[part, :, None], tau[sign])
            out[part, sign] = np.einsum("sng,n->sg", density, weight)
    return out


def _draw_pair(
    rng: np.random.Generator, u: Array, v: Array, weight: Array, families: Array, mean: float, sd: float
) -> tuple[Array, Array]:
    """Family and tau ``(S,)`` of one pair for u, v ``(S, n)``."""

    def log_posterior(name: str, draws: Array, x: Array) -> Array:
        likelihood = log_likelihood(name, u[draws], v[draws], weight, MOST_TAU * np.tanh(x))
        return likelihood - 0.5 * ((x - mean) / sd) ** 2

    scouts = np.unique(np.linspace(0, len(u) - 1, SCOUTS).astype(int))
    grids, best = {}, {}
    for number in families:
        x = COARSE
        for _ in range(2):  # the second round narrows the regions of large data sets
            found = log_posterior(NAMES[number], scouts, x)
            inside = np.flatnonzero((found > found.max(axis=1, keepdims=True) - REGION).any(axis=0))
            x = np.linspace(x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)], FINE)
        grids[number], best[number] = x, found.max(axis=1)
    overall = np.max(list(best.values()), axis=0)
    live = [number for number in families if (best[number] > overall - NEGLIGIBLE).any()]

    every = max(1, int(np.ceil(u.size / TABLES)))
    of_table = np.arange(0, len(u), every)
    table = np.stack(
        [
            log_posterior(NAMES[number], of_table, grids[number]) + np.log(grids[number][1] - grids[number][0])
            for number in live
        ],
        axis=1,
    ).reshape(len(of_table), -1)
    cumulative = np.cumsum(np.exp(table - table.max(axis=1, keepdims=True)), axis=1)
    threshold = rng.random(len(u)) * np.repeat(cumulative[:, -1], every)[: len(u)]
    cell = (np.repeat(cumulative, every, axis=0)[: len(u)] < threshold[:, None]).sum(axis=1)
    family, node = np.divmod(np.minimum(cell, table.shape[1] - 1), FINE)
    x = np.stack([grids[number] for number in live])[family, node]
    return np.asarray(live)[family], MOST_TAU * np.tanh(x)
