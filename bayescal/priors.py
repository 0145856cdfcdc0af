"""Prior settings: one frozen dataclass for each calibrator, defined in the calibrator's own file.

Every field is a number whose metadata says its scale and the reason for its default; `describe` lists them.

>>> import bayescal as bc
>>> bc.priors.PlattPriors(intercept_sd=0.5).intercept_sd
0.5
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from typing import Any, Self

import numpy as np

from bayescal.validation import ParameterValueError

__all__ = [  # noqa: F822 (see __getattr__)
    "BernsteinPriors",
    "BernsteinSurfacePriors",
    "BetaPriors",
    "BiasCorrectedTemperaturePriors",
    "CASIMACPriors",
    "CopulaPriors",
    "IsotonicPriors",
    "NoBiasVectorPriors",
    "PlattPriors",
    "SplinePriors",
    "TemperaturePriors",
    "VectorPriors",
]

DOMAINS: dict[str, tuple[Callable[[float], bool], str]] = {
    "real": (lambda _: True, "a finite number"),
    "positive": (lambda value: value > 0, "a positive finite number"),
    "nonnegative": (lambda value: value >= 0, "zero or a positive finite number"),
}


def setting(default: float, reason: str, *, positive: bool = False, nonnegative: bool = False) -> Any:
    """A dataclass field with its reason and domain."""
    domain = "positive" if positive else "nonnegative" if nonnegative else "real"
    return field(default=default, metadata={"reason": reason, "domain": domain})


@dataclass(frozen=True)
class Priors:
    """Base of the prior settings: finite numbers, in the domain that the field says."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
            inside, words = DOMAINS[f.metadata["domain"]]
            if not good or not inside(value):
                raise ParameterValueError(f"prior setting {f.name} must be {words}, got {value!r}.")

    @classmethod
    def read(cls, given: "Priors | Mapping[str, float] | None", default: "Priors") -> Self:
        """Read what a user passed as `priors`: None, an instance, or a mapping of some fields."""
        if given is None:
            given = default
        if isinstance(given, Mapping):
            names = [f.name for f in fields(cls)]
            unknown = [name for name in given if name not in names]
            if unknown:
                raise ParameterValueError(
                    f"priors has no setting {unknown[0]!r}; {cls.__name__} has {', '.join(names)}."
                )
            given = cls(**{**asdict(default), **given})
        if not isinstance(given, cls):
            raise ParameterValueError(f"priors must be a {cls.__name__}, a dict of its fields or None, got {given!r}.")
        return given

    def vector(self) -> np.ndarray:
        """List the settings in field order, as the model's data.

        Returns
        -------
        ndarray of shape (settings,)
            Values, in the units that the fields name.
        """
        return np.array([float(getattr(self, f.name)) for f in fields(self)])

    def describe(self) -> list[tuple[str, float, str]]:
        """List name, value and reason of every setting.

        Returns
        -------
        list of tuple of (str, float, str)
            One entry for each setting, in field order.
        """
        return [(f.name, float(getattr(self, f.name)), str(f.metadata["reason"])) for f in fields(self)]


def __getattr__(name: str) -> Any:
    if name == "CASIMACPriors":  # of a classifier of features, which is no calibrator of the registry
        return import_module("bayescal.casimac.settings").CASIMACPriors
    if name.endswith("Priors"):
        from bayescal.registry import CALIBRATORS

        for entry in CALIBRATORS.values():
            if name in (entry.priors_name, entry.several_priors_name):
                return entry.load_priors(several=name == entry.several_priors_name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
