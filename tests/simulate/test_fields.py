"""Chains have equal marginals and the stated sparse conditionals."""

import numpy as np
import pytest

from voxprior.simulate import chains


def class_covariances(data):
    nodes = data.truth["nodes"]
    return [np.cov(data.X[data.y == c][:, nodes].T) for c in np.unique(data.y)]


def test_marginals_are_equal():
    data = chains(n_nodes=15, n_per_class=6000, coupling=0.6, random_state=0)
    for c in (0, 1):
        np.testing.assert_allclose(data.X[data.y == c].mean(axis=0), 0, atol=0.06)
        np.testing.assert_allclose(data.X[data.y == c].std(axis=0), 1, atol=0.04)


def test_covariance_falls_off_along_the_order():
    data = chains(n_nodes=12, n_per_class=8000, coupling=0.6, random_state=0)
    gaps = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    for c, order in enumerate(data.truth["order"]):
        found = np.cov(data.X[data.y == c][:, order].T)
        np.testing.assert_allclose(found, 0.6**gaps, atol=0.06)


def test_coefficients_are_the_regressions_of_the_true_covariance():
    data = chains((5, 5), n_nodes=12, n_per_class=1, coupling=0.6, n_classes=3, random_state=0)
    gaps = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    for order, coef in zip(data.truth["order"], data.truth["coef"]):
        ranks = np.searchsorted(data.truth["nodes"], order)
        covariance = np.empty((12, 12))
        covariance[np.ix_(ranks, ranks)] = 0.6**gaps
        for i in range(12):
            others = np.delete(np.arange(12), i)
            regression = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, i])
            np.testing.assert_allclose(coef[i, others], regression, atol=1e-10)
        assert (np.diag(coef) == 0).all()
        assert (coef != 0).sum() == 2 * 11


def test_classes_have_different_conditionals():
    data = chains(n_nodes=20, n_per_class=4000, random_state=0)
    first, second = class_covariances(data)
    assert np.abs(first - second).max() > 0.3


def test_runs_of_a_subject_are_correlated():
    data = chains(
        n_nodes=10, n_per_class=3000, n_runs=2, run_correlation=0.7, coupling=0.5, random_state=0
    )
    np.testing.assert_array_equal(np.bincount(data.groups), 2)
    first, second = data.X[::2], data.X[1::2]
    assert (data.groups[::2] == data.groups[1::2]).all()
    np.testing.assert_allclose(np.mean(first * second, axis=0), 0.7, atol=0.06)
    np.testing.assert_allclose(data.X.std(axis=0), 1, atol=0.05)


def test_voxels_outside_the_chains_are_noise():
    data = chains((6, 6, 2), 2000, n_nodes=10, coupling=0.9, random_state=0)
    outside = data.X[:, ~data.truth["node"]]
    assert data.truth["node"].sum() == 10
    np.testing.assert_allclose(np.cov(outside.T), np.eye(62), atol=0.09)


@pytest.mark.parametrize("bad", [{"coupling": 1.0}, {"run_correlation": 2}, {"n_nodes": 1}])
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        chains((4, 4), **{"n_nodes": 5, **bad})
