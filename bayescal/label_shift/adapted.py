"""What an adaptation found, as its user asks for it: intervals, probabilities, draws. No estimation is here.

A class may be all but absent from the target. The density of its proportion then piles up at 0, and an equal-tailed
interval leaves out the very values that are the most probable: on digits under strong shifts, 90 % intervals held 40 of
88 proportions below 0.005, and 45 of the others lay below their interval. Where the interval from 0 to the quantile of
`ci_prob` is the shorter one, the lower end is 0 therefore. The upper end stays, and so such an interval holds up to
(1 + ci_prob) / 2 of the posterior. An interval of an exponential density begins at 0, that of a gamma density of shape
4 does not.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayescal import __version__
from bayescal.label_shift.calibrated import proba_at
from bayescal.label_shift.draws import slices
from bayescal.label_shift.proportions import adapt_probabilities
from bayescal.validation import NoPosteriorError, check_fraction

if TYPE_CHECKING:
    import xarray as xr


def ratio_interval(draws: np.ndarray, ci_prob: float) -> np.ndarray:
    """Intervals ``(2, C)`` of class weights from draws ``(S, C)``: equal tails, but for lower ends at 0."""
    return np.stack([_lower_end(draws, ci_prob), np.quantile(draws, 0.5 * (1 + ci_prob), axis=0)])


def share_interval(draws: np.ndarray, ci_prob: float) -> np.ndarray:
    """Intervals ``(2, C)`` of proportions from draws ``(S, C)``: equal tails, but for ends at 0 and at 1."""
    lower, upper = ratio_interval(draws, ci_prob)
    return np.stack([lower, np.where(_lower_end(1 - draws, ci_prob) == 0, 1.0, upper)])


def _lower_end(draws: np.ndarray, ci_prob: float) -> np.ndarray:
    """Lower ends ``(C,)``: of equal tails, or 0 where an interval from 0 is shorter and as probable."""
    lower, from_zero, upper = np.quantile(draws, [0.5 * (1 - ci_prob), ci_prob, 0.5 * (1 + ci_prob)], axis=0)
    return np.where(from_zero < upper - lower, 0.0, lower)


class Adapted(BaseEstimator):
    """Proportions and weights by class, and calibrated probabilities that are adapted to them."""

    method: str
    classes_: np.ndarray
    calibrator_: Any
    target_prior_: "xr.DataArray"
    source_prior_: "xr.DataArray"
    weights_: "xr.DataArray"
    _q: Any  # draws of the target's proportions (S, C), or None for a point estimate
    _p: Any  # of the source's
    _w: Any  # of the weights
    _draw_shape: tuple[int, int]  # chains, draws
    _chosen: Any  # numbers of the calibrator's draws (S,), or None where its point estimate is used
    _counts: np.ndarray  # source cases by class (C,)
    _mean: np.ndarray  # calibrated probability over the source cases (C,)
    _confusion: Any  # source cases as the method counts them (C, C), or None where it does not
    _n_target: int

    def prior_interval(self, ci_prob: float = 0.9) -> "xr.DataArray":
        """Credible intervals of the class proportions in the target.

        Parameters
        ----------
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of each equal-tailed interval, at least. An end is 0 or 1 where the posterior piles
            up there: where the interval of this probability that begins there is the shorter one.

        Returns
        -------
        xarray.DataArray
            Dims (class, bound), bounds ``lower`` and ``upper``; the level is in ``attrs["ci_prob"]``.

        Raises
        ------
        NoPosteriorError
            If the method is not Bayesian.
        """
        ends = share_interval(self._require_draws("prior_interval")[0], check_fraction(ci_prob, "ci_prob"))
        return self._interval(ends, ci_prob, "target_prior")

    def weight_interval(self, ci_prob: float = 0.9) -> "xr.DataArray":
        """Credible intervals of the class weights, target over source proportion.

        Parameters
        ----------
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of each equal-tailed interval, at least. The lower end is 0 where the posterior piles
            up there: where the interval of this probability that begins there is the shorter one.

        Returns
        -------
        xarray.DataArray
            Dims (class, bound), bounds ``lower`` and ``upper``; the level is in ``attrs["ci_prob"]``.

        Raises
        ------
        NoPosteriorError
            If the method is not Bayesian.
        """
        ends = ratio_interval(self._require_draws("weight_interval")[1], check_fraction(ci_prob, "ci_prob"))
        return self._interval(ends, ci_prob, "weights")

    def predict_proba(self, scores: Any) -> np.ndarray:
        """Probabilities of the classes for cases of the target.

        Parameters
        ----------
        scores : array-like of shape (n, C), or as the calibrator reads them
            Scores of cases, the ones adapted to or others of the same place.

        Returns
        -------
        ndarray of shape (n, C)
            Posterior means where there is a posterior; columns in the order of ``classes_``.
        """
        check_is_fitted(self, "weights_")
        if self._w is None:
            return adapt_probabilities(np.asarray(self.calibrator_.predict_proba(scores)), self.weights_.values)
        return self._summarise(scores, lambda p: p.mean(axis=0))

    def predict(self, scores: Any) -> np.ndarray:
        """The most probable class of each case of the target.

        Parameters
        ----------
        scores : array-like of shape (n, C), or as the calibrator reads them
            Scores of cases.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.
        """
        return self.classes_[self.predict_proba(scores).argmax(axis=1)]

    def predict_interval(self, scores: Any, ci_prob: float = 0.9) -> np.ndarray:
        """Credible intervals of the probabilities of the classes for cases of the target.

        Parameters
        ----------
        scores : array-like of shape (n, C), or as the calibrator reads them
            Scores of cases.
        ci_prob : float in (0, 1), default=0.9
            Posterior probability of each equal-tailed interval.

        Returns
        -------
        ndarray of shape (n, C, 2)
            Lower and upper end.

        Raises
        ------
        NoPosteriorError
            If the method is not Bayesian.
        """
        self._require_draws("predict_interval")
        tail = 0.5 * (1 - check_fraction(ci_prob, "ci_prob"))
        return self._summarise(scores, lambda p: np.moveaxis(np.quantile(p, [tail, 1 - tail], axis=0), 0, -1))

    def proba_draws(self, scores: Any) -> "xr.DataArray":
        """Posterior draws of the probabilities of the classes for cases of the target.

        Parameters
        ----------
        scores : array-like of shape (n, C), or as the calibrator reads them
            Scores of cases.

        Returns
        -------
        xarray.DataArray
            Dims (chain, draw, obs, class).

        Raises
        ------
        NoPosteriorError
            If the method is not Bayesian.
        """
        import xarray as xr

        self._require_draws("proba_draws")
        values = self.calibrator_._check_new_scores(scores).values
        p = self._adapted(values)
        return xr.DataArray(
            p.reshape(*self._draw_shape, *p.shape[1:]),
            dims=("chain", "draw", "obs", "class"),
            coords={"obs": np.arange(len(values)), "class": self.classes_},
            name="proba",
        )

    @cached_property
    def idata_(self) -> "xr.DataTree":
        """Posterior of ``target_prior``, ``source_prior`` and ``weights``, as ArviZ reads it."""
        import xarray as xr

        self._require_draws("idata_")
        names = {"target_prior": self._q, "source_prior": self._p, "weights": self._w}
        chains, draws = self._draw_shape
        coords = {"chain": np.arange(chains), "draw": np.arange(draws), "class": self.classes_}
        posterior = xr.Dataset(
            {
                name: (("chain", "draw", "class"), value.reshape(chains, draws, -1).copy())
                for name, value in names.items()
                if value is not None
            },
            coords=coords,
        )
        data = xr.Dataset({"source_labels": ("class", self._counts.copy())}, coords={"class": self.classes_})
        tree = xr.DataTree.from_dict({"/posterior": posterior, "/constant_data": data})
        tree.attrs = {
            "inference_library": "bayescal",
            "inference_library_version": __version__,
            "method": self.method,
            "target_cases": self._n_target,
        }
        return tree

    def save(self, path: Any, *, include_data: bool = True) -> None:
        """Write the fitted adapter to a netCDF file that `bayescal.load` reads.

        Parameters
        ----------
        path : path-like
            File to write; it appears whole or not at all.
        include_data : bool, default=True
            Whether scores and labels of the calibrator's rows go into the file. Without them the loaded adapter adapts
            and predicts as before. Cases of the target are in no file.

        Examples
        --------
        >>> import tempfile, numpy as np, bayescal as bc
        >>> proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
        >>> ad = bc.LabelShiftAdapter(method="em").fit(proba, [0, 0, 1, 1]).adapt(proba[[0, 1, 0, 3]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.save(f"{folder}/shift.nc")
        ...     bc.load(f"{folder}/shift.nc").target_prior_.values.round(2)
        array([0.8, 0.2])
        """
        from bayescal.label_shift.files import save

        save(self, path, include_data=include_data)

    # shared steps ---------------------------------------------------------------------------------------------------

    def _keep(self, target: np.ndarray, source: np.ndarray, weights: np.ndarray) -> None:
        """Set what is public of an adaptation, arrays ``(C,)``."""
        self.target_prior_ = self._by_class(target, "target_prior")
        self.source_prior_ = self._by_class(source, "source_prior")
        self.weights_ = self._by_class(weights, "weights")

    def _weight_draws(self) -> np.ndarray | None:
        if self._q is None:
            return None
        return np.divide(self._q, self._p, out=np.zeros_like(self._q), where=self._p > 0)

    def _adapted(self, values: np.ndarray) -> np.ndarray:
        """Adapted probabilities ``(S, m, C)`` of trusted scores."""
        if self._chosen is None:
            p = np.asarray(self.calibrator_.predict_proba(values))[None]
        else:
            p = proba_at(self.calibrator_, values, np.resize(self._chosen, len(self._w)))
        return adapt_probabilities(p, self._w[:, None, :])

    def _summarise(self, scores: Any, summary: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        values = self.calibrator_._check_new_scores(scores).values
        blocks = list(slices(len(values), self._w.size)) or [slice(0, 0)]
        return np.concatenate([summary(self._adapted(values[rows])) for rows in blocks])

    def _require_draws(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self, "weights_")
        if self._q is None or self._w is None:
            raise NoPosteriorError(
                f"{what} needs posterior draws, and method={self.method!r} gives a point estimate. Use method='bayes'."
            )
        return self._q, self._w

    def _interval(self, ends: np.ndarray, ci_prob: float, name: str) -> "xr.DataArray":
        import xarray as xr

        return xr.DataArray(
            ends.T,
            dims=("class", "bound"),
            coords={"class": self.classes_, "bound": ["lower", "upper"]},
            name=name,
            attrs={"ci_prob": ci_prob},
        )

    def _by_class(self, values: np.ndarray, name: str) -> "xr.DataArray":
        import xarray as xr

        return xr.DataArray(np.array(values), dims=("class",), coords={"class": self.classes_}, name=name)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the draws
        return state
