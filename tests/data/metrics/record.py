"""Record what other packages measure on one set of forecasts, in `recorded.json`.

    uv run --no-project --with scikit-learn==1.9.1 --with statsmodels==0.15.0 --with relplot==1.0.3 \
        --with model-diagnostics==1.5.0 --with uncertainty-calibration==0.1.4 --with scikit-misc \
        python tests/data/metrics/record.py

The forecasts are written beside the numbers: two classes with weights, n = 240 and no two equal probabilities, so that
conventions on edges and ties do not matter; three classes, n = 200.
"""

import json
from importlib.metadata import version
from pathlib import Path

import calibration
import numpy as np
import relplot
import statsmodels.api as sm
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from scipy.special import expit, logit, softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss
from skmisc.loess import loess

rng = np.random.default_rng(20260106)
p = expit(rng.normal(-0.3, 1.4, 240))
y = (rng.random(240) < expit(0.4 + 0.7 * logit(p))).astype(int)
w = rng.integers(1, 5, 240)
scores = rng.normal(0.0, 1.5, (200, 3))
several = softmax(scores, axis=1)
code = np.array([rng.choice(3, p=q) for q in softmax(0.6 * scores + [0.3, 0.0, -0.3], axis=1)])


def logistic(weight):
    """Intercept, slope, and intercept beside slope 1."""
    x = logit(p)
    family = sm.families.Binomial()
    free = sm.GLM(y, sm.add_constant(x), family=family, freq_weights=weight).fit(tol=1e-13)
    fixed = sm.GLM(y, np.ones(len(x)), family=family, offset=x, freq_weights=weight).fit(tol=1e-13)
    return {"intercept": free.params[0], "slope": free.params[1], "in_the_large": fixed.params[0]}


def corp(score, weight):
    """Parts of a score."""
    return decompose(y, p, weight, scoring_function=score).row(0, named=True)


def local_quadratic():
    """Loess of degree 2 and span 0.75, every point fitted on its own; its distances from p."""
    fit = loess(p, y.astype(float), span=0.75, degree=2, surface="direct")
    fit.fit()
    distance = np.sort(np.abs(np.clip(fit.outputs.fitted_values, 0, 1) - p))
    # the smallest distance that at least half, or 90 %, of 240 cases do not exceed
    return {"ici": distance.mean(), "e50": distance[119], "e90": distance[215], "emax": distance[-1]}


def equal_width(n_bins):
    """ECE and MCE from scikit-learn's curve, whose bins are those that hold a case."""
    observed, stated = calibration_curve(y, p, n_bins=n_bins)
    cases = np.histogram(p, np.linspace(0, 1, n_bins + 1))[0]
    error = np.abs(observed - stated)
    return {"ece": error @ cases[cases > 0] / len(p), "mce": error.max()}


binary = {
    "brier": brier_score_loss(y, p),
    "brier_weighted": brier_score_loss(y, p, sample_weight=w),
    "log_loss": log_loss(y, p),
    "log_loss_weighted": log_loss(y, p, sample_weight=w),
    "equal_width": {str(k): equal_width(k) for k in (5, 10, 15)},
    "ece_uncertainty_calibration": calibration.get_ece(p, y, num_bins=10),
    "ece_equal_mass": {str(k): calibration.get_ece_em(p, y, num_bins=k) for k in (5, 10, 15)},
    "rms_debiased_equal_mass": calibration.lower_bound_scaling_ce(p, y, p=2, debias=True, num_bins=10),
    "logistic": logistic(None),
    "logistic_weighted": logistic(w),
    "corp_brier": corp(SquaredError(), None),
    "corp_brier_weighted": corp(SquaredError(), w),
    "corp_log": corp(LogLoss(), None),
    "loess": local_quadratic(),
    "smooth_ece": relplot.smECE(p, y),
}
# the package simulates the expectation
np.random.seed(1)  # noqa: NPY002, what the package draws from
simulated = [
    calibration.lower_bound_scaling_ce(p, y, p=1, debias=True, num_bins=10, binning_scheme=calibration.get_equal_bins)
    for _ in range(400)
]
binary["debiased_equal_mass"] = {"mean": np.mean(simulated), "standard_error": np.std(simulated, ddof=1) / 20}
recorded = {
    "versions": {
        name: version(name)
        for name in (
            "scikit-learn",
            "statsmodels",
            "relplot",
            "model-diagnostics",
            "uncertainty-calibration",
            "scikit-misc",
        )
    },
    "two_classes": {"y": y.tolist(), "p": p.tolist(), "w": w.tolist(), "found": binary},
    "three_classes": {
        "y": code.tolist(),
        "p": several.tolist(),
        "found": {
            "brier": brier_score_loss(code, several),
            "log_loss": log_loss(code, several),
            "top_label": calibration.get_ece(several, code, num_bins=10, mode="top-label"),
            "class_wise": calibration.get_ece(several, code, num_bins=10, mode="marginal"),
            "class_wise_equal_mass": calibration.get_ece_em(several, code, num_bins=10, mode="marginal"),
        },
    },
}
Path(__file__).with_name("recorded.json").write_text(json.dumps(recorded, default=float) + "\n", encoding="utf-8")
