import numpy as np
from matplotlib.colors import Normalize

from voxprior import SpatialBoostingClassifier, VoxelSpace
from voxprior.report.colors import ONE_SIGN, Colors, painted
from voxprior.report.pictures.boosting import (
    draw_selection_frequency,
    importance_with_controls,
    objective_path,
)


def spaces(rng):
    yield VoxelSpace.grid(20)
    yield VoxelSpace.grid((4, 5))
    yield VoxelSpace.grid((2, 5, 2))
    yield VoxelSpace.from_coordinates(rng.uniform(0, 9, (20, 2)))


def assert_drawn(axis, values, top):
    """The map, which lies over the grey of the mask, has the colours of these values."""
    expected = painted(np.asarray(values, dtype=float), Colors(ONE_SIGN, Normalize(0, top)))
    np.testing.assert_allclose(axis.images[-1].get_array(), expected)


def test_a_map_is_drawn_beside_its_controls_in_every_kind_of_space(rng):
    y = np.repeat([0, 1], 8)
    X = rng.standard_normal((16, 20))
    for space in spaces(rng):
        model = SpatialBoostingClassifier(space, n_iterations=5).fit(X, y)
        figure = importance_with_controls(model.controls(X, y, n_shuffles=2, random_state=0), space)
        assert len(figure.axes) == 6
        figure.canvas.draw()


def test_maps_are_shares_so_that_they_can_be_compared(rng):
    space = VoxelSpace.grid((3, 3))
    maps = {"importance": np.arange(9.0), "shuffled": rng.random((4, 9))}
    figure = importance_with_controls(maps, space)
    shares = np.arange(9) / 36, maps["shuffled"].mean(axis=0) / maps["shuffled"].mean(axis=0).sum()
    for axis, share in zip(figure.axes[:2], shares):
        assert_drawn(axis, share.reshape(3, 3).T, np.max(shares))


def test_an_empty_map_is_drawn_as_empty():
    figure = importance_with_controls({"importance": np.zeros(4)}, VoxelSpace.grid((2, 2)))
    assert_drawn(figure.axes[0], np.zeros((2, 2)), 1.0)
    assert not figure.axes[0].images[-1].get_array()[..., 3].any()


def test_a_volume_shows_its_fullest_slice():
    frequency = np.zeros((2, 2, 3))
    frequency[1, 1, 2] = 0.5
    figure = draw_selection_frequency(frequency.ravel(), VoxelSpace.grid((2, 2, 3)), n_bootstraps=4)
    assert_drawn(figure.axes[0], frequency[..., 2].T, 1.0)
    assert figure.axes[0].get_xlabel() == "slice 2"
    assert "4 bootstrap refits" in figure.axes[1].get_ylabel()


def test_the_descent_has_a_line_per_problem_and_an_accuracy():
    figure = objective_path(np.array([[4.0, 3, 2], [4, 2, 1]]), np.array([0.5, 0.7]), ["a", "b"])
    assert [line.get_label() for line in figure.axes[0].lines] == ["a", "b"]
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_xdata(), [1, 2])
