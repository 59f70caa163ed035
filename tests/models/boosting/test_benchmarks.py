"""The benchmarks run in their quick form, and their instruments measure what they should."""

from functools import partial

import numpy as np
import pytest
from benchmarks.speed import boosting as speed
from sklearn.metrics import average_precision_score

from voxprior import VoxelSpace
from voxprior.papers.frame import Run
from voxprior.papers.xiang2009 import brain, digits, faces, fmri, kernel, rivals
from voxprior.papers.xiang2009.arms import morans_i

STEPS = [partial(digits.small, "Gaussian"), kernel.properties, fmri.movie_like, brain.figure_six]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_quick_reproduction_fills_every_table(step):
    found = step(Run(quick=True))
    assert found.figures or found.claims
    assert all(table.rows for table in found.tables.values())


@pytest.mark.slow
def test_quick_reproduction_of_faces_and_scans(data_folder):
    data_folder("imm_faces")
    data_folder("haxby_vt")
    data_folder("haxby_slice")
    for step, start in ((faces.trials, "Faces: accuracy"), (fmri.haxby_pairs, "Haxby")):
        assert next(iter(step(Run(quick=True)).tables)).startswith(start)
    assert brain.haxby_figure(Run(quick=True)).figures


def test_precision_is_compared_where_both_methods_reach():
    flat, recalls = np.ones(len(digits.RECALLS)), digits.RECALLS
    short = digits.Scores([], [], [], [np.where(recalls <= 0.5, 0.9, 0.0)], [0.5])
    whole = digits.Scores([], [], [], [0.8 * flat], [1.0])
    assert digits.ahead(short, whole) == pytest.approx([0.1])  # what lies beyond .5 plays no part
    assert digits.ahead(whole, short) == pytest.approx([-0.1])


def test_peaks_are_called_by_their_landmarks():
    space = VoxelSpace.grid((9, 9, 9), np.array(
        [[4, 0, 0, 24], [0, 4, 0, -71], [0, 0, 4, -28], [0, 0, 0, 1.0]]
    ))  # fmt: skip
    names = brain.landmarks(space)
    at = np.flatnonzero((space.coordinates == [4, 4, 4]).all(axis=1))[0]  # (40, -55, -12)
    assert names.name(at) == "right fusiform face area"
    assert names.name(0) == ""


@pytest.mark.slow
def test_quick_race_of_stumps(capsys):
    speed.stumps(20, 1_000, repeats=1)
    assert "scikit-learn AdaBoost" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_every_rival_finds_a_strong_square(rng, name):
    y = np.repeat([0, 1], 60)
    X = rng.standard_normal((120, 8, 40))
    X[y == 1, 2:6, 10:14] += 2.0
    truth = np.zeros((8, 40), dtype=bool)
    truth[2:6, 10:14] = True
    score = rivals.RIVALS[name](X.reshape(120, -1), y, (8, 40))
    assert average_precision_score(truth.ravel(), score) > 0.8


def test_a_pruned_tree_is_the_best_of_all_trees(rng):
    """On a 2 x 2 block there are two trees: one leaf, or four."""
    for _ in range(50):
        field = rng.standard_normal((2, 2)) * 2
        one, four = -abs(field.sum()) + 2, -np.abs(field).sum() + 4
        expected = np.full((2, 2), field.sum() > 0) if one <= four else field > 0
        np.testing.assert_array_equal(rivals._pruned_tree(field, 2), expected)


def test_morans_i_tells_clusters_from_scatter(rng):
    graph = VoxelSpace.grid((10, 10)).adjacency(26)
    square = np.zeros((10, 10))
    square[2:6, 2:6] = 1
    assert morans_i(square.ravel(), graph) > 0.4
    assert abs(morans_i(rng.permutation(square.ravel()), graph)) < 0.2
    assert morans_i(np.ones(100), graph) == 0
