"""Reference posteriors of the two models of class proportions, by quadrature: NumPy and SciPy only, no sampling.

    uv run python models/reference/proportions.py          # writes label_shift.json and confusion.json

Both models have up to three unknowns once they are written in log-odds, where the integrand is analytic and falls off
exponentially, so that the trapezoid rule converges faster than any power of its step:

    label_shift, three classes: t = logit q_i and u = logit of the share of the next class in the rest; the Dirichlet
        prior is Beta(a, 2 a) of q_i times Beta(a, a) of the share
    confusion, two classes: logits of q_1, M_11 and M_22; p, which nothing but the source labels informs, is exactly
        Beta, and summed up in the same way

The marginal density of t gives means, standard deviations and quantiles of a proportion. Every integral is made twice,
the second time with half the steps in ranges 1.2 times as long. `CHANGE_MAX` is the acceptance rule: no summary may
change by more than that. Prior settings are the defaults of the specifications.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from make_reference import write
from scipy.interpolate import make_interp_spline
from scipy.optimize import brentq
from scipy.special import expit, log_expit

HERE = Path(__file__).parent
CHANGE_MAX = 1e-6
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
REACH = 60.0  # of a logit whose tail falls off like exp(-|t| / 2)

Marginal = Callable[[float, float], tuple[np.ndarray, np.ndarray]]  # step and stretch -> t and the density there


def label_shift_data() -> dict[str, Any]:
    """40 cases of three classes, from an additive sequence, and five labels."""
    i = np.arange(1, 41)
    root = 1.2207440846057596  # of g^4 = g + 1
    logits = np.column_stack([4 * (i / root % 1) - 1, 4 * (i / root**2 % 1) - 2, 3 * (i / root**3 % 1) - 2.5])
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return {
        "origin": "i = 1..40: softmax of (4 frac(i / g) - 1, 4 frac(i / g^2) - 2, 3 frac(i / g^3) - 2.5); g^4 = g + 1, "
        "g > 0",
        "proba": [[float(f"{p:.10g}") for p in row] for row in proba],
        "source": [0.2, 0.5, 0.3],
        "labelled": [3, 0, 2],
    }


def confusion_data() -> dict[str, Any]:
    """Counts of two classes, one of which is often taken for the other."""
    return {"origin": "made up", "source": [[18, 3], [4, 9]], "target": [22, 43], "labelled": [1, 3]}


def share_of_label_shift(data: dict[str, Any], given: dict[str, Any], i: int) -> Marginal:
    """Density of the logit of q_i."""
    ratios = np.array(data["proba"]) / np.array(data["source"])
    order = [i, (i + 1) % 3, (i + 2) % 3]
    shape = given["concentration"] + np.array(data["labelled"])[order]
    ratios = ratios[:, order]

    def marginal(step: float, stretch: float) -> tuple[np.ndarray, np.ndarray]:
        t = np.arange(-REACH * stretch, REACH * stretch, step)
        u = t[None, :]
        log_density = (
            shape[0] * log_expit(t[:, None])
            + (shape[1] + shape[2]) * log_expit(-t[:, None])
            + shape[1] * log_expit(u)
            + shape[2] * log_expit(-u)
        )
        q, rest = expit(t)[:, None], expit(-t)[:, None]
        for row in ratios:
            log_density = log_density + np.log(row[0] * q + rest * (row[1] * expit(u) + row[2] * expit(-u)))
        return t, np.exp(log_density - log_density.max()).sum(axis=1)

    return marginal


def share_of_confusion(data: dict[str, Any], given: dict[str, Any]) -> Marginal:
    """Density of the logit of q_1."""
    shape = given["concentration"] + np.array(data["labelled"])
    cells = given["spread"] / 2 + np.array(data["source"])
    target = data["target"]

    def marginal(step: float, stretch: float) -> tuple[np.ndarray, np.ndarray]:
        t = np.arange(-REACH * stretch, REACH * stretch, step)
        u = np.arange(-10 * stretch, 10 * stretch, 2 * step)
        first, second = u[:, None], u[None, :]
        prior = cells[0, 0] * log_expit(-first) + cells[0, 1] * log_expit(first)
        prior = prior + cells[1, 0] * log_expit(-second) + cells[1, 1] * log_expit(second)
        density = np.empty(len(t))
        for k, (q1, q0) in enumerate(zip(expit(t), expit(-t), strict=True)):
            r1 = q0 * expit(first) + q1 * expit(second)
            r0 = q0 * expit(-first) + q1 * expit(-second)
            value = prior + target[0] * np.log(r0) + target[1] * np.log(r1)
            density[k] = np.exp(value + shape[0] * np.log(q0) + shape[1] * np.log(q1) + 100).sum()
        return t, density

    return marginal


def summaries(marginal: Marginal, step: float) -> dict[str, float]:
    """Mean, standard deviation and quantiles of the proportion, checked by a second integration."""
    first, second = (_summaries(*marginal(*how)) for how in ((step, 1.0), (step / 2, 1.2)))
    change = max(abs(first[key] - second[key]) for key in first)
    assert change <= CHANGE_MAX, f"halving the step changes a summary by {change:.1g}"
    return {key: float(f"{value:.10g}") for key, value in second.items()}


def _summaries(t: np.ndarray, density: np.ndarray) -> dict[str, float]:
    density = density / density.sum()
    q = expit(t)
    mean = float(density @ q)
    cumulative = make_interp_spline(t, density, k=5).antiderivative()
    total = cumulative(t[-1]) - cumulative(t[0])
    found = {"mean": mean, "sd": float(np.sqrt(density @ (q - mean) ** 2))}
    for key, share in QUANTILES.items():
        level = cumulative(t[0]) + share * total
        found[key] = float(expit(brentq(lambda x, level=level: cumulative(x) - level, t[0], t[-1], xtol=1e-12)))
    return found


def beta_summaries(a: float, b: float) -> dict[str, float]:
    """Of a Beta variable."""
    return summaries(lambda step, stretch: _beta(np.arange(-REACH * stretch, REACH * stretch, step), a, b), 0.05)


def _beta(t: np.ndarray, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    return t, np.exp(a * log_expit(t) + b * log_expit(-t))


def main() -> None:
    """Compute both."""
    data, given = label_shift_data(), {"concentration": 0.5}
    found = {f"q[{i}]": summaries(share_of_label_shift(data, given, i), 0.1) for i in range(3)}
    write(HERE / "label_shift.json", {**data, "arguments": given, "functionals": found})
    data, given = confusion_data(), {"concentration": 0.5, "spread": 1.0}
    labels = np.array(data["source"]).sum(axis=1) + given["concentration"]
    found = {"q[1]": summaries(share_of_confusion(data, given), 0.1), "p[1]": beta_summaries(labels[1], labels[0])}
    write(HERE / "confusion.json", {**data, "arguments": given, "functionals": found})


if __name__ == "__main__":
    main()
