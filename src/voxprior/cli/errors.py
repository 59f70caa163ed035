"""How a command ends: bad input in one line and exit code 2, Ctrl-C with 130, warnings as lines."""

import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

# What the package calls things, and the options that stand for them.
WORDS = {
    "resample=True": "--resample",
    "mask=None": "no --mask",
    "covariates=...": "--covariates",
    "trusted=[...] with their names": "it to the Decoder in Python, with trusted=[...]",
    "one map a sample use load_maps": "one map a scan give --labels",
    "window=T, a number of volumes >= 1, and only it": "--window N, a number of volumes, and only "
    "it",
    "cv=LeaveOneGroupOut()": "a split by group",
    "LeaveOneGroupOut": "--split groups",
    "LeaveOnePerClassOut": "--split two-out",
    "FewShotSplit": "--split few-shot",
    "n_per_class": "the number after few-shot:",
    "Give t_r": "Give --t-r",
}
OPTIONS = ("mask", "standardize", "unit", "window", "unmatched", "conditions")

BAD_INPUT = (ValueError, TypeError, OSError, MemoryError)


def reported(command: Callable) -> Callable:
    """Run a command so that what goes wrong with its input is told in one line, not a traceback.

    Set ``VOXPRIOR_DEBUG=1`` to see the traceback.
    """

    @wraps(command)
    def call(*args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            # What a library will change one day is nothing that a user of the command can act on.
            for category in (FutureWarning, DeprecationWarning, PendingDeprecationWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = _each_once()
            try:
                return command(*args, **options)
            except BrokenPipeError:  # the reader of a pipe has gone; typer ends quietly
                raise
            except BAD_INPUT as error:
                if os.environ.get("VOXPRIOR_DEBUG"):
                    raise
                say(f"voxprior: {one_line(error)}")
                raise typer.Exit(2) from error
            except KeyboardInterrupt as stop:
                say(f"voxprior: stopped. {str(stop) or 'Nothing was written.'}")
                raise typer.Exit(130) from stop

    return call


def one_line(error: BaseException) -> str:
    """Say in one line what was wrong.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "mask.nii"))
    'mask.nii: no such file or directory.'
    """
    findings = getattr(error, "findings", None)  # of the audit
    if findings:
        told = " ".join(f"[{f.name}] {in_options(f.message)}" for f in findings)
        names = dict.fromkeys(finding.name for finding in findings)
        return f"{told} To go on all the same: --allow {','.join(names)}"
    if isinstance(error, MemoryError):
        return "not enough memory: use a smaller mask, or fewer --jobs."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}."
    return in_options(" ".join(str(error).split()))


def in_options(text: str) -> str:
    """Say in options what the package says in Python.

    >>> in_options("Use mask='data', or calibration=None.")
    'Use --mask data, or --set calibration=None.'
    """
    for word, option in WORDS.items():
        text = text.replace(word, option)
    return re.sub(r"(?<!--set )\b([a-z_]+)=(?:'([^']*)'|(None|True|False)\b)", _option, text)


def _option(found: re.Match) -> str:
    name, value = found[1], found[2] or found[3]
    return f"--{name} {value}" if name in OPTIONS else f"--set {name}={value}"


def say(text: str) -> None:
    """Tell people something, beside the output that programs read."""
    print(text, file=sys.stderr)


def _each_once() -> Callable:
    """Make a function that shows warnings as lines; models on the same data give the same ones."""
    told: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = in_options(" ".join(str(message).split()))
        if text not in told:
            told.add(text)
            say(f"warning: {text}")

    return show
