"""A simulated brain with two planted regions, and an atlas that has names for them."""

from types import SimpleNamespace

import nibabel
import numpy as np
import pytest

from voxprior.images import Dataset, ImageSpace
from voxprior.space import VoxelSpace

AFFINE = np.array([[4.0, 0, 0, -20], [0, 4.0, 0, -30], [0, 0, 4.0, 8], [0, 0, 0, 1]])


@pytest.fixture(scope="session")
def planted():
    """Eight runs of a pair of scans: a region where b is above a, and one where it is below."""
    rng = np.random.default_rng(0)
    space = VoxelSpace.grid((8, 7, 6), AFFINE)
    numbers = np.zeros((8, 7, 6), dtype=np.int16)
    numbers[1:4, 1:4, 1:3], numbers[5:7, 4:6, 3:5], numbers[:, 6] = 3, 7, 9
    y, runs = np.tile(["a", "b"], 8), np.repeat(np.arange(8), 2)
    code = numbers.ravel()
    X = rng.normal(size=(16, code.size)) + 2 * rng.normal(size=(8, 1))[runs]
    X += 4.0 * np.outer(y == "b", code == 3) - 4.0 * np.outer(y == "b", code == 7)
    data = Dataset(X.astype("f4"), y, space, groups=runs, images=ImageSpace(space))
    atlas = nibabel.Nifti1Image(numbers, AFFINE)
    names = {3: "fusiform", 7: "calcarine", 9: "elsewhere"}
    return SimpleNamespace(data=data, atlas=atlas, names=names, code=code)
