"""Calibration curve that may fall: a penalised natural cubic spline in log-odds.

    y ~ Bernoulli(q),      logit q = intercept + slope x + roughness sum_j bends[j] N_j(x),      x = logit(s)
    bends[j] ~ Normal(0, 1),      roughness > 0,      N_j natural cubic splines,      0 <= s <= 1

Story. The log-odds of a case are near a line in those of its score, and bend away from it smoothly; nothing says that a
higher score means a higher probability. Up to 10 knots stand at even quantiles, from 5 % to 95 %, of the distinct x:
between them the curve is a cubic, beyond them straight. With fewer than three distinct scores there are no bends. The
N_j are orthogonal to 1 and x over the cases, so that intercept and slope are those of the line nearest to the curve,
and their penalty, the integral of the squared second derivative, is the identity: bends of equal size are equally
rough. `roughness` is how far the curve is from the line: the root mean square over the knots, in log-odds, of what is
expected. Scores are kept within [1e-6, 1 - 1e-6]. Decision values that are no probabilities take the place of x once
they are standardised: pass 1 / (1 + exp(-z)) with z = (value - mean) / sd as the score.

Priors
    intercept ~ Normal(0, 1)         no shift; odds that are off by a factor e are one sd
    slope ~ Normal(1, 1)             neither over- nor under-confident; a score without information is one sd
    roughness ~ Exponential(mean roughness_mean), roughness_mean = 1
        A line is the most probable; 3 log-odds off it are exceeded in 1 of 20. The density of a penalised-complexity
        prior: each further step from the simpler model, the line, costs the same factor.
    For standardised decision values, which say nothing of probability, the library takes Normal(0, 1.5) and
    Normal(1.6, 1.6) instead: a slope of 1.6 per standard deviation is an AUC of about 0.8.

Prior predictive, by ``uv run python models/reference/card.py spline``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.02     0.08     0.14     0.03       0.07       0.24
       50 %       0.05     0.25     0.50     0.75     0.95       0.19       0.51
       95 %       0.97     0.85     0.93     0.98     1.00       0.46       0.76

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1346, largest R-hat 1.00, 1 divergences.

Limits
    - 90 % bands of six curves held .93 and .90 of rising truths at n = 60 and 200 and .88 of such as fall somewhere, 30
      data sets of each (``tests/studies/results/spline_coverage.txt``); lowest .83 at n = 200, of two waves.
    - No order is assumed, so the band is wider than that of a rising curve where the truth rises: with few cases much.
    - Ten knots follow a bump that is as wide as a fifth of the cases or more; a narrower one is smoothed away.
    - Beyond the end knots the curve is straight: the outer 5 % of the distinct scores are where a bend is not seen.
    - One roughness for the whole curve: where a truth is flat here and bent there, the band is wrong in both.
    - Scores of exactly 0 and 1 stand at x = -13.8 and 13.8 and have much leverage on the slope.
    - Mixing is slowest in roughness and the smoothest bends, since the data see their products alone.

References
    Ruppert, D., Wand, M. and Carroll, R. (2003). Semiparametric Regression. Section 4.9: the mixed-model form.
    Wood, S. (2017). Generalized Additive Models: an introduction with R, 2nd edition. Section 5.8: smooths as random
    effects.
    Green, P. and Silverman, B. (1994). Nonparametric Regression and Generalized Linear Models. Chapter 2: natural cubic
    splines and their roughness.
    Simpson, D., Rue, H., Riebler, A., Martins, T. and Sørbye, S. (2017). Penalising model component complexity: a
    principled, practical approach to constructing priors. Statistical Science 32. Section 3: the exponential.
    Harrell, F. (2015). Regression Modeling Strategies, 2nd edition. Section 2.4.5: the basis, and knots at quantiles.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    intercept_mean: float = 0.0,
    intercept_sd: float = 1.0,
    slope_mean: float = 1.0,
    slope_sd: float = 1.0,
    roughness_mean: float = 1.0,
) -> pm.Model:
    """Spline calibration of scores ``(n,)`` in [0, 1] with labels ``(n,)`` 0 or 1."""
    s = np.clip(scores, 1e-6, 1 - 1e-6)
    x = np.log(s / (1 - s))
    t = np.quantile(np.unique(x), np.linspace(0.05, 0.95, min(10, len(np.unique(x)))))

    def natural(x: np.ndarray, power: int) -> np.ndarray:
        """Natural cubic splines but for lines, ``(n, len(t) - 2)``; of power 1 a sixth of their second derivatives."""
        above = np.maximum(x[:, None] - t, 0.0) ** power
        d = (above - above[:, -1:])[:, :-1] / (t[-1] - t[:-1])
        return d[:, :-1] - d[:, -1:]

    # Simpson's rule, which is exact: products of second derivatives are quadratic between knots
    low, middle, high = (6 * natural(at, 1) for at in (t[:-1], (t[:-1] + t[1:]) / 2, t[1:]))
    width = np.diff(t)[:, None] / 6
    penalty = low.T @ (width * low) + 4 * middle.T @ (width * middle) + high.T @ (width * high)
    bent, at_knots = (np.linalg.solve(np.linalg.cholesky(penalty), natural(at, 3).T).T for at in (x, t))
    line, _, _, _ = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), bent)
    bent, at_knots = (n - np.column_stack([np.ones(len(at)), at]) @ line for n, at in ((bent, x), (at_knots, t)))
    bent = bent / np.sqrt((at_knots**2).sum(axis=1).mean() if bent.size else 1.0)

    with pm.Model(coords={"case": np.arange(len(x)), "bend": np.arange(bent.shape[1])}) as m:
        eta = pm.Normal("intercept", intercept_mean, intercept_sd) + pm.Normal("slope", slope_mean, slope_sd) * x
        if bent.size:
            basis = pm.Data("basis", bent, dims=("case", "bend"))
            roughness = pm.Exponential("roughness", scale=roughness_mean)
            eta += roughness * (basis @ pm.Normal("bends", 0.0, 1.0, dims="bend"))
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="case")
    return m
