"""What ``bayescal assess`` does: a forecast and its outcomes in, how far it can be trusted out.

As in `work`, what a user gives is judged first, and only then is imported what takes seconds.
"""

import base64
import importlib.metadata
import io
import json
import platform
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescal import __version__
from bayescal.cli.guard import collected_warnings, say
from bayescal.cli.work import FitOptions, _classes, located, read_rows
from bayescal.registry import curve_names
from bayescal.tables import check_input, check_not_read, staged_outputs, write_table
from bayescal.validation import check_choice, check_count, check_fraction, check_sample_weight, stated

if TYPE_CHECKING:
    from bayescal.evaluation.assessment import Assessment

OUTPUTS = ("assess.json", "curve.csv", "measures.csv", "reliability.png", "report.html")
SCHEMA = 1  # of assess.json
SMALL = 0.05  # calibration error whose posterior probability is told
TITLES = {
    "ici": "ICI (ECE without bins)",
    "e50": "E50",
    "e90": "E90",
    "emax": "Emax",
    "in_the_large": "calibration in the large",
    "brier": "Brier score",
    "log_loss": "log loss",
}


@dataclass(frozen=True)
class AssessOptions:
    """The options of ``bayescal assess``."""

    proba: str
    label: str
    positive: str | None = None
    weight: str | None = None
    curve: str = "auto"
    ci_prob: float = 0.9
    seed: int = 0
    draws: int = 500
    chains: int = 4
    consistency: bool = False


def assess_file(path: str, options: AssessOptions, out: str) -> dict[str, Any]:
    """Assess the forecast of a file and write everything that comes out; returns what is in ``assess.json``."""
    suited = curve_names()
    check_choice(options.curve, suited, "--curve")
    check_fraction(options.ci_prob, "--ci-prob")
    check_count(options.draws, "--draws")
    check_count(options.chains, "--chains")
    check_input(path)
    for name in OUTPUTS:
        check_not_read(Path(out) / name, path)
    table = read_rows(path, [options.proba, *([] if options.weight is None else [options.weight])], options.label)
    weight = None if options.weight is None else table.scores[:, 1]
    name = table.columns[0]
    proba = pd.Series(table.scores[:, 0], name=name)
    classes = _classes(table, FitOptions((options.proba,), options.label, options.positive))
    with located(table):
        stated(proba, f"probability column {name!r}")
        if weight is not None:
            check_sample_weight(weight, len(proba))
    with staged_outputs(out) as stage:
        if sys.stderr.isatty():
            say(f"fitting the calibration curve to {len(proba)} rows; the first fit on a machine compiles its model")
        from bayescal.evaluation.assessment import assess_probability
        from bayescal.report import PACKAGES, environment, plain_values

        with located(table), collected_warnings([name]) as messages:
            found = assess_probability(
                table.labels,
                proba,
                weight,
                curve=options.curve,
                ci_prob=options.ci_prob,
                pos_label=classes[1],
                draws=options.draws,
                chains=options.chains,
                random_state=options.seed,
            )
        measures = found.summary().reset_index()
        curve = found.curve.to_dataframe().reset_index()
        summary = plain_values(
            {
                "schema": SCHEMA,
                "data": {
                    "file": "standard input" if path == "-" else Path(path).name,
                    "rows": len(proba),
                    "cases": float(found.cases.sum()),
                    "events": float(found.events.sum()),
                    "positive": classes[1],
                },
                "settings": {**asdict(options), "proba": name},
                "measures": [
                    {
                        **row,
                        "title": TITLES.get(row["measure"], row["measure"]),
                        "meaning": found.measures[row["measure"]],
                    }
                    for row in measures.to_dict("records")
                ],
                "small_error": SMALL,
                "probability_of_small_error": found.probability(ici__lt=SMALL),
                "log_bayes_factor": found.log_bayes_factor,
                "probability_calibrated": found.probability_calibrated,
                "monotonicity_p_value": found.monotonicity_p_value,
                "diagnostics": {"verdict": found.calibrator.diagnostics_.attrs["verdict"]},
                "warnings": list(messages),
                "versions": {
                    "bayescal": __version__,
                    "python": platform.python_version(),
                    **{package: importlib.metadata.version(package) for package in PACKAGES},
                },
            }
        )
        picture = _picture(found, options.consistency)
        write_table(measures, stage / "measures.csv")
        write_table(curve, stage / "curve.csv")
        (stage / "reliability.png").write_bytes(picture)
        page = environment().get_template("assess.html.j2").render(**summary, image=base64.b64encode(picture).decode())
        (stage / "report.html").write_text(page, encoding="utf-8")
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        (stage / "assess.json").write_text(text + "\n", encoding="utf-8")
    return summary


def show(summary: dict[str, Any], out: str) -> None:
    """Show what was found; everything is in ``report.html`` too."""
    from bayescal.cli.screen import print_table, tell
    from bayescal.report import format_number, format_percent

    data, settings = summary["data"], summary["settings"]
    tell(
        f"{data['cases']:g} cases of {data['file']}, {data['events']:g} of them {data['positive']}; forecast "
        f"{settings['proba']}, curve {settings['curve']}."
    )
    print_table(
        "How calibrated the forecast is",
        ["measure", "mean", f"{format_percent(settings['ci_prob'])} interval", "point estimate"],
        [
            [
                row["title"],
                format_number(row["mean"], 3),
                f"{format_number(row['lower'], 3)} to {format_number(row['upper'], 3)}",
                "not finite" if row["estimate"] is None else format_number(row["estimate"], 3),
            ]
            for row in summary["measures"]
        ],
    )
    tell(
        f"The calibration error (ICI) is below {summary['small_error']:g} with probability "
        f"{format_number(summary['probability_of_small_error'], 2)}; exact calibration, as probable as not beforehand, "
        f"has probability {format_number(summary['probability_calibrated'], 2)}."
    )
    if summary["diagnostics"]["verdict"] == "failed":
        tell("Convergence failed: see the warning.")
    tell(f"Written to {out}: report.html (read this), assess.json, measures.csv, curve.csv, reliability.png.")


def _picture(found: "Assessment", consistency: bool) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from bayescal.plots.reliability import plot_reliability
    from bayescal.report import DPI

    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # a name in letters that the font lacks stands in the text of the page
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        plot_reliability(found, ci_prob=found.ci_prob, consistency=consistency, ax=figure.subplots())
        figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
