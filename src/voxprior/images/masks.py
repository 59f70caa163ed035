"""Which voxels are looked at: a mask, a masker, run masks intersected, or one computed.

A computed mask keeps the voxels that can be informative: finite in every image and not constant,
over the volumes of each run or over the maps of a study. For runs it lies inside nilearn's EPI
mask of every run; for maps in MNI space it lies inside the brain of the template where it would
cover far more. Voxels that the scans have but for some NaN are counted, see `findings`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, InputTypeError, option
from voxprior.images import surfaces, template, volumes
from voxprior.images.findings import refuse_most
from voxprior.images.sources import Source, array_of, find_sources, n_volumes
from voxprior.images.surfaces import is_surface
from voxprior.space import VoxelSpace

__all__ = ["STRATEGIES", "FoundMask", "build_masker", "check_mask", "find_mask", "is_masker"]

VARYING = "computed: voxels that are finite in every scan and vary"
# What nilearn computes for each image, of which the voxels that vary everywhere are kept.
COMPUTED_BY_NILEARN = {
    "epi": "computed: voxels that vary inside nilearn's EPI mask of every image",
    "background": "computed: voxels that vary inside nilearn's background mask of every image",
}
STRATEGIES = ("auto", "epi", "background", "data")


class FoundMask(NamedTuple):
    """The space of a mask, hemispheres of a surface (None for volumes), and notes for the user.

    `lost` counts voxels left out because they are NaN or infinite in some scan; `source` says
    where the mask comes from.
    """

    space: VoxelSpace
    parts: surfaces.Parts | None
    notes: tuple[str, ...] = ()
    lost: int = 0
    source: str = ""


def is_masker(mask: Any) -> bool:
    """Whether this is a nilearn masker, fitted or not."""
    return hasattr(mask, "inverse_transform") and hasattr(mask, "mask_img")


def check_mask(mask: Any) -> None:
    """Raise InputTypeError for a masker that has regions in place of voxels."""
    regions = any(hasattr(mask, name) for name in ("labels_img", "maps_img", "seeds"))
    if is_masker(mask) and regions:
        raise InputTypeError(
            f"{type(mask).__name__} averages over regions, but voxels are needed",
            remedy=f"Give a NiftiMasker, a SurfaceMasker or an image as {option('mask')}",
        )


def find_mask(
    mask: Any, sources: list[Source], mesh: Any = None, resample: bool = False
) -> FoundMask:
    """Find the voxels to use for these images.

    Parameters
    ----------
    mask : None, "auto", "epi", "background", "data", path, image, boolean array, masker or list
        A list of masks is intersected. None is "epi" for 4-D runs, "auto" for maps and surfaces:
        "data", inside the brain of the template for volumes in MNI space where "data" covers far
        more than it.
    sources : list of Source
    mesh : optional
        Mesh of GIFTI masks.
    resample : bool
        Compute the mask on the first image's grid though others are on another.
    """
    check_mask(mask)
    if is_masker(mask):
        fitted = getattr(mask, "mask_img_", None)
        mask = mask.mask_img if fitted is None else fitted
    first = sources[0].load()
    if mask is None:
        mask = "epi" if n_volumes(first) > 1 and not is_surface(first) else "auto"
    if isinstance(mask, str) and mask in STRATEGIES:
        return _computed(mask, sources, resample)
    if isinstance(mask, np.ndarray):
        return _from_array(mask, first, sources[0].name)
    return _given(find_sources(mask, mesh))


def build_masker(space: VoxelSpace, parts: surfaces.Parts | None, **settings: Any) -> Any:
    """Build the fitted nilearn masker of these voxels, for people who go on in nilearn."""
    from nilearn.maskers import NiftiMasker, SurfaceMasker

    inside = np.ones(space.n_voxels, dtype=np.uint8)
    if parts is None:
        image = volumes.volume_image(inside, space)
        return NiftiMasker(image, standardize=None, reports=False, **settings).fit()
    image = surfaces.surface_image(inside, space, parts)
    return SurfaceMasker(image, standardize=None, reports=False, **settings).fit()


# ------------------------------------------------------------------------- given masks


def _given(masks: list[Source]) -> FoundMask:
    images = [(source.load(), source.name) for source in masks]
    reference, reference_name = images[0]
    inside = _binary(reference, reference_name)
    for image, name in images[1:]:
        if is_surface(reference) != is_surface(image):
            raise InputError(f"{name}: masks must be all volumes or all surfaces")
        if not is_surface(image):
            volumes.check_grid(image, inside.shape, reference.affine, name, reference_name)
        other = _binary(image, name)
        if other.shape != inside.shape:
            raise InputError(f"{name}: its mesh is not that of {reference_name}")
        inside &= other
    what = reference_name if len(masks) == 1 else f"the intersection of {len(masks)} masks"
    return _on(reference, inside, what, _file_name(what))


def _file_name(what: str) -> str:
    """Name a mask for readers of the report: by its file, not by folders of a machine."""
    if what == "image":
        return "an image that was given"
    return Path(what).name if Path(what).exists() else what


def _binary(image: Any, name: str) -> np.ndarray:
    values = array_of(image, name)
    if n_volumes(image) > 1:
        raise InputError(f"{name}: a mask must be 3-D", got=f"shape {image.shape}")
    values = values.reshape(values.shape[:1] if is_surface(image) else values.shape[:3])
    values = np.where(np.isnan(values), 0, values)  # SPM writes NaN outside the brain
    if not np.isfinite(values).all() or len(np.unique(values)) > 2:
        raise InputError(
            f"{name}: a mask must hold two values, outside and inside",
            got=f"{len(np.unique(values))} values",
            remedy="Threshold it first",
        )
    return values > 0


def _from_array(mask: np.ndarray, image: Any, name: str) -> FoundMask:
    shape = (image.shape[0],) if is_surface(image) else tuple(image.shape[:3])
    if mask.shape != shape or mask.dtype != bool:
        raise InputError(
            f"An array as {option('mask')} must be boolean and of the shape of {name}, {shape}",
            got=f"type {mask.dtype} and shape {mask.shape}",
        )
    return _on(image, mask, "the mask array", "an array that was given")


def _on(image: Any, inside: np.ndarray, what: str, source: str) -> FoundMask:
    """Put a boolean array on the grid or mesh of an image; `what` is for the error."""
    if not inside.any():
        raise InputError(
            f"The mask is empty: no voxel is inside {what}",
            remedy=f"Give an image that covers the data as {option('mask')}, or set "
            f"{option('mask', 'data')} for every voxel that varies",
        )
    if is_surface(image):
        coordinates, faces, parts = surfaces.mesh_of(image)
        space = VoxelSpace.from_mesh(coordinates, faces).take(inside)
        return FoundMask(space, parts, source=source)
    space = VoxelSpace.from_mask(inside, np.asarray(image.affine, float))
    return FoundMask(space, None, source=source)


# ------------------------------------------------------------------------- computed masks


def _computed(strategy: str, sources: list[Source], resample: bool) -> FoundMask:
    reference = sources[0].load()
    if strategy in COMPUTED_BY_NILEARN and is_surface(reference):
        raise InputError(
            f"{option('mask', strategy)} is for volumes",
            remedy=f"Surfaces take {option('mask', 'data')}, or a mask on their mesh",
        )
    flags = _voxel_flags(strategy, sources, reference, resample)
    lost = flags.varying & ~flags.finite

    def finite_parts() -> Iterator[tuple[str, np.ndarray]]:
        for source, (_, data) in zip(sources, _readings(sources, reference, resample)):
            yield source.name, np.isfinite(data)

    refuse_most(lost, flags.varying, finite_parts)
    what = f"the mask computed ('{strategy}') from {sources[0].name}"
    what += f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    inside = flags.finite & flags.varying & flags.wanted
    found = _on(reference, inside, what, COMPUTED_BY_NILEARN.get(strategy, VARYING))
    if strategy == "auto" and found.parts is None:
        found = _inside_the_brain(found, [source.name for source in sources])
    return found._replace(notes=tuple(_left_out(strategy, flags)), lost=int(lost.sum()))


def _inside_the_brain(found: FoundMask, names: list[str]) -> FoundMask:
    """Keep the voxels in the brain of the template where the mask covers far more than it."""
    brain = template.covers_far_more(found.space, names)
    if brain is None:
        return found
    source = (
        f"{VARYING}, and lie in {template.BRAIN}: the {found.space.n_voxels:,} voxels that vary "
        "cover far more"
    )
    return found._replace(space=found.space.take(brain), source=source)


class VoxelFlags(NamedTuple):
    """Voxels finite in every image, varying where finite, and inside the mask of every run."""

    finite: np.ndarray
    varying: np.ndarray
    wanted: np.ndarray


def _left_out(strategy: str, flags: VoxelFlags) -> Iterator[str]:
    """Note how many voxels a computed mask left out; of the background only what nilearn kept."""
    lost = int((flags.varying & ~flags.finite).sum())
    still = int((flags.wanted & flags.finite & ~flags.varying).sum())
    start = "voxels were left out of the computed mask"
    if lost:
        yield f"{lost} {start}: NaN or infinite in some scan"
    if still and strategy in COMPUTED_BY_NILEARN:
        yield f"{still} {start}: constant in some run"


def _voxel_flags(
    strategy: str, sources: list[Source], reference: Any, resample: bool
) -> VoxelFlags:
    """Go through the images once."""
    low: Any = None
    high = finite = wanted = varying = low
    for image, data in _readings(sources, reference, resample):
        # Of the values that are there: what is NaN in every image is outside the brain.
        floor, ceiling = np.fmin.reduce(data, axis=-1), np.fmax.reduce(data, axis=-1)
        here = np.isfinite(data).all(axis=-1)
        if finite is None:
            low, high, finite = floor, ceiling, here
            wanted = varying = np.ones(here.shape, dtype=bool)
        else:
            low, high, finite = np.fmin(low, floor), np.fmax(high, ceiling), finite & here
        if data.shape[-1] > 1:
            varying = varying & ~(floor == ceiling)
        if strategy in COMPUTED_BY_NILEARN:
            wanted = wanted & _nilearn_mask(strategy, image, data)
    several = len(sources) > 1 or n_volumes(reference) > 1
    told = (low < high) if several else (low != 0) & ~np.isnan(low)
    return VoxelFlags(finite, varying & told, wanted)


def _readings(
    sources: list[Source], reference: Any, resample: bool
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield each image with its values, time last, if it is on the first one's grid."""
    name = sources[0].name
    for source in sources:
        image = source.load()
        if is_surface(reference) != is_surface(image):
            raise InputError(f"{source.name}: images must be all volumes or all surfaces")
        if is_surface(image):
            coordinates, faces, parts = surfaces.mesh_of(reference)
            space = VoxelSpace.from_mesh(coordinates, faces)
            surfaces.check_mesh(image, space, parts, source.name, name)
        else:
            grid = np.asarray(reference.affine, float)
            if resample:
                image = volumes.resampled(image, reference.shape[:3], grid, source.name)
            volumes.check_grid(image, reference.shape[:3], grid, source.name, name)
        data = array_of(image, source.name)
        yield image, data.reshape(*data.shape[: 1 if is_surface(image) else 3], -1)


def _nilearn_mask(strategy: str, image: Any, data: np.ndarray) -> np.ndarray:
    import nibabel
    from nilearn.masking import compute_background_mask, compute_epi_mask

    compute = compute_epi_mask if strategy == "epi" else compute_background_mask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty mask is reported by `_on`, with the file's name
        found = compute(nibabel.Nifti1Image(data, image.affine))
    return np.asarray(found.dataobj) > 0
