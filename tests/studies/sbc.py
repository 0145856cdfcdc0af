"""Simulation-based calibration: do posteriors of data drawn from the prior hold the parameters that made them?

For each model and simulation, parameters come from the prior, outcomes from the calibration map at random
scores, and the calibrator is fitted as a user would fit it. The rank of each true quantity among thinned posterior
draws is uniform if prior, likelihood, map and sampler agree (Talts et al. 2018, Theorem 1).
Quantities: parameters of fixed meaning, the curve at four scores, and the log likelihood of the data, which finds
errors that no single parameter shows (Modrak et al. 2023).

    python tests/studies/sbc.py --simulations 300 --jobs 2 --out tests/studies/results/sbc
"""

import argparse
import json
import platform
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kstest

MODELS = ("platt", "beta", "isotonic", "bernstein")
SCALARS = {
    "platt": ("intercept", "slope"),
    "beta": ("a", "b", "c"),
    "isotonic": ("concentration",),
    "bernstein": ("concentration",),
}
AT = np.array([0.05, 0.35, 0.65, 0.95])
CASES = 60
RANKS = 99  # posterior draws kept


def simulate(model: str, simulation: int, first_seed: int) -> dict[str, object]:
    """Ranks of one simulation, as fractions in (0, 1)."""
    from scipy.special import expit, log_expit

    from bayescal.registry import CALIBRATORS

    rng = np.random.default_rng([first_seed, simulation, MODELS.index(model)])
    scores = rng.beta(0.8, 0.8, CASES)
    calibrator = CALIBRATORS[model].load()(random_state=simulation, cores=1, classes=[0, 1])
    scale = calibrator._learn_scale(np.sort(scores), np.ones(CASES))
    priors = calibrator._default_priors(1)
    truth = calibrator._prior_draws(rng, 1, priors, scale)

    def features(s: np.ndarray) -> np.ndarray:
        return calibrator._features(calibrator._coordinate(s, scale), scale)

    log_odds = calibrator._log_odds(features(scores), truth)[0]
    y = (rng.random(CASES) < expit(log_odds)).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(scores, y)
    keep = np.linspace(0, len(next(iter(calibrator._flat.values()))) - 1, RANKS).astype(int)
    posterior = {name: value[keep] for name, value in calibrator._flat.items()}
    sign = np.where(y > 0, 1.0, -1.0)
    drawn = {name: posterior[name] for name in SCALARS[model]}
    true = {name: truth[name][0] for name in SCALARS[model]}
    curves, curve = calibrator._log_odds(features(AT), posterior), calibrator._log_odds(features(AT), truth)[0]
    for j, s in enumerate(AT):
        drawn[f"q({s})"], true[f"q({s})"] = curves[:, j], curve[j]
    drawn["log likelihood"] = log_expit(calibrator._log_odds(features(scores), posterior) * sign).sum(axis=1)
    true["log likelihood"] = log_expit(log_odds * sign).sum()
    ranks = {}
    for name, draws in drawn.items():
        below, equal = (draws < true[name]).sum(), (draws == true[name]).sum()
        ranks[name] = (below + rng.random() * (equal + 1)) / (RANKS + 1)
    return {"model": model, "verdict": calibrator.diagnostics_.attrs["verdict"], **ranks}


def judge(rows: pd.DataFrame) -> pd.DataFrame:
    """Kolmogorov-Smirnov p-values of uniformity by model and quantity, and Holm's correction within a model."""
    out = []
    for model, part in rows.groupby("model", sort=False):
        names = [c for c in part.columns if c not in ("model", "verdict") and part[c].notna().all()]
        p = np.array([kstest(part[c], "uniform").pvalue for c in names])
        order = np.argsort(p)
        holm = np.empty_like(p)
        holm[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
        inside = [(part[c].between(0.05, 0.95)).mean() for c in names]
        out += [
            {"model": model, "quantity": c, "p_value": a, "p_holm": b, "covered_by_90%": d, "simulations": len(part)}
            for c, a, b, d in zip(names, p, holm, inside, strict=True)
        ]
    return pd.DataFrame(out)


def main() -> None:
    """Simulate, judge, and write the table."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--first-seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(simulate, model, i, asked.first_seed)
            for model in asked.models
            for i in range(asked.simulations)
        ]
        rows = pd.DataFrame([job.result() for job in waiting])
    table = judge(rows)
    passed = rows.groupby("model", sort=False)["verdict"].value_counts().to_string()
    text = table.round(4).to_string(index=False) + "\n\n" + passed
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"python tests/studies/sbc.py --simulations {asked.simulations} --first-seed {asked.first_seed}",
            "cases": CASES,
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        table.round(5).to_csv(asked.out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
