"""Output of a command: it appears whole or not at all, and a run that was stopped goes on.

Everything is written into a hidden folder next to the output, ``.<name>.partial``, and moved at the
end, see `voxprior.output.manifest`. A killed run leaves only that folder, in which the same command
finds the finished folds and relabellings. One command at a time: see `voxprior.lock`. What a
command reads is never replaced, nor a folder of somebody else taken over: see `voxprior.writing`.
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
from voxprior.writing import HIDDEN, private_folder, refuse_inputs, unfinished

# Finished folds, relabellings and fits, kept below the unfinished output until it is whole.
FINISHED = "finished"
MANIFEST = "manifest.json"
# Names of logs that faults leave start with this.
LOG = "voxprior-error-"


@contextmanager
def output_folder(out: Path, sign: str) -> Iterator[Path]:
    """Write a folder; an older one is replaced, by its manifest, when the new one is whole.

    A folder that is not empty and lacks the file `sign`, the mark of our own folders, is
    refused; logs of a command that failed do not count.
    """
    out = out.resolve()
    _refuse_file(out)
    place = _place_for_hidden(out) / out.name
    with _written(place, out, MANIFEST, sign, lambda: _refuse_others(out, sign)) as work:
        yield work


def check_folder(out: Path, sign: str) -> None:
    """Refuse what `output_folder` would refuse before the work, and write nothing."""
    out = out.resolve()
    _refuse_file(out)
    _refuse_inputs(unfinished(_place_for_hidden(out) / out.name), out, MANIFEST, sign)
    _refuse_others(out, sign)


def _refuse_file(out: Path) -> None:
    refuse_inputs([out])
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: a file has that name", expected="a folder, or a free name")


@contextmanager
def output_files(folder: Path, name: str, sign: str) -> Iterator[Path]:
    """Write files ``<name>_*`` into a folder that may hold others; the file `sign` comes last.

    Where `sign` is there, so are all the others. Older ones are replaced by their manifest.
    """
    folder, manifest = folder.resolve(), f"{name}_{MANIFEST}"

    def check() -> None:
        _refuse_namesakes(folder, name, manifest, sign)

    with _written(folder / name, folder, manifest, sign, check) as work:
        yield work


def as_written(folder: Path, name: str, *files: str) -> bool:
    """Whether files that `output_files` wrote under a name are there, and as it wrote them."""
    return are_unchanged(folder, f"{name}_{MANIFEST}", files)


def check_files(folder: Path, name: str, sign: str) -> None:
    """Refuse what `output_files` would refuse because it is being read."""
    folder = folder.resolve()
    _refuse_inputs(unfinished(folder / name), folder, f"{name}_{MANIFEST}", sign)


def _place_for_hidden(out: Path) -> Path:
    """Return the folder that an output is in; the output itself where files cannot move from there.

    Files move within a file system only, and a folder may be one of its own (a mounted volume).
    """
    if not out.is_dir():
        return out.parent
    apart = out.stat().st_dev != out.parent.stat().st_dev
    return out if apart or not os.access(out.parent, os.W_OK) else out.parent


def _refuse_others(out: Path, sign: str) -> None:
    """Refuse a folder that holds files but no sign that we wrote them."""
    files = read_manifest(out / MANIFEST)
    ours = (out / sign).exists() if files is None else sign in files
    if not ours and out.is_dir() and any(map(_is_foreign, out.iterdir())):
        raise InputError(
            f"{out}: is not empty and holds no {sign} of voxprior", remedy="Choose another folder"
        )


def is_log(path: Path) -> bool:
    """Whether a command that failed left this, a log or half a file: the folder is still ours."""
    if path.name.startswith(HIDDEN):
        return True
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
    place: Path, out: Path, manifest: str, sign: str, check: Callable[[], None]
) -> Iterator[Path]:
    """Work in the folder ``.<place>.partial``, alone, and publish what was written there."""
    work, lock = unfinished(place), place.with_name(f".{place.name}.lock")
    _refuse_inputs(work, out, manifest, sign)

    def end() -> None:
        shutil.rmtree(work / FINISHED, ignore_errors=True)
        publish(work, out, manifest, sign)

    with _made(place.parent), exclusive(lock, out):
        private_folder(work)
        if is_whole(work, manifest):  # a crash came after the work and before the last move
            end()
            private_folder(work)
        with _told_what_is_kept(work):
            check()
            _clean(work)
            yield work
            refuse_inputs(out / path.relative_to(work) for path in work.rglob("*"))
            write_manifest(work, manifest, without=FINISHED)
        end()


def _refuse_inputs(work: Path, out: Path, manifest: str, sign: str) -> None:
    """Refuse to replace or delete what is being read, as far as that is known in advance."""
    old, left = read_manifest(out / manifest), read_manifest(work / manifest)
    replaced = [out / name for name in (manifest, *(old or ()), *(left or ()))]
    if old is None and (out / sign).exists():
        replaced += out.rglob("*")
    refuse_inputs(replaced, within=out)


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


def _clean(work: Path) -> None:
    """Take away what a killed run left of all that is not finished."""
    for entry in work.iterdir():
        if entry.is_dir() and entry.name != FINISHED:
            shutil.rmtree(entry)
        elif not entry.is_dir():
            entry.unlink()
