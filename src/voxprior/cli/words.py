"""Messages of the package in the words of the command line.

A message marks what the user can set (see `voxprior.errors.option`). Each mark becomes the option
of the command that runs; what is not an option of it is a parameter of the model, for ``--set``:

    option("resample", True)      --resample
    option("mask", None)          no --mask
    option("smoothing_fwhm", 6)   --smoothing 6
    option("means", "all")        --set means=all
"""

import shlex
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

from typer.models import OptionInfo

from voxprior.errors import rewrite

# What the package calls otherwise than the command line does.
CALLED = {
    "cv": "split",
    "estimator": "model",
    "labels": "volume_labels",
    "mesh": "surface",
    "n_jobs": "jobs",
    "n_permutations": "permutations",
    "n_repeats": "repeats",
    "participants": "participant_label",
    "radius": "searchlight",
    "random_state": "seed",
    "smoothing_fwhm": "smoothing",
    "table": "labels",
    "threshold": "reject",
    "trusted": "trust",
}


class Flag(NamedTuple):
    """How an option is written, and how the one that turns it off, if there is one."""

    on: str
    off: str | None
    takes_value: bool


_flags: ContextVar[Mapping[str, Flag]] = ContextVar("flags", default=MappingProxyType({}))


def flags_of(command: Callable) -> dict[str, Flag]:
    """Options of a command by the names of its parameters."""
    found = {}
    for parameter in signature(command).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                found[parameter.name] = _flag(parameter.name, info, parameter.default)
    return found


def _flag(name: str, info: OptionInfo, default: Any) -> Flag:
    # Beside an annotation, typer keeps the first spelling where a default would be.
    spelled = (info.default, *(info.param_decls or ()))
    given = [text for text in spelled if isinstance(text, str) and text.startswith("--")]
    dashed = name.replace("_", "-")
    if not isinstance(default, bool):
        return Flag(given[0] if given else f"--{dashed}", None, True)
    on, _, off = (given[0] if given else f"--{dashed}/--no-{dashed}").partition("/")
    return Flag(on, off or None, False)


@contextmanager
def speaking_of(flags: Mapping[str, Flag]) -> Iterator[None]:
    """Write messages with these options until the end of the block."""
    before = _flags.set(flags)
    try:
        yield
    finally:
        _flags.reset(before)


def in_command_words(message: Any) -> str:
    """Say a message of the package, an exception, a warning or a text, on one line."""
    text = getattr(message, "marked", None) or str(message)
    return " ".join(rewrite(text, _written).split())


def _written(name: str, value: str | None) -> str:
    flags = _flags.get()
    flag = flags.get(CALLED.get(name, name), flags.get(name))
    if flag is None:
        has_set = any(flag.on == "--set" for flag in flags.values())
        if value is None:
            return f"--set {name}" if has_set else name
        return f"--set {name}={_as_typed(value)}" if has_set else f"{name}={value}"
    if value is None or value == "True":
        return flag.on
    if value in ("None", "False"):
        return flag.off or f"no {flag.on}"
    return f"{flag.on} {_as_typed(value)}"


def _as_typed(value: str) -> str:
    """Write the representation of a value as one types it: text without quotes, lists by commas."""
    try:
        literal = literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(literal, list | tuple):
        literal = ",".join(map(str, literal))
    return shlex.quote(literal) if isinstance(literal, str) else value
