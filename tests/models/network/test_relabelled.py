"""Continuous voxels of many labellings at once, against one labelling at a time."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from voxprior import InverseTreeClassifier
from voxprior.models.network import relabelled
from voxprior.models.network.bits import class_cuts, learn_cut, pack
from voxprior.models.network.chance import null_gains
from voxprior.models.network.relabelled import cut_and_pack, cut_and_pack_many, not_above
from voxprior.models.network.score import class_cells, gains, top_gains, top_gains_each


def ugly(n, n_voxels, dtype, seed=0):
    """Fine, coarse, constant, doubled and huge values."""
    X = 3 * np.random.default_rng(seed).normal(size=(n, n_voxels))
    X[:, : n_voxels // 3] = np.round(X[:, : n_voxels // 3])
    X[:, 3], X[:, 4], X[:, 6] = 0.1, -7.0, X[:, 5]
    X[:, 7] *= 1e4
    return X.astype(dtype)


def naive_words(X, y, n_classes):
    means = [X[y == c].astype(float).mean(axis=0) for c in range(n_classes) if (y == c).any()]
    cut = (np.min(means, axis=0) + np.max(means, axis=0)) / 2
    return pack((X.astype(float) > cut) & (X[0] != X).any(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize(("n", "n_classes"), [(2, 2), (5, 3), (64, 2), (130, 5)])
def test_words_are_those_of_one_labelling_at_a_time(dtype, n, n_classes, monkeypatch):
    X, rng = ugly(n, 700, dtype), np.random.default_rng(1)
    start = np.arange(n) % n_classes
    labels = np.stack([start, *(rng.permutation(start) for _ in range(60))])
    monkeypatch.setattr(relabelled, "BLOCK_BYTES", 61 * 8 * 200)
    blocks = list(cut_and_pack_many(X, labels, n_classes))
    assert len(blocks) > 1
    words = np.concatenate(blocks, axis=1)
    for row, y in zip(words, labels):
        assert_array_equal(row, cut_and_pack(X, learn_cut(X, y, n_classes, "class")))
    if dtype != np.int16:
        # Means of coarse values can fall on a value, where another order of sums may differ.
        assert_array_equal(words[0, 300:], naive_words(X, start, n_classes)[300:])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, bool])
def test_given_cuts_are_compared_in_double_precision(dtype):
    X = np.clip(ugly(70, 300, float), -6e4, 6e4)  # what 16 bits can hold
    X = (X > 0 if dtype is bool else X).astype(dtype)
    for cut in (np.array([0.1]), X.mean(axis=0, dtype=float), X[3].astype(float)):
        assert_array_equal(cut_and_pack(X, cut), pack(X.astype(float) > cut))


def test_any_layout_of_the_data(tmp_path):
    X, labels = ugly(70, 300, np.float32), np.tile([[0, 1]], (3, 35))
    wanted = next(cut_and_pack_many(X, labels, 2))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for form in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], mapped):
        assert_array_equal(next(cut_and_pack_many(form, labels, 2)), wanted)


def test_cuts_do_not_depend_on_company_and_a_missing_class_has_mean_zero():
    X, rng = ugly(40, 600, np.float64), np.random.default_rng(2)
    labels = rng.integers(0, 3, (80, 40))
    together = class_cuts(X, labels, 3)
    assert_array_equal(together[[70]], class_cuts(X, labels[[70]], 3))
    assert_array_equal(together[:, 510:520], class_cuts(X[:, 510:520], labels, 3))
    two = class_cuts(X, np.repeat([[0, 1]], 20, axis=1), 3)[0]
    means = np.stack([X[:20].mean(axis=0), X[20:].mean(axis=0), np.zeros(600)])
    middle = (means.min(axis=0) + means.max(axis=0)) / 2
    varies = np.ptp(X, axis=0) > 0
    np.testing.assert_allclose(two[varies], middle[varies], rtol=1e-9, atol=1e-9)
    assert_array_equal(two[~varies], X[0, ~varies])


def test_single_precision_compares_as_double():
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000).astype(np.float32)
    for cut in (x.astype(float), x + 1e-12, x - 1e-12, rng.normal(size=2000)):
        assert_array_equal(x > not_above(cut, x.dtype), x.astype(float) > cut)


def test_top_gains_of_own_voxels():
    X, rng = ugly(60, 5000, np.float32), np.random.default_rng(4)
    labels = rng.integers(0, 2, (5, 60))
    words = [cut_and_pack(X, learn_cut(X, y, 2, "class")) for y in labels]
    cell_sets = [class_cells(w, y, 2, [11]) for w, y in zip(words, labels)]
    wanted = [gains(w, f).max() for w, f in zip(words, cell_sets)]
    found = top_gains_each(cut_and_pack_many(X, labels, 2), cell_sets)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    one_by_one = [top_gains(w, [f])[0] for w, f in zip(words, cell_sets)]
    assert_array_equal(found, one_by_one)
    assert_array_equal(top_gains_each(iter([]), cell_sets), 0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_null_and_fit_are_those_of_one_relabelling_at_a_time(n_classes, monkeypatch):
    X = ugly(48, 900, np.float32)
    y = np.arange(48) % n_classes
    X[:, 20] += y
    words = cut_and_pack(X, learn_cut(X, y, n_classes, "class"))

    def one_by_one(labels):
        yield np.stack([cut_and_pack(X, learn_cut(X, k, n_classes, "class")) for k in labels])

    def null(binarize):
        return null_gains(words, y, n_classes, [20], 1.0, 9, np.random.default_rng(0), binarize)

    assert_array_equal(null(lambda k: cut_and_pack_many(X, k, n_classes)), null(one_by_one))
    model = InverseTreeClassifier(doubt=None).fit(X, y)
    monkeypatch.setattr(InverseTreeClassifier, "_binarizer", lambda self, X: one_by_one)
    other = InverseTreeClassifier(doubt=None).fit(X, y)
    assert model.verdict_ == other.verdict_
    assert_array_equal(model.predict_proba(X), other.predict_proba(X))
