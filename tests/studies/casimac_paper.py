"""CASIMAC beside other classifiers: the four quadrants and three real data sets of Heese et al., section 3.

    python tests/studies/casimac_paper.py DATA --repeats 10 --out tests/studies/results/casimac_paper

DATA is the folder with casimac_alcohol, casimac_climate and casimac_wifi. Each repeat draws new training cases (of real
data: stratified, 85 of 125, 300 of 540, 300 of 2000) and tests on the rest; features are standardised by the training
cases. Methods:

    posterior    CASIMACClassifier as it comes; taxicab metric for wifi, as in the paper
    point        the same with inference="point"
    each, each point        these two with a length-scale for each feature; the first takes minutes, and is left out
                 where --methods does not name it
    chosen point shared or each length-scales, by five-fold cross-validated log loss
    ML-II        the paper's: spread 1, flat priors, k = 1, gamma of 0.1, 0.5, 0.9 by five-fold cross-validated log loss
    GPC          scikit-learn's one-versus-rest Laplace approximation, constant times Matern 5/2, starting from a
                 length-scale of sqrt(2 d), about the distance of two cases; from 1 it ends, on climate, at class shares
    MLP, kNN     hidden layers, penalty; neighbours and weights, by five-fold cross-validated log loss

Log losses clip probabilities at 1e-15. proba_loss is eq. 44, 1 - mean probability of the true class; gap is mean
confidence less accuracy; area is the area between calibration curve (ten bins) and diagonal, of two classes alone. f1,
precision and recall are means over the classes, weighted by their test cases.
"""

import argparse
import platform
import time
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from provenance import current_commit
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayescal as bc

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
FLAT = {
    "length_scale_log_sd": 100.0,
    "noise_ratio_log_sd": 100.0,
    "signal_variance_shape": 1e-3,
    "signal_variance_scale": 1e-3,
}


def quadrants(repeat: int) -> Split:
    """Section 3.1: D = 40, T = 10,000, labels by quadrant."""
    rng = np.random.default_rng([31, repeat])
    x = rng.uniform(-1, 1, (10_040, 2))
    y = np.where(x[:, 1] >= 0, np.where(x[:, 0] >= 0, 1, 2), np.where(x[:, 0] < 0, 3, 4))
    return x[:40], x[40:], y[:40], y[40:]


def real(folder: Path, name: str, repeat: int) -> Split:
    """A stratified split of a data set."""
    table = pd.read_csv(folder / f"casimac_{name}" / f"{name}.csv")
    if name == "alcohol":
        x, y, size = table[[c for c in table if "_ch" in c]], table["label"], 85
    elif name == "climate":
        x, y, size = table.drop(columns=["study", "run", "outcome"]), table["outcome"], 300
    else:
        x, y, size = table.drop(columns="room"), table["room"], 300
    parts = train_test_split(x.to_numpy(float), y.to_numpy(), train_size=size, stratify=y, random_state=1000 + repeat)
    return tuple(parts)


def methods(name: str, columns: int, seed: int) -> dict[str, Any]:
    """The classifiers, unfitted."""
    start = np.sqrt(2 * columns)
    metric = "cityblock" if name == "wifi" else "euclidean"
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)

    def chosen(estimator: Any, **grid: Any) -> GridSearchCV:
        return GridSearchCV(estimator, grid, scoring="neg_log_loss", cv=folds)

    plain = bc.CASIMACClassifier(
        0.9, k_alpha=1, k_beta=1, spread=1, inference="point", metric=metric, priors=FLAT, random_state=seed
    )
    return {
        "posterior": bc.CASIMACClassifier(metric=metric, random_state=seed),
        "point": bc.CASIMACClassifier(metric=metric, inference="point", random_state=seed),
        "each": bc.CASIMACClassifier(metric=metric, length_scales="each", random_state=seed),
        "each point": bc.CASIMACClassifier(metric=metric, length_scales="each", inference="point", random_state=seed),
        "chosen point": chosen(
            bc.CASIMACClassifier(metric=metric, inference="point", random_state=seed), length_scales=["shared", "each"]
        ),
        "ML-II": chosen(plain, gamma=[0.1, 0.5, 0.9]),
        "GPC": make_pipeline(
            StandardScaler(), GaussianProcessClassifier(ConstantKernel(1.0) * Matern(start, nu=2.5), random_state=seed)
        ),
        "MLP": chosen(
            make_pipeline(StandardScaler(), MLPClassifier(max_iter=1000, random_state=seed)),
            mlpclassifier__hidden_layer_sizes=[(20,), (100,)],
            mlpclassifier__alpha=[1e-4, 1e-2, 1.0],
        ),
        "kNN": chosen(
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            kneighborsclassifier__n_neighbors=[1, 3, 5, 10, 20],
            kneighborsclassifier__weights=["uniform", "distance"],
        ),
    }


def scores(proba: np.ndarray, classes: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """What is reported of one fit."""
    codes = np.searchsorted(classes, y)
    own, predicted = proba[np.arange(len(y)), codes], proba.argmax(axis=1)
    precision, recall, f1, _ = precision_recall_fscore_support(codes, predicted, average="weighted", zero_division=0)
    accuracy = (predicted == codes).mean()
    out = {
        "log_loss": -np.log(np.maximum(own, 1e-15)).mean(),
        "accuracy": accuracy,
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "proba_loss": 1 - own.mean(),
        "gap": proba.max(axis=1).mean() - accuracy,
        "area": np.nan,
    }
    if proba.shape[1] == 2:
        bins = np.minimum((10 * proba[:, 1]).astype(int), 9)
        curve = [(proba[bins == b, 1].mean(), codes[bins == b].mean()) for b in range(10) if (bins == b).any()]
        stated, seen = np.array([(0.0, curve[0][1]), *curve, (1.0, curve[-1][1])]).T
        out["area"] = np.trapezoid(np.abs(seen - stated), stated)
    return out


def rows(folder: Path, names: list[str], repeats: range, wanted: list[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        for repeat in repeats:
            x, new, y, of_new = quadrants(repeat) if name == "quadrants" else real(folder, name, repeat)
            for method, classifier in methods(name, x.shape[1], repeat).items():
                if method not in wanted:
                    continue
                start, said = time.perf_counter(), 0
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    fitted = clone(classifier).fit(x, y)
                    said = sum(issubclass(w.category, bc.ConvergenceWarning) for w in caught)
                took = time.perf_counter() - start
                found = scores(fitted.predict_proba(new), fitted.classes_, of_new)
                yield {"data": name, "repeat": repeat, "method": method, **found, "not_converged": said, "fit_s": took}
                print(name, repeat, method, f"{found['log_loss']:.4f} {found['accuracy']:.4f} {took:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--data", nargs="+", default=["quadrants", "alcohol", "climate", "wifi"])
    every = ["posterior", "point", "each point", "chosen point", "ML-II", "GPC", "MLP", "kNN"]
    parser.add_argument("--methods", nargs="+", default=every)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    commit = current_commit()
    repeats = range(asked.first, asked.first + asked.repeats)
    table = pd.DataFrame(rows(asked.folder, asked.data, repeats, asked.methods))
    path = None if asked.out is None else asked.out.with_suffix(".csv")
    if path is not None and path.exists():  # new fits take the place of old ones
        table = pd.concat([pd.read_csv(path), table]).drop_duplicates(["data", "repeat", "method"], keep="last")
    columns = [c for c in table.columns if c not in ("data", "repeat", "method")]
    grouped = table.groupby(["data", "method"], sort=False)
    means, spreads = grouped[columns].mean(), grouped[columns].std()
    means.insert(0, "repeats", grouped.size())
    text = "\n\n".join(
        [
            f"casimac_paper.py, {commit}, {date.today()}, Python {platform.python_version()}",
            "means over the repeats\n" + means.round(4).to_string(),
            "standard deviations over the repeats\n" + spreads.drop(columns="not_converged").round(4).to_string(),
        ]
    )
    print(text)
    if path is not None:
        table.round(6).to_csv(path, index=False)
        path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
