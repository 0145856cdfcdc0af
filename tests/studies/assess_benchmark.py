"""How fast are `bayescal.assess`, `plan` and `compare`, beside bootstraps of the same measures and ArviZ's comparison?

    uv run --group studies python tests/studies/assess_benchmark.py --out tests/studies/results/assess_benchmark

- `assess` at each size by each curve: the first call of a fresh process, imports and compilation included, then the
  second and later calls, each on another data set of that size and in turn with two peers on the same data:
  `probcal.metrics.evaluate` with its default of 1000 bootstraps, for the measures that both have, and a percentile
  bootstrap of 200 resamples of the point estimates (`bayescal.metrics`) of all measures that `assess` gives.
- `plan` with its default calibrator and 200 refits, 40 at each of five sizes.
- `compare` of three calibrators fitted to 300 cases, beside `arviz.compare` of the same posteriors.

Seconds are of the wall and of the processor, medians over calls; `slowest` is the longest of ours. A call of `assess`
takes much longer than others when draws fail the convergence checks and are made again. On a shared machine the
processor's seconds are the ones to compare; on a quiet one the wall's are fewer, since chains run side by side.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from assess_coverage import SETS  # beside this file, found when it is run as a script

CURVES = ("auto", "platt", "spline")
SIZES = (200, 1000)
SECOND_CALL = 3.0  # seconds that the second call of `assess` may take, at n = 1000
PLAN, PLANNED = 60.0, (50, 100, 200, 400, 800)  # seconds that 200 refits may take, and the sizes that share them
COMPARED = ("PlattCalibrator", "BetaCalibrator", "BernsteinCalibrator")
SHARED = ("brier", "log_loss", "ici", "e50", "e90", "emax", "intercept", "slope")  # by the names of probcal
RESAMPLES = 200

Job = Callable[[], object]
Times = tuple[float, float]  # of the wall and of the processor


def timed(job: Job) -> Times:
    """Seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - processor


def cases(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes, and forecasts that are too timid."""
    rng, forecasts = np.random.default_rng(seed), SETS["judge"]
    p = rng.beta(*forecasts.law, n)
    return (rng.random(n) < forecasts.curves["timid"](p)).astype(int), p


def bootstrap(y: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ends of 90 % intervals of the measures' point estimates, ``(2, measures)``."""
    from bayescal import metrics

    def estimates(y: np.ndarray, p: np.ndarray) -> list[float]:
        return [
            *metrics.calibration_distances(y, p),
            *metrics.corp_decomposition(y, p),  # the Brier score and its parts
            float(np.mean(y - p)),
            metrics.calibration_slope(y, p),
            metrics.calibration_intercept(y, p),
            metrics.calibration_in_the_large(y, p),
            metrics.log_loss(y, p),
        ]

    rows = rng.integers(0, len(y), (RESAMPLES, len(y)))
    return np.quantile([estimates(y[of], p[of]) for of in rows], [0.05, 0.95], axis=0)


def row(
    what: str, ours: list[Times], peer: str = "", theirs: list[Times] | None = None, limit: float | None = None
) -> dict[str, object]:
    """Medians of calls, and their ratios."""
    mine = np.median(ours, axis=0)
    found: dict[str, object] = {
        "what": what,
        "calls": len(ours),
        "wall_s": mine[0],
        "slowest_s": max(ours)[0],
        "processor_s": mine[1],
        "limit_s": limit,
        "peer": peer,
    }
    if theirs:
        other = np.median(theirs, axis=0)
        found |= {"peer_wall_s": other[0], "peer_processor_s": other[1]}
        found |= {"peer / ours, wall": other[0] / mine[0], "peer / ours, processor": other[1] / mine[1]}
    return found


def assessments(curve: str, n: int, calls: int) -> list[dict[str, object]]:
    """`assess` in a process that has not called it, and its peers."""
    import bayescal as bc

    warnings.simplefilter("ignore")

    def assess(seed: int) -> Times:
        y, p = cases(n, seed)
        return timed(lambda: bc.assess(y, p, curve=curve, random_state=seed, progressbar=False))

    first = [assess(0)]
    from probcal.metrics import evaluate

    peers: dict[str, Callable[[np.ndarray, np.ndarray, int], object]] = {
        "probcal, 1000 bootstraps": lambda y, p, seed: evaluate(y, p, metrics=SHARED, random_state=seed),
        f"percentiles of {RESAMPLES} resamples": lambda y, p, seed: bootstrap(y, p, np.random.default_rng(seed)),
    }
    ours: list[Times] = []
    theirs: dict[str, list[Times]] = {name: [] for name in peers}
    for seed in range(1, calls + 1):
        ours.append(assess(seed))
        y, p = cases(n, seed)
        for name, peer in peers.items():
            theirs[name].append(timed(lambda peer=peer, y=y, p=p, seed=seed: peer(y, p, seed)))
    what = f"assess, n = {n}, {curve}"
    limit = SECOND_CALL if n == max(SIZES) and curve == "auto" else None
    return [
        row(f"{what}, first call", first),
        *(row(f"{what}, second call and later", ours, name, times, limit) for name, times in theirs.items()),
    ]


def plans() -> list[dict[str, object]]:
    """200 refits, in a process that has fitted nothing and again."""
    import bayescal as bc

    warnings.simplefilter("ignore")
    repeats = 200 // len(PLANNED)

    def plan(seed: int) -> Times:
        p = cases(1000, seed)[1]
        return timed(lambda: bc.plan(p, sizes=PLANNED, repeats=repeats, random_state=seed, progressbar=False))

    what = f"plan, {repeats * len(PLANNED)} refits"
    return [
        row(f"{what}, first call", [plan(0)], limit=PLAN),
        row(f"{what}, second call and later", [plan(1), plan(2)], limit=PLAN),
    ]


def comparisons(calls: int) -> list[dict[str, object]]:
    """Three calibrators, fitted beforehand, whose DataTrees are made beforehand."""
    import arviz as az

    import bayescal as bc

    warnings.simplefilter("ignore")
    y, p = cases(300, 0)
    fits = {name: getattr(bc, name)(random_state=0, progressbar=False).fit(p, y) for name in COMPARED}
    trees = {name: fitted.idata_ for name, fitted in fits.items()}
    first = timed(lambda: bc.compare(fits))
    az.compare(trees)
    pairs = [(timed(lambda: bc.compare(fits)), timed(lambda: az.compare(trees))) for _ in range(calls)]
    what = f"compare, n = 300, {len(fits)} calibrators"
    ours, theirs = zip(*pairs, strict=True)
    return [
        row(f"{what}, first call", [first]),
        row(f"{what}, second call and later", list(ours), "arviz.compare", list(theirs)),
    ]


def fresh(work: Callable[..., list[dict[str, object]]], *how: object) -> list[dict[str, object]]:
    """What the work finds in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *how).result()


def main() -> None:
    """Measure everything, print and write the table."""
    from provenance import current_commit

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--calls", type=int, default=5, help="calls after the first")
    asked, commit, load = parser.parse_args(), current_commit(), os.getloadavg()[0]
    rows: list[dict[str, object]] = []
    jobs = [(assessments, curve, n, asked.calls) for curve in CURVES for n in SIZES]
    for job in (*jobs, (plans,), (comparisons, asked.calls)):
        rows += fresh(*job)
        print(rows[-1], flush=True)
    text = pd.DataFrame(rows).round(2).to_string(index=False, na_rep="")
    print(text)
    if asked.out:
        head = {
            "command": f"assess_benchmark.py --calls {asked.calls}",
            "commit": commit,
            "date": date.today().isoformat(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("bayescal", "probcal", "arviz", "nutpie")},
            "processors": os.cpu_count(),
            "load at the start": round(load, 1),
            "OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS"),
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
