"""What an adaptation says: a summary of plain values, a picture, a page made from both, and lines on the screen."""

import base64
import importlib.metadata
import io
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bayescal import __version__
from bayescal.cli.screen import print_table, tell
from bayescal.label_shift.adapted import ratio_interval, share_interval
from bayescal.label_shift.adapter import LabelShiftAdapter
from bayescal.label_shift.notes import BAYES
from bayescal.label_shift.settings import CONCENTRATION
from bayescal.plots.priors import plot_priors
from bayescal.registry import CALIBRATORS
from bayescal.report import DPI, PACKAGES, SCORE_KIND_WORDS, environment, format_number, format_percent, plain_values

SCHEMA = 1  # of summary.json
SHOWN = 20  # classes on the screen
METHODS = {
    "bayes": "posterior of the class proportions, with the uncertainty of the calibrator and of the source proportions",
    "bayes-confusion": "posterior of the class proportions from confusion counts alone",
    "em": "maximum likelihood of the class proportions",
    "bbse-hard": "inverted confusion matrix of predicted classes (black-box shift estimation)",
    "bbse-soft": "inverted confusion matrix of predicted probabilities (black-box shift estimation)",
    "rlls-hard": "inverted confusion matrix of predicted classes, shrunk towards no shift",
    "rlls-soft": "inverted confusion matrix of predicted probabilities, shrunk towards no shift",
}


@dataclass(frozen=True)
class Names:
    """What the user calls things: names of files, never a path of the machine, and of columns."""

    source: str
    target: str
    scores: tuple[str, ...]
    label: str
    calibrator: str


def summarise(
    adapter: LabelShiftAdapter,
    names: Names,
    *,
    seed: int,
    ci_prob: float,
    changed: int,
    messages: list[str],
    converged: bool,
) -> dict[str, Any]:
    """What was found, as plain values; what does not apply is None."""
    calibrator, bayes = adapter.calibrator_, adapter.method in BAYES
    posterior = not getattr(calibrator, "_is_point", True)
    known, concentration = adapter._prior.known is not None, adapter._prior.concentration
    entry = CALIBRATORS.get(names.calibrator)
    found = calibrator.diagnostics_.attrs if posterior else None
    verdict = None
    if posterior or not converged:
        verdict = "failed" if not converged else found["verdict"] if found is not None else "passed"
    one_column = len(names.scores) == 1
    return plain_values(
        {
            "schema": SCHEMA,
            "data": {
                "source": {"file": names.source, "rows": int(adapter._counts.sum())},
                "target": {"file": names.target, "rows": adapter._n_target, "rows_of_changed_class": changed},
                "scores": names.scores,
                "score_kind": getattr(calibrator, "score_kind", "proba"),
                "label": names.label,
            },
            "settings": {
                "method": adapter.method,
                "method_summary": METHODS[adapter.method],
                "calibrator": names.calibrator,
                "calibrator_summary": None if entry is None else entry.summary,
                "inference": "nuts" if posterior else "point",
                "prior": concentration.tolist() if bayes and concentration is not None else None,
                "default_prior": adapter.prior is None,
                "known_proportions": known,
                "conservative": adapter.source == "labels",
                "ci_prob": ci_prob if bayes else None,
                "seed": seed,
                "draws": int(np.prod(adapter._draw_shape)) if bayes else None,
            },
            "classes": [
                {
                    "label": label,
                    "column": names.scores[0] if one_column else names.scores[k],
                    "source_cases": adapter._counts[k],
                    **{
                        name: _answer(getattr(adapter, f"{name}_").values[k], draws, k, ci_prob, interval_of)
                        for name, draws, interval_of in (
                            ("source_prior", adapter._p, share_interval),
                            ("target_prior", adapter._q, share_interval),
                            ("weights", adapter._w, ratio_interval),
                        )
                    },
                }
                for k, label in enumerate(adapter.classes_.tolist())
            ],
            "diagnostics": None if verdict is None else {"verdict": verdict},
            "warnings": list(messages),
            "versions": {
                "bayescal": __version__,
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in PACKAGES},
            },
        }
    )


def _answer(
    mean: float,
    draws: np.ndarray | None,
    k: int,
    ci_prob: float,
    interval_of: Callable[[np.ndarray, float], np.ndarray],
) -> dict[str, Any]:
    if draws is None:
        return {"mean": mean, "lower": None, "upper": None}
    lower, upper = interval_of(draws[:, [k]], ci_prob)[:, 0]
    return {"mean": mean, "lower": lower, "upper": upper}


def draw_priors(adapter: LabelShiftAdapter, ci_prob: float) -> bytes:
    """A picture of the proportions, as PNG."""
    figure = Figure(figsize=(max(5.0, min(12.0, 1.5 + 0.8 * len(adapter.classes_))), 4), layout="constrained")
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # a name in letters that the font lacks stands in the text of the page
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        plot_priors(adapter, ci_prob=ci_prob, ax=figure.subplots())
        figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def render(summary: Mapping[str, Any], picture: bytes) -> str:
    """The report as one HTML page that needs no other file; whatever came from the user is escaped in it."""
    return (
        environment()
        .get_template("shift.html.j2")
        .render(
            **summary,
            image=base64.b64encode(picture).decode(),
            default_concentration=CONCENTRATION,
            digits=_digits(summary),
            score_kind_words=SCORE_KIND_WORDS[summary["data"]["score_kind"]],
        )
    )


def show(summary: Mapping[str, Any], out: str) -> None:
    """Show what was found; everything is in ``report.html`` too."""
    data, settings, classes = summary["data"], summary["settings"], summary["classes"]
    tell(
        f"{data['source']['rows']} labelled cases of {data['source']['file']}, {data['target']['rows']} cases without "
        f"labels of {data['target']['file']}. Method {settings['method']}, calibrator {settings['calibrator']}."
    )
    bayes = settings["ci_prob"] is not None
    level = [f"{format_percent(settings['ci_prob'])} interval"] if bayes else []
    digits = _digits(summary)
    several = len(data["scores"]) > 1

    def cells(row: Mapping[str, Any]) -> list[str]:
        return [format_number(row["mean"], digits), *([interval(row, digits)] if bayes else [])]

    print_table(
        "How frequent each class is",
        ["class", *(["column"] if several else []), "source", "target", *level, "target / source", *level],
        [
            [
                str(row["label"]),
                *([row["column"]] if several else []),
                format_number(row["source_prior"]["mean"], digits),
                *cells(row["target_prior"]),
                *cells(row["weights"]),
            ]
            for row in classes[:SHOWN]
        ],
    )
    if len(classes) > SHOWN:
        tell(f"{len(classes) - SHOWN} more classes are in the report.")
    tell(
        f"The most probable class changes for {data['target']['rows_of_changed_class']} of {data['target']['rows']} "
        "cases of the target."
    )
    if summary["diagnostics"] is not None and summary["diagnostics"]["verdict"] != "passed":
        tell("Convergence failed: see the warning.")
    tell(f"Written to {out}: report.html (read this), adapted.csv, shift.nc, summary.json, priors.png.")


def interval(row: Mapping[str, Any], digits: int) -> str:
    """Lower and upper end in words."""
    return f"{format_number(row['lower'], digits)} to {format_number(row['upper'], digits)}"


def _digits(summary: Mapping[str, Any]) -> int:
    """Two decimals, and three where a class of the source is rare or there are many."""
    return 2 + int(min(row["source_prior"]["mean"] for row in summary["classes"]) < 0.05)
