"""What `bayescal.plot_surface` draws."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.path import Path
from scipy.special import expit
from sklearn.exceptions import NotFittedError

import bayescal as bc
from bayescal.validation import quiet

NAMES = ["ecg", "lab", "age"]


def simulate(n: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    """Three scores of the same cases, and outcomes that follow their mean."""
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1.2, (n, 3))
    return pd.DataFrame(expit(x), columns=NAMES), np.where(rng.random(n) < expit(x.mean(axis=1) * 2), "ill", "fit")


def fuse(columns: list[str], score_kind: str = "proba", times: float = 1.0, weight: Any = None, **settings: Any) -> Any:
    """Logistic fusion with too few draws for the convergence gate: what is drawn from the draws is tested."""
    scores, y = simulate()
    settings = {"draws": 100, "tune": 200, "chains": 2, "random_state": 1, "progressbar": False, **settings}
    with quiet(bc.ConvergenceWarning):
        return bc.PlattCalibrator(score_kind, **settings).fit(scores[columns] * times, y, weight)


@pytest.fixture(scope="module")
def two() -> bc.PlattCalibrator:
    return fuse(["ecg", "lab"])


@pytest.fixture(scope="module")
def three() -> bc.PlattCalibrator:
    return fuse(NAMES)


@pytest.fixture(scope="module")
def point() -> bc.PlattCalibrator:
    return fuse(["ecg", "lab"], inference="point")


@pytest.fixture
def pair() -> np.ndarray:
    """Two Axes of a figure that pyplot does not know."""
    return Figure(figsize=(11, 5)).subplots(1, 2)


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(6, 5)).add_subplot()


def filled(ax: Axes) -> QuadContourSet:
    return next(c for c in ax.collections if isinstance(c, QuadContourSet) and c.filled)


def points(ax: Axes) -> dict[str, np.ndarray]:
    """Drawn cases (m, 2) by label."""
    return {str(line.get_label()): np.column_stack(line.get_data()) for line in ax.lines}


def shown_at(ax: Axes, values: np.ndarray, scores: np.ndarray) -> bool:
    """Whether each value lies in the contour interval that covers its scores, but for straight lines on the grid."""
    contours = filled(ax)
    covered = np.zeros(len(scores), dtype=int)
    for low, high, path in zip(contours.levels[:-1], contours.levels[1:], contours.get_paths(), strict=True):
        rings = [Path(ring).contains_points(scores) for ring in path.to_polygons()]
        inside = np.sum(rings, axis=0) % 2 == 1 if rings else np.zeros(len(scores), dtype=bool)  # holes are rings too
        covered += inside
        if not ((values[inside] > low - 0.02) & (values[inside] < high + 0.02)).all():
            return False
    return bool((covered == 1).all())


# ------------------------------------------------------------------------------
# What the panels show
# ------------------------------------------------------------------------------


def test_panels_are_mean_and_width(two: bc.PlattCalibrator, pair: np.ndarray, random_seed: int) -> None:
    returned = bc.plot_surface(two, ci_prob=0.8, ax=pair)
    assert list(returned) == list(pair)
    at = np.random.default_rng(random_seed).uniform(0.03, 0.97, (200, 2))
    table = two.predict_table(at, ci_prob=0.8)
    assert shown_at(pair[0], table["mean"].to_numpy(), at)
    assert shown_at(pair[1], (table["upper"] - table["lower"]).to_numpy(), at)
    assert not shown_at(pair[0], table["mean"].to_numpy(), at[:, ::-1])  # axes are not swapped


def test_panels_say_what_they_show(two: bc.PlattCalibrator, pair: np.ndarray) -> None:
    bc.plot_surface(two, ci_prob=0.8, ax=pair)
    assert [ax.get_title() for ax in pair] == [
        "posterior mean: probability of class ill",
        "how well it is known: width of the 80 % interval",
    ]
    for ax in pair:
        assert ax.get_xlabel() == "score ecg\n(stated probability of class ill)"
        assert ax.get_ylabel() == "score lab\n(stated probability of class ill)"


def test_cases_are_on_top_by_class(two: bc.PlattCalibrator, pair: np.ndarray) -> None:
    bc.plot_surface(two, ax=pair)
    rows = two._require_rows()
    for ax in pair:
        for (label, drawn), positive in zip(points(ax).items(), (0, 1), strict=True):
            of_class = rows.scores[rows.positive == positive]
            assert label == f"{len(of_class)} cases: class {two.classes_[positive]}"
            distance = np.abs(of_class[:, None] - drawn).max(axis=2).min(axis=1)
            assert distance.max() <= 0.01 + 1e-12  # nearly coinciding cases share a marker
        negative, positive = ax.lines
        assert negative.get_marker() != positive.get_marker()  # told apart in black and white
        assert negative.get_markerfacecolor() == positive.get_markeredgecolor() == "white"
        assert negative.get_zorder() > filled(ax).get_zorder()
        assert [text.get_text() for text in ax.get_legend().get_texts()] == list(points(ax))


def test_lightness_rises_or_falls_along_the_colours(two: bc.PlattCalibrator, pair: np.ndarray) -> None:
    bc.plot_surface(two, ax=pair)
    for ax in pair:
        grey = filled(ax).cmap(np.linspace(0, 1, 20))[:, :3] @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(grey) < 0).all()  # readable in black and white


def test_one_panel_is_one_axes(two: bc.PlattCalibrator, ax: Axes) -> None:
    assert bc.plot_surface(two, which="width", ax=ax) is ax
    other = Figure().add_subplot()
    assert bc.plot_surface(two, which="mean", ax=[other]) is other
    assert ax.get_title().startswith("how well") and other.get_title().startswith("posterior mean")


def test_point_estimate_has_no_width(point: bc.PlattCalibrator, ax: Axes) -> None:
    assert bc.plot_surface(point, ax=ax) is ax
    assert ax.get_title() == "point estimate: probability of class ill"
    at = np.random.default_rng(1).uniform(0.03, 0.97, (200, 2))
    assert shown_at(ax, point.predict_proba(at)[:, 1], at)
    with pytest.raises(bc.NoPosteriorError, match="width"):
        bc.plot_surface(point, which="width")


def test_a_calibrator_without_a_posterior_can_be_drawn(ax: Axes) -> None:
    scores, y = simulate()
    fitted = bc.MRMICCalibrator().fit(scores[["ecg", "lab"]], y)
    bc.plot_surface(fitted, ax=ax)
    assert ax.get_title().startswith("point estimate")
    with pytest.raises(bc.NoPosteriorError, match="mrmic"):
        bc.plot_surface(fitted, which="width")


def test_an_average_is_drawn_as_a_whole(pair: np.ndarray) -> None:
    scores, y = simulate()
    settings = {"draws": 100, "tune": 200, "chains": 2, "random_state": 1, "progressbar": False}
    with quiet(bc.ConvergenceWarning):
        average = bc.StackedCalibrator(members=("platt",), **settings).fit(scores[["ecg", "lab"]], y)
    bc.plot_surface(average, ax=pair)
    at = np.random.default_rng(2).uniform(0.03, 0.97, (200, 2))
    assert shown_at(pair[0], average.predict_proba(at)[:, 1], at)


# ------------------------------------------------------------------------------
# Slices
# ------------------------------------------------------------------------------


def test_slices_hold_the_others_at_medians(three: bc.PlattCalibrator, pair: np.ndarray) -> None:
    bc.plot_surface(three, ax=pair)
    median = np.quantile(simulate()[0]["age"], 0.5, method="inverted_cdf")
    assert all(ax.get_title().endswith(f"\nat age = {median:.3g}") for ax in pair)
    at = np.random.default_rng(3).uniform(0.03, 0.97, (200, 3))
    at[:, 2] = median
    assert shown_at(pair[0], three.predict_proba(at)[:, 1], at[:, :2])
    assert sum(map(len, points(pair[0]).values())) > 70  # the cases, whatever their third score is


@pytest.mark.parametrize("names", [True, False])
def test_slices_through_chosen_scores(names: bool, three: bc.PlattCalibrator, ax: Axes) -> None:
    scores, held = (("age", "ecg"), {"lab": 0.9}) if names else ((2, 0), {1: 0.9})
    bc.plot_surface(three, which="mean", scores=scores, held=held, ax=ax)
    assert ax.get_xlabel().startswith("score age") and ax.get_ylabel().startswith("score ecg")
    assert ax.get_title().endswith("\nat lab = 0.9")
    at = np.random.default_rng(4).uniform(0.03, 0.97, (200, 3))
    at[:, 1] = 0.9
    assert shown_at(ax, three.predict_proba(at)[:, 1], at[:, [2, 0]])


def test_medians_count_weights(ax: Axes) -> None:
    weight = np.zeros(80)
    weight[:30] = 1
    weight[7] = 40  # more than all others
    weighted = fuse(NAMES, weight=weight, inference="point")
    bc.plot_surface(weighted, ax=ax)
    assert ax.get_title().endswith(f"at age = {simulate()[0]['age'][7]:.3g}")
    assert sum(map(len, points(ax).values())) <= 30
    assert sum(float(label.split()[0]) for label in points(ax)) == 69


# ------------------------------------------------------------------------------
# Kinds of scores
# ------------------------------------------------------------------------------


def test_raw_scores_are_drawn_on_their_own_ranges(ax: Axes) -> None:
    raw = fuse(["ecg", "lab"], "raw", times=pd.Series({"ecg": 500.0, "lab": 0.02}), inference="point")
    bc.plot_surface(raw, ax=ax)
    seen = raw._require_rows().scores
    for column, limits in enumerate((ax.get_xlim(), ax.get_ylim())):
        low, high = seen[:, column].min(), seen[:, column].max()
        assert low - 0.1 * (high - low) < limits[0] < low < high < limits[1] < high + 0.1 * (high - low)
    assert ax.get_xlabel() == "score ecg\n(larger: class ill is likelier)"
    at = np.random.default_rng(1).uniform([0, 0], [500, 0.02], (200, 2))
    inside = (at > seen.min(axis=0)).all(axis=1) & (at < seen.max(axis=0)).all(axis=1)
    assert shown_at(ax, raw.predict_proba(at[inside])[:, 1], at[inside])


def test_probabilities_are_drawn_over_the_unit_square(two: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_surface(two, which="mean", ax=ax)
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((-0.02, 1.02))
    assert filled(ax).levels == pytest.approx(np.linspace(0, 1, 11))


def test_columns_without_names_have_numbers(ax: Axes) -> None:
    scores, y = simulate()
    bc.plot_surface(bc.PlattCalibrator(inference="point").fit(scores.to_numpy(), y), ax=ax)
    assert ax.get_xlabel().startswith("score column 0") and "at column 2 = " in ax.get_title()


def test_a_flat_surface_can_be_drawn(ax: Axes) -> None:
    with quiet(bc.CalibrationWarning):
        flat = bc.PlattCalibrator(inference="point").fit(np.full((20, 3), 0.3), np.arange(20) % 2)
    bc.plot_surface(flat, ax=ax)
    assert np.ptp(filled(ax).levels) >= 0.01


def test_without_calibration_rows(two: bc.PlattCalibrator, three: bc.PlattCalibrator, ax: Axes, tmp_path: Any) -> None:
    raw = fuse(["ecg", "lab"], "raw", inference="point")
    without = {}
    for name, calibrator in {"two": two, "three": three, "raw": raw}.items():
        calibrator.save(tmp_path / "fit.nc", include_data=False)
        without[name] = bc.load(tmp_path / "fit.nc")
    bc.plot_surface(without["two"], which="mean", ax=ax)
    assert ax.lines == [] or not list(ax.lines)
    bc.plot_surface(without["three"], which="mean", held={"age": 0.5}, ax=ax)
    for name in ("three", "raw"):  # no medians, no range
        with pytest.raises(bc.NoPosteriorError, match="include_data"):
            bc.plot_surface(without[name], which="mean", ax=ax)


# ------------------------------------------------------------------------------
# Manners
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"which": "sd"}, "which must be one of"),
        ({"ci_prob": 1}, "ci_prob"),
        ({"scores": (0, 3)}, "numbers from 0 to 2, or names out of 'ecg', 'lab', 'age', got 3"),
        ({"scores": ("ecg", "bmi")}, "got 'bmi'"),
        ({"scores": (True, 1)}, "got True"),
        ({"scores": (1, "lab")}, "two different"),
        ({"scores": "ecg"}, "two of the fit's columns"),
        ({"scores": (0, 1, 2)}, "two of the fit's columns"),
        ({"held": {"ecg": 0.5}}, "'ecg', which is drawn"),
        ({"held": {3: 0.5}}, "columns in held"),
        ({"held": 0.5}, "map columns to values"),
        ({"ax": [1]}, "2 Axes"),
    ],
)
def test_settings_are_checked(three: bc.PlattCalibrator, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=says):
        bc.plot_surface(three, **settings)
    assert plt.get_fignums() == []


def test_held_values_are_scores(three: bc.PlattCalibrator) -> None:
    for value, says in ((2.0, r"held\['age'\] must lie in \[0, 1\]"), (np.nan, "finite"), ("high", "numbers")):
        with pytest.raises(bc.ScoreValueError, match=says):
            bc.plot_surface(three, held={"age": value})


def test_calibrators_of_one_score_are_sent_to_their_own_plot() -> None:
    scores, y = simulate()
    one = bc.PlattCalibrator(inference="point").fit(scores["ecg"], y)
    with pytest.raises(bc.ScoreValueError, match="plot_calibration_map"):
        bc.plot_surface(one)
    with pytest.raises(NotFittedError):
        bc.plot_surface(bc.PlattCalibrator())
    assert plt.get_fignums() == []


def test_nothing_else_is_touched(two: bc.PlattCalibrator, pair: np.ndarray) -> None:
    current, mine = plt.subplots()
    settings, random_state = dict(matplotlib.rcParams), np.random.get_state()[1].copy()  # noqa: NPY002
    bc.plot_surface(two, ax=pair)
    assert plt.get_fignums() == [current.number] and plt.gca() is mine and not mine.has_data()
    assert pair[0].figure.axes == list(pair)  # the colour bars are inside of them
    assert dict(matplotlib.rcParams) == settings
    np.testing.assert_array_equal(np.random.get_state()[1], random_state)  # noqa: NPY002
    axes = bc.plot_surface(two)
    assert axes.shape == (2,) and len(plt.get_fignums()) == 2


@pytest.mark.parametrize("figsize", [(11, 5), (8, 4)])
def test_no_word_is_cut_or_covered(three: bc.PlattCalibrator, figsize: tuple[float, float]) -> None:
    figure = Figure(figsize=figsize, layout="constrained")
    axes = bc.plot_surface(three, ax=figure.subplots(1, 2))
    figure.draw_without_rendering()
    boxes = []
    for ax in axes:
        bar = ax.child_axes[0]
        boxes.append([t.get_window_extent() for t in (ax.title, ax.xaxis.label, ax.yaxis.label)])
        boxes[-1] += [ax.get_legend().get_window_extent(), bar.get_tightbbox()]
        for box in boxes[-1]:
            assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
        title, x_label, _, legend, _ = boxes[-1]
        assert not x_label.overlaps(legend) and not title.overlaps(ax.get_window_extent())
    assert not any(left.overlaps(right) for left in boxes[0] for right in boxes[1])
