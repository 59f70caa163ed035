"""Maps over participants: contrasts by hand, more classes, and who is left out."""

import numpy as np
import pytest
from scipy import stats

from voxprior.errors import InputError
from voxprior.mapping import (
    accuracy_map,
    group_accuracy_test,
    group_map_test,
    map_test,
    searchlight,
)
from voxprior.mapping.participants import class_means
from voxprior.space import VoxelSpace


def trials(n_people=8, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.array(["a", "b", "c"])[:n_classes], 3), n_people)
    people = np.repeat(np.arange(n_people), 3 * n_classes)
    X = rng.normal(size=(len(y), 20)) + rng.normal(size=(n_people, 20))[people]
    X[:, 0] += 4.0 * (y == "b")
    return X, y, people


def test_two_classes_are_a_contrast_against_zero():
    X, y, people = trials()
    found = group_map_test(X, y, people, statistic="t")
    means = X.reshape(8, 2, 3, 20).mean(axis=2)
    t = stats.ttest_rel(means[:, 1], means[:, 0]).statistic
    np.testing.assert_allclose(found.statistic, t, rtol=1e-6)
    assert found.contrast == "positive where b is above a"
    assert "mean difference of b and a over participants" in found.hypothesis
    assert found.significant[0]
    assert found.n_distinct == 2**8


def test_more_classes_are_exchanged_within_participants():
    X, y, people = trials(n_classes=3)
    found = group_map_test(X, y, people)
    assert found.scheme == "labels exchanged among scans within each group"
    assert found.significant[0]


def test_participants_without_a_class_are_left_out():
    X, y, people = trials()
    y[people == 3] = "a"
    means, classes, who = class_means(X, y, people)
    assert means.shape == (14, 20)
    assert 3 not in who
    assert classes.tolist() == ["a", "b"] * 7
    with pytest.raises(InputError, match="participants who each have all classes"):
        group_map_test(X[people == 3], y[people == 3], people[people == 3])
    assert group_map_test(X, y, people).n_distinct == 2**7


def test_accuracy_maps_are_searchlights_minus_chance(rng):
    space, runs = VoxelSpace.grid((6, 5, 1), np.eye(4)), np.repeat(range(4), 6)
    X, even, uneven = rng.normal(size=(24, 30)), np.tile([0, 1, 2], 8), np.tile([0, 0, 1], 8)
    known = {"radius": 1.0, "n_permutations": 1}
    accuracy = searchlight(X, even, runs, space, **known).score - 1 / 3
    np.testing.assert_array_equal(accuracy_map(X, even, runs, space, 1.0), accuracy)
    area = searchlight(X, uneven, runs, space, score="auc", **known).score - 0.5
    np.testing.assert_array_equal(accuracy_map(X, uneven, runs, space, 1.0), area)


def test_accuracies_over_participants_by_flipping_signs(rng):
    maps = rng.normal(size=(8, 12)) * 0.1
    maps[:, 4] += 0.4
    found = group_accuracy_test(maps)
    plain = map_test(maps, None)
    np.testing.assert_array_equal(found.p_fwer, plain.p_fwer)
    assert np.flatnonzero(found.significant).tolist() == [4]
    assert found.hypothesis.startswith("Around this voxel the mean decoding accuracy over")
