"""What the commands show when they are done."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayescal.report import (
    SCORE_KIND_WORDS,
    digits_of,
    format_general,
    format_number,
    format_percent,
    title_of,
)

FEW = ("ici", "emax", "bias", "slope")  # measures that fit on a screen; the report has all
SCORES_SHOWN = 6


def introduce_demo() -> None:
    """Say what the demonstration is about."""
    tell(
        "Rain at Niamey, Niger, on 92 days of 2016, and four forecasts of its probability "
        "(licence and source: see bayescal/data/README.md)."
    )


def introduce_demo_fit(scores: tuple[str, ...]) -> None:
    """Say what one fit of the demonstration is about."""
    if len(scores) == 1:
        tell(f"\nFirst `{scores[0]}` alone, the share of the members of the raw ECMWF ensemble that rain:")
    else:
        tell(
            "\nThen all four at once: `ens`; `emos`, its statistical correction; `logistic`, learned from past days; "
            "`epc`, the climatology of the season:"
        )


def show_fit(summary: dict[str, Any], out: str) -> None:
    """Show the results of a fit; everything is in ``report.html`` too."""
    data, settings = summary["data"], summary["settings"]
    kind = SCORE_KIND_WORDS[data["score_kind"]]
    names = [score["name"] for score in data["scores"]]
    several = len(names) > 1
    tell(
        f"{data['cases']:g} cases of {data['file']}: {data['positives']:g} with {data['label']} = {data['positive']}, "
        f"{data['negatives']:g} with {data['negative']}. "
        f"Score{'s' if several else ''} {', '.join(names)}, {'each ' if several else ''}read as {kind}."
    )
    if settings["inference"] == "point":
        tell(f"Method {settings['method']}, point estimate: no intervals.")
    else:
        tell(
            f"Method {settings['method']}, {settings['chains']} chains of {settings['draws']} draws, "
            f"seed {settings['seed']}."
        )
    if summary["miscalibration"] is not None:
        _show_miscalibration(summary)
    if several:
        _show_combinations(summary)
    else:
        _show_map(summary)
    if summary["stacking"] is not None:
        weights = ", ".join(f"{row['method']} {format_number(row['weight'])}" for row in summary["stacking"])
        tell(f"Stacking weights: {weights}.")
    if summary["diagnostics"] is not None:
        verdict = summary["diagnostics"]["verdict"]
        # the reason for any other verdict has been said as a warning
        tell(
            f"Convergence {verdict}: {summary['diagnostics']['message'] if verdict == 'passed' else 'see the warning.'}"
        )
    pictures = "surface.png" if several else "two pictures"
    tell(f"Written to {out}: report.html (read this), calibrated.csv, posterior.nc, summary.json, {pictures}.")


def _show_miscalibration(summary: dict[str, Any]) -> None:
    level, digits = format_percent(summary["settings"]["ci_prob"]), digits_of(summary)
    rows = {row["measure"]: row for row in summary["miscalibration"]}
    print_table(
        "How miscalibrated the raw score was",
        ["measure", "mean", f"{level} interval", "meaning"],
        [
            [
                title_of(name),
                format_number(rows[name]["mean"], digits),
                _interval(rows[name], digits),
                rows[name]["meaning"],
            ]
            for name in FEW
        ],
    )


def _show_map(summary: dict[str, Any]) -> None:
    rows = [row for row in summary["map"] if row["within_observed_scores"]]
    shown = sorted({round(k * (len(rows) - 1) / (SCORES_SHOWN - 1)) for k in range(SCORES_SHOWN)}) if rows else []
    cells = [[format_general(rows[k]["score"])] for k in shown]
    _print_answers("What a score stands for", ["score"], cells, [rows[k] for k in shown], summary)


def _show_combinations(summary: dict[str, Any]) -> None:
    rows = summary["combinations"]
    cells = [
        [
            *(format_general(score, 3) for score in row["scores"].values()),
            f"{row['positives']:g} of {row['cases']:g}" if row["cases"] else "no case",
        ]
        for row in rows
    ]
    _print_answers("What the scores stand for", [*rows[0]["scores"], "observed nearby"], cells, rows, summary)


def _print_answers(
    title: str, header: list[str], cells: list[list[str]], rows: list[dict[str, Any]], summary: dict[str, Any]
) -> None:
    """A table of probabilities, with their intervals if there are any, to the right of the cells."""
    digits, with_interval = digits_of(summary), summary["settings"]["inference"] == "nuts"
    level = [f"{format_percent(summary['settings']['ci_prob'])} interval"] if with_interval else []
    print_table(
        title,
        [*header, "probability", *level],
        [
            [*first, format_number(row["mean"], digits), *([_interval(row, digits)] if with_interval else [])]
            for first, row in zip(cells, rows, strict=True)
        ],
    )


def _interval(row: dict[str, Any], digits: int) -> str:
    if row["lower"] is None:
        return "-"
    return f"{format_number(row['lower'], digits)} to {format_number(row['upper'], digits)}"


def print_table(title: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table; whatever came from the user is no markup."""
    table = Table(title=Text(title), title_justify="left")
    for name in header:
        table.add_column(Text(name), justify="left" if name in ("measure", "meaning", "class", "column") else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    _console().print(table)


def tell(text: str) -> None:
    """A line, or several if it is long."""
    _console().print(Text(text))  # Text: names from the user are no markup


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False)
