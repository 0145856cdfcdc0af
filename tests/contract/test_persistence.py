"""Contract: a fitted calibrator survives pickle, joblib, copies and files, bit for bit."""

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import bayescal as bc
from bayescal.calibrators.base import Calibrator

Make = Callable[..., Calibrator]

SameAnswers = Callable[[Calibrator, Calibrator], None]


def through_pickle(cal: Calibrator, folder: Path) -> Calibrator:
    return pickle.loads(pickle.dumps(cal))


def through_joblib(cal: Calibrator, folder: Path) -> Calibrator:
    path = folder / "fit.joblib"
    joblib.dump(cal, path)
    return joblib.load(path, mmap_mode="r")  # draws in a read-only memory map


def through_deepcopy(cal: Calibrator, folder: Path) -> Calibrator:
    return copy.deepcopy(cal)


def through_copy(cal: Calibrator, folder: Path) -> Calibrator:
    return copy.copy(cal)


def through_file(cal: Calibrator, folder: Path) -> Calibrator:
    path = folder / "with spaces and ü.nc"
    path.write_bytes(b"what was there before")
    cal.save(path)
    return bc.load(path)


WAYS = [through_pickle, through_joblib, through_deepcopy, through_copy, through_file]


@pytest.fixture
def same_answers(grid: np.ndarray) -> SameAnswers:
    """Bit for bit, whatever is asked."""

    def same_answers(a: Calibrator, b: Calibrator) -> None:
        assert type(a) is type(b)
        np.testing.assert_array_equal(a.classes_, b.classes_)
        assert a.classes_.dtype == b.classes_.dtype
        np.testing.assert_array_equal(a.predict_proba(grid), b.predict_proba(grid))
        np.testing.assert_array_equal(a.predict(grid), b.predict(grid))
        if hasattr(a, "predict_point"):
            np.testing.assert_array_equal(a.predict_point(grid), b.predict_point(grid))
        if not hasattr(a, "idata_"):
            assert not hasattr(b, "idata_")
            return
        np.testing.assert_array_equal(a.proba_draws(grid), b.proba_draws(grid))
        pd.testing.assert_frame_equal(a.diagnostics_, b.diagnostics_)
        assert a.diagnostics_.attrs == b.diagnostics_.attrs
        assert a.idata_.identical(b.idata_)  # prior and predictive draws too

    return same_answers


@pytest.mark.parametrize("way", WAYS)
def test_round_trip(fitted: Calibrator, way: Callable, same_answers: SameAnswers, tmp_path: Path) -> None:
    came_back = way(fitted, tmp_path)
    same_answers(fitted, came_back)
    assert came_back.get_params() == fitted.get_params()
    assert clone(came_back).get_params() == fitted.get_params()


def test_round_trip_keeps_labels_names_and_settings(make: Make, cases, grid: np.ndarray, tmp_path: Path) -> None:
    words = np.array(["malignant", "benign", "unsure"][: max(cases.y) + 1], dtype=object)
    cal = make(classes=words.tolist())
    frame = pd.DataFrame(cases.scores).add_prefix("risk")
    cal.fit(frame, words[cases.y])
    for way in (through_pickle, through_file):
        came_back = way(cal, tmp_path)
        np.testing.assert_array_equal(came_back.predict(grid), cal.predict(grid))
        assert came_back.classes_.tolist() == words.tolist()
        assert came_back.classes_.dtype == cal.classes_.dtype
        assert came_back.get_params() == cal.get_params()
        assert came_back.feature_names_in_.tolist() == frame.columns.tolist()
        with pytest.raises(bc.ScoreValueError, match="risk"):
            came_back.predict_proba(pd.DataFrame(grid).add_prefix("age"))


def test_what_came_back_fits_again(make: Make, fitted, other_cases, same_answers: SameAnswers, tmp_path: Path) -> None:
    again = through_file(fitted, tmp_path).fit(*other_cases)
    same_answers(again, make().fit(*other_cases))


def test_what_was_loaded_can_be_saved_again(point: Calibrator, same_answers: SameAnswers, tmp_path: Path) -> None:
    same_answers(point, through_file(through_file(point, tmp_path), tmp_path))


@pytest.mark.variants("fewest scores")
def test_copies_do_not_share_state(fitted: Calibrator, other_cases, grid: np.ndarray) -> None:
    before = fitted.predict_proba(grid)
    copy.copy(fitted).fit(*other_cases)
    copy.deepcopy(fitted).fit(*other_cases)
    np.testing.assert_array_equal(fitted.predict_proba(grid), before)


@pytest.mark.variants("fewest scores")
def test_unfitted_calibrators_are_pickled_too(make: Make, fitted, cases, grid: np.ndarray) -> None:
    came_back = pickle.loads(pickle.dumps(make()))
    np.testing.assert_array_equal(came_back.fit(*cases).predict_proba(grid), fitted.predict_proba(grid))


def test_a_pickle_of_another_version_warns(fitted, same_answers: SameAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("bayescal.calibrators.base.__version__", "0.0.1")
        written = pickle.dumps(fitted)
    with pytest.warns(UserWarning, match=r"0\.0\.1.*" + bc.__version__.replace(".", r"\.")):
        came_back = pickle.loads(written)
    same_answers(fitted, came_back)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(came_back))


def test_rows_can_be_left_out_of_the_file(fitted: Calibrator, grid: np.ndarray, tmp_path: Path) -> None:
    fitted.save(tmp_path / "private.nc", include_data=False)
    private = bc.load(tmp_path / "private.nc")
    np.testing.assert_array_equal(private.predict_proba(grid), fitted.predict_proba(grid))
    if hasattr(fitted, "idata_"):
        assert "observed_data" not in private.idata_.children
        assert "log_likelihood" not in private.idata_.children
        np.testing.assert_array_equal(private.proba_draws(grid), fitted.proba_draws(grid))


PREDICT_ALL = """
import json, pickle, sys
import numpy as np
import bayescal as bc
out = {}
for name in sys.stdin.read().split():
    for path, read in ((name + ".nc", bc.load), (name + ".pkl", lambda path: pickle.load(open(path, "rb")))):
        cal, grid = read(path), np.load(name + ".npy")
        out[path] = [cal.predict_proba(grid).tobytes().hex()]
        if "nuts" in name:
            out[path] += [np.ascontiguousarray(cal.predict_interval(grid)).tobytes().hex()]
print(json.dumps([out, sorted({"pymc", "pytensor", "nutpie", "arviz", "matplotlib"} & set(sys.modules))]))
"""


def test_predicts_the_same_in_a_fresh_process_without_a_sampler(fit_of_every_variant, grid_of, tmp_path: Path) -> None:
    expected = {}
    for variant, cal in fit_of_every_variant.items():
        grid = grid_of(variant.n_scores)
        expected[str(variant)] = [cal.predict_proba(grid).tobytes().hex()]
        if variant.inference == "nuts":
            expected[str(variant)].append(np.ascontiguousarray(cal.predict_interval(grid)).tobytes().hex())
        cal.save(tmp_path / f"{variant}.nc")
        (tmp_path / f"{variant}.pkl").write_bytes(pickle.dumps(cal))
        np.save(tmp_path / f"{variant}.npy", grid)
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", PREDICT_ALL],
        input=" ".join(expected),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    out, imported = json.loads(done.stdout)
    assert imported == []
    assert out == {f"{name}.{kind}": answers for name, answers in expected.items() for kind in ("nc", "pkl")}
    assert len(expected) == len(fit_of_every_variant)
