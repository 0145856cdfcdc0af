"""Contract: what is predicted. Probabilities, monotone in every draw if they must be, the same in whatever batch."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.summaries import EXACT_LIMIT, TOLERANCE

Make = Callable[..., Calibrator]


def lattice(low: float, high: float, n_scores: int) -> np.ndarray:
    """Scores from low to high, (2001,), or all pairs of some, (31, 31, 2)."""
    if n_scores == 1:
        return np.linspace(low, high, 2001)
    axis = np.linspace(low, high, 31)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def smallest_step(values: np.ndarray, n_scores: int) -> float:
    """The smallest change of values (..., 2001) or (..., 31, 31) where one score rises by a step."""
    return min(np.diff(values, axis=axis).min() for axis in range(-n_scores, 0))


def draw_scores(rng: np.random.Generator, n: int, n_scores: int) -> np.ndarray:
    """Random scores, of three classes with sum 1."""
    return rng.dirichlet(np.ones(3), n) if n_scores == 3 else rng.random((n, n_scores)[:n_scores])


def draws_of(cal: Calibrator, scores: np.ndarray) -> np.ndarray:
    """Draws of the probability of the positive class, or of the second of several, (draws, m)."""
    return cal.proba_draws(scores).sel({"class": cal.classes_[1]}).to_numpy().reshape(-1, len(scores))


# Probabilities


def test_probabilities_lie_in_the_unit_interval_and_sum_to_one(fitted: Calibrator, grid: np.ndarray) -> None:
    proba = fitted.predict_proba(grid)
    assert proba.shape == (len(grid), len(fitted.classes_))
    assert proba.dtype == np.float64
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-15 * len(fitted.classes_))


def test_draws_are_probabilities_with_named_dimensions(posterior: Calibrator, grid: np.ndarray) -> None:
    drawn = posterior.proba_draws(grid)
    assert drawn.dims == ("chain", "draw", "obs", "class")
    assert drawn.shape == (posterior.chains, posterior.draws, len(grid), len(posterior.classes_))
    assert ((drawn >= 0) & (drawn <= 1)).all()
    np.testing.assert_allclose(drawn.sum("class"), 1.0, rtol=0, atol=1e-15 * len(posterior.classes_))
    np.testing.assert_allclose(drawn.mean(("chain", "draw")), posterior.predict_proba(grid), rtol=0, atol=1e-12)


@pytest.mark.variants("monotone")
@pytest.mark.parametrize("score_kind", ["proba", "logit", "raw"])
def test_every_draw_is_nondecreasing(make_posterior: Make, cases, n_scores: int, score_kind: str) -> None:
    points = lattice(*{"proba": (0.0, 1.0), "logit": (-20.0, 20.0), "raw": (-3.0, 4.0)}[score_kind], n_scores)
    given = {"proba": cases.scores, "logit": logit(cases.scores), "raw": 2 * cases.scores - 1}[score_kind]
    cal = make_posterior(score_kind=score_kind).fit(given, cases.y)
    shape = points.shape[:n_scores]
    scores = points.reshape(-1, *points.shape[n_scores:])
    # sums of the same terms in another order: as many roundings as terms
    assert smallest_step(draws_of(cal, scores).reshape(-1, *shape), n_scores) >= -1e-14
    assert smallest_step(cal.predict_proba(scores)[:, 1].reshape(shape), n_scores) >= -1e-14
    assert smallest_step(cal.predict_exceedance(scores, 0.5)[:, 1].reshape(shape), n_scores) >= -1e-12


@pytest.mark.variants("monotone")
def test_point_estimate_is_nondecreasing(point: Calibrator, n_scores: int) -> None:
    points = lattice(0.0, 1.0, n_scores)
    p = point.predict_proba(points.reshape(-1, *points.shape[n_scores:]))[:, 1]
    assert smallest_step(p.reshape(points.shape[:n_scores]), n_scores) >= -1e-14


def test_prediction_is_the_more_probable_class(fitted: Calibrator, grid: np.ndarray) -> None:
    proba = fitted.predict_proba(grid)
    last = [np.flatnonzero(p == p.max())[-1] for p in proba]  # of equally probable classes
    np.testing.assert_array_equal(fitted.predict(grid), fitted.classes_[last])
    assert set(fitted.predict(grid)) == set(fitted.classes_)  # the fixture's map crosses one half


# Intervals


@pytest.mark.parametrize("ci_kind", ["eti", "hdi"])
def test_intervals_are_ordered_nested_and_inside(posterior: Calibrator, grid: np.ndarray, ci_kind: str) -> None:
    levels = [posterior.predict_interval(grid, ci_prob=p, ci_kind=ci_kind) for p in (0.5, 0.8, 0.9, 0.99)]
    for interval in levels:
        assert interval.shape == (len(grid), len(posterior.classes_), 2)
        assert ((interval >= 0) & (interval <= 1)).all()
        assert (interval[..., 0] <= interval[..., 1]).all()
        if len(posterior.classes_) == 2:
            np.testing.assert_allclose(interval[:, 0, ::-1], 1 - interval[:, 1], rtol=0, atol=1e-15)
    for inner, outer in pairwise(levels):
        if ci_kind == "eti":
            assert (outer[..., 0] <= inner[..., 0]).all()
            assert (outer[..., 1] >= inner[..., 1]).all()
        else:  # shortest intervals need not be nested, but the wider holds more draws
            assert (np.diff(outer) >= np.diff(inner)).all()


def test_equal_tails_hold_the_median(posterior: Calibrator, grid: np.ndarray) -> None:
    median = np.median(draws_of(posterior, grid), axis=0)
    for ci_prob in (0.01, 0.5, 0.9):
        lower, upper = posterior.predict_interval(grid, ci_prob=ci_prob)[:, 1].T
        assert (lower <= median + 1e-15).all()
        assert (median <= upper + 1e-15).all()


def test_intervals_hold_the_draws_they_promise(posterior: Calibrator, grid: np.ndarray) -> None:
    drawn = draws_of(posterior, grid)
    for ci_kind in ("eti", "hdi"):
        lower, upper = posterior.predict_interval(grid, ci_prob=0.8, ci_kind=ci_kind)[:, 1].T
        inside = ((drawn >= lower - 1e-12) & (drawn <= upper + 1e-12)).sum(axis=0)
        assert inside.min() >= 0.8 * (len(drawn) - 2)  # interpolated ends can lose a draw on each side


def test_shortest_interval_is_not_wider(posterior: Calibrator, grid: np.ndarray) -> None:
    for ci_prob in (0.5, 0.8, 0.9):  # of 160 draws: whole numbers of draws inside
        eti = np.diff(posterior.predict_interval(grid, ci_prob=ci_prob))
        hdi = np.diff(posterior.predict_interval(grid, ci_prob=ci_prob, ci_kind="hdi"))
        assert (hdi <= eti + 1e-12).all()


def test_exceedance_counts_draws(posterior: Calibrator, grid: np.ndarray) -> None:
    drawn = posterior.proba_draws(grid).to_numpy().reshape(-1, len(grid), len(posterior.classes_))
    for threshold in (0.0, 0.25, 0.5, 0.8, 1.0):
        exceedance = posterior.predict_exceedance(grid, threshold)
        np.testing.assert_allclose(exceedance, (drawn > threshold).mean(axis=0), rtol=0, atol=1e-12)
    lower, upper = posterior.predict_interval(grid, ci_prob=0.8)[:, 1].T
    at_least = posterior.predict_exceedance(grid, 0.5)[:, 1]
    assert (at_least[lower > 0.5] >= 0.9 - 0.01).all()  # the lower end is the 10 % quantile, up to a draw
    assert (at_least[upper < 0.5] <= 0.1 + 0.01).all()


@pytest.mark.variants("two classes")
def test_table_summarises_the_draws(posterior: Calibrator, grid: np.ndarray) -> None:
    drawn = draws_of(posterior, grid)
    table = posterior.predict_table(grid, ci_prob=0.8)
    assert table.columns.tolist() == ["mean", "sd", "lower", "upper"]
    assert table.attrs == {"ci_prob": 0.8}
    expected = {
        "mean": drawn.mean(axis=0),
        "sd": drawn.std(axis=0),
        "lower": np.quantile(drawn, 0.1, axis=0),
        "upper": np.quantile(drawn, 0.9, axis=0),
    }
    pd.testing.assert_frame_equal(table, pd.DataFrame(expected), rtol=0, atol=1e-12)


BAD_QUESTIONS = {
    "ci_prob": [
        lambda cal, grid, bad=bad: cal.predict_interval(grid, ci_prob=bad) for bad in (0, 1, 90, -0.1, np.nan, "0.9")
    ],
    "ci_kind": [lambda cal, grid: cal.predict_interval(grid, ci_kind="shortest")],
    "threshold": [
        lambda cal, grid, bad=bad: cal.predict_exceedance(grid, bad) for bad in (-0.1, 1.1, np.nan, True, "0.5")
    ],
}


@pytest.mark.parametrize("name", BAD_QUESTIONS)
def test_bad_questions_are_refused(posterior: Calibrator, grid: np.ndarray, name: str) -> None:
    for ask in BAD_QUESTIONS[name]:
        with pytest.raises(bc.ParameterValueError, match=name):
            ask(posterior, grid)


def test_draws_that_would_not_fit_in_memory_are_refused(posterior: Calibrator, grid: np.ndarray) -> None:
    rows = 2**29 // (len(posterior.classes_) * posterior.chains * posterior.draws) + 1
    with pytest.raises(bc.ScoreValueError, match="GB"):
        posterior.proba_draws(np.broadcast_to(grid[0], (rows, *grid.shape[1:])))


# Rows and batches


def test_a_row_is_answered_the_same_in_every_batch(fitted: Calibrator, n_scores: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores = draw_scores(rng, 50, n_scores)
    together = fitted.predict_proba(scores)
    order = rng.permutation(50)
    np.testing.assert_allclose(fitted.predict_proba(scores[order]), together[order], rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(np.repeat(scores, 3, axis=0))[::3], together, rtol=0, atol=1e-12)
    alone = np.concatenate([fitted.predict_proba([s]) for s in scores])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)


def test_an_interval_is_the_same_in_every_batch(posterior: Calibrator, n_scores: int, random_seed: int) -> None:
    scores = draw_scores(np.random.default_rng(random_seed), 20, n_scores)
    for ask in (
        posterior.predict_interval,
        lambda s: posterior.predict_exceedance(s, 0.4),
        lambda s: posterior.proba_draws(s).transpose("obs", ...).to_numpy(),
    ):
        together = ask(scores)
        alone = np.concatenate([ask([s]) for s in scores])
        np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)


@pytest.mark.variants("one score")  # rows of several are all computed
@pytest.mark.parametrize("tails", ["short", "long"])
def test_a_large_batch_agrees_with_small_ones(posterior_variant, cases, tails: str) -> None:
    make_posterior = posterior_variant.make
    # beyond EXACT_LIMIT distinct scores answers are interpolated where they change by less than TOLERANCE
    large = np.linspace(0.0, 1.0, EXACT_LIMIT + 2) ** 1.5
    if tails == "short":
        cal = make_posterior().fit(*cases)
    else:  # a steep curve in a small part of the range
        cal = make_posterior(score_kind="raw").fit(np.tan(3 * cases.scores - 1.5), cases.y)
        large = np.tan(3.14 * large - 1.57)
    parts = np.array_split(large, 2)
    questions = {
        "proba": (lambda s: cal.predict_proba(s)[:, 1], TOLERANCE),
        "interval": (lambda s: cal.predict_interval(s)[:, 1], TOLERANCE),
        "table": (lambda s: cal.predict_table(s).to_numpy(), TOLERANCE),
        "exceedance": (lambda s: cal.predict_exceedance(s, 0.4)[:, 1], 1e-12),
        "shortest": (lambda s: cal.predict_interval(s, ci_kind="hdi")[:, 1], 1e-12),
    }
    for name, (ask, tolerance) in questions.items():
        whole = ask(large)
        exact = np.concatenate([ask(part) for part in parts])
        np.testing.assert_allclose(whole, exact, rtol=0, atol=tolerance, err_msg=name)
        if name in ("proba", "interval", "exceedance") and posterior_variant.is_monotone:
            assert np.diff(whole, axis=0).min() >= -1e-12


@pytest.mark.variants("one score")
def test_huge_scores_of_either_sign_in_a_large_batch(make_posterior: Make, cases) -> None:
    cal = make_posterior(score_kind="raw").fit(*cases)
    large = np.r_[-1.7e308, np.linspace(-3, 3, EXACT_LIMIT), 5e-324, 1e-320, 1.7e308]
    answer = cal.predict_interval(large)
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(answer[[0, -1]], cal.predict_interval(large[[0, -1]]), rtol=0, atol=TOLERANCE)
