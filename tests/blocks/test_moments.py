"""Class statistics of folds from those of all scans seen, against sums that read every fold."""

import pickle

import numpy as np
import pytest

from voxprior import max_memory
from voxprior.blocks import BlockedScans
from voxprior.blocks.moments import class_moments
from voxprior.blocks.scans import MappedFile

N, VOXELS = 24, 30


def two_looks(values, codes, n_classes):
    """Counts, means and sums of squares by class, as they are defined."""
    values = np.asarray(values, dtype=float)
    mean, m2 = np.zeros((2, n_classes, values.shape[1]))
    for c in np.unique(codes):
        mean[c] = values[codes == c].mean(axis=0)
        m2[c] = ((values[codes == c] - mean[c]) ** 2).sum(axis=0)
    return np.bincount(codes, minlength=n_classes), mean, m2


class Counted(MappedFile):
    """An array that counts the scans that are read at each voxel."""

    def __init__(self, array):
        super().__init__(array)
        self.n_read = np.zeros(array.shape[1], dtype=int)

    def read_rows(self, rows, columns):
        self.n_read[columns] += len(rows)
        return super().read_rows(rows, columns)


@pytest.fixture(params=[np.float32, np.float64])
def ugly(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, VOXELS)) + 5.0
    X[:, 0], X[:, 1], X[:, 2] = 3.0, 0.0, X[:, 3]
    X[7, 1] = 1e6  # varies in one scan alone
    X[5, 4] = 1e20
    X[:6, 5] *= 1e-5
    X[:, 6] += 1e5
    return X.astype(request.param)


def assert_same(found, X, codes, n_classes):
    count, mean, m2 = two_looks(X, codes, n_classes)
    np.testing.assert_array_equal(found.count, count)
    size = np.abs(X).max(axis=0).astype(float)
    assert (np.abs(found.mean - mean) <= 1e-13 * size).all()
    assert (np.abs(found.m2 - m2) <= 2e-8 * m2 + (1e-12 * size) ** 2).all()
    np.testing.assert_array_equal(found.m2[:, :2] == 0, m2[:, :2] == 0)


@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_any_index_sets_and_labels(ugly, n_classes):
    rng = np.random.default_rng(n_classes)
    scans, y = BlockedScans(MappedFile(ugly)), rng.integers(0, n_classes, N)
    for k in range(40):
        rows = rng.permutation(N)[: rng.integers(2, N + 1)]
        if k % 10 == 9:
            y = rng.permutation(y)
        found = class_moments(scans[rows], y[rows], n_classes, two_looks)
        assert_same(found, ugly[rows], y[rows], n_classes)


def test_all_folds_read_no_scan_more_than_twice(ugly):
    origin, y = Counted(ugly[:, 6:]), np.arange(N) % 2
    scans, runs = BlockedScans(origin), np.arange(N) // 3
    for run in range(8):
        train = np.flatnonzero(runs != run)
        found = class_moments(scans[train], y[train], 2, two_looks)
        assert_same(found, ugly[train, 6:], y[train], 2)
    assert set(origin.n_read) == {2 * N - 3}  # the first run is only added


def test_a_voxel_that_subtraction_would_lose_is_read_anew(ugly):
    origin, y = Counted(ugly), np.arange(N) % 2
    scans, without = BlockedScans(origin), np.delete(np.arange(N), [5, 7])
    class_moments(scans[np.arange(N)], y, 2, two_looks)
    class_moments(scans[without], y[without], 2, two_looks)
    assert np.flatnonzero(origin.n_read > N + 2).tolist() == [1, 4]


def test_scans_drawn_twice_are_read(ugly):
    rows, y = np.array([0, 1, 1, 2, 5, 6]), np.array([0, 1, 1, 0, 1, 0])
    scans = BlockedScans(MappedFile(ugly))
    assert_same(class_moments(scans[rows], y, 2, two_looks), ugly[rows], y, 2)
    assert scans.origin.seen is None


def test_what_is_kept_fits_into_the_limit_and_is_not_sent(ugly):
    y = np.arange(N) % 2
    for limit, kept in ((4 * 16 * 2 * VOXELS, True), (4 * 16 * 2 * VOXELS - 1, False)):
        scans = BlockedScans(MappedFile(ugly))
        with max_memory(limit):
            class_moments(scans, y, 2, two_looks)
        assert (scans.origin.seen is not None) == kept


def test_workers_are_not_sent_what_is_kept(tmp_path, ugly):
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", ugly.dtype, ugly.shape)
    mapped[:] = ugly
    scans = BlockedScans(MappedFile(mapped))
    class_moments(scans, np.arange(N) % 2, 2, two_looks)
    assert scans.origin.seen is not None
    assert pickle.loads(pickle.dumps(scans)).origin.seen is None
