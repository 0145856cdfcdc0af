"""The life of a calibrator with a generative model: validate, fit, draw. No mathematics of any one model is here.

`binary.py` and `multiclass.py` say what the scores and the labels are, and their subclasses say the model:

    _prepare(scores, y, sample_weight)      everything that a fit needs to know before it samples
    _restore_rows(scores, y, weight)        its rows, from those of a file
    _support(rows, scale)                   the calibration rows as the likelihood counts them
    _few(support)                           the same, where it is too large to be sampled
    _model_data(support, scale, priors)     the arrays of the PyMC model, by name
    _build(**data)                          the PyMC model; _structure(data) names its shape
    _point(support, scale)                  the frequentist estimate of the map, without the draw axis
    _point_proba(scores)                    its probabilities
    _prior_draws(rng, size, priors, scale)  the prior, for prior predictive checks
    _log_likelihood()                       pointwise, of one case at each calibration row
    _warn_about_data(job)                   what a user must know of the calibration rows
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators import notes
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.scale import Scale
from bayescal.inference.seeds import seed_sequence
from bayescal.priors import Priors
from bayescal.validation import NoPosteriorError, check_count

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayescal.inference.convergence import Convergence

Parameters = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """Everything that a fit needs to know before it samples."""

    rows: Any  # the calibration rows, one entry each
    classes: np.ndarray
    feature_names: np.ndarray | None
    n_features: int
    priors: Priors
    scale: Scale
    support: Any  # the rows as the likelihood counts them
    data: dict[str, np.ndarray]


class GenerativeCalibrator(Calibrator):
    """A calibrator with a generative model of its own."""

    _name: ClassVar[str]
    _priors_class: ClassVar[type[Priors]]
    _default_tune: ClassVar[int] = 500
    _target_accept: ClassVar[float] = 0.9
    _adaptation: ClassVar[str] = "diag"
    _auxiliary: ClassVar[tuple[str, ...]] = ()  # variables of the sampler's, of which the reported ones are made
    _inferences: ClassVar[tuple[str, ...]] = ("nuts", "point")

    feature_names_in_: np.ndarray
    _rows: Any
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
            Scores of the kind given at construction. Of a binary calibrator, two columns that sum to 1 are one score's
            probability pairs; of one of several classes, there is a column for each class.
        y : array-like of shape (n,)
            Labels; of two, the positive class is the second of ``classes`` or of the sorted labels.
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
                auxiliary=self._auxiliary,
                redraw=self._redraw(job.priors),
            )
            found = sampling.sample(self._structure(job.data), self._build, job.data, settings)
            rng = np.random.default_rng([entropy, 3])
            posterior = self._complete(found.posterior, self._few(job.support), job.scale, job.priors, rng)
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
        self._warn_about_data(job)
        if found is not None:
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
            Equal rows of scores share one row (dim ``score``) of the observed variable ``y``.
        """
        return self._build(**self._prepare(scores, y, sample_weight).data)

    @property
    def model_(self) -> "pm.Model":
        """The PyMC model of the fit, rebuilt (a fitted calibrator stores draws, not the model)."""
        check_is_fitted(self, "classes_")
        support = self._support(self._require_rows(), self._scale)
        return self._build(**self._model_data(self._few(support), self._scale, self._priors))

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat and ESS (bulk, tail) by parameter; ``attrs`` holds divergences, e_bfmi, verdict and message.

        Variables that only the sampler needs, such as ``gamma`` and ``boost``, are left out for what is made of them.
        """
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
        ndarray of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        return self._by_class(self._point_proba(self._check_new_scores(scores).values))

    # the model's mathematics -----------------------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, scores: Any, y: Any, sample_weight: Any) -> Job: ...

    @abstractmethod
    def _restore_rows(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any: ...

    @abstractmethod
    def _support(self, rows: Any, scale: Scale) -> Any: ...

    def _few(self, support: Any) -> Any:
        return support

    @abstractmethod
    def _model_data(self, support: Any, scale: Scale, priors: Any) -> dict[str, np.ndarray]: ...

    @abstractmethod
    def _build(self, **data: np.ndarray) -> "pm.Model": ...

    def _structure(self, data: dict[str, np.ndarray]) -> Hashable:
        """What a compiled model depends on, but for values and the number of distinct rows."""
        return (self._name, *(data[name].shape[1:] for name in sorted(data)))

    @abstractmethod
    def _point(self, support: Any, scale: Scale) -> Parameters: ...

    @abstractmethod
    def _point_proba(self, scores: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Any, scale: Scale) -> Parameters: ...

    @abstractmethod
    def _log_likelihood(self) -> np.ndarray: ...

    @abstractmethod
    def _warn_about_data(self, job: Job) -> None: ...

    def _redraw(self, priors: Any) -> Callable[[Parameters, np.random.Generator], Parameters] | None:
        """What the sampler's draws go through before they are judged: a step that leaves the posterior as it is."""
        del priors
        return None

    def _complete(
        self, posterior: Parameters, support: Any, scale: Scale, priors: Any, rng: np.random.Generator
    ) -> Parameters:
        """What is stored as the posterior: the sampler's draws, with parameters that are drawn exactly given them."""
        del support, scale, priors, rng
        return posterior

    def _priors_for(self, n_scores: int) -> type[Priors]:
        del n_scores
        return self._priors_class

    def _default_priors(self, n_scores: int) -> Priors:
        return self._priors_for(n_scores)()

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

    def _require_rows(self) -> Any:
        if self._rows is None:
            raise NoPosteriorError(
                "this calibrator was saved without its calibration rows. Save it with include_data=True."
            )
        return self._rows

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the draws
        return state
