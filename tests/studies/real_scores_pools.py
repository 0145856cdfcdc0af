"""Pools of real scores with their outcomes: the raw material of the study in `real_scores.py`.

A pool is what a classifier gave to rows it was not trained on, with what happened. Scores are kept as the
classifier gave them, so some are exactly 0 or 1. Classifiers are trained on few rows on purpose: that is when
scores need calibrating. Data sets of a few hundred rows are split `SMALL_SPLITS` times, with a classifier
trained on each split; the larger ones once, and at most `MAX_ROWS` held-out rows are kept.

Data that scikit-learn does not ship is looked for in the folder named by the environment variable
``BAYESCAL_DATA``. A pool whose files are not there is left out, and the result says so.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Split = tuple[Floats, Ints]

DATA_VARIABLE = "BAYESCAL_DATA"
MAX_ROWS = 5000
SMALL_SPLITS = 8

CLASSIFIERS: dict[str, Callable[[int], ClassifierMixin]] = {
    "logistic": lambda seed: LogisticRegression(max_iter=2000),
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "naive_bayes": lambda seed: GaussianNB(),
    "mlp": lambda seed: MLPClassifier((50,), max_iter=2000, random_state=seed),
    "svm": lambda seed: SVC(random_state=seed),
}


@dataclass(frozen=True)
class Pool:
    """Scores of rows the classifier has not seen, with their outcomes.

    Parameters
    ----------
    name : str
        "data set/where the scores come from".
    splits : tuple of (scores, y)
        One pair per training split: scores, shape (n_rows,), in [0, 1]; y, shape (n_rows,), 0 or 1.
    """

    name: str
    splits: tuple[Split, ...]

    @property
    def data_set(self) -> str:
        """Name of the data set, shared by pools that differ in their classifier only."""
        return self.name.split("/")[0]


def seed_of(*parts: object) -> int:
    """Make a seed in [0, 2**31) that depends on the arguments and on nothing else."""
    return zlib.crc32("|".join(map(str, parts)).encode()) & 0x7FFFFFFF


def data_folder() -> Path:
    """Folder of the data that scikit-learn does not ship.

    Raises
    ------
    FileNotFoundError
        When the environment variable does not name a folder.
    """
    folder = os.environ.get(DATA_VARIABLE, "")
    if not folder or not Path(folder).is_dir():
        raise FileNotFoundError(f"{DATA_VARIABLE} does not name a folder")
    return Path(folder)


def held_out(name: str, features: pd.DataFrame, y: Ints, train_rows: int, splits: int) -> Iterator[Split]:
    """Train the classifier that `name` ends in on random rows, and score the others, `splits` times."""
    for split in range(splits):
        rng = np.random.default_rng(seed_of(name, "split", split))
        order = rng.permutation(len(y))
        train, test = order[:train_rows], order[train_rows : train_rows + MAX_ROWS]
        classifier = name.split("/")[1]
        # Gaussian naive Bayes is given the numbers only: the indicator columns are not Gaussian.
        words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        model = make_pipeline(
            make_column_transformer(
                (StandardScaler(), make_column_selector(dtype_include="number")),
                (
                    "drop" if classifier == "naive_bayes" else words,
                    make_column_selector(dtype_exclude="number"),
                ),
            ),
            CLASSIFIERS[classifier](seed_of(name, "model", split)),
        ).fit(features.iloc[train], y[train])
        if hasattr(model, "predict_proba"):
            scores = model.predict_proba(features.iloc[test])[:, 1]
        else:
            scores = expit(model.decision_function(features.iloc[test]))
        yield np.asarray(scores, dtype=np.float64), y[test]


def given(name: str, scores: Floats, y: Ints) -> Iterator[Split]:
    """Scores that came with the data: at most `MAX_ROWS` of them, at random."""
    rows = np.random.default_rng(seed_of(name)).permutation(len(y))[:MAX_ROWS]
    yield np.asarray(scores, dtype=np.float64)[rows], np.asarray(y, dtype=np.int64)[rows]


@lru_cache
def adult() -> tuple[pd.DataFrame, Ints]:
    """Every row of Adult."""
    folder = data_folder() / "adult"
    table = pd.concat([pd.read_csv(folder / f"adult_{part}.csv") for part in ("train", "test")])
    return table.drop(columns=["income_gt_50k", "fnlwgt"]), table["income_gt_50k"].to_numpy(dtype=np.int64)


@lru_cache
def census(parts: tuple[str, ...] = ("test",)) -> tuple[pd.DataFrame, Ints]:
    """Rows of Census-Income (KDD), of its parts "train" and "test"."""
    tables, outcomes = [], []
    for part in parts:
        with np.load(data_folder() / "census_kdd" / f"census_kdd_{part}.npz", allow_pickle=False) as file:
            numbers = pd.DataFrame(file["num"]).add_prefix("number_")
            codes = pd.DataFrame(file["cat"]).astype(str).add_prefix("code_")
            tables.append(pd.concat([numbers, codes], axis=1))
            outcomes.append(file["y"].astype(np.int64))
    return pd.concat(tables, ignore_index=True), np.concatenate(outcomes)


@lru_cache
def _pima() -> tuple[pd.DataFrame, Ints]:
    table = pd.read_csv(data_folder() / "forecasts" / "raw_pima.csv")
    return table.drop(columns=["split", "diabetes"]), table["diabetes"].to_numpy(dtype=np.int64)


@lru_cache
def _climate() -> tuple[pd.DataFrame, Ints]:
    table = pd.read_csv(data_folder() / "casimac_climate" / "climate.csv")
    return table.drop(columns=["study", "run", "outcome"]), (table["outcome"] == 0).to_numpy(dtype=np.int64)


@lru_cache
def _bundled(which: str) -> tuple[pd.DataFrame, Ints]:
    load = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes}.get(which, load_digits)
    features, target = load(return_X_y=True)
    positive = {
        "breast_cancer": lambda t: t == 0,  # malignant
        "diabetes": lambda t: t > 140.5,  # progression above its median
        "digits_odd": lambda t: t % 2 == 1,
        "digits_eight": lambda t: t == 8,
    }[which](target)
    return pd.DataFrame(features), positive.astype(np.int64)


def _retinopathy(file: str) -> tuple[Floats, Ints]:
    table = pd.read_csv(data_folder() / "kaggle_dr" / file)
    log_p = log_softmax(table[[f"logit{k}" for k in range(5)]].to_numpy(dtype=np.float64), axis=1)
    return np.exp(logsumexp(log_p[:, 1:], axis=1)), (table["label"] > 0).to_numpy(dtype=np.int64)


def _images(file: str, one_class: int | None) -> tuple[Floats, Ints]:
    with np.load(data_folder() / "cifar_outputs" / f"{file}.npz", allow_pickle=False) as outputs:
        proba, label = np.exp(outputs["log_prob"].astype(np.float64)), outputs["label"]
    if one_class is None:
        return np.minimum(proba.max(axis=1), 1.0), (proba.argmax(axis=1) == label).astype(np.int64)
    return np.minimum(proba[:, one_class], 1.0), (label == one_class).astype(np.int64)


def _forecast(file: str, outcome: str, column: str) -> tuple[Floats, Ints]:
    table = pd.read_csv(data_folder() / "forecasts" / f"{file}.csv")
    return table[column].to_numpy(dtype=np.float64), table[outcome].to_numpy(dtype=np.int64)


# name: (features and outcome, rows to train on, number of training splits)
TRAINED: dict[str, tuple[Callable[[], tuple[pd.DataFrame, Ints]], int, int]] = {
    "adult/logistic": (adult, 1000, 1),
    "adult/forest": (adult, 1000, 1),
    "adult/boosting": (adult, 1000, 1),
    "adult/naive_bayes": (adult, 1000, 1),
    "adult/mlp": (adult, 1000, 1),
    "census/logistic": (census, 3000, 1),
    "census/naive_bayes": (census, 3000, 1),
    "pima/logistic": (_pima, 120, SMALL_SPLITS),
    "pima/forest": (_pima, 120, SMALL_SPLITS),
    "climate/svm": (_climate, 150, SMALL_SPLITS),
    "breast_cancer/naive_bayes": (lambda: _bundled("breast_cancer"), 100, SMALL_SPLITS),
    "breast_cancer/forest": (lambda: _bundled("breast_cancer"), 100, SMALL_SPLITS),
    "diabetes/mlp": (lambda: _bundled("diabetes"), 120, SMALL_SPLITS),
    "digits_odd/svm": (lambda: _bundled("digits_odd"), 100, SMALL_SPLITS),
    "digits_eight/boosting": (lambda: _bundled("digits_eight"), 300, SMALL_SPLITS),
}

# name: scores and outcome
GIVEN: dict[str, Callable[[], tuple[Floats, Ints]]] = {
    "kaggle_dr/any_disease": lambda: _retinopathy("kaggle_dr.csv"),
    "messidor/any_disease": lambda: _retinopathy("messidor.csv"),
    "cifar10_lenet5/top_label_right": lambda: _images("cifar10_lenet5", None),
    "cifar10_lenet5/cat": lambda: _images("cifar10_lenet5", 3),
    "cifar10_vgg16/top_label_right": lambda: _images("cifar10_vgg16", None),
    "cifar100_densenet/top_label_right": lambda: _images("cifar100_densenet_bc", None),
    "cell_segmentation/logistic": lambda: _forecast("cell_segmentation", "good", "logistic"),
    "cell_segmentation/naive_bayes": lambda: _forecast("cell_segmentation", "good", "naive_bayes"),
    "two_class_example/prob": lambda: _forecast("two_class_example", "class1", "prob"),
    "rain_tampere/p24": lambda: _forecast("rain_tampere", "rain", "p24"),
}

POOL_NAMES = (*TRAINED, *GIVEN)


def build_pool(name: str) -> Pool:
    """Make a pool from its data.

    Parameters
    ----------
    name : str
        One of `POOL_NAMES`.

    Raises
    ------
    FileNotFoundError
        When its data is not in the folder named by ``BAYESCAL_DATA``.
    """
    if name in TRAINED:
        load, train_rows, splits = TRAINED[name]
        return Pool(name, tuple(held_out(name, *load(), train_rows, splits)))
    return Pool(name, tuple(given(name, *GIVEN[name]())))


def load_pool(name: str, cache: Path) -> Pool:
    """Read a pool from `cache`, or make it and keep it there.

    Parameters
    ----------
    name : str
        One of `POOL_NAMES`.
    cache : Path
        Folder of the .npz files.

    Raises
    ------
    FileNotFoundError
        When the pool is not in `cache` and its data is not there either.
    """
    file = cache / f"{name.replace('/', '--')}.npz"
    if not file.exists():
        pool = build_pool(name)
        arrays = {f"scores_{k}": split[0] for k, split in enumerate(pool.splits)}
        arrays |= {f"y_{k}": split[1] for k, split in enumerate(pool.splits)}
        cache.mkdir(parents=True, exist_ok=True)
        with file.with_suffix(".part").open("wb") as part:
            np.savez_compressed(part, allow_pickle=False, **arrays)
        file.with_suffix(".part").replace(file)
    with np.load(file, allow_pickle=False) as stored:
        splits = tuple((stored[f"scores_{k}"], stored[f"y_{k}"]) for k in range(len(stored.files) // 2))
    return Pool(name, splits)
