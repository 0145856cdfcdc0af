"""How miscalibrated a score was, from the posterior of its calibration curve.

The calibration curve of a score s that claims to be a probability is q(s) = P(y = 1 | s). That is what a calibrator of
such scores estimates, so each posterior draw of its map is a draw of the score's own calibration curve, and every
measure of miscalibration, a functional of q and of the scores' distribution, has a posterior without any bins:

    ICI                    mean |q - s|  (the expected calibration error without bins)
    E50, E90, Emax         quantiles and maximum of |q - s|
    bias                   mean (q - s); positive where the score is too low
    slope, intercept       logit P = intercept + slope * logit s,  fitted to outcomes of probability q(s)
    in the large           logit P = in_the_large + logit s,       fitted to outcomes of probability q(s)

Austin & Steyerberg (2019), section 2.1, for ICI, E50, E90 and Emax; Cox (1958) and Van Calster et al. (2016, 2019) for
slope, intercept and calibration in the large.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.summaries import BLOCK
from bayescal.evaluation.measured import MEASURES, Measured, measure_draws
from bayescal.evaluation.measures import (
    MAX_POINTS,
    distances,
    log_odds_of,
    logistic_measures,
    point_groups,
)
from bayescal.validation import ParameterValueError, ScoreValueError, check_fraction


@dataclass(frozen=True, eq=False)
class Miscalibration(Measured):
    """Posterior of the measures of a score's miscalibration; made by `miscalibration`.

    Parameters
    ----------
    draws : xarray.Dataset
        One variable of dims (chain, draw) for each measure in ``MEASURES``.
    ci_prob : float in (0, 1)
        Posterior probability of the intervals in `summary`.
    cases : float
        Number of cases that the measures are averaged over; weights count.
    points : int
        Number of distinct scores at which the curve was evaluated.
    """

    cases: float
    points: int


def miscalibration(calibrator: Calibrator, scores: Any = None, *, ci_prob: float = 0.9) -> Miscalibration:
    """Measure how miscalibrated the raw score was, with posterior uncertainty.

    Parameters
    ----------
    calibrator : calibrator
        Fitted with ``inference="nuts"`` to scores that state probabilities (``score_kind`` ``"proba"`` or ``"logit"``).
    scores : array-like of shape (n,), (n, 1) or (n, 2), default=None
        The cases to average over, scores of the kind given at construction; None takes the calibration rows with their
        weights.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals.

    Returns
    -------
    Miscalibration
        ``summary()`` is a table with intervals, ``probability(ici__lt=0.05)`` answers a question, ``draws`` holds the
        draws of every measure: ``ici``, ``e50``, ``e90``, ``emax``, ``bias``, ``slope``, ``intercept`` and
        ``in_the_large``.

    Raises
    ------
    NoPosteriorError
        If the calibrator was fitted with ``inference="point"``, or saved without the rows that `scores` defaults to.
    ScoreValueError
        If the calibrator's scores are raw: they state no probability that could be right or wrong; or if it was fitted
        to several scores.

    Notes
    -----
    ICI, E50, E90 and Emax cannot be negative, and what is unknown about the curve adds to them: with few cases their
    posterior stays away from 0 for a calibrated score too. Bias, slope and the intercepts can fall on either side.

    The equal-tailed intervals are those of the posterior given the scores: the cases averaged over are taken as they
    are. Log-odds are taken within ±13.8 (probabilities within 1e-6 of 0 and 1). Slope and intercept are NaN where all
    scores are equal.

    Equal scores are evaluated once. More than 2000 distinct ones are grouped: at most 2000 groups of neighbours, none
    with more than 0.1 % of the cases or of the range of log-odds (equal scores stay together), each at its mean score.
    In tests with 20,000 scores this moved every draw of every measure by less than 0.001, and by less than 0.05 where
    the curve has steps.

    References
    ----------
    Austin, P. and Steyerberg, E. (2019). The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models. Statistics in Medicine 38, section 2.1.

    Cox, D. (1958). Two further applications of a model for binary regression. Biometrika 45.

    Van Calster, B., Nieboer, D., Vergouwe, Y., De Cock, B., Pencina, M. and Steyerberg, E. (2016). A calibration
    hierarchy for risk models was defined: from utopia to empirical data. Journal of Clinical Epidemiology 74.

    Van Calster, B., McLernon, D., van Smeden, M., Wynants, L. and Steyerberg, E. (2019). Calibration: the Achilles heel
    of predictive analytics. BMC Medicine 17.

    Examples
    --------
    >>> import bayescal as bc
    >>> scores = [0.02, 0.05, 0.1, 0.3, 0.4, 0.6, 0.7, 0.9, 0.95, 0.98] * 4
    >>> y = ([0, 0, 1, 0, 0, 1, 0, 1, 1, 1] + [0, 1, 0, 0, 1, 0, 1, 1, 0, 1]) * 2
    >>> cal = bc.PlattCalibrator(random_state=1, progressbar=False).fit(scores, y)
    >>> found = bc.miscalibration(cal)
    >>> found.summary().columns.tolist()
    ['mean', 'sd', 'lower', 'upper']
    >>> found.probability(slope__lt=1) > 0.9  # too extreme
    True
    """
    if not isinstance(calibrator, Calibrator):
        raise ParameterValueError(
            f"calibrator must be a fitted calibrator, got {type(calibrator).__name__}. Fit one to the scores and "
            "labels first, for example bayescal.StackedCalibrator().fit(scores, y)."
        )
    if calibrator.score_kind == "raw":
        raise ScoreValueError(
            "miscalibration compares stated with actual probabilities, and scores of score_kind='raw' state none. Pass "
            "a calibrator of probabilities or log-odds."
        )
    calibrator._require_posterior("miscalibration")
    calibrator._require_one_score("miscalibration")
    ci_prob = check_fraction(ci_prob, "ci_prob")
    if scores is None:
        rows = calibrator._require_rows()
        used = rows.weight > 0
        values, row_weight = rows.scores[used], rows.weight[used]
    else:
        values = calibrator._check_new_scores(scores).values
        row_weight = np.ones(len(values))
    points, group = distinct_points(values, row_weight, calibrator.score_kind, MAX_POINTS)
    weight = np.bincount(group, weights=row_weight)
    q = curves(calibrator, points)
    share = weight / weight.sum()
    stated = expit(points) if calibrator.score_kind == "logit" else points
    measures = {
        **distances(stated, q, share),
        **logistic_measures(log_odds_of(points, calibrator.score_kind), q, share),
    }
    dataset = measure_draws(measures, MEASURES, calibrator._draw_shape)
    return Miscalibration(dataset, ci_prob, float(weight.sum()), len(points))


def distinct_points(
    scores: np.ndarray, weight: np.ndarray, score_kind: str, most: int = MAX_POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct scores in rising order, and which of them each row has; beyond `most`, groups of neighbours.

    Weights are positive; a group stands at its mean.
    """
    distinct, inverse = np.unique(scores, return_inverse=True)
    if len(distinct) <= most:
        return distinct, inverse
    totals = np.bincount(inverse, weights=weight)
    group = point_groups(distinct, totals, score_kind, most)
    return np.bincount(group, weights=totals * distinct) / np.bincount(group, weights=totals), group[inverse]


def curves(calibrator: Calibrator, points: np.ndarray) -> np.ndarray:
    """Draws of the calibration curve at the points, ``(draws, m)``."""
    chains, draws = calibrator._draw_shape
    q = np.empty((chains * draws, len(points)))
    size = max(1, BLOCK // len(q))
    for start in range(0, len(points), size):
        q[:, start : start + size] = calibrator._proba_draws(points[start : start + size])
    return q
