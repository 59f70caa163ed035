"""Networks of many labellings at once, against one fit after the other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from voxprior import InverseTreeClassifier
from voxprior.models.network import batch
from voxprior.models.network.bits import learn_cut
from voxprior.models.network.relabelled import cut_and_pack
from voxprior.models.network.score import class_cells, top_gains
from voxprior.validation import permutation_test


def data(n_classes, dtype=np.float32, n=40, n_voxels=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_voxels))
    y = np.arange(n) % n_classes
    X[:, 5] += 3 * y
    X[:, 6], X[:, 7] = X[:, 5], 3.0  # a copy, and a constant
    X[:, 8] = np.round(X[:, 8])
    Y = np.column_stack([y, *(rng.permutation(y) for _ in range(5))])
    if dtype is bool:
        return X > 1.5, Y
    return X.astype(dtype), Y


def log_odds(model, X):
    log_p = np.log(model.predict_proba(X))
    return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p


@pytest.mark.parametrize(
    "parameters",
    [
        {"select": "gain", "max_parents": 3},
        {"select": "jackknife", "max_parents": 2},
        {"select": "gain", "cut": "median", "state": "hard", "max_parents": 2},
        {"select": "gain", "cut": 0.3, "latent": None, "max_parents": 2, "timing": "during"},
    ],
)
@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float32), (3, np.float64), (2, bool)])
def test_each_labelling_is_a_fit_of_its_own(parameters, n_classes, dtype, monkeypatch):
    X, Y = data(n_classes, dtype)
    monkeypatch.setattr(batch, "MOST_BYTES", 8 * 300 * 4)
    model, train, test = InverseTreeClassifier(**parameters), np.arange(34), np.arange(34, 40)
    found = model.fit_many(model.prepare(X), train, Y[train], n_classes).decision_function(test)
    for b, y in enumerate(Y.T):
        one = clone(model).set_params(doubt=None).fit(X[train], y[train])
        assert_allclose(found[:, b], log_odds(one, X[test]), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, bool])
def test_first_parents_are_held_against_one_null(dtype):
    X, Y = data(2, dtype)
    model, train = InverseTreeClassifier(), np.arange(34)
    many = model.fit_many(model.prepare(X), train, Y[train], 2)
    for one, y in zip(many.labellings, Y[train].T):
        # The same permutations of the sorted labels for everyone, cut and scored one by one.
        like = np.tile(np.sort(y), (39, 1))
        labels = model._rng().permuted(like, axis=1)
        nulls = []
        for k in labels:
            words = cut_and_pack(X[train], learn_cut(X[train], k, 2, "auto"))
            nulls.append(top_gains(words, [class_cells(words, k, 2, [])])[0])
        p = (1 + np.sum(np.array(nulls) >= np.diff(one.tree.scores)[0] - 1e-9)) / 40
        assert one.tree.validated == (p <= 0.05)
    assert many.labellings[0].tree.validated
    assert not all(one.tree.validated for one in many.labellings)


def test_chance_is_drawn_once_for_the_same_scans(monkeypatch):
    X, Y = data(2)
    model, train = InverseTreeClassifier(), np.arange(34)
    prepared = model.prepare(X)
    whole = model.fit_many(prepared, train, Y[train], 2).decision_function([34, 35])
    monkeypatch.setattr(batch, "null_gains", None)
    again = [model.fit_many(prepared, train, Y[train, b : b + 1], 2) for b in range(6)]
    parts = [many.decision_function([34, 35]) for many in again]
    np.testing.assert_array_equal(np.hstack(parts), whole)
    with pytest.raises(TypeError):
        model.fit_many(prepared, train + 1, Y[train], 2)


def test_a_network_without_parents_says_the_frequencies():
    X = np.ones((12, 4))
    Y = np.tile([0, 0, 1], 4)[:, None]
    model = InverseTreeClassifier()
    values = model.fit_many(model.prepare(X), np.arange(9), Y[:9], 2).decision_function([9, 10])
    one = clone(model).set_params(doubt=None).fit(X[:9], Y[:9, 0])
    assert_allclose(values[:, 0], log_odds(one, X[9:11]))


def test_a_permutation_test_takes_it():
    X, Y = data(2)
    runs = np.repeat(np.arange(5), 8)
    found = permutation_test(InverseTreeClassifier(), X, Y[:, 0], runs, n_permutations=20)
    assert found.test == "batch"
    assert found.p_value == pytest.approx(1 / 21)
    joint = InverseTreeClassifier(new_samples="joint")
    assert not hasattr(joint, "fit_many")
