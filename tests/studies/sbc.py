"""Simulation-based calibration: do posteriors of data drawn from the prior hold the parameters that made them?

For each model and simulation, parameters come from the prior, outcomes from the calibration map at random
scores, and the calibrator is fitted as a user would fit it. The rank of each true quantity among thinned posterior
draws is uniform if prior, likelihood, map and sampler agree (Talts et al. 2018, Theorem 1).
Quantities: parameters of fixed meaning, the curve at four scores (or pairs), and the log likelihood of the data, which
finds errors that no single parameter shows (Modrak et al. 2023). What is not exact is left out: the surface keeps its
whole likelihood (coarsening 0), the copula's margins are standardised by constants and its scores are independent.

"scaling" is vector scaling of three classes, which the other members are limits of. "proportions" are those of a target
without labels, of two classes (drawn exactly) and of four (drawn by Hamiltonian Monte Carlo), given calibrated
probabilities and source proportions that are right. The bootstrap of source proportions has no prior to simulate from:
`label_shift_coverage.py` judges the intervals that it leads to.

    python tests/studies/sbc.py --simulations 300 --jobs 2 --out tests/studies/results/sbc
"""

import argparse
import json
import platform
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import kstest

if TYPE_CHECKING:
    from bayescal.calibrators.binary import BinaryCalibrator

MODELS = ("platt", "beta", "isotonic", "bernstein", "bernstein_surface", "copula", "scaling", "proportions", "spline")
QUANTITIES: dict[str, tuple[tuple[object, ...], ...]] = {  # name of a parameter, and which of its numbers
    "platt": (("intercept",), ("slope",)),
    "beta": (("a",), ("b",), ("c",)),
    "isotonic": (("concentration",),),
    "bernstein": (("concentration",),),
    "bernstein_surface": (("intercept",), ("slope", 0), ("slope", 1), ("interaction",), ("roughness",)),
    "scaling": (("temperature",), ("scale_spread",), ("bias_spread",), ("scale", 0), ("scale", 2)),
    "spline": (("intercept",), ("slope",), ("roughness",), ("bends", 0), ("bends", 7)),
    "copula": (("rate",), ("bend", 0, 0), *(("terms", part, 0, term) for part in (0, 1) for term in (0, 2, 4))),
}
AT = np.array([0.05, 0.35, 0.65, 0.95])
AT_ROWS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.05, 0.9, 0.05]])
AT_PAIRS = np.array([[0.05, 0.05], [0.05, 0.95], [0.35, 0.65], [0.95, 0.95]])
CASES = 60
TARGET_CASES = 200  # without labels
RANKS = 99  # posterior draws kept
FINE = np.linspace(-7.0, 7.0, 5001)  # log-odds among which scores are drawn from a margin


def make_calibrator(model: str, seed: int) -> "BinaryCalibrator":
    """The surface has degree 4 and its whole likelihood, the copula's margins a scale of their own."""
    from bayescal.calibrators import copula, copula_margins
    from bayescal.registry import CALIBRATORS

    class OnLogOdds(copula.CopulaCalibrator):
        """Margins standardised by constants, not by the data; scores independent within a class."""

        def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
            learnt = super()._learn_scale(scores, weight)
            return {**learnt, "margin_mean": np.zeros(2), "margin_sd": np.full(2, copula_margins.LOGISTIC_SD)}

    settings = {"random_state": seed, "cores": 1, "classes": [0, 1]}
    if model == "bernstein_surface":
        return CALIBRATORS["bernstein"].load()(degree=4, priors={"coarsening": 0.0}, **settings)
    if model == "copula":
        return OnLogOdds(families=("independence",), **settings)
    return CALIBRATORS[model].load()(**settings)


def draw_margins(rng: np.random.Generator, truth: dict[str, np.ndarray], y: np.ndarray) -> np.ndarray:
    """Scores ``(n, 2)`` from the margins of each case's class."""
    from scipy.special import expit, log_expit

    from bayescal.calibrators import copula, copula_margins

    scores = np.empty((len(y), 2))
    for label in (0, 1):
        theta = copula.class_coefficients(truth["terms"], label)[0]
        log_density = theta @ copula_margins.terms(FINE).T + log_expit(FINE) + log_expit(-FINE)
        distribution = np.cumsum(np.exp(log_density - log_density.max(axis=1, keepdims=True)), axis=1)
        for column, f in enumerate(distribution / distribution[:, -1:]):
            scores[y == label, column] = expit(np.interp(rng.random((y == label).sum()), f, FINE))
    return scores


def simulate(model: str, simulation: int, first_seed: int) -> dict[str, object]:
    """Ranks of one simulation, as fractions in (0, 1)."""
    if model == "scaling":
        return simulate_scaling(simulation, first_seed)
    if model == "proportions":
        return simulate_proportions(simulation, first_seed)
    from scipy.special import expit, log_expit

    from bayescal.calibrators.copula import _joint_log_densities

    rng = np.random.default_rng([first_seed, simulation, MODELS.index(model)])
    several = model in ("bernstein_surface", "copula")
    scores = rng.beta(0.8, 0.8, (CASES, 2) if several else CASES)
    calibrator = make_calibrator(model, simulation)
    scale = calibrator._learn_scale(np.sort(scores, axis=0), np.ones(CASES))
    n_scores = 2 if several else 1
    priors = calibrator._priors_for(n_scores).read(calibrator.priors, calibrator._default_priors(n_scores))
    truth = calibrator._prior_draws(rng, 1, priors, scale)

    def features(s: np.ndarray) -> np.ndarray:
        return calibrator._features(calibrator._coordinate(s, scale), scale)

    if model == "copula":
        y = (rng.random(CASES) < truth["rate"]).astype(int)
        scores = draw_margins(rng, truth, y)
    else:
        y = (rng.random(CASES) < expit(calibrator._log_odds(features(scores), truth)[0])).astype(int)

    def log_likelihood(parameters: dict[str, np.ndarray]) -> np.ndarray:
        if model == "copula":
            negative, positive = _joint_log_densities(features(scores), parameters)
            return np.where(y > 0, positive, negative).sum(axis=1)
        return log_expit(calibrator._log_odds(features(scores), parameters) * np.where(y > 0, 1.0, -1.0)).sum(axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(scores, y)
    keep = np.linspace(0, len(next(iter(calibrator._flat.values()))) - 1, RANKS).astype(int)
    posterior = {name: value[keep] for name, value in calibrator._flat.items()}
    drawn, true = {}, {}
    for name, *which in QUANTITIES[model]:
        label = f"{name}{which}" if which else name
        drawn[label], true[label] = posterior[name][(slice(None), *which)], truth[name][(0, *which)]
    at = AT_PAIRS if several else AT
    curves, curve = calibrator._log_odds(features(at), posterior), calibrator._log_odds(features(at), truth)[0]
    for j, s in enumerate(at):
        label = f"q({', '.join(map(str, np.atleast_1d(s)))})"
        drawn[label], true[label] = curves[:, j], curve[j]
    drawn["log likelihood"], true["log likelihood"] = log_likelihood(posterior), log_likelihood(truth)[0]
    return {"model": model, "verdict": calibrator.diagnostics_.attrs["verdict"], **ranks(drawn, true, rng)}


def simulate_scaling(simulation: int, first_seed: int) -> dict[str, object]:
    """Ranks of one simulation of vector scaling."""
    from bayescal.calibrators.softmax import log_sum_exp
    from bayescal.registry import CALIBRATORS

    rng = np.random.default_rng([first_seed, simulation, MODELS.index("scaling")])
    scores = rng.dirichlet(np.ones(3), CASES)
    calibrator = CALIBRATORS["vector"].load()(random_state=simulation, cores=1, classes=[0, 1, 2])
    priors = calibrator._priors_class.read(calibrator.priors, calibrator._default_priors(3))
    truth = calibrator._prior_draws(rng, 1, priors, {"classes": np.array(3)})

    def log_q(s: np.ndarray, parameters: dict[str, np.ndarray]) -> np.ndarray:
        logits = calibrator._logits(np.log(s), parameters)
        return logits - log_sum_exp(logits)[..., None]

    y = (np.exp(log_q(scores, truth)[0]).cumsum(axis=1) < rng.random((CASES, 1))).sum(axis=1)
    y = np.minimum(y, 2)  # a sum of 1 but for rounding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(scores, y)
    keep = np.linspace(0, len(next(iter(calibrator._flat.values()))) - 1, RANKS).astype(int)
    posterior = {name: value[keep] for name, value in calibrator._flat.items()}
    drawn, true = {}, {}
    for name, *which in QUANTITIES["scaling"]:
        label = f"{name}{which}" if which else name
        drawn[label], true[label] = posterior[name][(slice(None), *which)], truth[name][(0, *which)]
    curves, curve = log_q(AT_ROWS, posterior), log_q(AT_ROWS, truth)[0]
    for j, row in enumerate(AT_ROWS):
        for k in (0, 2):
            label = f"q({', '.join(map(str, row))})[{k}]"
            drawn[label], true[label] = curves[:, j, k], curve[j, k]
    for parameters, into in ((posterior, drawn), (truth, true)):
        into["log likelihood"] = log_q(scores, parameters)[:, np.arange(CASES), y].sum(axis=1)
    true["log likelihood"] = true["log likelihood"][0]
    return {"model": "scaling", "verdict": calibrator.diagnostics_.attrs["verdict"], **ranks(drawn, true, rng)}


def simulate_proportions(simulation: int, first_seed: int) -> dict[str, object]:
    """Ranks of one simulation of the proportions of two and of four classes."""
    from bayescal.label_shift.draws import draw_target
    from bayescal.label_shift.notes import ACCEPTED_MIN
    from bayescal.label_shift.settings import CONCENTRATION

    rng = np.random.default_rng([first_seed, simulation, MODELS.index("proportions")])
    drawn, true, accepted = {}, {}, []
    for classes in (2, 4):
        source, shape = rng.dirichlet(np.full(classes, 4.0)), np.full(classes, CONCENTRATION)
        q = rng.dirichlet(shape)
        # a normal variable in each direction, whose mean is 1.5 for the class of that direction, else 0
        x = rng.normal(size=(TARGET_CASES, classes)) + 1.5 * np.eye(classes)[rng.choice(classes, TARGET_CASES, p=q)]
        proba = source * np.exp(1.5 * x)
        proba /= proba.sum(axis=1, keepdims=True)
        found = draw_target(
            lambda draws, proba=proba: np.repeat(proba[None], len(range(RANKS)[draws]), axis=0),
            np.ones(TARGET_CASES),
            np.tile(source, (RANKS, 1)),
            shape,
            rng,
        )
        accepted.append(found.accepted.mean())
        for i in range(1 if classes == 2 else classes):
            drawn[f"q[{i}] of {classes}"], true[f"q[{i}] of {classes}"] = found.q[:, i], q[i]
        ratios, label = proba / source, f"log likelihood, {classes} classes"
        drawn[label], true[label] = np.log(found.q @ ratios.T).sum(axis=1), np.log(ratios @ q).sum()
    verdict = "passed" if min(accepted) >= ACCEPTED_MIN else "failed"
    return {"model": "proportions", "verdict": verdict, **ranks(drawn, true, rng)}


def ranks(drawn: dict[str, np.ndarray], true: dict[str, float], rng: np.random.Generator) -> dict[str, float]:
    """Where the true values lie among draws ``(RANKS,)``, as fractions in (0, 1); ties are broken at random."""
    found = {}
    for name, draws in drawn.items():
        below, equal = (draws < true[name]).sum(), (draws == true[name]).sum()
        found[name] = (below + rng.random() * (equal + 1)) / (RANKS + 1)
    return found


def judge(rows: pd.DataFrame) -> pd.DataFrame:
    """Kolmogorov-Smirnov p-values of uniformity by model and quantity, and Holm's correction within a model."""
    out = []
    for model, part in rows.groupby("model", sort=False):
        names = [c for c in part.columns if c not in ("model", "verdict") and part[c].notna().all()]
        p = np.array([kstest(part[c], "uniform").pvalue for c in names])
        order = np.argsort(p)
        holm = np.empty_like(p)
        holm[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
        inside = [(part[c].between(0.05, 0.95)).mean() for c in names]
        out += [
            {"model": model, "quantity": c, "p_value": a, "p_holm": b, "covered_by_90%": d, "simulations": len(part)}
            for c, a, b, d in zip(names, p, holm, inside, strict=True)
        ]
    return pd.DataFrame(out)


def main() -> None:
    """Simulate, judge, and write the table."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--first-seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked, commit = parser.parse_args(), current_commit()
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(simulate, model, i, asked.first_seed)
            for model in asked.models
            for i in range(asked.simulations)
        ]
        rows = pd.DataFrame([job.result() for job in waiting])
    table = judge(rows)
    passed = rows.groupby("model", sort=False)["verdict"].value_counts().to_string()
    text = table.round(4).to_string(index=False) + "\n\n" + passed
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        sizes = f"--simulations {asked.simulations} --first-seed {asked.first_seed}"
        head = {
            "command": f"sbc.py --models {' '.join(asked.models)} {sizes}",
            "cases": CASES,
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        table.round(5).to_csv(asked.out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
