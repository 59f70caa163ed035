"""Likelihoods and partition functions against integrals, the ratio against its limit."""

import numpy as np
import pytest

from voxprior.models.fields.dual import dual_system, plain_field
from voxprior.models.fields.field import (
    Fields,
    Training,
    log_likelihood,
    log_partition,
    ratio_trajectory,
    residual_variance,
)

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
OTHER = np.array([[1.0, -1, 0], [0, 1, -1], [2, -2, 1], [-1, 0, 1]])


def test_normaliser_of_two_nodes_is_the_integral():
    """1 / |det(I - B)| = 1 / (1 - 0.5 · 0.4), and the same by quadrature."""
    B = np.array([[0, 0.5], [0.4, 0]])
    np.testing.assert_allclose(np.exp(log_partition(B)), 1.25, rtol=1e-12)
    grid = np.linspace(-40, 40, 1601)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(log_likelihood(x, B, np.array([0.3, -1.0]), np.array([1.0, 2.0])))
    np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]) ** 2, 1.25, rtol=1e-4)


def test_likelihood_ratio_of_two_classes_of_four_scans():
    """Three nodes, γ = 0.1: the ratio at a new scan, and the ratio of the normalisers."""
    x = np.array([[1, 1.5, 0.5]])
    fields = [plain_field(dual_system(rows, 0.1, None)) for rows in (ROWS, OTHER)]
    scores = [
        log_likelihood(x, f.coef, f.intercept, residual_variance(f.residual))[0] for f in fields
    ]
    np.testing.assert_allclose(scores[0] - scores[1], 140.865395, atol=1e-6)
    exact = log_partition(fields[0].coef) - log_partition(fields[1].coef)
    np.testing.assert_allclose(exact, -3.250926, atol=1e-6)


def test_trajectory_tends_to_the_divergence(rng):
    """Nodes alike and independent: the mean of log l is near +KL(0‖1) or −KL(1‖0)."""
    n = 2000
    shift, variance = np.array([0.0, 0.5]), np.array([1.0, 2.0])
    fields = Fields(
        np.zeros((2, n, n)),
        np.repeat(shift[:, None], n, axis=1),
        np.repeat(variance[:, None], n, axis=1),
    )
    for own, sign in ((0, 1), (1, -1)):
        ratio = variance[own] / variance[1 - own]
        divergence = 0.5 * (ratio - 1 - np.log(ratio) + 0.25 / variance[1 - own])
        X = shift[own] + np.sqrt(variance[own]) * rng.normal(size=(1, n))
        path = ratio_trajectory(X, fields, own)
        np.testing.assert_allclose(path.limit[0], sign * divergence, rtol=1e-12)
        np.testing.assert_allclose(path.running_mean[0, -1], path.limit[0], rtol=0.2)


@pytest.mark.filterwarnings("ignore:Diagonal number")
def test_a_singular_field_has_no_partition_function():
    with pytest.raises(ValueError, match="singular"):
        log_partition(np.array([[0.0, 1.0], [1.0, 0.0]]))


def test_training_says_what_it_is():
    assert Training().plain
    assert Training(r_eps=1.0, n_pseudo=0, mode="each").variance_kind == "loo"
    compressed = Training(r_eps=1.0, mode="each")
    assert compressed.after_each
    assert compressed.variance_kind == "residual"
    assert compressed.with_strength(10.0, 2.0, 5, 40).r_eps == 2.0
    with pytest.raises(ValueError, match="plain fields only"):
        _ = compressed._replace(variance="loo").variance_kind
