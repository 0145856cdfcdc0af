"""The one place where inputs are judged, and the one place where input errors are worded.

Every function takes what a user passed and returns trusted NumPy arrays: float64, finite, C-contiguous, never a view
that a later step could write through. Each error says what was wrong, where, what is allowed, what came, the next step.
"""

from bayescal.validation.arrays import (
    check_class_weights,
    check_row_order,
    check_sample_weight,
    stated,
)
from bayescal.validation.errors import (
    CalibrationWarning,
    ConvergenceWarning,
    FileFormatError,
    LabelValueError,
    NoPosteriorError,
    ParameterValueError,
    ScoreValueError,
    WeightValueError,
    quiet,
)
from bayescal.validation.forecasts import (
    Forecast,
    check_class_forecast,
    check_estimates,
    check_forecast,
    check_grid_forecast,
    states_several_classes,
)
from bayescal.validation.labels import (
    check_class_labels,
    check_column_order,
    check_labels,
    column_names,
    label_values,
)
from bayescal.validation.scores import (
    CLASS_SCORE_KINDS,
    SCORE_KINDS,
    Scores,
    check_class_scores,
    check_scores,
)
from bayescal.validation.settings import (
    check_choice,
    check_count,
    check_flag,
    check_fraction,
    check_nonnegative,
    check_progress,
    check_threshold,
)

__all__ = [
    "CLASS_SCORE_KINDS",
    "SCORE_KINDS",
    "CalibrationWarning",
    "ConvergenceWarning",
    "FileFormatError",
    "Forecast",
    "LabelValueError",
    "NoPosteriorError",
    "ParameterValueError",
    "ScoreValueError",
    "Scores",
    "WeightValueError",
    "check_choice",
    "check_class_forecast",
    "check_class_labels",
    "check_class_scores",
    "check_class_weights",
    "check_column_order",
    "check_count",
    "check_estimates",
    "check_flag",
    "check_forecast",
    "check_fraction",
    "check_grid_forecast",
    "check_labels",
    "check_nonnegative",
    "check_progress",
    "check_row_order",
    "check_sample_weight",
    "check_scores",
    "check_threshold",
    "column_names",
    "label_values",
    "quiet",
    "stated",
    "states_several_classes",
]
