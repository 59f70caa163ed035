"""Tiny synthetic images shared by the tests of this package."""

import nibabel
import numpy as np
import pytest

AFFINE = np.array([[3.0, 0, 0, -6], [0, 3, 0, -9], [0, 0, 4, 5], [0, 0, 0, 1]])
SHAPE = (5, 4, 3)


@pytest.fixture
def affine():
    return AFFINE.copy()


@pytest.fixture
def save(tmp_path):
    """Write values as NIfTI below a temporary folder; return the path."""

    def write(values, name, affine=AFFINE, t_r=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image = nibabel.Nifti1Image(np.asarray(values), affine)
        if t_r is not None:
            image.header.set_zooms((*image.header.get_zooms()[:3], t_r))
            image.header.set_xyzt_units("mm", "sec")
        image.to_filename(path)
        return path

    return write


@pytest.fixture
def maps(save, rng):
    """Six 3-D maps of two groups and their values (6, 5, 4, 3)."""
    values = rng.normal(size=(6, *SHAPE)).astype(np.float32)
    return [save(v, f"sub-0{i + 1}_map.nii.gz") for i, v in enumerate(values)], values


@pytest.fixture
def mask_path(save):
    mask = np.zeros(SHAPE, dtype=np.uint8)
    mask[1:4, 1:3, 1:] = 1
    return save(mask, "mask.nii.gz")


@pytest.fixture
def run_path(save, rng):
    """A run of 20 volumes every 2 s with offsets per voxel, as int16."""
    values = rng.normal(500, 20, size=(*SHAPE, 20)) + 300 * rng.random((*SHAPE, 1))
    return save(values.astype(np.int16), "sub-01_task-x_run-1_bold.nii.gz", t_r=2.0)


@pytest.fixture
def surface(rng):
    """Make SurfaceImages on two tetrahedra; `n` maps (0: one-dimensional data)."""
    from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    mesh = PolyMesh(left=InMemoryMesh(corners - 5, faces), right=InMemoryMesh(corners + 5, faces))

    def make(n=0, seed=0, move=0.0):
        random = np.random.default_rng(seed)
        shape = (4, n) if n else (4,)
        data = {side: random.normal(size=shape).astype(np.float32) for side in ("left", "right")}
        if not move:
            return SurfaceImage(mesh, data)
        moved = {
            side: InMemoryMesh(part.coordinates + move, faces) for side, part in mesh.parts.items()
        }
        return SurfaceImage(PolyMesh(**moved), data)

    return make
