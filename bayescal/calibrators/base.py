"""What every calibrator of scores offers: probabilities, intervals, draws and tables, from draws at given scores."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bayescal import __version__
from bayescal.calibrators.summaries import TOLERANCE, interval, summarise_in_blocks
from bayescal.validation import (
    NoPosteriorError,
    Scores,
    ScoreValueError,
    check_choice,
    check_fraction,
    check_scores,
    check_threshold,
)

if TYPE_CHECKING:
    import xarray as xr

DRAWS_LIMIT = 2**29  # numbers that proba_draws may return (4 GB)


class Calibrator(ClassifierMixin, BaseEstimator, ABC):
    """What every calibrator of scores offers, given ``_proba_draws`` and the fitted attributes."""

    _columns: ClassVar[str] = "one"  # classifiers whose scores it reads: "one", "several", "any"; or "classes" of one

    score_kind: str
    classes_: np.ndarray
    n_features_in_: int
    _n_scores: int  # of the fit; a pair of probabilities is one score
    _rows: Any  # of calibration; None where they were not saved

    def predict_proba(self, scores: Any) -> np.ndarray:
        """Calibrated probability of each class.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Posterior mean, or the point estimate with ``inference="point"``; columns in the order of ``classes_``.
        """
        return self._by_class(self._summarise(scores, lambda p: p.mean(axis=0)[None])[0])

    def predict(self, scores: Any) -> np.ndarray:
        """The most probable class of each case; of equally probable ones, the last in ``classes_``.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.
        """
        from_the_end = self.predict_proba(scores)[:, ::-1].argmax(axis=1)
        return self.classes_[len(self.classes_) - 1 - from_the_end]

    def predict_interval(self, scores: Any, ci_prob: float = 0.9, ci_kind: str = "eti") -> np.ndarray:
        """Credible interval of the probability of each class.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of the interval.
        ci_kind : {"eti", "hdi"}, default="eti"
            Equal tails, or the shortest interval.

        Returns
        -------
        ndarray of shape (n, n_classes, 2)
            Lower and upper end for each class, in [0, 1].

        Raises
        ------
        NoPosteriorError
            If the calibrator was fitted with ``inference="point"``.
        """
        self._require_posterior("predict_interval")
        ci_prob = check_fraction(ci_prob, "ci_prob")
        check_choice(ci_kind, ("eti", "hdi"), "ci_kind")
        # which of several short intervals is the shortest changes in jumps
        tolerance = TOLERANCE if ci_kind == "eti" else None
        lower, upper = self._summarise(scores, lambda p: interval(p, ci_prob, ci_kind), tolerance)
        return np.sort(np.stack([self._by_class(lower), self._by_class(upper)], axis=-1), axis=-1)

    def predict_exceedance(self, scores: Any, threshold: float) -> np.ndarray:
        """Posterior probability that the probability of each class exceeds a threshold.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.
        threshold : float in [0, 1]
            The decision threshold.

        Returns
        -------
        ndarray of shape (n, n_classes)
            P(p > threshold | data) for each class.

        Raises
        ------
        NoPosteriorError
            If the calibrator was fitted with ``inference="point"``.
        """
        self._require_posterior("predict_exceedance")
        t = check_threshold(threshold)
        return self._summarise(scores, lambda p: (self._by_class(p) > t).mean(axis=0).T, 0.0).T

    def predict_table(self, scores: Any, ci_prob: float = 0.9) -> pd.DataFrame:
        """Posterior mean, standard deviation and credible interval, of the positive class or of each of several.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction. The index of a pandas object is kept.
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of the equal-tailed interval.

        Returns
        -------
        pandas.DataFrame
            Columns ``mean``, ``sd``, ``lower``, ``upper``; the level is in ``attrs["ci_prob"]``. One row for each case,
            of the positive class's probability. Calibrators of several classes give one for each case and class: the
            labels are a level ``class`` of the index, so that ``table["mean"].unstack("class")`` has a column for each.

        Raises
        ------
        NoPosteriorError
            If the calibrator was fitted with ``inference="point"``.
        """
        self._require_posterior("predict_table")
        ci_prob = check_fraction(ci_prob, "ci_prob")
        columns = self._summarise(
            scores,
            lambda p: np.concatenate([p.mean(axis=0)[None], p.std(axis=0)[None], interval(p, ci_prob, "eti")]),
        )
        index = scores.index if isinstance(scores, pd.DataFrame | pd.Series) else pd.RangeIndex(columns.shape[1])
        values = dict(zip(("mean", "sd", "lower", "upper"), columns.reshape(4, -1), strict=True))
        table = pd.DataFrame(values, index=self._table_index(index))
        table.attrs["ci_prob"] = ci_prob
        return table

    def proba_draws(self, scores: Any) -> "xr.DataArray":
        """Posterior draws of the probability of each class.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        xarray.DataArray
            Dims (chain, draw, obs, class).

        Raises
        ------
        NoPosteriorError
            If the calibrator was fitted with ``inference="point"``.
        ScoreValueError
            If the array would be larger than 4 GB; ask for intervals, or for fewer rows at a time.
        """
        import xarray as xr

        self._require_posterior("proba_draws")
        values = self._check_new_scores(scores).values
        chains, draws = self._draw_shape
        size = len(self.classes_) * chains * draws * len(values)
        if size > DRAWS_LIMIT:
            raise ScoreValueError(
                f"draws of {len(values)} rows would fill {8e-9 * size:.0f} GB. "
                "Use predict_interval or predict_table, or pass fewer rows at a time."
            )
        p = self._by_class(self._proba_draws(values))
        return xr.DataArray(
            p.reshape(chains, draws, *p.shape[1:]),
            dims=("chain", "draw", "obs", "class"),
            coords={
                "chain": np.arange(chains),
                "draw": np.arange(draws),
                "obs": np.arange(len(values)),
                "class": self.classes_,
            },
            name="proba",
        )

    def save(self, path: Any, *, include_data: bool = True) -> None:
        """Write the fitted calibrator to a netCDF file that `bayescal.load` reads.

        Parameters
        ----------
        path : path-like
            File to write; it appears whole or not at all.
        include_data : bool, default=True
            Whether scores and labels of the calibration rows go into the file. Without them the loaded calibrator
            predicts as before, but has no pointwise likelihood. The map itself may still hold scores of calibration
            rows, without their labels: the knots of isotonic's PAV and the spline's, and the ranks of raw scores.
        """
        from bayescal.calibrators.files import save

        save(self, path, include_data=include_data)

    # what subclasses give -------------------------------------------------------------------------------------------

    @abstractmethod
    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of the positive class (draws, m), or of several (draws, m, C), for trusted scores."""

    @property
    @abstractmethod
    def _draw_shape(self) -> tuple[int, int]: ...

    # what calibrators of several classes say otherwise ---------------------------------------------------------------

    def _by_class(self, p: np.ndarray) -> np.ndarray:
        """Probabilities of all classes (..., C), from those that `_proba_draws` gives."""
        return np.stack([1 - p, p], axis=-1)

    def _read_scores(self, scores: Any) -> Scores:
        return check_scores(scores, self.score_kind, columns=self._n_scores, fitting=False)

    def _table_index(self, index: pd.Index) -> pd.Index:
        return index

    def _replicate(self, log_likelihood: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Outcomes (draws, n) of the calibration rows, drawn anew given each draw."""
        seen = self._rows.y > 0
        p = np.where(seen, np.exp(log_likelihood), -np.expm1(log_likelihood))
        return (rng.random(p.shape) < p).astype(np.int8)

    # shared steps ---------------------------------------------------------------------------------------------------

    def _check_new_scores(self, scores: Any) -> Scores:
        check_is_fitted(self, "classes_")
        checked = self._read_scores(scores)
        mine = getattr(self, "feature_names_in_", None)
        if mine is not None and checked.feature_names is not None and list(mine) != list(checked.feature_names):
            raise ScoreValueError(
                f"scores has the columns {checked.feature_names.tolist()}, but the fit had {mine.tolist()}. "
                "Select the same columns."
            )
        return checked

    def _summarise(
        self, scores: Any, summary: Callable[[np.ndarray], np.ndarray], tolerance: float | None = TOLERANCE
    ) -> np.ndarray:
        values = self._check_new_scores(scores).values
        exact = self._is_point or not self._rises
        return summarise_in_blocks(values, self._proba_draws, summary, None if exact else tolerance)

    def _require_posterior(self, what: str) -> None:
        check_is_fitted(self, "classes_")
        if self._is_point:
            raise NoPosteriorError(
                f"{what} needs posterior draws, and this calibrator holds a point estimate. Fit with inference='nuts'."
            )

    def _require_one_score(self, what: str) -> None:
        check_is_fitted(self, "classes_")
        if self._n_scores > 1:
            raise ScoreValueError(
                f"{what} shows what one score stands for, and this calibrator was fitted to {self._n_scores}. "
                "Pass a calibrator of one score."
            )

    @property
    def _is_point(self) -> bool:
        return False

    @property
    def _rises(self) -> bool:
        """Whether the curve of one score is nondecreasing in every draw."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_bayescal_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        written_by = state.get("_bayescal_version")
        if written_by != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by bayescal {written_by}, this is {__version__}. "
                "Fit it again, or keep fits in files (save), which bayescal.load checks.",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__({name: value for name, value in state.items() if name != "_bayescal_version"})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.classifier_tags.multi_class = False
        return tags
