"""CASIMAC classifiers in netCDF files: settings, training cases, latents, draws, and what predictions are made of.

The rules are those of `bayescal.calibrators.files`, which writes the file and reads it. Distances and decompositions
are computed anew from the cases, so that a file grows with their number and not with its square.
"""

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.datatree import dataset
from bayescal.calibrators.files import class_words, plain, write
from bayescal.casimac.answers import LatentAnswers
from bayescal.casimac.classifier import CASIMACClassifier
from bayescal.casimac.features import FeatureProcess
from bayescal.casimac.fitting import Posterior, Weighted
from bayescal.casimac.inputs import Space
from bayescal.casimac.learning import Fit, process_of
from bayescal.casimac.neighbours import Neighbours, Pull
from bayescal.casimac.posterior import Located
from bayescal.casimac.prediction import Parts, Predictor
from bayescal.casimac.settings import CASIMACPriors
from bayescal.casimac.simplex import simplex_vertices
from bayescal.inference.convergence import Convergence
from bayescal.inference.sampling import Draws
from bayescal.validation import ParameterValueError

if TYPE_CHECKING:
    import xarray as xr

PULL = {"alpha": float, "beta": float, "k_alpha": int, "k_beta": int}


def save(classifier: CASIMACClassifier, path: Any) -> None:
    """Write a fitted classifier to `path`, see `CASIMACClassifier.save`."""
    import xarray as xr

    check_is_fitted(classifier, "classes_")
    fit = classifier._fit
    held = {"metric": fit.space.metric, "kernel": fit.space.kernel}
    if fit.chosen is None:
        held["regressor"] = fit.predictor.regressor
    for name, value in held.items():
        if not isinstance(value, str):
            raise ParameterValueError(
                f"a file holds numbers and no code, and {name} is {value!r}. Keep the classifier with pickle."
            )
    groups = {f"/{name}": dataset(values, (), {}) for name, values in _arrays(fit).items()}
    if fit.posterior is not None:
        chains, draws = fit.posterior.draws["spread"].shape
        coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
        groups["/posterior"] = dataset(fit.posterior.draws, ("chain", "draw"), coords)
        groups["/sample_stats"] = dataset(fit.posterior.sampled.statistics, ("chain", "draw"), coords)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"kind": "casimac", "state": json.dumps(_state(classifier))}
    write(tree, path)


def restore(tree: "xr.DataTree") -> CASIMACClassifier:
    """The classifier of a tree that `save` made."""
    state = json.loads(tree.attrs["state"])
    found = {
        name: {str(key): variable.values for key, variable in node.data_vars.items()}
        for name, node in tree.children.items()
    }
    numbers = (a for group in ("cases", "transformations", "parts", "posterior") for a in found.get(group, {}).values())
    if not all(np.isfinite(array).all() for array in numbers):
        raise ValueError("numbers of the fit are not finite")
    clf = CASIMACClassifier(**state["parameters"])
    set_names(clf, state)
    cases, pieces = found["cases"], found["transformations"]
    space = Space(cases["scaled"], cases.get("mean"), cases.get("scale"), state["metric"], state["kernel"])
    pulls = [
        Pull(**{name: kind(value) for (name, kind), value in zip(PULL.items(), row, strict=True)})
        for row in zip(*(pieces[name] for name in PULL), strict=True)
    ]
    located = Located(*(pieces[field.name] for field in fields(Located)))
    chosen = Weighted(
        pulls, pieces["scales"], pieces["zs"], pieces["spreads"], pieces["weight"], float(state["loss"]), located
    )
    posterior, kept = None, None
    if "posterior" in found:
        drawn = Draws(found["posterior"], found["sample_stats"], convergence_of(state), state["sampler"])
        posterior = Posterior(found["posterior"], drawn, float(state["interpolation_error"]))
        kept = (len(found["posterior"]["spread"]), found["kept"]["kept"])
    process = process_of(space, CASIMACPriors(**state["priors"]), state.get("length_scales", "shared"))
    predictor = Predictor(process, chosen.zs, Parts(**found["parts"]), clf.vertices_)
    neighbours = Neighbours(**found["neighbours"], floor=float(state["floor"]))
    heaviest = pulls[int(chosen.weight.sum(axis=1).argmax())]
    clf._fit = Fit(space, clf.classes_, neighbours, heaviest, predictor, chosen, posterior, kept)
    return clf


def _arrays(fit: Fit) -> dict[str, dict[str, np.ndarray]]:
    """What a fit has in numbers, by group."""
    chosen, near = fit.chosen, fit.neighbours
    assert chosen is not None
    cases = {"scaled": fit.space.cases, "mean": fit.space.mean, "scale": fit.space.scale}
    groups = {
        "cases": {name: value for name, value in cases.items() if value is not None},
        "neighbours": {name: getattr(near, name) for name in ("codes", "sizes", "distance", "index")},
        "transformations": {name: np.array([getattr(pull, name) for pull in chosen.pulls]) for name in PULL}
        | {name: getattr(chosen, name) for name in ("scales", "zs", "spreads", "weight")}
        | {field.name: getattr(chosen.located, field.name) for field in fields(Located)},
        "parts": {field.name: getattr(fit.predictor.parts, field.name) for field in fields(Parts)},
    }
    if fit.kept is not None:
        groups["kept"] = {"kept": fit.kept[1]}
    return groups


def _state(classifier: CASIMACClassifier) -> dict[str, Any]:
    fit = classifier._fit
    assert fit.chosen is not None
    state = names_of(classifier) | {
        "metric": fit.space.metric,
        "kernel": fit.space.kernel,
        "length_scales": "each" if isinstance(fit.predictor.process, FeatureProcess) else "shared",
        "floor": fit.neighbours.floor,
        "loss": fit.chosen.loss,
        "priors": asdict(fit.predictor.process.priors),
    }
    return state if fit.posterior is None else state | run_of(fit.posterior)


def names_of(classifier: LatentAnswers) -> dict[str, Any]:
    """Parameters, classes and features in words."""
    words, dtype = class_words(classifier.classes_)
    return {
        "parameters": {name: plain(value) for name, value in classifier.get_params(deep=False).items()},
        "classes": words,
        "classes_dtype": dtype,
        "n_features": classifier.n_features_in_,
        "feature_names": [str(name) for name in getattr(classifier, "feature_names_in_", [])],
    }


def set_names(classifier: LatentAnswers, state: dict[str, Any]) -> None:
    """What `names_of` holds of a fitted classifier."""
    classifier.classes_ = np.array(state["classes"], dtype=np.dtype(state["classes_dtype"]))
    classifier.vertices_ = simplex_vertices(len(classifier.classes_))
    classifier.n_features_in_ = int(state["n_features"])
    if state["feature_names"]:
        classifier.feature_names_in_ = np.array(state["feature_names"], dtype=object)


def run_of(posterior: Any) -> dict[str, Any]:
    """How the sampler fared, in words."""
    found = posterior.sampled
    return {
        "convergence": vars(found.convergence) | {"table": found.convergence.table.to_dict()},
        "sampler": found.sampler,
        "interpolation_error": posterior.interpolation_error,
    }


def convergence_of(state: dict[str, Any]) -> Convergence:
    """What `run_of` holds of the gate."""
    words = dict(state["convergence"])
    table = pd.DataFrame(words.pop("table")).rename_axis("parameter")
    return Convergence(table, **words)
