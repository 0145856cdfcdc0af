"""What no metric may depend on: the order of rows and labels, and whether equal cases are rows or a weight."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescal import metrics
from bayescal.evaluation.metrics.bins import in_bins

BINARY: list[tuple[Any, dict[str, Any]]] = [
    (metrics.area_deviation, {}),
    (metrics.area_deviation, {"strategy": "quantile", "n_bins": 3}),
    (metrics.brier_score, {}),
    (metrics.calibration_distances, {}),
    (metrics.calibration_in_the_large, {}),
    (metrics.calibration_intercept, {}),
    (metrics.calibration_slope, {}),
    (metrics.corp_decomposition, {}),
    (metrics.corp_decomposition, {"score": "log"}),
    (metrics.debiased_ece, {}),
    (metrics.debiased_ece, {"norm": "l2", "n_bins": 3}),
    (metrics.ece, {}),
    (metrics.ece, {"strategy": "quantile", "n_bins": 4}),
    (metrics.log_loss, {}),
    (metrics.mce, {}),
    (metrics.mce, {"strategy": "quantile", "n_bins": 7}),
    (metrics.proba_loss, {}),
    (metrics.smooth_ece, {}),
    (metrics.spiegelhalter_z, {}),
]
SEVERAL: list[tuple[Any, dict[str, Any]]] = [
    (metrics.brier_score, {}),
    (metrics.class_wise_ece, {}),
    (metrics.class_wise_ece, {"strategy": "quantile", "n_bins": 3}),
    (metrics.class_wise_mce, {}),
    (metrics.log_loss, {}),
    (metrics.proba_loss, {}),
    (metrics.top_label_ece, {"strategy": "quantile", "n_bins": 3}),
    (metrics.top_label_mce, {}),
]
COUNT_CASES = {"debiased_ece", "spiegelhalter_z"}  # the size of weights matters to them
CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # Newton's and Brent's stopping rules; the others agree to rounding

LEVELS = st.one_of(st.integers(0, 20).map(lambda k: k / 20), st.floats(0.001, 0.999))
ROWS = st.lists(st.tuples(LEVELS, st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=12)


def columns(rows: list[tuple[float, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, outcomes, weights, of which one is not 0."""
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    w[0] += 1
    return p.astype(float), y, w


def triples(rows: list[tuple[float, int, int]]) -> np.ndarray:
    """Probabilities of three classes."""
    p = np.array([row[0] for row in rows])
    second = (1 - p) * np.array([0.25, 0.5, 0.75])[np.arange(len(p)) % 3]
    return np.column_stack([p, second, 1 - p - second])


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(found), np.array(expected), **CLOSE)


@pytest.mark.parametrize(("f", "options"), BINARY)
@settings(max_examples=30)
@given(rows=ROWS)
def test_weights_are_repeated_rows(f: Any, options: dict[str, Any], rows: list[tuple[float, int, int]]) -> None:
    p, y, w = columns(rows)
    same(f(y, p, sample_weight=w, **options), f(np.repeat(y, w), np.repeat(p, w), **options))


@pytest.mark.parametrize(("f", "options"), BINARY)
@settings(max_examples=30)
@given(rows=ROWS, data=st.data())
def test_order_of_rows_does_not_matter(
    f: Any, options: dict[str, Any], rows: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    p, y, w = columns(rows)
    order = np.array(data.draw(st.permutations(range(len(p)))))
    same(f(y[order], p[order], sample_weight=w[order], **options), f(y, p, sample_weight=w, **options))


@pytest.mark.parametrize(("f", "options"), [pair for pair in BINARY if pair[0].__name__ not in COUNT_CASES])
@settings(max_examples=30)
@given(rows=ROWS, factor=st.sampled_from([1e-3, 0.3, 7.0, 1e6]))
def test_the_unit_of_weights_does_not_matter(
    f: Any, options: dict[str, Any], rows: list[tuple[float, int, int]], factor: float
) -> None:
    p, y, w = columns(rows)
    same(f(y, p, sample_weight=w * factor, **options), f(y, p, sample_weight=w, **options))


@pytest.mark.parametrize(("f", "options"), SEVERAL)
@settings(max_examples=30)
@given(rows=ROWS, data=st.data())
def test_of_several_classes(
    f: Any, options: dict[str, Any], rows: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    p, (_, y, w) = triples(rows), columns(rows)
    expected = f(y, p, sample_weight=w, **options)
    same(f(np.repeat(y, w), np.repeat(p, w, axis=0), **options), expected)
    order = np.array(data.draw(st.permutations(range(len(p)))))
    same(f(y[order], p[order], sample_weight=w[order], **options), expected)
    if f not in (metrics.top_label_ece, metrics.top_label_mce) or len(np.unique(p)) == p.size:  # ties go to the first
        columns_in = np.array(data.draw(st.permutations(range(3))))
        same(f(y, p[:, columns_in], sample_weight=w, labels=columns_in.tolist(), **options), expected)


@settings(max_examples=30)
@given(rows=ROWS)
def test_the_other_class_is_as_well_calibrated(rows: list[tuple[float, int, int]]) -> None:
    p, y, w = columns(rows)
    for f in (metrics.brier_score, metrics.log_loss, metrics.proba_loss, metrics.smooth_ece, metrics.ici):
        same(f(1 - y, 1 - p, sample_weight=w), f(y, p, sample_weight=w))
    for f, sign in (
        (metrics.calibration_slope, 1),
        (metrics.calibration_intercept, -1),
        (metrics.calibration_in_the_large, -1),
    ):
        same(f(1 - y, 1 - p, sample_weight=w), sign * f(y, p, sample_weight=w))


@settings(max_examples=30)
@given(rows=ROWS)
def test_metrics_are_within_their_ranges(rows: list[tuple[float, int, int]]) -> None:
    p, y, w = columns(rows)
    eps = 1e-12
    for f in (metrics.brier_score, metrics.ece, metrics.mce, metrics.proba_loss, metrics.smooth_ece):
        assert -eps <= f(y, p, sample_weight=w) <= 1 + eps
    assert metrics.ece(y, p, sample_weight=w) <= metrics.mce(y, p, sample_weight=w) + eps
    parts = metrics.corp_decomposition(y, p, sample_weight=w)
    assert min(parts) >= 0
    assert parts.score == pytest.approx(parts.miscalibration - parts.discrimination + parts.uncertainty, abs=1e-12)
    ici, e50, e90, emax = metrics.calibration_distances(y, p, sample_weight=w)
    assert 0 <= e50 <= e90 <= emax <= 1 and ici <= emax + eps


@settings(max_examples=30)
@given(rows=ROWS, n_bins=st.integers(1, 15), strategy=st.sampled_from(["uniform", "quantile"]))
def test_every_case_is_in_one_bin(rows: list[tuple[float, int, int]], n_bins: int, strategy: str) -> None:
    p, y, w = columns(rows)
    w = w + 1.0
    bins = in_bins(p, y.astype(float), w, n_bins, strategy)
    assert bins.cases.sum() == pytest.approx(w.sum())
    assert bins.cases @ bins.stated == pytest.approx(w @ p)
    assert bins.cases @ bins.observed == pytest.approx(w @ y)
    assert (bins.cases > 0).all() and (np.diff(bins.stated) > 0).all()
