"""Beta calibration.

    logit q = c + a log s - b log(1 - s),      a, b >= 0,   0 < s < 1

Increasing in s; ``a = b = 1, c = 0`` is the identity, and ``a = b`` is Platt's map of the log-odds. The midpoint m with
q(m) = 1/2 enters as ``c = b log(1 - m) - a log m``. Scores are kept within [1e-6, 1 - 1e-6]; raw scores are replaced by
their mid-rank among the calibration rows. Kull, Silva Filho & Flach (2017), "Beta calibration", Eq. 4 and 5.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_expit, logit

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support
from bayescal.calibrators.logistic import fit_logistic, smoothed_targets
from bayescal.calibrators.scale import LOGIT_CLIP, PROBA_CLIP, Scale, learn_unit, to_unit
from bayescal.priors import Priors, setting

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class BetaPriors(Priors):
    """Prior settings of `BetaCalibrator`: a, b ~ LogNormal, c ~ Normal.

    Parameters
    ----------
    a_log_mean : float, default=0.0
        Mean of the log of a.
    a_log_sd : float, default=1.0
        Standard deviation of the log of a; positive.
    b_log_mean : float, default=0.0
        Mean of the log of b.
    b_log_sd : float, default=1.0
        Standard deviation of the log of b; positive.
    c_mean : float, default=0.0
        Mean of c, in log-odds.
    c_sd : float, default=1.0
        Standard deviation of c, in log-odds; positive.

    Examples
    --------
    >>> BetaPriors(c_sd=0.5).c_sd
    0.5
    """

    a_log_mean: float = setting(0.0, "log; a = 1 leaves small scores as they are")
    a_log_sd: float = setting(1.0, "log; exponents of 0.37 and 2.7 are one sd", positive=True)
    b_log_mean: float = setting(0.0, "log; b = 1 leaves large scores as they are")
    b_log_sd: float = setting(1.0, "log; exponents of 0.37 and 2.7 are one sd", positive=True)
    c_mean: float = setting(0.0, "log-odds; no shift")
    c_sd: float = setting(1.0, "log-odds; a base rate off by a factor e in the odds is one sd", positive=True)


class BetaCalibrator(BinaryCalibrator):
    """Beta calibration, with a posterior: bends the low and the high end on their own.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or maximum likelihood with a, b >= 0.
    draws : int, default=1000
        Posterior draws of each chain.
    tune : int, default=None
        Warm-up steps of each chain; None takes the calibrator's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : BetaPriors or dict, default=None
        Prior settings; None takes the defaults.
    classes : sequence of two labels, default=None
        Negative and positive class; None sorts the labels seen.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Negative and positive class.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    References
    ----------
    Kull, M., Silva Filho, T. and Flach, P. (2017). Beyond sigmoids: how to obtain well-calibrated probabilities from
    binary classifiers with beta calibration.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.BetaCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> cal.predict_proba([0.2, 0.8])[:, 1].round(2)
    array([0.23, 0.9 ])
    """

    _name = "beta"
    _priors_class = BetaPriors
    _adaptation = "low_rank"

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        return learn_unit(scores, weight, self.score_kind)

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        if self.score_kind == "logit":
            return np.clip(scores, -LOGIT_CLIP, LOGIT_CLIP)
        return logit(np.clip(to_unit(scores, scale, self.score_kind), PROBA_CLIP, 1 - PROBA_CLIP))

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        return np.column_stack([log_expit(u), -log_expit(-u)])

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        slopes = np.stack([parameters["a"], parameters["b"]], axis=1)
        return parameters["c"][:, None] + slopes[:, :1] * features[:, 0] + slopes[:, 1:] * features[:, 1]

    def _build(self, **data: np.ndarray) -> "pm.Model":
        import pymc as pm

        from bayescal.inference.likelihood import counts_given_log_odds

        coords = {"score": np.arange(len(data["totals"])), "end": ["log_s", "minus_log_1_minus_s"]}
        with pm.Model(coords=coords) as model:
            x = pm.Data("x", data["x"], dims=("score", "end"))
            positives = pm.Data("positives", data["positives"], dims="score")
            totals = pm.Data("totals", data["totals"], dims="score")
            prior = pm.Data("prior", data["prior"])
            a = pm.LogNormal("a", prior[0], prior[1])
            b = pm.LogNormal("b", prior[2], prior[3])
            c = pm.Normal("c", prior[4], prior[5])
            counts_given_log_odds(c + a * x[:, 0] + b * x[:, 1], positives, totals)
        return model

    def _point(self, support: Support, scale: Scale) -> Parameters:
        a, b, c = beta_maximum_likelihood(self._features(support.u, scale), support.positives, support.totals)
        return {"a": np.array(a), "b": np.array(b), "c": np.array(c)}

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        a_mean, a_sd, b_mean, b_sd, c_mean, c_sd = priors.vector()
        return {
            "a": rng.lognormal(a_mean, a_sd, size),
            "b": rng.lognormal(b_mean, b_sd, size),
            "c": rng.normal(c_mean, c_sd, size),
        }


def beta_maximum_likelihood(
    features: np.ndarray, positives: np.ndarray, totals: np.ndarray
) -> tuple[float, float, float]:
    """(a, b, c) that maximise the likelihood subject to a, b >= 0; features ``(m, 2)`` as in the module's equation.

    The likelihood is concave, so the best of the solutions with each set of exponents held at 0 that is feasible is the
    constrained maximum. Where the classes do not overlap in the score the maximum is at infinity; Platt's smoothed
    targets, which keep it finite, take the place of the labels there.
    """
    order = np.argsort(features[:, 0])
    ones, zeros = positives[order] > 0, (totals - positives)[order] > 0
    overlap = ones.any() and zeros.any() and np.flatnonzero(zeros).max() > np.flatnonzero(ones).min()
    successes = positives if overlap else smoothed_targets(positives, totals)
    best, best_value = (0.0, 0.0, 0.0), -np.inf
    for free in ([0, 1], [0], [1], []):
        fitted = fit_logistic(features[:, free], successes, totals)
        slopes = np.zeros(2)
        slopes[free] = fitted[1:]
        if (slopes < 0).any():
            continue
        eta = fitted[0] + features @ slopes
        value = float((successes * eta - totals * np.logaddexp(0, eta)).sum())
        if value > best_value:
            best, best_value = (float(slopes[0]), float(slopes[1]), float(fitted[0])), value
    return best
