"""Point metrics of probabilities and of their calibration: arrays in, a number out.

``f(y_true, y_proba, *, sample_weight=None, ...)``, in scikit-learn's order. They say what was seen on these cases and
not how sure of it to be: with few cases a calibrated forecast has an ECE, an MCE or an ICI far from 0. Intervals are
`bayescal.miscalibration`'s.

>>> import bayescal as bc
>>> days = bc.datasets.load_rain_niamey()
>>> bc.metrics.brier_score(days["rain"], days["ens"])
0.2662...
"""

from bayescal.evaluation.metrics.binned import area_deviation, debiased_ece, ece, mce
from bayescal.evaluation.metrics.classes import class_wise_ece, class_wise_mce, top_label_ece, top_label_mce
from bayescal.evaluation.metrics.decisions import net_benefit
from bayescal.evaluation.metrics.grid import grid_errors
from bayescal.evaluation.metrics.logistic import (
    calibration_in_the_large,
    calibration_intercept,
    calibration_slope,
    spiegelhalter_z,
)
from bayescal.evaluation.metrics.scores import brier_score, corp_decomposition, log_loss, proba_loss, weight_mse
from bayescal.evaluation.metrics.smooth import calibration_distances, ici, smooth_ece

__all__ = [
    "area_deviation",
    "brier_score",
    "calibration_distances",
    "calibration_in_the_large",
    "calibration_intercept",
    "calibration_slope",
    "class_wise_ece",
    "class_wise_mce",
    "corp_decomposition",
    "debiased_ece",
    "ece",
    "grid_errors",
    "ici",
    "log_loss",
    "mce",
    "net_benefit",
    "proba_loss",
    "smooth_ece",
    "spiegelhalter_z",
    "top_label_ece",
    "top_label_mce",
    "weight_mse",
]
