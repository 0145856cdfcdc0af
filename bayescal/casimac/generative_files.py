"""Generative CASIMAC classifiers in netCDF files: settings, training cases and draws, by the rules of `files.py`."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.datatree import dataset
from bayescal.calibrators.files import write
from bayescal.casimac.files import convergence_of, names_of, run_of, set_names
from bayescal.casimac.generative import Posterior, Process
from bayescal.casimac.generative_classifier import GenerativeCASIMACClassifier, GenerativeFit
from bayescal.casimac.inputs import Space
from bayescal.casimac.settings import GenerativeCASIMACPriors
from bayescal.inference.sampling import Draws

if TYPE_CHECKING:
    import xarray as xr


def save(classifier: GenerativeCASIMACClassifier, path: Any) -> None:
    """Write a fitted classifier to `path`, see `GenerativeCASIMACClassifier.save`."""
    import xarray as xr

    check_is_fitted(classifier, "classes_")
    fit = classifier._fit
    cases = {"scaled": fit.space.cases, "mean": fit.space.mean, "scale": fit.space.scale, "codes": fit.codes}
    draws = fit.posterior.draws
    chains, size = draws["amplitude"].shape
    coords = {"chain": np.arange(chains), "draw": np.arange(size)}
    groups = {
        "/cases": dataset({name: value for name, value in cases.items() if value is not None}, (), {}),
        "/posterior": dataset(draws, ("chain", "draw"), coords),
        "/sample_stats": dataset(fit.posterior.sampled.statistics, ("chain", "draw"), coords),
    }
    process = fit.predictor.process
    state = names_of(classifier) | run_of(fit.posterior)
    state |= {"kernel": process.kernel, "priors": asdict(process.priors), "seed": fit.seed}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"kind": "casimac-generative", "state": json.dumps(state)}
    write(tree, path)


def restore(tree: "xr.DataTree") -> GenerativeCASIMACClassifier:
    """The classifier of a tree that `save` made."""
    state = json.loads(tree.attrs["state"])
    cases, draws, statistics = (
        {str(key): variable.values for key, variable in tree[group].data_vars.items()}
        for group in ("cases", "posterior", "sample_stats")
    )
    if not all(np.isfinite(array).all() for array in (*cases.values(), *draws.values())):
        raise ValueError("numbers of the fit are not finite")
    clf = GenerativeCASIMACClassifier(**state["parameters"])
    set_names(clf, state)
    space = Space(cases["scaled"], cases.get("mean"), cases.get("scale"), clf.metric, state["kernel"])
    sampled = Draws(draws, statistics, convergence_of(state), state["sampler"])
    posterior = Posterior(draws, sampled, float(state["interpolation_error"]))
    process = Process(space.cases, state["kernel"], GenerativeCASIMACPriors(**state["priors"]))
    clf._fit = GenerativeFit(space, cases["codes"], posterior, process, clf.vertices_, state["seed"])
    return clf
