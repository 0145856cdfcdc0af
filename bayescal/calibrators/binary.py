"""A calibrator of two classes: a map with parameters from a score, or from several, to log-odds.

A subclass says

    _learn_scale(scores, weight)            constants of the working scale, from the calibration rows
    _coordinate(scores, scale)              scores (m,) or (m, M) -> working coordinates u of the same shape
    _features(u, scale)                     what the map needs of u, (m, ...)
    _log_odds(features, parameters)         the calibration map: draws (S, ...) and features (m, ...) -> (S, m)

and, as every model does (`generative.py`), _build, _point and _prior_draws. Everything else is a pure function of the
draws and the map.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from bayescal.calibrators import notes
from bayescal.calibrators.ends import describe_ends
from bayescal.calibrators.generative import GenerativeCalibrator, Job, Parameters
from bayescal.calibrators.scale import Scale, distinct_rows
from bayescal.priors import Priors
from bayescal.validation import (
    SCORE_KINDS,
    check_choice,
    check_labels,
    check_row_order,
    check_sample_weight,
    check_scores,
)

MAX_SUPPORT = 4096  # distinct coordinates that enter the sampled likelihood; more are grouped to this many


@dataclass(frozen=True)
class Rows:
    """The calibration rows, one entry each."""

    scores: np.ndarray  # (n,), or (n, M)
    positive: np.ndarray  # (n,) 0 or 1
    weight: np.ndarray  # (n,)

    @property
    def y(self) -> np.ndarray:
        """Outcomes as whole numbers."""
        return self.positive.astype(np.int64)

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


class BinaryCalibrator(GenerativeCalibrator):
    """A calibrator of two classes with a generative model of its own."""

    _rows: Rows | None

    # the subclass's mathematics --------------------------------------------------------------------------------------

    @abstractmethod
    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale: ...

    @abstractmethod
    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray: ...

    @abstractmethod
    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray: ...

    @abstractmethod
    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray: ...

    def _point_proba(self, scores: np.ndarray) -> np.ndarray:
        features = self._features(self._coordinate(scores, self._scale), self._scale)
        one = {name: value[None] for name, value in self._point_parameters.items()}
        return expit(self._log_odds(features, one))[0]

    # shared steps ----------------------------------------------------------------------------------------------------

    def _prepare(self, scores: Any, y: Any, sample_weight: Any) -> Job:
        check_choice(self.score_kind, SCORE_KINDS, "score_kind")
        check_choice(self.inference, self._inferences, "inference")
        read = check_scores(scores, self.score_kind, columns=self._columns)
        n = len(read.values)
        check_row_order(y=y, scores=scores, sample_weight=sample_weight)
        labels = check_labels(y, n, classes=self.classes)
        weight = check_sample_weight(sample_weight, n)
        rows = Rows(read.values, labels.positive, np.ones(n) if weight is None else weight)
        priors = self._priors_for(rows.n_scores).read(self.priors, self._default_priors(rows.n_scores))
        used = rows.weight > 0
        distinct, inverse = distinct_rows(rows.scores[used])
        scale = self._learn_scale(distinct, np.bincount(inverse, weights=rows.weight[used]))
        support = self._support(rows, scale)
        data = self._model_data(self._few(support), scale, priors)
        return Job(rows, labels.classes, read.feature_names, read.n_features, priors, scale, support, data)

    def _restore_rows(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Rows:
        return Rows(scores, y.astype(float), weight)

    def _support(self, rows: Rows, scale: Scale) -> Support:
        used = rows.weight > 0
        weight, positive = rows.weight[used], rows.positive[used]
        u, inverse = distinct_rows(self._coordinate(rows.scores[used], scale))
        totals = np.bincount(inverse, weights=weight)
        positives = np.bincount(inverse, weights=weight * positive)
        return Support(u, positives, totals)

    def _few(self, support: Support) -> Support:
        return support if len(support.u) <= MAX_SUPPORT else group_neighbours(support, MAX_SUPPORT)

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

    def _warn_about_data(self, job: Job) -> None:
        rows = job.rows
        notes.warn_about_data(rows.scores, rows.positive, rows.weight, self.classes_, self._name, point=self._is_point)
        notes.warn_about_ends(describe_ends(self), self._name)
        if self._is_point:
            notes.warn_about_map(self._decreasing(rows.scores), self._name)

    def _decreasing(self, scores: np.ndarray) -> bool:
        low, high = self._point_proba(np.stack([scores.min(axis=0), scores.max(axis=0)]))
        return bool(high < low - 1e-12)


def group_neighbours(support: Support, most: int) -> Support:
    """At most `most` groups of neighbours, each at its mean.

    All rows are halved at the weighted median of the score whose ranks spread most among them, and each half again, as
    often as `most` allows: scores are split in turn, also where there are many.
    """
    columns = support.u.reshape(len(support.u), -1)
    ranks = np.stack([_mid_ranks(u, support.totals) for u in columns.T], axis=1)
    groups = [np.arange(len(ranks))]
    while 2 * len(groups) <= most:
        groups = [half for group in groups for half in _halves(group, ranks, support.totals)]
    group = np.empty(len(ranks), dtype=np.int64)
    for number, rows in enumerate(groups):
        group[rows] = number
    mass = np.bincount(group, weights=support.totals)
    means = np.stack([np.bincount(group, weights=support.totals * u) / mass for u in columns.T], axis=1)
    return Support(means.reshape(len(mass), *support.u.shape[1:]), np.bincount(group, weights=support.positives), mass)


def _mid_ranks(u: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Share of the weight below each value, and half of that at it."""
    inverse = np.unique(u, return_inverse=True)[1]
    mass = np.bincount(inverse, weights=weight)
    return ((np.cumsum(mass) - 0.5 * mass) / mass.sum())[inverse]


def _halves(group: np.ndarray, ranks: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
    """The rows of a group below the median of its widest column and those above; a single row stays as it is."""
    if len(group) == 1:
        return [group]
    widest = ranks[group, np.ptp(ranks[group], axis=0).argmax()]
    order = group[np.argsort(widest, kind="stable")]
    total = np.cumsum(weight[order])
    cut = int(np.clip(np.searchsorted(total, total[-1] / 2), 1, len(order) - 1))
    return [order[:cut], order[cut:]]
