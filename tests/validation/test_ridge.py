"""Ridge decoders of many labellings: one product against refitting, and the penalty by evidence."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from voxprior.blocks import gram_matrix
from voxprior.validation.ridge import (
    LOG_PENALTIES,
    EvidenceRidge,
    center_by_training,
    label_columns,
    ridge_operator,
)

# Three runs of two scans (first and second class) and three voxels.
X = np.array([[1, 2, 0], [3, 1, 1], [0, 1, 2], [2, 2, 0], [1, 0, 1], [4, 1, 3]], dtype=float)
SIGNS = np.array([-1.0, 1.0] * 3)
RUNS = np.repeat(np.arange(3), 2)
FOLDS = [(np.flatnonzero(run != RUNS), np.flatnonzero(run == RUNS)) for run in range(3)]


class TestExample:
    def test_first_fold(self):
        inner, cross = center_by_training(X @ X.T, *FOLDS[0])
        np.testing.assert_allclose(
            inner,
            [
                [3.3125, -1.1875, 1.0625, -3.1875],
                [-1.1875, 3.3125, -0.4375, -1.6875],
                [1.0625, -0.4375, 1.8125, -2.4375],
                [-3.1875, -1.6875, -2.4375, 7.3125],
            ],
        )
        np.testing.assert_allclose(
            cross, [[0.5625, 3.0625, 0.3125, -3.9375], [-2.4375, 1.0625, -0.6875, 2.0625]]
        )
        rows = ridge_operator(X @ X.T, FOLDS)[:2]
        np.testing.assert_allclose(
            rows,
            [
                [0, 0, 0.2574630542, 0.5992807904, 0.1996571273, -0.0564009718],
                [0, 0, -0.0063284561, 0.3842256315, 0.2428181170, 0.3792847075],
            ],
            atol=5e-11,
        )

    def test_held_out_values(self):
        values = ridge_operator(X @ X.T, FOLDS) @ SIGNS
        expected = [0.0857596370, 0.5270206781, -0.9042289104]
        expected += [-0.2319270483, -0.2546400920, 1.2843611562]
        np.testing.assert_allclose(values, expected, atol=5e-11)
        assert np.mean(SIGNS * values) == pytest.approx(0.4420940252, abs=5e-11)

    def test_all_eight_relabellings(self):
        """Swapping the labels of runs; the margins of complementary swaps are equal."""
        swaps = np.array([[(k >> (2 - run)) & 1 for run in range(3)] for k in range(8)])
        Y = SIGNS[:, None] * (1 - 2 * swaps[:, RUNS].T)
        margins = np.mean(Y * (ridge_operator(X @ X.T, FOLDS) @ Y), axis=0)
        first = [0.4420940252, -0.3362049747, 0.1118387208, -0.2177277714]
        np.testing.assert_allclose(margins, [*first, *first[::-1]], atol=5e-11)
        assert np.mean(margins >= margins[0] - 1e-12) == 2 / 8

    def test_by_evidence(self):
        ridge = EvidenceRidge()
        Y = (SIGNS > 0).astype(int)[:, None]
        values = [
            ridge.fit_many(X @ X.T, train, Y[train], 2).decision_function(test)[:, 0]
            for train, test in FOLDS
        ]
        expected = [0.4630141915, 0.7333859833, -0.7868852459]
        expected += [-0.2352941176, -0.2315225999, 1.1356497368]
        np.testing.assert_allclose(np.concatenate(values), expected, atol=5e-11)


def folds_of(n, k):
    return [(np.setdiff1d(np.arange(n), part), part) for part in np.array_split(np.arange(n), k)]


@pytest.mark.parametrize("n_voxels", [3, 40])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_is_refitted_ridge(rng, n_voxels, alpha):
    """Random relabellings, more and fewer voxels than scans, duplicated and constant voxels."""
    X = rng.normal(size=(20, n_voxels)) + 5
    X[:, 1], X[:, 2] = X[:, 0], 1.0
    Y = rng.choice([-1.0, 1.0], size=(20, 7))
    folds = folds_of(20, 4)
    values = ridge_operator(X @ X.T, folds, alpha) @ Y
    for (train, test), found in zip(folds, np.split(values, 4)):
        spread = ((X[train] - X[train].mean(axis=0)) ** 2).sum()
        model = Ridge(alpha * spread / len(train)).fit(X[train], Y[train])
        np.testing.assert_allclose(found, model.predict(X[test]), atol=1e-10)


def best_by_evidence(X, train, test, y):
    """Marginal likelihood of y ~ N(mean, σ²(λ⁻¹ C̃ + I)) by its full covariance, σ² at its best."""
    inside = X[train] - X[train].mean(axis=0)
    outside = X[test] - X[train].mean(axis=0)
    spectrum, vectors = np.linalg.eigh(inside @ inside.T)
    kept = spectrum > 1e-9 * spectrum.max()
    penalties = np.exp(LOG_PENALTIES) * spectrum[kept].mean()
    target = vectors[:, kept].T @ (y[train] - y[train].mean())
    logs = []
    for penalty in penalties:
        covariance = np.diag(spectrum[kept] + penalty)
        r = kept.sum()
        variance = target @ np.linalg.solve(covariance, target) / r
        logs.append(-0.5 * np.linalg.slogdet(variance * covariance)[1] - r / 2)
    model = Ridge(penalties[np.argmax(logs)]).fit(inside, y[train])
    return model.predict(outside)


@pytest.mark.parametrize("n_voxels", [4, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_evidence_is_that_of_every_relabelling(rng, n_voxels, dtype):
    X = np.asfortranarray(rng.normal(size=(24, n_voxels)).astype(dtype))
    X.flags.writeable = False
    Y = rng.integers(0, 2, size=(24, 6))
    ridge = EvidenceRidge()
    gram = ridge.prepare(X)
    for train, test in folds_of(24, 4):
        found = ridge.fit_many(gram, train, Y[train], 2).decision_function(test)
        for b in range(6):
            expected = best_by_evidence(X.astype(float), train, test, 2.0 * Y[:, b] - 1)
            np.testing.assert_allclose(found[:, b], expected, atol=1e-6)


class TestUgly:
    def test_scans_all_alike_say_nothing(self):
        ridge, Y = EvidenceRidge(), np.array([[0], [1], [1], [0]])
        many = ridge.fit_many(ridge.prepare(np.ones((4, 3))), np.arange(3), Y[:3], 2)
        np.testing.assert_allclose(many.decision_function(np.array([3])), 1 / 3)

    def test_one_class_left_in_training(self, rng):
        ridge = EvidenceRidge()
        gram = ridge.prepare(rng.normal(size=(5, 9)))
        values = ridge.fit_many(gram, np.arange(4), np.ones((4, 1), int), 2).decision_function(
            np.array([4])
        )
        np.testing.assert_allclose(values, 1.0)

    def test_more_classes_are_one_against_the_rest(self, rng):
        ridge, Y = EvidenceRidge(), rng.integers(0, 3, size=(15, 4))
        gram, train, test = (
            ridge.prepare(rng.normal(size=(15, 30))),
            np.arange(10),
            np.arange(10, 15),
        )
        values = ridge.fit_many(gram, train, Y[train], 3).decision_function(test)
        assert values.shape == (5, 4, 3)
        numbers = ridge.fit_many(gram, train, (Y[train] == 2).astype(float), 0)
        np.testing.assert_allclose(values[..., 2], numbers.decision_function(test))

    def test_gram_by_blocks(self, rng, monkeypatch):
        monkeypatch.setattr("voxprior.validation.ridge.BLOCK", 10)
        X = rng.normal(size=(4, 23)).astype(np.float32)
        np.testing.assert_allclose(gram_matrix(X), X.astype(float) @ X.T.astype(float))

    def test_labels_of_two_classes_are_signs(self):
        assert label_columns(np.array([[0, 1]]), 2).tolist() == [[-1.0, 1.0]]
