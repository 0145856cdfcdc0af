"""Is CASIMAC better calibrated when its latents are unknown, and the labels say only in which cones they lie?

    python tests/studies/casimac_generative.py --repeats 5 --sizes 40 100 --out tests/studies/results/casimac_generative
    python tests/studies/casimac_generative.py --check

Truths, test cases and measures are those of `casimac_coverage.py`; both classifiers see the same data sets, and both
are fitted with 2 chains of 500 draws. `--check` compares means of class probabilities with those of plain NUTS on
`models/casimac_generative.py`. log_loss is the mean over test cases of -sum_y p_y log q_y with the true p; r_hat and
passed are those of the fit's convergence checks.
"""

import argparse
import importlib.util
import platform
import time
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from casimac_coverage import TRUTHS, draw_data, measures
from provenance import current_commit

import bayescal as bc

SAMPLED = {"draws": 500, "chains": 2}
METHODS = {"CASIMAC": bc.CASIMACClassifier, "generative": bc.GenerativeCASIMACClassifier}


def rows(repeats: int, sizes: list[int], seed: int) -> Iterator[dict[str, Any]]:
    for repeat in range(repeats):
        for n in sizes:
            for name, (role, _) in TRUTHS.items():
                if (data := draw_data(seed, name, n, repeat)) is None:
                    continue
                x, y, new, truth = data
                entropy = -(truth * np.log(np.maximum(truth, 1e-300))).sum(axis=1).mean()
                for method, kind in METHODS.items():
                    start = time.process_time()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", bc.ConvergenceWarning)  # counted below
                        clf = kind(random_state=repeat, **SAMPLED).fit(x, y)
                    proba, interval = clf.predict_proba(new), clf.predict_interval(new)
                    lower, upper = interval[..., 0], interval[..., 1]
                    diagnostics = clf.diagnostics_
                    found = measures(proba, lower, upper, truth)
                    yield {
                        "truth": name,
                        "role": role,
                        "n": n,
                        "repeat": repeat,
                        "method": method,
                        **found,
                        "log_loss": found["kl"] + entropy,
                        "r_hat": diagnostics["r_hat"].max(),
                        "passed": float(diagnostics.attrs["verdict"] == "passed"),
                        "cpu_s": time.process_time() - start,
                    }
        print(repeat, n, flush=True)


def summary(table: pd.DataFrame) -> list[str]:
    """Means of both methods, for each truth and for each role, and of their differences on the same data sets."""
    columns = ["coverage", "inside", "width", "kl", "log_loss", "gap", "passed", "cpu_s"]
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
        "largest r_hat by n and method\n" + table.groupby(["n", "method"])["r_hat"].max().round(3).to_string(),
    ]


def label_probabilities(specification: ModuleType, nuts: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean probability ``(n,)`` of each label, by the specification's own likelihood."""
    import pymc as pm

    with specification.model(x, y):
        pm.compute_log_likelihood(nuts, progressbar=False)
    return np.exp(nuts.log_likelihood["y"]).mean(("chain", "draw")).values


def check(seed: int) -> list[str]:
    """Means of the labels' probabilities, and of both hyperparameters, beside NUTS on the specification."""
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
        clf = bc.GenerativeCASIMACClassifier(random_state=seed).fit(x, y)
        start = time.process_time()
        with specification.model((x - x.mean(axis=0)) / x.std(axis=0), y):
            nuts = pm.sample(1000, tune=1000, chains=4, cores=1, target_accept=0.9, random_seed=seed, progressbar=False)
        took = time.process_time() - start
        worst_ess, worst = np.inf, 0.0
        for value in nuts.posterior.data_vars.values():
            for series in np.moveaxis(value.values.reshape(4, 1000, -1), -1, 0):
                worst_ess = min(worst_ess, float(array_stats.ess(series, chain_axis=0, draw_axis=1)))
                worst = max(worst, float(array_stats.rhat(series, chain_axis=0, draw_axis=1)))
        divergent = int(nuts.sample_stats["diverging"].sum())
        words = []
        for key in ("length_scale", "amplitude"):
            theirs, ours = np.log(nuts.posterior[key].values), np.log(clf.idata_.posterior[key].values)
            words.append(f"log {key} {theirs.mean():.3f} ({theirs.std():.3f}) and {ours.mean():.3f} ({ours.std():.3f})")
        theirs = label_probabilities(specification, nuts, (x - x.mean(axis=0)) / x.std(axis=0), y)
        off = np.abs(np.exp(clf.idata_.log_likelihood["y"]).mean(("chain", "draw")).values - theirs).max()
        out.append(
            f"{name}, 40 cases: NUTS on the specification {took:.0f} s, {divergent} divergences, R-hat {worst:.3f}, "
            f"ESS {worst_ess:.0f}. Specification and class, mean (sd): {'; '.join(words)}; largest difference of the "
            f"mean probabilities of the labels {off:.4f}"
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
        f"{SAMPLED['chains']} x {SAMPLED['draws']} draws"
    )
    text = "\n\n".join([head, *summary(table)])
    print(text)
    if path is not None:
        path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
