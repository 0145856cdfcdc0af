"""The DataTree of a fit: everything ArviZ works on, assembled from draws, map and data when it is asked for.

Its arrays are its own: what is done to them changes no prediction.

ArviZ knows no sample weights. The pointwise groups hold one case for each row, and ``az.loo`` and ``az.compare`` count
each row once. After a fit with weights, the expected log predictive density of all cases is

    sum_i w_i elpd_i,     elpd_i of ``az.loo(idata, pointwise=True)``,  w_i = ``idata.constant_data.weight``

since leaving out one of the w_i cases of a row is what the likelihood of one case, weighed against a posterior given
all of them, stands for. The attribute ``weights`` of the tree and of its group ``log_likelihood`` says so.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayescal import __version__

if TYPE_CHECKING:
    from bayescal.calibrators.generative import GenerativeCalibrator
    from bayescal.calibrators.stacked import StackedCalibrator

POINTWISE_LIMIT = 2**25  # numbers of draws x rows up to which pointwise groups are held (256 MB)
PRIOR_DRAWS = 1000
WEIGHTS = (
    "pointwise groups hold one case for each row, whatever its weight; with weights, multiply elpd_i of "
    "az.loo(idata, pointwise=True) by constant_data.weight before summing"
)


def build_datatree(calibrator: "GenerativeCalibrator") -> xr.DataTree:
    """Assemble posterior, sample_stats, prior, log_likelihood, posterior_predictive, observed_data, constant_data."""
    chains, draws = calibrator._draw_shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    rng = np.random.default_rng([calibrator._entropy, 1])
    prior = calibrator._prior_draws(rng, PRIOR_DRAWS, calibrator._priors, calibrator._scale)
    groups = {
        "posterior": dataset(calibrator._draws, ("chain", "draw"), coords).copy(deep=True),
        "sample_stats": dataset(calibrator._statistics or {}, ("chain", "draw"), coords).copy(deep=True),
        "prior": dataset(
            {name: value[None] for name, value in prior.items()},
            ("chain", "draw"),
            {"chain": np.array([0]), "draw": np.arange(PRIOR_DRAWS)},
        ),
    }
    return _tree(calibrator, groups)


def build_stacked_datatree(calibrator: "StackedCalibrator") -> xr.DataTree:
    """Assemble the average's groups, and each member's tree below ``members``."""
    chains, draws = calibrator._draw_shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    member = dataset({"member": calibrator._member_of_draw}, ("chain", "draw"), coords)
    groups = {"posterior": member.copy(deep=True)}
    tree = _tree(calibrator, groups)
    for name, member in calibrator.members_.items():
        tree[f"members/{name}"] = member.idata_
    return tree


def _tree(calibrator: "GenerativeCalibrator | StackedCalibrator", groups: dict[str, xr.Dataset]) -> xr.DataTree:
    """Add the pointwise groups, unless draws x rows exceed `POINTWISE_LIMIT` or the rows were not saved."""
    chains, draws = calibrator._draw_shape
    pointwise = "left out: the calibration rows were not saved"
    rows = calibrator._rows
    if rows is not None:
        n = len(rows.scores)
        obs = {"obs": np.arange(n)}
        groups["observed_data"] = dataset({"y": rows.y}, ("obs",), obs)
        constant = dataset({"scores": rows.scores, "weight": rows.weight}, ("obs",), obs)
        groups["constant_data"] = constant.copy(deep=True)
        pointwise = f"left out: {chains * draws} draws x {n} rows is too large"
        if chains * draws * n <= POINTWISE_LIMIT:
            pointwise = "held"
            coords = {"chain": np.arange(chains), "draw": np.arange(draws), **obs}
            log_likelihood = calibrator._log_likelihood()
            y = calibrator._replicate(log_likelihood, np.random.default_rng([calibrator._entropy, 2]))
            shape, dims = (chains, draws, n), ("chain", "draw", "obs")
            groups["log_likelihood"] = dataset({"y": log_likelihood.reshape(shape)}, dims, coords)
            groups["log_likelihood"].attrs["weights"] = WEIGHTS
            groups["posterior_predictive"] = dataset({"y": y.reshape(shape)}, dims, coords)
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = {
        "inference_library": "bayescal",
        "inference_library_version": __version__,
        "calibrator": calibrator._name,
        "classes": [str(c) for c in calibrator.classes_],
        "pointwise": pointwise,
        "weights": WEIGHTS,
    }
    return tree


def dataset(values: dict[str, np.ndarray], dims: tuple[str, ...], coords: dict[str, Any]) -> xr.Dataset:
    """Variables whose leading axes are `dims`; a further axis is named after its variable, as ArviZ does."""
    variables = {}
    coords = dict(coords)
    for name, value in values.items():
        extra = [f"{name}_dim_{i}" for i in range(value.ndim - len(dims))]
        variables[name] = ((*dims, *extra), value)
        coords |= {d: np.arange(value.shape[len(dims) + i]) for i, d in enumerate(extra)}
    return xr.Dataset(variables, coords=coords)
