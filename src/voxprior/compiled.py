"""Where compiled kernels are kept between runs: in a folder that nobody else can write.

Numba reads what it finds in its cache as pickles, which can run any code. It looks in the folder
that ``NUMBA_CACHE_DIR`` names, else next to the modules, else in the user's own cache. Next to the
modules Python keeps its compiled code: who can write there needs no pickle. Either of the other
two is used only if it belongs to this user and nobody else can write it or replace it; otherwise
kernels are compiled anew, into a folder that goes at the end of the process.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import warnings
from contextlib import suppress
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def keep_kernels_privately() -> None:
    """Choose the folder of compiled kernels, before numba is asked for any."""
    if not hasattr(os, "geteuid"):  # a system without owners and modes
        return
    named = os.environ.get(VARIABLE)
    if named and not is_private(Path(named)):
        told = f"{VARIABLE}={named} is not used for compiled code: other users can write there."
        warnings.warn(f"{told} Name a folder of your own, of mode 700.", stacklevel=3)
        _cache_in("")
        named = ""
    if not named and not _beside_the_modules() and not _of_the_user_is_private():
        with suppress(OSError):  # nowhere to write at all
            _cache_in(_for_this_process())


def is_private(folder: Path) -> bool:
    """Whether a folder, made here if there is none, is this user's and nobody else can write it.

    What is inside it must be so too, and no folder above may let strangers replace it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside = [Path(entry.path) for entry in os.scandir(folder)]
        own = all(_is_own(path.stat()) for path in (folder, *inside))
        return own and not any(_replaceable(above.stat()) for above in folder.resolve().parents)
    except OSError:
        return False


def _is_own(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & OTHERS_WRITE


def _replaceable(state: os.stat_result) -> bool:
    """Whether anybody may rename what is in a folder; a sticky one leaves that to owners."""
    return bool(state.st_mode & stat.S_IWOTH) and not state.st_mode & stat.S_ISVTX


def _beside_the_modules() -> bool:
    place = Path(__file__).parent / "__pycache__"
    if place.exists():
        return place.is_dir() and os.access(place, os.W_OK)
    return os.access(place.parent, os.W_OK)


def _of_the_user_is_private() -> bool:
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home
        return False
    return is_private(Path(home) / "numba")


def _for_this_process() -> str:
    import atexit
    from tempfile import mkdtemp

    folder, owner = mkdtemp(prefix="voxprior-kernels-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not where a forked process ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _cache_in(folder: str) -> None:
    """Name the folder to numba, in this process and in those that it starts."""
    os.environ[VARIABLE] = folder
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder
