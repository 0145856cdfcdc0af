"""An average of calibrators, weighted by how well each predicts left-out cases.

    q = sum_k w_k q_k,     w = argmax  sum_i log sum_k w_k p_k(y_i | y_-i)  +  lambda sum_k log w_k

with p_k(y_i | y_-i) by Pareto-smoothed importance sampling, w on the simplex, and lambda prior cases that speak for an
equal share: from few rows the weights stay near equal, from many they follow the data. Yao, Vehtari, Simpson & Gelman
(2018), "Using stacking to average Bayesian predictive distributions", Eq. 4.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators import notes
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import BinaryCalibrator, Rows
from bayescal.calibrators.loo import pointwise_loo
from bayescal.inference.seeds import seed_sequence
from bayescal.registry import CALIBRATORS
from bayescal.validation import (
    SCORE_KINDS,
    CalibrationWarning,
    ConvergenceWarning,
    ParameterValueError,
    check_choice,
    check_scores,
    quiet,
)

if TYPE_CHECKING:
    import xarray as xr

MEMBERS = {
    "one": ("platt", "beta", "isotonic", "bernstein"),
    "several": ("platt", "bernstein", "copula"),
    "many": ("platt", "copula"),
}
MOST_OF_A_SURFACE = 4  # scores; one of more has too many coefficients
EQUAL_SHARE_CASES = 2.0  # lambda


class StackedCalibrator(Calibrator):
    """Several calibrators of the same scores, averaged by leave-one-out stacking.

    The draws of the average are draws of its members, each member's share being its weight: what is unknown within each
    shape of curve, and which shape it is, both widen the interval.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    members : sequence of str, default=None
        Names of the calibrators to average. None takes platt, beta, isotonic and bernstein for one score, and platt,
        bernstein (up to four scores) and copula for several; with the copula the average need not rise with every
        score.
    draws : int, default=1000
        Posterior draws of each chain, of each member and of the average.
    tune : int, default=None
        Warm-up steps of each chain; None takes each member's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : dict of str to priors, default=None
        Prior settings by member name; members left out take their defaults.
    classes : sequence of two labels, default=None
        Negative and positive class; None sorts the labels seen.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Negative and positive class.
    members_ : dict of str to calibrator
        The fitted members.
    weights_ : pandas.Series
        Stacking weights by member; they sum to 1.
    idata_ : xarray.DataTree
        The average's pointwise groups, and the members' trees below ``members``.

    References
    ----------
    Yao, Y., Vehtari, A., Simpson, D. and Gelman, A. (2018). Using stacking to average Bayesian predictive
    distributions.

    Examples
    --------
    >>> from bayescal import StackedCalibrator
    >>> StackedCalibrator(members=("platt", "beta")).members
    ('platt', 'beta')
    """

    _name = "auto"
    _columns = "any"

    def __init__(
        self,
        score_kind: str = "proba",
        members: Sequence[str] | None = None,
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
        self.members = members
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.cores = cores
        self.random_state = random_state
        self.progressbar = progressbar
        self.priors = priors
        self.classes = classes

    def fit(self, scores: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit every member to labelled cases, and the weights of their average.

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
            If the answer rests on the prior, or if the scores rank the classes in reverse.
        ConvergenceWarning
            If the draws of a member do not pass the convergence checks.
        """
        check_choice(self.score_kind, SCORE_KINDS, "score_kind")
        values = check_scores(scores, self.score_kind, columns=self._columns).values
        unfitted = self._new_members(1 if values.ndim == 1 else values.shape[1])
        sequence = seed_sequence(self.random_state)
        seeds = sequence.generate_state(len(unfitted) + 1, np.uint32)
        fitted: dict[str, BinaryCalibrator] = {}
        for (name, member), seed in zip(unfitted.items(), seeds, strict=False):
            member.random_state = int(seed)
            with quiet(CalibrationWarning, ConvergenceWarning):
                fitted[name] = member.fit(scores, y, sample_weight)
        elpd = np.column_stack([pointwise_loo(member) for member in fitted.values()])
        first = next(iter(fitted.values()))
        weights = stacking_weights(elpd, first._require_rows().weight)
        self.__dict__.pop("idata_", None)
        self.members_ = fitted
        self.weights_ = pd.Series(weights, index=list(fitted), name="weight")
        self.classes_ = first.classes_
        self.n_features_in_ = first.n_features_in_
        self._n_scores = first._n_scores
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_
        self._elpd = elpd
        self._entropy = int(sequence.generate_state(2, np.uint64)[1])
        self._member_of_draw = _allocate(weights, first._draw_shape, int(seeds[-1]))
        rows = first._require_rows()
        notes.warn_about_data(rows.scores, rows.positive, rows.weight, self.classes_, self._name)
        for name, member in fitted.items():
            if member._convergence is not None:
                notes.warn_about_convergence(member._convergence, name)
        return self

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """The members' diagnostics, one below the other; ``attrs["verdict"]`` is the worst of theirs."""
        check_is_fitted(self, "classes_")
        tables = {name: member.diagnostics_ for name, member in self.members_.items()}
        joined = pd.concat(
            {name: pd.DataFrame(t.to_dict("series")) for name, t in tables.items()},
            names=["member", "parameter"],
        )
        order = ("failed", "not assessed", "passed")
        joined.attrs = {
            "divergences": sum(t.attrs["divergences"] for t in tables.values()),
            "e_bfmi": min(t.attrs["e_bfmi"] for t in tables.values()),
            "verdict": min((t.attrs["verdict"] for t in tables.values()), key=order.index),
            "message": " ".join(f"{name}: {t.attrs['message']}" for name, t in tables.items()),
        }
        return joined

    @property
    def comparison_(self) -> pd.DataFrame:
        """Expected log predictive density of left-out cases (sum and standard error) and weight, by member."""
        check_is_fitted(self, "classes_")
        weight = self._require_rows().weight
        total = weight @ self._elpd
        centred = self._elpd - (total / weight.sum())
        se = np.sqrt(weight @ centred**2 * weight.sum() / max(weight.sum() - 1, 1))
        table = pd.DataFrame(
            {"elpd_loo": total, "se": se, "weight": self.weights_.to_numpy()}, index=list(self.members_)
        )
        table.index.name = "member"
        return table

    @cached_property
    def idata_(self) -> "xr.DataTree":
        """The average's likelihood, predictive draws and data; members' trees below ``members``."""
        from bayescal.calibrators.datatree import build_stacked_datatree

        check_is_fitted(self, "classes_")
        return build_stacked_datatree(self)

    def _new_members(self, n_scores: int) -> dict[str, BinaryCalibrator]:
        columns = "one" if n_scores == 1 else "several" if n_scores <= MOST_OF_A_SURFACE else "many"
        reads = ("one", "any") if columns == "one" else ("several", "any")
        allowed = [name for name, entry in CALIBRATORS.items() if entry.priors_name and entry.columns in reads]
        given = MEMBERS[columns] if self.members is None else self.members
        names = [given] if isinstance(given, str) else list(given)
        if not names or len(set(names)) < len(names) or any(name not in allowed for name in names):
            raise ParameterValueError(
                f"members must be different names out of {', '.join(allowed)} for "
                f"{'one score' if columns == 'one' else 'several scores'}, got {self.members!r}."
            )
        priors = {} if self.priors is None else dict(self.priors)
        strange = [name for name in priors if name not in names]
        if strange:
            raise ParameterValueError(f"priors names {strange[0]!r}, which is not a member ({', '.join(names)}).")
        shared = {
            name: getattr(self, name)
            for name in ("score_kind", "draws", "tune", "chains", "cores", "progressbar", "classes")
        }
        return {name: CALIBRATORS[name].load()(**shared, priors=priors.get(name)) for name in names}

    @property
    def _draw_shape(self) -> tuple[int, int]:
        return self._member_of_draw.shape

    @property
    def _rises(self) -> bool:
        return all(member._rises for member in self.members_.values())

    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        chosen = self._member_of_draw.reshape(-1)
        p = np.empty((len(chosen), len(scores)))
        for k, member in enumerate(self.members_.values()):
            rows = chosen == k
            if rows.any():
                p[rows] = expit(member._log_odds_at(scores, rows))
        return p

    def _log_likelihood(self) -> np.ndarray:
        chosen = self._member_of_draw.reshape(-1)
        parts = [member._log_likelihood() for member in self.members_.values()]
        return np.choose(chosen[:, None], parts)

    @property
    def _rows(self) -> Rows | None:
        return next(iter(self.members_.values()))._rows

    def _require_rows(self) -> Rows:
        return next(iter(self.members_.values()))._require_rows()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("idata_", None)  # rebuilt from the members' draws
        return state


def stacking_weights(elpd: np.ndarray, weight: np.ndarray, equal_share_cases: float = EQUAL_SHARE_CASES) -> np.ndarray:
    """Weights ``(k,)`` by the module's equation, from log predictive densities ``(n, k)`` of rows of `weight`."""
    k = elpd.shape[1]

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        log_w = z - logsumexp(z)
        w = np.exp(log_w)
        mixed = logsumexp(elpd + log_w, axis=1)
        share = np.exp(elpd + log_w - mixed[:, None])  # responsibility of each member for each row
        gradient = weight @ share + equal_share_cases - (weight.sum() + k * equal_share_cases) * w
        return -(weight @ mixed + equal_share_cases * log_w.sum()), -gradient

    found = minimize(loss, np.zeros(k), jac=True, method="BFGS")
    return np.exp(found.x - logsumexp(found.x))


def _allocate(weights: np.ndarray, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Member of each draw ``(chain, draw)``: in every chain each member's share, to a draw, in random order."""
    chains, draws = shape
    ends = np.round(np.cumsum(weights) * draws).astype(int)
    ordered = np.searchsorted(ends, np.arange(draws), side="right").clip(max=len(weights) - 1)
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(ordered) for _ in range(chains)])
