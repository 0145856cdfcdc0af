"""Speed and memory, each as a ratio in one run against a peer or a plain script of the same model.

    python tests/studies/benchmark.py --out tests/studies/results/benchmark

Times are medians of several runs in turn (ours, theirs, ours, ...), so that a machine whose speed drifts moves both.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def seconds(job: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def in_turn(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median wall times of two jobs that run alternately."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def cases(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and outcomes whose log-odds are half the score's."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < 1 / (1 + ((1 - scores) / scores) ** 0.5)).astype(int)


def pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two scores, the larger of which counts, and outcomes."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, 2))
    return scores, (rng.random(n) < scores.max(axis=1) ** 2).astype(int)


def plain_pymc(model: str, scores: np.ndarray, y: np.ndarray, **sizes: int) -> Any:
    """The model's specification, sampled as a script would: its DataTree."""
    import importlib.util

    import pymc as pm

    path = Path(__file__).parents[2] / "models" / f"{model}.py"
    spec = importlib.util.spec_from_file_location(f"models_{model}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.model(scores, y, **sizes):
        return pm.sample(draws=1000, tune=500, chains=4, target_accept=0.9, random_seed=1, progressbar=False)


def fits(rows: list[dict[str, object]]) -> None:
    """Second fits in a process, everything that `fit` does included."""
    from bayescal.registry import CALIBRATORS

    degree = {"degree": 8}
    for model, n, sizes, limit in (("platt", 200, {}, 0.6), ("beta", 200, {}, 0.6), ("bernstein", 300, degree, 1.5)):
        cls = CALIBRATORS[model].load()
        cls(random_state=0, **sizes).fit(*cases(n, 0))  # compiles
        seeds = iter(range(1, 100))

        def ours(cls: type = cls, n: int = n, sizes: dict[str, int] = sizes, seeds: object = seeds) -> None:
            cls(random_state=0, **sizes).fit(*cases(n, next(seeds)))

        def theirs(model: str = model, n: int = n, sizes: dict[str, int] = sizes) -> None:
            plain_pymc(model, *cases(n, 1), **sizes)

        theirs()  # fills PyTensor's cache on disk
        mine, plain = in_turn(ours, theirs, 3)
        rows.append(
            {
                "what": f"second fit, {model}{' K = 8' if sizes else ''}, n = {n}, 4 x 1000 draws",
                "seconds": mine,
                "limit": limit,
                "peer": "pm.sample of models/",
                "peer_seconds": plain,
            }
        )


def surface(rows: list[dict[str, object]]) -> None:
    """The surface of two scores: first fit of a process with caches on disk empty and full, and second fits."""
    import bayescal as bc

    n = 300
    data = "rng = numpy.random.default_rng(0); s = rng.random((300, 2)); y = rng.random(300) < s.max(axis=1) ** 2; "
    fit = (
        "import numpy, bayescal; "
        + data
        + "bayescal.BernsteinCalibrator(degree=6, random_state=0).fit(s, y.astype(int))"
    )
    with tempfile.TemporaryDirectory() as folder:
        flags = os.environ.get("PYTENSOR_FLAGS", "")
        caches = {"PYTENSOR_FLAGS": f"{flags},base_compiledir={folder}".strip(","), "NUMBA_CACHE_DIR": folder}
        for cache in ("empty", "full"):
            taken, peak = process([sys.executable, "-c", fit], os.environ | caches)
            what = f"first fit of a process, surface K = 6, n = {n}, imports included, caches {cache}"
            rows.append({"what": what, "seconds": taken, "peak_mb": peak})
    bc.BernsteinCalibrator(degree=6, random_state=0).fit(*pairs(n, 0))
    plain_pymc("bernstein_surface", *pairs(n, 1))
    found: dict[str, list[Any]] = {"ours": [], "theirs": []}
    mine, plain = in_turn(
        lambda: found["ours"].append(bc.BernsteinCalibrator(degree=6, random_state=0).fit(*pairs(n, 1)).idata_),
        lambda: found["theirs"].append(plain_pymc("bernstein_surface", *pairs(n, 1))),
        3,
    )
    size = {who: _effective_size(trees[-1]) for who, trees in found.items()}
    row = {"what": f"second fit, surface K = 6, n = {n}, 4 x 1000 draws", "seconds": mine}
    rows.append(row | {"peer": "pm.sample of models/", "peer_seconds": plain})
    row = {"what": "seconds for 1000 effective draws of a coefficient (median)", "seconds": 1000 * mine / size["ours"]}
    rows.append(row | {"peer": "pm.sample of models/", "peer_seconds": 1000 * plain / size["theirs"]})


def _effective_size(tree: Any) -> float:
    from arviz_stats.base import array_stats

    draws = tree.posterior["coefficients"].values
    sizes = [array_stats.ess(draws[:, :, k], chain_axis=0, draw_axis=1, method="bulk") for k in range(draws.shape[2])]
    return float(np.median(sizes))


def programs(rows: list[dict[str, object]]) -> None:
    """Point estimates of two scores."""
    import bayescal as bc

    makers: dict[str, Callable[[], Any]] = {
        "Bernstein program K = 5": lambda: bc.BernsteinCalibrator(inference="point", degree=(5, 5)),
        "MR-MIC": bc.MRMICCalibrator,
        "copula, kernels and maximum likelihood": lambda: bc.CopulaCalibrator(inference="point"),
    }
    for n in (500, 1000):
        for name, make in makers.items():
            make().fit(*pairs(n, 0))
            taken = statistics.median(seconds(lambda m=make, n=n: m().fit(*pairs(n, 1))) for _ in range(3))
            rows.append({"what": f"{name}, n = {n}", "seconds": taken})
    command = (
        "import numpy, bayescal; rng = numpy.random.default_rng(0); s = rng.random((1_000_000, 2)); "
        "y = (rng.random(1_000_000) < s.max(axis=1)).astype(int); "
        "bayescal.BernsteinCalibrator(inference='point', degree=(5, 5)).fit(s, y)"
    )
    taken, peak = process([sys.executable, "-c", command])
    what = "Bernstein program K = 5, n = 10^6, as a process"
    rows.append({"what": what, "seconds": taken, "limit": 10.0, "peak_mb": peak, "limit_mb": 1500.0})


def arrays(rows: list[dict[str, object]]) -> None:
    """PAV and prediction on a million rows."""
    from sklearn.isotonic import IsotonicRegression

    import bayescal as bc
    from bayescal.pav import isotonic_fit

    rng = np.random.default_rng(0)
    scores = rng.random(1_000_000)
    y = (rng.random(len(scores)) < scores).astype(float)
    theirs = IsotonicRegression(out_of_bounds="clip")
    mine, peer = in_turn(lambda: isotonic_fit(scores, y), lambda: theirs.fit(scores, y), 5)
    rows.append(
        {"what": "PAV, 10^6 rows", "seconds": mine, "limit": 1.5 * peer, "peer": "scikit-learn", "peer_seconds": peer}
    )
    for name in ("PlattCalibrator", "BetaCalibrator", "BernsteinCalibrator", "IsotonicCalibrator"):
        fitted = getattr(bc, name)(random_state=0).fit(*cases(300, 0))
        rows.append(
            {
                "what": f"predict_interval, 10^6 scores, 4000 draws, {fitted._name}",
                "seconds": statistics.median(seconds(lambda f=fitted: f.predict_interval(scores)) for _ in range(3)),
                "limit": 5.0,
            }
        )


def process(command: list[str], environment: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Wall seconds and peak memory (MB) of a child process, which is never below that of this one when it forks."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise RuntimeError(f"{command} exited with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def processes(rows: list[dict[str, object]]) -> None:
    """The command line, and prediction's memory, each in a process of its own."""
    program = [sys.executable, "-m", "bayescal"]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "cases.csv"
        pd.DataFrame(dict(zip(("score", "label"), cases(300, 0), strict=True))).to_csv(table, index=False)
        asked = [str(table), "--score", "score", "--label", "label"]
        fit = [*program, "fit", *asked, "--method", "beta", "--out", f"{folder}/out"]
        predict = (
            "import numpy, bayescal; c = bayescal.load(r'" + f"{folder}/out/posterior.nc" + "'); "
            "c.predict_interval(numpy.random.default_rng(0).random(1_000_000))"
        )
        table_of = (
            ("bayescal fit as a process, n = 300, beta, warm cache", fit, 12.0, 900.0, 3),
            (
                "predict_interval, 10^6 scores, loaded beta fit, as a process",
                [sys.executable, "-c", predict],
                None,
                1000.0,
                3,
            ),
            ("bayescal --help", [*program, "--help"], 0.3, None, 7),
            ("import bayescal", [sys.executable, "-c", "import bayescal"], 0.3, None, 7),
            ("python -c pass", [sys.executable, "-c", "pass"], None, None, 7),
        )
        process(fit)
        for what, command, limit, memory_limit, runs in table_of:
            measured = [process(command) for _ in range(runs)]
            rows.append(
                {
                    "what": what,
                    "seconds": statistics.median(m[0] for m in measured),
                    "limit": limit,
                    "peak_mb": max(m[1] for m in measured),
                    "limit_mb": memory_limit,
                }
            )


def main() -> None:
    """Measure everything, print and write the table."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    warnings.simplefilter("ignore")
    rows: list[dict[str, object]] = []
    for part in (processes, arrays, fits, programs, surface):
        part(rows)
    table = pd.DataFrame(rows)
    table["peer / ours"] = table["peer_seconds"] / table["seconds"]
    text = table.round(3).to_string(index=False, na_rep="")
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": "python tests/studies/benchmark.py",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "peak_mb_of_this_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
