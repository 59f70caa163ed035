"""Affines that cannot be, and images that lie elsewhere."""

import nibabel
import numpy as np
import pytest

from voxprior.errors import InputError
from voxprior.images import load_maps


def image(affine, rng):
    return nibabel.Nifti1Image(rng.normal(size=(4, 4, 3)).astype("f4"), affine)


@pytest.mark.parametrize(
    "axes",
    [
        [[3, 3, 0], [0, 0, 0], [0, 0, 3]],
        [[3, 0, 3], [0, 3, 3], [0, 0, 1e-9]],
    ],
)
def test_voxels_at_the_same_place(rng, axes):
    affine = np.eye(4)
    affine[:3, :3] = axes
    with pytest.raises(InputError, match="puts different voxels at the same place"):
        load_maps([image(affine, rng)])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_voxels_of_any_size_and_oblique(rng, size):
    turned = np.array([[0.9, -0.4, 0.1], [0.4, 0.9, 0.2], [-0.2, -0.1, 1.0]])
    affine = np.eye(4)
    affine[:3, :3] = size * turned
    assert load_maps([image(affine, rng)]).n_samples == 1


def test_an_image_that_lies_elsewhere_cannot_be_resampled(rng):
    far = np.diag([3.0, 3.0, 3.0, 1.0])
    far[:3, 3] = -1e4
    with pytest.raises(InputError, match="none of it lies where the mask or the first image is"):
        load_maps([image(np.diag([3.0, 3.0, 3.0, 1.0]), rng), image(far, rng)], resample=True)
