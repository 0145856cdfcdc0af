"""Scores of any kind on the scale that a map works on: log-odds, or the unit interval.

The constants of a scale are learned from the calibration rows alone and travel with the fitted calibrator. Several
classifiers' scores ``(m, M)`` are worked on column by column, each with constants of its own.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from bayescal.pav import isotonic_predict

PROBA_CLIP = 1e-6  # log-odds of a probability are taken within [1e-6, 1 - 1e-6]
LOGIT_CLIP = float(logit(1 - PROBA_CLIP))
STANDARDISED_CLIP = 1e300  # of raw scores far beyond those of the calibration rows: finite, and times a slope too

Scale = dict[str, np.ndarray]


def distinct_rows(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct scores or rows of scores, sorted, and for each row which of them it is."""
    if scores.ndim == 1:
        return np.unique(scores, return_inverse=True)
    group = np.zeros(len(scores), dtype=np.int64)
    for column in scores.T:  # np.unique(axis=0) compares rows one by one, at ten times the cost
        values, rank = np.unique(column, return_inverse=True)
        groups, group = np.unique(group * len(values) + rank, return_inverse=True)
    distinct = np.empty((len(groups), scores.shape[1]), scores.dtype)
    distinct[group] = scores
    return distinct, group


def learn_log_odds(scores: np.ndarray, weight: np.ndarray, score_kind: str) -> Scale:
    """Location and spread of raw scores; probabilities and log-odds need none."""
    if scores.ndim == 2:
        return _learn_columns(learn_log_odds, scores, weight, score_kind)
    if score_kind != "raw":
        return {}
    location = np.average(scores, weights=weight)
    spread = float(np.sqrt(np.average((scores - location) ** 2, weights=weight)))
    unit = max(1.0, abs(location)) if spread <= 1e-12 * max(1.0, abs(location)) else spread
    return {"location": np.array(location), "spread": np.array(unit)}


def to_log_odds(scores: np.ndarray, scale: Scale, score_kind: str) -> np.ndarray:
    """Scores as log-odds, or as standardised raw scores."""
    if scores.ndim == 2:
        return _columns_to(to_log_odds, scores, scale, score_kind)
    if score_kind == "proba":
        return logit(np.clip(scores, PROBA_CLIP, 1 - PROBA_CLIP))
    if score_kind == "logit":
        return scores
    with np.errstate(over="ignore"):
        standardised = (scores - scale["location"]) / scale["spread"]
    return np.clip(standardised, -STANDARDISED_CLIP, STANDARDISED_CLIP)


def learn_unit(scores: np.ndarray, weight: np.ndarray, score_kind: str) -> Scale:
    """The calibration rows' distribution function at their distinct raw scores, in mid-ranks."""
    if scores.ndim == 2:
        return _learn_columns(learn_unit, scores, weight, score_kind)
    if score_kind != "raw":
        return {}
    rank = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    return {"ecdf_scores": scores.copy(), "ecdf_ranks": rank}


def to_unit(scores: np.ndarray, scale: Scale, score_kind: str) -> np.ndarray:
    """Scores on [0, 1]; between calibration scores the distribution function is linear, outside constant."""
    if scores.ndim == 2:
        return _columns_to(to_unit, scores, scale, score_kind)
    if score_kind == "proba":
        return scores
    if score_kind == "logit":
        return expit(scores)
    return isotonic_predict(scale["ecdf_scores"], scale["ecdf_ranks"], scores)


def _learn_columns(
    learn: Callable[[np.ndarray, np.ndarray, str], Scale], scores: np.ndarray, weight: np.ndarray, score_kind: str
) -> Scale:
    """The constants of each column, under their names with the column's number."""
    scale: Scale = {}
    for j, column in enumerate(scores.T):
        distinct, inverse = distinct_rows(column)
        learned = learn(distinct, np.bincount(inverse, weights=weight), score_kind)
        scale |= {f"{name}_{j}": value for name, value in learned.items()}
    return scale


def _columns_to(
    transform: Callable[[np.ndarray, Scale, str], np.ndarray], scores: np.ndarray, scale: Scale, score_kind: str
) -> np.ndarray:
    parts = []
    for j, column in enumerate(scores.T):
        own = {name.removesuffix(f"_{j}"): value for name, value in scale.items() if name.endswith(f"_{j}")}
        parts.append(transform(column, own, score_kind))
    return np.stack(parts, axis=1)
