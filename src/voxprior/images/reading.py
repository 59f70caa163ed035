"""From what a user names (path, glob, image, list) to images; errors name the file."""

from __future__ import annotations

import glob
import gzip
import logging
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import numpy as np

from voxprior.errors import InputError
from voxprior.images import bounds

__all__ = ["Source", "array_of", "find_sources", "is_surface", "n_volumes", "stem"]

# What nibabel, zlib and the XML parser of GIFTI raise on damaged files.
DAMAGED = (OSError, EOFError, ValueError, KeyError, zlib.error, gzip.BadGzipFile, ExpatError)
VOLUMES = (".nii.gz", ".nii", ".img.gz", ".img", ".hdr.gz", ".hdr", ".mgz", ".mgh")
SURFACES = (".func.gii", ".shape.gii", ".surf.gii", ".gii.gz", ".gii")


def stem(path: str | Path) -> str:
    """Return a name without folder and image extension: ``a/b_bold.nii.gz`` -> ``b_bold``."""
    name = Path(path).name
    for extension in VOLUMES + SURFACES:
        if name.lower().endswith(extension):
            return name[: -len(extension)]
    return Path(name).stem


def is_surface(image: Any) -> bool:
    """Tell a nilearn SurfaceImage without importing nilearn: it has hemispheres."""
    return hasattr(image, "mesh") and hasattr(getattr(image, "data", None), "parts")


@dataclass(frozen=True)
class Source:
    """One image as the user named it: a path, an image in memory, or a pair of GIFTI files."""

    name: str
    item: Any
    mesh: Any = None

    @property
    def path(self) -> Path | None:
        """The file, where there is exactly one."""
        return Path(self.item) if isinstance(self.item, (str, os.PathLike)) else None

    def load(self) -> Any:
        """Return the nibabel image (data still on disk) or the SurfaceImage."""
        from voxprior.images import surfaces

        if is_surface(self.item):
            return self.item
        if isinstance(self.item, dict) or (
            self.path and str(self.path).endswith((".gii", ".gii.gz"))
        ):
            return surfaces.read_surface(self.item, self.mesh, self.name)
        image = load_volume(self.path, self.name) if self.path else self.item
        if len(image.shape) not in (3, 4):
            raise ValueError(
                f"{self.name}: an image must have 3 or 4 dimensions. Got shape {image.shape}."
            )
        kind = getattr(image.dataobj, "dtype", None) or image.get_data_dtype()
        bounds.check_numbers(image.shape, np.dtype(kind), self.name)
        bounds.check_affine(image.affine, self.name)
        return image


def load_volume(path: Path, name: str) -> Any:
    """Open an image file; the data are read later, by `array_of`."""
    import nibabel

    if not path.exists():
        raise FileNotFoundError(
            f"{name}: no such image file. Check the path, or use a glob pattern."
        )
    if path.is_dir():
        raise IsADirectoryError(f"{name}: is a folder. Give its images, e.g. '{path}/*.nii.gz'.")
    if not path.is_file() or not path.name.lower().endswith(VOLUMES):
        raise InputError(
            f"{name}: is not an image file", expected=f"one that ends in {', '.join(VOLUMES)}"
        )
    # Whatever a parser raises on bytes that somebody else wrote, the file is at fault.
    try:
        declared = bounds.declared_by(path)
    except Exception as error:
        raise _unreadable(name, error) from error
    declared.check(name)
    try:
        with _remarks_as_warnings(name):
            return nibabel.load(path)
    except Exception as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> OSError:
    why = f"unknown code {error}" if isinstance(error, KeyError) else str(error)
    return OSError(
        f"{name}: cannot be read as an image ({why or type(error).__name__}). The file is damaged "
        "or not an image."
    )


@contextmanager
def _remarks_as_warnings(name: str) -> Iterator[None]:
    """Warn of what nibabel mends in a header; it prints that by itself, at every look."""
    from nibabel.imageglobals import logger

    class Warn(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.warn(f"{name}: {record.getMessage()}", stacklevel=2)

    own = logger.handlers
    logger.handlers = [Warn()]
    try:
        yield
    finally:
        logger.handlers = own


def array_of(image: Any, name: str) -> np.ndarray:
    """Return the image's values as float32 without keeping a second copy inside the image."""
    if is_surface(image):
        parts = [np.asarray(part, dtype=np.float32) for part in image.data.parts.values()]
        return np.concatenate(parts)
    declared = bounds.declared_in(image) if _is_on_disk(image) else None
    if declared is not None:
        declared.check(name)
    try:
        if declared is None:
            return image.get_fdata(dtype=np.float32, caching="unchanged")
        return bounds.read_voxels(declared, float(image.dataobj.slope), float(image.dataobj.inter))
    except DAMAGED as error:
        raise bounds.damaged(name, error) from error


def _is_on_disk(image: Any) -> bool:
    from nibabel.arrayproxy import ArrayProxy

    proxy = image.dataobj
    # Exactly this class: the proxies of other formats lay their data out in their own way.
    plain = type(proxy) is ArrayProxy and proxy.order == "F"
    return plain and isinstance(proxy.file_like, str)


def n_volumes(image: Any) -> int:
    """Return how many volumes an image holds; 1 for a 3-D image or a single surface map."""
    time = image.shape[1:2] if is_surface(image) else image.shape[3:4]
    return int(time[0]) if time else 1


def find_sources(images: Any, mesh: Any = None) -> list[Source]:
    """List the images named by a path, glob, image, dict of hemispheres, or a list of these.

    Parameters
    ----------
    images : str, Path, image, SurfaceImage, dict or list of these
        A string with ``*``, ``?`` or ``[`` that is no file is a glob pattern, sorted by name.
    mesh : optional
        The mesh of GIFTI files; SurfaceImages bring their own.
    """
    if isinstance(images, Source):
        return [images]
    if isinstance(images, (list, tuple)):
        found = [source for item in images for source in find_sources(item, mesh)]
        unnamed = [source.name == "image" for source in found]
        found = [
            Source(f"image {i} of the list", source.item, mesh) if bare else source
            for i, (source, bare) in enumerate(zip(found, unnamed))
        ]
        if not found:
            raise ValueError("The list of images is empty. Give at least one image.")
        return found
    if isinstance(images, (str, os.PathLike)):
        return [Source(str(path), Path(path), mesh) for path in _matching(os.fspath(images))]
    if isinstance(images, dict):
        return [Source(" and ".join(str(v) for v in images.values()), images, mesh)]
    if is_surface(images) or (hasattr(images, "affine") and hasattr(images, "dataobj")):
        filename = None if is_surface(images) else images.get_filename()
        return [Source(filename or "image", images, mesh)]
    raise TypeError(
        "Images must be a path, a glob pattern, a nibabel image, a SurfaceImage, a dict of "
        f"hemispheres, or a list of these. Got {type(images).__name__} instead."
    )


def _matching(pattern: str) -> list[str]:
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [pattern]
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"{pattern}: no file matches this pattern.")
    return paths
