"""Simulated: what every generator returns, as arrays and as images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError
from voxprior.space import VoxelSpace

__all__ = ["Simulated"]


@dataclass(frozen=True, eq=False, repr=False)
class Simulated:
    """A simulated experiment and the truth behind it.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scans; with time, features are time-major: `X.reshape(n_samples, n_times, n_voxels)`.
    y : ndarray of shape (n_samples,)
        Class labels, or the number to predict.
    groups : ndarray of int, shape (n_samples,)
        The run or subject of each scan.
    space : VoxelSpace
        Where the voxels are.
    truth : dict of str to ndarray
        What the data were made from, under the names that the generator documents. Arrays whose
        last axis is the voxels are maps.
    """

    X: NDArray
    y: NDArray
    groups: NDArray[np.int64]
    space: VoxelSpace
    truth: dict[str, NDArray] = field(default_factory=dict)

    @property
    def n_times(self) -> int:
        """Number of volumes in a sample, T."""
        return self.X.shape[1] // self.space.n_voxels

    @property
    def affine(self) -> NDArray[np.float64]:
        """Voxel indices to millimetres; 1 mm voxels if the space has no affine."""
        return np.eye(4) if self.space.affine is None else self.space.affine

    def image(self, values: NDArray) -> Any:
        """Return values (V,) as a 3-D NIfTI image, or values (T, V) as a 4-D one with T volumes."""
        from nibabel import Nifti1Image

        if self.space.kind != "volume":
            raise InputError(
                "Only volumes can be written as NIfTI images",
                got=repr(self.space),
                remedy="Use space.unmask(values) for the values on the whole domain",
            )
        values = np.asarray(values)
        if values.dtype == bool:
            values = values.astype(np.uint8)
        elif values.dtype.itemsize > 4:
            values = values.astype(np.int32 if values.dtype.kind == "i" else np.float32)
        box = self.space.shape + (1,) * (3 - len(self.space.shape))
        volumes = self.space.unmask(values).reshape(*values.shape[:-1], *box)
        return Nifti1Image(
            volumes if values.ndim == 1 else np.moveaxis(volumes, 0, -1), self.affine
        )

    def images(self) -> list[Any]:
        """Return one NIfTI image per sample: 3-D, or 4-D where samples have time."""
        if self.n_times == 1:
            return [self.image(x) for x in self.X]
        return [self.image(x.reshape(self.n_times, -1)) for x in self.X]

    def mask_image(self) -> Any:
        """Return the mask as a NIfTI image."""
        return self.image(np.ones(self.space.n_voxels, dtype=bool))

    def truth_images(self) -> dict[str, Any]:
        """Return every map of the truth, shape (V,) or (k, V), as a NIfTI image."""
        return {
            name: self.image(values)
            for name, values in self.truth.items()
            if values.ndim in (1, 2) and values.shape[-1] == self.space.n_voxels
        }

    def masker(self) -> Any:
        """Return a fitted nilearn NiftiMasker that turns the images back into rows of X."""
        from nilearn.maskers import NiftiMasker

        return NiftiMasker(mask_img=self.mask_image(), standardize=None).fit()

    def __repr__(self) -> str:
        n_samples, n_features = self.X.shape
        return (
            f"Simulated({n_samples} samples x {n_features:,} features, "
            f"{len(np.unique(self.groups))} groups, {self.space!r})"
        )
