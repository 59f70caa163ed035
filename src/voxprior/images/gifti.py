"""GIFTI read as far as each array declares and no further.

nibabel expands an array before it looks at the declared size, and lets XML declare entities. Here
the file goes through expat a block at a time: declarations of its own are refused, and the text of
an array is decoded into the memory that its dimensions declare; one value more or less is an error.
"""

from __future__ import annotations

import base64
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from voxprior.images import bounds

__all__ = ["read_maps", "read_mesh"]

BYTES_AT_ONCE = 2**16
# Text for each byte of an array: base64 has 4 characters for 3 bytes, and may be broken into lines;
# a number in decimal digits has this many characters at most.
BASE64_CHARACTERS = 2
NUMBER_CHARACTERS = 64
POINTS, TRIANGLES = 1008, 1009  # NIfTI's codes of intent


def read_maps(path: Any) -> np.ndarray:
    """Read maps on vertices, one array each: float32 of shape (n_vertices,) or (n_vertices, n)."""
    first: list[np.ndarray] = []
    several = bytearray()  # grows in place, so that maps are not held twice
    sizes: list[int] = []

    def keep(_: int, array: np.ndarray) -> None:
        if array.size != max(array.shape):
            raise ValueError(f"one value per vertex was expected in each array, got {array.shape}")
        sizes.append(array.size)
        if array.size != sizes[0]:
            raise ValueError(f"arrays of {sizes[0]} and of {array.size} vertices")
        first.append(array.ravel())
        while len(sizes) > 1 and first:
            several.extend(first.pop(0).data.cast("B"))

    read_arrays(path, keep, np.float32)
    if not sizes:
        raise ValueError("it has no data array")
    return first[0] if first else np.frombuffer(several, np.float32).reshape(-1, sizes[0]).T


def read_mesh(path: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read the coordinates (n_vertices, 3) and the faces (n_faces, 3) of a mesh."""
    found: dict[int, np.ndarray] = {}
    read_arrays(path, lambda intent, array: found.setdefault(intent, array))
    if not {POINTS, TRIANGLES} <= set(found):
        raise ValueError("a mesh needs an array of points and one of triangles")
    points, faces = found[POINTS], found[TRIANGLES]
    if any(array.ndim != 2 or array.shape[1] != 3 for array in (points, faces)):
        raise ValueError(f"points and triangles of shape {points.shape} and {faces.shape}")
    if not np.isfinite(points).all():
        raise ValueError("some vertices have no finite place")
    if faces.dtype.kind not in "iu" or faces.min() < 0 or faces.max() >= len(points):
        raise ValueError(f"its faces must name vertices from 0 to {len(points) - 1}")
    return points, faces


def read_arrays(path: Any, keep: Callable[[int, np.ndarray], Any], dtype: Any = None) -> None:
    """Call ``keep(intent, array)`` for every data array of a file, of this type or of its own."""
    path = Path(path)
    reader = _Reader(path, keep, dtype)
    parser = expat.ParserCreate()
    parser.buffer_text, parser.buffer_size = True, BYTES_AT_ONCE
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    seen = 0
    with bounds.opened(str(path)) as stream:
        while block := stream.read(BYTES_AT_ONCE):
            seen += len(block)
            parser.Parse(block)
            if seen > reader.most:
                raise ValueError("it has more text than its arrays can need")
    parser.Parse(b"", True)


class _Reader:
    """What expat calls: it knows the array whose text is being read, if any."""

    def __init__(self, path: Path, keep: Callable[[int, np.ndarray], Any], dtype: Any):
        self.path, self.keep, self.dtype = path, keep, dtype
        self.most = bounds.HEADER_BYTES
        self.array: _Array | None = None
        self.inside = False

    def doctype(self, name: str, system: str | None, public: str | None, own: int) -> None:
        """Refuse declarations inside the file: entities can expand without end or name files."""
        if own:
            raise ValueError("it declares entities of its own, which data do not need")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "DataArray":
            self.array = _Array(self.path, attributes, self.dtype)
            self.most += self.array.most_text
        self.inside = tag == "Data" and self.array is not None

    def text(self, text: str) -> None:
        if self.inside and self.array is not None:
            self.array.add(text)

    def end(self, tag: str) -> None:
        self.inside = False
        if tag == "DataArray" and self.array is not None:
            self.keep(self.array.intent, self.array.finished())
            self.array = None


class _Array:
    """One data array: what its attributes declare, and its values as they come."""

    def __init__(self, path: Path, attributes: dict[str, str], dtype: Any):
        from nibabel import nifti1
        from nibabel.gifti import util

        n_dimensions = int(attributes.get("Dimensionality", "1"))
        if not 1 <= n_dimensions <= 6:
            raise ValueError(f"an array of {n_dimensions} dimensions")
        self.path, self.attributes = path, attributes
        self.shape = tuple(int(attributes[f"Dim{i}"]) for i in range(n_dimensions))
        codes: Any = nifti1  # its tables of codes are not typed
        self.intent = int(codes.intent_codes.code[attributes.get("Intent", "none")])
        self.encoding = util.gifti_encoding_codes.label[attributes["Encoding"]]
        order = attributes.get("ArrayIndexingOrder", "RowMajorOrder")
        self.order: Any = util.array_index_order_codes.npcode[order]
        endian = util.gifti_endian_codes.byteorder[attributes.get("Endian", sys.byteorder)]
        self.stored = np.dtype(codes.data_type_codes.dtype[attributes["DataType"]])
        self.stored = self.stored.newbyteorder(endian)
        self._check()
        self.values = np.empty(self.n_values, dtype or self.stored.newbyteorder("="))
        self.filled, self.rest = 0, b""  # values there, and bytes of the next one
        self.text = ""  # the start of a word or of four characters that go on in the next piece
        self.inflate = zlib.decompressobj()
        self.exact: list[np.ndarray] = []  # some of the values that are rounded

    @property
    def n_values(self) -> int:
        return math.prod(self.shape)

    @property
    def most_text(self) -> int:
        """Characters that the array may have in the file."""
        by_byte = BASE64_CHARACTERS * self.n_values * self.stored.itemsize
        return NUMBER_CHARACTERS * self.n_values if self.encoding == "ASCII" else by_byte

    def _check(self) -> None:
        """Refuse an array that cannot be in the file, or does not fit into memory."""
        bounds.check_numbers(self.shape, self.stored, str(self.path))
        size = os.path.getsize(self.path)
        if self.encoding == "External":
            size = self._external().stat().st_size
        size *= bounds.DEFLATE_RATIO if bounds.is_gzipped(str(self.path)) else 1
        size *= bounds.DEFLATE_RATIO if self.encoding == "B64GZ" else 1
        if self.n_values > size:
            raise ValueError(f"it declares {self.n_values} values, more than it can hold")
        bounds.check_memory(self.n_values, str(self.path))

    def add(self, text: str) -> None:
        """Decode the next piece of text."""
        if self.encoding == "ASCII":
            text = self.text + text
            cut = max(text.rfind(white) for white in " \t\r\n") + 1
            self.text = text[cut:]
            if len(self.text) > NUMBER_CHARACTERS:
                raise ValueError("a number of too many digits")
            self._fill(np.array(text[:cut].split(), dtype=self.stored))
        elif self.encoding in ("B64BIN", "B64GZ"):
            text = self.text + "".join(text.split())
            cut = len(text) - len(text) % 4
            self.text = text[cut:]
            content = base64.b64decode(text[:cut], validate=True)
            for piece in self._inflated(content) if self.encoding == "B64GZ" else [content]:
                self._add_bytes(piece)

    def _inflated(self, content: bytes) -> Iterator[bytes]:
        piece = b""
        while content or len(piece) == BYTES_AT_ONCE:  # a full piece may have left some inside
            piece = self.inflate.decompress(content, BYTES_AT_ONCE)
            content = self.inflate.unconsumed_tail
            yield piece
        if self.inflate.unused_data:
            raise ValueError("an array goes on after its end")

    def _add_bytes(self, content: bytes) -> None:
        content = self.rest + content
        whole = len(content) - len(content) % self.stored.itemsize
        self.rest = content[whole:]
        self._fill(np.frombuffer(content[:whole], self.stored))

    def _fill(self, values: np.ndarray) -> None:
        if self.filled + len(values) > self.n_values:
            raise ValueError(f"an array has more values than it declares, {self.shape}")
        if self.values.dtype != self.stored:
            self.exact.append(bounds.sampled(values, self.n_values).copy())
        with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are reported later
            self.values[self.filled : self.filled + len(values)] = values
        self.filled += len(values)

    def finished(self) -> np.ndarray:
        """Return the array; it must be whole."""
        if self.encoding == "ASCII":
            self.add(" ")
        elif self.encoding == "External":
            self._read_external()
        whole = self.encoding != "B64GZ" or self.inflate.eof
        if self.filled < self.n_values or self.rest or self.text or not whole:
            raise ValueError(f"an array is shorter than it declares, {self.shape}")
        if self.exact:
            bounds.refuse_lost_digits(np.concatenate(self.exact), str(self.path))
        return np.ascontiguousarray(self.values.reshape(self.shape, order=self.order))

    def _external(self) -> Path:
        """Find the file that holds the array; SPM writes it into the folder of the GIFTI."""
        name = self.attributes.get("ExternalFileName", "")
        if Path(name).name != name or not (self.path.parent / name).is_file():
            raise ValueError(f"its data are in {name!r}, which is not a file in the same folder")
        return self.path.parent / name

    def _read_external(self) -> None:
        offset = int(self.attributes.get("ExternalFileOffset") or 0)
        with open(self._external(), "rb") as stream:
            stream.seek(offset)
            while self.filled < self.n_values and (content := stream.read(BYTES_AT_ONCE)):
                missing = (self.n_values - self.filled) * self.stored.itemsize - len(self.rest)
                self._add_bytes(content[:missing])
