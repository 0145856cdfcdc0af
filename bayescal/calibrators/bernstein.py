"""Bernstein calibration curve.

    q(t) = sum_k beta_k C(K, k) t^k (1 - t)^(K - k),      0 <= beta_0 <= ... <= beta_K <= 1,   0 <= t <= 1

Nondecreasing over all of [0, 1] because the coefficients are, and dense in the nondecreasing curves as K grows. t is
the score (probabilities), its sigmoid (log-odds) or its mid-rank among the calibration rows (raw scores). The prior on
the coefficients is a cumulative Dirichlet centred on the identity. The point estimate is the least-squares quadratic
program.
Wang & Liu (2020), "Multivariate probability calibration with isotonic Bernstein polynomials", Eq. 8-13 with M = 1.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support
from bayescal.calibrators.increments import (
    base_increments,
    build_increments_model,
    increment_draws,
    levels_and_complements,
    mixture_data,
)
from bayescal.calibrators.scale import Scale, learn_unit, to_unit
from bayescal.priors import Priors, setting
from bayescal.validation import check_count

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class BernsteinPriors(Priors):
    """Prior settings of `BernsteinCalibrator`: concentration ~ LogNormal.

    Parameters
    ----------
    concentration_log_mean : float, default=log(4)
        Mean of the log of the concentration, in prior cases.
    concentration_log_sd : float, default=0.5
        Standard deviation of the log of the concentration; positive.

    Examples
    --------
    >>> BernsteinPriors().concentration_log_sd
    0.5
    """

    concentration_log_mean: float = setting(
        float(np.log(4.0)), "log of prior cases; the identity is worth 4 cases, so 30 labels can overrule it"
    )
    concentration_log_sd: float = setting(0.5, "log; from 1.5 to 11 prior cases within two sd", positive=True)


class BernsteinCalibrator(BinaryCalibrator):
    """A smooth nondecreasing calibration curve of any shape, with a posterior.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or the least-squares quadratic program.
    degree : int, default=12
        Degree K of the polynomial.
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
    priors : BernsteinPriors or dict, default=None
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
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.BernsteinCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> cal.predict_proba([0.2, 0.8])[:, 1].round(2)
    array([0.22, 0.87])
    """

    _name = "bernstein"
    _target_accept = 0.95
    _priors_class = BernsteinPriors

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "nuts",
        *,
        degree: int = 12,
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
        self.degree = degree

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        degree = np.array(check_count(self.degree, "degree"))
        return {"degree": degree, **learn_unit(scores, weight, self.score_kind)}

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_unit(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        return bernstein_basis(u, int(scale["degree"]))

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        if "increments" in parameters:
            beta, complement = levels_and_complements(parameters["increments"])
        else:
            beta, complement = parameters["coefficients"], 1 - parameters["coefficients"]
        with np.errstate(divide="ignore"):
            return np.log(beta @ features.T) - np.log(complement @ features.T)

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        mixture = mixture_data(self._features(support.u, scale), support.positives, support.totals)
        return {**mixture, "prior": priors.vector(), "base": prior_base(int(scale["degree"]))}

    def _build(self, **data: np.ndarray) -> "pm.Model":
        return build_increments_model("coefficients", data)

    def _point(self, support: Support, scale: Scale) -> Parameters:
        basis = self._features(support.u, scale)
        return {"coefficients": ordered_least_squares(basis, support.positives, support.totals)}

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        drawn = increment_draws(rng, size, prior_base(int(scale["degree"])), *priors.vector())
        return {**drawn, "coefficients": levels_and_complements(drawn["increments"])[0]}


def bernstein_basis(t: np.ndarray, degree: int) -> np.ndarray:
    """Basis polynomials ``C(K, k) t^k (1 - t)^(K - k)`` at t ``(m,)`` in [0, 1], ``(m, K + 1)``. Wang & Liu, Eq. 9."""
    k = np.arange(degree + 1)
    choose = np.exp(gammaln(degree + 1) - gammaln(k + 1) - gammaln(degree - k + 1))
    t = np.clip(t, 0.0, 1.0)[:, None]
    return choose * t**k * (1 - t) ** (degree - k)


def prior_base(degree: int) -> np.ndarray:
    """Base increments ``(K + 2,)`` with mean coefficients (k + 1/2)/(K + 1): the identity, with slack at the ends."""
    return base_increments((np.arange(degree + 1) + 0.5) / (degree + 1))


def ordered_least_squares(basis: np.ndarray, positives: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Coefficients ``(K + 1,)`` that minimise the squared error subject to 0 <= beta_0 <= ... <= beta_K <= 1.

    Wang & Liu, Eq. 13 with the constraints 10-12, by Clarabel's interior-point method on the Gram matrix.
    """
    import clarabel
    from scipy import sparse

    n, k = totals.sum(), basis.shape[1]
    gram = (basis.T * totals) @ basis / n + 1e-10 * np.eye(k)  # the ridge picks one of many equal optima
    target = basis.T @ positives / n
    order = sparse.diags_array(
        [np.ones(k), -np.ones(k)], offsets=[0, -1], shape=(k + 1, k)
    ).tocsc()  # beta_k - beta_{k-1}
    bound = np.zeros(k + 1)
    bound[-1] = 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sparse.triu(sparse.csc_array(gram)).tocsc(),
        -target,
        -order,
        bound,
        [clarabel.NonnegativeConeT(k + 1)],
        settings,
    )
    beta = np.asarray(solver.solve().x)
    return np.clip(np.maximum.accumulate(beta), 0.0, 1.0)
