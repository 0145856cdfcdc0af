"""Class weights from how often each class is predicted: BBSE and RLLS.

    C_ji = mean over labelled source cases of f_j(x) 1{y = i},      u_j = mean over target cases of f_j(x)

with f the indicator of the predicted class ("hard") or the predicted probabilities ("soft"). Under label shift C w = u
holds for the class weights w_i = q_i / p_i, up to sampling error.

BBSE (Lipton, Wang & Smola 2018) solves it. Negative weights are set to 0 afterwards, and nothing is renormalised.

RLLS (Azizzadenesheli, Liu, Yang & Anandkumar 2019) shrinks w = 1 + theta towards 1:

    minimise |C theta - b| + rho |theta|,      theta >= -1,      b = u - C 1

with plain (not squared) Euclidean norms, a second-order cone program. Its constant is that of the authors' public code,
rho = 0.01 * 3 (2 log(2 C / 0.05) / (3 n) + sqrt(2 log(2 C / 0.05) / n)) for C classes and n source cases.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from bayescal.validation import CalibrationWarning, ParameterValueError

RANK_TOLERANCE = 1e-10  # of the smallest singular value of C, to the largest


@dataclass(frozen=True)
class Confusion:
    """What the methods of this module keep of source and target."""

    joint: np.ndarray  # C_ji, (C, C)
    predicted: np.ndarray  # u_j, (C,)
    n: int  # source cases


def joint(proba: np.ndarray, y: np.ndarray, *, hard: bool) -> np.ndarray:
    """C ``(C, C)`` from probabilities ``(n, C)`` of source cases with labels ``(n,)``, class numbers."""
    k = proba.shape[1]
    if hard:
        proba = np.eye(k)[proba.argmax(axis=1)]
    return np.stack([proba[y == i].sum(axis=0) for i in range(k)], axis=1) / len(y)


def predicted(proba: np.ndarray, *, hard: bool) -> np.ndarray:
    """u ``(C,)`` from probabilities ``(N, C)`` of target cases."""
    return (np.eye(proba.shape[1])[proba.argmax(axis=1)] if hard else proba).mean(axis=0)


def bbse(given: Confusion) -> np.ndarray:
    """Weights ``(C,)`` with C w = u, negative ones set to 0; nonnegative least squares where C is singular.

    Warns
    -----
    CalibrationWarning
        If weights were negative, or if C is singular, so that other weights explain the target as well.
    """
    singular = np.linalg.svd(given.joint, compute_uv=False)
    if singular[-1] <= RANK_TOLERANCE * singular[0]:
        never = np.flatnonzero(~given.joint.any(axis=1))
        because = f" (class number {never[0]} is never predicted)" if never.size else ""
        warnings.warn(
            f"the confusion matrix of {len(singular)} classes has rank {int((singular > 1e-10 * singular[0]).sum())}"
            f"{because}: the class weights are not identified, and nonnegative least squares gives one solution of "
            "many. Use method='bayes', or a soft method.",
            CalibrationWarning,
            stacklevel=4,
        )
        return nnls(given.joint, given.predicted, maxiter=100 * len(singular))[0]
    weights = np.linalg.solve(given.joint, given.predicted)
    if (weights < 0).any():
        warnings.warn(
            f"{int((weights < 0).sum())} of {len(weights)} class weights came out negative (smallest "
            f"{weights.min():.3g}) and were set to 0. There are too few cases for this method; use method='bayes'.",
            CalibrationWarning,
            stacklevel=4,
        )
    return np.maximum(weights, 0.0)


def rlls_penalty(classes: int, n: int) -> float:
    """Rho of the authors' public code."""
    logs = np.log(2 * classes / 0.05)
    return float(0.01 * 3 * (2 * logs / (3 * n) + np.sqrt(2 * logs / n)))


def rlls(given: Confusion, penalty: float | None = None) -> np.ndarray:
    """Weights ``(C,)`` by regularised learning under label shift; `penalty` is rho, by default the authors'."""
    import clarabel
    from scipy import sparse

    k = len(given.predicted)
    rho = rlls_penalty(k, given.n) if penalty is None else penalty
    # variables theta, s, t: minimise s + rho t with |C theta - b| <= s, |theta| <= t, theta >= -1
    zero = np.zeros((1, k))
    rows = [
        np.block([[-np.eye(k), np.zeros((k, 2))]]),
        np.block([[zero, -np.ones((1, 1)), np.zeros((1, 1))], [-given.joint, np.zeros((k, 2))]]),
        np.block([[zero, np.zeros((1, 1)), -np.ones((1, 1))], [-np.eye(k), np.zeros((k, 2))]]),
    ]
    b = given.predicted - given.joint.sum(axis=1)
    limits = np.concatenate([np.ones(k), [0.0], -b, [0.0], np.zeros(k)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((k + 2, k + 2)),
        np.concatenate([np.zeros(k), [1.0, rho]]),
        sparse.csc_matrix(np.concatenate(rows)),
        limits,
        [clarabel.NonnegativeConeT(k), clarabel.SecondOrderConeT(k + 1), clarabel.SecondOrderConeT(k + 1)],
        settings,
    )
    found = solver.solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise ParameterValueError(
            f"the cone program of RLLS with {k} classes cannot be solved ({found.status}). Use method='bayes'."
        )
    return np.maximum(1 + np.asarray(found.x)[:k], 0.0)
