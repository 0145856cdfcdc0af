"""What a forecast is worth to somebody who acts on it, from the posterior of its calibration curve.

A case is treated if its forecast p is t or more. With q the probability that a case of this forecast has the event,

    use         NB(t) = mean 1(p >= t) (q - (1 - q) t / (1 - t))
    treat all   NB(t) = mean (q - (1 - q) t / (1 - t)),           treat none  NB(t) = 0
    gain        NB of use, less that of the better of all and none

each draw of the curve q gives a draw of each. Vickers & Elkin (2006); expected utilities: Pauker & Kassirer (1980).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.scale import distinct_rows
from bayescal.calibrators.summaries import BLOCK, interval
from bayescal.evaluation.metrics.decisions import check_odds_threshold
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import ParameterValueError, check_flag, check_fraction

STRATEGIES = {
    "use": "net benefit of treating where the forecast is the threshold or more",
    "all": "net benefit of treating every case",
    "gain": "net benefit of the forecast, less that of the better of treating all and none",
}
ACTIONS = ("leave", "treat")


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Posterior of a forecast's net benefit by threshold; made by `decision_curve`.

    Parameters
    ----------
    draws : xarray.Dataset
        Variables ``use``, ``all`` and ``gain`` of dims (chain, draw, threshold).
    ci_prob : float in (0, 1)
        Posterior probability of the intervals in `table`.
    cases : float
        Number of cases that are averaged over; weights count.
    """

    draws: xr.Dataset = field(repr=False)
    ci_prob: float
    cases: float

    @property
    def table(self) -> pd.DataFrame:
        """Net benefits by threshold.

        Index ``threshold``. Of each of ``use``, ``all``, ``none`` and ``gain`` the columns ``_mean``, ``_lower`` and
        ``_upper`` of the equal-tailed interval, whose level is in ``attrs["ci_prob"]``; ``p_useful`` is the posterior
        probability that using the forecast is better than both treating all and treating none.
        """
        flat = {name: self.draws[name].to_numpy().reshape(-1, self.draws.sizes["threshold"]) for name in STRATEGIES}
        columns: dict[str, Any] = {}
        for name in ("use", "all", "none", "gain"):
            values = flat.get(name, np.zeros((1, self.draws.sizes["threshold"])))
            lower, upper = interval(values, self.ci_prob, "eti")
            columns |= {f"{name}_mean": values.mean(axis=0), f"{name}_lower": lower, f"{name}_upper": upper}
        columns["p_useful"] = (flat["gain"] > 0).mean(axis=0)
        table = pd.DataFrame(columns, index=pd.Index(self.draws["threshold"].to_numpy(), name="threshold"))
        table.attrs["ci_prob"] = self.ci_prob
        return table


def decision_curve(
    forecast: Any,
    thresholds: Any = None,
    *,
    ci_prob: float = 0.9,
    population: bool = False,
    random_state: Any = None,
) -> DecisionCurve:
    """Net benefit of acting on a forecast, beside treating all and none, with posterior uncertainty.

    Parameters
    ----------
    forecast : calibrator or Assessment
        A calibrator of two classes, fitted with ``inference="nuts"``, which decides by its posterior mean at its
        calibration rows; or what `bayescal.assess` says of stated probabilities, which then decide themselves.
    thresholds : float or array-like of shape (k,), in [0, 1), default=None
        Probabilities from which on a case is treated; None takes 0.01, 0.02, ..., 0.99.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals in the result's table.
    population : bool, default=False
        Whether the net benefit is that of the population which the cases were drawn from, rather than that of these
        cases: their shares are then unknown too, and drawn by the Bayesian bootstrap.
    random_state : int, Generator, RandomState or None, default=None
        Seed of those shares; it has no effect without `population`.

    Returns
    -------
    DecisionCurve
        ``table`` has a row for each threshold, lowest first and none twice, ``draws`` the draws as xarray.

    Raises
    ------
    NoPosteriorError
        If the calibrator was fitted with ``inference="point"``, or saved without its calibration rows.
    ParameterValueError
        If `forecast` is of another kind or of several classes, or a setting is outside its domain.

    Notes
    -----
    What is unknown is the curve q: how often the event comes where the forecast is what it is. The cases are held
    fixed: which forecasts come, and how often, is as it was among them, and so the intervals do not say how much the
    net benefit would change with other cases; ``population=True`` adds that, by shares from Dirichlet(1, ..., 1), or
    the weights (Rubin 1981). The rule itself stays the same. In 200 simulated samples from a Platt curve, at thresholds
    of 0.1 to 0.5, 90 % intervals of ``use`` held 0.90 to 0.94 of the net benefits of the same cases, and 0.87 to 0.95
    (60 cases) and 0.90 to 0.92 (200 cases) of those of the population.

    A calibrator is judged here by its own posterior, by which its posterior mean is the best rule there is: the mean of
    ``use`` is never below those of ``all`` and ``none``, however wrong its family of curves may be. Stated
    probabilities can lose. ``gain`` compares with whichever of all and none is better in each draw, which nobody knows:
    its mean may be below 0 where those two are about as good.

    A threshold t says that one event treated is worth (1 - t) / t treatments without need; which thresholds are
    reasonable is to be settled before looking at the curve.

    References
    ----------
    Vickers, A. and Elkin, E. (2006). Decision curve analysis: a novel method for evaluating prediction models. Medical
    Decision Making 26, 565-574.

    Cruz, G. and Korthauer, K. (2023). Bayesian decision curve analysis with bayesDCA. arXiv:2308.02067; there the
    posterior is of sensitivity, specificity and the share of events at each threshold, here of the calibration curve.

    Rubin, D. (1981). The Bayesian bootstrap. Annals of Statistics 9, 130-134.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(random_state=0, progressbar=False).fit(days["ens"], days["rain"])
    >>> found = bc.decision_curve(cal, [0.2, 0.5])
    >>> found.table["gain_mean"].between(0, 0.1).tolist()
    [True, True]
    """
    ci_prob = check_fraction(ci_prob, "ci_prob")
    at = _check_thresholds(thresholds)
    rng = np.random.default_rng(seed_sequence(random_state)) if check_flag(population, "population") else None
    weight, blocks, (chains, draws) = _curves(forecast)
    # between the thresholds: bin k holds the cases that the first k thresholds treat
    events, mass = (np.zeros((size, len(at) + 1)) for size in (chains * draws, chains * draws if population else 1))
    for rows, decides, q in blocks:
        cases = weight[rows][None] if rng is None else rng.standard_gamma(weight[rows], q.shape)
        bins = np.searchsorted(at, decides, side="right")
        for k in np.unique(bins):
            inside = bins == k
            events[:, k] += (q[:, inside] * cases[:, inside]).sum(axis=1)
            mass[:, k] += cases[:, inside].sum(axis=1)
    events, mass = (part / mass.sum(axis=1, keepdims=True) for part in (events, mass))
    # q - (1 - q) t / (1 - t) = (q - t) / (1 - t); of those that are left it is summed too: exactly 0 where nobody is
    use = (_above(events) - at * _above(mass)) / (1 - at)
    left = (_below(events) - at * _below(mass)) / (1 - at)
    values = {"use": use, "all": use + left, "gain": np.minimum(use, -left) + 0.0}  # no -0.0
    dataset = xr.Dataset(
        {
            name: (("chain", "draw", "threshold"), values[name].reshape(chains, draws, -1), {"description": text})
            for name, text in STRATEGIES.items()
        },
        coords={"chain": np.arange(chains), "draw": np.arange(draws), "threshold": at},
    )
    return DecisionCurve(dataset, ci_prob, float(weight.sum()))


def expected_utility(calibrator: Calibrator, scores: Any, utility: Any, *, ci_prob: float = 0.9) -> pd.DataFrame:
    """Expected utility of treating and of leaving each case, and how sure it is which is better.

    Parameters
    ----------
    calibrator : calibrator
        Of two classes, fitted with ``inference="nuts"``.
    scores : array-like of shape (n,), (n, 1), (n, 2) or (n, M)
        Scores of the kind given at construction. The index of a pandas object is kept.
    utility : array-like of shape (2, 2)
        Utility of each action for each class: rows are leave and treat, columns the negative and the positive class,
        in any unit. Treating must not be worse for the positive class, nor better for the negative one.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        For each case ``leave_mean``, ``leave_lower``, ``leave_upper``, the same of ``treat``, the better ``action``
        (``"treat"`` or ``"leave"``) and ``probability``, the posterior probability that it is the better one.
        ``attrs`` has ``ci_prob`` and ``threshold``, the probability from which on treating is better.

    Raises
    ------
    NoPosteriorError
        If the calibrator was fitted with ``inference="point"``.
    ParameterValueError
        If `calibrator` is of another kind or of several classes, or `utility` is not such a table.

    Notes
    -----
    The utility of an action is a straight line in the probability of the positive class, ``(1 - q) u_0 + q u_1``: its
    mean is that of the mean probability, and its interval runs between the values at the ends of q's interval. The
    lines cross at ``threshold = (u_leave0 - u_treat0) / (u_leave0 - u_treat0 + u_treat1 - u_leave1)``, and
    `predict_exceedance` at that threshold is the probability that treating is better.

    References
    ----------
    Pauker, S. and Kassirer, J. (1980). The threshold approach to clinical decision making. New England Journal of
    Medicine 302, 1109-1117.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(random_state=0, progressbar=False).fit(days["ens"], days["rain"])
    >>> found = bc.expected_utility(cal, [0.05, 0.95], [[0, -10], [-5, -5]])  # an umbrella costs 5, a wet day 10
    >>> found.attrs["threshold"], found["action"].tolist()
    (0.5, ['leave', 'treat'])
    """
    ci_prob = check_fraction(ci_prob, "ci_prob")
    _check_calibrator(calibrator, "calibrator", "")
    calibrator._require_posterior("expected_utility")
    table, threshold = _check_utility(utility)
    q = calibrator.predict_table(scores, ci_prob)
    columns: dict[str, Any] = {}
    for action, (negative, positive) in zip(ACTIONS, table, strict=True):
        mean, *ends = (negative + (positive - negative) * q[name].to_numpy() for name in ("mean", "lower", "upper"))
        columns |= {
            f"{action}_mean": mean,
            f"{action}_lower": np.minimum(*ends),
            f"{action}_upper": np.maximum(*ends),
        }
    treat = q["mean"].to_numpy() >= threshold
    exceeds = calibrator.predict_exceedance(scores, threshold)[:, 1]
    columns["action"] = np.where(treat, "treat", "leave")
    columns["probability"] = np.where(treat, exceeds, 1 - exceeds)
    found = pd.DataFrame(columns, index=q.index)
    found.attrs |= {"ci_prob": ci_prob, "threshold": threshold}
    return found


def _check_calibrator(value: Any, name: str, other: str) -> None:
    """Refuse what is no calibrator of two classes."""
    if not isinstance(value, Calibrator):
        raise ParameterValueError(
            f"{name} must be a fitted calibrator{other}, got {type(value).__name__}. Fit one to scores and labels "
            "first, for example bayescal.StackedCalibrator().fit(scores, y)."
        )
    if value._columns == "classes":
        raise ParameterValueError(
            f"{name} must be of two classes, got {type(value).__name__}, which calibrates several. Fit a calibrator of "
            "two classes, such as PlattCalibrator, to one class against the rest."
        )


def _check_thresholds(thresholds: Any) -> np.ndarray:
    """Distinct thresholds, rising."""
    if thresholds is None:
        return np.arange(1, 100) / 100
    values = np.atleast_1d(np.asarray(thresholds, dtype=object))
    if values.ndim != 1 or not values.size:
        raise ParameterValueError(f"thresholds must be numbers in [0, 1), got shape {np.shape(thresholds)}.")
    return np.unique([check_odds_threshold(value, "thresholds") for value in values.tolist()])


def _check_utility(utility: Any) -> tuple[np.ndarray, float]:
    """The table, and the probability at which both actions are worth the same."""
    try:
        table = np.asarray(utility, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.shape != (2, 2) or not np.isfinite(table).all():
        raise ParameterValueError(
            f"utility must be a 2 x 2 table of finite numbers, rows leave and treat, columns the negative and the "
            f"positive class, got {utility!r}."
        )
    harm, benefit = table[0, 0] - table[1, 0], table[1, 1] - table[0, 1]
    if harm < 0 or benefit < 0 or harm + benefit == 0:
        raise ParameterValueError(
            "utility must not be higher with treatment for the negative class, nor lower for the positive class, nor "
            f"the same for both, got {table.tolist()}: no threshold on the probability separates the actions. Rows are "
            "leave and treat, columns the negative and the positive class."
        )
    return table, float(harm / (harm + benefit))


def _below(parts: np.ndarray) -> np.ndarray:
    """Sums over the bins below each threshold, of ``(..., k + 1)`` bins."""
    return np.cumsum(parts[..., :-1], axis=-1)


def _above(parts: np.ndarray) -> np.ndarray:
    """Sums over the bins above each threshold, of ``(..., k + 1)`` bins."""
    return np.cumsum(parts[..., :0:-1], axis=-1)[..., ::-1]


Blocks = Iterator[tuple[slice, np.ndarray, np.ndarray]]  # points, what decides (b,), curve (draws, b)


def _curves(forecast: Any) -> tuple[np.ndarray, Blocks, tuple[int, int]]:
    """Cases at each point, the curve in blocks of points, and its chains and draws."""
    if all(hasattr(forecast, name) for name in ("stated", "cases", "curve_draws")):
        draws = forecast.curve_draws.transpose("chain", "draw", "proba")
        q = draws.to_numpy().reshape(-1, draws.sizes["proba"])
        weight = np.asarray(forecast.cases, dtype=np.float64)
        one = iter([(slice(None), np.asarray(forecast.stated, dtype=np.float64), q)])
        return weight, one, draws.shape[:2]
    if hasattr(forecast, "by_class"):
        raise ParameterValueError(
            "forecast must be of two classes, got an assessment of several. Pass that of one class, "
            f"by_class[{next(iter(forecast.by_class))!r}]."
        )
    _check_calibrator(forecast, "forecast", ", or what bayescal.assess returns")
    forecast._require_posterior("decision_curve")
    rows = forecast._require_rows()
    used = rows.weight > 0
    points, inverse = distinct_rows(rows.scores[used])
    weight = np.bincount(inverse, weights=rows.weight[used])
    size = max(1, BLOCK // int(np.prod(forecast._draw_shape)))

    def blocks() -> Blocks:
        for start in range(0, len(points), size):
            q = forecast._proba_draws(points[start : start + size])
            yield slice(start, start + size), q.mean(axis=0), q

    return weight, blocks(), forecast._draw_shape
