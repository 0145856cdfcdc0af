"""`CASIMACClassifier`: scikit-learn's checks, settings, what is asked of a fit, other metrics, kernels, regressors."""

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.utils.estimator_checks import check_estimator

import bayescal as bc
from bayescal.casimac.fitting import PREDICTED
from bayescal.casimac.settings import GAMMAS, SPREADS
from bayescal.casimac.simplex import first_cone
from bayescal.inference.sampling import compiled_structures

SHORT = {"draws": 150, "tune": 150, "chains": 4}


def case(seed: int, n: int = 45, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    x = rng.normal(size=(n, 2)) + 1.8 * np.column_stack([np.cos(2.1 * codes), np.sin(2.1 * codes)])
    return x, np.array(["ape", "bee", "cow", "doe"])[codes]


def fit(seed: int, **settings: Any) -> bc.CASIMACClassifier:
    """A fit whose draws may be too few for the gate, which is not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        return bc.CASIMACClassifier(random_state=seed, **settings).fit(*case(seed))


@pytest.fixture(scope="module")
def nuts() -> bc.CASIMACClassifier:
    return fit(42, **SHORT)


@pytest.fixture(scope="module")
def point() -> bc.CASIMACClassifier:
    return fit(42, inference="point")


def check_all(classifier: bc.CASIMACClassifier) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(classifier, on_skip=None)  # raises on the first that fails
    found = {status: [r["check_name"] for r in results if r["status"] == status] for status in ("passed", "skipped")}
    # 61 checks of scikit-learn 1.9, none expected to fail. It skips that of the array API unless SCIPY_ARRAY_API is set
    # before SciPy is imported; this classifier does not claim to take arrays of other libraries
    assert (len(results), len(found["passed"]), found["skipped"]) == (61, 60, ["check_array_api_input"])


def test_scikit_learn_accepts_the_point_estimate() -> None:
    check_all(bc.CASIMACClassifier(inference="point"))


@pytest.mark.slow
def test_scikit_learn_accepts_the_posterior() -> None:
    check_all(bc.CASIMACClassifier(draws=50, tune=100))


# What is asked of a fit


@pytest.mark.parametrize("name", ["nuts", "point"])
def test_probabilities_are_probabilities(name: str, request: pytest.FixtureRequest) -> None:
    clf = request.getfixturevalue(name)
    x = np.random.default_rng(0).normal(size=(50, 2)) * 3
    p = clf.predict_proba(x)
    assert p.shape == (50, 3) and (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(x), clf.classes_[p.argmax(axis=1)])
    assert clf.classes_.tolist() == ["ape", "bee", "cow"]
    # separated by 3 sd, so most training labels are found again
    assert clf.score(*case(42)) > 0.85


def test_intervals_hold_the_draws_and_the_mean(nuts: bc.CASIMACClassifier) -> None:
    x = np.random.default_rng(1).normal(size=(30, 2))
    draws = nuts.proba_draws(x)
    assert draws.dims == ("chain", "draw", "obs", "class")
    assert draws.sizes["chain"] * draws.sizes["draw"] == PREDICTED
    assert draws["class"].values.tolist() == ["ape", "bee", "cow"]
    np.testing.assert_allclose(draws.sum("class"), 1, rtol=1e-12)
    interval = nuts.predict_interval(x, ci_prob=0.8)
    expected = draws.quantile([0.1, 0.9], dim=("chain", "draw")).transpose("obs", "class", "quantile")
    np.testing.assert_allclose(interval, expected.values, rtol=0, atol=1e-12)
    hdi = nuts.predict_interval(x, ci_prob=0.8, ci_kind="hdi")
    assert (np.diff(hdi, axis=-1) <= np.diff(interval, axis=-1) + 0.05).all()
    # the mean probability averages over what the process leaves open, exactly; the draws do by their standard normals
    error = 5 * draws.std(("chain", "draw")).values / np.sqrt(PREDICTED)
    assert (np.abs(draws.mean(("chain", "draw")).values - nuts.predict_proba(x)) <= error + 1e-3).all()


def test_latent_draws_lie_in_the_cones_that_they_stand_for(nuts: bc.CASIMACClassifier) -> None:
    x, y = case(42)
    latent = nuts.latent(x)
    assert latent.dims == ("chain", "draw", "obs", "latent") and latent.shape[2:] == (45, 2)
    mean = latent.mean(("chain", "draw")).values
    np.testing.assert_allclose(mean, nuts.predict_latent(x), rtol=0, atol=0.5)
    assert (nuts.classes_[first_cone(mean, nuts.vertices_)] == y).mean() > 0.85


def test_transform_is_f_on_training_cases_and_the_process_elsewhere(point: bc.CASIMACClassifier) -> None:
    x, y = case(42)
    f = point.transform(x)
    assert (point.classes_[first_cone(f, point.vertices_)] == y).all()  # eq. 21
    np.testing.assert_array_equal(point.transform(x[[7, 3]]), f[[7, 3]])
    new = np.concatenate([x[:1], x[:1] + 0.01])
    expected = np.concatenate([f[:1], point.predict_latent(new[1:]) * np.sqrt((f**2).mean())])
    np.testing.assert_allclose(point.transform(new), expected, rtol=1e-10)


def test_transform_is_that_of_the_paper_for_fixed_settings() -> None:
    # eq. 5: two classes, alpha = 0, beta = 1, k = 1: the signed distance to the nearest case of the other class
    x = np.array([[0.0], [1.0], [3.0], [7.0]])
    clf = bc.CASIMACClassifier(1.0, k_alpha=1, k_beta=1, spread=1, standardize=False, inference="point")
    np.testing.assert_allclose(clf.fit(x, [0, 1, 0, 1]).transform(x)[:, 0], [-1, 1, -2, 4], rtol=1e-12)


def test_compression_has_an_inverse(point: bc.CASIMACClassifier) -> None:
    z = np.random.default_rng(2).normal(size=(4, 5, 2))
    np.testing.assert_allclose(point.decompress(point.compress(z)), z, rtol=0, atol=1e-9)
    with pytest.raises(bc.ScoreValueError, match="2 columns"):
        point.compress(np.zeros((3, 3)))


def test_point_estimate_has_no_intervals(point: bc.CASIMACClassifier) -> None:
    x, _ = case(42)
    for ask in (point.predict_interval, point.proba_draws, point.latent):
        with pytest.raises(bc.NoPosteriorError, match="inference='nuts'"):
            ask(x)
    assert not hasattr(point, "idata_") and not hasattr(point, "diagnostics_")
    with pytest.raises(NotFittedError):
        bc.CASIMACClassifier().predict_proba(x)


def test_posterior_is_read_by_arviz(nuts: bc.CASIMACClassifier) -> None:
    tree = nuts.idata_
    assert {"posterior", "sample_stats", "observed_data", "constant_data"} <= set(tree.children)
    posterior = tree.posterior
    assert posterior["length_scale"].shape == (4, 150)
    assert set(np.unique(posterior["gamma"])) <= {*GAMMAS} and set(np.unique(posterior["spread"])) <= {*SPREADS}
    np.testing.assert_allclose(tree.constant_data["weight"].sum(), 1)
    table = nuts.diagnostics_
    assert set(table.index) == {"length_scale", "noise_ratio", "signal_variance"}
    assert table.attrs["interpolation_error"] < 0.01


def test_transformations_are_listed_by_weight(point: bc.CASIMACClassifier) -> None:
    table = point.transformations_
    assert table["weight"].is_monotonic_decreasing and table["weight"].sum() == pytest.approx(1)
    assert table["spread"].between(1, 6).all() and 0 < table.attrs["loo_log_loss"] < np.log(3)


# Invariants


def test_same_seed_gives_the_same_numbers(nuts: bc.CASIMACClassifier) -> None:
    x, _ = case(42)
    before = compiled_structures()
    again = fit(42, **SHORT, cores=1)
    assert compiled_structures() == before
    np.testing.assert_array_equal(again.predict_proba(x), nuts.predict_proba(x))
    np.testing.assert_array_equal(again.proba_draws(x), nuts.proba_draws(x))


def test_a_row_does_not_depend_on_the_rows_beside_it(nuts: bc.CASIMACClassifier) -> None:
    x = np.random.default_rng(3).normal(size=(40, 2))
    for ask in (nuts.predict_proba, nuts.predict_interval, nuts.transform):
        np.testing.assert_allclose(ask(x)[[5]], ask(x[[5]]), rtol=0, atol=1e-10)


def test_pickled_fit_predicts_alike(nuts: bc.CASIMACClassifier) -> None:
    x, _ = case(42)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(nuts)).predict_interval(x), nuts.predict_interval(x))


def test_order_and_units_do_not_matter(random_seed: int) -> None:
    x, y = case(random_seed)
    new = np.random.default_rng(random_seed).normal(size=(20, 2))
    clf = bc.CASIMACClassifier(inference="point")
    expected = clf.fit(x, y).predict_proba(new)
    order = np.random.default_rng(random_seed).permutation(len(x))
    np.testing.assert_allclose(clf.fit(x[order], y[order]).predict_proba(new), expected, rtol=0, atol=1e-6)
    shifted = clf.fit(1000 * x + 5, y).predict_proba(1000 * new + 5)
    np.testing.assert_allclose(shifted, expected, rtol=0, atol=1e-6)


def test_names_of_classes_do_not_matter(random_seed: int) -> None:
    x, y = case(random_seed)
    swapped = np.array([{"ape": "z", "bee": "x", "cow": "y"}[label] for label in y])
    clf = bc.CASIMACClassifier(inference="point")
    p, q = clf.fit(x, y).predict_proba(x), clf.fit(x, swapped).predict_proba(x)
    np.testing.assert_allclose(q, p[:, [1, 2, 0]], rtol=0, atol=1e-6)


# Settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gamma": 1.2}, "gamma must be 'auto' or a number in [0, 1], got 1.2"),
        ({"gamma": "best"}, "gamma must be 'auto'"),
        ({"alpha": 1.0}, "alpha and beta go together"),
        ({"alpha": 1.0, "beta": 1.0, "gamma": 0.5}, "without gamma"),
        ({"alpha": 0.0, "beta": 0.0}, "alpha + beta must be positive"),
        ({"alpha": -1.0, "beta": 1.0}, "alpha must be a finite number, at least 0"),
        ({"k_alpha": 15}, "k_alpha must be at most 14"),  # condition (18): 15 cases in each class
        ({"k_beta": 16}, "k_beta must be at most 15"),
        ({"k_beta": 0}, "k_beta must be a whole number of at least 1"),
        ({"spread": 0.5}, "spread must be 'auto' or a number of at least 1"),
        ({"metric": "taxi"}, "metric must be one of"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"inference": "map"}, "inference must be one of"),
        ({"priors": {"length_scale_sd": 1}}, "has no setting 'length_scale_sd'"),
        ({"regressor": BayesianRidge()}, "a regressor has no posterior"),
        ({"metric": lambda a, b: a[0] - b[0] + 10}, "metric must be symmetric"),
        ({"kernel": lambda a, b: 2 * np.exp(-((a[:, None] - b) ** 2).sum(-1))}, "kernel must be 1"),
        ({"kernel": lambda a, b: 1 - 0.9 * (((a[:, None] - b) ** 2).sum(-1) > 1)}, "positive semidefinite"),
    ],
)
def test_settings_are_refused_in_words(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=re.escape(says)):
        bc.CASIMACClassifier(**{"inference": "point", **settings}).fit(*case(0))


def test_labels_and_features_are_refused_in_words() -> None:
    x, y = case(0)
    with pytest.raises(bc.LabelValueError, match="at least two classes"):
        bc.CASIMACClassifier().fit(x, np.zeros(len(x)))
    with pytest.raises(ValueError, match="NaN"):
        bc.CASIMACClassifier().fit(np.where(x > 1, np.nan, x), y)
    with pytest.raises(bc.ParameterValueError, match="has a single case"):
        bc.CASIMACClassifier(0.5).fit(x, np.where(np.arange(len(x)) == 3, "one", "other"))


def test_a_class_of_one_case_repels_alone() -> None:
    x, _ = case(0)
    y = np.where(np.arange(len(x)) == 3, "one", "other")
    clf = bc.CASIMACClassifier(inference="point").fit(x, y)
    assert clf.transformations_["gamma"].tolist() == [1.0]
    assert np.isfinite(clf.predict_proba(x)).all()


def test_too_few_cases_to_leave_one_out_are_said() -> None:
    with pytest.warns(bc.CalibrationWarning, match="no case can be left out"):
        bc.CASIMACClassifier(inference="point").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


def test_cases_that_coincide_with_different_labels_are_said() -> None:
    x, y = case(0)
    x[1] = x[0]
    with pytest.warns(bc.CalibrationWarning, match="1 pairs of cases coincide and have different labels, first rows 0"):
        clf = bc.CASIMACClassifier(inference="point").fit(x, y)
    assert np.isfinite(clf.predict_proba(x)).all()


def test_duplicates_are_no_fault(random_seed: int) -> None:
    x, y = case(random_seed)
    clf = bc.CASIMACClassifier(inference="point").fit(np.repeat(x, 3, axis=0), np.repeat(y, 3))
    assert np.isfinite(clf.predict_proba(x)).all() and clf.score(x, y) > 0.85


# Other distances, kernels and regressors


def test_taxicab_metric_is_that_of_scipy(random_seed: int) -> None:
    x, y = case(random_seed)
    named = bc.CASIMACClassifier(metric="cityblock", inference="point").fit(x, y)
    own = bc.CASIMACClassifier(metric=lambda a, b: np.abs(a - b).sum(), inference="point").fit(x, y)
    np.testing.assert_allclose(named.predict_proba(x), own.predict_proba(x), rtol=0, atol=1e-10)


def overlap(a: str, b: str) -> float:
    """Share of letters that two words do not have in common."""
    return 1 - len(set(a) & set(b)) / len(set(a) | set(b))


def likeness(a: list[str], b: list[str]) -> np.ndarray:
    """The Jaccard index is positive definite."""
    return np.array([[1 - overlap(s, t) for t in b] for s in a])


def test_words_are_classified_by_metric_and_kernel() -> None:
    words = ["abcd", "abce", "bcda", "abc", "dabc", "wxyz", "xyzw", "vxyz", "xyz", "wxy"]
    y = ["early"] * 5 + ["late"] * 5
    clf = bc.CASIMACClassifier(metric=overlap, kernel=likeness, inference="point").fit(words, y)
    assert clf.predict(["abcde", "vwxyz"]).tolist() == ["early", "late"]
    assert clf.transform(["xyz", "abc"]).shape == (2, 1)


def test_kernel_with_a_length_scale_of_its_own_gives_that_process(random_seed: int) -> None:
    # the same correlations by name and by callable; with so tight a prior the length-scale is the median distance
    x, y = case(random_seed)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    middle = np.median(np.linalg.norm(scaled[:, None] - scaled, axis=-1)[np.triu_indices(len(x), 1)])

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(axis=-1) / middle**2)

    settings = {"gamma": 0.9, "k_alpha": 1, "k_beta": 1, "spread": 1, "inference": "point"}
    own = bc.CASIMACClassifier(kernel=kernel, **settings).fit(x, y)
    named = bc.CASIMACClassifier(kernel="rbf", priors={"length_scale_log_sd": 1e-4}, **settings).fit(x, y)
    np.testing.assert_allclose(own.predict_proba(x), named.predict_proba(x), rtol=0, atol=2e-3)


def test_regressor_takes_the_place_of_the_process(random_seed: int) -> None:
    x, y = case(random_seed)
    regressor = GaussianProcessRegressor(Matern(1.0, nu=2.5) + WhiteKernel(0.1), optimizer=None)
    settings = {"gamma": 0.9, "k_alpha": 1, "k_beta": 1, "spread": 1, "inference": "point"}
    clf = bc.CASIMACClassifier(regressor=regressor, **settings).fit(x, y)
    p = clf.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert clf.score(x, y) > 0.85
    # latents of two classes: the probability by the regressor itself
    two = y != "cow"
    clf.fit(x[two], y[two])
    scaled = (x[two] - x[two].mean(axis=0)) / x[two].std(axis=0)
    f = clf.transform(x[two])[:, 0]
    mean, sd = regressor.fit(scaled, f / np.sqrt((f**2).mean())).predict(scaled, return_std=True)
    np.testing.assert_allclose(clf.predict_proba(x[two])[:, 1], norm.cdf(mean / sd), rtol=1e-9)


def test_regressor_must_say_how_sure_it_is() -> None:
    settings = {"gamma": 0.9, "k_alpha": 1, "k_beta": 1, "spread": 1, "inference": "point"}
    with pytest.raises(bc.ParameterValueError, match=r"return_std=True\), and Ridge has not"):
        bc.CASIMACClassifier(regressor=Ridge(), **settings).fit(*case(0))


def test_data_frames_are_read_by_column() -> None:
    x, y = case(0)
    table = pd.DataFrame(x, columns=["a", "b"])
    clf = bc.CASIMACClassifier(inference="point").fit(table, pd.Series(y))
    assert clf.feature_names_in_.tolist() == ["a", "b"] and clf.predict(table).shape == (45,)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(table[["b", "a"]])


# How good it is


@pytest.mark.slow
def test_four_quadrants(random_seed: int) -> None:
    # section 3.1 of the paper: D = 40, T = 10,000, ten repeats. Log loss <= 0.30 and confidence within 0.03 of accuracy
    losses, gaps = [], []
    for repeat in range(10):
        rng = np.random.default_rng([random_seed, repeat])
        x, new = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (10_000, 2))
        y, of_new = (2 * (rows[:, 0] < 0) + (rows[:, 1] < 0) for rows in (x, new))
        p = bc.CASIMACClassifier(inference="point").fit(x, y).predict_proba(new)
        losses.append(-np.log(np.maximum(p[np.arange(len(p)), of_new], 1e-15)).mean())
        gaps.append(p.max(axis=1).mean() - (p.argmax(axis=1) == of_new).mean())
    assert np.mean(losses) <= 0.30 and abs(np.mean(gaps)) <= 0.03
