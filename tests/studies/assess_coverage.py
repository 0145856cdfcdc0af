"""Do 90 % intervals of `bayescal.assess` hold the true measures, and is a calibrated forecast accused?

Forecasts p from a beta law, outcomes with probability q(p): one calibrated forecast and four that are not. For every
forecast, size and repeat a data set is assessed, and each measure's interval is compared with the measure of the
population, which is computed from 20,000 quantiles of the law. Beside it stand three bootstraps: percentiles of the
point estimate of the same measure (`bayescal.metrics`); `probcal.metrics.evaluate`, whose intervals are of 95 % always;
and the expected calibration error of `uncertainty-calibration` (15 equal-mass bins), compared with the true ICI.

    uv run --group studies python tests/studies/assess_coverage.py --set judge --cache <folder> --jobs 2 \
        --out tests/studies/results/assess

The prior's factor of `assess` was chosen on the forecasts of `design`; those of `judge` have other curves and another
law. Each data set is a few rows of the cache, written when it is done and not done twice.
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
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta

SIZES = (60, 200, 1000)
LEVEL = 0.9
BOOTSTRAPS = 100
INTERIOR = ("slope", "intercept", "in_the_large", "bias", "brier", "discrimination", "uncertainty", "log_loss")
DISTANCES = ("ici", "e50", "e90", "emax", "miscalibration")  # of a calibrated forecast these lie on their edge


class Forecasts(NamedTuple):
    """The law of the probabilities that are stated, and what follows each."""

    law: tuple[float, float]
    curves: dict[str, Callable[[np.ndarray], np.ndarray]]


SETS = {
    "design": Forecasts(
        (1.0, 1.5),
        {
            "calibrated": lambda p: p,
            "extreme": lambda p: expit(0.5 * logit(p)),
            "too high": lambda p: expit(logit(p) - 0.8),
            "wave": lambda p: p + 0.12 * np.sin(2 * np.pi * p),
            "power": lambda p: p**1.7,
        },
    ),
    "judge": Forecasts(
        (0.7, 1.2),
        {
            "calibrated": lambda p: p,
            "timid": lambda p: expit(1.6 * logit(p)),
            "too low": lambda p: expit(0.8 * logit(p) + 0.6),
            "steps": lambda p: np.interp(p, [0, 0.2, 0.3, 0.6, 0.7, 1], [0.05, 0.1, 0.3, 0.35, 0.6, 0.9]),
            "floor": lambda p: 0.1 + 0.75 * p**2,
        },
    ),
}


def measured(p: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """The measures of cases of equal weight with forecasts p and probabilities q."""
    from bayescal.evaluation.measures import distances, log_odds_of, logistic_measures, score_parts

    share = np.full(len(p), 1 / len(p))
    found = {
        **distances(p, q[None], share),
        **logistic_measures(log_odds_of(p, "proba"), q[None], share),
        **score_parts(p, q[None], share),
    }
    return {name: float(values[0]) for name, values in found.items()}


def truth(of: str, curve: str) -> dict[str, float]:
    """The measures of the population."""
    p = beta.ppf((np.arange(20_000) + 0.5) / 20_000, *SETS[of].law)
    return measured(p, SETS[of].curves[curve](p))


def bootstrap(y: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Percentile intervals of point estimates; NaN where a resample has none."""
    import bayescal as bc

    values: dict[str, list[float]] = {name: [] for name in ("ici", "slope", "intercept", "brier", "miscalibration")}
    for _ in range(BOOTSTRAPS):
        rows = rng.integers(0, len(y), len(y))
        yb, pb = y[rows], p[rows]
        if yb.min() == yb.max():
            continue
        values["ici"].append(bc.metrics.ici(yb, pb, pos_label=1))
        values["slope"].append(bc.metrics.calibration_slope(yb, pb, pos_label=1))
        values["intercept"].append(bc.metrics.calibration_intercept(yb, pb, pos_label=1))
        values["brier"].append(bc.metrics.brier_score(yb, pb, pos_label=1))
        values["miscalibration"].append(bc.metrics.corp_decomposition(yb, pb, pos_label=1).miscalibration)
    ends = [0.5 * (1 - LEVEL), 0.5 * (1 + LEVEL)]
    return {name: tuple(np.quantile(found, ends)) for name, found in values.items()}


def probcal_intervals(y: np.ndarray, p: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    """What probcal says: percentiles 2.5 and 97.5, classes resampled apart."""
    from probcal.metrics import evaluate

    names = ("brier", "ici", "e50", "e90", "emax", "intercept", "slope")
    found = evaluate(y, p, n_boot=BOOTSTRAPS, random_state=seed, metrics=names)
    ours = {"intercept": "in_the_large"}  # its intercept has the log-odds as offset
    return {
        ours.get(name, name): (float(low), float(high))
        for name, low, high in zip(found.names, found.ci_low, found.ci_high, strict=True)
    }


def uncertainty_calibration_intervals(y: np.ndarray, p: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    """What uncertainty-calibration says: a basic bootstrap; `alpha` is in percent, whatever its default suggests."""
    import calibration

    np.random.seed(seed)  # noqa: NPY002  # the state it draws from
    low, _, high = calibration.get_calibration_error_uncertainties(p, y, p=1, alpha=100 * (1 - LEVEL))
    return {"ici": (float(low), float(high))}


def study(of: str, curve: str, n: int, repeat: int, first_seed: int) -> list[dict[str, object]]:
    """One data set: a row for each measure and method."""
    import bayescal as bc

    rng = np.random.default_rng([first_seed, list(SETS).index(of), list(SETS[of].curves).index(curve), n, repeat])
    p = rng.beta(*SETS[of].law, n)
    y = (rng.random(n) < SETS[of].curves[curve](p)).astype(int)
    true = truth(of, curve)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few cases, and of draws below the gate: counted below
        found = bc.assess(y, p, pos_label=1, ci_prob=LEVEL, random_state=repeat, cores=1, progressbar=False)
        others = {
            "bootstrap": bootstrap(y, p, rng),
            "probcal, 95 %": probcal_intervals(y, p, repeat),
            "uncertainty-calibration": uncertainty_calibration_intervals(y, p, repeat),
        }
    shared = {"set": of, "curve": curve, "n": n, "repeat": repeat}
    verdict = found.calibrator.diagnostics_.attrs["verdict"]
    rows: list[dict[str, object]] = []
    for name, row in found.summary().iterrows():
        rows.append(
            {
                **shared,
                "method": "assess",
                "measure": name,
                "truth": true[str(name)],
                "mean": row["mean"],
                "held": bool(row["lower"] <= true[str(name)] <= row["upper"]),
                "width": row["upper"] - row["lower"],
                "verdict": verdict,
                "p_calibrated": found.probability_calibrated,
                "p_rise": found.monotonicity_p_value,
            }
        )
    for method, intervals in others.items():
        for name, (low, high) in intervals.items():
            held = bool(low <= true[name] <= high)
            rows.append(
                {**shared, "method": method, "measure": name, "truth": true[name], "held": held, "width": high - low}
            )
    return rows


def summarise(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage by measure and size where the truth is interior, by forecast; and what is said of a calibrated one."""
    wrong = rows[rows["curve"] != "calibrated"]
    right = rows[rows["curve"] == "calibrated"]
    ours = rows[rows["method"] == "assess"]
    by = ["method", "measure", "n"]
    coverage = wrong.groupby(by)["held"].mean().unstack("n")
    coverage["data sets"] = wrong.groupby(["method", "measure"]).size() // wrong["n"].nunique()
    calibrated = right[right["measure"].isin(INTERIOR)].groupby(by)["held"].mean().unstack("n")
    distances = right[right["measure"].isin(DISTANCES)].groupby(by)["mean"].mean().unstack("n")
    one = ours[ours["measure"] == "ici"].assign(
        accused=lambda d: d["p_calibrated"] < 0.05,
        contradicted=lambda d: d["p_rise"] < 0.01,
        converged=lambda d: d["verdict"] == "passed",
        error=lambda d: d["mean"] - d["truth"],
    )
    verdicts = one.groupby(["curve", "n"])[["error", "p_calibrated", "accused", "contradicted", "converged"]].mean()
    lowest = wrong[wrong["method"] == "assess"].groupby(["measure", "n", "curve"])["held"].mean()
    return {
        "coverage of miscalibrated forecasts": coverage,
        "coverage by the forecast that it is lowest of": lowest.groupby(["measure", "n"]).min().unstack("n"),
        "coverage of a calibrated forecast": calibrated,
        "mean of the distances of a calibrated forecast": distances,
        "verdicts": verdicts,
    }


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="of", choices=list(SETS), required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    parser.add_argument("--first-seed", type=int, default=20261203)
    parser.add_argument("--jobs", type=int, default=1)
    asked, commit = parser.parse_args(), current_commit()
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / f"assess-{asked.of}-{asked.first_seed}.csv"
    keys = ["curve", "n", "repeat"]
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["set", *keys])
    known = set(done[keys].itertuples(index=False, name=None))
    jobs = [
        (asked.of, curve, n, repeat, asked.first_seed)
        for repeat in range(asked.repeats)
        for n in asked.n
        for curve in SETS[asked.of].curves
        if (curve, n, repeat) not in known
    ]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(study, *job) for job in jobs]):
            done = pd.concat([done, pd.DataFrame(finished.result())], ignore_index=True)
            done.to_csv(file, index=False)
    done = done[done["repeat"].lt(asked.repeats) & done["n"].isin(asked.n)]
    done["held"] = done["held"].astype(float)
    tables = summarise(done)
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"assess_coverage.py --set {asked.of} --repeats {asked.repeats} "
            f"--n {' '.join(map(str, asked.n))} --first-seed {asked.first_seed}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        name = asked.out.with_name(f"{asked.out.name}_{asked.of}")
        name.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        means = done.groupby(["curve", "method", "measure", "n"])[["held", "mean", "truth", "width"]].mean()
        means.round(5).to_csv(name.with_suffix(".csv"))


if __name__ == "__main__":
    main()
