"""Is CASIMAC better calibrated when its latents are unknown, and the labels say only in which cones they lie?

    python tests/studies/casimac_generative.py --repeats 5 --sizes 40 100 --out tests/studies/results/casimac_generative
    python tests/studies/casimac_generative.py --check

Truths, test cases and measures are those of `casimac_coverage.py`; both classifiers see the same data sets. The model
is `models/casimac_generative.py`, sampled by Gibbs steps on its augmented form:

    v_ik = p_k . f_i + tau e_ik,      tau^2 = C / (C - 1),      y_i = argmax_k v_ik
    z_i = sum_k p_k v_ik / tau^2 ~ Normal(f_i, I),      z_j ~ MvNormal(0, amplitude^2 K + I)

Each sweep draws v given f (truncated normal laws), moves length-scale and amplitude given z with f integrated out,
draws f given z, and moves length-scale and amplitude once more, with f / amplitude in units of K^(1/2) held and v
integrated out. Length-scales are those of a fine grid, whose decompositions are computed once. `--check` compares means
of class probabilities with those of NUTS on the specification. log_loss is the mean over test cases of
-sum_y p_y log q_y with the true p; r_hat is the largest of log length-scale, log amplitude and the latents of ten test
cases.
"""

import argparse
import importlib.util
import platform
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from casimac_coverage import TRUTHS, draw_data, measures
from provenance import current_commit
from scipy.spatial.distance import cdist

import bayescal as bc
from bayescal.casimac.cones import cone_probabilities
from bayescal.casimac.simplex import simplex_vertices

LENGTH_SCALE_LOG_SD, AMPLITUDE_SD, JITTER = 1.0, 3.0, 1e-6  # the defaults of models/casimac_generative.py
REACH, GRID = 3.5, 71  # log length-scales: so many standard deviations of the prior to both sides, so many nodes
CHAINS, WARM_UP, SWEEPS, KEPT = 2, 500, 1000, 100  # of each chain


def matern52(r: np.ndarray) -> np.ndarray:
    r = np.sqrt(5) * r
    return (1 + r + r**2 / 3) * np.exp(-r)


@numba.njit(cache=True)
def beyond(c: float, rng: np.random.Generator) -> float:
    """A standard normal variable above c: Robert (1995)."""
    if c < 0.3:
        while True:
            x = rng.standard_normal()
            if x > c:
                return x
    rate = 0.5 * (c + np.sqrt(c * c + 4))
    while True:
        x = c + rng.standard_exponential() / rate
        if rng.random() < np.exp(-0.5 * (x - rate) ** 2):
            return x


@numba.njit(cache=True)
def draw_utilities(v: np.ndarray, mean: np.ndarray, codes: np.ndarray, sd: float, rng: np.random.Generator) -> None:
    """One pass, in place, over v ``(n, C)`` of which the label's is the largest."""
    n, classes = v.shape
    for i in range(n):
        own = codes[i]
        largest = -np.inf
        for k in range(classes):
            if k != own:
                largest = max(largest, v[i, k])
        v[i, own] = mean[i, own] + sd * beyond((largest - mean[i, own]) / sd, rng)
        for k in range(classes):
            if k != own:
                v[i, k] = mean[i, k] - sd * beyond((mean[i, k] - v[i, own]) / sd, rng)


@dataclass
class Draws:
    """Of every chain: places of the length-scale on the grid, amplitudes, latents with noise."""

    place: np.ndarray  # (chain, draw)
    amplitude: np.ndarray  # (chain, draw)
    z: np.ndarray  # (chain, draw, n, q)


class Generative:
    """Posterior of the generative model by Gibbs sampling."""

    def __init__(self, x: np.ndarray, codes: np.ndarray, seed: int) -> None:
        self.mean, self.scale = x.mean(axis=0), x.std(axis=0)
        self.x, self.codes = (x - self.mean) / self.scale, codes
        self.vertices = simplex_vertices(codes.max() + 1)
        distance = cdist(self.x, self.x)
        middle = np.median(distance[np.triu_indices(len(x), 1)])
        offset = np.linspace(-REACH, REACH, GRID)
        self.log_length = np.log(middle) + LENGTH_SCALE_LOG_SD * offset
        self.log_prior = -0.5 * offset**2
        found = [np.linalg.eigh(matern52(distance / length)) for length in np.exp(self.log_length)]
        self.values = np.stack([np.maximum(values, 0) + JITTER for values, _ in found])
        self.vectors = np.stack([vectors for _, vectors in found])
        self.draws = self.sample(seed)

    def sample(self, seed: int) -> Draws:
        kept = [self.chain(np.random.default_rng([seed, chain])) for chain in range(CHAINS)]
        return Draws(*(np.stack(parts) for parts in zip(*kept, strict=True)))

    def prior(self, place: int, log_amplitude: float) -> float:
        """Log density of log length-scale and log amplitude; of places off the grid 0."""
        if not 0 <= place < GRID:
            return -np.inf
        return float(self.log_prior[place] + log_amplitude - 0.5 * (np.exp(log_amplitude) / AMPLITUDE_SD) ** 2)

    def of_latents(self, place: int, log_amplitude: float, z: np.ndarray) -> float:
        """Log density of z, f integrated out."""
        variance = np.exp(2 * log_amplitude) * self.values[place] + 1
        squares = ((self.vectors[place].T @ z) ** 2).sum(axis=1)
        return float(-0.5 * (z.shape[1] * np.log(variance).sum() + (squares / variance).sum()))

    def of_labels(self, f: np.ndarray) -> float:
        """Log probability of the labels, v integrated out."""
        p = cone_probabilities(f, np.ones(len(f)), self.vertices)
        return float(np.log(np.maximum(p[np.arange(len(f)), self.codes], 1e-300)).sum())

    def chain(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, q = len(self.x), self.vertices.shape[1]
        tau2 = (q + 1) / q
        place, log_a = GRID // 2 + int(rng.integers(-10, 11)), rng.normal(0.5, 0.5)
        f, v = self.vertices[self.codes] * 0.5, self.vertices[self.codes] @ self.vertices.T
        out: tuple[list[int], list[float], list[np.ndarray]] = ([], [], [])
        for sweep in range(-WARM_UP, SWEEPS):
            draw_utilities(v, f @ self.vertices.T, self.codes, np.sqrt(tau2), rng)
            z = v @ self.vertices / tau2
            at = self.of_latents(place, log_a, z) + self.prior(place, log_a)
            for size in (1.0, 0.4, 0.15):
                other = place + round(10 * size * rng.normal())
                log_b = log_a + size * rng.normal()
                if (prior := self.prior(other, log_b)) > -np.inf:
                    new = self.of_latents(other, log_b, z) + prior
                    if np.log(rng.random()) < new - at:
                        place, log_a, at = other, log_b, new
            variance = np.exp(2 * log_a) * self.values[place][:, None]
            share = variance / (variance + 1)
            along = share * (self.vectors[place].T @ z) + np.sqrt(share) * rng.normal(size=(n, q))
            f = self.vectors[place] @ along
            raw = self.vectors[place] @ (along / np.sqrt(variance))
            at = self.of_labels(f) + self.prior(place, log_a)
            for size in (0.5, 0.15):
                other = place + round(10 * size * rng.normal())
                log_b = log_a + size * rng.normal()
                if (prior := self.prior(other, log_b)) > -np.inf:
                    root = np.exp(log_b) * np.sqrt(self.values[other])[:, None]
                    moved = self.vectors[other] @ (root * (self.vectors[other].T @ raw))
                    new = self.of_labels(moved) + prior
                    if np.log(rng.random()) < new - at:
                        place, log_a, at, f = other, log_b, new, moved
            if sweep >= 0 and (sweep + 1) % (SWEEPS // KEPT) == 0:
                # f has moved; v anew makes z, from which predictions are made, a draw that goes with it
                draw_utilities(v, f @ self.vertices.T, self.codes, np.sqrt(tau2), rng)
                for kept, value in zip(out, (place, np.exp(log_a), v @ self.vertices / tau2), strict=True):
                    kept.append(value)
        return np.array(out[0]), np.array(out[1]), np.stack(out[2])

    def predict(self, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Class probabilities ``(m, C)``, draws ``(S, m, C)`` of them, latents ``(S, m, q)``; S = chains x draws."""
        cross = cdist((x - self.mean) / self.scale, self.x)
        place, amplitude = self.draws.place.ravel(), self.draws.amplitude.ravel()
        z = self.draws.z.reshape(-1, *self.draws.z.shape[2:])
        proba = np.zeros((len(x), len(self.vertices)))
        latents = np.empty((len(place), len(x), z.shape[2]))
        draws = np.empty((len(place), *proba.shape))
        for i in np.unique(place):
            along = matern52(cross * np.exp(-self.log_length[i])) @ self.vectors[i]
            for s in np.flatnonzero(place == i):
                a2 = amplitude[s] ** 2
                inverse = 1 / (a2 * self.values[i] + 1)
                mean = a2 * along @ (inverse[:, None] * (self.vectors[i].T @ z[s]))
                left = a2 * np.maximum(1 + JITTER - a2 * along**2 @ inverse, 0)
                proba += cone_probabilities(mean, np.sqrt(left + 1), self.vertices) / len(place)
                latents[s] = mean + np.sqrt(left)[:, None] * rng.normal(size=mean.shape)
                draws[s] = cone_probabilities(latents[s], np.ones(len(x)), self.vertices)
        return proba, draws, latents


def worst_r_hat(fit: Generative, latents: np.ndarray) -> float:
    """Of log length-scale, log amplitude and the latents ``(S, m, q)`` of the first ten rows."""
    shape = fit.draws.place.shape
    few = latents[:, :10].reshape(*shape, -1)
    values = [fit.log_length[fit.draws.place], np.log(fit.draws.amplitude), *np.moveaxis(few, -1, 0)]
    return max(float(array_stats.rhat(value, chain_axis=0, draw_axis=1)) for value in values)


def rows(repeats: int, sizes: list[int], seed: int) -> Iterator[dict[str, Any]]:
    for repeat in range(repeats):
        for n in sizes:
            for name, (role, _) in TRUTHS.items():
                if (data := draw_data(seed, name, n, repeat)) is None:
                    continue
                x, y, new, truth = data
                entropy = -(truth * np.log(np.maximum(truth, 1e-300))).sum(axis=1).mean()
                for method in ("CASIMAC", "generative"):
                    start, r_hat = time.process_time(), np.nan
                    if method == "CASIMAC":
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore", bc.ConvergenceWarning)
                            clf = bc.CASIMACClassifier(draws=500, random_state=repeat).fit(x, y)
                        proba, interval = clf.predict_proba(new), clf.predict_interval(new)
                        lower, upper = interval[..., 0], interval[..., 1]
                    else:
                        fit = Generative(x, y, repeat)
                        proba, draws, latents = fit.predict(new, np.random.default_rng(repeat))
                        lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
                        r_hat = worst_r_hat(fit, latents)
                    found = measures(proba, lower, upper, truth)
                    yield {
                        "truth": name,
                        "role": role,
                        "n": n,
                        "repeat": repeat,
                        "method": method,
                        **found,
                        "log_loss": found["kl"] + entropy,
                        "r_hat": r_hat,
                        "cpu_s": time.process_time() - start,
                    }
        print(repeat, n, flush=True)


def summary(table: pd.DataFrame) -> list[str]:
    """Means of both methods, for each truth and for each role, and of their differences on the same data sets."""
    columns = ["coverage", "inside", "width", "kl", "log_loss", "gap", "cpu_s"]
    pairs = table.pivot(index=["role", "truth", "n", "repeat"], columns="method", values=["coverage", "kl", "width"])
    change = pd.DataFrame(
        {key: pairs[key]["generative"] - pairs[key]["CASIMAC"] for key in ("coverage", "kl", "width")}
    )
    by_n = change.groupby("n").agg(["mean", "sem"])
    by_n.columns = [f"{key} {kind}" for key, kind in by_n.columns]
    by_n.insert(0, "data_sets", change.groupby("n").size())
    return [
        table.groupby(["n", "role", "truth", "method"], sort=False)[columns].mean().round(3).to_string(),
        table.groupby(["n", "role", "method"])[columns].mean().round(3).to_string(),
        table.groupby(["n", "method"])[columns].mean().round(3).to_string(),
        "generative less CASIMAC, on the same data sets\n" + by_n.round(4).to_string(),
        "largest r_hat of the generative model by n\n" + table.groupby("n")["r_hat"].max().round(3).to_string(),
    ]


def check(seed: int) -> list[str]:
    """Means of class probabilities at the training cases, and of both hyperparameters, beside NUTS."""
    import pymc as pm

    path = Path(__file__).parents[2] / "models" / "casimac_generative.py"
    spec = importlib.util.spec_from_file_location("specification", path)
    assert spec is not None and spec.loader is not None
    specification = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(specification)
    out = []
    for name in ("slope, 2 classes", "corners, 4 classes"):
        data = draw_data(seed, name, 40, 0)
        assert data is not None
        x, y = data[:2]
        gibbs = Generative(x, y, seed)
        start = time.process_time()
        with specification.model(gibbs.x, y):
            nuts = pm.sample(1000, tune=1000, chains=4, cores=1, target_accept=0.9, random_seed=seed, progressbar=False)
        took = time.process_time() - start
        worst_ess, worst = np.inf, 0.0
        for value in nuts.posterior.data_vars.values():
            for series in np.moveaxis(value.values.reshape(4, 1000, -1), -1, 0):
                worst_ess = min(worst_ess, float(array_stats.ess(series, chain_axis=0, draw_axis=1)))
                worst = max(worst, float(array_stats.rhat(series, chain_axis=0, draw_axis=1)))
        divergent = int(nuts.sample_stats["diverging"].sum())
        length, amplitude = (nuts.posterior[key].values.ravel() for key in ("length_scale", "amplitude"))
        distance = cdist(gibbs.x, gibbs.x)
        axes = np.linalg.svd(np.eye(y.max() + 1) - 1 / (y.max() + 1))[0][:, : y.max()]
        raw = nuts.posterior["raw"].values.reshape(len(length), len(y), -1)
        each = []
        for s in range(0, len(length), 4):
            factor = np.linalg.cholesky(matern52(distance / length[s]) + JITTER * np.eye(len(y)))
            f = amplitude[s] * factor @ raw[s]
            each.append(cone_probabilities(f, np.ones(len(y)), axes * np.sqrt((y.max() + 1) / y.max())))
        off = np.abs(gibbs.predict(x, np.random.default_rng(seed))[0] - np.mean(each, axis=0)).max()
        pairs = (
            (np.log(length), gibbs.log_length[gibbs.draws.place]),
            (np.log(amplitude), np.log(gibbs.draws.amplitude)),
        )
        compared = "; ".join(
            f"log {key} {a.mean():.3f} ({a.std():.3f}) and {b.mean():.3f} ({b.std():.3f})"
            for key, (a, b) in zip(("length_scale", "amplitude"), pairs, strict=True)
        )
        out.append(
            f"{name}, 40 cases: NUTS {took:.0f} s, {divergent} divergences, R-hat {worst:.3f}, ESS {worst_ess:.0f}. "
            f"NUTS and Gibbs, mean (sd): {compared}; largest difference of mean probabilities {off:.4f}"
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 100, 300])
    parser.add_argument("--seed", type=int, default=20261203)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.check:
        print("\n".join(check(asked.seed)))
        return
    commit, found = current_commit(), []
    path = None if asked.out is None else asked.out.with_suffix(".csv")
    old = pd.read_csv(path) if path is not None and path.exists() else None
    table = old if old is not None else pd.DataFrame()
    for row in rows(asked.repeats, asked.sizes, asked.seed):
        found.append(row)
        table = pd.concat([old, pd.DataFrame(found)])  # new fits take the place of old ones
        table = table.drop_duplicates(["truth", "n", "repeat", "method"], keep="last")
        if path is not None:  # a run that is stopped leaves what it has
            table.round(5).to_csv(path, index=False)
    head = (
        f"casimac_generative.py, {commit}, {date.today()}, Python {platform.python_version()}, seed {asked.seed}, "
        f"{CHAINS} x {SWEEPS} sweeps after {WARM_UP}"
    )
    text = "\n\n".join([head, *summary(table)])
    print(text)
    if path is not None:
        path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
