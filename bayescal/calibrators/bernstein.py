"""Bernstein calibration curve of one score, and surface of several.

    q(t) = sum_k beta_k C(K, k) t^k (1 - t)^(K - k),      0 <= beta_0 <= ... <= beta_K <= 1,   0 <= t <= 1

Nondecreasing over all of [0, 1] because the coefficients are, and dense in the nondecreasing curves as K grows. t is
the score (probabilities), its sigmoid (log-odds) or its mid-rank among the calibration rows (raw scores). The prior on
the coefficients is a cumulative Dirichlet centred on the identity. The point estimate is the least-squares quadratic
program. Wang & Liu (2020), "Multivariate probability calibration with isotonic Bernstein polynomials", Eq. 8-13.

With several scores the polynomial is a product of such bases, nondecreasing in every score, and its prior is that of
`bayescal.calibrators.surface`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

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
from bayescal.calibrators.surface import (
    build_surface_model,
    coefficients_and_complements,
    degrees_of_lattice,
    likelihood_power,
    make_lattice,
    surface_basis,
    surface_draws,
)
from bayescal.priors import Priors, setting
from bayescal.validation import ParameterValueError, check_count

if TYPE_CHECKING:
    import pymc as pm

DEFAULT_DEGREES = {1: 12, 2: 6}  # by number of scores; 4 for more
DEFAULT_OF_MANY = 8  # for two scores and at least so many cases:
MANY = 300
MAX_COEFFICIENTS = 2000  # of a surface; its field's correlation is a square matrix of that size
BLOCK = 2**15  # rows whose basis is held at a time


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


@dataclass(frozen=True)
class BernsteinSurfacePriors(Priors):
    """Prior settings of `BernsteinCalibrator` for several scores: of the logistic fusion, and how far from it.

    Parameters
    ----------
    intercept_mean : float, default=0.0
        Mean of the fusion's intercept, in log-odds.
    intercept_sd : float, default=1.0
        Standard deviation of the intercept, in log-odds; positive. The calibrator takes 3 for raw scores.
    slope_sd : float, default=1.2 sqrt(2/M)
        Scale of each score's half-normal slope; positive.
    interaction_sd : float, default=1.5
        Standard deviation of the interaction, per log-odds; positive.
    roughness_sd : float, default=1.5
        Scale of the half-normal roughness, in log-odds of a stick; positive.
    coarsening : float, default=0.6
        How much less a case counts for each case there is, times the squared degree, in 1/cases; zero or positive.
        Not a prior.

    Examples
    --------
    >>> BernsteinSurfacePriors().roughness_sd
    1.5
    """

    intercept_mean: float = setting(0.0, "log-odds; no shift where the scores are probabilities")
    intercept_sd: float = setting(1.0, "log-odds; a base rate off by a factor e in the odds is one sd", positive=True)
    slope_sd: float = setting(
        1.2, "log-odds per log-odds; a useless score has 0, one of two good ones 1", positive=True
    )
    interaction_sd: float = setting(
        1.5, "per log-odds; at 1.5 the larger of two scores nearly decides, at -1.5 the smaller", positive=True
    )
    roughness_sd: float = setting(1.5, "log-odds of a stick; at 1.5 a surface of any shape is likely", positive=True)
    coarsening: float = setting(
        0.6,
        "per case, over squared degree; chosen by coverage: 200 cases count as 96, as polynomials are not the truth",
        nonnegative=True,
    )


class BernsteinCalibrator(BinaryCalibrator):
    """A smooth nondecreasing calibration curve, or surface of several scores, of any shape, with a posterior.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or the least-squares quadratic program.
    degree : int or sequence of int, default=None
        Degree K of the polynomial, the same for every score or one for each; the sum over several scores must be even.
        None takes 12 for one score, 6 for two (8 from 300 cases), 4 for more.
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
    priors : BernsteinPriors, BernsteinSurfacePriors or dict, default=None
        Prior settings, the latter for several scores; None takes the defaults.
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
    _auxiliary = AUXILIARY
    _priors_class = BernsteinPriors
    _columns = "any"

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "nuts",
        *,
        degree: int | Sequence[int] | None = None,
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

    def _priors_for(self, n_scores: int) -> type[Priors]:
        return BernsteinPriors if n_scores == 1 else BernsteinSurfacePriors

    def _default_priors(self, n_scores: int) -> Priors:
        if n_scores == 1:
            return BernsteinPriors()
        # ranks say nothing of how many positives there are
        intercept_sd = 3.0 if self.score_kind == "raw" else 1.0
        return BernsteinSurfacePriors(intercept_sd=intercept_sd, slope_sd=1.2 * float(np.sqrt(2 / n_scores)))

    def _degrees(self, n_scores: int, cases: float) -> tuple[int, ...]:
        default = DEFAULT_OF_MANY if n_scores == 2 and cases >= MANY else DEFAULT_DEGREES.get(n_scores, 4)
        given: Any = default if self.degree is None else self.degree
        several = [given] * n_scores if np.ndim(given) == 0 else list(given)
        degrees = tuple(check_count(k, "degree") for k in several)
        if len(degrees) != n_scores:
            raise ParameterValueError(
                f"degree must be one number, or one for each of {n_scores} scores, got {given!r}."
            )
        if n_scores > 1 and sum(degrees) % 2:
            raise ParameterValueError(
                f"degree must have an even sum over several scores, got {degrees}; take the next even number."
            )
        size = int(np.prod([k + 1 for k in degrees]))
        if n_scores > 1 and size > MAX_COEFFICIENTS:
            raise ParameterValueError(
                f"degree {degrees} makes {size} coefficients, more than {MAX_COEFFICIENTS}. Lower it, or fuse fewer "
                "scores (PlattCalibrator fuses any number)."
            )
        return degrees

    def _structure(self, data: dict[str, np.ndarray]) -> Hashable:
        degrees = degrees_of_lattice(data["centre"]) if "centre" in data else ()
        return (*super()._structure(data), degrees)  # type: ignore[misc]

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        degrees = self._degrees(1 if scores.ndim == 1 else scores.shape[1], weight.sum())
        return {"degrees": np.array(degrees), **learn_unit(scores, weight, self.score_kind)}

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_unit(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        degrees = _degrees_of(scale)
        return bernstein_basis(u, degrees[0]) if u.ndim == 1 else surface_basis(u, degrees)

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        if "increments" in parameters:
            beta, complement = levels_and_complements(parameters["increments"])
        elif "sticks" in parameters:
            beta, complement = coefficients_and_complements(parameters["sticks"], self._degrees_of_draws(parameters))
        else:
            beta, complement = parameters["coefficients"], 1 - parameters["coefficients"]
        with np.errstate(divide="ignore"):
            return np.log(beta @ features.T) - np.log(complement @ features.T)

    def _degrees_of_draws(self, parameters: Parameters) -> tuple[int, ...]:
        size, columns = parameters["sticks"].shape[1], parameters["slope"].shape[1]
        if hasattr(self, "_scale"):
            return _degrees_of(self._scale)  # of the fit, whatever `degree` was set to since
        equal = (round(size ** (1 / columns)) - 1,) * columns
        return equal if self.degree is None else self._degrees(columns, 0)

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        basis = self._features(support.u, scale)
        if support.u.ndim == 1:
            mixture = mixture_data(basis, support.positives, support.totals)
            return {**mixture, "prior": priors.vector(), "base": prior_base(int(scale["degrees"][0]))}
        weight = np.concatenate([support.positives, support.totals - support.positives])
        seen = weight > 0
        power = _power(weight.sum(), _degrees_of(scale), priors)
        return {
            "x": np.concatenate([basis, basis])[seen],
            "outcome": np.repeat([1.0, 0.0], len(basis))[seen],
            "weight": power * weight[seen],
            "centre": make_lattice(_degrees_of(scale)).centre,
            "prior": priors.vector(),
        }

    def _log_factor_at(self, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
        power = _power(self._require_rows().weight.sum(), _degrees_of(self._scale), self._priors)
        return power * super()._log_factor_at(scores, positive)

    def _build(self, **data: np.ndarray) -> "pm.Model":
        if "centre" not in data:
            return build_increments_model("coefficients", data)
        return build_surface_model(data, degrees_of_lattice(data["centre"]))

    def _point(self, support: Support, scale: Scale) -> Parameters:
        gram, target = self._normal_equations(support, scale)
        edges = make_lattice(_degrees_of(scale)).edges
        return {"coefficients": monotone_least_squares(gram, target, edges)}

    def _normal_equations(self, support: Support, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
        """Gram matrix ``(N, N)`` and moments ``(N,)`` of the basis, per case, in blocks of rows."""
        import threadpoolctl

        n, gram, target = support.totals.sum(), 0.0, 0.0
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):  # products too small to share among threads
            for start in range(0, len(support.u), BLOCK):
                part = slice(start, start + BLOCK)
                basis = self._features(support.u[part], scale)
                gram = gram + (basis.T * support.totals[part]) @ basis / n
                target = target + basis.T @ support.positives[part] / n
        return np.asarray(gram), np.asarray(target)

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        degrees = _degrees_of(scale)
        if len(degrees) > 1:
            return surface_draws(rng, size, priors.vector(), degrees)
        drawn = increment_draws(rng, size, prior_base(degrees[0]), *priors.vector())
        return {**drawn, "coefficients": levels_and_complements(drawn["increments"])[0]}


def _degrees_of(scale: Scale) -> tuple[int, ...]:
    return tuple(int(k) for k in scale["degrees"])


def _power(cases: float, degrees: tuple[int, ...], priors: Priors) -> float:
    return likelihood_power(cases, degrees, priors.coarsening) if isinstance(priors, BernsteinSurfacePriors) else 1.0


def bernstein_basis(t: np.ndarray, degree: int) -> np.ndarray:
    """Basis polynomials ``C(K, k) t^k (1 - t)^(K - k)`` at t ``(m,)`` in [0, 1], ``(m, K + 1)``. Wang & Liu, Eq. 9."""
    k = np.arange(degree + 1)
    choose = np.exp(gammaln(degree + 1) - gammaln(k + 1) - gammaln(degree - k + 1))
    t = np.clip(t, 0.0, 1.0)
    return choose * np.vander(t, degree + 1, increasing=True) * np.vander(1 - t, degree + 1)


def prior_base(degree: int) -> np.ndarray:
    """Base increments ``(K + 2,)`` with mean coefficients (k + 1/2)/(K + 1): the identity, with slack at the ends."""
    return base_increments((np.arange(degree + 1) + 0.5) / (degree + 1))


def monotone_least_squares(gram: np.ndarray, target: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Coefficients ``(N,)`` that minimise ``beta' gram beta / 2 - target' beta`` in the monotone cone.

    The second node of each of `edges` may not be lower than the first, the first node of all not below 0, the last not
    above 1. Wang & Liu, Eq. 13 with the constraints 10-12, by Clarabel's interior-point method.
    """
    import clarabel
    from scipy import sparse

    k, rows = len(target), np.arange(len(edges))
    order = sparse.csc_array(
        (np.repeat([1.0, -1.0], len(edges)), (np.tile(rows, 2), edges.T.ravel())), shape=(len(edges), k)
    )
    ends = sparse.csc_array(([-1.0, 1.0], ([0, 1], [0, k - 1])), shape=(2, k))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sparse.triu(sparse.csc_array(gram + 1e-10 * np.eye(k))).tocsc(),  # the ridge picks one of many equal optima
        -target,
        sparse.vstack([order, ends]).tocsc(),
        np.concatenate([np.zeros(len(edges) + 1), [1.0]]),
        [clarabel.NonnegativeConeT(len(edges) + 2)],
        settings,
    )
    found = solver.solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise ParameterValueError(
            f"the least-squares program of {k} Bernstein coefficients cannot be solved ({found.status}). Lower degree, "
            "or leave out rows of negligible weight."
        )
    beta = np.clip(np.asarray(found.x), 0.0, 1.0)
    for low, high in edges[np.lexsort((edges[:, 1], edges[:, 0]))]:  # what the tolerance left
        beta[high] = max(beta[low], beta[high])
    return beta
