"""Figures show the numbers that they are given."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from voxprior.decision.curves import Band, Reliability
from voxprior.report.figures import Drawn, panels, write_all
from voxprior.report.plots import FEWEST_IN_BIN, fold_scores, reliability, roc


def test_roc_of_two_classes_has_its_area_and_thresholds():
    truth, p = np.array([0, 0, 1, 1, 1, 0]), np.array([0.1, 0.2, 0.9, 0.8, 0.7, 0.3])
    figure = roc(truth, np.column_stack([1 - p, p]), ["rest", "WM_Age"], positive=1)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["WM_Age: 1.00"]
    assert "0.90" in [text.get_text() for text in axes.texts]
    curve = axes.lines[1].get_xydata()
    assert curve[0].tolist() == [0, 0]
    assert curve[-1].tolist() == [1, 1]


def test_roc_of_three_classes_leaves_out_one_without_scans():
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    (axes,) = roc(np.array([0, 1, 0, 1]), p, ["cat", "dog", "fox"]).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["cat: 1.00", "dog: 1.00"]
    assert not axes.texts


@pytest.mark.parametrize(("across", "shape"), [(None, (15, 2)), (4, (12, 4)), (9, (15, 2))])
def test_panels_break_into_rows(across, shape):
    figure, axes = panels(5, 3.0, 2.0, across=across)
    assert len(axes) == 5
    np.testing.assert_array_equal(figure.get_size_inches(), shape)
    assert sum(ax.axison for ax in figure.axes) == 5


def test_scores_are_named_as_in_the_table():
    scores = pd.DataFrame({"fold": [0, 1], "auc": [0.7, 0.9]})
    (axes,) = fold_scores(scores, "auc", 0.5).axes
    assert axes.get_ylabel() == "area under ROC"
    np.testing.assert_allclose(axes.lines[1].get_ydata(), 0.8)


def drawn(name, value):
    figure, (axes,) = panels(1, 3.31, 2.0)
    axes.imshow([[value, 0.0], [1.0, value]])
    return Drawn(name, figure)


def test_files_of_figures_are_what_matplotlib_writes(tmp_path):
    paths = write_all([drawn("one", 0.2), drawn("two", 0.9)], tmp_path, "sub-1_")
    names = ["sub-1_one.svg", "sub-1_one.png", "sub-1_two.svg", "sub-1_two.png"]
    assert [path.name for path in paths] == names
    for path, value in [(paths[1], 0.2), (paths[3], 0.9)]:
        one = drawn("alone", value)
        assert one.svg  # laid out as on the page
        one.figure.savefig(tmp_path / "alone.png", dpi=300)
        with Image.open(path) as ours, Image.open(tmp_path / "alone.png") as theirs:
            assert ours.size == theirs.size == (993, 600)
            np.testing.assert_allclose(ours.info["dpi"], 300, atol=0.1)
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_a_file_that_cannot_be_packed_is_told(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OSError, match="No space left"):
        write_all([drawn("one", 0.2)], tmp_path)


def test_bins_of_few_scans_are_not_drawn():
    n_scans = np.array([0, 1, FEWEST_IN_BIN - 1, FEWEST_IN_BIN, 40])
    share = np.array([np.nan, 1.0, 0.0, 0.6, 0.9])
    bins = Reliability(
        np.linspace(0, 1, 6), share, share, n_scans, 0.1, Band(share - 0.1, share + 0.1)
    )
    (axes,) = reliability(bins).axes
    lines, (dots, bars) = axes.lines, axes.collections
    assert lines[1].get_xdata().tolist() == [0.6, 0.9]
    assert dots.get_offsets()[:, 1].tolist() == [0.6, 0.9]
    assert len(bars.get_segments()) == 2
