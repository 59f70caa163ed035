"""One volume image to rows of voxels on a known grid, and voxel maps back to NIfTI images.

Voxels are read in C order of the mask, as `VoxelSpace.from_mask` and nilearn's maskers do. Values
stay float32; the whole image is held once, its smoothed copy a few volumes at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.errors import InputError
from voxprior.images.finite import check_finite
from voxprior.images.reading import array_of
from voxprior.space import VoxelSpace

__all__ = ["check_grid", "header_t_r", "resampled", "volume_image", "volume_rows"]

# Affines of one scanner differ by float32 rounding; a micrometre is far below any voxel.
AFFINE_TOLERANCE_MM = 1e-3
# Volumes smoothed at once: nilearn copies what it smooths.
VOLUMES_AT_ONCE = 32


def check_grid(
    image: Any, shape: tuple[int, ...], affine: np.ndarray, name: str, other: str
) -> None:
    """Raise ValueError unless the image lies on this grid; `other` says whose grid it is."""
    if tuple(image.shape[:3]) != tuple(shape):
        raise ValueError(
            f"{name}: its grid is {_size(image.shape[:3])} but {other} has {_size(shape)}. "
            "Bring the images to one grid, or ask for resample=True."
        )
    difference = np.abs(np.asarray(image.affine) - affine).max()
    if difference > AFFINE_TOLERANCE_MM:
        raise ValueError(
            f"{name}: its affine differs from that of {other} (by up to {difference:.3g} mm), "
            "so the voxels are at other places. Bring the images to one grid, or ask for "
            "resample=True."
        )


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape)


def header_t_r(image: Any) -> float | None:
    """Seconds between volumes as the NIfTI header says, or None where it does not."""
    header = getattr(image, "header", None)
    if header is None or len(image.shape) < 4 or not hasattr(header, "get_xyzt_units"):
        return None
    seconds, unit = float(header.get_zooms()[3]), header.get_xyzt_units()[1]
    if not 0 < seconds < np.inf or (unit == "unknown" and seconds == 1.0):
        return None  # 1 without a unit is what headers hold when nobody filled them in
    return seconds * {"msec": 1e-3, "usec": 1e-6}.get(unit, 1.0)


def volume_rows(
    image: Any,
    space: VoxelSpace,
    name: str,
    smoothing_fwhm: float | None = None,
    resample: bool = False,
    gaps: bool = False,
) -> np.ndarray:
    """Read an image's voxels inside the mask: float32 of shape (n_volumes, V).

    Parameters
    ----------
    image : nibabel image, 3-D or 4-D
    space : VoxelSpace of a mask, with affine
    name : str
        The file, for error messages.
    smoothing_fwhm : float, optional
        Full width at half maximum in millimetres, smoothed through nilearn.
    resample : bool
        Resample an image that lies on another grid; otherwise that is an error.
    gaps : bool
        Let NaN and infinite values pass; otherwise they are an error.
    """
    affine = _affine(space)
    if resample:
        image = resampled(image, space.shape, affine, name)
    check_grid(image, space.shape, affine, name, "the mask")
    data = array_of(image, name)
    data = data.reshape(*data.shape[:3], -1)
    mask = space.mask
    rows = np.empty((data.shape[-1], space.n_voxels), dtype=np.float32)
    for number, row in enumerate(rows):  # one volume at a time: no second copy of the image
        row[:] = data[..., number][mask]
    if not gaps:
        check_finite(rows, name)
    if smoothing_fwhm is not None:
        _smooth_into(rows, data, mask, affine, smoothing_fwhm)
    return rows


def _smooth_into(
    rows: np.ndarray, data: np.ndarray, mask: np.ndarray, affine: np.ndarray, fwhm: float
) -> None:
    import nibabel
    from nilearn.maskers import NiftiMasker

    mask_image = nibabel.Nifti1Image(mask.astype(np.uint8), affine)
    masker = NiftiMasker(mask_image, smoothing_fwhm=fwhm, standardize=None, reports=False).fit()
    for start in range(0, len(rows), VOLUMES_AT_ONCE):
        part = slice(start, start + VOLUMES_AT_ONCE)
        # Outside the mask NaN is common and harmless; it counts as zero, as outside the grid.
        volumes = np.nan_to_num(data[..., part], posinf=0.0, neginf=0.0)
        rows[part] = masker.transform(nibabel.Nifti1Image(volumes, affine))


def resampled(image: Any, shape: tuple[int, ...], affine: np.ndarray, name: str) -> Any:
    """Bring an image to a grid, by nilearn's splines; itself if it lies there already."""
    from nilearn.image import resample_img
    from nilearn.image.resampling import BoundingBoxError

    same_shape = tuple(image.shape[:3]) == tuple(shape)
    if same_shape and np.abs(np.asarray(image.affine) - affine).max() <= AFFINE_TOLERANCE_MM:
        return image
    array_of(image, name)  # nilearn reads the file by itself, but not to the end that tells damage
    try:
        return resample_img(
            image,
            target_affine=affine,
            target_shape=shape,
            interpolation="continuous",
            force_resample=True,
            copy_header=True,
        )
    except BoundingBoxError as error:
        raise InputError(
            f"{name}: none of it lies where the mask or the first image is",
            remedy="Check the affine in its header",
        ) from error


def volume_image(values: np.ndarray, space: VoxelSpace) -> Any:
    """Turn a map (V,) into a 3-D NIfTI image, or (T, V) into a 4-D one; zero outside."""
    import nibabel

    values = np.asarray(values)
    values = values.astype(np.uint8 if values.dtype == bool else _image_type(values.dtype))
    volume = space.unmask(values)
    if values.ndim == 2:
        volume = np.moveaxis(volume, 0, -1)
    image = nibabel.Nifti1Image(np.ascontiguousarray(volume), _affine(space))
    image.header.set_xyzt_units("mm")
    return image


def _image_type(dtype: np.dtype) -> Any:
    """Types that every NIfTI reader knows."""
    if dtype.kind in "iu":
        return dtype if dtype.itemsize <= 4 else np.int32
    return np.float64 if dtype == np.float64 else np.float32


def _affine(space: VoxelSpace) -> np.ndarray:
    return np.eye(4) if space.affine is None else space.affine
