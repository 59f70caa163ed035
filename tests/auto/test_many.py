"""Many labellings at once are the fits of each, one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior import AutoClassifier, VoxelSpace
from voxprior.auto import many as module
from voxprior.validation import permutation_test

SPACE = VoxelSpace.grid((4, 3))
ROWS, REST = np.arange(16), np.arange(16, 20)


def scans(dtype, seed=0):
    """Scans with a constant voxel, one that is there twice, and a scan that is there twice."""
    x = np.random.default_rng(seed).normal(size=(20, 12)) + 5
    x[:, 2], x[:, 3], x[1] = 7.0, x[:, 4], x[0]
    x[::2, :3] += 1
    return x.astype(dtype)


def labellings(n_classes, seed=1):
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(np.arange(20) % n_classes) for _ in range(5)]
    rare = np.zeros(20, int)
    rare[5 : 5 + n_classes - 1] = np.arange(1, n_classes)  # one scan of each class but the first
    return np.column_stack([*columns, columns[0], rare])


def log_probabilities(x, y, groups, n_classes, space):
    """One fit; classes without a scan have next to no probability."""
    part = None if groups is None else groups[ROWS]
    model = AutoClassifier(space).fit(x[ROWS], y[ROWS], part)
    values = np.full((len(REST), n_classes), np.log(1e-15))
    values[:, model.classes_] = np.log(model.predict_proba(x[REST]))
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("design", ["alone", "crossing", "centred", "within", "one"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_are_one_by_one(n_classes, design, dtype):
    x, Y = scans(dtype), labellings(n_classes)
    groups = {"alone": None, "one": np.zeros(20)}.get(design, np.array(list("abcd") * 5))
    if design == "centred":
        for g in "abcd":
            x[groups == g] -= x[groups == g].mean(axis=0)
    if design == "within":
        Y[:, :4] = (np.arange(20) % 4 % n_classes)[:, None]
    space = SPACE if n_classes == 2 else None
    model = AutoClassifier(space)
    values = model.fit_many(model.prepare(x, groups), ROWS, Y[ROWS], n_classes)
    values = values.decision_function(REST)
    for column, y in enumerate(Y.T):
        wanted = log_probabilities(x, y, groups, n_classes, space)
        if n_classes == 2:
            wanted = wanted[:, 1] - wanted[:, 0]
        assert_allclose(values[:, column], wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_that_no_training_scan_has(n_classes):
    x, model = scans(float), AutoClassifier()
    Y = np.column_stack([np.zeros(16, int), np.arange(16) % 2, np.ones(16, int)])
    values = model.fit_many(model.prepare(x), ROWS, Y, n_classes).decision_function(REST)
    least = np.log(1e-15)
    if n_classes == 2:
        assert_allclose(values[:, 0], least)
        assert_allclose(values[:, 2], -least)
        assert (np.abs(values[:, 1]) < 10).all()
    else:
        assert_allclose(values[:, 0], [[0, least, least]] * 4)
        assert_allclose(values[:, 2], [[least, 0, least]] * 4)
        wanted = log_probabilities(x, np.arange(20) % 2, None, 3, None)
        assert_allclose(values[:, 1], wanted, rtol=1e-9)


def test_one_scan_per_class():
    x, model = np.eye(3), AutoClassifier()
    prepared = model.prepare(np.vstack([x, [[2.0, 0, 1]]]))
    codes = np.array([[0, 2], [1, 1], [2, 0]])
    found = np.exp(model.fit_many(prepared, np.arange(3), codes, 3).decision_function([3]))
    p = np.array([0.847207, 0.056943, 0.095850])
    assert_allclose(found[0], [p, p[::-1]], atol=6e-7)


def test_feature_sharing_is_fitted_one_by_one():
    assert hasattr(AutoClassifier(), "fit_many")
    assert not hasattr(AutoClassifier(sharing=True), "fit_many")


def test_gram_matrices_are_not_kept_without_end(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 600)
    model, x = AutoClassifier(), scans(float)
    prepared = model.prepare(x)
    for start in range(4):
        prepared.views_of(np.arange(start, 16 + start))
    assert 1 <= len(prepared.known) < 4


@pytest.mark.parametrize("with_groups", [True, False])
def test_a_permutation_test_tests_the_decoder_itself(with_groups):
    """The secondary accuracy is the one that refitting gives."""
    x, y = scans(float), np.array(["b", "a"] * 10)
    groups = np.repeat(np.arange(5), 4) if with_groups else None
    scheme = "auto" if with_groups else "free"  # else folds are held, and refitting holds none
    setting = {"n_permutations": 9, "stop_after": None, "random_state": 3, "scheme": scheme}
    tested = (AutoClassifier(SPACE), x, y, groups)
    batch = permutation_test(*tested, **setting)
    assert batch.test == "batch"
    assert (batch.decoder, batch.stands_for) == ("AutoClassifier", "")
    assert "p was" in batch.statement
    assert "not the p of" not in batch.statement
    refit = permutation_test(*tested, test="refit", score="accuracy", **setting)
    accuracy = permutation_test(*tested, test="batch", score="accuracy", **setting)
    assert_allclose(accuracy.null, refit.null)
    assert batch.secondary[0].observed == pytest.approx(refit.observed)
    assert accuracy.observed == pytest.approx(refit.observed)
