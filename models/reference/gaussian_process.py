"""Reference posterior of `casimac.py`, by quadrature: NumPy and SciPy only, no sampling.

    uv run python models/reference/gaussian_process.py          # writes casimac.json

Given length-scale and noise ratio, the signal variance is inverse gamma; the other two are integrated by the trapezoid
rule in their logs, where the integrand is analytic and falls off like that of a normal law. A class probability given
all three is a probability of a two-dimensional normal law in a wedge, by SciPy. Everything is computed twice, the
second time with half the steps in a range 1.2 times as long and twice the levels of the signal variance; no number may
change by more than `CHANGE_MAX`. Prior settings are the defaults of the specification.
"""

from pathlib import Path
from typing import Any

import numpy as np
from make_reference import write
from scipy.interpolate import make_interp_spline
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import brentq, minimize
from scipy.stats import invgamma, multivariate_normal, norm

HERE = Path(__file__).parent
CHANGE_MAX = 1e-4
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
ARGUMENTS = {
    "length_scale_log_sd": 1.0,
    "noise_ratio_log_mean": float(np.log(0.1)),
    "noise_ratio_log_sd": 1.5,
    "signal_variance_shape": 2.0,
    "signal_variance_scale": 1.0,
}
VERTICES = np.array([[0.0, 1.0], [-np.sqrt(0.75), -0.5], [np.sqrt(0.75), -0.5]])
NEW = ((0.0, 0.0), (1.0, 0.5))  # features at which class probabilities are given


def data() -> dict[str, Any]:
    """30 cases of three classes from an additive sequence; latents by eq. 14 with alpha = beta = 1/2, k = 1."""
    i = np.arange(1, 31)
    x = np.column_stack([i * 0.7548776662466927 % 1, i * 0.5698402909980532 % 1])  # 1/g, 1/g^2 of g^3 = g + 1
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = np.where(x[:, 1] + 0.6 * np.sin(3 * x[:, 0]) > 0.4, 0, np.where(x[:, 0] < 0, 1, 2))
    distance = np.sqrt(((x[:, None] - x) ** 2).sum(axis=-1)) + np.diag(np.full(len(x), np.inf))
    nearest = np.stack([np.where(y == k, distance, np.inf).min(axis=1) for k in range(3)], axis=1)
    z = np.zeros((len(x), 2))
    for a in range(len(x)):
        for k in range(3):
            z[a] += 0.5 / nearest[a, k] * VERTICES[k] if k == y[a] else -0.5 * nearest[a, k] * VERTICES[k]
    z /= np.sqrt((z**2).mean())
    return {
        "origin": "i = 1..30: features frac(i / g), frac(i / g^2), g^3 = g + 1, standardised; three classes; latents "
        "by eq. 14 of Heese et al., alpha = beta = 1/2, k = 1, divided by their root mean square",
        "x": np.round(x, 10).tolist(),
        "y": y.tolist(),
        "z": np.round(z, 10).tolist(),
        "vertices": VERTICES.tolist(),
    }


def matern(distance: np.ndarray, length_scale: float) -> np.ndarray:
    r = np.sqrt(5) * distance / length_scale
    return (1 + r + r**2 / 3) * np.exp(-r)


class Density:
    """Log density of (log length-scale, log noise ratio) with what follows from them."""

    def __init__(self, x: np.ndarray, z: np.ndarray, arguments: dict[str, float]) -> None:
        self.x, self.z, self.given = x, z, arguments
        self.distance = np.sqrt(((x[:, None] - x) ** 2).sum(axis=-1))
        self.middle = float(np.log(np.median(self.distance[np.triu_indices(len(x), 1)])))
        self.shape = arguments["signal_variance_shape"] + z.size / 2

    def factor(self, a: float, b: float) -> np.ndarray:
        return cholesky(matern(self.distance, np.exp(a)) + np.exp(b) * np.eye(len(self.x)), lower=True)

    def scale(self, factor: np.ndarray) -> float:
        """Scale of the inverse gamma law of the signal variance."""
        return self.given["signal_variance_scale"] + 0.5 * float((self.z * cho_solve((factor, True), self.z)).sum())

    def at(self, a: float, b: float) -> tuple[float, float]:
        """Log density, and the scale of the signal variance."""
        factor = self.factor(a, b)
        scale = self.scale(factor)
        log_density = (
            norm.logpdf(a, self.middle, self.given["length_scale_log_sd"])
            + norm.logpdf(b, self.given["noise_ratio_log_mean"], self.given["noise_ratio_log_sd"])
            - self.z.shape[1] * np.log(np.diag(factor)).sum()
            - self.shape * np.log(scale)
        )
        return float(log_density), scale

    def proba(self, a: float, b: float, variance: float, new: np.ndarray) -> np.ndarray:
        """Class probabilities ``(3,)`` at one row of features."""
        factor = self.factor(a, b)
        k = matern(np.sqrt(((self.x - new) ** 2).sum(axis=1)), np.exp(a))
        weight = cho_solve((factor, True), k)
        mean, spread = weight @ self.z, variance * (1 + np.exp(b) - weight @ k)
        out = []
        for y in range(3):
            edges = np.array([VERTICES[y] - VERTICES[k] for k in range(3) if k != y])
            out.append(multivariate_normal.cdf(edges @ mean, cov=spread * edges @ edges.T, abseps=1e-10))
        return np.array(out)


def summaries(target: Density, step: float, reach: float, size: int) -> dict[str, dict[str, float]]:
    """Mean, standard deviation and quantiles of the parameters' logs, means of class probabilities."""
    mode = minimize(lambda t: -target.at(*t)[0], [target.middle, -2.0], method="Nelder-Mead").x
    a = mode[0] + np.arange(-reach, reach + step / 2, step)
    b = mode[1] + 3 * np.arange(-reach, reach + step / 2, step)
    table = np.array([[target.at(s, t) for t in b] for s in a])
    weight = np.exp(table[..., 0] - table[..., 0].max())
    weight /= weight.sum()
    scale = table[..., 1]
    found = {}
    for name, values, marginal in (("length_scale", a, weight.sum(axis=1)), ("noise_ratio", b, weight.sum(axis=0))):
        mean = float(marginal @ values)
        cdf = make_interp_spline(values, marginal, k=5).antiderivative()
        total = cdf(values[-1])
        found[f"log({name})"] = {
            "mean": mean,
            "sd": float(np.sqrt(marginal @ (values - mean) ** 2)),
            **{
                q: brentq(lambda v, p=p, cdf=cdf, total=total: cdf(v) / total - p, values[0], values[-1])
                for q, p in QUANTILES.items()
            },
        }
    # moments of log s ~ -log Gamma: by the trapezoid rule in the standard inverse gamma's log
    t = np.linspace(-2.5, 2.5, 2001)
    law = invgamma(target.shape)
    base = np.exp(law.logpdf(np.exp(t) / target.shape) + t)
    base /= base.sum()
    shift = np.log(scale / target.shape)
    first, second = base @ t, base @ t**2
    mean = float((weight * (shift + first)).sum())
    square = float((weight * (shift**2 + 2 * shift * first + second)).sum())

    def cdf_of_log(value: float) -> float:
        return float((weight * law.cdf(np.exp(value) / scale)).sum())

    found["log(signal_variance)"] = {
        "mean": mean,
        "sd": float(np.sqrt(square - mean**2)),
        **{q: brentq(lambda v, p=p: cdf_of_log(v) - p, mean - 6, mean + 6, xtol=1e-12) for q, p in QUANTILES.items()},
    }
    live = np.argwhere(weight > 1e-7 * weight.max())
    levels = (np.arange(size) + 0.5) / size
    for new in NEW:
        mean_proba = np.zeros(3)
        for i, j in live:
            for level in levels:
                variance = float(scale[i, j] * law.ppf(level))
                mean_proba += weight[i, j] / size * target.proba(a[i], b[j], variance, np.array(new))
        found[f"proba({new[0]},{new[1]})"] = {str(k): float(p) for k, p in enumerate(mean_proba)}
    return found


def main() -> None:
    """Write `casimac.json`, or stop if halving the steps changes a number."""
    made = data()
    target = Density(np.array(made["x"]), np.array(made["z"]), ARGUMENTS)
    coarse, fine = summaries(target, 0.1, 2.5, 10), summaries(target, 0.05, 3.0, 20)
    change = max(abs(fine[name][key] - coarse[name][key]) for name in fine for key in fine[name])
    assert change <= CHANGE_MAX, f"halving the steps changes a number by {change:.1g}"
    posterior = {"arguments": ARGUMENTS, "method": "quadrature", "change": change, "functionals": fine}
    write(HERE / "casimac.json", {**made, "posterior": posterior})


if __name__ == "__main__":
    main()
