"""Isotonic calibration: a nondecreasing step function.

    q(t) = beta_{j(t)},      0 <= beta_0 <= ... <= beta_J <= 1

with the calibration rows' distinct scores cut into J + 1 groups of about equal size, j(t) the group of t. The prior on
the levels is a cumulative Dirichlet centred on each group's mean score. The point estimate is PAV: least squares over
all nondecreasing functions of the score, ties pooled, linear between scores. Ayer et al. (1955); Zadrozny & Elkan
(2002).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support
from bayescal.calibrators.increments import (
    AUXILIARY,
    base_increments,
    build_increments_model,
    increment_draws,
    levels_and_complements,
    mixture_data,
)
from bayescal.calibrators.scale import Scale, learn_unit, to_unit
from bayescal.pav import isotonic_fit, isotonic_predict
from bayescal.priors import Priors, setting
from bayescal.validation import check_count

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class IsotonicPriors(Priors):
    """Prior settings of `IsotonicCalibrator`: concentration ~ LogNormal.

    Parameters
    ----------
    concentration_log_mean : float, default=log(12)
        Mean of the log of the concentration, in prior cases.
    concentration_log_sd : float, default=0.5
        Standard deviation of the log of the concentration; positive.

    Examples
    --------
    >>> IsotonicPriors().concentration_log_sd
    0.5
    """

    concentration_log_mean: float = setting(
        float(np.log(12.0)),
        "log of prior cases; 12 spread over the steps keep neighbours together, 30 labels overrule them",
    )
    concentration_log_sd: float = setting(0.5, "log; from 4 to 33 prior cases within two sd", positive=True)


class IsotonicCalibrator(BinaryCalibrator):
    """A nondecreasing step function, with a posterior; PAV as the point estimate.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or PAV.
    steps : int, default=20
        Largest number of steps of the posterior's function; fewer where there are fewer distinct scores.
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
    priors : IsotonicPriors or dict, default=None
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
    Zadrozny, B. and Elkan, C. (2002). Transforming classifier scores into accurate multiclass probability estimates.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.IsotonicCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> cal.predict_proba([0.2, 0.8])[:, 1].round(2)
    array([0.05, 1.  ])
    """

    _name = "isotonic"
    _priors_class = IsotonicPriors
    _target_accept = 0.95
    _auxiliary = AUXILIARY

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "nuts",
        *,
        steps: int = 20,
        draws: int = 1000,
        tune: int | None = None,
        chains: int = 4,
        cores: int | None = None,
        random_state: Any = None,
        progressbar: Any = None,
        priors: Any = None,
        classes: Any = None,
    ) -> None:
        super().__init__(
            score_kind,
            inference,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_state=random_state,
            progressbar=progressbar,
            priors=priors,
            classes=classes,
        )
        self.steps = steps

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        steps = check_count(self.steps, "steps")
        scale = learn_unit(scores, weight, self.score_kind)
        group = np.minimum(((np.cumsum(weight) - 0.5 * weight) * steps / weight.sum()).astype(int), steps - 1)
        group = np.unique(group, return_inverse=True)[1]
        last = np.flatnonzero(np.diff(group))
        t = to_unit(scores, scale, self.score_kind)
        mean = np.bincount(group, weights=weight * t) / np.bincount(group, weights=weight)
        return {**scale, "edges": scores[last] / 2 + scores[last + 1] / 2, "group_means": mean}

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return scores

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        return np.searchsorted(scale["edges"], u, side="right")

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        beta, complement = levels_and_complements(parameters["increments"])
        with np.errstate(divide="ignore"):
            return (np.log(beta) - np.log(complement))[:, features]

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        steps = len(scale["group_means"])
        step = self._features(support.u, scale)
        positives = np.bincount(step, weights=support.positives, minlength=steps)
        totals = np.bincount(step, weights=support.totals, minlength=steps)
        mixture = mixture_data(np.eye(steps), positives, totals)
        return {**mixture, "prior": priors.vector(), "base": prior_base(scale["group_means"])}

    def _build(self, **data: np.ndarray) -> "pm.Model":
        return build_increments_model("levels", data)

    def _point(self, support: Support, scale: Scale) -> Parameters:
        knots, values = isotonic_fit(support.u, support.positives / support.totals, support.totals)
        return {"knots": knots, "values": values}

    def _point_proba(self, scores: np.ndarray) -> np.ndarray:
        return isotonic_predict(self._point_parameters["knots"], self._point_parameters["values"], scores)

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        drawn = increment_draws(rng, size, prior_base(scale["group_means"]), *priors.vector())
        return {**drawn, "levels": levels_and_complements(drawn["increments"])[0]}


def prior_base(group_means: np.ndarray) -> np.ndarray:
    """Base increments ``(J + 2,)`` whose mean levels are the groups' mean scores, with slack at the ends."""
    steps = len(group_means)
    return base_increments((group_means * steps + 0.5) / (steps + 1))
