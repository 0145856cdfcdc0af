"""Assessment of a forecast of several classes: class by class, by its most probable class, and as a whole row.

The rows are compared with what bias-corrected temperature scaling makes of them, q = softmax(log(p) / T + b): how sure
the forecast is and which classes it gives too often. With each draw of q,

    distance          mean of 1/2 sum_c |q_c - p_c|     (total variation)
    miscalibration    mean of sum_c (q_c - p_c)^2
    brier             mean of sum_c q_c (sum_k (p_k - 1(k = c))^2)
    log_loss          mean of -sum_c q_c log p_c

Vaicenavicius et al. (2019), section 3, for the three views.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayescal.calibrators.multiclass import MultiClassCalibrator
from bayescal.calibrators.scale import PROBA_CLIP
from bayescal.calibrators.summaries import BLOCK
from bayescal.evaluation.assessment import Assessment, assess_probability
from bayescal.evaluation.measured import Measured, measure_draws
from bayescal.inference.seeds import seed_sequence
from bayescal.registry import CALIBRATORS
from bayescal.validation import ParameterValueError, check_class_forecast, check_fraction

SCALING = "bias-corrected-temperature"


@dataclass(frozen=True, eq=False)
class VectorAssessment(Measured):
    """Posterior of the measures of the whole row of probabilities.

    Parameters
    ----------
    draws : xarray.Dataset
        One variable of dims (chain, draw) for each measure.
    ci_prob : float in (0, 1)
        Posterior probability of the intervals.
    calibrator : calibrator
        The scaling that the rows are compared with, with its diagnostics.
    """

    measures: ClassVar[dict[str, str]] = {
        "distance": "mean total variation between stated and actual probabilities; 0 is calibrated",
        "miscalibration": "mean squared distance between stated and actual probabilities; 0 is calibrated",
        "brier": "Brier score, summed over classes",
        "log_loss": "log loss, in nats, of probabilities kept 1e-6 away from 0",
    }

    calibrator: MultiClassCalibrator = field(repr=False)


@dataclass(frozen=True, eq=False)
class ClassAssessment:
    """Assessment of a forecast of several classes; made by `assess`.

    Parameters
    ----------
    by_class : dict of label to Assessment
        Each class against the others.
    top_label : Assessment
        Whether the most probable class came, with the probability stated of it.
    vector : VectorAssessment
        The whole row of probabilities.
    """

    by_class: dict[Any, Assessment] = field(repr=False)
    top_label: Assessment
    vector: VectorAssessment

    def summary(self) -> pd.DataFrame:
        """Summarise all of them.

        Returns
        -------
        pandas.DataFrame
            Index ``part`` (the labels, ``"top label"``, ``"vector"``) and ``measure``; columns ``mean``, ``sd``,
            ``lower``, ``upper`` of the posterior, and ``estimate``, the usual point estimate (NaN of the vector). The
            intervals' level is in ``attrs["ci_prob"]``.
        """
        parts: dict[Any, Measured] = {**self.by_class, "top label": self.top_label, "vector": self.vector}
        table = pd.concat({name: part.summary() for name, part in parts.items()}, names=["part", "measure"])
        table.attrs = {"ci_prob": self.vector.ci_prob}
        return table


def assess_classes(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any,
    *,
    ci_prob: float,
    pos_label: Any,
    labels: Any,
    random_state: Any,
    **settings: Any,
) -> ClassAssessment:
    """`assess` of three classes or more."""
    if pos_label is not None:
        raise ParameterValueError(
            f"pos_label has no meaning with a column for each of several classes, got {pos_label!r}. Leave it out, or "
            "pass one class's column and whether it came."
        )
    read = check_class_forecast(y_true, y_proba, sample_weight, labels=labels)
    assert read.classes is not None
    ci_prob = check_fraction(ci_prob, "ci_prob")
    columns = read.proba.shape[1]
    seeds = [int(word) for word in seed_sequence(random_state).generate_state(columns + 3, np.uint32)]
    of_two: dict[str, Any] = {"sample_weight": read.weight, "pos_label": True, "ci_prob": ci_prob, **settings}

    def against_others(came: np.ndarray, proba: np.ndarray, named: Any, seed: int) -> Assessment:
        return assess_probability(came, proba, random_state=seed, named=named, **of_two)

    names = read.classes.tolist()
    by_class = {name: against_others(read.codes == k, read.proba[:, k], name, seeds[k]) for k, name in enumerate(names)}
    best = read.proba.argmax(axis=1)
    top_label = against_others(read.codes == best, read.proba[np.arange(len(best)), best], "top label", seeds[columns])
    sampler = {name: settings[name] for name in ("draws", "chains", "cores", "progressbar")}
    scaling = CALIBRATORS[SCALING].load()(random_state=seeds[columns + 1], classes=names, **sampler)
    scaling.fit(read.proba, read.classes[read.codes], read.weight)
    rng = np.random.default_rng(seeds[columns + 2])
    weight = np.ones(len(best)) if read.weight is None else read.weight
    draws = measure_draws(_of_rows(scaling, read.proba, weight, rng), VectorAssessment.measures, scaling._draw_shape)
    return ClassAssessment(by_class, top_label, VectorAssessment(draws, ci_prob, scaling))


def _of_rows(
    scaling: MultiClassCalibrator, p: np.ndarray, weight: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draws of the measures over a Bayesian bootstrap of the rows; rows in blocks, for their draws can be large."""
    size = int(np.prod(scaling._draw_shape))
    totals = {name: np.zeros(size) for name in VectorAssessment.measures}
    mass = np.zeros(size)
    block = max(1, BLOCK // (size * p.shape[1]))
    for start in range(0, len(p), block):
        rows = slice(start, start + block)
        stated = p[rows]
        q = scaling._proba_draws(stated)
        share = rng.gamma(weight[rows], size=(size, len(stated)))
        mass += share.sum(axis=1)
        kept = np.log(np.maximum(stated, PROBA_CLIP))
        found = {
            "distance": 0.5 * np.abs(q - stated).sum(axis=2),
            "miscalibration": ((q - stated) ** 2).sum(axis=2),
            "brier": (stated**2).sum(axis=1) - 2 * (q * stated).sum(axis=2) + 1,
            "log_loss": -(q * kept).sum(axis=2),
        }
        for name, values in found.items():
            totals[name] += np.einsum("ij,ij->i", values, share)
    return {name: total / mass for name, total in totals.items()}
