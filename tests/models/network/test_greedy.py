"""Algorithm 1 against a search over plain arrays, and worked examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from voxprior.models.network.bits import pack
from voxprior.models.network.greedy import grow
from voxprior.models.network.score import class_cells, gains
from voxprior.models.network.tree import Rules, equivalence_of, jackknife_paths, search


def test_only_the_copy_of_the_class_is_chosen(oracle):
    assert grow(pack(oracle.voxels), oracle.C, 2).parents.tolist() == [4]
    assert grow(pack(oracle.voxels), oracle.C, 2, "bdeu").parents.tolist() == [4]


@pytest.mark.parametrize("timing", ["after", "during"])
def test_parent_cluster_and_jackknife(oracle, timing):
    words = pack(oracle.voxels[:, :4])
    rules = Rules(equivalence="mean", tolerance=0.2, timing=timing)
    path = search(words, oracle.C, 2, rules)
    assert path.parents.tolist() == [1]
    assert_allclose(path.scores[-1], -5.817111, atol=5e-7)
    assert [e.tolist() for e in path.equivalents] == [[0]]
    models = [tuple(sorted(p[:1])) for p in jackknife_paths(words, oracle.C, 2, rules)]
    assert models.count((1,)) == 11
    assert models.count((0,)) == 1


@pytest.mark.parametrize("timing", ["after", "during"])
def test_two_parents_of_a_conjunction(oracle, timing):
    words = pack(oracle.and_voxels)
    rules = Rules(equivalence="mean", tolerance=0.12, timing=timing)
    path = search(words, oracle.and_class, 2, rules)
    assert path.parents.tolist() == [0, 1]
    assert_allclose(path.scores, [-15.973370, -14.443517, -9.575400], atol=5e-7)
    assert [e.tolist() for e in path.equivalents] == [[2], [3]]
    models = [tuple(sorted(p)) for p in jackknife_paths(words, oracle.and_class, 2, rules)]
    assert models.count((0, 1)) == 18
    assert models.count((1, 2)) == 6
    bdeu = grow(words, oracle.and_class, 2, "bdeu")
    assert_allclose(bdeu.scores[:3], [-16.313980, -15.439818, -7.508921], atol=5e-7)


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(4, 30),
    n_classes=st.integers(2, 3),
    alpha=st.sampled_from([1.0, "bdeu"]),
    tolerance=st.sampled_from([None, 0.15, 0.3]),
    seed=st.integers(0, 10**6),
)
def test_search_and_jackknife_equal_real_refits(oracle, n, n_classes, alpha, tolerance, seed):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 2, (n, 3))
    X = np.column_stack([base[:, [0, 0, 0, 1, 1, 2]], rng.integers(0, 2, (n, 4))])
    X ^= rng.random(X.shape) < 0.12
    y = np.where(rng.random(n) < 0.15, rng.integers(0, n_classes, n), base.sum(axis=1) % n_classes)
    words = pack(X)
    timing = "during" if tolerance else "after"
    rules = Rules(alpha, 3, equivalence="mean", tolerance=tolerance or 0.1, timing=timing)
    path = search(words, y, n_classes, rules)
    parents, clusters = oracle.search(X, y, n_classes, alpha, 3, None, tolerance)
    assert path.parents.tolist() == parents
    if tolerance:
        assert [e.tolist() for e in path.equivalents] == clusters
    scores = [oracle.score(y, X[:, parents[:d]], n_classes, alpha) for d in range(len(parents) + 1)]
    assert_allclose(path.scores, scores, rtol=1e-11)
    for i, found in enumerate(jackknife_paths(words, y, n_classes, rules)):
        rows = np.delete(np.arange(n), i)
        assert list(found) == oracle.search(X, y, n_classes, alpha, 3, rows, tolerance)[0]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, "bdeu"])
def test_jackknife_equals_real_refits_beyond_one_word(oracle, alpha):
    rng = np.random.default_rng(1)
    X = np.repeat(rng.integers(0, 2, (119, 4)), 3, axis=1) ^ (rng.random((119, 12)) < 0.1)
    y = (X[:, 0] & X[:, 3]) ^ (rng.random(119) < 0.1)
    for i, found in enumerate(jackknife_paths(pack(X), y, 2, Rules(alpha, 4))):
        rows = np.delete(np.arange(119), i)
        assert list(found) == oracle.search(X, y, 2, alpha, 4, rows)[0]


def test_exclusive_or_is_not_found(oracle):
    X = oracle.and_voxels[:, :2]
    y = X[:, 0] ^ X[:, 1]
    words = pack(X)
    joint = class_cells(words, y, 2, [0, 1]).score - class_cells(words, y, 2, []).score
    assert_allclose(joint, 10.245536, atol=5e-7)
    assert_allclose(joint, oracle.score(y, X, 2, 1.0) - oracle.score(y, X[:, :0], 2, 1.0))
    assert np.all(gains(words, class_cells(words, y, 2, [])) <= 0)
    assert grow(words, y, 2).parents.size == 0


def test_more_parents_than_data_can_fill():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (9, 400)), rng.integers(0, 2, 9)
    path = grow(pack(X), y, 2, "bdeu", max_parents=12)
    assert len(path.parents) <= 12
    assert np.all(np.diff(path.scores) > 0)
    assert len(np.unique(path.parents)) == len(path.parents)


def test_duplicated_voxels_join_the_cluster_and_not_the_parents(oracle):
    X = np.column_stack([oracle.and_voxels, oracle.and_voxels, oracle.and_voxels])
    for alpha in (1.0, "bdeu"):
        rules = Rules(alpha=alpha, equivalence="mean", tolerance=0.1)
        path = search(pack(X), oracle.and_class, 2, rules)
        assert path.parents.tolist() == [0, 1]
        assert {5, 10} <= set(path.equivalents[0].tolist())
        first = [oracle.gain(X, oracle.and_class, [], v, 2, alpha) for v in range(15)]
        assert path.ties[0] == np.sum(np.isclose(first, max(first))) - 1
        assert path.ties[1] == 2


def test_bounds_on_parents_and_no_voxels_at_all(oracle):
    assert grow(pack(oracle.and_voxels), oracle.and_class, 2, max_parents=1).parents.tolist() == [0]
    assert grow(pack(oracle.and_voxels), oracle.and_class, 2, max_parents=0).parents.size == 0
    assert equivalence_of(pack(oracle.and_voxels), Rules(), np.ones(24, int))(0).tolist()[0]
