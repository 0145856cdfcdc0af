"""Beta calibration: a logistic curve whose two ends bend on their own.

    y ~ Bernoulli(q),      logit q = c + a log s - b log(1 - s),      a, b > 0,   0 <= s <= 1

Story. If the scores of the positives and those of the negatives each follow a beta distribution, Bayes' rule gives this
curve. a says how the odds follow the score near 0, b how they follow it near 1, and c moves the whole curve.
a = b = 1, c = 0 leaves the score as it is; a = b is Platt's curve. Scores are kept within [1e-6, 1 - 1e-6]. Decision
values that are no probabilities are replaced by their mid-rank (rank - 1/2) / n among the cases.

Priors
    a ~ LogNormal(0, 1)       small scores stay as they are; positive, so that the curve rises; 0.37 and 2.7 are one sd
    b ~ LogNormal(0, 1)       the same for large scores
    c ~ Normal(0, 1)          no shift; odds that are off by a factor e are one sd

Prior predictive, by ``uv run python models/reference/card.py beta``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.00     0.04     0.21     0.46       0.05       0.14
       50 %       0.04     0.24     0.50     0.77     0.96       0.18       0.51
       95 %       0.53     0.78     0.96     1.00     1.00       0.39       0.85

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1242, largest R-hat 1.00, 0 divergences.

Limits
    - A plateau, a step, or more than one bend on a side is outside the family: the band then shrinks around the
      nearest member as cases are added.
    - a and b pull against c: where all scores lie on one side of 1/2, one of the exponents stays near its prior.
    - Scores of exactly 0 and 1 stand at log s = -13.8 and log(1 - s) = -13.8 and have much leverage.
    - Mixing: three correlated parameters, and a left tail of log a or log b that only its prior ends where the data ask
      for 0. NUTS may diverge at PyMC's default target_accept of 0.8.

References
    Kull, M., Silva Filho, T. M. and Flach, P. (2017). Beyond sigmoids: how to obtain well-calibrated probabilities from
    binary classifiers with beta calibration. Electronic Journal of Statistics 11, 5052-5080: the three-parameter map,
    there with maximum likelihood and a, b >= 0.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    a_log_mean: float = 0.0,
    a_log_sd: float = 1.0,
    b_log_mean: float = 0.0,
    b_log_sd: float = 1.0,
    c_mean: float = 0.0,
    c_sd: float = 1.0,
) -> pm.Model:
    """Beta calibration of scores ``(n,)`` in [0, 1] with labels ``(n,)`` 0 or 1."""
    with pm.Model(coords={"case": np.arange(len(y))}) as m:
        s = pm.Data("s", np.clip(scores, 1e-6, 1 - 1e-6), dims="case")
        a = pm.LogNormal("a", a_log_mean, a_log_sd)
        b = pm.LogNormal("b", b_log_mean, b_log_sd)
        c = pm.Normal("c", c_mean, c_sd)
        pm.Bernoulli("y", logit_p=c + a * pm.math.log(s) - b * pm.math.log1p(-s), observed=y, dims="case")
    return m
