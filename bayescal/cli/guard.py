"""Errors as one line and an exit code, warnings as lines."""

import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells say it
TERMINATED = 143  # 128 + SIGTERM
CLOSED_PIPE = 141  # 128 + SIGPIPE

# The library's words for a setting, to be said as an option of the command line.
_SETTING = re.compile(r"\b(score_kind|inference|method|draws|tune|chains|ci_prob)='?([\w-]+(?:\.\d+)?)'?")
_COLUMN = re.compile(r"\bscore column (\d+)")
# Its advice that takes Python, for somebody who has none at hand.
_IN_PYTHON = {
    ", and look at az.plot_trace_dist(calibrator.idata_)": "",
    "Give tighter priors (priors=...) or more tune steps (tune=2000)": (
        "Fit with more tune steps (tune=2000), or in Python with tighter priors"
    ),
    "Pass classes=[...], the labels in column order, to the constructor": (
        "Give --classes LABEL,LABEL,..., the labels in the order of the columns"
    ),
}


@contextmanager
def exit_codes() -> Iterator[None]:
    """Leave with the exit code and the one line that the user is owed; errors of the program itself pass."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # what is still buffered has nowhere to go, and Python would complain about it at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        say("interrupted, nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, RuntimeError, OSError) as error:
        if not _is_the_users(error):
            raise
        say(in_options(_words(error)))
        raise typer.Exit(BAD_INPUT) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: object) -> None:
    """Leave by an exception, so that what is half done is cleared away."""
    del number, frame
    say("terminated, nothing was written")
    raise SystemExit(TERMINATED)


class Texts(list[str]):
    """Warnings as lines, and whether none of them says that a sampler did not converge."""

    converged = True


@contextmanager
def collected_warnings(columns: Sequence[str]) -> Iterator[Texts]:
    """Print bayescal's warnings as lines on standard error, and collect them; all others take their usual way.

    Where they number one of several score columns, they are given its name.
    """
    from bayescal.validation import CalibrationWarning, ConvergenceWarning

    ours = (CalibrationWarning, ConvergenceWarning)
    texts = Texts()
    with warnings.catch_warnings(record=True) as caught:
        for category in ours:
            warnings.simplefilter("always", category)
        yield texts
    for warning in caught:
        if isinstance(warning.message, ours):
            texts.converged &= not isinstance(warning.message, ConvergenceWarning)
            words = _COLUMN.sub(lambda match: f"score column {columns[int(match[1])]!r}", _words(warning.message))
            texts.append(in_options(words))
            say(f"warning: {texts[-1]}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def say(text: str) -> None:
    """One line on standard error."""
    typer.echo(f"bayescal: {text}", err=True)


def in_options(text: str) -> str:
    """A message of the library in terms of the command line.

    >>> in_options("Pass score_kind='raw' for decision values, or fit with chains=4.")
    'Pass --score-kind raw for decision values, or fit with --chains 4.'
    """
    for advice, words in _IN_PYTHON.items():
        text = text.replace(advice, words)
    return _SETTING.sub(lambda match: f"--{match[1].replace('_', '-')} {match[2]}", text)


def _is_the_users(error: Exception) -> bool:
    from bayescal import validation
    from bayescal.tables import TableError

    ours = (
        TableError,
        validation.ScoreValueError,
        validation.LabelValueError,
        validation.WeightValueError,
        validation.ParameterValueError,
        validation.FileFormatError,
        validation.NoPosteriorError,
        OSError,
    )
    return isinstance(error, ours)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}."
    return " ".join(str(error).split())
