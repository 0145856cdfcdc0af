"""Maximum likelihood of small logistic regressions on counted data, by Newton's method."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def smoothed_targets(positives: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Expected positives among `totals` under Platt's targets.

    A positive counts as (N+ + 1)/(N+ + 2) positive, a negative as 1/(N- + 2). Platt (1999), section 2.2.
    """
    n1, n0 = positives.sum(), (totals - positives).sum()
    return positives * (n1 + 1) / (n1 + 2) + (totals - positives) / (n0 + 2)


def fit_logistic(
    columns: np.ndarray, successes: np.ndarray, totals: np.ndarray, penalty: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients ``(1 + k,)`` that maximise the binomial likelihood of ``intercept + columns @ slopes``.

    `columns` is ``(m, k)``. Columns are centred and scaled inside, so that a direction the data say nothing about (all
    scores equal) gets the slope 0. The maximum must exist: separated data need `smoothed_targets`. With `penalty`
    ``(k,)``, ``penalty @ slopes**2 / 2`` is taken off the log likelihood.
    """
    weight = totals / totals.sum()
    centre = weight @ columns
    spread = np.sqrt(weight @ (columns - centre) ** 2)
    spread[spread <= 1e-12 * np.maximum(1.0, np.abs(centre))] = 1.0
    design = np.column_stack([np.ones(len(columns)), (columns - centre) / spread])
    n = totals.sum()
    ridge = np.zeros(design.shape[1])
    if penalty is not None:
        ridge[1:] = penalty / spread**2 / n

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        eta = design @ b
        value = (totals * np.logaddexp(0, eta) - successes * eta).sum() / n + ridge @ b**2 / 2
        return value, design.T @ (totals * expit(eta) - successes) / n + ridge * b

    def hessian(b: np.ndarray) -> np.ndarray:
        p = expit(design @ b)
        return (design.T * (totals * p * (1 - p) / n)) @ design + np.diag(ridge)

    start = np.zeros(design.shape[1])
    share = np.clip(successes.sum() / n, 1e-6, 1 - 1e-6)
    start[0] = np.log(share / (1 - share))
    found = minimize(loss, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-11, "maxiter": 500})
    slopes = found.x[1:] / spread
    return np.concatenate([[found.x[0] - slopes @ centre], slopes])
