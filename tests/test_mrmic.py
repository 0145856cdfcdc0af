"""MR-MIC: the order's transitive reduction, the quadratic program, the interpolation between its nodes."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.base import clone

import bayescal as bc
from bayescal.calibrators import mrmic
from bayescal.calibrators.mrmic import cover_pairs, dominance, interpolate, laplacian, regularised_isotonic
from bayescal.pav import isotonic_fit

pytestmark = pytest.mark.filterwarnings("ignore::bayescal.CalibrationWarning")  # of small samples


def is_below(a, b):
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))


def random_nodes(rng, n, columns, levels=None):
    """Distinct points of the unit cube, on a grid of `levels` steps if given: with ties in single columns."""
    nodes = rng.random((n, columns)) if levels is None else rng.integers(levels, size=(n, columns)) / (levels - 1)
    return np.unique(nodes, axis=0)


def plain_program(nodes, positives, totals, smoothing):
    """The program as it is written: double sums, every ordered pair a constraint, a general-purpose optimiser."""
    n = len(nodes)
    pairs = list(itertools.combinations(range(n), 2))
    weight = [totals[i] * totals[j] / np.sqrt(sum((nodes[i] - nodes[j]) ** 2)) for i, j in pairs]

    def objective(p):
        # a row of label y counts (y - p)^2: `positives` rows of label 1, the others of label 0
        error = sum(positives * (1 - p) ** 2 + (totals - positives) * p**2)
        return error + smoothing / 2 * sum(w * (p[i] - p[j]) ** 2 for w, (i, j) in zip(weight, pairs, strict=True))

    def gradient(p):
        slope = 2 * (totals * p - positives)
        for w, (i, j) in zip(weight, pairs, strict=True):
            slope[i] += smoothing * w * (p[i] - p[j])
            slope[j] -= smoothing * w * (p[i] - p[j])
        return slope

    ordered = [(i, j) for i, j in itertools.permutations(range(n), 2) if is_below(nodes[i], nodes[j])]
    rises = np.zeros((len(ordered), n))
    for row, (i, j) in enumerate(ordered):
        rises[row, i], rises[row, j] = -1, 1
    found = minimize(
        objective,
        np.full(n, positives.sum() / totals.sum()),
        jac=gradient,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda p: rises @ p, "jac": lambda p: rises} if ordered else (),
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert found.success or found.status == 8, found.message  # 8: float64 allows no further descent
    assert (rises @ found.x >= -1e-9).all()
    return found.x, objective


# The order


@pytest.mark.parametrize(("columns", "levels"), [(2, None), (2, 5), (3, None), (3, 3), (4, 2)])
def test_cover_pairs_are_those_with_nothing_between(columns, levels, random_seed):
    nodes = random_nodes(np.random.default_rng(random_seed), 40, columns, levels)
    n = len(nodes)
    below = {(i, j) for i in range(n) for j in range(n) if is_below(nodes[i], nodes[j])}
    expected = {(i, j) for i, j in below if not any((i, k) in below and (k, j) in below for k in range(n))}
    order = dominance(nodes)
    assert set(zip(*np.nonzero(order), strict=True)) == below
    assert set(zip(*cover_pairs(order), strict=True)) == expected


# The program


@pytest.mark.parametrize("smoothing", [0.0, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize(("n", "columns", "levels"), [(10, 2, None), (20, 2, 4), (25, 3, 3), (30, 2, None)])
def test_program_agrees_with_its_plain_form(n, columns, levels, smoothing, random_seed):
    rng = np.random.default_rng(random_seed)
    nodes = random_nodes(rng, n, columns, levels)
    totals = rng.integers(1, 4, size=len(nodes)).astype(float)
    positives = rng.binomial(totals.astype(int), 0.2 + 0.6 * nodes.mean(axis=1)).astype(float)
    expected, objective = plain_program(nodes, positives, totals, smoothing)
    values = regularised_isotonic(nodes, positives, totals, smoothing)
    assert abs(objective(values) - objective(expected)) < 1e-8
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)  # the objective's curvature is at least 2


def test_one_column_without_smoothing_is_pav(random_seed):
    rng = np.random.default_rng(random_seed)
    scores = np.unique(rng.random(60))
    totals = rng.random(len(scores)) + 0.5
    positives = totals * (rng.random(len(scores)) < scores)
    knots, levels = isotonic_fit(scores, positives / totals, totals)
    values = regularised_isotonic(scores[:, None], positives, totals, 0.0)
    np.testing.assert_allclose(values, np.interp(scores, knots, levels), rtol=0, atol=1e-5)  # gap 1e-11, squared error


def test_rows_that_no_order_binds_solve_the_normal_equations(random_seed):
    rng = np.random.default_rng(random_seed)
    x = np.sort(rng.random(50))
    nodes = np.stack([x, 1 - x], axis=1)
    totals = rng.random(50) + 0.5
    positives = totals * (rng.random(50) < 0.5)
    expected = np.linalg.solve(2 * np.diag(totals) + 0.01 * laplacian(nodes, totals), 2 * positives)
    np.testing.assert_allclose(regularised_isotonic(nodes, positives, totals, 0.01), expected, rtol=0, atol=1e-8)


def test_strong_smoothing_gives_the_base_rate(random_seed):
    rng = np.random.default_rng(random_seed)
    nodes = random_nodes(rng, 50, 2)
    totals = rng.random(50) + 0.5
    positives = totals * (rng.random(50) < nodes[:, 0])
    values = regularised_isotonic(nodes, positives, totals, 1e6)
    np.testing.assert_allclose(values, positives.sum() / totals.sum(), rtol=0, atol=1e-6)


def test_equal_rows_are_the_limit_of_close_ones(random_seed):
    rng = np.random.default_rng(random_seed)
    nodes = random_nodes(rng, 20, 2)
    labels = (rng.random((2, 20)) < nodes.mean(axis=1)).astype(float)
    pooled = regularised_isotonic(nodes, labels.sum(axis=0), np.full(20, 2.0), 0.01)
    close = np.concatenate([nodes, nodes + 1e-8 * np.array([1.0, -1.0])])
    apart = regularised_isotonic(close, labels.reshape(-1), np.ones(40), 0.01)
    np.testing.assert_allclose(apart, np.tile(pooled, 2), rtol=0, atol=1e-5)


@pytest.mark.parametrize("distance", [1e-300, 1e-15, 1e-9])
def test_almost_equal_rows_are_tied_together(distance, random_seed):
    rng = np.random.default_rng(random_seed)
    nodes = random_nodes(rng, 30, 2)
    nodes[:, 0] *= nodes[:, 0] > 0.5  # at 0 the smallest distances are numbers of their own
    close = np.unique(np.concatenate([nodes, nodes + np.array([distance, 0.0])]), axis=0)
    positives = (rng.random(len(close)) < 0.5).astype(float)
    values = regularised_isotonic(close, positives, np.ones(len(close)), 1e-5)
    assert (values >= 0).all()
    assert (values <= 1).all()
    nearest = np.linalg.norm(close[:, None] - close, axis=2) <= 1e-9
    # two rows of opposite labels at the least distance 1e-9 differ by at most 1 / (1 + lambda 1e9)
    assert np.abs(np.subtract.outer(values, values)[nearest]).max() < 2e-4


# Between the nodes


@pytest.mark.parametrize("columns", [2, 3])
def test_linear_functions_are_interpolated_exactly(columns, random_seed):
    rng = np.random.default_rng(random_seed)
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=columns)))
    nodes = np.concatenate([corners, rng.random((40, columns))])
    slope = rng.random(columns)
    u = rng.random((100, columns))
    np.testing.assert_allclose(interpolate(nodes, nodes @ slope, u), u @ slope, rtol=0, atol=1e-12)
    values = rng.random(len(nodes))
    np.testing.assert_allclose(interpolate(nodes, values, nodes), values, rtol=0, atol=1e-12)


def test_outside_the_hull_the_nearest_node_answers():
    nodes = np.array([[0.4, 0.4], [0.6, 0.4], [0.4, 0.6], [0.6, 0.6]])
    values = np.array([0.1, 0.3, 0.5, 0.9])
    u = np.array([[0.0, 0.0], [1.0, 0.3], [0.3, 1.0], [0.7, 0.7]])
    np.testing.assert_array_equal(interpolate(nodes, values, u), values)


def test_nodes_in_a_line_answer_for_the_projection_on_it():
    diagonal = np.array([0.1, 0.3, 0.9])
    values = np.array([0.2, 0.3, 0.8])
    u = np.array([[0.2, 0.2], [0.5, 0.7], [0.7, 0.5], [0.0, 0.0], [1.0, 1.0]])  # (.5, .7) is nearest to (.6, .6)
    found = interpolate(np.stack([diagonal, diagonal], axis=1), values, u)
    np.testing.assert_allclose(found, [0.25, 0.55, 0.55, 0.2, 0.8], rtol=0, atol=1e-12)
    in_space = interpolate(np.stack([diagonal, diagonal, diagonal], axis=1), values, u[:, [0, 1, 1]])
    np.testing.assert_allclose(in_space[[0, 3, 4]], [0.25, 0.2, 0.8], rtol=0, atol=1e-12)


def test_nodes_in_a_plane_answer_for_the_projection_on_it(random_seed):
    rng = np.random.default_rng(random_seed)
    flat = np.concatenate([np.array(list(itertools.product([0.0, 1.0], repeat=2))), rng.random((20, 2))])
    values = rng.random(24)
    u = rng.random((50, 2))
    constant = np.full((24, 1), 0.3)
    found = interpolate(
        np.concatenate([flat, constant], axis=1), values, np.concatenate([u, rng.random((50, 1))], axis=1)
    )
    np.testing.assert_allclose(found, interpolate(flat, values, u), rtol=0, atol=1e-9)


def test_a_single_node_answers_everywhere():
    np.testing.assert_array_equal(interpolate(np.array([[0.2, 0.7]]), np.array([0.4]), np.eye(2)), [0.4, 0.4])


# The calibrator


def simulate(rng, n, columns):
    scores = rng.random((n, columns))
    return scores, (rng.random(n) < 0.1 + 0.8 * scores.mean(axis=1)).astype(int)


@pytest.mark.parametrize("kind", ["proba", "logit", "raw"])
@pytest.mark.parametrize("columns", [2, 3])
def test_the_map_is_nondecreasing_on_the_calibration_rows(kind, columns, random_seed):
    scores, y = simulate(np.random.default_rng(random_seed), 120, columns)
    scores = scores if kind == "proba" else logit(scores)
    p = bc.MRMICCalibrator(kind).fit(scores, y).predict_proba(scores)[:, 1]
    lower, upper = np.nonzero((scores[:, None] <= scores).all(axis=2))
    assert (p[lower] <= p[upper] + 1e-12).all()  # interpolation at a node is a weighted mean with a weight of 1
    assert p.std() > 0.05


def test_log_odds_and_ranks_are_other_names_for_the_same_scores(random_seed):
    scores, y = simulate(np.random.default_rng(random_seed), 80, 2)
    p = bc.MRMICCalibrator().fit(scores, y).predict_proba(scores)
    np.testing.assert_allclose(
        bc.MRMICCalibrator("logit").fit(logit(scores), y).predict_proba(logit(scores)), p, atol=1e-6
    )
    raw = bc.MRMICCalibrator("raw").fit(scores, y).predict_proba(scores)
    np.testing.assert_array_equal(bc.MRMICCalibrator("raw").fit(100 * scores**3, y).predict_proba(100 * scores**3), raw)
    ranks = (scores.argsort(axis=0).argsort(axis=0) + 0.5) / 80
    np.testing.assert_allclose(bc.MRMICCalibrator().fit(ranks, y).predict_proba(ranks), raw, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["proba", "raw"])
def test_a_row_of_weight_two_is_two_rows(kind, random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y = simulate(rng, 60, 2)
    scores = scores.round(1)  # equal rows of either label
    weight = rng.integers(0, 4, size=60)
    twice, labels = np.repeat(scores, weight, axis=0), np.repeat(y, weight)
    new = rng.random((50, 2))
    weighted = bc.MRMICCalibrator(kind).fit(scores, y, sample_weight=weight)
    repeated = bc.MRMICCalibrator(kind).fit(twice, labels)
    np.testing.assert_allclose(weighted.predict_proba(new), repeated.predict_proba(new), rtol=0, atol=1e-12)
    order = rng.permutation(60)
    shuffled = bc.MRMICCalibrator(kind).fit(scores[order], y[order], sample_weight=weight[order])
    np.testing.assert_allclose(weighted.predict_proba(new), shuffled.predict_proba(new), rtol=0, atol=1e-12)


def test_the_default_of_smoothing_is_its_rule(random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y = simulate(rng, 50, 3)
    weight = np.full(50, 2.0)
    default = bc.MRMICCalibrator().fit(scores, y, sample_weight=weight).point_estimate_["values"]
    said = bc.MRMICCalibrator(smoothing=9 / 100**1.5).fit(scores, y, sample_weight=weight).point_estimate_["values"]
    none = bc.MRMICCalibrator(smoothing=0).fit(scores, y, sample_weight=weight).point_estimate_["values"]
    np.testing.assert_array_equal(default, said)
    assert np.ptp(none) > np.ptp(default)


def test_the_default_of_smoothing_is_nearer_the_truth_than_the_papers(random_seed):
    rng = np.random.default_rng(random_seed)
    errors = np.zeros(2)
    for surface in (np.prod, np.mean, np.max):
        for _ in range(4):
            scores, new = rng.random((2, 100, 2))
            y = (rng.random(100) < 0.1 + 0.8 * surface(scores, axis=1)).astype(int)
            truth = 0.1 + 0.8 * surface(new, axis=1)
            for k, smoothing in enumerate((None, 1e-5)):
                p = bc.MRMICCalibrator(smoothing=smoothing).fit(scores, y).predict_proba(new)[:, 1]
                errors[k] += np.mean((p - truth) ** 2)
    assert errors[0] < 0.85 * errors[1]  # about half


def test_prediction_does_not_depend_on_the_batch(random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y = simulate(rng, 100, 2)
    cal = bc.MRMICCalibrator().fit(scores, y)
    new = np.concatenate([scores[:20], rng.random((20, 2)), np.array([[0.0, 0.0], [1.0, 1.0]])])
    p = cal.predict_proba(new)
    one_by_one = np.concatenate([cal.predict_proba(row[None]) for row in new])
    np.testing.assert_allclose(p, one_by_one, rtol=0, atol=1e-12)


@pytest.mark.parametrize("copies", ["equal columns", "a constant column", "one row", "rows on a grid"])
def test_degenerate_scores_have_an_answer(copies, random_seed):
    rng = np.random.default_rng(random_seed)
    scores, y = simulate(rng, 40, 2)
    if copies == "equal columns":
        scores[:, 1] = scores[:, 0]
    elif copies == "a constant column":
        scores[:, 1] = 0.5
    elif copies == "one row":
        scores[:] = 0.3, 0.6
    else:
        scores = scores.round()
    cal = bc.MRMICCalibrator().fit(scores, y)
    p = cal.predict_proba(np.array([[0.0, 0.0], [0.3, 0.3], [0.3, 0.6], [1.0, 1.0]]))[:, 1]
    assert np.isfinite(p).all()
    assert p[0] <= p[1] <= p[3]


def test_one_class_is_certain(random_seed):
    rng = np.random.default_rng(random_seed)
    cal = bc.MRMICCalibrator(classes=[0, 1]).fit(rng.random((50, 3)), np.ones(50, dtype=int))
    np.testing.assert_allclose(cal.predict_proba(rng.random((500, 3)))[:, 1], 1.0, rtol=0, atol=1e-5)
    ones = {"nodes": rng.random((1, 50, 3)), "values": np.ones((1, 50))}  # their weighted means can round above 1
    assert not np.isnan(cal._log_odds(rng.random((500, 3)), ones)).any()


def test_many_rows_are_grouped_with_their_neighbours(random_seed, monkeypatch):
    scores, y = simulate(np.random.default_rng(random_seed), 400, 2)
    monkeypatch.setattr(mrmic, "MAX_NODES", 100)
    point = bc.MRMICCalibrator(smoothing=1.0).fit(scores, y).point_estimate_
    assert 50 < len(point["nodes"]) <= 100
    np.testing.assert_allclose(point["values"], y.mean(), atol=0.01)  # no row lost: strong smoothing, the base rate


def test_it_comes_back_from_file_pickle_and_clone(tmp_path, random_seed):
    scores, y = simulate(np.random.default_rng(random_seed), 60, 3)
    cal = bc.MRMICCalibrator("raw", smoothing=1e-3, classes=[0, 1]).fit(scores, y)
    cal.save(tmp_path / "fit.nc")
    for again in (bc.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(cal)), clone(cal).fit(scores, y)):
        assert again.get_params() == cal.get_params()
        np.testing.assert_array_equal(again.predict_proba(scores), cal.predict_proba(scores))


def test_there_is_no_posterior():
    scores, y = simulate(np.random.default_rng(0), 40, 2)
    cal = bc.MRMICCalibrator().fit(scores, y)
    for ask in (
        lambda: cal.predict_interval(scores),
        lambda: cal.predict_exceedance(scores, 0.5),
        lambda: cal.predict_table(scores),
        lambda: cal.proba_draws(scores),
        lambda: cal.idata_,
        lambda: cal.diagnostics_,
        lambda: cal.model_,
        lambda: cal.build_model(scores, y),
    ):
        with pytest.raises(bc.NoPosteriorError, match="mrmic is a point estimate"):
            ask()
    with pytest.raises(bc.ParameterValueError, match="inference must be one of 'point', got 'nuts'"):
        bc.MRMICCalibrator(inference="nuts").fit(scores, y)


@pytest.mark.parametrize("smoothing", [-1e-5, np.nan, np.inf, True, "1"])
def test_smoothing_is_a_nonnegative_number(smoothing):
    scores, y = simulate(np.random.default_rng(0), 40, 2)
    with pytest.raises(bc.ParameterValueError, match="smoothing must be a finite number, at least 0"):
        bc.MRMICCalibrator(smoothing=smoothing).fit(scores, y)


def test_programs_beyond_float64_are_refused():
    scores, y = simulate(np.random.default_rng(0), 40, 2)
    with pytest.raises(bc.ParameterValueError, match="too many orders of magnitude"):
        bc.MRMICCalibrator(smoothing=1e14).fit(scores, y)


def test_more_columns_than_a_triangulation_bears_are_refused():
    scores, y = simulate(np.random.default_rng(0), 40, 6)
    with pytest.raises(bc.ScoreValueError, match="at most 5 columns for mrmic, got 6"):
        bc.MRMICCalibrator().fit(scores, y)
