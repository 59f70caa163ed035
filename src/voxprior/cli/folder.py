"""Output of a command: it appears whole or not at all, and a run that was stopped goes on.

Everything is written into a hidden folder beside the output, ``.<name>.partial``, and renamed at
the end. A killed run leaves only that folder, in which the same command finds the finished folds.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voxprior.cli.errors import is_log

# Finished folds, kept below the unfinished output until it is whole.
FOLDS = "folds"


@contextmanager
def output_folder(out: Path, sign: str) -> Iterator[Path]:
    """Write a folder; an older one is replaced when the new one is whole.

    A folder that is not empty and lacks the file `sign`, which tells ours from somebody else's,
    is refused; logs of a command that failed do not count.
    """
    out = out.absolute()
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: a folder is due here, but a file has that name.")
    if out.is_dir() and not all(map(is_log, out.iterdir())) and not (out / sign).exists():
        raise ValueError(f"{out}: is not empty and holds no {sign}; choose another --out.")
    with _unfinished(out.with_name(f".{out.name}.partial")) as work:
        yield work
    old = out.with_name(f".{out.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def output_files(folder: Path, name: str, sign: str) -> Iterator[Path]:
    """Write files into a folder that may hold others; the file `sign` comes last.

    Where `sign` is there, so are all the others.
    """
    (folder / sign).unlink(missing_ok=True)
    with _unfinished(folder / f".{name}.partial") as work:
        yield work
    for entry in sorted(work.iterdir(), key=lambda entry: entry.name == sign):
        entry.replace(folder / entry.name)
    work.rmdir()


@contextmanager
def _unfinished(work: Path) -> Iterator[Path]:
    """Work in a folder whose finished folds are kept when the work is stopped."""
    _start(work)
    try:
        yield work
    except BaseException as error:
        kept = len(list(work.glob(f"{FOLDS}/*/fold-*.json")))
        if not kept:
            shutil.rmtree(work, ignore_errors=True)
        if not isinstance(error, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt(
            f"{kept} finished folds are kept; the same command goes on from there."
            if kept
            else "No fold was finished, and nothing was written."
        ) from None
    shutil.rmtree(work / FOLDS, ignore_errors=True)


def _start(work: Path) -> None:
    """Make the folder, or clean one that a killed run left of all but its folds."""
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{work.parent}: cannot be written ({error.strerror}).") from error
    if not os.access(work, os.W_OK):
        raise OSError(f"{work.parent}: cannot be written (permission denied).")
    for entry in work.iterdir():
        if entry.is_dir() and entry.name != FOLDS:
            shutil.rmtree(entry)
        elif not entry.is_dir():
            entry.unlink()
