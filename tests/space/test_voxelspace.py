"""VoxelSpace against naive loops over pairs of voxels, and the laws it keeps."""

import copy
import pickle

import numpy as np
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import correlate1d
from sklearn.base import BaseEstimator, clone

from voxprior.space import VoxelSpace
from voxprior.space.kernels import PointGaussian

masks = arrays(bool, st.tuples(*[st.integers(1, 5)] * 3)).filter(np.any)
few = settings(max_examples=25, deadline=None)
OBLIQUE = np.array(
    [
        [2 * np.cos(0.3), -3 * np.sin(0.3), 0, -10],
        [2 * np.sin(0.3), 3 * np.cos(0.3), 0, 5],
        [0, 0, 1.5, 7],
        [0, 0, 0, 1],
    ]
)
SHEARED = np.array([[2.0, 0.5, 0, 0], [0, 3, 0, 0], [0, 0, 1.5, 0], [0, 0, 0, 1]])


def naive_graph(points, joined):
    graph = np.zeros((len(points), len(points)), dtype=bool)
    for i, a in enumerate(points):
        for j, b in enumerate(points):
            graph[i, j] = i != j and joined(b - a)
    return graph


def naive_kernel(points, radius):
    kernel = np.zeros((len(points), len(points)))
    for i, a in enumerate(points):
        for j, b in enumerate(points):
            kernel[i, j] = np.exp(-np.sum((a - b) ** 2) / (2 * radius**2))
    return kernel


def share(n_axes):
    return lambda d: np.abs(d).max() == 1 and np.count_nonzero(d) <= n_axes


def tetrahedra():
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [5, 5, 5.0]])
    return points, np.array([[0, 1, 2], [0, 2, 3], [1, 2, 0]])


# ------------------------------------------------------------------ masks


@few
@given(masks)
def test_voxels_come_in_the_order_of_nonzero(mask):
    space = VoxelSpace.from_mask(mask)
    assert space.n_voxels == len(space) == mask.sum()
    np.testing.assert_array_equal(space.coordinates, np.argwhere(mask))
    np.testing.assert_array_equal(space.mask, mask)


@few
@given(masks, st.integers(0, 2**32 - 1))
def test_mask_round_trip(mask, seed):
    space = VoxelSpace.from_mask(mask)
    values = np.random.default_rng(seed).normal(size=(2, space.n_voxels)).astype(np.float32)
    volumes = space.unmask(values, fill=-1)
    assert volumes.dtype == np.float32
    assert volumes.shape == (2, *mask.shape)
    assert (volumes[:, ~mask] == -1).all()
    np.testing.assert_array_equal(volumes[1][mask], values[1])
    np.testing.assert_array_equal(space.apply_mask(volumes), values)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_grids_of_one_to_three_axes(shape):
    space = VoxelSpace.grid(shape)
    assert space.coordinates.shape == (np.prod(shape), 3)
    assert space.unmask(np.arange(space.n_voxels)).shape == shape
    corner_neighbors = space.adjacency(26)[[0]].sum()
    assert corner_neighbors == 2 ** len(shape) - 1


# ------------------------------------------------------------------ neighbours


@few
@given(masks, st.sampled_from([(6, 1), (18, 2), (26, 3)]))
def test_grid_neighbours_against_all_pairs(mask, kind):
    connectivity, n_axes = kind
    graph = VoxelSpace.from_mask(mask).adjacency(connectivity)
    assert graph.dtype == bool
    np.testing.assert_array_equal(graph.toarray(), naive_graph(np.argwhere(mask), share(n_axes)))


@few
@given(masks, st.sampled_from([0.5, 1.0, 2.0, np.sqrt(5), 9.0]))
def test_grid_radius_in_voxels(mask, radius):
    graph = VoxelSpace.from_mask(mask).adjacency(radius=radius)
    near = naive_graph(np.argwhere(mask), lambda d: d @ d <= radius**2 + 1e-9)
    np.testing.assert_array_equal(graph.toarray(), near)


@pytest.mark.parametrize("affine", [np.diag([2, 3, 1.5, 1]), OBLIQUE, SHEARED])
@pytest.mark.parametrize("radius", [1.4, 1.5, 3.0, 4.1])
def test_grid_radius_in_millimetres(affine, radius, rng):
    mask = rng.random((4, 3, 5)) < 0.6
    graph = VoxelSpace.from_mask(mask, affine).adjacency(radius=radius, units="mm")
    positions = np.argwhere(mask) @ affine[:3, :3].T
    near = naive_graph(positions, lambda d: np.linalg.norm(d) <= radius + 1e-9)
    np.testing.assert_array_equal(graph.toarray(), near)


def test_an_isolated_voxel_has_no_neighbours():
    mask = np.zeros((5, 5, 5), dtype=bool)
    mask[0, 0, 0] = mask[4, 4, 3] = mask[4, 4, 4] = True
    assert VoxelSpace.from_mask(mask).adjacency().sum(axis=1).tolist() == [0, 1, 1]


def test_neighbours_do_not_wrap_around_the_edges():
    graph = VoxelSpace.grid((2, 3, 4)).adjacency(6)
    assert not graph[3, 4]  # the end of one row and the start of the next


def test_blocks_of_the_neighbour_table_join_up(monkeypatch, rng):
    mask = rng.random((6, 5, 4)) < 0.5
    whole = VoxelSpace.from_mask(mask).adjacency()
    monkeypatch.setattr("voxprior.space.graphs.TABLE_ELEMENTS", 100)
    assert (VoxelSpace.from_mask(mask).adjacency() != whole).nnz == 0


def test_point_neighbours(rng):
    points = rng.normal(size=(30, 3))
    graph = VoxelSpace.from_coordinates(points).adjacency(radius=1.2)
    near = naive_graph(points, lambda d: np.linalg.norm(d) <= 1.2)
    np.testing.assert_array_equal(graph.toarray(), near)
    with pytest.raises(ValueError, match=r"adjacency\(radius="):
        VoxelSpace.from_coordinates(points).adjacency()


def test_mesh_neighbours_are_edges():
    points, faces = tetrahedra()
    space = VoxelSpace.from_mesh(points, faces)
    expected = np.zeros((5, 5), dtype=bool)
    for a, b in [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)]:
        expected[a, b] = expected[b, a] = True
    np.testing.assert_array_equal(space.adjacency().toarray(), expected)
    kept = [3, 0, 1]
    np.testing.assert_array_equal(
        space.take(kept).adjacency().toarray(), expected[np.ix_(kept, kept)]
    )
    np.testing.assert_array_equal(
        space.adjacency(radius=1.0).toarray(),
        naive_graph(points, lambda d: np.linalg.norm(d) <= 1.0),
    )


def test_graph_is_kept_and_cannot_be_changed():
    space = VoxelSpace.grid((3, 3))
    graph = space.adjacency(6)
    assert space.adjacency(6) is graph
    with pytest.raises(ValueError, match="read-only"):
        graph.data[0] = False


# ------------------------------------------------------------------ kernels


@few
@given(masks, st.floats(0.3, 20), st.sampled_from(["voxel", "mm"]), st.integers(0, 2**32 - 1))
def test_grid_kernel_is_exact(mask, radius, units, seed):
    space = VoxelSpace.from_mask(mask, OBLIQUE)
    points = np.argwhere(mask) @ (np.eye(3) if units == "voxel" else OBLIQUE[:3, :3].T)
    G = naive_kernel(points, radius)
    operator = space.gaussian(radius, units)
    x = np.random.default_rng(seed).normal(size=(space.n_voxels, 2))
    tight = {"rtol": 1e-11, "atol": 1e-12 * np.abs(x).sum()}
    assert operator.shape == G.shape
    np.testing.assert_allclose(operator.to_dense(), G, rtol=1e-10)
    np.testing.assert_allclose(operator @ x, G @ x, **tight)
    np.testing.assert_allclose(operator @ x[:, 0], G @ x[:, 0], **tight)
    np.testing.assert_allclose(x.T @ operator, x.T @ G, **tight)
    np.testing.assert_allclose(operator.row_sums(), G.sum(axis=1), rtol=1e-10)
    k = seed % space.n_voxels
    np.testing.assert_allclose(operator.column(k), G[:, k], rtol=1e-10)
    out = x[:, 0].copy()
    operator.add_column(k, -3.0, out)
    np.testing.assert_allclose(out, x[:, 0] - 3 * G[:, k], rtol=1e-11, atol=1e-13)


def test_grid_kernel_is_a_separable_correlation_then_the_mask(rng):
    mask = rng.random((9, 8, 7)) < 0.4
    space = VoxelSpace.from_mask(mask, np.diag([2, 3, 1.5, 1]))
    x = rng.normal(size=space.n_voxels)
    field = space.unmask(x)
    for axis, size in enumerate([2, 3, 1.5]):
        profile = np.exp(-((np.arange(-9, 10) * size) ** 2) / (2 * 4.0**2))
        field = correlate1d(field, profile, axis=axis, mode="constant")
    np.testing.assert_allclose(space.gaussian(4.0, "mm") @ x, field[mask], rtol=1e-10, atol=1e-12)


def test_point_kernel_in_blocks_is_exact(monkeypatch, rng):
    points = rng.normal(size=(23, 3))
    monkeypatch.setattr("voxprior.space.kernels.BLOCK_ELEMENTS", 100)
    operator = VoxelSpace.from_coordinates(points).gaussian(0.8)
    assert isinstance(operator, PointGaussian)
    G = naive_kernel(points, 0.8)
    x = rng.normal(size=(23, 4))
    np.testing.assert_allclose(operator @ x, G @ x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(operator @ x[:, 1].astype(np.float32), G @ x[:, 1], atol=1e-6)
    np.testing.assert_allclose(operator.column(-1), G[:, -1], rtol=1e-12)
    out = x[:, 0].copy()
    operator.add_column(4, 0.5, out)
    np.testing.assert_allclose(out, x[:, 0] + 0.5 * G[:, 4], rtol=1e-12)
    np.testing.assert_allclose(operator.row_sums(), G.sum(axis=0), rtol=1e-12)


def test_mesh_kernel_follows_straight_lines():
    points, faces = tetrahedra()
    operator = VoxelSpace.from_mesh(points, faces).gaussian(2.0)
    np.testing.assert_allclose(operator @ np.eye(5), naive_kernel(points, 2.0), rtol=1e-12)


def test_a_far_voxel_sees_only_itself():
    mask = np.zeros((60, 1, 1), dtype=bool)
    mask[[0, 59]] = True
    operator = VoxelSpace.from_mask(mask).gaussian(1.0)
    np.testing.assert_array_equal(operator.row_sums(), [1, 1])


def test_one_voxel_is_a_space():
    space = VoxelSpace.grid(1)
    assert space.adjacency().nnz == 0
    assert space.gaussian(1.0) @ np.array([3.0]) == [3.0]


# ------------------------------------------------------------------ taking and reordering


@few
@given(masks, st.integers(0, 2**32 - 1))
def test_take_moves_everything_along(mask, seed):
    rng = np.random.default_rng(seed)
    space = VoxelSpace.from_mask(mask, OBLIQUE)
    order = rng.permutation(space.n_voxels)[: rng.integers(1, space.n_voxels + 1)]
    taken = space.take(order)
    square = np.ix_(order, order)
    np.testing.assert_array_equal(taken.coordinates, space.coordinates[order])
    graph = taken.adjacency()
    np.testing.assert_array_equal(graph.toarray(), space.adjacency().toarray()[square])
    assert graph.has_canonical_format
    np.testing.assert_allclose(
        taken.gaussian(2.0, "mm") @ np.eye(len(order)),
        space.gaussian(2.0, "mm").to_dense()[square],
        rtol=1e-9,
        atol=1e-14,
    )
    x = rng.normal(size=len(order))
    np.testing.assert_array_equal(taken.unmask(x)[mask][order], x)


def test_take_accepts_booleans_and_refuses_repeats():
    space = VoxelSpace.grid((2, 2))
    assert space.take([True, False, False, True]) == space.take([0, 3])
    with pytest.raises(ValueError, match="at most once"):
        space.take([0, 0])
    with pytest.raises(ValueError, match="4 booleans"):
        space.take([0.5])
    with pytest.raises(IndexError):
        space.take([4])


# ------------------------------------------------------------------ a value


SPACES = [
    VoxelSpace.grid((3, 4, 2), OBLIQUE),
    VoxelSpace.grid((3, 4, 2)),
    VoxelSpace.grid((3, 4, 2)).take([3, 1]),
    VoxelSpace.from_coordinates(np.eye(3)),
    VoxelSpace.from_mesh(*tetrahedra()),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_spaces_are_values(space):
    space.adjacency(radius=1.0)  # caches take no part in what follows
    assert copy.deepcopy(space) is space
    assert copy.copy(space) is space
    again = pickle.loads(pickle.dumps(space))
    assert again == space
    assert hash(again) == hash(space)
    assert not again.sites.flags.writeable
    stored = skops.io.dumps(space)
    unknown = skops.io.get_untrusted_types(data=stored)
    assert unknown == ["voxprior.space.voxelspace.VoxelSpace"]
    restored = skops.io.loads(stored, trusted=unknown)
    assert restored == space
    assert restored.shape == space.shape
    np.testing.assert_array_equal(restored.coordinates, space.coordinates)


def test_different_spaces_differ():
    assert len(set(SPACES)) == len(SPACES)
    assert SPACES[0] != SPACES[1]
    assert SPACES[0] != "a space"
    assert SPACES[0] is not None


def test_space_is_a_constructor_parameter():
    class Estimator(BaseEstimator):
        def __init__(self, space=None):
            self.space = space

    estimator = Estimator(space=SPACES[0])
    assert clone(estimator).space is SPACES[0]
    assert "VoxelSpace" in repr(estimator)


def test_space_cannot_be_changed():
    space = VoxelSpace.grid((2, 2))
    with pytest.raises(AttributeError):
        space.kind = "mesh"
    with pytest.raises(ValueError, match="read-only"):
        space.sites[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        space.coordinates[0] = 1


def test_space_keeps_its_own_copy_of_what_it_is_given():
    points, faces = tetrahedra()
    affine = np.eye(4)
    mesh, grid = VoxelSpace.from_mesh(points, faces), VoxelSpace.grid((2, 2), affine)
    points[:] = 0
    faces[:] = 0
    affine[:] = 0
    assert mesh.points.any()
    assert mesh.faces.any()
    assert grid.affine.any()


# ------------------------------------------------------------------ errors


def test_bad_masks():
    with pytest.raises(TypeError, match="mask > 0"):
        VoxelSpace.from_mask(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="none of its 8 voxels"):
        VoxelSpace.from_mask(np.zeros((2, 2, 2), dtype=bool))
    with pytest.raises(ValueError, match="1, 2 or 3 axes"):
        VoxelSpace.from_mask(np.ones((2, 2, 2, 2), dtype=bool))


def test_bad_affines():
    with pytest.raises(ValueError, match=r"\(4, 4\)"):
        VoxelSpace.grid((2, 2), np.eye(3))
    with pytest.raises(ValueError, match="invertible"):
        VoxelSpace.grid((2, 2), np.zeros((4, 4)))


def test_millimetres_need_an_orthogonal_affine():
    with pytest.raises(ValueError, match="affine"):
        VoxelSpace.grid((2, 2)).gaussian(1.0, "mm")
    with pytest.raises(ValueError, match="affine"):
        VoxelSpace.grid((2, 2)).adjacency(radius=1.0, units="mm")
    with pytest.raises(ValueError, match="sheared"):
        VoxelSpace.grid((2, 2), SHEARED).gaussian(1.0, "mm")
    np.testing.assert_allclose(VoxelSpace.grid(2, OBLIQUE).voxel_sizes, [2, 3, 1.5])


@pytest.mark.parametrize("coordinates", [np.zeros((0, 3)), np.zeros(3), [[0, 0, np.nan]]])
def test_bad_coordinates(coordinates):
    with pytest.raises(ValueError, match="coordinates must"):
        VoxelSpace.from_coordinates(coordinates)


def test_bad_faces():
    with pytest.raises(ValueError, match="vertices 0 to 2"):
        VoxelSpace.from_mesh(np.eye(3), [[0, 1, 3]])
    with pytest.raises(ValueError, match="n_faces, 3"):
        VoxelSpace.from_mesh(np.eye(3), [[0, 1]])


def test_bad_vectors_and_parameters():
    space = VoxelSpace.grid((2, 3))
    with pytest.raises(ValueError, match="6 voxels"):
        space.unmask(np.zeros(5))
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        space.apply_mask(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="6 voxels"):
        space.gaussian(1.0) @ np.zeros(5)
    with pytest.raises(IndexError, match="Voxel 6"):
        space.gaussian(1.0).column(6)
    with pytest.raises(ValueError, match="radius"):
        space.gaussian(0)
    with pytest.raises(ValueError, match="radius"):
        space.adjacency(radius=-1)
    with pytest.raises(ValueError, match="6, 18 or 26"):
        space.adjacency(8)
    with pytest.raises(ValueError, match='"voxel" or "mm"'):
        space.gaussian(1.0, units="cm")


# ------------------------------------------------------------------ size


@pytest.mark.slow
def test_a_million_voxels(rng):
    mask = rng.random((120, 110, 100)) < 0.8
    space = VoxelSpace.from_mask(mask)
    assert space.n_voxels > 10**6
    graph = space.adjacency(26)
    picked = rng.integers(0, space.n_voxels, 20)
    for row in picked:
        gap = np.abs(space.coordinates - space.coordinates[row]).max(axis=1)
        np.testing.assert_array_equal(graph[[row]].indices, np.flatnonzero(gap == 1))
    operator = space.gaussian(3.0)
    x = rng.normal(size=space.n_voxels)
    smooth = operator @ x
    for k in picked[:5]:
        np.testing.assert_allclose(smooth[k], operator.column(k) @ x, rtol=1e-9, atol=1e-9)
