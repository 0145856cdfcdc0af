"""Bernstein calibration curve: a smooth nondecreasing curve of any shape.

    y ~ Bernoulli(q(s)),      q(s) = sum_k coefficients[k] C(K, k) s^k (1 - s)^(K - k),   k = 0 .. K,      0 <= s <= 1
    coefficients[k] = increments[0] + ... + increments[k],      increments ~ Dirichlet(concentration * base)

Story. Cases with a larger score are no less likely to be positive, and the probability changes smoothly with the score.
A polynomial in Bernstein's form rises over all of [0, 1] when its coefficients do. The K + 2 increments (the last is
what is missing to 1) share the unit among them; q(0) is the first and q(1) is 1 minus the last. `base` is the share
that each gets on average: coefficients[k] has the mean (k + 1/2) / (K + 1), so the mean curve is
(K s + 1/2) / (K + 1), the score itself but for some slack at both ends. Decision values that are no probabilities are
replaced by their mid-rank (rank - 1/2) / n among the cases.

Priors
    concentration ~ LogNormal(log 4, 0.5)
        How many cases the mean curve is worth. Four can be overruled by 30 labels; from 1.5 to 11 within two sd.

Prior predictive, by ``uv run python models/reference/card.py bernstein``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.05     0.18     0.41     0.71       0.03       0.27
       50 %       0.05     0.24     0.50     0.76     0.95       0.10       0.49
       95 %       0.29     0.59     0.82     0.95     1.00       0.27       0.73

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 606, largest R-hat 1.01, 0 divergences.

Limits
    - Most shapes concentration * base lie below 1, where log increments have tails as long as 1 / shape. NUTS on this
      file therefore mixes badly. The library samples the same Dirichlet in other variables, and the reference posterior
      comes from Gibbs sampling.
    - The basis polynomials are about 1 / sqrt(K) wide: the curve cannot follow a kink or a step that is narrower, its
      band misses the truth there, and more cases do not mend that.
    - The prior mean is the score: where scores are far from probabilities, that costs as much evidence as
      `concentration` cases.

References
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI.
    Eq. 8 and 9 with M = 1: curve and basis; Eq. 10-12: order and bounds. Least squares there (Eq. 13), Bernoulli here.
    Petrone, S. (1999). Random Bernstein polynomials. Scandinavian Journal of Statistics 26, 373-393: Dirichlet weights.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    degree: int = 12,
    concentration_log_mean: float = np.log(4.0),
    concentration_log_sd: float = 0.5,
) -> pm.Model:
    """Bernstein calibration of scores ``(n,)`` in [0, 1] with labels ``(n,)`` 0 or 1."""
    s = np.asarray(scores, dtype=float)[:, None]
    k = np.arange(degree + 1)
    choose = np.concatenate([[1.0], np.cumprod((degree - k[:-1]) / (k[:-1] + 1))])
    base = np.diff(np.concatenate([[0.0], (k + 0.5) / (degree + 1), [1.0]]))

    coords = {"case": np.arange(len(s)), "coefficient": k, "piece": np.arange(degree + 2)}
    with pm.Model(coords=coords) as m:
        basis = pm.Data("basis", choose * s**k * (1 - s) ** (degree - k), dims=("case", "coefficient"))
        base = pm.Data("base", base, dims="piece")
        concentration = pm.LogNormal("concentration", concentration_log_mean, concentration_log_sd)
        increments = pm.Dirichlet("increments", concentration * base, dims="piece")
        coefficients = pm.Deterministic("coefficients", pm.math.cumsum(increments)[:-1], dims="coefficient")
        q = pm.math.clip(pm.math.dot(basis, coefficients), 0.0, 1.0)  # rounding may carry a sum past 1
        pm.Bernoulli("y", p=q, observed=y, dims="case")
    return m
