"""How much memory scans may take: one limit for all that reads them."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from voxprior.errors import InputError, option

SHARE = 0.25  # of the machine's memory, where nothing else is said
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", start=1)}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", re.IGNORECASE)
# Where Linux keeps the limit of a container, in its second and its first version.
CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_given: ContextVar[int | None] = ContextVar("max_memory", default=None)


@contextmanager
def max_memory(limit: str | float | None) -> Iterator[int]:
    """Limit the memory of scans within the context, in this process and in its workers.

    Arrays on disk (memory maps, zarr and dask arrays) of which four copies do not fit into the
    limit are read a block of voxels at a time; what cannot be done that way is refused with the
    size that it would need. Each worker has the limit for itself.

    Parameters
    ----------
    limit : str, number of bytes or None
        For instance "2 GB" or "500 MiB". None keeps the present limit, by default a quarter of the
        memory of the machine, or of the container.

    Examples
    --------
    >>> import voxprior
    >>> with voxprior.max_memory("1.5 GB") as bytes_:
    ...     print(bytes_)
    1500000000
    """
    before = _given.set(_given.get() if limit is None else parse_size(limit))
    try:
        yield memory_limit()
    finally:
        _given.reset(before)


def memory_limit() -> int:
    """Bytes that scans may take now."""
    given = _given.get()
    return int(SHARE * machine_memory()) if given is None else given


def parse_size(size: str | float) -> int:
    """Bytes of a size with its unit.

    >>> parse_size("2 GB"), parse_size("1.5KiB"), parse_size(100)
    (2000000000, 1536, 100)
    """
    found = SIZE.fullmatch(str(size))
    number = 0.0
    if found:
        unit = (found[2] or "").replace("I", "i")
        number = float(found[1]) * UNITS[unit[:1].upper() + unit[1:]]
    if number < 1:
        raise InputError(
            f"{option('max_memory', size)} is not a size", expected="for instance 2GB or 500MB"
        )
    return int(number)


def in_words(size: float) -> str:
    """Write a number of bytes for people.

    >>> in_words(6.2e9), in_words(2.5e6)
    ('6.2 GB', '2.5 MB')
    """
    unit = "GB" if size >= 1e9 else "MB"
    return f"{size / (1e9 if unit == 'GB' else 1e6):.3g} {unit}"


@cache
def machine_memory() -> int:
    """Bytes of memory that this process may have: of the machine, the container or its limits."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, CONTAINER):
        text = path.read_text().strip() if path.is_file() else ""
        found += [int(text)] if text.isdigit() else []
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(kind)[0]
        found += [] if soft == resource.RLIM_INFINITY else [soft]
    return min(found)
