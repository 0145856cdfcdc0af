"""Several classifiers' scores of the same cases: how they are read, grouped, described and kept."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit

import bayescal as bc
from bayescal.calibrators.binary import Support, group_neighbours
from bayescal.calibrators.notes import describe_data
from bayescal.calibrators.scale import distinct_rows, learn_log_odds, learn_unit, to_log_odds, to_unit
from bayescal.validation import check_scores

pytestmark = pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")  # too few draws for the gate


@pytest.fixture
def cases(random_seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(random_seed)
    scores = rng.uniform(0.02, 0.98, (80, 3))
    return scores, (rng.random(80) < scores.mean(axis=1)).astype(int)


def fuse(**settings: object) -> bc.PlattCalibrator:
    return bc.PlattCalibrator(draws=200, tune=200, chains=2, random_state=3, progressbar=False, **settings)


def test_two_columns_are_a_pair_only_if_every_row_sums_to_one() -> None:
    p = np.array([0.1, 0.4, 0.7])
    pair = np.column_stack([1 - p, p])
    assert check_scores(pair, "proba", columns="any").values.tolist() == p.tolist()
    assert check_scores(pair + np.array([[0, 0], [0, 0.2], [0, 0]]), "proba", columns="any").values.shape == (3, 2)
    assert check_scores(pair, "logit", columns="any").values.shape == (3, 2)
    with pytest.raises(bc.ScoreValueError, match="one classifier's"):
        check_scores(pair, "proba", columns="several")
    with pytest.raises(bc.ScoreValueError, match="two or more classifiers, got one"):
        check_scores(p, "proba", columns="several")


def test_prediction_takes_the_columns_of_the_fit(cases: tuple[np.ndarray, np.ndarray]) -> None:
    scores, y = cases
    cal = fuse(inference="point").fit(scores, y)
    for wrong in (scores[:, 0], scores[:, :2], np.column_stack([scores, scores])):
        with pytest.raises(bc.ScoreValueError, match="must have 3 columns"):
            cal.predict_proba(wrong)
    two = fuse(inference="point").fit(scores[:, :2], y)
    alike = np.array([[0.3, 0.7], [0.5, 0.5]])  # sum to 1, and are two classifiers' all the same
    assert two.predict_proba(alike).shape == (2, 2)
    assert cal.predict_proba(np.empty((0, 3))).shape == (0, 2)
    surface = bc.BernsteinCalibrator(inference="point").fit(scores[:, :2], y)
    assert surface.predict_proba(np.empty((0, 2))).shape == (0, 2)


def test_a_score_outside_its_domain_is_found_in_its_column(cases: tuple[np.ndarray, np.ndarray]) -> None:
    scores, y = cases
    for value, says in ((1.2, r"lie in \[0, 1\].*1\.2 at row 5, column 2"), (np.nan, "finite.*at row 5, column 2")):
        scores[5, 2] = value
        with pytest.raises(bc.ScoreValueError, match=says):
            fuse().fit(scores, y)


def test_calibrators_of_one_score_refuse_several(cases: tuple[np.ndarray, np.ndarray]) -> None:
    for calibrator in (bc.BetaCalibrator(), bc.IsotonicCalibrator()):
        with pytest.raises(bc.ScoreValueError, match="one column"):
            calibrator.fit(*cases)


def test_plots_and_measures_of_one_score_say_so(cases: tuple[np.ndarray, np.ndarray]) -> None:
    cal = fuse().fit(*cases)
    for show in (bc.plot_calibration_map, bc.plot_reliability, bc.miscalibration):
        with pytest.raises(bc.ScoreValueError, match="fitted to 3"):
            show(cal)


def test_logistic_fusion_is_monotone_in_every_score(cases: tuple[np.ndarray, np.ndarray]) -> None:
    draws = fuse().fit(*cases).proba_draws(np.full((1, 3), 0.5)).values[..., 1]
    fit = fuse().fit(*cases)
    for j in range(3):
        higher = np.full((1, 3), 0.5)
        higher[0, j] = 0.6
        assert (fit.proba_draws(higher).values[..., 1] > draws).all()


def test_point_fusion_is_logistic_regression(cases: tuple[np.ndarray, np.ndarray]) -> None:
    from sklearn.linear_model import LogisticRegression

    scores, y = cases
    found = fuse(inference="point").fit(scores, y).point_estimate_
    n1, n0 = y.sum(), (1 - y).sum()
    x = np.vstack([logit(scores)] * 2)
    target = np.repeat([1, 0], len(y))
    share = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(x, target, np.concatenate([share, 1 - share]))
    np.testing.assert_allclose(found["slope"], peer.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(found["intercept"], peer.intercept_[0], rtol=1e-3, atol=1e-4)


def test_a_fit_of_several_scores_survives_the_file(cases: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    scores, y = cases
    for cal in (fuse(), fuse(score_kind="raw"), bc.StackedCalibrator(random_state=1, draws=200, chains=2)):
        cal.fit(scores, y)
        cal.save(tmp_path / "fit.nc")
        again = bc.load(tmp_path / "fit.nc")
        np.testing.assert_array_equal(again.predict_interval(scores), cal.predict_interval(scores))
        with pytest.raises(bc.ScoreValueError, match="must have 3 columns"):
            again.predict_proba(scores[:, :2])


def test_each_column_has_its_own_scale(cases: tuple[np.ndarray, np.ndarray]) -> None:
    scores = cases[0] * [1, 10, 100]
    weight = np.arange(1.0, len(scores) + 1)
    for learn, transform in ((learn_unit, to_unit), (learn_log_odds, to_log_odds)):
        together = transform(scores, learn(scores, weight, "raw"), "raw")
        for j in range(3):
            order = np.argsort(scores[:, j])
            own = learn(scores[order, j], weight[order], "raw")
            np.testing.assert_allclose(together[:, j], transform(scores[:, j], own, "raw"))


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("n", [0, 1, 2000])
def test_distinct_rows_are_those_of_numpy(n: int, columns: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    for scores in (
        rng.integers(-3, 4, (n, columns)),
        rng.random((n, columns)).round(1) - 0.5,
        rng.random((n, columns)),
    ):
        distinct, inverse = distinct_rows(scores)
        expected, expected_inverse = np.unique(scores, axis=0, return_inverse=True)
        assert distinct.dtype == scores.dtype
        np.testing.assert_array_equal(distinct, expected)
        np.testing.assert_array_equal(inverse, expected_inverse.ravel())


@pytest.mark.parametrize("columns", [1, 2, 3, 13])
def test_grouping_keeps_counts_and_moves_nothing_far(columns: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    u = np.unique(rng.random((5000, columns)), axis=0)
    totals = rng.integers(1, 4, len(u)).astype(float)
    positives = rng.binomial(totals.astype(int), 0.3).astype(float)
    grouped = group_neighbours(Support(u[:, 0] if columns == 1 else u, positives, totals), 512)
    assert len(grouped.totals) == 512
    # halving a uniform score keeps 3/4 of its variance, and 512 groups are nine halvings: of 13 scores most are halved
    kept = 12 * np.average((grouped.u - 0.5) ** 2, axis=0, weights=grouped.totals)
    assert np.all(kept > {1: 0.98, 2: 0.95, 3: 0.95, 13: 0.35}[columns])
    assert grouped.totals.sum() == totals.sum()
    assert grouped.positives.sum() == positives.sum()
    np.testing.assert_allclose(np.average(grouped.u, axis=0, weights=grouped.totals), totals @ u / totals.sum())


def test_notes_say_which_column(cases: tuple[np.ndarray, np.ndarray]) -> None:
    scores, y = cases
    said = describe_data(np.column_stack([scores[:, 0], 1 - y, np.ones(len(y))]), y, np.ones(len(y)), np.array([0, 1]))
    assert [text[:14] for text in said] == ["score column 1", "score column 2"]
    assert "in reverse" in said[0]
    assert "all scores are equal" in said[1]


def test_surfaces_of_too_many_coefficients_are_refused(random_seed: int) -> None:
    y = np.tile([0, 1], 15)
    scores = 0.3 * y[:, None] + 0.6 * np.random.default_rng(random_seed).random((30, 5))
    with pytest.raises(bc.ParameterValueError, match="3125 coefficients, more than 2000"):
        bc.BernsteinCalibrator().fit(scores, y)
    assert bc.BernsteinCalibrator(inference="point", degree=2).fit(scores, y).predict_proba(scores).shape == (30, 2)


def test_average_of_more_than_four_scores_leaves_the_surface_out() -> None:
    assert list(bc.StackedCalibrator()._new_members(4)) == ["platt", "bernstein", "copula"]
    assert list(bc.StackedCalibrator()._new_members(5)) == ["platt", "copula"]


def test_degree_set_after_a_fit_changes_nothing(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores, y = rng.random((40, 2)), np.arange(40) % 2
    cal = bc.BernsteinCalibrator(inference="point", degree=(2, 4)).fit(scores, y)
    draws = {"sticks": rng.normal(size=(3, 15)), "slope": np.ones((3, 2))}
    features = cal._features(scores, cal._scale)
    expected = cal._log_odds(features, draws)
    np.testing.assert_array_equal(cal.set_params(degree=(4, 2))._log_odds(features, draws), expected)


def test_platt_keeps_the_rows_of_many_scores(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores, y = rng.random((5000, 13)), np.arange(5000) % 2
    assert len(bc.build_model("platt", scores, y)["x"].get_value()) == 5000


def test_copula_warns_of_scores_without_a_density(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    y = np.arange(100) % 2
    scores = np.column_stack([rng.integers(0, 2, 100).astype(float), rng.random(100)])
    with pytest.warns(bc.CalibrationWarning, match="score column 0 has 2 different values"):
        bc.CopulaCalibrator(inference="point").fit(scores, y)
