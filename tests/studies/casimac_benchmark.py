"""How fast are CASIMAC's cone probabilities, fits and predictions, and in how much memory?

    python tests/studies/casimac_benchmark.py --out tests/studies/results/casimac_benchmark.txt

Wall and processor time of each, since the machine may be shared; BLAS has one thread where the environment says so.
Fits are second fits: the first compiles, and is stated by itself.
"""

import argparse
import os
import platform
import resource
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
from provenance import current_commit

import bayescal as bc
from bayescal.casimac.cones import TABLE, _integrate, cone_probabilities
from bayescal.casimac.simplex import simplex_vertices


def timed(job: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - cpu


def cases(n: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four features; classes overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    centers = 1.2 * np.random.default_rng(0).normal(size=(classes, 4))
    return centers[y] + rng.normal(size=(n, 4)), y


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--largest", type=int, default=1000, help="cases of the largest fit")
    out = parser.parse_args()
    lines = [
        f"casimac_benchmark.py, {current_commit()}, {date.today()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"OPENBLAS_NUM_THREADS={os.environ.get('OPENBLAS_NUM_THREADS')}",
        f"{'what':58s} {'wall s':>8s} {'cpu s':>8s}  limit",
    ]

    def note(what: str, times: tuple[float, float], limit: str = "") -> None:
        lines.append(f"{what:58s} {times[0]:8.2f} {times[1]:8.2f}  {limit}")
        print(lines[-1], flush=True)

    rng = np.random.default_rng(1)
    for n in (3, 4, 5, 10):
        vertices, mean = simplex_vertices(n), rng.normal(size=(10_000, n - 1))
        sd = np.exp(rng.uniform(-2, 1, 10_000))
        cone_probabilities(mean[:1], sd[:1], vertices)  # compiles
        times = timed(lambda m=mean, s=sd, v=vertices: cone_probabilities(m, s, v))
        a = mean[:500] @ vertices.T
        a = np.maximum((a - a.max(axis=1, keepdims=True)) / (sd[:500, None] * np.sqrt(n / (n - 1))), -30.0)
        error = np.abs(cone_probabilities(mean[:500], sd[:500], vertices) - _integrate(a, 0.05, TABLE)).max()
        note(f"10,000 rows of {n} classes, largest error {error:.0e}", times, "0.5 s, 1e-8")
    settings = {"draws": 1000, "tune": 500, "chains": 4}
    note(
        "first fit, 100 cases of 4 classes, compiling",
        timed(lambda: bc.CASIMACClassifier(random_state=0, **settings).fit(*cases(100, 4, 0))),
    )
    for n, limit in ((100, "2 s"), (500, "8 s"), (1000, "30 s")):
        if n <= out.largest:
            clf = bc.CASIMACClassifier(random_state=0, **settings)
            times = timed(lambda clf=clf, n=n: clf.fit(*cases(n, 4, 1)))
            found = clf.diagnostics_
            note(
                f"fit, {n} cases of 4 classes, 4 x 1000 draws; R-hat {found['r_hat'].max():.3f}, "
                f"error {found.attrs['interpolation_error']:.0e}",
                times,
                limit,
            )
    clf = bc.CASIMACClassifier(random_state=0, **settings).fit(*cases(200, 4, 2))
    before, rows = peak_gigabytes(), cases(100_000, 4, 3)[0]
    note("predict_proba, 100,000 rows, fit of 200 cases", timed(lambda: clf.predict_proba(rows)), "60 s")
    lines.append(f"peak memory {peak_gigabytes():.2f} GB, {before:.2f} GB before predicting (limit 1.5)")
    print(lines[-1])
    # what 200 draws and shared length-scales cost: against the same with other draws of the same posterior
    pairs = [bc.CASIMACClassifier(random_state=seed, **settings).fit(*cases(200, 4, 2)) for seed in (1, 2)]
    one, two = (other.predict_proba(rows[:2000]) for other in pairs)
    lines.append(
        f"predict_proba of two seeds differs by {np.abs(one - two).mean():.1e} on average, "
        f"{np.abs(one - two).max():.1e} at most, over 2000 rows"
    )
    print(lines[-1])
    if out.out:
        out.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
