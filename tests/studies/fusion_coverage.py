"""Do 90 % intervals hold the true probability when scores are fused, and how far off is the mean?

For every truth, size and repeat a data set is drawn and every method is fitted to it and judged on 300 fresh rows: the
share of rows whose 90 % interval holds the truth, the mean width of the interval, the Kullback-Leibler error of the
posterior mean (nats x 100) and its root mean squared error. There are two sets of truths of two scores: `design`, on
which settings may be chosen, and `judge`, other shapes under other laws of the scores, on which they are judged.
`three` and `four` have that many scores, and are judged only.

    python tests/studies/fusion_coverage.py --set judge --cache <folder> --jobs 2 --out tests/studies/results/fusion

Each data set and method is one row of the cache, written when it is done and not done twice; `--forget METHOD` throws
its rows away.
"""

import argparse
import json
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta, norm

SIZES = (60, 200, 500)
LEVEL = 0.9
JUDGED_AT = 300
CLIP = 1e-6

Sampler = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray]]  # scores, y, truth


def plateau(s: np.ndarray) -> np.ndarray:
    """Two steps with a flat stretch between them."""
    return np.interp(s, [0, 0.3, 0.35, 0.75, 0.8, 1], [0.03, 0.30, 0.42, 0.46, 0.62, 0.95])


def stairs(s: np.ndarray) -> np.ndarray:
    """Three smooth steps."""
    return 0.05 + 0.3 * (expit(30 * (s - 0.2)) + expit(30 * (s - 0.5)) + expit(30 * (s - 0.8)))


def of_surface(truth: Callable[..., np.ndarray], correlation: float, a: float, b: float, columns: int = 2) -> Sampler:
    """Scores with a Gaussian copula and beta margins, outcomes with the probability of a surface."""
    correlations = correlation + (1 - correlation) * np.eye(columns)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = rng.multivariate_normal(np.zeros(columns), correlations, n)
        scores = np.clip(beta.ppf(norm.cdf(z), a, b), CLIP, 1 - CLIP)
        p = truth(*scores.T)
        return scores, (rng.random(n) < p).astype(int), p

    return draw


class Copula(NamedTuple):
    """Draws ``(n, 2)`` and log density of a bivariate copula."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]


def clayton(theta: float, *, rotated: bool = False) -> Copula:
    """Clayton's copula, dependent at the bottom; rotated: at the top."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        u, w = rng.random((2, n))
        v = (1 + u**-theta * (w ** (-theta / (1 + theta)) - 1)) ** (-1 / theta)
        return np.abs(rotated - np.column_stack([u, v]))

    def log_density(t: np.ndarray) -> np.ndarray:
        u, v = np.abs(rotated - t).T
        total = u**-theta + v**-theta - 1
        return np.log1p(theta) - (1 + theta) * np.log(u * v) - (2 + 1 / theta) * np.log(total)

    return Copula(draw, log_density)


def frank(theta: float) -> Copula:
    """Frank's copula."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        u, w = rng.random((2, n))
        v = -np.log1p(w * np.expm1(-theta) / (w + (1 - w) * np.exp(-theta * u))) / theta
        return np.column_stack([u, v])

    def log_density(t: np.ndarray) -> np.ndarray:
        u, v = t.T
        whole = -np.expm1(-theta)
        return np.log(theta * whole) - theta * (u + v) - 2 * np.log(whole - np.expm1(-theta * u) * np.expm1(-theta * v))

    return Copula(draw, log_density)


def gauss(r: float) -> Copula:
    """The Gaussian copula."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return norm.cdf(rng.multivariate_normal([0, 0], [[1, r], [r, 1]], n))

    def log_density(t: np.ndarray) -> np.ndarray:
        x, y = norm.ppf(t).T
        return -0.5 * np.log1p(-r * r) - (r * r * (x * x + y * y) - 2 * r * x * y) / (2 * (1 - r * r))

    return Copula(draw, log_density)


def of_classes(rate: float, copulas: tuple[Copula, Copula], margins: list[list[tuple[float, float]]]) -> Sampler:
    """Scores from a copula and beta margins of each class (negative, positive); the truth by Bayes' rule."""

    def log_density(scores: np.ndarray, k: int) -> np.ndarray:
        laws = [beta(*shape) for shape in margins[k]]
        u = np.column_stack([law.cdf(s) for law, s in zip(laws, scores.T, strict=True)])
        inside = copulas[k].log_density(np.clip(u, 1e-12, 1 - 1e-12))
        return inside + sum(law.logpdf(s) for law, s in zip(laws, scores.T, strict=True))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = (rng.random(n) < rate).astype(int)
        drawn = [copula.draw(rng, n) for copula in copulas]
        scores = np.stack(
            [np.column_stack([beta.ppf(t, *s) for t, s in zip(drawn[k].T, margins[k], strict=True)]) for k in (0, 1)]
        )
        scores = np.clip(scores[y, np.arange(n)], CLIP, 1 - CLIP)
        return scores, y, expit(logit(rate) + log_density(scores, 1) - log_density(scores, 0))

    return draw


def surfaces(
    correlation: float, a: float, b: float, truths: dict[str, Callable[..., np.ndarray]]
) -> dict[str, Sampler]:
    """`of_surface` for each of several truths of two scores."""
    return {name: of_surface(truth, correlation, a, b) for name, truth in truths.items()}


def any_number(columns: int) -> dict[str, Sampler]:
    """Truths that any number of scores can have."""
    truths: dict[str, Callable[..., np.ndarray]] = {
        "product": lambda *s: 0.04 + 0.9 * np.prod(s, axis=0) ** 0.6,
        "either": lambda *s: 0.04 + 0.9 * (1 - np.prod([1 - t**1.5 for t in s], axis=0)),
        "additive": lambda *s: 0.08 + 0.85 * np.mean(s, axis=0),
        "one useless": lambda *s: expit(sum(logit(t) for t in s[1:])),
        "max": lambda *s: 0.03 + 0.9 * np.max(s, axis=0),
        "min": lambda *s: 0.05 + 0.9 * np.min(s, axis=0),
        "plateau": lambda *s: plateau(np.mean(s, axis=0)),
        "fusion": lambda *s: expit(sum((1 - 0.25 * m) * logit(t) for m, t in enumerate(s))),
    }
    return {name: of_surface(truth, 0.5, 1.0, 1.0, columns) for name, truth in truths.items()}


SETS: dict[str, dict[str, Sampler]] = {
    "design": {
        **surfaces(
            0.4,
            0.8,
            0.8,
            {
                "product": lambda s, t: 0.05 + 0.9 * s * t,
                "either": lambda s, t: 0.05 + 0.9 * (1 - (1 - s) * (1 - t)),
                "additive": lambda s, t: 0.05 + 0.45 * (s + t),
                "one useless": lambda s, t: expit(1.3 * logit(s)) + 0 * t,
                "max": lambda s, t: 0.05 + 0.9 * np.maximum(s, t),
                "min": lambda s, t: 0.05 + 0.9 * np.minimum(s, t),
                "plateau": lambda s, t: plateau((s + t) / 2),
                "fusion": lambda s, t: expit(0.8 * logit(s) + 0.6 * logit(t)),
            },
        ),
        "copula Clayton": of_classes(
            0.4, (clayton(2.0), clayton(2.0, rotated=True)), [[(1.5, 3), (2, 4)], [(3, 1.5), (3, 2)]]
        ),
        "copula Gauss": of_classes(0.5, (frank(4.0), gauss(0.6)), [[(2, 3), (1.5, 2.5)], [(3, 2), (2.5, 1.2)]]),
    },
    "judge": {
        **surfaces(
            0.6,
            1.2,
            0.9,
            {
                "product": lambda s, t: 0.03 + 0.92 * s**1.5 * t**0.7,
                "either": lambda s, t: 1 - (1 - 0.8 * s**2) * (1 - 0.85 * t),
                "additive": lambda s, t: 0.1 + 0.35 * s + 0.45 * t**2,
                "one useless": lambda s, t: 0.04 + 0.9 * t + 0 * s,
                "max": lambda s, t: 0.04 + np.maximum(0.9 * s, 0.65 * t),
                "min": lambda s, t: 0.02 + 0.9 * np.minimum(s, 0.25 + 0.75 * t),
                "stairs": lambda s, t: stairs(np.sqrt(s * t)),
                "fusion": lambda s, t: expit(1.2 * logit(s) + 0.3 * logit(t) - 0.4),
            },
        ),
        "copula Clayton": of_classes(
            0.3, (clayton(1.2, rotated=True), frank(6.0)), [[(1.2, 2), (1, 3)], [(2.5, 1), (2, 1.6)]]
        ),
        "copula Gauss": of_classes(0.55, (gauss(0.3), clayton(3.0)), [[(1.6, 2.2), (2, 2)], [(2.6, 1.4), (4, 1.5)]]),
    },
    "three": any_number(3),
    "four": any_number(4),
}


def draw(of: str, truth: str, n: int, repeat: int, first_seed: int) -> tuple[np.ndarray, ...]:
    """Scores and outcomes to fit (both classes present), scores to judge at, and the truth there."""
    names = list(SETS[of])
    rng = np.random.default_rng([first_seed, repeat, n, names.index(truth), list(SETS).index(of)])
    while True:
        scores, y, _ = SETS[of][truth](rng, n)
        if 0 < y.sum() < n:
            break
    fresh, _, p = SETS[of][truth](rng, JUDGED_AT)
    return scores, y, fresh, p


def fit_logistic_regression(scores: np.ndarray, y: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Unpenalised logistic regression on log-odds."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # separable draws have no optimum; the result is where the optimiser stops
        fitted = LogisticRegression(C=np.inf, max_iter=10_000).fit(logit(scores), y)
    return fitted.predict_proba(logit(fresh))[:, 1]


def fit_program(degree: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The paper's quadratic program, its probabilities kept 1 / (n + 2) away from 0 and 1."""

    def fit(scores: np.ndarray, y: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        import bayescal as bc

        fitted = bc.BernsteinCalibrator(inference="point", degree=degree).fit(scores, y)
        edge = 1 / (len(y) + 2)
        return np.clip(fitted.predict_proba(fresh)[:, 1], edge, 1 - edge)

    return fit


def fit_point(name: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """The point estimate of a calibrator."""

    def fit(scores: np.ndarray, y: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        from bayescal.registry import CALIBRATORS

        return CALIBRATORS[name].load()(inference="point").fit(scores, y).predict_proba(fresh)[:, 1]

    return fit


POINT = {
    "logistic regression": fit_logistic_regression,
    "QP K = 4": fit_program(4),
    "QP K = 6": fit_program(6),
    "KDE + ML copula": fit_point("copula"),
    "MR-MIC": fit_point("mrmic"),
}
POSTERIOR = ("platt", "bernstein", "copula", "auto")
ORDINARY = "bernstein, coarsening 0"  # on request: what the power of the likelihood is for


def errors(truth: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    """Mean Kullback-Leibler divergence of the Bernoulli laws (nats x 100), and root mean squared error."""
    p, q = np.clip(truth, 1e-12, 1 - 1e-12), np.clip(estimate, CLIP, 1 - CLIP)
    divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    return {"kl": float(100 * divergence.mean()), "rmse": float(np.sqrt(np.mean((truth - estimate) ** 2)))}


def study(of: str, truth: str, n: int, repeat: int, first_seed: int, methods: list[str]) -> list[dict[str, object]]:
    """Some methods on one data set; the members of the average are judged as it fitted them."""
    import bayescal as bc

    scores, y, fresh, p = draw(of, truth, n, repeat, first_seed)
    rows: list[dict[str, object]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small data sets, and of draws below the gate: counted below
        fitted: dict[str, Any] = {}
        if ORDINARY in methods:
            fitted[ORDINARY] = bc.BernsteinCalibrator(random_state=repeat, cores=1, priors={"coarsening": 0.0})
            fitted[ORDINARY].fit(scores, y)
        if set(methods) & set(POSTERIOR):
            average = bc.StackedCalibrator(random_state=repeat, cores=1).fit(scores, y)
            fitted |= {"auto": average, **average.members_}
        for method in methods:
            row: dict[str, object] = {"set": of, "truth": truth, "n": n, "repeat": repeat, "method": method}
            if method in POINT:
                row |= errors(p, POINT[method](scores, y, fresh))
            else:
                bounds = fitted[method].predict_interval(fresh, ci_prob=LEVEL)[:, 1]
                row |= errors(p, fitted[method].predict_proba(fresh)[:, 1])
                row["coverage"] = float(np.mean((bounds[:, 0] <= p) & (p <= bounds[:, 1])))
                row["width"] = float(np.mean(bounds[:, 1] - bounds[:, 0]))
                row["verdict"] = fitted[method].diagnostics_.attrs["verdict"]
                row["divergences"] = fitted[method].diagnostics_.attrs["divergences"]
                row["weight"] = average.weights_.get(method, np.nan) if "auto" in fitted else np.nan
            rows.append(row)
    return rows


def summarise(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by method and n, with standard errors over data sets; coverage and error by truth."""
    groups = rows.groupby(["method", "n"])
    means = groups[["coverage", "width", "kl", "rmse", "weight"]].mean()
    means["coverage_se"] = groups["coverage"].sem()
    means["kl_se"] = groups["kl"].sem()
    means["converged"] = groups["verdict"].apply(lambda v: (v == "passed").mean() if v.notna().any() else np.nan)
    means["data_sets"] = groups.size()
    ours = rows[rows["coverage"].notna()]
    return {
        "mean": means,
        "coverage": ours.pivot_table(index=["method", "n"], columns="truth", values="coverage"),
        "kl": rows.pivot_table(index=["method", "n"], columns="truth", values="kl"),
        "rmse": rows.pivot_table(index=["method", "n"], columns="truth", values="rmse"),
    }


def main() -> None:
    """Run what is missing, and write tables."""
    from provenance import current_commit  # beside this file, found when it is run as a script

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="of", choices=list(SETS), required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES)
    parser.add_argument("--truths", nargs="+")
    parser.add_argument("--methods", nargs="+", default=[*POINT, *POSTERIOR])
    parser.add_argument("--first-seed", type=int, default=20261201)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--forget", nargs="+", default=[])
    asked, commit = parser.parse_args(), current_commit()
    asked.cache.mkdir(parents=True, exist_ok=True)
    file = asked.cache / f"fusion-{asked.of}-{asked.first_seed}.csv"
    keys = ["truth", "n", "repeat", "method"]
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["set", *keys])
    done = done[~done["method"].isin(asked.forget)]
    known = set(done[keys].itertuples(index=False, name=None))
    jobs = []
    for repeat in range(asked.repeats):
        for n in asked.n:
            for truth in asked.truths or SETS[asked.of]:
                missing = [m for m in asked.methods if (truth, n, repeat, m) not in known]
                if missing:
                    jobs.append((asked.of, truth, n, repeat, asked.first_seed, missing))
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(study, *job) for job in jobs]):
            done = pd.concat([done, pd.DataFrame(finished.result())], ignore_index=True)
            done.to_csv(file, index=False)
    done = done[done["repeat"].lt(asked.repeats) & done["n"].isin(asked.n) & done["method"].isin(asked.methods)]
    tables = summarise(done)
    text = "\n\n".join(f"{name}\n{table.round(3).to_string()}" for name, table in tables.items())
    print(text)
    if asked.out:
        import bayescal as bc

        asked.out.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "command": f"fusion_coverage.py --set {asked.of} --repeats {asked.repeats} --first-seed {asked.first_seed}",
            "commit": commit,
            "date": date.today().isoformat(),
            "bayescal": bc.__version__,
            "python": platform.python_version(),
        }
        name = asked.out.with_name(f"{asked.out.name}_{asked.of}")
        name.with_suffix(".txt").write_text(json.dumps(head, indent=1) + "\n\n" + text + "\n", encoding="utf-8")
        tables["mean"].round(5).to_csv(name.with_suffix(".csv"))


if __name__ == "__main__":
    main()
