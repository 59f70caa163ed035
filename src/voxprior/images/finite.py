"""Voxels that are NaN or infinite in some scan: the mask shrinks to those finite in every scan.

SPM writes NaN outside the brain, and the brain of every scan ends elsewhere, so a mask loses a rim
of voxels; the notes say how many. Where more than half of the voxels would go, it is not a rim: the
mask does not fit the scans, or a scan is broken, which a smaller mask would only hide. That is an
error, and names the scans that lack most.

A mask that is given is not looked at beforehand, for no image should be read twice without need:
`read_where_finite` reads with it, and only where that fails finds out what all scans have. A fitted
model cannot lose voxels: `check_finite` refuses new scans that lack some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from voxprior.errors import InputError
from voxprior.images.findings import listed, volume_names

if TYPE_CHECKING:
    from voxprior.images.imagespace import ImageSpace
    from voxprior.images.reading import Source

__all__ = ["NotFiniteError", "check_finite", "read_where_finite", "refuse_most"]

T = TypeVar("T")

# More than this share of the voxels is not a rim.
MOST = 0.5

# Goes through the images: their names, and where their values are finite, time last.
FiniteParts = Callable[[], Iterable[tuple[str, np.ndarray]]]


class NotFiniteError(InputError):
    """A scan is NaN or infinite in voxels of the mask by which it is read."""


def check_finite(rows: np.ndarray, name: str) -> None:
    """Raise `NotFiniteError` naming the file where any voxel is NaN or infinite."""
    bad = ~np.isfinite(rows).all(axis=0)
    if bad.any():
        raise NotFiniteError(
            f"{name}: {bad.sum()} of {len(bad)} voxels inside the mask are NaN or infinite",
            remedy="Repair the image, or fit with a mask without these voxels",
        )


def read_where_finite(
    read: Callable[[ImageSpace], T], images: ImageSpace, sources: Sequence[Source]
) -> tuple[ImageSpace, T]:
    """Read by a mask that may still shrink: if a scan is not finite in it, shrink it, read again.

    Parameters
    ----------
    read : callable
        Reads the sources by an `ImageSpace`, and returns what it made of them.
    images : ImageSpace
        With the mask that was given.
    sources : sequence of Source
        All images that are read.

    Returns
    -------
    images : ImageSpace
        With the mask that was used.
    made : object
        What `read` returned.
    """
    try:
        return images, read(images)
    except NotFiniteError:
        images = _shrunk(images, sources)
        return images, read(images)


def _shrunk(images: ImageSpace, sources: Sequence[Source]) -> ImageSpace:
    """Keep the voxels of the mask that are finite in every scan, and note how many went."""

    def finite_parts() -> Iterator[tuple[str, np.ndarray]]:
        for source in sources:
            yield source.name, np.isfinite(images.read(source, gaps=True)).T

    finite = np.ones(images.space.n_voxels, dtype=bool)
    for _, here in finite_parts():
        finite &= here.all(axis=1)
    refuse_most(~finite, np.ones_like(finite), finite_parts)
    lost = int((~finite).sum())
    note = f"{lost} of {len(finite)} voxels inside the mask were dropped: NaN or infinite in a scan"
    return replace(
        images,
        space=images.space.take(finite),
        notes=(*images.notes, note),
        voxels_dropped=images.voxels_dropped + lost,
    )


def refuse_most(lost: np.ndarray, usable: np.ndarray, parts: FiniteParts) -> None:
    """Raise InputError if more than half of the usable voxels are lost; it names the scans.

    Parameters
    ----------
    lost, usable : boolean arrays over voxels
        Voxels that are not finite in some scan, and all that the scans could have.
    parts : callable
        Goes through the images again; called only where there is an error to explain.
    """
    limit = MOST * usable.sum()
    if lost.sum() <= limit:
        return
    lacking: dict[str, int] = {}
    for name, finite in parts():
        counts = (~finite[usable]).sum(axis=0).tolist()
        lacking |= dict(zip(volume_names(name, len(counts)), counts))
    worst = sorted(lacking, key=lambda name: -lacking[name])
    broken = [name for name in worst if lacking[name] > limit]
    if 0 < len(broken) <= len(lacking) / 2:
        remedy = f"Leave out {listed(broken)}: more than half are lacking there alone"
    else:
        told = listed([f"{name} ({lacking[name]})" for name in worst if lacking[name]])
        remedy = f"Use a mask of voxels that all scans have, or leave out what lacks most: {told}"
    raise InputError(
        f"{lost.sum()} of {usable.sum()} voxels are NaN or infinite in some scan, more than half",
        remedy=remedy,
    )
