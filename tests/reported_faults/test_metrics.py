"""Section D: metrics and reliability diagrams.

Case 27, which band a picture shows, is a matter of `plot_reliability`, whose legend says it: `tests/test_plots.py`.
"""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import bayescal as bc
from bayescal import metrics
from bayescal.evaluation.metrics.bins import in_bins

BINNED = [metrics.ece, metrics.mce, metrics.debiased_ece, metrics.area_deviation]

# Case 20: probabilities of exactly 0 and 1 have a bin


def test_case_20_outer_edges_belong_to_the_outer_bins() -> None:
    assert metrics.ece([1, 0, 0], [0.92, 1.0, 0.05]) == pytest.approx((2 * abs(0.96 - 0.5) + 0.05) / 3)
    assert metrics.ece([0, 1, 1, 1, 0], [0, 0, 1, 1, 0.4], n_bins=4) == pytest.approx(0.28)


# Case 22: (n,), (n, 1) and (n, 2)


@pytest.mark.parametrize(
    "f",
    [metrics.brier_score, metrics.log_loss, metrics.ece, metrics.smooth_ece, metrics.calibration_slope, metrics.ici],
)
def test_case_22_shapes_of_a_binary_forecast(f: Callable[..., float]) -> None:
    p, y = np.array([0.2, 0.7, 0.9, 0.4, 0.6]), np.array([0, 1, 1, 1, 0])
    assert f(y, p) == f(y, p[:, None]) == f(y, np.column_stack([1 - p, p]))


def test_case_22_brier_and_swapped_columns() -> None:
    p, y = np.array([0.2, 0.7, 0.9, 0.4]), np.array([0, 1, 1, 1])
    assert metrics.brier_score(y, np.column_stack([1 - p, p])) == pytest.approx(0.125)
    assert metrics.brier_score(y, np.column_stack([p, 1 - p])) != pytest.approx(0.125)


# Case 23: 0.1 k of linspace are not the decimal numbers


@pytest.mark.parametrize("a", [0.1, 0.2, 0.3, 0.5, 0.6, 0.7])
def test_case_23_edges_are_the_decimal_numbers(a: float) -> None:
    # both in the bin that has a as its left edge
    assert metrics.ece([1, 0], [a, a + 0.05]) == pytest.approx(abs(2 * a + 0.05 - 1) / 2)


@pytest.mark.parametrize("n_bins", [3, 5, 7, 10, 15, 20, 100])
def test_case_23_every_left_edge_is_in_its_bin(n_bins: int) -> None:
    edges = np.arange(n_bins) / n_bins
    bins = in_bins(np.append(edges, 1.0), np.zeros(n_bins + 1), None, n_bins, "uniform")
    np.testing.assert_array_equal(bins.cases, [*[1] * (n_bins - 1), 2])  # 1 is in the last, with its left edge


# Case 24: equal mass with ties and remainders


def test_case_24_ties_share_a_bin() -> None:
    y, p = [1] * 4 + [0] * 6, np.full(10, 0.7)
    assert metrics.ece(y, p, n_bins=5, strategy="quantile") == pytest.approx(0.3)
    assert len(in_bins(p, np.array(y, float), None, 5, "quantile").cases) == 1


def test_case_24_no_row_is_left_over() -> None:
    p, y = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), np.array([0, 0, 1, 0, 1, 1, 0])
    assert metrics.ece(y, p, n_bins=3, strategy="quantile") == pytest.approx(0.8 / 7)
    np.testing.assert_array_equal(in_bins(p, y.astype(float), None, 3, "quantile").cases, [3, 2, 2])
    for n_bins in (1, 4, 6, 7, 8, 50):
        assert in_bins(p, y.astype(float), None, n_bins, "quantile").cases.sum() == 7


# Case 26: a bin without a case is no datum


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_case_26_empty_bins_are_left_out(strategy: str) -> None:
    p, y = np.array([0.95, 0.97, 0.03, 0.04]), np.array([1, 1, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.ece(y, p, strategy=strategy) == pytest.approx(0.0375)
        bins = in_bins(p, y.astype(float), None, 10 if strategy == "uniform" else 2, strategy)
    np.testing.assert_allclose(np.stack(bins), [[2, 2], [0.035, 0.96], [0, 1]], atol=1e-15)


# Case 28: one class, and the factor of two


def test_case_28_a_single_class_keeps_its_name() -> None:
    p = [0.9, 0.8, 0.4]
    assert metrics.brier_score([1, 1, 1], p) == pytest.approx(0.41 / 3)
    assert metrics.brier_score([0, 0, 0], p) == pytest.approx(1.61 / 3)
    assert metrics.brier_score(["no"] * 3, p, pos_label="yes") == pytest.approx(1.61 / 3)


def test_case_28_a_parameter_tells_the_two_forms_apart() -> None:
    p, y = [[0.8, 0.2], [0.3, 0.7], [0.55, 0.45]], [0, 1, 1]
    assert metrics.brier_score(y, p) == pytest.approx(0.1441667, abs=1e-7)
    assert metrics.brier_score(y, p, scale_by_half=False) == pytest.approx(0.2883333, abs=1e-7)


# Case 29: ones of single precision


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_case_29_log_loss_at_the_ends(dtype: type) -> None:
    assert metrics.log_loss([1, 0, 1], np.array([1, 0, 0.5], dtype)) == pytest.approx(np.log(2) / 3)
    assert metrics.log_loss([0, 1], np.array([1, 0.5], dtype)) == np.inf
    assert metrics.log_loss([0, 1], np.array([1, 0.5], dtype), sample_weight=[0, 1]) == pytest.approx(np.log(2))


# Case 31: rows that do not sum to 1


@pytest.mark.parametrize("f", [metrics.log_loss, metrics.brier_score, metrics.top_label_ece, metrics.class_wise_ece])
def test_case_31_rows_are_not_made_to_sum_to_1(f: Callable[..., float]) -> None:
    with pytest.raises(bc.ScoreValueError, match=r"rows of y_proba must sum to 1 .* first 0.5 at row 0"):
        f([0], [[0.2, 0.2, 0.1]])
    with pytest.raises(bc.ScoreValueError, match="y_proba must lie in"):
        f([0], [[0.5, 0.6, -0.1]])
    rows = [[0.2, 0.3, 0.5], [0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]]
    assert f([0, 2, 1], np.array(rows, np.float32)) == pytest.approx(f([0, 2, 1], rows), abs=1e-6)


# Case 32: classes that the outcomes do not show


def test_case_32_a_class_that_did_not_come() -> None:
    assert metrics.log_loss([1, 1, 1], [0.9, 0.8, 0.7]) == pytest.approx(0.2283930, abs=1e-7)
    p, y = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]], [1, 1, 2, 1]
    for settings in ({"labels": [0, 1, 2]}, {}):  # whole numbers from 0 are column numbers
        assert metrics.log_loss(y, p, **settings) == pytest.approx(0.7135582, abs=1e-7)
        assert metrics.brier_score(y, p, **settings) == pytest.approx(0.425)
        assert metrics.top_label_ece(y, p, **settings) == pytest.approx(0.425)
        each = metrics.class_wise_ece(y, p, average=None, **settings)
        np.testing.assert_allclose(each, [0.275, 0.3, 0.225], atol=1e-15)
        assert metrics.class_wise_ece(y, p, **settings) == pytest.approx(0.2666667, abs=1e-7)
    named = np.array(["a", "b", "c"])[y]
    assert metrics.log_loss(named, p, labels=["a", "b", "c"]) == pytest.approx(0.7135582, abs=1e-7)
    with pytest.raises(bc.LabelValueError, match=r"which is which cannot be guessed. Pass labels=\[...\]"):
        metrics.log_loss(named, p)


# Case 33: outside [0, 1] by an ulp, and by a lot


@pytest.mark.parametrize("p", [[1.0000000000000002, 0.2], [-1e-17, 0.2]])
def test_case_33_rounding_is_clipped(p: list[float]) -> None:
    y = [1, 0] if p[0] > 0.5 else [0, 0]
    assert metrics.brier_score(y, p) == pytest.approx(0.02)
    assert metrics.log_loss(y, p) == pytest.approx(-np.log(0.8) / 2)
    assert metrics.corp_decomposition(y, p, score="log").score == pytest.approx(-np.log(0.8) / 2)


@pytest.mark.parametrize("p", [[1.01, 0.2], [-2.3, 4.1]])
def test_case_33_scores_are_no_probabilities(p: list[float]) -> None:
    for f in (metrics.brier_score, metrics.log_loss, *BINNED, metrics.smooth_ece, metrics.ici):
        with pytest.raises(bc.ScoreValueError, match=r"as probabilities do.*need a calibrator first"):
            f([1, 0], p)


# Case 35: certain predictions are predictions


def test_case_35_no_row_is_thrown_away() -> None:
    p, y = np.array([0, 0, 0.02, 0.3, 0.6, 1, 1, 0.97]), np.array([0, 1, 0, 0, 1, 1, 0, 1])
    assert metrics.brier_score(y, p) == pytest.approx(0.2814125)
    assert metrics.ece(y, p) == pytest.approx(0.33125)
    for strategy in ("uniform", "quantile"):
        bins = in_bins(p, y.astype(float), None, 10, strategy)
        assert bins.cases.sum() == 8
        assert bins.cases @ (bins.stated - bins.observed) / 8 == pytest.approx(-0.01375)
    for f in (metrics.calibration_slope, metrics.calibration_intercept, metrics.calibration_in_the_large):
        assert np.isfinite(f(y, p))  # within 1e-6 of 0 and 1, as the docstring says
