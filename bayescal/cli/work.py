"""What the commands do: a table in, a fit, files out.

What a user gives is judged first, and only then is imported what takes seconds: scikit-learn, PyMC, matplotlib.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescal.calibrators.files import load
from bayescal.cli.guard import collected_warnings, in_options, say
from bayescal.registry import CALIBRATORS
from bayescal.tables import (
    Table,
    TableError,
    add_columns,
    check_input,
    check_not_read,
    check_output,
    read_table,
    staged_outputs,
    write_table,
)
from bayescal.validation import (
    LabelValueError,
    NoPosteriorError,
    ParameterValueError,
    ScoreValueError,
    WeightValueError,
    check_choice,
    check_fraction,
    check_labels,
    check_sample_weight,
    check_scores,
    check_threshold,
)

if TYPE_CHECKING:
    from bayescal.calibrators.base import Calibrator


@dataclass(frozen=True)
class FitOptions:
    """The options of ``bayescal fit``."""

    score: tuple[str, ...]
    label: str
    positive: str | None = None
    method: str = "auto"
    score_kind: str = "proba"
    inference: str = "nuts"
    weight: str | None = None
    ci_prob: float = 0.9
    seed: int = 0
    draws: int = 1000
    chains: int = 4
    tune: int | None = None


PICTURES = ("calibration_map.png", "reliability.png", "surface.png")  # of one score the first two, else the last
OUTPUTS = ("calibrated.csv", "posterior.nc", "report.html", "summary.json", *PICTURES)


def demo_fits(out: str) -> list[tuple[FitOptions, str]]:
    """Options and folder of the demonstration's fits: of one of the shipped rain forecasts, and of all four."""
    four = FitOptions(score=("ens", "emos", "logistic", "epc"), label="rain", method="platt")
    return [(FitOptions(score=("ens",), label="rain"), out), (four, str(Path(out) / "four_forecasts"))]


def fit_file(path: str, options: FitOptions, out: str) -> dict[str, Any]:
    """Fit the rows of a file and write everything that comes out; returns what is in ``summary.json``."""
    _check_options(options)
    columns = [*options.score, *([options.weight] if options.weight is not None else [])]
    for name in OUTPUTS:
        check_not_read(Path(out) / name, path)
    table = read_rows(path, columns, options.label)
    classes = _classes(table, options)
    names = table.columns[: len(options.score)]
    scores = pd.DataFrame(table.scores[:, : len(names)], columns=list(names))
    weight = table.scores[:, -1] if options.weight is not None else None
    with located(table):
        for name in names:
            check_scores(scores[name], options.score_kind, name=f"score column {name!r}")
        check_scores(scores, options.score_kind, columns="several" if len(names) > 1 else "one")
        check_sample_weight(weight, len(scores))
    with staged_outputs(out, _left_by_an_earlier_fit(out)) as stage:
        _announce(options, len(scores))
        from bayescal.report import Source, draw_figures, render_report, summarise

        calibrator = _unfitted(options, classes)
        with located(table), collected_warnings(names) as messages:
            calibrator.fit(scores, table.labels, weight)
        results = _results(calibrator, scores, options.ci_prob)
        source = Source(
            "standard input" if path == "-" else Path(path).name,
            scores=tuple(names),
            label=options.label.strip(),
            weight=options.weight,
        )
        summary = summarise(calibrator, source, ci_prob=options.ci_prob, seed=options.seed, messages=messages)
        if summary["diagnostics"] is not None:
            summary["diagnostics"]["message"] = in_options(summary["diagnostics"]["message"])
        figures = draw_figures(calibrator, ci_prob=options.ci_prob)
        write_table(add_columns(table.frame, results), stage / "calibrated.csv")
        calibrator.save(stage / "posterior.nc")
        for name, png in figures.items():
            (stage / name).write_bytes(png)
        (stage / "report.html").write_text(render_report(summary, figures), encoding="utf-8")
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        (stage / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def predict_file(
    model: str, path: str, out: str, *, score: tuple[str, ...], ci_prob: float | None, threshold: float | None
) -> int:
    """Calibrate the rows of a file with a saved model, and write them; returns how many."""
    if ci_prob is not None:
        check_fraction(ci_prob, "--ci-prob")
    if threshold is not None:
        check_threshold(threshold, "--threshold")
    check_input(path)
    check_output(out)
    check_not_read(out, path, model)
    calibrator = load(model)
    if hasattr(calibrator, "latent"):
        raise ParameterValueError(
            f"{model} classifies features, which `bayescal predict` does not read; use bc.load in Python."
        )
    if not hasattr(calibrator, "_columns"):
        raise ParameterValueError(
            f"{model} adapts to another place, which `bayescal shift` does from the tables; use bc.load in Python."
        )
    if calibrator._columns == "classes":
        raise ParameterValueError(
            f"{model} calibrates several classes, which `bayescal predict` does not write; use bc.load in Python."
        )
    if calibrator._is_point and (ci_prob is not None or threshold is not None):
        raise NoPosteriorError(
            f"{'--threshold' if ci_prob is None else '--ci-prob'} needs posterior draws, and {model} holds a point "
            "estimate; leave it out, or fit with --inference nuts."
        )
    table = read_rows(path, _columns_of(calibrator, model, score), None)
    with located(table):
        results = _results(calibrator, table.scores, 0.9 if ci_prob is None else ci_prob)
        if threshold is not None:
            results["exceedance"] = calibrator.predict_exceedance(table.scores, threshold)[:, 1]
    write_table(add_columns(table.frame, results), out)
    return len(results)


def _left_by_an_earlier_fit(out: str) -> tuple[str, ...]:
    """Pictures that are a fit's, by what stands beside them; without it they may be anybody's."""
    beside = (Path(out) / name for name in OUTPUTS if name not in PICTURES)
    return PICTURES if all(file.is_file() for file in beside) else ()


def _columns_of(calibrator: "Calibrator", model: str, given: tuple[str, ...]) -> list[str]:
    """Columns to read, in the order of the fit's."""
    fitted = [str(name) for name in getattr(calibrator, "feature_names_in_", [])]
    size = calibrator._n_scores
    if not given and not fitted:
        raise ParameterValueError(
            f"{model} was fitted without column names; give the column of each of its {size} scores in --score."
        )
    if given and len(given) != size:
        times = "once" if size == 1 else f"{size} times, for the scores of the fit in their order"
        names = f" ({', '.join(fitted)})" if fitted else ""
        raise ParameterValueError(f"--score must be given {times}{names} for {model}, got {len(given)}.")
    by_name = not given or sorted(given) == sorted(fitted)  # in whatever order they were typed
    return fitted if by_name else list(given)


def read_rows(path: str, columns: list[str], label: str | None) -> Table:
    """A table with at least one row."""
    table = read_table(path, score_columns=columns, label_column=label)
    if not len(table.scores):
        raise TableError(f"{table.source} has a header and no rows; give at least one.")
    return table


def _check_options(options: FitOptions) -> None:
    check_choice(options.method, list(CALIBRATORS), "--method")
    check_fraction(options.ci_prob, "--ci-prob")
    entry, count = CALIBRATORS[options.method], len(options.score)
    if entry.columns == "classes":
        raise ParameterValueError(
            f"method {options.method!r} calibrates several classes, which `bayescal fit` does not write; "
            f"use bc.{entry.class_name} in Python."
        )
    wanted = "one" if count == 1 else "several"
    if entry.columns not in ("any", wanted):
        others = ", ".join(name for name, other in CALIBRATORS.items() if other.columns in ("any", wanted))
        what = "reads one score" if entry.columns == "one" else "fuses two or more scores"
        raise ParameterValueError(
            f"method {options.method!r} {what}, and --score was given {count} time{'s' if count > 1 else ''}; methods "
            f"for that are {others}."
        )
    offered = entry.inferences
    if options.inference not in offered:
        raise ParameterValueError(
            f"method {options.method!r} offers no --inference {options.inference}; give --inference "
            f"{' or '.join(offered)}, or choose another --method."
        )


def _unfitted(options: FitOptions, classes: list[Any]) -> "Calibrator":
    calibrator = CALIBRATORS[options.method].load()
    settings = {
        "score_kind": options.score_kind,
        "inference": options.inference,
        "draws": options.draws,
        "tune": options.tune,
        "chains": options.chains,
        "random_state": options.seed,
        "classes": classes,
    }
    accepted = inspect.signature(calibrator).parameters  # no sampler's by mrmic, no inference by auto
    return calibrator(**{name: value for name, value in settings.items() if name in accepted})


def _classes(table: Table, options: FitOptions) -> list[Any]:
    """Negative and positive class."""
    assert table.labels is not None
    name = f"{table.source}: label column {options.label.strip()!r}"
    positive = None if options.positive is None else options.positive.strip()
    seen = np.unique(table.labels).tolist()
    if len(seen) == 1 and positive and positive != str(seen[0]):
        with suppress(ValueError):  # a word is no label among whole numbers
            return [seen[0], type(seen[0])(positive)]  # the class that no case shows has been named
    if len(seen) == 1 and seen[0] not in (-1, 0, 1):  # of these the other class is known
        raise LabelValueError(
            f"{name} holds the single class {seen[0]!r}; add cases of the other class, or name that one in --positive."
        )
    classes = check_labels(table.labels, len(table.labels), name=name).classes.tolist()
    if positive is None:
        return classes
    words = [str(label) for label in classes]
    if positive not in words:
        raise LabelValueError(
            f"--positive must be a label of {name}, which holds {words[0]!r} and {words[1]!r}, "
            f"got {options.positive!r}."
        )
    return classes if positive == words[1] else classes[::-1]


def _results(calibrator: "Calibrator", scores: Any, ci_prob: float) -> pd.DataFrame:
    """The columns that go to the right of the rows."""
    if calibrator._is_point:
        return pd.DataFrame({"mean": calibrator.predict_proba(scores)[:, 1]})
    return calibrator.predict_table(scores, ci_prob=ci_prob)


@contextmanager
def located(table: Table) -> Iterator[None]:
    """Say the line of the file where an error says the row of an array."""
    try:
        yield
    except (ScoreValueError, LabelValueError, WeightValueError) as error:
        text = re.sub(r"\bat row (\d+)", lambda match: f"at {table.place(int(match[1]))}", str(error))
        raise type(error)(f"{table.source}: {text}") from None


def _announce(options: FitOptions, rows: int) -> None:
    """Tell somebody who waits at a terminal why."""
    if options.inference == "nuts" and sys.stderr.isatty():
        say(f"fitting {options.method} to {rows} rows; the first fit on a machine compiles its models, up to a minute")
