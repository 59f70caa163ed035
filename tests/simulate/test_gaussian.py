"""Smooth maps give the stated probabilities and explained variance."""

import numpy as np
import pytest

from voxprior.simulate import smooth_maps


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_follow_their_probabilities(n_classes):
    data = smooth_maps((6, 6, 4), 6000, n_classes=n_classes, random_state=0)
    p = data.truth["probability"]
    assert p.shape == (6000, n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    for c in range(n_classes):
        for low in (0.0, 0.25, 0.5, 0.75):
            chosen = (p[:, c] >= low) & (p[:, c] < low + 0.25)
            assert abs(np.mean(data.y[chosen] == c) - p[chosen, c].mean()) < 0.05
    hits = np.mean(p.argmax(axis=1) == data.y)
    assert abs(hits - data.truth["ideal_accuracy"]) < 0.03
    assert data.truth["ideal_accuracy"] > 0.7


def test_latent_functions_have_unit_variance_and_come_from_the_weights():
    data = smooth_maps((6, 6, 4), 4000, n_classes=3, random_state=0)
    np.testing.assert_allclose(data.truth["latent"].std(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(data.truth["latent"], data.X @ data.truth["weights"].T, rtol=1e-5)


def test_pattern_is_the_covariance_of_voxels_and_latent_function():
    data = smooth_maps((6, 6, 4), 6000, random_state=0)
    found = data.X.T @ data.truth["latent"][:, 0] / 6000
    np.testing.assert_allclose(found, data.truth["pattern"][0], atol=0.07)


def test_weights_are_smooth():
    data = smooth_maps((10, 10, 6), 2, weight_smoothness=2.0, random_state=0)
    w = data.truth["weights"][0]
    graph = data.space.adjacency(6).tocoo()
    assert np.corrcoef(w[graph.row], w[graph.col])[0, 1] > 0.85


def test_ages():
    data = smooth_maps((6, 6, 4), 6000, task="regression", r2=0.6, random_state=0)
    assert abs(data.y.mean() - 50) < 1
    assert abs(data.y.std() - 15) < 0.6
    r = np.corrcoef(data.y, data.truth["latent"][:, 0])[0, 1]
    assert abs(r**2 - 0.6) < 0.04
    assert "probability" not in data.truth


def test_bad_parameters():
    with pytest.raises(ValueError, match="task"):
        smooth_maps(task="ranking")
    with pytest.raises(ValueError, match="r2"):
        smooth_maps(r2=1.5)
    with pytest.raises(ValueError, match="n_classes"):
        smooth_maps(n_classes=1)
