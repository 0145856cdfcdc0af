"""Isotonic calibration: a nondecreasing step function.

    y ~ Bernoulli(levels[group]),      0 <= levels[0] <= ... <= levels[J - 1] <= 1
    levels[j] = increments[0] + ... + increments[j],      increments ~ Dirichlet(concentration * base)

Story. Cases with a larger score are no less likely to be positive; nothing else is known of the curve. The distinct
scores are cut into at most `steps` groups of about equal size: a case belongs to group floor(steps r), where 0 < r < 1
is its mid-rank (ties share one) over n; empty groups are left out, J remain. All cases of a group have the same
probability. A new score belongs to the group whose scores are nearest: borders lie halfway between neighbouring groups.

The J + 1 increments (the last is what is missing to 1) share the unit among them. `base` is the share that each gets on
average: it makes the mean level of a group (J * its mean score + 1/2) / (J + 1), the score itself but for some slack at
both ends. Shares below 1e-6 are raised to that. Decision values that are no probabilities are replaced by their
mid-rank (rank - 1/2) / n among the cases.

Priors
    concentration ~ LogNormal(log 12, 0.5)
        How many cases the mean curve is worth, spread over the steps: enough to keep neighbours together, and overruled
        by 30 labels. From 4 to 33 within two sd.

Prior predictive, by ``uv run python models/reference/card.py isotonic``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.07     0.27     0.53     0.82       0.04       0.34
       50 %       0.03     0.23     0.52     0.77     0.97       0.08       0.51
       95 %       0.18     0.47     0.76     0.94     1.00       0.18       0.66

Plain NUTS on this file as it stands (same command; Niamey data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 447, largest R-hat 1.02, 0 divergences.

Limits
    - Most shapes concentration * base lie below 1, where log increments have tails as long as 1 / shape. NUTS on this
      file therefore mixes badly. The library samples the same Dirichlet in other variables, and the reference posterior
      comes from Gibbs sampling.
    - The curve has steps. Where the true curve is steep, a band around the average of a group misses the probabilities
      at the group's ends; with few cases to a group the band is wide, for nothing says that neighbours are alike.
    - The prior mean is the score: where scores are far from probabilities, that costs as much evidence as
      `concentration` cases.

References
    Ayer, M. et al. (1955). An empirical distribution function for sampling with incomplete information: the likelihood.
    Ramsey, F. L. (1972). A Bayesian approach to bioassay. Biometrics 28, 841-858: Dirichlet prior on the increments.
    Zadrozny, B. and Elkan, C. (2002). Transforming classifier scores into accurate multiclass probability estimates:
    isotonic regression as a calibration map.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    steps: int = 20,
    concentration_log_mean: float = np.log(12.0),
    concentration_log_sd: float = 0.5,
) -> pm.Model:
    """Isotonic calibration of scores ``(n,)`` in [0, 1] with labels ``(n,)`` 0 or 1."""
    s = np.asarray(scores, dtype=float)
    twice_midrank = np.sum(s < s[:, None], axis=1) + np.sum(s <= s[:, None], axis=1)
    group = np.unique(steps * twice_midrank // (2 * len(s)), return_inverse=True)[1]
    j = group.max() + 1
    centre = (j * np.bincount(group, weights=s) / np.bincount(group) + 0.5) / (j + 1)
    base = np.maximum(np.diff(np.concatenate([[0.0], centre, [1.0]])), 1e-6)

    with pm.Model(coords={"case": np.arange(len(s)), "group": np.arange(j), "piece": np.arange(j + 1)}) as m:
        group = pm.Data("group_of_case", group, dims="case")
        base = pm.Data("base", base / base.sum(), dims="piece")
        concentration = pm.LogNormal("concentration", concentration_log_mean, concentration_log_sd)
        increments = pm.Dirichlet("increments", concentration * base, dims="piece")
        cumulated = pm.math.clip(pm.math.cumsum(increments), 0.0, 1.0)  # rounding may carry a sum past 1
        levels = pm.Deterministic("levels", cumulated[:-1], dims="group")
        pm.Bernoulli("y", p=levels[group], observed=y, dims="case")
    return m
