"""Bayesian calibration of classifier scores.

>>> import bayescal as bc
>>> days = bc.datasets.load_rain_niamey()
>>> bc.PlattCalibrator(inference="point").fit(days["ens"], days["rain"]).predict([0.2, 0.8])
array([0, 1])

Public names are resolved on first use, so that importing the package costs milliseconds and never loads PyMC.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_PUBLIC = {
    "PlattCalibrator": "calibrators.platt",
    "BetaCalibrator": "calibrators.beta",
    "IsotonicCalibrator": "calibrators.isotonic",
    "BernsteinCalibrator": "calibrators.bernstein",
    "SplineCalibrator": "calibrators.spline",
    "CopulaCalibrator": "calibrators.copula",
    "MRMICCalibrator": "calibrators.mrmic",
    "StackedCalibrator": "calibrators.stacked",
    "TemperatureScaling": "calibrators.scaling",
    "NoBiasVectorScaling": "calibrators.scaling",
    "BiasCorrectedTemperatureScaling": "calibrators.scaling",
    "VectorScaling": "calibrators.scaling",
    "build_model": "registry",
    "load": "calibrators.files",
    "LabelShiftAdapter": "label_shift.adapter",
    "CASIMACClassifier": "casimac.classifier",
    "GenerativeCASIMACClassifier": "casimac.generative_classifier",
    "miscalibration": "evaluation.miscalibration",
    "assess": "evaluation.assess",
    "compare": "evaluation.compare",
    "prior_sensitivity": "evaluation.sensitivity",
    "decision_curve": "evaluation.decisions",
    "expected_utility": "evaluation.decisions",
    "plan": "evaluation.planning",
    "plot_decision_curve": "plots.decision_curve",
    "plot_plan": "plots.plan",
    "plot_reliability": "plots.reliability",
    "plot_calibration_map": "plots.calibration_map",
    "plot_prior_posterior": "plots.prior_posterior",
    "plot_surface": "plots.surface",
    "plot_simplex": "plots.simplex",
    "plot_priors": "plots.priors",
    "ConvergenceWarning": "validation",
    "CalibrationWarning": "validation",
    "NoPosteriorError": "validation",
    "ScoreValueError": "validation",
    "LabelValueError": "validation",
    "WeightValueError": "validation",
    "ParameterValueError": "validation",
    "FileFormatError": "validation",
}
# public name of a module -> where it is
_MODULES = {"datasets": "datasets", "metrics": "evaluation.metrics", "pav": "pav", "priors": "priors"}

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name in _PUBLIC:
        value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
