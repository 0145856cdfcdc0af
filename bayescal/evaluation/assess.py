"""`bayescal.assess`: can an existing forecast be trusted?"""

from collections.abc import Sequence
from typing import Any

from bayescal.evaluation.assessment import Assessment, assess_probability
from bayescal.evaluation.class_assessment import ClassAssessment, assess_classes
from bayescal.validation import states_several_classes


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
) -> Assessment | ClassAssessment:
    """Assess a forecast: how calibrated it is, and how sure of that these cases let us be.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: labels of any two kinds, or of several where `y_proba` has a column for each.
    y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes), in [0, 1]
        Probability stated of the positive class, or of all classes in the order of their labels.
    sample_weight : array-like of shape (n,), >= 0, default=None
        How many cases each row stands for; None: one.
    curve : str, default="auto"
        Model of the calibration curve, a calibrator of one score by its name: ``"auto"`` averages ``"platt"``, a
        line in log-odds, and ``"bernstein"``, smooth and of any rising shape; ``"spline"`` may fall.
    ci_prob : float in (0, 1), default=0.9
        Posterior probability of the intervals.
    pos_label : label, default=None
        The positive class; None takes the second of the labels in sorted order.
    labels : sequence of labels, default=None
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
    Assessment or ClassAssessment
        Of two classes: ``summary()`` is a table with intervals, ``curve`` the calibration curve,
        ``probability(ece__lt=0.05)`` answers a question; `bayescal.plot_reliability` draws it. Of three classes or
        more: an `Assessment` of each class against the others (``by_class``) and of the most probable class
        (``top_label``), and measures of the whole row of probabilities (``vector``), all in one ``summary()``.

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
    probabilities within 1e-6 of 0 and 1. Beyond 300 different probabilities neighbours are grouped, at most 0.7 % of
    the cases or of the range of log-odds in a group; that moved ICI, slope and the parts of the Brier score by less
    than 0.0005 in tests, Emax by less than 0.002, E50 and E90 by less than 0.01. The curve is fitted to 150 groups.

    ``tests/studies/results/assess_judge.txt`` has the coverage of 90 % intervals at n = 60, 200 and 1000, over four
    miscalibrated forecasts that no choice was made on: ICI .93, .90, .89; slope .88, .88, .91; intercept .88, .90, .90;
    parts of the Brier score .87 to .94; E50 .90, .85, .89; E90 .94, .92, .88. Emax is held in .90, .82, .68, since the
    curve is smoother than a step. Intervals of calibrated forecasts hold slope and intercept in .99 and .95 at n = 60,
    where the prior says most, .94 and .94 at 200, .91 and .91 at 1000.

    Those forecasts bend once or twice. A curve of several waves is smoothed, so that its ICI is too small and, with
    thousands of cases, its interval too narrow; compare ``curve="isotonic"``.

    All curves but ``"spline"`` rise. ``monotonicity_p_value`` finds a forecast that ranks cases wrongly; its ICI is
    then too small.

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
    >>> bool(found.summary().loc["bias", "upper"] < 0)  # promises too much rain
    True
    >>> found.probability(ece__gt=0.05)
    1.0
    """
    settings: dict[str, Any] = {
        "curve": curve,
        "ci_prob": ci_prob,
        "pos_label": pos_label,
        "labels": labels,
        "draws": draws,
        "chains": chains,
        "cores": cores,
        "random_state": random_state,
        "progressbar": progressbar,
    }
    if states_several_classes(y_proba):
        return assess_classes(y_true, y_proba, sample_weight, **settings)
    return assess_probability(y_true, y_proba, sample_weight, **settings)
