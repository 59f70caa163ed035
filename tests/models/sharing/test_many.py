"""Many labellings at once: the models of `fit`, one by one, on scans fair and ugly."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.errors import InputError
from voxprior.models.sharing import batch
from voxprior.validation import permutation_test
from voxprior.validation.batch import choose_test

SPACE = VoxelSpace.grid((4, 3, 3))
RULES = (
    {},
    {"means": "none"},
    {"means": "all", "tau_ddof": 1},
    {"variances": "median", "connectivity": 6},
    {"variances": "mean", "tau_floor": 0.2},
    {"shrinkage": "james-stein", "ddof": 0},
    {"shrinkage": None, "tau_ddof": 1},
    {"priors": "given"},
)


def scans(kind, n=14, n_voxels=36, n_times=1, seed=0):
    """Scans with a constant, a duplicated and a tiny voxel; raw, far from zero, or centred."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_times * n_voxels)) * rng.uniform(0.3, 3, n_times * n_voxels)
    X[:, 3], X[:, 5], X[:, 7] = 2.0, X[:, 4], X[:, 7] * 1e-6
    if kind == "far":
        X += 1e3 * rng.normal(size=X.shape[1])
    return X - X.mean(axis=0) if kind == "centred" else X


def labellings(n, n_classes, n_labellings=4, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(np.arange(n) % n_classes) for _ in range(n_labellings)], 1)


def one_by_one(model, X, train, Y, test):
    """Log-probabilities of a fit each, relative to class 0."""
    values = [clone(model).fit(X[train], y).predict_joint_log_proba(X[test]) for y in Y.T]
    return np.stack([value - value[:, :1] for value in values], axis=1)


def agree(model, X, train, Y, test, n_classes, rtol=1e-9):
    many = model.fit_many(model.prepare(X), train, Y, n_classes).decision_function(test)
    expected = one_by_one(model, X, train, Y, test)
    expected = expected[..., 1] if n_classes == 2 else expected
    np.testing.assert_allclose(many, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("kind", ["raw", "far", "centred"])
def test_every_rule_gives_the_models_of_fit(rules, kind, n_classes, monkeypatch):
    monkeypatch.setattr(batch, "LANES", 3)  # a whole block, and the rest
    monkeypatch.setattr(batch, "FEATURES", 10)
    if "priors" in rules:
        rules = {"priors": np.arange(1, n_classes + 1) / sum(range(n_classes + 1))}
    X, test = scans(kind), np.arange(10, 14)
    train = np.arange(14 if kind == "centred" else 10)
    Y = labellings(len(train), n_classes)
    agree(FeatureSharingNB(SPACE, **rules), X, train, Y, test, n_classes)


def test_windows_weights_and_lonely_voxels():
    """Volumes over time; groups by weights, some of one member and some of none."""
    rng = np.random.default_rng(1)
    weights = sparse.lil_array(rng.random((9, 9)) * (rng.random((9, 9)) < 0.2))
    weights[0], weights[1] = 0, 0
    weights[1, 2] = 3.0
    X, train, Y = scans("raw", n_voxels=9, n_times=4), np.arange(11), labellings(11, 2)
    model = FeatureSharingNB(means=sparse.csr_array(weights), tau_ddof=1)
    agree(model, X, train, Y, np.arange(11, 14), 2)
    agree(FeatureSharingNB(), X, train, Y, np.arange(11, 14), 2)


@pytest.mark.parametrize("flat", [0, 1])
def test_a_class_that_is_flat_where_the_mean_of_all_scans_is_not(flat):
    """Its variance within groups is that of the other class's deviations, cancelled."""
    X, Y = scans("far"), (np.arange(10) % 2)[:, None]
    X[:, 7] = X[:, 6]  # a voxel that hardly varies has no variance beside such differences
    X[:10][Y[:, 0] == flat] = 7.0
    agree(FeatureSharingNB(SPACE), X, np.arange(10), Y, np.arange(10, 14), 2, rtol=1e-8)


@pytest.mark.parametrize("size", range(1, 10))
def test_groups_of_any_size(size):
    """Compiled sums take members four at a time."""
    rng = np.random.default_rng(size)
    weights = np.stack([rng.permutation(np.arange(9) < size) for _ in range(9)]) * rng.random(
        (9, 9)
    )
    model = FeatureSharingNB(means=sparse.csr_array(weights))
    agree(model, scans("raw", n_voxels=9), np.arange(10), labellings(10, 2), np.arange(10, 14), 2)


def test_two_classes_hold_two_arrays_of_all_features():
    room = batch.workspace(2, 5000, 8)
    assert room.deviations.shape == (1, 5000, 8)
    assert room.weights.size == batch.FEATURES * 8
    assert batch.workspace(3, 50, 8).deviations.shape == (3, 50, 8)


@pytest.mark.parametrize("rules", [{}, {"means": "none"}, {"shrinkage": "james-stein"}], ids=str)
def test_one_scan_of_each_class(rules):
    X, Y = scans("raw")[:8], np.array([[0, 1], [1, 2], [2, 0]])
    agree(FeatureSharingNB(SPACE, **rules), X, np.arange(3), Y, np.arange(3, 8), 3)


def test_single_precision_and_unequal_classes():
    X = scans("raw").astype(np.float32)
    Y = np.column_stack([np.arange(10) < 3, np.arange(10) % 5 == 0]).astype(int)
    agree(FeatureSharingNB(SPACE), X, np.arange(10), Y, np.arange(10, 14), 2, rtol=1e-5)


def test_a_class_without_a_training_scan_is_never_ahead_for_sure():
    X, train = scans("raw"), np.arange(10)
    Y = np.column_stack([np.zeros(10, int), np.arange(10) % 2])
    model = FeatureSharingNB(SPACE)
    values = model.fit_many(model.prepare(X), train, Y, 2).decision_function(np.arange(10, 14))
    assert np.isfinite(values).all()
    other = model.fit_many(model.prepare(X), train, Y[:, 1:], 2)
    np.testing.assert_allclose(values[:, 1:], other.decision_function(np.arange(10, 14)))


@pytest.mark.parametrize("variances", ["moderated", "median", "mean"])
def test_scans_without_variance_are_refused(variances):
    model = FeatureSharingNB(SPACE, variances=variances)
    flat = np.tile([[0.0], [1.0]], (4, 36))
    many = model.fit_many(model.prepare(flat), np.arange(6), np.tile([0, 1], 3)[:, None], 2)
    with pytest.raises(InputError, match="variance is 0"):
        many.decision_function(np.arange(6, 8))


def test_a_median_of_zero_and_too_few_scans_are_refused():
    model, y = FeatureSharingNB(SPACE, variances="median"), np.tile([0, 1], 3)[:, None]
    X = np.tile([[0.0], [1.0]], (4, 36))
    X[:, 0] = np.arange(8) ** 2
    with pytest.raises(InputError, match="median"):
        model.fit_many(model.prepare(X), np.arange(6), y, 2).decision_function(np.arange(6, 8))
    with pytest.raises(InputError, match="nothing to estimate"):
        model.fit_many(model.prepare(X), np.arange(1), y[:1], 2).decision_function(np.arange(6, 8))


@pytest.mark.parametrize(
    "rules",
    [{"variance_scope": "class"}, {"variances": "none"}, {"mean_map": "affine"},
     {"variances": "median", "median_correction": True}],
)  # fmt: skip
def test_other_rules_are_refitted(rules):
    model = FeatureSharingNB(SPACE, **rules)
    assert not hasattr(model, "fit_many")
    assert choose_test("auto", model, scans("raw"), None) == "refit"


def test_a_permutation_test_takes_them():
    runs, y = np.repeat(np.arange(5), 4), np.tile(["rest", "task"], 10)
    X = np.random.default_rng(0).normal(size=(20, 36)) + 0.4 * (y == "task")[:, None]
    model = FeatureSharingNB(SPACE)
    found = permutation_test(model, X, y, runs, n_permutations=49)
    assert found.test == "batch"
    refit = permutation_test(model, X, y, runs, n_permutations=49, test="refit", stop_after=None)
    same = permutation_test(model, X, y, runs, n_permutations=49, score="accuracy", test="batch")
    np.testing.assert_allclose(same.null, refit.null)
    assert same.p_value == refit.p_value
