"""Random fields have the variance and covariance they state."""

import numpy as np

from voxprior.simulate.geometry import balls, regions
from voxprior.simulate.noise import SmoothField
from voxprior.space import VoxelSpace


def test_covariance_is_that_of_the_filter(rng):
    space = VoxelSpace.from_mask(rng.random((4, 4, 3)) < 0.7)
    field = SmoothField(space, 1.3)
    filter_matrix = np.array([field.filter(e) for e in np.eye(space.n_voxels)]).T
    covariance = np.array([field.covariance(e) for e in np.eye(space.n_voxels)]).T
    np.testing.assert_allclose(covariance, filter_matrix @ filter_matrix.T, rtol=1e-9)
    np.testing.assert_allclose(np.diag(covariance), 1, rtol=1e-9)


def test_samples_have_that_covariance(rng):
    space = VoxelSpace.from_mask(rng.random((4, 3, 2)) < 0.8)
    field = SmoothField(space, 1.0)
    expected = np.array([field.covariance(e) for e in np.eye(space.n_voxels)])
    fields = field.sample(20_000, rng)
    np.testing.assert_allclose(np.cov(fields.T), expected, atol=0.05)
    np.testing.assert_allclose(fields.mean(axis=0), 0, atol=0.05)


def test_zero_smoothness_is_white(rng):
    fields = SmoothField(VoxelSpace.grid((3, 3)), 0.0).sample(20_000, rng, np.float32)
    assert fields.dtype == np.float32
    np.testing.assert_allclose(np.cov(fields.T), np.eye(9), atol=0.05)


def test_balls_are_compact_and_apart(rng):
    space = VoxelSpace.grid((20, 20, 10))
    number = balls(space, 3, 2.0, rng)
    assert set(number) == {0, 1, 2, 3}
    for ball in (1, 2, 3):
        places = space.coordinates[number == ball]
        assert len(places) == 33  # integer points within 2 of the origin: a whole ball
        centre = places.mean(axis=0)
        assert np.linalg.norm(places - centre, axis=1).max() <= 2 + 1e-9
    joined = space.adjacency(26).tocoo()
    pairs = {(a, b) for a, b in zip(number[joined.row], number[joined.col]) if a and b and a != b}
    assert not pairs


def test_regions_cover_the_space_and_are_nearest_to_their_centre(rng):
    space = VoxelSpace.grid((8, 8, 4))
    region = regions(space, 5, rng)
    assert set(region) == {1, 2, 3, 4, 5}
