"""Blocks of voxels side by side: the same bits with any number of threads."""

import threading
import time

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from voxprior import AutoClassifier, GPClassifier, VoxelSpace
from voxprior.blocks import VoxelScaler, gram_matrix, max_memory, voxel_blocks
from voxprior.blocks.threads import (
    FEWEST,
    LANES,
    block_threads,
    each_block,
    side_by_side,
    sum_over_blocks,
)
from voxprior.models.gaussian.gram import cross_gram
from voxprior.validation.run import run_tasks

BLOCKS = [slice(k, k + 1) for k in range(3 * FEWEST + 1)]
# Several blocks of voxels, with voxels that are constant, doubled or large.
X = np.random.default_rng(0).normal(size=(70, 130_000)).astype(np.float32)
X[:, 5], X[:, 7], X[:, 9] = 3.0, X[:, 8], 1e6 * X[:, 9]
Y = np.arange(70) % 2


def with_threads(count, made):
    # BLAS has one thread too: where blocks have several of them, and in tasks that share the cores.
    with block_threads(count), threadpool_limits(1, "blas"):
        return made()


def test_results_come_in_the_order_of_the_pieces():
    assert with_threads(4, lambda: side_by_side(str, range(50))) == [str(k) for k in range(50)]


def test_every_block_is_done_once():
    done = []
    with_threads(4, lambda: each_block(lambda block: done.append(block.start), BLOCKS))
    assert sorted(done) == list(range(len(BLOCKS)))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("blocks", [BLOCKS, BLOCKS[:3], []], ids=len)
def test_a_sum_has_the_same_bits_with_any_number_of_threads(blocks, count):
    values = np.random.default_rng(1).normal(size=len(BLOCKS)) * 10.0 ** np.arange(len(BLOCKS))

    def add(block, total):
        total += values[block]

    def made():
        return sum_over_blocks(add, blocks, (1,))[0]

    assert with_threads(count, made) == with_threads(1, made)
    np.testing.assert_allclose(with_threads(count, made), values[: len(blocks)].sum())


def test_one_thread_granted_by_the_environment_changes_no_bit(monkeypatch):
    with threadpool_limits(2, "blas"):
        expected = gram_matrix(X)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        np.testing.assert_array_equal(gram_matrix(X), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_blocks_are_scaled_as_scans_in_memory_are(dtype, tmp_path):
    np.save(tmp_path / "x.npy", X.astype(dtype))
    scaler = VoxelScaler().fit(X.astype(dtype))
    with max_memory("1 MB"):
        found = scaler.transform(np.load(tmp_path / "x.npy", mmap_mode="r"))
        parts = [found[:, block] for block in voxel_blocks(*X.shape)]
    np.testing.assert_array_equal(np.hstack(parts), scaler.transform(X.astype(dtype)))


def test_an_error_in_a_thread_is_raised():
    def fail(piece):
        raise KeyError(piece)

    with pytest.raises(KeyError), block_threads(2):
        side_by_side(fail, range(9))


@pytest.mark.parametrize(
    "made",
    [
        lambda: gram_matrix(X),
        lambda: cross_gram(X[:9], X).gram,
        lambda: VoxelScaler().fit(X).var_,
        lambda: GPClassifier().fit(X, Y).voxel_maps()["weight_sd"],
        lambda: AutoClassifier(VoxelSpace.grid((50, 52, 50))).fit(X, Y).voxel_maps()["pattern"],
    ],
    ids=["gram", "cross", "scaler", "gp", "auto"],
)
def test_models_have_the_same_bits_with_any_number_of_threads(made):
    np.testing.assert_array_equal(with_threads(3, made), with_threads(1, made))


def test_the_gram_matrix_is_that_of_one_product():
    exact = X.astype(float) @ X.astype(float).T
    np.testing.assert_allclose(gram_matrix(X), exact, rtol=1e-10, atol=1e-12 * abs(exact).max())


@pytest.mark.parametrize("with_std", [True, False])
@pytest.mark.parametrize("holes", [False, True])
def test_the_scaler_is_that_of_scikit_learn(with_std, holes):
    values = X.copy()
    values[3:5, 100_000] = np.nan if holes else 0.0
    ours, theirs = (make(with_std=with_std).fit(values) for make in (VoxelScaler, StandardScaler))
    for name in ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
    np.testing.assert_array_equal(ours.transform(values[:3]), theirs.transform(values[:3]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("hole", [0.0, np.nan])
def test_scaled_scans_are_those_of_scikit_learn(dtype, order, hole):
    values = np.array(X, dtype, order=order)
    values[:, 7] = 3.0  # constant
    values[3, 100_000] = hole
    before = values.copy()
    ours, theirs = (make().fit(values[:20]) for make in (VoxelScaler, StandardScaler))
    theirs.mean_, theirs.scale_ = ours.mean_, ours.scale_  # of columns, numpy sums otherwise
    found, expected = ours.transform(values), theirs.transform(values)
    if np.isfinite(hole):  # single precision is rounded otherwise by some versions of scikit-learn
        plain = (values - ours.mean_.astype(dtype)) / ours.scale_.astype(dtype)
        np.testing.assert_array_equal(found, plain)
        np.testing.assert_allclose(found, expected, rtol=0, atol=np.sqrt(np.finfo(dtype).eps) / 100)
    else:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(values, before)
    assert found.dtype == dtype


@pytest.mark.parametrize("wrong", ["infinite", "features", "unfitted"])
def test_scans_that_do_not_fit_are_refused_in_the_words_of_scikit_learn(wrong):
    values, told = X.copy(), []
    if wrong == "infinite":
        values[2, 2] = np.inf
    for make in (VoxelScaler, StandardScaler):
        scaler = make() if wrong == "unfitted" else make().fit(X)
        with pytest.raises(ValueError) as error:
            scaler.transform(values[:, 1:] if wrong == "features" else values)
        told.append(str(error.value).replace(make.__name__, "scaler"))
    assert told[0] == told[1]


def test_scans_without_the_names_of_their_voxels_are_warned_of():
    table = pd.DataFrame(X[:3], columns=[f"voxel {v}" for v in range(X.shape[1])])
    for scaler in (VoxelScaler().fit(table), StandardScaler().fit(table)):
        with pytest.warns(UserWarning, match="feature names"):
            scaler.transform(X)


def test_scans_are_scaled_in_place_where_that_is_asked_for():
    values = X.copy()
    scaler = VoxelScaler(copy=False).fit(values)
    expected = VoxelScaler().fit(X).transform(X)
    assert scaler.transform(values) is values
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"with_mean": False}, {"with_std": False}])
def test_products_of_scaled_scans_need_no_scaled_scans(changes):
    train = np.array([5, 0, 3, 8, 11])
    values = X[:14].copy()
    values[:, 7] = 3.0  # constant
    theirs = StandardScaler(**changes).fit(values[train].astype(float))
    scaled = theirs.transform(values.astype(float))
    exact = scaled @ scaled.T
    found = VoxelScaler(**changes).gram_by(values, train)
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-11 * abs(exact).max())


def _threads_in_a_task(task, seed):
    seen = set()
    side_by_side(lambda piece: seen.add(threading.get_ident()), range(8))
    return len(seen - {threading.get_ident()})


def test_many_cores_do_not_mean_many_blocks_at_once(monkeypatch):
    monkeypatch.setattr("voxprior.blocks.threads.cpu_count", lambda: 64)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    at_once, now, door = [], [], threading.Lock()

    def work(piece):
        with door:
            now.append(piece)
            at_once.append(len(now))
        time.sleep(0.01)
        with door:
            now.remove(piece)

    side_by_side(work, range(20))
    assert 1 < max(at_once) <= LANES


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="one core has no second worker")
def test_tasks_that_run_alone_have_threads_and_others_have_none(monkeypatch):
    monkeypatch.setattr("voxprior.blocks.threads.cpu_count", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert min(run_tasks(_threads_in_a_task, range(3)).values) > 0
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert run_tasks(_threads_in_a_task, range(3)).values == [0, 0, 0]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert run_tasks(_threads_in_a_task, range(3), n_jobs=2).values == [0, 0, 0]
