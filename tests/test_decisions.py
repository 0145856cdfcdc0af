"""What a forecast is worth to somebody who acts on it: net benefit, decision curve, expected utility, and the plot."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from scipy.special import expit, logit
from scipy.stats import beta as beta_distribution
from scipy.stats import kstest

import bayescal as bc
from bayescal import metrics
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import Rows
from bayescal.evaluation import decisions as module
from bayescal.validation import quiet

Y, P = [0, 1, 0, 1], [0.1, 0.3, 0.4, 0.9]


class KnownCurves(Calibrator):
    """A calibrator whose posterior draws are curves that the test writes down."""

    def __init__(
        self,
        curves: Callable[[np.ndarray], np.ndarray],
        shape: tuple[int, int],
        scores: Any = (),
        weight: Any = None,
    ) -> None:
        self.curves = curves
        self.shape = shape
        self.score_kind = "proba"
        self.classes_ = np.array([0, 1])
        self._n_scores = 1
        s = np.array(scores, dtype=float)
        self._rows = Rows(s, np.zeros(len(s)), np.ones(len(s)) if weight is None else np.array(weight, dtype=float))

    def fit(self) -> "KnownCurves":
        return self

    def _require_rows(self) -> Rows:
        return self._rows

    @property
    def _draw_shape(self) -> tuple[int, int]:
        return self.shape

    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        return self.curves(scores)


def assessed(stated: Any, cases: Any, curves: np.ndarray) -> SimpleNamespace:
    """What `bc.assess` returns, as far as a decision curve reads it; `curves` is (chain, draw, m)."""
    draws = xr.DataArray(curves, dims=("chain", "draw", "proba"), coords={"proba": stated})
    return SimpleNamespace(stated=np.array(stated), cases=np.array(cases, dtype=float), curve_draws=draws)


@pytest.fixture(scope="module")
def platt() -> bc.PlattCalibrator:
    days = bc.datasets.load_rain_niamey()
    cal = bc.PlattCalibrator(draws=200, chains=2, random_state=3, progressbar=False)
    with quiet(bc.ConvergenceWarning):
        return cal.fit(days["ens"], days["rain"])


# ------------------------------------------------------------------------------
# The metric
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, 2 / 4),  # all are treated, and a treatment without need costs nothing
        (0.05, 2 / 4 - 2 / 4 * 5 / 95),
        (0.2, 2 / 4 - 1 / 4 * 0.2 / 0.8),
        (0.3, 2 / 4 - 1 / 4 * 3 / 7),  # the case at the threshold is treated
        (0.5, 1 / 4),
        (0.95, 0.0),
    ],
)
def test_net_benefit_by_hand(threshold: float, expected: float) -> None:
    assert metrics.net_benefit(Y, P, threshold) == pytest.approx(expected, abs=1e-15)


def test_net_benefit_reads_labels_pairs_and_weights() -> None:
    expected = 3 / 7 - 2 / 7 * 0.25  # three of seven cases are treated events, two are treated without need
    w, words = [2, 1, 2, 2], ["no", "yes", "no", "yes"]
    assert metrics.net_benefit(Y, P, 0.2, sample_weight=w) == pytest.approx(expected)
    assert metrics.net_benefit(words, np.column_stack([1 - np.array(P), P]), 0.2, sample_weight=w) == pytest.approx(
        expected
    )
    # of the other class: its probabilities are .9, .7, .6, .1
    assert metrics.net_benefit(words, 1 - np.array(P), 0.65, pos_label="no") == pytest.approx(1 / 4 - 1 / 4 * 65 / 35)


ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=12)


@given(rows=ROWS, t=st.integers(0, 19).map(lambda k: k / 20))
def test_net_benefit_is_what_rows_sum_to(rows: list[tuple[int, int, int]], t: float) -> None:
    k, y, w = (np.array(column) for column in zip(*rows, strict=True))
    p = k / 20
    found = metrics.net_benefit(y, p, t, sample_weight=w)
    assert found == pytest.approx(metrics.net_benefit(np.repeat(y, w), np.repeat(p, w), t), abs=1e-12)
    assert found == pytest.approx(metrics.net_benefit(y[::-1], p[::-1], t, sample_weight=w[::-1]), abs=1e-12)
    share = w @ y / w.sum()
    assert found <= share + 1e-12
    assert metrics.net_benefit(y, y.astype(float), t, sample_weight=w) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("threshold", [1, 1.0, -0.1, 1.1, float("nan"), "0.2", True, None])
def test_net_benefit_refuses_thresholds(threshold: Any) -> None:
    with pytest.raises(bc.ParameterValueError, match="threshold must be"):
        metrics.net_benefit(Y, P, threshold)


# ------------------------------------------------------------------------------
# The decision curve
# ------------------------------------------------------------------------------


def test_decision_curve_by_hand() -> None:
    # two cases at .2 and one each at .5 and .8; two draws of the curve
    q = np.array([[[0.1, 0.5, 0.9], [0.3, 0.3, 0.6]]])
    found = bc.decision_curve(assessed([0.2, 0.5, 0.8], [2, 1, 1], q), [0.6, 0.5, 0.1, 0.9])
    assert found.cases == 4
    assert found.draws["use"].dims == ("chain", "draw", "threshold")
    assert found.draws["threshold"].values.tolist() == [0.1, 0.5, 0.6, 0.9]
    # at .5 the cases at .5 and .8 are treated: ((.5 - .5) + (.9 - .5)) / 4 / .5 and ((.3 - .5) + (.6 - .5)) / 4 / .5
    np.testing.assert_allclose(found.draws["use"].sel(threshold=0.5), [[0.2, -0.05]], atol=1e-15)
    # all: (2 * .1 + .5 + .9 - 4 * .5) / 4 / .5 and (2 * .3 + .3 + .6 - 2) / 4 / .5
    np.testing.assert_allclose(found.draws["all"].sel(threshold=0.5), [[-0.2, -0.25]], atol=1e-15)
    np.testing.assert_allclose(found.draws["gain"].sel(threshold=0.5), [[0.2, -0.05]], atol=1e-15)
    # at .6 the last is treated alone: (.9 - .6) / 4 / .4 and 0
    np.testing.assert_allclose(found.draws["use"].sel(threshold=0.6), [[0.1875, 0.0]], atol=1e-15)
    # at .1 all are, at .9 none is: nothing is gained or lost, exactly
    assert (found.draws["gain"].sel(threshold=[0.1, 0.9]) == 0).all()
    table = found.table
    assert table.index.tolist() == [0.1, 0.5, 0.6, 0.9] and table.attrs == {"ci_prob": 0.9}
    assert table["p_useful"].tolist() == [0.0, 0.5, 0.5, 0.0]
    assert table.loc[0.5, "use_mean"] == pytest.approx(0.075)
    # equal tails of two draws: 5 and 95 % of the way between them
    assert table.loc[0.5, ["use_lower", "use_upper"]].tolist() == pytest.approx([-0.0375, 0.1875])
    assert (table.filter(like="none") == 0).all(axis=None)


CURVES = st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=2, max_size=5)


@given(curves=CURVES, weight=st.lists(st.integers(1, 4), min_size=4, max_size=4), t=st.floats(0, 0.99))
def test_decision_curve_is_the_mean_over_cases(curves: list[list[float]], weight: list[int], t: float) -> None:
    stated, q, w = np.array([0.1, 0.25, 0.5, 0.9]), np.array(curves), np.array(weight)
    draws = bc.decision_curve(assessed(stated, w, q[None]), t).draws.isel(chain=0, threshold=0)
    benefit = np.where(stated >= t, q - (1 - q) * t / (1 - t), 0)
    everybody = q - (1 - q) * t / (1 - t)
    use, everyone = (b @ w / w.sum() for b in (benefit, everybody))
    np.testing.assert_allclose(draws["use"], use, atol=1e-9)
    np.testing.assert_allclose(draws["all"], everyone, atol=1e-9)
    np.testing.assert_allclose(draws["gain"], use - np.maximum(everyone, 0), atol=1e-9)


@given(rows=ROWS, t=st.integers(0, 19).map(lambda k: k / 20))
def test_a_known_curve_gives_the_metric(rows: list[tuple[int, int, int]], t: float) -> None:
    # where every case is a point of its own and its event is certain or impossible, the two are one
    k, y, w = (np.array(column) for column in zip(*rows, strict=True))
    found = bc.decision_curve(assessed(k / 20, w, y[None, None].astype(float)), t).draws["use"].item()
    assert found == pytest.approx(metrics.net_benefit(y, k / 20, t, sample_weight=w), abs=1e-12)


def test_a_calibrator_decides_by_its_mean_at_its_rows() -> None:
    slopes = np.linspace(0.2, 1.0, 8)
    cal = KnownCurves(lambda s: slopes[:, None] * s, (2, 4), [0.2, 0.4, 0.4, 0.9, 0.9], [1, 2, 0, 1, 0.5])
    found = bc.decision_curve(cal, [0.2, 0.3]).draws
    points, w = np.array([0.2, 0.4, 0.9]), np.array([1, 2, 1.5])
    # the mean slope is .6: the means are .12, .24, .54
    for t, treated in ((0.2, [False, True, True]), (0.3, [False, False, True])):
        q = slopes[:, None] * points
        expected = (treated * (q - t) / (1 - t)) @ w / w.sum()
        np.testing.assert_allclose(found["use"].sel(threshold=t).values.reshape(-1), expected, atol=1e-12)


def test_many_points_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    slopes = rng.random(6)
    cal = KnownCurves(lambda s: slopes[:, None] * s, (2, 3), rng.random(100))
    at_once = bc.decision_curve(cal).draws
    monkeypatch.setattr(module, "BLOCK", 6 * 7)
    xr.testing.assert_allclose(bc.decision_curve(cal).draws, at_once, rtol=1e-12)


def test_shares_of_a_population_are_dirichlet() -> None:
    # the event has probability .7 everywhere: only the share that is treated varies, and it is Beta(6, 4)
    result = bc.decision_curve(
        assessed([0.2, 0.4, 0.8], [3, 1, 6], np.full((2, 5000, 3), 0.7)), 0.5, population=True, random_state=5
    )
    np.testing.assert_allclose(result.draws["all"], (0.7 - 0.5) / 0.5, atol=1e-12)
    treated = result.draws["use"].values.reshape(-1) / 0.4
    assert kstest(treated, beta_distribution(6, 4).cdf).pvalue > 1e-4
    assert result.cases == 10


def test_a_population_widens_the_intervals_and_is_reproducible(platt: bc.PlattCalibrator) -> None:
    settings = {"thresholds": [0.1, 0.5, 0.7], "population": True}
    fixed = bc.decision_curve(platt, [0.1, 0.5, 0.7]).table
    first, again, other = (bc.decision_curve(platt, **settings, random_state=seed).table for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert (first["use_mean"] != other["use_mean"]).all()
    widths = [table["use_upper"] - table["use_lower"] for table in (fixed, first)]
    assert (widths[1] > widths[0]).all()
    assert (first.loc[0.1].filter(like="gain") == 0).all()  # all are treated, whatever their shares


@pytest.mark.slow
@pytest.mark.parametrize("population", [False, True])
def test_bands_hold_the_net_benefit(population: bool) -> None:
    # 150 samples of 100 cases from a Platt curve; the standard error of a coverage of .9 is .024
    world = np.random.default_rng(1)
    everybody = expit(world.normal(-1, 1.5, 20_000))
    held = []
    for k in range(150):
        rng = np.random.default_rng([2, k])
        scores = expit(rng.normal(-1, 1.5, 100))
        y = rng.random(100) < expit(0.7 * logit(scores) - 0.5)
        cal = bc.PlattCalibrator(draws=500, chains=2, random_state=k, progressbar=False)
        with quiet(bc.ConvergenceWarning, bc.CalibrationWarning):
            cal.fit(scores, y)
        table = bc.decision_curve(cal, [0.1, 0.2, 0.3], population=population, random_state=k).table
        s = everybody if population else scores
        t, q = table.index.to_numpy(), expit(0.7 * logit(s) - 0.5)[:, None]
        truth = ((cal.predict_proba(s)[:, 1:] >= t) * (q - t) / (1 - t)).mean(axis=0)
        held.append((table["use_lower"] <= truth) & (truth <= table["use_upper"]))
    assert 0.8 < np.mean(held) < 0.99


def test_by_its_own_posterior_no_rule_is_better(platt: bc.PlattCalibrator) -> None:
    table = bc.decision_curve(platt).table
    assert table.index.tolist() == [k / 100 for k in range(1, 100)]
    assert (table["use_mean"] >= np.maximum(table["all_mean"], 0) - 1e-12).all()
    assert table["p_useful"].max() > 0.8
    lowest = platt.predict_proba(bc.datasets.load_rain_niamey()["ens"])[:, 1].min()
    below = table[table.index < lowest]
    assert len(below) > 10 and (below.filter(like="gain") == 0).all(axis=None) and (below["p_useful"] == 0).all()


def test_several_raw_or_reversed_scores_make_no_difference() -> None:
    days = bc.datasets.load_rain_niamey()
    settings: dict[str, Any] = {"draws": 100, "chains": 2, "random_state": 1, "progressbar": False}
    with quiet(bc.ConvergenceWarning, bc.CalibrationWarning):
        two = bc.PlattCalibrator(**settings).fit(days[["ens", "emos"]], days["rain"])
        raw = bc.PlattCalibrator(score_kind="raw", **settings).fit(-days["ens"], days["rain"])
        average = bc.StackedCalibrator(members=("platt", "beta"), **settings).fit(days["ens"], days["rain"])
    for cal, scores in ((two, days[["ens", "emos"]]), (raw, -days["ens"]), (average, days["ens"])):
        q = cal.proba_draws(scores)[..., 1]
        treated = q.mean(("chain", "draw")).values >= 0.55
        expected = (np.where(treated, q - 0.55, 0) / 0.45).mean(axis=2)
        np.testing.assert_allclose(bc.decision_curve(cal, 0.55).draws["use"][..., 0], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ([], r"got shape \(0,\)"),
        ([[0.1, 0.2]], r"got shape \(1, 2\)"),
        ([0.2, 1.0], "below 1"),
        ([0.2, np.nan], "probability in"),
        (["a"], "probability in"),
        (-0.5, "probability in"),
    ],
)
def test_decision_curve_refuses_thresholds(thresholds: Any, words: str, platt: bc.PlattCalibrator) -> None:
    with pytest.raises(bc.ParameterValueError, match=f"thresholds must be .*{words}"):
        bc.decision_curve(platt, thresholds)


def test_decision_curve_refuses_what_has_no_curve(platt: bc.PlattCalibrator) -> None:
    point = bc.PlattCalibrator(inference="point").fit([0.1, 0.2, 0.6, 0.9] * 5, [0, 1, 0, 1] * 5)
    with pytest.raises(bc.NoPosteriorError, match="decision_curve needs posterior draws"):
        bc.decision_curve(point)
    with pytest.raises(bc.ParameterValueError, match="forecast must be of two classes, got TemperatureScaling"):
        bc.decision_curve(bc.TemperatureScaling())
    with pytest.raises(bc.ParameterValueError, match=r"forecast must be a fitted calibrator.*got list"):
        bc.decision_curve([0.1, 0.2])
    with pytest.raises(bc.ParameterValueError, match="ci_prob"):
        bc.decision_curve(platt, ci_prob=90)
    with pytest.raises(bc.ParameterValueError, match="population must be True or False"):
        bc.decision_curve(platt, population="yes")


# ------------------------------------------------------------------------------
# Expected utility
# ------------------------------------------------------------------------------


def test_expected_utility_by_hand() -> None:
    # draws .2 s, .4 s, .6 s, .8 s: the mean is s / 2
    cal = KnownCurves(lambda s: np.array([[0.2], [0.4], [0.6], [0.8]]) * s, (2, 2))
    # not treating a case with the event costs 10, treating costs 1, and helps a case with the event by 6 of the 10
    table = bc.expected_utility(cal, [0.1, 0.5, 1.0], [[0, -10], [-1, -5]], ci_prob=0.5)
    assert table.attrs["threshold"] == pytest.approx(1 / 6)  # 1 / (1 + 5)
    assert table["leave_mean"].tolist() == pytest.approx([-0.5, -2.5, -5.0])
    assert table["treat_mean"].tolist() == pytest.approx([-1.2, -2.0, -3.0])  # -(1 - q) - 5 q
    assert table["action"].tolist() == ["leave", "treat", "treat"]
    # q = .02 ... .08; .1, .2, .3, .4; .2 ... .8 against 1/6
    assert table["probability"].tolist() == [1.0, 0.75, 1.0]
    # quartiles of s x (.2, .4, .6, .8) are .35 s and .65 s
    assert table["leave_lower"].tolist() == pytest.approx([-0.65, -3.25, -6.5])
    assert table["leave_upper"].tolist() == pytest.approx([-0.35, -1.75, -3.5])
    assert table["treat_lower"].tolist() == pytest.approx([-1.26, -2.3, -3.6])


def test_expected_utility_is_that_of_the_draws(platt: bc.PlattCalibrator) -> None:
    utility = np.array([[0.0, -8.0], [-3.0, 2.0]])
    scores = pd.Series([0.1, 0.55, 0.8, 1.0], index=list("abcd"))
    table = bc.expected_utility(platt, scores, utility, ci_prob=0.8)
    q = platt.proba_draws(scores)[..., 1].values.reshape(-1, 4)
    leave, treat = (u[0] * (1 - q) + u[1] * q for u in utility)
    for name, values in (("leave", leave), ("treat", treat)):
        np.testing.assert_allclose(table[f"{name}_mean"], values.mean(axis=0), atol=1e-12)
        ends = table[[f"{name}_lower", f"{name}_upper"]].to_numpy().T
        np.testing.assert_allclose(ends, np.quantile(values, [0.1, 0.9], axis=0), atol=1e-12)
    better = treat.mean(axis=0) >= leave.mean(axis=0)
    assert table["action"].tolist() == np.where(better, "treat", "leave").tolist()
    wins = (treat > leave).mean(axis=0)
    np.testing.assert_allclose(table["probability"], np.where(better, wins, 1 - wins), atol=1e-12)
    assert table.index.tolist() == list("abcd")
    threshold = table.attrs["threshold"]
    assert threshold == pytest.approx(3 / (3 + 10))
    exceeds = platt.predict_exceedance(scores, threshold)[:, 1]
    np.testing.assert_array_equal(table["probability"], np.where(better, exceeds, 1 - exceeds))


@pytest.mark.parametrize(
    ("utility", "words"),
    [
        ([[0, 1], [2, 3]], "must not be higher with treatment"),  # treating is better whatever comes
        ([[1, 1], [0, 0]], "nor lower"),
        ([[0, 1], [0, 1]], "nor the same for both"),
        ([[0, 1]], "2 x 2 table"),
        ([[0, np.nan], [1, 1]], "2 x 2 table"),
        ("abcd", "2 x 2 table"),
    ],
)
def test_expected_utility_refuses_tables(utility: Any, words: str, platt: bc.PlattCalibrator) -> None:
    with pytest.raises(bc.ParameterValueError, match=words):
        bc.expected_utility(platt, [0.5], utility)


def test_expected_utility_refuses_other_forecasts() -> None:
    point = bc.PlattCalibrator(inference="point").fit([0.1, 0.2, 0.6, 0.9] * 5, [0, 1, 0, 1] * 5)
    with pytest.raises(bc.NoPosteriorError, match="expected_utility needs posterior draws"):
        bc.expected_utility(point, [0.5], [[0, -1], [-1, 0]])
    with pytest.raises(bc.ParameterValueError, match="calibrator must be a fitted calibrator, got float"):
        bc.expected_utility(0.5, [0.5], [[0, -1], [-1, 0]])


# ------------------------------------------------------------------------------
# The plot
# ------------------------------------------------------------------------------


def test_plot_draws_the_table(platt: bc.PlattCalibrator) -> None:
    result = bc.decision_curve(platt, np.linspace(0.3, 0.8, 26), ci_prob=0.8)
    _, (ax, other) = plt.subplots(1, 2)
    assert bc.plot_decision_curve(result, ax=ax) is ax
    assert not other.lines and len(plt.get_fignums()) == 1
    lines = {line.get_label(): line for line in ax.lines}
    table = result.table
    assert list(lines) == ["use the forecast, 80 % credible band", "treat all, 80 % credible band", "treat none"]
    for (label, line), name in zip(lines.items(), ("use", "all"), strict=False):
        np.testing.assert_array_equal(line.get_ydata(), table[f"{name}_mean"], err_msg=label)
    assert len({line.get_linestyle() for line in lines.values()}) == 3  # told apart in black and white
    low, high = ax.get_ylim()
    assert low < 0 and high > table[["use_upper", "all_upper"]].to_numpy().max()
    (strip,) = [c for c in ax.collections if str(c.get_label()).startswith("the forecast is better")]
    bars = [path.get_extents() for path in strip.get_paths()]
    useful = table.index[table["p_useful"] >= 0.8]
    assert 0 < len(useful) < 26 and len(bars) == len(useful)
    # from half a step below to half a step above each
    np.testing.assert_allclose([[bar.x0, bar.x1] for bar in bars], np.stack([useful - 0.01, useful + 0.01], axis=1))
    assert "threshold" in ax.get_xlabel() and "net benefit" in ax.get_ylabel()


def test_plot_of_one_threshold_and_of_no_benefit() -> None:
    useless = assessed([0.2, 0.8], [1, 1], np.zeros((1, 2, 2)))
    ax = bc.plot_decision_curve(bc.decision_curve(useless, 0.5))
    assert [line.get_marker() for line in ax.lines[:2]] == ["o", "o"]
    assert not any(str(c.get_label()).startswith("the forecast") for c in ax.collections)
    useful = bc.plot_decision_curve(bc.decision_curve(assessed([0.2, 0.8], [1, 1], np.array([[[0.1, 0.9]]])), 0.5))
    assert any(str(c.get_label()).startswith("the forecast") for c in useful.collections)
    with pytest.raises(bc.ParameterValueError, match=r"bayescal\.decision_curve returns, got DataFrame"):
        bc.plot_decision_curve(bc.decision_curve(useless, 0.5).table)
