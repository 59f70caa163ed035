"""Gains of permuted labels: what they keep, what they decide, and the decision alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from voxprior import InverseTreeClassifier
from voxprior.models.network import estimator
from voxprior.models.network.bits import learn_cut, pack
from voxprior.models.network.chance import n_better_than_chance, null_gains, permutation_null
from voxprior.models.network.greedy import grow
from voxprior.models.network.relabelled import cut_and_pack, cut_and_pack_many
from voxprior.models.network.score import class_cells, gains


def test_null_permutes_within_configurations_only():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 30))
    y = X[:, 0] ^ (rng.random(60) < 0.1)
    words = pack(X)
    # labels equal the parent: within its configurations there is nothing left to permute
    assert_allclose(null_gains(words, X[:, 0], 2, [0], 1.0, 5, rng), 0.0, atol=1e-9)
    top = null_gains(words, y, 2, [], 1.0, 50, rng)
    assert top.shape == (50,)
    assert gains(words, class_cells(words, y, 2, []))[0] > top.max()


def test_verdict_is_plain():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (40, 300))
    y = X[:, 3]
    words = pack(X)
    scores = np.array([class_cells(words, y, 2, p).score for p in ([], [3], [3, 7])])
    null = permutation_null(words, y, 2, [3, 7], scores, 1.0, 39, rng)
    assert null.p_value[0] == pytest.approx(1 / 40)
    first, second = null.verdict().splitlines()
    assert "is better than chance" in first
    assert "no better than chance" in second
    assert "no parent" in permutation_null(words, y, 2, [], scores[:1], 1.0, 9, rng).verdict()
    stopped = permutation_null(
        words, rng.integers(0, 2, 40), 2, [3, 7], scores[[0, 0, 0]], 1.0, 39, rng, level=0.05
    )
    assert len(stopped.p_value) == 1


@pytest.mark.slow
def test_null_p_values_are_uniform_on_noise():
    p = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 2, (50, 400)), rng.permutation(np.arange(50) % 2)
        words = pack(X)
        cells = class_cells(words, y, 2, [])
        delta = gains(words, cells)
        v = int(np.argmax(delta))
        scores = np.array([cells.score, cells.score + delta[v]])
        p.append(permutation_null(words, y, 2, [v], scores, 1.0, 39, rng).p_value[0])
    assert 0.4 < np.mean(p) < 0.62
    assert np.mean(np.array(p) <= 0.05) < 0.14


def maps_with_parents(seed, n_classes=2, dtype=np.float32, n=90):
    """Continuous maps; two voxels drive the class, some are coarse, constant or twins."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 700))
    X[:, 100:200] = np.round(X[:, 100:200])
    X[:, 300], X[:, 301] = 2.5, X[:, 302]
    drive = (X[:, 40] > 0) + (X[:, 600] > 0.3) * (n_classes - 1)
    return X.astype(dtype), np.minimum(drive, n_classes - 1).astype(np.intp)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.5])
def test_the_decision_alone_is_that_of_the_whole_null(binary, level):
    passed = set()
    for seed in range(4):
        X, y = maps_with_parents(seed, n_classes=2 + seed % 2)
        y = np.random.default_rng(seed).permutation(y) if seed == 3 else y
        K = int(y.max()) + 1
        words = cut_and_pack(X, learn_cut(X, y, K, "class"))
        path = grow(words, y, K, 1.0, 4)
        binarize = None if binary else (lambda labels, X=X, K=K: cut_and_pack_many(X, labels, K))
        parents = path.parents.tolist()
        one, other = (np.random.default_rng(7) for _ in range(2))
        test = (words, y, K, parents, path.scores, 1.0, 39)
        whole = permutation_null(*test, one, level, binarize)
        d = n_better_than_chance(*test, other, level, binarize)
        assert d == np.sum(whole.p_value <= level)
        # What is drawn afterwards is the same too.
        assert one.random() == other.random()
        passed.add(d)
    assert level < 0.02 or len(passed) > 1


def test_a_known_null_of_the_first_step_is_taken():
    X, y = maps_with_parents(0)
    words = cut_and_pack(X, learn_cut(X, y, 2, "class"))
    path = grow(words, y, 2, 1.0, 1)
    test = (words, y, 2, path.parents.tolist(), path.scores, 1.0, 39, np.random.default_rng(0))
    assert n_better_than_chance(*test, 0.05, None, np.zeros(39)) == 1
    assert n_better_than_chance(*test, 0.05, None, np.full(39, 1e9)) == 0


@pytest.mark.parametrize(("dtype", "n_classes"), [(np.float32, 2), (float, 3)])
def test_doubt_is_that_of_fits_which_tell_the_whole_null(dtype, n_classes, monkeypatch):
    X, y = maps_with_parents(5, n_classes, dtype, n=48)
    names = np.array(["left", "right", "up"])[y]
    quick = InverseTreeClassifier(max_parents=3).fit(X, names)
    monkeypatch.setattr(estimator._HeldOutTree, "_tells_chance", True)
    whole = InverseTreeClassifier(max_parents=3).fit(X, names)
    assert quick.doubt_.keys() == whole.doubt_.keys()
    for name, value in quick.doubt_.items():
        assert_array_equal(value, whole.doubt_[name])
    assert_array_equal(quick.predict_proba(X), whole.predict_proba(X))
