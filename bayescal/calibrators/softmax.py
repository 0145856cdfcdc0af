"""Scaled logits of C classes: their probabilities, and their scales and biases by maximum likelihood.

    q_k = exp(scale_k x_k + bias_k) / sum_j exp(scale_j x_j + bias_j)

with scales of one or of each class, and with or without biases. The negative log likelihood is convex in scales and
biases. Guo et al. (2017), "On calibration of modern neural networks", section 4.2; Alexandari et al. (2020), "Maximum
likelihood with bias-corrected calibration is hard-to-beat at label shift adaptation".
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bayescal.inference.sampling import one_blas_thread

NEWTON_SIZE = 400  # parameters up to which Newton's method finishes what L-BFGS began
GRADIENT = 1e-10  # of the mean log likelihood, at the end of Newton's method


@dataclass(frozen=True)
class Support:
    """Distinct rows of log probabilities, with weighted counts of the classes seen there."""

    x: np.ndarray  # (m, C)
    counts: np.ndarray  # (m, C)

    @property
    def totals(self) -> np.ndarray:
        """Weighted count of each row, ``(m,)``."""
        return self.counts.sum(axis=1)


def scaled_logits(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Scaled logits ``(S, m, C)`` of rows ``(m, C)``, for draws of scales ``(S, C)`` or ``(S, 1)`` and biases.

    The first axis in memory is that of the classes, along which sums are fast.
    """
    eta = scale.T[:, :, None] * x.T[:, None, :]
    if bias is not None:
        eta += bias.T[:, :, None]
    return np.moveaxis(eta, 0, -1)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities ``(..., C)``, written over the logits."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """log sum_k exp(logits_k), without the last axis."""
    top = logits.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(logits - top).sum(axis=-1))


def fit_scaling(support: Support, *, vector: bool, biased: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Scales ``(C,)``, biases ``(C,)`` of sum 0, and whether the maximum of the likelihood is at a finite place.

    Where it is not, since the logits separate the classes or a class is without cases, each case of class k counts as
    (N_k + 1) / (N_k + 2) of a case, and the others share what is left: Platt's targets, for C classes.
    """
    problem = _Problem(support.x, support.counts, vector=vector, biased=biased)
    absent = not support.counts.any(axis=0).all()
    if not (absent and (vector or biased)):
        scale, bias = problem.solve()
        if not _separated(support, scale, bias, vector=vector and biased):
            return scale, bias, True
    smoothed = _Problem(support.x, smoothed_counts(support.counts), vector=vector, biased=biased)
    return *smoothed.solve(), False


def smoothed_counts(counts: np.ndarray) -> np.ndarray:
    """Expected counts ``(m, C)`` under Platt's targets, the rest of each case shared equally by the other classes."""
    n = counts.sum(axis=0)
    others = counts / (n + 2) / (counts.shape[1] - 1)
    return counts * (n + 1) / (n + 2) + others.sum(axis=1, keepdims=True) - others


def _separated(support: Support, scale: np.ndarray, bias: np.ndarray, *, vector: bool) -> bool:
    """Whether some direction of the parameters raises the likelihood for ever."""
    x, seen = support.x, support.counts > 0

    def margins(eta: np.ndarray) -> np.ndarray:
        """Smallest logit of the classes seen at a row, less the largest of the others and of any but one seen."""
        lowest = np.where(seen, eta, np.inf).min(axis=1)
        several = seen.sum(axis=1) > 1
        highest = np.where(seen & ~several[:, None], -np.inf, eta).max(axis=1)
        return lowest - highest

    at_start, at_end = margins(x), margins(x * scale + bias)
    if (at_start.min() >= 0 and at_start.max() > 0) or at_end.min() > 0:
        return True
    if not vector:
        return False
    lowest = np.where(seen, x, np.inf).min(axis=0)  # of each class, among its own cases
    highest = np.where(support.counts < support.totals[:, None], x, -np.inf).max(axis=0)  # among cases of the others
    return bool((lowest > highest).any())


class _Problem:
    """Mean negative log likelihood of parameters theta: scales in units of 1 / `unit`, then biases."""

    def __init__(self, x: np.ndarray, counts: np.ndarray, *, vector: bool, biased: bool) -> None:
        self.counts = counts / counts.sum()
        self.totals = self.counts.sum(axis=1)
        classes = x.shape[1]
        self.classes = classes
        self.scales = classes if vector else 1
        self.biased = biased
        # columns of about unit size, so that scales and biases weigh alike
        spread = np.sqrt(self.totals @ (x - x.mean(axis=1, keepdims=True)) ** 2)
        self.unit = np.maximum(spread if vector else np.sqrt((spread**2).mean(keepdims=True)), 1e-8)
        self.x = x / self.unit
        self.start = np.concatenate([self.unit, np.zeros(classes if biased else 0)])
        self.bounds = [(0.0, None)] * self.scales + [(None, None)] * (classes if biased else 0)

    def proba(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eta = self.x * theta[: self.scales]
        if self.biased:
            eta = eta + theta[self.scales :]
        eta -= eta.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(eta).sum(axis=1, keepdims=True))
        return eta - log_sum, np.exp(eta - log_sum)

    def loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_p, p = self.proba(theta)
        residual = self.totals[:, None] * p - self.counts
        by_class = (residual * self.x).sum(axis=0)
        gradient = by_class if self.scales > 1 else by_class.sum(keepdims=True)
        if self.biased:
            gradient = np.concatenate([gradient, residual.sum(axis=0)])
        return -float((self.counts * log_p).sum()), gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        p = self.proba(theta)[1]
        weighted = self.totals[:, None] * p
        columns = [p * self.x] + ([p] if self.biased else [])
        squares = [weighted * self.x**2, weighted * self.x, weighted]
        diagonal = [np.diag(s.sum(axis=0)) for s in squares]
        blocks = [[diagonal[i + j] for j in range(len(columns))] for i in range(len(columns))]
        full: np.ndarray = np.block(blocks)
        rows = np.concatenate(columns, axis=1)
        full -= (rows * self.totals[:, None]).T @ rows
        if self.scales == 1:  # all classes' scales are one
            fold = np.zeros((len(full), len(theta)))
            fold[: self.classes, 0] = 1.0
            fold[self.classes :, 1:] = np.eye(len(theta) - 1)
            full = fold.T @ full @ fold
        return full

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        small = len(self.start) <= NEWTON_SIZE
        with one_blas_thread():  # two take ten times as long for vectors of this size
            found = minimize(
                self.loss,
                self.start,
                jac=True,
                method="L-BFGS-B",
                bounds=self.bounds,
                options={"maxiter": 200 if small else 2000, "maxfun": 10000, "ftol": 1e-12, "gtol": 1e-8},
            )
            theta = self.newton(found.x) if small else found.x
        scale = np.broadcast_to(theta[: self.scales] / self.unit, self.classes).copy()
        bias = theta[self.scales :] if self.biased else np.zeros(self.classes)
        return scale, bias - bias.mean()

    def newton(self, theta: np.ndarray) -> np.ndarray:
        """Newton steps among the parameters that are not held at 0, halved until the loss falls."""
        lower = np.array([0.0 if low is not None else -np.inf for low, _ in self.bounds])
        value, gradient = self.loss(theta)
        for _ in range(50):
            free = ~((theta <= lower) & (gradient > 0))
            if np.abs(gradient[free]).max(initial=0.0) < GRADIENT:
                break
            step = np.zeros(len(theta))
            # a constant added to all biases changes nothing: the shortest of many steps
            step[free] = -np.linalg.lstsq(self.hessian(theta)[np.ix_(free, free)], gradient[free], rcond=1e-12)[0]
            for halving in range(40):
                moved = np.maximum(theta + step * 0.5**halving, lower)
                new_value, new_gradient = self.loss(moved)
                if new_value <= value:
                    break
            else:
                break
            settled = value - new_value < 1e-16 and np.abs(new_gradient[free]).max() >= np.abs(gradient[free]).max()
            theta, value, gradient = moved, new_value, new_gradient
            if settled:
                break
        return theta
