"""Do CASIMAC's 90 % intervals hold class probabilities that are known?

    python tests/studies/casimac_coverage.py --repeats 30 --seed 20261203 --out tests/studies/results/casimac_coverage

Features are standard normal in two dimensions; labels are drawn from softmax probabilities. On the truths called "seen"
the kind of interval was chosen, with other seeds: from hyperparameters alone (coverage 0.46 to 0.58 at 3 data sets of
a cell), from the process without its spread (0.62 to 0.82), or with it (0.78 to 0.94), which is what the library does.
The truths called "judged" had no part in any choice. A cell is a truth and a number of cases; data sets have 150 test
cases.

coverage is that of all classes' intervals, inside where 0.05 < p < 0.95; a probability within 0.001 of an interval
counts as held. width is the mean width, kl the mean Kullback-Leibler error of predict_proba, gap mean confidence less
mean true probability of the class that is predicted.
"""

import argparse
import platform
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
Truth = Callable[[np.ndarray, np.ndarray], list[np.ndarray]]  # logits of the classes from the two features

TRUTHS: dict[str, tuple[str, Truth]] = {
    "wave, 2 classes": ("seen", lambda a, b: [0 * a, 3 * a + 2 * np.sin(2 * b)]),
    "planes, 3 classes": ("seen", lambda a, b: [2 * a, -a + 1.5 * b, -1.5 * b]),
    "corners, 4 classes": ("seen", lambda a, b: [2 * (a + b), 2 * (b - a), -2 * (a + b), 2 * (a - b)]),
    "ring, 2 classes": ("judged", lambda a, b: [0 * a, 2 * (a**2 + b**2) - 3]),
    "slope, 2 classes": ("judged", lambda a, b: [0 * a, 1.2 * a - 0.6 * b - 0.5]),
    "bands, 3 classes": ("judged", lambda a, b: [-2 - 3 * a, 0 * a + 0.3 * b, 3 * a - 2]),
    "rare, 4 classes": ("judged", lambda a, b: [1.5 * a, 1.5 * b, -1.5 * a * b, -1.0 + a - b]),
}


def draw_data(
    seed: int, name: str, n: int, repeat: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Features and labels of n cases, features and class probabilities of test cases; None if a class has one case."""
    rng = np.random.default_rng([seed, list(TRUTHS).index(name), n, repeat])
    x, new = rng.normal(size=(n, 2)), rng.normal(size=(150, 2))
    p, of_new = (softmax(np.stack(TRUTHS[name][1](*part.T), axis=1), axis=1) for part in (x, new))
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return None if np.bincount(y, minlength=p.shape[1]).min() < 2 else (x, y, new, of_new)


def measures(found: np.ndarray, lower: np.ndarray, upper: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """What is reported of one fit; all arguments are ``(m, C)``."""
    held = (truth >= lower - SLACK) & (truth <= upper + SLACK)
    best = found.argmax(axis=1)
    return {
        "coverage": held.mean(),
        "inside": held[(truth > 0.05) & (truth < 0.95)].mean(),
        "width": (upper - lower).mean(),
        "kl": (truth * np.log(truth / np.maximum(found, 1e-15))).sum(axis=1).mean(),
        "gap": found.max(axis=1).mean() - truth[np.arange(len(truth)), best].mean(),
    }


def rows(repeats: int, sizes: list[int], seed: int) -> Iterator[dict[str, Any]]:
    for name, (role, _) in TRUTHS.items():
        for n in sizes:
            for repeat in range(repeats):
                if (data := draw_data(seed, name, n, repeat)) is None:
                    continue
                x, y, new, truth = data
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    clf = bc.CASIMACClassifier(draws=500, random_state=repeat).fit(x, y)
                lower, upper = np.moveaxis(clf.predict_interval(new), -1, 0)
                yield {
                    "truth": name,
                    "role": role,
                    "n": n,
                    **measures(clf.predict_proba(new), lower, upper, truth),
                    "not_converged": sum(issubclass(w.category, bc.ConvergenceWarning) for w in caught),
                }
            print(name, n, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 100, 300])
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    commit = current_commit()
    table = pd.DataFrame(rows(asked.repeats, asked.sizes, asked.seed))
    columns = ["coverage", "inside", "width", "kl", "gap", "not_converged"]
    cells = table.groupby(["role", "truth", "n"], sort=False)
    summary = cells[columns].mean()
    summary.insert(1, "se", cells["coverage"].sem())
    summary.insert(0, "data_sets", cells.size())
    whole = table.groupby(["role", "n"])[columns].mean()
    text = "\n\n".join(
        [
            f"casimac_coverage.py, {commit}, {date.today()}, Python {platform.python_version()}, seed {asked.seed}",
            summary.round(3).to_string(),
            whole.round(3).to_string(),
        ]
    )
    print(text)
    if asked.out is not None:
        table.round(5).to_csv(asked.out.with_suffix(".csv"), index=False)
        asked.out.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
