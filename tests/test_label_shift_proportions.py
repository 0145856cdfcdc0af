"""Maximum likelihood of class proportions: against long EM, other optimisers, and the conditions of a maximum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from bayescal.label_shift.draws import draw_source, draw_target, group_two
from bayescal.label_shift.posterior import draw_proportions, modes
from bayescal.label_shift.proportions import (
    KKT_TOLERANCE,
    Evidence,
    _climb,
    adapt_probabilities,
    evidence,
    maximum_likelihood,
)


def problem(seed: int, cases: int, classes: int, distance: float, power: float = 1.0) -> Evidence:
    """Normal classes, `distance` apart; probabilities sharpened by `power` are not calibrated."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(classes, 3.0)), rng.dirichlet(np.full(classes, 0.5))
    mean = np.eye(classes) * distance / np.sqrt(2)
    x = mean[rng.choice(classes, size=cases, p=q)] + rng.normal(size=(cases, classes))
    log = x @ mean.T - 0.5 * (mean**2).sum(axis=1) + np.log(p)
    proba = np.exp(power * (log - log.max(axis=1, keepdims=True)))
    return evidence(proba / proba.sum(axis=1, keepdims=True), p)


def log_likelihood(found: Evidence, q: np.ndarray) -> float:
    return float(found.weight @ np.log(found.rows @ q))


def mean_ratios(found: Evidence, q: np.ndarray) -> np.ndarray:
    return (found.weight / (found.rows @ q)) @ found.rows / found.weight.sum()


@given(
    seed=st.integers(0, 10**6),
    cases=st.sampled_from([1, 3, 20, 200, 2000]),
    classes=st.sampled_from([2, 3, 5, 10, 20]),
    distance=st.sampled_from([0.1, 0.5, 1.0, 2.0, 4.0, 8.0]),
    power=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_conditions_of_the_maximum_hold(seed: int, cases: int, classes: int, distance: float, power: float) -> None:
    found = problem(seed, cases, classes, distance, power)
    best = maximum_likelihood(found)
    assert best.residual <= KKT_TOLERANCE
    assert best.q.min() >= 0 and best.q.sum() == pytest.approx(1, abs=1e-12)
    ratio = mean_ratios(found, best.q)
    assert (ratio - 1).max() <= 1.01 * KKT_TOLERANCE  # no class would rather have more
    assert (best.q * np.abs(ratio - 1)).max() <= 1.01 * KKT_TOLERANCE


@pytest.mark.parametrize("distance", [1.0, 3.0])
def test_maximum_is_where_long_em_goes(distance: float, random_seed: int) -> None:
    found = problem(random_seed, 500, 4, distance)
    q = np.full(4, 0.25)
    for _ in range(20_000):
        q = q * mean_ratios(found, q)
    best = maximum_likelihood(found)
    assert log_likelihood(found, best.q) >= log_likelihood(found, q) - 1e-9
    np.testing.assert_allclose(best.q, q, atol=1e-3)  # EM creeps where classes overlap


def test_maximum_is_that_of_a_general_optimiser(random_seed: int) -> None:
    found = problem(random_seed, 300, 5, 1.5)
    best = maximum_likelihood(found)
    other = minimize(
        lambda q: -log_likelihood(found, np.maximum(q, 1e-15)),
        np.full(5, 0.2),
        jac=lambda q: -300 * mean_ratios(found, np.maximum(q, 1e-15)),
        method="SLSQP",
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones(5)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert log_likelihood(found, best.q) >= -other.fun - 1e-9
    np.testing.assert_allclose(best.q, other.x, atol=1e-3)  # SLSQP stops at 1e-14 of a flat objective


def test_many_cases_take_few_passes(random_seed: int) -> None:
    best = maximum_likelihood(problem(random_seed, 200_000, 10, 1.5))
    assert best.residual <= KKT_TOLERANCE and best.passes <= 12


def test_nothing_is_lost_where_nothing_shifts(random_seed: int) -> None:
    # Lemma A of the paper: with mean probabilities as source proportions, q = p is the maximum on the same cases
    proba = np.random.default_rng(random_seed).dirichlet([1, 2, 3], size=400)
    source = proba.mean(axis=0)
    np.testing.assert_allclose(maximum_likelihood(evidence(proba, source)).q, source, atol=1e-8)


def test_certain_cases_are_counted() -> None:
    proba = np.repeat(np.eye(3), [5, 0, 15], axis=0)
    np.testing.assert_allclose(maximum_likelihood(evidence(proba, np.ones(3) / 3)).q, [0.25, 0, 0.75], atol=1e-9)


def test_labels_are_certain_cases(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    proba, source = rng.dirichlet([1, 1, 1], size=50), np.array([0.2, 0.3, 0.5])
    with_labels = maximum_likelihood(evidence(proba, source, np.array([4.0, 0.0, 1.0])))
    as_cases = maximum_likelihood(evidence(np.concatenate([proba, np.eye(3)[[0, 0, 0, 0, 2]]]), source))
    np.testing.assert_allclose(with_labels.q, as_cases.q, atol=1e-7)


def test_class_that_starts_near_zero_is_found() -> None:
    # EM from a proportion of 0 stays there for ever; the truth here is 0.246
    found = problem(3, 5000, 3, 2.0)
    rows = found.rows
    best = maximum_likelihood(found)
    tiny = np.array([1 - 2e-12, 1e-12, 1e-12])
    again = _climb(rows, found.weight, tiny, 0, KKT_TOLERANCE)
    np.testing.assert_allclose(again.q, best.q, atol=1e-6)


def test_twin_columns_share_what_they_have() -> None:
    found = problem(1, 300, 3, 2.0)
    twice = Evidence(found.rows[:, [0, 0, 1, 2]], found.weight, np.ones(4, bool), 0)
    best, same = maximum_likelihood(twice), maximum_likelihood(found)
    assert best.residual <= KKT_TOLERANCE
    np.testing.assert_allclose([best.q[:2].sum(), *best.q[2:]], same.q, atol=1e-6)


def test_classes_without_source_and_cases_without_class_are_left_out() -> None:
    proba = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    found = evidence(proba, np.array([0.4, 0.6, 0.0]))
    assert found.kept.tolist() == [True, True, False] and found.ignored == 2
    q = found.spread(maximum_likelihood(found).q)
    assert q[2] == 0 and np.isfinite(q).all() and q.sum() == pytest.approx(1)


def test_scale_of_a_row_does_not_matter(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    proba, source = rng.dirichlet([1, 1, 1], size=60), np.array([0.2, 0.3, 0.5])
    scaled = proba * 10.0 ** rng.uniform(-200, 0, (60, 1))
    expected = maximum_likelihood(evidence(proba, source)).q
    np.testing.assert_allclose(maximum_likelihood(evidence(scaled, source)).q, expected, atol=1e-9)


def test_no_cases_say_nothing() -> None:
    assert maximum_likelihood(evidence(np.empty((0, 4)), np.ones(4) / 4)).q.tolist() == [0.25] * 4


# Adapted probabilities


def test_prevalence_of_a_balanced_sample() -> None:
    # reported: probabilities after training on a balanced sample; 0.8 * 0.02 / 0.5 over that plus 0.2 * 0.98 / 0.5
    weights = np.array([0.98 / 0.5, 0.02 / 0.5])
    proba = np.array([[0.2, 0.8], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(adapt_probabilities(proba, weights)[:, 1], [0.0754716981132, 0.0, 1.0], atol=1e-12)
    np.testing.assert_array_equal(adapt_probabilities(proba, np.ones(2)), proba)


def test_case_without_weighted_probability_keeps_its_own() -> None:
    found = adapt_probabilities(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([2.0, 0.0]))
    assert found.tolist() == [[0.0, 1.0], [1.0, 0.0]]


# Draws


def test_modes_are_modes(random_seed: int) -> None:
    found = problem(random_seed, 300, 4, 1.5)
    a = np.array([0.5, 1.0, 0.5, 3.0])
    mode = modes(found.rows[None], found.weight, a, np.full(4, 0.25))[0]
    slope = a / mode + mean_ratios(found, mode) * 300 - (a.sum() + 300)
    curvature = a / mode**2 + (found.weight / (found.rows @ mode) ** 2) @ found.rows**2
    assert np.abs(slope / np.sqrt(curvature)).max() < 0.2  # in standard deviations


def test_draws_of_two_and_of_many_classes_agree(random_seed: int) -> None:
    # a third class that no case can be of, and whose prior is next to nothing, turns the exact draws into sampled ones
    found = problem(random_seed, 200, 2, 1.5)
    rng = np.random.default_rng(random_seed)
    exact, _ = draw_proportions(
        np.repeat(found.rows[None], 3000, axis=0), found.weight, np.array([1.0, 2.0]), np.ones(2) / 2, rng
    )
    split = found.rows[:, [0, 0, 1]]  # two names of one class: their prior cases add up
    sampled, accepted = draw_proportions(
        np.repeat(split[None], 3000, axis=0), found.weight, np.array([0.5, 0.5, 2.0]), np.ones(3) / 3, rng
    )
    assert accepted.mean() > 0.7
    error = exact[:, 1].std() * np.sqrt(2 / 3000)
    assert abs(sampled[:, 2].mean() - exact[:, 1].mean()) < 5 * error
    assert sampled[:, 2].std() == pytest.approx(exact[:, 1].std(), rel=0.1)


def test_draws_do_not_depend_on_the_number_of_threads(random_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = problem(random_seed, 400, 3, 2.0)
    source = np.random.default_rng(0).dirichlet([20, 30, 50], size=3000)

    def draw() -> np.ndarray:
        rng = np.random.default_rng(1)
        proba = np.repeat(found.rows[None], 3000, axis=0)
        return draw_target(lambda s: proba[s], found.weight, source, np.full(3, 0.5), rng).q

    several = draw()
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    np.testing.assert_array_equal(draw(), several)


def test_bootstrap_means_have_the_spread_of_half_the_cases(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    proba = rng.dirichlet([1, 2], size=100)
    drawn = draw_source(lambda rows: np.repeat(proba[None, rows], 4000, axis=0), 100, 4000, rng)
    assert drawn[:, 0].mean() == pytest.approx(proba[:, 0].mean(), abs=0.01)
    # Dirichlet(1/2, .., 1/2) weights of n cases: variance of the mean = population variance / (n / 2 + 1)
    assert drawn[:, 0].var() == pytest.approx(proba[:, 0].var() / 51, rel=0.15)


def test_groups_hold_cases_that_are_next_to_each_other(random_seed: int) -> None:
    x = np.random.default_rng(random_seed).normal(0, 3, 50_000)
    group, weight, nearest = group_two(x)
    assert weight.sum() == 50_000 and len(weight) <= 2002
    assert np.abs(x - x[nearest[group]]).max() < 0.03
    np.testing.assert_array_equal(group[nearest], np.arange(len(weight)))
