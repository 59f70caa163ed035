"""Random fields of many labellings at once, against one fit after the other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from voxprior import RandomFieldClassifier
from voxprior.errors import InputError
from voxprior.models.fields import batch
from voxprior.models.fields.nodes import best_features, correlation_score
from voxprior.validation import permutation_test


def data(n_classes, dtype=np.float32, n=30, n_voxels=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_voxels))
    y = np.arange(n) % n_classes
    X[:, 5] += 2 * y
    X[:, 6], X[:, 7] = X[:, 5], 3.0  # a copy, and a constant
    Y = np.column_stack([y, *(rng.permutation(y) for _ in range(6))])
    return X.astype(dtype), Y


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"gamma": 3.0, "compression": None},
        {"ranking": "mutual_information", "standardize": False, "priors": "uniform"},
        {"nodes": [3, 5, 9, 20], "threshold": "tuned"},
        {"blocks": np.arange(80) // 2, "normalize": False, "bias": None},
        {"min_score": 0.2, "n_nodes": None, "mode": "each", "n_pseudo": 3},
    ],
)
@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float32), (3, np.float64)])
def test_each_labelling_is_a_fit_of_its_own(parameters, n_classes, dtype):
    X, Y = data(n_classes, dtype)
    model = RandomFieldClassifier(**{"n_nodes": 12, **parameters})
    train, test = np.arange(24), np.arange(24, 30)
    found = model.fit_many(model.prepare(X), train, Y[train], n_classes).decision_function(test)
    fixed = {"temperature": 1.0}
    fixed |= {} if "gamma" in parameters else {"gamma": 10.0, "compression": 1.0}
    for b, y in enumerate(Y.T):
        one = clone(model).set_params(**fixed).fit(X[train], y[train])
        assert_allclose(found[:, b], one.decision_function(X[test]), rtol=1e-6, atol=1e-8)


def test_correlations_of_many_labellings(monkeypatch):
    X, Y = data(3)
    wanted = np.array([correlation_score(X, y) for y in Y.T])
    assert_allclose(batch.many_correlations(X, Y, 3), wanted, atol=1e-12)
    monkeypatch.setattr(batch, "MOST_SCORES", 3 * 80 * 2)
    in_parts = list(batch._scores(X, Y, 3, "correlation"))
    assert_allclose(in_parts, wanted, atol=1e-12)


def test_a_class_of_one_scan_is_refused():
    X, _ = data(2)
    model = RandomFieldClassifier(n_nodes=5)
    labels = np.zeros((24, 1), dtype=int)
    labels[3] = 1
    with pytest.raises(InputError, match="at least 2 scans of every class"):
        model.fit_many(model.prepare(X), np.arange(24), labels, 2)


@pytest.mark.parametrize("n_nodes", [1, 3, 7, 9, None])
@pytest.mark.parametrize("min_score", [None, 0.5])
def test_best_features_are_those_of_a_sort(n_nodes, min_score):
    score = np.array([0.5, 0.9, 0.5, 0.1, 0.9, 0.5, 0.7, 0.5])
    order = np.argsort(-score, kind="stable")
    if min_score is not None:
        order = order[score[order] >= min_score]
    wanted = np.sort(order if n_nodes is None else order[:n_nodes])
    assert best_features(score, n_nodes, min_score).tolist() == wanted.tolist()


def test_a_permutation_test_takes_it():
    X, Y = data(2)
    model = RandomFieldClassifier(n_nodes=8)
    runs = np.repeat(np.arange(5), 6)
    test = permutation_test(model, X, Y[:, 0], runs, n_permutations=20)
    assert test.test == "batch"
    assert test.p_value == pytest.approx(1 / 21)
    assert "strength" in test.statement
