"""Do 90 % bands hold calibration curves that rise, and curves that do not? The spline beside the Bernstein curve.

For every curve, size and repeat a data set is drawn, both calibrators are fitted (4 x 500 draws), and judged on 300
fresh scores as in `band_coverage.py`: the share of scores at which the 90 % interval holds the truth, its mean width,
and the Kullback-Leibler error of the posterior mean (nats x 100). Rising curves are two of that study's.

    python tests/studies/spline_coverage.py --repeats 30 --out tests/studies/results/spline_coverage
"""

import argparse
import json
import platform
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit

SIZES = (60, 200)
LEVEL = 0.9
JUDGED_AT = 300
METHODS = ("spline", "bernstein")
CURVES = {  # name -> does it rise, true probability; scores are uniform
    "identity": (True, lambda s: s),
    "over-confident": (True, lambda s: expit(0.5 * logit(s))),
    "plateau": (True, lambda s: np.interp(s, [0, 0.3, 0.35, 0.75, 0.8, 1], [0.03, 0.30, 0.42, 0.46, 0.62, 0.95])),
    "falling": (False, lambda s: expit(-0.7 * logit(s))),
    "rises and falls": (False, lambda s: 0.1 + 0.7 * np.sin(np.pi * s) ** 2),
    "dip": (False, lambda s: np.clip(s + 0.3 * np.sin(2 * np.pi * s), 0.05, 0.95)),
}


def study(curve: str, n: int, repeat: int, first_seed: int) -> list[dict[str, object]]:
    """Both calibrators on one data set."""
    from band_coverage import kl_error

    from bayescal.registry import CALIBRATORS

    rng = np.random.default_rng([first_seed, repeat, n, list(CURVES).index(curve)])
    rises, truth_at = CURVES[curve]
    while True:
        scores = rng.uniform(0.001, 0.999, n)
        y = (rng.random(n) < truth_at(scores)).astype(int)
        if 0 < y.sum() < n:
            break
    fresh = rng.uniform(0.001, 0.999, JUDGED_AT)
    truth = truth_at(fresh)
    rows: list[dict[str, object]] = []
    for name in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = CALIBRATORS[name].load()(random_state=repeat, draws=500, cores=1, progressbar=False).fit(scores, y)
        bounds = fitted.predict_interval(fresh, ci_prob=LEVEL)[:, 1]
        rows.append(
            {
                "truth": "rises" if rises else "falls somewhere",
                "curve": curve,
                "n": n,
                "repeat": repeat,
                "method": name,
                "coverage": float(np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))),
                "width": float(np.mean(bounds[:, 1] - bounds[:, 0])),
                "kl": kl_error(truth, fitted.predict_proba(fresh)[:, 1]),
                "passed": float(fitted.diagnostics_.attrs["verdict"] == "passed"),
            }
        )
    return rows


def summarise(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over data sets, and the standard error of the coverage."""
    groups = rows.groupby(by, sort=False)
    table = groups[["coverage", "width", "kl", "passed"]].mean()
    table.insert(1, "coverage_se", groups["coverage"].sem())
    table["data_sets"] = groups.size()
    return table


def main() -> None:
    """Run, and write the tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=20261203)
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    rows = pd.DataFrame(
        [
            row
            for repeat in range(asked.repeats)
            for n in SIZES
            for curve in CURVES
            for row in study(curve, n, repeat, asked.first_seed)
        ]
    )
    tables = {
        "rising and other truths": summarise(rows, ["truth", "n", "method"]),
        "each curve": summarise(rows, ["curve", "n", "method"]),
    }
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"spline_coverage.py --repeats {asked.repeats} --first-seed {asked.first_seed}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        tables["each curve"].round(5).to_csv(asked.out.with_suffix(".csv"))


if __name__ == "__main__":
    main()
