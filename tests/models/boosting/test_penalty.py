import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.models.boosting.oracle import naive_gaussian, naive_kernel

from voxprior.models.boosting.penalty import (
    DiagonalPenalty,
    MatrixPenalty,
    PermutedPenalty,
    diagonal_of,
    make_penalty,
)
from voxprior.space import VoxelSpace


class Operator:
    """A kernel that is only known by its columns and products."""

    def __init__(self, K):
        self.K, self.shape = K, K.shape

    def column(self, k):
        return self.K[:, k]

    def __matmul__(self, x):
        return self.K @ x


def gaussian(space, radius=1.3, mu=1.0, kernel="gaussian"):
    return make_penalty(kernel, space, space.n_voxels, radius, mu, "voxel")


def dense(penalty):
    return np.column_stack([penalty @ e for e in np.eye(penalty.shape[0])])


def some_penalties(rng):
    space = VoxelSpace.from_mask(rng.random((4, 3, 3)) < 0.6)
    K = naive_kernel(space.coordinates, 1.1)
    yield gaussian(space)
    yield gaussian(space, mu=1.5)
    yield gaussian(space, kernel="equalized")
    yield DiagonalPenalty(rng.random(space.n_voxels))
    yield MatrixPenalty(K)
    yield MatrixPenalty(csr_array(np.where(np.abs(K) > 0.1, K, 0)))
    yield MatrixPenalty(Operator(K))
    yield PermutedPenalty(gaussian(space), rng.permutation(space.n_voxels))


def test_products_columns_and_diagonals_agree(rng):
    for penalty in some_penalties(rng):
        K = dense(penalty)
        np.testing.assert_allclose(K, K.T, atol=1e-10)
        out = np.ones(len(K))
        penalty.add_column(2, 0.7, out)
        np.testing.assert_allclose(out, 1 + 0.7 * K[:, 2], atol=1e-12)
        assert penalty.self_penalty(2) == pytest.approx(K[2, 2], abs=1e-12)


def test_three_voxels_in_a_row():
    K = dense(gaussian(VoxelSpace.from_coordinates(np.arange(3.0)[:, None]), radius=1.0))
    assert K[0] == pytest.approx([1.213061, -0.606531, -0.135335], abs=1e-6)
    assert np.linalg.eigvalsh(K) == pytest.approx([0.284965, 1.348397, 2.005823], abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.3, 5), st.sampled_from(["gaussian", "equalized"]))
def test_the_penalty_is_never_negative(seed, radius, kernel):
    rng = np.random.default_rng(seed)
    space = VoxelSpace.from_coordinates(rng.uniform(0, 6, (12, 3)))
    K = dense(gaussian(space, radius, kernel=kernel))
    assert np.linalg.eigvalsh(K).min() > -1e-8 * np.abs(K).max()


def test_gaussian_penalty_is_the_papers(rng):
    space = VoxelSpace.from_coordinates(rng.uniform(0, 5, (9, 2)))
    expected = naive_kernel(space.coordinates, 1.3, 1.25)
    np.testing.assert_allclose(dense(gaussian(space, mu=1.25)), expected, atol=1e-12)


def test_a_flat_map_costs_the_same_everywhere_with_the_equalised_kernel(rng):
    crowd = np.concatenate([rng.normal(0, 0.5, (20, 2)), rng.uniform(-9, 9, (10, 2))])
    space = VoxelSpace.from_coordinates(crowd)
    as_printed = gaussian(space) @ np.ones(30)
    equalized = gaussian(space, kernel="equalized") @ np.ones(30)
    assert np.ptp(as_printed) > 5
    np.testing.assert_allclose(equalized, 0, atol=1e-6)


def test_smoothing_is_the_kernels(rng):
    space = VoxelSpace.grid((4, 4))
    beta = rng.random(16)
    G = naive_gaussian(space.coordinates, 1.3)
    np.testing.assert_allclose(gaussian(space).smooth(beta), G @ beta)
    np.testing.assert_array_equal(DiagonalPenalty(np.ones(16)).smooth(beta), beta)


def test_a_permutation_moves_the_geometry(rng):
    space = VoxelSpace.grid((3, 3))
    order = rng.permutation(9)
    expected = dense(gaussian(space))[np.ix_(order, order)]
    np.testing.assert_allclose(dense(PermutedPenalty(gaussian(space), order)), expected)
    np.testing.assert_allclose(dense(gaussian(space.take(order))), expected, atol=1e-12)


def test_the_diagonal_alone(rng):
    penalty = gaussian(VoxelSpace.grid((3, 3)))
    np.testing.assert_allclose(dense(diagonal_of(penalty)), np.diag(np.diag(dense(penalty))))


def test_without_a_space_the_kernel_is_the_identity():
    np.testing.assert_array_equal(
        dense(make_penalty("gaussian", None, 4, 1.0, 1.0, "voxel")), np.eye(4)
    )


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("laplace", ValueError, "'gaussian', 'equalized', 'identity'"),
        (np.eye(3), ValueError, r"shape \(4, 4\), one row per location"),
        ("no shape", ValueError, "got 'no shape'"),
        (np.triu(np.ones((4, 4))), ValueError, "symmetric"),
        (-np.eye(4), ValueError, "positive semi-definite"),
    ],
)
def test_bad_kernels_say_what_is_wrong(kernel, error, message):
    with pytest.raises(error, match=message):
        make_penalty(kernel, None, 4, 1.0, 1.0, "voxel")


def test_an_operator_without_columns_is_refused():
    class Shape:
        shape = (4, 4)

    with pytest.raises(TypeError, match="column"):
        make_penalty(Shape(), None, 4, 1.0, 1.0, "voxel")
