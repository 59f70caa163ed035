"""What came from others is drawn with its numbers."""

import numpy as np
import pytest
from tests.transfer.study import UNIFORM, alike

from voxprior.decoder.others import curve_decoders
from voxprior.images import Dataset
from voxprior.report.pictures.transfer import draw, draw_left_out, draw_shares, from_others
from voxprior.space import VoxelSpace
from voxprior.transfer import TransferClassifier, TransferPrior


def adapted(n_others):
    study = alike(n_others + 1)
    X, y, runs = study.pop("s0")
    return TransferPrior(UNIFORM, max_episodes=3).fit(study).adapt(X, y, runs)


def test_the_bar_has_the_weights_of_all_levels():
    levels = {"base": 0.0, "calibration": 0.25, "geometry": 0.7, "readout": 0.05, "maps": 0.0}
    (ax,) = draw_shares(levels).axes
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [0.25, 0.7, 0.05])
    assert [text.get_text() for text in ax.texts] == ["0.25", "0.70"]
    assert from_others(levels) == pytest.approx(0.75)


def test_means_over_the_others_are_drawn():
    losses = {"base": np.array([1.0, 2.0]), "readout": np.array([0.5, 0.7])}
    (ax,) = draw_left_out(losses, ["base"]).axes
    np.testing.assert_allclose([line.get_ydata()[0] for line in ax.lines[1::2]], [1.5, 0.6])


def test_pictures_of_a_fitted_model():
    first, second = draw(adapted(3), None, None, None)
    assert "3 other subjects say" in first.caption
    assert "each dot" in second.caption.lower()
    (alone,) = draw(adapted(1), None, None, None)
    assert "1 other subject says" in alone.caption


def test_the_curve_with_and_without_others_begins_at_one_scan():
    model = adapted(3)
    y = np.tile(["a", "b"], 6)
    data = Dataset(np.zeros((12, 8), "f4"), y, VoxelSpace.grid((2, 2, 2)))
    both, options = curve_decoders(TransferClassifier(model.prior), data, 0)
    assert list(both) == ["decoder with others", "decoder without others"]
    assert both["decoder without others"] == "auto"
    assert options["sizes"][0] == 1
    assert curve_decoders(TransferClassifier(model.prior, UNIFORM), data, 0)[1] == {}
    assert curve_decoders("gp", data, 0) == ({"gp": "gp"}, {})
