"""Nondecreasing values between 0 and 1 as cumulative sums of Dirichlet increments.

    d ~ Dirichlet(kappa g),  kappa ~ LogNormal,      beta_k = d_0 + ... + d_k,   k = 0 .. K,

with K + 2 pieces, the last of which is the slack between beta_K and 1. The base g holds the increments of the curve
that the prior is centred on, E beta_k = g_0 + ... + g_k; kappa says how closely.

Most shapes kappa g_k lie below 1, where log d_k has a tail as long as 1 / (kappa g_k): NUTS on the simplex then mixes
badly, and kappa with it. Two facts give the same Dirichlet without such tails. Independent Gamma(alpha_k, 1) variables
divided by their sum are Dirichlet(alpha), and Gamma(alpha) has the law of V exp(-W / alpha), V ~ Gamma(alpha + 1, 1)
and W ~ Exponential(1) independent (Stuart 1962; Marsaglia & Tsang 2000, section 6). V, W and kappa are what is sampled;
kappa and the levels are what convergence is judged by.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pymc as pm

AUXILIARY = ("gamma", "boost", "increments")  # of which the levels are made; a rank tells 1e-9 from 1e-6, no curve does
TINY = 1e-6  # smallest base increment; keeps the shapes of the Gamma variables away from 0 where the centre is flat


def base_increments(centre: np.ndarray) -> np.ndarray:
    """Increments ``(K + 2,)`` of nondecreasing prior means ``(K + 1,)`` inside (0, 1)."""
    steps = np.maximum(np.diff(np.concatenate([[0.0], centre, [1.0]])), TINY)
    return steps / steps.sum()


def mixture_data(basis: np.ndarray, positives: np.ndarray, totals: np.ndarray) -> dict[str, np.ndarray]:
    """The likelihood as a mixture over increments, from a nonnegative basis ``(m, K + 1)`` whose rows sum to 1.

    P(y = 1) = sum_k basis_k beta_k = sum_j d_j C_j with C_j = basis_j + ... + basis_K, and P(y = 0) =
    sum_j d_j (1 - C_j): sums of nonnegative terms, exact at both ends. One row ``x`` for each score and outcome seen,
    with its weight.
    """
    upper = np.concatenate([np.cumsum(basis[:, ::-1], axis=1)[:, ::-1], np.zeros((len(basis), 1))], axis=1)
    lower = np.concatenate([np.zeros((len(basis), 1)), np.cumsum(basis, axis=1)], axis=1)
    weight = np.concatenate([positives, totals - positives])
    seen = weight > 0
    return {
        "x": np.concatenate([upper, lower])[seen],
        "outcome": np.repeat([1.0, 0.0], len(basis))[seen],
        "weight": weight[seen],
    }


def build_increments_model(level_name: str, data: dict[str, np.ndarray]) -> "pm.Model":
    """Build the model of concentration, increments and levels (named `level_name`) for data of `mixture_data`."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayescal.inference.likelihood import outcomes_given_probability

    cells, pieces = data["x"].shape
    coords = {"cell": np.arange(cells), "piece": np.arange(pieces), "level": np.arange(pieces - 1)}
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", data["x"], dims=("cell", "piece"))
        outcome = pm.Data("outcome", data["outcome"], dims="cell")
        weight = pm.Data("weight", data["weight"], dims="cell")
        prior = pm.Data("prior", data["prior"])
        base = pm.Data("base", data["base"], dims="piece")
        concentration = pm.LogNormal("concentration", prior[0], prior[1])
        shape = concentration * base
        gamma = pm.Gamma("gamma", shape + 1.0, 1.0, dims="piece")
        boost = pm.Exponential("boost", 1.0, dims="piece")
        increments = pm.Deterministic("increments", pm.math.softmax(pt.log(gamma) - boost / shape), dims="piece")
        pm.Deterministic(level_name, pt.cumsum(increments[:-1]), dims="level")
        outcomes_given_probability(x @ increments, outcome, weight)
    return model


def levels_and_complements(increments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """beta and 1 - beta ``(S, K + 1)`` from increments ``(S, K + 2)``, each summed from its own end."""
    return np.cumsum(increments[:, :-1], axis=1), np.cumsum(increments[:, :0:-1], axis=1)[:, ::-1]


def increment_draws(
    rng: np.random.Generator, size: int, base: np.ndarray, log_mean: float, log_sd: float
) -> dict[str, np.ndarray]:
    """Prior draws of everything that `build_increments_model` adds but the levels."""
    kappa = rng.lognormal(log_mean, log_sd, size)
    shape = kappa[:, None] * base
    gamma = rng.gamma(shape + 1.0)
    boost = rng.exponential(size=shape.shape)
    logs = np.log(gamma) - boost / shape
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return {
        "concentration": kappa,
        "gamma": gamma,
        "boost": boost,
        "increments": weights / weights.sum(axis=1, keepdims=True),
    }
