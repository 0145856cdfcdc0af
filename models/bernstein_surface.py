"""Bernstein calibration surface: a smooth function of several scores, nondecreasing in each, of any shape.

    y ~ Bernoulli(q(s)),      q(s) = sum_x coefficients[x] prod_m b_{x_m, K_m}(s_m),      0 <= s_m <= 1,  m = 1 .. M
    b_{k, K}(t) = C(K, k) t^k (1 - t)^(K - k),      nodes x in {0 .. K_1} x ... x {0 .. K_M}

The nodes of the middle level x_1 + ... + x_M = (K_1 + ... + K_M) / 2 come first, then level after level outwards. Each
node has a stick d_x in (0, 1), its place in the interval that its neighbours one step towards the middle level leave:

    coefficients[x] = d_x                         on the middle level
    coefficients[x] = low + (1 - low) d_x         above it, low the largest coefficient one step below x on one axis
    coefficients[x] = high d_x                    below it, high the smallest coefficient one step above x on one axis
    logit d_x = logit of the stick of a fusion + roughness * deviation[x]

The fusion has the coefficients mu_x = sigmoid(eta_x), which rise along every axis; its sticks are those that give them:

    eta_x = intercept + (M / interaction) log mean_m exp(interaction slope[m] l_m(x_m)),
    l_m(k) = log((k + 1/4) / (K_m - k + 1/4)).

The likelihood counts n cases as n (1 + coarsening n / mean_m K_m^2)^(-M / (M + 2)).

Story. A case with one score larger and the others equal is no less likely to be positive, and the probability changes
smoothly. To begin with, the log-odds of the classifiers are fused, each with its weight (slope). Interaction 0, the
limit, adds them up; a positive one leans to the larger of them, as where one good score is enough; a negative one to
the smaller, as where all are needed. The deviations then bend the surface; neighbours bend alike. Every array of
coefficients in (0, 1) that rises along the axes has exactly one array of sticks: no shape is left out. Because the
filling starts in the middle, neither class and no score comes first. Log-odds are replaced by their sigmoid; other
decision values, column by column, by their mid-rank (rank - 1/2) / n among the cases.

No polynomial of degree K is a kinked or stepped surface. The cases would in the end make the posterior sure of the best
one there is, at a rate of n^(-1/2), while a monotone surface with kinks cannot be known faster than n^(-1 / (M + 2)).
So the likelihood is raised to a power (a coarsened posterior, Miller & Dunson 2019), under which the width of a
credible interval falls at that rate.

Priors
    intercept ~ Normal(0, 1)
        No shift, give or take a factor e in the odds. For ranks, which say nothing of how many positives there are,
        the standard deviation is 3.
    slope ~ HalfNormal(1.2)
        For two scores; for M of them 1.2 sqrt(2 / M). A useless score has 0, one of two independent scores 1.
    interaction ~ Normal(0, 1.5)
        At 1.5 a log-odds of 1 from one score outweighs a contradicting one from the other.
    roughness ~ HalfNormal(1.5)
        0 is the fusion itself. A deviation of 1.5 in the log-odds of the sticks, and a surface of any shape is likely.
    deviation ~ MvNormal(0, correlation),      correlation[x, x'] = exp(-2 sum_m |x_m - x'_m| / K_m)
        Variance 1; half the length of an axis apart, neighbours still share exp(-1).
    coarsening = 0.6
        At degree 6, 60 cases count as 42 and 200 as 96; at degree 8, which follows kinks better, 500 as 210. Not a
        belief but a choice, made by the measured coverage of 90 % intervals; at 0, the ordinary posterior, they held
        .87 / .84 / .80 of the design truths at n = 60 / 200 / 500 with degree 6
        (``tests/studies/results/fusion_ordinary_design.txt``).

Prior predictive, by ``uv run python models/reference/card.py bernstein_surface``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.02     0.16     0.44     0.70       0.05       0.25
       50 %       0.01     0.14     0.50     0.86     0.99       0.12       0.49
       95 %       0.29     0.55     0.84     0.98     1.00       0.29       0.75

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1011, largest R-hat 1.01, 0 divergences.

Limits
    - The basis polynomials are about 1 / sqrt(K) wide: the surface cannot follow a kink (the larger or the smaller of
      two scores) or the edge of a plateau. Its band misses the truth there more often than elsewhere.
    - A probability that falls while a score rises is outside of the model, and no band holds it.
    - (K_1 + 1) ... (K_M + 1) coefficients: 49 with two scores of degree 6, 125 with three of degree 4, 625 with four.
    - The degrees must have an even sum; otherwise there is no middle level.
    - Far from the cases, in corners where one score is high and another low, the answer is the prior's.

References
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI.
    Eq. 8 and 9: surface and basis; Eq. 10-12: order and bounds. Least squares there (Eq. 13), Bernoulli here.
    Miller, J. W. and Dunson, D. B. (2019). Robust Bayesian inference via coarsening. JASA 114, 1113-1125.
    Eq. 2.4: the coarsened posterior as a power of the likelihood. Its power is 1 / (1 + n / alpha) there.
"""

from typing import Any

import numpy as np
import pymc as pm


def products(s: np.ndarray, nodes: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Products of basis polynomials at scores ``(n, M)``, one for each node, ``(n, nodes)``."""
    choose = [np.polynomial.polynomial.polypow([1, 1], k)[x] for k, x in zip(top, nodes.T, strict=True)]
    return np.prod(choose, axis=0) * (s[:, None] ** nodes * (1 - s[:, None]) ** (top - nodes)).prod(axis=2)


def sticks_of_fusion(eta: Any, inwards: np.ndarray, side: np.ndarray) -> Any:
    """Log-odds of the sticks that give mu = sigmoid(eta): 1 - d = (1 - mu) / (1 - low) above, d = mu / high below."""
    bound = pm.math.max(pm.math.switch(inwards, side[:, None] * eta, -np.inf), axis=1)
    bound = pm.math.minimum(bound, side * eta - 1e-9)  # under a strong interaction some steps round to 0
    minus_log = pm.math.softplus(side * eta) - pm.math.softplus(bound)
    return pm.math.switch(side == 0, eta, side * pm.math.log(pm.math.expm1(minus_log)))


def fill(log_odds: Any, inwards: np.ndarray, level: np.ndarray) -> tuple[Any, Any]:
    """Coefficients, and 1 - coefficients to full precision, from log-odds of sticks."""
    d, rest_d = pm.math.sigmoid(log_odds), pm.math.sigmoid(-log_odds)
    above, below = inwards & (level[:, None] > 0), inwards & (level[:, None] < 0)
    beta, rest = d, rest_d  # right on the middle level
    for _ in range(level.max()):  # and after each round on one more level to either side
        low = pm.math.max(pm.math.switch(above, beta, 0.0), axis=1)
        low_rest = pm.math.max(pm.math.switch(below, rest, 0.0), axis=1)
        room = pm.math.min(pm.math.switch(above, rest, pm.math.switch(below, beta, 1.0)), axis=1)
        beta, rest = low + room * d, low_rest + room * rest_d
    return beta, rest


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    degree: int | tuple[int, ...] = 6,
    intercept_mean: float = 0.0,
    intercept_sd: float = 1.0,
    slope_sd: float = 1.2,
    interaction_sd: float = 1.5,
    roughness_sd: float = 1.5,
    coarsening: float = 0.6,
) -> pm.Model:
    """Bernstein surface of scores ``(n, M)`` in [0, 1] with labels ``(n,)`` 0 or 1; degrees with an even sum."""
    s = np.asarray(scores, dtype=float)
    top = np.broadcast_to(degree, s.shape[1])
    nodes = np.array(list(np.ndindex(*(top + 1))))
    level = nodes.sum(axis=1) - top.sum() // 2  # 0 is the middle one
    apart = np.abs(nodes[:, None] - nodes)
    inwards = (apart.sum(axis=2) == 1) & (
        np.abs(level) < np.abs(level[:, None])
    )  # [x, x']: x' is one step inwards of x

    coords = {"case": np.arange(len(s)), "column": np.arange(s.shape[1]), "node": np.arange(len(nodes))}
    with pm.Model(coords=coords) as m:
        basis = pm.Data("basis", products(s, nodes, top), dims=("case", "node"))
        place = pm.Data("place", np.log((nodes + 0.25) / (top - nodes + 0.25)), dims=("node", "column"))
        intercept = pm.Normal("intercept", intercept_mean, intercept_sd)
        slope = pm.HalfNormal("slope", slope_sd, dims="column")
        interaction = pm.Normal("interaction", 0.0, interaction_sd, initval=0.5)  # at 0 itself eta is a limit
        roughness = pm.HalfNormal("roughness", roughness_sd)
        correlation = np.exp(-2 * (apart / top).sum(axis=2))
        deviation = pm.MvNormal("deviation", np.zeros(len(nodes)), correlation, dims="node")
        mean = pm.math.logsumexp(interaction * slope * place, axis=1) - np.log(s.shape[1])
        fusion = sticks_of_fusion(intercept + s.shape[1] * mean / interaction, inwards, np.sign(level))
        beta, rest = fill(fusion + roughness * deviation, inwards, level)
        pm.Deterministic("coefficients", beta, dims="node")
        log_odds = pm.math.log(pm.math.dot(basis, beta)) - pm.math.log(pm.math.dot(basis, rest))
        case = pm.Bernoulli("y", logit_p=log_odds, observed=y, dims="case")
        power = (1 + coarsening * len(s) / np.mean(top**2)) ** (-s.shape[1] / (s.shape[1] + 2))
        pm.Potential("coarsening", (power - 1) * pm.logp(case, y).sum())
    return m
