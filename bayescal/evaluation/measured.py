"""Posterior of the measures of a calibration curve: summaries and questions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayescal.calibrators.summaries import interval
from bayescal.validation import ParameterValueError

MEASURES = {
    "ici": "integrated calibration index: mean distance between stated and actual probability; 0 is calibrated",
    "e50": "median distance between stated and actual probability; 0 is calibrated",
    "e90": "distance between stated and actual probability that 90 % of the cases do not exceed; 0 is calibrated",
    "emax": "largest distance between stated and actual probability; 0 is calibrated",
    "bias": "mean of actual minus stated probability; positive: the score is too low; 0 is calibrated",
    "slope": "calibration slope; below 1: the score is too extreme, above 1: too timid; 1 is calibrated",
    "intercept": "intercept beside the calibration slope, in log-odds; 0 is calibrated",
    "in_the_large": "calibration in the large: intercept with the slope held at 1, in log-odds; 0 is calibrated",
}
SCORE_PARTS = {
    "brier": "Brier score: miscalibration - discrimination + uncertainty",
    "miscalibration": "mean squared distance between stated and actual probability; 0 is calibrated",
    "discrimination": "variance of the actual probability: what the forecast tells apart; larger is better",
    "uncertainty": "variance of the outcome: the Brier score of always stating the base rate",
    "log_loss": "log loss, in nats, of probabilities kept 1e-6 away from 0 and 1",
}
ALIASES = {"ece": "ici"}  # the expected calibration error without bins
COMPARISONS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {"lt": np.less, "gt": np.greater}


@dataclass(frozen=True, eq=False)
class Measured:
    """Posterior draws of measures, one variable of dims (chain, draw) each, and the level of their intervals."""

    measures: ClassVar[dict[str, str]] = MEASURES

    draws: xr.Dataset = field(repr=False)
    ci_prob: float

    def summary(self) -> pd.DataFrame:
        """Summarise each measure's posterior.

        Returns
        -------
        pandas.DataFrame
            Index ``measure``; columns ``mean``, ``sd``, and ``lower`` and ``upper`` of the equal-tailed interval, whose
            level is in ``attrs["ci_prob"]``.
        """
        values = np.stack([self.draws[name].to_numpy().reshape(-1) for name in self.measures], axis=1)
        lower, upper = interval(values, self.ci_prob, "eti")
        table = pd.DataFrame(
            {"mean": values.mean(axis=0), "sd": values.std(axis=0), "lower": lower, "upper": upper},
            index=pd.Index(list(self.measures), name="measure"),
        )
        table.attrs["ci_prob"] = self.ci_prob
        return table

    def probability(self, **conditions: float) -> float:
        """Posterior probability that the measures lie where you ask.

        Parameters
        ----------
        **conditions
            ``<measure>__lt=value`` or ``<measure>__gt=value``; several must hold together. ``ece`` is a name of
            ``ici``.

        Returns
        -------
        float
            Share of the draws in which all conditions hold; NaN if a measure named is not defined for these scores.

        Raises
        ------
        ParameterValueError
            If no condition is given, a keyword is not of that form, or a value is not a finite number.
        """
        if not conditions:
            raise ParameterValueError("probability needs a condition, such as ici__lt=0.05 or slope__gt=0.9.")
        holds = np.ones(tuple(self.draws.sizes.values()), dtype=bool)
        for keyword, value in conditions.items():
            name, _, comparison = keyword.rpartition("__")
            name = ALIASES.get(name, name)
            if name not in self.measures or comparison not in COMPARISONS:
                raise ParameterValueError(
                    f"conditions are <measure>__lt or <measure>__gt with a measure out of {', '.join(self.measures)}, "
                    f"got {keyword!r}."
                )
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise ParameterValueError(f"{keyword} must be a finite number, got {value!r}.")
            draws = self.draws[name].to_numpy()
            if np.isnan(draws).any():
                return float("nan")
            holds &= COMPARISONS[comparison](draws, float(value))
        return float(holds.mean())


def measure_draws(values: dict[str, np.ndarray], measures: dict[str, str], shape: tuple[int, int]) -> xr.Dataset:
    """Draws ``(chains * draws,)`` of each measure as a dataset of dims (chain, draw)."""
    return xr.Dataset(
        {
            name: (("chain", "draw"), values[name].reshape(shape), {"description": text})
            for name, text in measures.items()
        },
        coords={"chain": np.arange(shape[0]), "draw": np.arange(shape[1])},
    )
