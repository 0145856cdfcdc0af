"""Adapters in netCDF files: the fitted calibrator, what is known of the source, and what an adaptation found.

The rules are those of `bayescal.calibrators.files`, which writes the file and reads it.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.files import as_tree, class_words, plain, write
from bayescal.calibrators.files import restore as restore_calibrator
from bayescal.label_shift.adapter import LabelShiftAdapter
from bayescal.label_shift.calibrated import Calibrated
from bayescal.label_shift.settings import read_prior
from bayescal.validation import ParameterValueError

if TYPE_CHECKING:
    import xarray as xr

DRAWN = ("target_prior", "source_prior")
FOUND = ("target_prior", "source_prior", "weights")


def save(adapter: LabelShiftAdapter, path: Any, *, include_data: bool = True) -> None:
    """Write a fitted adapter to `path`, see `LabelShiftAdapter.save`."""
    import xarray as xr

    check_is_fitted(adapter, "classes_")
    groups = {f"/{name}": group for name, group in _groups(adapter).items()}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"kind": "label-shift", "state": json.dumps(_state(adapter))}
    if isinstance(adapter.calibrator_, Calibrator):
        tree["calibrator"] = as_tree(adapter.calibrator_, include_data=include_data)
    elif not isinstance(adapter.calibrator_, Calibrated):
        raise ParameterValueError(
            f"an adapter is saved with a calibrator of this package, got {type(adapter.calibrator_).__name__}. "
            "Keep the adapter with pickle."
        )
    write(tree, path)


def restore(tree: "xr.DataTree") -> LabelShiftAdapter:
    """The adapter of a tree that `save` made."""
    state = json.loads(tree.attrs["state"])
    ad = LabelShiftAdapter(**state["parameters"])
    if "calibrator" in tree.children:
        ad.calibrator_ = restore_calibrator(tree["calibrator"])
        if state["frozen"]:
            ad.calibrator = FrozenEstimator(ad.calibrator_)
        else:
            ad.calibrator = clone(ad.calibrator_).set_params(**state["calibrator_seed"])
    else:
        ad.calibrator_ = Calibrated()
        ad.calibrator_.classes_ = np.array(state["classes"], dtype=np.dtype(state["classes_dtype"]))
        if state["given"]:
            ad.calibrator = Calibrated(list(ad.calibrator_.classes_))
    ad.classes_ = np.asarray(ad.calibrator_.classes_)
    ad._prior = read_prior(ad.prior, ad.classes_)
    ad._entropy = [int(word) for word in state["entropy"]]
    source = {str(name): variable.values for name, variable in tree["source"].data_vars.items()}
    ad._counts, ad._mean = source["label_counts"], source["mean_proba"]
    ad._confusion, ad._chosen = source.get("confusion"), source.get("chosen")
    if ad.method == "bayes":
        ad._source = source["source_draws"]
    if state["draw_shape"] is not None:
        ad._draw_shape = tuple(state["draw_shape"])
    if "adapted" in tree.children:
        ad._n_target = int(state["n_target"])
        ad._p = ad._q = None
        if "posterior" in tree.children:
            ad._q, ad._p = (_array(tree, "posterior", name).reshape(-1, len(ad.classes_)) for name in DRAWN)
            if not (np.isfinite(ad._q).all() and np.isfinite(ad._p).all()):
                raise ValueError("posterior draws are not finite")
        ad._w = ad._weight_draws()
        ad._keep(*(_array(tree, "adapted", name) for name in FOUND))
    return ad


def _array(tree: "xr.DataTree", group: str, name: str) -> np.ndarray:
    return np.asarray(tree[group].to_dataset()[name].values)


def _state(adapter: LabelShiftAdapter) -> dict[str, Any]:
    parameters = {name: plain(value) for name, value in adapter.get_params(deep=False).items() if name != "calibrator"}
    seed = {}
    if "random_state" in adapter.calibrator_.get_params(deep=False):
        seed = {"random_state": plain(getattr(adapter.calibrator, "random_state", None))}
    words, dtype = class_words(adapter.classes_)
    return {
        "parameters": parameters,
        "classes": words,
        "classes_dtype": dtype,
        "given": adapter.calibrator is not None,
        "frozen": isinstance(adapter.calibrator, FrozenEstimator),
        "calibrator_seed": seed,
        "entropy": [str(word) for word in adapter._entropy],
        "draw_shape": getattr(adapter, "_draw_shape", None),
        "n_target": getattr(adapter, "_n_target", None),
    }


def _groups(adapter: LabelShiftAdapter) -> dict[str, Any]:
    import xarray as xr

    source: dict[str, Any] = {"label_counts": ("class", adapter._counts), "mean_proba": ("class", adapter._mean)}
    if adapter._confusion is not None:
        source["confusion"] = (("row", "column"), adapter._confusion)
    if adapter._chosen is not None:
        source["chosen"] = ("sample", adapter._chosen)
    if adapter.method == "bayes":
        source["source_draws"] = (("sample", "class"), adapter._source)
    names = {"class": adapter.classes_.astype(str)}
    groups = {"source": xr.Dataset(source, coords=names)}
    if not hasattr(adapter, "weights_"):
        return groups
    found = {name: ("class", getattr(adapter, f"{name}_").values) for name in FOUND}
    groups["adapted"] = xr.Dataset(found, coords=names)
    if adapter._q is not None:
        groups["posterior"] = adapter.idata_["posterior"].to_dataset().assign_coords(names)
    return groups
