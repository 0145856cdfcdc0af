"""The calibrators there are. Whatever lists them (the command line, comparisons, the shared tests) reads this."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayescal.validation import check_choice

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class Entry:
    """One calibrator: where it lives and what it is, without importing it."""

    class_name: str
    module: str
    summary: str
    priors_name: str | None
    several_priors_name: str | None = None  # where it has other priors for several scores
    columns: str = "one"  # classifiers whose scores it reads: "one", "several", "any"; or "classes" of one
    inferences: tuple[str, ...] = ("nuts", "point")

    def load(self) -> type:
        """The estimator class."""
        return getattr(import_module(self.module), self.class_name)

    def load_priors(self, *, several: bool = False) -> type:
        """The class of its prior settings."""
        name = self.several_priors_name if several and self.several_priors_name else self.priors_name
        if name is None:
            raise AttributeError(f"{self.class_name} has no priors of its own")
        return getattr(import_module(self.module), name)


CALIBRATORS = {
    "platt": Entry(
        "PlattCalibrator",
        "bayescal.calibrators.platt",
        "logistic in the log-odds; 1 parameter more than scores",
        "PlattPriors",
        columns="any",
    ),
    "beta": Entry(
        "BetaCalibrator",
        "bayescal.calibrators.beta",
        "beta map, bends each end on its own; 3 parameters",
        "BetaPriors",
    ),
    "isotonic": Entry(
        "IsotonicCalibrator",
        "bayescal.calibrators.isotonic",
        "monotone step function (PAV beside it)",
        "IsotonicPriors",
    ),
    "bernstein": Entry(
        "BernsteinCalibrator",
        "bayescal.calibrators.bernstein",
        "smooth monotone curve, or surface of several scores, of any shape",
        "BernsteinPriors",
        "BernsteinSurfacePriors",
        columns="any",
    ),
    "spline": Entry(
        "SplineCalibrator",
        "bayescal.calibrators.spline",
        "smooth curve of any shape, which may fall",
        "SplinePriors",
    ),
    "copula": Entry(
        "CopulaCalibrator",
        "bayescal.calibrators.copula",
        "a distribution of several scores for each class, and Bayes' rule",
        "CopulaPriors",
        columns="several",
    ),
    "mrmic": Entry(
        "MRMICCalibrator",
        "bayescal.calibrators.mrmic",
        "smoothed isotonic regression of several scores; no posterior",
        None,
        columns="several",
        inferences=("point",),
    ),
    "temperature": Entry(
        "TemperatureScaling",
        "bayescal.calibrators.scaling",
        "temperature scaling; 1 parameter",
        "TemperaturePriors",
        columns="classes",
    ),
    "no-bias-vector": Entry(
        "NoBiasVectorScaling",
        "bayescal.calibrators.scaling",
        "a scale for each class",
        "NoBiasVectorPriors",
        columns="classes",
    ),
    "bias-corrected-temperature": Entry(
        "BiasCorrectedTemperatureScaling",
        "bayescal.calibrators.scaling",
        "a temperature, and a bias for each class",
        "BiasCorrectedTemperaturePriors",
        columns="classes",
    ),
    "vector": Entry(
        "VectorScaling",
        "bayescal.calibrators.scaling",
        "a scale and a bias for each class",
        "VectorPriors",
        columns="classes",
    ),
    "auto": Entry(
        "StackedCalibrator",
        "bayescal.calibrators.stacked",
        "all that read the scores, averaged by LOO stacking",
        None,
        columns="any",
        inferences=("nuts",),
    ),
}

# kind of a saved file -> module whose `restore` makes an object of its tree
RESTORERS = {
    "calibrator": "bayescal.calibrators.files",
    "label-shift": "bayescal.label_shift.files",
    "casimac": "bayescal.casimac.files",
    "casimac-generative": "bayescal.casimac.generative_files",
}


def build_model(method: str, scores: Any, y: Any, *, sample_weight: Any = None, **settings: Any) -> "pm.Model":
    """Build the PyMC model of a calibrator, to sample it your own way.

    Parameters
    ----------
    method : str
        Name of a calibrator with priors of its own, such as ``"platt"`` or ``"vector"``.
    scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
        Scores, as for the calibrator's ``fit``.
    y : array-like of shape (n,)
        Labels.
    sample_weight : array-like of shape (n,), default=None
        Frequencies.
    **settings
        Constructor arguments of the calibrator, such as ``score_kind`` and ``priors``.

    Returns
    -------
    pymc.Model
        The model that ``fit`` samples. Equal scores share one row of its observed variable ``y``.

    Raises
    ------
    ParameterValueError
        If `method` is not the name of a calibrator with a model.

    Examples
    --------
    >>> import bayescal as bc
    >>> model = bc.build_model("platt", [0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1])
    >>> sorted(v.name for v in model.free_RVs)
    ['intercept', 'slope']
    """
    check_choice(method, [name for name, entry in CALIBRATORS.items() if entry.priors_name], "method")
    return CALIBRATORS[method].load()(**settings).build_model(scores, y, sample_weight=sample_weight)


def curve_names() -> tuple[str, ...]:
    """Names of the calibrators that give one score a curve with a posterior."""
    return tuple(
        name for name, entry in CALIBRATORS.items() if entry.columns in ("one", "any") and "nuts" in entry.inferences
    )
