"""PAV: against AI::Calibrate under perl, the min-max formula, scikit-learn, and exact integer arithmetic."""

import csv
import io
import itertools
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from bayescal.pav import calibrate, isotonic_fit, isotonic_predict, print_mapping, score_prob

DATA = Path(__file__).parent / "data" / "ai_calibrate"


def rows_of(name, *columns):
    """Rows of a data file as {case: [(number, number), ...]}."""
    cases = {}
    with (DATA / name).open(newline="") as file:
        for row in csv.DictReader(file):
            cases.setdefault(row["case"], []).append(tuple(float(row[column]) for column in columns))
    return cases


POINTS = rows_of("points.csv", "score", "label")
MAPPINGS = rows_of("mapping.csv", "threshold", "prob")
LOOKUPS = rows_of("lookup.csv", "score", "prob")
RECORDED = [json.loads(line) for line in (DATA / "perl_outputs.jsonl").read_text().splitlines()]


def same_mapping(ours, perl):
    """Equal up to the rounding of the Perl code, which can split a block; says whether it has done so."""
    merged = []
    for threshold, probability in perl:
        if merged and abs(merged[-1][1] - probability) < 1e-12:
            merged[-1] = (threshold, merged[-1][1])
        else:
            merged.append((threshold, probability))
    assert [t for t, _ in ours] == [t for t, _ in merged]
    np.testing.assert_allclose([p for _, p in ours], [p for _, p in merged], rtol=0, atol=1e-12)
    return len(merged) < len(perl)


# AI::Calibrate


@pytest.mark.parametrize("case", list(POINTS))
def test_calibrate_on_the_modules_own_points(case):
    same_mapping(calibrate(POINTS[case]), MAPPINGS[case])
    same_mapping(calibrate(POINTS[case], already_sorted=True), MAPPINGS[case])  # the files are sorted


def test_no_points_give_an_empty_mapping_and_probability_zero():
    assert calibrate([]) == calibrate(np.empty((0, 2))) == calibrate(zip([], [], strict=True)) == []
    assert score_prob([], 0.5) == 0.0


@pytest.mark.parametrize("case", list(LOOKUPS))
def test_score_prob_on_the_modules_own_lookups(case):
    scores, expected = zip(*LOOKUPS[case], strict=True)
    mapping = calibrate(POINTS[case])
    np.testing.assert_allclose(score_prob(mapping, scores), expected, rtol=0, atol=1e-14)
    assert [score_prob(mapping, s) for s in scores] == score_prob(mapping, scores).tolist()


def golf_scores():
    """Naive Bayes on the golf data: frequencies for words, normal densities (n - 1) for numbers."""
    with (DATA / "golf.csv").open(newline="") as file:
        days = list(csv.DictReader(file))
    joint = {}
    for play in ("yes", "no"):
        group = [day for day in days if day["play"] == play]
        joint[play] = np.full(len(days), len(group) / len(days))
        for word in ("outlook", "windy"):
            joint[play] *= [np.mean([g[word] == day[word] for g in group]) for day in days]
        for number in ("temperature", "humidity"):
            values = np.array([float(g[number]) for g in group])
            z = (np.array([float(day[number]) for day in days]) - values.mean()) / values.std(ddof=1)
            joint[play] *= np.exp(-(z**2) / 2) / values.std(ddof=1)
    return joint["yes"] / (joint["yes"] + joint["no"]), [day["play"] == "yes" for day in days]


def test_golf_naive_bayes_is_calibrated_as_in_the_modules_test():
    # Expected numbers: the module's own test (README.md beside the data).
    mapping = np.array(calibrate(zip(*golf_scores(), strict=True)))
    np.testing.assert_allclose(mapping, [[0.779495793582905, 1], [0.535425255450615, 2 / 3]], rtol=1e-12)


def test_kun_liu_tie_is_taken_one_by_one_by_calibrate_and_pooled_by_isotonic_fit():
    points = POINTS["kun_liu"]
    assert points[-2:] == [(0.359, 1.0), (0.359, 0.0)]
    assert calibrate(points)[-1] == (0.359, 5 / 13)  # the last zero stays outside
    assert calibrate([*points[:-2], points[-1], points[-2]])[-1] == (0.359, 5 / 14)
    _, values = isotonic_fit(*np.array(points).T)
    assert values[0] == 5 / 14


def test_order_matters_within_a_tie_as_in_perl():
    # The first is the module's case two_conflicting; both were run under perl.
    assert calibrate([(0.8, 0), (0.8, 1)]) == [(0.8, 0.5)]
    assert calibrate([(0.8, 1), (0.8, 0)]) == [(0.8, 1.0)]


def test_code_and_not_manual_where_they_disagree():
    mapping = calibrate(POINTS["rocch_pav_table1"])
    assert min(mapping) == (0.1, 1 / 3)  # no row 0.02 -> 0
    assert score_prob(mapping, 0.6) == 0.75  # the manual's thresholds would give 2/3
    assert calibrate([(-2e10, 1), (-3e10, 0)]) == [(-2e10, 1.0)]  # run under perl: -1e10 is no bound


def test_recorded_perl_outputs():
    split = [
        same_mapping(
            calibrate(case["points"], already_sorted=bool(case["sorted"])),
            [(threshold, float(probability)) for threshold, probability in case["mapping"]],
        )
        for case in RECORDED
    ]
    assert len(split) == 250
    assert any(split)  # else the rounding of the Perl code was not met, and its merging not tested


def test_recorded_perl_lookups_and_lines():
    for case in RECORDED:
        scores, expected = np.array(case["lookup"]).T
        mapping = calibrate(case["points"], already_sorted=bool(case["sorted"]))
        np.testing.assert_allclose(score_prob(mapping, scores), expected, rtol=0, atol=1e-12)
        out = io.StringIO()
        print_mapping([(threshold, float(p)) for threshold, p in case["mapping"]], file=out)
        assert out.getvalue().splitlines() == case["printed"]


@pytest.mark.parametrize(
    ("mapping", "lines"),  # lines as perl prints them
    [
        ([], ["1.000 > SCORE >= 0.000     prob = 0.000"]),
        ([(0.0, 0.5)], ["1.000 > SCORE >= 0.000     prob = 0.500"]),
        (
            [(-1.0, 0.5)],
            ["1.000 > SCORE >= -1.000     prob = 0.500", "-1.000 > SCORE >= 0.000     prob = 0.000"],
        ),
    ],
)
def test_print_mapping_first_and_last_line(mapping, lines, capsys):
    print_mapping(mapping)
    assert capsys.readouterr().out.splitlines() == lines


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.floats(0, 1)), max_size=8),
    st.lists(st.integers(-6, 6), max_size=8),
)
def test_score_prob_is_the_first_row_at_or_below_for_any_order_of_rows(mapping, scores):
    expected = [next((p for bound, p in mapping if s >= bound), 0.0) for s in scores]
    assert score_prob(mapping, np.array(scores, dtype=float)).tolist() == expected


def test_score_prob_keeps_the_shape_and_gives_a_float_for_a_number():
    mapping = [(0.5, 1.0), (0.25, 0.5)]
    assert type(score_prob(mapping, 0.3)) is float
    assert score_prob(mapping, np.array([[math.inf, 0.3], [0.25, -math.inf]])).tolist() == [
        [1, 0.5],
        [0.5, 0],
    ]
    assert score_prob([list(row) for row in mapping], []).shape == (0,)  # as read back from JSON


def test_calibrate_reads_any_iterable_of_pairs_and_leaves_an_array_as_it_was():
    points = np.array(POINTS["kun_liu"])[::-1].copy()
    before = points.copy()
    points.flags.writeable = False
    expected = calibrate(points)
    np.testing.assert_array_equal(points, before)
    assert calibrate(points.tolist()) == calibrate(iter(points)) == expected
    assert calibrate((s, bool(c)) for s, c in points) == expected
    assert all(type(number) is float for row in expected for number in row)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(0.1, 0), (math.nan, 1)], r"scores must be numbers; 1 of 2 are not, first nan at row 1\."),
        ([(0.1, 0), (0.2, 2), (0.3, -1)], r"classes must be 0 or 1; 2 of 3 are not, first 2\.0 at row 1\."),
        ([(0.1, math.nan)], "classes must be 0 or 1"),
        ([(0.1, 0, 1)], r"points must be \(score, class\) pairs.*got shape \(1, 3\)"),
        ([0.1, 0.2], r"pairs.*got shape \(2,\)"),
        ([(0.1, 0), (0.2,)], "pairs of numbers"),
        ([("low", 0)], "pairs of numbers"),
        (None, "pairs of numbers"),
    ],
)
def test_calibrate_refuses(points, message):
    with pytest.raises(ValueError, match=message):
        calibrate(points)


def test_score_prob_refuses_nan_and_rows_that_are_no_pairs():
    with pytest.raises(ValueError, match="scores must be numbers; 1 of 1"):
        score_prob([(0.5, 1.0)], math.nan)
    with pytest.raises(ValueError, match=r"mapping must be \(threshold, probability\) pairs"):
        score_prob([0.5, 1.0], 0.3)


# Isotonic regression


def certify(y, ends):
    """Prove in integers that blocks y[:ends[0]], y[ends[0]:ends[1]], ... of 0/1 are a decreasing regression.

    Necessary and sufficient (Kuhn-Tucker): means decrease from block to block, and within a block no first
    part has a mean above the block's.
    """
    sizes = np.diff(ends, prepend=0)
    cumulated = np.cumsum(y, dtype=np.int64)
    ones = np.diff(cumulated[ends - 1], prepend=0)
    assert (ones[:-1] * sizes[1:] > ones[1:] * sizes[:-1]).all()
    before = np.repeat(cumulated[ends - 1] - ones, sizes)
    taken = np.arange(1, len(y) + 1) - np.repeat(ends - sizes, sizes)
    assert ((cumulated - before) * np.repeat(sizes, sizes) <= np.repeat(ones, sizes) * taken).all()
    return ones / sizes


def zeros_above_ones(n, seed):
    return (np.arange(n) >= n // 2).astype(int)


def slowly_rising(n, seed):
    """Shares of ones that rise as scores fall: everything violates, in ever larger blocks."""
    return (np.random.default_rng(seed).random(n) < np.linspace(0.4, 0.6, n)).astype(int)


def informative(n, seed):
    return (np.random.default_rng(seed).random(n) < np.linspace(1, 0, n)).astype(int)


@pytest.mark.parametrize("make", [zeros_above_ones, slowly_rising, informative])
def test_calibrate_is_exact_on_100_000_points(make, random_seed):
    n = 100_000
    y = make(n, random_seed)
    mapping = np.array(calibrate(zip(range(n, 0, -1), y.tolist(), strict=True)))
    ends = n - mapping[:, 0].astype(int) + 1  # the score of position i is n - i
    all_ends = ends if ends[-1] == n else np.append(ends, n)  # a last block of zeros has no row
    np.testing.assert_array_equal(certify(y, all_ends)[: len(ends)], mapping[:, 1])


ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=25)


def min_max(x, y, w):
    """Isotonic regression by max_{a <= i} min_{b >= i} mean(y_a..y_b) over unique scores, O(k^3)."""
    levels = np.unique(x)
    sums = [(np.sum((w * y)[x == level]), np.sum(w[x == level])) for level in levels]

    def mean(a, b):
        return sum(s for s, _ in sums[a : b + 1]) / sum(v for _, v in sums[a : b + 1])

    k = len(levels)
    return levels, [max(min(mean(a, b) for b in range(i, k)) for a in range(i + 1)) for i in range(k)]


@given(ROWS)
@settings(max_examples=60)
def test_fit_is_the_min_max_formula(rows):
    x, y, w = np.array(rows, dtype=float).T
    levels, expected = min_max(x, y, w)
    np.testing.assert_allclose(isotonic_predict(*isotonic_fit(x, y, w), levels), expected, rtol=1e-14)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.floats(-10, 10), st.floats(0, 1e3)), min_size=1, max_size=50).filter(
        lambda rows: any(w > 1e-3 for *_, w in rows)
    )
)
def test_fit_and_prediction_equal_scikit_learn(rows):
    x, y, w = np.array(rows).T
    w[w < 1e-3] = 0
    new = np.arange(-60, 60) + 0.25
    sk = IsotonicRegression(out_of_bounds="clip").fit(x, y, w)
    knots, values = isotonic_fit(x, y, w)
    np.testing.assert_allclose(isotonic_predict(knots, values, new), sk.predict(new), rtol=1e-9, atol=1e-9)
    assert (np.diff(knots) > 0).all() and (np.diff(values) >= 0).all()
    assert y[w > 0].min() <= values[0] and values[-1] <= y[w > 0].max()
    # Every value is the weighted mean of the rows that have it.
    fitted = isotonic_predict(knots, values, x)
    for value in np.unique(values):
        block = fitted == value
        assert np.average(y[block], weights=w[block]) == pytest.approx(value, abs=1e-9)


@given(ROWS, st.sampled_from([0.125, 2.0, 3.0]), st.integers(-100, 100))
def test_scale_and_shift_of_the_score_only_move_the_knots(rows, scale, shift):
    x, y, w = np.array(rows, dtype=float).T
    knots, values = isotonic_fit(x, y, w)
    moved_knots, moved_values = isotonic_fit(scale * x + shift, y, w)  # exact in floating point
    np.testing.assert_array_equal(moved_knots, scale * knots + shift)
    np.testing.assert_array_equal(moved_values, values)


@given(ROWS, st.randoms(use_true_random=False))
def test_integer_weights_are_repeated_rows_and_order_is_free(rows, random):
    x, y, w = np.array(rows).T
    fit = isotonic_fit(x, y, w)
    repeated = list(itertools.chain.from_iterable([(s, r)] * n for s, r, n in rows))
    random.shuffle(repeated)
    for left, right in zip(fit, isotonic_fit(*np.array(repeated).T), strict=True):
        np.testing.assert_array_equal(left, right)


def test_knots_are_the_ends_of_blocks():
    # Fractions by hand: 0 | (1 + 0 + 1 + 0) / 4 | 1, with scores 3 and 3 tied.
    knots, values = isotonic_fit(np.array([6, 5, 3, 3, 4, 1, 2, 0.0]), np.array([1, 0, 1, 0, 1, 0, 0, 0]))
    assert knots.tolist() == [0, 2, 3, 5, 6]
    assert values.tolist() == [0, 0, 0.5, 0.5, 1]


def test_blocks_of_equal_mean_are_one():
    knots, values = isotonic_fit(np.arange(9.0), np.array([1, 0, 0] * 3))
    assert knots.tolist() == [0, 8]
    assert values.tolist() == [1 / 3, 1 / 3]
    # 0.1 / 0.4 = 0.2 / 0.8: here scipy, by its rounding, leaves the two blocks apart.
    y, w = np.array([1, 0, 1, 0, 0, 0, 1]), np.array([0.1, 0.3, 0.2, 0.3, 0.2, 0.1, 0.2])
    knots, values = isotonic_fit(np.arange(7.0), y, w)
    assert knots.tolist() == [0, 5, 6]
    assert values.tolist() == [0.25, 0.25, 1]


def test_inputs_are_not_modified():
    inputs = [np.array(column, dtype=float) for column in ([3, 1, 2, 2], [1, 1, 0, 1], [1, 2, 0, 3])]
    before = [a.copy() for a in inputs]
    for a in inputs:
        a.flags.writeable = False
    isotonic_predict(*isotonic_fit(*inputs), inputs[0])
    for a, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_zero_weight_is_an_absent_row():
    # Reported to scikit-learn (#4297) as an endless loop, to scholar (#368) as NaN.
    x, y, w = np.arange(1.0, 7.0), np.array([0, 1, 0, 1, 0, 1]), np.array([1, 0, 2, 1, 0, 3.0])
    fit = isotonic_fit(x, y, w)
    assert isotonic_predict(*fit, x).tolist() == [0, 0, 0, 1, 1, 1]
    for a, b in zip(fit, isotonic_fit(x[w > 0], y[w > 0], w[w > 0]), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="at least one row of positive weight"):
        isotonic_fit(x, y, np.zeros(6))


def test_denormal_gaps_between_scores():
    # Reported to scikit-learn (#10903): interpolation gave infinite probabilities.
    x, y = np.array([0.0, 3e-322, 2e-315, 1.0]), np.array([0.2, 0.2, 0.6, 0.6])
    p = isotonic_predict(*isotonic_fit(x, y), np.array([0, 1e-322, 1e-316, 1e-9, 0.5, 1]))
    np.testing.assert_allclose(p, [0.2, 0.2, 0.22, 0.6, 0.6, 0.6], rtol=1e-6)  # 0.2 + 0.4 * 1e-316 / 2e-315


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(FINITE, st.floats(0, 1)), min_size=1, max_size=20),
    st.lists(st.floats(allow_nan=False), max_size=20),
)
def test_prediction_is_monotone_and_in_range_for_any_scores(rows, new):
    x, y = np.array(rows).T
    knots, values = isotonic_fit(x, y)
    new = np.sort(np.concatenate((new, knots, [-np.inf, np.inf])))
    p = isotonic_predict(knots, values, new)
    assert (np.diff(p) >= 0).all()  # also refuses NaN
    assert p[0] == values[0] and p[-1] == values[-1]
    np.testing.assert_array_equal([isotonic_predict(knots, values, s) for s in new], p)  # alone as in a batch
    if knots[-1] / 2 - knots[0] / 2 < 1e307:
        np.testing.assert_array_equal(isotonic_predict(knots, values, knots), values)


def test_gaps_wider_than_the_largest_number_and_wider_than_a_score_can_resolve():
    fit = isotonic_fit(np.array([-1.5e308, 1.5e308]), np.array([0, 1]))
    assert isotonic_predict(*fit, np.array([-np.inf, -0.75e308, 0, np.inf])).tolist() == [0, 0.25, 0.5, 1]
    # 0.5 + 1e16 is rounded to the gap, and 1/9 + (2/3 - 1/9) to a number above 2/3.
    assert isotonic_predict(np.array([-1e16, 1]), np.array([1 / 9, 2 / 3]), np.array([0.5])) == [2 / 3]


def test_scores_outside_the_range_are_clipped():
    # Reported to scikit-learn (#23134): the default was NaN.
    fit = isotonic_fit(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 0, 1, 1]))
    p = isotonic_predict(*fit, np.array([0.1, 0.2, 0.5, 0.8, 0.95]))
    np.testing.assert_allclose(p, [0, 0, 0.5, 1, 1], rtol=1e-14)


def test_ties_made_by_pav_can_only_raise_the_auc_of_the_fitted_rows():
    # Reported to scikit-learn (#16321). Values by hand: 13 of 16 pairs are ordered, then 12 + 4 halves.
    s, y = np.arange(8.0), np.array([0, 0, 1, 0, 1, 0, 1, 1])
    p = isotonic_predict(*isotonic_fit(s, y), s)
    assert p.tolist() == [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1]
    assert roc_auc_score(y, s) == 13 / 16
    assert roc_auc_score(y, p) == 14 / 16


def zigzag(n, seed=None):
    """Spark's worst case (apache/spark #15018): falling, with a rise at every other row."""
    i = np.arange(n)
    return -i + 1.5 * (i % 2)


def test_zigzag_is_one_block():
    _, values = isotonic_fit(np.arange(200_000.0), zigzag(200_000))
    np.testing.assert_allclose(values, [-99998.75, -99998.75], rtol=1e-12)  # -(n - 1) / 2 + 3 / 4


@pytest.mark.parametrize("make", [zigzag, zeros_above_ones, slowly_rising, informative])
def test_time_is_linear(make, random_seed):
    def seconds(n):
        s, y, best = np.arange(float(n)), make(n, random_seed), math.inf
        if make is not zigzag:
            y = y[::-1]  # the others are made for descending scores
        points = np.column_stack((s, y > 0))
        for _ in range(3):
            start = time.process_time()
            isotonic_fit(s, y)
            calibrate(points)
            best = min(best, time.process_time() - start)
        return best

    # Linear: 64 (up to 450 where memory gets slower, measured); quadratic: 4096.
    assert seconds(1_280_000) < 1000 * seconds(20_000)


def test_import_is_light():
    code = "import sys, bayescal.pav; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bayescal.pav" in done.stdout.split()
    assert not {"pymc", "arviz", "sklearn", "pandas"} & set(done.stdout.split())
