"""Leave-one-out densities and stacking weights."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import bayescal as bc
from bayescal.calibrators.loo import pointwise_loo
from bayescal.calibrators.stacked import stacking_weights


@pytest.fixture(scope="module")
def cases() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    scores = np.round(rng.random(60), 2)  # with ties
    return scores, (rng.random(60) < scores**1.5).astype(int)


@pytest.mark.parametrize("name", ["PlattCalibrator", "IsotonicCalibrator"])
def test_equals_arviz(name: str, cases: tuple[np.ndarray, np.ndarray]) -> None:
    import arviz as az

    cal = getattr(bc, name)(random_state=0).fit(*cases)
    found = pointwise_loo(cal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a score of exactly 0 or 1 has a large Pareto k
        theirs = az.loo(cal.idata_, pointwise=True)
    # the same smoothing but for the relative efficiency, which ArviZ estimates
    np.testing.assert_allclose(found, theirs.elpd_i.values, atol=0.02)
    assert found.sum() < np.log(np.exp(cal._log_likelihood()).mean(axis=0)).sum()  # below the in-sample density


def test_equals_refits_without_the_row(cases: tuple[np.ndarray, np.ndarray]) -> None:
    scores, y = cases
    rows = [3, 17, 31, 48]
    found = pointwise_loo(bc.PlattCalibrator(random_state=0).fit(scores, y))[rows]
    refits = []
    for row in rows:
        kept = np.arange(len(y)) != row
        p = bc.PlattCalibrator(random_state=1).fit(scores[kept], y[kept]).predict_proba(scores[[row]])[0, 1]
        refits.append(np.log(p if y[row] else 1 - p))
    np.testing.assert_allclose(found, refits, atol=0.03)  # Monte Carlo error of both sides


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PlattCalibrator", "BernsteinCalibrator", "CopulaCalibrator"])
def test_equals_refits_without_the_row_of_two_scores(name: str, random_seed: int) -> None:
    # The surface's likelihood is a power, the copula's the joint density of scores and outcome, from a cut posterior.
    rng = np.random.default_rng(random_seed)
    y = rng.integers(0, 2, 80)
    scores = expit(rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], 80) + 1.4 * y[:, None] - 0.7)
    cal = getattr(bc, name)(random_state=0, draws=2000).fit(scores, y)
    found, p = pointwise_loo(cal), cal.predict_proba(scores)[:, 1]
    in_sample = np.log(np.where(y, p, 1 - p))
    rows = np.argsort(in_sample)[[0, 1, 2, 20, 40, 60]]  # the most surprising rows, whose ratios vary most, and others
    refits = []
    for row in rows:
        kept = np.arange(len(y)) != row
        q = getattr(bc, name)(random_state=2, draws=2000).fit(scores[kept], y[kept]).predict_proba(scores[[row]])[0, 1]
        refits.append(np.log(q if y[row] else 1 - q))
    gain = in_sample[rows] - refits  # of having seen the row
    assert gain[:3].max() > 0.05  # there is something to find
    np.testing.assert_allclose(found[rows], refits, atol=0.02 + 0.15 * gain.max())


def test_many_cells_are_not_smoothed_and_agree(cases: tuple[np.ndarray, np.ndarray], monkeypatch) -> None:
    cal = bc.PlattCalibrator(random_state=0).fit(*cases)
    smoothed = pointwise_loo(cal)
    monkeypatch.setattr("bayescal.calibrators.loo.SMOOTHED_CELLS", 0)
    np.testing.assert_allclose(pointwise_loo(cal), smoothed, atol=0.02)


@pytest.mark.parametrize("n_scores", [1, 2])
def test_rows_that_share_scores_and_outcome_share_the_value(n_scores: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores = rng.integers(1, 4, (40, n_scores)) / 4
    y, weight = rng.integers(0, 2, 40), rng.integers(0, 3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.CalibrationWarning)
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        cal = bc.PlattCalibrator(random_state=0, draws=90, tune=200).fit(scores, y, weight)
    found = pointwise_loo(cal)
    np.testing.assert_array_equal(found == 0, weight == 0)
    cells: dict[tuple[float, ...], set[float]] = {}
    for *cell, value in np.column_stack([scores, y, found])[weight > 0]:
        cells.setdefault(tuple(cell), set()).add(value)
    assert all(len(values) == 1 for values in cells.values())


def test_equal_likelihoods_do_not_break_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.CalibrationWarning)
        cal = bc.PlattCalibrator(random_state=0, draws=200, tune=200).fit(np.full(20, 0.5), [0, 1] * 10)
    assert np.isfinite(pointwise_loo(cal)).all()


def test_weights_go_to_the_member_that_predicts() -> None:
    good, bad = np.full(500, np.log(0.8)), np.full(500, np.log(0.5))
    weights = stacking_weights(np.column_stack([bad, good]), np.ones(500))
    assert weights.sum() == pytest.approx(1)
    assert weights[1] > 0.98


def test_weights_of_equal_members_are_equal_and_rows_count_by_weight() -> None:
    rng = np.random.default_rng(0)
    elpd = np.log(rng.uniform(0.3, 0.9, (40, 3)))
    np.testing.assert_allclose(stacking_weights(elpd[:, [0, 0, 0]], np.ones(40)), 1 / 3, atol=1e-6)
    twice = stacking_weights(np.repeat(elpd, 2, axis=0), np.ones(80))
    np.testing.assert_allclose(stacking_weights(elpd, np.full(40, 2.0)), twice, atol=1e-5)


def test_group_borders_of_the_step_function_are_exact() -> None:
    # row 38 of 77 lies exactly on the border between groups 9 and 10 of 20: (38 + 1/2) 20 / 77 = 10
    scores = (np.arange(77) + 0.5) / 77
    cal = bc.IsotonicCalibrator(inference="point").fit(scores, np.arange(77) % 2)
    assert cal._scale["edges"][9] < scores[38]
