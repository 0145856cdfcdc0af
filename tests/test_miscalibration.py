"""How miscalibrated the raw score was: `bayescal.miscalibration`."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import Rows
from bayescal.evaluation import measures
from bayescal.evaluation import miscalibration as module
from bayescal.evaluation.measures import logistic_fits, logistic_measures
from bayescal.evaluation.miscalibration import MEASURES, Miscalibration
from bayescal.validation import quiet


class KnownCurves(Calibrator):
    """A calibrator whose posterior draws are curves that the test writes down."""

    def __init__(self, curves: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int], score_kind: str = "proba"):
        self.curves = curves
        self.shape = shape
        self.score_kind = score_kind
        self.classes_ = np.array([0, 1])
        self._n_scores = 1

    def fit(self) -> "KnownCurves":
        return self

    @property
    def _draw_shape(self) -> tuple[int, int]:
        return self.shape

    def _proba_draws(self, scores: np.ndarray) -> np.ndarray:
        return self.curves(scores)


def simulate(rng: np.random.Generator, n: int, slope: float, intercept: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a classifier, and outcomes of log-odds `intercept + slope * logit(score)`."""
    scores = expit(rng.normal(-0.5, 2.0, n))
    return scores, (rng.random(n) < expit(intercept + slope * logit(scores))).astype(int)


def fit(calibrator: Calibrator, scores: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None):
    """Fit with too few draws for the convergence gate: the arithmetic on the draws is what is tested."""
    with quiet(bc.ConvergenceWarning):
        return calibrator.fit(scores, y, sample_weight)


@pytest.fixture(scope="module")
def platt() -> bc.PlattCalibrator:
    scores, y = simulate(np.random.default_rng(7), 200, 0.5, 0.3)
    return fit(bc.PlattCalibrator(draws=100, tune=200, chains=3, random_state=1, progressbar=False), scores, y)


def flat(found: Miscalibration, name: str) -> np.ndarray:
    return found.draws[name].to_numpy().reshape(-1)


# ------------------------------------------------------------------------------
# The measures
# ------------------------------------------------------------------------------


def test_platt_draws_are_their_own_slope_and_intercept(platt: bc.PlattCalibrator) -> None:
    # The outcomes' log-odds are a line in logit(s): the fit to them returns that line, draw by draw.
    found = bc.miscalibration(platt).draws
    posterior = platt.idata_.posterior
    np.testing.assert_allclose(found["slope"], posterior["slope"], rtol=1e-7)
    np.testing.assert_allclose(found["intercept"], posterior["intercept"], rtol=1e-6, atol=1e-9)


def test_measures_are_those_of_the_rows_written_out(platt: bc.PlattCalibrator) -> None:
    scores = np.array([0.02, 0.3, 0.3, 0.3, 0.55, 0.8, 0.97])
    found = bc.miscalibration(platt, scores)
    q = platt.proba_draws(scores)[..., 1].to_numpy().reshape(-1, len(scores))
    distance = np.abs(q - scores)
    np.testing.assert_allclose(flat(found, "ici"), distance.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(flat(found, "bias"), (q - scores).mean(axis=1), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(flat(found, "emax"), distance.max(axis=1), rtol=1e-12)
    for name, level in (("e50", 0.5), ("e90", 0.9)):
        quantile = np.quantile(distance, level, axis=1, method="inverted_cdf")
        np.testing.assert_allclose(flat(found, name), quantile, rtol=1e-12)
    for draw in (0, 17, 299):
        a = brentq(lambda a, q=q[draw]: (expit(a + logit(scores)) - q).sum(), -20, 20, xtol=1e-13)
        assert flat(found, "in_the_large")[draw] == pytest.approx(a, abs=1e-8)


def test_slope_and_intercept_maximise_the_likelihood() -> None:
    s = np.array([0.05, 0.2, 0.4, 0.7, 0.9])
    weight = np.array([3.0, 1.0, 2.0, 0.5, 4.0])
    q = np.array([[0.3, 0.31, 0.32, 0.8, 0.81], [0.9, 0.6, 0.6, 0.2, 0.1], [1e-5, 1e-5, 0.5, 1 - 1e-5, 1 - 1e-5]])
    calibrator = KnownCurves(lambda at: q[:, np.searchsorted(s, at)], (1, 3))
    calibrator._rows = Rows(s, np.zeros(5), weight)
    calibrator._require_rows = lambda: calibrator._rows
    found = bc.miscalibration(calibrator)
    for draw in range(3):

        def loss(b: np.ndarray, draw: int = draw) -> float:
            eta = b[0] + b[1] * logit(s)
            return weight @ (np.logaddexp(0, eta) - q[draw] * eta)

        best = minimize(
            loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000}
        )
        expected = best.x
        assert flat(found, "intercept")[draw] == pytest.approx(expected[0], abs=1e-5)
        assert flat(found, "slope")[draw] == pytest.approx(expected[1], abs=1e-5)


@given(
    st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=6, unique=True),
    st.data(),
)
def test_score_equations_hold_for_any_curve(s: list[float], data: st.DataObject) -> None:
    # Where the fit is right, weighted residuals and weighted residuals times log-odds sum to 0.
    x = logit(np.array(s))
    if np.ptp(x) < 0.01:
        return  # nothing tells slope from intercept to this accuracy
    q = np.array([data.draw(st.lists(st.floats(0, 1), min_size=len(s), max_size=len(s))) for _ in range(2)])
    weight = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=len(s), max_size=len(s))))
    found = logistic_measures(x, q, weight / weight.sum())
    q = np.clip(q, 1e-6, 1 - 1e-6)
    share = weight / weight.sum()
    p = expit(found["intercept"][:, None] + found["slope"][:, None] * x)
    np.testing.assert_allclose((q - p) @ share, 0, atol=1e-7)
    np.testing.assert_allclose((q - p) @ (share * x), 0, atol=1e-6)
    p = expit(found["in_the_large"][:, None] + x)
    np.testing.assert_allclose((q - p) @ share, 0, atol=1e-7)


def test_a_fit_that_does_not_arrive_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "NEWTON_STEPS", 1)
    design = np.array([[1.0, -1.0], [1.0, 1.0]])
    q = np.array([[0.1, 0.9], [0.5, 0.5]])
    found = logistic_fits(design, np.zeros(2), q, np.full(2, 0.5), np.zeros((2, 2)))
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], [0, 0])


def test_signs() -> None:
    s = np.linspace(0.1, 0.9, 9)
    lines = np.array([[0.5, 0.0], [2.0, 0.0], [1.0, 0.7], [1.0, -0.7]])  # slope, intercept of four draws
    calibrator = KnownCurves(lambda at: expit(lines[:, 1:] + lines[:, :1] * logit(at)), (2, 2))
    found = bc.miscalibration(calibrator, s)
    np.testing.assert_allclose(flat(found, "slope"), lines[:, 0], rtol=1e-8)  # below 1: the score is too extreme
    np.testing.assert_allclose(flat(found, "intercept"), lines[:, 1], atol=1e-8)
    np.testing.assert_allclose(flat(found, "in_the_large"), lines[:, 1], atol=1e-8)  # s is symmetric around 1/2
    np.testing.assert_allclose(np.sign(flat(found, "bias").round(12)), [0, 0, 1, -1])  # positive: the score is too low


def test_identity_is_calibrated() -> None:
    found = bc.miscalibration(KnownCurves(lambda at: np.tile(at, (4, 1)), (2, 2)), np.linspace(0.01, 0.99, 50))
    ideal = {name: 1.0 if name == "slope" else 0.0 for name in MEASURES}
    for name, value in ideal.items():
        np.testing.assert_allclose(found.draws[name], value, atol=1e-9)


# ------------------------------------------------------------------------------
# The cases averaged over
# ------------------------------------------------------------------------------


def test_calibration_rows_are_the_default(platt: bc.PlattCalibrator) -> None:
    xr.testing.assert_identical(
        bc.miscalibration(platt).draws, bc.miscalibration(platt, platt._require_rows().scores).draws
    )


def test_weight_counts_rows(platt: bc.PlattCalibrator) -> None:
    rows = Rows(np.array([0.1, 0.2, 0.6, 0.9, 0.95]), np.zeros(5), np.array([1.0, 3.0, 2.0, 0.0, 4.0]))
    weighted = _with_rows(platt, rows)
    repeated = np.repeat(rows.scores, rows.weight.astype(int))
    found, expected = bc.miscalibration(weighted), bc.miscalibration(platt, repeated)
    assert found.cases == expected.cases == 10
    assert found.points == 4  # the row of weight 0 is no case
    xr.testing.assert_allclose(found.draws, expected.draws, rtol=1e-12)


def _with_rows(calibrator: bc.PlattCalibrator, rows: Rows | None) -> bc.PlattCalibrator:
    other = bc.PlattCalibrator(**calibrator.get_params())
    other.__dict__.update(calibrator.__dict__)
    other._rows = rows
    return other


def test_log_odds_and_probabilities_agree() -> None:
    z = np.linspace(-4, 3, 15)
    slopes = np.array([[0.4], [1.0], [1.7]])
    by_proba = bc.miscalibration(KnownCurves(lambda at: expit(0.2 + slopes * logit(at)), (1, 3)), expit(z))
    by_logit = bc.miscalibration(KnownCurves(lambda at: expit(0.2 + slopes * at), (1, 3), "logit"), z)
    xr.testing.assert_allclose(by_proba.draws, by_logit.draws, rtol=1e-9)


def test_scores_of_zero_and_one_are_kept() -> None:
    s = np.array([0.0, 0.5, 1.0])
    found = bc.miscalibration(KnownCurves(lambda at: np.full((2, len(at)), 0.5), (1, 2)), s)
    assert found.cases == 3
    np.testing.assert_allclose(flat(found, "emax"), 0.5)
    np.testing.assert_allclose(flat(found, "ici"), 1 / 3)
    np.testing.assert_allclose(flat(found, "slope"), 0, atol=1e-9)


def test_equal_scores_have_no_slope() -> None:
    found = bc.miscalibration(KnownCurves(lambda at: np.full((4, len(at)), 0.6), (2, 2)), np.full(7, 0.5))
    assert found.points == 1 and found.cases == 7
    assert found.draws["slope"].isnull().all() and found.draws["intercept"].isnull().all()
    np.testing.assert_allclose(found.draws["in_the_large"], logit(0.6), rtol=1e-9)
    np.testing.assert_allclose(found.draws["ici"], 0.1, rtol=1e-12)
    assert np.isnan(found.probability(slope__lt=1, ici__lt=0.2))
    assert found.probability(ici__lt=0.2) == 1.0
    assert found.summary().loc["slope"].isna().all()


# The distributions that are hardest to thin have most of their cases at the ends.
DISTRIBUTIONS = {
    "normal log-odds": lambda rng, n: expit(rng.normal(-1, 2, n)),
    "skewed": lambda rng, n: rng.beta(0.3, 5, n),
    "two ends": lambda rng, n: rng.beta(0.1, 0.1, n),
}


def smooth_curves(rng: np.random.Generator) -> KnownCurves:
    """Twenty beta maps."""
    c, a, b = rng.normal(0, 0.5, (20, 1)), *rng.lognormal(-0.5, 0.4, (2, 20, 1))
    return KnownCurves(lambda at: expit(c + a * np.log(at) - b * np.log1p(-at)), (1, 20))


def stepped_curves(rng: np.random.Generator) -> KnownCurves:
    """Twenty nondecreasing step functions of twenty steps, as of isotonic calibration with few cases."""
    edges = np.sort(expit(rng.normal(-0.5, 2.0, 19)))
    levels = np.cumsum(rng.dirichlet(np.full(21, 0.3), 20), axis=1)[:, :-1]
    return KnownCurves(lambda at: levels[:, np.searchsorted(edges, at)], (1, 20))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    ("curves", "allowed"), [(smooth_curves, 0.001), (stepped_curves, 0.05)], ids=["smooth", "steps"]
)
def test_grouping_many_scores_hardly_moves_any_draw(
    curves: Callable[[np.random.Generator], KnownCurves],
    allowed: float,  # as the docstring says
    distribution: str,
    random_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(random_seed)
    calibrator = curves(rng)
    scores = np.clip(DISTRIBUTIONS[distribution](rng, 20_000), 1e-12, 1 - 1e-12)
    grouped = bc.miscalibration(calibrator, scores)
    monkeypatch.setattr(module, "MAX_POINTS", 10**9)
    exact = bc.miscalibration(calibrator, scores)
    assert 1000 < grouped.points <= 2000 and exact.points > 10_000
    assert grouped.cases == exact.cases == 20_000
    error = np.abs(grouped.draws - exact.draws).max()
    assert {name: float(value) for name, value in error.items() if value >= allowed} == {}


def test_memory_is_bounded(platt: bc.PlattCalibrator) -> None:
    scores = np.random.default_rng(1).random(100_000)
    tracemalloc.start()
    bc.miscalibration(platt, scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 300 draws x 2000 points are 5 MB; all 300 x 100,000 would be 240 MB
    assert peak < 100e6


# ------------------------------------------------------------------------------
# What is asked of the result
# ------------------------------------------------------------------------------


def test_summary_describes_the_draws(platt: bc.PlattCalibrator) -> None:
    found = bc.miscalibration(platt, ci_prob=0.5)
    table = found.summary()
    assert table.index.tolist() == list(found.draws) == list(MEASURES)
    assert table.index.name == "measure"
    assert table.columns.tolist() == ["mean", "sd", "lower", "upper"]
    assert table.attrs["ci_prob"] == found.ci_prob == 0.5
    assert found.draws["ici"].dims == ("chain", "draw") and found.draws["ici"].shape == (3, 100)
    for name in MEASURES:
        draws = flat(found, name)
        expected = [draws.mean(), draws.std(), *np.quantile(draws, [0.25, 0.75])]
        np.testing.assert_allclose(table.loc[name], expected, rtol=1e-12)


def test_probability_counts_draws(platt: bc.PlattCalibrator) -> None:
    found = bc.miscalibration(platt)
    ici, slope = flat(found, "ici"), flat(found, "slope")
    middle = float(np.median(ici))
    assert found.probability(ici__lt=middle) == 0.5
    assert found.probability(ici__gt=middle) == 0.5
    both = found.probability(ici__lt=middle, slope__gt=0.5)
    assert both == np.mean((ici < middle) & (slope > 0.5)) and 0 < both < 0.5
    assert found.probability(in_the_large__gt=-1e9) == 1.0


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ({}, "needs a condition"),
        ({"ici": 0.1}, "'ici'"),
        ({"ici__le": 0.1}, "'ici__le'"),
        ({"eci__lt": 0.1}, "ici, e50"),
        ({"ici__lt": "0.1"}, "finite number"),
        ({"ici__lt": float("nan")}, "finite number"),
        ({"ici__lt": True}, "finite number"),
    ],
)
def test_conditions_are_checked(platt: bc.PlattCalibrator, conditions: dict[str, float], says: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=says):
        bc.miscalibration(platt).probability(**conditions)


def test_result_is_frozen_and_shown_in_a_line(platt: bc.PlattCalibrator) -> None:
    found = bc.miscalibration(platt)
    with pytest.raises(AttributeError):
        found.ci_prob = 0.5
    assert repr(found) == "Miscalibration(ci_prob=0.9, cases=200.0, points=200)"


def test_input_is_checked(platt: bc.PlattCalibrator) -> None:
    scores, y = simulate(np.random.default_rng(1), 30, 1, 0)
    with pytest.raises(bc.NoPosteriorError, match="inference='nuts'"):
        bc.miscalibration(bc.PlattCalibrator(inference="point").fit(scores, y))
    with pytest.raises(NotFittedError):
        bc.miscalibration(bc.PlattCalibrator())
    with pytest.raises(bc.ScoreValueError, match="score_kind='raw'"):
        bc.miscalibration(KnownCurves(lambda at: np.full((1, len(at)), 0.5), (1, 1), "raw"), scores)
    with pytest.raises(bc.ScoreValueError, match=r"\[0, 1\]"):
        bc.miscalibration(platt, [0.2, 1.5])
    with pytest.raises(bc.ParameterValueError, match="ci_prob"):
        bc.miscalibration(platt, ci_prob=90)
    with pytest.raises(bc.NoPosteriorError, match="include_data"):
        bc.miscalibration(_with_rows(platt, None))
    assert bc.miscalibration(_with_rows(platt, None), scores).cases == 30


# ------------------------------------------------------------------------------
# Posteriors of real fits
# ------------------------------------------------------------------------------


def test_stacked_average_is_a_mixture_of_its_members() -> None:
    scores, y = simulate(np.random.default_rng(3), 80, 0.5, 0.0)
    settings = {"draws": 100, "tune": 200, "chains": 2, "random_state": 1, "progressbar": False}
    stacked = fit(bc.StackedCalibrator(members=("platt", "beta"), **settings), scores, y)
    found = bc.miscalibration(stacked)
    assert found.draws["slope"].shape == (2, 100)
    chosen = stacked._member_of_draw.reshape(-1)
    assert set(chosen) == {0, 1}
    for k, member in enumerate(stacked.members_.values()):
        rows = chosen == k
        np.testing.assert_allclose(flat(found, "ici")[rows], flat(bc.miscalibration(member), "ici")[rows], rtol=1e-12)


@pytest.mark.parametrize(("slope", "intercept"), [(0.4, 0.0), (1.0, 0.0), (1.0, 1.0)])
def test_truth_is_found(slope: float, intercept: float, random_seed: int) -> None:
    scores, y = simulate(np.random.default_rng(random_seed), 1000, slope, intercept)
    settings = {"draws": 300, "tune": 300, "random_state": random_seed, "progressbar": False}
    table = bc.miscalibration(fit(bc.BetaCalibrator(**settings), scores, y)).summary()
    q = expit(intercept + slope * logit(scores))
    truth = {"slope": slope, "intercept": intercept, "bias": (q - scores).mean()}
    for name, value in truth.items():
        # 4.5 posterior standard deviations: the priors weigh little against 1000 cases
        assert abs(table.loc[name, "mean"] - value) < 4.5 * table.loc[name, "sd"], name


@pytest.mark.slow
def test_intervals_cover(random_seed: int) -> None:
    repeats, n, covered = 150, 100, []
    rng = np.random.default_rng(random_seed)
    for _ in range(repeats):
        scores, y = simulate(rng, n, 0.6, 0.4)
        calibrator = fit(bc.BetaCalibrator(draws=300, tune=300, random_state=1, progressbar=False), scores, y)
        table = bc.miscalibration(calibrator).summary()
        q = expit(0.4 + 0.6 * logit(scores))
        truth = {"slope": 0.6, "intercept": 0.4, "bias": (q - scores).mean(), "ici": np.abs(q - scores).mean()}
        covered.append([table.loc[k, "lower"] <= v <= table.loc[k, "upper"] for k, v in truth.items()])
    # nominal 0.9; 0.8 is 4 binomial standard errors below
    assert (np.mean(covered, axis=0) > 0.8).all(), dict(zip(truth, np.mean(covered, axis=0), strict=True))
