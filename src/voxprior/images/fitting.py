"""Fitting an ImageSpace on training images: which voxels, and what is done to every image.

The mask of a fit may shrink once more: what is NaN or infinite in some scan cannot be used. A mask
that is given is not checked in advance, because no image should be read twice without need:
`read_where_finite` reads with it, and only where that fails finds out what all scans have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from voxprior.errors import InputError, InputTypeError, option
from voxprior.images import masks, surfaces, volumes
from voxprior.images.cleaning import Cleaning, check_settings, resolve_mode
from voxprior.images.findings import NotFiniteError, refuse_most
from voxprior.images.imagespace import ImageSpace
from voxprior.images.sources import Source, find_sources, n_volumes
from voxprior.images.surfaces import is_surface

__all__ = ["check_fitting", "fit_image_space", "read_where_finite"]

SETTINGS = {"mask", "mesh", "smoothing_fwhm", "standardize", "scale", "resample"}
SETTINGS |= {"detrend", "high_pass", "low_pass", "t_r"}
Read = TypeVar("Read")


def check_fitting(images: ImageSpace | None, settings: dict[str, Any]) -> None:
    """Refuse settings of a reader before it reads: those of `fit_image_space`, or fitted ones."""
    unknown = sorted(set(settings) - SETTINGS)
    if unknown:
        raise InputTypeError(
            f"{', '.join(unknown)}: is not a parameter",
            expected=f"one of {', '.join(sorted(SETTINGS))}",
        )
    needless = sorted(set(settings) - {"mesh"})
    if images is not None and needless:
        raise InputError(
            "The ImageSpace that is given was fitted with settings of its own",
            remedy=f"Leave out {', '.join(map(option, needless))}",
        )
    masks.check_mask(settings.get("mask"))
    others = {name: value for name, value in settings.items() if name not in ("mask", "mesh")}
    check_settings(**others)


def fit_image_space(
    images: Any,
    mask: Any = None,
    *,
    mesh: Any = None,
    smoothing_fwhm: float | None = None,
    detrend: bool = False,
    high_pass: float | None = None,
    low_pass: float | None = None,
    t_r: float | None = None,
    standardize: str = "auto",
    scale: str = "auto",
    resample: bool = False,
) -> ImageSpace:
    """Find mask and settings from training images; the result reads any further image the same way.

    Parameters
    ----------
    images : path, glob, image, SurfaceImage, dict of GIFTI hemispheres, or list of these
        All 3-D (one map per sample), or all 4-D (runs, or beta series).
    mask : None, "auto", "epi", "background", "data", path, image, boolean array, masker, or list
        A list of run masks is intersected. None computes one: nilearn's EPI mask inside every run;
        for maps and surfaces "auto", all voxels that are finite everywhere and not constant
        ("data"), and for volumes in MNI space those in the brain of the template where they cover
        far more. From a mask that is given, `load_maps` and `load_runs` drop the voxels that are
        NaN or infinite in some scan, see `voxprior.images.findings`. A masker lends its mask and
        its smoothing, detrending, filters and `t_r` where these are not given here.
    mesh : optional
        Mesh of GIFTI files: PolyMesh, dict of files, or a template name such as "fsaverage5".
    smoothing_fwhm : float, optional
        Millimetres; volumes only.
    detrend, high_pass, low_pass, t_r
        Temporal cleaning of runs, see `Cleaning`.
    standardize : {"auto", "run", "baseline", "group", "train", "none"}
        "auto" is "run" for 4-D runs and "train" for maps; `load_maps` makes that "group" for maps
        with groups where the rule of `voxprior.images.rules` says so.
    scale : {"auto", "global", "none"}
        "global" divides every image by its mean inside the mask. "auto" is "none"; `load_maps`
        makes that "global" where the rule of `voxprior.images.rules` says so.
    resample : bool
        Resample images on another grid (to the mask's) instead of refusing them.

    Returns
    -------
    ImageSpace

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import fit_image_space
    >>> values = np.random.default_rng(0).normal(size=(3, 3, 2, 10))
    >>> run = nibabel.Nifti1Image(values, np.eye(4))
    >>> fit_image_space(run, mask="data", detrend=True)
    ImageSpace(volume 3 x 3 x 2, 18 voxels, standardize='run')
    """
    lent: dict[str, Any] = {"smoothing_fwhm": smoothing_fwhm, "detrend": detrend}
    lent |= {"high_pass": high_pass, "low_pass": low_pass, "t_r": t_r}
    given = {"mask": mask, "standardize": standardize, "scale": scale, "resample": resample}
    check_fitting(None, given | lent)
    if masks.is_masker(mask):
        lent = {name: value or getattr(mask, name, None) for name, value in lent.items()}
    lent["detrend"] = bool(lent["detrend"])
    cleaning = check_settings(**lent)
    sources = find_sources(images, mesh)
    runs = _all_runs(sources)
    mode = resolve_mode(standardize, runs)
    _check_cleaning(cleaning, runs, sources)
    found = masks.find_mask(mask, sources, mesh, resample)
    fwhm = lent["smoothing_fwhm"] or None
    fitted = ImageSpace(
        found.space,
        found.parts,
        fwhm,
        cleaning,
        mode,
        resample,
        found.notes,
        found.lost,
        scale="none" if scale == "auto" else scale,
        mask_source=found.source,
    )
    _check_places(fitted, sources)
    return fitted


def _check_cleaning(cleaning: Cleaning, runs: bool, sources: list[Source]) -> None:
    """Check filters against the time between volumes in each header, before data are read."""
    if cleaning.needed and not runs:
        raise InputError(
            f"{option('detrend')}, {option('high_pass')} and {option('low_pass')} need 4-D runs, "
            f"but {sources[0].name} has no time"
        )
    if not cleaning.filters or cleaning.t_r is not None:
        return
    for source in sources:
        t_r = volumes.header_t_r(source.load())
        if t_r is not None:
            cleaning.check_nyquist(t_r, source.name)


def _all_runs(sources: list[Source]) -> bool:
    """Distinguish runs (4-D) from maps (3-D); a mixture is refused."""
    counts = [n_volumes(source.load()) for source in sources]
    runs = [source for source, n in zip(sources, counts) if n > 1]
    if runs and len(runs) < len(sources):
        single = next(source for source, n in zip(sources, counts) if n == 1)
        raise InputError(
            f"{single.name}: is a single volume while {runs[0].name} is 4-D",
            remedy="Give 4-D runs only, or one 3-D map per sample only",
        )
    return bool(runs)


def _check_places(fitted: ImageSpace, sources: list[Source]) -> None:
    """Refuse images on another grid before hours of reading, by their headers alone."""
    for source in sources:
        image = source.load()
        if is_surface(image) != (fitted.parts is not None):
            raise InputError(
                f"{source.name}: images and mask must be both volumes or both surfaces"
            )
        if fitted.parts is not None:
            surfaces.check_mesh(image, fitted.space, fitted.parts, source.name, "the mask")
        elif not fitted.resample:
            affine = np.eye(4) if fitted.space.affine is None else fitted.space.affine
            volumes.check_grid(image, fitted.space.shape, affine, source.name, "the mask")


# ---------------------------------------------------------------- voxels that are not finite


def read_where_finite(
    read: Callable[[ImageSpace], Read], images: ImageSpace, sources: Sequence[Source]
) -> tuple[ImageSpace, Read]:
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
