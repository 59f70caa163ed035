"""TFCE and clusters: brute force on random graphs, worked digits, nilearn, meshes and points."""

import numpy as np
import pytest
from nilearn.mass_univariate._utils import calculate_tfce
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from voxprior.errors import InputError
from voxprior.mapping.enhancement import cluster_sizes, components, graph_of, tfce
from voxprior.space import VoxelSpace


def random_graph(n, n_edges, rng):
    pairs = rng.integers(0, n, (n_edges, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    graph = coo_array((np.ones(len(both), bool), both.T), (n, n)).tocsr()
    graph.sum_duplicates()
    return graph


def brute_force(heights, graph):
    """Sum over the intervals between heights, in which no component changes: exact too."""
    found = np.zeros(len(heights))
    levels = np.unique(np.append(heights[heights > 0], 0.0))
    for low, high in zip(levels[:-1], levels[1:]):
        above = np.flatnonzero(heights >= high)
        label = connected_components(graph[above][:, above], directed=False)[1]
        sizes = np.bincount(label)[label]
        found[above] += np.sqrt(sizes) * (high**3 - low**3) / 3
    return found


def test_five_voxels_in_a_row_worked_by_hand():
    """The second voxel earns sqrt(3)/3 below height 1, in company, and (8 - 1)/3 alone above."""
    row = VoxelSpace.grid((5,)).adjacency(6)
    found = tfce(np.array([1.0, 2.0, 1.0, 0.0, 3.0]), row)
    expected = [0.57735027, np.sqrt(3) / 3 + 7 / 3, 0.57735027, 0, 9]
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    graph = random_graph(n, int(rng.integers(1, 4 * n)), rng)
    heights = rng.normal(size=n)
    if seed % 2:
        heights = np.round(heights, 1)  # ties
    positive, negative = np.maximum(heights, 0), np.maximum(-heights, 0)
    naive = brute_force(positive, graph) - brute_force(negative, graph)
    np.testing.assert_allclose(tfce(heights, graph), naive, rtol=1e-10, atol=1e-12)


def test_a_constant_map_on_a_connected_graph():
    graph = VoxelSpace.grid((4, 5, 3)).adjacency(6)
    np.testing.assert_allclose(tfce(np.full(60, 2.0), graph), np.sqrt(60) * 8 / 3)
    assert not tfce(np.zeros(60), graph).any()


def test_nilearn_comes_near_as_its_steps_get_finer():
    rng = np.random.default_rng(0)
    volume = ndimage.gaussian_filter(rng.normal(size=(10, 9, 8)), 1.5)
    volume *= 4 / np.abs(volume).max()
    graph = VoxelSpace.grid(volume.shape).adjacency(6)
    peer = calculate_tfce(
        volume[..., None], ndimage.generate_binary_structure(3, 1), E=0.5, H=2, dh=0.01
    )[..., 0]
    ours = tfce(volume.ravel(), graph)
    # It sums over steps without their width, so the maps are compared up to scale.
    difference = ours / np.abs(ours).max() - peer.ravel() / np.abs(peer).max()
    assert np.abs(difference).max() < 5e-3


def test_clusters_are_those_of_scipy():
    rng = np.random.default_rng(5)
    volume = rng.normal(size=(7, 6, 5))
    graph = VoxelSpace.grid(volume.shape).adjacency(6)
    expected = np.zeros(volume.shape)
    for sign in (1, -1):
        label, _ = ndimage.label(sign * volume > 0.4)
        expected += sign * np.where(label > 0, np.bincount(label.ravel())[label], 0)
    np.testing.assert_array_equal(cluster_sizes(volume.ravel(), graph, 0.4), expected.ravel())
    numbers = components(volume.ravel() > 0.4, graph)
    np.testing.assert_array_equal(numbers + 1, ndimage.label(volume > 0.4)[0].ravel())


def test_isolated_voxels_stand_alone():
    graph = VoxelSpace.from_coordinates(np.eye(3) * 100).adjacency(radius=1.0)
    np.testing.assert_allclose(tfce(np.array([3.0, -3.0, 0.0]), graph), [9, -9, 0])


def test_points_need_a_radius_and_clusters_a_space():
    points = VoxelSpace.from_coordinates(np.arange(4.0)[:, None])
    with pytest.raises(InputError, match="radius"):
        graph_of(points)
    assert graph_of(points, 1.0).nnz == 6
    with pytest.raises(InputError, match="space"):
        graph_of(None)
