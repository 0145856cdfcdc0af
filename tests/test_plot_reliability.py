"""Consistency bands, and reliability diagrams side by side: `bayescal.plots.reliability` and `.consistency`.

What one diagram shows of a fit is tested in `test_plots.py`.
"""

import math
from itertools import product
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from scipy.special import expit, logit
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

import bayescal as bc
from bayescal.evaluation.assessment import Assessment
from bayescal.plots.consistency import RESAMPLES, consistency_band
from bayescal.validation import quiet

FEW = {"curve": "platt", "draws": 100, "chains": 2, "progressbar": False, "cores": 1}


def simulate(n: int = 90, slope: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts, of which those with a slope below 1 are too sure, and outcomes."""
    rng = np.random.default_rng(5)
    x = rng.normal(0, 2, n)
    return expit(x), (rng.random(n) < expit(slope * x)).astype(int)


@pytest.fixture(scope="module")
def point() -> bc.PlattCalibrator:
    return bc.PlattCalibrator(inference="point").fit(*simulate())


@pytest.fixture(scope="module")
def assessed() -> dict[str, Assessment]:
    with quiet(bc.ConvergenceWarning):
        return {
            name: bc.assess(*reversed(simulate(n, slope)), random_state=1, **FEW)
            for name, n, slope in (("sure", 90, 0.4), ("fair", 60, 1.0))
        }


@pytest.fixture
def ax() -> Axes:
    """Axes of a figure that pyplot does not know."""
    return Figure(figsize=(6, 6)).add_subplot()


def legend_texts(legend: matplotlib.legend.Legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def line(ax: Axes, name: str) -> np.ndarray:
    """Points (2, m) of a curve."""
    return np.array(next(one for one in ax.lines if one.get_label() == name).get_data())


def hatched(ax: Axes) -> list[PolyCollection]:
    return [one for one in ax.collections if isinstance(one, PolyCollection) and one.get_hatch()]


# ------------------------------------------------------------------------------
# The consistency band
# ------------------------------------------------------------------------------


def test_corp_curve_is_isotonic_regression(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    stated = rng.integers(0, 21, 80) / 20  # ties, 0 and 1
    positive = (rng.random(80) < stated).astype(float)
    weight = rng.integers(1, 4, 80).astype(float)
    found = consistency_band(stated, positive, weight, 0.9)
    np.testing.assert_array_equal(found.x, np.unique(stated))
    model = IsotonicRegression().fit(stated, positive, weight)
    np.testing.assert_allclose(found.curve, model.predict(found.x), atol=1e-12)
    assert (np.diff(found.lower) >= 0).all() and (np.diff(found.upper) >= 0).all()
    assert (found.lower >= 0).all() and (found.lower <= found.upper).all() and (found.upper <= 1).all()
    np.testing.assert_array_equal(found.lower[found.x == 0], 0)
    np.testing.assert_array_equal(found.upper[found.x == 1], 1)


def probability_of(curves: np.ndarray, chances: np.ndarray, value: np.ndarray) -> np.ndarray:
    """P(curve <= value) at each forecast, of curves (k, m) with chances (k,)."""
    return ((curves <= value + 1e-9) * chances[:, None]).sum(axis=0)


@pytest.mark.parametrize("ci_prob", [0.5, 0.9])
def test_band_is_that_of_all_outcomes(ci_prob: float) -> None:
    # 9 cases at 4 forecasts: every outcome is enumerated, its curve fitted by scikit-learn
    x, cases = np.array([0.1, 0.35, 0.6, 0.9]), np.array([2, 3, 2, 2])
    counts = np.array(list(product(*(range(c + 1) for c in cases))))
    chances = binom.pmf(counts, cases, x).prod(axis=1)
    assert chances.sum() == pytest.approx(1)
    curves = np.array([IsotonicRegression().fit_transform(x, row / cases, sample_weight=cases) for row in counts])
    stated = np.repeat(x, cases)
    found = consistency_band(stated, np.zeros(9), np.ones(9), ci_prob)
    tail = 0.5 * (1 - ci_prob)
    error = 4 * math.sqrt(tail * (1 - tail) / RESAMPLES)  # of a resampled share, the stream being the same in every run
    for end, share in ((found.lower, tail), (found.upper, 1 - tail)):
        assert (probability_of(curves, chances, end) >= share - error).all()
        assert (probability_of(curves, chances, end - 2e-9) <= share + error).all()  # no smaller value has that share


def test_band_of_one_forecast_is_binomial() -> None:
    found = consistency_band(np.full(1000, 0.3), np.repeat([1.0, 0.0], [310, 690]), np.ones(1000), 0.9)
    assert found.x.tolist() == [0.3] and found.curve.tolist() == [0.31]
    # quantiles of Binomial(1000, 0.3) / 1000 by scipy, give or take what 1000 resamples leave open
    error = 4 * math.sqrt(0.05 * 0.95 / RESAMPLES)
    for end, share in ((found.lower[0], 0.05), (found.upper[0], 0.95)):
        low, high = binom.ppf([max(share - error, 0), min(share + error, 1)], 1000, 0.3) / 1000
        assert low <= end <= high


def test_weights_are_cases() -> None:
    stated, positive = np.array([0.2, 0.5, 0.5, 0.8]), np.array([0.0, 1.0, 0.0, 1.0])
    whole = np.array([3, 2, 4, 5])
    by_weight = consistency_band(stated, positive, whole.astype(float), 0.9)
    by_row = consistency_band(np.repeat(stated, whole), np.repeat(positive, whole), np.ones(whole.sum()), 0.9)
    for name, value in vars(by_weight).items():
        np.testing.assert_allclose(getattr(by_row, name), value, rtol=1e-12, err_msg=name)
    light = consistency_band(stated, positive, np.full(4, 0.25), 0.9)  # parts of a case can be drawn too
    assert light.lower.min() == 0 and light.upper.max() == 1


def test_a_calibrated_forecast_stays_in_its_band(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    stated = rng.beta(1, 1.5, 100)
    inside = []
    for _ in range(60):
        found = consistency_band(stated, (rng.random(100) < stated).astype(float), np.ones(100), 0.9)
        inside.append(((found.lower <= found.curve) & (found.curve <= found.upper)).mean())
    # pointwise 0.9, more where few values are possible; 5 standard errors of 60 correlated curves
    assert 0.9 - 5 * np.std(inside) / math.sqrt(60) <= np.mean(inside) <= 0.97
    wrong = consistency_band(stated, (rng.random(100) < 0.4).astype(float), np.ones(100), 0.9)
    assert ((wrong.lower <= wrong.curve) & (wrong.curve <= wrong.upper)).mean() < 0.9


def test_consistency_band_is_drawn_of_the_raw_score(point: bc.PlattCalibrator, ax: Axes) -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    bc.plot_reliability(point, consistency=True, ci_prob=0.8, ax=ax)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    rows = point._require_rows()
    found = consistency_band(rows.scores, rows.positive, rows.weight, 0.8)
    np.testing.assert_allclose(line(ax, "CORP curve"), [found.x, found.curve])
    (band,) = hatched(ax)
    corners = band.get_paths()[0].vertices
    for x, low, high in zip(found.x[::9], found.lower[::9], found.upper[::9], strict=True):
        ends = corners[np.isclose(corners[:, 0], x), 1]
        assert ends.min() == pytest.approx(low) and ends.max() == pytest.approx(high)
    assert "CORP curve, 80 % consistency band" in legend_texts(ax.get_legend())
    again = Figure().add_subplot()
    bc.plot_reliability(point, consistency=True, ci_prob=0.8, ax=again)
    np.testing.assert_array_equal(hatched(again)[0].get_paths()[0].vertices, corners)


def test_consistency_band_of_log_odds_and_of_an_assessment(assessed: dict[str, Assessment], ax: Axes) -> None:
    p, y = simulate()
    by_logit = bc.PlattCalibrator("logit", inference="point").fit(logit(p), y)
    bc.plot_reliability(by_logit, which="raw", consistency=True, ax=ax)
    other = Figure().add_subplot()
    bc.plot_reliability(assessed["sure"], consistency=True, ax=other)
    np.testing.assert_allclose(line(ax, "CORP curve"), line(other, "CORP curve"), atol=1e-12)
    assert len(hatched(other)) == 1


@pytest.mark.parametrize("settings", [{"which": "calibrated"}, {}])
def test_what_states_no_probability_has_no_consistency_band(settings: dict, point: bc.PlattCalibrator) -> None:
    p, y = simulate()
    calibrator = point if settings else bc.PlattCalibrator("raw", inference="point").fit(logit(p), y)
    with pytest.raises(bc.ParameterValueError, match="which='raw'"):
        bc.plot_reliability(calibrator, consistency=True, **settings)
    assert plt.get_fignums() == []


def test_shares_can_be_left_out(point: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(point, shares=False, ax=ax)
    assert not any(isinstance(one, ErrorbarContainer) for one in ax.containers)
    assert any(isinstance(one, BarContainer) for one in ax.containers)
    assert not any("observed" in text for text in legend_texts(ax.get_legend()))


@pytest.mark.parametrize("slope", [0.4, -1.0, 3.0])
def test_legend_covers_no_band(slope: float) -> None:
    figure = Figure(figsize=(4, 3.5), layout="constrained")
    with quiet(bc.CalibrationWarning):
        calibrator = bc.PlattCalibrator(inference="point").fit(*simulate(90, slope))
    ax = bc.plot_reliability(calibrator, consistency=True, ax=figure.add_subplot())
    figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    drawn = [hatched(ax)[0].get_paths()[0].vertices, line(ax, "CORP curve").T, line(ax, "raw score").T]
    assert not any(box.contains(*at) for at in ax.transData.transform(np.concatenate(drawn)))


# ------------------------------------------------------------------------------
# Side by side
# ------------------------------------------------------------------------------


def test_several_are_drawn_in_panels_of_the_same_axes(assessed: dict[str, Assessment]) -> None:
    axes = bc.plot_reliability(assessed, consistency=True)
    figure = axes[0].figure
    assert [ax.get_title() for ax in axes] == ["sure", "fair"] and len(figure.axes) == 2
    assert axes[0].get_xlim() == axes[1].get_xlim() and axes[0].get_ylim() == axes[1].get_ylim()
    for name, ax in zip(assessed, axes, strict=True):
        alone = bc.plot_reliability(assessed[name], consistency=True, ax=Figure().add_subplot())
        for curve in ("forecast", "CORP curve"):
            np.testing.assert_array_equal(line(ax, curve), line(alone, curve))
        assert ax.get_legend() is None
    (legend,) = figure.legends
    texts = legend_texts(legend)
    assert texts[:3] == ["perfect calibration", "CORP curve, 90 % consistency band", "forecast, 90 % credible band"]
    assert texts[3].startswith("observed, 10 cases each") and len(texts) == 4  # 90 cases in 9 bins, 60 in 6
    # the panels hold different numbers of cases: each says its own
    assert all(any("others" in text.get_text() for text in ax.get_yticklabels()) for ax in axes)
    plt.close(figure)


def test_equal_forecasts_are_a_point_with_bars(ax: Axes) -> None:
    with quiet(bc.CalibrationWarning, bc.ConvergenceWarning):
        found = bc.assess([0, 1, 0] * 20, np.full(60, 0.4), random_state=1, **FEW)
    bc.plot_reliability(found, consistency=True, shares=False, ax=ax)
    consistency, curve = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    ends = [bars.lines[2][0].get_segments()[0][:, 1] for bars in (consistency, curve)]
    np.testing.assert_allclose(ends[0], binom.ppf([0.05, 0.95], 60, 0.4) / 60, atol=0.02)
    expected = found.curve_at(0.4)
    np.testing.assert_allclose(ends[1], [float(expected["lower"][0]), float(expected["upper"][0])], rtol=1e-9)
    texts = legend_texts(ax.get_legend())
    assert "forecast, 90 % credible interval" in texts and "CORP curve (x), 90 % consistency interval" in texts


def test_long_names_are_told_apart_by_both_ends(assessed: dict[str, Assessment]) -> None:
    names = [f"{k} the forecast that was made by a model with a very long name, version {k}" for k in (1, 2)]
    axes = bc.plot_reliability(dict(zip(names, assessed.values(), strict=True)))
    for k, ax in zip((1, 2), axes, strict=True):
        first, second = ax.get_title().splitlines()
        assert first.startswith(f"{k} the forecast") and second.endswith(f"version {k}")
    plt.close(axes[0].figure)


def test_what_all_panels_say_is_said_once(point: bc.PlattCalibrator) -> None:
    axes = bc.plot_reliability(dict.fromkeys("abcde", point), which="raw", shares=False)
    figure = axes[0].figure
    assert len(figure.axes) == 5  # the sixth place is empty
    assert [bool(ax.get_ylabel()) for ax in axes] == [True, False, False, True, False]
    assert [bool(ax.get_xlabel()) for ax in axes] == [False, False, True, True, True]
    figure.draw_without_rendering()
    panels = [ax.get_tightbbox() for ax in axes]
    box = figure.legends[0].get_window_extent()
    assert not any(box.overlaps(panel) for panel in panels)
    assert not any(one.overlaps(other) for k, one in enumerate(panels) for other in panels[k + 1 :])
    plt.close(figure)


def test_axes_given_are_drawn_on(point: bc.PlattCalibrator, assessed: dict[str, Assessment]) -> None:
    figure = Figure(figsize=(10, 5))
    mine = figure.subplots(1, 2)
    axes = bc.plot_reliability({"fit $a_$": point, 7: assessed["sure"]}, ax=mine)
    assert list(axes) == list(mine) and plt.get_fignums() == [] and not figure.legends
    assert [ax.get_title() for ax in axes] == [r"fit \$a_\$", "7"]
    assert axes[1].get_legend() is None and axes[0].get_ylim() == axes[1].get_ylim()
    texts = legend_texts(axes[0].get_legend())
    assert {"raw score, point estimate", "calibrated, point estimate", "forecast, 90 % credible band"} <= set(texts)
    only = Figure().add_subplot()
    assert bc.plot_reliability({"one": point}, ax=only).tolist() == [only]


def test_wrong_forecasts_and_axes(point: bc.PlattCalibrator, ax: Axes) -> None:
    with pytest.raises(bc.ParameterValueError, match="each of the 2 forecasts, got 1"):
        bc.plot_reliability({"a": point, "b": point}, ax=ax)
    with pytest.raises(bc.ParameterValueError, match="where one forecast is drawn, got list"):
        bc.plot_reliability(point, ax=[ax])
    with pytest.raises(bc.ParameterValueError, match="a dict without any"):
        bc.plot_reliability({})
    with pytest.raises(bc.ParameterValueError, match="got ndarray"):
        bc.plot_reliability({"a": point, "b": np.array([0.2, 0.3])})
    with pytest.raises(bc.ParameterValueError, match="Pass its by_class"):
        bc.plot_reliability(SimpleNamespace(by_class={}))  # as an assessment of several classes has it
    assert plt.get_fignums() == [] and not ax.has_data()
