"""A fitted `LabelShiftAdapter` survives a file bit for bit, and a damaged file is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

import bayescal as bc
from bayescal.calibrators.seal import SIZE
from bayescal.label_shift.notes import BAYES, METHODS
from bayescal.validation import quiet

NAMES = np.array(["calm", "rain", "storm"])


def data(seed: int, n: int = 80, cases: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source probabilities and class numbers, target probabilities."""
    rng = np.random.default_rng(seed)
    y, target = rng.integers(0, 3, n), rng.choice(3, size=cases, p=[0.1, 0.2, 0.7])
    source, other = (softmax(2 * (2 * np.eye(3)[k] + rng.normal(size=(len(k), 3))), axis=1) for k in (y, target))
    return source, y, other


def same_answers(a: bc.LabelShiftAdapter, b: bc.LabelShiftAdapter, scores: Any) -> None:
    """Bit for bit, whatever is asked."""
    assert type(a) is type(b) and a.classes_.dtype == b.classes_.dtype
    for name in ("target_prior_", "source_prior_", "weights_"):
        xr.testing.assert_identical(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.predict_proba(scores), b.predict_proba(scores))
    np.testing.assert_array_equal(a.predict(scores), b.predict(scores))
    if a.method in BAYES:
        np.testing.assert_array_equal(a.predict_interval(scores, 0.8), b.predict_interval(scores, 0.8))
        np.testing.assert_array_equal(a.proba_draws(scores), b.proba_draws(scores))
        xr.testing.assert_identical(a.weight_interval(), b.weight_interval())
        assert a.idata_.identical(b.idata_)


def through_file(ad: bc.LabelShiftAdapter, folder: Path, **how: Any) -> bc.LabelShiftAdapter:
    ad.save(folder / "with spaces and ü.nc", **how)
    return bc.load(folder / "with spaces and ü.nc")


@pytest.fixture(scope="module")
def scaling() -> bc.BiasCorrectedTemperatureScaling:
    source, y, _ = data(1)
    with quiet(bc.ConvergenceWarning):
        return bc.BiasCorrectedTemperatureScaling(draws=60, tune=200, chains=2, random_state=0).fit(source, y)


@pytest.mark.parametrize("method", METHODS)
def test_predicts_and_adapts_as_before(method: str, scaling: Any, random_seed: int, tmp_path: Path) -> None:
    source, y, target = data(random_seed)
    for calibrator in (None, FrozenEstimator(scaling)):
        with quiet(bc.CalibrationWarning):  # negative weights
            ad = bc.LabelShiftAdapter(calibrator, method, draws=80, random_state=3).fit(source, y).adapt(target)
            for include_data in (True, False):
                again = through_file(ad, tmp_path, include_data=include_data)
                same_answers(ad, again, target)
                same_answers(ad.adapt(target[:40]), again.adapt(target[:40]), target)
                ad.adapt(target)


def test_settings_come_back_and_serve_for_another_fit(tmp_path: Path) -> None:
    source, y, target = data(0)
    calibrator = bc.TemperatureScaling(inference="point")
    ad = bc.LabelShiftAdapter(calibrator, "em", [0.2, 0.3, 0.5], draws=70, random_state=5).fit(source, y).adapt()
    again = through_file(ad, tmp_path)
    mine, theirs = again.get_params(deep=False), ad.get_params(deep=False)
    assert mine.pop("calibrator").get_params() == theirs.pop("calibrator").get_params()
    assert mine == theirs
    assert not hasattr(again.calibrator, "classes_")  # what is fitted is `calibrator_`
    same_answers(again.fit(source[:50], y[:50]).adapt(), ad.fit(source[:50], y[:50]).adapt(), target)


def test_a_seed_that_the_adapter_gave_is_not_taken_for_the_users(tmp_path: Path) -> None:
    source, y, _ = data(0)
    ad = bc.LabelShiftAdapter(bc.TemperatureScaling(inference="point"), "em", random_state=5).fit(source, y)
    again = through_file(ad, tmp_path)
    assert again.calibrator.random_state is None
    assert again.calibrator_.random_state == ad.calibrator_.random_state is not None


def test_what_is_fitted_but_not_adapted_adapts_when_loaded(tmp_path: Path) -> None:
    source, y, target = data(0)
    ad = bc.LabelShiftAdapter(draws=40, random_state=0).fit(source, y)
    again = through_file(ad, tmp_path)
    assert not hasattr(again, "weights_")
    same_answers(ad.adapt(target), again.adapt(target), target)


@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        NAMES.astype(object),
        NAMES.astype("S"),
        np.array([3, 5, 9], dtype=np.int16),
        np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="M8[D]"),
    ],
    ids=["str", "object", "bytes", "int16", "dates"],
)
def test_labels_of_every_kind(labels: np.ndarray, tmp_path: Path) -> None:
    source, y, target = data(0)
    for calibrator in (None, bc.TemperatureScaling(inference="point")):
        ad = bc.LabelShiftAdapter(calibrator, "rlls-soft").fit(source, labels[y]).adapt(target)
        same_answers(ad, through_file(ad, tmp_path), target)


def test_columns_keep_their_order(tmp_path: Path) -> None:
    source, y, target = data(0)
    frame = pd.DataFrame(target, columns=NAMES)
    ad = bc.LabelShiftAdapter(method="em").fit(pd.DataFrame(source, columns=NAMES), NAMES[y]).adapt(frame)
    with pytest.raises(bc.ScoreValueError, match="in the order"):
        through_file(ad, tmp_path).predict_proba(frame[NAMES[::-1]])


def test_binary_calibrator_of_one_score(tmp_path: Path) -> None:
    p, y = np.linspace(0.05, 0.95, 40), np.arange(40) % 7 > 3
    cal = bc.PlattCalibrator(inference="point")
    ad = bc.LabelShiftAdapter(cal, "bayes-confusion", draws=40, random_state=0).fit(p, y).adapt(p[25:])
    same_answers(ad, through_file(ad, tmp_path), p)


def test_others_read_the_posterior(tmp_path: Path) -> None:
    source, y, target = data(0)
    ad = bc.LabelShiftAdapter(draws=40, random_state=0).fit(source, NAMES[y]).adapt(target)
    ad.save(tmp_path / "shift.nc")
    with xr.open_datatree(tmp_path / "shift.nc", engine="h5netcdf") as tree:
        drawn = tree["posterior"]["target_prior"]
        assert drawn["class"].values.tolist() == NAMES.tolist()
        np.testing.assert_array_equal(drawn, ad.idata_.posterior["target_prior"])


def test_damage_is_refused(tmp_path: Path) -> None:
    source, y, target = data(0)
    ad = bc.LabelShiftAdapter(draws=40, random_state=0).fit(source, y).adapt(target)
    path = tmp_path / "shift.nc"
    ad.save(path)
    content = path.read_bytes()
    for where in np.linspace(0, len(content) - SIZE - 1, 20).astype(int):
        path.write_bytes(content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :])
        with pytest.raises(bc.FileFormatError, match=r"shift\.nc.*by its checksum"):
            bc.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(bc.FileFormatError, match="damaged or cut short"):
        bc.load(path)


@pytest.mark.parametrize("change", ["kind", "state", "draws"])
def test_what_no_adapter_wrote_is_refused(change: str, tmp_path: Path) -> None:
    source, y, target = data(0)
    bc.LabelShiftAdapter(draws=40, random_state=0).fit(source, y).adapt(target).save(tmp_path / "shift.nc")
    with xr.open_datatree(tmp_path / "shift.nc", engine="h5netcdf") as opened:
        tree = opened.load()
    if change == "kind":
        tree.attrs["kind"] = "os"
    elif change == "state":
        tree.attrs["state"] = "{}"
    else:
        tree["posterior"]["target_prior"][0, 0, 0] = np.nan
    tree.to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")  # without a seal
    with pytest.raises(bc.FileFormatError, match=r"changed\.nc.*is damaged"):
        bc.load(tmp_path / "changed.nc")


def test_refusals(tmp_path: Path) -> None:
    source, y, _ = data(0)

    class Own(BaseEstimator):
        def fit(self, scores: Any, y: Any) -> "Own":
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, scores: Any) -> np.ndarray:
            return np.asarray(scores)

    ad = bc.LabelShiftAdapter(Own(), method="em")
    with pytest.raises(ValueError, match="not fitted"):
        ad.save(tmp_path / "shift.nc")
    with pytest.raises(bc.ParameterValueError, match=r"calibrator of this package, got Own.*pickle"):
        ad.fit(source, y).save(tmp_path / "shift.nc")
    assert list(tmp_path.iterdir()) == []
