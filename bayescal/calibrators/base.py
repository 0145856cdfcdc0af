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

    _columns: ClassVar[str] = "one"  # classifiers whose scores it reads: "one", "several" or "any"

    score_kind: str
    classes_: np.ndarray
    n_features_in_: int
    _n_scores: int  # of the fit; a pair of probabilities is one score

    def predict_proba(self, scores: Any) -> np.ndarray:
        """Calibrated probability of each class.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        ndarray of shape (n, 2)
            Posterior mean, or the point estimate with ``inference="point"``; columns in the order of ``classes_``.
        """
        return pair(self._summarise(scores, lambda p: p.mean(axis=0)[None])[0])

    def predict(self, scores: Any) -> np.ndarray:
        """The more probable class of each case; ``classes_[1]`` at exactly one half.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.
        """
        positive = self.predict_proba(scores)[:, 1] >= 0.5
        return self.classes_[positive.astype(int)]

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
        ndarray of shape (n, 2, 2)
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
        return np.stack([np.stack([1 - upper, 1 - lower], axis=1), np.stack([lower, upper], axis=1)], axis=1)

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
        ndarray of shape (n, 2)
            P(p > threshold | data) for each class.

        Raises
        ------
        NoPosteriorError
            If the calibrator was fitted with ``inference="point"``.
        """
        self._require_posterior("predict_exceedance")
        t = check_threshold(threshold)
        below, above = self._summarise(
            scores, lambda p: np.stack([(1 - p > t).mean(axis=0), (p > t).mean(axis=0)]), 0.0
        )
        return np.stack([below, above], axis=1)

    def predict_table(self, scores: Any, ci_prob: float = 0.9) -> pd.DataFrame:
        """Posterior mean, standard deviation and credible interval of the positive class's probability.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
            Scores of the kind given at construction. The index of a pandas object is kept.
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of the equal-tailed interval.

        Returns
        -------
        pandas.DataFrame
            Columns ``mean``, ``sd``, ``lower``, ``upper``; the level is in ``attrs["ci_prob"]``.

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
        index = scores.index if isinstance(scores, pd.DataFrame | pd.Series) else None
        table = pd.DataFrame(dict(zip(("mean", "sd", "lower", "upper"), columns, strict=True)), index=index)
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
        if 2 * chains * draws * len(values) > DRAWS_LIMIT:
            raise ScoreValueError(
                f"draws of {len(values)} rows would fill {16e-9 * chains * draws * len(values):.0f} GB. "
                "Use predict_interval or predict_table, or pass fewer rows at a time."
            )
        p = self._proba_draws(values).reshape(chains, draws, len(values))
        return xr.DataArray(
            np.stack([1 - p, p], axis=-1),
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
            rows, without their labels: the knots of isotonic's PAV, and the ranks of raw scores.
        """
        from bayescal.calibrators.files import save

        save(self, path, include_data=include_data)

    # what subclasses give -------------------------------------------------------------------------------------------

    @abstractmethod
    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of the positive class, (draws, m), for trusted scores (m,) or (m, M)."""

    @property
    @abstractmethod
    def _draw_shape(self) -> tuple[int, int]: ...

    # shared steps ---------------------------------------------------------------------------------------------------

    def _check_new_scores(self, scores: Any) -> Scores:
        check_is_fitted(self, "classes_")
        checked = check_scores(scores, self.score_kind, columns=self._n_scores, fitting=False)
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
        return summarise_in_blocks(values, self._proba_draws, summary, None if self._is_point else tolerance)

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


def pair(p: np.ndarray) -> np.ndarray:
    """Probabilities of both classes ``(n, 2)`` from those of the positive one ``(n,)``."""
    return np.stack([1 - p, p], axis=1)
