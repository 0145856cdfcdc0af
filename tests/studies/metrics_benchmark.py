"""Speed of `bayescal.metrics`, each beside scikit-learn's equivalent or beside NumPy calls it cannot do without.

    python tests/studies/metrics_benchmark.py --out tests/studies/results/metrics_benchmark

Times are medians of runs in turn (ours, theirs, ours, ...), reading and checking the input included. Where there is no
equivalent the floor is said in the table: one pass, one sort, one histogram of the same rows.
"""

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

RUNS = 3
type Job = Callable[[], object]


def jobs(n: int) -> list[tuple[str, int, Job, str, Job]]:
    """What, rows, ours, the peer's name, the peer's."""
    from scipy.special import logit
    from sklearn.calibration import calibration_curve
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import brier_score_loss, log_loss

    from bayescal import metrics

    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    w = rng.random(n) + 0.5
    few = n // 10
    several = rng.dirichlet([1.0, 1.0, 1.0], few)
    code = (rng.random(few)[:, None] > several.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    names = {"labels": [0, 1, 2]}

    def isotonic() -> float:
        fitted = IsotonicRegression(out_of_bounds="clip").fit_transform(p, y)
        return brier_score_loss(y, p) - brier_score_loss(y, fitted)

    def logistic() -> object:
        return LogisticRegression(C=np.inf).fit(logit(p[:few])[:, None], y[:few])

    def spiegelhalter() -> float:
        lean = 1 - 2 * p
        return ((y - p) * lean).sum() / np.sqrt((lean**2 * p * (1 - p)).sum())

    def classes() -> list[object]:
        return [calibration_curve(code == k, several[:, k], n_bins=10) for k in range(3)]

    def top() -> object:
        return calibration_curve(several.argmax(axis=1) == code, several.max(axis=1), n_bins=10)

    curve, by_mass = "calibration_curve", "calibration_curve(strategy='quantile')"
    mass = {"strategy": "quantile"}
    return [
        ("brier_score", n, lambda: metrics.brier_score(y, p), "brier_score_loss", lambda: brier_score_loss(y, p)),
        (
            "brier_score, weights",
            n,
            lambda: metrics.brier_score(y, p, sample_weight=w),
            "brier_score_loss",
            lambda: brier_score_loss(y, p, sample_weight=w),
        ),
        (
            "brier_score, 3 classes",
            few,
            lambda: metrics.brier_score(code, several, **names),
            "brier_score_loss",
            lambda: brier_score_loss(code, several, **names),
        ),
        ("log_loss", n, lambda: metrics.log_loss(y, p), "log_loss", lambda: log_loss(y, p)),
        (
            "log_loss, 3 classes",
            few,
            lambda: metrics.log_loss(code, several, **names),
            "log_loss",
            lambda: log_loss(code, several, **names),
        ),
        (
            "proba_loss",
            n,
            lambda: metrics.proba_loss(y, p),
            "NumPy: np.where, mean",
            lambda: np.where(y, p, 1 - p).mean(),
        ),
        ("ece", n, lambda: metrics.ece(y, p), curve, lambda: calibration_curve(y, p, n_bins=10)),
        ("mce", n, lambda: metrics.mce(y, p), curve, lambda: calibration_curve(y, p, n_bins=10)),
        ("debiased_ece", n, lambda: metrics.debiased_ece(y, p), curve, lambda: calibration_curve(y, p, n_bins=10)),
        ("area_deviation", n, lambda: metrics.area_deviation(y, p), curve, lambda: calibration_curve(y, p, n_bins=10)),
        (
            "ece, equal mass",
            n,
            lambda: metrics.ece(y, p, **mass),
            by_mass,
            lambda: calibration_curve(y, p, n_bins=10, **mass),
        ),
        (
            "ece, equal mass, weights",
            n,
            lambda: metrics.ece(y, p, sample_weight=w, **mass),
            "NumPy: argsort",
            lambda: np.argsort(p),
        ),
        ("class_wise_ece, 3 classes", few, lambda: metrics.class_wise_ece(code, several), f"3 x {curve}", classes),
        ("top_label_ece, 3 classes", few, lambda: metrics.top_label_ece(code, several), curve, top),
        (
            "smooth_ece",
            n,
            lambda: metrics.smooth_ece(y, p),
            "NumPy: histogram with weights",
            lambda: np.histogram(p, 8192, weights=y - p),
        ),
        ("ici", n, lambda: metrics.ici(y, p), "NumPy: sort", lambda: np.sort(p)),
        (
            "corp_decomposition",
            n,
            lambda: metrics.corp_decomposition(y, p),
            "IsotonicRegression, 2 x brier_score_loss",
            isotonic,
        ),
        (
            "calibration_slope",
            few,
            lambda: metrics.calibration_slope(y[:few], p[:few]),
            "LogisticRegression(C=inf)",
            logistic,
        ),
        (
            "calibration_in_the_large",
            few,
            lambda: metrics.calibration_in_the_large(y[:few], p[:few]),
            "LogisticRegression(C=inf)",
            logistic,
        ),
        ("spiegelhalter_z", n, lambda: metrics.spiegelhalter_z(y, p), "NumPy: the formula", spiegelhalter),
        (
            "grid_errors, 2 scores",
            few,
            lambda: metrics.grid_errors(y[:few], several[:, :2], lambda s: s.mean(axis=1), min_cases=1),
            "NumPy: histogram2d",
            lambda: np.histogram2d(several[:, 0], several[:, 1], 10, weights=y[:few]),
        ),
    ]


def main() -> None:
    """Measure everything, print and write the table."""
    from benchmark import in_turn  # beside this file, found when it is run as a script
    from provenance import current_commit

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000, help="rows; a tenth where memory or the peer needs it")
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    warnings.simplefilter("ignore")
    rows = []
    for what, n, ours, peer, theirs in jobs(asked.n):
        ours()  # imports
        mine, other = in_turn(ours, theirs, RUNS)
        rows.append({"what": what, "n": n, "seconds": mine, "peer": peer, "peer_seconds": other, "ratio": mine / other})
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    text = table.round(3).to_string(index=False)
    print(text)
    if asked.out:
        import sklearn

        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"python tests/studies/metrics_benchmark.py --n {asked.n}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[1], 1),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
