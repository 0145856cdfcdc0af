"""`LabelShiftAdapter`: what its methods agree on, what it refuses, what it keeps."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import binom, gamma
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import bayescal as bc
from bayescal.label_shift.adapted import ratio_interval, share_interval
from bayescal.label_shift.adapter import SOURCES
from bayescal.label_shift.notes import BAYES, METHODS
from bayescal.validation import quiet

POINT = [method for method in METHODS if method not in BAYES]


def simulate(rng: np.random.Generator, n: int, q: np.ndarray, distance: float = 2.5) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities, at equal source proportions, and labels of normal classes in proportions q."""
    k = len(q)
    y = rng.choice(k, size=n, p=q)
    mean = np.eye(k) * distance / np.sqrt(2)
    return softmax((mean[y] + rng.normal(size=(n, k))) @ mean.T, axis=1), y


def data(seed: int, n: int = 300, cases: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Source probabilities and labels, target probabilities and labels."""
    rng = np.random.default_rng(seed)
    return *simulate(rng, n, np.ones(3) / 3), *simulate(rng, cases, np.array([0.1, 0.2, 0.7]))


def adapter(method: str, **settings: Any) -> bc.LabelShiftAdapter:
    return bc.LabelShiftAdapter(method=method, random_state=0, draws=200, **settings)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_proportions(method: str, random_seed: int) -> None:
    source, y, target, labels = data(random_seed)
    ad = adapter(method).fit(source, y).adapt(target)
    truth = np.bincount(labels) / len(labels)
    np.testing.assert_allclose(ad.target_prior_, truth, atol=0.15)
    assert ad.target_prior_.dims == ("class",) and ad.target_prior_["class"].values.tolist() == [0, 1, 2]
    assert float(ad.target_prior_.sum()) == pytest.approx(1) and float(ad.source_prior_.sum()) == pytest.approx(1)
    adapted = ad.predict_proba(target)
    np.testing.assert_allclose(adapted.sum(axis=1), 1)
    loss = -np.mean(np.log(adapted[np.arange(len(labels)), labels]))
    assert loss < -np.mean(np.log(target[np.arange(len(labels)), labels]))


@pytest.mark.parametrize("source", SOURCES)
def test_intervals_hold_the_truth(source: str) -> None:
    # 12 data sets with 3 classes; the first and the last class's intervals are nearly independent
    held = 0
    q = np.array([0.1, 0.2, 0.7])
    for seed in range(12):
        proba, y, target, _ = data(seed, n=100, cases=400)
        ad = adapter("bayes", source=source).fit(proba, y).adapt(target)
        low, high = ad.prior_interval().values.T
        held += int(((low <= q) & (q <= high))[[0, 2]].sum())
    assert held >= binom.ppf(1e-4, 24, 0.85)


def test_shapes_of_draws_and_intervals(random_seed: int) -> None:
    source, y, target, _ = data(random_seed, 60, 50)
    for method in BAYES:
        ad = adapter(method).fit(source, y).adapt(target)
        draws = ad.proba_draws(target[:7])
        assert draws.dims == ("chain", "draw", "obs", "class") and draws.shape[2:] == (7, 3)
        posterior = ad.idata_.posterior
        assert set(posterior) == {"target_prior", "source_prior", "weights"}
        assert posterior["weights"].shape[:2] == draws.shape[:2]
        np.testing.assert_allclose(ad.predict_proba(target[:7]), draws.mean(("chain", "draw")), atol=1e-12)
        expected = np.quantile(draws.values.reshape(-1, 7, 3), [0.1, 0.9], axis=0)
        np.testing.assert_allclose(np.moveaxis(ad.predict_interval(target[:7], 0.8), -1, 0), expected, atol=1e-12)
        low, high = ad.weight_interval(0.5).values.T
        assert ad.weight_interval(0.5).attrs["ci_prob"] == 0.5 and ((low < high) & (low >= 0)).all()
        assert ad.prior_interval()["bound"].values.tolist() == ["lower", "upper"]
        mean_log = np.log(posterior["target_prior"]).mean(("chain", "draw"))
        shares = (np.bincount(y, minlength=3) + 1) / (len(y) + 3)
        np.testing.assert_allclose(ad.weights_, np.exp(mean_log) / shares, rtol=1e-9)


def test_intervals_reach_zero_where_the_posterior_piles_up_there() -> None:
    # quantiles of gamma distributions: [0, q90] against [q05, q95] is 2.30 against 2.94 at shape 1, 6.68 against 6.39
    # at shape 4
    shares = (np.arange(20_000) + 0.5) / 20_000
    draws = np.column_stack([0.01 * gamma(shape).ppf(shares) for shape in (0.5, 1, 4)])
    lower, upper = ratio_interval(draws, 0.9)
    assert lower[:2].tolist() == [0, 0]
    assert lower[2] == pytest.approx(0.01 * gamma(4).ppf(0.05), rel=1e-3)
    np.testing.assert_allclose(upper, 0.01 * gamma([0.5, 1, 4]).ppf(0.95), rtol=1e-3)
    np.testing.assert_allclose(share_interval(draws, 0.9), [lower, upper], rtol=1e-12)
    np.testing.assert_allclose(share_interval(1 - draws, 0.9), [1 - upper, 1 - lower], rtol=1e-12)
    fixed = np.broadcast_to([0.0, 0.3, 1.0], (5, 3))
    np.testing.assert_array_equal(share_interval(fixed, 0.9), fixed[:2])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", BAYES)
def test_intervals_hold_a_class_that_is_absent(method: str, classes: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    source, y = simulate(rng, 300, np.ones(classes) / classes, distance=8.0)
    q = np.array([0.0, 1.0]) if classes == 2 else np.array([0.0, 0.3, 0.7])
    ad = adapter(method).fit(source, y).adapt(simulate(rng, 400, q, distance=8.0)[0])
    assert ad.prior_interval().values[0, 0] == 0 and ad.weight_interval().values[0, 0] == 0
    assert 0 < ad.prior_interval().values[0, 1] < 0.05
    if classes == 2:
        assert ad.prior_interval().values[1, 1] == 1
    else:
        assert (ad.prior_interval().values[1:, 0] > 0.1).all()


def test_no_target_is_no_worse_than_what_the_order_of_its_rows_says(random_seed: int) -> None:
    source, y, target, _ = data(random_seed)
    rng = np.random.default_rng(random_seed)
    order = rng.permutation(len(target))
    for method in POINT:
        one, other = (adapter(method).fit(source, y).adapt(rows) for rows in (target, target[order]))
        np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)


def test_same_seed_gives_the_same_draws(random_seed: int) -> None:
    source, y, target, _ = data(random_seed, 60, 100)
    one, same = (adapter("bayes").fit(source, y).adapt(target).idata_.posterior for _ in range(2))
    np.testing.assert_array_equal(one["target_prior"], same["target_prior"])
    other = adapter("bayes").set_params(random_state=1).fit(source, y).adapt(target).idata_.posterior
    assert not np.array_equal(one["target_prior"], other["target_prior"])


# Priors, known proportions, labels


def test_prevalence_of_a_balanced_sample() -> None:
    # reported: p = 0.8 from a model trained at prevalence 0.5, used at 0.02: 0.0754717 (Cross Validated)
    source = np.array([[0.2, 0.8], [0.8, 0.2], [0.4, 0.6], [0.6, 0.4]])
    ask = np.array([[0.2, 0.8], [1.0, 0.0], [0.0, 1.0]])
    for method in ("em", "rlls-soft"):
        ad = adapter(method, prior=[0.98, 0.02]).fit(source, [1, 0, 1, 0]).adapt()
        np.testing.assert_allclose(ad.predict_proba(ask)[:, 1], [0.0754716981, 0, 1], atol=1e-9)
        assert ad.target_prior_.values.tolist() == [0.98, 0.02]
    same = adapter("em", prior=[0.5, 0.5]).fit(source, [1, 0, 1, 0]).adapt()
    np.testing.assert_allclose(same.predict_proba(ask), ask, atol=1e-12)


@pytest.mark.parametrize("method", BAYES)
def test_known_proportions_leave_the_source_uncertain(method: str, random_seed: int) -> None:
    source, y, target, _ = data(random_seed, 60)
    ad = adapter(method, prior=[0.1, 0.2, 0.7]).fit(source, y).adapt()
    assert np.ptp(ad.prior_interval().values, axis=1).max() < 1e-12
    assert (np.ptp(ad.weight_interval().values, axis=1) > 0.1).all()
    assert (np.ptp(ad.predict_interval(target[:5]), axis=2) > 0).any()


def test_strong_prior_rules_and_weak_prior_yields(random_seed: int) -> None:
    source, y, target, labels = data(random_seed, cases=100)
    strong = adapter("bayes", prior=[5e5, 3e5, 2e5]).fit(source, y).adapt(target)
    np.testing.assert_allclose(strong.target_prior_, [0.5, 0.3, 0.2], atol=0.01)
    weak = adapter("bayes", prior=0.5).fit(source, y).adapt(target)
    np.testing.assert_allclose(weak.target_prior_, np.bincount(labels) / len(labels), atol=0.2)


@pytest.mark.parametrize("method", ["em", *BAYES])
def test_labels_alone_are_enough(method: str) -> None:
    source, y, _, _ = data(0, 60)
    ad = adapter(method).fit(source, y).adapt(labelled=[2] * 8 + [0] * 2)
    expected = np.array([0.2, 0.0, 0.8]) if method == "em" else np.array([2.5, 0.5, 8.5]) / 11.5
    np.testing.assert_allclose(ad.target_prior_, expected, atol=1e-6 if method == "em" else 0.05)


def test_labels_narrow_the_intervals(random_seed: int) -> None:
    source, y, target, _ = data(random_seed, 60, 60)
    without = adapter("bayes").fit(source, y).adapt(target)
    labelled = np.random.default_rng(random_seed).choice(3, size=400, p=[0.1, 0.2, 0.7])
    with_labels = adapter("bayes").fit(source, y).adapt(target, labelled=labelled)
    widths = [np.ptp(ad.prior_interval().values, axis=1).mean() for ad in (without, with_labels)]
    assert widths[1] < 0.7 * widths[0]


# Calibrators


@pytest.fixture(scope="module")
def scaling() -> Any:
    source, y, _, _ = data(1)
    with quiet(bc.ConvergenceWarning):
        return bc.BiasCorrectedTemperatureScaling(draws=100, tune=200, chains=2, random_state=0).fit(source, y)


def test_fitted_calibrator_is_used_as_it_is(scaling: Any) -> None:
    source, y, target, labels = data(1)
    ad = adapter("bayes", calibrator=FrozenEstimator(scaling)).fit(source, y).adapt(target)
    assert ad.calibrator_ is scaling
    np.testing.assert_allclose(ad.target_prior_, np.bincount(labels) / len(labels), atol=0.1)
    draws = ad.idata_.posterior.sizes
    assert (draws["chain"], draws["draw"]) == (2, 100)


def test_calibrator_is_fitted_to_the_source(scaling: Any) -> None:
    source, y, target, labels = data(1)
    sharp = softmax(3 * np.log(source), axis=1), softmax(3 * np.log(target), axis=1)
    cal = bc.BiasCorrectedTemperatureScaling(inference="point")
    ad = adapter("em", calibrator=cal).fit(sharp[0], y).adapt(sharp[1])
    plain = adapter("em").fit(sharp[0], y).adapt(sharp[1])
    truth = np.bincount(labels) / len(labels)
    assert not hasattr(cal, "classes_")
    assert np.abs(ad.target_prior_ - truth).max() < np.abs(plain.target_prior_ - truth).max()


def test_binary_calibrator_of_one_score() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.5
    x = rng.normal(0, 1, 200) + 2 * y
    target = rng.normal(0, 1, 30_000) + 2 * (rng.random(30_000) < 0.1)
    with quiet(bc.ConvergenceWarning):
        cal = bc.PlattCalibrator("raw", draws=100, tune=200, chains=2, random_state=0).fit(x, y)
    ad = adapter("bayes", calibrator=FrozenEstimator(cal)).fit(x, y).adapt(target)
    assert float(ad.target_prior_[1]) == pytest.approx(0.1, abs=0.03)
    # 30,000 cases are put into groups; one by one they give the same
    few = adapter("bayes", calibrator=FrozenEstimator(cal)).fit(x, y).adapt(target[:15_000])
    assert abs(float(ad.target_prior_[1] - few.target_prior_[1])) < 0.02


def test_point_calibrator_has_no_posterior_to_carry() -> None:
    source, y, _, _ = data(0, 60)
    with pytest.raises(bc.ParameterValueError, match=r"holds a point estimate. Construct it with inference='nuts'"):
        adapter("bayes", calibrator=bc.TemperatureScaling(inference="point")).fit(source, y)


# Wrong input


def test_point_methods_have_no_intervals() -> None:
    source, y, target, _ = data(0, 60)
    ad = adapter("em").fit(source, y).adapt(target)
    for ask in (ad.prior_interval, ad.weight_interval, lambda: ad.predict_interval(target), lambda: ad.idata_):
        with pytest.raises(bc.NoPosteriorError, match="method='bayes'"):
            ask()


def test_nothing_works_before_its_time() -> None:
    source, y, target, _ = data(0, 60)
    with pytest.raises(NotFittedError):
        adapter("em").adapt(target)
    with pytest.raises(NotFittedError):
        adapter("em").fit(source, y).predict_proba(target)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"method": "saerens"}, "method must be one of 'bayes', 'em'"),
        ({"source": "mean"}, "source must be one of"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"prior": [1.0, 2.0]}, "3 of them"),
        ({"prior": -1.0}, "positive Dirichlet concentration"),
        ({"prior": [0.0, 1.0, 3.0]}, "positive Dirichlet concentration"),
        ({"prior": float("nan")}, "positive Dirichlet concentration"),
        ({"prior": "flat"}, "positive Dirichlet concentration"),
        ({"prior": 2.0, "method": "em"}, "method='em' has no prior"),
    ],
)
def test_settings_outside_their_domain_are_refused(settings: dict[str, Any], match: str) -> None:
    source, y, _, _ = data(0, 60)
    with pytest.raises(bc.ParameterValueError, match=match):
        bc.LabelShiftAdapter(**settings).fit(source, y)


def test_inputs_outside_their_domain_are_refused() -> None:
    source, y, target, _ = data(0, 60)
    ad = adapter("em").fit(source, y)
    with pytest.raises(bc.ScoreValueError, match="3 columns"):
        ad.adapt(target[:, :2])
    with pytest.raises(bc.ScoreValueError, match="sum to 1"):
        ad.adapt(2 * target / 3)
    with pytest.raises(bc.ParameterValueError, match="at least one"):
        ad.adapt()
    with pytest.raises(bc.ParameterValueError, match="at least one"):
        ad.adapt(target[:0])
    with pytest.raises(bc.LabelValueError, match="labelled holds 7 at row 1"):
        ad.adapt(target, labelled=[0, 7])
    with pytest.raises(bc.LabelValueError, match="labelled holds 'a' at row 0"):
        ad.adapt(target, labelled=["a"])
    with pytest.raises(bc.ParameterValueError, match="labelled is for methods"):
        adapter("rlls-soft").fit(source, y).adapt(target, labelled=[0])
    with pytest.raises(bc.LabelValueError):
        adapter("em").fit(source, np.where(np.arange(len(y)) == 5, 9, y))


def test_columns_in_another_order_are_refused() -> None:
    source, y, target, _ = data(0, 60)
    names = np.array(["a", "b", "c"])
    ad = adapter("em").fit(pd.DataFrame(source, columns=names), names[y])
    with pytest.raises(bc.ScoreValueError, match="in the order"):
        ad.adapt(pd.DataFrame(target, columns=names)[["c", "a", "b"]])
    assert ad.adapt(pd.DataFrame(target, columns=names)).target_prior_["class"].values.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("method", METHODS)
def test_class_without_source_cases(method: str) -> None:
    source, y, target, _ = data(0, 200)
    source, y = source[y != 1], y[y != 1]
    if method.startswith(("bbse", "rlls")):
        with pytest.raises(
            bc.LabelValueError, match="needs source cases of every class, and 1 of 3 have none, first 1"
        ):
            adapter(method).fit(source, y)
        return
    with pytest.warns(bc.CalibrationWarning, match="1 of 3 classes have no source case, first 1"):
        ad = adapter(method).fit(source, y)
    assert np.isfinite(ad.adapt(target).weights_).all() and np.isfinite(ad.predict_proba(target)).all()


def test_class_of_probability_zero_is_left_out() -> None:
    source = np.array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0], [0.1, 0.9, 0.0]])
    target = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    for method in ("em", "bayes"):
        with pytest.warns(bc.CalibrationWarning, match="no source case"):
            ad = adapter(method).fit(source, [0, 1, 0, 1])
        with pytest.warns(bc.CalibrationWarning) as caught:
            ad.adapt(target)
        text = " ".join(str(one.message) for one in caught)
        assert "have probability 0 for every source case" in text and "1 target cases" in text
        assert float(ad.target_prior_[2]) == 0 and np.isfinite(ad.weights_).all()
        np.testing.assert_array_equal(ad.predict_proba(target)[2], [0, 0, 1])


@pytest.mark.parametrize("method", METHODS)
def test_one_target_case_zeros_and_float32(method: str) -> None:
    source, y, target, _ = data(0, 200)
    source[0], target[0] = np.eye(3)[y[0]], [0.0, 0.0, 1.0]
    with quiet(bc.CalibrationWarning):  # negative weights
        one = adapter(method).fit(source, y).adapt(target[:1])
        assert np.isfinite(one.target_prior_).all() and np.isfinite(one.predict_proba(target)).all()
        single, double = (adapter(method).fit(source.astype(t), y).adapt(target.astype(t)) for t in ("f4", "f8"))
    np.testing.assert_allclose(single.target_prior_, double.target_prior_, atol=1e-3 if method not in BAYES else 0.03)


def test_failed_fit_and_adapt_leave_what_was_there() -> None:
    source, y, target, _ = data(0, 60)
    ad = adapter("em").fit(source, y).adapt(target)
    before = ad.target_prior_.copy()
    with pytest.raises(bc.ScoreValueError):
        ad.adapt(target[:, :2])
    with pytest.raises(bc.LabelValueError):
        ad.fit(source, y[:-1])
    np.testing.assert_array_equal(ad.target_prior_, before)


def test_clone_and_pickle(random_seed: int) -> None:
    source, y, target, _ = data(random_seed, 60, 80)
    ad = adapter("bayes", prior=[1.0, 2.0, 1.0], source="labels").fit(source, y).adapt(target)
    assert clone(ad).get_params() == ad.get_params()
    again = pickle.loads(pickle.dumps(ad))
    np.testing.assert_array_equal(again.predict_proba(target), ad.predict_proba(target))
    np.testing.assert_array_equal(again.adapt(target).target_prior_, ad.target_prior_)


# The plot


@pytest.mark.parametrize("method", ["bayes", "em"])
def test_plot_shows_source_beside_target(method: str) -> None:
    source, y, target, _ = data(0, 60)
    names = np.array(["calm", "rain", "storm"])
    ad = adapter(method).fit(pd.DataFrame(source, columns=names), names[y]).adapt(pd.DataFrame(target, columns=names))
    ax = bc.plot_priors(ad, ci_prob=0.8)
    assert [label.get_text() for label in ax.get_xticklabels()] == names.tolist()
    for container, means in zip(ax.containers, (ad.source_prior_, ad.target_prior_), strict=True):
        np.testing.assert_allclose(container.lines[0].get_ydata(), means)
        assert ("80 % interval" in container.get_label()) == (method == "bayes")
    if method == "bayes":
        ends = [segment[:, 1] for segment in ax.containers[1].lines[2][0].get_segments()]
        np.testing.assert_allclose(ends, ad.prior_interval(0.8).values)
