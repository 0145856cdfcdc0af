"""The summary and the report of a fit: every number is the library's, and the page stands alone."""

import base64
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.registry import CALIBRATORS
from bayescal.report import Source, _round_scores, draw_figures, format_number, plain_values, render_report, summarise

NASTY = "$\\frac{$ <script>alert('1')</script> & \"x\" {{ 7*7 }}"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What a browser sees: tags that close what they open, attributes, text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def fitted(score_kind: str = "proba", **settings: Any) -> Calibrator:
    """A fit of 80 over-confident cases: normal quantiles, labels by steps of the golden ratio."""
    i = np.arange(80)
    log_odds = 2 * norm.ppf((i + 0.5) / 80)
    y = ((i * 0.6180339887) % 1 < expit(log_odds / 2)).astype(int)
    scores = {"proba": expit(log_odds), "logit": log_odds, "raw": 50 + 10 * log_odds}[score_kind]
    return bc.PlattCalibrator(score_kind, random_state=1, progressbar=False, draws=500, **settings).fit(scores, y)


def summary_of(calibrator: Calibrator, messages: tuple[str, ...] = (), **names: Any) -> dict[str, Any]:
    fallback = ("risk",) if calibrator._n_scores == 1 else tuple(calibrator.feature_names_in_)
    source = Source(**{"file": "cases.csv", "scores": fallback, "label": "died", **names})
    return summarise(calibrator, source, ci_prob=0.8, seed=1, messages=list(messages))


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    return fitted()


@pytest.fixture(scope="module")
def summary(calibrator: Calibrator) -> dict[str, Any]:
    return summary_of(calibrator)


@pytest.fixture(scope="module")
def figures(calibrator: Calibrator) -> dict[str, bytes]:
    return draw_figures(calibrator, ci_prob=0.8)


@pytest.fixture(scope="module")
def stacked() -> Calibrator:
    """An average of two members, which is enough to have weights."""
    data = fitted()._require_rows()
    settings = {"members": ("platt", "beta"), "random_state": 1, "progressbar": False, "draws": 500}
    return bc.StackedCalibrator(**settings).fit(data.scores, data.positive.astype(int))


# ------------------------------------------------------------------------------
# summary
# ------------------------------------------------------------------------------


def test_summary_is_json_and_comes_back_equal(summary: dict[str, Any]) -> None:
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_summary_holds_the_librarys_numbers(calibrator: Calibrator, summary: dict[str, Any]) -> None:
    for row in summary["map"]:
        expected = calibrator.predict_table([row["score"]], ci_prob=0.8).iloc[0]
        assert {name: row[name] for name in expected.index} == pytest.approx(expected.to_dict(), rel=1e-12)
    table = bc.miscalibration(calibrator, ci_prob=0.8).summary()
    found = {row["measure"]: [row[name] for name in table.columns] for row in summary["miscalibration"]}
    assert list(found) == table.index.tolist()
    np.testing.assert_allclose(np.array(list(found.values())), table, rtol=1e-12)
    rows = {row["parameter"]: row for row in summary["diagnostics"]["parameters"]}
    for name, values in calibrator.diagnostics_.iterrows():
        assert {key: rows[name][key] for key in values.index} == pytest.approx(values.to_dict())
    worst = summary["diagnostics"]["worst"][0]
    assert worst["r_hat_max"] == pytest.approx(calibrator.diagnostics_["r_hat"].max())
    assert worst["ess_tail_min"] == pytest.approx(calibrator.diagnostics_["ess_tail"].min())


def test_summary_counts_cases_by_weight() -> None:
    scores, y, times = [0.1, 0.4, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1], [20, 10, 0, 10, 50]
    weighted = bc.PlattCalibrator(inference="point").fit(scores, y, times)
    data = summary_of(weighted, weight="times")["data"]
    assert (data["rows"], data["cases"], data["negatives"], data["positives"]) == (5, 90, 30, 60)
    (score,) = data["scores"]
    assert score["mean"] == pytest.approx((20 * 0.1 + 10 * 0.4 + 10 * 0.7 + 50 * 0.9) / 90)
    assert score["distinct"] == 4


def test_priors_come_with_their_reasons(summary: dict[str, Any], stacked: Calibrator) -> None:
    (prior,) = summary["priors"]
    assert prior["method"] == "platt" and prior["families"] == "intercept ~ Normal, slope ~ LogNormal"
    described = bc.priors.PlattPriors().describe()
    assert [(s["name"], s["value"], s["reason"]) for s in prior["settings"]] == described
    several = summary_of(stacked)["priors"]
    assert [p["method"] for p in several] == ["platt", "beta"] and all(p["families"] for p in several)


def test_stacking_is_the_comparison_best_first(stacked: Calibrator) -> None:
    rows = summary_of(stacked)["stacking"]
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
    assert rows[0]["weight"] >= rows[1]["weight"]
    for row in rows:
        assert row["elpd_loo"] == pytest.approx(stacked.comparison_.loc[row["method"], "elpd_loo"])


def test_what_is_not_finite_is_null() -> None:
    values = {"a": float("nan"), "b": [np.float64("inf"), np.int64(3)], 1: (True, np.bool_(False), "NaN", None)}
    assert plain_values(values) == {"a": None, "b": [None, 3], "1": [True, False, "NaN", None]}


def test_undefined_measures_are_null_and_said() -> None:
    with pytest.warns(bc.CalibrationWarning, match="all scores are equal"):
        constant = bc.PlattCalibrator(random_state=1, progressbar=False, draws=500).fit([0.7] * 10, [0, 1] * 5)
    summary = summary_of(constant)
    slope = next(row for row in summary["miscalibration"] if row["measure"] == "slope")
    assert slope["mean"] is None and slope["lower"] is None
    assert "not defined" in Page(render_report(summary, draw_figures(constant, ci_prob=0.8))).text


# ------------------------------------------------------------------------------
# several scores
# ------------------------------------------------------------------------------


def two_scores(n: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    """Cases of which each score sees a part: steps of two irrational numbers, no randomness."""
    i = np.arange(n)
    ecg, lab = (i * 0.6180339887) % 1, (i * 0.7548776662) % 1
    died = (i * 0.5698402910) % 1 < (ecg + lab) / 2
    return pd.DataFrame({"ecg": 0.02 + 0.96 * ecg, "lab": 0.02 + 0.96 * lab}), died.astype(int)


@pytest.fixture(scope="module")
def fused() -> Calibrator:
    return bc.PlattCalibrator(random_state=1, progressbar=False, draws=500).fit(*two_scores())


def test_combinations_are_thirds_and_the_librarys_answers(fused: Calibrator) -> None:
    rows = summary_of(fused)["combinations"]
    levels = [tuple(row["levels"].values()) for row in rows]
    assert levels == [("low",) * 2, ("middle",) * 2, ("high",) * 2, ("high", "low"), ("low", "high")]
    scores, died = two_scores()
    # 90 different values of each score: thirds are the 30 smallest, the 30 in the middle, the 30 largest
    third = scores.rank().sub(1).floordiv(30).astype(int).to_numpy()
    for row, of_row in zip(rows, levels, strict=True):
        expected = fused.predict_table(pd.DataFrame([row["scores"]]), ci_prob=0.8).iloc[0]
        assert {name: row[name] for name in expected.index} == pytest.approx(expected.to_dict(), rel=1e-12)
        alike = (third == [["low", "middle", "high"].index(level) for level in of_row]).all(axis=1)
        assert (row["cases"], row["positives"]) == (alike.sum(), died[alike].sum())
        for name, value in row["scores"].items():  # the middle of its third
            third_of = np.sort(scores[name])[30 * ["low", "middle", "high"].index(row["levels"][name]) :][:30]
            assert value in third_of[14:16]


def test_combinations_of_three_scores_let_each_disagree() -> None:
    scores, died = two_scores()
    three = bc.PlattCalibrator(inference="point").fit(scores.assign(age=scores.mean(axis=1)), died)
    levels = ["".join(level[0] for level in row["levels"].values()) for row in summary_of(three)["combinations"]]
    assert levels == ["lll", "mmm", "hhh", "hll", "lhl", "llh", "lhh", "hlh", "hhl"]


def test_combinations_count_weights_and_join_what_ties_make_equal() -> None:
    scores, died = two_scores()
    times = np.arange(90) % 3
    weighted = bc.PlattCalibrator(inference="point").fit(scores, died, times)
    repeat = np.repeat(np.arange(90), times)
    repeated = bc.PlattCalibrator(inference="point").fit(scores.iloc[repeat], died[repeat])
    for mine, theirs in zip(*(summary_of(c)["combinations"] for c in (weighted, repeated)), strict=True):
        assert mine["scores"] == theirs["scores"]
        assert (mine["cases"], mine["positives"]) == (theirs["cases"], theirs["positives"])
    with pytest.warns(bc.CalibrationWarning, match="score column 1: all scores are equal"):
        constant = bc.PlattCalibrator(inference="point").fit(scores.assign(lab=0.5), died)
    rows = summary_of(constant)["combinations"]
    assert [row["levels"]["ecg"] for row in rows] == ["low", "middle", "high"]
    assert [row["cases"] for row in rows] == [30, 30, 30]


def test_fitted_and_observed_count_every_case(fused: Calibrator) -> None:
    rows = summary_of(fused)["observed"]
    scores, died = two_scores()
    assert sum(row["cases"] for row in rows) == 90
    assert sum(row["cases"] * row["share"] for row in rows) == pytest.approx(died.sum())
    assert sum(row["cases"] * row["mean"] for row in rows) == pytest.approx(fused.predict_proba(scores)[:, 1].sum())
    assert all(row["lower"] < row["share"] < row["upper"] for row in rows)


def test_report_of_several_scores(fused: Calibrator) -> None:
    summary = summary_of(fused, messages=("look here",))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["map"] is None and summary["miscalibration"] is None
    assert [score["name"] for score in summary["data"]["scores"]] == ["ecg", "lab"]
    figures = draw_figures(fused, ci_prob=0.8)
    assert list(figures) == ["surface.png"]
    page = render_report(summary, figures)
    assert base64.b64encode(figures["surface.png"]).decode() in page
    text = Page(page).text
    low = summary["combinations"][0]
    for words in (
        "Fusion of the scores ecg and lab",
        f"has a probability of {low['mean']:.2f} (80 % credible interval {low['lower']:.2f} to {low['upper']:.2f})",
        "the raw scores said on average {:.0f} % ( ecg ), {:.0f} % ( lab )".format(*100 * two_scores()[0].mean()),
        "No reliability diagram is drawn",
        "A new case needs every one of the scores",
        "never lowers the probability",
        "a table with the columns ecg, lab, in this order",
        "The scores ecg, lab were fused on 90 cases",
        "look here",
    ):
        assert words in text, words
    for words in ("How miscalibrated the raw score was", "The ranking stays", "None", "Many scores"):
        assert words not in text, words


def test_report_of_four_scores_warns_of_many() -> None:
    scores, died = two_scores()
    four = scores.assign(age=scores.mean(axis=1), bmi=scores @ [0.2, 0.8])
    fitted = bc.PlattCalibrator(inference="point").fit(four, died)
    summary = summary_of(fitted)
    text = Page(render_report(summary, draw_figures(fitted, ci_prob=0.8))).text
    assert "With 4 scores nearly every combination is far from any case" in text
    for words in ("credible", "80 %", "seed", "None"):
        assert words not in text, words
    assert "degree 4" not in text


@pytest.mark.parametrize(
    ("count", "method", "doubted"), [(4, "bernstein", True), (2, "bernstein", False), (4, "platt", False)]
)
def test_intervals_of_surfaces_of_many_scores_are_doubted(
    count: int, method: str, doubted: bool, fused: Calibrator
) -> None:
    summary = summary_of(fused)
    summary["data"]["scores"] *= count // 2
    summary["priors"][0]["method"] = method
    text = Page(render_report(summary, {"surface.png": b""})).text
    assert ("degree 4" in text) == doubted


def test_names_of_several_scores_are_escaped(fused: Calibrator) -> None:
    nasty = pd.DataFrame(two_scores()[0].to_numpy(), columns=[NASTY, f"{NASTY}2"])
    fitted = bc.PlattCalibrator(inference="point").fit(nasty, two_scores()[1])
    page = render_report(summary_of(fitted), draw_figures(fitted, ci_prob=0.8))
    assert "<script" not in page and " ".join(NASTY.split()) in Page(page).text


# ------------------------------------------------------------------------------
# round scores and numbers
# ------------------------------------------------------------------------------


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
)
def test_round_scores_lie_within_the_scores_seen(low: float, width: float) -> None:
    seen = np.array([low, low + width])
    scores = _round_scores(seen, "raw")
    assert 4 <= len(scores) <= 13  # steps grow by factors of at most 2.5 from one that is too small for 12
    margin = 1e-9 * max(1, abs(low), abs(low + width))
    assert (scores >= low - margin).all() and (scores <= low + width + margin).all()
    assert (np.diff(scores) > 0).all()


def test_round_scores_are_easy_to_read() -> None:
    tenths = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    assert _round_scores(np.array([0.3, 0.999]), "proba").tolist() == tenths
    assert _round_scores(np.array([0.0, 1.0]), "proba").tolist() == [0, *tenths, 1]
    assert _round_scores(np.array([-3.2, 4.1]), "logit").tolist() == [-3, -2, -1, 0, 1, 2, 3, 4]
    assert _round_scores(np.array([0.13, 0.41]), "raw").tolist() == [0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    assert _round_scores(np.array([0.004, 0.031]), "proba").tolist() == [0.005, 0.01, 0.015, 0.02, 0.025, 0.03]
    assert _round_scores(np.array([1e-15, 5e-15]), "raw").tolist()[:2] == [1e-15, 1.5e-15]
    assert _round_scores(np.array([0.7, 0.7]), "proba").tolist() == [0.7]


def test_zero_has_no_sign() -> None:
    assert format_number(-0.001) == "0.00"


# ------------------------------------------------------------------------------
# figures
# ------------------------------------------------------------------------------


def test_figures_are_pictures_and_leave_no_window(figures: dict[str, bytes]) -> None:
    from matplotlib import pyplot

    assert sorted(figures) == ["calibration_map.png", "reliability.png"]
    assert all(png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) > 5000 for png in figures.values())
    assert pyplot.get_fignums() == []


# ------------------------------------------------------------------------------
# report
# ------------------------------------------------------------------------------


def test_report_stands_alone(summary: dict[str, Any], figures: dict[str, bytes]) -> None:
    page = render_report(summary, figures)
    seen = Page(page)
    assert {"script", "link", "iframe", "object", "form"}.isdisjoint(seen.tags)
    assert "http" not in page and "@import" not in page and "url(" not in page
    sources = [value for name, value in seen.attributes if name in ("src", "href", "srcset", "data")]
    images = [base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True) for source in sources]
    assert images == [figures["reliability.png"], figures["calibration_map.png"]]
    assert not [name for name, _ in seen.attributes if name.startswith("on")]


def test_report_says_what_a_reader_needs(summary: dict[str, Any], figures: dict[str, bytes]) -> None:
    text = Page(render_report(summary, figures)).text
    data = summary["data"]
    ici = summary["miscalibration"][0]
    for words in (
        f"{data['positives']:g} of 80 cases",
        f"{ici['mean']:.2f} away from the actual one",
        f"80 % credible interval {ici['lower']:.2f} to {ici['upper']:.2f}",
        "intercept ~ Normal, slope ~ LogNormal",
        *(reason for _, _, reason in bc.priors.PlattPriors().describe()),
        "passed all its convergence checks",
        "What an interval means",
        "Same kind of cases only",
        "Same data, fit and picture",
        "bayescal predict posterior.nc",
        "seed 1",
        f"pymc {summary['versions']['pymc']}",
    ):
        assert words in text, words
    assert not re.search("90 % (credible|interval|posterior)", text)  # the level is the one that was asked for
    assert "Warnings of this fit" not in text and "None" not in text


def test_report_escapes_whatever_the_user_named(calibrator: Calibrator, figures: dict[str, bytes]) -> None:
    names = {"file": f"a{NASTY}.csv", "scores": (f"b{NASTY}",), "label": f"c{NASTY}", "weight": f"d{NASTY}"}
    page = render_report(summary_of(calibrator, messages=(f"e{NASTY}",), **names), figures)
    seen = Page(page)
    assert "script" not in seen.tags and "<script" not in page
    for letter in "abcde":
        assert " ".join(f"{letter}{NASTY}".split()) in seen.text


def test_labels_with_markup_are_escaped_in_page_and_drawn_as_text(figures: dict[str, bytes]) -> None:
    labelled = bc.PlattCalibrator(inference="point", classes=["<b>no</b>", NASTY])
    labelled.fit(
        pd.DataFrame({NASTY: [0.1, 0.3, 0.6, 0.9] * 5}), np.array(["<b>no</b>", NASTY, "<b>no</b>", NASTY] * 5)
    )
    page = render_report(summary_of(labelled), draw_figures(labelled, ci_prob=0.8))
    seen = Page(page)
    assert "b" not in seen.tags and "script" not in seen.tags
    assert "<b>no</b>" in seen.text


def test_letters_that_the_font_lacks_are_no_warning() -> None:
    rows = pd.DataFrame({"得点": [0.1, 0.3, 0.6, 0.9] * 5})
    figures = draw_figures(bc.PlattCalibrator(inference="point").fit(rows, ["有", "無", "有", "無"] * 5), ci_prob=0.8)
    assert len(figures) == 2  # a warning is an error in the tests


def test_warnings_are_on_the_page(calibrator: Calibrator, figures: dict[str, bytes]) -> None:
    text = Page(render_report(summary_of(calibrator, messages=("only 2 cases",)), figures)).text
    assert "Warnings of this fit only 2 cases" in text


@pytest.mark.parametrize("score_kind", ["logit", "raw"])
def test_report_of_other_kinds_of_scores(score_kind: str) -> None:
    other = fitted(score_kind)
    text = Page(render_report(summary_of(other), draw_figures(other, ci_prob=0.8))).text
    assert ("The score is not a probability" in text) == (score_kind == "raw")
    assert ("the raw score said" in text) is False
    assert re.search("read as (log-odds|a number)", text)


def test_report_of_a_point_estimate_promises_no_interval(figures: dict[str, bytes]) -> None:
    point = fitted(inference="point")
    summary = summary_of(point)
    assert summary["settings"] == {
        "method": "platt",
        "method_summary": CALIBRATORS["platt"].summary,
        "inference": "point",
        **dict.fromkeys(["ci_prob", "seed", "draws", "chains", "tune"]),
    }
    text = Page(render_report(summary, draw_figures(point, ci_prob=0.8))).text
    assert "It has no intervals" in text
    for words in ("credible", "80 %", "seed", "R-hat", "What was assumed", "None"):
        assert words not in text, words


def test_the_table_of_scores_reaches_both_ends() -> None:
    assert _round_scores(np.array([0.3, 0.4]), "proba").tolist() == [round(0.3 + k / 100, 2) for k in range(11)]


def test_rare_events_are_given_more_decimals() -> None:
    scores, y = np.tile([0.001, 0.004, 0.01, 0.02, 0.03], 200), np.zeros(1000, dtype=int)
    y[np.flatnonzero(scores >= 0.01)[::20]] = 1  # 30 of the 600 cases with the larger scores
    rare = bc.PlattCalibrator(inference="point").fit(scores, y)
    summary = summary_of(rare)
    row = summary["map"][0]
    assert row["score"] == 0.005 and 0.005 < row["mean"] < 0.05
    text = Page(render_report(summary, draw_figures(rare, ci_prob=0.8))).text
    assert f"A score of 0.005 stands for a probability of {row['mean']:.3f}." in text


def test_report_of_an_average_shows_weights(stacked: Calibrator) -> None:
    summary = summary_of(stacked)
    text = Page(render_report(summary, draw_figures(stacked, ci_prob=0.8))).text
    assert "No single shape of curve was taken for granted: 2 were fitted" in text
    for row in summary["stacking"]:
        assert f"{row['weight']:.2f}" in text


def test_report_of_a_failed_sampler_says_so_first() -> None:
    with pytest.warns(bc.ConvergenceWarning):
        failed = bc.PlattCalibrator(random_state=1, progressbar=False, draws=4, tune=2, chains=2).fit(
            np.linspace(0.1, 0.9, 20), [0, 1, 0, 0, 1] * 4
        )
    text = Page(render_report(summary_of(failed), draw_figures(failed, ci_prob=0.8))).text
    assert text.index("Do not use these intervals yet") < text.index("In short")
    assert "passed all its convergence checks" not in text


def test_a_single_chain_is_not_called_converged() -> None:
    data = fitted()._require_rows()
    with pytest.warns(bc.ConvergenceWarning, match="not assessed"):
        single = bc.PlattCalibrator(random_state=1, progressbar=False, draws=500, chains=1).fit(
            data.scores, data.positive.astype(int)
        )
    summary = summary_of(single)
    assert summary["diagnostics"]["worst"][0]["r_hat_max"] is None
    text = Page(render_report(summary, draw_figures(single, ci_prob=0.8))).text
    assert "Convergence was not assessed" in text and "passed" not in text
