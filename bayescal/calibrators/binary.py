"""The life of a calibrator: validate, fit, draw. No mathematics of any one model is here.

A calibrator is a map with parameters from a score, or from several, to log-odds. A subclass says

    _learn_scale(scores, weight)            constants of the working scale, from the calibration rows
    _coordinate(scores, scale)              scores (m,) or (m, M) -> working coordinates u of the same shape
    _features(u, scale)                     what the map needs of u, (m, ...)
    _log_odds(features, parameters)         the calibration map: draws (S, ...) and features (m, ...) -> (S, m)
    _build(**data)                          the PyMC model; _structure(data) names its shape
    _point(support, scale)                  the frequentist estimate of the map, without the draw axis
    _prior_draws(rng, size, priors, scale)  the prior, for prior predictive checks

and everything else is a pure function of the draws and the map.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators import notes
from bayescal.calibrators.base import Calibrator, pair
from bayescal.calibrators.scale import Scale, distinct_rows
from bayescal.inference.seeds import seed_sequence
from bayescal.priors import Priors
from bayescal.validation import (
    SCORE_KINDS,
    NoPosteriorError,
    check_choice,
    check_count,
    check_labels,
    check_sample_weight,
    check_scores,
)

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayescal.inference.convergence import Convergence

Parameters = dict[str, np.ndarray]

MAX_SUPPORT = 4096  # distinct coordinates that enter the sampled likelihood; more are grouped to this many


@dataclass(frozen=True)
class Rows:
    """The calibration rows, one entry each."""

    scores: np.ndarray  # (n,), or (n, M)
    positive: np.ndarray  # (n,) 0 or 1
    weight: np.ndarray  # (n,)

    @property
    def n_scores(self) -> int:
        """How many classifiers the scores are of."""
        return 1 if self.scores.ndim == 1 else self.scores.shape[1]


@dataclass(frozen=True)
class Support:
    """Distinct coordinates, with weighted counts of positives and of all rows."""

    u: np.ndarray  # (m,), or (m, M)
    positives: np.ndarray  # (m,)
    totals: np.ndarray  # (m,)


class BinaryCalibrator(Calibrator):
    """A calibrator with a generative model of its own."""

    _name: ClassVar[str]
    _priors_class: ClassVar[type[Priors]]
    _default_tune: ClassVar[int] = 500
    _target_accept: ClassVar[float] = 0.9
    _adaptation: ClassVar[str] = "diag"
    _inferences: ClassVar[tuple[str, ...]] = ("nuts", "point")

    feature_names_in_: np.ndarray
    _rows: Rows | None
    _posterior: Parameters | None
    _statistics: dict[str, np.ndarray] | None
    _convergence: "Convergence | None"

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "nuts",
        *,
        draws: int = 1000,
        tune: int | None = None,
        chains: int = 4,
        cores: int | None = None,
        random_state: Any = None,
        progressbar: Any = None,
        priors: Any = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.score_kind = score_kind
        self.inference = inference
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.cores = cores
        self.random_state = random_state
        self.progressbar = progressbar
        self.priors = priors
        self.classes = classes

    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the calibration map to labelled cases.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction; two columns that sum to 1 are one score's probability pairs.
        y : array-like of shape (n,)
            Labels of two kinds; the positive class is the second of ``classes`` or of the sorted labels.
        sample_weight : array-like of shape (n,), default=None
            Frequencies: a row of weight 2 counts as two rows, one of weight 0 as none.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ScoreValueError, LabelValueError, WeightValueError, ParameterValueError
            If an input or a setting is outside its domain.

        Warns
        -----
        CalibrationWarning
            If the answer rests on the prior (one class, few cases of a class, equal or separated scores) or if the
            scores rank the classes in reverse.
        ConvergenceWarning
            If the draws do not pass the convergence checks.
        """
        from bayescal.inference import sampling

        job = self._prepare(scores, y, sample_weight)
        point = self._point(job.support, job.scale)
        found: sampling.Draws | None = None
        posterior: Parameters | None = None
        entropy = 0
        if self.inference == "nuts":
            seed, entropy = (int(word) for word in seed_sequence(self.random_state).generate_state(2, np.uint64))
            settings = sampling.SamplerSettings(
                draws=check_count(self.draws, "draws"),
                tune=self._default_tune if self.tune is None else check_count(self.tune, "tune"),
                chains=check_count(self.chains, "chains"),
                cores=None if self.cores is None else check_count(self.cores, "cores"),
                seed=seed,
                progress=self.progressbar,
                target_accept=self._target_accept,
                adaptation=self._adaptation,
            )
            found = sampling.sample(self._structure(job.data), self._build, job.data, settings)
            rng = np.random.default_rng([entropy, 3])
            posterior = self._complete(found.posterior, _few(job.support), job.scale, job.priors, rng)
        # nothing above has changed the estimator: an interrupted fit leaves what was there
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.classes_ = job.classes
        self.n_features_in_ = job.n_features
        self._n_scores = job.rows.n_scores
        if job.feature_names is not None:
            self.feature_names_in_ = job.feature_names
        self._rows = job.rows
        self._priors = job.priors
        self._scale = job.scale
        self._entropy = entropy
        self._point_parameters = point
        self._posterior = posterior
        self._statistics = None if found is None else found.statistics
        self._convergence = None if found is None else found.convergence
        rows = job.rows
        notes.warn_about_data(rows.scores, rows.positive, rows.weight, self.classes_, self._name, point=self._is_point)
        if found is None:
            notes.warn_about_map(self._decreasing(job.rows.scores), self._name)
        else:
            notes.warn_about_convergence(found.convergence, self._name)
        return self

    def build_model(self, scores: Any, y: Any, sample_weight: Any = None) -> "pm.Model":
        """Build the PyMC model that `fit` samples.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Frequencies.

        Returns
        -------
        pymc.Model
            Equal scores share one row (dim ``score``) of the observed variable ``y``.
        """
        return self._build(**self._prepare(scores, y, sample_weight).data)

    @property
    def model_(self) -> "pm.Model":
        """The PyMC model of the fit, rebuilt (a fitted calibrator stores draws, not the model)."""
        check_is_fitted(self, "classes_")
        support = self._support(self._require_rows(), self._scale)
        return self._build(**self._model_data(_few(support), self._scale, self._priors))

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat and ESS (bulk, tail) by parameter; ``attrs`` holds divergences, e_bfmi, verdict and message."""
        self._require_posterior("diagnostics_")
        assert self._convergence is not None
        found = self._convergence
        table = found.table.copy()
        table.attrs |= {
            "divergences": found.divergences,
            "e_bfmi": found.e_bfmi,
            "verdict": found.verdict,
            "message": found.message,
        }
        return table

    @cached_property
    def idata_(self) -> "xr.DataTree":
        """Posterior, draw statistics, prior, likelihood, posterior predictive and data, as ArviZ reads them."""
        from bayescal.calibrators.datatree import build_datatree

        self._require_posterior("idata_")
        return build_datatree(self)

    @property
    def point_estimate_(self) -> Parameters:
        """The frequentist estimate of the map's parameters."""
        check_is_fitted(self, "classes_")
        return {name: value.copy() for name, value in self._point_parameters.items()}

    def predict_point(self, scores: Any) -> np.ndarray:
        """Probabilities by the frequentist point estimate, whatever ``inference`` was.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        ndarray of shape (n, 2)
            Columns in the order of ``classes_``.
        """
        return pair(self._point_proba(self._check_new_scores(scores).values))

    # the subclass's mathematics --------------------------------------------------------------------------------------

    @abstractmethod
    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale: ...

    @abstractmethod
    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray: ...

    @abstractmethod
    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray: ...

    @abstractmethod
    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray: ...

    @abstractmethod
    def _build(self, **data: np.ndarray) -> "pm.Model": ...

    def _structure(self, data: dict[str, np.ndarray]) -> Hashable:
        """What a compiled model depends on, but for values and the number of distinct scores."""
        return (self._name, *(data[name].shape[1:] for name in sorted(data)))

    @abstractmethod
    def _point(self, support: Support, scale: Scale) -> Parameters: ...

    @abstractmethod
    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters: ...

    def _complete(
        self, posterior: Parameters, support: Support, scale: Scale, priors: Priors, rng: np.random.Generator
    ) -> Parameters:
        """What is stored as the posterior: the sampler's draws, with parameters that are drawn exactly given them."""
        del support, scale, priors, rng
        return posterior

    def _priors_for(self, n_scores: int) -> type[Priors]:
        del n_scores
        return self._priors_class

    def _default_priors(self, n_scores: int) -> Priors:
        return self._priors_for(n_scores)()

    def _point_proba(self, scores: np.ndarray) -> np.ndarray:
        features = self._features(self._coordinate(scores, self._scale), self._scale)
        one = {name: value[None] for name, value in self._point_parameters.items()}
        return expit(self._log_odds(features, one))[0]

    # shared steps ----------------------------------------------------------------------------------------------------

    @property
    def _is_point(self) -> bool:
        return self._posterior is None

    @property
    def _draws(self) -> Parameters:
        """Posterior draws of the parameters, (chain, draw, ...)."""
        assert self._posterior is not None
        return self._posterior

    @property
    def _draw_shape(self) -> tuple[int, int]:
        first = next(iter(self._draws.values()))
        return first.shape[0], first.shape[1]

    @property
    def _flat(self) -> Parameters:
        """Posterior draws with one draw axis in front."""
        return {name: v.reshape(-1, *v.shape[2:]) for name, v in self._draws.items()}

    def _require_rows(self) -> Rows:
        if self._rows is None:
            raise NoPosteriorError(
                "this calibrator was saved without its calibration rows. Save it with include_data=True."
            )
        return self._rows

    def _prepare(self, scores: Any, y: Any, sample_weight: Any) -> "_Job":
        check_choice(self.score_kind, SCORE_KINDS, "score_kind")
        check_choice(self.inference, self._inferences, "inference")
        read = check_scores(scores, self.score_kind, columns=self._columns)
        n = len(read.values)
        labels = check_labels(y, n, classes=self.classes)
        weight = check_sample_weight(sample_weight, n)
        rows = Rows(read.values, labels.positive, np.ones(n) if weight is None else weight)
        priors = self._priors_for(rows.n_scores).read(self.priors, self._default_priors(rows.n_scores))
        used = rows.weight > 0
        distinct, inverse = distinct_rows(rows.scores[used])
        scale = self._learn_scale(distinct, np.bincount(inverse, weights=rows.weight[used]))
        support = self._support(rows, scale)
        data = self._model_data(_few(support), scale, priors)
        return _Job(rows, labels.classes, read.feature_names, read.n_features, priors, scale, support, data)

    def _support(self, rows: Rows, scale: Scale) -> Support:
        used = rows.weight > 0
        weight, positive = rows.weight[used], rows.positive[used]
        u, inverse = distinct_rows(self._coordinate(rows.scores[used], scale))
        totals = np.bincount(inverse, weights=weight)
        positives = np.bincount(inverse, weights=weight * positive)
        return Support(u, positives, totals)

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        return {
            "x": self._features(support.u, scale),
            "positives": support.positives,
            "totals": support.totals,
            "prior": priors.vector(),
        }

    def _log_odds_at(self, scores: np.ndarray, draws: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Log-odds by the chosen draws, (draws, m)."""
        chosen = {name: value[draws] for name, value in self._flat.items()}
        return self._log_odds(self._features(self._coordinate(scores, self._scale), self._scale), chosen)

    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        if self._is_point:
            return self._point_proba(scores)[None]
        return expit(self._log_odds_at(scores))

    def _log_likelihood_at(self, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """Log probability of outcomes 0/1 at scores (m,) or (m, M), (draws, m)."""
        return log_expit(self._log_odds_at(scores) * np.where(positive > 0, 1.0, -1.0))

    def _log_factor_at(self, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """Log of what one case multiplies each draw's posterior density by, (draws, m), up to a constant of the row."""
        return self._log_likelihood_at(scores, positive)

    def _log_likelihood(self) -> np.ndarray:
        """Pointwise log likelihood of one case at each calibration row, (draws, n)."""
        rows = self._require_rows()
        return self._log_likelihood_at(rows.scores, rows.positive)

    def _decreasing(self, scores: np.ndarray) -> bool:
        low, high = self._point_proba(np.stack([scores.min(axis=0), scores.max(axis=0)]))
        return bool(high < low - 1e-12)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the draws
        return state


def _few(support: Support) -> Support:
    return support if len(support.u) <= MAX_SUPPORT else group_neighbours(support, MAX_SUPPORT)


def group_neighbours(support: Support, most: int) -> Support:
    """At most `most` groups of neighbours, each at its mean: cells between equally spaced quantiles of each score."""
    columns = support.u.reshape(len(support.u), -1).T
    bins = int(most ** (1 / len(columns)) + 1e-9)
    cells = np.stack([_quantile_bin(u, support.totals, bins) for u in columns], axis=1)
    group = distinct_rows(cells)[1]
    mass = np.bincount(group, weights=support.totals)
    means = np.stack([np.bincount(group, weights=support.totals * u) / mass for u in columns], axis=1)
    return Support(means.reshape(len(mass), *support.u.shape[1:]), np.bincount(group, weights=support.positives), mass)


def _quantile_bin(u: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """Which of `bins` equal shares of the weight each value's mid-rank falls into."""
    inverse = np.unique(u, return_inverse=True)[1]
    mass = np.bincount(inverse, weights=weight)
    share = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return (share * bins).astype(int)[inverse]


@dataclass(frozen=True)
class _Job:
    """Everything that a fit needs to know before it samples."""

    rows: Rows
    classes: np.ndarray
    feature_names: np.ndarray | None
    n_features: int
    priors: Priors
    scale: Scale
    support: Support
    data: dict[str, np.ndarray]
