"""Small versions of the studies, so that a change that breaks the statistics is seen before the long runs are made."""

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import bayescal as bc

STUDIES = Path(__file__).parent / "studies"
pytestmark = pytest.mark.slow


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def judged() -> pd.DataFrame:
    """Ten data sets of 100 cases for each of six curves: coverage, and KL error beside Platt's and isotonic's."""
    study = load("band_coverage")
    rows = []
    for curve in study.CURVES:
        for repeat in range(10):
            scores, y, fresh, truth = study.draw(curve, 100, repeat, first_seed=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                stacked = bc.StackedCalibrator(random_state=repeat, draws=500).fit(scores, y)
                isotonic = bc.IsotonicCalibrator(inference="point").fit(scores, y).predict_proba(fresh)[:, 1]
            for name, fitted in {**stacked.members_, "stacked": stacked}.items():
                lower, upper = fitted.predict_interval(fresh)[:, 1].T
                rows.append(
                    (
                        name,
                        np.mean((lower <= truth) & (truth <= upper)),
                        study.kl_error(truth, fitted.predict_proba(fresh)[:, 1]),
                    )
                )
            rows.append(("PAV", np.nan, study.kl_error(truth, isotonic)))
    return pd.DataFrame(rows, columns=["method", "coverage", "kl"]).groupby("method").mean()


def test_bands_cover(judged: pd.DataFrame) -> None:
    # standard error of a mean over 60 data sets is about 0.025 (tests/studies/results/band_coverage.txt)
    assert judged.loc["bernstein", "coverage"] > 0.82
    assert judged.loc["stacked", "coverage"] > 0.84
    assert judged.loc["stacked", "coverage"] < 0.98


def test_the_average_is_near_its_best_member_and_far_better_than_pav(judged: pd.DataFrame) -> None:
    best = judged.loc[["platt", "beta", "isotonic", "bernstein"], "kl"].min()
    assert judged.loc["stacked", "kl"] < 1.3 * best
    assert judged.loc["stacked", "kl"] < 0.5 * judged.loc["PAV", "kl"]


@pytest.mark.parametrize("model", ["platt", "beta", "isotonic", "bernstein"])
def test_ranks_of_true_parameters_are_uniform(model: str) -> None:
    study = load("sbc")
    rows = pd.DataFrame([study.simulate(model, i, first_seed=101) for i in range(60)])
    table = study.judge(rows)
    assert (table["p_holm"] > 1e-3).all(), table.to_string()
