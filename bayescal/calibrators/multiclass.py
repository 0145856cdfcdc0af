"""A calibrator of C >= 2 classes with a score for each: a map with parameters from rows of scores to probabilities.

Rows become log probabilities x = log p, from probabilities as they are or from logits l by x = l - log sum exp(l), so
that both say the same and a constant added to the logits of a row changes nothing. A subclass says

    _logits(x, parameters)                  the calibration map: draws (S, ...) and x (m, C) -> logits (S, m, C)

and, as every model does (`generative.py`), _build, _point and _prior_draws.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax

from bayescal.calibrators import notes
from bayescal.calibrators.generative import GenerativeCalibrator, Job, Parameters
from bayescal.calibrators.scale import STANDARDISED_CLIP, Scale, distinct_rows
from bayescal.calibrators.softmax import Support, log_sum_exp, softmax
from bayescal.calibrators.summaries import BLOCK, TOLERANCE, summarise_rows
from bayescal.priors import Priors
from bayescal.validation import (
    CLASS_SCORE_KINDS,
    Scores,
    check_choice,
    check_class_labels,
    check_class_scores,
    check_column_order,
    check_row_order,
    check_sample_weight,
    column_names,
)

PROBA_FLOOR = 1e-12  # smaller probabilities, exact zeros above all, count as this


@dataclass(frozen=True)
class ClassRows:
    """The calibration rows, one entry each."""

    scores: np.ndarray  # (n, C)
    y: np.ndarray  # (n,) column numbers
    weight: np.ndarray  # (n,)

    @property
    def n_scores(self) -> int:
        """How many classes there are."""
        return self.scores.shape[1]


def log_probabilities(scores: np.ndarray, score_kind: str) -> np.ndarray:
    """x ``(m, C)`` of probabilities or logits ``(m, C)``."""
    if score_kind == "proba":
        return log_softmax(np.log(np.maximum(scores, PROBA_FLOOR)), axis=1)
    with np.errstate(over="ignore"):  # the range of a row may be infinite
        below_top = scores - scores.max(axis=1, keepdims=True)
    return log_softmax(np.maximum(below_top, -STANDARDISED_CLIP), axis=1)


class MultiClassCalibrator(GenerativeCalibrator):
    """A calibrator of several classes with a generative model of its own."""

    _columns = "classes"

    _rows: ClassRows | None

    @abstractmethod
    def _logits(self, x: np.ndarray, parameters: Parameters) -> np.ndarray: ...

    def _prepare(self, scores: Any, y: Any, sample_weight: Any) -> Job:
        check_choice(self.score_kind, CLASS_SCORE_KINDS, "score_kind")
        check_choice(self.inference, self._inferences, "inference")
        read = check_class_scores(scores, self.score_kind)
        n, size = read.values.shape
        check_row_order(y=y, scores=scores, sample_weight=sample_weight)
        labels = check_class_labels(y, n, size, classes=self.classes, names=column_names(scores))
        check_column_order(scores, labels.classes)
        weight = check_sample_weight(sample_weight, n)
        rows = ClassRows(read.values, labels.codes, np.ones(n) if weight is None else weight)
        priors = self._priors_class.read(self.priors, self._default_priors(size))
        scale = {"classes": np.array(size)}
        support = self._support(rows, scale)
        data = self._model_data(support, scale, priors)
        return Job(rows, labels.classes, read.feature_names, read.n_features, priors, scale, support, data)

    def _restore_rows(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> ClassRows:
        return ClassRows(scores, y, weight)

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return log_probabilities(scores, self.score_kind)

    def _support(self, rows: ClassRows, scale: Scale) -> Support:
        used = rows.weight > 0
        x, inverse = distinct_rows(self._coordinate(rows.scores[used], scale))
        cell = inverse * rows.n_scores + rows.y[used]
        counts = np.bincount(cell, weights=rows.weight[used], minlength=x.size)
        return Support(x, counts.reshape(x.shape))

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        return {"x": support.x, "counts": support.counts, "totals": support.totals, "prior": priors.vector()}

    def _point_proba(self, scores: np.ndarray) -> np.ndarray:
        one = {name: value[None] for name, value in self._point_parameters.items()}
        return softmax(self._logits(self._coordinate(scores, self._scale), one))[0]

    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        if self._is_point:
            return self._point_proba(scores)[None]
        return softmax(self._logits(self._coordinate(scores, self._scale), self._flat))

    def _log_likelihood(self) -> np.ndarray:
        """Pointwise log likelihood of one case at each calibration row, (draws, n)."""

        def of_outcomes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            logits = self._logits(x, self._flat)
            return logits[:, np.arange(len(y)), y] - log_sum_exp(logits)

        return self._in_blocks(of_outcomes)

    def _replicate(self, log_likelihood: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        def draw(x: np.ndarray, _: np.ndarray) -> np.ndarray:
            reached = np.cumsum(softmax(self._logits(x, self._flat)), axis=2)
            below = rng.random((*reached.shape[:2], 1)) * reached[:, :, -1:] >= reached
            return below.sum(axis=2).astype(np.int16)

        return self._in_blocks(draw)

    def _in_blocks(self, of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """What `of` says of log probabilities and outcomes of the calibration rows, (draws, n), in blocks of rows."""
        rows = self._require_rows()
        x = self._coordinate(rows.scores, self._scale)
        size = max(1, BLOCK // (rows.n_scores * int(np.prod(self._draw_shape))))
        starts = range(0, len(x), size)
        return np.concatenate([of(x[i : i + size], rows.y[i : i + size]) for i in starts], axis=1)

    def _warn_about_data(self, job: Job) -> None:
        rows = job.rows
        zeros = self.score_kind == "proba" and rows.scores[np.arange(len(rows.y)), rows.y] < PROBA_FLOOR
        notes.warn_about_classes(
            np.bincount(rows.y, weights=rows.weight, minlength=rows.n_scores),
            self.classes_,
            self._name,
            zeros=int(np.sum(zeros & (rows.weight > 0))),
            smoothed=bool(self._point_parameters["smoothed"]),
            point=self._is_point,
        )

    # of all classes, not of the positive one ------------------------------------------------------------------------

    def _by_class(self, p: np.ndarray) -> np.ndarray:
        return p

    def _table_index(self, index: pd.Index) -> pd.Index:
        repeated = index.repeat(len(self.classes_))
        levels = [repeated.get_level_values(k) for k in range(repeated.nlevels)]
        names = ["obs"] if list(index.names) == [None] else list(index.names)
        return pd.MultiIndex.from_arrays([*levels, np.tile(self.classes_, len(index))], names=[*names, "class"])

    def _check_new_scores(self, scores: Any) -> Scores:
        checked = super()._check_new_scores(scores)
        check_column_order(scores, self.classes_)
        return checked

    def _read_scores(self, scores: Any) -> Scores:
        return check_class_scores(scores, self.score_kind, columns=self._n_scores, fitting=False)

    def _summarise(
        self, scores: Any, summary: Callable[[np.ndarray], np.ndarray], tolerance: float | None = TOLERANCE
    ) -> np.ndarray:
        return summarise_rows(self._check_new_scores(scores).values, self._proba_draws, summary)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = False
        tags.classifier_tags.multi_class = True
        return tags
