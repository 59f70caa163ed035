"""The picture of several experiments: bands inside what a score can be, slices, matrices."""

import numpy as np
import pytest

from voxprior.report.scenes import N_SLICES, Curve, Strip, draw_strips
from voxprior.simulate import brain

SPACE = brain(20)


def strip(score="accuracy", maps=None):
    curve = {"lda": Curve((2, 4), (0.9, 0.98), (0.3, 0.1))}
    shown = {"truth": np.arange(float(SPACE.n_voxels))} if maps is None else maps
    return Strip("balls", "a ball", score, 0.5, SPACE, shown, curve, curve, curve)


def bands(figure):
    paths = [one.get_paths()[0] for one in figure.subfigs[0].axes[-1].collections]
    return np.concatenate([path.vertices[:, 1] for path in paths])


@pytest.mark.parametrize(("score", "highest"), [("accuracy", 1.0), ("log_loss", 1.2)])
def test_bands_end_where_scores_end(score, highest):
    found = bands(draw_strips([strip(score)]))
    assert found.max() == pytest.approx(highest)
    assert found.min() == pytest.approx(0.6)


def test_bands_of_losses_end_at_zero():
    wide = {"lda": Curve((2, 4), (0.2, 0.1), (0.5, 0.5))}
    found = bands(draw_strips([strip("log_loss")._replace(stock=wide, default={}, families={})]))
    assert found.min() == 0


def test_slices_and_matrices_are_named():
    matrix = {"truth": np.eye(3), "fields": np.eye(3)}
    two = {"truth": np.ones(SPACE.n_voxels), "gp": np.ones(SPACE.n_voxels)}
    figure = draw_strips([strip(maps=two), strip(maps=matrix)])
    slices, matrices = ([ax.get_title() for ax in row.axes[:-1]] for row in figure.subfigs)
    assert len(slices) == 2 * N_SLICES
    assert [title.split("\n")[0] for title in slices] == ["truth", "truth", "gp", "gp"]
    assert len(set(slices)) == len(slices)
    assert matrices == ["truth", "fields"]
