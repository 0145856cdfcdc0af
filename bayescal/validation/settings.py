"""Settings: one word of a list, one number of a range."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescal.validation.errors import ParameterValueError


def check_choice(value: Any, allowed: Sequence[str], name: str) -> str:
    """A word out of a short list."""
    if not isinstance(value, str) or value not in allowed:
        raise ParameterValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """A whole number, at least `minimum`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        raise ParameterValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}.")
    return int(value)


def check_nonnegative(value: Any, name: str) -> float:
    """A finite number, at least 0."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value < 0:
        raise ParameterValueError(f"{name} must be a finite number, at least 0, got {value!r}.")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_progress(value: Any, name: str = "progressbar") -> Any:
    """None, True, False, or a function that hears of progress."""
    if not (value is None or isinstance(value, bool) or callable(value)):
        raise ParameterValueError(
            f"{name} must be None (a bar on a terminal), True, False or a function, got {value!r}."
        )
    return value


def check_fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    if not is_number or not 0 < value < 1:
        percent = f" Pass {value / 100:g} for {value:g} %." if is_number and 1 < value < 100 else ""
        raise ParameterValueError(f"{name} must be a number between 0 and 1 (exclusive), got {value!r}.{percent}")
    return float(value)


def check_threshold(value: Any, name: str = "threshold") -> float:
    """A probability, 0 and 1 included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterValueError(f"{name} must be a probability in [0, 1], got {value!r}.")
    return float(value)
