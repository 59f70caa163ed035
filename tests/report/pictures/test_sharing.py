import numpy as np
import pytest

from voxprior.report.pictures.sharing import accuracy_bars, neighboring_courses, shared_courses
from voxprior.space import VoxelSpace


def test_neighboring_courses_draws_the_voxel_and_its_likeliest_neighbours(rng, tmp_path):
    space = VoxelSpace.grid((6, 6, 3))
    courses = rng.normal(size=(16, space.n_voxels))
    courses[:, 7] = 5 * courses[:, 8] + 0.01 * courses[:, 7]
    figure = neighboring_courses(courses, space.adjacency(), voxels=[7], t_r=0.5)
    (panel,) = figure.axes
    np.testing.assert_allclose(panel.lines[-1].get_ydata(), courses[:, 7])
    np.testing.assert_allclose(panel.lines[0].get_ydata(), courses[:, 8])
    assert panel.lines[0].get_xdata()[-1] == 8.0
    figure.savefig(tmp_path / "courses.png")


def test_neighboring_courses_picks_strong_voxels_that_are_not_neighbours(rng):
    space = VoxelSpace.grid((6, 6, 3))
    graph = space.adjacency()
    courses = rng.normal(size=(8, space.n_voxels))
    titles = [panel.get_title() for panel in neighboring_courses(courses, graph).axes]
    chosen = [int(title.split()[1]) for title in titles]
    assert chosen[0] == (courses**2).sum(axis=0).argmax()
    assert graph[np.ix_(chosen, chosen)].sum() == 0
    with pytest.raises(ValueError, match="V = 108 voxels"):
        neighboring_courses(courses[:, :5], graph)


def test_bars_have_the_heights_given():
    figure = accuracy_bars({"a": [0.5, 0.6, 0.7], "b": [0.8, 0.9, 1.0]}, ["s1", "s2", "s3"])
    (panel,) = figure.axes
    assert [bar.get_height() for bar in panel.patches] == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["s1", "s2", "s3"]
    with pytest.raises(ValueError, match=r"lengths \[1, 2\]"):
        accuracy_bars({"a": [0.5], "b": [0.5, 0.6]})


def test_shared_courses_draws_before_and_after(rng):
    before, after = rng.normal(size=(2, 8, 5))
    figure = shared_courses(before, after, voxels=[4])
    thin, thick = figure.axes[0].lines
    np.testing.assert_array_equal(thin.get_ydata(), before[:, 4])
    np.testing.assert_array_equal(thick.get_ydata(), after[:, 4])
    with pytest.raises(ValueError, match="one shape"):
        shared_courses(before, after[:4], voxels=[0])
