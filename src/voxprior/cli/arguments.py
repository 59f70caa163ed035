"""What typer lacks: options in groups that commands share, and options with several values.

A command may take a dataclass; each of its fields becomes an option. An option that may be given
more than once also takes a list with commas, and several words where the command line starts with
its arguments, as shell patterns need it::

    voxprior decode run-*_bold.nii.gz --events run-*_events.tsv --conditions face,house
"""

import os
import re
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from glob import glob, has_magic
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import typer
import typer.core

from voxprior.documents import read_json, read_toml
from voxprior.errors import InputError
from voxprior.writing import check_name, reading


def with_groups(command: Callable) -> Callable:
    """Give a command that takes dataclasses one option for each of their fields.

    Those that are contexts are entered for as long as the command runs. Nothing that it writes
    replaces a file that it was given.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {n: hint for n, hint in hints.items() if is_dataclass(hint)}
    options = []
    for parameter in signature(command).parameters.values():
        group = groups.get(parameter.name)
        options += [parameter] if group is None else _options(group)
    options = [
        option.replace(
            kind=Parameter.KEYWORD_ONLY, annotation=hints.get(option.name, option.annotation)
        )
        for option in options
    ]

    @wraps(command)
    def call(**values: Any) -> Any:
        with ExitStack() as stack:
            stack.enter_context(reading(_given_files(options, values)))
            for name, group in groups.items():
                made = group(**{f.name: values.pop(f.name) for f in fields(group)})
                values[name] = stack.enter_context(made) if hasattr(made, "__enter__") else made
            return command(**values)

    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


class Called(NamedTuple):
    """A command by its name, with the words and the parameters that it was called with."""

    name: str
    words: tuple[str, ...]
    params: tuple[Any, ...]


CALLED: ContextVar[Called | None] = ContextVar("CALLED", default=None)

# Marks an option of text that may name files. Of options that hold paths, only the output does not.
NAMES_FILES = "names files"


def takes_files(option: Parameter) -> bool:
    """Whether an option or argument names files that the command reads."""
    kind, *marks = get_args(option.annotation) or (option.annotation,)
    holds_paths = Path in (kind, *get_args(kind)) and not is_output(option)
    return holds_paths or NAMES_FILES in marks


def is_output(option: Parameter) -> bool:
    """Whether an option or argument says where a command writes."""
    flags = {
        text
        for mark in getattr(option.annotation, "__metadata__", ())
        for text in (getattr(mark, "default", None), *(getattr(mark, "param_decls", None) or ()))
    }
    return option.name == "out" or "--out" in flags


def _given_files(options: Sequence[Parameter], values: Mapping[str, Any]) -> list[Path]:
    """List the files, and folders, that a command is to read."""
    found: list[Path] = []
    for option in options:
        value = values.get(option.name)
        given = value if isinstance(value, list) else [value]
        words = [word for word in given if isinstance(word, str | Path)]
        for word in words:
            check_name(str(word))
        if takes_files(option):
            found += [path for word in words for path in _meant(word)]
    return found


def _meant(word: str | Path) -> list[Path]:
    """Files that a word of the command line stands for; text may name something else."""
    if isinstance(word, Path):
        return [word]
    matching = [glob(name, recursive=True) or [name] for name in names([word])]
    paths = [Path(name) for several in matching for name in several if os.path.exists(name)]
    stores = [path for path in paths if (path / "zarr.json").is_file()]
    files = [path for path in paths if not path.is_dir()]
    return [*files, *stores, *(part for store in stores for part in store.rglob("*"))]


MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        help="Memory that scans may take, for instance 2GB; those on disk that need more are read "
        "a block of voxels at a time. A quarter of the machine's by default.",
    ),
]


def within_memory(command: Callable) -> Callable:
    """Give a command the option --max-memory, and run it within that limit."""

    @wraps(command)
    def call(max_memory: str | None = None, **values: Any) -> Any:
        if max_memory is None:
            return command(**values)
        from voxprior import blocks

        with blocks.max_memory(max_memory):
            return command(**values)

    limit = Parameter("max_memory", Parameter.KEYWORD_ONLY, default=None, annotation=MaxMemory)
    options = [*signature(command).parameters.values(), limit]
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


# What is written behind a flag by those who take it for an option with a value.
TRUTHS = ("true", "false", "yes", "no", "on", "off", "1", "0")


class ManyValues(typer.core.TyperCommand):
    """A command whose repeatable options take all words up to the next option.

    Where the command line does not start with the command's arguments, they take those that do not
    name files, and leave as many words as the command has to have.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; a flag takes no value, so its help shows none."""
        found = super().get_params(ctx)
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write ``--name a b`` as ``--name a --name b``, then parse."""
        CALLED.set(Called(ctx.info_name or "", tuple(args), tuple(self.params)))
        flags = {n for p in self.params if getattr(p, "is_flag", False) for n in p.opts}
        for flag, value in zip(args, args[1:]):
            if flag in flags and value.lower() in TRUTHS and not os.path.exists(value):
                raise typer.BadParameter(f"{flag} takes no value: leave '{value}' out.")
        return super().parse_args(ctx, _repeated(args, self.params))


def _repeated(args: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Write ``--name a b`` as ``--name a --name b``."""
    several = _further_values(args, params)
    written: list[str] = []
    for place, word in enumerate(args):
        written += [several[place], word] if place in several else [word]
    return written


def _further_values(args: Sequence[str], params: Sequence[Any]) -> dict[int, str]:
    """Option of each word that is one more value of it, by the place of the word."""
    options = [p for p in params if p.param_type_name == "option"]
    valued = {name for p in options if not p.is_flag for name in p.opts}
    repeatable = {name for p in options if p.multiple for name in p.opts}
    arguments_first = bool(args) and not args[0].startswith("-")
    found: dict[int, str] = {}
    option, before, n_arguments = "", "", 0
    for place, word in enumerate(args):
        name = word.partition("=")[0]
        if before in valued:  # the word is the value of that option
            before = ""
            continue
        before = word
        if word.startswith("-"):
            option = name if name in repeatable else ""
        elif option and (arguments_first or not _names_a_file(word)):
            found[place] = option
        else:
            option, n_arguments = "", n_arguments + 1
    required = sum(p.param_type_name == "argument" and p.required for p in params)
    wanted = 0 if arguments_first else max(0, required - n_arguments)
    for place in sorted(found)[len(found) - min(wanted, len(found)) :]:
        del found[place]
    return found


def _names_a_file(word: str) -> bool:
    """Whether a word is a file, a pattern or a folder, or looks like the name of one."""
    ending = Path(word).suffix[1:]
    return os.sep in word or has_magic(word) or ending.isalpha() or os.path.exists(word)


def names(values: list[str] | None) -> list[str]:
    """Take the values of a repeatable option apart at commas; a file's name may have some.

    >>> names(["face,house", "cat"])
    ['face', 'house', 'cat']
    """
    found: list[str] = []
    for value in values or []:
        found += [value] if os.path.exists(value) else value.split(",")
    # Blanks of ASCII alone: a label may hold others, and is then told from its likes.
    stripped = [name.strip(" \t\r\n") for name in found]
    return [name for name in stripped if name]


def files(values: list[str]) -> list[str]:
    """List the files that names and patterns stand for; a pattern must match something."""
    found: list[str] = []
    for name in names(values):
        matching = sorted(glob(name)) if has_magic(name) and not os.path.exists(name) else [name]
        if not matching:
            raise FileNotFoundError(f"{name}: no file matches this pattern.")
        found += map(check_name, matching)
    return found


def parameters(config: Path | None, changes: list[str] | None = None) -> dict[str, Any]:
    """Read a TOML or JSON file of parameters, then apply ``name=value`` changes.

    Values are read as Python literals; what is not one stays text.

    >>> parameters(None, ["radius=2.5,variances=median", "sizes=[1,2]"])
    {'radius': 2.5, 'variances': 'median', 'sizes': [1, 2]}
    """
    found = {} if config is None else _read(config)
    changed: dict[str, Any] = {}
    for change in [part for several in changes or [] for part in _apart(several)]:
        name, equals, value = (part.strip() for part in change.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(
                f"--set takes name=value, for instance --set radius=2. Got '{change}'."
            )
        wanted = _literal(value)
        if name in changed and repr(changed[name]) != repr(wanted):
            raise InputError(
                f"--set gives {name} twice, with different values: {changed[name]!r} and "
                f"{wanted!r}",
                remedy="Give it once",
            )
        changed[name] = wanted
    return found | changed


def _apart(change: str) -> list[str]:
    """Changes that one value of --set gives, with commas between them, but not inside values."""
    found: list[str] = []
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", change):
        value = found[-1].partition("=")[2].strip() if found else ""
        unclosed = value[:1] in tuple("'\"[({") and _literal(value) == value
        if value and unclosed:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def _literal(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _read(path: Path) -> dict[str, Any]:
    what = "config file"
    found = read_json(path, what) if path.suffix == ".json" else read_toml(path, what)
    if not isinstance(found, dict):
        raise ValueError(f"{path}: a table of parameters was expected. Got {type(found).__name__}.")
    return found
