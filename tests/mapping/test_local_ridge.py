"""Decoders of neighbourhoods: operators against refitted ridge, scores against plain loops."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from voxprior.mapping.local_ridge import (
    labellings,
    neighborhood_scores,
    operators,
    predicted,
    standardized,
)
from voxprior.mapping.vicinity import Neighborhoods
from voxprior.validation.ridge import ridge_operator


def one_set(members):
    return Neighborhoods(np.asarray(members), np.array([0, len(members)]))


FIRST = np.array([0])


def test_example():
    """Voxels 1 and 3 of three runs of two scans, centred by run; 0.3 of a voxel's squares."""
    X = np.array([[1, 2, 0], [3, 1, 1], [0, 1, 2], [2, 2, 0], [1, 0, 1], [4, 1, 3]], dtype=float)
    runs, signs = np.repeat(np.arange(3), 2), np.array([-1.0, 1.0] * 3)
    X -= np.array([X[runs == run].mean(axis=0) for run in range(3)])[runs]
    np.testing.assert_allclose(X[:, [0, 2]].T @ X[:, [0, 2]], [[8.5, 2], [2, 4.5]])
    values = operators(X, one_set([0, 2]), FIRST, runs, 0.3 * 4 / 2)[0] @ signs
    half = np.array([0.5764670803, 0.2601511689, 1.1281224819])
    np.testing.assert_allclose(values, np.repeat(half, 2) * signs, atol=1e-6)


def naive_values(x, Y, fold, alpha):
    """Ridge of scikit-learn for every fold; penalty relative to the squared length of scans."""
    values = np.zeros_like(Y, dtype=float)
    for g in np.unique(fold):
        train, test = fold != g, fold == g
        spread = ((x[train] - x[train].mean(axis=0)) ** 2).sum()
        model = Ridge(alpha * spread / train.sum()).fit(x[train], Y[train])
        values[test] = model.predict(x[test]).reshape(values[test].shape)
    return values


@pytest.mark.parametrize("n_voxels", [1, 6, 20, 21, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operator_is_refitted_ridge(rng, n_voxels, dtype):
    """Fewer voxels than scans, as many, more; unequal folds, a large mean, duplicated voxels."""
    X = np.asfortranarray((rng.normal(size=(20, n_voxels)) + 3).astype(dtype))
    X[:, -1] = X[:, 0]
    X.flags.writeable = False
    fold = np.sort(rng.integers(0, 4, size=20))
    fold[:4] = np.arange(4)
    Y = rng.choice([-1.0, 1.0], size=(20, 3))
    M = operators(X, one_set(np.arange(n_voxels)), FIRST, fold, 0.3)[0]
    mean = np.array([Y[fold != g].mean(axis=0) for g in fold])
    np.testing.assert_allclose(M @ Y + mean, naive_values(X.astype(float), Y, fold, 0.3), atol=2e-5)


def test_all_voxels_are_the_whole_decoder(rng):
    """One neighbourhood of all voxels is the ridge of `ridge_operator`."""
    X, fold = rng.normal(size=(18, 40)), np.repeat(np.arange(3), 6)
    folds = [(np.flatnonzero(fold != g), np.flatnonzero(fold == g)) for g in range(3)]
    Y = rng.choice([-1.0, 1.0], size=(18, 4))
    local = operators(X, one_set(np.arange(40)), FIRST, fold, 1.0)[0] @ Y
    local += np.array([Y[fold != g].mean(axis=0) for g in fold])
    np.testing.assert_allclose(local, ridge_operator(X @ X.T, folds, 1.0) @ Y, atol=1e-5)


def naive_score(values, codes, fold, score, pooled):
    """Values (n, K) of one labelling."""
    if score == "margin":
        return np.mean([v[c] - np.delete(v, c).mean() for v, c in zip(values, codes)])
    if score == "accuracy":
        return np.mean(values.argmax(axis=1) == codes)
    areas = []
    for k in range(values.shape[1]):
        won, pairs = 0.0, 0
        for g in [None] if pooled else np.unique(fold):
            rows = np.ones(len(fold), bool) if g is None else fold == g
            positive = codes[rows] == k
            n = positive.sum() * (~positive).sum()
            if n:
                won += n * roc_auc_score(positive, values[rows, k])
                pairs += n
        areas.append(won / pairs)
    return np.mean(areas)


@pytest.mark.parametrize("score", ["accuracy", "auc", "margin"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("pooled", [True, False])
def test_scores_are_plain_loops(rng, score, n_classes, pooled):
    X, fold = rng.normal(size=(24, 9)), np.repeat(np.arange(4), 6)
    codes = np.array(
        [rng.permutation(np.tile(np.arange(n_classes), 24 // n_classes)) for _ in "abc"]
    )
    labels = labellings(codes, fold, n_classes, pooled)
    near = Neighborhoods(np.array([0, 1, 2, 4, 5, 6, 7, 8]), np.array([0, 3, 8]))
    found, told = neighborhood_scores(X, near, np.arange(2), labels, score, 0.3)
    expected = np.empty((2, 3))
    for c in range(2):
        for b in range(3):
            Y = np.eye(n_classes)[codes[b]]
            if n_classes == 2:
                Y = Y - Y[:, ::-1]
            values = naive_values(X[:, near.members(c)], Y, fold, 0.3)
            expected[c, b] = naive_score(
                values / (2 if n_classes == 2 else 1), codes[b], fold, score, pooled
            )
    if score == "margin":
        expected = expected / expected.std(axis=1, keepdims=True)
    np.testing.assert_allclose(told, expected[:, 0], rtol=1e-4, atol=1e-5)
    if score == "accuracy":  # as told, but for less than a quarter of a scan
        assert np.abs(found - expected).max() < 0.25 / len(fold)
        return
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_blocks_do_not_change_scores(rng, monkeypatch):
    X, fold = rng.normal(size=(12, 8)), np.repeat(np.arange(3), 4)
    codes = np.array([rng.permutation(np.tile([0, 1], 6)) for _ in range(9)])
    labels = labellings(codes, fold, 2, False)
    near = Neighborhoods(np.tile(np.arange(8), 5), np.arange(6) * 8)
    whole = neighborhood_scores(X, near, np.arange(5), labels, "accuracy", 0.3).compared
    monkeypatch.setattr("voxprior.mapping.local_ridge.BUFFER", 4 * 12 * 12 * 2)
    np.testing.assert_array_equal(
        neighborhood_scores(X, near, np.arange(5), labels, "accuracy", 0.3).compared, whole
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_voxels", [2, 30])
def test_constant_voxels_are_chance(n_classes, n_voxels):
    codes = np.tile(np.arange(n_classes), 4)[None]
    labels = labellings(codes, np.repeat(np.arange(4), n_classes), n_classes, False)
    X = np.zeros((4 * n_classes, n_voxels))
    scores = {
        score: neighborhood_scores(
            X, one_set(np.arange(n_voxels)), FIRST, labels, score, 0.3
        ).observed[0]
        for score in ("accuracy", "auc", "margin")
    }
    assert scores == pytest.approx({"accuracy": 1 / n_classes, "auc": 0.5, "margin": 0.0})


def test_predictions_of_the_true_labels(rng):
    X, fold = rng.normal(size=(12, 3)), np.repeat(np.arange(3), 4)
    for n_classes in (2, 3):
        codes = np.array([rng.permutation(np.tile(np.arange(n_classes), 12 // n_classes))])
        labels = labellings(codes, fold, n_classes, False)
        near = one_set(np.arange(3))
        values = predicted(operators(X, near, FIRST, fold, 0.3)[0], labels)
        accuracy = neighborhood_scores(X, near, FIRST, labels, "accuracy", 0.3).observed[0]
        assert np.mean(values.argmax(axis=1) == codes[0]) == pytest.approx(accuracy)


def test_margins_that_do_not_vary():
    assert standardized(np.ones((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


def test_one_class_nowhere_pairs(rng):
    """Folds of one class each have no pairs, unless scans of all folds are paired."""
    codes, fold = np.repeat([0, 1], 4)[None], np.repeat(np.arange(4), 2)
    X = rng.normal(size=(8, 2))
    inside = neighborhood_scores(
        X, one_set([0, 1]), FIRST, labellings(codes, fold, 2, False), "auc", 1.0
    )
    assert inside.observed[0] == 0.5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equal_accuracies_are_ordered_by_the_margin(rng, n_classes):
    """Labellings of one set: first by accuracy, then by the margin of the same values."""
    X, fold = rng.normal(size=(12, 4)), np.repeat(np.arange(4), 3)
    codes = np.array([rng.permutation(np.arange(12) % n_classes) for _ in range(60)])
    labels, near = labellings(codes, fold, n_classes, False), one_set(np.arange(4))
    found = {
        score: neighborhood_scores(X, near, FIRST, labels, score, 0.3).compared[0]
        for score in ("accuracy", "margin")
    }
    accuracy = np.round(found["accuracy"] * 12)
    assert len(np.unique(accuracy)) < 12 < len(np.unique(found["accuracy"]))
    order = np.argsort(found["accuracy"])
    higher, margin = np.diff(accuracy[order]), np.diff(found["margin"][order])
    assert ((higher > 0) | ((higher == 0) & (margin > -1e-4))).all()
