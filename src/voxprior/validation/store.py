"""Finished tasks in a folder, so that a run that was stopped goes on where it stopped.

A run is known by the digest of all that decides its numbers: estimator with its parameters and its
source, data, folds, seed, versions. What its tasks (folds, relabellings, fits of a learning curve)
have returned is a journal, ``<folder>/<digest>/<name>.journal``, of one record per finished task:

    <digest of the run and the rest> [<number>, {"task": <its digest>, "returned": <JSON>}]

A record is appended as soon as its task ends, hence kill -9 loses only the tasks that were running.
A record counts as absent, and its task is run again, where it was cut short, where its digest is
wrong (it was changed, or is of another run), or where its content does not fit its task: there are
so many tasks, each has its digest, a fold its test scans, a relabelling so many scores.

Another setting has another digest, hence another subfolder: nothing is mixed up. Where the source
of an estimator cannot be read, nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from voxprior.blocks import BlockedScans
from voxprior.content import versions
from voxprior.errors import InputError, InputWarning
from voxprior.source_code import UnreadableCodeError, code_digest
from voxprior.validation.result import plain
from voxprior.writing import write_whole

SUFFIX = ".journal"
# Bytes of an array above which starting threads pays.
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

    Raises
    ------
    UnreadableCodeError
        The source of an estimator, or of what divides scans, cannot be read.
    """
    estimators = list(estimators)
    parts = [
        json.dumps(versions(), sort_keys=True),
        code_digest(estimators, [one.get_params(deep=True) for one in estimators], folds),
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
        Written next to the journal, for people.
    encode, decode : callable, optional
        From what a task returns to JSON's types, and back; numbers need neither.
    fits : callable, optional
        Called with a task and what it returned by a record: whether that is possible.

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
        fits: Callable[[Any, Any], bool] | None = None,
    ):
        self.path = Path(folder) / digest / f"{name}{SUFFIX}"
        self.encode, self.decode, self.fits = encode, decode, fits
        self.tasks: Sequence | None = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise InputError(f"{self.path}: is not a file of voxprior's", remedy="Remove it")
        write_whole(self.path.with_name("settings.json"), json.dumps(plain(settings), indent=1))

    @classmethod
    def of(
        cls,
        folder: Any,
        name: str,
        estimators: Iterable[Any],
        arrays: Any,
        folds: Any,
        settings: dict[str, Any],
        **codec: Any,
    ) -> TaskStore | None:
        """Open the store of a run, see `settings_digest`; None where nothing can be kept.

        That is without a folder, or with a warning where the source of an estimator is unreadable.
        """
        if folder is None:
            return None
        try:
            digest = settings_digest(estimators, arrays, folds, settings)
        except UnreadableCodeError as error:
            told = f"No finished {name} are kept: the source of the estimator cannot be read"
            warnings.warn(InputWarning(f"{told} ({error})."), stacklevel=4)
            return None
        return cls(folder, name, digest, settings, **codec)

    def save(self, index: int, value: Any) -> None:
        """Append what a finished task returned."""
        returned = self.encode(value) if self.encode else value
        text = json.dumps([index, {"task": self._task(index), "returned": returned}])
        with self.path.open("ab") as journal:
            # The line break comes first: a record that was cut short before spoils only itself.
            journal.write(f"\n{_checksum(self.path, text)} {text}".encode())

    def finished(self, tasks: Sequence | None = None) -> dict[int, Any]:
        """Return what the finished tasks returned, by number; records of other tasks are left out.

        With `tasks`, these are the tasks of the run, also of all that is saved from here on.
        """
        self.tasks = self.tasks if tasks is None else tasks
        found = {}
        for index, content in _records(self.path):
            try:
                if self.tasks is not None and content["task"] not in ("", self._task(index)):
                    continue
                value = self.decode(content["returned"]) if self.decode else content["returned"]
                if self.fits is None or self.tasks is None or self.fits(self.tasks[index], value):
                    found[index] = value
            except Exception:  # what is not of the kind can fail anywhere
                continue
        return found

    def _task(self, index: int) -> str:
        """Digest of a task, if it is known; its record carries it, so that no two are exchanged."""
        return "" if self.tasks is None else joblib.hash(self.tasks[index])


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
    """Read the records of a journal that are whole, each with the number of a task."""
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        checksum, _, text = line.decode("ascii", errors="replace").partition(" ")
        if not text or checksum != _checksum(path, text):
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, list) and len(record) == 2:
            index, value = record
            if type(index) is int and index >= 0:
                yield index, value


def _checksum(path: Path, text: str) -> str:
    """Digest of a record and of where it belongs: those of another run or kind do not count."""
    whole = f"{path.parent.name}/{path.name} {text}".encode()
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
