"""Contract: a calibrator is a scikit-learn estimator whose fit is a function of rows, weights and seed."""

import copy
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import bayescal as bc
from bayescal.calibrators.base import Calibrator

Make = Callable[..., Calibrator]

# what is asked of a calibrator once it is fitted, method or property
Question = Callable[[Any, np.ndarray], Any]
QUESTIONS: dict[str, Question] = {
    "predict": lambda cal, grid: cal.predict(grid),
    "predict_proba": lambda cal, grid: cal.predict_proba(grid),
    "score": lambda cal, grid: cal.score(grid, np.arange(len(grid)) % 2),
    "save": lambda cal, _: cal.save("never-written.nc"),
}
OF_THE_POSTERIOR: dict[str, Question] = {
    "predict_interval": lambda cal, grid: cal.predict_interval(grid),
    "predict_exceedance": lambda cal, grid: cal.predict_exceedance(grid, 0.5),
    "predict_table": lambda cal, grid: cal.predict_table(grid),
    "proba_draws": lambda cal, grid: cal.proba_draws(grid),
    "idata_": lambda cal, _: cal.idata_,
    "diagnostics_": lambda cal, _: cal.diagnostics_,
}
OF_SOME: dict[str, Question] = {
    "predict_point": lambda cal, grid: cal.predict_point(grid),
    "point_estimate_": lambda cal, _: cal.point_estimate_,
    "model_": lambda cal, _: cal.model_,
    "comparison_": lambda cal, _: cal.comparison_,
}

SameFit = Callable[[Calibrator, Calibrator], None]


@pytest.fixture
def same_fit(grid: np.ndarray) -> SameFit:
    """Bit for bit: the same draws, or the same point estimate."""

    def same_fit(a: Calibrator, b: Calibrator) -> None:
        if isinstance(getattr(a, "inference", "nuts"), str) and getattr(a, "inference", "nuts") == "point":
            np.testing.assert_array_equal(a.predict_proba(grid), b.predict_proba(grid))
        else:
            np.testing.assert_array_equal(a.proba_draws(grid), b.proba_draws(grid))

    return same_fit


def table(scores: np.ndarray) -> np.ndarray:
    """Scores as a table, as scikit-learn's tools want them."""
    return scores.reshape(len(scores), -1)


# Parameters


def test_constructor_stores_what_it_is_given(make: Make) -> None:
    default = type(make())()
    for name, value in default.get_params().items():
        marker = object()  # not valid: nothing may be judged, copied or converted before `fit`
        assert getattr(type(default)(**{name: marker}), name) is marker
        assert getattr(default, name) is value


@pytest.mark.variants("fewest scores")
def test_fit_changes_no_parameter_and_returns_self(make, cases) -> None:
    given = {"classes": sorted(set(cases.y)), "priors": {}}
    cal = make()
    cal.set_params(**{name: value for name, value in given.items() if name in cal.get_params()})
    before = cal.get_params()
    kept = copy.deepcopy(before)
    assert cal.fit(*cases) is cal
    assert cal.get_params() == kept
    assert all(cal.get_params()[name] is value for name, value in before.items())


def test_clone_is_unfitted_and_fits_the_same(fitted, cases, same_fit: SameFit) -> None:
    twin = clone(fitted)
    assert type(twin) is type(fitted)
    assert twin.get_params() == fitted.get_params()
    assert [name for name in vars(twin) if name.endswith("_") or name.startswith("_")] == []
    same_fit(twin.fit(*cases), fitted)


@pytest.mark.variants("fewest scores")
def test_set_params_acts_at_the_next_fit(make, cases, grid, same_fit: SameFit, other_kind: str) -> None:
    cal = make().fit(*cases)
    before = cal.predict_proba(grid)
    assert cal.set_params(score_kind=other_kind) is cal
    assert cal.get_params()["score_kind"] == other_kind
    cal.set_params(score_kind="proba")
    np.testing.assert_array_equal(cal.predict_proba(grid), before)
    same_fit(cal.set_params(score_kind=other_kind).fit(*cases), make(score_kind=other_kind).fit(*cases))
    with pytest.raises(ValueError, match="no_such_parameter"):
        cal.set_params(no_such_parameter=1)


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize(
    "name", ["score_kind", "draws", "chains", "tune", "cores", "random_state", "priors", "classes"]
)
def test_a_parameter_outside_its_domain_is_refused(make_posterior: Make, cases, name: str) -> None:
    wrong = {"score_kind": "probability", "priors": {"no_such_prior": 1.0}, "classes": [0, 0]}.get(name, -1)
    with pytest.raises(bc.ParameterValueError) as caught:
        make_posterior(**{name: wrong}).fit(*cases)
    assert name in str(caught.value)


def test_repr_names_the_class(make: Make) -> None:
    cal = make(score_kind="logit")
    assert repr(cal).startswith(type(cal).__name__ + "(")
    assert "score_kind='logit'" in repr(cal)
    assert type(cal).__name__ in cal._repr_html_()


# Life of a fit


def test_before_fit_every_question_raises_not_fitted(make: Make, grid, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    cal = make()
    asked = QUESTIONS | OF_THE_POSTERIOR | {k: f for k, f in OF_SOME.items() if hasattr(type(cal), k)}
    for ask in asked.values():
        with pytest.raises(NotFittedError):
            ask(cal, grid)
    with pytest.raises(NotFittedError):
        check_is_fitted(cal)
    assert list(tmp_path.iterdir()) == []
    public = {name for name in dir(type(cal)) if name.startswith("predict") or name.endswith("_")}
    inherited = {name for name in public if name.startswith("_")}
    assert public - inherited <= set(asked)  # a new method must be asked above


def test_attributes_of_an_unfitted_calibrator_are_absent(make: Make) -> None:
    cal = make()
    for name in ("idata_", "diagnostics_", "classes_", "n_features_in_", "model_", "point_estimate_", "comparison_"):
        assert not hasattr(cal, name)


def test_fitted_attributes(fitted: Calibrator, cases, n_scores: int) -> None:
    check_is_fitted(fitted)
    np.testing.assert_array_equal(fitted.classes_, np.unique(cases.y))
    assert fitted.n_features_in_ == n_scores
    assert not hasattr(fitted, "feature_names_in_")


def test_point_estimate_says_that_it_has_no_posterior(point: Calibrator, grid: np.ndarray) -> None:
    for name, ask in OF_THE_POSTERIOR.items():
        with pytest.raises(bc.NoPosteriorError, match=name):
            ask(point, grid)
    assert not hasattr(point, "idata_")
    assert not hasattr(point, "diagnostics_")


def test_refit_equals_a_fresh_fit(make, cases, other_cases, same_fit: SameFit) -> None:
    frame = pd.DataFrame(cases.scores).add_prefix("risk")
    used = make().fit(frame, np.array(["no", "yes", "zero"])[cases.y])
    used.predict_proba(frame)
    if hasattr(used, "idata_"):
        used.idata_.posterior.load()
    fresh = make().fit(*other_cases)
    same_fit(used.fit(*other_cases), fresh)
    assert set(vars(used)) <= set(vars(fresh)) | {"idata_"}
    assert not hasattr(used, "feature_names_in_")
    np.testing.assert_array_equal(used.classes_, np.unique(cases.y))
    if hasattr(used, "idata_"):
        assert used.idata_.observed_data.sizes["obs"] == len(other_cases.y)


def test_a_refused_fit_leaves_the_last_one(make, cases, grid) -> None:
    cal = make().fit(*cases)
    before, state = cal.predict_proba(grid), dict(vars(cal))
    for scores, y in ((cases.scores * 2, cases.y), (cases.scores, cases.y * 0.5), (cases.scores[:-1], cases.y)):
        with pytest.raises(ValueError, match=r"scores|y "):
            cal.fit(scores, y)
    assert vars(cal).keys() == state.keys()
    np.testing.assert_array_equal(cal.predict_proba(grid), before)


def test_the_seed_decides_the_draws(make_posterior: Make, posterior, cases, grid, same_fit: SameFit) -> None:
    same_fit(make_posterior().fit(*cases), posterior)
    other = make_posterior(random_state=2).fit(*cases).proba_draws(grid).to_numpy()
    assert not np.isclose(other, posterior.proba_draws(grid).to_numpy()).all(axis=(2, 3)).any()  # no draw is repeated


def test_chains_differ(posterior: Calibrator, grid: np.ndarray) -> None:
    first, second = posterior.proba_draws(grid[[30, 60]]).to_numpy()
    assert not (first == second).all(axis=(1, 2)).any()


# Rows and weights


def test_order_of_the_rows_does_not_matter(make, fitted, cases, grid, random_seed: int) -> None:
    order = np.random.default_rng(random_seed).permutation(len(cases.y))
    shuffled = make().fit(cases.scores[order], cases.y[order])
    np.testing.assert_allclose(shuffled.predict_proba(grid), fitted.predict_proba(grid), rtol=0, atol=1e-12)


def test_weight_two_is_the_row_twice(make, cases, grid, random_seed: int) -> None:
    weight = np.random.default_rng(random_seed).integers(1, 4, len(cases.y))
    weighted = make().fit(*cases, sample_weight=weight)
    repeated = make().fit(np.repeat(cases.scores, weight, axis=0), np.repeat(cases.y, weight))
    np.testing.assert_allclose(weighted.predict_proba(grid), repeated.predict_proba(grid), rtol=0, atol=1e-12)


def test_weight_zero_is_no_row(make, cases, grid, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    weight = np.ones(len(cases.y))
    weight[rng.choice(len(weight), 15, replace=False)] = 0
    kept = weight > 0
    weighted = make().fit(*cases, sample_weight=weight)
    without = make().fit(cases.scores[kept], cases.y[kept])
    np.testing.assert_allclose(weighted.predict_proba(grid), without.predict_proba(grid), rtol=0, atol=1e-12)


def test_weight_one_is_no_weight(make, fitted, cases, same_fit: SameFit) -> None:
    same_fit(make().fit(*cases, sample_weight=np.ones(len(cases.y), dtype=int)), fitted)


# scikit-learn's tools


def test_tags(make: Make, n_scores: int) -> None:
    cal = make()
    tags = get_tags(cal)
    assert is_classifier(cal)
    assert tags.input_tags.one_d_array == (n_scores < 3)
    assert tags.target_tags.required
    assert tags.classifier_tags.multi_class == (n_scores == 3)


def test_score_is_the_accuracy(fitted, cases) -> None:
    expected = np.mean(fitted.predict(cases.scores) == cases.y)
    assert fitted.score(*cases) == pytest.approx(expected, abs=1e-15)


@pytest.mark.variants("fewest scores")
def test_grid_search_in_parallel(make, cases) -> None:
    # threads share one process: its compiled models, its BLAS limits, its warning filters
    how = {"cv": 2, "scoring": "neg_log_loss", "error_score": "raise"}
    with joblib.parallel_config("threading"):
        search = GridSearchCV(make(), {"score_kind": ["proba"]}, n_jobs=2, refit=False, **how)
        search.fit(table(cases.scores), cases.y)
    alone = cross_val_score(make(), table(cases.scores), cases.y, **how)
    np.testing.assert_array_equal([search.cv_results_[f"split{i}_test_score"][0] for i in (0, 1)], alone)
    assert np.isfinite(alone).all()


@pytest.mark.variants("fewest scores")
def test_sample_weight_is_routed(make, cases, same_fit: SameFit) -> None:
    weight = np.where(np.arange(len(cases.y)) % 2, 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        rows = np.arange(len(weight))
        search = GridSearchCV(routed, {"score_kind": ["proba"]}, cv=[(rows, rows)], error_score="raise")
        search.fit(table(cases.scores), cases.y, sample_weight=weight)
    same_fit(search.best_estimator_, make().fit(*cases, weight))


def test_in_a_pipeline(make, fitted, cases, grid) -> None:
    halve = FunctionTransformer(lambda s: s / 2)
    piped = make_pipeline(halve, make()).fit(2 * table(cases.scores), cases.y)
    np.testing.assert_array_equal(piped.predict_proba(2 * table(grid)), fitted.predict_proba(grid))


@pytest.mark.variants("fewest scores")
def test_output_setting_of_scikit_learn_is_harmless(make, fitted, cases, grid, same_fit: SameFit) -> None:
    with sklearn.config_context(transform_output="pandas"):
        again = make().fit(*cases)
        assert type(again.predict_proba(grid)) is np.ndarray
        same_fit(again, fitted)
