"""Neighbourhoods against distances written out, on grids, points and meshes."""

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.mapping import neighborhoods


def as_matrix(near):
    whole = np.zeros((len(near.sizes), len(near.sizes)), dtype=bool)
    for center in range(len(near.sizes)):
        whole[center, near.members(center)] = True
    return whole


@pytest.mark.parametrize("radius", [2.0, 3.1, 5.0])
def test_millimetres(radius):
    mask = np.random.default_rng(0).random((4, 5, 3)) < 0.7
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    space = VoxelSpace.from_mask(mask, affine)
    places = np.argwhere(mask) @ affine[:3, :3].T
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.testing.assert_array_equal(as_matrix(neighborhoods(space, radius)), distance <= radius)


def test_points():
    places = np.random.default_rng(0).normal(size=(30, 3))
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    near = neighborhoods(VoxelSpace.from_coordinates(places), 0.8)
    np.testing.assert_array_equal(as_matrix(near), distance <= 0.8)


# A strip of triangles: vertices 0 2 4 6 above, 1 3 5 7 below, one apart.
STRIP = np.array([[k // 2, k % 2, 0] for k in range(8)], dtype=float)
FACES = np.array([[k, k + 1, k + 2] for k in range(6)])


class TestMesh:
    def test_rings(self):
        space = VoxelSpace.from_mesh(STRIP, FACES)
        one, two = (neighborhoods(space, r, "rings") for r in (1, 2))
        assert one.members(0).tolist() == [0, 1, 2]
        assert two.members(0).tolist() == [0, 1, 2, 3, 4]

    def test_along_edges_not_through_the_air(self):
        """Both ends of a fold are near in space and far along the surface."""
        folded = STRIP.copy()
        folded[4:6, 2], folded[6:8] = 1.0, STRIP[2:4] + [0, 0, 1.5]
        space = VoxelSpace.from_mesh(folded, FACES)
        near = neighborhoods(space, 1.6)
        assert 6 not in near.members(2)
        assert 6 in neighborhoods(space, 4.0).members(2)

    def test_distances_are_those_of_dijkstra(self):
        space = VoxelSpace.from_mesh(STRIP, FACES)
        assert neighborhoods(space, 1.0).members(0).tolist() == [0, 1, 2]
        assert neighborhoods(space, 2.0).members(0).tolist() == [0, 1, 2, 3, 4]


class TestRefused:
    def test_a_radius_below_a_voxel(self):
        space = VoxelSpace.grid((4, 4, 4), np.diag([3.0, 3.0, 3.0, 1.0]))
        with pytest.raises(ValueError, match=r"radius=2.*below a voxel.*at least 3 mm"):
            neighborhoods(space, 2.0)
        with pytest.raises(ValueError, match="at least 1 voxel"):
            neighborhoods(space, 0.5, "voxel")
        with pytest.raises(ValueError, match="1 ring or more"):
            neighborhoods(space, 0.5, "rings")
        with pytest.raises(ValueError, match="between two points"):
            neighborhoods(VoxelSpace.from_coordinates(np.eye(3)), 0.1)

    def test_one_voxel_is_its_own_neighbourhood(self):
        assert neighborhoods(VoxelSpace.grid((1,)), 1, "voxel").members(0).tolist() == [0]

    @pytest.mark.parametrize("radius", [0, -1, np.nan, np.inf])
    def test_what_is_not_a_radius(self, radius):
        with pytest.raises(ValueError, match="not a radius"):
            neighborhoods(VoxelSpace.grid((4,)), radius, "voxel")

    def test_units(self):
        with pytest.raises(ValueError, match="mm, voxel, rings"):
            neighborhoods(VoxelSpace.grid((4,)), 1, "inches")
        with pytest.raises(ValueError, match="points have no edges"):
            neighborhoods(VoxelSpace.from_coordinates(np.eye(3)), 1, "rings")
