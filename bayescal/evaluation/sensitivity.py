"""How much the prior speaks in a posterior, and how much the data, by power scaling.

    p_a(theta | y)  ~  p(theta)^a p(y | theta)     or     p(theta) p(y | theta)^a,      a = 0.99, 1.01

The sensitivity of a quantity is how fast its posterior moves, in cumulative Jensen-Shannon distance for each doubling
of a, as draws that are weighted anew show it: nothing is fitted again. Kallioinen, Paananen, Bürkner & Vehtari (2024),
"Detecting and diagnosing prior and likelihood sensitivity with power-scaling", section 2.

p(theta) are the priors whose settings `bayescal.priors` holds. What has a prior given other parameters (increments
given their concentration, a field or biases given their spread) is part of how the model hangs together: its density
is not scaled, as is usual for hierarchical models.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescal.calibrators.generative import GenerativeCalibrator
from bayescal.calibrators.multiclass import MultiClassCalibrator
from bayescal.calibrators.stacked import StackedCalibrator
from bayescal.inference.prior_density import log_prior_of_draws
from bayescal.validation import ParameterValueError, check_fraction

if TYPE_CHECKING:
    import xarray as xr

THRESHOLD = 0.05
FEWEST_DRAWS = 100
GIVEN_OTHERS = ("gamma", "boost", "field", "scale_raw", "bias_raw", "bends")  # have a prior given other parameters
NOT_SHOWN = (*GIVEN_OTHERS, "increments", "sticks", "coefficients", "levels")  # the map in other coordinates
QUANTILES = (0.1, 0.5, 0.9)  # of the rows, by their probability
BLOCK = 512


def prior_sensitivity(calibrator: Any, *, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Find what the prior moves in a posterior.

    Parameters
    ----------
    calibrator : calibrator
        Fitted with ``inference="nuts"``; one with a model of its own, and not the copula.
    threshold : float in (0, 1), default=0.05
        Sensitivity from which something counts as moved.

    Returns
    -------
    pandas.DataFrame
        One row for each parameter (index ``quantity``), and for probabilities of the positive class: their mean over
        the calibration rows, and those of the rows at 10, 50 and 90 % of them. Of several classes, the mean of each.
        Columns ``prior`` and ``likelihood``, the sensitivities to each, and ``diagnosis``: ``""``, ``"strong prior or
        weak data"`` where the prior alone moves it, ``"prior and data disagree, or few data"`` where both do.
        ``attrs["message"]`` is the report in a line, ``attrs["threshold"]`` the threshold.

    Raises
    ------
    NoPosteriorError
        If the calibrator was fitted with ``inference="point"``, or saved without its calibration rows.
    ParameterValueError
        If the posterior is not proportional to prior times likelihood (an average; the copula's cut posterior), or
        `calibrator` is no calibrator.

    Notes
    -----
    The priors scaled are those that the settings of ``bayescal.priors`` state, all at once. What has a prior given
    other parameters, such as the increments of a curve given their concentration, keeps it.

    Sensitivities near the threshold need a thousand draws or more: with fewer, what is not moved reaches 0.02 by
    chance.

    References
    ----------
    Kallioinen, N., Paananen, T., Bürkner, P.-C. and Vehtari, A. (2024). Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling. Statistics and Computing 34, 57.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.PlattCalibrator(random_state=0).fit(days["ens"][:30], days["rain"][:30])
    >>> bc.prior_sensitivity(cal).loc[["intercept", "slope"]].columns.tolist()
    ['prior', 'likelihood', 'diagnosis']
    """
    from arviz_stats import psense

    threshold = check_fraction(threshold, "threshold")
    _check_served(calibrator)
    size = int(np.prod(calibrator._draw_shape))
    if size < FEWEST_DRAWS:
        raise ParameterValueError(
            f"calibrator must have at least {FEWEST_DRAWS} draws, whose tails are reweighed, got {size}. Fit it with "
            "draws=1000."
        )
    tree = power_scaling_tree(calibrator)
    names = list(tree["posterior"].data_vars)
    found = {}
    for group in ("prior", "likelihood"):
        sensitivity = psense(tree, group=group)
        found[group] = {
            _label(name, at, calibrator): float(value)
            for name in names
            for at, value in np.ndenumerate(np.asarray(sensitivity[name]))
        }
    table = pd.DataFrame(found).rename_axis("quantity")
    moved, informed = table["prior"] > threshold, table["likelihood"] > threshold
    table["diagnosis"] = np.select(
        [moved & informed, moved], ["prior and data disagree, or few data", "strong prior or weak data"], ""
    )
    table.attrs = {"message": _message(table, threshold), "threshold": threshold}
    return table


def power_scaling_tree(calibrator: GenerativeCalibrator) -> "xr.DataTree":
    """What ArviZ needs: quantities in ``posterior``, their log prior, and the log likelihood of all cases together."""
    import xarray as xr

    draws, shape = ("chain", "draw"), calibrator._draw_shape
    coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}

    def group(values: dict[str, np.ndarray]) -> "xr.Dataset":
        return xr.Dataset(
            {name: ((*draws, *(f"{name}_dim_{i}" for i in range(v.ndim - 2))), v) for name, v in values.items()},
            coords=coords,
        )

    shown = {name: v for name, v in calibrator._draws.items() if name not in NOT_SHOWN}
    probabilities, log_likelihood = _of_rows(calibrator)
    shown |= {name: v.reshape(*shape, *v.shape[1:]) for name, v in probabilities.items()}
    return xr.DataTree.from_dict(
        {
            "posterior": group(shown),
            "log_prior": group({"prior": log_prior(calibrator)}),
            "log_likelihood": group({"y": log_likelihood.reshape(*shape, 1)}),
        }
    )


def log_prior(calibrator: GenerativeCalibrator) -> np.ndarray:
    """Log density ``(chain, draw)`` of the priors that settings state, at the draws."""
    return log_prior_of_draws(calibrator.model_, calibrator._draws, given_others=GIVEN_OTHERS)


def _of_rows(calibrator: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws of probabilities of the calibration rows, and of the log likelihood of all cases ``(draws,)``."""
    rows = calibrator._require_rows()
    used = rows.weight > 0
    scores, y, weight = rows.scores[used], rows.y[used], rows.weight[used]
    total, mean = np.zeros(np.prod(calibrator._draw_shape)), 0.0
    several = isinstance(calibrator, MultiClassCalibrator)
    means = []
    for start in range(0, len(y), BLOCK):
        part = slice(start, start + BLOCK)
        p = calibrator._proba_draws(scores[part])
        mean = mean + np.einsum("sm...,m->s...", p, weight[part] / weight.sum())
        if several:
            with np.errstate(divide="ignore"):
                total += np.log(p[:, np.arange(p.shape[1]), y[part]]) @ weight[part]
        else:
            means.append(p.mean(axis=0))
            total += calibrator._log_factor_at(scores[part], y[part]) @ weight[part]
    found = {"mean_probability": np.asarray(mean)}
    if not several:
        order = np.argsort(np.concatenate(means), kind="stable")
        reached = np.cumsum(weight[order]) / weight.sum()
        chosen = [order[np.searchsorted(reached, q)] for q in QUANTILES]
        found["probability"] = calibrator._proba_draws(scores[chosen])
    return found, total


def _label(name: str, at: tuple[int, ...], calibrator: Any) -> str:
    if name == "probability":
        return f"probability[row at {100 * QUANTILES[at[0]]:.0f} %]"
    if not at:
        return name
    is_of_classes = isinstance(calibrator, MultiClassCalibrator) and len(at) == 1
    return f"{name}[{calibrator.classes_[at[0]] if is_of_classes else ', '.join(map(str, at))}]"


def _message(table: pd.DataFrame, threshold: float) -> str:
    moved = table["prior"][table["prior"] > threshold].sort_values(ascending=False, kind="stable")
    if moved.empty:
        return (
            f"the prior moves nothing (at most {table['prior'].max():.2f}, of {table['prior'].idxmax()}, "
            f"< {threshold:g})."
        )
    shown = ", ".join(f"{name} ({value:.2f} > {threshold:g})" for name, value in moved.iloc[:3].items())
    more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
    if not moved.index.str.contains("probability").any():
        return (
            f"the prior moves {shown}{more}, but no probability that was looked at; report the prior with the result."
        )
    disagree = table.loc[moved.index, "likelihood"].gt(threshold).any()
    why = "few data, or a prior that disagrees with them" if disagree else "few data"
    return f"the prior moves {shown}{more}: {why}; report the prior with the result."


def _check_served(calibrator: Any) -> None:
    if isinstance(calibrator, StackedCalibrator):
        raise ParameterValueError(
            "prior_sensitivity asks one model, and a StackedCalibrator is an average of several. Ask its members: "
            "prior_sensitivity(calibrator.members_['platt'])."
        )
    if not isinstance(calibrator, GenerativeCalibrator):
        raise ParameterValueError(
            f"calibrator must be a fitted calibrator with a posterior, got {type(calibrator).__name__}. Pass one of "
            "`bayescal models`."
        )
    if calibrator._name == "copula":
        raise ParameterValueError(
            "prior_sensitivity needs a posterior proportional to prior times likelihood, and the copula's is cut: its "
            "margins do not learn from the copula. Fit again with other bayescal.priors.CopulaPriors and compare."
        )
    calibrator._require_posterior("prior_sensitivity")
    calibrator._require_rows()
