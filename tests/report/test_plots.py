"""Figures of the page are to be had in Python, and show themselves in a notebook."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from voxprior import AutoClassifier, Decoder, VoxelSpace
from voxprior.errors import InputError
from voxprior.images import Dataset
from voxprior.report import report_of
from voxprior.report.figures import as_svg
from voxprior.simulate import blobs
from voxprior.validation import cross_validate, interval, permutation_test

AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])


@pytest.fixture(scope="module")
def data():
    scans = blobs((6, 6, 5), 12, n_blobs=1, random_state=0)
    return Dataset(scans.X, np.array(["cat", "dog"])[scans.y], scans.space)


@pytest.fixture(scope="module")
def done(data):
    return Decoder("logistic").decode(data, permutations=9, stock=True)


def test_a_result_draws_the_first_figure_of_its_page(result):
    figure = result.plot()
    assert isinstance(figure, Figure)
    assert as_svg(figure) == report_of(result).drawn[0].svg
    name = result.score_names[0]
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [interval(result, name).estimate]


def test_others_and_exchanged_labels_join_it(result):
    axes = result.plot({"the same": result, "another": result}).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["this decoder", "the same", "another"]


def test_exchanged_labels_are_a_shade(data):
    decoder = Decoder("logistic")
    found = decoder.evaluate(data)
    model = LogisticRegression()
    itself, another = (
        permutation_test(model, data.X, data.y, test=test, score="accuracy", n_permutations=9)
        for test in ("refit", "fast")
    )
    assert "exchanged labels" in as_svg(found.plot(permutation=itself))
    assert "exchanged labels" not in as_svg(found.plot(permutation=another))
    assert "exchanged labels" not in as_svg(found.plot())


def test_a_test_in_batch_of_the_model_itself_has_a_shade_too(data):
    model = AutoClassifier()
    result = cross_validate(model, data.X, data.y)
    test = permutation_test(model, data.X, data.y, n_permutations=19)
    assert test.score == "margin"
    assert "exchanged labels" in as_svg(result.plot(permutation=test))
    assert len(test.null_of("accuracy")) == 19
    assert "null" not in test.summary()["secondary"][0]


def test_a_decoding_gives_what_its_files_hold(done, tmp_path):
    assert as_svg(done.plot()) == done.report.drawn[0].svg
    done.write(tmp_path)
    (file,) = (tmp_path / "figures").glob("this-decoder*.svg")
    assert file.read_text() == as_svg(done.plot())


@pytest.mark.parametrize("draw", [lambda done: done.plot(), lambda done: done.plot_maps()])
def test_a_notebook_shows_figures_without_pyplot(done, draw):
    assert draw(done)._repr_png_().startswith(b"\x89PNG")


def rows_of(figure):
    return [ax.get_ylabel() for ax in figure.findobj(lambda one: hasattr(one, "get_ylabel"))
            if ax.get_ylabel()]  # fmt: skip


def test_maps_are_drawn_by_name(done, data):
    maps = done.decoder.voxel_maps()
    first = next(iter(maps))
    for figure in (done.decoder.plot_maps(first), done.decoder.plot_maps(first, data=data)):
        assert isinstance(figure, Figure)
        assert first in rows_of(figure)
    seen = [name for name, values in maps.items() if np.ptp(values) > 0]
    assert [name for name in rows_of(done.plot_maps()) if name in maps] == seen


def test_a_map_that_is_not_there_is_refused_with_the_nearest(done):
    first = next(iter(done.decoder.voxel_maps()))
    with pytest.raises(InputError, match=f"no map '{first}s' .*nearest is '{first}'"):
        done.plot_maps(f"{first}s")


def test_a_decoder_without_maps_or_with_empty_ones_says_so():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(12, 8)).astype("f4"), np.tile(["a", "b"], 6),
                   VoxelSpace.grid((2, 2, 2)))  # fmt: skip
    decoder = Decoder("logistic").fit(data)
    decoder.voxel_maps = lambda: {}
    with pytest.raises(InputError, match="has no maps"):
        decoder.plot_maps()
    decoder.voxel_maps = lambda: {"weights": np.zeros(8)}
    with pytest.raises(InputError, match=r"no map to draw\. weights: .* zero"):
        decoder.plot_maps()


def test_maps_over_time_are_drawn_as_their_mean():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(12, 54)).astype("f4"), np.tile(["a", "b"], 6),
                   VoxelSpace.grid((3, 3, 3), AFFINE))  # fmt: skip
    decoder = Decoder("logistic").fit(data)
    assert all(len(values) == 54 for values in decoder.voxel_maps().values())
    assert isinstance(decoder.plot_maps(), Figure)
    assert len(rows_of(decoder.plot_maps())) >= len(decoder.voxel_maps())
