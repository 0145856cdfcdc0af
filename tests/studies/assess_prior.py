"""What does `bayescal.assess` believe of a forecast before it sees an outcome?

A prior predictive check of its default curve, the average of a line in log-odds and a Bernstein polynomial, at 200
forecasts that are the quantiles of a law. Curves are drawn from the models that the calibrators build; with no outcome
the stacking weights are equal. The factor for curves near the diagonal is applied as `assess` does, by resampling.
Measures are over the 200 forecasts with equal shares; `assess` itself weighs them by a Bayesian bootstrap besides.

    uv run --group studies python tests/studies/assess_prior.py --out tests/studies/results/assess_prior

The effective size of the factor's weights w is 1 / sum w^2; two independent resamplings count each draw S w times on
average, so that the sum over draws of the product of their counts has the mean S^2 sum w^2. A probability from 40,000
draws has a standard error of at most 0.003.
"""

import argparse
import json
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import beta, uniform

LAWS = {"Beta(0.7, 1.2)": beta(0.7, 1.2), "Uniform(0, 1)": uniform()}
FORECASTS = 200
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BELOW = (0.01, 0.03, 0.05, 0.1)
MEASURES = ("ici", "e90", "emax", "slope", "intercept", "bias")


def prior_curves(name: str, stated: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draws of a calibrator's curve ``(size, m)`` from the prior of the model that it builds."""
    import pymc as pm

    from bayescal.registry import CALIBRATORS

    calibrator = CALIBRATORS[name].load()(classes=(0, 1))
    job = calibrator._prepare(stated, np.arange(len(stated)) % 2, None)  # no prior draw depends on the outcomes
    model = calibrator._build(**job.data)
    names = [variable.name for variable in model.free_RVs + model.deterministics]
    drawn = pm.sample_prior_predictive(size, model=model, var_names=names, random_seed=seed).prior
    parameters = {name: drawn[name].to_numpy()[0] for name in names}
    features = calibrator._features(calibrator._coordinate(stated, job.scale), job.scale)
    return expit(calibrator._log_odds(features, parameters))


def priors(stated: np.ndarray, size: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Curves of each member, of their average and of that with the factor; and what the factor did."""
    from bayescal.calibrators.stacked import _allocate, stacking_weights
    from bayescal.evaluation.assessment import AVERAGED, _resample

    rng = np.random.default_rng(seed)
    members = {name: prior_curves(name, stated, size, seed + k) for k, name in enumerate(AVERAGED)}
    equal = stacking_weights(np.empty((0, len(AVERAGED))), np.empty(0))
    member = _allocate(equal, (1, size), seed)[0]
    average = np.stack(list(members.values()))[member, np.arange(size)]
    share = np.full(len(stated), 1 / len(stated))
    chosen, again = (_resample(average, stated, share, (1, size), rng) for _ in range(2))
    together = np.bincount(chosen, minlength=size) @ np.bincount(again, minlength=size)
    found = {
        "effective draws, % of all": 100 * size / together,
        f"{AVERAGED[0]}, % of draws": 100 * float(np.mean(member == 0)),
        f"{AVERAGED[0]}, % with the factor": 100 * float(np.mean(member[chosen] == 0)),
    }
    return {**members, "average": average, "average with the factor": average[chosen]}, found


def measured(stated: np.ndarray, q: np.ndarray) -> pd.DataFrame:
    """Measures of curves ``(draws, m)``, a row for each."""
    from bayescal.evaluation.measures import distances, log_odds_of, logistic_measures

    share = np.full(len(stated), 1 / len(stated))
    found = {**distances(stated, q, share), **logistic_measures(log_odds_of(stated, "proba"), q, share)}
    return pd.DataFrame({name: found[name] for name in MEASURES})


def check(law: str, size: int, seed: int) -> dict[str, pd.DataFrame | pd.Series]:
    """Tables of one law of forecasts."""
    stated = LAWS[law].ppf((np.arange(FORECASTS) + 0.5) / FORECASTS)
    curves, factor = priors(stated, size, seed)
    measures = {prior: measured(stated, q) for prior, q in curves.items()}
    quantiles = pd.concat({prior: table.quantile(QUANTILES).T for prior, table in measures.items()})
    quantiles.columns = [f"{100 * q:g} %" for q in quantiles.columns]
    below = pd.DataFrame({f"ICI < {e}": {prior: (t["ici"] < e).mean() for prior, t in measures.items()} for e in BELOW})
    undefined = max(int(table.isna().any(axis=1).sum()) for table in measures.values())
    effect = pd.Series({**factor, "draws without a slope": undefined})
    return {
        f"{law}: quantiles of the prior": quantiles.round(3),
        f"{law}: prior probability": below.round(3),
        f"{law}: what the factor does": effect.round(1),
    }


def main() -> None:
    """Draw, print and write the tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draws", type=int, default=40_000, help="curves of each prior")
    parser.add_argument("--seed", type=int, default=20261203)
    asked, commit = parser.parse_args(), current_commit()
    tables: dict[str, pd.DataFrame | pd.Series] = {}
    for law in LAWS:
        tables |= check(law, asked.draws, asked.seed)
    text = "\n\n".join(f"{name}\n{table.to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        head = {
            "command": f"assess_prior.py --draws {asked.draws} --seed {asked.seed}",
            "commit": commit,
            "date": date.today().isoformat(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("bayescal", "numpy", "pymc")},
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
