"""Do 90 % intervals of `bayescal.decision_curve` hold the true net benefit, of the same cases and of the population?

Forecasts p from a beta law, outcomes with probability q(p): a Platt curve, which the fit can follow, and a wave, which
it cannot. Each data set is judged twice: by a Platt calibrator, which decides by its posterior mean, and by an
assessment with a Platt curve, where the stated probability decides. The truth is the net benefit of the same rule under
q: averaged over the cases ("cases"), or over 2000 quantiles of the law ("population").

    OPENBLAS_NUM_THREADS=1 python tests/studies/decisions_coverage.py --out tests/studies/results/decisions_coverage

Nothing was chosen on these data sets.
"""

import argparse
import json
import platform
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta

SIZES = (60, 200)
LEVEL = 0.9
THRESHOLDS = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
LAW = (1.0, 1.5)
CURVES = {
    "platt": lambda p: expit(0.6 * logit(p) - 0.4),
    "wave": lambda p: p + 0.12 * np.sin(2 * np.pi * p),
}
STRATEGIES = ("use", "all", "gain")


def net_benefits(decides: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """Net benefits at the thresholds of cases of equal weight with outcome probabilities q."""
    value = (q - THRESHOLDS[:, None]) / (1 - THRESHOLDS[:, None])
    use = np.where(decides >= THRESHOLDS[:, None], value, 0.0).mean(axis=1)
    everybody = value.mean(axis=1)
    return {"use": use, "all": everybody, "gain": use - np.maximum(everybody, 0.0)}


def study(curve: str, n: int, repeat: int, first_seed: int) -> list[dict[str, Any]]:
    """One data set: a row for each judge, meaning of the net benefit, strategy and threshold."""
    import bayescal as bc

    rng = np.random.default_rng([first_seed, list(CURVES).index(curve), n, repeat])
    p = rng.beta(*LAW, n)
    q = CURVES[curve](p)
    y = (rng.random(n) < q).astype(int)
    settings = {"random_state": repeat, "cores": 1, "progressbar": False}
    calibrator = bc.PlattCalibrator(classes=(0, 1), **settings).fit(p, y)
    found = bc.assess(y, p, curve="platt", pos_label=1, **settings)
    everywhere = beta.ppf((np.arange(2000) + 0.5) / 2000, *LAW)
    rules = {
        "calibrator": (calibrator, lambda x: calibrator.predict_proba(x)[:, 1]),
        "assessment": (found, lambda x: x),
    }
    rows = []
    for judge, (forecast, rule) in rules.items():
        for of, x in {"cases": p, "population": everywhere}.items():
            true = net_benefits(rule(x), CURVES[curve](x))
            table = bc.decision_curve(
                forecast, THRESHOLDS, ci_prob=LEVEL, population=of == "population", random_state=repeat
            ).table
            for strategy in STRATEGIES:
                lower, upper = table[f"{strategy}_lower"].to_numpy(), table[f"{strategy}_upper"].to_numpy()
                # where every case is on one side of the threshold, the gain is 0 without an interval
                held = (lower - 1e-12 <= true[strategy]) & (true[strategy] <= upper + 1e-12)
                for k, threshold in enumerate(THRESHOLDS):
                    rows.append(
                        {
                            "curve": curve,
                            "judge": judge,
                            "n": n,
                            "of": of,
                            "strategy": strategy,
                            "threshold": threshold,
                            "repeat": repeat,
                            "coverage": float(held[k]),
                            "width": upper[k] - lower[k],
                            "bias": table[f"{strategy}_mean"].to_numpy()[k] - true[strategy][k],
                        }
                    )
    return rows


def main() -> None:
    """Run all data sets, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    parser.add_argument("--first-seed", type=int, default=20261204)
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few cases, and of draws below the gate
        for curve in CURVES:
            for n in asked.n:
                for repeat in range(asked.repeats):
                    rows += study(curve, n, repeat, asked.first_seed)
                print(curve, n, "done", flush=True)
    done = pd.DataFrame(rows)
    by = ["curve", "judge", "of", "strategy", "n", "threshold"]
    means = done.groupby(by, sort=False)[["coverage", "width", "bias"]].mean()
    coverage = means["coverage"].unstack("threshold")
    text = f"coverage of {LEVEL:.0%} intervals by threshold, {asked.repeats} data sets\n{coverage.round(3).to_string()}"
    text += "\n\nlowest and highest over the thresholds\n"
    text += coverage.agg(["min", "max"], axis=1).unstack("n").round(3).to_string()
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"decisions_coverage.py --repeats {asked.repeats} --n {' '.join(map(str, asked.n))} "
            f"--first-seed {asked.first_seed}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        means.round(5).to_csv(asked.out.with_suffix(".csv"))


if __name__ == "__main__":
    main()
