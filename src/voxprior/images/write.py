"""Voxel maps to image files: NIfTI or GIFTI, affine or mesh kept, never half-written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unicodedata import normalize

from voxprior.errors import InputError
from voxprior.images.imagespace import ImageSpace
from voxprior.space import VoxelSpace
from voxprior.writing import written_whole

__all__ = ["file_stems", "write_map", "write_maps"]

VOLUME_EXTENSIONS = (".nii.gz", ".nii")
HEMISPHERE = {"left": "hemi-L", "right": "hemi-R"}
# Bytes that a name made of a label may have: file systems allow 255, and more comes around it.
LONGEST = 120
# Names that Windows keeps for devices, with any extension.
DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}


def write_map(values: Any, images: ImageSpace | VoxelSpace, path: Any) -> list[Path]:
    """Write a map to an image file; it appears complete or not at all.

    Parameters
    ----------
    values : array of shape (V,), (T, V) or (T * V,)
        One value per voxel; with time, a 4-D image.
    images : ImageSpace or VoxelSpace of a volume
        Where the voxels are.
    path : path
        ``.nii`` or ``.nii.gz`` for volumes; ``.gii`` for surfaces, one file per hemisphere with
        ``_hemi-L`` and ``_hemi-R`` added to the name. Folders are made; an old file is replaced.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from voxprior.images import write_map
    >>> from voxprior.space import VoxelSpace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (file,) = write_map(np.arange(8.0), VoxelSpace.grid((2, 2, 2)), f"{folder}/map.nii.gz")
    ...     file.name
    'map.nii.gz'
    """
    path = Path(os.fspath(path))
    if isinstance(images, VoxelSpace):
        images = _volume_space(images)
    image = images.inverse_transform(values)
    if images.parts is None:
        if not path.name.endswith(VOLUME_EXTENSIONS):
            raise InputError(f"{path}: a volume is written as .nii or .nii.gz")
        _save(image, path)
        return [path]
    if not path.name.endswith(".gii"):
        raise InputError(f"{path}: a surface map is written as .gii")
    return [_write_hemisphere(image, side, path) for side, _ in images.parts]


def write_maps(
    maps: Mapping[str, Any],
    images: ImageSpace | VoxelSpace,
    folder: Any,
    stems: Mapping[str, str] | None = None,
) -> dict[str, list[Path]]:
    """Write several named maps into a folder, as ``<name>.nii.gz`` or ``<name>_hemi-?.gii``.

    Parameters
    ----------
    maps : mapping of name to array
        Names may be any text.
    images : ImageSpace or VoxelSpace of a volume
    folder : path
    stems : mapping of name to text, optional
        How each file is called, without its extension; by default as `file_stems` says.

    Returns
    -------
    dict of name to the files written

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from voxprior.images import write_maps
    >>> from voxprior.space import VoxelSpace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_maps({"mean": np.ones(8)}, VoxelSpace.grid((2, 2, 2)), folder)
    ...     files["mean"][0].name
    'mean.nii.gz'
    """
    surface = isinstance(images, ImageSpace) and images.parts is not None
    extension = ".gii" if surface else ".nii.gz"
    stems = file_stems(maps) if stems is None else stems
    return {
        name: write_map(values, images, Path(os.fspath(folder)) / f"{stems[name]}{extension}")
        for name, values in maps.items()
    }


def file_stems(names: Iterable[str], unfit: str = r"[^\w.+-]+", joint: str = "_") -> dict[str, str]:
    """Find a file name, without extension, for each of several names that may be any text.

    No two are the same, even if a file system ignores case; a number makes them differ. They
    depend only on the names and their order.

    Parameters
    ----------
    names : iterable of str
    unfit : str
        Regular expression of what file names must not have.
    joint : str
        What stands in its place.

    Examples
    --------
    >>> file_stems(["a/b", "a b", "A B", "..", "CON"])
    {'a/b': 'a_b', 'a b': 'a_b_2', 'A B': 'A_B_3', '..': 'map', 'CON': 'CON_2'}
    """
    stems: dict[str, str] = {}
    taken = set(DEVICES)
    for name in names:
        fit = normalize("NFC", re.sub(unfit, joint, str(name))).strip(f".{joint}") or "map"
        fit = stem = fit.encode()[:LONGEST].decode(errors="ignore")
        number = 1
        while stem.casefold() in taken:
            number += 1
            stem = f"{fit}{joint}{number}"
        taken.add(stem.casefold())
        stems[name] = stem
    return stems


def _volume_space(space: VoxelSpace) -> ImageSpace:
    if space.kind != "volume" or len(space.shape) != 3:
        raise InputError(
            f"{space!r}: only a three-dimensional volume can be written from a VoxelSpace alone",
            remedy="Give the ImageSpace by which the data were read",
        )
    return ImageSpace(space)


def _write_hemisphere(image: Any, side: str, path: Path) -> Path:
    from nilearn.surface import PolyData

    extension = next(e for e in (".func.gii", ".shape.gii", ".gii") if path.name.endswith(e))
    target = path.with_name(f"{path.name.removesuffix(extension)}_{HEMISPHERE[side]}{extension}")
    _save(PolyData(**{side: image.data.parts[side]}), target)
    return target


def _save(image: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as new:
        image.to_filename(new)
