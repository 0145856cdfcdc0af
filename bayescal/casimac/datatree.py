"""The DataTrees of fits, assembled when they are asked for."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayescal import __version__
from bayescal.calibrators.datatree import dataset
from bayescal.casimac.cones import cone_probabilities
from bayescal.casimac.transformations import describe

if TYPE_CHECKING:
    from bayescal.casimac.answers import CASIMACAnswers, LatentAnswers
    from bayescal.casimac.generative_classifier import GenerativeCASIMACClassifier


def build_datatree(classifier: "CASIMACAnswers") -> xr.DataTree:
    """Groups posterior, sample_stats, observed_data (class numbers) and constant_data (weights of transformations).

    There is no log_likelihood, see the notes of `CASIMACClassifier`.
    """
    fit = classifier._fit
    posterior, chosen = fit.posterior, fit.chosen
    assert posterior is not None and chosen is not None
    g = posterior.draws["transformation"]
    described = [describe(pull) for pull in chosen.pulls]
    values = {name: value.copy() for name, value in posterior.draws.items()}
    each = values.pop("length_scale") if values["length_scale"].ndim == 3 else None
    values |= {name: np.array([pull[name] for pull in described])[g] for name in described[0]}
    chains, draws = g.shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    cases = {"obs": np.arange(len(fit.neighbours.codes))}
    drawn = dataset(values, ("chain", "draw"), coords)
    if each is not None:
        names = getattr(classifier, "feature_names_in_", np.arange(each.shape[2]))
        drawn["length_scale"] = xr.DataArray(each, dims=("chain", "draw", "feature"), coords={"feature": names})
    groups = {
        "posterior": drawn,
        "sample_stats": dataset(posterior.sampled.statistics, ("chain", "draw"), coords).copy(deep=True),
        "observed_data": dataset({"y": fit.neighbours.codes.copy()}, ("obs",), cases),
        "constant_data": dataset({"weight": chosen.weight.copy()}, (), {"weight_dim_1": chosen.spreads.copy()}).rename(
            weight_dim_0="transformation", weight_dim_1="spread"
        ),
    }
    return _assemble(groups, classifier, "casimac")


def build_generative_datatree(classifier: "GenerativeCASIMACClassifier") -> xr.DataTree:
    """Groups posterior, log_likelihood of labels given latents, sample_stats, observed_data (class numbers)."""
    fit = classifier._fit
    draws, codes = fit.posterior.draws, fit.codes
    latent = draws["latent"]
    chains, size, n, axes = latent.shape
    given = cone_probabilities(latent.reshape(-1, axes), np.ones(chains * size * n), classifier.vertices_)
    own = given[np.arange(len(given)), np.tile(codes, chains * size)].reshape(chains, size, n)
    coords = {"chain": np.arange(chains), "draw": np.arange(size)}
    cases = {"obs": np.arange(n)}
    posterior = dataset({name: draws[name].copy() for name in ("length_scale", "amplitude")}, ("chain", "draw"), coords)
    posterior["latent"] = xr.DataArray(
        latent.copy(), dims=("chain", "draw", "obs", "latent_axis"), coords=cases | {"latent_axis": np.arange(axes)}
    )
    groups = {
        "posterior": posterior,
        "log_likelihood": dataset({"y": np.log(own)}, ("chain", "draw", "obs"), coords | cases),
        "sample_stats": dataset(fit.posterior.sampled.statistics, ("chain", "draw"), coords).copy(deep=True),
        "observed_data": dataset({"y": codes.copy()}, ("obs",), cases),
    }
    return _assemble(groups, classifier, "casimac-generative")


def _assemble(groups: dict[str, xr.Dataset], classifier: "LatentAnswers", name: str) -> xr.DataTree:
    tree = xr.DataTree.from_dict({f"/{group}": values for group, values in groups.items()})
    tree.attrs = {
        "inference_library": "bayescal",
        "inference_library_version": __version__,
        "calibrator": name,
        "classes": [str(label) for label in classifier.classes_],
    }
    return tree
