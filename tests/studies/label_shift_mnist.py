"""The MNIST experiment of Alexandari, Kundaje & Shrikumar (2020), beside the authors' means, and the Bayesian adapter.

    python tests/studies/label_shift_mnist.py --out tests/studies/results/label_shift_mnist

Networks of one hidden layer (scikit-learn's MLPClassifier) are trained to the end on 2000 training images, each with
another seed and another 10,000 held out: few images, so that they are about as often wrong as the authors' were
(accuracy .914 on unshifted test images; here .917), and too sure. A trial draws n of the held-out images to calibrate
on, without repeating one, and n test images with repeats in proportions q: Dirichlet(alpha), or rho for the digit 3 and
(1 - rho) / 9 for the others. True weights are shares of the drawn test labels over label shares of the calibration
images, as the authors count them ("error"; "error_rare" is the part of it that digits of proportions below 0.005 have).
"error_meant" is that from the proportions which images were drawn by, over those of all held-out images.

The networks are not theirs: their means, over ten others, show the same order of methods, not the same numbers. NLL and
ECE (15 bins of the largest probability, in percent) are of all test images, unshifted. Data are those of the folder
``mnist``, and the authors' means those of ``paper_label_shift``, in the folder that BAYESCAL_DATA names.
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
from label_shift_paper import CALIBRATIONS, METHODS, authors_em
from scipy.special import softmax

SHIFTS = (("dirichlet", 0.1), ("dirichlet", 1.0), ("dirichlet", 10.0), ("tweakone", 0.01), ("tweakone", 0.9))
SIZES = (500, 2000, 8000)
TWEAKED = 3  # the digit
HELD_OUT, TRAINED, HIDDEN, EPOCHS = 10_000, 2000, 128, 60
BINS = 15
RARE = 0.005  # a proportion below which a class is all but absent
MEASURES = ["error", "error_meant", "error_rare", "gain", "loss", "covered_q", "covered_w"]
MEASURES += ["covered_q_rare", "covered_w_rare", "width_q"]


def read_images(folder: Path) -> tuple[np.ndarray, ...]:
    """Training images ``(60000, 784)`` in [0, 1] and labels, and those to test on."""
    parts = [np.load(folder / f"mnist_{part}.npz") for part in ("train_0", "train_1", "train_2", "test")]
    images = [part["images"].reshape(-1, 784).astype(np.float32) / 255 for part in parts]
    labels = [part["labels"].astype(int) for part in parts]
    return np.concatenate(images[:3]), np.concatenate(labels[:3]), images[3], labels[3]


def network_logits(data: tuple[np.ndarray, ...], seed: int) -> tuple[np.ndarray, ...]:
    """Logits and labels of the held-out training images, and of the test images."""
    from sklearn.neural_network import MLPClassifier

    images, labels, test, test_labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    held_out, used = order[:HELD_OUT], order[HELD_OUT : HELD_OUT + TRAINED]
    net = MLPClassifier((HIDDEN,), random_state=seed, max_iter=EPOCHS).fit(images[used], labels[used])

    def logits(x: np.ndarray) -> np.ndarray:
        hidden = np.maximum(x @ net.coefs_[0] + net.intercepts_[0], 0)
        return (hidden @ net.coefs_[1] + net.intercepts_[1]).astype(float)

    return logits(images[held_out]), labels[held_out], logits(test), test_labels


def draw_target(
    label: np.ndarray, shift: str, alpha: float, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of n test images, and the proportions that they were drawn by."""
    q = rng.dirichlet(np.full(10, alpha)) if shift == "dirichlet" else np.full(10, (1 - alpha) / 9)
    if shift == "tweakone":
        q[TWEAKED] = alpha
    counts = rng.multinomial(n, q)
    return np.concatenate([rng.choice(np.flatnonzero(label == k), size=count) for k, count in enumerate(counts)]), q


def top_label_error(proba: np.ndarray, label: np.ndarray) -> float:
    """ECE of the largest probability in bins of equal width, in percent."""
    top = proba.max(axis=1)
    number = np.minimum((top * BINS).astype(int), BINS - 1)
    gap = np.bincount(number, weights=(proba.argmax(axis=1) == label) - top, minlength=BINS)
    return float(100 * np.abs(gap).sum() / len(label))


def run_trial(
    logits: tuple[np.ndarray, ...], shift: str, alpha: float, n: int, seed: list[int], bayes: bool
) -> list[dict[str, object]]:
    """Every method on one trial."""
    import bayescal as bc

    held_out, labels, test, test_labels = logits
    rng = np.random.default_rng(seed)
    source = rng.choice(len(labels), size=n, replace=False)
    target, drawn_by = draw_target(test_labels, shift, alpha, n, rng)
    y, truth = labels[source], test_labels[target]
    p, q = np.bincount(y, minlength=10) / n, np.bincount(truth, minlength=10) / n
    meant, rare = drawn_by / (np.bincount(labels, minlength=10) / len(labels)), drawn_by < RARE
    plain = np.mean(test[target].argmax(axis=1) == truth)
    rows: list[dict[str, object]] = [{"method": "none", "calibration": "None", "accuracy": plain}]

    def add(method: str, calibration: str, weights: np.ndarray, adapted: np.ndarray, **more: float) -> None:
        gain = np.mean(adapted.argmax(axis=1) == truth) - plain
        loss = -np.mean(np.log(np.maximum(adapted[np.arange(n), truth], 1e-300)))
        errors = {
            "error": np.mean((weights - q / p) ** 2),
            "error_meant": np.mean((weights - meant) ** 2),
            "error_rare": np.sum((weights - q / p)[rare] ** 2) / 10,
        }
        row = {**errors, "gain": gain, "loss": loss, **more}
        rows.append({"method": method, "calibration": calibration, **row})

    for name, class_name in CALIBRATIONS.items():
        if class_name is None:
            proba = [softmax(scores, axis=1) for scores in (held_out[source], test)]
        else:
            cal = getattr(bc, class_name)("logit", inference="point").fit(held_out[source], y)
            proba = [cal.predict_proba(scores) for scores in (held_out[source], test)]
        nll = -np.mean(np.log(np.maximum(proba[1][np.arange(len(test)), test_labels], 1e-300)))
        rows.append(
            {"method": "unshifted", "calibration": name, "nll": nll, "ece": top_label_error(proba[1], test_labels)}
        )
        here, there = proba[0], proba[1][target]
        weights = authors_em(there, here.mean(axis=0))
        adapted = there * weights
        add("em", name, weights, adapted / adapted.sum(axis=1, keepdims=True))
        for method in METHODS:
            ad = bc.LabelShiftAdapter(method=method).fit(here / here.sum(axis=1, keepdims=True), y)
            ad.adapt(there / there.sum(axis=1, keepdims=True))
            add(method, name, ad.weights_.values, ad.predict_proba(there / there.sum(axis=1, keepdims=True)))
    if bayes:
        cal = bc.BiasCorrectedTemperatureScaling("logit", draws=150, tune=400, chains=2, cores=1, random_state=seed[-1])
        ad = bc.LabelShiftAdapter(cal, draws=300, random_state=seed[-1]).fit(held_out[source], y).adapt(test[target])
        held = {}
        # intervals are about the proportions that cases were drawn by, and those of all held-out images
        for name, ends, value in (
            ("q", ad.prior_interval().values, drawn_by),
            ("w", ad.weight_interval().values, meant),
        ):
            inside = (ends[:, 0] <= value) & (value <= ends[:, 1])
            held[f"covered_{name}"] = float(inside.mean())
            held[f"covered_{name}_rare"] = float(inside[rare].mean()) if rare.any() else np.nan
        held["width_q"] = float(np.ptp(ad.prior_interval().values, axis=1).mean())
        add("bayes", "BCTS", ad.weights_.values, ad.predict_proba(test[target]), **held)
    return [{"shift": shift, "alpha": alpha, "n": n, **row} for row in rows]


def beside_the_authors(rows: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Means over trials with the standard errors of the weights' error, and the authors' means."""
    keys = ["shift", "alpha", "n", "method", "calibration"]
    groups = rows[~rows["method"].isin(["none", "unshifted"])].groupby(keys, sort=False)
    table = groups[MEASURES].mean()
    table.insert(1, "error_se", groups["error"].sem())
    table.insert(0, "trials", groups.size())
    theirs = stored.rename(columns={"adapter": "method"}).pivot_table("mean", keys, "metric")
    table["error_authors"] = theirs["mseweights_even"].reindex(table.index)
    table["gain_authors"] = theirs["delta_acc"].reindex(table.index)
    return table.reset_index()


def main() -> None:
    """Train the networks, run all trials, and write the tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--networks", type=int, default=2)
    parser.add_argument("--trials", type=int, default=10, help="of each network, shift and size")
    parser.add_argument("--bayes", type=int, default=10, help="trials of each with the Bayesian method")
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    asked, commit = parser.parse_args(), current_commit()
    folder = Path(os.environ["BAYESCAL_DATA"])
    stored = pd.read_csv(folder / "paper_label_shift" / "adaptation.csv", keep_default_na=False, na_values=[""])
    stored = stored[stored["dataset"] == "mnist"]
    data, rows = read_images(folder / "mnist"), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for network in range(asked.networks):
            logits = network_logits(data, network)
            for n in asked.n:
                for number, (shift, alpha) in enumerate(SHIFTS):
                    for trial in range(asked.trials):
                        seed = [2020, network, n, number, trial]
                        rows += run_trial(logits, shift, alpha, n, seed, trial < asked.bayes)
                    print(network, n, shift, alpha, flush=True)
    frame = pd.DataFrame(rows)
    plain = frame[frame["method"] == "none"].groupby(["shift", "alpha", "n"])["accuracy"].mean()
    unshifted = frame[frame["method"] == "unshifted"].groupby(["n", "calibration"], sort=False)[["nll", "ece"]].mean()
    found = beside_the_authors(frame, stored)
    parts = {
        "accuracy without adaptation": plain.round(5).to_string(),
        "calibration, unshifted test images": unshifted.round(4).to_string(),
        "mean squared error of the weights, gain in accuracy, log loss": found.round(5).to_string(index=False),
    }
    text = "\n\n".join(f"{name}\n{part}" for name, part in parts.items())
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"label_shift_mnist.py --networks {asked.networks} --trials {asked.trials} --bayes "
            f"{asked.bayes} --n {' '.join(map(str, asked.n))}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        found.round(6).to_csv(asked.out.with_suffix(".csv"), index=False)
        unshifted.round(6).to_csv(asked.out.with_name(asked.out.name + "_calibration.csv"))


if __name__ == "__main__":
    main()
