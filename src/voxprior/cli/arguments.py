"""What typer lacks: options in groups that commands share, and options with several values.

A command may take a dataclass; each of its fields becomes an option. An option that may be given
more than once also takes a list with commas, and several words where the command line starts with
its arguments, as shell patterns need it::

    voxprior decode run-*_bold.nii.gz --events run-*_events.tsv --conditions face,house
"""

import os
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer.core


def spread(command: Callable) -> Callable:
    """Give a command that takes dataclasses one option for each of their fields."""
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
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        return command(**values)

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


class ManyValues(typer.core.TyperCommand):
    """A command whose repeatable options take all words up to the next option.

    Only where the command line starts with the command's arguments: after an option, a word may
    be an argument.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write ``--name a b`` as ``--name a --name b``, then parse."""
        if args and not args[0].startswith("-"):
            repeatable = {
                name for p in self.params if getattr(p, "multiple", False) for name in p.opts
            }
            args = _repeated(args, repeatable)
        return super().parse_args(ctx, args)


def _repeated(args: list[str], repeatable: set[str]) -> list[str]:
    written: list[str] = []
    option, due = "", False
    for word in args:
        if word in repeatable:
            option, due = word, True
        elif word.startswith("-") and not due:
            option = ""
        elif option and not due:
            written.append(option)
        else:
            due = False
        written.append(word)
    return written


def names(values: list[str] | None) -> list[str]:
    """Take the values of a repeatable option apart at commas; a file's name may have some.

    >>> names(["face,house", "cat"])
    ['face', 'house', 'cat']
    """
    found: list[str] = []
    for value in values or []:
        found += [value] if os.path.exists(value) else value.split(",")
    return [name.strip() for name in found if name.strip()]
