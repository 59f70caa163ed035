import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.models.sharing.statistics import (
    class_statistics,
    from_chunks,
    merge,
    pooled,
    remove,
)


def loops(X, codes, n_classes):
    X = np.asarray(X, dtype=float)
    count = [sum(codes == c) for c in range(n_classes)]
    mean = [X[codes == c].mean(axis=0) if count[c] else 0 * X[0] for c in range(n_classes)]
    m2 = [((X[codes == c] - mean[c]) ** 2).sum(axis=0) for c in range(n_classes)]
    return np.array(count), np.array(mean), np.array(m2)


def agree(a, b, rtol=1e-9, atol=1e-9):
    for left, right in zip(a, b):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


@pytest.fixture
def data(rng):
    X = rng.normal(3.0, 2.0, size=(17, 2500))
    codes = rng.integers(0, 3, size=17)
    codes[:3] = 0, 1, 2
    return X, codes


def test_equals_loops(data):
    X, codes = data
    agree(class_statistics(X, codes, 4), loops(X, codes, 4))


@pytest.mark.parametrize("kind", ["float32", "fortran", "strided", "read_only", "memmap", "int"])
def test_any_layout(data, kind, tmp_path):
    X, codes = data
    if kind == "memmap":
        stored = np.memmap(tmp_path / "X.dat", dtype="float32", mode="w+", shape=X.shape)
        stored[:] = X
        stored.flush()
        given_X = np.memmap(tmp_path / "X.dat", dtype="float32", mode="r", shape=X.shape)
    else:
        given_X = {
            "float32": X.astype("float32"),
            "fortran": np.asfortranarray(X),
            "strided": np.repeat(X, 2, axis=1)[:, ::2],
            "read_only": X.copy(),
            "int": X.round().astype(int),
        }[kind]
        given_X.flags.writeable = kind != "read_only"
    agree(class_statistics(given_X, codes, 3), loops(given_X, codes, 3))


def test_float32_is_summed_in_float64():
    X = np.full((3, 5), 16777216.0, dtype="float32")
    X[1:] += np.float32([[2.0], [4.0]])
    statistics = class_statistics(X, np.zeros(3, int), 1)
    np.testing.assert_array_equal(statistics.mean, 16777218.0)
    np.testing.assert_array_equal(statistics.m2, 8.0)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.floats(-1e4, 1e4))
@settings(max_examples=25, deadline=None)
def test_merge_and_remove_are_inverse(seed, n_a, n_b, offset):
    rng = np.random.default_rng(seed)
    X = rng.normal(offset, 1.0, size=(n_a + n_b, 4))
    codes = rng.integers(0, 3, size=n_a + n_b)
    parts = [class_statistics(X[rows], codes[rows], 3) for rows in (slice(n_a), slice(n_a, None))]
    whole = class_statistics(X, codes, 3)
    scale = 1e-9 * (1 + abs(offset))
    agree(merge(*parts), whole, atol=scale)
    agree(remove(whole, parts[1]), parts[0], atol=scale)


@pytest.mark.parametrize("chunks", [(17, 2500), (5, 2500), (4, 700), (1, 1000)])
def test_dask_chunks_merge_exactly(data, chunks):
    X, codes = data
    agree(class_statistics(da.from_array(X, chunks=chunks), codes, 3), loops(X, codes, 3))


def test_row_chunks(data):
    X, codes = data
    pieces = ((X[i : i + 4], codes[i : i + 4]) for i in range(0, 17, 4))
    agree(from_chunks(pieces, 3), loops(X, codes, 3))


def test_rows_of_an_array(rng, data):
    X, _ = data
    rows, codes = rng.choice(17, size=7), rng.integers(0, 2, size=7)
    found = class_statistics(X, codes, 2, rows)
    for ours, expected in zip(found, class_statistics(X[rows], codes, 2)):
        np.testing.assert_array_equal(ours, expected)
    with pytest.raises(ValueError, match="Expected 7 codes, got 6"):
        class_statistics(X, codes[:6], 2, rows)


def test_pooled_ignores_classes(data):
    X, codes = data
    count, mean, m2 = pooled(class_statistics(X, codes, 3))
    agree((count, mean, m2 / count), (17, X.mean(axis=0), X.var(axis=0)))


def test_refusals(data):
    X, codes = data
    statistics = class_statistics(X, codes, 3)
    with pytest.raises(ValueError, match="Expected 17 codes, got 5"):
        class_statistics(X, codes[:5], 3)
    with pytest.raises(ValueError, match=r"Expected 0 \.\. 1, got 0 \.\. 2"):
        class_statistics(X, codes, 2)
    with pytest.raises(ValueError, match="more examples than there are"):
        remove(remove(statistics, statistics), statistics)
    with pytest.raises(ValueError, match="at least one"):
        from_chunks(iter(()), 3)
