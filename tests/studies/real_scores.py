"""Calibrators compared on real scores when few labelled cases are at hand.

For every pool of `real_scores_pools.py`, every size n and every repeat, n rows are drawn at random, every
method is fitted to the same n rows, and the log loss and the Brier score are taken on rows that were not
drawn. Rows are drawn without regard to class, and drawn again when only one class came up. The draws of one
repeat are nested: n = 60 holds the rows of n = 30, unless one of the two was drawn again.

    export BAYESCAL_DATA=<folder of the data sets that scikit-learn does not ship>
    python tests/studies/real_scores.py --cache <folder> --methods peers bayescal --out tests/studies/results

Each fit is one row of ``<cache>/rows/<pool>.csv``, written when it is done, and is not done twice: a run that
was stopped goes on where it was. `--forget METHOD` throws the rows of a method away first (after a change of
its code).
"""

import argparse
import csv
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from io import StringIO
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from betacal import BetaCalibration
from provenance import current_commit
from real_scores_pools import POOL_NAMES, Floats, Ints, Pool, load_pool, seed_of
from real_scores_report import BASELINE, pool_table, summarise, summary_text, write_results
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from venn_abers import VennAbers

Method = Callable[[Floats, Ints, Floats, int], Floats]

SIZES = (30, 60, 100, 200)
MAX_TEST_ROWS = 4000
LOSS_CLIP = 1e-6  # a probability of 0 for what happened would cost an infinite log loss
LOGIT_CLIP = 1e-6  # scores of exactly 0 and 1 have no log-odds; see `platt_clip_1e-4` for what this choice does
KEY = ["method", "n", "repeat", "draw"]
COLUMNS = {"method": "str", "n": "int64", "repeat": "int64", "draw": "int64", "test_rows": "int64"} | {
    "log_loss": "float64",
    "brier": "float64",
    "infinite": "int64",
    "unconverged": "int64",
    "seconds": "float64",
}


def log_odds(scores: Floats, clip: float = LOGIT_CLIP) -> Floats:
    """Log-odds of scores in [0, 1], those nearer than `clip` to an end moved there."""
    return logit(np.clip(scores, clip, 1 - clip))


def fit_platt(x: Floats, y: Ints) -> tuple[float, float]:
    """Intercept and slope of Platt's logistic regression with smoothed targets.

    The targets are (n1 + 1)/(n1 + 2) for the n1 positives and 1/(n0 + 2) for the n0 negatives [1]_, so the
    optimum is finite on separable data too.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Any real score.
    y : ndarray of shape (n,)
        0 or 1.

    References
    ----------
    .. [1] Platt (1999), "Probabilistic outputs for support vector machines", section 2.2.
    """
    n1 = float(y.sum())
    n0 = len(y) - n1
    target = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    centre, scale = x.mean(), x.std() or 1.0
    z = (x - centre) / scale

    def loss(parameters: Floats) -> tuple[float, Floats]:
        eta = parameters[0] + parameters[1] * z
        residual = expit(eta) - target
        return float(np.mean(np.logaddexp(0, eta) - target * eta)), np.array([residual.mean(), (residual * z).mean()])

    start = np.array([np.log((n1 + 1) / (n0 + 1)), 0.0])
    intercept, slope = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x
    return float(intercept - slope * centre / scale), float(slope / scale)


def _uncalibrated(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    return new_scores


def _prevalence(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    return np.full(len(new_scores), (y.sum() + 1) / (len(y) + 2))


def _platt(clip: float) -> Method:
    def method(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
        intercept, slope = fit_platt(log_odds(scores, clip), y)
        return expit(intercept + slope * log_odds(new_scores, clip))

    return method


def _platt_on_proba(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    intercept, slope = fit_platt(scores, y)
    return expit(intercept + slope * new_scores)


def _logistic(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    # Without a finite optimum (separable draws) the result is where scikit-learn's optimiser stops.
    model = LogisticRegression(C=np.inf, max_iter=1000).fit(log_odds(scores)[:, None], y)
    return model.predict_proba(log_odds(new_scores)[:, None])[:, 1]


def _isotonic(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    return IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(scores, y).predict(new_scores)


def _betacal(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    return BetaCalibration("abm").fit(scores, y).predict(new_scores)


def _venn_abers(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
    pairs, new_pairs = (np.column_stack([1 - s, s]) for s in (scores, new_scores))
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is part of the package's algorithm
        return VennAbers().fit(pairs, y).predict_proba(new_pairs)[0][:, 1]


def _bayescal(calibrator: str, **arguments: object) -> Method:
    def method(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
        import bayescal  # here, so that the peers run without it

        model = getattr(bayescal, calibrator)(score_kind="proba", **arguments)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        return model.fit(scores, y).predict_proba(new_scores)[:, 1]

    return method


PEERS: dict[str, Method] = {
    "platt": _platt(LOGIT_CLIP),
    "platt_clip_1e-4": _platt(1e-4),
    "platt_on_proba": _platt_on_proba,
    "logistic": _logistic,
    "betacal": _betacal,
    "venn_abers": _venn_abers,
    "isotonic": _isotonic,
    "uncalibrated": _uncalibrated,
    "prevalence": _prevalence,
}
_stacked: dict[tuple[int, bytes], object] = {}  # the latest stacked fit, shared by the methods that read it


def _part(name: str) -> Method:
    """The stacked calibrator or one of its members, by half the default number of draws; one fit serves all five."""

    def method(scores: Floats, y: Ints, new_scores: Floats, seed: int) -> Floats:
        import bayescal

        key = (seed, scores.tobytes())
        if key not in _stacked:
            _stacked.clear()
            _stacked[key] = bayescal.StackedCalibrator(random_state=seed, draws=500, cores=1).fit(scores, y)
        fitted = _stacked[key]
        return (fitted if name == "stacked" else fitted.members_[name]).predict_proba(new_scores)[:, 1]

    return method


BAYESCAL: dict[str, Method] = {
    f"bc_{name}": _part(name) for name in ("stacked", "platt", "beta", "isotonic", "bernstein")
}
POINT: dict[str, Method] = {
    "bc_platt_point": _bayescal("PlattCalibrator", inference="point"),
    "bc_beta_point": _bayescal("BetaCalibrator", inference="point"),
    "bc_isotonic_point": _bayescal("IsotonicCalibrator", inference="point"),
    "bc_bernstein_point": _bayescal("BernsteinCalibrator", inference="point"),
}
GROUPS = {"peers": PEERS, "bayescal": BAYESCAL, "point": POINT}
METHODS = PEERS | BAYESCAL | POINT


def draw_rows(pool: Pool, n: int, repeat: int) -> tuple[Floats, Ints, Floats, Ints, int]:
    """Rows of one repeat: n to calibrate on, and the others, up to `MAX_TEST_ROWS`, to judge on.

    Returns
    -------
    scores, y, new_scores, new_y : ndarray
        Calibration rows and test rows.
    draw : int
        Checksum of the four: equal for every method, and different when the pool has changed.
    """
    all_scores, all_y = pool.splits[repeat % len(pool.splits)]
    for attempt in count():
        order = np.random.default_rng([seed_of(pool.name), repeat, attempt]).permutation(len(all_y))
        chosen, rest = order[:n], order[n : n + MAX_TEST_ROWS]
        if 0 < all_y[chosen].sum() < n:
            break
    parts = all_scores[chosen], all_y[chosen], all_scores[rest], all_y[rest]
    return *parts, zlib.crc32(b"".join(part.tobytes() for part in parts))


def judge(method: Method, scores: Floats, y: Ints, new_scores: Floats, new_y: Ints, seed: int) -> dict[str, float]:
    """Fit a method and score it on the test rows.

    Returns
    -------
    dict
        log_loss (nats, probabilities clipped at `LOSS_CLIP`), brier, infinite (1 when the log loss without
        clipping is infinite), unconverged (1 when a ConvergenceWarning was given), seconds (fit and predict).

    Raises
    ------
    ValueError
        When a prediction is not a probability.
    """
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        proba = np.asarray(method(scores, y, new_scores, seed), dtype=np.float64)
    seconds = time.perf_counter() - start
    if proba.shape != new_y.shape or not np.all((proba >= 0) & (proba <= 1)):
        raise ValueError("a method must give one probability in [0, 1] for each test row")
    of_outcome = np.where(new_y == 1, proba, 1 - proba)
    return {
        "log_loss": float(-np.log(np.clip(of_outcome, LOSS_CLIP, 1 - LOSS_CLIP)).mean()),
        "brier": float(np.mean((proba - new_y) ** 2)),
        "infinite": int(np.any(of_outcome == 0)),
        "unconverged": int(any(w.category.__name__ == "ConvergenceWarning" for w in caught)),
        "seconds": round(seconds, 4),
    }


def rows_file(cache: Path, pool_name: str) -> Path:
    """File of the rows of a pool."""
    return cache / "rows" / f"{pool_name.replace('/', '--')}.csv"


def read_rows(cache: Path, pool_name: str) -> pd.DataFrame:
    """Rows of a pool that are done; an unfinished last line is left out."""
    file = rows_file(cache, pool_name)
    text = file.read_text() if file.exists() else ",".join(COLUMNS) + "\n"
    return pd.read_csv(StringIO(text[: text.rfind("\n") + 1]), dtype=COLUMNS)


def write_rows(cache: Path, pool_name: str, rows: pd.DataFrame) -> None:
    """Replace the rows of a pool."""
    file = rows_file(cache, pool_name)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(file.with_suffix(".part"), index=False, columns=list(COLUMNS))
    file.with_suffix(".part").replace(file)


def run_pool(pool_name: str, cache: Path, sizes: Sequence[int], repeats: Sequence[int], methods: Sequence[str]) -> int:
    """Do the fits of one pool that are missing.

    Returns
    -------
    int
        Number of fits done.
    """
    pool, old = load_pool(pool_name, cache), read_rows(cache, pool_name)
    done = set(old[KEY].itertuples(index=False, name=None))
    write_rows(cache, pool_name, old)
    fits = 0
    with rows_file(cache, pool_name).open("a", newline="") as file, threadpool_limits(1):
        writer = csv.DictWriter(file, COLUMNS)
        for repeat in repeats:
            for n in sizes:
                scores, y, new_scores, new_y, draw = draw_rows(pool, n, repeat)
                for name in methods:
                    if (name, n, repeat, draw) in done:
                        continue
                    seed = seed_of(pool_name, n, repeat)
                    result = judge(METHODS[name], scores, y, new_scores, new_y, seed)
                    key = {"method": name, "n": n, "repeat": repeat, "draw": draw, "test_rows": len(new_y)}
                    writer.writerow(key | result)
                    file.flush()
                    fits += 1
    return fits


def wanted_rows(
    pool: Pool, cache: Path, sizes: Sequence[int], repeats: Sequence[int], methods: Sequence[str]
) -> pd.DataFrame:
    """Rows of the fits asked for, made on the draws that the pool gives today."""
    draws = [(n, r, draw_rows(pool, n, r)[-1]) for r in repeats for n in sizes]
    wanted = pd.DataFrame([(name, *draw) for draw in draws for name in methods], columns=KEY)
    return wanted.merge(read_rows(cache, pool.name), validate="one_to_one").assign(
        pool=pool.name, data_set=pool.data_set
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line of the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    names = [*GROUPS, *METHODS]
    add("--cache", type=Path, required=True, help="folder of pools and rows, outside the repository")
    add("--n", type=int, nargs="+", default=list(SIZES), help="numbers of calibration rows")
    add("--repeats", type=int, default=8, help="draws per pool and n")
    add("--first-repeat", type=int, default=0, help="first of them: 0 to 4 were used to choose priors")
    add(
        "--methods",
        nargs="+",
        default=["peers"],
        choices=names,
        metavar="METHOD",
        help=f"of {', '.join(names)}",
    )
    add(
        "--pools",
        nargs="+",
        default=list(POOL_NAMES),
        choices=POOL_NAMES,
        metavar="POOL",
        help="default: all",
    )
    add("--forget", nargs="+", default=[], choices=names, metavar="METHOD", help="do these methods again")
    add("--jobs", type=int, default=1, help="processes; each does one pool at a time")
    add(
        "--out",
        type=Path,
        help="folder for real_scores.json and real_scores.csv; without it nothing is written",
    )
    return parser.parse_args(arguments)


def method_names(asked: Sequence[str]) -> list[str]:
    """Methods meant by a list of methods and groups, in the order of the tables."""
    meant = {name for item in asked for name in GROUPS.get(item, [item])}
    return [name for name in METHODS if name in meant]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is missing, then print (and write) the tables."""
    options, commit = parse(arguments), current_commit()
    methods, forget = method_names([BASELINE, *options.methods]), method_names(options.forget)
    pools, left_out = [], {}
    for name in options.pools:
        try:
            pools.append(load_pool(name, options.cache))
        except FileNotFoundError as error:
            left_out[name] = f"no {Path(error.filename).name}" if error.filename else str(error)
            continue
        if forget:
            old = read_rows(options.cache, name)
            write_rows(options.cache, name, old[~old["method"].isin(forget)])

    repeats = range(options.first_repeat, options.first_repeat + options.repeats)
    task = (options.cache, options.n, repeats, methods)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as executor:
        futures = {executor.submit(run_pool, pool.name, *task): pool.name for pool in pools}
        for future in as_completed(futures):
            print(f"{futures[future]}: {future.result()} fits done", file=sys.stderr, flush=True)

    if not pools:
        raise SystemExit("no pool could be made: " + "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    rows = pd.concat([wanted_rows(pool, *task) for pool in pools], ignore_index=True)
    summary, described = summarise(rows), pool_table(pools)
    print(described.to_string(), "", summary_text(summary), sep="\n")
    for name, reason in left_out.items():
        print(f"left out: {name} ({reason})")
    if options.out is not None:
        words = ["python tests/studies/real_scores.py --cache CACHE --n", *map(str, options.n)]
        words += ["--repeats", str(options.repeats), "--first-repeat", str(options.first_repeat), "--methods", *methods]
        if tuple(options.pools) != POOL_NAMES:
            words += ["--pools", *options.pools]
        settings = {
            "command": " ".join(words),
            "commit": commit,
            "max_test_rows": MAX_TEST_ROWS,
            "log_loss_clip": LOSS_CLIP,
            "log_odds_clip": LOGIT_CLIP,
            "pools_left_out": left_out,
        }
        write_results(options.out, rows, summary, described, settings)


if __name__ == "__main__":
    main()
