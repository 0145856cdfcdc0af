"""The retinopathy experiment of Alexandari, Kundaje & Shrikumar (2020), trial by trial, beside the authors' numbers.

    python tests/studies/label_shift_paper.py --n 500 --out tests/studies/results/label_shift_paper_500

A trial draws n of 3514 eyes to calibrate on, and n others, with replacement and shifted, to adapt to; the share of
healthy eyes is meant to be alpha. What the authors ran differs from what they say in ways that have to be copied to get
their numbers: their shares sum to 0.634 for alpha = 0.5, and the last class gets what is missing; true weights are
drawn test shares over label shares of the calibration eyes; EM stops after 100 steps or a change of 1e-6. "em" is that
here, to compare; "em (maximum)" is this package's. Of BBSE and RLLS the constants are theirs.

NBVS and VS are not theirs: scales of single classes act on log probabilities in this package, on the logits as the
network gave them in the paper, and a constant that is added to the logits of a row changes what that means.

Printed: means over trials beside the means that the authors stored (``paper_label_shift/adaptation.csv`` in the folder
that BAYESCAL_DATA names), and their difference in the authors' standard errors.
"""

import argparse
import json
import os
import platform
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

ALPHAS = (0.5, 0.9)
CALIBRATIONS = {
    "None": None,
    "TS": "TemperatureScaling",
    "NBVS": "NoBiasVectorScaling",
    "BCTS": "BiasCorrectedTemperatureScaling",
    "VS": "VectorScaling",
}
METHODS = {"bbse-hard": "bbse-hard", "bbse-soft": "bbse-soft", "rlls-hard": "rlls-hard", "rlls-soft": "rlls-soft"}
COLUMNS = ["alpha", "n", "trial", "method", "calibration", "accuracy", "error", "gain", "covered_q", "covered_w"]
STORED_AS = {"em": "empriorsfrompreds"}  # how the authors call it


def draw_trial(label: np.ndarray, alpha: float, n: int, trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to calibrate on and rows to adapt to, as the authors drew them."""
    rng = np.random.RandomState(10 * trial)  # their generator
    order = rng.permutation(len(label))
    source, pool = order[:n], order[n:]
    shares = np.bincount(label) / len(label) * (1 - alpha)
    shares[0] = alpha
    rows: list[int] = []
    for i, share in enumerate(shares):
        rows.extend(rng.choice(pool[label[pool] == i], size=int(n * share)))
    while len(rows) < n:
        reached, u = np.cumsum(shares), rng.uniform()
        i = min(int(np.searchsorted(reached, u)), len(shares) - 1)
        rows.append(int(rng.choice(pool[label[pool] == i])))
    return source, np.array(rows)


def authors_em(proba: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Weights after at most 100 steps of EM, or when no proportion changes by 1e-6."""
    q = source
    for _ in range(100):
        posterior = proba * (q / source)
        new = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
        change = np.abs(new - q).sum()
        q = new
        if change < 1e-6:
            break
    return q / source


def run_trial(
    logits: np.ndarray, label: np.ndarray, alpha: float, n: int, trial: int, bayes: bool
) -> list[dict[str, object]]:
    """Squared errors of the weights, and gains in accuracy, of every method on one trial."""
    import bayescal as bc

    source, target = draw_trial(label, alpha, n, trial)
    k = logits.shape[1]
    p = np.bincount(label[source], minlength=k) / n
    q = np.bincount(label[target], minlength=k) / n
    plain = np.mean(logits[target].argmax(axis=1) == label[target])
    rows: list[dict[str, object]] = [{"method": "none", "calibration": "None", "accuracy": plain}]

    def add(method: str, calibration: str, weights: np.ndarray, adapted: np.ndarray, **more: float) -> None:
        gain = np.mean(adapted.argmax(axis=1) == label[target]) - plain
        error = np.mean((weights - q / p) ** 2)
        rows.append({"method": method, "calibration": calibration, "error": error, "gain": gain, **more})

    for name, class_name in CALIBRATIONS.items():
        if class_name is None:
            proba = softmax(logits, axis=1)
        else:
            cal = getattr(bc, class_name)("logit", inference="point", classes=list(range(k)))
            proba = cal.fit(logits[source], label[source]).predict_proba(logits)
        proba = proba / proba.sum(axis=1, keepdims=True)
        weights = authors_em(proba[target], proba[source].mean(axis=0))
        add("em", name, weights, proba[target] * weights)
        for title, method in {"em (maximum)": "em", **METHODS}.items():
            ad = bc.LabelShiftAdapter(method=method).fit(proba[source], label[source]).adapt(proba[target])
            add(title, name, ad.weights_.values, ad.predict_proba(proba[target]))
    if bayes:
        cal = bc.BiasCorrectedTemperatureScaling(
            "logit", classes=list(range(k)), draws=250, tune=400, chains=2, cores=1, random_state=trial
        )
        ad = bc.LabelShiftAdapter(cal, draws=500, random_state=trial).fit(logits[source], label[source])
        ad.adapt(logits[target])
        held = {}
        low, high = ad.prior_interval().values.T
        held["covered_q"] = float(np.mean((low <= q) & (q <= high)))
        low, high = ad.weight_interval().values.T
        held["covered_w"] = float(np.mean((low <= q / p) & (q / p <= high)))
        add("bayes", "BCTS", ad.weights_.values, ad.predict_proba(logits[target]), **held)
    return [{"alpha": alpha, "n": n, "trial": trial, **row} for row in rows]


def beside_the_authors(rows: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Means over trials, and the authors' with their standard errors."""
    table = []
    keys = ["alpha", "n", "method", "calibration"]
    for (alpha, n, method, calibration), group in rows[rows["method"] != "none"].groupby(keys, sort=False):
        same = stored[
            (stored["alpha"] == alpha)
            & (stored["n"] == n)
            & (stored["adapter"] == STORED_AS.get(method, method))
            & (stored["calibration"] == calibration)
        ].set_index("metric")
        row = dict(zip(keys, (alpha, n, method, calibration), strict=True)) | {"trials": len(group)}
        for name, metric in (("error", "mseweights_even"), ("gain", "delta_perf")):
            row[name] = group[name].mean()
            if metric in same.index and len(group) == same.loc[metric, "trials"]:
                row[f"{name}_authors"] = same.loc[metric, "mean"]
                row[f"{name}_z"] = (row[name] - same.loc[metric, "mean"]) / same.loc[metric, "se"]
        for name in ("covered_q", "covered_w"):
            row[name] = group[name].mean()
        row["error_median"] = group["error"].median()
        table.append(row)
    return pd.DataFrame(table)


def main() -> None:
    """Run all trials, and write the table."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--n", type=int, nargs="+", default=(500, 1000))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--bayes", type=int, default=100, help="trials of the Bayesian method")
    asked, commit = parser.parse_args(), current_commit()
    folder = Path(os.environ["BAYESCAL_DATA"])
    table = pd.read_csv(folder / "kaggle_dr" / "kaggle_dr.csv")
    logits, label = table[[f"logit{i}" for i in range(5)]].to_numpy(), table["label"].to_numpy()
    stored = pd.read_csv(folder / "paper_label_shift" / "adaptation.csv", keep_default_na=False, na_values=[""])
    stored = stored[stored["dataset"] == "kaggledr"]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in asked.n:
            for alpha in ALPHAS:
                for trial in range(asked.trials):
                    rows += run_trial(logits, label, alpha, n, trial, trial < asked.bayes)
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    accuracy = frame[frame["method"] == "none"].groupby(["n", "alpha"])["accuracy"].mean()
    found = beside_the_authors(frame, stored)
    text = (
        f"accuracy without adaptation\n{accuracy.round(5).to_string()}\n\nmean squared error of the weights, gain in "
    )
    text += f"accuracy\n{found.round(5).to_string(index=False)}"
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"label_shift_paper.py --n {' '.join(map(str, asked.n))} --trials {asked.trials} "
            f"--bayes {asked.bayes}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        found.round(6).to_csv(asked.out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
