"""Class proportions of unlabelled cases by maximum likelihood.

    log L(q) = sum_k log sum_i q_i p_i(x_k) / p_i,      q_i >= 0,   sum_i q_i = 1

with calibrated probabilities p_i(x) that hold where the classes have proportions p_i (Saerens, Latinne & Decaestecker
2002; Alexandari, Kundaje & Shrikumar 2020, Eq. 3). log L is concave (their Lemma B), so a point that satisfies the
first-order conditions is the global maximum: with G_i the mean over cases of (p_i(x) / p_i) / sum_j q_j p_j(x) / p_j,

    G_i = 1 where q_i > 0,      G_i <= 1 where q_i = 0.

The residual of these conditions is what the solver stops at. A change in q is no such rule: where classes overlap, EM
moves by 1e-6 a step while it is ten units of log likelihood short.

The constraint on the sum may go: the minimum of f(q) = -log L(q) / N + sum_i q_i over q >= 0 has sum 1. A few EM steps
q_i <- q_i G_i lead into the region where f is near its quadratic expansion; sequential quadratic programs, each solved
as nonnegative least squares with the exact Hessian, do the rest (Kim, Carbonetto, Stephens & Anitescu 2020).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from bayescal.inference.sampling import one_blas_thread

KKT_TOLERANCE = 1e-8
BLOCK = 2**18  # numbers of a block of rows: 2 MB, which stay in the cache
EM_STEPS = 5
MAX_STEPS = 200
EVERY = 50  # of many rows, those that the start is found from
MANY = 50_000
SHRINK = 0.1  # of a proportion that its own slope does not push down, what one program leaves at least


@dataclass(frozen=True)
class Evidence:
    """What cases say of the proportions: row k has the likelihood ``rows[k] @ q`` and counts ``weight[k]`` times."""

    rows: np.ndarray  # (N, K), each scaled to a largest entry of 1
    weight: np.ndarray  # (N,)
    kept: np.ndarray  # (C,) bool: the K classes that can be estimated, those with a source proportion above 0
    ignored: int  # cases that only classes left out could explain

    def spread(self, q: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """Values of the K classes ``(..., K)``, with `fill` at those left out: ``(..., C)``."""
        full = np.full((*q.shape[:-1], len(self.kept)), fill)
        full[..., self.kept] = q
        return full


@dataclass(frozen=True)
class MaximumLikelihood:
    """The maximum, and how well it satisfies the first-order conditions."""

    q: np.ndarray  # (K,)
    residual: float  # max of G_i - 1 and q_i |G_i - 1|
    passes: int  # over all rows


def evidence(proba: np.ndarray, source: np.ndarray, labelled: np.ndarray | None = None) -> Evidence:
    """Read probabilities ``(N, C)`` that hold at source proportions ``(C,)``, and labels of other target cases.

    A labelled case of class i says q_i, whatever its scores are: `labelled` counts them, ``(C,)``. Classes with a
    source proportion of 0 have no ratio. They are left out, and so are cases that no other class explains.
    """
    kept = source > 0
    rows = proba[:, kept] / source[kept] if not kept.all() else proba / source
    largest = rows.max(axis=1, initial=0.0)
    explained = largest > 0
    if not explained.all():
        rows, largest = rows[explained], largest[explained]
    rows /= largest[:, None]
    weight = np.ones(len(rows))
    if labelled is not None and labelled[kept].any():
        rows = np.concatenate([rows, np.eye(kept.sum())])
        weight = np.concatenate([weight, labelled[kept]])
    return Evidence(rows, weight, kept, int((~explained).sum()))


def maximum_likelihood(given: Evidence) -> MaximumLikelihood:
    """The proportions ``(K,)`` of the largest likelihood; uniform if there are no cases."""
    used = given.weight > 0
    rows, weight = (given.rows, given.weight) if used.all() else (given.rows[used], given.weight[used])
    k = rows.shape[1]
    q = np.full(k, 1 / k)
    if not len(rows):
        return MaximumLikelihood(q, 0.0, 0)
    steps = EM_STEPS
    with one_blas_thread():  # blocks are too small for several
        if len(rows) > MANY and (weight == weight[0]).all():
            q = 0.99 * _climb(rows[::EVERY], weight[::EVERY], q, EM_STEPS, 1e-4).q + 0.01 / k
            steps = 1
        return _climb(rows, weight, q, steps, KKT_TOLERANCE)


def _climb(rows: np.ndarray, weight: np.ndarray, q: np.ndarray, em_steps: int, tolerance: float) -> MaximumLikelihood:
    """EM steps, then quadratic programs, until the conditions hold or no step improves the likelihood."""
    for _ in range(em_steps):
        q = q * _expansion(rows, weight, q, curvature=False)[1]
    passes = em_steps
    value, mean_ratio, curvature = _expansion(rows, weight, q)
    for _ in range(MAX_STEPS):
        passes += 1
        if _residual(q, mean_ratio) <= tolerance:
            break
        direction = _quadratic_program(q, mean_ratio, curvature) - q
        slope = direction @ (1 - mean_ratio)
        size = 1.0 if slope < 0 else 0.0
        while size > 1e-6:
            proposal = q + size * direction
            new = _expansion(rows, weight, proposal)
            if new[0] <= value + 0.01 * size * slope or _residual(proposal, new[1]) <= tolerance:
                break
            size *= 0.3
            passes += 1
        else:
            proposal = q * mean_ratio  # an EM step never lowers the likelihood
            new = _expansion(rows, weight, proposal)
            if not new[0] < value:
                break
        q, (value, mean_ratio, curvature) = proposal, new
    return MaximumLikelihood(q / q.sum(), _residual(q, mean_ratio), passes)


def _residual(q: np.ndarray, mean_ratio: np.ndarray) -> float:
    return float(max((mean_ratio - 1).max(), (q * np.abs(mean_ratio - 1)).max()))


def _expansion(
    rows: np.ndarray, weight: np.ndarray, q: np.ndarray, curvature: bool = True
) -> tuple[float, np.ndarray, np.ndarray]:
    """f(q), G ``(K,)`` and the Hessian of f ``(K, K)``, in one pass over blocks of rows."""
    k = rows.shape[1]
    total = weight.sum()
    value, mean_ratio, hessian = 0.0, np.zeros(k), np.zeros((k, k))
    size = max(1, BLOCK // k)
    for start in range(0, len(rows), size):
        block, w = rows[start : start + size], weight[start : start + size]
        mixture = block @ q
        if mixture.min() <= 0:
            return np.inf, mean_ratio, hessian
        value -= w @ np.log(mixture)
        mean_ratio += (w / mixture) @ block
        if curvature:
            scaled = block * (np.sqrt(w) / mixture)[:, None]
            hessian += scaled.T @ scaled
    return value / total + q.sum(), mean_ratio / total, hessian / total


def _quadratic_program(q: np.ndarray, mean_ratio: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The minimum over x >= least of the expansion of f at q; its linear term is 1 - 2 G, since Hessian @ q = G."""
    # the expansion is right near q only: a class that its own slope pushes up is not sent to 0
    least = np.where(mean_ratio > 1, SHRINK * q, 0.0)
    # a class that is there has a diagonal of at least G^2 = 1; the ridge picks one of many equal optima
    scale = 1 / np.sqrt(np.maximum(np.diag(hessian), 1.0))
    scaled = hessian * np.outer(scale, scale)
    ridge = 1e-14
    while True:
        try:
            factor = cholesky(scaled + ridge * np.eye(len(q)), lower=True)
            break
        except LinAlgError:
            ridge *= 10
    linear = scale * (2 * mean_ratio - 1 - hessian @ least) + ridge * (q - least) / scale
    return least + scale * nnls(factor.T, solve_triangular(factor, linear, lower=True), maxiter=30 * len(q))[0]


def adapt_probabilities(proba: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities where class i is `weights[i]` times as frequent: Alexandari et al., Eq. 8.

    `proba` ``(..., C)`` and `weights` broadcast. A case that has no weighted probability left keeps its probabilities.
    """
    weighted = proba * weights
    total = weighted.sum(axis=-1, keepdims=True)
    return np.divide(weighted, total, out=np.array(np.broadcast_to(proba, weighted.shape)), where=total > 0)
