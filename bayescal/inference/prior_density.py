"""The log prior of draws, as the model says it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pymc as pm


def log_prior_of_draws(
    model: "pm.Model", draws: Mapping[str, np.ndarray], *, given_others: Sequence[str] = ()
) -> np.ndarray:
    """Log prior density ``(chain, draw)`` of a model's parameters, without those named in `given_others`.

    `draws` ``(chain, draw, ...)`` are of all free variables, on the scale that the model states; more are ignored. The
    density is with respect to that scale.
    """
    import xarray as xr
    from pymc.stats import compute_log_prior

    free = [variable.name for variable in model.free_RVs]
    sampled = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(draws[name].ndim - 2))), draws[name])
        for name in free
    }
    found = compute_log_prior(
        xr.DataTree.from_dict({"posterior": xr.Dataset(sampled)}),
        var_names=[name for name in free if name not in given_others],
        extend_inferencedata=False,
        model=model,
        progressbar=False,
    )
    shape = draws[free[0]].shape[:2]
    return np.sum([v.to_numpy().reshape(*shape, -1).sum(axis=2) for v in found.data_vars.values()], axis=0)
