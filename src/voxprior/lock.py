"""One command at a time per output: a lock of the operating system on a hidden file.

The system gives the lock back when the process ends, however it ends: a crash, kill -9 or a reboot
leaves at most the file, which the next command takes over. What is written in the file (process,
host, time) serves the message alone.
"""

import json
import os
import socket
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from voxprior.errors import InputError, InputWarning
from voxprior.writing import check_own, refuse_inputs

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        # Windows lets nobody read what is locked, so the locked byte is far behind the text.
        os.lseek(file, 1 << 20, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# The file is emptied, so it must not be a link to another.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def exclusive(path: Path, output: Path) -> Iterator[None]:
    """Hold the lock file `path` while an output is written, or report who holds it.

    Where the file system has no locks, there is a warning, and the work goes on.
    """
    refuse_inputs([path])
    file = _open_locked(path, output)
    try:
        os.ftruncate(file, 0)
        os.write(file, json.dumps(_this_process()).encode())
        yield
    finally:
        if sys.platform == "win32":
            os.close(file)
        # Removed while it is locked: nobody else can hold it then.
        with suppress(OSError):
            path.unlink()
        if sys.platform != "win32":
            os.close(file)


def _open_locked(path: Path, output: Path) -> int:
    while True:
        if path.is_symlink():
            check_own(path, path.lstat(), stat.S_IFREG)
        file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o644)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            holder = _holder(file)
            os.close(file)
            raise InputError(
                f"{output}: another voxprior command writes there ({holder})",
                remedy="Wait until it has ended, or choose another folder",
            ) from None
        except OSError as error:
            told = (
                f"{output}: this file system has no locks ({error.strerror}), so nothing stops a "
                "second command; start none on this folder before this one has ended."
            )
            warnings.warn(InputWarning(told), stacklevel=2)
        # A command that ended meanwhile has removed the file: then the lock is on nothing.
        found = os.fstat(file)
        if path.exists() and os.path.samestat(found, path.stat()):
            try:
                check_own(path, found, stat.S_IFREG)
            except BaseException:
                os.close(file)
                raise
            return file
        os.close(file)


def _this_process() -> dict[str, str | int]:
    started = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"process": os.getpid(), "host": socket.gethostname(), "started": started}


def _holder(file: int) -> str:
    """Name the process that holds a lock, as far as it has written that."""
    try:
        found = json.loads(os.read(file, 1000))
        return f"process {found['process']} on {found['host']}, since {found['started']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "a process that has just started"
