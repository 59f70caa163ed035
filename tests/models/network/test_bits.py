"""Packed binary matrices against plain sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from voxprior.models.network.bits import n_words, pack, pack_blocks, popcount, unpack

few = settings(max_examples=30, deadline=None)
sizes = st.tuples(st.integers(1, 200), st.integers(0, 40))


def random_bits(shape, seed):
    return np.random.default_rng(seed).random(shape) < 0.4


@few
@given(sizes, st.integers(0, 2**32 - 1))
def test_pack_and_unpack_are_inverse(shape, seed):
    X = random_bits(shape, seed)
    words = pack(X)
    assert words.shape == (shape[1], n_words(shape[0]))
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(unpack(words, shape[0]), X)


@few
@given(sizes, st.integers(0, 2**32 - 1))
def test_the_layout_is_bit_i_mod_64_of_word_i_div_64(shape, seed):
    X = random_bits(shape, seed)
    words = pack(X)
    for v in range(shape[1]):
        number = sum(int(bit) << i for i, bit in enumerate(X[:, v]))
        assert number == sum(int(word) << (64 * w) for w, word in enumerate(words[v]))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_any_dtype_and_layout(dtype):
    X = random_bits((70, 31), 0)
    expected = pack(X)
    given_ = X.astype(dtype)
    locked = given_.copy()
    locked.flags.writeable = False
    for form in (given_, np.asfortranarray(given_), locked, np.repeat(given_, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(pack(form), expected)


def test_memory_mapped_input(tmp_path):
    X = random_bits((70, 5000), 0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(unpack(pack(mapped), 70), X)


def test_blocks_of_columns_join_up():
    X = random_bits((70, 31), 0)
    blocks = (X[:, start : start + 7] for start in range(0, 31, 7))
    np.testing.assert_array_equal(pack_blocks(blocks), pack(X))


def test_popcount_inside_compiled_code():
    @njit
    def shifted(word):
        total = 0
        total += popcount(word) << 1
        return total

    for number in (0, 1, 2**64 - 1, 0xF0F0):
        assert shifted(np.uint64(number)) == 2 * number.bit_count()


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_values_other_than_0_and_1_are_refused(value):
    with pytest.raises(ValueError, match="only 0 and 1"):
        pack(np.array([[0, 1, value]]))


def test_bad_shapes_and_types():
    with pytest.raises(ValueError, match="n_samples > 0"):
        pack(np.zeros((0, 3), dtype=bool))
    with pytest.raises(ValueError, match=r"\(n_samples, n_voxels\)"):
        pack(np.zeros(3, dtype=bool))
    with pytest.raises(TypeError, match="booleans or numbers"):
        pack(np.array([["a"]]))
    with pytest.raises(ValueError, match="65 samples"):
        unpack(pack(np.ones((3, 2))), 65)
    with pytest.raises(ValueError, match="same number of samples"):
        pack_blocks([np.ones((3, 1)), np.ones((4, 1))])
    with pytest.raises(ValueError, match="one or more"):
        pack_blocks([])
