"""Calibration curve that may fall: a penalised natural cubic spline in log-odds.

    logit q = a + b x + tau sum_j z_j N_j(x),      z_j ~ Normal(0, 1),   tau > 0

with x the log-odds of the score (probabilities are kept within [1e-6, 1 - 1e-6]; raw scores are standardised instead).
The N_j span the natural cubic splines with knots at quantiles of the distinct scores, without straight lines: they are
orthogonal to 1 and x over the calibration rows, and linear beyond the end knots. They are rotated and scaled so that
the curve's roughness, the integral of the squared second derivative, is proportional to sum_j z_j^2: the mixed-model
form of a smoothing spline, with tau the root mean square over the knots of what the curve is expected to depart from
its line. ``a = 0, b = 1, tau = 0`` leaves a probability as it is; neither b nor the bends have to be positive.

The point estimate maximises the penalised likelihood with Platt's smoothed targets, and tau is that of the largest
restricted marginal likelihood in Laplace's approximation: a and b, which are not penalised, are integrated out as well.

Ruppert, Wand & Carroll (2003), "Semiparametric Regression", sections 4.9 and 13.4: mixed-model form, and the radial
functions abs(x - knot)^3; Wood (2011), "Fast stable restricted maximum likelihood", Eq. 4 and 5; Wood (2017),
"Generalized Additive Models", sections 5.5 and 5.8.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support
from bayescal.calibrators.logistic import fit_logistic, smoothed_targets
from bayescal.calibrators.scale import Scale, learn_log_odds, to_log_odds
from bayescal.priors import Priors, setting

if TYPE_CHECKING:
    import pymc as pm

MOST_KNOTS = 10  # 8 bends; fewer where there are fewer distinct scores, none below 3
OUTERMOST = 0.05  # quantile of the first knot, and 1 minus that of the last
NEGLIGIBLE = 1e-9  # variance of a bend, relative to the largest
ROUGHNESS = np.geomspace(0.05, 12.8, 25)  # among which the point estimate looks for tau, and 0


@dataclass(frozen=True)
class SplinePriors(Priors):
    """Prior settings of `SplineCalibrator`: intercept, slope ~ Normal, roughness ~ Exponential.

    Parameters
    ----------
    intercept_mean : float, default=0.0
        Mean of the intercept, in log-odds.
    intercept_sd : float, default=1.0
        Standard deviation of the intercept, in log-odds; positive.
    slope_mean : float, default=1.0
        Mean of the slope of the line.
    slope_sd : float, default=1.0
        Standard deviation of the slope; positive.
    roughness_mean : float, default=1.0
        Mean of the exponential distribution of the roughness, in log-odds; positive.

    Examples
    --------
    >>> SplinePriors().roughness_mean
    1.0
    """

    intercept_mean: float = setting(0.0, "log-odds; no shift when the score is a probability")
    intercept_sd: float = setting(1.0, "log-odds; a base rate off by a factor e in the odds is one sd", positive=True)
    slope_mean: float = setting(1.0, "scores neither over- nor under-confident")
    slope_sd: float = setting(1.0, "a score without information is one sd, a falling line more", positive=True)
    roughness_mean: float = setting(
        1.0, "log-odds off a line; a line is the most probable, 3 is exceeded in 1 of 20", positive=True
    )


class SplineCalibrator(BinaryCalibrator):
    """A smooth calibration curve of any shape, rising or not, with a posterior.

    For a forecast or a score whose ranking is in doubt: the other calibrators of one score assume that a higher score
    never means a lower probability.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or penalised maximum likelihood.
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
    priors : SplinePriors or dict, default=None
        Prior settings; None takes the defaults for the kind of score.
    classes : sequence of two labels, default=None
        Negative and positive class; None sorts the labels seen.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Negative and positive class.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    Notes
    -----
    The prior of the roughness has its mode at 0, where the curve is a line in log-odds, and falls exponentially: a
    penalised-complexity prior (Simpson et al. 2017, section 3). It does not force a bend on a forecast that needs none.

    90 % bands of six curves held .93 and .90 of rising truths at n = 60 and 200 (the Bernstein curve .92 and .88, a
    fifth and a tenth narrower) and .88 at both of truths that fall somewhere
    (``tests/studies/results/spline_coverage.txt``).

    References
    ----------
    Ruppert, D., Wand, M. and Carroll, R. (2003). Semiparametric Regression. Sections 4.9 and 13.4.

    Simpson, D., Rue, H., Riebler, A., Martins, T. and Sørbye, S. (2017). Penalising model component complexity: a
    principled, practical approach to constructing priors. Statistical Science 32.

    Wood, S. (2017). Generalized Additive Models: an introduction with R, 2nd edition. Sections 5.5 and 5.8.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.SplineCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> cal.predict_proba([0.2, 0.8])[:, 1].round(2)
    array([0.2 , 0.86])
    """

    _name = "spline"
    _priors_class = SplinePriors
    _target_accept = 0.95

    @property
    def _rises(self) -> bool:
        return False

    def _default_priors(self, n_scores: int) -> SplinePriors:
        if self.score_kind == "raw":  # a slope of 1.6 per standard deviation is an AUC of about 0.8
            return SplinePriors(intercept_sd=1.5, slope_mean=1.6, slope_sd=1.6)
        return SplinePriors()

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        scale = learn_log_odds(scores, weight, self.score_kind)
        return scale | learn_bends(self._coordinate(scores, scale), weight)

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_log_odds(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        """Column of x, and one for each bend."""
        return np.column_stack([u, bends_at(u, scale)]) if "knots" in scale else u[:, None]

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        line = parameters["intercept"][:, None] + parameters["slope"][:, None] * features[:, 0]
        if "bends" not in parameters:
            return line
        return line + (parameters["roughness"][:, None] * parameters["bends"]) @ features[:, 1:].T

    def _build(self, **data: np.ndarray) -> "pm.Model":
        import pymc as pm

        from bayescal.inference.likelihood import counts_given_log_odds

        columns = data["x"].shape[1]
        coords = {"score": np.arange(len(data["totals"])), "term": np.arange(columns), "bend": np.arange(columns - 1)}
        with pm.Model(coords=coords) as model:
            x = pm.Data("x", data["x"], dims=("score", "term"))
            positives = pm.Data("positives", data["positives"], dims="score")
            totals = pm.Data("totals", data["totals"], dims="score")
            prior = pm.Data("prior", data["prior"])
            log_odds = pm.Normal("intercept", prior[0], prior[1]) + pm.Normal("slope", prior[2], prior[3]) * x[:, 0]
            if columns > 1:
                roughness = pm.Exponential("roughness", scale=prior[4])
                log_odds += x[:, 1:] @ (roughness * pm.Normal("bends", 0.0, 1.0, dims="bend"))
            counts_given_log_odds(log_odds, positives, totals)
        return model

    def _point(self, support: Support, scale: Scale) -> Parameters:
        few = self._few(support)  # enough to choose the roughness
        roughness = choose_roughness(self._features(few.u, scale), few.positives, few.totals)
        features = self._features(support.u, scale)
        fitted = fit_bends(features, smoothed_targets(support.positives, support.totals), support.totals, roughness)
        line = {"intercept": np.array(fitted[0]), "slope": np.array(fitted[1])}
        return line if features.shape[1] == 1 else line | {"roughness": np.array(roughness), "bends": fitted[2:]}

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        intercept_mean, intercept_sd, slope_mean, slope_sd, roughness_mean = priors.vector()
        line = {
            "intercept": rng.normal(intercept_mean, intercept_sd, size),
            "slope": rng.normal(slope_mean, slope_sd, size),
        }
        if "knots" not in scale:
            return line
        bends = rng.normal(size=(size, scale["shapes"].shape[1]))
        return line | {"roughness": rng.exponential(roughness_mean, size), "bends": bends}


# The spline


def learn_bends(x: np.ndarray, weight: np.ndarray) -> Scale:
    """Constants of the bends from coordinates x ``(m,)`` of the calibration rows; empty where a line is all there is.

    ``knots`` ``(K,)``; ``shapes`` ``(K, J)``, what each bend takes of the radial functions; ``line`` ``(2, J)``, the
    intercepts and slopes that make it orthogonal to 1 and x.
    """
    distinct = np.unique(x)
    reach = distinct[-1] - distinct[0]
    if len(distinct) < 3 or reach <= 1e-9 * np.abs(distinct).max():
        return {}
    levels = np.linspace(OUTERMOST, 1 - OUTERMOST, min(MOST_KNOTS, len(distinct)))
    knots = np.quantile(distinct, levels)
    shapes = unit_penalty(knots)
    centre = np.average(x, weights=weight)
    root = np.sqrt(weight / weight.sum())[:, None]
    design = np.column_stack([np.ones(len(x)), (x - centre) / reach])
    fitted = np.linalg.lstsq(root * design, root * natural_splines(x, knots, shapes), rcond=None)[0]
    line = np.stack([fitted[0] - fitted[1] * centre / reach, fitted[1] / reach])
    found = {"knots": knots, "shapes": shapes, "line": line}
    size = float(np.sqrt((bends_at(knots, found) ** 2).sum(axis=1).mean()))
    return {"knots": knots, "shapes": shapes / size, "line": line / size}


def unit_penalty(knots: np.ndarray) -> np.ndarray:
    """Combinations ``(K, J)`` of the radial functions abs(x - knot)^3 / 12 whose roughness is the identity.

    With sum c = 0 and sum c knot = 0 a combination c is linear beyond the end knots, and its roughness is c' E c, with
    E the radial functions at the knots: Wood (2017), section 5.5.1. x in units of the knots' range; smoothest first.
    """
    t = (knots - knots[0]) / (knots[-1] - knots[0])
    radial = np.abs(t[:, None] - t) ** 3 / 12
    free = np.linalg.qr(np.column_stack([np.ones(len(t)), t]), mode="complete")[0][:, 2:]
    variance, directions = np.linalg.eigh(free.T @ radial @ free)
    kept = np.flatnonzero(variance > NEGLIGIBLE * variance[-1])[::-1]
    return free @ directions[:, kept] / np.sqrt(variance[kept])


def natural_splines(x: np.ndarray, knots: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Combinations `shapes` of the radial functions at x ``(m,)``, ``(m, J)``; beyond the end knots straight lines."""
    inside = np.clip(x, knots[0], knots[-1])
    reach = knots[-1] - knots[0]
    apart = (inside[:, None] - knots) / reach
    beyond = ((x - inside) / reach)[:, None]
    return (np.abs(apart) ** 3 / 12) @ shapes + beyond * ((apart * np.abs(apart) / 4) @ shapes)


def bends_at(x: np.ndarray, scale: Scale) -> np.ndarray:
    """N_j(x) ``(m, J)`` of the module's equation at x ``(m,)``."""
    line = scale["line"]
    return natural_splines(x, scale["knots"], scale["shapes"]) - line[0] - x[:, None] * line[1]


# The point estimate


def fit_bends(features: np.ndarray, successes: np.ndarray, totals: np.ndarray, roughness: float) -> np.ndarray:
    """Intercept, slope and bends z ``(2 + J,)`` of the largest likelihood less sum z^2 / 2, given the roughness."""
    if roughness == 0:
        line = fit_logistic(features[:, :1], successes, totals)
        return np.concatenate([line, np.zeros(features.shape[1] - 1)])
    columns = features * np.r_[1.0, np.full(features.shape[1] - 1, roughness)]
    return fit_logistic(columns, successes, totals, penalty=np.r_[0.0, np.ones(columns.shape[1] - 1)])


def choose_roughness(features: np.ndarray, positives: np.ndarray, totals: np.ndarray) -> float:
    """The roughness of the largest restricted marginal likelihood, 0 included; 0 where there are no bends."""
    if features.shape[1] == 1:
        return 0.0
    successes = smoothed_targets(positives, totals)
    found = {0.0: log_marginal(features, successes, totals, 0.0)}
    for roughness in ROUGHNESS:
        found[float(roughness)] = log_marginal(features, successes, totals, float(roughness))
    return max(found, key=found.__getitem__)


def log_marginal(features: np.ndarray, successes: np.ndarray, totals: np.ndarray, roughness: float) -> float:
    """Log of the likelihood with intercept, slope and bends integrated out, by Laplace, up to a constant.

    Wood (2011), Eq. 5: the penalised log likelihood at its maximum less half the log determinant of its curvature.
    """
    fitted = fit_bends(features, successes, totals, roughness)
    x = features[:, 0]
    centred = x - np.average(x, weights=totals)
    design = np.column_stack([np.ones(len(x)), centred, roughness * features[:, 1:]])
    eta = fitted[0] + fitted[1] * x + design[:, 2:] @ fitted[2:]
    q = expit(eta)
    curvature = (design.T * (totals * q * (1 - q))) @ design + np.diag(np.r_[0, 0, np.ones(len(fitted) - 2)])
    likelihood = (successes * eta - totals * np.logaddexp(0, eta)).sum()
    return float(likelihood - fitted[2:] @ fitted[2:] / 2 - np.linalg.slogdet(curvature)[1] / 2)
