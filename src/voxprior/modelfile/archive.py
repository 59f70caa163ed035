"""The archive of a model file: stored members, their digest, and arrays that are what they declare.

Writing fixes everything that a zip archive leaves open (dates, systems, permissions), so the same
members give the same bytes. Reading expands nothing: a member is a slice of the file.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import stat
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from voxprior.errors import InputError

HEADER, SCHEMA = "voxprior.json", "schema.json"
MEMBER = re.compile(r"voxprior\.json|schema\.json|[0-9]{1,20}\.(npy|npz|bin)")
SPARSE_MEMBER = re.compile(r"(format|shape|data|indices|indptr|_is_array)\.npy")
MOST_OVERHEAD = 256  # bytes that the archive itself takes for a member

ARRAY_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def pack(members: Mapping[str, bytes], stream: BinaryIO) -> None:
    """Write members into an archive without compression, dates or permissions of this machine."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, content)


def digest(members: Mapping[str, bytes], format_number: int) -> str:
    """SHA-256 over the number of the format and the name, size and bytes of every member."""
    total = hashlib.sha256(f"voxprior {format_number}\n".encode())
    for name in sorted(members):
        total.update(f"{name} {len(members[name])}\n".encode())
        total.update(members[name])
    return total.hexdigest()


def unpack(data: bytes, allowed: re.Pattern[str] = MEMBER) -> dict[str, bytes]:
    """Read the members of an archive that `pack` wrote; refuse all that it would not write."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:
        # A damaged directory makes zipfile raise almost anything.
        raise InputError("is not a model that voxprior saved, or is cut off") from error
    entries = archive.infolist()
    for entry in entries:
        _check_entry(entry, allowed)
    names = {entry.filename for entry in entries}
    if len(names) < len(entries):
        raise InputError("holds a member more than once")
    overhead = len(data) - sum(entry.file_size for entry in entries)
    if not 0 <= overhead <= MOST_OVERHEAD * (len(entries) + 1):
        raise InputError(
            "declares members whose sizes do not add up to the file",
            expected=f"{len(data):,} bytes",
            got=f"{len(data) - overhead:,} bytes",
        )
    try:
        return {name: archive.read(name) for name in names}
    except Exception as error:
        raise InputError("was altered or damaged since it was saved") from error


def _check_entry(entry: zipfile.ZipInfo, allowed: re.Pattern[str]) -> None:
    """Refuse a member of a strange name or kind, compressed or encrypted."""
    name = ascii(entry.orig_filename)[:80]
    if not allowed.fullmatch(entry.orig_filename):
        raise InputError(f"holds a member that no model has, {name}")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        raise InputError(f"holds a member that is not a plain file, {name}")
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise InputError(
            f"holds a compressed member, {name}: {entry.compress_size:,} bytes that declare "
            f"{entry.file_size:,}",
            remedy="voxprior compresses nothing; do not read this file",
        )
    if entry.flag_bits:
        raise InputError(f"holds an encrypted or streamed member, {name}")


# ---------------------------------------------------------------------- arrays


def check_content(name: str, content: bytes) -> None:
    """Refuse a member whose content numpy or scipy would not read as the arrays it declares."""
    if name.endswith(".npy"):
        _check_array(name, content)
    if name.endswith(".npz"):
        _check_sparse(name, content)


def _check_array(name: str, content: bytes) -> None:
    stream = io.BytesIO(content)
    try:
        shape, _, dtype = ARRAY_HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as error:
        # The header is Python source to numpy, so a hostile one can raise almost anything.
        raise InputError(f"{name} is not an array that numpy can read") from error
    if dtype.hasobject:
        raise InputError(f"{name} is an array of pickled objects, which could run code")
    declared, there = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if declared != there or (math.prod(shape) and not dtype.itemsize):
        raise InputError(
            f"{name} declares an array of shape {shape}, type {dtype}, which is not its size",
            expected=f"{declared:,} bytes",
            got=f"{there:,}",
        )


def _check_sparse(name: str, content: bytes) -> None:
    """Check the arrays of a sparse matrix, and that none of its indices points outside."""
    for inner, array in unpack(content, SPARSE_MEMBER).items():
        _check_array(f"{name}/{inner}", array)
    try:
        sparse.load_npz(io.BytesIO(content)).check_format(full_check=True)
    except Exception as error:
        raise InputError(f"{name} is not a sparse matrix that scipy can read") from error


def stored(content: bytes) -> bytes:
    """Archive of a sparse matrix, which scipy compresses, as one that `unpack` reads."""
    raw = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        pack({name: archive.read(name) for name in archive.namelist()}, raw)
    return raw.getvalue()
