"""What the plots draw: `bayescal.plots`."""

from collections.abc import Callable
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from scipy.special import expit, logit
from scipy.stats import beta
from sklearn.exceptions import NotFittedError

import bayescal as bc
from bayescal.plots.reliability import observed_shares
from bayescal.validation import quiet

SETTINGS = {"draws": 100, "tune": 200, "chains": 2, "random_state": 1, "progressbar": False}


def simulate(n: int = 90, log_odds: Callable[[np.ndarray], np.ndarray] = lambda x: 0.4 * x) -> tuple:
    """Over-confident scores, or others, and outcomes."""
    rng = np.random.default_rng(5)
    x = rng.normal(0, 2, n)
    return expit(x), np.where(rng.random(n) < expit(log_odds(x)), "ill", "fit")


def fit(calibrator, scores, y, sample_weight=None):
    """Fit with too few draws for the convergence gate: what is drawn from the draws is what is tested."""
    with quiet(bc.ConvergenceWarning):
        return calibrator.fit(scores, y, sample_weight)


@pytest.fixture(scope="module")
def platt() -> bc.PlattCalibrator:
    scores, y = simulate()
    return fit(bc.PlattCalibrator(classes=["fit", "ill"], **SETTINGS), pd.DataFrame({"risk": scores}), y)


@pytest.fixture(scope="module")
def point() -> bc.PlattCalibrator:
    return bc.PlattCalibrator(inference="point").fit(*simulate())


@pytest.fixture(scope="module")
def raw() -> bc.PlattCalibrator:
    scores, y = simulate()
    return fit(bc.PlattCalibrator("raw", **SETTINGS), 100 * logit(scores), y)


@pytest.fixture(scope="module")
def bernstein() -> bc.BernsteinCalibrator:
    return fit(bc.BernsteinCalibrator(degree=4, **SETTINGS), *simulate())


@pytest.fixture(scope="module")
def stacked() -> bc.StackedCalibrator:
    return fit(bc.StackedCalibrator(members=("platt", "bernstein"), **SETTINGS), *simulate())


@pytest.fixture
def ax() -> Axes:
    """Axes of a figure that pyplot does not know."""
    return Figure(figsize=(6, 6)).add_subplot()


def lines(ax: Axes) -> dict[str, np.ndarray]:
    """Points (2, m) of the labelled lines."""
    return {str(line.get_label()): np.array(line.get_data()) for line in ax.lines if line.get_label()[0] != "_"}


def bands(ax: Axes) -> list[PolyCollection]:
    return [collection for collection in ax.collections if isinstance(collection, PolyCollection)]


def ends_of(band: PolyCollection, x: np.ndarray) -> np.ndarray:
    """Lower and upper end (2, m) of a band at its own x."""
    corners = band.get_paths()[0].vertices
    return np.array([[corners[corners[:, 0] == at, 1].min(), corners[corners[:, 0] == at, 1].max()] for at in x]).T


def legend_texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ------------------------------------------------------------------------------
# Shares observed in bins
# ------------------------------------------------------------------------------


def test_shares_are_counted_in_bins_of_equal_numbers() -> None:
    stated = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    positive = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    found = observed_shares(stated, positive, np.ones(6), 3, 0.9)
    np.testing.assert_allclose(found.x, [0.15, 0.35, 0.55])
    np.testing.assert_array_equal(found.share, [0.5, 0, 1])
    np.testing.assert_array_equal(found.cases, [2, 2, 2])


def test_intervals_are_those_of_jeffreys() -> None:
    # 0, 6 and 20 positives of 20. Quantiles of Beta(k + 1/2, 20 - k + 1/2), the ends at 0 and 1 replaced:
    # Brown, Cai & DasGupta (2001), section 4.1.2.
    stated = np.repeat([0.1, 0.5, 0.9], 20)
    positive = np.concatenate([np.zeros(20), np.ones(6), np.zeros(14), np.ones(20)])
    found = observed_shares(stated, positive, np.ones(60), 3, 0.95)
    np.testing.assert_allclose(found.lower, [0, *beta.ppf(0.025, [6.5, 20.5], [14.5, 0.5])], rtol=1e-9)
    np.testing.assert_allclose(found.upper, [*beta.ppf(0.975, [0.5, 6.5], [20.5, 14.5]), 1], rtol=1e-9)


def test_equal_probabilities_stay_together() -> None:
    found = observed_shares(np.full(10, 0.7), np.repeat([1.0, 0.0], [4, 6]), np.ones(10), 5, 0.9)
    assert found.x.tolist() == pytest.approx([0.7]) and found.share.tolist() == [0.4] and found.cases.tolist() == [10]
    tied = observed_shares(np.array([0, 0, 0, 0.5, 1]), np.zeros(5), np.ones(5), 5, 0.9)
    assert tied.cases.tolist() == [3, 1, 1]


@pytest.mark.parametrize("bins", [1, 3, 7, 40, np.array([0, 0.31, 0.32, 0.9, 1.0])])
def test_every_case_is_in_a_bin_and_no_bin_is_empty(bins: int | np.ndarray, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    stated = rng.choice([0, 0.3, 0.5, 0.9, 1, rng.random()], 30)
    weight = rng.integers(1, 4, 30).astype(float)
    positive = (rng.random(30) < 0.5).astype(float)
    found = observed_shares(stated, positive, weight, bins, 0.9)
    assert found.cases.sum() == weight.sum() and (found.cases > 0).all()
    assert found.share @ found.cases == pytest.approx(weight @ positive)
    assert (np.diff(found.x) > 0).all()
    assert ((found.lower >= 0) & (found.lower <= found.share)).all()
    assert ((found.share <= found.upper) & (found.upper <= 1)).all()
    repeat = weight.astype(int)
    twice = observed_shares(np.repeat(stated, repeat), np.repeat(positive, repeat), np.ones(repeat.sum()), bins, 0.9)
    for name, value in vars(found).items():
        np.testing.assert_allclose(getattr(twice, name), value, rtol=1e-9, err_msg=name)


def test_edges_own_their_left_end_and_empty_bins_are_left_out() -> None:
    tenths = np.linspace(0, 1, 11)  # holds 0.30000000000000004, 0.6000000000000001 and 0.7000000000000001
    for a in (0.1, 0.2, 0.3, 0.5, 0.6, 0.7):
        found = observed_shares(np.array([a, a + 0.05]), np.array([1.0, 0.0]), np.ones(2), tenths, 0.9)
        assert found.cases.tolist() == [2], a
    found = observed_shares(np.array([0.95, 1.0, 0.0, 0.04]), np.array([1.0, 1, 0, 0]), np.ones(4), tenths, 0.9)
    np.testing.assert_allclose(found.x, [0.02, 0.975])
    assert found.cases.tolist() == [2, 2]


# ------------------------------------------------------------------------------
# plot_reliability
# ------------------------------------------------------------------------------


def test_reliability_curves_are_the_posterior_of_the_calibration_curve(platt: bc.PlattCalibrator, ax: Axes) -> None:
    assert bc.plot_reliability(platt, ci_prob=0.8, ax=ax) is ax
    rows = platt._require_rows()
    x, y = lines(ax)["raw score"]
    assert x.min() == rows.scores.min() and x.max() == rows.scores.max()
    np.testing.assert_allclose(y, platt.predict_proba(x)[:, 1], rtol=1e-12)
    interval = platt.predict_interval(x, 0.8)[:, 1].T
    of_raw, of_calibrated = bands(ax)
    np.testing.assert_allclose(ends_of(of_raw, x[::40]), interval[:, ::40], rtol=1e-12)
    x_calibrated, y_calibrated = lines(ax)["calibrated"]
    np.testing.assert_array_equal(x_calibrated, y_calibrated)
    np.testing.assert_allclose(x_calibrated, y, rtol=1e-12)  # Platt's map increases: the order is that of the scores
    np.testing.assert_allclose(ends_of(of_calibrated, x_calibrated[::40]), interval[:, ::40], rtol=1e-12)


def test_reliability_says_what_is_drawn(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(platt, ax=ax)
    assert legend_texts(ax) == [
        "perfect calibration",
        "raw score, 90 % credible band",
        "calibrated, 90 % credible band",
        "observed, 10 cases each,\n90 % Jeffreys interval",  # 90 cases in 9 bins
    ]
    assert ax.get_xlabel() == "stated probability of class ill"
    assert ax.get_ylabel() == "observed frequency of class ill"
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    positives = int(platt._require_rows().positive.sum())
    assert f"{positives} of class ill" in ticks and f"{90 - positives} of class fit" in ticks
    styles = {line.get_linestyle() for line in ax.lines if line.get_label() in ("raw score", "calibrated")}
    assert len(styles) == 2  # told apart without colour


def test_reliability_points_are_the_rows(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(platt, bins=4, ci_prob=0.5, ax=ax)
    rows = platt._require_rows()
    containers = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    for stated, container in zip((rows.scores, platt.predict_proba(rows.scores)[:, 1]), containers, strict=True):
        found = observed_shares(stated, rows.positive, rows.weight, 4, 0.5)
        np.testing.assert_allclose(container[0].get_data(), [found.x, found.share], rtol=1e-12)
        segments = np.array(container[2][0].get_segments())
        np.testing.assert_allclose(segments[:, :, 1].T, [found.lower, found.upper], rtol=1e-12, atol=1e-15)
    assert containers[0][0].get_marker() != containers[1][0].get_marker()


@pytest.mark.parametrize(
    ("which", "names", "label"),
    [
        ("raw", ["raw score"], "score risk (stated probability of class ill)"),
        ("calibrated", ["calibrated"], "calibrated probability of class ill"),
        ("both", ["raw score", "calibrated"], "stated probability of class ill"),
    ],
)
def test_which_curves(platt: bc.PlattCalibrator, ax: Axes, which: str, names: list[str], label: str) -> None:
    bc.plot_reliability(platt, which=which, ax=ax)
    assert list(lines(ax)) == names
    assert ax.get_xlabel() == label
    assert len(bands(ax)) == len(names)


def test_raw_scores_have_a_calibrated_curve_only(raw: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(raw, ax=ax)
    assert list(lines(ax)) == ["calibrated"]
    with pytest.raises(bc.ScoreValueError, match="which='calibrated'"):
        bc.plot_reliability(raw, which="raw", ax=ax)


def test_point_estimate_has_no_band(point: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(point, ax=ax)
    x, y = lines(ax)["raw score"]
    np.testing.assert_allclose(y, point.predict_proba(x)[:, 1])
    assert bands(ax) == []
    assert legend_texts(ax)[1:3] == ["raw score, point estimate", "calibrated, point estimate"]


def test_log_odds_are_drawn_as_probabilities(point: bc.PlattCalibrator, ax: Axes) -> None:
    scores, y = simulate()
    by_logit = bc.PlattCalibrator("logit", inference="point").fit(logit(scores), y)
    bc.plot_reliability(by_logit, ax=ax)
    x, q = lines(ax)["raw score"]
    assert x.min() == pytest.approx(scores.min()) and x.max() == pytest.approx(scores.max())
    np.testing.assert_allclose(q, point.predict_proba(x)[:, 1], rtol=1e-6)


def test_histogram_counts_the_cases(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_reliability(platt, ax=ax)
    rows = platt._require_rows()
    up, down = (c for c in ax.containers if isinstance(c, BarContainer))
    heights = [np.array([bar.get_height() for bar in bars]) for bars in (up, down)]
    assert (heights[0] > 0).all() and (heights[1] < 0).all()
    # both classes on one scale
    assert heights[0].sum() / -heights[1].sum() == pytest.approx(rows.positive.sum() / (1 - rows.positive).sum())
    assert max(bar.get_y() + max(bar.get_height(), 0) for bar in [*up, *down]) < 0  # below the diagram
    other = Figure().add_subplot()
    bc.plot_reliability(platt, histogram=False, ax=other)
    assert not any(isinstance(c, BarContainer) for c in other.containers)
    assert [text.get_text() for text in other.get_yticklabels()] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert other.get_ylim()[0] > -0.05


def test_rows_of_weight_zero_are_not_drawn(ax: Axes) -> None:
    scores, y = simulate(40)
    weight = np.ones(40)
    weight[:10] = 0
    bc.plot_reliability(bc.PlattCalibrator(inference="point").fit(scores, y, weight), bins=1, ax=ax)
    assert "30 cases each" in legend_texts(ax)[-1]


def test_equal_scores_can_be_drawn(ax: Axes) -> None:
    with quiet(bc.CalibrationWarning):
        calibrator = bc.PlattCalibrator(inference="point").fit(np.full(20, 0.3), np.arange(20) % 2)
    bc.plot_reliability(calibrator, ax=ax)
    container = next(c for c in ax.containers if isinstance(c, ErrorbarContainer))
    np.testing.assert_allclose(container[0].get_data(), [[0.3], [0.5]])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"which": "posterior"}, "which must be one of"),
        ({"ci_prob": 1.0}, "ci_prob"),
        ({"bins": 0}, "at least 1"),
        ({"bins": True}, "whole number"),
        ({"bins": [0.1, 0.5, 1]}, "rise from 0 to 1"),
        ({"bins": [0, 0.5, 0.5, 1]}, "rise from 0 to 1"),
        ({"bins": "ten"}, "rise from 0 to 1"),
    ],
)
def test_reliability_settings_are_checked(point: bc.PlattCalibrator, settings: dict, says: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=says):
        bc.plot_reliability(point, **settings)
    assert plt.get_fignums() == []  # no empty figure is left behind


def test_names_are_drawn_as_they_are() -> None:
    scores, y = simulate()
    table = pd.DataFrame({"cost $a_$, in dollars a day": scores})
    calibrator = bc.PlattCalibrator(inference="point").fit(table, np.where(y == "ill", "b$\n5$ and even more", "a$"))
    for plot in (bc.plot_calibration_map, lambda cal, ax: bc.plot_reliability(cal, which="raw", ax=ax)):
        figure = Figure()
        ax = plot(calibrator, ax=figure.add_subplot())
        figure.draw_without_rendering()  # a single "$a_$" is no mathematics that matplotlib can read
        label = ax.get_xlabel().replace("\\$", "$")
        assert label == "score cost $a_$, in dolla… (stated probability of class b$ 5$ and eve…)"


# ------------------------------------------------------------------------------
# plot_calibration_map
# ------------------------------------------------------------------------------


def test_map_is_posterior_and_point_estimate(platt: bc.PlattCalibrator, ax: Axes) -> None:
    assert bc.plot_calibration_map(platt, ci_prob=0.8, ax=ax) is ax
    drawn = lines(ax)
    x, mean = drawn["posterior mean"]
    assert x[0] == 0 and x[-1] == 1
    np.testing.assert_allclose(mean, platt.predict_proba(x)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(drawn["point estimate"][1], platt.predict_point(x)[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(*drawn["score taken at its word"])
    (band,) = bands(ax)
    np.testing.assert_allclose(ends_of(band, x[::40]), platt.predict_interval(x, 0.8)[::40, 1].T, rtol=1e-12)
    assert band.get_label() == "80 % credible band"
    assert legend_texts(ax) == [
        "score taken at its word",
        "80 % credible band",
        "posterior mean",
        "point estimate",
        "cases: class ill at the top",
    ]
    assert ax.get_xlabel() == "score risk (stated probability of class ill)"
    assert ax.get_ylabel() == "probability of class ill"


def test_map_without_point_estimate(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(platt, point=False, ax=ax)
    assert "point estimate" not in lines(ax)


def test_map_of_a_point_estimate_draws_it_once(point: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(point, ax=ax)
    assert [name for name in lines(ax) if name != "cases: class ill at the top"] == [
        "score taken at its word",
        "point estimate",
    ]
    assert bands(ax) == []


def test_rug_shows_every_case_on_its_side(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(platt, ax=ax)
    rows = platt._require_rows()
    rugs = [np.array(line.get_data()) for line in ax.lines if line.get_marker() == "|"]
    for (x, y), positive, is_beyond in zip(rugs, (1, 0), (np.greater, np.less), strict=True):
        assert is_beyond(y, positive).all()
        distance = np.abs(rows.scores[rows.positive == positive][:, None] - x).min(axis=1)
        assert distance.max() <= 0.5 / 500 + 1e-12
        assert len(x) <= (rows.positive == positive).sum()


def test_map_of_raw_scores_and_log_odds(raw: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(raw, ax=ax)
    scores = raw._require_rows().scores
    x = lines(ax)["posterior mean"][0]
    assert x[0] < scores.min() and scores.max() < x[-1]
    assert "score taken at its word" not in lines(ax)
    assert ax.get_xlabel() == "score (larger: class ill is likelier)"
    probabilities, y = simulate()
    other = Figure().add_subplot()
    bc.plot_calibration_map(bc.PlattCalibrator("logit", inference="point").fit(logit(probabilities), y), ax=other)
    x, q = lines(other)["score taken at its word"]
    np.testing.assert_allclose(q, expit(x))
    assert other.get_xlabel() == "score (stated log-odds of class ill)"


def test_prior_band_is_the_map_of_prior_draws(platt: bc.PlattCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(platt, prior=True, ax=ax)
    band = bands(ax)[0]
    assert band.get_label() == "prior, 90 % band"
    x = lines(ax)["posterior mean"][0][40:-40:50]
    prior = platt.idata_["prior"]
    q = expit(prior["intercept"].to_numpy()[0][:, None] + prior["slope"].to_numpy()[0][:, None] * logit(x))
    np.testing.assert_allclose(ends_of(band, x), np.quantile(q, [0.05, 0.95], axis=0), rtol=1e-9)


def test_prior_of_a_flexible_map(bernstein: bc.BernsteinCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(bernstein, prior=True, ax=ax)
    x = lines(ax)["posterior mean"][0][20:-20:50]
    prior, posterior = (ends_of(band, x) for band in bands(ax))
    assert ((prior[1] - prior[0]) > (posterior[1] - posterior[0])).all()  # 90 cases say something everywhere


def test_stacked_average_shows_its_members(stacked: bc.StackedCalibrator, ax: Axes) -> None:
    bc.plot_calibration_map(stacked, ax=ax)
    drawn = lines(ax)
    assert "point estimate" not in drawn
    for name, member in stacked.members_.items():
        x, mean = drawn[f"{name}, weight {stacked.weights_[name]:.2f}"]
        np.testing.assert_allclose(mean, member.predict_proba(x)[:, 1], rtol=1e-12)
    with pytest.raises(bc.ParameterValueError, match=r"calibrator.members_\['platt'\]"):
        bc.plot_calibration_map(stacked, prior=True, ax=ax)
    other = Figure().add_subplot()
    bc.plot_reliability(stacked, ax=other)
    assert list(lines(other)) == ["raw score", "calibrated"] and len(bands(other)) == 2


def test_map_without_calibration_rows(point: bc.PlattCalibrator, raw: bc.PlattCalibrator, ax: Axes) -> None:
    without = {}
    for name, calibrator in (("point", point), ("raw", raw)):
        without[name] = type(calibrator)(**calibrator.get_params())
        without[name].__dict__.update(calibrator.__dict__)
        without[name]._rows = None
    bc.plot_calibration_map(without["point"], ax=ax)
    assert all(line.get_marker() != "|" for line in ax.lines)
    for plot, calibrator in ((bc.plot_calibration_map, without["raw"]), (bc.plot_reliability, without["point"])):
        with pytest.raises(bc.NoPosteriorError, match="include_data"):
            plot(calibrator, ax=ax)


def test_prior_of_a_point_estimate_is_not_drawn(point: bc.PlattCalibrator) -> None:
    with pytest.raises(bc.NoPosteriorError):
        bc.plot_calibration_map(point, prior=True)
    assert plt.get_fignums() == []


# ------------------------------------------------------------------------------
# plot_prior_posterior
# ------------------------------------------------------------------------------


def test_scalars_are_densities(platt: bc.PlattCalibrator) -> None:
    axes = bc.plot_prior_posterior(platt)
    assert [ax.get_xlabel() for ax in axes] == ["intercept", "slope"]
    assert legend_texts(axes[0]) == ["prior", "posterior"]
    for ax, name in zip(axes, ("intercept", "slope"), strict=True):
        draws = platt.idata_["posterior"][name].to_numpy().reshape(-1)
        x, density = lines(ax)["posterior"]
        mass = density * np.gradient(x)
        assert mass.sum() == pytest.approx(0.99, abs=0.03)  # the axis shows 99 % of the posterior
        assert mass @ x / mass.sum() == pytest.approx(draws.mean(), abs=0.15 * draws.std())
        low, high = ax.get_xlim()
        prior = platt.idata_["prior"][name].to_numpy().reshape(-1)
        x, density = lines(ax)["prior"]
        inside = np.mean((prior > low) & (prior < high))
        assert density @ np.gradient(x) == pytest.approx(inside, abs=0.05)


def test_vectors_are_intervals(bernstein: bc.BernsteinCalibrator) -> None:
    axes = bc.plot_prior_posterior(bernstein, ci_prob=0.8)
    labels = [ax.get_xlabel() for ax in axes]
    assert labels == ["concentration", "element of coefficients"]
    ax = axes[1]
    assert ax.get_ylabel() == "mean, 80 % interval"
    for group, container in zip(("prior", "posterior"), ax.containers, strict=True):
        draws = bernstein.idata_[group]["coefficients"].to_numpy().reshape(-1, 5)
        x, mean = container[0].get_data()
        np.testing.assert_array_equal(np.round(x), np.arange(5))
        np.testing.assert_allclose(mean, draws.mean(axis=0), rtol=1e-12)
        segments = np.array(container[2][0].get_segments())[:, :, 1].T
        np.testing.assert_allclose(segments, np.quantile(draws, [0.1, 0.9], axis=0), rtol=1e-9)
        assert container.get_label() == group


def test_parameters_are_chosen_by_name(bernstein: bc.BernsteinCalibrator) -> None:
    assert len(bc.plot_prior_posterior(bernstein, parameters="gamma")) == 1  # auxiliary, but asked for
    axes = bc.plot_prior_posterior(bernstein, parameters=["coefficients", "concentration"])
    assert [ax.get_xlabel() for ax in axes] == ["element of coefficients", "concentration"]
    for names in (["slope"], []):
        with pytest.raises(bc.ParameterValueError, match="concentration, "):
            bc.plot_prior_posterior(bernstein, parameters=names)


def test_axes_given_are_used(platt: bc.PlattCalibrator) -> None:
    mine = Figure().subplots(2, 1)
    returned = bc.plot_prior_posterior(platt, axes=mine)
    assert list(returned) == list(mine) and plt.get_fignums() == []
    single = Figure().add_subplot()
    assert bc.plot_prior_posterior(platt, parameters="slope", axes=single)[0] is single
    with pytest.raises(bc.ParameterValueError, match="each of the 2 parameters, got 1"):
        bc.plot_prior_posterior(platt, axes=[single])


def test_only_a_model_has_parameters(stacked: bc.StackedCalibrator, point: bc.PlattCalibrator) -> None:
    with pytest.raises(bc.ParameterValueError, match=r"Pass a member, such as calibrator.members_\['platt'\]"):
        bc.plot_prior_posterior(stacked)
    assert len(bc.plot_prior_posterior(stacked.members_["platt"])) == 2
    with pytest.raises(bc.NoPosteriorError):
        bc.plot_prior_posterior(point)


# ------------------------------------------------------------------------------
# Manners
# ------------------------------------------------------------------------------

PLOTS = {
    "reliability": bc.plot_reliability,
    "calibration_map": bc.plot_calibration_map,
    "prior_posterior": lambda calibrator, ax=None: bc.plot_prior_posterior(calibrator, parameters="slope", axes=ax),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_nothing_else_is_touched(plot: Callable, platt: bc.PlattCalibrator, ax: Axes) -> None:
    current, mine = plt.subplots()
    settings, random_state = dict(matplotlib.rcParams), np.random.get_state()[1].copy()  # noqa: NPY002
    figures = plt.get_fignums()
    plot(platt, ax=ax)
    assert plt.get_fignums() == figures and plt.gcf() is current and plt.gca() is mine
    assert not mine.has_data() and len(ax.figure.axes) == 1
    assert dict(matplotlib.rcParams) == settings
    np.testing.assert_array_equal(np.random.get_state()[1], random_state)  # noqa: NPY002
    plot(platt)
    assert len(plt.get_fignums()) == len(figures) + 1 and not mine.has_data()


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_an_unfitted_calibrator_is_refused(plot: Callable) -> None:
    with pytest.raises(NotFittedError):
        plot(bc.PlattCalibrator())
    assert plt.get_fignums() == []


SHAPES = {
    "over-confident": lambda x: 0.4 * x,
    "too low": lambda x: x + 2,
    "too high": lambda x: x - 2,
    "reversed": lambda x: -x,
}


@pytest.mark.filterwarnings("ignore::bayescal.CalibrationWarning")
@pytest.mark.parametrize("figsize", [(6, 6), (6.4, 5.2), (4, 3.5)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plot", [bc.plot_reliability, bc.plot_calibration_map])
def test_legend_covers_no_curve_and_no_label_is_cut(plot: Callable, shape: str, figsize: tuple[float, float]) -> None:
    calibrator = bc.IsotonicCalibrator(inference="point").fit(*simulate(90, SHAPES[shape]))
    figure = Figure(figsize=figsize, layout="constrained")
    ax = plot(calibrator, ax=figure.add_subplot())
    figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        points = ax.transData.transform(np.column_stack(line.get_data()))
        if line.get_transform() is ax.transData:
            assert not any(box.contains(*p) for p in points), line.get_label()
    labels = [ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()]
    extents = [label.get_window_extent() for label in labels]
    assert all(figure.bbox.containsx(e.x0) and figure.bbox.containsx(e.x1) for e in extents)
    assert all(figure.bbox.containsy(e.y0) and figure.bbox.containsy(e.y1) for e in extents)
    ticks = sorted((e.y0, e.y1) for e in extents[2:])
    assert all(above[0] > below[1] - 2 for below, above in pairwise(ticks))  # do not overlap
