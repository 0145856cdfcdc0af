"""What a fit says in words and numbers: a summary for programs, and a report for people made from it.

`summarise` collects everything into plain values (``summary.json``), `draw_figures` draws, and `render_report` turns
both into one self-contained page. The page holds nothing that the summary does not hold, apart from explanations.
"""

import base64
import importlib.metadata
import io
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bayescal import __version__
from bayescal.calibrators.base import Calibrator
from bayescal.evaluation.miscalibration import MEASURES, miscalibration
from bayescal.plots.calibration_map import plot_calibration_map
from bayescal.plots.reliability import observed_shares, plot_reliability
from bayescal.plots.surface import plot_surface
from bayescal.registry import CALIBRATORS

SCHEMA = 1  # of summary.json
PACKAGES = ("pymc", "nutpie", "arviz", "numpy", "scipy", "scikit-learn")
MEASURE_TITLES = {"ici": "ICI", "e50": "E50", "e90": "E90", "emax": "Emax"}
SCORE_KIND_WORDS = {
    "proba": "a probability",
    "logit": "log-odds",
    "raw": "a number that grows with the probability",
}
LEVELS = ("low", "middle", "high")
PASSED = "R-hat, effective sample sizes, divergences and energy are all within their limits."
DPI = 150


@dataclass(frozen=True)
class Source:
    """Where the calibration rows came from: names, never a path of the machine."""

    file: str
    scores: tuple[str, ...]
    label: str
    weight: str | None = None


def summarise(
    calibrator: Calibrator, source: Source, *, ci_prob: float, seed: int | None, messages: list[str]
) -> dict[str, Any]:
    """Collect what a fit found as plain values, ready for JSON: no NaN, no NumPy types.

    Parameters
    ----------
    calibrator : calibrator
        Fitted, with its calibration rows.
    source : Source
        Names of the file and of its columns.
    ci_prob : float in (0, 1)
        Posterior probability of the intervals.
    seed : int or None
        Seed that the fit was given.
    messages : list of str
        Warnings that the fit gave.

    Returns
    -------
    dict
        Keys ``schema``, ``data``, ``settings``, ``priors``, ``stacking``, ``miscalibration`` and ``map`` (one score),
        ``combinations`` and ``observed`` (several), ``diagnostics``, ``warnings``, ``versions``. What does not apply to
        the fit is None; what cannot be computed is None too.
    """
    posterior, several = not calibrator._is_point, len(source.scores) > 1
    return plain_values(
        {
            "schema": SCHEMA,
            "data": _data_facts(calibrator, source),
            "settings": {
                "method": calibrator._name,
                "method_summary": CALIBRATORS[calibrator._name].summary,
                "inference": "nuts" if posterior else "point",
                "ci_prob": ci_prob if posterior else None,
                "seed": seed if posterior else None,
                "draws": calibrator.draws if posterior else None,
                "chains": calibrator.chains if posterior else None,
                "tune": calibrator.tune if posterior else None,
            },
            "priors": _priors(calibrator) if posterior else None,
            "stacking": _stacking(calibrator),
            "miscalibration": None if several else _miscalibration(calibrator, ci_prob),
            "map": None if several else _map(calibrator, ci_prob),
            "combinations": _combinations(calibrator, source.scores, ci_prob) if several else None,
            "observed": _observed(calibrator, ci_prob) if several else None,
            "diagnostics": _diagnostics(calibrator) if posterior else None,
            "warnings": messages,
            "versions": {
                "bayescal": __version__,
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in PACKAGES},
            },
        }
    )


def draw_figures(calibrator: Calibrator, *, ci_prob: float) -> dict[str, bytes]:
    """Draw the pictures of a fit.

    Parameters
    ----------
    calibrator : calibrator
        Fitted, with its calibration rows.
    ci_prob : float in (0, 1)
        Posterior probability of the bands.

    Returns
    -------
    dict of str to bytes
        PNG files by name: ``reliability.png`` and ``calibration_map.png``, or ``surface.png`` of several scores.
    """
    if calibrator._n_scores > 1:
        return {"surface.png": _png(plot_surface, calibrator, ci_prob, panels=1 if calibrator._is_point else 2)}
    return {
        "reliability.png": _png(plot_reliability, calibrator, ci_prob),
        "calibration_map.png": _png(plot_calibration_map, calibrator, ci_prob),
    }


def _png(plot: Any, calibrator: Calibrator, ci_prob: float, panels: int = 1) -> bytes:
    # no pyplot: it would choose a back end for the screen, and keep the figure
    figure = Figure(figsize=(6, 6) if panels == 1 else (5.6 * panels, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # a name in letters that the font lacks stands in the text of the page
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        plot(calibrator, ci_prob=ci_prob, ax=figure.subplots(1, panels))
        figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def render_report(summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Write the report as one HTML page that needs no other file.

    Parameters
    ----------
    summary : mapping
        What `summarise` returned.
    figures : mapping of str to bytes
        What `draw_figures` returned.

    Returns
    -------
    str
        The page; whatever came from the user is escaped in it.
    """
    images = {name.removesuffix(".png"): base64.b64encode(png).decode() for name, png in figures.items()}
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **summary,
            images=images,
            digits=digits_of(summary),
            score_kind_words=SCORE_KIND_WORDS[summary["data"]["score_kind"]],
        )
    )


def environment() -> jinja2.Environment:
    """The templates, with the filters that they use."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("bayescal"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "general": format_general,
        "number": format_number,
        "percent": format_percent,
        "title_of": title_of,
    }
    return found


def title_of(measure: str) -> str:
    """A measure of miscalibration as people write it.

    >>> title_of("ici"), title_of("in_the_large")
    ('ICI', 'in the large')
    """
    return MEASURE_TITLES.get(measure, measure.replace("_", " "))


def format_number(value: float | None, digits: int = 2) -> str:
    """A number for a table, with a true minus sign.

    >>> format_number(-0.123), format_number(3), format_number(1234.5), format_number(None)
    ('−0.12', '3.00', '1234.50', 'not defined')
    """
    if value is None:
        return "not defined"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def digits_of(summary: Mapping[str, Any]) -> int:
    """Decimals that probabilities of this fit need: two, and up to four where the event is rare.

    >>> digits_of({"map": [{"mean": 0.03, "within_observed_scores": True}]})
    3
    """
    if summary["map"] is None:
        means = [row["mean"] for row in summary["combinations"] if row["cases"]]
    else:
        means = [row["mean"] for row in summary["map"] if row["within_observed_scores"]]
    smallest = min(means, default=1.0)
    return 2 + int(smallest < 0.05) + int(smallest < 0.005)


def format_general(value: float, digits: int = 6) -> str:
    """A number of any size, without zeros at its end.

    >>> format_general(-600.0), format_general(0.05), format_general(0.115384, 4)
    ('−600', '0.05', '0.1154')
    """
    return f"{value:.{digits}g}".replace("-", "−")


def format_percent(value: float) -> str:
    """A share as a percentage.

    >>> format_percent(0.9), format_percent(0.975)
    ('90 %', '97.5 %')
    """
    return f"{100 * value:.4g} %"


def _data_facts(calibrator: Calibrator, source: Source) -> dict[str, Any]:
    rows = calibrator._require_rows()
    columns = rows.scores.reshape(len(rows.scores), -1)
    seen = columns[rows.weight > 0].T
    positives = float(rows.weight @ rows.positive)
    total = float(rows.weight.sum())
    return {
        "file": source.file,
        "rows": len(rows.scores),
        "cases": total,
        "score_kind": calibrator.score_kind,
        "scores": [
            {"name": name, "min": column.min(), "max": column.max(), "mean": mean, "distinct": len(np.unique(column))}
            for name, column, mean in zip(source.scores, seen, rows.weight @ columns / total, strict=True)
        ],
        "label": source.label,
        "negative": calibrator.classes_[0],
        "positive": calibrator.classes_[1],
        "negatives": total - positives,
        "positives": positives,
        "weight": source.weight,
    }


def _priors(calibrator: Calibrator) -> list[dict[str, Any]]:
    """Each fitted model with the sentence and the settings of its prior."""
    return [
        {
            "method": name,
            "method_summary": CALIBRATORS[name].summary,
            "families": _families(member._priors),
            "settings": [
                {"name": key, "value": value, "reason": reason} for key, value, reason in member._priors.describe()
            ],
        }
        for name, member in _members(calibrator).items()
    ]


def _families(priors: Any) -> str:
    """What the first line of a prior's docstring says of its distributions."""
    return (type(priors).__doc__ or "").strip().split("\n")[0].partition(": ")[2].rstrip(".")


def _members(calibrator: Calibrator) -> dict[str, Any]:
    return getattr(calibrator, "members_", {calibrator._name: calibrator})


def _stacking(calibrator: Calibrator) -> list[dict[str, Any]] | None:
    if not hasattr(calibrator, "comparison_"):
        return None
    table = calibrator.comparison_.sort_values("weight", ascending=False)
    return [{"method": name, **row} for name, row in table.to_dict("index").items()]


def _miscalibration(calibrator: Calibrator, ci_prob: float) -> list[dict[str, Any]] | None:
    if calibrator._is_point or calibrator.score_kind == "raw":
        return None
    table = miscalibration(calibrator, ci_prob=ci_prob).summary()
    return [{"measure": name, "meaning": MEASURES[name], **row} for name, row in table.to_dict("index").items()]


def _map(calibrator: Calibrator, ci_prob: float) -> list[dict[str, Any]]:
    """The calibrated probability at round scores, and whether the calibration rows reach there."""
    rows = calibrator._require_rows()
    seen = rows.scores[rows.weight > 0]
    scores = _round_scores(seen, calibrator.score_kind)
    inside = (scores >= seen.min()) & (scores <= seen.max())
    return [
        {"score": score, **row, "within_observed_scores": covered}
        for score, row, covered in zip(scores, _answers(calibrator, scores, ci_prob), inside, strict=True)
    ]


def _answers(calibrator: Calibrator, scores: np.ndarray, ci_prob: float) -> list[dict[str, Any]]:
    """Mean, sd, lower and upper at each row; the mean alone of a point estimate."""
    if calibrator._is_point:
        table = pd.DataFrame({"mean": calibrator.predict_proba(scores)[:, 1], "sd": None, "lower": None, "upper": None})
    else:
        table = calibrator.predict_table(scores, ci_prob=ci_prob)
    return table.to_dict("records")


def _combinations(calibrator: Calibrator, names: tuple[str, ...], ci_prob: float) -> list[dict[str, Any]]:
    """The probability where scores agree and where one disagrees, and the cases in the same thirds of all scores.

    Low, middle and high are the 1/6, 1/2 and 5/6 quantiles of each score: the medians of its thirds.
    """
    rows = calibrator._require_rows()

    def quantiles(shares: list[float]) -> np.ndarray:
        return np.quantile(rows.scores, shares, axis=0, weights=rows.weight, method="inverted_cdf")

    values = quantiles([1 / 6, 1 / 2, 5 / 6])
    third = (rows.scores > quantiles([1 / 3, 2 / 3])[:, None]).sum(axis=0)
    size = len(names)
    odd_one_out = [
        [odd if j == k else rest for j in range(size)] for odd, rest in ((2, 0), (0, 2)) for k in range(size)
    ]
    found: dict[tuple[float, ...], dict[str, Any]] = {}  # of equal combinations, which ties make, the first
    for levels in [[level] * size for level in range(3)] + odd_one_out:
        at = values[levels, range(size)]
        alike = ((third == levels) | (rows.scores == at)).all(axis=1)
        combination = {
            "scores": dict(zip(names, at, strict=True)),
            "levels": {name: LEVELS[level] for name, level in zip(names, levels, strict=True)},
            "cases": rows.weight @ alike,
            "positives": rows.weight @ (alike * rows.positive),
        }
        found.setdefault(tuple(at), combination)
    answers = _answers(calibrator, np.array(list(found)), ci_prob)
    return [combination | answer for combination, answer in zip(found.values(), answers, strict=True)]


def _observed(calibrator: Calibrator, ci_prob: float) -> list[dict[str, Any]]:
    """Fitted probabilities of the calibration rows in up to five groups, and how often it happened in each."""
    rows = calibrator._require_rows()
    used = rows.weight > 0
    weight = rows.weight[used]
    fitted = calibrator.predict_proba(rows.scores[used])[:, 1]
    found = observed_shares(fitted, rows.positive[used], weight, int(np.clip(weight.sum() // 20, 1, 5)), ci_prob)
    columns = zip(found.x, found.cases, found.share, found.lower, found.upper, strict=True)
    return [dict(zip(("mean", "cases", "share", "lower", "upper"), row, strict=True)) for row in columns]


def _round_scores(seen: np.ndarray, score_kind: str) -> np.ndarray:
    """About ten scores that are easy to read: tenths if probabilities spread over [0, 1], else over what was seen."""
    low, high = float(seen.min()), float(seen.max())
    if low == high:
        return np.array([low])
    if score_kind == "proba":
        tenths = np.array([0.05, *np.linspace(0.1, 0.9, 9), 0.95]).round(2)
        if ((low <= tenths) & (tenths <= high)).sum() >= 5:
            return np.concatenate([[0.0] * (low == 0), tenths, [1.0] * (high == 1)])
    step = 10.0 ** np.floor(np.log10(high - low))
    step *= next(factor for factor in (0.1, 0.2, 0.5, 1.0) if (high - low) / (factor * step) <= 12)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)  # 0.4 / 0.01 is 40, whatever its last bit
    exact = np.arange(first, last + 1) * step
    return np.round(exact, int(2 - np.floor(np.log10(step)))) + 0.0


def _diagnostics(calibrator: Calibrator) -> dict[str, Any]:
    table = calibrator.diagnostics_
    flat = table.reset_index()
    found = {name: table.attrs[name] for name in ("verdict", "message", "divergences", "e_bfmi")}
    if found["verdict"] == "passed":  # the members of an average all say the same
        found["message"] = PASSED
    if "member" not in flat:
        flat.insert(0, "member", calibrator._name)
    worst = [
        {
            "method": name,
            "parameters": len(rows),
            "r_hat_max": rows["r_hat"].max(skipna=False),
            "ess_bulk_min": rows["ess_bulk"].min(skipna=False),
            "ess_tail_min": rows["ess_tail"].min(skipna=False),
        }
        for name, rows in flat.groupby("member", sort=False)
    ]
    return {
        **found,
        "worst": worst,
        "parameters": flat.rename(columns={"member": "method"}).to_dict("records"),
    }


def plain_values(value: Any) -> Any:
    """Python's own types, and None for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
