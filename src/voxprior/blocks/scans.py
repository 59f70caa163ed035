"""BlockedScans: scans on disk that behave like an array, but are read a block of voxels at a time.

    scans[rows]             the scans of an index set; nothing is read or copied
    scans[:, columns]       an ndarray: all scans at some voxels
    scans[rows, columns]    an ndarray: some scans at some voxels

A fold is an index set, and families ask for nothing but blocks of voxels, so that a data set of any
size is trained on and tested with the memory of one block. What asks for the whole array, as
scikit-learn's own estimators do, gets it if it fits into `max_memory`, else an error with its size.

Memory maps are read where they are. Zarr and dask arrays come in chunks: a window of whole chunks
is kept, so that each is read once in a pass over the voxels, whatever the width of the blocks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxprior.blocks.memory import in_words, memory_limit
from voxprior.blocks.threads import side_by_side
from voxprior.errors import InputError, option

# Copies of the scans that work in memory makes: what does not fit so often is read in blocks.
COPIES = 4
# Copies that a model needs at least which cannot read blocks.
AT_LEAST = 2
# Share of the limit that a block and what is computed from it may be.
BLOCK_SHARE = 64
# Bytes of a window of chunks, if it holds one chunk at least, and the share of the limit it may be.
WINDOW, WINDOW_SHARE = 64 * 10**6, 4

Columns = slice | NDArray


class TooLargeError(InputError):
    """Scans would have to be in memory at once, and are too large for it."""


# ---------------------------------------------------------------- where scans come from


class Origin:
    """Where scans are read from, and what was found out about all of them, for every index set.

    `finite` says that no value is NaN or infinite, `gram` (n, n) holds their inner products,
    `seen` the class statistics of `voxprior.blocks.moments`, which are not sent to workers.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    finite: bool = False
    gram: NDArray[np.float64] | None = None
    seen: Any = None

    def read(self, columns: Columns) -> NDArray:
        """All scans at some voxels."""
        raise NotImplementedError

    def read_rows(self, rows: NDArray, columns: Columns) -> NDArray:
        """Some scans at some voxels; all scans are held at no more of them than a block has."""
        wanted = np.arange(self.shape[1])[columns]
        beside = isinstance(columns, slice) and columns.step in (None, 1)
        out = np.empty((len(rows), len(wanted)), self.dtype)
        bytes_ = min(WINDOW, memory_limit() // BLOCK_SHARE)
        width = max(1, bytes_ // (self.shape[0] * self.dtype.itemsize))
        for start in range(0, len(wanted), width):
            part = wanted[start : start + width]
            whole = slice(part[0], part[-1] + 1) if beside else part
            out[:, start : start + width] = self.read(whole)[rows]
        return out

    def digest(self) -> str:
        """Fingerprint of all values."""
        n, p = self.shape
        width, found = max(1, 2**22 // n), hashlib.blake2b(str((self.shape, self.dtype)).encode())
        for start in range(0, p, width):
            found.update(np.ascontiguousarray(self.read(slice(start, start + width))).data)
        return found.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"seen": None}


class MappedFile(Origin):
    """A memory map, or a view of one."""

    def __init__(self, array: NDArray):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, columns: Columns) -> NDArray:
        """All scans at some voxels; of a slice a view, which takes no memory."""
        return np.asarray(self.array[:, columns])

    def read_rows(self, rows: NDArray, columns: Columns) -> NDArray:
        """Some scans at some voxels; no others are read."""
        return (
            self.read(columns)[rows]
            if isinstance(columns, slice)
            else np.asarray(self.array[np.ix_(rows, columns)])
        )

    def __getstate__(self) -> dict[str, Any]:
        """Send the place in the file, not its content.

        A file without a name is sent whole, and so is one of which this process has its own copy.
        """
        whole: Any = self.array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        if not isinstance(whole.filename, str | os.PathLike) or whole.mode == "c":
            return super().__getstate__() | {"array": np.array(self.array)}
        if whole.mode != "r":
            whole.flush()
        first, start = (a.__array_interface__["data"][0] for a in (self.array, whole))
        return super().__getstate__() | {
            "array": None,
            "place": (str(whole.filename), whole.offset + first - start, self.array.strides),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop("place", None)
        self.__dict__.update(state)
        if place is not None:
            file = np.memmap(place[0], dtype=np.uint8, mode="r")
            self.array = np.ndarray(self.shape, self.dtype, file, *place[1:])


class ChunkedArray(Origin):
    """A zarr or dask array; the window of chunks that was read last is kept."""

    def __init__(self, array: Any):
        self.array, self.shape, self.dtype = array, tuple(array.shape), np.dtype(array.dtype)
        widths = array.chunks[1]
        self.is_graph = bool(np.ndim(widths))  # of dask, which divides its work itself
        if self.is_graph:
            self.edges = np.concatenate([[0], np.cumsum(widths)])
        else:
            self.edges = np.append(np.arange(0, self.shape[1], widths), self.shape[1])
        self._window: tuple[int, int, NDArray] | None = None

    def read(self, columns: Columns) -> NDArray:
        """All scans at some voxels."""
        if isinstance(columns, slice) and columns.step in (None, 1):
            start, stop, _ = columns.indices(self.shape[1])
            return self._between(start, max(start, stop))
        if isinstance(columns, slice):
            columns = np.arange(self.shape[1])[columns]
        out = np.empty((self.shape[0], len(columns)), self.dtype)
        chunk = np.searchsorted(self.edges, columns, side="right") - 1
        for one in np.unique(chunk):
            which, left = chunk == one, self.edges[one]
            out[:, which] = self._between(left, self.edges[one + 1])[:, columns[which] - left]
        return out

    def _between(self, start: int, stop: int) -> NDArray:
        if self._window is not None and self._window[0] <= start < self._window[1] < stop:
            left, right, values = self._window
            head = values[:, start - left :].copy()
            return np.concatenate([head, self._between(right, stop)], axis=1)
        if self._window is None or start < self._window[0] or stop > self._window[1]:
            per_voxel = self.shape[0] * self.dtype.itemsize
            most = memory_limit() // WINDOW_SHARE // per_voxel
            left = self.edges[self.edges <= start].max()
            rights = self.edges[self.edges >= stop]
            if rights[0] - left > most:  # a chunk is too large to be kept
                self._window = None
                return self._fetched(start, stop)
            wanted = left + min(most, WINDOW // per_voxel)
            right = max(rights[0], self.edges[self.edges <= max(wanted, rights[0])].max())
            self._window = None  # gone before the next is read
            self._window = (int(left), int(right), self._fetched(left, right))
        left, _, values = self._window
        return values[:, start - left : stop - left]

    def _fetched(self, start: int, stop: int) -> NDArray:
        if self.is_graph:
            return np.asarray(self.array[:, int(start) : int(stop)])
        # zarr, asked for many chunks, holds them all next to what it makes of them: twice the time.
        found = np.empty((self.shape[0], stop - start), self.dtype)
        inner = self.edges[(self.edges > start) & (self.edges < stop)].tolist()

        def fill(ends: tuple[int, int]) -> None:
            found[:, ends[0] - start : ends[1] - start] = self.array[:, ends[0] : ends[1]]

        side_by_side(fill, pairwise([int(start), *inner, int(stop)]))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_window": None}


class Changed(Origin):
    """Scans after a change that is made block by block: ``change(values, columns)``."""

    def __init__(self, scans: BlockedScans, change: Callable, n_columns: int | None = None):
        self.scans, self.change = scans, change
        self.shape = (len(scans), scans.shape[1] if n_columns is None else n_columns)
        self.dtype, self.finite = scans.dtype, scans.origin.finite

    def read(self, columns: Columns) -> NDArray:
        """All scans at some voxels, changed."""
        if isinstance(columns, slice):
            columns = slice(*columns.indices(self.shape[1]))
        return self.change(self.scans[:, columns], columns)


class Beside(Origin):
    """Scans with further columns, which are in memory, after the last voxel."""

    def __init__(self, scans: BlockedScans, further: NDArray):
        self.scans, self.further = scans, further
        self.shape = (len(scans), scans.shape[1] + further.shape[1])
        self.dtype = scans.dtype
        self.finite = scans.origin.finite and bool(np.isfinite(further).all())

    def read(self, columns: Columns) -> NDArray:
        """All scans at some voxels and further columns."""
        wanted = np.arange(self.shape[1])[columns]
        last = self.scans.shape[1]
        if len(wanted) and wanted[-1] < last and isinstance(columns, slice):
            return self.scans[:, columns]
        inside = wanted < last
        out = np.empty((self.shape[0], len(wanted)), self.dtype)
        out[:, inside] = self.scans[:, wanted[inside]]
        out[:, ~inside] = self.further[:, wanted[~inside] - last]
        return out


# ---------------------------------------------------------------- what families see


class BlockedScans:
    """Scans (n, p) that are read a block of voxels at a time; `blocked` makes them.

    Parameters
    ----------
    origin : Origin
        Where all scans are.
    rows : array of int, optional
        Which of them these are; all by default.
    dtype : dtype, optional
        What values are read as; as they are stored by default.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.blocks import max_memory, blocked
    >>> import tempfile
    >>> mapped = np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=(6, 1000))
    >>> with max_memory("50 KB"):
    ...     scans = blocked(mapped)
    >>> scans[[1, 3]].shape, scans[[1, 3], :10].shape, type(scans[:, 5:7]).__name__
    ((2, 1000), (2, 10), 'ndarray')
    """

    ndim = 2

    def __init__(self, origin: Origin, rows: NDArray | None = None, dtype: Any = None):
        self.origin, self.rows = origin, rows
        self.dtype = np.dtype(origin.dtype if dtype is None else dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of scans and of voxels."""
        return (self.origin.shape[0] if self.rows is None else len(self.rows), self.origin.shape[1])

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that they would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            if isinstance(key, int | np.integer):
                return self._subset(np.array([key]))._read(slice(None))[0]
            return self._subset(key)
        rows, columns = key
        if columns is Ellipsis:
            return self._subset(rows)
        columns = columns if isinstance(columns, slice) else np.asarray(columns)
        everyone = isinstance(rows, slice) and rows == slice(None)
        return (self if everyone else self._subset(rows))._read(columns)

    def _subset(self, key: Any) -> BlockedScans:
        rows = np.arange(self.origin.shape[0]) if self.rows is None else self.rows
        key = key if isinstance(key, slice) else np.asarray(key)
        return BlockedScans(self.origin, rows[key], self.dtype)

    def _read(self, columns: Columns) -> NDArray:
        origin, rows = self.origin, self.rows
        values = origin.read(columns) if rows is None else origin.read_rows(rows, columns)
        return values.astype(self.dtype, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        """Return all values, where they fit into memory."""
        self.refuse_too_large()
        whole = self._read(slice(None))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def refuse_too_large(self) -> None:
        """Refuse scans that cannot be in memory at once, with the size that this would need."""
        if AT_LEAST * self.nbytes > memory_limit():
            raise TooLargeError(
                f"Scans of {in_words(self.nbytes)} would have to be in memory at once, which needs "
                f"{in_words(AT_LEAST * self.nbytes)}",
                expected=f"no more than {in_words(memory_limit())}",
                remedy=f"Raise {option('max_memory')}, or take a family that reads blocks of "
                "voxels: auto, gp, rvm, sharing, network or fields",
            )

    def as_type(self, dtype: Any) -> BlockedScans:
        """The same scans, read as numbers of another type."""
        return BlockedScans(self.origin, self.rows, dtype)

    def changed(self, change: Callable, n_columns: int | None = None) -> BlockedScans:
        """The scans after ``change(values, columns)``, which is made whenever a block is read.

        `change` is an object that can be sent to workers, `n_columns` how many columns are left.
        """
        return BlockedScans(Changed(self, change, n_columns))

    def digest(self) -> str:
        """Fingerprint of the values."""
        rows = b"" if self.rows is None else np.ascontiguousarray(self.rows).tobytes()
        return hashlib.blake2b(self.origin.digest().encode() + rows).hexdigest()

    def __repr__(self) -> str:
        return f"BlockedScans({self.shape[0]} scans, {self.shape[1]} voxels, {self.dtype})"


def blocked(X: Any) -> Any:
    """Scans as `BlockedScans`, if they are on disk and too many for memory; else as an array.

    What is in memory already, or is no array at all, is returned as it is. An array on disk of
    which `COPIES` fit into `max_memory` is read (a memory map stays one).
    """
    if not is_on_disk(X):
        return X
    if any(size != size for size in X.shape):  # NaN
        raise InputError(
            "The size of a dask array is not known",
            got=f"shape {X.shape}",
            remedy="Call its method compute_chunk_sizes() first",
        )
    if len(X.shape) != 2 or COPIES * X.size * np.dtype(X.dtype).itemsize <= memory_limit():
        return np.asarray(X)
    return BlockedScans(MappedFile(X) if isinstance(X, np.ndarray) else ChunkedArray(X))


def is_on_disk(X: Any) -> bool:
    """Whether X is a memory map or a view of one, or a zarr or dask array."""
    if isinstance(X, np.ndarray):
        while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
            X = X.base
        return isinstance(X, np.memmap)
    package = type(X).__module__.partition(".")[0]
    return package in ("dask", "zarr") and hasattr(X, "chunks")


def with_columns(X: BlockedScans, further: NDArray) -> BlockedScans:
    """Scans with further columns (n, q) after the last voxel."""
    return BlockedScans(Beside(X, np.asarray(further, dtype=X.dtype)))


def _unchanged(values: NDArray, columns: Columns) -> NDArray:
    return values


def first_columns(X: Any, n_columns: int) -> Any:
    """The first columns of scans; of blocked ones nothing is read."""
    if n_columns == X.shape[1]:
        return X
    return X.changed(_unchanged, n_columns) if isinstance(X, BlockedScans) else X[:, :n_columns]
