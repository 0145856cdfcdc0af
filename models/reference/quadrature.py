"""Posterior summaries of Platt's and the beta model by quadrature: NumPy and SciPy only, no sampling, no PyMC.

Both models are logit q = c + exp(l) @ x with an intercept c and log slopes l, all with normal priors; x = logit s in
Platt's, x = (log s, -log(1 - s)) in the beta model. For each summary the space of parameters is turned so that the
summary's own variable f comes first: c, a log slope, or the log-odds f = c + exp(l) @ x(s) at a score s, which takes
the place of c with Jacobian 1. Around the mode the coordinates are f = f0 + L[0, 0] u[0], ... with L the lower Cholesky
factor of the inverse Hessian, so u[0] depends on f alone. The product trapezoid rule over a box of u gives the density
of f on a line; it converges faster than any power of the step, since the integrand is analytic and vanishes at the
faces.

Each integral is made twice: with steps 0.5 (0.125 along f), then with half of these in a box with sides 1.2 times as
long. The box reaches so far that the density at its faces is below 1e-12 of its maximum. `CHANGE_MAX` is the acceptance
rule: no summary may change by more than that.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.optimize import brentq, minimize
from scipy.special import expit

CHANGE_MAX = 1e-6
FACE_MAX = 1e-12
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}

LogDensity = Callable[[list[np.ndarray]], np.ndarray]  # of coordinates that broadcast


class Posterior(NamedTuple):
    """Log density over (c, l): normal priors, Bernoulli likelihood; rows with equal x are counted together."""

    x: np.ndarray  # (m, k)
    positives: np.ndarray  # (m,)
    totals: np.ndarray  # (m,)
    mean: np.ndarray  # (1 + k,) prior means of c and l
    sd: np.ndarray  # (1 + k,)

    def log_density(self, c: np.ndarray, log_slopes: list[np.ndarray]) -> np.ndarray:
        """Up to a constant, at points given by arrays that broadcast."""
        slopes = [np.exp(log_slope) for log_slope in log_slopes]
        value = self.positives.sum() * c
        for parameter, mean, sd in zip([c, *log_slopes], self.mean, self.sd, strict=True):
            value = value - 0.5 * ((parameter - mean) / sd) ** 2
        for slope, column in zip(slopes, self.x.T, strict=True):
            value = value + slope * (self.positives @ column)
        for row, n in zip(self.x, self.totals, strict=True):
            eta = c + sum(slope * entry for slope, entry in zip(slopes, row, strict=True))
            value = value - n * np.logaddexp(0.0, eta)
        return value


class Functional(NamedTuple):
    """A variable to summarise: from first coordinate and others to (c, l), and from first coordinate to its value."""

    to_parameters: Callable[[list[np.ndarray]], tuple[np.ndarray, list[np.ndarray]]]
    to_value: Callable[[np.ndarray], np.ndarray]


def features(name: str, scores: np.ndarray) -> np.ndarray:
    """x ``(n, k)`` of the model at scores ``(n,)``."""
    s = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.log(s / (1 - s))[:, None] if name == "platt" else np.column_stack([np.log(s), -np.log1p(-s)])


def posterior(name: str, scores: np.ndarray, y: np.ndarray, arguments: dict[str, float]) -> Posterior:
    """The posterior of a model under the keyword arguments of its specification."""
    order = ("intercept", "slope_log") if name == "platt" else ("c", "a_log", "b_log")
    distinct, row = np.unique(scores, return_inverse=True)
    return Posterior(
        features(name, distinct),
        np.bincount(row, weights=y),
        np.bincount(row).astype(float),
        np.array([arguments[f"{parameter}_mean"] for parameter in order]),
        np.array([arguments[f"{parameter}_sd"] for parameter in order]),
    )


def functionals(name: str, at: np.ndarray) -> dict[str, Functional]:
    """Intercept, slopes, and q at scores `at`."""
    names = ("intercept", "slope") if name == "platt" else ("c", "a", "b")
    found = {names[0]: Functional(lambda z: (z[0], z[1:]), lambda f: f)}
    for k, slope in enumerate(names[1:]):
        found[slope] = Functional(
            lambda z, k=k: (z[1], [*z[2 : 2 + k], z[0], *z[2 + k :]]),
            np.exp,
        )
    for s, x in zip(at, features(name, at), strict=True):
        found[f"q({s:g})"] = Functional(
            lambda z, x=x: (z[0] - sum(np.exp(log_a) * entry for log_a, entry in zip(z[1:], x, strict=True)), z[1:]),
            expit,
        )
    return found


def summarise(target: Posterior, functional: Functional) -> tuple[dict[str, float], float]:
    """Mean, sd and quantiles, and the largest change of any of them from the coarse to the fine rule."""

    def log_density(z: list[np.ndarray]) -> np.ndarray:
        return target.log_density(*functional.to_parameters(z))

    dimension = len(target.mean)
    mode = minimize(lambda z: -log_density(list(z)), np.zeros(dimension), method="BFGS", options={"gtol": 1e-7}).x
    factor = np.linalg.cholesky(np.linalg.inv(negative_hessian(log_density, mode)))
    sides = enclose(log_density, mode, factor)
    coarse = line_summary(*line_density(log_density, mode, factor, sides, 0.5), functional.to_value)
    fine = line_summary(*line_density(log_density, mode, factor, 1.2 * sides, 0.25), functional.to_value)
    return fine, max(abs(fine[name] - coarse[name]) for name in fine)


def negative_hessian(f: LogDensity, at: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """Central differences. The result only scales the grid, so that its error costs nothing."""
    steps = h * np.eye(len(at))

    def value(z: np.ndarray) -> float:
        return float(f(list(z)))

    return -np.array(
        [[value(at + i + j) - value(at + i - j) - value(at - i + j) + value(at - i - j) for i in steps] for j in steps]
    ) / (4 * h * h)


def grid_log_density(f: LogDensity, mode: np.ndarray, factor: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Log density on the product of the axes of u."""
    u = np.meshgrid(*axes, indexing="ij", sparse=True)
    return f([mode[i] + sum(factor[i, j] * u[j] for j in range(i + 1)) for i in range(len(axes))])


def enclose(f: LogDensity, mode: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Ends of the box ``(d, 2)``: pushed out until the density at every face is negligible."""
    sides = np.tile([-5.0, 5.0], (len(mode), 1))
    while True:
        axes = [np.linspace(lower, upper, 41) for lower, upper in sides]
        logp = grid_log_density(f, mode, factor, axes)
        limit = logp.max() + np.log(FACE_MAX)
        open_faces = np.array([[np.take(logp, end, axis=i).max() > limit for end in (0, -1)] for i in range(len(mode))])
        if not open_faces.any():
            return sides
        sides = np.where(open_faces, 1.2 * sides, sides)


def line_density(
    f: LogDensity, mode: np.ndarray, factor: np.ndarray, sides: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Grid of the first coordinate, and its posterior density there (not normalised)."""
    axes = [
        np.linspace(lower, upper, int(np.ceil((upper - lower) / (step / 4 if i == 0 else step))) + 1)
        for i, (lower, upper) in enumerate(sides)
    ]
    top = f(list(mode))
    density = np.concatenate(
        [
            np.exp(grid_log_density(f, mode, factor, [part, *axes[1:]]) - top).reshape(len(part), -1).sum(axis=1)
            for part in np.array_split(axes[0], max(1, len(axes[0]) // 8))
        ]
    )
    return mode[0] + factor[0, 0] * axes[0], density


def line_summary(f: np.ndarray, density: np.ndarray, to_value: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
    """Mean, sd and quantiles of ``to_value(f)``, increasing in f, from the density of f on a regular grid."""
    weight = density / density.sum()
    value = to_value(f)
    mean = weight @ value
    cumulative = make_interp_spline(f, density, k=5).antiderivative()
    total = float(cumulative(f[-1]))
    return {
        "mean": float(mean),
        "sd": float(np.sqrt(weight @ (value - mean) ** 2)),
        **{
            name: float(to_value(brentq(lambda z, p=p: cumulative(z) - p * total, f[0], f[-1], xtol=1e-13)))
            for name, p in QUANTILES.items()
        },
    }


def reference(name: str, scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict) -> tuple[dict, dict]:
    """Summaries of every functional, and what the acceptance rule found. Raises if the rule is broken."""
    target = posterior(name, scores, y, arguments)
    summaries, largest = {}, 0.0
    for label, functional in functionals(name, at).items():
        summaries[label], change = summarise(target, functional)
        largest = max(largest, change)
    if not largest < CHANGE_MAX:
        raise ArithmeticError(f"{name}: halving the steps changes a summary by {largest:.1e}, more than {CHANGE_MAX}.")
    return summaries, {"largest_change": largest}
