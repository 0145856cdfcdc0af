"""What is asked of a fitted CASIMAC classifier: probabilities, intervals, draws, latents, the posterior itself."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.base import DRAWS_LIMIT
from bayescal.calibrators.summaries import interval
from bayescal.casimac import simplex
from bayescal.casimac.inputs import read_rows
from bayescal.casimac.learning import Fit
from bayescal.casimac.neighbours import latents
from bayescal.casimac.transformations import describe
from bayescal.validation import NoPosteriorError, ScoreValueError, check_choice, check_fraction

if TYPE_CHECKING:
    import xarray as xr


class LatentAnswers(ClassifierMixin, BaseEstimator):
    """What a classifier on latents offers once its ``fit`` has set ``classes_``, ``vertices_`` and ``_fit``."""

    classes_: np.ndarray
    vertices_: np.ndarray
    _fit: Any  # with ``space``, ``predictor``, ``posterior`` and ``kept``

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
        return self._by_blocks(X, lambda block: self._fit.predictor.proba(block))

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
            X, lambda block: np.moveaxis(interval(self._fit.predictor.proba_draws(block), ci_prob, ci_kind), 0, -1)
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
        draws = self._by_blocks(X, lambda block: np.moveaxis(self._fit.predictor.proba_draws(block), 0, -1))
        return self._labelled(draws, "class", self.classes_, "proba")

    def latent(self, X: Any) -> "xr.DataArray":
        """Posterior draws of the latent process.

        They are in units of the root mean square of the training latents (`CASIMACClassifier`) or of
        the noise's standard deviation (`GenerativeCASIMACClassifier`).

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
        draws = self._by_blocks(X, lambda block: np.moveaxis(self._fit.predictor.latent_draws(block), 0, -1))
        return self._labelled(draws, "latent", np.arange(draws.shape[1]), "latent")

    def predict_latent(self, X: Any) -> np.ndarray:
        """Mean of the latent process.

        It is in units of the root mean square of the training latents (`CASIMACClassifier`) or of
        the noise's standard deviation (`GenerativeCASIMACClassifier`).

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features.

        Returns
        -------
        ndarray of shape (m, C - 1)
            Averaged over all that the posterior draws.
        """
        return self._by_blocks(X, lambda block: self._fit.predictor.mean_latent(block))

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
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat and ESS by parameter; ``attrs`` holds divergences, e_bfmi, verdict, message, interpolation_error."""
        self._require_posterior("diagnostics_")
        assert self._fit.posterior is not None
        found = self._fit.posterior.sampled.convergence
        table = found.table.copy()
        table.attrs |= {
            "divergences": found.divergences,
            "e_bfmi": found.e_bfmi,
            "verdict": found.verdict,
            "message": found.message,
            "interpolation_error": self._fit.posterior.interpolation_error,
        }
        return table

    @cached_property
    def idata_(self) -> "xr.DataTree":
        """Posterior, draw statistics and data, as ArviZ reads them."""
        self._require_posterior("idata_")
        return self._build_datatree()

    def _build_datatree(self) -> "xr.DataTree":
        raise NotImplementedError

    def _by_blocks(self, X: Any, at: Any) -> np.ndarray:
        check_is_fitted(self, "classes_")
        return self._at_rows(read_rows(self, self._fit.space, X), at)

    def _at_rows(self, rows: Any, at: Any) -> np.ndarray:
        size = self._fit.predictor.rows_at_a_time
        blocks = [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]
        if self._fit.predictor.reads_features:
            return np.concatenate([at(block) for block in blocks])
        return np.concatenate([at(self._fit.space.kernel_to_cases(block)) for block in blocks])

    def _refuse_large(self, X: Any, columns: int) -> None:
        size = len(self._fit.predictor.parts) * len(X) * columns
        if size > DRAWS_LIMIT:
            raise ScoreValueError(
                f"draws of {len(X)} rows would fill {8e-9 * size:.0f} GB. "
                "Use predict_interval, or pass fewer rows at a time."
            )

    def _labelled(self, draws: np.ndarray, dim: str, labels: np.ndarray, name: str) -> "xr.DataArray":
        import xarray as xr

        assert self._fit.kept is not None
        chains, kept = self._fit.kept
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
        if self._fit.posterior is None:
            raise NoPosteriorError(
                f"{what} needs posterior draws, and this classifier holds a point estimate. Fit with inference='nuts'."
            )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the draws
        return state


class CASIMACAnswers(TransformerMixin, LatentAnswers):
    """What a classifier offers beside that where the latents of training cases are computed from the labels."""

    _fit: Fit

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
        rows = read_rows(self, self._fit.space, X)
        f = latents(self._fit.neighbours, self._fit.pull, self.vertices_)
        if len(rows) == len(f) and _same(rows, self._fit.space.cases):
            return f
        known = {_key(row): i for i, row in reversed(list(enumerate(self._fit.space.cases)))}
        places = np.array([known.get(_key(row), -1) for row in rows], dtype=int)
        z = f[places]
        if (others := places < 0).any():
            at = np.flatnonzero(others)
            new = rows[others] if isinstance(rows, np.ndarray) else [rows[i] for i in at]
            z[others] = self._at_rows(new, lambda block: self._fit.predictor.mean_latent(block)) * np.sqrt(
                (f**2).mean()
            )
        return z

    @property
    def transformations_(self) -> pd.DataFrame:
        """Transformations in the average, heaviest first."""
        check_is_fitted(self, "classes_")
        if self._fit.chosen is None:
            return pd.DataFrame([{**describe(self._fit.pull), "spread": self._fit.predictor.spread, "weight": 1.0}])
        chosen = self._fit.chosen
        weight = chosen.weight.sum(axis=1)
        table = pd.DataFrame([describe(pull) for pull in chosen.pulls])
        table["spread"] = chosen.weight @ chosen.spreads / weight
        table["weight"] = weight
        table = table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
        table.attrs["loo_log_loss"] = chosen.loss
        return table

    def _build_datatree(self) -> "xr.DataTree":
        from bayescal.casimac.datatree import build_datatree

        return build_datatree(self)


def _key(row: Any) -> Any:
    return row.tobytes() if isinstance(row, np.ndarray) else row


def _same(rows: Any, cases: Any) -> bool:
    return bool(np.array_equal(rows, cases)) if isinstance(rows, np.ndarray) else list(rows) == list(cases)
