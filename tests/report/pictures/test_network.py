"""Pictures of a network show what they were given."""

import numpy as np
import pytest

from voxprior.report.pictures.network import draw_frequencies, draw_network


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize("d", [0, 1, 5])
def test_network_has_one_latent_state_per_parent(d, tmp_path):
    equivalents = [list(range(i)) for i in range(d)]
    figure = draw_network(range(10, 10 + d), equivalents, -20.0 + np.arange(d + 1), "sex")
    words = texts(figure)
    assert "sex" in words
    assert sum(word.startswith("L") for word in words) == d
    assert words.count("+1.0 nats") == d
    assert ("no voxel raises the score" in words) == (d == 0)
    figure.savefig(tmp_path / "network.png")
    assert (tmp_path / "network.png").stat().st_size > 1000


def test_names_replace_voxel_numbers():
    assert "left hippocampus" in texts(
        draw_network([3], [[]], [-2.0, -1.0], names=["left hippocampus"])
    )


def test_frequencies_highlight_the_learned_network():
    figure = draw_frequencies([0.6, 0.4], [1.0, 0.6, 0.4], selected=1, edges_in_model=[0, 2])
    left, right = figure.axes
    colors = [bar.get_facecolor() for bar in left.patches]
    assert colors[0] != colors[1]
    assert [bar.get_height() for bar in right.patches] == [1.0, 0.6, 0.4]
    missing = draw_frequencies([1.0], [1.0], selected=-1)
    assert "no resample" in missing.axes[0].get_title()
