"""Pictures of maps in every kind of space."""

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.report.maps import choose_slices, draw_maps


def test_slices_show_where_the_weight_is():
    inside = np.ones((3, 3, 6), bool)
    weight = np.zeros((3, 3, 6))
    weight[1, 1, 4], weight[1, 1, 1] = 2.0, 1.0
    assert choose_slices(weight, inside, 2) == [1, 4]
    inside[:, :, 4] = False
    assert 4 not in choose_slices(weight, inside, 6)


@pytest.mark.parametrize(
    "space",
    [
        VoxelSpace.grid((4, 5, 3)),
        VoxelSpace.grid((6, 7)),
        VoxelSpace.from_coordinates(np.random.default_rng(0).normal(size=(20, 3))),
        VoxelSpace.from_mesh(np.eye(3), [[0, 1, 2]]),
    ],
    ids=["volume", "plane", "points", "mesh"],
)
def test_every_space_can_be_drawn(space, tmp_path):
    values = np.linspace(-1, 1, space.n_voxels)
    figure = draw_maps(space, {"one": values, "two": np.full(space.n_voxels, np.nan)})
    figure.savefig(tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 1000


def test_no_map_is_an_error():
    with pytest.raises(ValueError, match=r"At least one map"):
        draw_maps(VoxelSpace.grid((2, 2)), {})
