"""Scores and gains against sums of gamma functions over plain counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from voxprior.algebra import SMALL_WORK
from voxprior.models.network.bits import pack
from voxprior.models.network.equivalence import disagreement_counts
from voxprior.models.network.scan import FEW, STRIP, VOXEL_WORK
from voxprior.models.network.score import (
    TIE,
    best_voxel,
    cell_alpha,
    class_cells,
    contenders,
    gains,
    log_score,
    top_gains,
)


def test_table_one_of_the_paper():
    table = np.array([[10, 20], [15, 9], [1, 70], [51, 12]])
    assert_allclose(log_score(table, 1.0), -79.265439, atol=5e-7)
    assert_allclose(log_score(table, cell_alpha("bdeu", 2, 2)), -82.276444, atol=5e-7)
    assert_allclose(log_score(table.sum(axis=0), 1.0), -129.633191, atol=5e-7)


def test_gains_of_five_voxels(oracle):
    words = pack(oracle.voxels)
    cells = class_cells(words, oracle.C, 2, [], 1.0)
    assert_allclose(cells.score, -9.393661, atol=5e-7)
    expected = [1.918322, 3.576550, -0.453256, -0.489623, 5.501841]
    assert_allclose(gains(words, cells), expected, atol=5e-7)
    cells = class_cells(words, oracle.C, 2, [], "bdeu")
    assert_allclose(cells.score, -9.806820, atol=5e-7)
    expected = [1.400544, 4.278012, -1.724886, -1.782456, 7.489589]
    assert_allclose(gains(words, cells), expected, atol=5e-7)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 150),
    n_classes=st.integers(2, 5),
    n_parents=st.integers(0, 4),
    alpha=st.sampled_from([1.0, 0.3, "bdeu"]),
    seed=st.integers(0, 10**6),
)
def test_gains_equal_naive_scores(oracle, n, n_classes, n_parents, alpha, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, 12))
    y = rng.integers(0, n_classes, n)
    parents = list(range(n_parents))
    words = pack(X)
    cells = class_cells(words, y, n_classes, parents, alpha)
    assert_allclose(cells.score, oracle.score(y, X[:, parents], n_classes, alpha), rtol=1e-12)
    delta = gains(words, cells)
    for v in range(12):
        # A voxel constant within every configuration of the parents has no say.
        rows = np.unique(X[:, parents], axis=0)
        splits = any(len(np.unique(X[(X[:, parents] == r).all(axis=1), v])) > 1 for r in rows)
        expected = oracle.gain(X, y, parents, v, n_classes, alpha) if splits else 0.0
        assert_allclose(delta[v], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 119, 128, 200])
def test_many_classes_do_without_fused_tables(oracle, n):
    rng = np.random.default_rng(n)
    X, y = rng.integers(0, 2, (n, 5)), rng.integers(0, 9, n)
    delta = gains(pack(X), class_cells(pack(X), y, 9, [], 1.0))
    for v in range(5):
        expected = oracle.gain(X, y, [], v, 9, 1.0) if len(np.unique(X[:, v])) > 1 else 0.0
        assert_allclose(delta[v], expected, rtol=1e-11, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(3, 90), alpha=st.sampled_from([1.0, "bdeu"]), seed=st.integers(0, 10**6))
def test_weights_count_samples_as_copies_do(n, alpha, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, (n, 8)), rng.integers(0, 3, n)
    weights = rng.multinomial(n, np.full(n, 1 / n))
    rows = np.repeat(np.arange(n), weights)
    weighted = class_cells(pack(X), y, 3, [0, 1], alpha, weights)
    copied = class_cells(pack(X[rows]), y[rows], 3, [0, 1], alpha)
    assert_allclose(weighted.score, copied.score, rtol=1e-12)
    assert_allclose(gains(pack(X), weighted), gains(pack(X[rows]), copied), atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([1.0, "bdeu"]))
def test_laws_of_gains(seed, alpha):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, (70, 9)), rng.integers(0, 2, 70)
    parents = [0, 1]
    delta = gains(pack(X), class_cells(pack(X), y, 2, parents, alpha))
    # the names of voxel states do not matter, nor those of classes
    flipped = X.copy()
    flipped[:, [0, 3]] = 1 - flipped[:, [0, 3]]
    assert_allclose(
        gains(pack(flipped), class_cells(pack(flipped), y, 2, parents, alpha)), delta, atol=1e-11
    )
    assert_allclose(
        gains(pack(X), class_cells(pack(X), 1 - y, 2, parents, alpha)), delta, atol=1e-11
    )
    # voxels and samples have no order; identical columns tie
    order, rows = rng.permutation(9), rng.permutation(70)
    moved = X[rows][:, order]
    new_parents = [int(np.flatnonzero(order == p)[0]) for p in parents]
    cells = class_cells(pack(moved), y[rows], 2, new_parents, alpha)
    assert_allclose(gains(pack(moved), cells), delta[order], atol=1e-11)
    twice = pack(np.column_stack([X, X]))
    both = gains(twice, class_cells(twice, y, 2, parents, alpha))
    assert np.array_equal(both[:9], both[9:])


def test_chain_rule_of_predictive_probabilities():
    rng = np.random.default_rng(0)
    configuration, y = rng.integers(0, 4, 40), rng.integers(0, 3, 40)
    N, total = np.zeros((4, 3)), 0.0
    for j, k in zip(configuration, y):
        total += np.log((0.7 + N[j, k]) / (3 * 0.7 + N[j].sum()))
        N[j, k] += 1
    assert_allclose(total, log_score(N, 0.7), rtol=1e-12)


def test_bdeu_is_score_equivalent_and_k2_is_not(oracle):
    X, Y = oracle.voxels[:, 0], oracle.voxels[:, 2]

    def network(first, second, alpha):
        return oracle.score(first, np.empty((12, 0)), 2, alpha) + oracle.score(
            second, first[:, None], 2, alpha
        )

    words = pack(np.column_stack([X, Y]))
    forward = (
        class_cells(words, X, 2, [], "bdeu").score + class_cells(words, Y, 2, [0], "bdeu").score
    )
    backward = (
        class_cells(words, Y, 2, [], "bdeu").score + class_cells(words, X, 2, [1], "bdeu").score
    )
    assert_allclose(forward, backward, rtol=1e-12)
    assert_allclose(forward, network(X, Y, "bdeu"), rtol=1e-12)
    k2 = network(X, Y, 1.0) - network(Y, X, 1.0)
    assert_allclose(k2, -0.085158, atol=5e-7)


@pytest.mark.parametrize("alpha", [1.0, "bdeu"])
def test_constant_voxels_and_copies_of_parents_gain_nothing(oracle, alpha):
    y = np.array([1] * 34 + [0])  # unbalanced: 1/(rq) would reward a constant
    X = np.column_stack([np.zeros(35, int), np.ones(35, int), np.arange(35) % 2, np.arange(35) % 2])
    delta = gains(pack(X), class_cells(pack(X), y, 2, [], alpha))
    assert delta[0] == delta[1] == 0.0
    assert gains(pack(X), class_cells(pack(X), y, 2, [2], alpha))[3] == 0.0
    if alpha == "bdeu":
        assert oracle.gain(X, y, [], 0, 2, alpha) > 0


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 150),
    n_classes=st.integers(2, 5),
    n_parents=st.integers(0, 6),
    density=st.sampled_from([0.02, 0.3, 0.5, 0.95]),
    alpha=st.sampled_from([1.0, 0.3, "bdeu"]),
    seed=st.integers(0, 10**6),
)
def test_contenders_are_all_voxels_above_the_bar(n, n_classes, n_parents, density, alpha, seed):
    rng = np.random.default_rng(seed)
    # One strip and a bit, with constant voxels, copies of parents, and copies of the class.
    X = rng.random((n, STRIP + 70)) < density
    y = rng.integers(0, n_classes, n)
    X[:, 30:40], X[:, 40:50] = False, True
    X[:, 50:60] = X[:, :10]
    X[:, 60 : 60 + 2 * FEW] = (y == 0)[:, None] ^ (rng.random((n, 2 * FEW)) < 0.1)
    words = pack(X)
    sets = [list(range(n_parents)), [70], [], [70, 71], [80], [80, 3], [81], [82], [83]]
    cell_sets = [class_cells(words, y, n_classes, parents, alpha) for parents in sets]
    delta = [gains(words, cells) for cells in cell_sets]
    bars = [rng.choice(d) + rng.choice([-0.1, 0.0, 0.1]) for d in delta]
    for d, bar, near in zip(delta, bars, contenders(words, cell_sets, bars)):
        silent = d == 0.0
        assert set(np.flatnonzero((d > bar) & ~silent)) <= set(near)
        assert np.all(d[near] >= bar - 2 * TIE)
        assert np.all(np.diff(near) > 0)
    assert_allclose(top_gains(words, cell_sets), [max(d.max(), 0.0) for d in delta], atol=1e-12)
    assert not set(contenders(words, cell_sets[2:3], [-99.0])[0]) & set(range(30, 50))


def test_best_takes_the_lowest_of_equals_and_none_without_a_gain():
    assert best_voxel(np.array([0.5, 2.0, 2.0 + 1e-13, 1.0])) == 1
    assert best_voxel(np.array([0.5, 2.0, 2.0]), np.array([True, False, True])) == 2
    assert best_voxel(np.array([0.0, -1.0])) == -1
    assert best_voxel(np.empty(0)) == -1


def test_many_voxels_in_parallel_score_as_few_do():
    rng = np.random.default_rng(0)
    many = SMALL_WORK // VOXEL_WORK + 700
    X, y = rng.integers(0, 2, (70, many)).astype(bool), rng.integers(0, 3, 70)
    words = pack(X)
    cells = class_cells(words, y, 3, [1, 5])
    parts = [gains(words[s : s + 5000], cells) for s in range(0, len(words), 5000)]
    assert np.array_equal(gains(words, cells), np.concatenate(parts))
    near = contenders(words, [cells], [0.5])[0]
    assert np.array_equal(near, np.flatnonzero(np.concatenate(parts) > 0.5))
    ones = np.ones(70, dtype=int)
    off, on = disagreement_counts(words, 3, ones)
    assert np.array_equal(off, (~X & X[:, [3]]).sum(axis=0))
    assert np.array_equal(on, (X & ~X[:, [3]]).sum(axis=0))
