"""Errors that every front end can put into its own words.

An error carries four fields: what is wrong, what was expected, what was given, and a remedy. Where
a text names something that the user can set, it is marked by `option`, and each front end writes
the mark as its users do:

    option("resample", True)      Python: resample=True      command line: --resample
    option("means", "all")        Python: means='all'        command line: --set means=all

`in_python` writes the marks for Python, which is what ``str(error)`` shows; the command line has
its own writer in `voxprior.cli.words`. A warning that names settings is an `InputWarning`.

**Bad input or a fault of the program.** `refuses_input` tells them apart, for those who must not
blame the user for a bug. An exception refuses input

* by its type: `InputError`; `OSError`, which is about files; `MemoryError`; and the error that
  scikit-learn raises for parameters out of range;
* or as a `ValueError` or `TypeError` that was raised on purpose, by a ``raise`` statement in this
  package or in the modules of scikit-learn that check what they are given.

The same two types from elsewhere (numpy, on shapes that do not fit; ``int("x")``, which has no
``raise`` statement) and all other exceptions are faults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from dis import opmap
from pathlib import Path
from typing import Any

MARK = re.compile("\u27e6([A-Za-z_][A-Za-z0-9_]*)(?:=(.*?))?\u27e7", re.DOTALL)
_NAME_ALONE = object()


def option(name: str, value: Any = _NAME_ALONE) -> str:
    """Mark something that the user can set, alone or with the value that it has or should have.

    >>> in_python(f"Give {option('mask')}, or {option('means', 'all')}.")
    "Give mask, or means='all'."
    """
    return f"\u27e6{name}\u27e7" if value is _NAME_ALONE else f"\u27e6{name}={value!r}\u27e7"


def rewrite(text: str, write: Callable[[str, str | None], str]) -> str:
    """Replace every mark of a text by what ``write(name, value)`` returns."""
    return MARK.sub(lambda found: write(found[1], found[2]), text)


def in_python(text: str) -> str:
    """Write the marks of a text as keyword arguments."""
    return rewrite(text, lambda name, value: name if value is None else f"{name}={value}")


def nearest(name: str, others: Iterable[str]) -> str:
    """Say which of the others is most like a name; nothing where none is.

    >>> nearest("sub-1", ["sub-01", "sub-02"])
    " (the nearest is 'sub-01')"
    """
    found = get_close_matches(name, list(others), n=1)
    return f" (the nearest is {found[0]!r})" if found else ""


def nearest_file(path: Path) -> str:
    """Say which file of the same folder is most like one that is not there, or that none is."""
    if not path.parent.is_dir():
        return f" (there is no folder {str(path.parent)!r})"
    if os.path.lexists(path):
        return " (what has that name is not a regular file)"
    with suppress(OSError):
        return nearest(path.name, sorted(os.listdir(path.parent)))
    return ""


class InputError(ValueError):
    """Something the user gave cannot be used.

    Parameters
    ----------
    what : str
        What is wrong, a sentence without its full stop.
    expected, got : str, optional
        What was expected, and what was there instead.
    remedy : str, optional
        What to do, a sentence without its full stop.

    Examples
    --------
    >>> print(InputError("y has one class", expected="two or more", got="'face' only",
    ...                  remedy=f"Check the labels, or set {option('split', 'groups')}"))
    y has one class. Expected two or more, got 'face' only. Check the labels, or set split='groups'.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        got: str | None = None,
        remedy: str | None = None,
    ):
        super().__init__(what)
        self.what, self.expected, self.got, self.remedy = what, expected, got, remedy

    @property
    def marked(self) -> str:
        """The whole text, with its marks."""
        if self.expected and self.got:
            seen = f"Expected {self.expected}, got {self.got}"
        elif self.expected or self.got:
            seen = f"Expected {self.expected}" if self.expected else f"Got {self.got}"
        else:
            seen = None
        return " ".join(f"{part}." for part in (self.what, seen, self.remedy) if part)

    def __str__(self) -> str:
        return in_python(self.marked)

    def __reduce__(self):
        fields = {"expected": self.expected, "got": self.got, "remedy": self.remedy}
        return _rebuild, (type(self), self.what, fields)


class InputTypeError(InputError, TypeError):
    """Something the user gave is of the wrong type."""


class OutOfMemoryError(MemoryError):
    """Memory ran out in a task, or a worker was killed, usually for that reason.

    Attributes
    ----------
    name : str
        What the tasks are called.
    n_finished, n_tasks : int
        How many had finished, of how many.
    kept : bool
        Whether the finished ones are on disk, so that the same run goes on from there.
    """

    def __init__(self, what: str, name: str, n_finished: int, n_tasks: int, kept: bool):
        super().__init__(what, name, n_finished, n_tasks, kept)
        self.what, self.name = what, name
        self.n_finished, self.n_tasks, self.kept = n_finished, n_tasks, kept

    @property
    def marked(self) -> str:
        """The whole text, with its marks."""
        less = f"fewer workers ({option('n_jobs')}) or a smaller {option('mask')}"
        finished = f"{self.n_finished} of {self.n_tasks} {self.name} had finished"
        if self.kept and self.n_finished:
            return f"{self.what}. {finished} and are kept: the same again, with {less}, goes on."
        return f"{self.what}. {finished}, and nothing is kept. Try again with {less}."

    def __str__(self) -> str:
        return in_python(self.marked)


class InputWarning(UserWarning):
    """Something the user gave can be used, but perhaps not as meant.

    The text may hold marks, see `option`: ``str(warning)`` writes them for Python, and `marked` is
    the text with them.

    Examples
    --------
    >>> print(InputWarning(f"Volumes have no times: check {option('t_r', 2.0)}."))
    Volumes have no times: check t_r=2.0.
    """

    @property
    def marked(self) -> str:
        """The text, with its marks."""
        return str(self.args[0])

    def __str__(self) -> str:
        return in_python(self.marked)


# Modules whose ValueErrors and TypeErrors speak of what they were given: ours, scikit-learn's
# checks of arrays and splits, and its models that stand next to ours, for their parameters.
CHECKS = (
    "voxprior",
    "sklearn.utils.validation",
    "sklearn.utils.multiclass",
    "sklearn.model_selection",
    "sklearn.linear_model",
    "sklearn.naive_bayes",
    "sklearn.svm",
)
REFUSALS = (InputError, OSError, MemoryError)


def refuses_input(error: BaseException) -> bool:
    """Whether an exception says that input cannot be used; a fault of the program does not.

    Examples
    --------
    >>> refuses_input(InputError("y has one class")), refuses_input(ZeroDivisionError())
    (True, False)
    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     refuses_input(error)
    False
    """
    if isinstance(error, REFUSALS) or type(error).__name__ == "InvalidParameterError":
        return True
    if not isinstance(error, ValueError | TypeError):
        return False
    return getattr(error, "refuses_input", False) or _raised_on_purpose(error)


def fault(error: BaseException) -> str:
    """Say in one line what failed inside the program.

    >>> fault(KeyError("voxels"))
    "internal error: KeyError: 'voxels'."
    """
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error: {what.rstrip('.: ')}."


def remember_refusal(error: BaseException) -> None:
    """Note on an exception whether it refuses input, before its traceback is lost.

    Between processes only the exception itself is sent.
    """
    error.refuses_input = refuses_input(error)  # type: ignore[attr-defined]


def _raised_on_purpose(error: BaseException) -> bool:
    """Whether the innermost step of the traceback is a ``raise`` statement of a module we know."""
    step = error.__traceback__
    if step is None:
        return False
    while step.tb_next is not None:
        step = step.tb_next
    module = step.tb_frame.f_globals.get("__name__", "")
    code = step.tb_frame.f_code.co_code
    known = any(module == name or module.startswith(f"{name}.") for name in CHECKS)
    # Frames of compiled code have no instructions to look at.
    return known and code[step.tb_lasti : step.tb_lasti + 1] == bytes([opmap["RAISE_VARARGS"]])


def _rebuild(kind: type[InputError], what: str, fields: dict[str, Any]) -> InputError:
    return kind(what, **fields)
