"""A feature-sharing classifier written as loops over voxels, neighbours and times: the oracle."""

import numpy as np
import pytest

from voxprior import VoxelSpace


def predicted(mean_map, source, target):
    """m_{k→v} of a whole time course, or None where it does not exist."""
    if mean_map == "identity":
        return list(source)
    if mean_map == "scale":
        power = sum(value**2 for value in source)
        if power == 0:
            return None
        beta = sum(a * b for a, b in zip(target, source)) / power
        return [beta * value for value in source]
    if max(source) == min(source):
        return None
    beta, alpha = np.polyfit(source, target, 1)
    return [alpha + beta * value for value in source]


def fit_class(trials, neighbors, mean_map="scale", sigma2=None):
    """Steps 1 to 4 for one class; ``trials`` is (N, V, T). Returns θ̂, σ̂², μ̂, τ̂²."""
    N, V, T = trials.shape
    mean = trials.sum(axis=0) / N
    S2 = ((trials - mean) ** 2).sum(axis=0) / (N - 1) if N > 1 else None
    sigma2 = np.full((V, T), np.median(S2)) if sigma2 is None else sigma2
    theta, mu, tau2 = mean.copy(), mean.copy(), np.full((V, T), np.inf)
    for v in range(V):
        maps = [predicted(mean_map, mean[k], mean[v]) for k in neighbors[v]]
        maps = [m for m in maps if m is not None]
        for t in range(T):
            if not maps:
                continue
            values = [m[t] for m in maps]
            mu[v, t] = sum(values) / len(values)
            tau2[v, t] = sum((value - mu[v, t]) ** 2 for value in values) / len(values)
            if tau2[v, t] < 1e-14 * max(1.0, mu[v, t] ** 2):
                theta[v, t] = mu[v, t]
            else:
                samples, prior = N / sigma2[v, t], 1 / tau2[v, t]
                theta[v, t] = (samples * mean[v, t] + prior * mu[v, t]) / (samples + prior)
    return theta, sigma2, mu, tau2


def log_joint(x, prior, theta, sigma2):
    total = np.log(prior)
    for v in range(len(theta)):
        for t in range(theta.shape[1]):
            miss = x[v, t] - theta[v, t]
            total += -0.5 * np.log(2 * np.pi * sigma2[v, t]) - miss**2 / (2 * sigma2[v, t])
    return total


def neighbor_lists(coordinates):
    """26-neighbours by comparing every pair of integer positions."""
    lists = []
    for v, here in enumerate(coordinates):
        near = [k for k, there in enumerate(coordinates)
                if k != v and np.abs(here - there).max() <= 1]  # fmt: skip
        lists.append(near)
    return lists


class Oracle:
    """The naive functions under one name."""

    predicted = staticmethod(predicted)
    fit_class = staticmethod(fit_class)
    log_joint = staticmethod(log_joint)
    neighbor_lists = staticmethod(neighbor_lists)


@pytest.fixture(scope="session")
def oracle():
    return Oracle


@pytest.fixture
def line():
    """Three voxels on a line, T = 2, two trials per class, written (trial, voxel, time)."""
    A = np.array([[[1, 2], [2, 4], [3, 5]], [[3, 2], [4, 7], [5, 9]]], dtype=float)
    B = np.array([[[0, 1], [-1, 1], [1, 0]], [[2, 2], [1, 2], [4, -2]]], dtype=float)
    X = np.concatenate([A, B]).transpose(0, 2, 1).reshape(4, 6)
    return X, np.array(["A", "A", "B", "B"]), VoxelSpace.grid((3,))


@pytest.fixture
def scattered(rng):
    """A random mask with isolated voxels, three classes of unequal size, T = 4."""
    mask = rng.random((5, 4, 6)) < 0.25
    mask[0, 0, :] = mask[:2, :2, :3] = mask[1, :, :2] = False
    mask[0, 0, 0] = True  # no neighbour at all
    space = VoxelSpace.from_mask(mask)
    y = np.array(["b", "a", "c", "a", "b", "c", "a", "c", "c"])
    X = rng.normal(size=(len(y), 4 * space.n_voxels)) + 1.0
    return X, y, space
