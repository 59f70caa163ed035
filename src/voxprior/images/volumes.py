"""One volume image to rows of voxels on a known grid, and voxel maps back to NIfTI images.

Voxels are read in C order of the mask, as `VoxelSpace.from_mask` and nilearn's maskers do. Values
stay float32; the whole image is held once, its smoothed copy a few volumes at a time.
"""

from __future__ import annotations

import gzip
import logging
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import numpy as np

from voxprior.errors import InputError, nearest_file, option
from voxprior.images import bounds
from voxprior.images.findings import check_finite
from voxprior.space import VoxelSpace

__all__ = ["EXTENSIONS", "check_grid", "header_t_r", "load_volume", "resampled"]
__all__ += ["refuse_lost_differences", "volume_array", "volume_image", "volume_rows"]

EXTENSIONS = (".nii.gz", ".nii", ".img.gz", ".img", ".hdr.gz", ".hdr", ".mgz", ".mgh")
# What nibabel, zlib and the XML parser of GIFTI raise on damaged files.
DAMAGED = (OSError, EOFError, ValueError, KeyError, zlib.error, gzip.BadGzipFile, ExpatError)
# Affines of one scanner differ by float32 rounding; a micrometre is far below any voxel.
AFFINE_TOLERANCE_MM = 1e-3
# Bits of the NIfTI field of units that encode time, and their meaning; none means seconds.
TIME_UNIT = 0b111000
SECONDS = {0: 1.0, 8: 1.0, 16: 1e-3, 24: 1e-6}
# Volumes that are read again in full precision, where rounding may have taken their differences.
VOLUMES_COMPARED = 8
# Volumes smoothed at once: nilearn copies what it smooths.
VOLUMES_AT_ONCE = 32


# ---------------------------------------------------------------- files


def load_volume(path: Path, name: str) -> Any:
    """Open an image file; the data are read later, by `volume_array`."""
    import nibabel

    if not path.exists():
        raise FileNotFoundError(
            f"{name}: no such image file{nearest_file(path)}. Check the path, or give a pattern."
        )
    if path.is_dir():
        raise IsADirectoryError(f"{name}: is a folder. Give its images, e.g. '{path}/*.nii.gz'.")
    if not path.is_file() or not path.name.lower().endswith(EXTENSIONS):
        raise InputError(
            f"{name}: is not an image file", expected=f"one that ends in {', '.join(EXTENSIONS)}"
        )
    # Whatever a parser raises on bytes that somebody else wrote, the file is at fault.
    try:
        with warnings.catch_warnings(), _remarks_as_warnings(name):
            warnings.simplefilter("ignore")  # they come again with the whole header
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


def volume_array(image: Any, name: str) -> np.ndarray:
    """Return the image's values as float32 without keeping a second copy inside the image."""
    declared = bounds.declared_in(image) if _is_on_disk(image) else None
    if declared is not None:
        declared.check(name)
    try:
        if declared is None:
            if isinstance(image.dataobj, np.ndarray):
                bounds.refuse_lost_digits(bounds.sampled(image.dataobj, image.dataobj.size), name)
            return image.get_fdata(dtype=np.float32, caching="unchanged")
        scaling = float(image.dataobj.slope), float(image.dataobj.inter)
        return bounds.read_voxels(declared, *scaling, name)
    except InputError:
        raise
    except DAMAGED as error:
        raise bounds.damaged(name, error) from error


def _is_on_disk(image: Any) -> bool:
    from nibabel.arrayproxy import ArrayProxy

    proxy = image.dataobj
    # Exactly this class: the proxies of other formats lay their data out in their own way.
    plain = type(proxy) is ArrayProxy and proxy.order == "F"
    return plain and isinstance(proxy.file_like, str)


# ---------------------------------------------------------------- grids


def check_grid(
    image: Any, shape: tuple[int, ...], affine: np.ndarray, name: str, other: str
) -> None:
    """Raise InputError unless the image lies on this grid; `other` says whose grid it is."""
    remedy = f"Bring the images to one grid, or set {option('resample', True)}"
    if tuple(image.shape[:3]) != tuple(shape):
        raise InputError(
            f"{name}: its grid is {_size(image.shape[:3])} but {other} has {_size(shape)}",
            remedy=remedy,
        )
    difference = np.abs(np.asarray(image.affine) - affine).max()
    if difference > AFFINE_TOLERANCE_MM:
        raise InputError(
            f"{name}: its affine differs from that of {other} (by up to {difference:.3g} mm), "
            "so the voxels are at other places",
            remedy=remedy,
        )


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape)


def header_t_r(image: Any) -> float | None:
    """Seconds between volumes by the NIfTI header, or None where it does not give them.

    These do not count: 0; 1 without a unit, which headers hold when nobody filled them in; and
    whatever is not a time.
    """
    header = getattr(image, "header", None)
    if header is None or len(image.shape) < 4 or not hasattr(header, "get_xyzt_units"):
        return None
    time, unit = float(header.get_zooms()[3]), int(header["xyzt_units"]) & TIME_UNIT
    if not 0 < time < np.inf or unit not in SECONDS or (not unit and time == 1.0):
        return None
    return time * SECONDS[unit]


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
    data = volume_array(image, name)
    data = data.reshape(*data.shape[:3], -1)
    mask = space.mask
    rows = np.empty((data.shape[-1], space.n_voxels), dtype=np.float32)
    for number, row in enumerate(rows):  # one volume at a time: no second copy of the image
        row[:] = data[..., number][mask]
    if not gaps:
        check_finite(rows, name)
        refuse_lost_differences(rows, [image], mask, name)
    if smoothing_fwhm is not None:
        _smooth_into(rows, data, mask, affine, smoothing_fwhm)
    return rows


def refuse_lost_differences(
    rows: np.ndarray, images: Sequence[Any], mask: np.ndarray, name: str
) -> None:
    """Refuse volumes whose differences single precision has rounded away.

    Parameters
    ----------
    rows : float32 array of shape (n, V)
        Volumes as they were read.
    images : sequence of nibabel images
        Where they are from, in that order; they may be on another grid, and are not looked at then.
    mask : boolean array
        The V voxels.
    name : str
        The first of them, for error messages.
    """
    at = bounds.sampled(np.arange(rows.shape[1]), rows.shape[1])
    if len(rows) < 2 or not bounds.are_rounded(rows[:VOLUMES_COMPARED, at]):
        return
    exact: list[np.ndarray] = []
    for image in images[:VOLUMES_COMPARED]:
        if tuple(image.shape[:3]) != mask.shape:
            return
        values = np.asarray(image.dataobj)[mask][at]  # in the precision of the file
        exact += list(values.reshape(len(at), -1).T)
    bounds.refuse_lost_differences(np.array(exact[:VOLUMES_COMPARED]), name)


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
    # nilearn reads the file by itself, but not to the end, where damage shows.
    volume_array(image, name)
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
    """Types that every NIfTI reader supports."""
    if dtype.kind in "iu":
        return dtype if dtype.itemsize <= 4 else np.int32
    return np.float64 if dtype == np.float64 else np.float32


def _affine(space: VoxelSpace) -> np.ndarray:
    return np.eye(4) if space.affine is None else space.affine
