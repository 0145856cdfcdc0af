"""Fitted calibrators in netCDF files: plain arrays and JSON, no pickle, readable by ArviZ, whole or not there.

A file holds the settings, the draws, the constants of the map, and (unless left out) the calibration rows. It ends with
a checksum; one without it is read all the same, such as a file that went through ArviZ. `load` reads whatever this
package saves; which module restores which kind of file stands in the registry.
Reading one needs xarray and h5netcdf, neither PyMC nor a sampler.
"""

import json
import warnings
from dataclasses import asdict, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescal import __version__
from bayescal.calibrators.seal import is_broken, seal
from bayescal.registry import CALIBRATORS, RESTORERS
from bayescal.tables import atomic_path
from bayescal.validation import FileFormatError, check_choice

if TYPE_CHECKING:
    import xarray as xr

SCHEMA = 1
POINTWISE_IN_FILE = (
    2**21
)  # numbers of draws x rows up to which pointwise groups are written for readers without bayescal
EXTRA_GROUPS = ("prior", "log_likelihood", "posterior_predictive")


def save(calibrator: Any, path: Any, *, include_data: bool = True) -> None:
    """Write a fitted calibrator to `path`, see `Calibrator.save`."""
    write(as_tree(calibrator, include_data=include_data), path)


def as_tree(calibrator: Any, *, include_data: bool) -> "xr.DataTree":
    """What a file holds of a fitted calibrator."""
    import xarray as xr
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(calibrator, "classes_")
    groups: dict[str, xr.Dataset] = {}
    members = getattr(calibrator, "members_", None)
    if members is None:
        groups |= {f"/{name}": group for name, group in _groups(calibrator, include_data).items()}
    else:
        groups["/stacking"] = xr.Dataset(
            {
                "weights": ("member", calibrator.weights_.to_numpy()),
                "member_of_draw": (("chain", "draw"), calibrator._member_of_draw),
                **({"elpd": (("obs", "member"), calibrator._elpd)} if include_data else {}),
            },
            coords={"member": list(members)},
        )
        for name, member in members.items():
            groups |= {f"/members/{name}/{key}": g for key, g in _groups(member, include_data).items()}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"calibrator": calibrator._name, "state": json.dumps(_state(calibrator))}
    for name, member in (members or {}).items():
        tree[f"members/{name}"].attrs = {"calibrator": name, "state": json.dumps(_state(member))}
    return tree


def write(tree: "xr.DataTree", path: Any) -> None:
    """Write a tree to a sealed file, which appears whole or not at all; `load` hands it to who restores it."""
    tree.attrs = {"bayescal_schema": SCHEMA, "bayescal_version": __version__, **tree.attrs}
    encoding = {
        node.path: {
            v: {"zlib": True, "complevel": 1} for v, a in node.data_vars.items() if a.dtype.kind in "fiu" and a.ndim
        }
        for node in tree.subtree
    }
    with atomic_path(Path(path)) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        seal(temporary)


def load(path: Any) -> Any:
    """Read a calibrator, an adapter or a classifier that `save` wrote.

    Parameters
    ----------
    path : path-like
        A file written by the ``save`` of a calibrator, of a `LabelShiftAdapter` or of a CASIMAC classifier.

    Returns
    -------
    calibrator, LabelShiftAdapter, CASIMACClassifier or GenerativeCASIMACClassifier
        Fitted, of the class that was saved; predictions are bit-identical.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is damaged, was not written by bayescal, or by a version with a newer schema.

    Examples
    --------
    >>> import tempfile, bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(inference="point").fit(days["logistic"], days["rain"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/fit.nc")
    ...     bc.load(f"{folder}/fit.nc").classes_
    array([0, 1])
    """
    import h5py
    import xarray as xr

    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file {str(file)!r} to load.")
    if file.is_dir():
        raise FileFormatError(f"{str(file)!r} is a folder. Pass the .nc file in it.")
    if is_broken(file):
        raise FileFormatError(
            f"{file.name!r} is damaged: by its checksum it is not what was saved. Copy it again, or fit and save anew."
        )
    try:
        with h5py.File(file) as opened:  # first: a file that h5netcdf cannot open, it complains of on standard error
            ours = "bayescal_schema" in opened.attrs
        if ours:
            with xr.open_datatree(file, engine="h5netcdf") as opened:
                tree = opened.load()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as problem:
        raise FileFormatError(
            f"{file.name!r} cannot be read as netCDF: {problem}. It may be damaged or cut short."
        ) from None
    if not ours:
        raise FileFormatError(f"{file.name!r} is a netCDF file, but bayescal did not write it. Load it with ArviZ.")
    if tree.attrs["bayescal_schema"] != SCHEMA:
        raise FileFormatError(
            f"{file.name!r} has schema {tree.attrs['bayescal_schema']}, written by bayescal "
            f"{tree.attrs.get('bayescal_version')}; this is {__version__}, which reads schema {SCHEMA}. Upgrade it."
        )
    written_by = str(tree.attrs.get("bayescal_version"))
    if written_by.split(".")[:2] != __version__.split(".")[:2]:
        warnings.warn(
            f"{file.name!r} was written by bayescal {written_by}, this is {__version__}.", UserWarning, stacklevel=2
        )
    try:
        return import_module(RESTORERS[tree.attrs.get("kind", "calibrator")]).restore(tree)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as problem:
        raise FileFormatError(f"{file.name!r} is damaged: {problem!r}. Fit and save again.") from None


def _groups(calibrator: Any, include_data: bool) -> dict[str, Any]:
    """The arrays of a calibrator with a map of its own, as datasets."""
    from bayescal.calibrators.datatree import dataset

    groups = {
        "scale": dataset(calibrator._scale, (), {}),
        "point": dataset(calibrator._point_parameters, (), {}),
    }
    if not calibrator._is_point:
        chains, draws = calibrator._draw_shape
        coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
        groups["posterior"] = dataset(calibrator._draws, ("chain", "draw"), coords)
        groups["sample_stats"] = dataset(calibrator._statistics, ("chain", "draw"), coords)
        found = calibrator._convergence
        columns = {name: ("parameter", found.table[name].to_numpy()) for name in found.table}
        groups["convergence"] = groups["scale"].drop_vars(list(groups["scale"].variables)).assign(columns)
        groups["convergence"] = groups["convergence"].assign_coords(parameter=found.table.index.to_numpy().astype(str))
        groups["convergence"].attrs = {
            "divergences": found.divergences,
            "e_bfmi": found.e_bfmi,
            "verdict": found.verdict,
            "message": found.message,
        }
    rows = calibrator._rows
    if include_data and rows is not None:
        obs = {"obs": np.arange(len(rows.scores))}
        groups["observed_data"] = dataset({"y": rows.y}, ("obs",), obs)
        groups["constant_data"] = dataset({"scores": rows.scores, "weight": rows.weight}, ("obs",), obs)
        if not calibrator._is_point and np.prod(calibrator._draw_shape) * len(rows.scores) <= POINTWISE_IN_FILE:
            groups |= {name: calibrator.idata_[name].to_dataset() for name in EXTRA_GROUPS}
    return groups


def _state(calibrator: Any) -> dict[str, Any]:
    words, dtype = class_words(calibrator.classes_)
    parameters = {name: plain(value) for name, value in calibrator.get_params(deep=False).items()}
    if parameters["classes"] is not None:
        parameters["classes"] = words
    state = {
        "parameters": parameters,
        "classes": words,
        "classes_dtype": dtype,
        "n_features": calibrator.n_features_in_,
        "n_scores": calibrator._n_scores,
        "feature_names": [str(n) for n in getattr(calibrator, "feature_names_in_", [])],
        "entropy": str(calibrator._entropy),
    }
    if hasattr(calibrator, "_priors"):
        state["priors"] = asdict(calibrator._priors)
    return state


def class_words(classes: np.ndarray) -> tuple[list[Any], str]:
    """Labels as JSON holds them, and the type to make an array of them again."""
    words = classes.astype(str).tolist() if classes.dtype.kind in "MmS" else classes.tolist()
    return words, "object" if classes.dtype.kind == "O" else classes.dtype.str


def plain(value: Any) -> Any:
    """A constructor's setting in JSON; what has no plain form (a callable, a random generator) becomes None."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else None


def restore(tree: Any) -> Any:
    """The fitted calibrator of a tree that `as_tree` made."""
    name = check_choice(tree.attrs["calibrator"], list(CALIBRATORS), "calibrator")
    state = json.loads(tree.attrs["state"])
    parameters = dict(state["parameters"])
    if parameters.get("members") is not None:
        parameters["members"] = tuple(parameters["members"])
    classes = np.array(state["classes"], dtype=np.dtype(state["classes_dtype"]))
    if parameters["classes"] is not None:
        parameters["classes"] = list(classes) if classes.dtype.kind in "MmS" else classes.tolist()
    calibrator = CALIBRATORS[name].load()(**parameters)
    calibrator.classes_ = classes
    calibrator.n_features_in_ = int(state["n_features"])
    calibrator._n_scores = int(state.get("n_scores", 1))  # files of 0.1 before several scores have one
    if state["feature_names"]:
        calibrator.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    calibrator._entropy = int(state["entropy"])
    if name == "auto":
        stacking = tree["stacking"]
        names = [str(m) for m in stacking["member"].values]
        calibrator.members_ = {member: restore(tree[f"members/{member}"]) for member in names}
        calibrator.weights_ = pd.Series(stacking["weights"].values, index=names, name="weight")
        calibrator._member_of_draw = stacking["member_of_draw"].values
        calibrator._elpd = stacking["elpd"].values if "elpd" in stacking else None
        return calibrator
    _restore_map(calibrator, tree, state)
    return calibrator


def _restore_map(calibrator: Any, tree: Any, state: dict[str, Any]) -> None:
    from bayescal.inference.convergence import Convergence

    def arrays(group: str) -> dict[str, np.ndarray]:
        return {str(name): variable.values for name, variable in tree[group].data_vars.items()}

    calibrator._priors = calibrator._priors_for(calibrator._n_scores)(**state["priors"])
    calibrator._scale = arrays("scale")
    calibrator._point_parameters = arrays("point")
    calibrator._rows = None
    if "constant_data" in tree.children:
        data, observed = arrays("constant_data"), arrays("observed_data")
        calibrator._rows = calibrator._restore_rows(data["scores"], observed["y"], data["weight"])
    calibrator._posterior = calibrator._statistics = calibrator._convergence = None
    if calibrator.inference == "point":
        return
    calibrator._posterior = arrays("posterior")
    if not all(np.isfinite(draws).all() for draws in calibrator._posterior.values()):
        raise ValueError("posterior draws are not finite")
    calibrator._statistics = arrays("sample_stats")
    kept = tree["convergence"]
    table = pd.DataFrame(arrays("convergence"), index=pd.Index(kept["parameter"].values.astype(str), name="parameter"))
    calibrator._convergence = Convergence(
        table[["r_hat", "ess_bulk", "ess_tail"]],
        int(kept.attrs["divergences"]),
        float(kept.attrs["e_bfmi"]),
        str(kept.attrs["verdict"]),
        str(kept.attrs["message"]),
    )
