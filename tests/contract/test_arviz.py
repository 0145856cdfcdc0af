"""Contract: ArviZ works on `idata_` as it is."""

from collections.abc import Callable
from copy import deepcopy

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from bayescal.calibrators.base import Calibrator

Make = Callable[..., Calibrator]


def with_parameters(tree: xr.DataTree) -> list[xr.DataTree]:
    """The trees that hold parameters: an average holds those of its members."""
    return list(tree["members"].children.values()) if "members" in tree.children else [tree]


def test_groups_dimensions_and_coordinates(posterior: Calibrator, cases) -> None:
    idata = posterior.idata_
    assert isinstance(idata, xr.DataTree)
    pointwise = {"log_likelihood", "posterior_predictive", "observed_data", "constant_data"}
    assert pointwise | {"posterior"} <= set(idata.children)
    for tree in with_parameters(idata):
        assert {"posterior", "sample_stats", "prior"} <= set(tree.children)
        assert set(tree.prior.data_vars) == set(tree.posterior.data_vars)
        assert {"diverging", "energy", "lp", "tree_depth", "acceptance_rate"} <= set(tree.sample_stats.data_vars)
    n, sizes = len(cases.y), (posterior.chains, posterior.draws)
    assert idata.log_likelihood.y.dims == idata.posterior_predictive.y.dims == ("chain", "draw", "obs")
    assert idata.log_likelihood.y.shape == idata.posterior_predictive.y.shape == (*sizes, n)
    assert set(np.unique(idata.posterior_predictive.y)) == set(cases.y)
    np.testing.assert_array_equal(idata.observed_data.y, cases.y)
    np.testing.assert_array_equal(idata.constant_data.scores, cases.scores)
    assert idata.attrs["inference_library"] == "bayescal"
    assert posterior.idata_ is idata


def test_arrays_are_its_own(posterior: Calibrator, cases) -> None:
    mine = deepcopy(posterior)  # the shared fit stays as it is
    for node in mine.idata_.subtree:
        for variable in node.data_vars.values():
            variable.to_numpy()[...] = 0
    np.testing.assert_array_equal(mine.predict_table(cases.scores), posterior.predict_table(cases.scores))
    assert not mine.idata_.constant_data.scores.any()


def test_weights_are_said_where_they_are_not_counted(make_one_posterior: Make, cases) -> None:
    weight = np.arange(len(cases.y)) % 3.0
    idata = make_one_posterior().fit(*cases, weight).idata_
    np.testing.assert_array_equal(idata.constant_data.weight, weight)
    for said in (idata.attrs["weights"], idata.log_likelihood.attrs["weights"]):
        assert "one case for each row" in said and "constant_data.weight" in said


def test_likelihood_and_predictive_draws_follow_the_probabilities(posterior: Calibrator, cases) -> None:
    proba = posterior.proba_draws(cases.scores).to_numpy()
    seen = proba[:, :, np.arange(len(cases.y)), cases.y]
    np.testing.assert_allclose(np.exp(posterior.idata_.log_likelihood.y), seen, rtol=1e-9, atol=1e-12)
    for k in range(proba.shape[-1]):
        p = proba[..., k]
        share = (posterior.idata_.posterior_predictive.y.to_numpy() == k).mean()
        # a mean of independent Bernoulli draws; 5 standard errors, fixed by the seed of the fit
        assert abs(share - p.mean()) < 5 * np.sqrt((p * (1 - p)).mean() / p.size)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # R-hat of an even share of two members is 0 / 0
def test_summary(posterior: Calibrator) -> None:
    for tree in with_parameters(posterior.idata_):
        table = az.summary(tree, ci_prob=0.9)
        assert {"mean", "sd", "eti90_lb", "eti90_ub", "ess_bulk", "ess_tail", "r_hat"} <= set(table.columns)
        assert table["mean"].astype(float).notna().all()
    assert len(az.summary(posterior.idata_)) > 0


@pytest.mark.filterwarnings("ignore:.*Pareto.*:UserWarning")  # tiny fits
def test_loo_and_compare(posterior: Calibrator, make_posterior: Make, cases) -> None:
    elpd = az.loo(posterior.idata_, pointwise=True)
    assert np.isfinite(elpd.elpd)
    assert elpd.elpd_i.shape == (len(cases.y),)
    table = az.compare({"one": posterior.idata_, "two": make_posterior(random_state=2).fit(*cases).idata_})
    assert sorted(table.index) == ["one", "two"]
    assert table["weight"].sum() == pytest.approx(1.0, abs=1e-6)


def test_plots(posterior: Calibrator) -> None:
    idata = posterior.idata_
    if len(posterior.classes_) == 2:
        az.plot_ppc_pava(idata)
    for tree in with_parameters(idata):
        scalar = [name for name, values in tree.posterior.data_vars.items() if values.ndim == 2]
        az.plot_trace_dist(tree, var_names=scalar)
        az.plot_prior_posterior(tree, var_names=scalar)
        plt.close("all")
