"""Digests by content of what decides a number: files, values in memory, versions of software.

A kept result is used again only where all of these are as they were. Size and time of a file prove
nothing: copies keep both, so every file is read once by a process.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

__all__ = ["OWN", "content_of", "file_digest", "versions"]

# The folder of this package.
OWN = Path(__file__).parent

# Libraries that read images and tables; versions come from their records, without an import.
READERS = ("nibabel", "nilearn", "pandas")


def versions() -> dict[str, str]:
    """Versions of what computes; that of voxprior comes with a digest of its source.

    >>> sorted(versions())[-4:]
    ['python', 'scikit-learn', 'scipy', 'voxprior']
    """
    import numba
    import numpy
    import scipy
    import sklearn

    found = {
        "python": platform.python_version(),
        "voxprior": f"{sys.modules[__package__].__version__} ({_own_source()})",
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
    }
    return found | {name: _version(name) for name in READERS}


@lru_cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@lru_cache
def _own_source() -> str:
    """Digest of this package as it is installed: who develops it changes no version."""
    digest = hashlib.sha256()
    for path in sorted(OWN.rglob("*.py")):
        digest.update(path.relative_to(OWN).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def file_digest(path: str | os.PathLike) -> str | None:
    """SHA-256 of a file; None where there is none. A process reads a file again once it changed."""
    try:
        path = os.path.realpath(path)
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    if not os.path.isfile(path):
        return None
    # The time of the inode's last change cannot be set by hand, unlike that of the content.
    changed = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return _digest_of(path, changed)


@lru_cache(maxsize=2**14)
def _digest_of(path: str, changed: tuple[int, ...]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(value: Any) -> Any:
    """What stands for a setting by its content, in JSON's types; files are read.

    Parameters
    ----------
    value : anything
        A path, or a text that names a file, becomes the digest of the file, with its name; plain
        values are themselves, lists and dictionaries are taken item by item, and all else
        (images, tables, arrays) becomes a digest of the object.

    Examples
    --------
    >>> content_of({"delay": 5.0, "conditions": ("face", "house")})
    {'delay': 5.0, 'conditions': ['face', 'house']}
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | os.PathLike):
        digest = file_digest(value)
        return os.fspath(value) if digest is None else [os.fspath(value), digest]
    if isinstance(value, Mapping):
        return {str(name): content_of(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [content_of(one) for one in value]
    import joblib

    try:
        return f"{type(value).__name__} {joblib.hash(value)}"
    except Exception:  # pickling fails in many ways; such a value equals no other
        return f"{type(value).__name__} {uuid4().hex}"
