"""Pictures of maps in every kind of space."""

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.report.colors import colors_of, painted
from voxprior.report.maps import draw_maps, place_name
from voxprior.report.slices import choose_slices


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
    with pytest.raises(ValueError, match=r"maps is empty\. Expected at least one map"):
        draw_maps(VoxelSpace.grid((2, 2)), {})


def shown(figure):
    """The slices of the first map, without the mask that lies below."""
    return [np.asarray(ax.images[-1].get_array()) for ax in figure.axes if len(ax.images) == 2]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["axial", "sagittal"])
@pytest.mark.parametrize("flipped", [(), (0,), (0, 1, 2)], ids=str)
def test_the_picture_does_not_depend_on_how_the_file_is_stored(order, flipped):
    values = np.random.default_rng(0).normal(size=(4, 5, 3))
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    affine[:3, 3] = [-3, -6, 8]
    expected = shown(draw_maps(VoxelSpace.grid((4, 5, 3), affine), {"": values.ravel()}))
    stored, turn = np.transpose(values, order), np.zeros((4, 4))
    turn[order, range(3)] = turn[3, 3] = 1
    for axis in flipped:
        stored = np.flip(stored, axis)
        turn[:3, 3] += turn[:3, axis] * (stored.shape[axis] - 1)
        turn[:3, axis] *= -1
    space = VoxelSpace.grid(stored.shape, affine @ turn)
    figure = draw_maps(space, {"": stored.ravel()})
    np.testing.assert_array_equal(shown(figure), expected)
    titles = [ax.get_title() for ax in figure.axes if len(ax.images) == 2]
    assert titles == ["z = 8 mm", "z = 12 mm", "z = 16 mm"]
    sides = {t.get_text(): t.get_position()[0] for t in figure.axes[0].texts}
    assert sides["L"] < sides["R"]


def test_sides_are_not_told_where_they_are_not_known():
    figure = draw_maps(VoxelSpace.grid((4, 5, 3)), {"": np.arange(60.0)})
    assert not any(ax.texts for ax in figure.axes)
    assert figure.axes[0].get_title() == "slice 0"


def test_colours_follow_the_values():
    both = colors_of(np.array([-1.0, 0, 3]))
    assert (both.norm.vmin, both.norm.vmax) == (-3, 3)
    assert colors_of(np.array([0.0, 0.4, 3.1])).norm.vmin == 0
    assert colors_of(np.array([9.9, 10.05])).norm.vmin == 9.9
    below = colors_of(np.array([-2.5, -1.0]))
    assert below.norm.vmax == 0
    for values in ([-2.5, -1.0], [-3.0, 0.0], [-2.0, -2.0]):  # blue, as beside values above zero
        red, _, blue, _ = painted(np.array(values), colors_of(np.array(values)))[0]
        assert blue > red
    assert colors_of(np.array([0.0, 2, 4])).ticks == [2, 3, 4]
    for unusual in (np.zeros(3), np.full(3, np.nan), np.full(3, -2.5), np.full(3, 0.5)):
        found = colors_of(unusual)
        assert found.norm.vmin < found.norm.vmax


def test_places_are_told_in_millimetres():
    space = VoxelSpace.grid((2, 2, 2), np.diag([-3.0, 2, 2, 1]))
    assert place_name(7, space) == "at (−3, 2, 2) mm"
    assert place_name(15, space) == place_name(7, space)  # the same voxel, one time point later
    assert place_name(7, None) == "number 7"
