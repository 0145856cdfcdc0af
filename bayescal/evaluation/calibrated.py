"""How much the outcomes speak for a forecast that is exactly calibrated.

    H0:  logit q = logit p        H1:  logit q = intercept + slope * logit p,   Normal and LogNormal priors of Platt's

Their Bayes factor is a ratio of marginal likelihoods. That of H0 has no parameters; that of H1 is an integral over two,
by Gauss-Hermite quadrature around the mode. Cox (1958) for H1; Kass & Raftery (1995), Eq. 1.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from bayescal.calibrators.platt import PlattPriors

NODES = 32  # in each of the two directions


def log_bayes_factor(log_odds: np.ndarray, cases: np.ndarray, events: np.ndarray) -> float:
    """Log Bayes factor for calibration, of m log-odds with cases and events at each, all ``(m,)``."""
    priors = PlattPriors()
    centre = np.array([priors.intercept_mean, priors.slope_log_mean])
    spread = np.array([priors.intercept_sd, priors.slope_log_sd])

    def log_likelihood(intercept: np.ndarray, slope: np.ndarray) -> np.ndarray:
        eta = intercept[..., None] + slope[..., None] * log_odds
        return (events * eta - cases * np.logaddexp(0, eta)).sum(axis=-1)

    def log_joint(theta: np.ndarray) -> np.ndarray:  # of (intercept, log slope)
        z = (theta - centre) / spread
        prior = -0.5 * (z**2).sum(axis=-1) - np.log(2 * np.pi * spread.prod())
        return prior + log_likelihood(theta[..., 0], np.exp(theta[..., 1]))

    def gradient(theta: np.ndarray) -> np.ndarray:
        slope = np.exp(theta[1])
        left = events - cases * expit(theta[0] + slope * log_odds)
        return (theta - centre) / spread**2 - np.array([left.sum(), slope * (left @ log_odds)])

    mode = minimize(lambda theta: -float(log_joint(theta)), centre, jac=gradient, method="BFGS").x
    slope, p = np.exp(mode[1]), expit(mode[0] + np.exp(mode[1]) * log_odds)
    design = np.column_stack([np.ones_like(log_odds), slope * log_odds])
    information = design.T @ (design * (cases * p * (1 - p))[:, None]) + np.diag(spread**-2.0)
    root = np.linalg.cholesky(np.linalg.inv(information))
    node, weight = np.polynomial.hermite_e.hermegauss(NODES)
    z = np.stack(np.meshgrid(node, node, indexing="ij"), axis=-1)
    log_weight = np.log(weight[:, None] * weight) + 0.5 * (z**2).sum(axis=-1) + np.log(np.linalg.det(root))
    free = logsumexp(log_joint(mode + z @ root.T) + log_weight)
    return float(log_likelihood(np.zeros(()), np.ones(())) - free)
