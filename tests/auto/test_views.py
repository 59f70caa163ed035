"""Views are matrices on voxels; their Gram matrices come from passes over blocks of voxels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.auto import naive

from voxprior import VoxelSpace
from voxprior.auto import views as module
from voxprior.auto.smoothing import neighbor_radius, smoother_of
from voxprior.auto.views import crosses_of, lifted, views_of

SPACE = VoxelSpace.grid((3, 4, 2))


def scans(n=7, times=1, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 24 * times)) * 5 + 100
    x[:, 3] = 7.0  # does not vary
    x[:, 5] = x[:, 4]
    return x


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("width", [5, 10_000])
def test_gram_matrices_are_those_of_the_matrices(times, width, monkeypatch):
    def narrow(n, p):
        return [slice(i, min(i + width, p)) for i in range(0, p, width)]

    monkeypatch.setattr(module, "voxel_blocks", narrow)
    x = scans(times=times)
    views = views_of(x, None, smoother_of(SPACE))
    centered = (x - x.mean(axis=0)) / views.voxels.unit
    wanted = naive.view_matrices(centered, SPACE)
    assert views.names == tuple(wanted) == ("raw", "z", "smooth")
    for gram, A in zip(views.grams, wanted.values()):
        assert_allclose(gram, centered @ A.T @ A @ centered.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["raw", "z", "smooth"])
def test_weights_come_back_to_voxels(name):
    x = scans(times=2)
    smoother = smoother_of(SPACE)
    views = views_of(x, None, smoother)
    A = naive.view_matrices((x - x.mean(axis=0)) / views.voxels.unit, SPACE)[name]
    rows = np.random.default_rng(1).normal(size=(3, 48))
    assert_allclose(lifted(name, rows.copy(), views.voxels), rows @ A.T @ A, atol=1e-12)


def test_moderated_deviations_of_six_scans():
    x = [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]]
    voxels = views_of(np.array(x, float)).voxels
    assert_allclose(voxels.unit / voxels.scale, [1.123816, 1.029203, 0.944771, 0.904720], atol=6e-7)


def test_voxels_that_do_not_vary_change_nothing():
    x = scans()
    more = np.column_stack([x, np.full((7, 4), 3.0)])
    for one, other in zip(views_of(x).grams, views_of(more).grams):
        assert_allclose(one, other, rtol=1e-12)


def test_scans_that_were_centred_by_group_are_known():
    x, groups = scans(8), np.repeat([0, 1, 2], [3, 3, 2])
    means = np.array([x[groups == g].mean(axis=0) for g in range(3)])
    by_group = views_of(x - means[groups], groups)
    assert by_group.centered
    assert not views_of(x, groups).centered
    assert not views_of(x).centered
    squares = ((x - means[groups]) ** 2).sum(axis=0) / by_group.voxels.unit**2
    varies = squares > 1e-12
    V = squares[varies] / 5
    assert_allclose(by_group.voxels.scale[varies] ** -2, (5 * V + 4 * V.mean()) / 9)


@pytest.mark.parametrize("factor", [1e-170, 1e-3, 1e150])
def test_one_factor_on_all_scans_changes_no_gram_matrix(factor):
    for one, other in zip(views_of(scans()).grams, views_of(scans() * factor).grams):
        assert_allclose(other, one, rtol=1e-8, atol=1e-12)


def test_scans_that_are_all_alike():
    views = views_of(np.ones((4, 3)))
    assert not np.any(views.grams)


def test_neighbours_of_points_and_meshes():
    assert smoother_of(None) is None
    line = VoxelSpace.from_coordinates(np.c_[np.arange(5) * 3.0, np.zeros((5, 2))])
    assert neighbor_radius(line) == pytest.approx(5.4)
    assert_allclose(
        smoother_of(line).toarray(), smoother_of(VoxelSpace.grid((5,))).toarray(), rtol=1e-12
    )
    triangle = np.array([[0.0, 0, 0], [2, 0, 0], [0, 2, 0]])
    mesh = VoxelSpace.from_mesh(triangle, [[0, 1, 2]])
    assert_allclose(smoother_of(mesh).sum(axis=1), 1)
    # Points of another bank of a fold are near in space, and no neighbours along edges.
    folded = VoxelSpace.from_mesh(np.vstack([triangle, triangle + 0.1]), [[0, 1, 2], [3, 4, 5]])
    assert_allclose(smoother_of(folded).toarray()[:3, 3:], 0)
    assert_allclose(smoother_of(folded).toarray()[:3, :3], smoother_of(mesh).toarray())
    assert smoother_of(VoxelSpace.from_mesh(np.zeros((3, 3)), [[0, 1, 2]])) is None
    alone = VoxelSpace.from_coordinates(np.zeros((1, 3)))
    assert smoother_of(alone) is None
    assert smoother_of(VoxelSpace.from_coordinates(np.zeros((4, 3)))) is None
    assert smoother_of(VoxelSpace.grid((1,))) is None


@pytest.mark.parametrize("names", [["raw", "z", "smooth"], ["z"], ["smooth"], ["smooth", "raw"]])
def test_inner_products_with_new_scans(names):
    x, new = scans(times=2), scans(4, times=2, seed=1)
    voxels = views_of(x, None, smoother_of(SPACE)).voxels
    matrices = naive.view_matrices((x - x.mean(axis=0)) / voxels.unit, SPACE)
    for name, cross in zip(names, crosses_of(new.astype("f4"), x, voxels, names), strict=True):
        old, at = ((one - x.mean(axis=0)) / voxels.unit @ matrices[name].T for one in (x, new))
        assert_allclose(cross.gram, at @ old.T, rtol=1e-4, atol=1e-5)
        assert_allclose(cross.squared_norms, (at**2).sum(axis=1), rtol=1e-5)


def test_views_can_be_chosen_and_numbers_without_end_are_refused():
    views = views_of(scans(), None, smoother_of(SPACE), ["smooth"])
    assert views.names == ("smooth",)
    assert_allclose(views.grams[0], views_of(scans(), None, smoother_of(SPACE)).grams[2])
    with pytest.raises(ValueError, match="too large"):
        views_of(np.array([[1e308], [1.5e308]]))
