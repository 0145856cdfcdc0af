"""`bayescal.compare` and `bayescal.prior_sensitivity`."""

import warnings
from dataclasses import replace
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats import psense
from scipy.special import softmax
from scipy.stats import halfnorm, lognorm, norm
from sklearn.model_selection import KFold, ShuffleSplit

import bayescal as bc
from bayescal.calibrators.stacked import stacking_weights
from bayescal.evaluation.compare import pseudo_bma_weights
from bayescal.evaluation.elpd import elpd_loo, make_folds, weights_without
from bayescal.evaluation.sensitivity import log_prior, power_scaling_tree
from bayescal.validation import CalibrationWarning, ConvergenceWarning, NoPosteriorError, ParameterValueError

FEW = {"draws": 400, "chains": 2, "random_state": 0, "progressbar": False}


def cases(n: int = 60, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.uniform(0.02, 0.98, n), 2)
    return scores, (rng.random(n) < scores**2).astype(int)


def fit(name: str, data: Any, weight: Any = None, **settings: Any) -> Any:
    known = {} if settings.get("inference") == "point" else FEW
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short chains
        warnings.simplefilter("ignore", CalibrationWarning)
        return getattr(bc, name)(**{**known, **settings}).fit(*data, sample_weight=weight)


@pytest.fixture(scope="module")
def fits() -> dict[str, Any]:
    return {name: fit(f"{name.capitalize()}Calibrator", cases()) for name in ("platt", "isotonic", "bernstein")}


def test_equals_arviz(fits: dict[str, Any]) -> None:
    table = bc.compare(fits)
    loo = {name: az.loo(cal.idata_, pointwise=True, reff=1.0) for name, cal in fits.items()}
    theirs = az.compare(loo, round_to="none")
    assert table.index.tolist() == theirs.index.tolist() and set(table["method"]) == {"loo"}
    np.testing.assert_allclose(table["elpd"], theirs["elpd"], rtol=1e-9)
    np.testing.assert_allclose(table["se"], theirs["se"], rtol=1e-9)
    np.testing.assert_allclose(table["elpd_diff"], theirs["elpd_diff"], atol=1e-9)
    np.testing.assert_allclose(table["dse"], theirs["dse"] * np.sqrt(60 / 59), atol=1e-9)  # they divide by n
    np.testing.assert_allclose(table["p"], theirs["p"], rtol=1e-7)
    largest = [loo[name].pareto_k.max() for name in table.index]
    np.testing.assert_allclose(table["pareto_k"], largest, rtol=1e-9)
    np.testing.assert_allclose(table["stacking_weight"], theirs["weight"], atol=2e-3)  # the tolerance of theirs
    bma = az.compare(loo, method="BB-pseudo-BMA", round_to="none")["weight"]
    # 1000 and 4000 bootstraps of weights whose standard deviation is below 0.5
    np.testing.assert_allclose(table["pseudo_bma_weight"], bma, atol=5 * 0.5 / np.sqrt(800))


@pytest.mark.slow
def test_elpd_is_that_of_refits_without_each_row() -> None:
    scores, y = cases(25, 7)
    cal = fit("PlattCalibrator", (scores, y), draws=2000, chains=4)
    refits = []
    for row in range(25):
        kept = np.arange(25) != row
        again = fit("PlattCalibrator", (scores[kept], y[kept]), draws=2000, chains=4, random_state=1)
        refits.append(np.log(again.predict_proba(scores[[row]])[0, y[row]]))
    found = elpd_loo(cal).elpd
    np.testing.assert_allclose(found, refits, atol=0.03)  # Monte Carlo error of both sides
    assert found.sum() == pytest.approx(np.sum(refits), abs=0.1)


def test_a_weight_is_as_many_rows() -> None:
    scores, y = cases(30)
    weight = np.arange(30) % 3
    weighted = {name: fit(name, (scores, y), weight) for name in ("PlattCalibrator", "BetaCalibrator")}
    repeated = (np.repeat(scores, weight), np.repeat(y, weight))
    rows = {name: fit(name, repeated) for name in weighted}
    ours, theirs = bc.compare(weighted), bc.compare(rows)
    numbers = ["elpd", "se", "elpd_diff", "dse", "p", "pareto_k", "high_k", "stacking_weight"]
    np.testing.assert_allclose(ours[numbers], theirs[numbers], rtol=1e-6, atol=1e-6)
    # 4000 bootstraps on either side
    np.testing.assert_allclose(ours["pseudo_bma_weight"], theirs["pseudo_bma_weight"], atol=0.04)


def test_point_estimates_are_refitted_to_folds(fits: dict[str, Any]) -> None:
    scores, y = cases()
    point = fit("PlattCalibrator", (scores, y), inference="point")
    table = bc.compare({"bayes": fits["platt"], "point": point}, cv=KFold(5), random_state=4)
    assert table["method"].to_dict() == {"bayes": "loo", "point": "kfold"}
    expected = 0.0
    for train, test in KFold(5).split(scores):
        again = fit("PlattCalibrator", (scores[train], y[train]), inference="point")
        expected += np.log(again.predict_proba(scores[test])[np.arange(12), y[test]]).sum()
    assert table.loc["point", "elpd"] == pytest.approx(expected)
    assert np.isnan(table.loc["point", "pareto_k"]) and "judges all alike" in table.attrs["message"]
    alike = bc.compare({"a": point, "b": fit("BetaCalibrator", (scores, y), inference="point")}, cv=60)
    kept = np.arange(60) != 0
    first = fit("PlattCalibrator", (scores[kept], y[kept]), inference="point").predict_proba(scores[:1])[0, y[0]]
    assert set(alike["method"]) == {"kfold"} and "alike" not in alike.attrs["message"]
    found = bc.evaluation.elpd.elpd_kfold(point, make_folds(y, np.ones(60), 60, 0)).elpd[0]
    assert found == pytest.approx(np.log(first))


def test_folds_of_posteriors_count_what_did_not_converge() -> None:
    made = {name: fit("PlattCalibrator", cases(), draws=80, random_state=k) for k, name in enumerate(("platt", "b"))}
    with pytest.warns(ConvergenceWarning) as caught:  # 80 draws never pass the checks
        table = bc.compare(made, method="kfold", cv=2)
    assert [str(w.message).partition(" folds")[0] for w in caught] == [
        f"{name}: the sampler did not converge in 2 of 2" for name in made
    ]
    assert set(table["method"]) == {"kfold"} and np.isfinite(table["elpd"]).all()


@pytest.mark.parametrize("positives", [1, 3])
def test_folds_without_a_class(positives: int) -> None:
    scores = np.linspace(0.05, 0.95, 25)
    y = np.where(np.arange(25) >= 25 - positives, "ill", "fit")
    table = bc.compare(
        {
            "platt": fit("PlattCalibrator", (scores, y), inference="point"),
            "beta": fit("BetaCalibrator", (scores, y), inference="point"),
        }
    )
    assert np.isfinite(table["elpd"]).all()


def test_folds_are_stratified_and_without_rows_of_weight_zero() -> None:
    y, weight = np.repeat([0, 1], [40, 13]), np.ones(53)
    weight[[0, 52]] = 0
    folds = make_folds(y, weight, 10, 1)
    judged = np.concatenate([test for _, test in folds])
    assert sorted(judged) == list(range(1, 52))
    assert all(set(fit) == set(judged) - set(test) for fit, test in folds)
    assert {int(y[test].sum()) for _, test in folds} == {1, 2} and {len(test) for _, test in folds} == {5, 6}


def test_probability_zero_is_said() -> None:
    scores, y = cases()
    isotonic = fit("IsotonicCalibrator", (scores, y), inference="point")
    platt = fit("PlattCalibrator", (scores, y), inference="point")
    with pytest.warns(CalibrationWarning, match=r"^iso: probability 0 was given to what happened in \d+ of 60"):
        table = bc.compare({"iso": isotonic, "platt": platt})
    assert table.index.tolist() == ["platt", "iso"]
    assert table.loc["iso", ["elpd", "elpd_diff"]].tolist() == [-np.inf, -np.inf]
    assert np.isnan(table.loc["iso", ["se", "dse"]].astype(float)).all()
    assert table["pseudo_bma_weight"].tolist() == [1.0, 0.0]
    assert table["stacking_weight"].sum() == pytest.approx(1)
    with pytest.warns(CalibrationWarning, match="probability 0"):
        alone = bc.compare({"iso": isotonic, "same": isotonic})
    # what both rule out says nothing about weights
    assert alone["pseudo_bma_weight"].tolist() == [0.5, 0.5] and "no elpd is finite" in alone.attrs["message"]


def test_high_pareto_k_names_the_calibrator(fits: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = elpd_loo(fits["platt"])
    k = np.full(60, 0.2)
    k[[7, 30]] = 0.91, 0.71
    found = {"platt": honest, "isotonic": replace(honest, pareto_k=k)}
    monkeypatch.setattr("bayescal.evaluation.compare.elpd_loo", lambda cal: found[cal._name])
    with pytest.warns(CalibrationWarning) as caught:
        table = bc.compare({"platt": fits["platt"], "steps": fits["isotonic"]})
    assert len(caught) == 1 and str(caught[0].message).startswith(
        "steps: 2 of 60 rows have a Pareto k above 0.7 (largest 0.91, first at row 7)"
    )
    assert table.loc["steps", ["pareto_k", "high_k"]].tolist() == [0.91, 2.0] and table.loc["platt", "high_k"] == 0


def test_average_leaves_the_row_out_of_its_weights(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    elpd = np.log(np.clip(rng.beta(3, 1.5, (40, 1)) + rng.normal(0, 0.08, (40, 3)), 0.02, 0.98))
    weight = np.append([3.0, 0.5], np.ones(38))
    stacked = stacking_weights(elpd, weight)
    exact = []
    for row in range(40):
        without = weight.copy()
        without[row] -= min(1.0, weight[row])
        exact.append(stacking_weights(elpd, without))
    moved = np.abs(np.array(exact) - stacked).max()
    np.testing.assert_allclose(weights_without(elpd, weight, stacked), exact, atol=0.1 * moved)


def test_average_among_its_members() -> None:
    data = cases()
    auto = fit("StackedCalibrator", data, members=("platt", "beta"))
    table = bc.compare({"auto": auto, **auto.members_})
    assert (table["p"] > 0).all()
    mixed = np.exp(auto._elpd) @ auto.weights_.to_numpy()
    # below the density with weights that know the row, and by less than a case
    assert -1 < table.loc["auto", "elpd"] - np.log(mixed).sum() < 0


def test_several_scores_and_different_scores_of_the_same_rows() -> None:
    scores, y = cases(40)
    two = np.column_stack([scores, np.random.default_rng(1).random(40)])
    made = {
        "copula": fit("CopulaCalibrator", (two, y)),
        "platt": fit("PlattCalibrator", (two, y)),
        "kde": fit("CopulaCalibrator", (two, y), inference="point"),
        "mrmic": fit("MRMICCalibrator", (two, y), inference="point"),
        "first alone": fit("PlattCalibrator", (scores, y)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # mrmic may rule out what happens
        table = bc.compare(made)
    assert set(table.index) == set(made)
    assert table.loc[["kde", "mrmic"], "method"].tolist() == ["kfold", "kfold"]
    assert np.isfinite(table.loc[["copula", "platt", "first alone"], "elpd"]).all()


def test_several_classes() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(50, 3))
    y = np.array(["ape", "bee", "cow"])[(softmax(logits, axis=1).cumsum(axis=1) > rng.random((50, 1))).argmax(axis=1)]
    made = {name: fit(name, (logits, y), score_kind="logit") for name in ("TemperatureScaling", "VectorScaling")}
    table = bc.compare(made)
    theirs = az.compare({name: az.loo(c.idata_, pointwise=True, reff=1.0) for name, c in made.items()}, round_to="none")
    assert table.index.tolist() == theirs.index.tolist()
    np.testing.assert_allclose(table["elpd"], theirs["elpd"], rtol=1e-9)
    point = fit("TemperatureScaling", (logits, y), score_kind="logit", inference="point")
    assert np.isfinite(bc.compare({**made, "point": point})["elpd"]).all()


def test_saved_and_loaded(fits: dict[str, Any], tmp_path: Any) -> None:
    fits["platt"].save(tmp_path / "platt.nc")
    loaded = bc.load(tmp_path / "platt.nc")
    pd.testing.assert_frame_equal(bc.compare({**fits, "platt": loaded}), bc.compare(fits))
    fits["platt"].save(tmp_path / "bare.nc", include_data=False)
    with pytest.raises(NoPosteriorError, match="'bare' was saved without its calibration rows"):
        bc.compare({"bare": bc.load(tmp_path / "bare.nc"), **fits})


def test_same_seed_same_table() -> None:
    made = {name: fit(name, cases(), inference="point") for name in ("PlattCalibrator", "BetaCalibrator")}
    pd.testing.assert_frame_equal(bc.compare(made), bc.compare(made))
    assert bc.compare(made, random_state=1)["elpd"].tolist() != bc.compare(made)["elpd"].tolist()


def test_what_cannot_be_compared_is_refused() -> None:
    scores, y = cases(20)
    one = fit("PlattCalibrator", (scores, y), inference="point")

    def refused(other: Any, words: str) -> None:
        with pytest.raises(ParameterValueError, match=words):
            bc.compare({"one": one, "other": other})

    refused(fit("PlattCalibrator", (scores[1:], y[1:]), inference="point"), "different rows: 20 and 19")
    flipped = np.append(1 - y[:1], y[1:])
    refused(fit("PlattCalibrator", (scores, flipped), inference="point"), "different labels: 1 of 20 .* at row 0")
    refused(fit("PlattCalibrator", (scores, y), np.arange(1, 21), inference="point"), "different weights: 19 of 20")
    refused(fit("PlattCalibrator", (scores, y.astype(str)), inference="point"), "different classes")
    refused(bc.PlattCalibrator(), "'other' is not fitted")
    refused(bc.CASIMACClassifier(), "fitted calibrator of scores, got CASIMACClassifier")
    for given, words in (([one, one], "must be a dict"), ({"one": one}, "two or more, got 1")):
        with pytest.raises(ParameterValueError, match=words):
            bc.compare(given)
    two = {"one": one, "two": one}
    for settings, words in (
        ({"cv": 1}, "cv must be"),
        ({"cv": "ten"}, "cv must be"),
        ({"cv": ShuffleSplit(3, random_state=0)}, "each of the 20 rows"),
        ({"method": "waic"}, "method must be"),
        ({"random_state": -1}, "random_state must be"),
    ):
        with pytest.raises(ParameterValueError, match=words):
            bc.compare(two, **settings)


def test_pseudo_bma_of_one_infinite_sum() -> None:
    elpd = np.array([[-1.0, -1.0, -np.inf], [-0.5, -0.5, -0.1]])
    np.testing.assert_allclose(pseudo_bma_weights(elpd, np.ones(2), 0), [0.5, 0.5, 0.0])
    assert np.isnan(pseudo_bma_weights(np.array([[-np.inf, -1.0], [-1.0, -np.inf]]), np.ones(2), 0)).all()


# Prior sensitivity


def test_log_prior_is_that_of_the_settings(fits: dict[str, Any]) -> None:
    data = cases()
    beta = fit("BetaCalibrator", data)
    expected = {
        "platt": (fits["platt"], lambda d: norm.logpdf(d["intercept"]) + lognorm.logpdf(d["slope"], 1.0)),
        "isotonic": (
            fits["isotonic"],
            lambda d: _lognormal(d["concentration"], fits["isotonic"]._priors.vector()),
        ),
        "bernstein": (fits["bernstein"], lambda d: _lognormal(d["concentration"], [np.log(4), 0.5])),
        "beta": (
            beta,
            lambda d: (
                _lognormal(d["a"], beta._priors.vector()[:2])
                + _lognormal(d["b"], beta._priors.vector()[2:4])
                + norm.logpdf(d["c"], *beta._priors.vector()[4:])
            ),
        ),
    }
    for name, (cal, density) in expected.items():
        np.testing.assert_allclose(log_prior(cal), density(cal._draws), rtol=1e-9, err_msg=name)


def _lognormal(x: np.ndarray, settings: Any) -> np.ndarray:
    return lognorm.logpdf(x, settings[1], scale=np.exp(settings[0]))


def test_log_prior_of_spreads_and_classes() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(40, 3))
    cal = fit("BiasCorrectedTemperatureScaling", (logits, np.arange(40) % 3), score_kind="logit")
    log_mean, log_sd, spread = cal._priors.vector()
    draws = cal._draws
    expected = _lognormal(draws["temperature"], [log_mean, log_sd]) + halfnorm.logpdf(draws["bias_spread"], 0, spread)
    np.testing.assert_allclose(log_prior(cal), expected, rtol=1e-9)
    table = bc.prior_sensitivity(cal)
    assert {"temperature", "bias_spread", "bias[0]", "bias[2]", "mean_probability[1]"} <= set(table.index)


def test_likelihood_is_of_all_cases() -> None:
    scores, y = cases(20)
    weight = np.arange(20) % 3
    cal = fit("PlattCalibrator", (scores, y), weight)
    tree = power_scaling_tree(cal)
    expected = cal._log_likelihood() @ weight
    np.testing.assert_allclose(tree["log_likelihood"].y.to_numpy().reshape(-1), expected, rtol=1e-9)
    p = cal.proba_draws(scores).to_numpy()[..., 1]
    np.testing.assert_allclose(tree["posterior"].mean_probability, p @ weight / weight.sum(), rtol=1e-9)


def test_prior_speaks_where_data_do_not() -> None:
    scores, y = cases(25)
    few = bc.prior_sensitivity(fit("PlattCalibrator", (scores, y)))
    many = bc.prior_sensitivity(fit("PlattCalibrator", cases(3000)))
    assert many["prior"].max() < 0.05 and many.attrs["message"].startswith("the prior moves nothing")
    assert many["diagnosis"].eq("").all() and (many["likelihood"] > 0.05).any()
    assert few.loc["slope", "prior"] > 0.05 and few.loc["slope", "diagnosis"] != ""
    assert few.attrs["message"].startswith(f"the prior moves {few['prior'].idxmax()} (") and few.attrs[
        "message"
    ].endswith("report the prior with the result.")
    assert bc.prior_sensitivity(fit("PlattCalibrator", (scores, y)), threshold=0.9)["diagnosis"].eq("").all()


def test_sensitivity_of_a_known_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a normal posterior with prior N(0, 1) and one observation at 0 of variance 1, power scaling by a of either
    # makes the variance 1 / (1 + a): prior and likelihood move it alike.
    rng = np.random.default_rng(0)
    theta = rng.normal(0, np.sqrt(0.5), (4, 2000))
    dims = ("chain", "draw")
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"theta": (dims, theta)}),
            "log_prior": xr.Dataset({"prior": (dims, -(theta**2) / 2)}),
            "log_likelihood": xr.Dataset({"y": ((*dims, "cell"), -(theta[..., None] ** 2) / 2)}),
        }
    )
    monkeypatch.setattr("bayescal.evaluation.sensitivity.power_scaling_tree", lambda _: tree)
    table = bc.prior_sensitivity(fit("PlattCalibrator", cases(20)), threshold=0.02)
    assert table.loc["theta", "prior"] == table.loc["theta", "likelihood"] == float(psense(tree).theta)
    assert table.loc["theta", "diagnosis"] == "prior and data disagree, or few data"


def test_who_cannot_be_asked(fits: dict[str, Any], tmp_path: Any) -> None:
    data = cases()
    auto = fit("StackedCalibrator", data, members=("platt", "beta"))
    two = (np.column_stack([data[0], np.random.default_rng(1).random(60)]), data[1])
    for cal, words in (
        (auto, "Ask its members"),
        (fit("CopulaCalibrator", two), "the copula's is cut"),
        ("platt", "got str"),
    ):
        with pytest.raises(ParameterValueError, match=words):
            bc.prior_sensitivity(cal)
    with pytest.raises(NoPosteriorError, match="inference='nuts'"):
        bc.prior_sensitivity(fit("PlattCalibrator", data, inference="point"))
    short = fit("PlattCalibrator", data, draws=20, chains=2)
    with pytest.raises(ParameterValueError, match="at least 100 draws"):
        bc.prior_sensitivity(short)
    fits["platt"].save(tmp_path / "bare.nc", include_data=False)
    with pytest.raises(NoPosteriorError, match="without its calibration rows"):
        bc.prior_sensitivity(bc.load(tmp_path / "bare.nc"))
