"""Section J: PyMC and ArviZ underneath."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import arviz as az
import numpy as np
import pytest
import threadpoolctl
import xarray as xr
from scipy.special import log_expit

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.binary import Rows
from bayescal.calibrators.loo import pointwise_loo
from bayescal.calibrators.stacked import stacking_weights
from bayescal.inference.convergence import assess_convergence
from bayescal.inference.sampling import one_blas_thread

Make = Callable[..., Calibrator]

MODELS = ["platt", "beta", "isotonic", "bernstein", "spline"]
SCORES = np.linspace(0.02, 0.98, 40)
OUTCOMES = np.tile([0, 0, 1, 0, 1, 1, 1, 0], 5)


# Case 61: chains start where the density is finite

STARTS = {
    "two rows": (np.array([0.2, 0.8]), np.array([0, 1])),
    "constant": (np.full(10, 0.7), np.r_[np.ones(3), np.zeros(7)].astype(int)),
    "separated": (np.linspace(0, 1, 30), (np.linspace(0, 1, 30) > 0.5).astype(int)),
    "one class": (np.linspace(0, 1, 30), np.zeros(30, dtype=int)),
    "a thousand": (np.linspace(0, 1, 1000), np.tile([0, 1], 500)),
}


@pytest.mark.parametrize("data", STARTS)
@pytest.mark.parametrize("name", MODELS)
def test_case_61_the_start_is_finite(name: str, data: str) -> None:
    model = bc.build_model(name, *STARTS[data])
    terms = model.point_logps(model.initial_point())
    assert all(np.isfinite(value) for value in terms.values())


@pytest.mark.parametrize("name", MODELS)
def test_case_61_prior_draws_are_in_their_domains(calibrator: Make, name: str) -> None:
    prior = calibrator(name).fit(SCORES, OUTCOMES).idata_.prior
    for ordered in {"levels", "coefficients"} & set(prior.data_vars):
        assert (np.diff(prior[ordered], axis=-1) >= 0).all()
        assert ((prior[ordered] >= 0) & (prior[ordered] <= 1 + 1e-12)).all()
    positive = {"slope", "a", "b", "concentration", "roughness"} - ({"slope"} if name == "spline" else set())
    for name_of_positive in positive & set(prior.data_vars):
        assert (prior[name_of_positive] > 0).all()


# Fits in threads of one process


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_fits_in_threads_share_the_limit_of_blas() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        for block in (first, second):
            block.__enter__()
            assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}  # the second still samples
        second.__exit__(None, None, None)
        assert blas_threads() == {2}  # not what the second found


# Case 64: what is stored is draws


def test_case_64_a_fit_is_pickled_after_its_model_was_used(calibrator: Make) -> None:
    cal = calibrator("platt").fit(SCORES, OUTCOMES)
    assert {v.name for v in cal.model_.free_RVs} == {"intercept", "slope"}
    assert "posterior" in cal.idata_.children
    written = pickle.dumps(cal)
    assert len(written) < 50 * 8 * cal.draws * cal.chains  # draws and statistics, not the model, nor draws x rows
    np.testing.assert_array_equal(pickle.loads(written).predict_proba(SCORES), cal.predict_proba(SCORES))


# Case 65: settings and posterior in a file


def test_case_65_settings_of_every_shape_come_back(calibrator: Make, tmp_path: Path) -> None:
    settings = {
        "tune": None,
        "progressbar": False,
        "classes": ["no", "yes"],
        "members": ("platt", "beta"),
        "priors": {"platt": {"slope_log_sd": 0.5}},
        "draws": 30,
    }
    cal = calibrator("auto", **settings).fit(SCORES, np.array(["no", "yes"])[OUTCOMES])
    path = tmp_path / "Ergebnis für Zoë.nc"
    cal.save(path)
    cal.save(path)  # a path that exists
    came_back = bc.load(path)
    assert {name: getattr(came_back, name) for name in settings} == settings
    np.testing.assert_array_equal(came_back.predict_proba(SCORES), cal.predict_proba(SCORES))


def test_case_65_arviz_reads_the_file(calibrator: Make, tmp_path: Path) -> None:
    cal = calibrator("platt").fit(SCORES, OUTCOMES)
    cal.save(tmp_path / "fit.nc")
    tree = az.from_netcdf(tmp_path / "fit.nc")
    xr.testing.assert_identical(tree.posterior.to_dataset(), cal.idata_.posterior.to_dataset())
    assert az.loo(tree).n_data_points == len(SCORES)


def test_case_65_the_data_can_stay_at_home(calibrator: Make, tmp_path: Path) -> None:
    secret = np.linspace(0.123456, 0.654321, 40)
    cal = calibrator("bernstein").fit(secret, OUTCOMES)
    cal.save(tmp_path / "fit.nc", include_data=False)
    with xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as tree:
        stored = [v.to_numpy().ravel() for node in tree.subtree for v in node.data_vars.values() if v.dtype.kind == "f"]
    assert not any(np.isin(secret, values).any() for values in stored)


# Case 66: diagnostics that cannot be computed


def test_case_66_a_constant_parameter_does_not_pass(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    posterior = {"slope": rng.normal(size=(4, 500)), "fixed": np.ones((4, 500))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = assess_convergence(posterior, np.zeros((4, 500), dtype=bool), rng.normal(size=(4, 500)))
    assert np.isnan(found.table.loc["fixed", "r_hat"])
    assert found.verdict == "failed"  # nan > 1.01 is False: it must not pass by that
    assert "R-hat of fixed is not available" in found.message
    assert "nan" not in found.message


@pytest.mark.parametrize(("chains", "draws"), [(1, 500), (1, 3), (4, 3), (4, 1)])
def test_case_66_few_chains_or_draws_are_not_assessed(random_seed: int, chains: int, draws: int) -> None:
    rng = np.random.default_rng(random_seed)
    shape = (chains, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = assess_convergence(
            {"slope": rng.normal(size=shape)}, np.zeros(shape, dtype=bool), rng.normal(size=shape)
        )
    assert found.verdict == "not assessed"
    assert np.isnan(found.table.loc["slope", "r_hat"])


def test_case_66_divergences_are_counted(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    diverging = np.zeros((4, 500), dtype=bool)
    diverging[1, :7] = True
    found = assess_convergence({"slope": rng.normal(size=(4, 500))}, diverging, rng.normal(size=(4, 500)))
    assert found.divergences == 7
    assert found.verdict == "failed"
    assert "7 of 2000 transitions diverged" in found.message


# Case 67: leave-one-out densities at the edge


class Draws:
    """As much of a calibrator as leave-one-out needs: log-odds that the test writes down, (draws, rows)."""

    def __init__(self, log_odds: np.ndarray, positive: np.ndarray) -> None:
        self.log_odds, self.rows = log_odds, Rows(np.arange(len(positive)) / 10.0, positive, np.ones(len(positive)))
        self._draw_shape = (2, len(log_odds) // 2)

    def _require_rows(self) -> Rows:
        return self.rows

    def _log_likelihood_at(self, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
        chosen = self.log_odds[:, np.round(scores * 10).astype(int)]
        return log_expit(chosen * np.where(positive > 0, 1.0, -1.0))

    _log_factor_at = _log_likelihood_at


def test_case_67_rows_of_equal_likelihood(random_seed: int) -> None:
    log_odds = np.random.default_rng(random_seed).normal(size=(400, 3))
    log_odds[:, 1] = 0.5  # no tail to smooth: ArviZ's loo raises
    elpd = pointwise_loo(Draws(log_odds, np.array([1.0, 1.0, 0.0])))
    assert np.isfinite(elpd).all()
    assert elpd[1] == pytest.approx(log_expit(0.5), abs=1e-12)  # derived: the density is the same in every draw


def test_case_67_an_impossible_row_does_not_spoil_the_others(random_seed: int) -> None:
    log_odds = np.random.default_rng(random_seed).normal(size=(400, 3))
    clean = pointwise_loo(Draws(log_odds.copy(), np.array([1.0, 1.0, 0.0])))
    log_odds[17, 1] = -np.inf
    elpd = pointwise_loo(Draws(log_odds, np.array([1.0, 1.0, 0.0])))
    np.testing.assert_allclose(elpd[[0, 2]], clean[[0, 2]], rtol=0, atol=1e-12)
    assert elpd[1] == -np.inf  # a draw that rules the case out has all the weight without it: derived, not nan


def test_case_67_rows_of_weight_zero_count_for_nothing(random_seed: int) -> None:
    log_odds = np.random.default_rng(random_seed).normal(size=(400, 3))
    log_odds[17, 1] = -np.inf
    draws = Draws(log_odds, np.array([1.0, 1.0, 0.0]))
    draws.rows = Rows(draws.rows.scores, draws.rows.positive, np.array([1.0, 0.0, 1.0]))
    assert pointwise_loo(draws)[1] == 0.0


def test_case_67_stacking_weights_survive_an_impossible_row() -> None:
    elpd = np.log(np.array([[0.6, 0.5], [0.7, 0.6], [0.4, 0.5], [0.8, 0.5]]))
    expected = stacking_weights(elpd, np.ones(4))
    found = stacking_weights(np.vstack([elpd, [-np.inf, -1.0]]), np.ones(5))
    assert found.sum() == pytest.approx(1.0)
    assert found[0] < expected[0]


def test_case_67_likelihoods_that_are_one_in_every_draw(calibrator: Make) -> None:
    # log-odds of +-5000: log 1 in every draw, no tail to smooth
    scores = np.r_[-5000.0 - np.arange(20), np.linspace(-2, 2, 20), 5000.0 + np.arange(20)]
    y = np.r_[np.zeros(20), np.arange(20) % 2, np.ones(20)].astype(int)
    cal = calibrator("auto", score_kind="logit").fit(scores, y)
    assert cal.comparison_.notna().all(axis=None)
    assert np.isfinite(cal.predict_proba(scores)).all()


def test_case_67_constant_scores_have_a_likelihood(calibrator: Make) -> None:
    cal = calibrator("platt").fit(np.full(10, 0.7), np.r_[np.ones(3), np.zeros(7)].astype(int))
    elpd = az.loo(cal.idata_, pointwise=True)
    assert elpd.elpd_i.shape == (10,)
    assert np.isfinite(elpd.elpd_i).all()
