"""Output of a command: it appears whole or not at all, and a run that was stopped goes on.

Everything is written into a hidden folder beside the output, ``.<name>.partial``, and moved at the
end, see `voxprior.output.manifest`. A killed run leaves only that folder, in which the same command
finds the finished folds and relabellings. One command at a time: see `voxprior.lock`.
"""

import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from voxprior.errors import InputError
from voxprior.lock import exclusive
from voxprior.output.manifest import are_unchanged, is_whole, publish, read_manifest, write_manifest

# Finished folds, relabellings and fits, kept below the unfinished output until it is whole.
FINISHED = "finished"
MANIFEST = "manifest.json"
# Names of logs that faults leave start with this.
LOG = "voxprior-error-"


@contextmanager
def output_folder(out: Path, sign: str) -> Iterator[Path]:
    """Write a folder; an older one is replaced, by its manifest, when the new one is whole.

    A folder that is not empty and lacks the file `sign`, which tells ours from somebody else's,
    is refused; logs of a command that failed do not count.
    """
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: a file has that name", expected="a folder, or a free name")
    hidden = _place_for_hidden(out) / f".{out.name}"
    with _written(hidden, out, MANIFEST, sign, lambda: _refuse_others(out, sign)) as work:
        yield work


@contextmanager
def output_files(folder: Path, name: str, sign: str) -> Iterator[Path]:
    """Write files ``<name>_*`` into a folder that may hold others; the file `sign` comes last.

    Where `sign` is there, so are all the others. Older ones are replaced by their manifest.
    """
    folder, manifest = folder.resolve(), f"{name}_{MANIFEST}"

    def check() -> None:
        _refuse_namesakes(folder, name, manifest, sign)

    with _written(folder / f".{name}", folder, manifest, sign, check) as work:
        yield work


def as_written(folder: Path, name: str, *files: str) -> bool:
    """Tell whether files that `output_files` wrote under a name are there, and as it wrote them."""
    return are_unchanged(folder, f"{name}_{MANIFEST}", files)


def _place_for_hidden(out: Path) -> Path:
    """Return the folder that an output is in; the output itself where files cannot move from there.

    Files move within a file system only, and a folder may be one of its own (a mounted volume).
    """
    if not out.is_dir():
        return out.parent
    apart = out.stat().st_dev != out.parent.stat().st_dev
    return out if apart or not os.access(out.parent, os.W_OK) else out.parent


def _refuse_others(out: Path, sign: str) -> None:
    """Refuse a folder that holds files, none of which says that we wrote them."""
    files = read_manifest(out / MANIFEST)
    ours = (out / sign).exists() if files is None else sign in files
    if not ours and out.is_dir() and any(map(_is_foreign, out.iterdir())):
        raise InputError(
            f"{out}: is not empty and holds no {sign} of voxprior", remedy="Choose another folder"
        )


def is_log(path: Path) -> bool:
    """Whether a file is a log that a command left, which makes no folder somebody else's."""
    return path.name.startswith(LOG) and path.suffix == ".log"


def _is_foreign(entry: Path) -> bool:
    """Whether an entry is neither work in progress nor a log that a fault left."""
    return not entry.name.startswith(f".{entry.parent.name}.") and not is_log(entry)


def _refuse_namesakes(folder: Path, name: str, manifest: str, sign: str) -> None:
    """Refuse to write where files that are called as ours are not known to be ours."""
    ours = read_manifest(folder / manifest) is not None or (folder / sign).exists()
    others = [] if ours else sorted(folder.glob(f"{glob.escape(name)}_*"))
    if others:
        raise InputError(
            f"{others[0]}: has a name that voxprior would write, and no {sign} says that it did",
            remedy="Move it, or choose another folder",
        )


@contextmanager
def _written(
    hidden: Path, out: Path, manifest: str, sign: str, check: Callable[[], None]
) -> Iterator[Path]:
    """Work in the folder ``<hidden>.partial``, alone, and publish what was written there."""
    work, lock = (hidden.with_name(f"{hidden.name}.{end}") for end in ("partial", "lock"))

    def end() -> None:
        shutil.rmtree(work / FINISHED, ignore_errors=True)
        publish(work, out, manifest, sign)

    for place in (work, lock):
        _refuse_link(place)
    with _made(hidden.parent), exclusive(lock, out):
        if is_whole(work, manifest):  # a crash came after the work and before the last move
            end()
        check()
        _start(work)
        with _told_what_is_kept(work):
            yield work
            write_manifest(work, manifest, without=FINISHED)
        end()


def _refuse_link(path: Path) -> None:
    """Refuse to work through a link: what it leads to would be emptied."""
    if path.is_symlink():
        raise InputError(f"{path}: is a link, which voxprior did not make", remedy="Remove it")


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and take it away again where the work fails and leaves it empty."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    _make(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # one that is not empty ends it
            for place in new:
                place.rmdir()
        raise


@contextmanager
def _told_what_is_kept(work: Path) -> Iterator[None]:
    """Keep the finished tasks when the work is stopped, and say how many there are."""
    try:
        yield
    except BaseException as error:
        from voxprior.validation.store import count_finished

        counts = count_finished(work / FINISHED)
        if not counts:
            shutil.rmtree(work, ignore_errors=True)
        if not isinstance(error, KeyboardInterrupt):
            raise
        kept = " and ".join(f"{count} finished {name}" for name, count in counts.items())
        raise KeyboardInterrupt(
            f"{kept} are kept; the same command goes on from there."
            if kept
            else "No fold was finished, and nothing was written."
        ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder}: cannot be written ({error.strerror}).") from error
    if not os.access(folder, os.W_OK):
        raise OSError(f"{folder}: cannot be written (permission denied).")


def _start(work: Path) -> None:
    """Make the folder, or clean one that a killed run left of all that is not finished."""
    _make(work)
    for entry in work.iterdir():
        if entry.is_dir() and entry.name != FINISHED:
            shutil.rmtree(entry)
        elif not entry.is_dir():
            entry.unlink()
