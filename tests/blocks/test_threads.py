"""Blocks of voxels side by side: the same bits with any number of threads."""

import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from voxprior import AutoClassifier, GPClassifier, VoxelSpace
from voxprior.blocks import VoxelScaler, gram_matrix
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
