"""Arrays of a packed study: files of numbers, each of which is checked whenever it is read.

An array is a folder with a `zarr.json` and a file per chunk. The `zarr.json` must say what
`voxprior pack` writes for an array of this shape: the file cannot choose codec, type
or size. The numbers of a chunk are used after

    1. it is a regular file, not longer than its numbers can be
    2. its SHA-256 is the one that the description has for its place; in stores of version 0.2,
       which have none, its own checksum (CRC-32C) is right
    3. the header of Blosc declares the bytes of one chunk, compressed by Zstandard
    4. no number is NaN or infinite
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import struct
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.documents import read_json
from voxprior.errors import InputError
from voxprior.images.findings import listed

__all__ = ["ARRAYS", "CHUNK", "DOCUMENT_BYTES", "SCANS", "StoredArray"]
__all__ += ["damaged", "digest_of", "package", "read_document"]

SCANS = "scans"
ARRAYS = ("mask", "affine", "points", "faces")
# Type of each array, and what zarr takes for a chunk that was not written.
KINDS: dict[str, tuple[str, Any]] = {
    SCANS: ("<f4", "NaN"), "mask": ("<u1", 255), "affine": ("<f8", -1), "points": ("<f8", -1),
    "faces": ("<i8", -1),
}  # fmt: skip
# Bytes of a chunk of scans before compression: enough for the disk, not too many for any memory.
CHUNK = 16 * 10**6
# More than the mask of a whole brain at 0.3 mm, or the mesh of a million vertices.
ARRAY_BYTES = 2**28
# Names and columns of some 100,000 scans.
DOCUMENT_BYTES = 2**24
CHECKSUM = 4
# Versions, flags (the compression in the upper three bits), size of a number, and the bytes of the
# numbers, of a block and of the whole.
BLOSC_HEADER, ZSTANDARD = struct.Struct("<BBBBIII"), 4
# A link is not followed, and a FIFO is not waited for.
AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BLOSC = {
    "name": "blosc",
    "configuration": {
        "typesize": 4, "cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 0,
    },
}  # fmt: skip
CRC32C = {"name": "crc32c"}


def damaged(path: str | Path, why: str) -> InputError:
    """Return the error of a file that is not what was packed."""
    return InputError(
        f"{path}: is damaged ({' '.join(why.split())})",
        remedy="Copy the store again, or pack the images again",
    )


def read_document(path: Path, what: str) -> Any:
    """Read a `zarr.json`, unless it is a link."""
    if path.is_symlink() or not path.is_file():
        raise damaged(path, "it is missing, a link, or another thing that is not a file")
    return read_json(path, what, DOCUMENT_BYTES)


def package(name: str) -> Any:
    """Return zarr, or what it comes with, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            "Packed studies need the package zarr", remedy="Run: pip install 'voxprior[dask]'"
        ) from error


class StoredArray(NamedTuple):
    """An array of a store, unread.

    `digests` are those of its chunks, None in stores of version 0.2.
    """

    folder: str
    shape: tuple[int, ...]
    digests: tuple[str, ...] | None = None

    @classmethod
    def of(cls, folder: Path, shape: Any, digests: Any) -> StoredArray:
        """An array as its description has it, if it may be one."""
        axes = {"mask": (1, 3)}.get(folder.name, (2,))
        plain = isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)
        if not plain or len(shape) not in axes:
            raise damaged(folder, "its shape is none that is packed")
        array = cls(os.path.abspath(folder), tuple(shape))
        if digests is None:
            return array
        texts = isinstance(digests, list) and all(isinstance(one, str) for one in digests)
        if not texts or len(digests) != array.n_chunks:
            raise damaged(folder, f"{array.n_chunks} digests of its chunks are expected")
        return array._replace(digests=tuple(digests))

    @property
    def name(self) -> str:
        """One of those in `KINDS`."""
        return os.path.basename(self.folder)

    @property
    def dtype(self) -> np.dtype:
        """Type of its numbers."""
        return np.dtype(KINDS[self.name][0])

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk: some voxels of all scans; other arrays are one chunk."""
        if self.name != SCANS:
            return self.shape
        n, n_voxels = self.shape
        return (n, min(n_voxels, max(1, CHUNK // (4 * n))))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.shape[-1] // self.chunks[-1])

    def file(self, index: int) -> str:
        """File of a chunk; they stand in the order of their voxels."""
        return os.path.join(self.folder, "c", *["0"] * (len(self.shape) - 1), str(index))

    def check(self) -> None:
        """Refuse an array that is not described as `voxprior pack` does, or is too large."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if self.name != SCANS and size > ARRAY_BYTES:
            raise InputError(
                f"{self.folder}: would take {size / 1e9:.3g} GB",
                expected=f"at most {ARRAY_BYTES / 1e9:.3g} GB",
                remedy="If that much is not expected the store is damaged: copy it again",
            )
        found = read_document(Path(self.folder, "zarr.json"), "description of an array")
        expected = self._described()
        if not isinstance(found, dict):
            raise damaged(self.folder, "it is not described")
        if isinstance(found.get("codecs"), list):  # a byte has no order; zarr may write that or not
            plain = [LITTLE if one == {"name": "bytes"} else one for one in found["codecs"]]
            found = found | {"codecs": plain}
        found = {"dimension_names": None, "storage_transformers": [], "attributes": {}} | found
        others = [k[:50] for k in {**expected, **found} if found.get(k) != expected.get(k)]
        if others:
            raise InputError(
                f"{self.folder}: is not written as voxprior pack writes it",
                got=f"another {listed(others)}",
                remedy="Pack the images again",
            )

    def _described(self) -> dict[str, Any]:
        """What zarr writes of such an array."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [*self.shape],
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*self.chunks]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": KINDS[self.name][1],
            "codecs": [LITTLE, *([BLOSC] if self.name == SCANS else []), CRC32C],
            "dimension_names": None,
            "storage_transformers": [],
            "attributes": {},
        }

    def chunk(self, index: int = 0) -> NDArray:
        """Read the numbers of a chunk, and check them."""
        file = self.file(index)
        size = math.prod(self.chunks) * self.dtype.itemsize
        try:
            content = _read_regular(file, size + BLOSC_HEADER.size + CHECKSUM)
            self._check_content(content, index)
            body = np.frombuffer(content, np.uint8)[:-CHECKSUM]
            body = _expanded(body, size) if self.name == SCANS else body
            numbers = body.view(self.dtype).reshape(self.chunks)
        except (OSError, RuntimeError, ValueError) as error:
            raise damaged(file, getattr(error, "strerror", None) or str(error)) from error
        # zarr fills the last chunk of scans with NaN.
        numbers = numbers[..., : self.shape[-1] - index * self.chunks[-1]]
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise damaged(file, "it holds NaN or infinity, which voxprior pack leaves out")
        return numbers

    def _check_content(self, content: bytes, index: int) -> None:
        if self.digests is not None:
            right = digest_of(content) == self.digests[index]
        else:
            right = _crc32c(content[:-CHECKSUM]).to_bytes(4, "little") == content[-CHECKSUM:]
        if not right:
            raise ValueError("it is not what was packed at this place")


def digest_of(content: bytes) -> str:
    """SHA-256, by which a description names a chunk.

    >>> digest_of(b"voxels")[:8]
    '38d11342'
    """
    return hashlib.sha256(content).hexdigest()


def _read_regular(file: str, most: int) -> bytes:
    """Content of a regular file of at most so many bytes."""
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | AS_IT_IS)) as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > most:
            raise ValueError(f"it has {found.st_size} bytes, where {most} are the most")
        return stream.read(found.st_size)


def _expanded(body: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """What Blosc compressed, if its header declares so many bytes."""
    blosc = package("numcodecs.blosc")
    if len(body) < BLOSC_HEADER.size:
        raise ValueError("it is cut short")
    _, _, flags, typesize, declared, block, compressed = BLOSC_HEADER.unpack(
        body[: BLOSC_HEADER.size].tobytes()
    )
    known = (declared, compressed, typesize, flags >> 5) == (size, len(body), 4, ZSTANDARD)
    if not known or not 0 < block <= size:
        raise ValueError(f"it declares {declared} bytes, not {size}, or another compression")
    blosc.use_threads = False  # as zarr does: its threads do not survive a fork
    values = np.empty(size, np.uint8)
    blosc.decompress(body, values)
    return values


def _crc32c(content: bytes) -> int:
    try:
        return int(import_module("google_crc32c").value(content))
    except ImportError:  # zarr comes with either
        return int(import_module("crc32c").crc32c(content))
