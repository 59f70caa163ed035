"""Names of places: which region of an atlas each voxel belongs to.

An atlas is an image of whole numbers on the grid of the scans, 0 outside all regions, and names of
the numbers: a table with columns ``index`` and ``name`` (as BIDS and nilearn write them), a list, a
dictionary, or nothing, and then regions are called by their numbers. nilearn's atlas objects have
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.images import ImageSpace
from voxprior.images.sources import find_sources
from voxprior.images.tables import read_cells

__all__ = ["Atlas", "read_atlas"]

# What the columns of a table of regions are called, by BIDS, nilearn and others.
NUMBERS, NAMES = ("index", "value", "id", "number"), ("name", "label", "region")


class Atlas(NamedTuple):
    """The region of every voxel: `codes` (V,), 0 for none, and the name of every code."""

    codes: np.ndarray
    names: dict[int, str]

    def name(self, voxel: int) -> str:
        """Name of the region that a voxel is in; empty outside all of them."""
        code = int(self.codes[voxel])
        return self.names.get(code, str(code)) if code else ""

    def shares(self, voxels: np.ndarray) -> dict[str, float]:
        """Share of some voxels in every region that has any, largest first."""
        codes, counts = np.unique(self.codes[voxels], return_counts=True)
        found = sorted(zip(counts, codes), key=lambda pair: (-pair[0], pair[1]))
        return {self.names.get(int(c), str(c)): n / len(voxels) for n, c in found if c}


def read_atlas(atlas: Any, images: ImageSpace, labels: Any = None, mesh: Any = None) -> Atlas:
    """Read an atlas on the grid of the scans.

    Parameters
    ----------
    atlas : path, image, SurfaceImage, dict of hemispheres, or atlas of nilearn
        Whole numbers; an atlas on another grid is refused, or resampled to the nearest value where
        the scans are resampled too.
    images : ImageSpace
        How the scans were read.
    labels : path, DataFrame, dict or list, optional
        Names of the regions; those of nilearn's atlas by default. A list has one name per region in
        the order of their numbers, or one for every number from 0.
    mesh : optional
        The mesh of GIFTI files.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import ImageSpace
    >>> from voxprior.space import VoxelSpace
    >>> places = ImageSpace(VoxelSpace.grid((2, 2, 2), np.eye(4)))
    >>> numbers = nibabel.Nifti1Image(np.arange(8, dtype="i2").reshape(2, 2, 2) // 4, np.eye(4))
    >>> read_atlas(numbers, places, ["left"]).name(7)
    'left'
    """
    if isinstance(atlas, Mapping) and "maps" in atlas:
        labels = _own_names(atlas) if labels is None else labels
        atlas = atlas["maps"]
    sources = find_sources(atlas, mesh)
    if len(sources) != 1:
        raise InputError("An atlas is one image", got=f"{len(sources)}")
    name, image = sources[0].name, sources[0].load()
    if images.parts is None and images.resample and not hasattr(image, "mesh"):
        image = _nearest(image, images)
    plain = ImageSpace(images.space, images.parts)
    rows = plain.read(find_sources(image)[0], gaps=True)
    if len(rows) > 1:
        raise InputError(
            f"{name}: has {len(rows)} maps",
            expected="one image of whole numbers, a region each",
            remedy="Take the maximum-probability version of a probabilistic atlas",
        )
    values = np.nan_to_num(rows[0].astype(float))
    if not np.array_equal(values, np.round(values)) or values.min() < 0:
        raise InputError(f"{name}: is not an atlas", expected="whole numbers of at least 0")
    if not values.any():
        raise InputError(f"{name}: has no region inside the mask")
    codes = values.astype(np.int64)
    return Atlas(codes, _names(labels, codes, image))


def _own_names(atlas: Mapping[str, Any]) -> Any:
    """Names that an atlas of nilearn brings: a table in newer versions, a list in older ones."""
    table = atlas.get("lut")
    return table if isinstance(table, pd.DataFrame) else atlas.get("labels")


def _nearest(image: Any, images: ImageSpace) -> Any:
    from nilearn.image import resample_img

    space = images.space
    return resample_img(
        image,
        target_affine=space.affine,
        target_shape=space.shape,
        interpolation="nearest",
        copy_header=True,
        force_resample=True,
    )


def _names(labels: Any, codes: np.ndarray, image: Any) -> dict[int, str]:
    if labels is None:
        return {int(c): f"region {c}" for c in np.unique(codes) if c}
    if isinstance(labels, Mapping):
        return {int(code): str(name) for code, name in labels.items()}
    if isinstance(labels, Sequence | np.ndarray) and not isinstance(labels, str):
        return _listed([_text(name) for name in labels], image)
    table = labels if isinstance(labels, pd.DataFrame) else read_cells(labels, "table of regions")
    columns = {str(column).lower(): column for column in table.columns}
    number, name = (
        next((columns[n] for n in known if n in columns), None) for known in (NUMBERS, NAMES)
    )
    if number is None or name is None:
        raise InputError(
            f"{option('atlas_labels')}: the table does not say which number is which region",
            expected="columns index and name",
            got=", ".join(map(str, table.columns)),
        )
    found: dict[int, str] = {}
    for code, told in zip(table[number], table[name].map(str)):
        if found.setdefault(_whole(code), told) != told:
            raise InputError(
                f"{option('atlas_labels')}: region {code} has two names, {found[_whole(code)]!r} "
                f"and {told!r}",
                remedy="Give each region one",
            )
    return found


def _whole(code: Any) -> int:
    value = pd.to_numeric(code, errors="coerce")
    if not value == np.round(value):
        raise InputError(
            f"{option('atlas_labels')}: the number of a region must be a whole one",
            got=repr(code),
        )
    return int(value)


def _listed(names: list[str], image: Any) -> dict[int, str]:
    """Names of a list, by the numbers of the whole image: the mask may lack some."""
    whole = (
        np.concatenate([p.ravel() for p in image.data.parts.values()])
        if hasattr(image, "mesh")
        else np.asarray(image.dataobj)
    )
    present = [int(c) for c in np.unique(np.nan_to_num(whole)) if c > 0]
    if len(names) == len(present):
        return dict(zip(present, names))
    if len(names) > max(present):
        return dict(enumerate(names))
    raise InputError(
        f"{option('atlas_labels')} does not fit the atlas",
        expected=f"{len(present)} names, one per region, or one for every number up to "
        f"{max(present)}",
        got=str(len(names)),
    )


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
