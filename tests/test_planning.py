"""How many labelled cases are needed: `bayescal.plan`."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy.special import expit, logit
from scipy.stats import beta as beta_distribution

import bayescal as bc
from bayescal.evaluation import planning as module
from bayescal.evaluation.needed import needed_cases
from bayescal.evaluation.planning import Plan
from bayescal.validation import quiet

DAYS = bc.datasets.load_rain_niamey()
QUICK: dict[str, Any] = {"draws": 400, "random_state": 1, "progressbar": False}


@pytest.fixture(scope="module")
def pilot() -> bc.PlattCalibrator:
    return bc.PlattCalibrator(draws=500, chains=2, random_state=0, progressbar=False).fit(DAYS["ens"], DAYS["rain"])


@pytest.fixture(scope="module")
def found(pilot: bc.PlattCalibrator) -> Plan:
    return bc.plan(pilot, sizes=[400, 25, 100], width=0.2, repeats=25, **QUICK)


# ------------------------------------------------------------------------------
# What is simulated
# ------------------------------------------------------------------------------


def test_the_table_is_that_of_the_simulations(found: Plan) -> None:
    simulations, table = found.simulations, found.table
    assert simulations.groupby("n").size().to_dict() == {25: 25, 100: 25, 400: 25}
    assert table.index.tolist() == [25, 100, 400] and table.index.name == "n"
    for n, row in table.iterrows():
        width, coverage = (simulations.loc[simulations["n"] == n, name].to_numpy() for name in ("width", "coverage"))
        assert row["width_mean"] == pytest.approx(width.mean())
        assert row["width_se"] == pytest.approx(width.std(ddof=1) / 5)
        assert row[["width_lower", "width_upper"]].tolist() == pytest.approx(np.quantile(width, [0.1, 0.9]).tolist())
        share = (width <= 0.2).mean()
        assert row["probability"] == share
        smoothed = (25 * share + 0.5) / 26
        assert row["probability_se"] == pytest.approx(math.sqrt(smoothed * (1 - smoothed) / 25))
        assert row["coverage"] == pytest.approx(coverage.mean())
    assert (table[["one_class", "not_converged"]] <= 0.2).all(axis=None)


def test_widths_fall_with_the_root_of_n(found: Plan) -> None:
    width = found.table["width_mean"]
    # two parameters that the prior hardly touches at 100: the standard deviation falls by 2
    assert width[100] / width[400] == pytest.approx(2, rel=0.12)
    assert 25 < found.needed < 400
    low, high = found.needed_range
    assert low <= found.needed <= high
    assert f"About {found.needed} labelled cases are needed (Monte Carlo interval {low} to {high}" in found.answer
    assert "90 % intervals whose mean width is at most 0.2 with a probability of 0.8" in found.answer


def test_intervals_hold_draws_of_the_curve_that_they_are_simulated_from(found: Plan) -> None:
    # Platt refitted to outcomes of Platt's curves: nominal 0.9; 75 simulations whose scores are held or missed together
    coverage = found.simulations["coverage"]
    assert coverage.mean() == pytest.approx(0.9, abs=4 * coverage.std() / math.sqrt(len(coverage)))


@pytest.mark.slow
def test_needed_reaches_the_width_as_often_as_was_asked(pilot: bc.PlattCalibrator) -> None:
    settings = {"width": 0.2, "repeats": 150, **QUICK}
    planned = bc.plan(pilot, sizes=[50, 200], **settings)
    ends = bc.plan(pilot, sizes=list(planned.needed_range), **{**settings, "random_state": 7}).table
    below, above = ends.itertuples()
    # four standard errors; the interval of the size itself is missed in one plan of ten
    assert below.probability - 4 * below.probability_se <= 0.8 <= above.probability + 4 * above.probability_se
    assert above.probability - below.probability < 0.5


def test_widths_are_those_of_the_beta_posterior_where_all_scores_are_equal() -> None:
    # One score, outcomes of probability .5: n / 2 of n positive, nearly, whatever the prior. The equal-tailed interval
    # of Beta(n / 2 + 1/2, n / 2 + 1/2) has this width.
    planned = bc.plan(np.full(30, 0.5), sizes=[2000], width=0.1, repeats=10, **QUICK)
    low, high = beta_distribution(1000.5, 1000.5).ppf([0.05, 0.95])
    assert planned.table["width_mean"].item() == pytest.approx(high - low, rel=0.05)


def test_at_given_scores(pilot: bc.PlattCalibrator) -> None:
    settings = {"sizes": [100], "width": 0.2, "repeats": 3, **QUICK}
    both, first, second = (
        bc.plan(pilot, at=at, **settings).simulations["width"] for at in ([0.2, 0.9], [0.2], [[0.9]])
    )
    np.testing.assert_allclose(both, (first + second) / 2, rtol=1e-12)
    assert (first > second).all()  # few days have so low a score
    values, times = np.unique(DAYS["ens"], return_counts=True)
    everywhere = bc.plan(pilot, at=np.repeat(values, times), **settings).simulations["width"]
    np.testing.assert_allclose(everywhere, bc.plan(pilot, **settings).simulations["width"], rtol=1e-12)


def test_the_same_seed_gives_the_same_plan_whatever_the_other_sizes(found: Plan, pilot: bc.PlattCalibrator) -> None:
    one = bc.plan(pilot, sizes=[100], width=0.2, repeats=25, **QUICK).simulations
    expected = found.simulations[found.simulations["n"] == 100].reset_index(drop=True)
    pd.testing.assert_frame_equal(one, expected)
    other = bc.plan(pilot, sizes=[100], width=0.2, repeats=25, **{**QUICK, "random_state": 2}).simulations
    assert not np.allclose(other["width"], one["width"])
    labelled = [bc.plan(DAYS["ens"], DAYS["rain"], sizes=[60], repeats=2, **QUICK).simulations for _ in range(2)]
    pd.testing.assert_frame_equal(*labelled)


# ------------------------------------------------------------------------------
# What the curve is
# ------------------------------------------------------------------------------


def refits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The data of every refit; the fits themselves are of point estimates that say nothing."""
    seen: list[tuple[Any, ...]] = []

    def refit(unfitted: Any, n: int, drawn: Any, judged: Any, curve: np.ndarray, *_: Any) -> dict[str, Any]:
        seen.append((unfitted, n, drawn, judged, curve))
        return {"width": 1 / math.sqrt(n), "coverage": 0.9, "one_class": False, "converged": True}

    monkeypatch.setattr(module, "_refit", refit)
    return seen


def test_scores_alone_are_taken_at_their_word(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    bc.plan([0.2, 0.2, 0.7, 1.0], sizes=[10], repeats=2)
    for unfitted, n, drawn, judged, curve in seen:
        assert isinstance(unfitted, bc.PlattCalibrator) and n == 10 and judged is drawn
        assert drawn.scores.tolist() == [0.2, 0.7, 1.0] and drawn.share.tolist() == [0.5, 0.25, 0.25]
        np.testing.assert_allclose(curve, np.tile([0.2, 0.7, 1 - 1e-6], 2))
    seen.clear()
    bc.plan(logit([0.2, 0.7]), sizes=[10], repeats=2, calibrator=bc.BetaCalibrator(score_kind="logit"), at=[0.0])
    assert isinstance(seen[0][0], bc.BetaCalibrator)
    np.testing.assert_allclose(seen[0][-1], [0.2, 0.7, 0.5])


def test_draws_of_a_posterior_are_the_curves(pilot: bc.PlattCalibrator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    bc.plan([0.1, 0.6], curve=pilot, sizes=[10, 20], repeats=40)
    draws = pilot.proba_draws([0.1, 0.6])[..., 1].values.reshape(-1, 2)
    curves = np.array([one[-1][:2] for one in seen])
    assert {tuple(curve) for curve in curves} <= {tuple(draw) for draw in draws}
    assert len(np.unique(curves[:40], axis=0)) == 40  # another for each repeat
    np.testing.assert_array_equal(curves[:40], curves[40:])  # and the same ones at each size
    assert seen[0][0].get_params()["score_kind"] == "proba" and isinstance(seen[0][0], bc.PlattCalibrator)


def test_rows_of_a_calibrator_are_drawn_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    cal = bc.PlattCalibrator(draws=20, chains=2, random_state=0, progressbar=False, classes=["no", "yes"])
    with quiet(bc.ConvergenceWarning, bc.CalibrationWarning):
        cal.fit([0.2, 0.4, 0.4, 0.9], ["no", "yes", "no", "yes"], [1, 2, 0, 5])
    bc.plan(cal, sizes=[10], repeats=100)  # more repeats than draws
    unfitted, _, drawn, _, _ = seen[0]
    assert drawn.scores.tolist() == [0.2, 0.4, 0.9] and drawn.share.tolist() == [1 / 8, 2 / 8, 5 / 8]
    assert unfitted.classes is None and cal.classes == ["no", "yes"]


def test_labels_of_a_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    settings = {"draws": 100, "chains": 2, "progressbar": False}
    unfitted = bc.BetaCalibrator(**settings)
    with quiet(bc.ConvergenceWarning):
        bc.plan(DAYS["ens"], np.where(DAYS["rain"], "wet", "dry"), calibrator=unfitted, sizes=[10], repeats=30)
    assert not hasattr(unfitted, "classes_")
    curves = np.array([one[-1] for one in seen])
    mean = bc.BetaCalibrator(inference="point").fit(DAYS["ens"], DAYS["rain"]).predict_proba(seen[0][2].scores)[:, 1]
    middle = len(mean) // 2
    assert abs(curves[:, middle].mean() - mean[middle]) < 0.1 and curves[:, middle].std() > 0.02


def test_a_class_and_a_name_are_calibrators_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    for calibrator in ("auto", bc.StackedCalibrator, bc.StackedCalibrator(score_kind="logit")):
        bc.plan([-1.0, 1.0], calibrator=calibrator, score_kind="logit", sizes=[10], repeats=2)
    assert [(type(one[0]), one[0].score_kind) for one in seen[::2]] == [(bc.StackedCalibrator, "logit")] * 3


def test_many_scores_become_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = refits(monkeypatch)
    scores = np.random.default_rng(0).beta(2, 5, 50_000)
    bc.plan(scores, sizes=[10**9], repeats=2)
    drawn = seen[0][2]
    assert len(drawn.scores) <= 1000 and drawn.share.sum() == pytest.approx(1)
    assert drawn.scores @ drawn.share == pytest.approx(scores.mean(), abs=1e-4)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refits(monkeypatch)
    told: list[tuple[int, int]] = []
    bc.plan([0.2, 0.7], sizes=[10, 20], repeats=2, progressbar=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


# ------------------------------------------------------------------------------
# The answer
# ------------------------------------------------------------------------------


def needed(sizes: list[int], widths: Any, width: float, assurance: float = 0.8) -> Any:
    return needed_cases(sizes, np.array(widths, dtype=float), width, assurance, np.random.default_rng(0))


@pytest.mark.parametrize(("width", "expected"), [(0.2, 100), (0.25, 64), (0.125, 256), (0.11, 331)])
def test_widths_of_the_root_law_are_interpolated_exactly(width: float, expected: int) -> None:
    # 2 / sqrt(n) is a straight line in the logarithms: n = (2 / width)^2, rounded up
    sizes = [50, 100, 200, 400]
    assert needed(sizes, [[2 / math.sqrt(n)] * 5 for n in sizes], width) == (expected, (expected, expected))


def test_the_quantile_of_the_widths_counts() -> None:
    # of five widths, four are at most the fourth: 0.4 at 100 cases and 0.1 at 400; half way in the logarithms at .2
    widths = [[0.1, 0.2, 0.3, 0.4, 0.9], [0.05, 0.06, 0.07, 0.1, 0.9]]
    assert needed([100, 400], widths, 0.2)[0] == 200
    assert needed([100, 400], widths, 0.4)[0] == 100
    assert needed([100, 400], widths, 0.099)[0] is None
    assert needed([100, 400], widths, 0.2, assurance=0.9)[0] is None
    low, high = needed([100, 400], widths, 0.2)[1]
    assert low < 200 and high is None  # by chance .9 may be among the four


def test_widths_that_rise_by_chance_are_pooled() -> None:
    # log 0.4, then log 0.2 and log 0.3 pooled, then log 0.1: the pool is at sqrt(0.06)
    widths = [[0.4] * 3, [0.2] * 3, [0.3] * 3, [0.1] * 3]
    assert needed([10, 20, 40, 80], widths, 0.26)[0] in (19, 20)
    between = 40 * 2 ** (math.log(math.sqrt(0.06) / 0.2) / math.log(math.sqrt(0.06) / 0.1))
    assert needed([10, 20, 40, 80], widths, 0.2)[0] == math.ceil(between)


def test_answers_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    refits(monkeypatch)
    never = bc.plan([0.2, 0.7], sizes=[10, 40], repeats=2, width=0.01)
    assert never.needed is None and never.needed_range == (None, None)
    assert never.answer.startswith("More than 40 labelled cases are needed, the largest size that was simulated,")
    always = bc.plan([0.2, 0.7], sizes=[10, 40], repeats=2, width=0.9)
    assert always.needed == 10
    assert always.answer.startswith("10 labelled cases, the smallest size that was simulated, are enough for 90 %")
    assert bc.plan([0.2, 0.7], sizes=np.array([10, 40]), repeats=2, width=0.2).needed == 25  # 1 / sqrt(25)


# ------------------------------------------------------------------------------
# Odd inputs
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", ["platt", bc.StackedCalibrator(members=("platt", "beta"))], ids=str)
def test_too_few_cases_for_both_classes(calibrator: Any) -> None:
    few = bc.plan(np.full(20, 0.03), calibrator=calibrator, sizes=[1, 8], width=0.3, repeats=4, **QUICK)
    assert few.table["one_class"][1] == 1.0 and np.isfinite(few.simulations["width"]).all()
    assert few.simulations["width"].between(0, 1).all()


def test_a_billion_cases() -> None:
    many = bc.plan(expit(np.linspace(-2, 2, 50)), sizes=[10**9], width=0.1, repeats=2, **QUICK)
    assert 0 < many.table["width_mean"].item() < 1e-3 and many.needed == 10**9


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"scores": [0.1, np.nan]}, bc.ScoreValueError, "scores must be finite"),
        ({"scores": []}, bc.ScoreValueError, "scores is empty"),
        ({"scores": [0.1, 20.0]}, bc.ScoreValueError, r"scores must lie in \[0, 1\]"),
        ({"scores": [[0.1, 0.2, 0.3]]}, bc.ScoreValueError, "must be one column"),
        ({"score_kind": "raw"}, bc.ScoreValueError, "state no probability to simulate from"),
        ({"score_kind": "percent"}, bc.ParameterValueError, "score_kind must be one of"),
        ({"y": [0, 1, 1]}, bc.LabelValueError, "3 labels for 2 rows"),
        ({"width": 0}, bc.ParameterValueError, "width must be a number between 0 and 1"),
        ({"width": 2}, bc.ParameterValueError, "width must be a number between 0 and 1"),
        ({"assurance": 1}, bc.ParameterValueError, "assurance must be"),
        ({"ci_prob": 90}, bc.ParameterValueError, "ci_prob must be"),
        ({"sizes": []}, bc.ParameterValueError, "sizes must name at least one"),
        ({"sizes": [10, 0]}, bc.ParameterValueError, "sizes must be a whole number of at least 1"),
        ({"sizes": [10.5]}, bc.ParameterValueError, "sizes must be a whole number"),
        ({"sizes": 10**10}, bc.ParameterValueError, "sizes must be at most 1000000000"),
        ({"sizes": "many"}, bc.ParameterValueError, "sizes must be a whole number"),
        ({"sizes": None}, bc.ParameterValueError, "sizes must be"),
        ({"repeats": 1}, bc.ParameterValueError, "repeats must be a whole number of at least 2"),
        ({"draws": 0}, bc.ParameterValueError, "draws must be"),
        ({"at": [2.0]}, bc.ScoreValueError, "at must lie in"),
        ({"at": []}, bc.ScoreValueError, "at is empty"),
        ({"calibrator": "copula"}, bc.ParameterValueError, "calibrator must be one of 'platt', 'beta'"),
        ({"calibrator": 3}, bc.ParameterValueError, "calibrator must be one of platt, beta.*got 3"),
        ({"calibrator": bc.TemperatureScaling}, bc.ParameterValueError, "calibrator must be one of platt"),
        ({"calibrator": bc.PlattCalibrator(inference="point")}, bc.ParameterValueError, "with inference='nuts'"),
        ({"calibrator": bc.PlattCalibrator("logit"), "score_kind": "proba"}, bc.ParameterValueError, "same throughout"),
        ({"curve": "platt"}, bc.ParameterValueError, "curve must be a fitted calibrator of two classes, got str"),
        ({"random_state": -1}, bc.ParameterValueError, "random_state must be"),
    ],
)
def test_refusals(change: dict[str, Any], error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refits(monkeypatch)
    with pytest.raises(error, match=words):
        bc.plan(**{"scores": [0.2, 0.7], **change})


def test_refusals_of_fitted_calibrators(pilot: bc.PlattCalibrator) -> None:
    with pytest.raises(bc.ParameterValueError, match="leave y and curve out"):
        bc.plan(pilot, [0, 1])
    with pytest.raises(bc.ParameterValueError, match="y and curve were both given"):
        bc.plan([0.2, 0.7], [0, 1], curve=pilot)
    with pytest.raises(bc.ParameterValueError, match="'proba' of the calibrator and 'logit' of the argument"):
        bc.plan(pilot, score_kind="logit")
    with pytest.raises(bc.ParameterValueError, match="'logit' of the calibrator and 'proba' of the curve"):
        bc.plan([0.2], curve=pilot, calibrator=bc.PlattCalibrator("logit"))
    point = bc.PlattCalibrator(inference="point").fit(DAYS["ens"], DAYS["rain"])
    with pytest.raises(bc.NoPosteriorError, match="plan needs posterior draws"):
        bc.plan(point)


# ------------------------------------------------------------------------------
# The plot
# ------------------------------------------------------------------------------


def test_plot_draws_the_table(found: Plan) -> None:
    _, (ax, other) = plt.subplots(1, 2)
    assert bc.plot_plan(found, ax=ax) is ax
    assert not other.lines and len(plt.get_fignums()) == 1
    mean, wanted, needed_at = ax.lines
    np.testing.assert_array_equal(mean.get_xydata(), found.table.reset_index()[["n", "width_mean"]])
    assert set(wanted.get_ydata()) == {0.2} and set(needed_at.get_xdata()) == {found.needed}
    assert len({line.get_linestyle() for line in ax.lines}) == 3  # told apart in black and white
    assert needed_at.get_label() == f"{found.needed} cases: reached with probability 0.8"
    reached = found.table["probability"]
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        f"{n}\n{100 * reached[n]:.0f} %" for n in (25, 100, 400)
    ]
    assert ax.get_xscale() == "log" and ax.get_ylabel() == "mean width of 90 % intervals"
    assert ax.get_ylim()[1] > found.table["width_upper"].max()


def test_plot_of_one_size_and_of_sizes_that_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    refits(monkeypatch)
    one = bc.plot_plan(bc.plan([0.2, 0.7], sizes=[10], repeats=2))
    assert len(one.lines) == 2 and [text.get_text() for text in one.get_xticklabels()] == ["10\n0 %"]
    close = bc.plot_plan(bc.plan([0.2, 0.7], sizes=[10, 11, 12, 1000], repeats=2, width=0.5))
    assert [text.get_text() for text in close.get_xticklabels()] == ["12\n100 %", "1000\n100 %"]
    assert close.lines[2].get_label() == "10 cases or fewer: reached with probability 0.8"
    with pytest.raises(bc.ParameterValueError, match=r"bayescal\.plan returns, got DataFrame"):
        bc.plot_plan(pd.DataFrame())
