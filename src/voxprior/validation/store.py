"""Finished folds in a folder, so that a run that was stopped goes on where it stopped.

A run is known by the digest of all that decides its numbers: estimator with its parameters, data,
folds, seed, versions. Its folds are files ``<folder>/<digest>/fold-00007.json``, each written whole
or not at all. Another setting has another digest, hence another subfolder: nothing is mixed up.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from voxprior.validation.fold import FoldOutcome
from voxprior.validation.result import plain, write_whole


def settings_digest(estimator, X, y, groups, fit_params, folds, settings: dict[str, Any]) -> str:
    """Digest of everything that decides the numbers of a run."""
    parts = [
        f"{type(estimator).__module__}.{type(estimator).__qualname__}",
        joblib.hash(estimator.get_params(deep=True)),
        joblib.hash((X, y, groups, fit_params)),
        joblib.hash([(np.asarray(a), np.asarray(b)) for a, b in folds]),
        json.dumps(plain(settings), sort_keys=True),
    ]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:20]


class FoldStore:
    """Folds of one run on disk.

    Parameters
    ----------
    folder : path
        Folder for runs; made if absent.
    digest : str
        Which run, see `settings_digest`.
    settings : dict
        Written beside the folds, for people.

    Examples
    --------
    >>> import tempfile
    >>> from voxprior.validation.store import FoldStore
    >>> FoldStore(tempfile.mkdtemp(), "abc", {}).finished()
    {}
    """

    def __init__(self, folder, digest: str, settings: dict[str, Any]):
        self.path = Path(folder) / digest
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "settings.json", json.dumps(plain(settings), indent=1))

    def save(self, index: int, fold: FoldOutcome) -> None:
        """Write one finished fold."""
        content = fold._replace(model=None)._asdict()
        write_whole(self.path / f"fold-{index:05d}.json", json.dumps(_exact(content)))

    def finished(self) -> dict[int, FoldOutcome]:
        """Read the folds that are there, by number."""
        return {int(path.stem.split("-")[1]): _read(path) for path in self.path.glob("fold-*.json")}


def _exact(content: dict[str, Any]) -> dict[str, Any]:
    """JSON's types with every number kept, infinities too."""
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in content.items()}


def _read(path: Path) -> FoldOutcome:
    content = json.loads(path.read_text(encoding="utf-8"))
    for name in ("test", "y_pred"):
        content[name] = np.array(content[name])
    if content["values"] is not None:
        content["values"] = np.array(content["values"], dtype=float)
    return FoldOutcome(**content)
