"""Log predictive densities of left-out cases, row by row, of any fitted calibrator.

    loo      log p(y_i | s_i, all other cases)           by importance sampling from the posterior
    kfold    log p(y_i | s_i, cases of other folds)      by fitting again, without the fold of row i

A posterior is asked by ``loo``, which fits nothing; a point estimate has no draws, and is asked by ``kfold``.

An average of calibrators has the density sum_k w_k p_k(y_i | y_-i), with weights w that were found without row i too:
one Newton step away from the weights of all rows,

    z^(-i) = z + (H - H_i)^+ g_i,      w = softmax(z),

with g_i and H_i the gradient and Hessian of what row i adds to the stacking objective in z, and H that of the whole.
Giordano et al. (2019), "A Swiss army infinitesimal jackknife", with the row's own curvature taken out.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import check_cv

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.loo import Loo, leave_one_out
from bayescal.calibrators.multiclass import MultiClassCalibrator
from bayescal.calibrators.softmax import log_sum_exp
from bayescal.calibrators.stacked import EQUAL_SHARE_CASES, StackedCalibrator
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import (
    CalibrationWarning,
    ConvergenceWarning,
    ParameterValueError,
    check_count,
    quiet,
)

Folds = list[tuple[np.ndarray, np.ndarray]]  # rows to fit, rows to judge


@dataclass(frozen=True)
class Elpd:
    """Log predictive densities of one calibrator; 0 for rows of weight 0."""

    method: str  # "loo" or "kfold"
    elpd: np.ndarray  # (n,) of outcomes that were left out
    lppd: np.ndarray  # (n,) of the same outcomes, none left out
    pareto_k: np.ndarray  # (n,) NaN where nothing was smoothed
    not_converged: int = 0  # folds


def elpd_loo(calibrator: Any) -> Elpd:
    """Leave out each row of a calibrator with a posterior in turn, without fitting again."""
    if isinstance(calibrator, StackedCalibrator):
        return _stacked(calibrator)
    found = _loo(calibrator)
    return Elpd("loo", found.elpd, found.lppd, found.pareto_k)


def elpd_kfold(calibrator: Any, folds: Folds) -> Elpd:
    """Judge each fold's rows by a clone that was fitted to the other rows."""
    rows = calibrator._require_rows()
    labels = calibrator.classes_[rows.y]
    elpd, failed = np.zeros(len(labels)), 0
    for fit, judge in folds:
        again = clone(calibrator).set_params(classes=calibrator.classes_)
        with quiet(CalibrationWarning), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)  # counted, not repeated for each fold
            again.fit(rows.scores[fit], labels[fit], rows.weight[fit])
        failed += any(issubclass(w.category, ConvergenceWarning) for w in caught)
        for other in caught:
            if not issubclass(other.category, ConvergenceWarning):
                warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
        elpd[judge] = _log_density(again, rows.scores[judge], rows.y[judge])
    lppd = _log_density(calibrator, rows.scores, rows.y)
    lppd[rows.weight == 0] = 0.0
    return Elpd("kfold", elpd, lppd, np.full(len(labels), np.nan), failed)


def make_folds(y: np.ndarray, weight: np.ndarray, cv: Any, random_state: Any) -> Folds:
    """Folds of the rows of positive weight.

    A whole number deals the shuffled rows of each class out to that many folds, or to as many as there are rows: folds
    differ by one row at most, also where a class has fewer rows than there are folds. Anything else that scikit-learn
    knows as `cv` splits the rows itself, each into one fold.
    """
    used = np.flatnonzero(weight > 0)
    if isinstance(cv, bool | int | np.integer):
        size = min(check_count(cv, "cv", 2), len(used))
        if size < 2:
            raise ParameterValueError(
                f"folds need two or more rows of positive weight, got {len(used)}. Add labelled cases."
            )
        rng = np.random.default_rng(seed_sequence(random_state))
        dealt = used[np.lexsort((rng.random(len(used)), y[used]))]
        return [(np.setdiff1d(used, dealt[k::size]), np.sort(dealt[k::size])) for k in range(size)]
    try:
        splits = list(check_cv(cv, y[used], classifier=True).split(np.zeros((len(used), 1)), y[used]))
    except (TypeError, ValueError) as problem:
        raise ParameterValueError(
            f"cv must be a whole number of folds, a splitter of scikit-learn or an iterable of (train, test) rows, got "
            f"{cv!r}: {problem}"
        ) from None
    judged = np.sort(np.concatenate([test for _, test in splits])) if splits else np.empty(0, int)
    if not np.array_equal(judged, np.arange(len(used))):
        raise ParameterValueError(
            f"cv must put each of the {len(used)} rows of positive weight into one fold, got {cv!r}, whose test rows "
            "are others. Pass a whole number of folds, or a splitter such as StratifiedKFold."
        )
    return [(used[fit], used[judge]) for fit, judge in splits]


def _loo(calibrator: Any) -> Loo:
    rows = calibrator._require_rows()
    if isinstance(calibrator, MultiClassCalibrator):

        def densities(scores: np.ndarray, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            logits = calibrator._logits(calibrator._coordinate(scores, calibrator._scale), calibrator._flat)
            seen = logits[:, np.arange(len(outcome)), outcome.astype(int)]
            log_likelihood = seen - log_sum_exp(logits)
            return log_likelihood, log_likelihood
    else:

        def densities(scores: np.ndarray, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return calibrator._log_likelihood_at(scores, outcome), calibrator._log_factor_at(scores, outcome)

    return leave_one_out(rows.scores, rows.y, rows.weight, densities, calibrator._draw_shape)


def _stacked(calibrator: StackedCalibrator) -> Elpd:
    parts = [_loo(member) for member in calibrator.members_.values()]
    elpd, lppd = (np.column_stack([getattr(part, name) for part in parts]) for name in ("elpd", "lppd"))
    rows, weights = calibrator._require_rows(), calibrator.weights_.to_numpy()
    used = rows.weight > 0
    mixed = np.zeros(len(elpd))
    mixed[used] = logsumexp(elpd[used] + np.log(weights_without(elpd[used], rows.weight[used], weights)), axis=1)
    with np.errstate(invalid="ignore"):
        pareto_k = np.fmax.reduce([part.pareto_k for part in parts])
    return Elpd("loo", mixed, logsumexp(lppd + np.log(weights), axis=1) * used, pareto_k)


def weights_without(
    elpd: np.ndarray, weight: np.ndarray, stacked: np.ndarray, equal_share_cases: float = EQUAL_SHARE_CASES
) -> np.ndarray:
    """Stacking weights ``(n, k)`` without one case of each row, by the module's equation.

    From the members' densities ``(n, k)``, the rows' weights and the stacking weights ``(k,)`` of all rows.
    """
    log_w = np.log(stacked)
    share = np.exp(elpd + log_w - logsumexp(elpd + log_w, axis=1, keepdims=True))
    spread = np.diag(stacked) - np.outer(stacked, stacked)
    curvature = share[:, :, None] * (np.eye(len(stacked)) - share[:, None, :]) - spread  # H_i
    whole = np.einsum("i,ijk->jk", weight, curvature) - equal_share_cases * len(stacked) * spread
    case = np.minimum(weight, 1.0)[:, None]
    inverse = np.linalg.pinv(whole - case[:, :, None] * curvature, hermitian=True)
    z = log_w + np.einsum("ijk,ik->ij", inverse, case * (share - stacked))
    return np.exp(z - logsumexp(z, axis=1, keepdims=True))


def _log_density(calibrator: Calibrator, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log of the stated probability of each outcome; -inf where that is 0."""
    with np.errstate(divide="ignore"):
        return np.log(calibrator.predict_proba(scores)[np.arange(len(y)), y])
