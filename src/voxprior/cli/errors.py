"""How a command ends.

==== ============================================================================================
code meaning
==== ============================================================================================
0    done
1    internal error: a fault of the program, in one line that names a log file with the traceback
2    bad input: something that the user can mend, in one line
130  stopped by Ctrl-C
==== ============================================================================================

`voxprior.errors.refuses_input` decides between 1 and 2. Set ``VOXPRIOR_DEBUG=1`` to see the
traceback of either. Warnings are lines, each told once.
"""

import os
import platform
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer

from voxprior.cli.terminal import say
from voxprior.cli.words import flags_of, in_command_words, speaking_of
from voxprior.errors import fault, refuses_input
from voxprior.output.folders import LOG

BAD_INPUT, INTERNAL, STOPPED = 2, 1, 130
PACKAGES = ("voxprior", "numpy", "scipy", "scikit-learn", "numba", "nibabel", "nilearn", "pandas")


def reported(command: Callable) -> Callable:
    """Run a command so that what goes wrong is told in one line, and by its exit code."""
    flags = flags_of(command)

    @wraps(command)
    def call(**options: Any) -> Any:
        with warnings.catch_warnings(), speaking_of(flags):
            # What a library will change one day is nothing that a user of the command can act on.
            for category in (FutureWarning, DeprecationWarning, PendingDeprecationWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = _each_once()
            try:
                return command(**options)
            # The reader of a pipe has gone, or typer ends the command: typer knows what to do.
            except (BrokenPipeError, typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except Exception as error:
                if os.environ.get("VOXPRIOR_DEBUG"):
                    raise
                raise typer.Exit(_tell(error, {"command": command.__name__, **options})) from error
            except KeyboardInterrupt as stop:
                say(f"voxprior: stopped. {str(stop) or 'Nothing was written.'}")
                raise typer.Exit(STOPPED) from stop

    return call


def _tell(error: Exception, options: Mapping[str, Any]) -> int:
    """Say what went wrong; returns the exit code."""
    if refuses_input(error):
        say(f"voxprior: {one_line(error)}")
        return BAD_INPUT
    _tell_fault(error, options)
    return INTERNAL


def one_line(error: BaseException) -> str:
    """Say in one line what was wrong.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "mask.nii"))
    'mask.nii: no such file or directory.'
    """
    if hasattr(error, "marked"):
        return in_command_words(error)
    if isinstance(error, MemoryError):
        return "not enough memory: use a smaller mask, or fewer --jobs."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}."
    return in_command_words(error)


def _tell_fault(error: Exception, options: Mapping[str, Any]) -> None:
    """Say that the program failed, and where its log is: in the output folder where there is one.

    A full disk or a folder that cannot be written must not hide the error.
    """
    text = _log(error, options)
    out = options.get("out")
    if out is not None and Path(out).suffix == ".zarr":
        out = Path(out).parent  # the name of a store must stay free
    for folder in (out, Path.cwd(), Path(tempfile.gettempdir())):
        try:
            path = _write_log(text, folder) if folder is not None else None
        except OSError:
            continue
        if path is not None:
            say(f"voxprior: {fault(error)} The log is {path}; please report it.")
            return
    say(f"voxprior: {fault(error)} No log could be written; please report it.")


def _write_log(text: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(".log", LOG, folder, text=True)  # a name that nobody has
    with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return Path(name)


def _log(error: Exception, options: Mapping[str, Any]) -> str:
    """All that is needed to find the fault: how the command was called, versions, traceback."""
    found = installed()
    found |= found.pop("packages")
    lines = [f"{name} = {value!r}" for name, value in options.items()]
    lines += ["", *(f"{name} {value}" for name, value in found.items()), ""]
    return "\n".join(lines) + "\n" + "".join(traceback.format_exception(error))


def installed() -> dict[str, Any]:
    """Versions of voxprior, Python and the system, and of the packages that do the work."""
    packages = {}
    for package in PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            packages[package] = "not installed"
    ours = {"python": platform.python_version(), "system": platform.platform()}
    return {"voxprior": packages.pop("voxprior"), **ours, "packages": packages}


def _each_once() -> Callable:
    """Make a function that shows warnings as lines; models on the same data give the same ones."""
    told: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = in_command_words(message)
        if text not in told:
            told.add(text)
            say(f"warning: {text}")

    return show
