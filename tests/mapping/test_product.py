"""One product in blocks is the whole matrix of all voxels and relabellings."""

import numpy as np
import pytest

from voxprior.mapping.exchange import choose_exchange
from voxprior.mapping.product import basis, label_columns, maxima, orthonormal, residuals


def full_matrix(X, Q, targets, n_classes):
    """R² of every voxel and relabelling by least squares, one at a time."""
    found = np.zeros((X.shape[1], len(targets)))
    for b, target in enumerate(targets):
        A = target[:, None].astype(float)
        if n_classes > 2:
            A = (target[:, None] == np.arange(n_classes)).astype(float)
        small = X - Q @ np.linalg.lstsq(Q, X, rcond=None)[0]
        both = np.hstack([Q, A])
        fitted = both @ np.linalg.lstsq(both, X, rcond=None)[0]
        total, left = (small**2).sum(axis=0), ((X - fitted) ** 2).sum(axis=0)
        found[:, b] = np.where(total > 1e-20, (total - left) / np.maximum(total, 1e-20), 0.0)
    return found


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_blocks_give_what_the_full_matrix_gives(monkeypatch, n_classes):
    monkeypatch.setattr("voxprior.mapping.product.VOXELS", 7)
    monkeypatch.setattr("voxprior.mapping.product.RELABELLINGS", 11)
    rng = np.random.default_rng(n_classes)
    groups, y = np.repeat(range(5), 2 * n_classes), np.tile(np.arange(n_classes), 10)
    X = rng.normal(size=(len(y), 40)) + 3 * groups[:, None]
    X[:, 5] = 2.0
    exchange = choose_exchange(y, groups, n=len(y), n_permutations=60)
    Q = basis((groups[:, None] == np.unique(groups)).astype(float))
    naive = full_matrix(X, Q, exchange.targets, n_classes)

    def columns(start, stop):
        return label_columns(exchange.targets[start:stop], Q, n_classes)

    left = residuals(X, Q, columns(0, 1))
    lengths = np.sqrt(np.where(left.squares > 0, left.squares, 1.0))
    observed = (left.first**2).sum(axis=0) / lengths**2
    found = maxima((left.rows / lengths).astype("f4"), observed, columns, 60, n_classes - 1)
    np.testing.assert_allclose(observed, naive[:, 0], atol=1e-10)
    np.testing.assert_allclose(found.largest, naive.max(axis=0), rtol=1e-5)
    counts = (naive[:, 1:] >= naive[:, :1] * (1 - 1e-6)).sum(axis=1)
    np.testing.assert_array_equal(found.counts, counts)
    assert found.counts[5] == 60


def test_numbers_are_columns_themselves():
    targets = np.array([[1.0, 2.0, 6.0], [6.0, 2.0, 1.0]])
    Q = basis(np.ones((3, 1)))
    found = label_columns(targets, Q)
    naive = targets - targets.mean(axis=1, keepdims=True)
    naive /= np.linalg.norm(naive, axis=1, keepdims=True)
    np.testing.assert_allclose(found, naive.T)


def test_a_label_that_nuisance_explains_has_no_column():
    Q = basis(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert not label_columns(np.array([[1, 1, 0, 0]]), Q).any()


def test_bases_of_low_rank_have_columns_of_zero():
    A = np.zeros((1, 5, 3))
    A[0, :, 0] = A[0, :, 1] = np.arange(5.0)
    found = orthonormal(A, 2)
    np.testing.assert_allclose(np.sort(np.linalg.norm(found, axis=0)), [0, 1], atol=1e-12)
    assert basis(np.zeros((4, 0))).shape == (4, 0)
    assert basis(np.zeros((4, 1))).shape == (4, 0)


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_constant_voxels_are_told_from_rounding(mean, dtype):
    rng = np.random.default_rng(0)
    X = np.full((9, 3), mean, dtype=dtype)
    X[:, 1] += rng.normal(size=9)
    left = residuals(X, basis(np.ones((9, 1))), np.ones((9, 1)))
    np.testing.assert_array_equal(left.squares > 0, [False, True, False])
    assert not left.rows[:, 0].any()


def test_a_relabelling_reaches_a_statistic_of_nothing():
    """Of a voxel whose means do not differ, whatever rounding leaves of the difference."""
    rows = np.full((4, 1), 0.5, dtype=np.float32)
    signs = np.array([[1.0, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]).T / 2
    found = maxima(rows, np.array([1e-16]), lambda start, stop: signs[:, start:stop], 2)
    assert found.counts.tolist() == [2]
