"""Latent states drive their clusters and the class as stated."""

import numpy as np
import pytest

from voxprior.simulate import latent_clusters


def test_clusters_follow_their_latent_state():
    data = latent_clusters((12, 12, 6), 2000, voxel_noise=0.1, random_state=0)
    for k in (1, 2):
        voxels = data.X[:, data.truth["cluster"] == k]
        assert voxels.shape[1] > 20
        flipped = np.mean(voxels != data.truth["latent"][:, [k - 1]])
        assert abs(flipped - 0.1) < 0.01


def test_the_class_is_the_conjunction_with_label_noise():
    data = latent_clusters((12, 12, 6), 5000, label_noise=0.08, prevalence=0.4, random_state=0)
    clean = data.truth["clean_label"]
    np.testing.assert_array_equal(clean, data.truth["latent"].all(axis=1))
    assert abs(clean.mean() - 0.4) < 0.03
    assert abs(np.mean(clean != data.y) - 0.08) < 0.015
    assert set(data.y) == {0, 1}


def test_background_is_balanced_smooth_and_says_nothing():
    data = latent_clusters((14, 14, 8), 1500, smoothness=1.0, random_state=0)
    outside = data.truth["cluster"] == 0
    background = data.X[:, outside].astype(float)
    np.testing.assert_allclose(background.mean(axis=0), 0.5, atol=0.07)
    gain = background[data.y == 1].mean(axis=0) - background[data.y == 0].mean(axis=0)
    assert np.abs(gain).max() < 0.13
    graph = data.space.adjacency(6).tocoo()
    both = outside[graph.row] & outside[graph.col]
    agree = np.mean(data.X[:, graph.row[both]] == data.X[:, graph.col[both]])
    # Signs of two normals of correlation ρ = exp(-1/4) agree with probability 1/2 + asin(ρ)/π.
    assert abs(agree - (0.5 + np.arcsin(np.exp(-0.25)) / np.pi)) < 0.02


def test_longitudinal_maps_fall_where_the_voxel_is_one():
    data = latent_clusters((10, 10, 6), 400, voxel_noise=0.0, longitudinal=True, random_state=0)
    assert data.X.dtype == np.float32
    assert data.n_times == 2
    maps = data.X.reshape(400, 2, -1)
    falls = maps[:, 0] - maps[:, 1] > 0
    for k in (1, 2):
        inside = data.truth["cluster"] == k
        expected = np.repeat(data.truth["latent"][:, [k - 1]] == 1, inside.sum(), axis=1)
        np.testing.assert_array_equal(falls[:, inside], expected)
    assert data.images()[0].shape == (10, 10, 6, 2)


def test_any_number_of_latent_states():
    data = latent_clusters((16, 16, 8), 800, n_latent=3, cluster_radius=1.5, random_state=0)
    assert data.truth["latent"].shape == (800, 3)
    assert abs(data.truth["clean_label"].mean() - 0.5) < 0.06


def test_bad_parameters():
    with pytest.raises(ValueError, match="longitudinal=True"):
        latent_clusters((9, 9, 6), group_offset=1.0)
    with pytest.raises(ValueError, match="prevalence"):
        latent_clusters((9, 9, 6), prevalence=0)
    with pytest.raises(ValueError, match="label_noise"):
        latent_clusters((9, 9, 6), label_noise=2)


@pytest.mark.slow
def test_full_size():
    data = latent_clusters((128, 128, 94), 8, random_state=0)
    assert data.X.shape == (8, 1_540_096)
    assert abs(data.X.mean() - 0.5) < 0.05
