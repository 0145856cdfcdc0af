"""What ``bayescal shift`` does: labelled and unlabelled cases in, class proportions and adapted probabilities out.

As in `work`, what a user gives is judged first, and only then is imported what takes seconds.
"""

import inspect
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescal.cli.guard import collected_warnings, say
from bayescal.cli.work import located, read_rows
from bayescal.registry import CALIBRATORS
from bayescal.tables import Table, TableError, add_columns, check_input, check_not_read, staged_outputs, write_table
from bayescal.validation import (
    CLASS_SCORE_KINDS,
    LabelValueError,
    ParameterValueError,
    check_choice,
    check_class_labels,
    check_class_scores,
    check_fraction,
    check_labels,
    check_scores,
)

if TYPE_CHECKING:
    from bayescal.label_shift.adapter import LabelShiftAdapter

OUTPUTS = ("adapted.csv", "priors.png", "report.html", "shift.nc", "summary.json")
UNCALIBRATED = "none"
DEFAULTS = {"one": "platt", "classes": "bias-corrected-temperature"}  # calibrators of one column, and of several


@dataclass(frozen=True)
class ShiftOptions:
    """The options of ``bayescal shift``."""

    scores: tuple[str, ...]
    label: str
    method: str = "bayes"
    calibrator: str | None = None
    score_kind: str = "proba"
    inference: str = "nuts"
    classes: tuple[str, ...] | None = None
    prior: tuple[float, ...] | None = None
    conservative: bool = False
    ci_prob: float = 0.9
    seed: int = 0
    draws: int = 1000


def split_names(given: list[str]) -> tuple[str, ...]:
    """Names that commas separate, in one option or in several.

    >>> split_names(["p_a, p_b", "p_c"])
    ('p_a', 'p_b', 'p_c')
    """
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def split_numbers(given: str) -> tuple[float, ...]:
    """Numbers that commas separate.

    >>> split_numbers("0.2, 0.8")
    (0.2, 0.8)
    """
    try:
        return tuple(float(text) for text in given.split(","))
    except ValueError:
        raise ParameterValueError(f"--prior must be numbers that commas separate, got {given!r}.") from None


def shift_files(source: str, target: str, options: ShiftOptions, out: str) -> dict[str, Any]:
    """Adapt to the cases of a file and write everything that comes out; returns what is in ``summary.json``."""
    name = _check_options(options)
    if source == target == "-":
        raise TableError("only one of --source and --target can be standard input; give a file for the other.")
    for path in (source, target):
        check_input(path)
        for file in OUTPUTS:
            check_not_read(Path(out) / file, path)
    here = read_rows(source, list(options.scores), options.label)
    classes = _classes(here, options)
    there = read_rows(target, list(options.scores), None)
    tables = [_judged(table, options, fitting=table is here) for table in (here, there)]
    with staged_outputs(out) as stage:
        if options.inference == "nuts" and name != UNCALIBRATED and sys.stderr.isatty():
            say(f"fitting {name} to {len(tables[0])} rows; the first fit on a machine compiles its model")
        from bayescal.cli.shift_report import Names, draw_priors, render, summarise

        adapter = _unfitted(options, name, classes)
        with collected_warnings(here.columns) as messages:
            with located(here):
                adapter.fit(tables[0], here.labels)
            with located(there):
                adapter.adapt(tables[1])
                results, changed = _results(adapter, tables[1], options.ci_prob)
        summary = summarise(
            adapter,
            Names(_named(source), _named(target), here.columns, options.label.strip(), name),
            seed=options.seed,
            ci_prob=options.ci_prob,
            changed=changed,
            messages=messages,
            converged=messages.converged,
        )
        picture = draw_priors(adapter, options.ci_prob)
        write_table(add_columns(there.frame, results), stage / "adapted.csv")
        adapter.save(stage / "shift.nc")
        (stage / "priors.png").write_bytes(picture)
        (stage / "report.html").write_text(render(summary, picture), encoding="utf-8")
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        (stage / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def _check_options(options: ShiftOptions) -> str:
    """Refuse what no data could mend; returns the name of the calibrator."""
    check_fraction(options.ci_prob, "--ci-prob")
    count = len(options.scores)
    if not count:
        raise ParameterValueError("--scores must name at least one column, got none.")
    kind = "one" if count == 1 else "classes"
    suited = [
        n for n, entry in CALIBRATORS.items() if entry.columns in (("one", "any") if count == 1 else ("classes",))
    ]
    name = options.calibrator or DEFAULTS[kind]
    if name == UNCALIBRATED and count > 1:
        if options.score_kind != "proba":
            raise ParameterValueError("--calibrator none takes the scores as probabilities; leave --score-kind out.")
        return name
    if name not in suited:
        none = [] if count == 1 else [UNCALIBRATED]
        raise ParameterValueError(
            f"--calibrator must be one of {', '.join([*suited, *none])} for {count} score "
            f"column{'s' * (count > 1)}, got {name!r}."
        )
    if kind == "classes":
        check_choice(options.score_kind, CLASS_SCORE_KINDS, "--score-kind of several columns")
    offered = CALIBRATORS[name].inferences
    if options.inference not in offered:
        raise ParameterValueError(f"--calibrator {name} offers --inference {' or '.join(offered)} only.")
    if options.method == "bayes" and options.inference == "point":
        raise ParameterValueError("--method bayes needs --inference nuts; a point estimate goes with --method em.")
    if options.conservative and options.method != "bayes":
        raise ParameterValueError("--conservative is for --method bayes; leave it out.")
    return name


def _judged(table: Table, options: ShiftOptions, *, fitting: bool) -> pd.DataFrame:
    """The scores of a table, judged."""
    scores = pd.DataFrame(table.scores, columns=list(table.columns))
    with located(table):
        if len(table.columns) == 1:
            check_scores(scores, options.score_kind, name=f"score column {table.columns[0]!r}", fitting=fitting)
        else:
            names = ", ".join(table.columns)
            check_class_scores(scores, options.score_kind, name=f"the columns {names}", fitting=fitting)
    return scores


def _classes(table: Table, options: ShiftOptions) -> list[Any]:
    """Labels in the order of the columns; of one column, the negative and the positive one."""
    assert table.labels is not None
    column, size = f"label column {options.label.strip()!r}", len(table.labels)
    given: list[Any] | None = None
    if options.classes is not None:
        whole = table.labels.dtype.kind in "iu"
        try:
            given = [int(word) if whole else word for word in options.classes]
        except ValueError:
            raise LabelValueError(
                f"{table.source}: {column} holds whole numbers, and --classes names {', '.join(options.classes)}."
            ) from None
    names = list(table.columns)
    try:
        if len(names) == 1:
            return check_labels(table.labels, size, classes=given, name=column).classes.tolist()
        if given is None:
            given = classes_in_names(names, sorted({str(label) for label in table.labels.tolist()}))
            if given is not None and table.labels.dtype.kind in "iu":
                given = [int(word) for word in given]
        return check_class_labels(table.labels, size, len(names), classes=given, names=names).classes.tolist()
    except (LabelValueError, ParameterValueError) as error:
        text = re.sub(r"^y holds", f"{column} holds", str(error))
        text = text.replace("classes must name", "--classes must name").replace("the columns of scores", "--scores")
        text = re.sub(r"among classes=(\[.*\])", r"among the classes \1", text).replace(" of scores", "")
        raise type(error)(f"{table.source}: {text}") from None


def classes_in_names(names: list[str], labels: list[str]) -> list[str] | None:
    """Labels that the columns are named after, if all names are a label with the same beginning and the same end.

    >>> classes_in_names(["p_dog", "p_cat"], ["cat", "dog"])
    ['dog', 'cat']
    >>> classes_in_names(["score1", "score2"], ["cat", "dog"])
    """
    for label in labels:
        for start in (match.start() for match in re.finditer(re.escape(label), names[0])):
            begin, end = names[0][:start], names[0][start + len(label) :]
            if all(n.startswith(begin) and n.endswith(end) and len(n) > len(begin + end) for n in names):
                found = [name[len(begin) : len(name) - len(end)] for name in names]
                if set(labels) <= set(found) and len(set(found)) == len(found):
                    return found
    return None


def _unfitted(options: ShiftOptions, name: str, classes: list[Any]) -> "LabelShiftAdapter":
    from bayescal.label_shift.adapter import LabelShiftAdapter
    from bayescal.label_shift.calibrated import Calibrated

    if name == UNCALIBRATED:
        calibrator: Any = Calibrated(classes)
    else:
        made = CALIBRATORS[name].load()
        settings = {
            "score_kind": options.score_kind,
            "inference": options.inference,
            "random_state": options.seed,
            "classes": classes,
        }
        accepted = inspect.signature(made).parameters  # `auto` takes no inference
        calibrator = made(**{key: value for key, value in settings.items() if key in accepted})
    prior = None if options.prior is None else options.prior[0] if len(options.prior) == 1 else list(options.prior)
    return LabelShiftAdapter(
        calibrator,
        options.method,
        prior,
        source="labels" if options.conservative else "bootstrap",
        draws=options.draws,
        random_state=options.seed,
    )


def _results(adapter: "LabelShiftAdapter", scores: Any, ci_prob: float) -> tuple[pd.DataFrame, int]:
    """The columns that go to the right of the target's rows, and for how many the most probable class changes."""
    mean = adapter.predict_proba(scores)
    before = np.asarray(adapter.calibrator_.predict_proba(scores))
    columns = {"mean": mean}
    if adapter._q is not None:
        lower, upper = np.moveaxis(adapter.predict_interval(scores, ci_prob), -1, 0)
        columns |= {"lower": lower, "upper": upper}
    results = {
        f"{name}_{label}": values[:, k]
        for k, label in enumerate(adapter.classes_.tolist())
        for name, values in columns.items()
    }
    return pd.DataFrame(results), int((mean.argmax(axis=1) != before.argmax(axis=1)).sum())


def _named(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name
