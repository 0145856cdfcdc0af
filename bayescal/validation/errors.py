"""The errors and warnings that users meet, and how to silence a warning that the caller gives itself."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class ScoreValueError(ValueError):
    """Scores that no calibrator can read."""


class LabelValueError(ValueError):
    """Labels that do not define a classification problem."""


class WeightValueError(ValueError):
    """Sample weights that are not frequencies."""


class ParameterValueError(ValueError):
    """A setting outside its domain."""


class FileFormatError(ValueError):
    """A file that bayescal did not write, or that is damaged."""


class NoPosteriorError(RuntimeError, AttributeError):
    """An interval or draws were asked of a point estimate; an AttributeError too, so that ``hasattr`` says no."""


class ConvergenceWarning(UserWarning):
    """The sampler's draws cannot be trusted yet."""


class CalibrationWarning(UserWarning):
    """The answer rests on the prior, or on an assumption that the data contradict."""


@contextmanager
def quiet(*categories: type[Warning]) -> Iterator[None]:
    """Silence warnings that the caller will give itself."""
    with warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("ignore", category)
        yield
