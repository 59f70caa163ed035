"""Trials have shared shapes, smooth amplitudes and the stated noise."""

import numpy as np
import pytest

from voxprior.simulate import time_courses


def residuals(data):
    mean = data.truth["response"][:, None] * data.truth["amplitude"][data.y][:, None, :]
    return data.X.reshape(len(data.y), data.n_times, -1) - mean


def test_trials_are_amplitude_times_response_plus_noise():
    data = time_courses((6, 6, 4), 30, noise=0.5, random_state=0)
    left = residuals(data)
    np.testing.assert_allclose(left.std(axis=(0, 1)), 0.5, rtol=0.15)
    assert abs(left.mean()) < 0.01
    np.testing.assert_array_equal(data.truth["noise"], 0.5)
    assert data.truth["response"].max() == 1.0


def test_neighbours_are_alike_up_to_scale():
    data = time_courses((20, 20, 12), 1, smoothness=1.5, random_state=0)
    amplitude = data.truth["amplitude"]
    graph = data.space.adjacency(6).tocoo()
    near = np.corrcoef(amplitude[0][graph.row], amplitude[0][graph.col])[0, 1]
    assert near > 0.8
    np.testing.assert_allclose(amplitude.std(), 0.5, rtol=0.15)
    assert abs(np.corrcoef(amplitude)[0, 1]) < 0.5  # classes have their own maps


def test_noise_levels_spread_log_normally():
    data = time_courses((8, 8, 6), 20, noise_spread=0.5, random_state=0)
    np.testing.assert_allclose(np.log(data.truth["noise"]).std(), 0.5, rtol=0.15)
    found = residuals(data).std(axis=(0, 1))
    np.testing.assert_allclose(found, data.truth["noise"], rtol=0.2)


def test_noise_can_be_smooth():
    correlations = []
    for smoothness in (0.0, 1.5):
        data = time_courses((8, 8, 6), 4, noise_smoothness=smoothness, random_state=0)
        graph = data.space.adjacency(6).tocoo()
        left = residuals(data).reshape(-1, data.space.n_voxels)
        correlations.append(np.mean(left[:, graph.row] * left[:, graph.col]) / left.var())
    assert abs(correlations[0]) < 0.02
    # Two voxels one apart: exp(-1 / (4 r²)) in the bulk.
    assert abs(correlations[1] - np.exp(-1 / (4 * 1.5**2))) < 0.05


def test_only_active_regions_respond():
    data = time_courses((8, 8, 6), 2, n_regions=5, active_regions=2, random_state=0)
    active = data.truth["region"] <= 2
    assert (data.truth["amplitude"][:, ~active] == 0).all()
    assert (data.truth["difference"][active] > 0).all()
    assert set(data.truth["region"]) == {1, 2, 3, 4, 5}


def test_design():
    data = time_courses((4, 4, 4), 5, n_classes=3, n_times=4, random_state=0)
    np.testing.assert_array_equal(np.bincount(data.y), [5, 5, 5])
    assert data.n_times == 4
    with pytest.raises(ValueError, match="n_times"):
        time_courses((4, 4, 4), n_times=0)
