"""Pictures of the Gaussian family: what is drawn is what was given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from voxprior import GPClassifier, GPRegressor, RVMClassifier, RVMRegressor
from voxprior.report.pictures.gaussian import (
    draw,
    draw_evidence_path,
    draw_evidence_surface,
    draw_maps,
    draw_relevance,
    weight_summary,
)


def test_evidence_curve_and_map(rng):
    grid = np.linspace(-2, 2, 9)
    curve = draw_evidence_surface(-(grid**2), grid, best=[0.0])
    np.testing.assert_array_equal(curve.axes[0].lines[0].get_ydata(), -(grid**2))
    surface = draw_evidence_surface(
        -100 * (grid[:, None] ** 2) - grid[:5] ** 2, grid, grid[:5], best=(0, 0)
    )
    assert surface.axes[0].get_ylabel() == "log noise"
    with pytest.raises(
        ValueError, match=r"surface does not fit its axes\. Expected shape \(9, 9\)"
    ):
        draw_evidence_surface(np.zeros((3, 4)), grid, grid)


def test_weights_are_ordered_by_how_sure_they_are():
    figure = weight_summary(np.array([3.0, 1.0, -2.0]), np.array([3.0, 0.1, 1.0]))
    line = figure.axes[0].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), [1.0, -2.0, 3.0])
    with pytest.raises(ValueError, match="one value per voxel"):
        weight_summary(np.ones(3), np.ones(4))


def test_paths_and_relevance():
    figure = draw_evidence_path([[-3.0, -2.0], [-4.0, -1.0, -0.5]], labels=["a", "b"])
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [2, 3]
    picture = draw_relevance([[1.0, np.inf], [4.0, 4.0]], [2, 9], 10, "voxel")
    assert picture.axes[0].get_title() == "2 of 10 voxels relevant"
    with pytest.raises(ValueError, match="2 columns, one per index, got 1"):
        draw_relevance([1.0], [1, 2], 3)


@pytest.mark.parametrize(
    "model",
    [
        GPClassifier(),
        GPClassifier(inference="laplace"),
        GPClassifier("rbf"),
        GPRegressor(),
        RVMClassifier(),
        RVMClassifier("voxels"),
        RVMClassifier(multiclass="softmax"),
        RVMRegressor("voxels"),
    ],
)
def test_every_estimator_is_drawn(model, rng):
    X, codes = rng.normal(size=(18, 12)), np.arange(18) % 3
    X[:, 0] += 2 * codes
    shown = draw(model.fit(X, codes), X, codes)
    assert shown
    maps = model.voxel_maps()
    doubts = draw_maps(model, maps)
    process = isinstance(model, GPClassifier | GPRegressor)
    assert len(doubts) == (process and model.kernel != "rbf")
    assert all(isinstance(one.figure, Figure) and one.caption for one in shown + doubts)
    assert draw_maps(model, {name: np.zeros(12) for name in maps}) == []


def test_doubts_are_of_the_voxels_that_the_model_was_given(rng):
    X, y = rng.normal(size=(18, 12)), np.arange(18) % 2
    model = GPClassifier().fit(X[:, :7], y)
    padded = {name: np.append(one, np.zeros(5)) for name, one in model.voxel_maps().items()}
    (ours,), (theirs,) = draw_maps(model, padded), draw_maps(model, model.voxel_maps())
    titles = [[axis.get_title() for axis in one.figure.axes] for one in (ours, theirs)]
    assert titles == [["surest weights", "all 7 voxels"]] * 2
