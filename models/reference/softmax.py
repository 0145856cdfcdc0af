"""Posterior summaries of the scaling model's four members by elliptical slice sampling: NumPy only, no PyMC.

    uv run python models/reference/softmax.py       # writes three_classes.json, 2 minutes of one core

Every parameter is a function of independent standard normal variables w:

    temperature = exp(mean + sd w_0),      spread = sd |w_1|, ...,      scale_raw, bias_raw = the others

Sampler and acceptance rule are those of `elliptical.py`, importance sampling from the prior included; for temperature
scaling, whose one parameter a sum over a grid settles, tests compare with that sum too.
"""

from pathlib import Path
from typing import Any, NamedTuple

import elliptical
import gibbs
import numpy as np

AT = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.05, 0.9, 0.05]])
MEMBERS = {  # settings of `models/scaling.py` that leave a spread out
    "temperature": {"scale_spread_sd": 0.0, "bias_spread_sd": 0.0},
    "no-bias-vector": {"bias_spread_sd": 0.0},
    "bias-corrected-temperature": {"scale_spread_sd": 0.0},
    "vector": {},
}


class Scaling(NamedTuple):
    """Log probabilities of the cases and of the rows to summarise, and the prior."""

    x: np.ndarray  # (n, C)
    y: np.ndarray  # (n,) column numbers
    at: np.ndarray  # (m, C)
    arguments: dict[str, Any]

    @property
    def size(self) -> int:
        """How many standard normal variables there are."""
        return 1 + len(self.spreads) * (1 + self.x.shape[1])

    @property
    def spreads(self) -> tuple[str, ...]:
        """The spreads that the member has."""
        return tuple(name for name in ("scale_spread", "bias_spread") if self.arguments[f"{name}_sd"] > 0)


def scaling(scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]) -> Scaling:
    """The model of `scaling.py`, for rows without zeros."""
    return Scaling(np.log(scores), y, np.log(at), arguments)


def parameters(w: np.ndarray, model: Scaling) -> dict[str, np.ndarray]:
    """Temperature ``(k,)``, spreads ``(k,)``, scales and biases ``(k, C)``."""
    given, classes = model.arguments, model.x.shape[1]
    found = {"temperature": np.exp(given["temperature_log_mean"] + given["temperature_log_sd"] * w[:, 0])}
    raw = {"scale_spread": np.zeros((len(w), classes)), "bias_spread": np.zeros((len(w), classes))}
    for j, name in enumerate(model.spreads):
        first = 1 + j * (1 + classes)
        found[name] = given[f"{name}_sd"] * np.abs(w[:, first])
        raw[name] = found[name][:, None] * w[:, first + 1 : first + 1 + classes]
    return {**found, "scale": np.exp(raw["scale_spread"]) / found["temperature"][:, None], "bias": raw["bias_spread"]}


def log_q(x: np.ndarray, found: dict[str, np.ndarray]) -> np.ndarray:
    """Log probabilities ``(k, n, C)`` of rows ``(n, C)``."""
    eta = found["scale"][:, None] * x + found["bias"][:, None]
    top = eta.max(axis=2, keepdims=True)
    return eta - top - np.log(np.exp(eta - top).sum(axis=2, keepdims=True))


def log_likelihood(w: np.ndarray, model: Scaling) -> np.ndarray:
    """``(k,)``."""
    return log_q(model.x, parameters(w, model))[:, np.arange(len(model.y)), model.y].sum(axis=1)


def functionals(w: np.ndarray, model: Scaling) -> np.ndarray:
    """Log temperature, spreads, and q at the rows to summarise."""
    found = parameters(w, model)
    q = np.exp(log_q(model.at, found)).reshape(len(w), -1)
    return np.column_stack([np.log(found["temperature"]), *(found[name] for name in model.spreads), q])


def reference(
    scores: np.ndarray, y: np.ndarray, at: np.ndarray, arguments: dict[str, Any]
) -> tuple[dict[str, gibbs.Summary], gibbs.Summary]:
    """Summaries of every functional with their standard errors, and what the acceptance rule found."""
    model = scaling(scores, y, at, arguments)
    rng = np.random.default_rng(gibbs.SEED)
    how = (model, log_likelihood, functionals)
    draws = elliptical.slices(rng, *how)
    accepted = gibbs.check(draws, elliptical.importance(rng, *how))
    rows = [f"q({', '.join(f'{p:g}' for p in row)})[{k}]" for row in at for k in range(at.shape[1])]
    return gibbs.tabulate(("log(temperature)", *model.spreads, *rows), draws), accepted


def three_classes() -> dict[str, Any]:
    """Overconfident and biased probabilities of three classes; from an additive sequence in three dimensions."""
    i = np.arange(1, 61)
    root = 1.2207440846057596  # of g^4 = g + 1
    u = np.column_stack([i / root % 1, i / root**2 % 1, i / root**3 % 1])
    logits = np.column_stack([6 * u[:, 0] - 3, 6 * u[:, 1] - 3, np.zeros(60)])
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.exp(0.6 * logits + [0.5, 0.0, -0.5])
    y = (np.cumsum(truth, axis=1) / truth.sum(axis=1, keepdims=True) < u[:, 2:]).sum(axis=1)
    return {
        "origin": "i = 1..60: u = (frac(i / g), frac(i / g^2), frac(i / g^3)), g^4 = g + 1, g > 0; l = (6 u_1 - 3, "
        "6 u_2 - 3, 0), s = softmax(l), y the first k whose cumulative softmax(0.6 l + (0.5, 0, -0.5)) reaches u_3",
        "scores": scores.round(6).tolist(),
        "y": y.tolist(),
    }


def main() -> None:
    """Compute the posteriors of the four members."""
    import make_reference

    data = three_classes()
    defaults = make_reference.arguments("scaling")
    posteriors = {}
    for name, left_out in MEMBERS.items():
        given = {**defaults, **left_out}
        found, accepted = reference(np.array(data["scores"]), np.array(data["y"]), AT, given)
        posteriors[name] = {
            "method": "models/reference/softmax.py",
            "arguments": given,
            "accepted": accepted,
            "functionals": {
                label: {key: float(f"{value:.10g}") for key, value in summary.items()}
                for label, summary in found.items()
            },
        }
        print(name, accepted, flush=True)
    make_reference.write(Path(__file__).parent / "three_classes.json", {**data, "posteriors": posteriors})


if __name__ == "__main__":
    main()
