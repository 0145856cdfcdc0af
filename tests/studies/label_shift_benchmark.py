"""How fast label shift is adapted to, beside `abstention` and QuaPy, and how wide Bayesian intervals are.

    uv run --group studies python tests/studies/label_shift_benchmark.py \
        --out tests/studies/results/label_shift_benchmark

Three parts, in one run:

- maximum likelihood of the proportions of 10^6 cases of ten classes: this package until the first-order conditions hold
  to 1e-8, the peers until their own default tolerance. Residuals are those of the conditions, `proportions.py`;
- ``LabelShiftAdapter(method="bayes")`` with its calibrator, the second fit and adaptation of the process;
- 90 % intervals from 60 labelled cases of five classes, over some data sets: this package's two Bayesian methods, and
  the model of QuaPy's BayesianCC (uniform priors on proportions and on rows of the confusion matrix) by this package's
  sampler. Called directly, QuaPy 0.2.3 with jax 0.12 raised a TracerArrayConversionError, whose cause was not found.

Seconds are of the wall and of the processor: on a shared machine, the second are the ones to compare.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from label_shift_coverage import judge, synthetic
from scipy.special import log_softmax

PEERS = ("abstention", "quapy")


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, {"wall_s": time.perf_counter() - wall, "processor_s": time.process_time() - processor}


def cases(n: int, q: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities at equal proportions, which are too sharp, and labels of normal classes in proportions q."""
    rng = np.random.default_rng(seed)
    k = len(q)
    y = rng.choice(k, size=n, p=q)
    x = 2.0 * np.eye(k)[y] + rng.normal(size=(n, k))
    return log_softmax(2.0 * x, axis=1), y


def maximum(rows: list[dict[str, object]], n: int) -> None:
    """Maximum likelihood of many cases."""
    from abstention.label_shift import EMImbalanceAdapter
    from quapy.method.aggregative import EMQ

    from bayescal.label_shift.proportions import _residual, evidence, maximum_likelihood

    rng = np.random.default_rng(0)
    source = np.full(10, 0.1)
    proba = np.exp(cases(n, rng.dirichlet(np.ones(10)), 1)[0])

    def residual(q: np.ndarray) -> float:
        ratio = proba / source
        return _residual(q, (ratio / (ratio @ q)[:, None]).mean(axis=0))

    what = f"maximum likelihood, N = {n:g}, C = 10"
    found, taken = timed(lambda: maximum_likelihood(evidence(proba, source)))
    rows.append({"what": what, "who": "bayescal", **taken, "residual": found.residual})
    (q, _), taken = timed(lambda: EMQ.EM(source, proba))
    rows.append({"what": what, "who": "QuaPy EMQ.EM", **taken, "residual": residual(q)})
    valid = np.tile(np.eye(10) * 0.91 + 0.01, (10, 1))  # of equal mean: source proportions of a tenth
    adapt, taken = timed(
        lambda: EMImbalanceAdapter()(tofit_initial_posterior_probs=proba, valid_posterior_probs=valid / valid.sum(1)[0])
    )
    rows.append({"what": what, "who": "abstention", **taken, "residual": residual(adapt.multipliers * source)})


def bayes(rows: list[dict[str, object]]) -> None:
    """The Bayesian adapter with its calibrator, second call."""
    import bayescal as bc

    for classes, n, limit in ((10, 2000, 5.0), (10, 20_000, 30.0), (2, 1_000_000, 5.0)):
        rng = np.random.default_rng(classes)
        source = [cases(500, np.full(classes, 1 / classes), seed) for seed in (2, 3)]
        target = cases(n, rng.dirichlet(np.ones(classes)), 4)[0]
        calibrator = bc.BiasCorrectedTemperatureScaling("logit", random_state=0)
        ad = bc.LabelShiftAdapter(calibrator, draws=1000, random_state=0)
        ad.fit(*source[0]).adapt(target[:500])
        ad, taken = timed(lambda ad=ad, rows=source[1], new=target: ad.fit(*rows).adapt(new))
        what = f"bayes with BCTS, n = 500, N = {n:g}, C = {classes}, 1000 draws, second call"
        rows.append({"what": what, "who": "bayescal", **taken, "limit_s": limit})
        print(rows[-1], flush=True)


def widths(repeats: int) -> pd.DataFrame:
    """Coverage and width of 90 % intervals from 60 labelled cases."""
    from sklearn.frozen import FrozenEstimator

    import bayescal as bc
    from bayescal.label_shift.confusion_posterior import confusion_counts, sample_confusion

    draw, rows = synthetic(5, 3.0, 500, equal=False, seed=12), []
    for repeat in range(repeats):
        scores, y, target, q, p = draw(np.random.default_rng([60, repeat]), 60)
        cal = bc.BiasCorrectedTemperatureScaling(
            "logit", classes=list(range(5)), draws=250, tune=400, chains=2, random_state=repeat
        ).fit(scores, y)
        for method in ("bayes", "bayes-confusion"):
            ad = bc.LabelShiftAdapter(FrozenEstimator(cal), method, draws=500, random_state=repeat)
            drawn = ad.fit(scores, y).adapt(target).idata_.posterior
            values = (drawn[name].values.reshape(-1, 5) for name in ("target_prior", "source_prior"))
            rows.append({"who": f"bayescal, {method}", **judge(*values, q, p)})
        counts = np.bincount(target.argmax(axis=1), minlength=5)
        p_draws, q_draws = sample_confusion(
            confusion_counts(np.exp(scores), y), counts, np.ones(5), np.zeros(5), 25, np.random.default_rng(repeat), 5.0
        )
        rows.append(
            {"who": "model of QuaPy's BayesianCC", **judge(q_draws.reshape(-1, 5), p_draws.reshape(-1, 5), q, p)}
        )
    found = pd.DataFrame(rows).groupby("who", sort=False)[["q", "q_width", "q_error"]].mean()
    found.insert(0, "data_sets", repeats)
    return found


def main() -> None:
    """Measure everything, print and write the tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--n", type=int, default=1_000_000, help="cases of the maximum likelihood")
    parser.add_argument("--repeats", type=int, default=20, help="data sets of the intervals")
    asked, commit = parser.parse_args(), current_commit()
    warnings.simplefilter("ignore")
    rows: list[dict[str, object]] = []
    bayes(rows)
    maximum(rows, asked.n)
    speed = pd.DataFrame(rows).round({"wall_s": 2, "processor_s": 2})
    speed["residual"] = speed["residual"].map("{:.1e}".format, na_action="ignore")
    parts = {
        "speed": speed.to_string(index=False, na_rep=""),
        "90 % intervals of the proportions, 60 labelled cases, 5 classes": widths(asked.repeats).round(3).to_string(),
    }
    text = "\n\n".join(f"{name}\n{part}" for name, part in parts.items())
    print(text)
    if asked.out:
        head = {
            "command": f"label_shift_benchmark.py --n {asked.n} --repeats {asked.repeats}",
            "commit": commit,
            "date": date.today().isoformat(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("bayescal", *PEERS)},
            "processors": os.cpu_count(),
            "load": os.getloadavg()[0],
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
