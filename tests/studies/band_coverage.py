"""Do 90 % bands hold the true calibration curve, and how far off is the mean? Six known curves, three sizes.

For every curve, size and repeat a data set is drawn, `StackedCalibrator` is fitted (4 x 500 draws), and each of its
members and the average are judged on 300 fresh scores against the true curve: the share of scores at which the 90 %
interval holds the truth, the mean width of the interval, and the Kullback-Leibler error of the posterior mean (nats x
100). The peers are fitted to the same rows. Coverage is that of the band as users read it, over the law of the scores.

    python tests/studies/band_coverage.py --out tests/studies/results/band_coverage --cache <folder> --jobs 2

Each data set is one row of the cache, written when it is done and not done twice; `--forget` throws the rows away.
"""

import argparse
import json
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit

SIZES = (40, 100, 300)
LEVEL = 0.9
JUDGED_AT = 300
CLIP = 1e-6
MEMBERS = ("platt", "beta", "isotonic", "bernstein")


def plateau(s: np.ndarray) -> np.ndarray:
    """Two steps with a flat stretch between them."""
    return np.interp(s, [0, 0.3, 0.35, 0.75, 0.8, 1], [0.03, 0.30, 0.42, 0.46, 0.62, 0.95])


# name -> (law of the scores, true probability)
CURVES: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "identity": (lambda rng, n: rng.beta(1, 1, n), lambda s: s),
    "over-confident": (lambda rng, n: rng.beta(0.6, 0.6, n), lambda s: expit(0.5 * logit(s))),
    "under-confident": (lambda rng, n: rng.beta(3, 3, n), lambda s: expit(2 * logit(s))),
    "shifted": (lambda rng, n: rng.beta(1, 1, n), lambda s: expit(logit(s) - 1)),
    "plateau": (lambda rng, n: rng.beta(1, 1, n), plateau),
    "low prevalence": (lambda rng, n: rng.beta(0.7, 7, n), lambda s: expit(0.8 * logit(s) - 0.3)),
}


def draw(curve: str, n: int, repeat: int, first_seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores and outcomes to fit (both classes present), scores to judge at, and the truth there."""
    rng = np.random.default_rng([first_seed, repeat, n, list(CURVES).index(curve)])
    law, truth = CURVES[curve]
    while True:
        scores = np.clip(law(rng, n), CLIP, 1 - CLIP)
        y = (rng.random(n) < truth(scores)).astype(int)
        if 0 < y.sum() < n:
            break
    fresh = np.clip(law(rng, JUDGED_AT), CLIP, 1 - CLIP)
    return scores, y, fresh, truth(fresh)


def kl_error(truth: np.ndarray, estimate: np.ndarray) -> float:
    """Mean Kullback-Leibler divergence from the true to the estimated Bernoulli law, nats x 100."""
    p, q = np.clip(truth, 1e-12, 1 - 1e-12), np.clip(estimate, CLIP, 1 - CLIP)
    return float(100 * np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))))


def peer_estimates(scores: np.ndarray, y: np.ndarray, fresh: np.ndarray) -> dict[str, np.ndarray]:
    """Point estimates of other packages at the fresh scores."""
    from betacal import BetaCalibration
    from real_scores import METHODS
    from sklearn.isotonic import IsotonicRegression
    from venn_abers import VennAbers

    isotonic = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(scores, y)
    venn = VennAbers()
    venn.fit(np.column_stack([1 - scores, scores]), y)
    return {
        "Platt ML (log-odds, unsmoothed)": METHODS["logistic"](scores, y, fresh, 0),
        "Platt (log-odds, smoothed targets)": METHODS["platt"](scores, y, fresh, 0),
        "scikit-learn sigmoid": METHODS["platt_on_proba"](scores, y, fresh, 0),
        "scikit-learn isotonic": isotonic.predict(fresh),
        "venn-abers": venn.predict_proba(np.column_stack([1 - fresh, fresh]))[0][:, 1],
        "betacal": BetaCalibration("abm").fit(scores[:, None], y).predict(fresh),
    }


def study(curve: str, n: int, repeat: int, first_seed: int) -> list[dict[str, object]]:
    """All methods on one data set."""
    import bayescal as bc

    scores, y, fresh, truth = draw(curve, n, repeat, first_seed)
    rows: list[dict[str, object]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stacked = bc.StackedCalibrator(random_state=repeat, draws=500, cores=1).fit(scores, y)
        peers = peer_estimates(scores, y, fresh)
    for name, fitted in {**stacked.members_, "stacked": stacked}.items():
        bounds = fitted.predict_interval(fresh, ci_prob=LEVEL)[:, 1]
        rows.append(
            {
                "method": f"bayescal {name}",
                "coverage": float(np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))),
                "width": float(np.mean(bounds[:, 1] - bounds[:, 0])),
                "kl": kl_error(truth, fitted.predict_proba(fresh)[:, 1]),
                "verdict": fitted.diagnostics_.attrs["verdict"],
                "divergences": fitted.diagnostics_.attrs["divergences"],
                "weight": float(stacked.weights_.get(name, np.nan)),
            }
        )
    rows += [{"method": name, "kl": kl_error(truth, estimate)} for name, estimate in peers.items()]
    return [{"curve": curve, "n": n, "repeat": repeat, **row} for row in rows]


def summarise(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by method and n (over curves and repeats), with their standard errors over data sets, and by curve."""
    groups = rows.groupby(["method", "n"])
    means = groups[["coverage", "width", "kl"]].mean()
    means["coverage_se"] = groups["coverage"].sem()
    means["kl_se"] = groups["kl"].sem()
    means["converged"] = groups["verdict"].apply(lambda v: (v == "passed").mean() if v.notna().any() else np.nan)
    ours = rows[rows["coverage"].notna()]
    return {
        "mean": means,
        "coverage": ours.pivot_table(index=["method", "n"], columns="curve", values="coverage"),
        "kl": rows.pivot_table(index=["method", "n"], columns="curve", values="kl"),
        "weight": ours.pivot_table(index="method", columns="n", values="weight"),
    }


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    parser.add_argument("--first-seed", type=int, default=20261130)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--forget", action="store_true")
    asked, commit = parser.parse_args(), current_commit()
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / f"coverage-{asked.first_seed}.csv"
    if asked.forget:
        file.unlink(missing_ok=True)
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["curve", "n", "repeat"])
    known = set(zip(done["curve"], done["n"], done["repeat"], strict=True))
    jobs = [(c, n, r, asked.first_seed) for r in range(asked.repeats) for n in asked.n for c in CURVES]
    jobs = [job for job in jobs if job[:3] not in known]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(study, *job) for job in jobs]):
            done = pd.concat([done, pd.DataFrame(finished.result())], ignore_index=True)
            done.to_csv(file, index=False)
    done = done[done["repeat"].lt(asked.repeats) & done["n"].isin(asked.n)]
    tables = summarise(done)
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"band_coverage.py --repeats {asked.repeats} --first-seed {asked.first_seed}",
            "data_sets_per_cell": asked.repeats,
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        tables["mean"].round(5).to_csv(asked.out.with_suffix(".csv"))


if __name__ == "__main__":
    main()
