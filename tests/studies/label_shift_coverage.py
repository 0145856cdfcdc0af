"""Do 90 % intervals hold the class proportions and weights of a target without labels? Known shifts, three sizes.

For every setting, number of labelled source cases and repeat: source cases are drawn, `BiasCorrectedTemperatureScaling`
is fitted to them, target proportions are drawn from a Dirichlet distribution, and target cases by these. Judged are the
share of classes whose interval holds the proportion ("q", of them "q_rare" below 0.005 and "q_not_rare" from 0.02), and
the weight q / p; the mean width; the error of the mean.

    python tests/studies/label_shift_coverage.py --out tests/studies/results/label_shift_coverage --cache <folder>

"chosen": synthetic settings that the weight of a case in the bootstrap (draws.CASE_WEIGHT) was chosen on, with other
seeds. "judged": settings that nothing was chosen on: synthetic ones whose classes have unequal variances, so that no
scaling of the scores is calibrated, and outputs of networks (folder BAYESCAL_DATA; left out without it). Target cases
of a network are drawn without repeating one: proportions that the pool cannot serve are drawn again.

"confusion, uniform" is the model of QuaPy's BayesianCC (uniform Dirichlet priors on proportions and on rows of the
confusion matrix), drawn by this package's sampler, with equal-tailed intervals.
"""

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import log_softmax

if TYPE_CHECKING:
    from bayescal import LabelShiftAdapter

LEVEL = 0.9
SIZES = (60, 200, 500)
RARE = 0.005  # a proportion below which a class is all but absent
MEASURES = ("q", "q_not_rare", "q_rare", "w", "q_width", "w_width", "q_error", "w_error")
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]  # scores, y, target scores, q, p


class Found(NamedTuple):
    """What a method says of each class."""

    q: np.ndarray  # (C,)
    w: np.ndarray  # (C,)
    q_interval: np.ndarray  # (C, 2)
    w_interval: np.ndarray  # (C, 2)


def synthetic(classes: int, distance: float, cases: int, *, equal: bool, seed: int) -> Draw:
    """Normal classes, and the log probabilities of somebody who thinks that their variances are equal.

    The scores are sharpened, and each class has a bias: BCTS is right if the variances are equal.
    """
    fixed = np.random.default_rng([seed, classes])
    mean = fixed.normal(size=(classes, 6 if classes > 2 else 2))
    mean *= distance / np.sqrt(2) / np.linalg.norm(mean, axis=1, keepdims=True)
    p = fixed.dirichlet(np.full(classes, 4.0))
    temperature, bias = fixed.uniform(0.4, 0.8), fixed.normal(0, 0.7, classes)
    sd = np.ones(classes) if equal else fixed.uniform(0.7, 1.4, classes)

    def scores(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = mean[y] + sd[y][:, None] * rng.normal(size=(len(y), mean.shape[1]))
        return log_softmax((x @ mean.T - 0.5 * (mean**2).sum(axis=1) + np.log(p) + bias) / temperature, axis=1)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
        y = rng.choice(classes, size=n, p=p)
        q = rng.dirichlet(np.full(classes, 0.5))
        return scores(y, rng), y, scores(rng.choice(classes, size=cases, p=q), rng), q, p

    return draw


def outputs(logits: np.ndarray, label: np.ndarray, cases: int) -> Draw:
    """Outputs of a network: source cases at random, target cases by class from the rest."""
    classes = logits.shape[1]
    p = np.bincount(label, minlength=classes) / len(label)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
        order = rng.permutation(len(label))
        source, pool = order[:n], order[n:]
        by_class = [pool[label[pool] == i] for i in range(classes)]
        while True:
            q = rng.dirichlet(np.ones(classes))
            counts = rng.multinomial(cases, q)
            if all(count <= len(rows) for count, rows in zip(counts, by_class, strict=True)):
                break
        target = np.concatenate([rows[:count] for count, rows in zip(counts, by_class, strict=True)])
        return logits[source], label[source], logits[target], q, p

    return draw


def settings() -> dict[str, Draw]:
    """All settings by name, those to be judged on last."""
    found = {
        "chosen: 2 classes, 1.5 apart": synthetic(2, 1.5, 500, equal=True, seed=1),
        "chosen: 5 classes, 2 apart": synthetic(5, 2.0, 1000, equal=True, seed=2),
        "chosen: 10 classes, 3 apart": synthetic(10, 3.0, 1000, equal=True, seed=3),
        "judged: 2 classes, unequal": synthetic(2, 2.5, 1000, equal=False, seed=11),
        "judged: 5 classes, unequal": synthetic(5, 3.0, 500, equal=False, seed=12),
        "judged: 10 classes, unequal": synthetic(10, 4.0, 2000, equal=False, seed=13),
    }
    folder = Path(os.environ.get("BAYESCAL_DATA", "nowhere"))
    if (folder / "kaggle_dr").is_dir():
        table = pd.read_csv(folder / "kaggle_dr" / "kaggle_dr.csv")
        logits, grade = table[[f"logit{i}" for i in range(5)]].to_numpy(), table["label"].to_numpy()
        found["judged: retinopathy, 5 grades"] = outputs(logits, grade, 300)
        pair = np.column_stack([logits[:, 0], np.logaddexp.reduce(logits[:, 1:], axis=1)])
        found["judged: retinopathy, any or none"] = outputs(pair, (grade > 0).astype(int), 500)
    for name, title in (("cifar10_lenet5", "CIFAR-10, LeNet"), ("cifar10_vgg_icml_valid", "CIFAR-10, VGG")):
        file = folder / "cifar_outputs" / f"{name}.npz"
        if file.exists():
            with np.load(file) as arrays:
                logits, label = arrays["log_prob"].astype(float), arrays["label"].astype(int)
            found[f"judged: {title}"] = outputs(logits, label, 1000)
    return found


def judge(found: Found, q: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Means and intervals of target proportions and weights against the true ones."""
    (low, high), (w_low, w_high) = found.q_interval.T, found.w_interval.T
    held, w_held = (low <= q) & (q <= high), (w_low <= q / p) & (q / p <= w_high)
    rare = q < RARE
    values = (
        held.mean(),
        held[q >= 0.02].mean(),
        held[rare].mean() if rare.any() else np.nan,
        w_held.mean(),
        np.mean(high - low),
        np.median(w_high - w_low),
        np.sqrt(np.mean((found.q - q) ** 2)),
        np.mean((found.w - q / p) ** 2),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def adapted(ad: "LabelShiftAdapter") -> Found:
    """What an adapter of this package says."""
    parts = ad.target_prior_, ad.weights_, ad.prior_interval(LEVEL), ad.weight_interval(LEVEL)
    return Found(*(part.values for part in parts))


def equal_tailed(q: np.ndarray, p: np.ndarray) -> Found:
    """What draws ``(S, C)`` of target and source proportions say, without this package's intervals and weights."""
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    weights = np.exp(np.log(np.maximum(q / p, 1e-300)).mean(axis=0))
    return Found(q.mean(axis=0), weights, np.quantile(q, tails, axis=0).T, np.quantile(q / p, tails, axis=0).T)


def study(draw: Draw, n: int, repeat: int, first_seed: int, number: int) -> list[dict[str, object]]:
    """All methods on one data set."""
    from sklearn.frozen import FrozenEstimator

    import bayescal as bc
    from bayescal.label_shift.confusion_posterior import confusion_counts, sample_confusion

    rng = np.random.default_rng([first_seed, number, n, repeat])
    scores, y, target, q, p = draw(rng, n)
    classes = list(range(target.shape[1]))
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal = bc.BiasCorrectedTemperatureScaling(
            "logit", classes=classes, draws=250, tune=400, chains=2, cores=1, random_state=repeat
        ).fit(scores, y)
        for name, how in {
            "bayes": {},
            "bayes, labels": {"source": "labels"},
            "bayes-confusion": {"method": "bayes-confusion"},
        }.items():
            ad = bc.LabelShiftAdapter(FrozenEstimator(cal), draws=500, random_state=repeat, **how)
            rows.append({"method": name, **judge(adapted(ad.fit(scores, y).adapt(target)), q, p)})
        counts = confusion_counts(cal.predict_proba(scores), y)
        predicted = np.bincount(cal.predict_proba(target).argmax(axis=1), minlength=len(q))
        uniform = np.ones(len(q))
        p_draws, q_draws = sample_confusion(counts, predicted, uniform, 0 * uniform, 25, rng, spread=float(len(q)))
        uniform_found = equal_tailed(q_draws.reshape(-1, len(q)), p_draws.reshape(-1, len(q)))
        rows.append({"method": "confusion, uniform", **judge(uniform_found, q, p)})
        ad = bc.LabelShiftAdapter(FrozenEstimator(cal), method="em").fit(scores, y).adapt(target)
        error = np.sqrt(np.mean((ad.target_prior_.values - q) ** 2))
        rows.append({"method": "em", "q_error": error, "w_error": np.mean((ad.weights_.values - q / p) ** 2)})
    return rows


def summarise(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by method and n, over judged settings and over chosen ones; the worst setting; every setting."""
    rows = rows.assign(kind=rows["setting"].str.partition(":")[0])
    rows["w_error"] = np.minimum(rows["w_error"], 100.0)
    cells = rows.groupby(["kind", "method", "n", "setting"])[list(MEASURES)].mean()
    groups = cells.groupby(["kind", "method", "n"])
    means = groups.mean()
    means["q_lowest"], means["w_lowest"] = groups["q"].min(), groups["w"].min()
    means["data_sets"] = rows.groupby(["kind", "method", "n"]).size()
    return {"means over settings (w_error: at most 100 for a data set)": means, "settings": cells}


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    parser.add_argument("--first-seed", type=int, default=20261201)
    parser.add_argument("--only", default="")
    asked, commit = parser.parse_args(), current_commit()
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / f"label-shift-coverage-{asked.first_seed}.csv"
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["setting", "n", "repeat"])
    known = set(zip(done["setting"], done["n"], done["repeat"], strict=True))
    draws = settings()
    for repeat in range(asked.repeats):
        for number, (name, draw) in enumerate(draws.items()):
            for n in asked.n:
                if (name, n, repeat) in known or not name.startswith(asked.only):
                    continue
                new = study(draw, n, repeat, asked.first_seed, number)
                new = [{"setting": name, "n": n, "repeat": repeat, **row} for row in new]
                done = pd.concat([done, pd.DataFrame(new)], ignore_index=True)
                done.to_csv(file, index=False)
    tables = summarise(done[done["repeat"].lt(asked.repeats) & done["n"].isin(asked.n)])
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        head = {
            "command": f"label_shift_coverage.py --repeats {asked.repeats} --first-seed {asked.first_seed}",
            "level": LEVEL,
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        tables["settings"].round(5).to_csv(asked.out.with_suffix(".csv"))


if __name__ == "__main__":
    main()
