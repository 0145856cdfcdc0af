"""What ``bayescal plan`` does: scores of a pilot in, how many labelled cases are needed out.

As in `work`, what a user gives is judged first, and only then is imported what takes seconds.
"""

import importlib.metadata
import io
import json
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescal import __version__
from bayescal.cli.guard import collected_warnings, say
from bayescal.cli.work import FitOptions, _classes, located, read_rows
from bayescal.registry import CALIBRATORS, curve_names
from bayescal.tables import check_input, check_not_read, staged_outputs, write_table
from bayescal.validation import (
    ParameterValueError,
    check_choice,
    check_count,
    check_fraction,
    check_scores,
)

if TYPE_CHECKING:
    from bayescal.evaluation.planning import Plan

OUTPUTS = ("plan.csv", "plan.json", "plan.png")
SCHEMA = 1  # of plan.json


@dataclass(frozen=True)
class PlanOptions:
    """The options of ``bayescal plan``."""

    score: str
    label: str | None = None
    positive: str | None = None
    method: str = "platt"
    score_kind: str = "proba"
    sizes: tuple[int, ...] = (50, 100, 200, 400, 800, 1600)
    width: float = 0.1
    at: tuple[float, ...] | None = None
    assurance: float = 0.8
    repeats: int = 30
    ci_prob: float = 0.9
    seed: int = 0
    draws: int = 500
    chains: int = 2


def split_numbers(given: str, option: str, kind: type) -> tuple[Any, ...]:
    """Numbers that commas separate.

    >>> split_numbers("50, 200", "--sizes", int)
    (50, 200)
    """
    try:
        return tuple(kind(text) for text in given.split(","))
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ParameterValueError(f"{option} must be {what} that commas separate, got {given!r}.") from None


def plan_file(path: str, options: PlanOptions, out: str) -> dict[str, Any]:
    """Plan from the scores of a file and write everything that comes out; returns what is in ``plan.json``."""
    _check_options(options)
    check_input(path)
    for name in OUTPUTS:
        check_not_read(Path(out) / name, path)
    table = read_rows(path, [options.score], options.label)
    name = table.columns[0]
    scores = pd.Series(table.scores[:, 0], name=name)
    classes = None
    if options.label is not None:
        classes = _classes(table, FitOptions((options.score,), options.label, options.positive))
    with located(table):
        check_scores(scores, options.score_kind, name=f"score column {name!r}")
    with staged_outputs(out) as stage:
        if sys.stderr.isatty():
            say(f"fitting {options.method} {options.repeats * len(options.sizes)} times; the first compiles its model")
        from bayescal.evaluation.planning import plan
        from bayescal.report import PACKAGES, plain_values

        calibrator = CALIBRATORS[options.method].load()(score_kind=options.score_kind, classes=classes)
        with located(table), collected_warnings([name]) as messages:
            found = plan(
                scores,
                table.labels,
                calibrator=calibrator,
                sizes=options.sizes,
                width=options.width,
                at=options.at,
                ci_prob=options.ci_prob,
                assurance=options.assurance,
                repeats=options.repeats,
                draws=options.draws,
                chains=options.chains,
                random_state=options.seed,
            )
        rows = found.table.reset_index()
        summary = plain_values(
            {
                "schema": SCHEMA,
                "data": {
                    "file": "standard input" if path == "-" else Path(path).name,
                    "rows": len(scores),
                    "positive": None if classes is None else classes[1],
                },
                "settings": {**asdict(options), "score": name},
                "answer": found.answer,
                "needed": found.needed,
                "needed_range": found.needed_range,
                "by_size": rows.to_dict("records"),
                "diagnostics": None if classes is None else {"verdict": "passed" if messages.converged else "failed"},
                "warnings": list(messages),
                "versions": {
                    "bayescal": __version__,
                    "python": platform.python_version(),
                    **{package: importlib.metadata.version(package) for package in PACKAGES},
                },
            }
        )
        write_table(rows, stage / "plan.csv")
        (stage / "plan.png").write_bytes(_picture(found))
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        (stage / "plan.json").write_text(text + "\n", encoding="utf-8")
    return summary


def show(summary: dict[str, Any], out: str) -> None:
    """Show what was found."""
    from bayescal.cli.screen import print_table, tell
    from bayescal.report import format_number, format_percent

    data, settings = summary["data"], summary["settings"]
    curve = "taken at their word" if settings["label"] is None else f"with the labels {settings['label']} as a pilot"
    tell(
        f"{data['rows']} scores {settings['score']} of {data['file']}, {curve}. Method {settings['method']}, "
        f"{settings['repeats']} simulations of each size, seed {settings['seed']}."
    )
    print_table(
        f"Mean width of {format_percent(settings['ci_prob'])} intervals",
        ["labelled cases", "mean", "10 to 90 % of simulations", f"at most {settings['width']:g}", "coverage"],
        [
            [
                str(row["n"]),
                format_number(row["width_mean"], 3),
                f"{format_number(row['width_lower'], 3)} to {format_number(row['width_upper'], 3)}",
                format_percent(round(row["probability"], 2)),
                format_percent(round(row["coverage"], 2)),
            ]
            for row in summary["by_size"]
        ],
    )
    missing = [str(row["n"]) for row in summary["by_size"] if row["one_class"] > 0]
    if missing:
        tell(f"Some simulations of {', '.join(missing)} cases had none of one class; their intervals are the prior's.")
    tell(summary["answer"])
    tell(f"Written to {out}: {', '.join(OUTPUTS)}.")


def _check_options(options: PlanOptions) -> None:
    """Refuse what no data could mend."""
    suited = curve_names()
    check_choice(options.method, suited, "--method")
    for name in ("ci_prob", "width", "assurance"):
        check_fraction(getattr(options, name), f"--{name.replace('_', '-')}")
    check_count(options.repeats, "--repeats", 2)
    for size in options.sizes:
        check_count(size, "--sizes")
    if options.at is not None:
        check_scores(options.at, options.score_kind, name="--at")
    if options.label is None and options.positive is not None:
        raise ParameterValueError("--positive has no meaning without --label; leave it out.")
    if options.label is None and options.score_kind == "raw":
        raise ParameterValueError("--score-kind raw states no probability to simulate from; give labels in --label.")


def _picture(found: "Plan") -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from bayescal.plots.plan import plot_plan
    from bayescal.report import DPI

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    plot_plan(found, ax=figure.subplots())
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
