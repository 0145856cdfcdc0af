"""Platt calibration of one score, and logistic fusion of several.

    logit q = c + a x,                      a > 0
    logit q = c + a_1 x_1 + ... + a_M x_M,  a_1, ..., a_M > 0

with x the log-odds of the score (probabilities are kept within [1e-6, 1 - 1e-6]; raw scores are standardised instead).
``a = 1, c = 0`` leaves a probability as it is. The point estimate is Platt's: maximum likelihood with smoothed targets,
the signs of the slopes free. Platt (1999), "Probabilistic outputs for support vector machines", section 2.2.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support, group_neighbours
from bayescal.calibrators.logistic import fit_logistic, smoothed_targets
from bayescal.calibrators.scale import Scale, learn_log_odds, to_log_odds
from bayescal.priors import Priors, setting

if TYPE_CHECKING:
    import pymc as pm

MOST_ROWS = 2**15  # distinct rows of several scores; more are grouped to this many


@dataclass(frozen=True)
class PlattPriors(Priors):
    """Prior settings of `PlattCalibrator`: intercept ~ Normal, slope ~ LogNormal.

    Parameters
    ----------
    intercept_mean : float, default=0.0
        Mean of the intercept, in log-odds.
    intercept_sd : float, default=1.0
        Standard deviation of the intercept, in log-odds; positive.
    slope_log_mean : float, default=0.0
        Mean of the log of the slope.
    slope_log_sd : float, default=1.0
        Standard deviation of the log of the slope; positive.

    Examples
    --------
    >>> PlattPriors().intercept_mean
    0.0
    """

    intercept_mean: float = setting(0.0, "log-odds; no shift when the score is a probability")
    intercept_sd: float = setting(1.0, "log-odds; a base rate off by a factor e in the odds is one sd", positive=True)
    slope_log_mean: float = setting(0.0, "log; slope 1, scores neither over- nor under-confident")
    slope_log_sd: float = setting(1.0, "log; slopes of 0.37 and 2.7 are one sd", positive=True)


class PlattCalibrator(BinaryCalibrator):
    """Logistic calibration in the log-odds, with a posterior; of several scores, their logistic fusion.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or the maximum-likelihood estimate with Platt's targets.
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
    priors : PlattPriors or dict, default=None
        Prior settings; None takes the defaults for the kind of score.
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
    Platt, J. (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> cal.predict_proba([0.2, 0.8])[:, 1].round(2)
    array([0.2 , 0.86])
    """

    _name = "platt"
    _priors_class = PlattPriors
    _adaptation = "low_rank"
    _columns = "any"

    def _few(self, support: Support) -> Support:
        if support.u.ndim == 1:
            return super()._few(support)
        # many scores cannot be grouped finely, and a step of the sampler costs little here
        return support if len(support.u) <= MOST_ROWS else group_neighbours(support, MOST_ROWS)

    def _default_priors(self, n_scores: int) -> PlattPriors:
        shared = -0.5 * float(np.log(n_scores))  # between 1/M each, of copies, and 1, of independent scores
        if self.score_kind == "raw":  # a slope of 1.6 per standard deviation is an AUC of about 0.8
            return PlattPriors(intercept_sd=1.5, slope_log_mean=0.5 + shared, slope_log_sd=1.0)
        return PlattPriors(slope_log_mean=shared)

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        several = {} if scores.ndim == 1 else {"columns": np.array(scores.shape[1])}
        return {**several, **learn_log_odds(scores, weight, self.score_kind)}

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_log_odds(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        return u

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        intercept, slope = parameters["intercept"][:, None], parameters["slope"]
        return intercept + (slope @ features.T if features.ndim == 2 else slope[:, None] * features)

    def _build(self, **data: np.ndarray) -> "pm.Model":
        import pymc as pm

        from bayescal.inference.likelihood import counts_given_log_odds

        one = data["x"].ndim == 1
        coords = {"score": np.arange(len(data["totals"]))}
        if not one:
            coords["column"] = np.arange(data["x"].shape[1])
        with pm.Model(coords=coords) as model:
            x = pm.Data("x", data["x"], dims="score" if one else ("score", "column"))
            positives = pm.Data("positives", data["positives"], dims="score")
            totals = pm.Data("totals", data["totals"], dims="score")
            prior = pm.Data("prior", data["prior"])
            intercept = pm.Normal("intercept", prior[0], prior[1])
            slope = pm.LogNormal("slope", prior[2], prior[3], dims=None if one else "column")
            counts_given_log_odds(intercept + (slope * x if one else x @ slope), positives, totals)
        return model

    def _point(self, support: Support, scale: Scale) -> Parameters:
        targets = smoothed_targets(support.positives, support.totals)
        fitted = fit_logistic(support.u.reshape(len(targets), -1), targets, support.totals)
        return {"intercept": np.array(fitted[0]), "slope": fitted[1:].reshape(support.u.shape[1:])}

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        mean, sd, log_mean, log_sd = priors.vector()
        shape = (size, int(scale["columns"])) if "columns" in scale else size
        return {"intercept": rng.normal(mean, sd, size), "slope": rng.lognormal(log_mean, log_sd, shape)}
