"""Which of several fitted calibrators predicts left-out cases best, and how sure that is.

    elpd = sum_i w_i elpd_i,      se = sqrt(W) sd(elpd_i),      W = sum_i w_i

with elpd_i the log density of what happened in row i, which was left out, and w_i the cases that the row stands for;
sd counts each row w_i times. The difference between two calibrators is that of their sums, and its standard error is
that of the rows' differences: rows that are hard for one are hard for the other. Vehtari, Gelman & Gabry (2017), Eq. 4,
23 and 24.

    stacking         w = argmax sum_i w_i log sum_k w_k exp(elpd_ik)
    pseudo-BMA+      w_k = E_b softmax_k(W sum_i b_i elpd_ik),    b ~ Dirichlet(w_1, .., w_n)

Yao, Vehtari, Simpson & Gelman (2018), Eq. 4, 9 and 10; a row of w cases has the share of w rows in the bootstrap.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.stacked import stacking_weights
from bayescal.evaluation.elpd import Elpd, elpd_kfold, elpd_loo, make_folds
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import (
    CalibrationWarning,
    ConvergenceWarning,
    NoPosteriorError,
    ParameterValueError,
    check_choice,
)

_PACKAGE = str(Path(__file__).parents[1])  # a warning points to the line that called the package
HIGH_K = 0.7  # Pareto k from which an importance-sampled density is not to be trusted
SIMILAR = 4.0  # difference of elpd below which predictions are alike, whatever its standard error
BOOTSTRAPS = 4000


def compare(
    calibrators: Mapping[str, Calibrator], *, method: str = "auto", cv: Any = 10, random_state: Any = 0
) -> pd.DataFrame:
    """Compare fitted calibrators by how well they predict left-out cases.

    Parameters
    ----------
    calibrators : dict of str to calibrator
        Two or more, fitted to the same labelled rows with the same weights. Their scores may differ: what is predicted
        is the label.
    method : {"auto", "kfold"}, default="auto"
        How cases are left out: one at a time by importance sampling where there is a posterior and by `cv` folds where
        there is a point estimate, or by folds for all. A fit to a fold knows fewer cases than one without a single
        row, and stratified folds know how many cases of each class they hold, so ``"kfold"`` is the fair one between
        posteriors and point estimates; it fits each again for each fold.
    cv : int, splitter or iterable, default=10
        Number of stratified folds; or what scikit-learn knows as ``cv``, with each row judged once. As many folds as
        rows leave out one row at a time, so that point estimates are judged as posteriors are.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the folds and of the bootstrap; None draws anew.

    Returns
    -------
    pandas.DataFrame
        One row for each calibrator (index ``calibrator``), the best first. Columns: ``method``, ``"loo"`` or
        ``"kfold"``; ``elpd``, the sum of the log densities of left-out cases, with its standard error ``se``;
        ``elpd_diff``, how far it is from the best (0 or less), with the paired standard error ``dse``; ``p``, the
        effective number of parameters; ``pareto_k``, the largest Pareto k, and ``high_k``, the cases with one above
        0.7; ``stacking_weight`` and ``pseudo_bma_weight``. A row's weight counts as that many cases everywhere.
        ``attrs["message"]`` says in a line what came out.

    Raises
    ------
    ParameterValueError
        If there are fewer than two, one is no fitted calibrator, the rows differ, or a setting is outside its domain.
    NoPosteriorError
        If one was saved without its calibration rows.

    Warns
    -----
    CalibrationWarning
        If a calibrator gave probability 0 to what happened (its elpd is minus infinity), or if cases have a Pareto k
        above 0.7.
    ConvergenceWarning
        If a posterior did not converge in some fold.

    Notes
    -----
    The density of an average (`StackedCalibrator`) leaves the row out of its weights too. ``pareto_k`` is NaN where
    folds were left out, and beyond 1000 distinct pairs of scores and label, where nothing is smoothed. A calibrator
    whose elpd is minus infinity can have a stacking weight: an average with others rules nothing out. Rows to which
    every calibrator gave probability 0 say nothing about weights, and are left out of them; pseudo-BMA weights are NaN
    where each then still rules out something that happened. A fold without a case of a class is fitted and judged all
    the same.

    References
    ----------
    Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC. Statistics and Computing 27, Eq. 4, 23 and 24.

    Yao, Y., Vehtari, A., Simpson, D. and Gelman, A. (2018). Using stacking to average Bayesian predictive
    distributions. Bayesian Analysis 13, Eq. 4, 9 and 10.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> fits = {
    ...     "smoothed": bc.PlattCalibrator(inference="point").fit(days["ens"], days["rain"]),
    ...     "curve": bc.BernsteinCalibrator(inference="point").fit(days["ens"], days["rain"]),
    ... }
    >>> table = bc.compare(fits)
    >>> table["method"].tolist()
    ['kfold', 'kfold']
    >>> bool(table["stacking_weight"].sum().round(6) == 1)
    True
    """
    check_choice(method, ("auto", "kfold"), "method")
    y, weight = _check_same_rows(calibrators)
    fold_seed, bootstrap_seed = (int(word) for word in seed_sequence(random_state).generate_state(2, np.uint64))
    by_folds = {name: method == "kfold" or cal._is_point for name, cal in calibrators.items()}
    folds = make_folds(y, weight, cv, fold_seed) if any(by_folds.values()) else []
    found = {name: elpd_kfold(cal, folds) if by_folds[name] else elpd_loo(cal) for name, cal in calibrators.items()}
    for name, one in found.items():
        _warn_of(name, one, weight, len(folds))
    table = _tabulate(found, weight)
    elpd = np.column_stack([found[name].elpd for name in table.index])
    says = ~np.isneginf(elpd).all(axis=1) & (weight > 0)
    table["stacking_weight"] = stacking_weights(elpd[says], weight[says], 0.0) if says.any() else np.nan
    table["pseudo_bma_weight"] = pseudo_bma_weights(elpd[says], weight[says], bootstrap_seed)
    table.attrs["message"] = _message(table, int((weight > 0).sum()))
    return table


def pseudo_bma_weights(elpd: np.ndarray, weight: np.ndarray, seed: int) -> np.ndarray:
    """Pseudo-BMA+ weights ``(k,)`` from densities ``(n, k)`` of rows of `weight`; NaN if every sum is infinite."""
    if not np.isfinite(elpd).all(axis=0).any() or not len(elpd):
        return np.full(elpd.shape[1], np.nan)
    rng, total = np.random.default_rng(seed), np.zeros(elpd.shape[1])
    possible = np.isfinite(elpd).all(axis=0)
    for _ in range(BOOTSTRAPS):
        share = rng.standard_gamma(weight)
        z = weight.sum() * (share @ elpd[:, possible]) / share.sum()
        w = np.exp(z - z.max())
        total[possible] += w / w.sum()
    return total / BOOTSTRAPS


def _tabulate(found: dict[str, Elpd], weight: np.ndarray) -> pd.DataFrame:
    """All columns but the weights, the best first."""
    used = weight > 0
    sums = {name: float(weight[used] @ one.elpd[used]) for name, one in found.items()}
    order = sorted(sums, key=lambda name: -sums[name])  # of equal ones, the first given
    best = found[order[0]].elpd
    rows = []
    for name in order:
        one = found[name]
        behind = np.zeros(len(best)) if name == order[0] else _difference(one.elpd, best)
        k = one.pareto_k[used]
        rows.append(
            {
                "method": one.method,
                "elpd": sums[name],
                "se": _standard_error(one.elpd[used], weight[used]),
                "elpd_diff": float(weight[used] @ behind[used]),
                "dse": _standard_error(behind[used], weight[used]),
                "p": float(weight[used] @ _difference(one.lppd, one.elpd)[used]),
                "pareto_k": np.nan if np.isnan(k).all() else float(np.nanmax(k)),
                "high_k": float(weight[used] @ (k > HIGH_K)),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(order, name="calibrator"))


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row; 0 where both are minus infinity, as neither is ahead there."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a) & np.isneginf(b), 0.0, a - b)


def _standard_error(values: np.ndarray, weight: np.ndarray) -> float:
    """Standard error of the weighted sum of values, NaN if it is infinite."""
    if not np.isfinite(values).all():
        return float("nan")
    cases = weight.sum()
    squares = weight @ (values - np.average(values, weights=weight)) ** 2
    return float(np.sqrt(squares * cases / max(cases - 1, 1)))


def _message(table: pd.DataFrame, cases: int) -> str:
    """What came out, in a line."""
    beside = (
        f" Point estimates were judged by folds and the others by leave-one-out, which alone may differ by 1 or 2; "
        f"method='kfold' judges all alike, and so does cv={cases}."
        if table["method"].nunique() > 1
        else ""
    )
    return _verdict(table) + beside


def _verdict(table: pd.DataFrame) -> str:
    best, others = table.index[0], table.iloc[1:]
    if np.isneginf(table["elpd"].iloc[0]):
        return "every calibrator gave probability 0 to something that happened; no elpd is finite."
    behind = -others["elpd_diff"]
    near = others.index[(behind < SIMILAR) | (behind < 2 * others["dse"].fillna(0.0))].tolist()
    if not near:
        rest = "the other is" if len(others) == 1 else "every other is"
        return f"{best} predicts best; {rest} behind by more than two standard errors."
    return (
        f"{best} has the highest elpd; {', '.join(near)} cannot be told from it (behind by less than two standard "
        f"errors, or than {SIMILAR:g})."
    )


def _warn_of(name: str, found: Elpd, weight: np.ndarray, folds: int) -> None:
    """Say what makes a calibrator's sum infinite or doubtful."""
    used = weight > 0
    never = np.flatnonzero(np.isneginf(found.elpd) & used)
    if never.size:
        _warn(
            f"{name}: probability 0 was given to what happened in {len(never)} of {used.sum()} left-out rows, first "
            f"at row {never[0]}, so its elpd is minus infinity. A posterior (inference='nuts') rules nothing out.",
            CalibrationWarning,
        )
    high = (found.pareto_k > HIGH_K) & used
    if high.any():
        _warn(
            f"{name}: {high.sum()} of {used.sum()} rows have a Pareto k above {HIGH_K} (largest "
            f"{found.pareto_k[high].max():.2f}, first at row {np.flatnonzero(high)[0]}); leaving them out changes the "
            "posterior too much for importance sampling, and elpd may be off. Compare with method='kfold'.",
            CalibrationWarning,
        )
    if found.not_converged:
        _warn(
            f"{name}: the sampler did not converge in {found.not_converged} of {folds} folds. Fit with more draws.",
            ConvergenceWarning,
        )


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, skip_file_prefixes=(_PACKAGE,))


def _check_same_rows(calibrators: Any) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the labels and weights of the rows that all calibrators were fitted to."""
    if not isinstance(calibrators, Mapping) or not all(isinstance(name, str) for name in calibrators):
        raise ParameterValueError(
            f"calibrators must be a dict of names to fitted calibrators, got {type(calibrators).__name__}. "
            "Pass {'platt': first, 'beta': second}."
        )
    if len(calibrators) < 2:
        raise ParameterValueError(f"calibrators must hold two or more, got {len(calibrators)}. Add one to compare.")
    for name, calibrator in calibrators.items():
        _check_fitted(name, calibrator)
    first, *others = calibrators
    mine = calibrators[first]._rows
    labels = calibrators[first].classes_[mine.y]
    for other in others:
        theirs = calibrators[other]._rows
        both = f"{first!r} and {other!r} were fitted to different"
        next_step = "Fit all to the same rows."
        if len(mine.y) != len(theirs.y):
            raise ParameterValueError(f"{both} rows: {len(mine.y)} and {len(theirs.y)} of them. {next_step}")
        if calibrators[first].classes_.tolist() != calibrators[other].classes_.tolist():
            raise ParameterValueError(
                f"{both} classes: {calibrators[first].classes_.tolist()} and "
                f"{calibrators[other].classes_.tolist()}. {next_step}"
            )
        _refuse_difference(f"{both} labels", labels, calibrators[other].classes_[theirs.y], next_step)
        _refuse_difference(f"{both} weights", mine.weight, theirs.weight, next_step)
    return mine.y, mine.weight


def _refuse_difference(what: str, a: np.ndarray, b: np.ndarray, next_step: str) -> None:
    differ = np.flatnonzero(a != b)
    if differ.size:
        row = int(differ[0])
        raise ParameterValueError(
            f"{what}: {len(differ)} of {len(a)} differ, first {a[row]!s} and {b[row]!s} at row {row}. {next_step}"
        )


def _check_fitted(name: str, calibrator: Any) -> None:
    if not isinstance(calibrator, Calibrator):
        raise ParameterValueError(
            f"{name!r} must be a fitted calibrator of scores, got {type(calibrator).__name__}. `bayescal models` lists "
            "them."
        )
    try:
        check_is_fitted(calibrator, "classes_")
    except NotFittedError:
        raise ParameterValueError(f"{name!r} is not fitted. Call its fit(scores, y) first.") from None
    if calibrator._rows is None:
        raise NoPosteriorError(
            f"{name!r} was saved without its calibration rows, and they are what is left out. Save it with "
            "include_data=True, or fit it again."
        )
