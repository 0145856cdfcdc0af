"""Posterior summaries of the isotonic and the Bernstein model by Gibbs sampling: NumPy and SciPy only, no PyMC.

In both models q(s) = sum_j d_j C_j(s), a mixture with weights d ~ Dirichlet(kappa g), because a level or coefficient is
a sum of increments: C_j(s) in [0, 1] is the weight that increment j has at s (isotonic: 1 if j <= group of s;
Bernstein: the sum of the basis polynomials from the j-th on), and C is 0 for the last increment. So a label can be
drawn in two steps: z_i = j with probability d_j, then y_i ~ Bernoulli(C_j(s_i)). With n_j the number of cases with
z_i = j, one sweep is

    z_i | d, y             categorical, weights d_j C_j(s_i)^y_i (1 - C_j(s_i))^(1 - y_i)
    kappa | z              six Metropolis steps on log kappa, d integrated out; the density is that of the prior times
                           Gamma(kappa) / Gamma(kappa + n) prod_j Gamma(kappa g_j + n_j) / Gamma(kappa g_j)
    d | kappa, z           Dirichlet(kappa g + n)

Gelfand & Kuo (1991), "Nonparametric Bayesian bioassay including ordered polytomous response", Biometrika 78, 657-666,
use such latent pieces. `CHAINS` chains start from the prior and never exchange anything; standard errors come from the
spread between `BATCHES` sets of whole chains, so autocorrelation needs no model.

Acceptance rule, in `check`. (1) The effective sample size of every mean, the posterior variance over its squared
standard error, is at least `ESS_MIN`. (2) Every summary of the first half of the kept sweeps agrees with that of the
second half within `Z_MAX` standard errors of their difference. (3) Every mean agrees within `Z_MAX` combined standard
errors with importance sampling, a route that shares no step with the one above: draws of (kappa, d) from the prior,
weighted by the likelihood.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

CHAINS, BATCHES = 640, 32
WARMUP, KEPT = 400, 2000
IMPORTANCE_DRAWS, CHUNK = 3_000_000, 100_000
ESS_MIN = 20_000
Z_MAX = 4.5  # the 36 comparisons of a posterior exceed it by chance in 3 runs of 1000
SEED = 1
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}

Summary = dict[str, float]


class Mixture(NamedTuple):
    """A model as a mixture: base shares, component probabilities of the cases and of the scores to summarise."""

    base: np.ndarray  # (pieces,)
    cases: np.ndarray  # (n, pieces) C_j(s_i)
    at: np.ndarray  # (m, pieces)
    y: np.ndarray  # (n,)
    log_mean: float
    log_sd: float


def isotonic(scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]) -> Mixture:
    """The model of `isotonic.py`."""
    distinct, row, count = np.unique(scores, return_inverse=True, return_counts=True)
    below = np.concatenate([[0], np.cumsum(count)[:-1]])
    group_of_distinct = np.unique(arguments["steps"] * (2 * below + count) // (2 * len(y)), return_inverse=True)[1]
    group = group_of_distinct[row]
    last = np.flatnonzero(np.diff(group_of_distinct))
    borders = (distinct[last] + distinct[last + 1]) / 2
    j = len(last) + 1
    centre = np.array([scores[group == k].mean() for k in range(j)])
    base = np.maximum(np.diff(np.concatenate([[0.0], (j * centre + 0.5) / (j + 1), [1.0]])), 1e-6)
    reached = np.tri(j, j + 1)  # group k has received the increments 0 .. k
    at_group = np.searchsorted(borders, at, side="right")
    return _mixture(base / base.sum(), reached[group], reached[at_group], y, arguments)


def bernstein(scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]) -> Mixture:
    """The model of `bernstein.py`."""
    degree = arguments["degree"]
    k = np.arange(degree + 1)
    base = np.diff(np.concatenate([[0.0], (k + 0.5) / (degree + 1), [1.0]]))

    def reached(s: np.ndarray) -> np.ndarray:
        choose = np.exp(gammaln(degree + 1) - gammaln(k + 1) - gammaln(degree - k + 1))
        basis = choose * s[:, None] ** k * (1 - s[:, None]) ** (degree - k)
        from_the_end = np.cumsum(basis[:, ::-1], axis=1)[:, ::-1]
        return np.column_stack([from_the_end, np.zeros(len(s))]).clip(0.0, 1.0)

    return _mixture(base, reached(scores), reached(at), y, arguments)


def _mixture(base: np.ndarray, cases: np.ndarray, at: np.ndarray, y: np.ndarray, arguments: dict[str, Any]) -> Mixture:
    log_mean, log_sd = arguments["concentration_log_mean"], arguments["concentration_log_sd"]
    return Mixture(base, cases, at, y, log_mean, log_sd)


def dirichlet(rng: np.random.Generator, shape: np.ndarray) -> np.ndarray:
    """Dirichlet draws, one for each row of shapes ``(m, pieces)``."""
    gamma = rng.standard_gamma(shape)
    return gamma / gamma.sum(axis=1, keepdims=True)


def gibbs(rng: np.random.Generator, model: Mixture) -> np.ndarray:
    """Kept draws of log kappa and of q at the scores to summarise, ``(KEPT, CHAINS, 1 + m)``."""
    n, pieces = model.cases.shape
    chance = np.where(model.y[:, None] > 0, model.cases, 1.0 - model.cases)
    base = model.base
    log_kappa = rng.normal(model.log_mean, model.log_sd, CHAINS)
    d = dirichlet(rng, np.exp(log_kappa)[:, None] * base)
    chain = np.arange(CHAINS)[:, None] * pieces
    kept = np.empty((KEPT, CHAINS, 1 + len(model.at)))

    def log_density(log_kappa: np.ndarray, counts: np.ndarray) -> np.ndarray:
        kappa = np.exp(log_kappa)[:, None]
        pieces_term = (gammaln(kappa * base + counts) - gammaln(kappa * base)).sum(axis=1)
        total_term = gammaln(kappa[:, 0]) - gammaln(kappa[:, 0] + n)
        return pieces_term + total_term - 0.5 * ((log_kappa - model.log_mean) / model.log_sd) ** 2

    for sweep in range(WARMUP + KEPT):
        weight = np.cumsum(d[:, None, :] * chance, axis=2)  # (chain, case, piece)
        u = rng.random((CHAINS, n)) * weight[:, :, -1]
        z = (weight < u[:, :, None]).sum(axis=2)
        counts = np.bincount((z + chain).ravel(), minlength=CHAINS * pieces).reshape(CHAINS, pieces)
        current = log_density(log_kappa, counts)
        for _ in range(6):
            proposed = log_kappa + rng.normal(0.0, 1.2, CHAINS)
            value = log_density(proposed, counts)
            accept = np.log(rng.random(CHAINS)) < value - current
            log_kappa, current = np.where(accept, proposed, log_kappa), np.where(accept, value, current)
        d = dirichlet(rng, np.exp(log_kappa)[:, None] * base + counts)
        if sweep >= WARMUP:
            kept[sweep - WARMUP, :, 0] = log_kappa
            kept[sweep - WARMUP, :, 1:] = d @ model.at.T
    return kept


def importance(rng: np.random.Generator, model: Mixture) -> tuple[np.ndarray, np.ndarray, float]:
    """Means of log kappa and q by weighted prior draws, their standard errors, and the effective sample size."""
    values, logs = [], []
    for _ in range(IMPORTANCE_DRAWS // CHUNK):
        log_kappa = rng.normal(model.log_mean, model.log_sd, CHUNK)
        d = dirichlet(rng, np.exp(log_kappa)[:, None] * model.base)
        q = d @ model.cases.T
        with np.errstate(divide="ignore"):  # a weight of 0
            logs.append(np.log(np.where(model.y > 0, q, 1.0 - q).clip(0.0)).sum(axis=1))
        values.append(np.column_stack([log_kappa, d @ model.at.T]))
    return weighted(np.concatenate(values), np.concatenate(logs))


def weighted(value: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Means of values ``(k, functional)`` under weights, their standard errors, and the effective sample size."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ value
    return mean, np.sqrt(weight**2 @ (value - mean) ** 2), float(1 / (weight @ weight))


def summarise(draws: np.ndarray) -> np.ndarray:
    """Mean, sd and quantiles of draws ``(k, functional)``, ``(5, functional)``."""
    quantiles = np.quantile(draws, list(QUANTILES.values()), axis=0)
    return np.vstack([draws.mean(axis=0), draws.std(axis=0), quantiles])


def batch_summaries(draws: np.ndarray) -> np.ndarray:
    """Summaries of each set of whole chains, ``(BATCHES, 5, functional)``."""
    sets = np.split(draws, BATCHES, axis=1)
    return np.array([summarise(one.reshape(-1, draws.shape[2])) for one in sets])


def check(draws: np.ndarray, importance: tuple[np.ndarray, np.ndarray, float]) -> Summary:
    """What the acceptance rule found. Raises if the rule is broken."""
    importance_mean, importance_se, importance_ess = importance
    means = batch_summaries(draws)[:, 0]
    se = means.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    flat = draws.reshape(-1, draws.shape[2])
    ess = float((flat.var(axis=0) / se**2).min())
    first, second = (batch_summaries(half) for half in np.split(draws, 2))
    # halves of one chain are nearly independent; their difference within a batch shows what they are
    difference = first - second
    z_halves = float(np.abs(difference.mean(axis=0) / (difference.std(axis=0, ddof=1) / np.sqrt(BATCHES))).max())
    z_importance = float(np.abs((flat.mean(axis=0) - importance_mean) / np.hypot(se, importance_se)).max())
    if not (ess >= ESS_MIN and z_halves <= Z_MAX and z_importance <= Z_MAX):
        raise ArithmeticError(f"rejected: ESS {ess:.0f}, halves {z_halves:.2f}, importance {z_importance:.2f}.")
    return {
        "smallest_ess": round(ess),
        "largest_z_between_halves": round(z_halves, 2),
        "largest_z_to_importance_sampling": round(z_importance, 2),
        "importance_sampling_ess": round(importance_ess),
    }


def tabulate(labels: tuple[str, ...], draws: np.ndarray) -> dict[str, Summary]:
    """Summaries of every functional with their standard errors."""
    summary = summarise(draws.reshape(-1, draws.shape[2]))
    se = batch_summaries(draws).std(axis=0, ddof=1) / np.sqrt(BATCHES)
    names = ("mean", "sd", *QUANTILES)
    return {
        label: {
            **dict(zip(names, summary[:, k].tolist(), strict=True)),
            **{f"{name}_se": error for name, error in zip(names, se[:, k].tolist(), strict=True)},
        }
        for k, label in enumerate(labels)
    }


def reference(
    name: str, scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]
) -> tuple[dict[str, Summary], Summary]:
    """Summaries of every functional with their standard errors, and what the acceptance rule found."""
    model = {"isotonic": isotonic, "bernstein": bernstein}[name](scores, y, at, arguments)
    rng = np.random.default_rng(SEED)
    draws = gibbs(rng, model)
    accepted = check(draws, importance(rng, model))
    return tabulate(("log(concentration)", *(f"q({s:g})" for s in at)), draws), accepted
