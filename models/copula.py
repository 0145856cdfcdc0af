"""Copula fusion: each class has its own distribution of two scores, and Bayes' rule turns them into a probability.

    y ~ Bernoulli(rate),      z | y = l  ~  f_l,      f_l(z_1, z_2) = c_l(F_l1(z_1), F_l2(z_2)) f_l1(z_1) f_l2(z_2)
    f_lm(z) = b(z) exp(theta_lm . phi(z)) / Z(theta_lm),      theta_lm = base_m -+ tilt_m / 2
    c_l: normal copula with correlation sin(pi tau_l / 2),      tau_l = 0.95 tanh(agreement_l)

Written as y ~ Bernoulli(q(z)) times the density of z, the mixture of both classes: the same joint density, and q is
what one is after. z is the log-odds of the score, standardised (mean 0, standard deviation pi / sqrt(3)) and kept
within [-7, 7]; p = 1 / (1 + exp(-z)) and b = p (1 - p), so that p is uniform where theta = 0. phi holds log p,
log(1 - p), their squares, and cos(k pi a) with a = 2 asin(sqrt(p)) / pi, k = 1 .. 8.

Story. The score of a case comes from the distribution of its class: a tail to either side, more or less curved, and
some bends. What both classes share (base) does not tell them apart, what differs (tilt) does. Scores of the same case
agree also within a class, since classifiers err on the same cases; the copula says how much, so that they are not
counted twice. Decision values that are no probabilities are replaced by their mid-rank (rank - 1/2) / n among the
cases.

Priors
    raw ~ Normal(0, 1)           of each term of base and tilt, times the standard deviation of that term:
        exponent_sd = 1          of log p and log(1 - p): p between flat and beta with exponents of 2
        curvature_sd = 0.5       of their squares: normal tails are at -0.15. Wide, so that a few cases say nothing of a
                                 tail; without curvature, normal tails were taken for exponential ones
        bend / k                 of cos(k pi a): smoother bends are larger
    tilt = 0.7                   mean of the tilt in log p, and with the other sign in log(1 - p): an AUC of about 0.8
    bend ~ HalfNormal(1)         size of the bends; a factor e in the density is common
    agreement ~ Normal(0.4, 0.6) tau 0.36, from -0.19 to 0.72 within one sd: scores of one problem tend to agree
    rate ~ Beta(1, 1)            uniform

Family uncertainty. The library has nine families where this file has one. Given the margins it gives each family the
same prior probability and draws family and agreement from their joint posterior, the normalised table of

    log likelihood of the family at tau + log Normal(agreement; 0.4, 0.6)

over families and a grid in agreement. With the normal family alone that is this file, but for one thing: in the
library the copula does not inform the margins (a cut posterior), in this file it does.

Prior predictive, by ``uv run python models/reference/card.py copula``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.00     0.00     0.00     0.00       0.24       0.00
       50 %       0.04     0.23     0.52     0.76     0.95       0.50       0.51
       95 %       1.00     1.00     1.00     1.00     1.00       0.63       1.00

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1285, largest R-hat 1.00, 0 divergences.

Limits
    - The tails of f_1 / f_0 are those of the terms: beyond the cases the log odds go on along log p and its square.
    - Where scores of a class are not smooth (ties, spikes at 0 and 1) the margins spread the spike over its neighbours.
    - q need not rise with the scores.
    - One family: a normal copula keeps no dependence in the tails.
    - Mixing: base and tilt of the same term are correlated where one class has few cases.

References
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI.
    Section 3.1, Eq. 5: class-conditional copulas with kernel margins, the library's point estimate.
    Ozdemir, O., Allen, T. G., Choi, S., Wimalajeewa, T. and Varshney, P. K. (2017). Copula based classifier fusion
    under statistical dependence. IEEE Transactions on Pattern Analysis and Machine Intelligence.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

GRID = 7.0 * np.sin(np.linspace(-0.5, 0.5, 161) * np.pi)  # finest at both ends
WIDTH = np.diff(GRID)
PIECES = 0.5 * WIDTH[:, None] * (np.eye(160, 161) + np.eye(160, 161, 1))  # trapezoids between the nodes
TRAPEZOIDS = np.tri(161, 160, -1) @ PIECES  # values on the grid -> integrals up to each node
DECAY = np.concatenate([np.zeros(4), 1 / np.arange(1, 9)])  # of the bends
AHEAD = np.array([1.0, -1.0, *np.zeros(10)])  # terms whose tilt has a mean


def standardised(scores: np.ndarray) -> np.ndarray:
    """z ``(n, 2)`` of scores ``(n, 2)``."""
    s = np.clip(scores, 1e-6, 1 - 1e-6)
    x = np.log(s / (1 - s))
    sd = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return np.clip((x - x.mean(axis=0)) / sd * np.pi / np.sqrt(3), -7, 7)


def phi(z: np.ndarray) -> np.ndarray:
    """Terms ``(..., 12)`` of the log density at z."""
    p = 1 / (1 + np.exp(-z[..., None]))
    bends = np.cos(2 * np.arcsin(np.sqrt(p)) * np.arange(1, 9))
    return np.concatenate([np.log(p) + 1, np.log1p(-p) + 1, np.log(p) ** 2 - 2, np.log1p(-p) ** 2 - 2, bends], axis=-1)


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    tilt: float = 0.7,
    exponent_sd: float = 1.0,
    curvature_sd: float = 0.5,
    bend_scale: float = 1.0,
    agreement_mean: float = 0.4,
    agreement_sd: float = 0.6,
    rate_cases: float = 1.0,
) -> pm.Model:
    """Copula fusion of scores ``(n, 2)`` in [0, 1] with labels ``(n,)`` 0 or 1."""
    z = standardised(scores)
    between = np.stack([np.interp(z, GRID, node) for node in np.eye(161)], axis=-1)  # straight lines between nodes
    fixed = np.array([exponent_sd, exponent_sd, curvature_sd, curvature_sd, *np.zeros(8)])
    logistic = 1 / (2 + 2 * np.cosh(GRID[:, None]))
    coords = {"case": np.arange(len(y)), "class": [0, 1], "column": [0, 1], "part": ["base", "tilt"], "term": range(12)}
    with pm.Model(coords=coords) as m:
        raw = pm.Normal("raw", dims=("part", "column", "term"))
        bend = pm.HalfNormal("bend", bend_scale, dims=("part", "column"))
        agreement = pm.Normal("agreement", agreement_mean, agreement_sd, dims="class")
        rate = pm.Beta("rate", rate_cases, rate_cases)
        terms = raw * (fixed + DECAY * bend[:, :, None])
        base, difference = terms[0], terms[1] + tilt * AHEAD
        log_joint = []
        for label, log_share in enumerate([pm.math.log1p(-rate), pm.math.log(rate)]):
            theta = base + (label - 0.5) * difference
            mass = pt.dot(TRAPEZOIDS, logistic * pm.math.exp(pt.dot(phi(GRID), theta.T)))
            log_margins = (phi(z) * theta).sum(axis=2) - pm.math.log(mass[-1])
            u = [pt.dot(between[:, j], mass[:, j] / mass[-1, j]) for j in (0, 1)]
            a, b = [np.sqrt(2) * pt.erfinv(2 * pm.math.clip(part, 1e-4, 1 - 1e-4) - 1) for part in u]  # normal scores
            r = pm.math.sin(np.pi / 2 * 0.95 * pm.math.tanh(agreement[label]))
            copula = -0.5 * pm.math.log(1 - r**2) - (r**2 * (a**2 + b**2) - 2 * r * a * b) / (2 * (1 - r**2))
            log_joint.append(log_share + log_margins.sum(axis=1) + copula)
        pm.Potential("z", pm.math.logaddexp(*log_joint), dims="case")
        pm.Bernoulli("y", logit_p=log_joint[1] - log_joint[0], observed=y, dims="case")
    return m
