"""Make the reference posteriors: one file for each data set, with the data, and for each model how it was made.

    uv run python models/reference/make_reference.py                     # all, about 12 minutes on one core
    uv run python models/reference/make_reference.py platt beta          # some models; the others stay as they are

Data and keyword arguments come from one place each: Niamey from the file that the package ships, the synthetic sets
from their formulas below, and prior settings, degree and steps from the defaults in the signature of
``models/<name>.py``. `quadrature.py`, `gibbs.py` and `elliptical.py` do the work and state the acceptance rules; what
breaks a rule is not written.
"""

import ast
import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import elliptical
import gibbs
import numpy as np
import quadrature

HERE = Path(__file__).parent
NIAMEY = HERE.parents[1] / "bayescal" / "data" / "rain_niamey.csv"
AT = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
AT_PAIRS = np.array([[0.1, 0.1], [0.1, 0.9], [0.25, 0.75], [0.5, 0.5], [0.75, 0.75], [0.9, 0.9]])
METHODS = {
    "platt": quadrature,
    "beta": quadrature,
    "isotonic": gibbs,
    "bernstein": gibbs,
    "spline": elliptical,
    "bernstein_surface": elliptical,
}
OF_TWO = ("bernstein_surface",)  # models of two scores


def niamey() -> dict[str, Any]:
    """Real scores with ties, 24 of them exactly 1, that promise rain far too often."""
    with NIAMEY.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {
        "origin": "bayescal/data/rain_niamey.csv, columns ens and rain; see bayescal/data/README.md",
        "scores": [float(row["ens"]) for row in rows],
        "y": [int(row["rain"]) for row in rows],
    }


def synthetic() -> dict[str, Any]:
    """Overconfident scores without ties; labels from the golden ratio's additive sequence, not from a generator."""
    i = np.arange(40)
    s = (i + 0.5) / 40
    u = (i + 1) * (np.sqrt(5.0) - 1) / 2 % 1
    y = u < 1 / (1 + np.exp(0.5 - 0.5 * np.log(s / (1 - s))))
    return {
        "origin": "i = 0..39: s = (i + 1/2) / 40, y = 1 if frac((i + 1) (sqrt(5) - 1) / 2) < expit(0.5 logit(s) - 0.5)",
        "scores": s.tolist(),
        "y": y.astype(int).tolist(),
    }


def two_scores() -> dict[str, Any]:
    """Two scores, the larger of which counts; from an additive sequence in three dimensions."""
    i = np.arange(1, 61)
    root = 1.2207440846057596  # of g^4 = g + 1
    scores = np.column_stack([i / root % 1, i / root**2 % 1])
    y = i / root**3 % 1 < scores.max(axis=1) ** 2
    return {
        "origin": "i = 1..60: s = (frac(i / g), frac(i / g^2)), y = 1 if frac(i / g^3) < max(s)^2; g^4 = g + 1, g > 0",
        "scores": scores.tolist(),
        "y": y.astype(int).tolist(),
    }


def arguments(name: str) -> dict[str, Any]:
    """Defaults of the keyword arguments of `model` in ``models/<name>.py``, read from its source."""
    tree = ast.parse((HERE.parent / f"{name}.py").read_text(encoding="utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "model")
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    found = {argument.arg: eval(ast.unparse(default), {"np": np}) for argument, default in pairs if default}
    return {key: value if isinstance(value, int) else float(value) for key, value in found.items()}


def write(path: Path, content: dict[str, Any]) -> None:
    """JSON with one line for each innermost list or object."""
    text = json.dumps(content, indent=1)
    for inside in (r"\[\s+([^\[\]{}]*?)\s+\]", r"\{\s+([^{}]*?)\s+\}"):
        text = re.sub(inside, lambda m: m[0][0] + " ".join(m[1].split()) + m[0][-1], text)
    path.write_text(text + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Compute the posteriors of the models named, and put them into both files."""
    for title, data in (("niamey", niamey()), ("synthetic", synthetic()), ("two_scores", two_scores())):
        path = HERE / f"{title}.json"
        posteriors = json.loads(path.read_text(encoding="utf-8"))["posteriors"] if path.exists() else {}
        scores = np.array(data["scores"])
        for name in [name for name in names if (name in OF_TWO) == (scores.ndim == 2)]:
            given = arguments(name)
            module = METHODS[name]
            at = AT_PAIRS if name in OF_TWO else AT
            functionals, accepted = module.reference(name, scores, np.array(data["y"]), at, given)
            posteriors[name] = {
                "method": f"models/reference/{module.__name__}.py",
                "arguments": given,
                "accepted": accepted,
                "functionals": {
                    label: {key: float(f"{value:.10g}") for key, value in summary.items()}
                    for label, summary in functionals.items()
                },
            }
            print(title, name, accepted, flush=True)
        write(path, {**data, "posteriors": {name: posteriors[name] for name in METHODS if name in posteriors}})


if __name__ == "__main__":
    main(sys.argv[1:] or list(METHODS))
