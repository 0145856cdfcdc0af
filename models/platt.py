"""Platt calibration: logistic regression of the label on the log-odds of the score.

    y ~ Bernoulli(q),      logit q = intercept + slope x,      x = logit(s),      slope > 0,   0 <= s <= 1

Story. A classifier gave each case a score s that is meant as a probability. It may be too sure of itself (slope < 1),
not sure enough (slope > 1), or made for a population with another base rate (intercept). Those are the only faults that
this model knows. Scores are kept within [1e-6, 1 - 1e-6]. Decision values that are no probabilities take the place of x
once they are standardised: pass 1 / (1 + exp(-z)) with z = (value - mean) / sd as the score.

Priors
    intercept ~ Normal(0, 1)         no shift; odds that are off by a factor e are one sd
    slope ~ LogNormal(0, 1)          positive, for the score ranks the cases rightly; 0.37 and 2.7 are one sd
    For standardised decision values, which say nothing of probability, the library takes Normal(0, 1.5) and
    LogNormal(0.5, 1) instead: a slope of 1.6 per standard deviation is an AUC of about 0.8.

Several scores s_1 .. s_M of the same case have a slope each, logit q = intercept + slope_1 x_1 + ... + slope_M x_M: the
logistic fusion. Copies of one score should share its slope, 1/M each, and scores independent given the label should
each keep theirs, 1; the library takes the middle, slope_log_mean = -log(M) / 2.

Prior predictive, by ``uv run python models/reference/card.py platt``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.00     0.16     0.31     0.48       0.05       0.23
       50 %       0.04     0.21     0.50     0.79     0.96       0.16       0.49
       95 %       0.52     0.69     0.84     1.00     1.00       0.32       0.77

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1671, largest R-hat 1.00, 0 divergences.

Limits
    - One shape only. Where the true curve has a plateau, or bends one end more than the other, the posterior settles
      on the nearest logistic curve, and its band shrinks around the wrong curve as cases are added.
    - No decreasing curve: with scores that rank the classes in reverse the slope goes towards 0 and the band says
      nothing of the reversal.
    - Scores of exactly 0 and 1 stand at x = -13.8 and 13.8 and have much leverage on the slope.
    - Without both classes, or with separated ones, likelihood alone has no maximum; the answer rests on the prior.
    - Mixing is no concern: two parameters, and the counts above are those of independent draws within a factor of 3.

References
    Platt, J. (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods. Section 2, the sigmoid with A = -slope and B = -intercept. The library's point estimate is his; the priors
    here take the place of his smoothed targets.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    intercept_mean: float = 0.0,
    intercept_sd: float = 1.0,
    slope_log_mean: float = 0.0,
    slope_log_sd: float = 1.0,
) -> pm.Model:
    """Platt calibration of scores ``(n,)``, or fusion of ``(n, M)``, in [0, 1] with labels ``(n,)`` 0 or 1."""
    s = np.clip(scores, 1e-6, 1 - 1e-6)
    dims = ("case", "score")[: s.ndim]
    with pm.Model(coords=dict(zip(dims, map(np.arange, s.shape), strict=True))) as m:
        x = pm.Data("x", np.log(s / (1 - s)), dims=dims)
        intercept = pm.Normal("intercept", intercept_mean, intercept_sd)
        slope = pm.LogNormal("slope", slope_log_mean, slope_log_sd, dims=dims[1:])
        eta = intercept + (slope * x if s.ndim == 1 else x @ slope)
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="case")
    return m
