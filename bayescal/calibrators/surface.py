"""Nondecreasing Bernstein surfaces: the lattice of coefficients, the prior whose support is the whole monotone cone.

    q(t) = sum_x beta_x prod_m b_{x_m, K_m}(t_m),      x in {0..K_1} x ... x {0..K_M},      0 <= t_m <= 1

is nondecreasing in every t_m if beta is nondecreasing along every axis of the lattice (Wang & Liu 2020, Eq. 8-12). A
double cumulative sum of nonnegative increments would force supermodularity on top, and leave out the surfaces that any
one good score can satisfy. Here the nodes are filled level by level, |x| = x_1 + ... + x_M, from the middle level
h = (K_1 + ... + K_M) / 2 outwards, each with a stick d_x in (0, 1):

    beta_x = d_x                                                                                          |x| = h
    beta_x = m + (1 - m) d_x,     m = max of beta at the nodes one step below x on one axis                |x| > h
    beta_x = m d_x,               m = min of beta at the nodes one step above x on one axis                |x| < h

Every nondecreasing beta inside (0, 1) comes from exactly one d, and every d gives such a beta. The sticks spread round
those of a fusion mu = sigmoid(eta) with l(k) = logit((k + 1/4) / (K + 1/2)):

    eta_x = intercept + (M / t) log mean_m exp(t z_m),    z_m = slope_m l(x_m),    t = interaction
    logit d_x = logit of the stick that gives mu + roughness * field_x,

with a Gaussian field of variance 1 whose correlation falls as exp(-2 |x_m - x'_m| / K_m) along each axis. An
interaction t -> 0 makes the fusion logistic, eta = intercept + sum_m z_m; t > 0 leans to the larger of the z_m (one
good score is enough), t < 0 to the smaller (all are needed). Roughness 0 is the fusion itself. Filling from the middle
makes the prior symmetric in the classes and exchangeable in the scores.

The likelihood is raised to the power (1 + coarsening n / mean_m K_m^2)^(-M / (M + 2)) of n cases. A polynomial cannot
follow a kink, the less the lower its degree, and the ordinary posterior becomes sure of the nearest one at a rate of
n^(-1/2); under the power the width of a band falls as n^(-1 / (M + 2)), the best rate for monotone surfaces with kinks.
After the coarsened posterior of Miller & Dunson (2019), Eq. 2.4, whose power falls faster. Coarsening 0 is the ordinary
posterior.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_expit, logit, logsumexp

if TYPE_CHECKING:
    import pymc as pm

NEAR = 1e-9  # smallest step of the fusion's log-odds between neighbours: log of the step stays finite
LOGISTIC = 1e-4  # interactions nearer to 0 than this are taken to second order


@dataclass(frozen=True)
class Lattice:
    """Nodes in the order of ``np.ndindex`` (last coordinate fastest), and how their levels hang together."""

    degrees: tuple[int, ...]  # K_m
    nodes: np.ndarray  # (N, M)
    centre: np.ndarray  # (N, M) l(x_m)
    side: np.ndarray  # (N,) 1 above the middle level, -1 below, 0 on it
    field: np.ndarray  # (N, N) Cholesky factor of the field's correlation
    edges: np.ndarray  # (edges, 2) of nodes one step apart: the second may not be lower
    order: np.ndarray  # (N,) from the middle level outwards
    inwards: np.ndarray  # (N, M) nodes one step towards the middle level; repeated where there are fewer


@lru_cache(maxsize=16)
def make_lattice(degrees: tuple[int, ...]) -> Lattice:
    """The lattice of a surface with these degrees, whose sum is even."""
    nodes = np.array(list(np.ndindex(*(k + 1 for k in degrees))))
    size = np.array(degrees)

    def l(x: np.ndarray) -> np.ndarray:  # noqa: E743
        return logit((x + 0.25) / (size + 0.5))

    side = np.sign(nodes.sum(axis=1) - size.sum() / 2).astype(int)
    factor = np.ones((1, 1))
    for k in degrees:
        distance = np.abs(np.subtract.outer(np.arange(k + 1), np.arange(k + 1)))
        factor = np.kron(factor, np.linalg.cholesky(np.exp(-2.0 * distance / k)))
    number = np.arange(len(nodes)).reshape(size + 1)
    edges = np.concatenate(
        [
            np.column_stack([np.delete(number, -1, axis).ravel(), np.delete(number, 0, axis).ravel()])
            for axis in range(len(degrees))
        ]
    )
    order = np.argsort(np.abs(nodes.sum(axis=1) - size.sum() / 2), kind="stable")
    return Lattice(degrees, nodes, l(nodes), side, factor, edges, order, _inwards(number, nodes, side))


def degrees_of_lattice(centre: np.ndarray) -> tuple[int, ...]:
    """Degrees of the lattice whose `centre` this is."""
    return tuple(len(np.unique(column)) - 1 for column in centre.T)


def _inwards(number: np.ndarray, nodes: np.ndarray, side: np.ndarray) -> np.ndarray:
    rows = []
    for node, direction in zip(nodes, side, strict=True):
        stepped = node - direction * np.eye(len(node), dtype=int)
        inside = ((stepped >= 0) & (stepped < number.shape)).all(axis=1)
        known = number[tuple(stepped[inside].T)]
        rows.append(np.concatenate([known, np.repeat(known[:1], len(node) - len(known))]))
    return np.array(rows)


def fill(d: np.ndarray, complement: np.ndarray, lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """beta and 1 - beta from sticks d and 1 - d, all of shape ``(N, ...)``; both are exact near 0."""
    beta, rest = d.copy(), complement.copy()
    level = np.abs(lattice.nodes.sum(axis=1) - sum(lattice.degrees) // 2)
    for k in range(1, level.max() + 1):
        for side in (1, -1):
            here = np.flatnonzero((level == k) & (lattice.side == side))
            near = lattice.inwards[here]
            if side == 1:
                floor, room = beta[near].max(axis=1), rest[near].min(axis=1)
                beta[here], rest[here] = floor + room * d[here], room * complement[here]
            else:
                ceiling, room = beta[near].min(axis=1), rest[near].max(axis=1)
                beta[here], rest[here] = ceiling * d[here], room + ceiling * complement[here]
    return beta, rest


def surface_basis(t: np.ndarray, degrees: tuple[int, ...]) -> np.ndarray:
    """Products of basis polynomials at t ``(m, M)`` in the unit cube, ``(m, N)``. Wang & Liu, Eq. 8 and 9."""
    from bayescal.calibrators.bernstein import bernstein_basis

    basis = bernstein_basis(t[:, 0], degrees[0])
    for column, k in zip(t.T[1:], degrees[1:], strict=True):
        basis = (basis[:, :, None] * bernstein_basis(column, k)[:, None, :]).reshape(len(t), basis.shape[1] * (k + 1))
    return basis


def coefficients_and_complements(sticks: np.ndarray, degrees: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """beta and 1 - beta ``(S, N)`` from log-odds of sticks ``(S, N)``."""
    beta, rest = fill(expit(sticks).T, expit(-sticks).T, make_lattice(degrees))
    return beta.T, rest.T


def fusion(intercept: np.ndarray, slope: np.ndarray, interaction: np.ndarray, lattice: Lattice) -> np.ndarray:
    """eta ``(S, N)`` of intercepts ``(S,)``, slopes ``(S, M)`` and interactions ``(S,)``, by the module's equation."""
    z = slope[:, None, :] * lattice.centre
    t = interaction[:, None]
    safe = np.where(np.abs(t) < LOGISTIC, LOGISTIC, t)
    curved = (logsumexp(safe[:, :, None] * z, axis=2) - np.log(z.shape[2])) / safe
    flat = z.mean(axis=2) + 0.5 * t * z.var(axis=2)
    return intercept[:, None] + z.shape[2] * np.where(np.abs(t) < LOGISTIC, flat, curved)


def fusion_sticks(eta: np.ndarray, lattice: Lattice) -> np.ndarray:
    """Log-odds ``(S, N)`` of the sticks that give the coefficients sigmoid(eta)."""
    side = lattice.side
    near = np.maximum((side[:, None] * (eta[:, :, None] - eta[:, lattice.inwards])).min(axis=2), NEAR)
    return eta + side * (log_expit(near - side * eta) + np.log(-np.expm1(-near)))


def likelihood_power(cases: float, degrees: tuple[int, ...], coarsening: float) -> float:
    """What one of this many cases counts for, in (0, 1], by the module's equation."""
    columns = len(degrees)
    return float((1 + coarsening * cases / np.mean(np.square(degrees))) ** (-columns / (columns + 2)))


def build_surface_model(data: dict[str, np.ndarray], degrees: tuple[int, ...]) -> "pm.Model":
    """Build the model of intercept, slopes, interaction, roughness, field and coefficients.

    `data` holds the basis ``x`` at each distinct row of scores and outcome (cells), their ``outcome`` and ``weight``
    (cases times what one counts for), the lattice's ``centre``, and ``prior``, the settings of `BernsteinSurfacePriors`
    in their order.
    """
    import pymc as pm
    import pytensor.tensor as pt

    from bayescal.inference.kernels.fill import fill_sticks
    from bayescal.inference.likelihood import outcomes_given_probability

    lattice = make_lattice(degrees)
    cells, size = data["x"].shape
    coords = {"cell": np.arange(cells), "column": np.arange(len(degrees)), "node": np.arange(size)}
    side, columns = lattice.side, len(degrees)
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", data["x"], dims=("cell", "node"))
        outcome = pm.Data("outcome", data["outcome"], dims="cell")
        weight = pm.Data("weight", data["weight"], dims="cell")
        prior = pm.Data("prior", data["prior"])
        centre = pm.Data("centre", data["centre"], dims=("node", "column"))
        intercept = pm.Normal("intercept", prior[0], prior[1])
        slope = pm.HalfNormal("slope", prior[2], dims="column")
        interaction = pm.Normal("interaction", 0.0, prior[3])
        roughness = pm.HalfNormal("roughness", prior[4])
        field = pm.Normal("field", 0.0, 1.0, dims="node")
        z = slope * centre
        safe = pt.switch(pt.abs(interaction) < LOGISTIC, LOGISTIC, interaction)
        curved = (pt.logsumexp(safe * z, axis=1) - np.log(columns)) / safe
        flat = z.mean(axis=1) + 0.5 * interaction * z.var(axis=1)
        eta = intercept + columns * pt.switch(pt.abs(interaction) < LOGISTIC, flat, curved)
        near = pt.maximum((side[:, None] * (eta[:, None] - eta[lattice.inwards])).min(axis=1), NEAR)
        towards = -pt.softplus(side * eta - near) + pt.log(-pt.expm1(-near))
        sticks = pm.Deterministic(
            "sticks", eta + side * towards + roughness * pt.dot(lattice.field, field), dims="node"
        )
        beta, rest = fill_sticks(sticks, lattice.order, side, lattice.inwards)
        pm.Deterministic("coefficients", beta, dims="node")
        probability = pt.switch(pt.eq(outcome, 1), pt.dot(x, beta), pt.dot(x, rest))
        outcomes_given_probability(probability, outcome, weight)
    return model


def surface_draws(
    rng: np.random.Generator, size: int, prior: np.ndarray, degrees: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Prior draws of everything in `build_surface_model`."""
    lattice = make_lattice(degrees)
    intercept = rng.normal(prior[0], prior[1], size)
    slope = np.abs(rng.normal(0.0, prior[2], (size, len(degrees))))
    interaction = rng.normal(0.0, prior[3], size)
    roughness = np.abs(rng.normal(0.0, prior[4], size))
    field = rng.normal(size=(size, len(lattice.nodes)))
    sticks = fusion_sticks(fusion(intercept, slope, interaction, lattice), lattice)
    sticks = sticks + roughness[:, None] * field @ lattice.field.T
    return {
        "intercept": intercept,
        "slope": slope,
        "interaction": interaction,
        "roughness": roughness,
        "field": field,
        "sticks": sticks,
        "coefficients": coefficients_and_complements(sticks, degrees)[0],
    }
