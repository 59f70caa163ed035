"""Blobs differ by the stated signal in the stated noise."""

import numpy as np
import pytest
from scipy.stats import norm

from voxprior.simulate import blobs


@pytest.mark.parametrize("noise", ["iid", "poisson", "correlated"])
def test_class_means_differ_by_the_signal(noise):
    data = blobs((10, 10, 6), 3000, blob_radius=1.5, noise=noise, effect=0.8, random_state=0)
    difference = data.X[data.y == 1].mean(axis=0) - data.X[data.y == 0].mean(axis=0)
    np.testing.assert_allclose(difference, data.truth["signal"], atol=0.13)
    np.testing.assert_allclose(np.abs(data.truth["signal"]).max(), 0.8)
    within = data.X - np.outer(data.y - 0.5, data.truth["signal"])
    np.testing.assert_allclose(within.std(axis=0), 1, atol=0.12)
    assert abs(within.mean()) < 0.01


def test_blobs_have_alternating_signs_and_zero_elsewhere():
    data = blobs(n_blobs=2, random_state=0)
    signal, blob = data.truth["signal"], data.truth["blob"]
    assert (signal[blob == 1] == 1).all()
    assert (signal[blob == 2] == -1).all()
    assert (signal[blob == 0] == 0).all()


def test_poisson_noise_is_counts():
    data = blobs((9, 9, 6), 20, noise="poisson", baseline=9.0, random_state=0)
    counts = data.X * 3.0 + 9.0
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)
    assert counts.min() >= 0
    with pytest.raises(ValueError, match="Raise baseline"):
        blobs((9, 9, 6), noise="poisson", baseline=1.0, effect=5.0)


def test_correlated_signal_is_as_smooth_as_its_noise():
    data = blobs((12, 12, 8), 200, noise="correlated", effect=1.0, random_state=0)
    graph = data.space.adjacency(6).tocoo()
    noise = data.X[data.y == 0] + 0.5 * data.truth["signal"]
    near = np.mean(noise[:, graph.row] * noise[:, graph.col])
    assert abs(near - np.exp(-1 / (4 * 1.5**2))) < 0.05
    s = data.truth["signal"]
    assert (s[graph.row] * s[graph.col]).mean() / (s**2).mean() > 0.6


@pytest.mark.parametrize(("noise", "smoothness"), [("iid", 0.0), ("correlated", 0.5)])
def test_ideal_accuracy_is_reached_by_the_ideal_classifier(noise, smoothness):
    data = blobs(
        (9, 9, 4),
        8000,
        blob_radius=1,
        effect=0.7,
        noise=noise,
        noise_smoothness=smoothness,
        random_state=0,
    )
    signal = data.truth["signal"]
    points = data.space.coordinates
    if noise == "iid":
        covariance = np.eye(len(points))
    else:
        gaps = ((points[:, None] - points[None]) ** 2).sum(axis=2)
        G = np.exp(-gaps / (2 * smoothness**2))
        covariance = G @ G.T
        sd = np.sqrt(np.diag(covariance))
        covariance /= np.outer(sd, sd)
    weights = np.linalg.solve(covariance, signal)
    accuracy = np.mean((data.X @ weights > 0) == data.y)
    expected = data.truth["ideal_accuracy"]
    np.testing.assert_allclose(expected, norm.cdf(np.sqrt(signal @ weights) / 2), rtol=1e-6)
    assert 0.6 < expected < 0.99
    assert abs(accuracy - expected) < 4 * np.sqrt(0.25 / len(data.y))


def test_bad_noise():
    with pytest.raises(ValueError, match="'iid', 'poisson' or 'correlated'"):
        blobs((9, 9, 6), noise="pink")
