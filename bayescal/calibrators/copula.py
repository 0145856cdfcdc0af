"""Copula fusion: each class has its own distribution of the scores, and Bayes' rule does the rest.

    logit P(y = 1 | s) = logit pi + log f_1(s) - log f_0(s),
    f_l(s) = c_l(F_l1(s_1), .., F_lM(s_M)) f_l1(s_1) .. f_lM(s_M),      l = 0, 1

with c_l the copula of class l, F_lm and f_lm the margin of score m in it. Wang & Liu (2020), section 3.1, after Ozdemir
et al. (2017). Nothing here forces the probability to rise with the scores.

Margins are log-linear densities (`copula_margins`), those of the two classes tied by what they share: theta_l = base -+
tilt / 2, where the tilt alone moves the ratio f_1m / f_0m. NUTS samples them; all that it needs of the cases are sums.
Then, for every draw and class, families and Kendall's tau of the copula come from their exact posterior given the
margins (`copula_vine`), and the class rate pi from its Beta posterior. That the copula does not feed back into the
margins makes it a cut posterior. The point estimate is that of the paper (`copula_point`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_expit, logit

from bayescal.calibrators import copula_margins as margins
from bayescal.calibrators import copula_point as point
from bayescal.calibrators import copula_vine as vine
from bayescal.calibrators import notes
from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support, group_neighbours
from bayescal.calibrators.generative import Job
from bayescal.calibrators.scale import PROBA_CLIP, Scale, learn_unit, to_unit
from bayescal.priors import Priors, setting
from bayescal.validation import ParameterValueError, check_choice

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class CopulaPriors(Priors):
    """Prior settings of `CopulaCalibrator`.

    Parameters
    ----------
    tilt : float, default=0.7
        Mean by which the tail exponents of the classes differ, upwards at the upper end and downwards at the lower.
    exponent_sd : float, default=1.0
        Standard deviation of tail exponents, of the shared ones and of their differences; positive.
    curvature_sd : float, default=0.5
        Standard deviation of the curvatures of the log density in the tails; positive.
    bend_scale : float, default=1.0
        Scale of the half-normal size of the bends between the tails; positive.
    agreement_mean : float, default=0.4
        Mean of x, where Kendall's tau of a pair of scores within a class is 0.95 tanh(x).
    agreement_sd : float, default=0.6
        Standard deviation of x; positive.
    rate_cases : float, default=1.0
        Both parameters of the Beta prior of the class rate, in cases; positive.

    Examples
    --------
    >>> CopulaPriors(agreement_mean=0.0).agreement_mean
    0.0
    """

    tilt: float = setting(0.7, "log odds per unit of log p; each score ranks the cases with an AUC of about 0.8")
    exponent_sd: float = setting(1.0, "per unit of log p; from no tail to a steep one", positive=True)
    curvature_sd: float = setting(0.5, "per unit of log^2 p; includes normal tails, which are at -0.15", positive=True)
    bend_scale: float = setting(1.0, "log density; bends of a factor e are common", positive=True)
    agreement_mean: float = setting(0.4, "atanh; scores of one problem tend to agree: tau 0.36")
    agreement_sd: float = setting(0.6, "atanh; tau from -0.19 to 0.72 is one sd", positive=True)
    rate_cases: float = setting(1.0, "cases of each class; uniform", positive=True)


class CopulaCalibrator(BinaryCalibrator):
    """Fusion of several classifiers' scores through copulas of their distributions in each class, with a posterior.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"nuts", "point"}, default="nuts"
        Posterior, or kernel margins with the copula of the largest likelihood.
    families : sequence of str, default=None
        Copula families to average over, or to choose from: "independence", "gaussian", "t" (4 degrees of freedom),
        "clayton", "rotated clayton", "gumbel", "rotated gumbel", "frank", "plackett"; None takes all nine.
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
    priors : CopulaPriors or dict, default=None
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
    Ozdemir, O., Allen, T. G., Choi, S., Wimalajeewa, T. and Varshney, P. K. (2017). Copula based classifier fusion
    under statistical dependence. IEEE Transactions on Pattern Analysis and Machine Intelligence.

    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.CopulaCalibrator(inference="point").fit(days[["ens", "logistic"]], days["rain"])
    >>> cal.predict_proba([[0.4, 0.2], [0.9, 0.8]])[:, 1].round(2)
    array([0.29, 0.8 ])
    """

    _name = "copula"
    _priors_class = CopulaPriors
    _columns = "several"

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "nuts",
        *,
        families: Sequence[str] | None = None,
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
        self.families = families

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        unit = learn_unit(scores, weight, self.score_kind)
        x = _log_odds_of(to_unit(scores, unit, self.score_kind))
        families = np.array([vine.NAMES.index(name) for name in self._check_families()])
        return {**unit, **margins.learn_spread(x, weight), "families": families}

    def _check_families(self) -> tuple[str, ...]:
        if self.families is None:
            return vine.NAMES
        given = [self.families] if isinstance(self.families, str) else list(self.families)
        if not given:
            raise ParameterValueError(f"families must name at least one of {', '.join(vine.NAMES)}, got none.")
        return tuple(check_choice(name, vine.NAMES, "families") for name in dict.fromkeys(given))

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_unit(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        z = margins.standardise(_log_odds_of(u), scale)
        return np.concatenate([z[..., None], margins.terms(z)], axis=-1)

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        negative, positive = _joint_log_densities(features, parameters)
        return positive - negative

    def _log_factor_at(self, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
        features = self._features(self._coordinate(scores, self._scale), self._scale)
        return np.where(positive > 0, *reversed(_joint_log_densities(features, self._flat)))

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        phi = self._features(support.u, scale)[..., 1:]
        cases = _cases(support)
        return {
            "sums": np.einsum("ci,imk->cmk", cases, phi),
            "counts": cases.sum(axis=1),
            "prior": priors.vector()[:4],
        }

    def _build(self, **data: np.ndarray) -> "pm.Model":
        import pymc as pm
        import pytensor.tensor as pt

        columns = data["sums"].shape[1]
        coords = {
            "class": [0, 1],
            "part": ["base", "tilt"],
            "column": np.arange(columns),
            "term": np.arange(margins.TERMS),
        }
        with pm.Model(coords=coords) as model:
            sums = pm.Data("sums", data["sums"], dims=("class", "column", "term"))
            counts = pm.Data("counts", data["counts"], dims="class")
            prior = pm.Data("prior", data["prior"])
            raw = pm.Normal("raw", 0.0, 1.0, dims=("part", "column", "term"))
            bend = pm.HalfNormal("bend", prior[3], dims=("part", "column"))
            sd = prior[1] * margins.IS_EXPONENT + prior[2] * margins.IS_CURVATURE
            scaled = raw * (sd + margins.BEND_DECAY * bend[:, :, None])
            centre = prior[0] * margins.TILT[:, None, :]
            terms = pm.Deterministic("terms", centre + scaled, dims=("part", "column", "term"))
            theta = pt.stack([class_coefficients(terms, label, axis=0) for label in (0, 1)])
            exponent = pt.dot(theta.reshape((-1, margins.TERMS)), margins.GRID_TERMS.T) + margins.LOG_WEIGHT
            log_z = pt.logsumexp(exponent, axis=1).reshape((2, columns))
            pm.Potential("margins", (sums * theta).sum() - (counts[:, None] * log_z).sum())
        return model

    def _complete(
        self, posterior: Parameters, support: Support, scale: Scale, priors: Priors, rng: np.random.Generator
    ) -> Parameters:
        *_, agreement_mean, agreement_sd, rate_cases = priors.vector()
        shape = posterior["terms"].shape[:2]
        terms = posterior["terms"].reshape(-1, *posterior["terms"].shape[2:])
        features, cases = self._features(support.u, scale), _cases(support)
        drawn = []
        for label in (0, 1):
            of = cases[label] > 0
            _, u = _margins(features[of], class_coefficients(terms, label))
            drawn.append(
                vine.posterior_draws(rng, u, cases[label][of], scale["families"], agreement_mean, agreement_sd)
            )
        family, tau = (np.stack(values, axis=1) for values in zip(*drawn, strict=True))
        negative, positive = rate_cases + cases.sum(axis=1)
        return {
            **posterior,
            "family": family.reshape(*shape, *family.shape[1:]),
            "tau": tau.reshape(*shape, *tau.shape[1:]),
            "rate": rng.beta(positive, negative, shape),
        }

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        tilt, exponent_sd, curvature_sd, bend_scale, agreement_mean, agreement_sd, rate_cases = priors.vector()
        columns = len(scale["margin_mean"])
        raw = rng.normal(size=(size, 2, columns, margins.TERMS))
        bend = np.abs(rng.normal(0.0, bend_scale, (size, 2, columns)))
        sd = exponent_sd * margins.IS_EXPONENT + curvature_sd * margins.IS_CURVATURE
        terms = tilt * margins.TILT[:, None, :] + raw * (sd + margins.BEND_DECAY * bend[..., None])
        shape = (size, 2, vine.pair_count(columns))
        family, tau = vine.prior_draws(rng, shape, scale["families"], agreement_mean, agreement_sd)
        rate = rng.beta(rate_cases, rate_cases, size)
        return {"raw": raw, "bend": bend, "terms": terms, "family": family, "tau": tau, "rate": rate}

    def _point(self, support: Support, scale: Scale) -> Parameters:
        cases, columns = _cases(support), support.u.shape[1]
        names = point.candidates(tuple(vine.NAMES[number] for number in scale["families"]), columns)
        if not names:
            raise ParameterValueError(
                f"families must hold one that has a form for {columns} scores, got {self.families!r}. "
                "Plackett's family is for two; add another, or leave families out."
            )
        if len(support.u) > point.MOST_ROWS:
            support = group_neighbours(support, point.MOST_ROWS)
        widths = np.array([[point.bandwidth(u, weight) for u in support.u.T] for weight in cases])
        found: Parameters = {"points": support.u, "cases": cases, "bandwidth": widths}
        copulas = []
        for label in (0, 1):
            _, u = point.kernel_margins(support.u[cases[label] > 0], found, label)
            copulas.append(point.fit_copula(u, cases[label][cases[label] > 0], names))
        return {
            **found,
            "family": np.array([family for family, _ in copulas]),
            "tau": np.array([tau for _, tau in copulas]),
            "rate": np.array(support.positives.sum() / support.totals.sum()),
        }

    def _warn_about_data(self, job: Job) -> None:
        super()._warn_about_data(job)
        columns = job.rows.scores[job.rows.weight > 0].T
        notes.warn_about_few_levels([len(np.unique(column)) for column in columns], self._name)

    def _point_proba(self, scores: np.ndarray) -> np.ndarray:
        found = self._point_parameters
        with np.errstate(divide="ignore"):  # without cases of a class its probability is 0
            log_odds = np.full(len(scores), logit(found["rate"]))
        for label, sign in ((0, -1.0), (1, 1.0)):
            log_density, u = point.kernel_margins(self._coordinate(scores, self._scale), found, label)
            name = vine.NAMES[int(found["family"][label])]
            log_odds += sign * (log_density + point.log_density(name, u, found["tau"][label]))
        return expit(log_odds)


def class_coefficients(terms: Any, label: int, axis: int = 1) -> Any:
    """theta of a class from base and tilt, which lie along `axis`: base - tilt / 2, or base + tilt / 2."""
    base, tilt = (terms[0], terms[1]) if axis == 0 else (terms[:, 0], terms[:, 1])
    return base + (label - 0.5) * tilt


def _log_odds_of(u: np.ndarray) -> np.ndarray:
    return logit(np.clip(u, PROBA_CLIP, 1 - PROBA_CLIP))


def _cases(support: Support) -> np.ndarray:
    """Negative and positive cases of each row, ``(2, m)``."""
    return np.stack([support.totals - support.positives, support.positives])


def _joint_log_densities(features: np.ndarray, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """log P(y = l) f_l(s) - log b(s) of l = 0 and 1, each ``(S, m)``, with the b of `copula_margins`."""
    log_rate = log_expit(np.array([-1.0, 1.0])[:, None] * logit(parameters["rate"]))
    found = []
    for label in (0, 1):
        log_density, u = _margins(features, class_coefficients(parameters["terms"], label))
        log_copula = vine.vine_log_density(u, parameters["family"][:, label], parameters["tau"][:, label])
        found.append(log_rate[label][:, None] + log_density + log_copula)
    return found[0], found[1]


def _margins(features: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of log margins ``(S, m)`` and u ``(S, m, M)`` at features ``(m, M, 1 + K)`` of theta ``(S, M, K)``."""
    parts = [
        margins.log_density_and_distribution(theta[:, j], features[:, j, 0], features[:, j, 1:])
        for j in range(theta.shape[1])
    ]
    return np.sum([log_density for log_density, _ in parts], axis=0), np.stack([u for _, u in parts], axis=2)
