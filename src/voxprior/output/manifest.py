"""Which files of a folder are ours: a manifest, by which an older output is replaced.

The manifest names every file that a command wrote, with its size and SHA-256. When the command
runs again, only files are deleted that the manifest of the older output names and that are still as
they were written. Everything else belongs to the user:

* a file or folder that the manifest does not name is not touched;
* a file of ours that was edited since stays, and where the new output has a file of that name, the
  edited one is renamed to ``<name>.old`` first, which is reported;
* an output without a manifest, as version 0.1 wrote them, gives way by name: what the new output
  has is replaced, all else stays.

Files move into place one by one. The file that marks a finished output, the *sign*, is removed
first and put back before the manifest, which comes last. A crash in between leaves a folder without
its sign and the rest of the new files in the hidden folder, where the next command finds them whole
and moves them.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from voxprior.errors import InputWarning
from voxprior.output.clock import RUN_FILE
from voxprior.writing import open_to_others, write_whole

Files = dict[str, dict[str, Any]]


def write_manifest(folder: Path, name: str, without: str) -> None:
    """Note the files of a folder in a manifest of this name; with it the output is whole.

    The subfolder `without` is left out.
    """
    files = {
        # Times differ from run to run: of the file that holds them the name alone is noted.
        path.relative_to(folder).as_posix(): {} if path.name.endswith(RUN_FILE) else _state(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and folder / without not in path.parents
    }
    write_whole(folder / name, json.dumps({"written by": "voxprior", "files": files}, indent=1))


def read_manifest(path: Path) -> Files | None:
    """Return the files that a manifest names, or None where there is no manifest of ours."""
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        good = all(_inside(name) and _is_state(name, state) for name, state in files.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return files if good else None


def is_whole(folder: Path, name: str) -> bool:
    """Whether a folder has a manifest, and the files that are there agree with it."""
    files = read_manifest(folder / name)
    if files is None:
        return False
    return all(_unchanged(folder / file, state) for file, state in _there(folder, files))


def are_unchanged(folder: Path, name: str, files: Iterable[str]) -> bool:
    """Whether files of a folder are there, and agree with the manifest of this name."""
    known = read_manifest(folder / name) or {}
    return all(file in known and _unchanged(folder / file, known[file]) for file in files)


def publish(work: Path, out: Path, name: str, sign: str) -> None:
    """Move a whole output to its place, as this module describes; also the rest of one."""
    if not out.exists():
        open_to_others(work)
        work.rename(out)
        return
    new, old = read_manifest(work / name) or {}, read_manifest(out / name)
    ours = _by_name(out, new, sign) if old is None else old | {name: {}}
    if (work / sign).exists():
        _give_way(out, sign, ours)
        (out / sign).unlink(missing_ok=True)
    _delete(out, {file: state for file, state in (old or {}).items() if file not in new})
    for file in [*(file for file in new if file != sign), sign, name]:
        if (work / file).exists():  # else it was moved before a crash
            _give_way(out, file, ours)
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            (work / file).replace(out / file)
    shutil.rmtree(work)


def _by_name(out: Path, new: Files, sign: str) -> Files:
    """Return what is ours in an output without a manifest: what the new one has, as it may be."""
    return {file: {} for file in new} if (out / sign).exists() else {}


def _state(path: Path) -> dict[str, Any]:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _unchanged(path: Path, state: dict[str, Any]) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    if not state:
        return True
    return path.stat().st_size == state.get("bytes") and _state(path) == state


def _inside(name: str) -> bool:
    """Whether a name stays inside its folder: a manifest may come from anywhere."""
    path = PureWindowsPath(name)  # understands the separators of every system
    return bool(path.parts) and not path.anchor and ".." not in path.parts


def _is_state(name: str, state: Any) -> bool:
    """Whether a state agrees with its file; only for the file of times the name is enough."""
    return isinstance(state, dict) and (bool(state) or name.endswith(RUN_FILE))


def _there(folder: Path, files: Files) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((file, state) for file, state in files.items() if (folder / file).exists())


def _folders(file: str) -> list[str]:
    """Return the folders that a file is in, outermost first."""
    return [str(parent) for parent in reversed(PurePosixPath(file).parents) if parent.name]


def _real(out: Path, file: str) -> bool:
    """Whether the folders of a file are folders, not links that lead elsewhere."""
    return not any((out / folder).is_symlink() for folder in _folders(file))


def _delete(out: Path, files: Files) -> None:
    """Delete files that are as we wrote them, and folders that this leaves empty."""
    for file, state in files.items():
        if _real(out, file) and _unchanged(out / file, state):
            (out / file).unlink()
            for folder in reversed(_folders(file)):
                with suppress(OSError):
                    (out / folder).rmdir()


def _give_way(out: Path, file: str, ours: Files) -> None:
    """Rename what stands where a file is to go, unless it is ours."""
    for folder in _folders(file):
        place = out / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            _set_aside(place)
    path = out / file
    stands = path.exists() or path.is_symlink()
    if stands and not (file in ours and _unchanged(path, ours[file])):
        _set_aside(path)


def _set_aside(path: Path) -> None:
    other, number = path.with_name(f"{path.name}.old"), 2
    while other.exists() or other.is_symlink():
        other, number = path.with_name(f"{path.name}.old-{number}"), number + 1
    path.rename(other)
    told = f"{path}: is not as voxprior wrote it, so it is kept as {other.name}."
    warnings.warn(InputWarning(told), stacklevel=2)
