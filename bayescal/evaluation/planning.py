"""How many labelled cases a calibration needs, by simulating and refitting it.

For each size n and each repeat: scores are drawn from those at hand, outcomes from an assumed calibration curve q, the
calibrator is fitted to them, and the widths of its credible intervals are read off. The answer is

    smallest n with  P(mean width <= wanted width) >= assurance.

Where the curve is itself uncertain, each repeat takes one draw of its posterior, so that the probability is also over
what is not known yet: O'Hagan, Stevens & Campbell (2005) call it assurance.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import clone

from bayescal.calibrators.base import Calibrator
from bayescal.calibrators.scale import PROBA_CLIP
from bayescal.calibrators.summaries import BLOCK
from bayescal.evaluation.needed import needed_cases
from bayescal.inference.seeds import seed_sequence
from bayescal.registry import CALIBRATORS, curve_names
from bayescal.validation import (
    SCORE_KINDS,
    CalibrationWarning,
    ConvergenceWarning,
    ParameterValueError,
    ScoreValueError,
    check_choice,
    check_count,
    check_fraction,
    check_progress,
    check_scores,
    quiet,
)

SIZES = (50, 100, 200, 400, 800, 1600)
MOST_POINTS = 1000  # distinct scores; more are represented by this many quantiles
LARGEST_SIZE = 10**9
SPREAD = (0.1, 0.9)  # quantiles over the simulations

Progress = bool | Callable[[int, int], None] | None


@dataclass(frozen=True)
class _Cases:
    """Scores and how often they come."""

    scores: np.ndarray  # (m,) distinct
    share: np.ndarray  # (m,) sums to 1


@dataclass(frozen=True, eq=False)
class Plan:
    """Widths of simulated intervals by number of labelled cases; made by `plan`.

    Parameters
    ----------
    simulations : pandas.DataFrame
        One row for each refit: ``n``, ``repeat``, mean ``width`` of the intervals, ``coverage``, the share of scores
        whose interval holds the simulated curve, ``one_class``, whether a class was missing, and ``converged``.
    width : float in (0, 1)
        The wanted width.
    ci_prob : float in (0, 1)
        Posterior probability of the intervals.
    assurance : float in (0, 1)
        The wanted probability of reaching that width.
    calibrator : str
        What was refitted.
    needed : int or None
        Smallest number of cases; the smallest size where that is enough already, None where the largest is not.
    needed_range : tuple of (int or None, int or None)
        Monte Carlo interval of ``needed`` (90 %), by resampling the repeats; the same holds of its ends.
    """

    simulations: pd.DataFrame = field(repr=False)
    width: float
    ci_prob: float
    assurance: float
    calibrator: str
    needed: int | None
    needed_range: tuple[int | None, int | None]

    @property
    def table(self) -> pd.DataFrame:
        """What the refits of each size found.

        Index ``n``. ``width_mean`` with its Monte Carlo standard error ``width_se``; ``width_lower`` and
        ``width_upper``, quantiles 0.1 and 0.9 over the simulations; ``probability`` of reaching the wanted width and
        ``coverage``, with theirs; the shares of simulations with ``one_class`` missing and of those ``not_converged``.
        The standard error of a probability counts half a case more of either kind, so that it is not 0 at 0 and 1.
        """
        groups = self.simulations.groupby("n")
        repeats = groups.size()
        hits = groups["width"].agg(lambda width: (width <= self.width).sum())
        smoothed = (hits + 0.5) / (repeats + 1)
        return pd.DataFrame(
            {
                "width_mean": groups["width"].mean(),
                "width_se": groups["width"].std(ddof=1) / np.sqrt(repeats),
                "width_lower": groups["width"].quantile(SPREAD[0]),
                "width_upper": groups["width"].quantile(SPREAD[1]),
                "probability": hits / repeats,
                "probability_se": np.sqrt(smoothed * (1 - smoothed) / repeats),
                "coverage": groups["coverage"].mean(),
                "coverage_se": groups["coverage"].std(ddof=1) / np.sqrt(repeats),
                "one_class": groups["one_class"].mean(),
                "not_converged": 1 - groups["converged"].mean(),
            }
        )

    @property
    def answer(self) -> str:
        """The answer in words."""
        sizes = self.simulations["n"]
        low, high = sizes.min(), sizes.max()
        if self.needed is None:
            found = f"More than {high} labelled cases are needed, the largest size that was simulated,"
        elif self.needed == low:
            found = f"{low} labelled cases, the smallest size that was simulated, are enough"
        else:
            ends = [f"more than {high}" if end is None else str(end) for end in self.needed_range]
            found = (
                f"About {self.needed} labelled cases are needed (Monte Carlo interval {ends[0]} to {ends[1]}; by a "
                "monotone fit, interpolated in log n)"
            )
        return (
            f"{found} for {100 * self.ci_prob:.4g} % intervals whose mean width is at most {self.width:g} with a "
            f"probability of {self.assurance:g}."
        )


def plan(
    scores: Any,
    y: Any = None,
    *,
    curve: Calibrator | None = None,
    calibrator: Any = None,
    score_kind: str | None = None,
    sizes: Sequence[int] = SIZES,
    width: float = 0.1,
    at: Any = None,
    ci_prob: float = 0.9,
    assurance: float = 0.8,
    repeats: int = 30,
    draws: int = 500,
    chains: int = 2,
    random_state: Any = None,
    progressbar: Progress = None,
) -> Plan:
    """Simulate how narrow credible intervals will be, to say how many labelled cases are needed.

    Parameters
    ----------
    scores : array-like of shape (n,), (n, 1) or (n, 2), or calibrator
        Scores of cases such as those that will be labelled. Or a fitted calibrator of one score: its calibration rows
        are the cases, its posterior is the assumed curve.
    y : array-like of shape (n,), default=None
        Labels, if these cases have them: a pilot. `calibrator` is fitted to them, and its posterior is the curve.
    curve : calibrator, default=None
        A fitted calibrator of one score whose posterior is the assumed curve, for cases other than its own.
    calibrator : str, class or calibrator, default=None
        What will be fitted to the labels: a name such as ``"platt"`` or ``"auto"``, or a calibrator of two classes and
        one score. None takes that of the curve, else ``"platt"``.
    score_kind : {"proba", "logit", "raw"}, default=None
        What the scores are; None takes it from the calibrator that was passed, else ``"proba"``. With neither labels
        nor a curve, the scores are taken at their word: the curve is the probability that they state.
    sizes : sequence of int, default=(50, 100, 200, 400, 800, 1600)
        Numbers of labelled cases to simulate.
    width : float in (0, 1), default=0.1
        Wanted width of the intervals: its mean over the scores, or over `at`.
    at : array-like of shape (k,), default=None
        Scores at which the width matters; None takes all scores as often as they come.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals.
    assurance : float in (0, 1), default=0.8
        Wanted probability that the width is reached.
    repeats : int, default=30
        Simulations of each size.
    draws : int, default=500
        Posterior draws of each chain of a refit.
    chains : int, default=2
        Chains of a refit.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the plan reproducible. What is simulated at one size does not depend on the others.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total).

    Returns
    -------
    Plan
        ``answer`` in words, ``needed`` as a number, ``table`` by size and ``simulations`` one by one.

    Raises
    ------
    ScoreValueError, LabelValueError, ParameterValueError
        If an input or a setting is outside its domain.
    NoPosteriorError
        If the curve is a point estimate, or was saved without the calibration rows that are asked for.

    Notes
    -----
    The answer is found from the quantile `assurance` of the mean widths at each size: a monotone (isotonic) fit of its
    logarithm to log n, with straight lines between the sizes. A plan is as good as its curve: scores taken at their
    word that are wrong, or a family of curves that does not hold the truth, give widths of the same order but
    intervals that miss, and ``coverage`` in the table speaks of the assumed curve alone.

    A simulation without a case of one class is fitted like any other; its intervals come from the prior. More than
    1000 distinct scores are represented by 1000 quantiles. Stated probabilities are taken within 1e-6 of 0 and 1.
    Scores are drawn with replacement, so that a calibrator whose prior looks at distinct scores (``"isotonic"``) sees
    more ties than there will be.

    A refit of ``"platt"`` takes 0.1 s on two cores, of ``"auto"`` one to two; the first compiles the model, and
    ``"isotonic"`` compiles another for each number of steps.

    References
    ----------
    O'Hagan, A., Stevens, J. and Campbell, M. (2005). Assurance in clinical trial design. Pharmaceutical Statistics 4,
    187-201.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> found = bc.plan(days["ens"], days["rain"], sizes=[50, 500], width=0.2, repeats=5, random_state=0)
    >>> 50 < found.needed < 500
    True
    """
    width, ci_prob = check_fraction(width, "width"), check_fraction(ci_prob, "ci_prob")
    assurance, repeats = check_fraction(assurance, "assurance"), check_count(repeats, "repeats", 2)
    progressbar = check_progress(progressbar)
    numbers, entropy = _check_sizes(sizes), seed_sequence(random_state).generate_state(2, np.uint64)
    settings = {"draws": check_count(draws, "draws"), "chains": check_count(chains, "chains"), "progressbar": False}
    truth = None
    if isinstance(scores, Calibrator):
        if y is not None or curve is not None:
            raise ParameterValueError(
                "scores is a fitted calibrator, whose rows and curve are used; leave y and curve out."
            )
        truth = _check_curve(scores, "scores")
    elif curve is not None:
        if y is not None:
            raise ParameterValueError("y and curve were both given; pass the labels or the fitted calibrator.")
        truth = _check_curve(curve, "curve")
    refitted = _unfitted(calibrator, truth, score_kind)
    kind = refitted.score_kind
    if isinstance(scores, Calibrator):
        rows = scores._require_rows()
        drawn = _distribution(rows.scores, rows.weight)
    else:
        values = check_scores(scores, kind).values
        drawn = _distribution(values, np.ones(len(values)))
    if y is not None:
        truth = clone(refitted).set_params(random_state=int(entropy[0] % 2**32), progressbar=False).fit(scores, y)
    elif truth is None and kind == "raw":
        raise ScoreValueError(
            "scores of score_kind='raw' state no probability to simulate from. Pass labels of a pilot as y, or a "
            "fitted calibrator as curve."
        )
    judged = drawn
    if at is not None:
        values = check_scores(at, kind, name="at").values
        judged = _Cases(values, np.full(len(values), 1 / len(values)))
    rng = np.random.default_rng(entropy)
    curves = _assumed(truth, np.concatenate([drawn.scores, judged.scores]), kind, repeats, rng)
    refitted.set_params(**settings, classes=None)
    found = []
    for n, repeat in _progress([(n, repeat) for n in numbers for repeat in range(repeats)], progressbar):
        stream = np.random.default_rng([*entropy, n, repeat])
        found.append({"n": n, "repeat": repeat, **_refit(refitted, n, drawn, judged, curves[repeat], ci_prob, stream)})
    simulations = pd.DataFrame(found)
    widths = simulations["width"].to_numpy().reshape(len(numbers), repeats)
    needed, ends = needed_cases(numbers, widths, width, assurance, rng)
    return Plan(simulations, width, ci_prob, assurance, refitted._name, needed, ends)


def _refit(
    unfitted: Calibrator,
    n: int,
    drawn: _Cases,
    judged: _Cases,
    curve: np.ndarray,
    ci_prob: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Simulate n labelled cases, fit, and judge the intervals; `curve` is that at the scores drawn, then judged."""
    q, q_judged = np.split(curve, [len(drawn.scores)])
    counts = rng.multinomial(n, drawn.share)
    ones = rng.binomial(counts, q)
    cases = np.concatenate([ones, counts - ones])
    kept = cases > 0
    outcomes = np.repeat([1, 0], len(q))[kept]
    model = clone(unfitted).set_params(random_state=int(rng.integers(2**32)))
    with quiet(CalibrationWarning, ConvergenceWarning):
        model.fit(np.tile(drawn.scores, 2)[kept], outcomes, cases[kept])
    lower, upper = model.predict_interval(judged.scores, ci_prob)[:, 1].T
    return {
        "width": float((upper - lower) @ judged.share),
        "coverage": float(((lower <= q_judged) & (q_judged <= upper)) @ judged.share),
        "one_class": bool(outcomes.min() == outcomes.max()),
        "converged": model.diagnostics_.attrs["verdict"] != "failed",
    }


def _check_sizes(sizes: Any) -> list[int]:
    """Distinct sizes, rising."""
    values = np.atleast_1d(np.asarray(sizes, dtype=object)).reshape(-1).tolist()
    if not values:
        raise ParameterValueError("sizes must name at least one number of cases, got none.")
    checked = sorted({check_count(value, "sizes") for value in values})
    if checked[-1] > LARGEST_SIZE:
        raise ParameterValueError(f"sizes must be at most {LARGEST_SIZE}, got {checked[-1]}.")
    return checked


def _check_curve(value: Any, name: str) -> Calibrator:
    """A fitted calibrator of two classes and one score, with its posterior."""
    if not isinstance(value, Calibrator) or value._columns == "classes":
        raise ParameterValueError(f"{name} must be a fitted calibrator of two classes, got {type(value).__name__}.")
    value._require_posterior("plan")
    value._require_one_score("plan")
    return value


def _unfitted(calibrator: Any, truth: Calibrator | None, score_kind: str | None) -> Calibrator:
    """What will be refitted."""
    suited = curve_names()
    kind = None if truth is None else truth.score_kind
    made: Any = calibrator
    if calibrator is None:
        made = "platt" if truth is None else truth
    if isinstance(made, str):
        made = CALIBRATORS[check_choice(made, suited, "calibrator")].load()
    if isinstance(made, type) and issubclass(made, Calibrator):
        made = made(score_kind=check_choice(score_kind or kind or "proba", SCORE_KINDS, "score_kind"))
    if getattr(made, "_name", None) not in suited or getattr(made, "inference", "nuts") != "nuts":
        raise ParameterValueError(
            f"calibrator must be one of {', '.join(suited)}, or such a calibrator with inference='nuts', "
            f"got {calibrator!r}."
        )
    for other, whose in ((score_kind, "the argument"), (kind, "the curve")):
        if other is not None and other != made.score_kind:
            raise ParameterValueError(
                f"score_kind must be the same throughout, got {made.score_kind!r} of the calibrator and {other!r} of "
                f"{whose}. Leave score_kind out, or pass a calibrator of these scores."
            )
    return clone(made)


def _distribution(scores: np.ndarray, weight: np.ndarray) -> _Cases:
    """Distinct scores and their shares; of more than `MOST_POINTS`, that many quantiles."""
    distinct, inverse = np.unique(scores, return_inverse=True)
    total = np.bincount(inverse, weights=weight)
    if len(distinct) > MOST_POINTS:
        middles = (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS
        at = np.searchsorted(np.cumsum(total), middles * total.sum())
        chosen, counts = np.unique(at, return_counts=True)
        return _Cases(distinct[chosen], counts / MOST_POINTS)
    used = total > 0
    return _Cases(distinct[used], total[used] / total.sum())


def _assumed(
    truth: Calibrator | None, scores: np.ndarray, kind: str, repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """The curve of each repeat, ``(repeats, m)``: what the scores state, or draws of a posterior."""
    if truth is None:
        stated = expit(scores) if kind == "logit" else scores
        return np.tile(np.clip(stated, PROBA_CLIP, 1 - PROBA_CLIP), (repeats, 1))
    size = int(np.prod(truth._draw_shape))
    chosen = rng.choice(size, repeats, replace=repeats > size)
    blocks = np.array_split(scores, math.ceil(len(scores) * size / BLOCK))
    return np.concatenate([truth._proba_draws(block)[chosen] for block in blocks], axis=1)


def _progress(jobs: list[tuple[int, int]], wanted: Progress) -> Iterator[tuple[int, int]]:
    """The jobs, one after another, and word of each that is done."""
    from rich.console import Console
    from rich.progress import track

    shown = wanted is True or (wanted is None and sys.stderr.isatty())
    bar = track(jobs, "simulating", console=Console(stderr=True), transient=True, disable=not shown)
    for done, job in enumerate(bar, start=1):
        yield job
        if callable(wanted):
            wanted(done, len(jobs))
