"""A fitted `CASIMACClassifier` survives a file bit for bit; what is no such file, or holds code, is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.gaussian_process import GaussianProcessRegressor

import bayescal as bc
from bayescal.calibrators.seal import SIZE
from bayescal.validation import quiet

NAMES = np.array(["ape", "bee", "cow", "doe"])
FIXED = {"gamma": 0.5, "k_alpha": 1, "k_beta": 1, "spread": 1.5}


def case(seed: int, classes: int = 3, n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, class numbers, features of new cases."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    x = rng.normal(size=(n, 2)) + 1.8 * np.column_stack([np.cos(2.1 * codes), np.sin(2.1 * codes)])
    return x, codes, rng.normal(size=(15, 2)) * 3


def fit(x: Any, y: Any, **settings: Any) -> bc.CASIMACClassifier:
    """A fit whose draws are too few for the gate, which is not what is tested."""
    with quiet(bc.ConvergenceWarning):
        return bc.CASIMACClassifier(**{"draws": 40, "tune": 80, "chains": 2, "random_state": 3, **settings}).fit(x, y)


def through_file(clf: bc.CASIMACClassifier, folder: Path) -> bc.CASIMACClassifier:
    clf.save(folder / "with spaces and ü.nc")
    return bc.load(folder / "with spaces and ü.nc")


def same_answers(a: bc.CASIMACClassifier, b: bc.CASIMACClassifier, x: Any) -> None:
    """Bit for bit, whatever is asked."""
    assert type(a) is type(b) and a.classes_.dtype == b.classes_.dtype and a.n_features_in_ == b.n_features_in_
    for ask in ("predict", "predict_proba", "predict_latent", "transform"):
        np.testing.assert_array_equal(getattr(a, ask)(x), getattr(b, ask)(x), err_msg=ask)
    np.testing.assert_array_equal(a.compress(a.transform(x)), b.compress(b.transform(x)))
    pd.testing.assert_frame_equal(a.transformations_, b.transformations_, check_exact=True)
    assert a.transformations_.attrs == pytest.approx(b.transformations_.attrs, rel=0, nan_ok=True)
    if a.inference == "nuts":
        np.testing.assert_array_equal(a.predict_interval(x, 0.8, "hdi"), b.predict_interval(x, 0.8, "hdi"))
        xr.testing.assert_identical(a.proba_draws(x), b.proba_draws(x))
        xr.testing.assert_identical(a.latent(x), b.latent(x))
        pd.testing.assert_frame_equal(a.diagnostics_, b.diagnostics_, check_exact=True)
        assert a.diagnostics_.attrs == b.diagnostics_.attrs
        assert a.idata_.identical(b.idata_)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
@pytest.mark.parametrize("inference", ["point", "nuts"])
def test_answers_as_before(inference: str, metric: str, classes: int, random_seed: int, tmp_path: Path) -> None:
    x, codes, new = case(random_seed, classes)
    clf = fit(x, NAMES[codes], inference=inference, metric=metric)
    again = through_file(clf, tmp_path)
    same_answers(clf, again, new)
    np.testing.assert_array_equal(again.transform(x), clf.transform(x))  # f of the training cases


def test_settings_come_back_and_serve_for_another_fit(tmp_path: Path) -> None:
    x, codes, new = case(0)
    priors = {"length_scale_log_sd": 0.7}
    clf = fit(x, codes, kernel="rbf", standardize=False, priors=priors, inference="point", **FIXED)
    again = through_file(clf, tmp_path)
    assert again.get_params() == clf.get_params()
    same_answers(clf, again, new)
    same_answers(clf.fit(x[:30], codes[:30]), again.fit(x[:30], codes[:30]), new)


def test_another_process_answers_alike_without_a_sampler(tmp_path: Path) -> None:
    x, codes, new = case(1)
    clf = fit(x, codes)
    clf.save(tmp_path / "fit.nc")
    np.save(tmp_path / "new.npy", new)
    script = (
        "import sys, numpy as np, bayescal as bc\n"
        "np.save('interval.npy', bc.load('fit.nc').predict_interval(np.load('new.npy')))\n"
        "assert not {'pymc', 'pytensor', 'nutpie'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "interval.npy"), clf.predict_interval(new))


@pytest.mark.parametrize(
    "labels",
    [
        NAMES.astype(object),
        np.array([3, 5, 9], dtype=np.int16),
        np.array(["2026-01-01", "2026-02-01", "2026-03-01"], dtype="M8[D]"),
    ],
    ids=["object", "int16", "dates"],
)
def test_labels_of_every_kind(labels: np.ndarray, tmp_path: Path) -> None:
    x, codes, new = case(0)
    clf = fit(x, labels[codes], inference="point", **FIXED)
    same_answers(clf, through_file(clf, tmp_path), new)


def test_columns_keep_their_names(tmp_path: Path) -> None:
    x, codes, new = case(0)
    clf = fit(pd.DataFrame(x, columns=["a", "b"]), codes, inference="point", **FIXED)
    again, table = through_file(clf, tmp_path), pd.DataFrame(new, columns=["a", "b"])
    same_answers(clf, again, table)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["b", "a"]])


def test_classes_too_small_to_weigh_anything_keep_a_missing_loss(tmp_path: Path) -> None:
    with quiet(bc.CalibrationWarning):
        clf = bc.CASIMACClassifier(inference="point").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    again = through_file(clf, tmp_path)
    assert np.isnan(again.transformations_.attrs["loo_log_loss"])
    same_answers(clf, again, [[0.5], [2.5]])


def test_others_read_the_posterior(tmp_path: Path) -> None:
    x, codes, _ = case(0)
    clf = fit(x, codes)
    clf.save(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as tree:
        for name in ("length_scale", "noise_ratio", "signal_variance", "spread"):
            np.testing.assert_array_equal(tree["posterior"][name], clf.idata_.posterior[name])


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"metric": lambda a, b: float(np.abs(a - b).sum())}, "metric"),
        ({"kernel": lambda a, b: np.exp(-((a[:, None] - b) ** 2).sum(axis=-1))}, "kernel"),
        ({"regressor": GaussianProcessRegressor(alpha=0.1, optimizer=None)}, "regressor"),
    ],
)
def test_code_is_refused(settings: dict[str, Any], name: str, tmp_path: Path) -> None:
    x, codes, _ = case(0)
    clf = fit(x, codes, inference="point", **FIXED, **settings)
    with pytest.raises(bc.ParameterValueError, match=rf"no code, and {name} is .*pickle"):
        clf.save(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        bc.CASIMACClassifier().save(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_refused(tmp_path: Path) -> None:
    x, codes, _ = case(0)
    path = tmp_path / "fit.nc"
    fit(x, codes, inference="point").save(path)
    content = path.read_bytes()
    for where in np.linspace(0, len(content) - SIZE - 1, 20).astype(int):
        path.write_bytes(content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :])
        with pytest.raises(bc.FileFormatError, match=r"fit\.nc.*by its checksum"):
            bc.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(bc.FileFormatError, match="damaged or cut short"):
        bc.load(path)


@pytest.mark.parametrize("change", ["kind", "other kind", "state", "draws", "parts", "schema"])
def test_what_no_classifier_wrote_is_refused(change: str, tmp_path: Path) -> None:
    x, codes, _ = case(0)
    fit(x, codes).save(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as opened:
        tree = opened.load()
    if change == "kind":
        tree.attrs["kind"] = "os"
    elif change == "other kind":
        tree.attrs["kind"] = "label-shift"
    elif change == "state":
        tree.attrs["state"] = "{}"
    elif change == "draws":
        tree["posterior"]["length_scale"][0, 0] = np.nan
    elif change == "parts":
        del tree["parts"]
    else:
        tree.attrs["bayescal_schema"] = 99
    tree.to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")  # without a seal
    with pytest.raises(bc.FileFormatError, match=r"changed\.nc.*(is damaged|has schema 99)"):
        bc.load(tmp_path / "changed.nc")
