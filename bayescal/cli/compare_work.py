"""What ``bayescal compare`` does: labelled cases in, several calibrations judged on left-out cases out.

As in `work`, what a user gives is judged first, and only then is imported what takes seconds.
"""

import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescal.cli.guard import collected_warnings, say
from bayescal.cli.work import FitOptions, _classes, located, read_rows
from bayescal.registry import CALIBRATORS
from bayescal.tables import Table, check_not_read, staged_outputs, write_table
from bayescal.validation import (
    CalibrationWarning,
    ConvergenceWarning,
    ParameterValueError,
    check_sample_weight,
    check_scores,
)

if TYPE_CHECKING:
    from bayescal.calibrators.base import Calibrator

OUTPUTS = ("compare.csv", "compare.json")
POINT = "-point"  # behind the name of a method: its point estimate
NUMBERS = ("elpd", "se", "elpd_diff", "dse", "p", "pareto_k", "high_k", "stacking_weight", "pseudo_bma_weight")


@dataclass(frozen=True)
class CompareOptions:
    """The options of ``bayescal compare``."""

    score: tuple[str, ...]
    label: str
    method: tuple[str, ...] = ()
    positive: str | None = None
    score_kind: str = "proba"
    weight: str | None = None
    folds: int = 10
    seed: int = 0
    draws: int = 1000


def compare_file(path: str, options: CompareOptions, out: str | None) -> dict[str, Any]:
    """Compare calibrations of the rows of a file; returns what is in ``compare.json``, written if `out` is given."""
    _check_methods(options)
    for name in OUTPUTS if out is not None else ():
        check_not_read(Path(str(out)) / name, path)
    table = read_rows(path, [*options.score, *([options.weight] if options.weight is not None else [])], options.label)
    fit_options = FitOptions(score=options.score, label=options.label, positive=options.positive)
    classes = _classes(table, fit_options)
    names = table.columns[: len(options.score)]
    scores = pd.DataFrame(table.scores[:, : len(names)], columns=list(names))
    weight = table.scores[:, -1] if options.weight is not None else None
    with located(table):
        for name in names:
            check_scores(scores[name], options.score_kind, name=f"score column {name!r}")
        check_scores(scores, options.score_kind, columns="several" if len(names) > 1 else "one")
        check_sample_weight(weight, len(scores))
    with nullcontext() if out is None else staged_outputs(out) as stage:
        chosen = options.method or _members(len(names))
        if sys.stderr.isatty():
            say(f"fitting {', '.join(chosen)} to {len(scores)} rows; the first fit on a machine compiles its models")
        from bayescal.evaluation.compare import compare

        fits = {name: _unfitted(name, options, classes) for name in chosen}
        with collected_warnings(names) as messages, _said_once(table):
            with located(table):
                for calibrator in fits.values():
                    calibrator.fit(scores, table.labels, weight)
            compared = compare(fits, cv=options.folds, random_state=options.seed)
        summary = _summarise(compared, fits, table, options, names, classes, path)
        summary["warnings"] = list(messages)
        summary["diagnostics"] = {"verdict": "passed" if messages.converged else "failed"}
        if stage is not None:
            write_table(compared.reset_index(), stage / "compare.csv")
            text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
            (stage / "compare.json").write_text(text + "\n", encoding="utf-8")
    return summary


def show(summary: dict[str, Any], out: str | None) -> None:
    """Show what came out."""
    from bayescal.cli.screen import print_table, tell
    from bayescal.report import SCORE_KIND_WORDS

    data = summary["data"]
    tell(
        f"{data['cases']:g} cases of {data['file']}: {data['positives']:g} with {data['label']} = {data['positive']}. "
        f"Score{'s' * (len(data['scores']) > 1)} {', '.join(data['scores'])}, read as "
        f"{SCORE_KIND_WORDS[data['score_kind']]}."
    )
    print_table(
        "How well left-out cases are predicted",
        ["calibrator", "by", "elpd (se)", "behind (se)", "k", "stack", "BMA+"],
        [
            [
                row["calibrator"],
                row["method"],
                _with_se(row["elpd"], row["se"]),
                "-" if row["rank"] == 0 else _with_se(row["elpd_diff"], row["dse"]),
                "-" if row["pareto_k"] is None else f"{row['pareto_k']:.2f}",
                *("-" if row[name] is None else f"{row[name]:.2f}" for name in NUMBERS[-2:]),
            ]
            for row in summary["table"]
        ],
    )
    tell(f"{summary['message'][0].upper()}{summary['message'][1:]}")
    for one in summary["sensitivity"]:
        tell(f"{one['calibrator']}: {one['message']}")
    if out is not None:
        tell(f"Written to {out}: {', '.join(OUTPUTS)}.")


def _with_se(value: float | None, se: float | None) -> str:
    if value is None:
        return "-inf"
    return f"{value:.1f}" + ("" if se is None else f" ({se:.1f})")


def _check_methods(options: CompareOptions) -> None:
    """Refuse what no data could mend."""
    count = len(options.score)
    wanted = ("one", "any") if count == 1 else ("several", "any")
    suited = [name for name, entry in CALIBRATORS.items() if entry.columns in wanted]
    known = [*suited, *(name + POINT for name in suited if "point" in CALIBRATORS[name].inferences)]
    for name in options.method:
        if name not in known:
            raise ParameterValueError(
                f"--method must be one of {', '.join(known)} for {count} score{'s' * (count > 1)}, got {name!r}."
            )
    if len(set(options.method)) < len(options.method) or len(options.method) == 1:
        raise ParameterValueError(
            f"--method must name two or more different methods, or none for a choice of them, got "
            f"{', '.join(options.method)}."
        )


def _members(n_scores: int) -> tuple[str, ...]:
    """Those that `auto` averages of so many scores, and their point estimates."""
    from bayescal.calibrators.stacked import MEMBERS, MOST_OF_A_SURFACE

    members = MEMBERS["one" if n_scores == 1 else "several" if n_scores <= MOST_OF_A_SURFACE else "many"]
    return (*members, *(name + POINT for name in members))


def _unfitted(name: str, options: CompareOptions, classes: list[Any]) -> "Calibrator":
    method = name.removesuffix(POINT)
    made = CALIBRATORS[method].load()
    point = name.endswith(POINT) or CALIBRATORS[method].inferences == ("point",)
    settings = {
        "score_kind": options.score_kind,
        "inference": "point" if point else "nuts",
        "draws": options.draws,
        "random_state": options.seed,
        "classes": classes,
    }
    accepted = inspect.signature(made).parameters  # no sampler's by mrmic, no inference by auto
    calibrator: Calibrator = made(**{key: value for key, value in settings.items() if key in accepted})
    return calibrator


@contextmanager
def _said_once(table: Table) -> Iterator[None]:
    """Warnings with the line of the file, and what several fits say of the same data once."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (CalibrationWarning, ConvergenceWarning):
            warnings.simplefilter("always", category)
        yield
    said = set()
    for warning in caught:
        if not isinstance(warning.message, CalibrationWarning | ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            continue
        text = re.sub(r"\bat row (\d+)", lambda match: f"at {table.place(int(match[1]))}", str(warning.message))
        text = text.replace("Compare with method='kfold'.", "In Python, compare with method='kfold'.")
        what = re.sub(r"^[\w-]+ calibration: ", "", text)
        if what not in said:
            said.add(what)
            warnings.warn(text, warning.category, stacklevel=2)


def _summarise(
    compared: pd.DataFrame,
    fits: dict[str, "Calibrator"],
    table: Table,
    options: CompareOptions,
    names: tuple[str, ...],
    classes: list[Any],
    path: str,
) -> dict[str, Any]:
    from bayescal import __version__
    from bayescal.evaluation.sensitivity import prior_sensitivity

    first: Any = next(iter(fits.values()))
    rows, asked = first._rows, []
    for name in compared.index:
        calibrator: Any = fits[name]
        if calibrator._is_point or calibrator._name in ("auto", "copula"):  # see prior_sensitivity
            continue
        found = prior_sensitivity(calibrator)
        asked.append(
            {
                "calibrator": name,
                "message": found.attrs["message"],
                "quantities": [
                    {"quantity": quantity, **{key: _plain(value) for key, value in row.items()}}
                    for quantity, row in found.to_dict("index").items()
                ],
            }
        )
    message = re.sub(
        r"method='kfold' judges all alike, and so does cv=(\d+)",
        r"--folds \1 judges all alike",
        compared.attrs["message"],
    )
    return {
        "schema": 1,
        "bayescal": __version__,
        "data": {
            "file": "standard input" if path == "-" else Path(path).name,
            "scores": list(names),
            "score_kind": options.score_kind,
            "label": options.label.strip(),
            "negative": str(classes[0]),
            "positive": str(classes[1]),
            "weight": options.weight,
            "rows": len(table.scores),
            "cases": float(rows.weight.sum()),
            "positives": float(rows.weight @ rows.y),
        },
        "settings": {"folds": options.folds, "seed": options.seed, "draws": options.draws},
        "table": [
            {
                "calibrator": name,
                "rank": rank,
                "method": row["method"],
                **{key: _plain(row[key]) for key in NUMBERS},
                "elpd_is_minus_infinity": bool(np.isneginf(row["elpd"])),
            }
            for rank, (name, row) in enumerate(compared.to_dict("index").items())
        ],
        "message": message,
        "sensitivity": asked,
    }


def _plain(value: Any) -> Any:
    """A number as JSON has it: null where it is none, or infinite."""
    if isinstance(value, str):
        return value
    return float(value) if np.isfinite(value) else None
