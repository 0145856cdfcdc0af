"""The command line.

Here are the commands and their options, and nothing is imported that takes time, so that ``--help`` answers at once.
`work` does what a command asks for, `screen` shows what came out, `guard` turns errors into exit codes:

    0     done
    2     wrong usage or wrong input: one line on standard error, nothing written
    3     done, files written, but the sampler did not converge
    130   interrupted (Ctrl-C), nothing written
    141   whoever read the output stopped reading (as ``head`` does)
"""

from enum import StrEnum
from typing import Annotated, Any

import typer

from bayescal.cli.guard import exit_codes

__all__ = ["app", "main"]


class ScoreKind(StrEnum):
    """What the scores are."""

    proba = "proba"
    logit = "logit"
    raw = "raw"


class Inference(StrEnum):
    """How a map is fitted."""

    nuts = "nuts"
    point = "point"


class ShiftMethod(StrEnum):
    """How class proportions are found."""

    bayes = "bayes"
    em = "em"
    bbse_hard = "bbse-hard"
    bbse_soft = "bbse-soft"
    rlls_hard = "rlls-hard"
    rlls_soft = "rlls-soft"
    bayes_confusion = "bayes-confusion"


_READS = {"one": "1 score", "several": "2+ scores", "any": "1+ scores", "classes": "2+ classes"}

OutFolder = Annotated[
    str, typer.Option(metavar="DIR", help="Folder to write to; what an earlier fit wrote there is replaced.")
]

app = typer.Typer(
    name="bayescal",
    help="Turn classifier scores into probabilities with credible intervals.",
    epilog="Start with `bayescal demo`. Exit codes: 0 done; 2 wrong usage or input, nothing written; "
    "3 done, but the sampler did not converge.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone would take a third of the time that `--help` may take
)


def main() -> None:
    """Run the command line that the process was started with."""
    app(prog_name="bayescal")


def _print_version(wanted: bool) -> None:
    if wanted:
        from bayescal import __version__

        typer.echo(f"bayescal {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn classifier scores into probabilities with credible intervals."""
    del version  # its callback has answered


@app.command()
def demo(out: OutFolder = "bayescal-demo") -> None:
    """Calibrate one of four real rain forecasts, fuse all four, and show what comes out."""
    with exit_codes():
        from bayescal import datasets
        from bayescal.cli import screen, work

        screen.introduce_demo()
        summaries = []
        for options, folder in work.demo_fits(out):
            screen.introduce_demo_fit(options.score)
            summaries.append(work.fit_file(str(datasets.path_rain_niamey()), options, folder))
            screen.show_fit(summaries[-1], folder)
        for summary in summaries:
            _leave(summary)


@app.command()
def fit(
    context: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="CSV", help="Labelled cases: CSV, TSV or Parquet; - is standard input.")
    ],
    score: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Column with the score; given more than once, these scores are fused."),
    ],
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column with the observed class, one of two different labels.")
    ],
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Label whose probability is wanted.  [default: the last in sorted order]"),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="auto averages those that fit; `bayescal models` lists all.")
    ] = "auto",
    score_kind: Annotated[
        ScoreKind,
        typer.Option(help="A probability in [0, 1], log-odds, or any number that grows with the probability."),
    ] = ScoreKind.proba,
    inference: Annotated[
        Inference,
        typer.Option(help="nuts: a posterior, with intervals. point: one best estimate, the column mean alone."),
    ] = Inference.nuts,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that says how many cases each row stands for.")
    ] = None,
    ci_prob: Annotated[float, typer.Option(help="Posterior probability of the credible intervals.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same numbers.")] = 0,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws of each chain.")] = 1000,
    chains: Annotated[int, typer.Option(min=1, help="Number of chains.")] = 4,
    tune: Annotated[
        int | None, typer.Option(min=1, help="Warm-up steps of each chain.  [default: the method's own]")
    ] = None,
    out: OutFolder = "bayescal-out",
) -> None:
    """Fit a calibration to labelled cases, of one score or of several that are fused to one probability.

    Writes calibrated.csv (the rows with mean, sd, lower, upper), posterior.nc, pictures (reliability.png and
    calibration_map.png, or surface.png of several scores), report.html and summary.json, all of them or none.
    """
    with exit_codes():
        from bayescal.cli import work

        if inference is Inference.point:
            sampler = ("ci_prob", "seed", "draws", "chains", "tune")
            _refuse(context, sampler, "--inference point, which draws nothing")
        options = work.FitOptions(
            score=tuple(score),
            label=label,
            positive=positive,
            method=method,
            score_kind=score_kind.value,
            inference=inference.value,
            weight=weight,
            ci_prob=ci_prob,
            seed=seed,
            draws=draws,
            chains=chains,
            tune=tune,
        )
        summary = work.fit_file(table, options, out)
        from bayescal.cli import screen  # matplotlib: not before the input is known to be right

        screen.show_fit(summary, out)
        _leave(summary)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL.nc", help="The posterior.nc that `bayescal fit` wrote.")],
    table: Annotated[str, typer.Argument(metavar="CSV", help="New cases: CSV, TSV or Parquet; - is standard input.")],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="File to write: .csv, .tsv or .parquet; - is standard output.")
    ],
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the score, given once for each score of the fit.  [default: the names of the fit]",
        ),
    ] = None,
    ci_prob: Annotated[
        float | None, typer.Option(help="Posterior probability of the credible intervals.  [default: 0.9]")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Also write exceedance, the probability that the calibrated probability is above this."),
    ] = None,
) -> None:
    """Add calibrated probabilities to new cases.

    The columns mean, sd, lower and upper are put to the right of the rows as they came, with points for decimal
    commas; mean alone if the model was fitted with --inference point.
    """
    with exit_codes():
        from bayescal.cli import work

        rows = work.predict_file(model, table, out, score=tuple(score or ()), ci_prob=ci_prob, threshold=threshold)
        if out != "-":
            typer.echo(f"{rows} rows written to {out}")


@app.command()
def shift(
    context: typer.Context,
    source: Annotated[str, typer.Option(metavar="CSV", help="Labelled cases; - is standard input.")],
    target: Annotated[
        str, typer.Option(metavar="CSV", help="Cases of another place, without labels; - is standard input.")
    ],
    scores: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN,COLUMN,...",
            help="Columns with the score of each class, alike in both tables; or one column for two classes.",
        ),
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the source with the observed class.")],
    method: Annotated[ShiftMethod, typer.Option(help="How the proportions are found.")] = ShiftMethod.bayes,
    calibrator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A method of `bayescal models`, or none: the scores are calibrated.  "
            "[default: bias-corrected-temperature; platt for one column]",
        ),
    ] = None,
    score_kind: Annotated[
        ScoreKind, typer.Option(help="Probabilities that sum to 1, or logits; raw is for one column.")
    ] = ScoreKind.proba,
    inference: Annotated[
        Inference, typer.Option(help="Of the calibrator; point is for the methods other than bayes.")
    ] = Inference.nuts,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL,LABEL,...",
            help="Labels in the order of the columns.  [default: by the names of the columns, else in sorted order]",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,...",
            help="Known proportions of the target, which sum to 1, or Dirichlet concentrations.  [default: 0.5]",
        ),
    ] = None,
    conservative: Annotated[
        bool, typer.Option("--conservative", help="Wider intervals: source proportions from the labels alone.")
    ] = False,
    ci_prob: Annotated[float, typer.Option(help="Posterior probability of the credible intervals.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same numbers.")] = 0,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws of the proportions.")] = 1000,
    out: OutFolder = "bayescal-shift",
) -> None:
    """Find how frequent each class is in another place, and adapt its probabilities.

    Writes adapted.csv (the target's rows with mean, lower, upper of each class), shift.nc, priors.png, report.html and
    summary.json, all of them or none.
    """
    with exit_codes():
        from bayescal.cli import shift_work as work

        if not method.value.startswith("bayes"):
            _refuse(context, ("ci_prob", "draws"), f"--method {method.value}, which has no posterior")
        options = work.ShiftOptions(
            scores=work.split_names(scores),
            label=label,
            method=method.value,
            calibrator=calibrator,
            score_kind=score_kind.value,
            inference=inference.value,
            classes=None if classes is None else work.split_names(classes),
            prior=None if prior is None else work.split_numbers(prior),
            conservative=conservative,
            ci_prob=ci_prob,
            seed=seed,
            draws=draws,
        )
        summary = work.shift_files(source, target, options, out)
        from bayescal.cli import shift_report

        shift_report.show(summary, out)
        _leave(summary)


@app.command()
def plan(
    table: Annotated[
        str,
        typer.Argument(metavar="CSV", help="Cases such as those to label: CSV, TSV or Parquet; - is standard input."),
    ],
    score: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the score.")],
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the observed class, if these cases are a pilot.  [default: the score is the probability]",
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Label whose probability is wanted.  [default: the last in sorted order]"),
    ] = None,
    width: Annotated[float, typer.Option(help="Wanted width of the intervals, their mean over the scores.")] = 0.1,
    at: Annotated[
        str | None,
        typer.Option(metavar="NUMBER,...", help="Scores at which the width matters.  [default: all, as they come]"),
    ] = None,
    sizes: Annotated[str, typer.Option(metavar="NUMBER,...", help="Numbers of labelled cases to simulate.")] = (
        "50,100,200,400,800,1600"
    ),
    assurance: Annotated[float, typer.Option(help="Wanted probability that the width is reached.")] = 0.8,
    method: Annotated[str, typer.Option(metavar="NAME", help="What will be fitted to the labels.")] = "platt",
    score_kind: Annotated[
        ScoreKind, typer.Option(help="A probability, log-odds, or any number; raw needs --label.")
    ] = ScoreKind.proba,
    repeats: Annotated[int, typer.Option(min=2, help="Simulations of each size.")] = 30,
    ci_prob: Annotated[float, typer.Option(help="Posterior probability of the credible intervals.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same numbers.")] = 0,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws of each chain of a refit.")] = 500,
    chains: Annotated[int, typer.Option(min=1, help="Chains of a refit.")] = 2,
    out: OutFolder = "bayescal-plan",
) -> None:
    """Say how many labelled cases are needed for intervals of a wanted width.

    Simulates labelled data sets of several sizes and fits each. Writes plan.json, plan.csv (a row for each size) and
    plan.png, all of them or none.
    """
    with exit_codes():
        from bayescal.cli import plan_work as work

        options = work.PlanOptions(
            score=score,
            label=label,
            positive=positive,
            method=method,
            score_kind=score_kind.value,
            sizes=work.split_numbers(sizes, "--sizes", int),
            width=width,
            at=None if at is None else work.split_numbers(at, "--at", float),
            assurance=assurance,
            repeats=repeats,
            ci_prob=ci_prob,
            seed=seed,
            draws=draws,
            chains=chains,
        )
        summary = work.plan_file(table, options, out)
        work.show(summary, out)
        _leave(summary)


@app.command()
def assess(
    table: Annotated[
        str, typer.Argument(metavar="CSV", help="Forecasts and outcomes: CSV, TSV or Parquet; - is standard input.")
    ],
    proba: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the stated probability.")],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the observed class.")],
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Label whose probability was stated.  [default: the last in sorted order]"),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that says how many cases each row stands for.")
    ] = None,
    curve: Annotated[
        str, typer.Option(metavar="NAME", help="Model of the calibration curve: a method of one score.")
    ] = "auto",
    ci_prob: Annotated[float, typer.Option(help="Posterior probability of the credible intervals.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same numbers.")] = 0,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws of each chain.")] = 500,
    chains: Annotated[int, typer.Option(min=1, help="Number of chains.")] = 4,
    consistency: Annotated[
        bool, typer.Option("--consistency", help="Draw where the curve of a calibrated forecast would lie, too.")
    ] = False,
    out: OutFolder = "bayescal-assess",
) -> None:
    """Say how calibrated an existing forecast is, and how sure of that its cases let us be.

    Writes report.html, assess.json, measures.csv, curve.csv and reliability.png, all of them or none.
    """
    with exit_codes():
        from bayescal.cli import assess_work as work

        options = work.AssessOptions(
            proba=proba,
            label=label,
            positive=positive,
            weight=weight,
            curve=curve,
            ci_prob=ci_prob,
            seed=seed,
            draws=draws,
            chains=chains,
            consistency=consistency,
        )
        summary = work.assess_file(table, options, out)
        work.show(summary, out)
        _leave(summary)


@app.command()
def compare(
    table: Annotated[
        str, typer.Argument(metavar="CSV", help="Labelled cases: CSV, TSV or Parquet; - is standard input.")
    ],
    score: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Column with the score; given more than once, these scores are fused."),
    ],
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column with the observed class, one of two different labels.")
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A method of `bayescal models`, given twice or more; NAME-point is its point estimate.  "
            "[default: those that auto averages, and their point estimates]",
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Label whose probability is wanted.  [default: the last in sorted order]"),
    ] = None,
    score_kind: Annotated[
        ScoreKind,
        typer.Option(help="A probability in [0, 1], log-odds, or any number that grows with the probability."),
    ] = ScoreKind.proba,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that says how many cases each row stands for.")
    ] = None,
    folds: Annotated[
        int, typer.Option(min=2, help="Folds that point estimates are judged by; as many as rows leave one out.")
    ] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same numbers.")] = 0,
    draws: Annotated[int, typer.Option(min=1, help="Posterior draws of each chain.")] = 1000,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder to write to.  [default: nothing is written]")
    ] = None,
) -> None:
    """Compare methods by how well each predicts cases that were left out, and say how much their priors speak.

    With --out, writes compare.csv (the table) and compare.json (the table, weights, sensitivity to the prior, inputs).
    """
    with exit_codes():
        from bayescal.cli import compare_work as work

        options = work.CompareOptions(
            score=tuple(score),
            label=label,
            method=tuple(method or ()),
            positive=positive,
            score_kind=score_kind.value,
            weight=weight,
            folds=folds,
            seed=seed,
            draws=draws,
        )
        summary = work.compare_file(table, options, out)
        work.show(summary, out)
        _leave(summary)


@app.command()
def models() -> None:
    """List the methods, one line each, and what each reads; those of 2+ classes are for `shift` and Python."""
    with exit_codes():
        from bayescal.registry import CALIBRATORS

        for name, entry in CALIBRATORS.items():
            typer.echo(f"{name:<26} {_READS[entry.columns]:<12} {entry.summary}")


def _leave(summary: dict[str, Any]) -> None:
    if summary["diagnostics"] is not None and summary["diagnostics"]["verdict"] == "failed":
        raise typer.Exit(3)


def _refuse(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that were given and have no meaning."""
    from bayescal.validation import ParameterValueError

    for name in names:
        given = context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE":
            raise ParameterValueError(f"--{name.replace('_', '-')} has no meaning with {why}; leave it out.")
