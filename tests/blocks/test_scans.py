"""Arrays on disk as index sets and windows of chunks, and the limit that holds for all."""

import pickle
import resource

import dask.array as da
import numpy as np
import pytest
import zarr

from voxprior import max_memory
from voxprior.blocks import (
    BlockedScans,
    blocked,
    first_columns,
    gram_matrix,
    is_on_disk,
    memory,
    memory_limit,
    refuse_infinite,
    voxel_blocks,
    with_columns,
)
from voxprior.errors import InputError


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(9, 100)).astype(np.float32)


class Counted:
    """A zarr array that counts what is read."""

    def __init__(self, array):
        self.array, self.reads = array, []
        self.shape, self.dtype, self.chunks = array.shape, array.dtype, array.chunks
        self.size = array.size

    def __getitem__(self, key):
        self.reads.append((key[1].start, key[1].stop))
        return self.array[key]


Counted.__module__ = "zarr.counted"


def counted(values, tmp_path, chunks=(4, 10)):
    array = zarr.create_array(str(tmp_path / "x"), shape=values.shape, chunks=chunks, dtype="f4")
    array[:] = values
    return Counted(array)


def test_what_fits_four_times_is_read(values):
    lazy = da.from_array(values, chunks=20)
    with max_memory(4 * values.nbytes):
        assert isinstance(blocked(lazy), np.ndarray)
    with max_memory(4 * values.nbytes - 1):
        assert isinstance(blocked(lazy), BlockedScans)
        assert blocked(values) is values
        assert blocked("scans") == "scans"
    assert not is_on_disk(values[1:])


def test_indexing_is_that_of_an_array(values, tmp_path):
    with max_memory(500):
        X = blocked(counted(values, tmp_path))
    rows, columns = np.array([4, 2, 2]), np.array([90, 3, 55])
    assert X.shape == values.shape
    assert (len(X), X.ndim, X.size, X.nbytes) == (9, 2, 900, 3600)
    for key in (slice(None), slice(3, 40), slice(None, None, 7), columns, slice(95, 200)):
        np.testing.assert_array_equal(X[:, key], values[:, key])
        np.testing.assert_array_equal(X[rows, key], values[rows][:, key])
        np.testing.assert_array_equal(X[rows][1:, key], values[rows][1:, key])
    np.testing.assert_array_equal(X[5], values[5])
    np.testing.assert_array_equal(X[np.arange(9) > 6][:, :], values[7:])
    np.testing.assert_array_equal(X[rows, ...][:, :], values[rows])
    np.testing.assert_array_equal(np.asarray(X[rows], dtype=float), values[rows])
    assert X.as_type(np.float64)[:, :2].dtype == np.float64
    assert repr(X) == "BlockedScans(9 scans, 100 voxels, float32)"


def test_every_chunk_is_read_once_in_a_pass(values, tmp_path):
    array = counted(values, tmp_path)
    with max_memory(4 * 9 * 4 * 30):  # a window of three chunks
        X = blocked(array)
        gram = gram_matrix(X)
        first = list(array.reads)
        np.testing.assert_allclose(gram, values.astype(float) @ values.T.astype(float), 1e-6)
        np.testing.assert_array_equal(gram_matrix(X[[3, 1]]), gram[np.ix_([3, 1], [3, 1])])
    assert sorted(first) == [(start, start + 10) for start in range(0, 100, 10)]
    assert array.reads == first  # a fold has its Gram matrix from that of all


def test_a_chunk_larger_than_the_limit_is_read_in_part(values, tmp_path):
    array = counted(values, tmp_path, chunks=(9, 50))
    with max_memory(4 * 9 * 4 * 20):
        X = blocked(array)
        np.testing.assert_array_equal(X[:, 40:60], values[:, 40:60])
    assert sorted(array.reads) == [(40, 50), (50, 60)]  # nothing beside what was asked for


def test_few_scans_are_read_without_holding_all(values, tmp_path):
    array = counted(values, tmp_path, chunks=(9, 100))
    with max_memory(500):
        X = blocked(array).changed(Doubled())
    with max_memory(64 * 9 * 4 * 20):
        np.testing.assert_array_equal(X[[2, 5], 10:90], 2 * values[[2, 5], 10:90])
        np.testing.assert_array_equal(X[[2, 5], 10:90:3], 2 * values[[2, 5], 10:90:3])
    assert Doubled.widest == 20


class Doubled:
    """A change that remembers the widest block."""

    widest = 0

    def __call__(self, block, columns):
        Doubled.widest = max(Doubled.widest, block.shape[1])
        return 2 * block


def test_further_columns(values, tmp_path):
    Z = np.arange(18.0).reshape(9, 2)
    with max_memory(500):
        X = with_columns(blocked(counted(values, tmp_path)), Z)
        whole = np.hstack([values, Z.astype(np.float32)])
        for key in (slice(3, 9), slice(95, None), slice(100, 102), np.array([101, 0]), slice(0, 0)):
            np.testing.assert_array_equal(X[:, key], whole[:, key])
        first = first_columns(X, 100)
        np.testing.assert_array_equal(first[[1, 2]][:, 90:], values[[1, 2], 90:])
        assert first_columns(first, 100) is first
    assert first_columns(values, 3).shape == (9, 3)


def test_nan_is_found_once_and_only_where_it_is(values, tmp_path):
    values[6, 70] = np.inf
    array = counted(values, tmp_path)
    with max_memory(3000):
        X = blocked(array)
        refuse_infinite(X[:6])
        with pytest.raises(
            InputError, match=r"NaN or infinity, which the estimator.*between voxels"
        ):
            refuse_infinite(X[[6]])
        values[6, 70] = 0
        array.array[:] = values
        X = blocked(array)
        refuse_infinite(X[:3])
        n_reads = len(array.reads)
        refuse_infinite(X)
    assert len(array.reads) == n_reads


def test_an_unnamed_file_is_sent_whole(values):
    import pickle
    import tempfile

    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, np.float32, "w+", shape=values.shape)
        mapped[:] = values
        with max_memory(500):
            sent = pickle.loads(pickle.dumps(blocked(mapped)))
        np.testing.assert_array_equal(sent[:, 3:5], values[:, 3:5])


@pytest.mark.parametrize("size", ["", "many", "-1GB", "0", "2 XB", 0, "1.2.3MB"])
def test_sizes_that_are_none(size):
    with pytest.raises(InputError, match=r"max_memory=.* is not a size.*2GB"), max_memory(size):
        pass


def test_the_limit_is_that_of_the_innermost_context():
    default = memory_limit()
    with max_memory("1GB"), max_memory(None):
        assert memory_limit() == 10**9
        with max_memory("2 KiB"):
            assert memory_limit() == 2048
    assert memory_limit() == default
    assert list(voxel_blocks(4, 0)) == []


def test_the_machine_is_what_the_process_may_have(monkeypatch, tmp_path):
    memory.machine_memory.cache_clear()
    real = memory.machine_memory()
    container = tmp_path / "memory.max"
    container.write_text("1000000\n")
    monkeypatch.setattr(memory, "CONTAINER", (str(container), str(tmp_path / "absent")))
    memory.machine_memory.cache_clear()
    assert memory.machine_memory() == 1_000_000
    container.write_text("max\n")
    memory.machine_memory.cache_clear()
    assert memory.machine_memory() <= real
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (5000, 5000))
    memory.machine_memory.cache_clear()
    assert memory.machine_memory() == 5000
    memory.machine_memory.cache_clear()


def test_a_copy_on_write_is_sent_with_what_was_written(values, tmp_path):
    np.save(tmp_path / "x.npy", values)
    own = np.load(tmp_path / "x.npy", mmap_mode="c")
    own[:] = 2 * values
    with max_memory("2 KB"):
        scans = pickle.loads(pickle.dumps(blocked(own)))
    np.testing.assert_array_equal(scans[:, :5], 2 * values[:, :5])


def test_a_size_that_dask_does_not_know_is_told(values):
    array = da.from_array(values)
    with pytest.raises(InputError, match="compute_chunk_sizes"):
        blocked(array[array[:, 0] > 0])
