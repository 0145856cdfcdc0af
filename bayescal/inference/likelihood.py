"""The observed variables of the models, which hold for whole and fractional counts (sample weights) alike."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pytensor.tensor as pt

SMALLEST = 1e-300  # of a probability whose log is taken: no weight times log 0 becomes NaN


def counts_given_log_odds(log_odds: "pt.TensorVariable", positives: Any, totals: Any) -> None:
    """Add the observed variable ``y``, positives among the cases at each distinct score (dim ``score``).

    With k of n cases positive, log p(k) = k eta - n log(1 + exp(eta)) up to a constant that no parameter enters.
    """
    import pymc as pm
    import pytensor.tensor as pt

    def logp(k: Any, eta: Any, n: Any) -> Any:
        return k * eta - n * pt.softplus(eta)

    def draw(eta: np.ndarray, n: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        proba = 1 / (1 + np.exp(-eta))
        return rng.binomial(np.round(n).astype(np.int64), proba, size=size).astype(np.float64)

    pm.CustomDist("y", log_odds, totals, logp=logp, random=draw, observed=positives, dims="score")


def counts_given_scaling(x: Any, scale: Any, bias: Any, counts: Any, totals: Any) -> None:
    """Add the observed variable ``y``, cases of each class at each distinct row of scores (dims ``score``, ``class``).

    The logits of row r are eta = scale x_r + bias, with `scale` and `bias` of each class ``(C,)``. With k of n cases in
    the classes, log p(k) = sum_j k_j eta_j - n log sum_j exp(eta_j) up to a constant that no parameter enters; the log
    density of ``y`` is the sum over all rows.
    """
    import pymc as pm

    from bayescal.inference.kernels.softmax import scaled_log_likelihood

    def logp(k: Any, rows: Any, a: Any, b: Any, n: Any) -> Any:
        return scaled_log_likelihood(rows, k, n, a, b)

    def draw(
        rows: np.ndarray, a: np.ndarray, b: np.ndarray, n: np.ndarray, rng: np.random.Generator, size: Any = None
    ) -> np.ndarray:
        eta = a * rows + b
        proba = np.exp(eta - eta.max(axis=-1, keepdims=True))
        proba /= proba.sum(axis=-1, keepdims=True)
        return rng.multinomial(np.round(n).astype(np.int64), proba, size=size).astype(np.float64)

    pm.CustomDist(
        "y",
        x,
        scale,
        bias,
        totals,
        logp=logp,
        random=draw,
        signature="(s,c),(c),(c),(s)->(s,c)",
        observed=counts,
        dims=("score", "class"),
    )


def outcomes_given_probability(probability: "pt.TensorVariable", outcome: Any, weight: Any) -> None:
    """Add the observed variable ``y``, the outcome of each cell (a distinct score with an outcome; dim ``cell``).

    `probability` is that of the outcome seen, to full precision; a cell of weight w stands for w cases:
    log p(y) = w log P(y).
    """
    import pymc as pm
    import pytensor.tensor as pt

    def logp(y: Any, p: Any, seen: Any, w: Any) -> Any:
        return w * pt.log(pt.maximum(pt.switch(pt.eq(y, seen), p, 1 - p), SMALLEST))

    def draw(p: np.ndarray, seen: np.ndarray, w: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        del w
        return np.where(rng.random(size) < p, seen, 1 - seen)

    pm.CustomDist("y", probability, outcome, weight, logp=logp, random=draw, observed=outcome, dims="cell")
