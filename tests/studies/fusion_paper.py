"""Table 1 of Wang & Liu (2020) by the paper's own protocol (its sections 5 and 5.2), with bayescal's posteriors beside.

For each data set and repeat three sets of 500 rows are drawn. Two train a three-layer network each, whose size and
penalty 5-fold cross-validation chooses; the third trains the calibrators, whose degree (Bernstein program) and
smoothing (MR-MIC) 5-fold cross-validation chooses too. All other rows are the test. Scores go through the distribution
function of the 500 calibration rows. In each cell of a 10 x 10 grid with at least 1000 test rows the share of positives
stands for the true probability and is compared with the estimate at the cell's centre:

    MCE = max |share - estimate|,    ECE = mean |share - estimate|,    both over cells;    Brier, over test rows

and, for posteriors, the share of cells whose 90 % interval holds the share, and the mean width of the interval.

    uv run --group studies python tests/studies/fusion_paper.py --cache CACHE --jobs 2 --out FILE

`income_data.py` says where Adult and Census-Income come from; the paper's other three data sets, Covertype, Dota2 and
SUSY, are left out. Each repeat is written to the cache when it is done, and not done twice.
"""

import argparse
import json
import platform
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS = 500
CELLS, MIN_ROWS = 10, 1000
LEVEL = 0.9
FOLDS = 5
SIZES, PENALTIES = ((5,), (10,), (20,)), (0.01, 0.1, 1.0, 10.0)
DEGREES = (2, 3, 4, 5, 6, 8)
SMOOTHINGS = (1e-5, 1e-4, 5e-4, 2e-3, 1e-2)
CHUNK = 20_000
SAMPLED = 4000  # test rows in the sample that the notebook has
PAPER = {  # MCE, ECE and Brier in percent, as printed in Table 1
    "Adult": {
        "MR-MIC": (6.142, 2.459, 15.485),
        "Copula Fusion": (5.309, 2.548, 16.441),
        "Bern Poly Fusion": (5.613, 2.226, 14.375),
    },
    "Census": {
        "MR-MIC": (7.116, 3.787, 19.719),
        "Copula Fusion": (6.817, 3.890, 19.714),
        "Bern Poly Fusion": (6.241, 3.587, 18.966),
    },
}


def network(table: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    """A network of one hidden layer, its size and penalty chosen by cross-validation."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    )
    grid = {"mlpclassifier__hidden_layer_sizes": SIZES, "mlpclassifier__alpha": PENALTIES}
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    model = make_pipeline(columns, MLPClassifier(max_iter=500, random_state=seed))
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(table, y).best_estimator_


def scores_of(model: Any, table: pd.DataFrame) -> np.ndarray:
    """Probability of class 1, in chunks of rows."""
    parts = [model.predict_proba(table.iloc[i : i + CHUNK])[:, 1] for i in range(0, len(table), CHUNK)]
    return np.concatenate(parts)


def ranks(scores: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Mid-distribution function of the calibration scores `among`, column by column."""
    columns = []
    for s, known in zip(scores.T, np.sort(among, axis=0).T, strict=True):
        columns.append((np.searchsorted(known, s, "left") + np.searchsorted(known, s, "right")) / (2 * len(known)))
    return np.column_stack(columns)


def by_cross_validation(name: str, values: tuple[Any, ...], s: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """The point calibrator of a class and its setting's values, with the smallest Brier score on folds."""
    from sklearn.model_selection import StratifiedKFold

    import bayescal as bc

    make = {
        "degree": lambda k: bc.BernsteinCalibrator("raw", "point", degree=(k, k)),
        "smoothing": lambda v: bc.MRMICCalibrator("raw", smoothing=v),
    }[name]
    losses = np.zeros(len(values))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(s, y):
        for i, value in enumerate(values):
            p = make(value).fit(s[train], y[train]).predict_proba(s[test])[:, 1]
            losses[i] += ((p - y[test]) ** 2).sum()
    return make(values[int(losses.argmin())]).fit(s, y)


def calibrators(s: np.ndarray, y: np.ndarray, seed: int) -> Iterator[tuple[str, Any]]:
    """Name and fit of every method."""
    import bayescal as bc

    yield "MR-MIC", by_cross_validation("smoothing", SMOOTHINGS, s, y, seed)
    yield "Copula Fusion", bc.CopulaCalibrator("raw", "point").fit(s, y)
    yield "Bern Poly Fusion", by_cross_validation("degree", DEGREES, s, y, seed)
    average = bc.StackedCalibrator("raw", random_state=seed, cores=1).fit(s, y)
    yield "posterior: average", average
    for name, member in average.members_.items():
        yield f"posterior: {name}", member


def of_networks(name: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores ``(n, 2)`` and outcomes of the rows that trained neither network: first those to calibrate on."""
    from income_data import income_data  # beside this file, found when it is run as a script

    table, y = income_data(name)
    order = np.random.default_rng([20200107, number]).permutation(len(y))
    first, second, others = np.split(order, [ROWS, 2 * ROWS])
    networks = [network(table.iloc[rows], y[rows], number) for rows in (first, second)]
    return np.column_stack([scores_of(model, table.iloc[others]) for model in networks]), y[others]


def repeat(name: str, number: int) -> list[dict[str, Any]]:
    """One repeat of the protocol on one data set."""
    import bayescal as bc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks stopped at their last step, few cases of a class
        raw, y = of_networks(name, number)
        transformed = ranks(raw, raw[:ROWS])
        s, at, test = transformed[:ROWS], transformed[ROWS:], y[ROWS:]
        rows = []
        for method, fitted in calibrators(s, y[:ROWS], number):
            grid = bc.metrics.grid_errors(test, at, fitted.predict_proba, n_cells=CELLS, min_cases=MIN_ROWS)
            brier = bc.metrics.brier_score(test, fitted.predict_proba(at))
            row = {"data": name, "repeat": number, "method": method, "cells": len(grid.cases)}
            row |= {"MCE": 100 * grid.mce, "ECE": 100 * grid.ece, "Brier": 100 * brier}
            if method.startswith("posterior"):
                lower, upper = fitted.predict_interval(grid.centres, ci_prob=LEVEL)[:, 1].T
                inside = (lower <= grid.share) & (grid.share <= upper)
                row |= {"coverage": np.mean(inside), "width": np.mean(upper - lower)}
            rows.append(row)
    return rows


def tabulate(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means and standard deviations over repeats, and the paper's means."""
    columns = ["MCE", "ECE", "Brier", "coverage", "width", "cells"]
    groups = rows.groupby(["data", "method"], sort=False)[columns]
    paper = pd.DataFrame(
        [(data, method, *values) for data, methods in PAPER.items() for method, values in methods.items()],
        columns=["data", "method", "MCE", "ECE", "Brier"],
    ).set_index(["data", "method"])
    return {
        "mean": groups.mean(),
        "standard deviation over repeats": groups.std(),
        "repeats": groups.size().to_frame("n"),
        "the paper's means": paper,
    }


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--sample", type=Path, help="write the scores of Adult's first repeat, as the notebook has them"
    )
    asked, commit = parser.parse_args(), current_commit()
    if asked.sample:
        warnings.simplefilter("ignore")
        raw, y = of_networks("Adult", 0)
        table = pd.DataFrame({"first": raw[:, 0], "second": raw[:, 1], "above_50k": y})
        table[: ROWS + SAMPLED].round(6).to_csv(asked.sample, index=False)
        return
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / "fusion_paper.csv"
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["data", "repeat"])
    known = set(done[["data", "repeat"]].itertuples(index=False, name=None))
    jobs = [(name, r) for r in range(asked.repeats) for name in asked.data if (name, r) not in known]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(repeat, *job) for job in jobs]):
            done = pd.concat([done, pd.DataFrame(finished.result())], ignore_index=True)
            done.to_csv(file, index=False)
    done = done[done["data"].isin(asked.data) & done["repeat"].lt(asked.repeats)]
    tables = tabulate(done)
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"fusion_paper.py --repeats {asked.repeats}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        done.sort_values(["data", "repeat"], kind="stable").round(5).to_csv(asked.out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
