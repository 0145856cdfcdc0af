"""The CASIMAC classifier: a scikit-learn classifier on features, with a posterior of its class probabilities."""

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.base import DRAWS_LIMIT
from bayescal.calibrators.notes import warn_about_convergence
from bayescal.calibrators.summaries import interval
from bayescal.casimac import fitting, simplex
from bayescal.casimac.inputs import (
    Space,
    check_correlation,
    check_distances,
    check_kernel,
    check_metric,
    read_cases,
    read_rows,
)
from bayescal.casimac.latent import KERNELS, LatentProcess
from bayescal.casimac.neighbours import Neighbours, Pull, find_neighbours, latents
from bayescal.casimac.prediction import Predictor
from bayescal.casimac.regression import RegressorPredictor
from bayescal.casimac.settings import CASIMACPriors
from bayescal.casimac.transformations import describe, read_pulls, read_spreads
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import (
    CalibrationWarning,
    NoPosteriorError,
    ParameterValueError,
    ScoreValueError,
    check_choice,
    check_count,
    check_fraction,
)

if TYPE_CHECKING:
    import xarray as xr

INFERENCES = ("nuts", "point")


class CASIMACClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Calibrated simplex-mapping classifier with a latent Gaussian process.

    Training cases are put into a latent space that is cut into one cone for each class: far inside the cone of their
    class where their neighbours are of that class, near its border where they are not. A Gaussian process extends
    that to all features, and the probability of a class is the mass of its predictive distribution in the cone,
    computed exactly. Meant for some ten to a thousand cases; time grows with the cube of their number.

    Parameters
    ----------
    gamma : float in [0, 1] or "auto", default="auto"
        Weight of the distances to other classes; 1 - gamma is that of the closeness to the own class. "auto" averages
        over a grid with weights from leave-one-out predictions that do not see the label left out.
    alpha, beta : float, default=None
        Weights of attraction and repulsion, instead of gamma = beta = 1 - alpha.
    k_alpha, k_beta : int or "auto", default="auto"
        Neighbours of the own class, at most c - 1, and of each other class, at most c, where c is the size of the
        smallest class. "auto" averages over 1, 3 and 5, as far as c allows.
    spread : float of at least 1 or "auto", default="auto"
        Multiplier of the predictive standard deviation; 1 is the plain process. "auto" averages as for gamma.
    metric : str or callable, default="euclidean"
        Distance in which neighbours are nearest: a name of `scipy.spatial.distance`, "cityblock" being the taxicab
        metric, or a symmetric function of two rows.
    kernel : {"matern32", "matern52", "rbf"} or callable, default="matern52"
        Correlation of latents by Euclidean distance; or a function of two sets of rows that returns a matrix of
        correlations, which has no length-scale. With callables for metric and kernel, rows may be any objects.
    inference : {"nuts", "point"}, default="nuts"
        Posterior of the process's hyperparameters, or their most probable values.
    regressor : estimator, default=None
        Regressor of scikit-learn's kind whose ``predict`` takes ``return_std``, in place of the process; with
        ``inference="point"`` and everything else fixed.
    standardize : bool, default=True
        Whether features are brought to mean 0 and standard deviation 1 first.
    priors : CASIMACPriors or dict, default=None
        Prior settings of the process.
    draws, tune, chains, cores : int
        Sizes of the sampler's run: draws and warm-up steps of each chain, chains, threads (None: as many as there are).
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws.
    progressbar : bool, callable or None, default=None
        None shows a bar on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Sorted labels.
    vertices_ : ndarray of shape (C, C - 1)
        Vertices of the simplex, in the order of ``classes_``.
    transformations_ : pandas.DataFrame
        Transformations in the average, heaviest first, with their weights and mean spread; ``attrs["loo_log_loss"]``
        is the mean leave-one-out log loss over the weights.
    diagnostics_ : pandas.DataFrame
        R-hat and effective sample sizes; divergences, verdict and interpolation error in ``attrs``.
    idata_ : xarray.DataTree
        Posterior, draw statistics and data, for ArviZ.
    n_features_in_ : int
        Features of the fit.

    See Also
    --------
    plot_simplex : Draw cases in the simplex of three or four classes.

    Notes
    -----
    ``predict_proba`` averages over `fitting.PREDICTED` posterior draws. ``predict_interval`` and ``proba_draws`` hold
    what the latent process leaves open at a row, beside its hyperparameters; noise, of which more cases of the same
    kind would not rid us, is in the probability itself.

    References
    ----------
    .. [1] Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification.
       PLOS ONE 18.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> x = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]])
    >>> clf = bc.CASIMACClassifier(inference="point").fit(x, ["low"] * 3 + ["high"] * 3)
    >>> clf.predict([[-1.2], [1.2]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        gamma: Any = "auto",
        *,
        alpha: float | None = None,
        beta: float | None = None,
        k_alpha: Any = "auto",
        k_beta: Any = "auto",
        spread: Any = "auto",
        metric: Any = "euclidean",
        kernel: Any = "matern52",
        inference: str = "nuts",
        regressor: Any = None,
        standardize: bool = True,
        priors: Any = None,
        draws: int = 1000,
        tune: int = 500,
        chains: int = 4,
        cores: int | None = None,
        random_state: Any = None,
        progressbar: Any = None,
    ) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.beta = beta
        self.k_alpha = k_alpha
        self.k_beta = k_beta
        self.spread = spread
        self.metric = metric
        self.kernel = kernel
        self.inference = inference
        self.regressor = regressor
        self.standardize = standardize
        self.priors = priors
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.cores = cores
        self.random_state = random_state
        self.progressbar = progressbar

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to labelled cases.

        Parameters
        ----------
        X : array-like of shape (n, d), or any rows that metric and kernel read
            Features.
        y : array-like of shape (n,)
            Labels of two or more classes.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ScoreValueError, LabelValueError, ParameterValueError
            If an input or a setting is outside its domain.

        Warns
        -----
        CalibrationWarning
            If cases with different labels coincide, or nothing could be left out to weigh the transformations by.
        ConvergenceWarning
            If the draws do not pass the convergence checks.
        """
        check_choice(self.inference, INFERENCES, "inference")
        check_metric(self.metric)
        check_kernel(self.kernel)
        spreads = read_spreads(self.spread)
        priors = CASIMACPriors.read(self.priors, CASIMACPriors())
        seeds = seed_sequence(self.random_state).generate_state(3, np.uint64)
        space, classes, codes = read_cases(self, X, y)
        pulls = read_pulls(self.alpha, self.beta, self.gamma, self.k_alpha, self.k_beta, int(np.bincount(codes).min()))
        vertices = simplex.simplex_vertices(len(classes))
        distance = check_distances(space.metric_to_cases(space.cases))
        most = max(max(pull.k_alpha, pull.k_beta) for pull in pulls) + 1
        neighbours = find_neighbours(distance, codes, len(classes), most)
        notes = self._notes(distance, codes, classes)
        posterior, parts, kept, chosen = None, None, None, None
        if self.regressor is not None:
            predictor: Any = self._fit_regressor(space, neighbours, pulls, spreads, vertices)
        else:
            process = LatentProcess(
                check_correlation(space.kernel_to_cases(space.cases))
                if callable(self.kernel)
                else space.kernel_to_cases(space.cases),
                None if callable(self.kernel) else KERNELS[self.kernel],
                priors,
            )
            chosen = fitting.weigh(process, neighbours, vertices, pulls, spreads)
            if np.isnan(chosen.loss) and len(pulls) * len(spreads) > 1:
                notes.append(
                    "no case can be left out, because a class is too small: transformations and spreads have equal "
                    "weights. Add cases, or pass gamma, k_alpha, k_beta and spread."
                )
            if self.inference == "nuts":
                rng = np.random.default_rng(int(seeds[1]))
                posterior = fitting.draw_posterior(process, chosen, self._sampler_settings(int(seeds[0])), rng)
                parts, kept = fitting.posterior_parts(posterior, vertices.shape[1], rng)
            else:
                parts = fitting.point_parts(process, chosen)
            predictor = Predictor(process, chosen.zs, parts, vertices)
        # nothing above has changed the estimator but its features; an interrupted fit leaves what was there
        self.__dict__.pop("idata_", None)
        self.classes_, self.vertices_ = classes, vertices
        self._space, self._codes, self._neighbours, self._predictor = space, codes, neighbours, predictor
        self._chosen, self._posterior, self._kept = chosen, posterior, kept
        self._pull = pulls[0] if chosen is None else chosen.pulls[int(chosen.weight.sum(axis=1).argmax())]
        for note in notes:
            warnings.warn(note, CalibrationWarning, stacklevel=2)
        if posterior is not None:
            warn_about_convergence(posterior.sampled.convergence, "CASIMAC")
        return self

    # what is asked of a fit ------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        ndarray of shape (m, C)
            Posterior mean; columns in the order of ``classes_``.
        """
        return self._by_blocks(X, lambda block: self._predictor.proba(block))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row; of equally probable ones the first.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        ndarray of shape (m,)
            Labels out of ``classes_``.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def predict_interval(self, X: Any, ci_prob: float = 0.9, ci_kind: str = "eti") -> np.ndarray:
        """Credible interval of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of the interval.
        ci_kind : {"eti", "hdi"}, default="eti"
            Equal tails, or the shortest interval.

        Returns
        -------
        ndarray of shape (m, C, 2)
            Lower and upper end for each class.

        Raises
        ------
        NoPosteriorError
            If the classifier was fitted with ``inference="point"``.
        """
        self._require_posterior("predict_interval")
        ci_prob = check_fraction(ci_prob, "ci_prob")
        check_choice(ci_kind, ("eti", "hdi"), "ci_kind")
        return self._by_blocks(
            X, lambda block: np.moveaxis(interval(self._predictor.proba_draws(block), ci_prob, ci_kind), 0, -1)
        )

    def proba_draws(self, X: Any) -> "xr.DataArray":
        """Posterior draws of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        xarray.DataArray
            Dims (chain, draw, obs, class); draws are evenly chosen among those of ``idata_``, whose numbers they keep.

        Raises
        ------
        NoPosteriorError
            If the classifier was fitted with ``inference="point"``.
        ScoreValueError
            If the array would be larger than 4 GB.
        """
        self._require_posterior("proba_draws")
        self._refuse_large(X, len(self.classes_))
        draws = self._by_blocks(X, lambda block: np.moveaxis(self._predictor.proba_draws(block), 0, -1))
        return self._labelled(draws, "class", self.classes_, "proba")

    def latent(self, X: Any) -> "xr.DataArray":
        """Posterior draws of the latent process, in units of the root mean square of the training latents.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        xarray.DataArray
            Dims (chain, draw, obs, latent).

        Raises
        ------
        NoPosteriorError
            If the classifier was fitted with ``inference="point"``; `predict_latent` needs no draws.
        ScoreValueError
            If the array would be larger than 4 GB.
        """
        self._require_posterior("latent")
        self._refuse_large(X, self.vertices_.shape[1])
        draws = self._by_blocks(X, lambda block: np.moveaxis(self._predictor.latent_draws(block), 0, -1))
        return self._labelled(draws, "latent", np.arange(draws.shape[1]), "latent")

    def predict_latent(self, X: Any) -> np.ndarray:
        """Mean of the latent process, in units of the root mean square of the training latents.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        ndarray of shape (m, C - 1)
            Averaged over transformations and hyperparameters.
        """
        return self._by_blocks(X, lambda block: self._predictor.mean_latent(block))

    def transform(self, X: Any) -> np.ndarray:
        """The latents: f of training cases, and the mean of the process at other rows, in the units of f.

        f is the training-data transformation, eq. 14 of the paper, by the heaviest of ``transformations_``.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features. A row that equals a training case in every feature is that case, of several such the first.

        Returns
        -------
        ndarray of shape (m, C - 1)
            One row for each row of X.
        """
        check_is_fitted(self, "classes_")
        rows = read_rows(self, self._space, X)
        f = latents(self._neighbours, self._pull, self.vertices_)
        if len(rows) == len(f) and _same(rows, self._space.cases):
            return f
        known = {_key(row): i for i, row in reversed(list(enumerate(self._space.cases)))}
        places = np.array([known.get(_key(row), -1) for row in rows], dtype=int)
        z = f[places]
        if (others := places < 0).any():
            at = np.flatnonzero(others)
            new = rows[others] if isinstance(rows, np.ndarray) else [rows[i] for i in at]
            z[others] = self._at_rows(new, lambda block: self._predictor.mean_latent(block)) * np.sqrt((f**2).mean())
        return z

    def compress(self, z: Any) -> np.ndarray:
        """Map latents one to one into the inside of the simplex, every cone onto its part of it.

        Parameters
        ----------
        z : array-like of shape (..., C - 1)
            Latents.

        Returns
        -------
        ndarray of shape (..., C - 1)
            Points of the simplex with vertices ``vertices_``.
        """
        return self._on_latents(z, simplex.compress)

    def decompress(self, points: Any) -> np.ndarray:
        """The inverse of `compress`.

        Parameters
        ----------
        points : array-like of shape (..., C - 1)
            Points inside the simplex.

        Returns
        -------
        ndarray of shape (..., C - 1)
            Latents.
        """
        return self._on_latents(points, simplex.decompress)

    @property
    def transformations_(self) -> pd.DataFrame:
        """Transformations in the average, heaviest first."""
        check_is_fitted(self, "classes_")
        if self._chosen is None:
            return pd.DataFrame([{**describe(self._pull), "spread": self._predictor.spread, "weight": 1.0}])
        chosen = self._chosen
        weight = chosen.weight.sum(axis=1)
        table = pd.DataFrame([describe(pull) for pull in chosen.pulls])
        table["spread"] = chosen.weight @ chosen.spreads / weight
        table["weight"] = weight
        table = table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
        table.attrs["loo_log_loss"] = chosen.loss
        return table

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat and ESS by parameter; ``attrs`` holds divergences, e_bfmi, verdict, message, interpolation_error."""
        self._require_posterior("diagnostics_")
        assert self._posterior is not None
        found = self._posterior.sampled.convergence
        table = found.table.copy()
        table.attrs |= {
            "divergences": found.divergences,
            "e_bfmi": found.e_bfmi,
            "verdict": found.verdict,
            "message": found.message,
            "interpolation_error": self._posterior.interpolation_error,
        }
        return table

    @cached_property
    def idata_(self) -> "xr.DataTree":
        """Posterior, draw statistics and data, as ArviZ reads them."""
        from bayescal.casimac.datatree import build_datatree

        self._require_posterior("idata_")
        return build_datatree(self)

    # steps -----------------------------------------------------------------------------------------------------------

    def _sampler_settings(self, seed: int) -> Any:
        from bayescal.inference.sampling import SamplerSettings

        return SamplerSettings(
            draws=check_count(self.draws, "draws"),
            tune=check_count(self.tune, "tune"),
            chains=check_count(self.chains, "chains"),
            cores=None if self.cores is None else check_count(self.cores, "cores"),
            seed=seed,
            progress=self.progressbar,
        )

    def _fit_regressor(
        self, space: Space, neighbours: Neighbours, pulls: list[Pull], spreads: tuple[float, ...], vertices: np.ndarray
    ) -> RegressorPredictor:
        if self.inference != "point" or len(pulls) > 1 or len(spreads) > 1:
            raise ParameterValueError(
                "a regressor has no posterior and no leave-one-out weights: pass inference='point' with numbers for "
                "gamma (or alpha and beta), k_alpha, k_beta and spread, or choose them by cross-validation."
            )
        z, _ = fitting.scaled_latents(neighbours, pulls[0], vertices)
        return RegressorPredictor(clone(self.regressor), space.cases, z, spreads[0], vertices)

    def _notes(self, distance: np.ndarray, codes: np.ndarray, classes: np.ndarray) -> list[str]:
        first, second = np.nonzero(np.triu(distance == 0, 1) & (codes[:, None] != codes))
        if not len(first):
            return []
        names = f"{classes[codes[first[0]]]!r} and {classes[codes[second[0]]]!r}"
        return [
            f"{len(first)} pairs of cases coincide and have different labels, first rows {first[0]} and {second[0]} "
            f"({names}); they are taken as a thousandth of the median distance apart."
        ]

    def _by_blocks(self, X: Any, at: Any) -> np.ndarray:
        check_is_fitted(self, "classes_")
        return self._at_rows(read_rows(self, self._space, X), at)

    def _at_rows(self, rows: Any, at: Any) -> np.ndarray:
        size = self._predictor.rows_at_a_time
        blocks = [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]
        if self.regressor is not None:
            return np.concatenate([at(block) for block in blocks])
        return np.concatenate([at(self._space.kernel_to_cases(block)) for block in blocks])

    def _refuse_large(self, X: Any, columns: int) -> None:
        size = len(self._predictor.parts.weight) * len(X) * columns
        if size > DRAWS_LIMIT:
            raise ScoreValueError(
                f"draws of {len(X)} rows would fill {8e-9 * size:.0f} GB. "
                "Use predict_interval, or pass fewer rows at a time."
            )

    def _labelled(self, draws: np.ndarray, dim: str, labels: np.ndarray, name: str) -> "xr.DataArray":
        import xarray as xr

        assert self._kept is not None
        chains, kept = self._kept
        values = np.moveaxis(draws, -1, 0)
        return xr.DataArray(
            values.reshape(chains, len(kept), *values.shape[1:]),
            dims=("chain", "draw", "obs", dim),
            coords={"chain": np.arange(chains), "draw": kept, "obs": np.arange(values.shape[1]), dim: labels},
            name=name,
        )

    def _on_latents(self, z: Any, what: Any) -> np.ndarray:
        check_is_fitted(self, "classes_")
        values, axes = np.asarray(z, dtype=float), self.vertices_.shape[1]
        if values.ndim == 0 or values.shape[-1] != axes:
            raise ScoreValueError(f"latents of {axes + 1} classes must have {axes} columns, got shape {values.shape}.")
        return what(values.reshape(-1, axes), self.vertices_).reshape(values.shape)

    def _require_posterior(self, what: str) -> None:
        check_is_fitted(self, "classes_")
        if self._posterior is None:
            raise NoPosteriorError(
                f"{what} needs posterior draws, and this classifier holds a point estimate. Fit with inference='nuts'."
            )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the draws
        return state


def _key(row: Any) -> Any:
    return row.tobytes() if isinstance(row, np.ndarray) else row


def _same(rows: Any, cases: Any) -> bool:
    return bool(np.array_equal(rows, cases)) if isinstance(rows, np.ndarray) else list(rows) == list(cases)
