"""Classes of unequal spread: the check, and Welch's t against its naive form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from voxprior.errors import InputError
from voxprior.mapping import map_test
from voxprior.mapping.spread import welch_t
from voxprior.space import VoxelSpace


def two_classes(n1=20, n0=30, ratio=1.0, effect=0.0, seed=0, V=30):
    rng = np.random.default_rng(seed)
    y = np.repeat(["ill", "well"], [n1, n0])
    X = rng.normal(size=(n1 + n0, V))
    X[:n1] *= np.sqrt(ratio)
    X[n1:, 0] += effect
    return X, y


def test_it_is_scipys_for_every_relabelling():
    X, _ = two_classes()
    rng = np.random.default_rng(1)
    rows = X - X.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=0)
    ones = np.array([rng.permutation(np.repeat([1.0, 0.0], [20, 30])) for _ in range(7)]).T
    expected = [
        stats.ttest_ind(X[one > 0], X[one == 0], equal_var=False).statistic for one in ones.T
    ]
    assert_allclose(welch_t(rows, ones), np.array(expected).T, rtol=1e-9)


@pytest.mark.parametrize("effect", [0.0, 1.2])
def test_p_is_the_share_of_relabellings_whose_largest_t_is_as_large(effect):
    X, y = two_classes(effect=effect)
    found = map_test(X, y, n_permutations=60)
    assert found.name == "welch"
    assert_allclose(
        found.statistic,
        stats.ttest_ind(X[y == "well"], X[y == "ill"], equal_var=False).statistic,
        rtol=1e-5,
    )
    larger = (found.null_max >= np.abs(found.statistic)[:, None] * (1 - 1e-5)).sum(axis=1)
    assert_allclose(found.p_fwer, (1 + larger) / (1 + len(found.null_max)))


def test_auto_takes_it_where_both_classes_have_twenty_scans():
    assert map_test(*two_classes(19, 30), n_permutations=20).name == "t"
    assert map_test(*two_classes(20, 20), n_permutations=20).name == "welch"
    X, y = two_classes(20, 20)
    runs = np.tile(np.arange(20), 2)
    assert map_test(X, y, runs, n_permutations=20).name != "welch"


def test_it_is_refused_where_it_does_not_hold():
    with pytest.raises(InputError, match=r"two classes of 20 scans or more.*got 6 of 'ill'"):
        map_test(*two_classes(6, 30), statistic="welch")


def test_constant_voxels_are_never_significant():
    X, y = two_classes()
    X[:, 3] = 5.0
    found = map_test(X, y, n_permutations=40)
    assert found.statistic[3] == 0
    assert found.p_fwer[3] == 1


def test_a_voxel_that_is_the_label_is_finite():
    X, y = two_classes()
    X[:, 3] = y == "well"
    found = map_test(X, y, n_permutations=40)
    assert np.isfinite(found.statistic).all()
    assert found.significant[3]


@pytest.mark.parametrize("statistic", ["tfce", "cluster"])
def test_neighbourhoods_build_on_it(statistic):
    X, y = two_classes(effect=1.5, V=27)
    found = map_test(X, y, space=VoxelSpace.grid((3, 3, 3)), statistic=statistic, n_permutations=30)
    X[y == "ill"] *= 1.001  # leaves nothing of pooled and unpooled alike but for rounding
    assert found.p_global <= 1
    assert np.isfinite(found.statistic).all()


@pytest.mark.parametrize(("n1", "n0"), [(6, 18), (12, 12), (20, 60)])
def test_unequal_spread_is_said_with_its_ratio(n1, n0):
    found = map_test(*two_classes(n1, n0, ratio=3.0, V=300), n_permutations=99)
    said = " ".join(found.notes)
    assert "Maps of 'ill' spread more than those of 'well': their variance is" in said
    assert ("Welch's t allows for that" in said) == (n1 >= 20)
    assert ("may be significant for its spread alone" in said) == (n1 < 20)


def test_equal_spread_and_a_strong_effect_say_nothing():
    said = [map_test(*two_classes(12, 18, effect=9.0, seed=s), n_permutations=99).notes
            for s in range(20)]  # fmt: skip
    assert sum(bool(notes) for notes in said) <= 4


@pytest.mark.parametrize("few", [1, 2])
def test_of_a_class_of_one_or_two_scans_nothing_is_said(few):
    found = [map_test(*two_classes(few, 19, seed=s), n_permutations=99).notes for s in range(5)]
    assert not any("spread" in note for notes in found for note in notes)


def test_words_claim_what_was_tested():
    X, y = two_classes(6, 8)
    assert (
        "well and ill differ, in mean or in spread" in map_test(X, y, n_permutations=20).hypothesis
    )
    X, y = two_classes()
    assert "means of well and ill differ, whatever" in map_test(X, y, n_permutations=20).hypothesis
    signs = map_test(X[:8], None).hypothesis
    assert "or they lie unevenly about it" in signs


@pytest.mark.slow
@pytest.mark.parametrize(("n1", "n0", "ratio"), [(20, 60, 2.25), (60, 20, 2.25), (20, 20, 4.0)])
def test_the_level_holds_for_means_whatever_the_spread(n1, n0, ratio):
    hits = [
        map_test(*two_classes(n1, n0, ratio, seed=s), n_permutations=199).significant.any()
        for s in range(300)
    ]
    assert np.mean(hits) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
