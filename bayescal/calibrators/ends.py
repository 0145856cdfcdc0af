"""Few scores of exactly 0 or 1 that carry a fit on log-odds.

The log-odds of such a score are infinite; those of 1e-6 and 1 - 1e-6 stand in for them, and have so much leverage that
one case of 60 on the wrong side can flatten the whole curve.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from bayescal.calibrators.scale import PROBA_CLIP

if TYPE_CHECKING:
    from bayescal.calibrators.binary import BinaryCalibrator

READ_LOG_ODDS = ("platt", "beta", "spline")
FEW = 0.1  # share of the cases
MOVED = 0.1  # probability


def describe_ends(calibrator: "BinaryCalibrator") -> list[str]:
    """What to say of scores at 0 or 1 after a fit: few cases, whose place decides what others' scores stand for.

    The point estimate is compared with that of a fit in which these scores are moved to the nearest of the others.
    """
    if calibrator._name not in READ_LOG_ODDS or calibrator.score_kind != "proba":
        return []
    rows = calibrator._require_rows()
    scores = rows.scores.reshape(len(rows.weight), -1)
    used = rows.weight > 0
    at_end = (scores <= PROBA_CLIP) | (scores >= 1 - PROBA_CLIP)
    ends = at_end.any(axis=1)
    count, cases = rows.weight[ends].sum(), rows.weight.sum()
    if not 0 < count <= FEW * cases:
        return []
    others = np.where(at_end, np.nan, scores)[used]
    low, high = np.nanmin(others, axis=0), np.nanmax(others, axis=0)
    scale = calibrator._scale
    nearer = replace(rows, scores=np.clip(scores, low, high).reshape(rows.scores.shape))
    moved = calibrator._point(calibrator._support(nearer, scale), scale)
    features = calibrator._features(calibrator._coordinate(rows.scores[used & ~ends], scale), scale)
    here, there = (
        expit(calibrator._log_odds(features, {name: value[None] for name, value in parameters.items()}))[0]
        for parameters in (calibrator._point_parameters, moved)
    )
    change = float(np.abs(here - there).max())
    if change <= MOVED:
        return []
    nearest = ", ".join(f"{a:.3g} and {b:.3g}" for a, b in zip(low, high, strict=True))
    return [
        f"{count:g} of {cases:g} cases have a score of 0 or 1, for which log-odds of -13.8 and 13.8 stand in, and they "
        f"alone move the curve by up to {change:.2f}. Check them; if they are right, move their scores to the nearest "
        f"of the others, {nearest}."
    ]
