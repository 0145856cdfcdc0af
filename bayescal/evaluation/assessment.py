"""Can an existing forecast be trusted? The posterior of its calibration curve, and of what follows from it.

The curve q(p) = P(y = 1 | p was stated) is that of a calibrator fitted to the forecast itself, by default the stacked
average. Two things are added to its posterior:

- curves near the diagonal are more probable beforehand, by the factor

      (1 + (d / 0.03)^2)^(-3/4),      d^2 = mean over the cases of (q - p)^2.

  A prior that is smooth over curves of k parameters gives a distance d a density that grows as d^(k-1): it rules out
  that a forecast is nearly calibrated, and with few cases accuses one that is. The factor takes that growth away, for k
  of 2 to 3. The draws are resampled in its proportion.
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

from bayescal.calibrators import notes
from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.summaries import BLOCK, interval
from bayescal.evaluation import metrics
from bayescal.evaluation.calibrated import log_bayes_factor
from bayescal.evaluation.measured import MEASURES, SCORE_PARTS, Measured, measure_draws
from bayescal.evaluation.measures import averages, distances, log_odds_of, logistic_measures, score_parts
from bayescal.evaluation.miscalibration import curves, distinct_points
from bayescal.evaluation.monotonicity import SURPRISING, monotonicity_p_value
from bayescal.inference.seeds import seed_sequence
from bayescal.registry import CALIBRATORS
from bayescal.validation import (
    CalibrationWarning,
    Forecast,
    check_choice,
    check_count,
    check_forecast,
    check_fraction,
    check_scores,
)

NEAR, POWER = 0.03, 0.75  # of the prior's factor
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
        2000 different ones are grouped with their neighbours.
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
        return float(1 / (1 + np.exp(min(-self.log_bayes_factor, 700.0))))

    @cached_property
    def curve(self) -> xr.Dataset:
        """Calibration curve: ``mean``, ``lower`` and ``upper`` over ``proba``, from the least to the most stated."""
        return self.curve_at(np.linspace(self.stated[0], self.stated[-1], GRID if len(self.stated) > 1 else 1))

    def curve_at(self, proba: Any, ci_prob: float | None = None) -> xr.Dataset:
        """Actual probability where a given one is stated.

        Parameters
        ----------
        proba : array-like of shape (m,), in [0, 1]
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
        at = check_scores(proba, "proba", columns=1, fitting=False, name="proba").values
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


def assess(
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
) -> Assessment:
    """Assess a forecast of two classes: how calibrated it is, and how sure of that these cases let us be.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), in [0, 1]
        Probability stated of the positive class, or of both classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    curve : str, default="auto"
        Model of the calibration curve, a calibrator of one score by its name: ``"auto"`` averages all of them,
        ``"bernstein"`` is smooth and of any rising shape, ``"platt"`` a line in log-odds.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.
    labels : sequence of two labels, default=None
        Labels in the order of the columns of `y_proba`.
    draws, chains : int, default=500 and 4
        Posterior draws of each chain, and the number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the assessment reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal.

    Returns
    -------
    Assessment
        ``summary()`` is a table with intervals, ``curve`` the calibration curve, ``probability(ece__lt=0.05)`` answers
        a question; `bayescal.plot_reliability` draws it.

    Raises
    ------
    ScoreValueError, LabelValueError, WeightValueError, ParameterValueError
        If an input or a setting is outside its domain.

    Warns
    -----
    CalibrationWarning
        If the answer rests on the prior (few cases, one class), or if the outcomes contradict a curve that rises with
        the forecast: a posterior predictive p-value below 0.01.
    ConvergenceWarning
        If the draws do not pass the convergence checks.

    Notes
    -----
    ICI (the expected calibration error without bins), E50, E90 and Emax are never negative, so the posterior of a
    calibrated forecast lies above 0, the nearer the more cases there are; ``probability(ici__lt=...)`` and
    ``probability_calibrated`` say whether that is small enough. Bias, slope and the intercepts can fall on either side.

    The measures are those of the population that the cases are a sample of. Slope, intercepts and log loss take
    probabilities within 1e-6 of 0 and 1, and are computed at groups of neighbours beyond 2000 distinct probabilities.

    All curves rise. ``monotonicity_p_value`` finds a forecast that ranks cases wrongly; its ICI is then too small.

    References
    ----------
    Austin, P. and Steyerberg, E. (2019). The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models. Statistics in Medicine 38, section 2.1.

    Dimitriadis, T., Gneiting, T. and Jordan, A. (2021). Stable reliability diagrams for probabilistic classifiers.
    PNAS 118, for the parts of the Brier score.

    Rubin, D. (1981). The Bayesian bootstrap. Annals of Statistics 9.

    Gelman, A., Meng, X.-L. and Stern, H. (1996). Posterior predictive assessment of model fitness via realized
    discrepancies. Statistica Sinica 6.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> found = bc.assess(days["rain"], days["ens"], curve="platt", random_state=1, progressbar=False)
    >>> found.summary().loc["bias", "upper"] < 0  # promises too much rain
    True
    >>> found.probability(ece__gt=0.05)
    1.0
    """
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
    calibrator = CALIBRATORS[curve].load()(**settings).fit(read.proba, outcome, weight)
    rng = np.random.default_rng(int(seeds[1]))
    stated, group = distinct_points(read.proba, weight, "proba")
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
        positive=read.positive,
        _chosen=chosen,
    )
    if found.monotonicity_p_value < SURPRISING:
        notes.warn(
            "the outcomes contradict a calibration curve that rises with the forecast (posterior predictive p-value "
            f"{found.monotonicity_p_value:.2g}): higher probabilities were followed by fewer positive cases somewhere, "
            "and ICI, E50, E90 and Emax are too small. Look at the observed shares in plot_reliability.",
            CalibrationWarning,
        )
    return found


def curve_names() -> tuple[str, ...]:
    """Calibrators of one score that have a posterior."""
    return tuple(
        name for name, entry in CALIBRATORS.items() if entry.columns in ("one", "any") and "nuts" in entry.inferences
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
