"""The gate: are the draws good enough to read an interval from them?

Rank-normalised split R-hat, bulk and tail ESS (Vehtari, Gelman, Simpson, Carpenter & Burkner 2021), divergences, and
E-BFMI (Betancourt 2016). A value that is NaN never passes.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

R_HAT_MAX = 1.01
ESS_PER_CHAIN_MIN = 100.0
DIVERGENT_SHARE_MAX = 0.001
E_BFMI_MIN = 0.3
DRAWS_MIN = 4  # of a chain: R-hat compares the halves of chains, and a half needs a variance


@dataclass(frozen=True)
class Convergence:
    """What the gate found. `verdict`: ``"passed"``, ``"failed"``, ``"not assessed"`` (one chain, hardly any draws)."""

    table: pd.DataFrame  # index: parameter; r_hat, ess_bulk, ess_tail
    divergences: int
    e_bfmi: float
    verdict: str
    message: str

    @property
    def score(self) -> float:
        """Larger is better: the smallest ESS, or -inf when the gate fails on anything but ESS."""
        worst = self.table[["ess_bulk", "ess_tail"]].to_numpy().min()
        return float(worst) if self.divergences == 0 and np.isfinite(worst) else -float(self.divergences) - 1.0


def assess_convergence(posterior: Mapping[str, np.ndarray], diverging: np.ndarray, energy: np.ndarray) -> Convergence:
    """Judge draws ``{name: (chain, draw, ...)}``, divergence flags and energies ``(chain, draw)``."""
    from arviz_stats.base import array_stats

    chains, draws = diverging.shape
    rows: dict[str, tuple[float, float, float]] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # short or constant chains: their NaN is what is reported
        for name, values in posterior.items():
            flat = values.reshape(chains, draws, -1)
            for j in range(flat.shape[2]):
                label = name if values.ndim == 2 else f"{name}[{j}]"
                rows[label] = _diagnose(flat[:, :, j], array_stats)
        e_bfmi = float(np.min(np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)))
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["r_hat", "ess_bulk", "ess_tail"])
    table.index.name = "parameter"
    divergences = int(diverging.sum())
    verdict, message = _judge(table, divergences, e_bfmi, chains, draws)
    return Convergence(table, divergences, e_bfmi, verdict, message)


def _diagnose(values: np.ndarray, array_stats: object) -> tuple[float, float, float]:
    def number(function: str, **how: object) -> float:
        try:
            return float(getattr(array_stats, function)(values, chain_axis=0, draw_axis=1, **how))
        except (ValueError, TypeError, IndexError, ZeroDivisionError):
            return float("nan")  # fewer draws than the statistic needs

    r_hat = number("rhat", method="rank") if values.shape[0] > 1 else float("nan")
    return r_hat, number("ess", method="bulk"), number("ess", method="tail", prob=(0.05, 0.95))


def _judge(table: pd.DataFrame, divergences: int, e_bfmi: float, chains: int, draws: int) -> tuple[str, str]:
    if chains == 1:
        return (
            "not assessed",
            "R-hat is not available from a single chain; fit with chains=4 to check convergence.",
        )
    if draws < DRAWS_MIN:
        return (
            "not assessed",
            f"R-hat is not available from {draws} draws of each chain; fit with draws=1000 to check convergence.",
        )
    problems = []
    worst = table["r_hat"].fillna(np.inf)
    if not (worst <= R_HAT_MAX).all():
        name = worst.idxmax()
        problems.append(f"R-hat of {name} is {_shown(table['r_hat'][name], '.4f')} (limit {R_HAT_MAX})")
    for column, word in (("ess_bulk", "bulk"), ("ess_tail", "tail")):
        values = table[column].fillna(-np.inf)
        if not (values >= ESS_PER_CHAIN_MIN * chains).all():
            name = values.idxmin()
            found = _shown(table[column][name], ".0f")
            problems.append(f"{word} ESS of {name} is {found} (at least {ESS_PER_CHAIN_MIN * chains:.0f})")
    if divergences > DIVERGENT_SHARE_MAX * chains * draws:
        problems.append(f"{divergences} of {chains * draws} transitions diverged")
    if not e_bfmi >= E_BFMI_MIN:
        problems.append(f"E-BFMI is {_shown(e_bfmi, '.2f')} (at least {E_BFMI_MIN})")
    if not problems:
        return "passed", "R-hat, effective sample sizes, divergences and energy are all within their limits."
    remedy = (
        "Fit with more draws and tune steps (draws=4000, tune=2000)"
        if not divergences
        else "Give tighter priors (priors=...) or more tune steps (tune=2000)"
    )
    return "failed", "; ".join(problems) + f". {remedy}, and look at az.plot_trace_dist(calibrator.idata_)."


def _shown(value: float, spec: str) -> str:
    return "not available" if np.isnan(value) else format(value, spec)
