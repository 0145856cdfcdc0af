"""Tables of the study in `real_scores.py`: means over pools, and paired differences to the baseline.

A pool's value is its mean over repeats; the table's value is the mean over pools, each counting the same.
Differences to the baseline are taken on the same draws. Their standard error is given twice: over pools, and
over data sets (pools of one data set averaged first), because pools that differ in their classifier only are
alike.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version

import numpy as np
import pandas as pd
from real_scores_pools import Pool
from sklearn.metrics import roc_auc_score

BASELINE = "platt"
PACKAGES = ("bayescal", "betacal", "venn-abers", "scikit-learn", "scipy", "numpy", "pymc", "nutpie")


def pool_table(pools: Sequence[Pool]) -> pd.DataFrame:
    """Describe the pools: rows, share of positives, AUC, Brier score, shares of scores at 0 and at 1."""
    described = {}
    for pool in pools:
        scores, y = (np.concatenate(parts) for parts in zip(*pool.splits, strict=True))
        described[pool.name] = {
            "splits": len(pool.splits),
            "rows": len(pool.splits[0][1]),
            "positives": y.mean(),
            "auc": roc_auc_score(y, scores),
            "brier": np.mean((scores - y) ** 2),
            "at_0": np.mean(scores == 0),
            "at_1": np.mean(scores == 1),
        }
    return pd.DataFrame(described).T.round(3).astype({"splits": int, "rows": int}).rename_axis("pool")


def pool_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over repeats, with the differences to the baseline; index (n, method, data_set, pool).

    Raises
    ------
    ValueError
        When a fit is missing, so that methods would be compared on different draws.
    """
    draws = rows.groupby(["n", "pool", "repeat"])["method"].nunique()
    if (draws != rows["method"].nunique()).any():
        raise ValueError(f"fits are missing for (n, pool, repeat) = {draws.idxmin()}: run the study again")
    measured = ["log_loss", "brier", "infinite", "unconverged", "seconds"]
    means = rows.groupby(["n", "method", "data_set", "pool"])[measured].mean()
    baseline = means.xs(BASELINE, level="method")[["log_loss", "brier"]]
    differences = means[["log_loss", "brier"]].sub(baseline).add_prefix("d_")
    return means.join(differences)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per n and method, the lowest mean log loss first.

    Parameters
    ----------
    rows : DataFrame
        One row per fit: pool, data_set, method, n, repeat, log_loss, brier, infinite, unconverged, seconds.

    Returns
    -------
    DataFrame
        Indexed by (n, method). d_ is the difference to the baseline (negative: better), se_ its standard
        error over pools, se_sets_ over data sets; better_in is the number of pools where the mean log loss is
        lower than the baseline's.
    """
    means = pool_means(rows)
    pools = means.groupby(["n", "method"])
    table = pools.mean()
    sets = means.groupby(["n", "method", "data_set"]).mean().groupby(["n", "method"])
    for score in ("d_log_loss", "d_brier"):
        table[f"se_{score}"] = pools[score].sem()
        table[f"se_sets_{score}"] = sets[score].sem()
    table["better_in"] = (means["d_log_loss"] < 0).groupby(["n", "method"]).sum()
    table["pools"] = pools.size()
    return table.sort_values(["n", "log_loss"])


def summary_text(summary: pd.DataFrame) -> str:
    """Lay the summary out for people; infinite and unconverged are shares of fits."""
    columns = "log_loss d_log_loss se_d_log_loss se_sets_d_log_loss better_in pools brier d_brier se_d_brier"
    shown = summary[[*columns.split(), "infinite", "unconverged", "seconds"]]
    formats = {
        name: ("{:+.4f}" if name.startswith("d_") else "{:.4f}" if name.startswith("se_") else "{:.3f}").format
        for name in shown.select_dtypes("float")
    }
    return shown.to_string(formatters=formats)


def _versions() -> dict[str, str]:
    found = {"python": python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def write_results(
    folder: Path, rows: pd.DataFrame, summary: pd.DataFrame, pools: pd.DataFrame, settings: dict[str, object]
) -> None:
    """Write ``real_scores.json`` (how made, pools, summary) and ``real_scores.csv`` (means of each pool).

    Parameters
    ----------
    folder : Path
        Where the two files go.
    rows, summary, pools : DataFrame
        One row per fit; what `summarise` and `pool_table` gave.
    settings : dict
        Command and constants of the run; no paths.
    """
    made = settings | {
        "date": datetime.now(UTC).date().isoformat(),
        "fits": len(rows),
        "pools": len(pools),
        "baseline": BASELINE,
        "versions": _versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "made": made,
        "pools": pools.reset_index().to_dict(orient="records"),
        "summary": summary.round(5).reset_index().to_dict(orient="records"),
    }
    (folder / "real_scores.json").write_text(json.dumps(content, indent=1) + "\n")
    header = "".join(f"# {name}: {value}\n" for name, value in made.items())
    means = pool_means(rows).drop(columns=["seconds"]).round(5)
    (folder / "real_scores.csv").write_text(header + means.reset_index().to_csv(index=False))
