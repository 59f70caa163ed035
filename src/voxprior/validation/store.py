"""Finished tasks in a folder, so that a run that was stopped goes on where it stopped.

A run is known by the digest of all that decides its numbers: estimator with its parameters, data,
folds, seed, versions. What its tasks (folds, relabellings, fits of a learning curve) have returned
is a journal, ``<folder>/<digest>/<name>.journal``, of one record per finished task:

    <CRC-32 of the rest> [<number of the task>, <what it returned, as JSON>]

A record is appended as soon as its task ends, hence kill -9 loses only the tasks that were running.
A record that was cut short, or whose checksum is wrong, counts as absent: its task is run again.
Another setting has another digest, hence another subfolder: nothing is mixed up.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from voxprior import __version__
from voxprior.blocks import BlockedScans
from voxprior.validation.result import plain, write_whole

SUFFIX = ".journal"
# Bytes of an array above which threads are worth their start.
LARGE = 10**7


def settings_digest(estimators, arrays, folds, settings: dict[str, Any]) -> str:
    """Digest of everything that decides the numbers of a run.

    Parameters
    ----------
    estimators : sequence of estimators
    arrays : sequence of anything that joblib can hash, or BlockedScans
        Scans, labels, groups and the like.
    folds : anything that joblib can hash
        Which scans train and test.
    settings : dict
        All else, in JSON's types.
    """
    parts = [
        __version__,
        *(f"{type(one).__module__}.{type(one).__qualname__}" for one in estimators),
        joblib.hash([one.get_params(deep=True) for one in estimators]),
        joblib.hash([_fingerprint(one) for one in arrays]),
        joblib.hash(folds),
        json.dumps(plain(settings), sort_keys=True),
    ]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:20]


def _fingerprint(values: Any) -> Any:
    """What stands for an array in a digest: itself, or the digests of its rows where it is large.

    Rows are read by a thread per core, which takes a small part of what hashing them in one does.
    """
    if isinstance(values, BlockedScans):
        return values.digest()
    large = type(values) is np.ndarray and values.ndim == 2 and values.nbytes > LARGE
    if not large or values.dtype.hasobject:
        return values
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        rows = list(pool.map(lambda row: hashlib.sha256(row.tobytes()).digest(), values))
    return [values.shape, str(values.dtype), rows]


class TaskStore:
    """Finished tasks of one run on disk.

    Parameters
    ----------
    folder : path
        Folder for runs; made if absent.
    name : str
        What the tasks are called, for instance folds.
    digest : str
        Which run, see `settings_digest`.
    settings : dict
        Written beside the journal, for people.
    encode, decode : callable, optional
        From what a task returns to JSON's types, and back; numbers need neither.

    Examples
    --------
    >>> import tempfile
    >>> from voxprior.validation.store import TaskStore
    >>> folder = tempfile.mkdtemp()
    >>> TaskStore(folder, "folds", "abc", {}).save(3, 0.25)
    >>> TaskStore(folder, "folds", "abc", {}).finished()
    {3: 0.25}
    """

    def __init__(
        self,
        folder,
        name: str,
        digest: str,
        settings: dict[str, Any],
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ):
        self.path = Path(folder) / digest / f"{name}{SUFFIX}"
        self.encode, self.decode = encode, decode
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path.with_name("settings.json"), json.dumps(plain(settings), indent=1))

    def save(self, index: int, value: Any) -> None:
        """Append what a finished task returned."""
        text = json.dumps([index, self.encode(value) if self.encode else value])
        with self.path.open("ab") as journal:
            # The line break comes first: a record that was cut short before spoils only itself.
            journal.write(f"\n{_checksum(text)} {text}".encode())

    def finished(self) -> dict[int, Any]:
        """Return what the finished tasks returned, by number."""
        decode = self.decode or (lambda value: value)
        return {index: decode(value) for index, value in _records(self.path)}


def count_finished(folder) -> dict[str, int]:
    """Count the tasks that a folder keeps, by what they are called.

    >>> import tempfile
    >>> count_finished(tempfile.mkdtemp())
    {}
    """
    counts: dict[str, int] = {}
    for path in sorted(Path(folder).glob(f"*/*{SUFFIX}")):
        found = len({index for index, _ in _records(path)})
        counts[path.stem] = counts.get(path.stem, 0) + found
    return {name: counts[name] for name in sorted(counts) if counts[name]}


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Read the records of a journal that are whole."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        checksum, _, text = line.decode("ascii", errors="replace").partition(" ")
        if text and checksum == _checksum(text):
            index, value = json.loads(text)
            yield index, value


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
