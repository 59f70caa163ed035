"""What a notebook shows of a decoder and of the place of its voxels."""

import numpy as np

from voxprior import Decoder, VoxelSpace
from voxprior.images import Dataset
from voxprior.simulate import blobs


def test_a_decoder_shows_what_it_is_and_what_it_decided():
    decoder = Decoder()
    assert "<td>no</td>" in decoder._repr_html_()
    data = blobs((5, 5, 4), 6, n_blobs=1, random_state=0)
    labels = np.array(["<i>", "b"])[data.y]
    shown = decoder.fit(Dataset(data.X, labels, data.space))._repr_html_()
    assert "auto" in shown
    assert "100 voxels" in shown
    assert "&lt;i&gt;, b" in shown or "b, &lt;i&gt;" in shown
    assert "<i>" not in shown
    assert "decision 1" in shown


def test_a_number_has_no_classes():
    data = blobs((4, 4, 3), 6, n_blobs=1, blob_radius=1, random_state=0)
    target = data.X[:, 0] + np.arange(12.0)
    shown = Decoder("ridge").fit(Dataset(data.X, target, data.space))._repr_html_()
    assert "ridge" in shown
    assert "classes" not in shown


def test_a_space_shows_its_size():
    affine = np.diag([3.0, 2.0, 1.5, 1.0])
    shown = VoxelSpace.grid((4, 5, 6), affine)._repr_html_()
    assert "<td>4 x 5 x 6</td>" in shown
    assert "<td>120</td>" in shown
    assert "<td>3 x 2 x 1.5</td>" in shown
    assert "millimetres" not in VoxelSpace.grid((4, 5, 6))._repr_html_()
