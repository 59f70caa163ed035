"""What a user names (path, glob, image, list) as sources that can be opened one by one.

A `Source` keeps the name for messages. It opens as a nibabel image, whose data stay on disk, or as
a SurfaceImage; `array_of` reads the values of either.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count

from voxprior.errors import InputError, InputTypeError
from voxprior.images import bounds, surfaces, volumes
from voxprior.images.findings import volume_names
from voxprior.images.surfaces import is_surface
from voxprior.writing import check_name

__all__ = ["Source", "array_of", "find_sources", "n_volumes", "read_side_by_side"]
__all__ += ["relative_folders", "relative_names", "single_volumes", "stem"]


# Endings of images whose header, voxels and place are files of their own.
PAIRS = (".hdr", ".img", ".hdr.gz", ".img.gz")


def stem(path: str | Path) -> str:
    """Return a name without folder and image extension: ``a/b_bold.nii.gz`` -> ``b_bold``."""
    name = Path(path).name
    for extension in volumes.EXTENSIONS + surfaces.EXTENSIONS:
        if name.lower().endswith(extension):
            return name[: -len(extension)]
    return Path(name).stem


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

    @property
    def files(self) -> list[Path]:
        """Files that are read: both hemispheres, the pair of Analyze with SPM's matrix; or none."""
        items = self.item.values() if isinstance(self.item, dict) else [self.item]
        paths = [Path(item) for item in items if isinstance(item, (str, os.PathLike))]
        ends = [end + more for end in (".hdr", ".img", ".mat") for more in ("", ".gz")]
        pairs = [path for path in paths if path.name.lower().endswith(PAIRS)]
        beside = [path.with_name(stem(path) + end) for path in pairs for end in ends]
        return [*paths, *(path for path in beside if path not in paths and path.is_file())]

    def load(self) -> Any:
        """Return the nibabel image (data still on disk) or the SurfaceImage."""
        if is_surface(self.item):
            return self.item
        if isinstance(self.item, dict) or (self.path and str(self.path).endswith(surfaces.GIFTI)):
            return surfaces.read_surface(self.item, self.mesh, self.name)
        return self._volume

    @cached_property
    def _volume(self) -> Any:
        """The nibabel image; its header is read and checked once, however often it is asked."""
        image = volumes.load_volume(self.path, self.name) if self.path else self.item
        if len(image.shape) not in (3, 4):
            raise InputError(
                f"{self.name}: an image must have 3 or 4 dimensions", got=f"shape {image.shape}"
            )
        kind = getattr(image.dataobj, "dtype", None) or image.get_data_dtype()
        bounds.check_numbers(image.shape, np.dtype(kind), self.name)
        bounds.check_affine(image.affine, self.name)
        return image


def array_of(image: Any, name: str) -> np.ndarray:
    """Return the values of a volume or a surface as float32; time, if any, is the last axis."""
    if is_surface(image):
        return surfaces.surface_array(image, name)
    return volumes.volume_array(image, name)


def read_side_by_side(
    read: Callable[[Source], np.ndarray], sources: Sequence[Source], rows: np.ndarray
) -> None:
    """Read one scan per source into its row, by a thread per core: expanding gzip needs no lock.

    The first source that cannot be read is reported, whichever thread fails first.
    """
    for source in sources:
        source.load()  # headers one by one: the log of nibabel is not for threads

    def read_row(number: int) -> None:
        rows[number] = read(sources[number])

    with ThreadPoolExecutor(cpu_count()) as pool:
        tasks = [pool.submit(read_row, number) for number in range(len(sources))]
        try:
            for task in tasks:
                task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def n_volumes(image: Any) -> int:
    """Return how many volumes an image holds; 1 for a 3-D image or a single surface map."""
    time = image.shape[1:2] if is_surface(image) else image.shape[3:4]
    return int(time[0]) if time else 1


def single_volumes(source: Source) -> list[Source]:
    """Part a 4-D image into its volumes, each a source of its own; a 3-D image is one already."""
    image = source.load()
    n = n_volumes(image)
    if n == 1:
        return [source]
    if is_surface(image):
        from nilearn.surface import SurfaceImage

        sides = image.data.parts.items()
        parts = [SurfaceImage(image.mesh, {k: d[:, v] for k, d in sides}) for v in range(n)]
    else:
        from nibabel import Nifti1Image

        values = array_of(image, source.name)  # once: a compressed file has no random access
        parts = [Nifti1Image(values[..., v], image.affine) for v in range(n)]
    names = volume_names(source.name, n)
    return [Source(name, part, source.mesh) for name, part in zip(names, parts)]


def find_sources(images: Any, mesh: Any = None) -> list[Source]:
    """List the images named by a path, glob, image, dict of hemispheres, or a list of these.

    Parameters
    ----------
    images : str, Path, image, SurfaceImage, dict or list of these
        A string with ``*``, ``?`` or ``[`` that is not a file is a glob pattern, sorted by name.
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
            raise InputError("The list of images is empty", remedy="Give at least one image")
        return found
    if isinstance(images, (str, os.PathLike)):
        return [Source(str(path), Path(path), mesh) for path in _matching(os.fspath(images))]
    if isinstance(images, dict):
        return [Source(" and ".join(str(v) for v in images.values()), images, mesh)]
    if is_surface(images) or (hasattr(images, "affine") and hasattr(images, "dataobj")):
        filename = None if is_surface(images) else images.get_filename()
        return [Source(filename or "image", images, mesh)]
    if isinstance(images, np.ndarray):
        raise InputTypeError(
            "Images were expected, not an array of numbers",
            got=f"an array of shape {images.shape}",
            remedy="Give arrays to cross_validate(model, X, y), or a Dataset(X, y, space) here",
        )
    raise InputTypeError(
        "Images of this type cannot be read",
        expected="a path, a glob pattern, a nibabel image, a SurfaceImage, a dict of hemispheres, "
        "or a list of these",
        got=type(images).__name__,
    )


def _matching(pattern: str) -> list[str]:
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [check_name(pattern)]
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"{pattern}: no file matches this pattern.")
    return [*map(check_name, paths)]


def relative_names(sources: Sequence[Source], near: Sequence[Path]) -> list[str]:
    """Names of the sources without the folders that reveal whose machine they are on.

    They are relative to the first folder of `near` in which all files are, or else to the folder
    that the files share. A folder that holds the homes of users is not taken: its folders are the
    names of these.

    >>> from pathlib import Path
    >>> scans = [Source(name, Path(name)) for name in ("/data/bo/s1/a.nii", "/data/bo/s2/a.nii")]
    >>> relative_names(scans, [Path("/data/bo/s1")])
    ['s1/a.nii', 's2/a.nii']
    """
    files = [[os.path.abspath(path) for path in _paths(source)] for source in sources]
    every = [Path(path) for paths in files for path in paths]
    if not every:
        return [source.name for source in sources]
    base = _base(every, near)
    return [
        " and ".join(os.path.relpath(path, base) for path in paths) or source.name
        for source, paths in zip(sources, files)
    ]


def relative_folders(names: Sequence[str], near: Sequence[Path]) -> dict[str, str]:
    """Beginnings of names that reveal whose machine files are on, and what replaces each.

    A name begins with the path of a file, to which words may be added. Names that are relative and
    do not climb stay as they are.
    """
    folders = {_folder(name) for name in names} - {""}
    if not any(os.path.isabs(folder) or ".." in Path(folder).parts for folder in folders):
        return {}
    whole = {folder: Path(os.path.abspath(folder)) for folder in folders}
    base = _base([folder / "file" for folder in whole.values()], near)
    shown = {given: os.path.relpath(folder, base) for given, folder in whole.items()}
    return {
        f"{given}/": "" if shown[given] == "." else f"{shown[given]}/"
        for given in sorted(folders, key=len, reverse=True)
    }


def _folder(name: str) -> str:
    """The longest beginning of a name that is a folder."""
    end = name.rfind("/")
    while end > 0 and not os.path.isdir(name[:end]):
        end = name.rfind("/", 0, end)
    return name[: max(end, 0)]


def _base(files: Sequence[Path], near: Sequence[Path]) -> Path:
    """The first folder in which all files are, or that which they share; none of homes."""
    home = Path(os.path.expanduser("~"))
    inside = (
        folder
        for folder in near
        if folder not in (*home.parents, Path(folder.anchor))
        and all(folder in path.parents for path in files)
    )
    shared = os.path.commonpath([path.parent for path in files])
    return next(inside, None) or Path(shared)


def _paths(source: Source) -> list[str]:
    """Files that a source is of; an image in memory may have one."""
    if isinstance(source.item, dict):
        return [os.fspath(path) for path in source.item.values()]
    return [source.name] if source.path or os.path.exists(source.name) else []
