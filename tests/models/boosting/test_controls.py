import numpy as np
import pytest

from voxprior import SpatialBoostingClassifier, VoxelSpace
from voxprior.models.boosting.controls import most_important

SIDE = 10


def blob(rng, n=40, strength=1.5):
    y = np.repeat([0, 1], n // 2)
    X = rng.standard_normal((n, SIDE, SIDE))
    X[n // 2 :, 2:5, 2:5] += strength
    return X.reshape(n, -1), y


@pytest.fixture
def fitted(rng):
    X, y = blob(rng)
    return SpatialBoostingClassifier(VoxelSpace.grid((SIDE, SIDE)), n_iterations=40).fit(X, y), X, y


def test_controls_refit_with_one_thing_removed(fitted):
    model, X, y = fitted
    found = model.controls(X, y, n_shuffles=3, random_state=0)
    np.testing.assert_allclose(found.importance, model.importance_)
    ridge = SpatialBoostingClassifier(kernel="identity", n_iterations=40).fit(X, y)
    np.testing.assert_allclose(found.ridge, ridge.importance_)
    permutation = np.random.default_rng(0).permutation(SIDE * SIDE)
    elsewhere = SpatialBoostingClassifier(model.space.take(permutation), n_iterations=40).fit(X, y)
    np.testing.assert_allclose(found.permuted, elsewhere.importance_, atol=1e-9)
    assert found.shuffled.shape == (3, SIDE * SIDE)
    assert not np.allclose(found.shuffled[0], found.shuffled[1])
    assert not np.allclose(found.diagonal, found.importance)


@pytest.mark.slow
def test_shuffled_labels_lose_the_blob(fitted):
    model, X, y = fitted
    found = model.controls(X, y, n_shuffles=5, random_state=0)
    share = found.importance.reshape(SIDE, SIDE)[2:5, 2:5].sum() / found.importance.sum()
    shuffled = found.shuffled.reshape(5, SIDE, SIDE)[:, 2:5, 2:5].sum((1, 2)) / found.shuffled.sum(
        1
    )
    assert share > 2 * shuffled.mean()


def test_shuffling_within_groups_keeps_what_a_group_contains(rng):
    X, y = blob(rng)
    model = SpatialBoostingClassifier(n_iterations=10).fit(X, y)
    # A group of one label only cannot be shuffled, so neither can its map.
    found = model.controls(X, y, n_shuffles=2, groups=y, random_state=0)
    np.testing.assert_allclose(found.shuffled, [model.importance_] * 2)


@pytest.mark.slow
def test_selection_frequency_finds_the_blob(fitted):
    model, X, y = fitted
    frequency = model.selection_frequency(X, y, n_bootstraps=12, size=9, random_state=0)
    assert frequency.shape == (SIDE * SIDE,)
    assert frequency.sum() == pytest.approx(9)
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[2:5, 2:5] = True
    assert frequency[inside.ravel()].mean() > 4 * frequency[~inside.ravel()].mean()


def test_a_bootstrap_is_a_refit_on_repeated_samples(rng):
    X, y = blob(rng)
    model = SpatialBoostingClassifier(n_iterations=8).fit(X, y)
    frequency = model.selection_frequency(X, y, n_bootstraps=1, random_state=3)
    draws = np.random.default_rng(3)
    rows = np.concatenate([draws.choice(np.flatnonzero(y == c), 20) for c in (0, 1)])
    again = SpatialBoostingClassifier(n_iterations=8).fit(X[rows], y[rows])
    np.testing.assert_array_equal(frequency > 0, again.importance_ > 0)


def test_the_most_important_break_ties_by_the_lowest_and_never_takes_zeros():
    importance = np.array([0.0, 2.0, 1.0, 1.0])
    np.testing.assert_array_equal(most_important(importance, 2), [False, True, True, False])
    np.testing.assert_array_equal(most_important(importance, 4), [False, True, True, True])
    np.testing.assert_array_equal(most_important(importance, None), [False, True, True, True])


def test_other_labels_are_refused(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="unknown labels"):
        model.controls(X, y + 1)
