"""Pictures of random fields show the numbers they are given."""

import numpy as np
import pytest

from voxprior import RandomFieldClassifier
from voxprior.report.pictures.fields import (
    accuracy_histograms,
    connection_counts,
    ratio_trajectories,
    stem_plot,
    two_circles,
)


@pytest.fixture
def coef(rng):
    B = rng.normal(size=(8, 8))
    np.fill_diagonal(B, 0)
    return B


def drawn(figure, tmp_path):
    path = tmp_path / "picture.png"
    figure.savefig(path)
    return path.stat().st_size > 0


def test_counts_are_in_the_legend(tmp_path):
    figure = connection_counts([[2, 4], [0, 1]], ["rest", "task"])
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == ["rest: mean 3.0", "task: mean 0.5"]
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert sum(heights) == 4
    assert drawn(figure, tmp_path)


def test_two_circles_draw_what_counts(coef, tmp_path):
    sparse = np.where(np.abs(coef) > 1.5, coef, 0.0)
    figure = two_circles({"plain": coef, "compressed": sparse}, n_edges=10)
    plain, compressed = figure.axes
    expected = sum(
        max(abs(sparse[i, j]), abs(sparse[j, i])) > 0.05 for i in range(8) for j in range(i)
    )
    assert compressed.get_title() == f"compressed: {expected} connections"
    assert len(plain.collections[0].get_segments()) == 10
    assert drawn(figure, tmp_path)


def test_sides_place_nodes_left_and_right(coef):
    right = np.array([True, False] * 4)
    figure = two_circles({"field": coef}, right=right)
    places = figure.axes[0].collections[1].get_offsets()
    np.testing.assert_array_equal(places[:, 0] > 0, right)
    with pytest.raises(ValueError, match="8 nodes"):
        two_circles({"field": coef}, right=[True])


def test_stems_show_one_row(coef, tmp_path):
    figure = stem_plot({"plain": coef, "compressed": 0.1 * coef}, node=3)
    for axis, row in zip(figure.axes, (coef[3], 0.1 * coef[3]), strict=True):
        np.testing.assert_allclose(axis.lines[0].get_ydata(), row)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert drawn(figure, tmp_path)


def test_histograms_mark_means(tmp_path):
    figure = accuracy_histograms({"plain": [0.8, 0.9], "compressed": [0.95]}, {"plain": 0.86})
    positions = [line.get_xdata()[0] for line in figure.axes[0].lines]
    np.testing.assert_allclose(positions, [0.85, 0.86, 0.95])
    assert drawn(figure, tmp_path)


def test_trajectory_of_a_fitted_field(rng, tmp_path):
    X, y = rng.normal(size=(30, 27)), np.repeat(["a", "b"], 15)
    model = RandomFieldClassifier(n_nodes=9, gamma=1.0, compression=None).fit(X, y)
    path = model.trajectory(X[:4], "a", "b")
    figure = ratio_trajectories(path.running_mean, path.limit)
    lines = figure.axes[0].lines
    assert len(lines) == 4 + 3
    np.testing.assert_allclose(lines[5].get_ydata(), path.limit.mean())
    assert drawn(figure, tmp_path)
