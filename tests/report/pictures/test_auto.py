"""The picture of the automatic classifier shows every discriminant with its weight."""

import numpy as np

from voxprior import AutoClassifier, VoxelSpace
from voxprior.report.pictures.auto import LEGENDS, draw, draw_member_weights


def test_every_view_and_shrinkage_has_its_square():
    rng, space = np.random.default_rng(0), VoxelSpace.grid((4, 4, 2))
    y = np.arange(12) % 2
    X = rng.normal(size=(12, 32)) + y[:, None]
    model = AutoClassifier(space).fit(X, y)
    (picture,) = draw(model, X, y, space)
    (axes,) = picture.figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["raw", "z", "smooth"]
    assert [label.get_text() for label in axes.get_xticklabels()][-2:] == ["1", "none"]
    shown = [text.get_text() for text in axes.texts]
    assert shown == [f"{100 * share:.0f} %" for share in model.member_weights_.ravel()]
    assert {name.partition("[")[0] for name in model.voxel_maps()} == set(LEGENDS)


def test_squares_without_weight_are_drawn():
    figure = draw_member_weights(np.zeros((1, 2)), ["raw"], [1.0, np.inf])
    assert [text.get_text() for text in figure.axes[0].texts] == ["0 %", "0 %"]
