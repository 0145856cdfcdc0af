"""Compute the numbers of the model cards.

    uv run python models/reference/card.py platt beta      # print; without names: all
    uv run python models/reference/card.py --write         # put them into the docstrings of models/*.py as well

Prior predictive: probabilities q at five scores, how far q is from the score on average over the scores, and the share
of positives, each with its 5 %, 50 % and 95 % quantile over prior draws, for cases at s = 0.01, 0.02, ..., 0.99 (both
scores at s where a model takes two; the first of three classes at s where it takes classes). Plain NUTS: how the file
itself mixes when it is sampled as it stands, on the data of `niamey.json` (with the ensemble and its logistic
correction for two scores), or of the file in `DATA`.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import arviz as az
import numpy as np
import pymc as pm

HERE = Path(__file__).parent
NAMES = ("platt", "beta", "isotonic", "bernstein", "spline", "bernstein_surface", "copula", "scaling")
OF_TWO = ("bernstein_surface", "copula")  # models of two scores
OF_CLASSES = ("scaling",)  # models of three classes: q and s are those of the first, the others share what is left
DATA = {"scaling": "three_classes"}  # for plain NUTS, where it is not Niamey
RAIN = HERE.parents[1] / "bayescal/data/rain_niamey.csv"
SCORES = np.arange(1, 100) / 100
SHOWN = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
PROBABILITIES = np.array([0.05, 0.5, 0.95])
SEED = 1
HEADS = ("Prior predictive", "Plain NUTS")


def load(name: str) -> ModuleType:
    """The specification ``models/<name>.py``."""
    spec = importlib.util.spec_from_file_location(f"models_{name}", HERE.parent / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add_probability(model: pm.Model) -> None:
    """Add the probability of each case, the parameter of the observed variable, as the deterministic ``q``."""
    y = model["y"].owner
    (p,) = y.op.dist_params(y)
    with model:
        pm.Deterministic("q", p if p.ndim == 1 else p[:, 0], dims="case")


def prior_predictive(name: str, draws: int = 20_000) -> np.ndarray:
    """Quantiles ``(3, 7)``: of q at the scores in `SHOWN`, of the mean of abs(q - s), and of the share of positives."""
    scores = np.column_stack([SCORES, SCORES]) if name in OF_TWO else SCORES
    if name in OF_CLASSES:
        scores = np.column_stack([SCORES, (1 - SCORES) / 2, (1 - SCORES) / 2])
    model = load(name).model(scores, np.zeros(len(SCORES), dtype=int))
    add_probability(model)
    with model:
        drawn = pm.sample_prior_predictive(draws, var_names=["q", "y"], random_seed=SEED)
    q, y = drawn.prior["q"].values[0], drawn.prior_predictive["y"].values[0]
    y = y == 0 if name in OF_CLASSES else y
    at = np.searchsorted(SCORES, SHOWN - 1e-9)
    columns = [*q[:, at].T, np.abs(q - SCORES).mean(axis=1), y.mean(axis=1)]
    return np.quantile(columns, PROBABILITIES, axis=1)


def plain_nuts(name: str) -> dict[str, float]:
    """Convergence of 4 x 1000 draws of the specification."""
    data = json.loads((HERE / f"{DATA.get(name, 'niamey')}.json").read_text(encoding="utf-8"))
    scores = np.array(data["scores"])
    if name in OF_TWO:
        rain = np.genfromtxt(RAIN, delimiter=",", names=True, dtype=None, encoding="utf-8")
        scores = np.column_stack([rain["ens"], rain["logistic"]])
    with load(name).model(scores, np.array(data["y"])):
        tree = pm.sample(
            1000, tune=1000, chains=4, target_accept=0.9, nuts_sampler="nutpie", random_seed=SEED, progressbar=False
        )
    table = az.summary(tree, kind="diagnostics", round_to="none")
    return {
        "smallest bulk ESS": table["ess_bulk"].min(),
        "largest R-hat": table["r_hat"].max(),
        "divergences": tree.sample_stats["diverging"].values.sum(),
    }


def text(name: str) -> str:
    """What stands in the card."""
    head = " " * 12 + "".join(f"  q({s:.2f})" for s in SHOWN) + "  mean|q-s|  positives"
    lines = [f"{HEADS[0]}, by ``uv run python models/reference/card.py {name}``:", "", head]
    for probability, row in zip(PROBABILITIES, prior_predictive(name), strict=True):
        cells = "".join(f"{value:9.2f}" for value in row[:5]) + f"{row[5]:11.2f}{row[6]:11.2f}"
        lines.append(f"    {probability:6.0%}  {cells}".replace("%", " %"))
    found, data = plain_nuts(name), DATA.get(name, "Niamey").replace("_", " ")
    lines += [
        "",
        f"{HEADS[1]} on this file as it stands (same command; {data} data, 4 x 1000 draws, target_accept 0.9):",
        f"smallest bulk ESS {found['smallest bulk ESS']:.0f}, largest R-hat {found['largest R-hat']:.2f}, "
        f"{found['divergences']:.0f} divergences.",
    ]
    return "\n".join(lines)


def put(name: str, block: str) -> None:
    """Replace what stands in the docstring of ``models/<name>.py`` from the first head to the section on limits."""
    path = HERE.parent / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    changed, count = re.subn(rf"^{HEADS[0]}, by.*?(?=^Limits$)", block + "\n\n", source, flags=re.DOTALL | re.MULTILINE)
    assert count == 1, f"{path.name} has no section that begins with {HEADS[0]!r} and ends before 'Limits'"
    path.write_text(changed, encoding="utf-8")


def main(words: list[str]) -> None:
    """Print the tables of the models named; with ``--write`` put them into the cards."""
    for name in [word for word in words if word != "--write"] or NAMES:
        block = text(name)
        print(block, end="\n\n")
        if "--write" in words:
            put(name, block)


if __name__ == "__main__":
    main(sys.argv[1:])
