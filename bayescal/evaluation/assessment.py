"""Can an existing forecast be trusted? The posterior of its calibration curve, and of what follows from it.

The curve q(p) = P(y = 1 | p was stated) is that of a calibrator fitted to the forecast itself, by default the stacked
average of a line in log-odds (Platt) and a Bernstein polynomial. Two things are added to its posterior:

- curves near the diagonal are more probable beforehand, by the factor

      (1 + (d / 0.03)^2)^(-1/2),      d^2 = mean over the cases of (q - p)^2.

  A prior that is smooth over curves of k parameters gives a distance d a density that grows as d^(k-1): it rules out
  that a forecast is nearly calibrated, and with few cases accuses one that is. The factor takes that growth away, for
  the two parameters of the line. The draws are resampled in its proportion.
- the cases are a sample of those that the forecast is made for: each draw averages over them with weights from a
  Bayesian bootstrap, Dirichlet(1, ..., 1). Rubin (1981).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from bayescal.calibrators import notes
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.ends import describe_ends
from bayescal.calibrators.summaries import BLOCK, interval
from bayescal.evaluation import metrics
from bayescal.evaluation.calibrated import log_bayes_factor
from bayescal.evaluation.measured import MEASURES, SCORE_PARTS, Measured, measure_draws
from bayescal.evaluation.measures import averages, distances, log_odds_of, logistic_measures, score_parts
from bayescal.evaluation.miscalibration import curves, distinct_points
from bayescal.evaluation.monotonicity import SURPRISING, monotonicity_p_value
from bayescal.inference.seeds import seed_sequence
from bayescal.registry import CALIBRATORS, curve_names
from bayescal.validation import (
    CalibrationWarning,
    ConvergenceWarning,
    Forecast,
    check_choice,
    check_count,
    check_forecast,
    check_fraction,
    check_scores,
    quiet,
)

NEAR, POWER = 0.03, 0.5  # of the prior's factor
AVERAGED = ("platt", "bernstein")  # by curve="auto"
POINTS = 300  # most different probabilities; more are grouped with their neighbours
FITTED = 150  # the same, that the curve is fitted to: a smooth one hardly tells neighbours apart
GRID = 201  # probabilities at which the curve is summarised


@dataclass(frozen=True, eq=False)
class Assessment(Measured):
    """Posterior of a forecast's calibration curve and of the measures that follow from it; made by `assess`.

    Parameters
    ----------
    draws : xarray.Dataset
        One variable of dims (chain, draw) for each measure.
    ci_prob : float in (0, 1)
        Posterior probability of the intervals in `summary` and of the band of `curve`.
    curve_draws : xarray.DataArray
        Draws of the calibration curve, dims (chain, draw, proba), at the probabilities that were stated.
    stated, cases, events : ndarray of shape (m,)
        Probabilities that were stated, the cases at each and the positive ones among them; weights count. More than
        300 different ones are grouped with their neighbours.
    estimates : pandas.Series
        The same measures by their usual point estimates on these cases (`bayescal.metrics`).
    log_bayes_factor : float
        How much the outcomes speak for a forecast that is exactly calibrated, against one whose log-odds need another
        slope and intercept (natural logarithm; positive: calibrated).
    monotonicity_p_value : float in [0, 1]
        Posterior predictive p-value of the falls in the observed shares; a small one contradicts a curve that rises.
    calibrator : calibrator
        What was fitted, with its diagnostics.
    positive : label
        The class whose probability was stated.
    """

    measures: ClassVar[dict[str, str]] = MEASURES | SCORE_PARTS

    curve_draws: xr.DataArray = field(repr=False)
    stated: np.ndarray = field(repr=False)
    cases: np.ndarray = field(repr=False)
    events: np.ndarray = field(repr=False)
    estimates: pd.Series = field(repr=False)
    log_bayes_factor: float
    monotonicity_p_value: float
    calibrator: Calibrator = field(repr=False)
    positive: Any
    _chosen: np.ndarray = field(repr=False)  # which draw of the calibrator each draw of the assessment is

    @property
    def bayes_factor(self) -> float:
        """Bayes factor for exact calibration; infinite beyond the largest float."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_bayes_factor))

    @property
    def probability_calibrated(self) -> float:
        """Posterior probability of exact calibration, where it was as probable as not beforehand."""
        return float(expit(self.log_bayes_factor))

    @cached_property
    def curve(self) -> xr.Dataset:
        """Calibration curve: ``mean``, ``lower`` and ``upper`` over ``proba``, from the least to the most stated."""
        return self.curve_at(np.linspace(self.stated[0], self.stated[-1], GRID if len(self.stated) > 1 else 1))

    def curve_at(self, proba: Any, ci_prob: float | None = None) -> xr.Dataset:
        """Actual probability where a given one is stated.

        Parameters
        ----------
        proba : float or array-like of shape (m,), in [0, 1]
            Stated probabilities.
        ci_prob : float in (0, 1), default=None
            Posterior probability of the intervals (pointwise); None takes that of the assessment.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``lower`` and ``upper`` over ``proba``; the level is in ``attrs["ci_prob"]``.

        Raises
        ------
        ScoreValueError
            If `proba` is not within [0, 1].
        """
        several = proba if np.ndim(proba) else [proba]
        at = check_scores(several, "proba", columns=1, fitting=False, name="proba").values
        level = self.ci_prob if ci_prob is None else check_fraction(ci_prob, "ci_prob")
        summary = np.empty((3, len(at)))
        size = max(1, BLOCK // len(self._chosen))
        for start in range(0, len(at), size):
            q = self.calibrator._proba_draws(at[start : start + size])[self._chosen]
            summary[0, start : start + size] = q.mean(axis=0)
            summary[1:, start : start + size] = interval(q, level, "eti")
        names = ("mean", "lower", "upper")
        return xr.Dataset(
            {name: ("proba", values) for name, values in zip(names, summary, strict=True)},
            coords={"proba": at},
            attrs={"ci_prob": level},
        )

    def summary(self) -> pd.DataFrame:
        """Summarise each measure.

        Returns
        -------
        pandas.DataFrame
            Index ``measure``; columns ``mean``, ``sd``, ``lower`` and ``upper`` (equal-tailed interval, its level in
            ``attrs["ci_prob"]``) of the posterior, and ``estimate``, the usual point estimate on these cases.
        """
        table = super().summary()
        table["estimate"] = self.estimates
        return table


def assess_probability(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    *,
    curve: str = "auto",
    ci_prob: float = 0.9,
    pos_label: Any = None,
    labels: Sequence[Any] | None = None,
    draws: int = 500,
    chains: int = 4,
    cores: int | None = None,
    random_state: Any = None,
    progressbar: Any = None,
    named: Any = None,
) -> Assessment:
    """`bayescal.assess` of the probability of one class, which is called `named` where it is one of several."""
    read = check_forecast(y_true, y_proba, sample_weight, pos_label=pos_label, labels=labels)
    ci_prob = check_fraction(ci_prob, "ci_prob")
    check_choice(curve, curve_names(), "curve")
    sequence = seed_sequence(random_state)
    seeds = sequence.generate_state(2, np.uint64)
    settings = {
        "draws": check_count(draws, "draws"),
        "chains": check_count(chains, "chains"),
        "cores": cores,
        "progressbar": progressbar,
        "random_state": int(seeds[0] >> np.uint64(32)),
        "classes": (0, 1),
    }
    weight = np.ones(len(read.proba)) if read.weight is None else read.weight
    outcome = read.outcome.astype(np.int64)
    stated, group = distinct_points(read.proba, weight, "proba", POINTS)
    if curve == "auto":
        settings["members"] = AVERAGED
    positive = read.positive if named is None else named
    positive = positive.item() if isinstance(positive, np.number | np.bool_ | np.str_) else positive  # to be shown
    with quiet(CalibrationWarning, ConvergenceWarning):
        fitted, fitted_group = distinct_points(read.proba, weight, "proba", FITTED)
        calibrator = CALIBRATORS[curve].load()(**settings).fit(fitted[fitted_group], outcome, weight)
    _warn_about_fit(calibrator, positive)
    rng = np.random.default_rng(int(seeds[1]))
    cases = np.bincount(group, weights=weight)
    events = np.bincount(group, weights=weight * read.outcome)
    q = curves(calibrator, stated)
    shape = calibrator._draw_shape
    chosen = _resample(q, stated, cases / cases.sum(), shape, rng)
    q = q[chosen]
    share = rng.gamma(cases, size=q.shape)
    share /= share.sum(axis=1, keepdims=True)
    log_odds = log_odds_of(stated, "proba")
    found = Assessment(
        draws=measure_draws(
            {
                **distances(stated, q, share),
                **logistic_measures(log_odds, q, share),
                **score_parts(stated, q, share),
            },
            Assessment.measures,
            shape,
        ),
        ci_prob=ci_prob,
        curve_draws=xr.DataArray(
            q.reshape(*shape, -1),
            dims=("chain", "draw", "proba"),
            coords={"chain": np.arange(shape[0]), "draw": np.arange(shape[1]), "proba": stated},
            name="curve",
        ),
        stated=stated,
        cases=cases,
        events=events,
        estimates=_estimates(read, weight),
        log_bayes_factor=log_bayes_factor(log_odds, cases, events),
        monotonicity_p_value=monotonicity_p_value(cases, events, q, rng),
        calibrator=calibrator,
        positive=positive,
        _chosen=chosen,
    )
    if calibrator._rises and found.monotonicity_p_value < SURPRISING:
        notes.warn(
            "the outcomes contradict a calibration curve that rises with the forecast (posterior predictive p-value "
            f"{found.monotonicity_p_value:.2g}): higher probabilities were followed by fewer positive cases somewhere, "
            'and ICI, E50, E90 and Emax are too small. Assess with curve="spline", which may fall.',
            CalibrationWarning,
        )
    return found


def _warn_about_fit(calibrator: Calibrator, positive: Any) -> None:
    """What the fit has to say, in words of the forecast: its calibrator knows the classes as 0 and 1."""
    rows = calibrator._require_rows()
    classes = np.array([f"other than {positive}", f"{positive}"])
    said = notes.describe_data(rows.scores, rows.positive, rows.weight, classes)
    for text in [*said, *describe_ends(calibrator)]:
        notes.warn(f"assessment of {positive!r}: {text}", CalibrationWarning)
    verdict = calibrator.diagnostics_.attrs["verdict"]
    if verdict != "passed":
        notes.warn(
            f"assessment of {positive!r}: the draws of the calibration curve did not pass the convergence checks "
            f"({verdict}); its intervals may be off a little. Assess with more draws "
            "(draws=2000), and look at calibrator.diagnostics_ of the assessment.",
            ConvergenceWarning,
        )


def _resample(
    q: np.ndarray, stated: np.ndarray, share: np.ndarray, shape: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Draws in proportion to the prior's factor, of each chain as many as it has, evenly spread over its draws."""
    squared = averages((q - stated) ** 2, share).reshape(shape)
    factor = (1 + squared / NEAR**2) ** -POWER
    chains, draws = shape
    reached = np.cumsum(factor, axis=1) / factor.sum(axis=1, keepdims=True)
    steps = (np.arange(draws) + rng.random((chains, 1))) / draws
    rows = [np.searchsorted(of_chain, at).clip(max=draws - 1) for of_chain, at in zip(reached, steps, strict=True)]
    return (np.arange(chains)[:, None] * draws + np.stack(rows)).reshape(-1)


def _estimates(read: Forecast, weight: np.ndarray) -> pd.Series:
    """The usual point estimates of the measures on the cases."""
    given: dict[str, Any] = {"sample_weight": weight, "pos_label": 1}
    y, p = read.outcome.astype(np.int64), read.proba
    parts = metrics.corp_decomposition(y, p, **given)
    near = metrics.calibration_distances(y, p, **given)
    found = {
        **near._asdict(),
        "bias": np.average(y - p, weights=weight),
        "slope": metrics.calibration_slope(y, p, **given),
        "intercept": metrics.calibration_intercept(y, p, **given),
        "in_the_large": metrics.calibration_in_the_large(y, p, **given),
        "brier": metrics.brier_score(y, p, **given),
        **parts._asdict(),
        "log_loss": metrics.log_loss(y, p, **given),
    }
    return pd.Series({name: float(found[name]) for name in Assessment.measures}, name="estimate")
