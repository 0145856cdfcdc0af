"""Held-out log loss of scaling: posterior mean beside maximum likelihood, from few labelled cases to many.

    export BAYESCAL_DATA=FOLDER
    uv run python tests/studies/scaling_loss.py --cache CACHE --out tests/studies/results/scaling_loss

Reads the sub-folders `cifar_outputs` and `kaggle_dr` of the folder that ``BAYESCAL_DATA`` names: outputs of networks on
images of ten kinds, and grades of retinopathy. Of each pool, n rows are drawn, the same for every method, and the loss
is that of at most 3000 of the others. Draws keep classes without cases. Probabilities are clipped at 1e-10.

    ML NAME       maximum likelihood, with Platt's targets where it has no maximum
    NAME          posterior mean, 2 x 500 draws
    none          the probabilities as they came

`--speed` times a fit of 1000 simulated cases of ten classes instead, and the one after it.
"""

import argparse
import json
import platform
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from real_scores_pools import data_folder, seed_of  # beside this file, found when it is run as a script
from scipy.special import log_softmax, softmax

POOLS = ("kaggle_dr", "cifar10_lenet5", "cifar10_vgg_icml_valid")
SMALL = (30, 60, 100, 300)
LARGEST = {"kaggle_dr": 1500}  # 5000 of the others
HELD_OUT = 3000
METHODS = ("temperature", "bias-corrected-temperature", "vector", "no-bias-vector")
FLOOR = 1e-10


def load(pool: str) -> tuple[np.ndarray, np.ndarray]:
    """Logits and column numbers of the classes."""
    if pool == "kaggle_dr":
        table = pd.read_csv(data_folder() / pool / "kaggle_dr.csv")
        return table[[f"logit{k}" for k in range(5)]].to_numpy(float), table["label"].to_numpy()
    with np.load(data_folder() / "cifar_outputs" / f"{pool}.npz", allow_pickle=False) as outputs:
        return outputs["log_prob"].astype(float), outputs["label"].astype(int)


def log_loss(proba: np.ndarray, y: np.ndarray) -> float:
    """Mean of -log p of the class that came."""
    return float(-np.log(np.maximum(proba[np.arange(len(y)), y], FLOOR)).mean())


def study(pool: str, n: int, repeat: int, method: str) -> list[dict]:
    """Losses of one method on one draw."""
    from bayescal.registry import CALIBRATORS

    logits, y = load(pool)
    order = np.random.default_rng(seed_of(pool, n, repeat)).permutation(len(y))
    fit, held = order[:n], order[n : n + HELD_OUT]
    settings = {"score_kind": "logit", "classes": list(range(logits.shape[1]))}
    cls = CALIBRATORS[method].load()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal = cls(**settings, draws=500, chains=2, random_state=repeat, progressbar=False).fit(logits[fit], y[fit])
    took = time.perf_counter() - start
    at = {"pool": pool, "n": n, "repeat": repeat}
    found = [
        {
            **at,
            "method": method,
            "loss": log_loss(cal.predict_proba(logits[held]), y[held]),
            "verdict": cal.diagnostics_.attrs["verdict"],
            "divergences": cal.diagnostics_.attrs["divergences"],
            "seconds": took,
        },
        {
            **at,
            "method": f"ML {method}",
            "loss": log_loss(cal.predict_point(logits[held]), y[held]),
            "smoothed": int(cal.point_estimate_["smoothed"]),
        },
    ]
    if method == METHODS[0]:
        proba = np.exp(log_softmax(logits[held], axis=1))
        found.append({**at, "method": "none", "loss": log_loss(proba, y[held])})
    return found


def summarise(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Mean losses by pool, n and method, and over pools, of the draws that every method was fitted to."""
    methods = rows.groupby(["pool", "n", "repeat"])["method"].transform("nunique")
    rows = rows[methods == rows["method"].nunique()]
    size = rows["n"].where(rows["n"].isin(SMALL), "largest").astype(str)
    rows = rows.assign(size=size)
    order = [*map(str, SMALL), "largest"]
    columns = [column for column in order if column in set(size)]
    mean = rows.groupby(["pool", "method", "size"])["loss"].mean().unstack("size")[columns]
    over = mean.groupby("method").mean()
    counted = rows[rows["verdict"].notna()]
    converged = counted.groupby(["method", "size"])["verdict"].apply(lambda v: (v == "passed").mean()).unstack("size")
    divergent = counted.groupby(["method", "size"])["divergences"].mean().unstack("size")
    repeats = rows.groupby(["pool", "size"])["repeat"].nunique().unstack("size")[columns]
    return {
        "loss, mean over pools": over,
        "loss": mean,
        "share of fits that passed the gate": converged,
        "divergences of a fit": divergent,
        "draws of rows": repeats,
    }


def speed(method: str) -> None:
    """Seconds of a first and of later fits of 4 x 1000 draws, n = 1000, C = 10."""
    from bayescal.registry import CALIBRATORS

    for k in range(4):
        rng = np.random.default_rng(k)
        logits = 2 * rng.normal(size=(1000, 10))
        truth = softmax(logits / 2 + 0.5 * rng.normal(size=10), axis=1)
        y = (np.cumsum(truth, axis=1)[:, :-1] < rng.random((1000, 1))).sum(axis=1)
        wall, cpu = time.perf_counter(), time.process_time()
        cal = CALIBRATORS[method].load()(score_kind="logit", random_state=k, progressbar=False).fit(logits, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        found = cal.diagnostics_
        print(
            f"{method}, fit {k + 1}: {wall:.1f} s, {cpu:.1f} s of all cores; "
            f"{cal._statistics['n_steps'].mean():.1f} gradients a draw, {found.attrs['divergences']} divergences, "
            f"smallest ESS {found['ess_bulk'].min():.0f}",
            flush=True,
        )


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--largest-repeats", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--only-tables", action="store_true", help="write what is there, fit nothing")
    asked, commit = parser.parse_args(), current_commit()
    if asked.speed:
        for method in asked.methods:
            speed(method)
        return
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / "scaling_loss.csv"
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["pool", "n", "repeat", "method"])
    known = set(zip(done["pool"], done["n"], done["repeat"], done["method"], strict=True))
    jobs = [(p, n, r, m) for r in range(asked.repeats) for n in SMALL for m in asked.methods for p in POOLS]
    jobs += [
        (p, LARGEST.get(p, 5000), r, m) for r in range(asked.largest_repeats) for m in asked.methods for p in POOLS
    ]
    for job in [job for job in jobs if job not in known and not asked.only_tables]:
        done = pd.concat([done, pd.DataFrame(study(*job))], ignore_index=True)
        done.to_csv(file, index=False)
    text = "\n\n".join(f"{name}\n{table.round(4).to_string()}" for name, table in summarise(done).items())
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"scaling_loss.py --methods {' '.join(asked.methods)}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
