"""What a simulated experiment returns, and that it becomes images and comes back."""

import nibabel as nib
import numpy as np
import pytest
from nilearn.masking import apply_mask

from voxprior.errors import InputError
from voxprior.simulate import Simulated, blobs, brain, chains, latent_clusters, smooth_maps
from voxprior.simulate import time_courses as courses
from voxprior.space import VoxelSpace

GENERATORS = {
    "time_courses": lambda seed: courses((5, 5, 4), 3, random_state=seed),
    "chains": lambda seed: chains((5, 5, 4), 4, n_nodes=10, n_runs=2, random_state=seed),
    "blobs": lambda seed: blobs((9, 9, 6), 3, blob_radius=1, random_state=seed),
    "poisson": lambda seed: blobs((9, 9, 6), 3, blob_radius=1, noise="poisson", random_state=seed),
    "smooth_maps": lambda seed: smooth_maps((5, 5, 4), 8, random_state=seed),
    "regression": lambda seed: smooth_maps((5, 5, 4), 8, task="regression", random_state=seed),
    "latent_clusters": lambda seed: latent_clusters(
        (9, 9, 6), 8, cluster_radius=1, random_state=seed
    ),
    "longitudinal": lambda seed: latent_clusters(
        (9, 9, 6), 8, cluster_radius=1, longitudinal=True, random_state=seed
    ),
}


@pytest.fixture(params=GENERATORS, ids=str)
def generator(request):
    return GENERATORS[request.param]


def test_shapes(generator):
    data = generator(0)
    assert isinstance(data, Simulated)
    assert data.X.shape == (len(data.y), data.n_times * data.space.n_voxels)
    assert data.groups.shape == data.y.shape
    assert np.isfinite(data.X).all()
    assert f"{len(data.y)} samples" in repr(data)


def test_a_seed_decides_everything(generator):
    first, again, other = generator(3), generator(3), generator(4)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert first.space == again.space
    assert first.truth.keys() == again.truth.keys()
    for name, value in first.truth.items():
        np.testing.assert_array_equal(value, again.truth[name])
    assert (first.X != other.X).any()


def test_a_generator_object_is_a_seed_too():
    data = blobs((9, 9, 6), 3, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(data.X, blobs((9, 9, 6), 3, random_state=3).X)


def test_images_come_back_as_rows(generator, tmp_path):
    data = generator(0)
    for i, image in enumerate(data.images()):
        nib.save(image, tmp_path / f"{i}.nii")
        values = apply_mask(tmp_path / f"{i}.nii", data.mask_image())
        np.testing.assert_allclose(np.ravel(values), data.X[i], rtol=1e-6)
        np.testing.assert_array_equal(image.affine, np.diag([3, 3, 3, 1]))


def test_masker_and_truth_images():
    data = blobs((9, 9, 6), 3, random_state=0)
    masker = data.masker()
    np.testing.assert_allclose(masker.transform(data.images()), data.X, rtol=1e-6)
    maps = data.truth_images()
    assert sorted(maps) == ["blob", "signal"]
    np.testing.assert_array_equal(
        np.asarray(maps["blob"].dataobj)[data.space.mask], data.truth["blob"]
    )


def test_one_and_two_axes_become_flat_images():
    data = chains(n_nodes=7, n_per_class=2, random_state=0)
    assert data.images()[0].shape == (7, 1, 1)


def test_points_have_no_nifti_image(rng):
    space = VoxelSpace.from_coordinates(rng.random((30, 3)) * 5)
    data = smooth_maps(space, 4, random_state=0)
    with pytest.raises(ValueError, match="Only volumes"):
        data.images()


@pytest.mark.parametrize(("resolution", "n_voxels"), [(8, 3666), (4, 29398)])
def test_brain(resolution, n_voxels):
    space = brain(resolution)
    assert space.n_voxels == n_voxels
    np.testing.assert_allclose(space.voxel_sizes, resolution)
    assert brain(resolution) is space
    assert blobs(space, 1, random_state=0).X.shape == (2, n_voxels)


@pytest.mark.parametrize("whole", [8.0, np.float32(8), np.int16(8)])
def test_whole_millimetres_of_any_type(whole):
    assert brain(whole) is brain(8)


@pytest.mark.parametrize("resolution", [2.5, 0, -4, np.nan, np.inf, True, "8", None])
def test_other_resolutions_of_the_brain_are_refused(resolution):
    with pytest.raises(InputError, match="Expected a whole number of millimetres, 1 or more"):
        brain(resolution)


def test_bad_spaces():
    with pytest.raises(TypeError, match="VoxelSpace"):
        blobs("brain")
    with pytest.raises(ValueError, match="do not fit"):
        blobs((6, 6, 6), n_blobs=9)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: courses((4, 4, 4), 40, n_groups=4, **k),
        lambda **k: blobs((9, 9, 6), 40, n_groups=4, **k),
        lambda **k: smooth_maps((6, 6, 4), 80, n_groups=4, **k),
        lambda **k: chains((6, 6, 4), 2, n_runs=30, run_correlation=0, **k),
        lambda **k: latent_clusters((9, 9, 6), 80, n_groups=4, longitudinal=True, **k),
    ],
)
def test_groups_have_their_own_offsets_and_scales(make):
    plain = make(random_state=0)
    data = make(group_offset=3.0, group_scale=0.5, random_state=0)
    offsets, scales = data.truth["group_offset"], data.truth["group_scale"]
    assert len(np.unique(data.groups)) == len(scales) == len(offsets) == 4
    assert 2.5 < offsets.std() < 3.5
    assert len(np.unique(scales)) == 4
    for g in range(4):
        expected = plain.X[plain.groups == g].reshape(-1, data.space.n_voxels) * scales[g]
        found = data.X[data.groups == g].reshape(-1, data.space.n_voxels)
        np.testing.assert_allclose(found, expected + offsets[g], rtol=1e-4, atol=1e-4)
    assert "group_offset" not in plain.truth


def test_classes_are_balanced_in_every_group():
    data = blobs((9, 9, 6), 12, n_groups=3, random_state=0)
    for g in range(3):
        np.testing.assert_array_equal(np.bincount(data.y[data.groups == g]), [4, 4])


def test_bad_designs():
    with pytest.raises(ValueError, match="n_groups"):
        blobs((9, 9, 6), 3, n_groups=4)
    with pytest.raises(ValueError, match="at least 1 sample"):
        blobs((9, 9, 6), 0)
    with pytest.raises(ValueError, match="standard deviations"):
        blobs((9, 9, 6), 3, group_offset=-1)
    with pytest.raises(ValueError, match="smoothness"):
        smooth_maps((4, 4, 4), smoothness=-1)
