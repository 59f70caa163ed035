"""Volumes read as far as their header says and no further.

A file is compared with its header before anything is reserved or expanded:

* the header and what follows it before the voxels are small;
* the voxels are numbers, one or more of them, and fit into the file and the free memory;
* they start behind the header and the extensions of it, at a whole byte;
* they end where the file ends: what follows, but for zeros that fill a block, was written by
  mistake, or to exhaust memory.

The voxels then go into the float32 array they become a block at a time. That keeps seven digits,
all that images hold unless their values lie together far from zero. With v the values of a size
like the usual one, half of it to twice, and f what float32 makes of them, they are lost where

    mean (f - v)²  >  .01 · var v                                                           (1)

which is looked at in a sample of evenly spaced voxels. Rounding of double precision is no spread.
"""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError

__all__ = ["Declared", "check_affine", "check_memory", "check_numbers", "damaged"]
__all__ += ["declared_by", "declared_in", "free_memory", "is_gzipped", "opened", "read_voxels"]
__all__ += ["are_rounded", "refuse_lost_differences", "refuse_lost_digits", "sampled"]

# Header with its extensions; those with the DICOM fields of every volume have some megabytes.
HEADER_BYTES = 2**26
# Behind a NIfTI header: whether extensions follow, and what their sizes are multiples of.
EXTENDER_BYTES, EXTENSION_UNIT = 4, 16
# The .mat file of SPM: 16 numbers for each volume, which may be compressed.
MATRIX_BYTES = 2**18
# Deflate cannot expand further than this; blocks of a file system or a tape; tags of FreeSurfer.
DEFLATE_RATIO = 1032
PADDING_BYTES = 512
TAG_BYTES = 2**20
VOXELS_AT_ONCE = 2**18
# About so many voxels are looked at for lost digits.
SAMPLED = 2**13
# Left side over right side of (1), as deviations; spread that rounding of double precision has.
LOST, ROUNDING = 0.1, 1e-14
# Volume of a voxel of sides 1, below which its axes lie in a plane up to rounding.
FLAT = 1e-6


class Declared(NamedTuple):
    """What a header says of the voxels: shape, type, file, first byte, bytes that may follow.

    `least` is where the header and its extensions end.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    file: str
    offset: int
    tail: int
    least: int = 0

    @property
    def n_voxels(self) -> int:
        """Number of voxels over all volumes, as a Python integer: it cannot overflow."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """Byte after the last voxel."""
        return self.offset + self.n_voxels * self.dtype.itemsize

    def check(self, name: str) -> None:
        """Raise unless the voxels are numbers that the file and the memory can hold."""
        check_numbers(self.shape, self.dtype, name)
        if not self.least <= self.offset <= HEADER_BYTES:
            before = self.offset < self.least
            raise InputError(
                f"{name}: the header says that the voxels start at byte {self.offset}",
                expected=f"at {'least' if before else 'most'} "
                f"{self.least if before else HEADER_BYTES}",
                remedy="The file is damaged: copy or convert it again",
            )
        size, gzipped = os.path.getsize(self.file), is_gzipped(self.file)
        most = DEFLATE_RATIO * size if gzipped else size
        if self.end > most:
            there = f"{'at most ' if gzipped else ''}{most} there"
            raise damaged(name, f"{self.end} bytes expected by the header, {there}")
        check_memory(self.n_voxels, name)

    @property
    def trailing(self) -> str:
        """The error message where more follows than may."""
        size = " x ".join(str(n) for n in self.shape)
        return f"trailing data: by the header, {size} voxels, the file ends at byte {self.end}"


def damaged(name: str, why: Any) -> OSError:
    """Return the error of a file that does not hold what it should."""
    return OSError(
        f"{name}: the data are truncated or corrupt ({why}). Copy or download the file again."
    )


def is_gzipped(file: str) -> bool:
    """Decide by the file name, as nibabel does."""
    return file.lower().endswith((".gz", ".mgz"))


def declared_by(path: Path) -> Declared:
    """Read the fixed part of a header, after a look at the size of the files that nibabel reads.

    Raises whatever nibabel does where the file is not an image.
    """
    found = _image_class(str(path))
    files = {kind: holder.filename for kind, holder in found.filespec_to_file_map(path).items()}
    _check_size(files.get("header"), HEADER_BYTES)
    _check_size(files.get("mat"), MATRIX_BYTES)
    kind = found.header_class
    with opened(files.get("header", files["image"])) as stream:
        header = kind(stream.read(kind.template_dtype.itemsize), check=False)
        least = _header_end(header, stream) if getattr(header, "is_single", False) else 0
    if "vox_offset" in kind.template_dtype.names and not float(header["vox_offset"]).is_integer():
        raise ValueError(f"its voxels start at byte {header['vox_offset']}")
    return Declared(
        tuple(int(n) for n in header.get_data_shape()),
        np.dtype(header.get_data_dtype()),
        files["image"],
        int(header.get_data_offset()),
        _tail(header, files["image"]),
        least,
    )


def _header_end(header: Any, stream: Any) -> int:
    """Byte at which the header of a single NIfTI file and its extensions end.

    A size that no extension has ends the walk: programs leave bytes behind the last one.
    """
    end = stream.tell() + EXTENDER_BYTES
    if stream.read(EXTENDER_BYTES)[:1] in (b"", b"\0"):
        return end
    offset = int(header.get_data_offset())
    while end <= min(offset, HEADER_BYTES):
        stream.seek(end)
        size = int.from_bytes(stream.read(4), "big" if header.endianness == ">" else "little")
        if size < EXTENSION_UNIT or size % EXTENSION_UNIT or size > HEADER_BYTES:
            break
        end += size
    return end


def declared_in(image: Any) -> Declared:
    """Return what the header of an opened image says; its data are nibabel's `ArrayProxy`."""
    proxy = image.dataobj
    return Declared(
        tuple(int(n) for n in proxy.shape),
        proxy.dtype,
        proxy.file_like,
        int(proxy.offset),
        _tail(image.header, proxy.file_like),
    )


def _image_class(path: str) -> Any:
    """Return the class that nibabel would take for a file."""
    from nibabel.cifti2 import Cifti2Image
    from nibabel.imageclasses import all_image_classes

    sniff = None
    for found in all_image_classes:
        fits, sniff = found.path_maybe_image(path, sniff)
        if fits and found is Cifti2Image:
            raise ValueError("CIFTI has no grid: give volumes, or GIFTI files of each hemisphere")
        if fits:
            return found
    raise ValueError("no header of a known format")


def _check_size(file: str | None, most: int) -> None:
    """Refuse a companion file that is, or expands to, more than it can need."""
    if file is None or not os.path.exists(file):
        return
    with opened(file) as stream:
        if _reaches_past(stream, most):
            raise ValueError(f"{file} has more than {most} bytes")


def _tail(header: Any, file: str) -> int:
    """Bytes that may follow the voxels: FreeSurfer's tags, or the padding of a last block."""
    from nibabel.freesurfer.mghformat import MGHHeader

    if isinstance(header, MGHHeader):
        return TAG_BYTES
    return 0 if is_gzipped(file) else PADDING_BYTES


# ------------------------------------------------------------------------- what cannot be


def check_numbers(shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    """Raise unless there are voxels, and each is one real number."""
    if min(shape, default=0) < 1:
        raise InputError(
            f"{name}: every dimension of an image must have at least one voxel",
            got=f"shape {tuple(int(n) for n in shape)}",
        )
    if dtype.kind not in "biuf":
        kind = "complex numbers" if dtype.kind == "c" else "colours, or of another unusual type"
        raise InputError(
            f"{name}: the voxels are {kind}",
            expected="one real number per voxel",
            got=f"type {dtype}",
            remedy="Give the magnitude, or another single value, as an image of its own",
        )


def check_affine(affine: Any, name: str) -> None:
    """Raise unless the affine gives every voxel a different position."""
    affine = np.asarray(affine, dtype=float)
    if affine.shape != (4, 4) or not np.isfinite(affine).all():
        raise InputError(
            f"{name}: the affine in the header must be 4 x 4 finite numbers",
            got=" ".join(f"{number:g}" for number in affine.ravel()),
            remedy="Repair the header, or make the image again",
        )
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    if not sizes.all() or abs(np.linalg.det(affine[:3, :3] / sizes)) < FLAT:
        raise InputError(
            f"{name}: the affine in the header puts different voxels at the same place",
            got=" ".join(f"{number:g}" for number in affine.ravel()),
            remedy="Repair the header, or make the image again",
        )


def sampled(values: np.ndarray, n_voxels: int) -> np.ndarray:
    """Evenly spaced values of an image of so many voxels, or of a part of it."""
    return np.ravel(values)[:: n_voxels // SAMPLED | 1]  # odd, so as not to follow the rows


def refuse_lost_digits(values: Any, name: str) -> None:
    """Raise InputError where single precision does not hold what these values differ by, by (1)."""
    values = np.asarray(values)
    if values.dtype.kind not in "iuf" or np.can_cast(values.dtype, np.float32):
        return
    exact = values[np.isfinite(values) & (values != 0)].astype(np.longdouble)
    if not len(exact):
        return
    size = np.median(np.abs(exact))
    near = exact[(np.abs(exact) >= size / 2) & (np.abs(exact) <= 2 * size)]
    if not len(near) or size > np.finfo(np.float32).max / 2:
        return
    _refuse_lost(near, near.std(), size, f"{name}: its values")


def refuse_lost_differences(exact: np.ndarray, name: str) -> None:
    """Do `refuse_lost_digits` for what scans (n, V) differ by, in the voxel in the middle."""
    exact = np.asarray(exact, dtype=np.longdouble)
    exact = exact[:, np.isfinite(exact).all(axis=0)]
    if exact.size:
        spread, size = np.median(exact.std(axis=0)), np.median(np.abs(exact))
        _refuse_lost(exact, spread, size, f"{name}: its values and those of the other scans")


def _refuse_lost(exact: np.ndarray, spread: Any, size: Any, what: str) -> None:
    with np.errstate(over="ignore"):
        error = np.sqrt(np.mean((exact.astype(np.float32) - exact) ** 2))
    if spread > ROUNDING * size and error > LOST * spread:
        raise InputError(
            f"{what} lie together too far from zero for single precision, in which they are read, "
            "to tell them apart",
            got=f"values of about {float(size):.3g} that differ by {float(spread):.3g}",
            remedy="Subtract one number from all images, in double precision, and save them again",
        )


def are_rounded(rows: np.ndarray) -> bool:
    """Whether scans (n, V) differ by so little that single precision may have rounded it away."""
    rounding = np.median(np.spacing(np.abs(rows).max(axis=0))) / np.sqrt(12)
    return bool(rounding > LOST * np.median(rows.std(axis=0, dtype=np.float64)))


def check_memory(n_values: int, name: str) -> None:
    """Raise where this many numbers do not fit into the free memory."""
    needed, free = 4 * n_values, free_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{name}: its {n_values:,} values need {needed / 2**30:,.1f} GB",
            got=f"{free / 2**30:,.1f} GB of free memory",
            remedy="If that many are not expected the header is damaged; else cut the image",
        )


def free_memory() -> int | None:
    """Bytes that can be had without swapping; else all memory, or None."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


# ------------------------------------------------------------------------- reading


def read_voxels(declared: Declared, slope: float, inter: float, name: str) -> np.ndarray:
    """Read voxels as float32, scaled, and the file to its very end.

    Only there does gzip compare its checksum: nibabel stops at the last voxel, so a damaged file
    would come back as noise without an error.
    """
    values, exact = np.empty(declared.n_voxels, dtype=np.float32), []
    with opened(declared.file) as stream:
        stream.seek(declared.offset)
        for start in range(0, len(values), VOXELS_AT_ONCE):
            part = values[start : start + VOXELS_AT_ONCE]
            content = stream.read(len(part) * declared.dtype.itemsize)
            if len(content) < len(part) * declared.dtype.itemsize:
                raise EOFError(f"{declared.end} bytes expected by the header, fewer there")
            stored = np.frombuffer(content, declared.dtype)
            # A copy without a name for the block, so that no two blocks are held.
            exact.append(sampled(_scale_into(part, stored, slope, inter), declared.n_voxels).copy())
        filled = declared.tail < TAG_BYTES and any(stream.read(declared.tail))
        if filled or _reaches_past(stream, declared.end + declared.tail):
            raise EOFError(declared.trailing)
    refuse_lost_digits(np.concatenate(exact), name)
    return values.reshape(declared.shape, order="F")


def opened(file: str) -> Any:
    """Open a file for reading; one that is gzipped is expanded as it is read."""
    return gzip.open(file) if is_gzipped(file) else open(file, "rb")


def _reaches_past(stream: Any, position: int) -> bool:
    stream.seek(position)
    return bool(stream.read(1))


def _scale_into(part: np.ndarray, stored: np.ndarray, slope: float, inter: float) -> np.ndarray:
    """Fill a part of the voxels; returns the exact values."""
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are reported later
        if slope != 1 or inter != 0:
            stored = stored * np.float64(slope) + np.float64(inter)
        part[:] = stored
    return stored
