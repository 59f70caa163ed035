"""Boosting of many labellings: the models of `fit`, one by one, on scans fair and ugly."""

import numpy as np
import pytest
from sklearn.base import clone

from voxprior import SpatialBoostingClassifier, VoxelSpace
from voxprior.errors import InputError
from voxprior.validation import permutation_test
from voxprior.validation.batch import choose_test

SPACE = VoxelSpace.grid((4, 5, 3))


def data(n_classes, dtype=np.float32, n=18, n_times=1):
    """Scans with a constant, a copied and a coarse voxel, and labellings of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 60 * n_times))
    y = np.arange(n) % n_classes
    X[:, 2] += y
    X[:, 3], X[:, 5], X[:, 7] = 2.0, X[:, 4], np.round(X[:, 7])
    Y = np.column_stack([y, *(rng.permutation(y) for _ in range(4))])
    return X.astype(dtype), Y


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"regularization": 0.0, "tol": 0.0},
        {"kernel": "equalized", "loss_scale": "mean", "thresholds": 4},
        {"kernel": "identity", "backward": True, "regularization": 0.5},
        {"step": "conservative", "radius": 2.0, "calibrate": True},
        {"space": None, "step": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float32), (3, np.float64)])
def test_each_labelling_is_a_fit_of_its_own(parameters, n_classes, dtype):
    X, Y = data(n_classes, dtype)
    model = SpatialBoostingClassifier(**{"space": SPACE, "n_iterations": 30, **parameters})
    train, test = np.r_[0:9, 12:18], np.arange(9, 12)
    found = model.fit_many(model.prepare(X), train, Y[train], n_classes).decision_function(test)
    for b, y in enumerate(Y.T):
        one = clone(model).fit(X[train], y[train])
        np.testing.assert_array_equal(found[:, b], one.decision_function(X[test]))


def test_one_scan_of_a_class_several_values_per_voxel_and_rows_in_any_order():
    X, _ = data(2, n_times=2)
    y = np.zeros((18, 1), dtype=int)
    y[4] = 1
    model, train = SpatialBoostingClassifier(SPACE, n_iterations=10), np.arange(12)[::-1]
    found = model.fit_many(model.prepare(X), train, y[train], 2).decision_function([15, 13])
    one = clone(model).fit(X[:12], y[:12, 0])
    np.testing.assert_array_equal(found[:, 0], one.decision_function(X[[15, 13]]))


def test_a_labelling_of_one_class_is_refused():
    X, _ = data(2)
    model = SpatialBoostingClassifier(SPACE)
    with pytest.raises(InputError, match="nothing to tell apart"):
        model.fit_many(model.prepare(X), np.arange(6), np.zeros((6, 1), dtype=int), 2)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "batch"),
        ({"calibrate": True}, "batch"),
        ({"regularization": "auto"}, "refit"),
        ({"radius": [1.0, 2.0]}, "refit"),
        ({"early_stopping": True}, "refit"),
    ],
)
def test_what_inner_folds_choose_is_refitted(parameters, expected):
    model = SpatialBoostingClassifier(SPACE, **parameters)
    assert choose_test("auto", model, data(2)[0], None) == expected


def test_a_permutation_test_is_that_of_its_own_accuracy():
    X, Y = data(2)
    names, runs = np.array(["face", "house"])[Y[:, 0]], np.repeat(np.arange(6), 3)
    model = SpatialBoostingClassifier(SPACE, n_iterations=8)
    options = {"n_permutations": 12, "stop_after": None}
    quick = permutation_test(model, X, names, runs, score="accuracy", **options)
    slow = permutation_test(model, X, names, runs, score="accuracy", test="refit", **options)
    assert (quick.test, quick.decoder, quick.stands_for) == (
        "batch", "SpatialBoostingClassifier", ""
    )  # fmt: skip
    assert quick.observed == slow.observed
    np.testing.assert_array_equal(quick.null, slow.null)
