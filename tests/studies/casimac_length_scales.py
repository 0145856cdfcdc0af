"""Does a length-scale for each feature help CASIMAC, and do its intervals hold?

    python tests/studies/casimac_length_scales.py --repeats 8 --out tests/studies/results/casimac_length_scales

Features are independent standard normal; labels are drawn from softmax probabilities of the first features, and the
others are useless. On the truths called "design" the prior's standard deviation (0.5; 1 was compared) and the weights
of transformations and spreads were chosen, with other seeds: from leave-one-out with the shared length-scale, with the
length-scales of all cases, or of the cases outside each of five folds; held-out log losses were the same within noise.
The truths called "judged" had no part in any choice. Every data set has 500 test cases.

    shared, each        CASIMACClassifier as it comes, and with length_scales="each"; 2 chains of 250 draws
    .. point            the same with inference="point"
    .. ML-II            flat priors, spread 1, gamma = 0.9, k = 1: maximum likelihood, one length-scale or one a feature

excess is the mean Kullback-Leibler divergence of predict_proba from the true probabilities: expected log loss less that
of the truth. coverage is that of all classes' 90 % intervals, inside where 0.05 < p < 0.95; a probability within 0.001
of an interval counts as held. gap is mean confidence less mean true probability of the class that is predicted. Rows
are written after each repeat, so that a run may be stopped.
"""

import argparse
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from provenance import current_commit
from scipy.special import softmax

import bayescal as bc

SLACK = 1e-3
TEST_CASES = 500
SIZES = (60, 150)
FLAT = {
    "length_scale_log_sd": 100.0,
    "feature_log_sd": 100.0,
    "noise_ratio_log_sd": 100.0,
    "signal_variance_shape": 1e-3,
    "signal_variance_scale": 1e-3,
}
NUTS = {"draws": 250, "tune": 250, "chains": 2}
POINT = {"inference": "point"}
ML_II = {"gamma": 0.9, "k_alpha": 1, "k_beta": 1, "spread": 1, "priors": FLAT, **POINT}
METHODS = {
    f"{length_scales}{name}": {"length_scales": length_scales, **settings}
    for name, settings in (("", NUTS), (" point", POINT), (" ML-II", ML_II))
    for length_scales in ("shared", "each")
}

Truth = Callable[[np.ndarray], list[np.ndarray]]  # logits of the classes from features, by column
# role, useful features, useless ones, logits
TRUTHS: dict[str, tuple[str, int, int, Truth]] = {
    "wave": ("design", 2, 8, lambda x: [0 * x[0], 3 * x[0] + 2 * np.sin(2 * x[1])]),
    "planes, 3 classes": ("design", 2, 8, lambda x: [2 * x[0], -x[0] + 1.5 * x[1], -1.5 * x[1]]),
    "wave, bare": ("design", 2, 0, lambda x: [0 * x[0], 3 * x[0] + 2 * np.sin(2 * x[1])]),
    "sum of ten": ("design", 10, 0, lambda x: [0 * x[0], 4 * x.sum(axis=0) / np.sqrt(10)]),
    "five, curved": (
        "design",
        5,
        0,
        lambda x: [
            0 * x[0],
            3 * x.sum(axis=0) / np.sqrt(5) + 1.5 * np.sin(x[0] + x[1]) + 1.5 * np.cos(2 * x[2]) - 0.7,
        ],
    ),
    "ring": ("judged", 2, 6, lambda x: [0 * x[0], 2 * (x[0] ** 2 + x[1] ** 2) - 3]),
    "slope": ("judged", 1, 9, lambda x: [0 * x[0], 2.5 * x[0] - 0.5]),
    "bands, 3 classes": ("judged", 2, 5, lambda x: [-2 - 3 * x[0], x[1], 3 * x[0] - 2]),
    "bowl of four": ("judged", 4, 0, lambda x: [0 * x[0], 2 * ((x**2).sum(axis=0) - 3.4)]),
    "sum of eight": ("judged", 8, 0, lambda x: [0 * x[0], 1.4 * x.sum(axis=0)]),
    "rare, 4 classes": ("judged", 2, 0, lambda x: [1.5 * x[0], 1.5 * x[1], -1.5 * x[0] * x[1], -1.0 + x[0] - x[1]]),
}


def data_set(name: str, n: int, seed: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Features, labels, features of test cases and their probabilities; None where a class has fewer than 3 cases."""
    _, useful, useless, logits = TRUTHS[name]
    rng = np.random.default_rng([seed[0], list(TRUTHS).index(name), n, seed[1]])
    x, new = rng.normal(size=(n, useful + useless)), rng.normal(size=(TEST_CASES, useful + useless))
    p, of_new = (softmax(np.stack(logits(part.T[:useful]), axis=1), axis=1) for part in (x, new))
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return None if np.bincount(y, minlength=p.shape[1]).min() < 3 else (x, y, new, of_new)


def rows(repeat: int, seed: int, sizes: list[int], roles: list[str]) -> Iterator[dict[str, Any]]:
    """One row for each truth, size and method."""
    for name, (role, useful, useless, _) in TRUTHS.items():
        for n in sizes:
            drawn = data_set(name, n, (seed, repeat))
            if drawn is None or role not in roles:
                continue
            x, y, new, of_new = drawn
            for method, settings in METHODS.items():
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    clf = bc.CASIMACClassifier(random_state=repeat, **settings).fit(x, y)
                took = time.process_time() - began
                found = clf.predict_proba(new)
                best = found.argmax(axis=1)
                row = {
                    "role": role,
                    "truth": f"{name} ({useful} + {useless})",
                    "useless": useless > 0,
                    "n": n,
                    "repeat": repeat,
                    "method": method,
                    "excess": (of_new * np.log(of_new / np.maximum(found, 1e-15))).sum(axis=1).mean(),
                    "gap": found.max(axis=1).mean() - of_new[np.arange(len(new)), best].mean(),
                    "fit_cpu_s": took,
                }
                if clf.inference == "nuts":
                    lower, upper = np.moveaxis(clf.predict_interval(new), -1, 0)
                    held = (of_new >= lower - SLACK) & (of_new <= upper + SLACK)
                    row |= {"coverage": held.mean(), "inside": held[(of_new > 0.05) & (of_new < 0.95)].mean()}
                    row["width"] = (upper - lower).mean()
                yield row


def report(table: pd.DataFrame) -> str:
    """Means of excess log loss, differences of each to shared, coverage."""
    cell = ["role", "truth", "n"]
    group = ["role", "useless", "n"]
    parts = []
    for keys in (cell, group):
        pairs = table.pivot_table(index=[*dict.fromkeys([*cell, *keys]), "repeat"], columns="method", values="excess")
        means = pairs.groupby(level=keys)[list(METHODS)].mean()
        for name in ("", " point"):
            difference = (pairs[f"each{name}"] - pairs[f"shared{name}"]).groupby(level=keys)
            means[f"each - shared{name}"], means[f"se{name}"] = difference.mean(), difference.sem()
        means.insert(0, "data_sets", pairs.groupby(level=keys).size())
        parts.append("excess log loss\n" + means.round(4).to_string())
        of_nuts = table[table["method"].isin(["shared", "each"])]
        held = of_nuts.pivot_table(
            index=keys, columns="method", values=["coverage", "inside", "width", "gap", "fit_cpu_s"]
        )
        parts.append(held.round(3).to_string())
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--roles", nargs="+", default=["design", "judged"])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    head = f"casimac_length_scales.py, {current_commit()}, {date.today()}, Python {platform.python_version()}, "
    found: list[dict[str, Any]] = []
    for repeat in range(asked.repeats):
        found += rows(repeat, asked.seed, asked.sizes, asked.roles)
        table = pd.DataFrame(found)
        text = (
            f"{head}seed {asked.seed}, {repeat + 1} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n\n"
            + report(table)
        )
        if asked.out is not None:
            table.round(5).to_csv(asked.out.with_suffix(".csv"), index=False)
            asked.out.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")
        print(repeat, flush=True)
    print(text)


if __name__ == "__main__":
    main()
