"""Relabellings and what a test says of them, number by number."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import permutation_test, relabelling
from voxprior.validation.permutation import PermutationResult, Secondary
from voxprior.validation.relabel import (
    _orders,
    arrangements,
    every_relabelling,
    random_relabelling,
    random_relabellings,
    renamings,
)


def test_a_block_of_two_labels_is_refused_wherever_it_is():
    y = np.array([0, 0, 1, 1, 0, 0])
    for bad in range(3):
        labels = y.copy()
        labels[2 * bad] = 1 - labels[2 * bad]
        with pytest.raises(ValueError, match="blocks of one label each"):
            relabelling(labels, blocks=np.repeat([0, 1, 2], 2))
    assert relabelling(y, blocks=np.repeat([0, 1, 2], 2)).n_distinct == 3


def test_blocks_are_those_of_a_group():
    y, groups = np.array([0, 0, 1, 1, 1, 1, 0, 0]), np.repeat([0, 1], 4)
    found = relabelling(y, groups, blocks=np.tile([0, 0, 1, 1], 2))
    assert (found.scheme, found.n_distinct, found.n_symmetric) == ("within", 4, 2)
    assert found.statement == "labels exchanged among blocks within each group"
    np.testing.assert_array_equal(found.unit, [0, 0, 1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(found.labels(found.code), y)


@pytest.mark.parametrize("n", [5, 6, 7, 8])
def test_distinct_orders(n):
    codes = np.arange(n) % 3
    wanted = sorted(set(permutations(codes.tolist())))
    assert _orders(codes) == wanted
    assert len(wanted) == arrangements(np.bincount(codes))
    assert arrangements([2, 3]) == factorial(5) // (2 * 6)


def test_renamings_keep_every_count():
    assert renamings(np.array([[2, 2, 3], [1, 1, 1]])) == 2
    assert renamings(np.array([[2, 2, 2], [1, 1, 1]])) == 6
    assert renamings(np.array([[2, 1], [1, 2]])) == 1


def test_every_relabelling_once_and_the_true_one_first():
    y, groups = np.array([0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 1])
    structure = relabelling(y, groups)
    every = [tuple(codes) for codes in every_relabelling(structure)]
    assert every[0] == tuple(y)
    assert len(every) == len(set(every)) == structure.n_distinct == 6
    assert all(sum(codes[:3]) == 2 and sum(codes[3:]) == 1 for codes in every)


def test_random_relabellings_are_evenly_spread_within_strata():
    structure = relabelling(np.array([0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 1]))
    rng = np.random.default_rng(0)
    many = random_relabellings(structure, 3000, rng)
    one_by_one = np.array([random_relabelling(structure, rng) for _ in range(3000)])
    for drawn in (many, one_by_one):
        assert (drawn[:, :3].sum(axis=1) == 2).all()
        found, counts = np.unique(drawn, axis=0, return_counts=True)
        assert len(found) == 6
        assert np.abs(counts - 500).max() < 100


@pytest.mark.parametrize(
    ("scheme", "y", "groups", "match"),
    [
        ("whole", [0, 1, 0, 0], [0, 0, 1, 1], "one label per group"),
        ("within", [0, 1, 0, 1], None, "needs groups"),
        ("other", [0, 1, 0, 1], None, "is not known"),
    ],
)
def test_schemes_that_cannot_be(scheme, y, groups, match):
    with pytest.raises(ValueError, match=match):
        relabelling(np.array(y), groups, scheme=scheme)


def test_schemes_by_the_design():
    y = np.array([0, 0, 1, 1])
    assert relabelling(y, [0, 0, 1, 1]).scheme == "whole"
    assert relabelling(y, [0, 1, 0, 1]).scheme == "within"
    assert relabelling(y, [0, 0, 1, 2]).n_distinct == 3
    free = relabelling(y, [0, 1, 0, 1], scheme="free")
    assert (free.scheme, free.n_distinct, free.n_symmetric) == ("free", 6, 2)
    assert relabelling(y, symmetric=False).n_symmetric == 1


# ---------------------------------------------------------------- what a test says


def outcome(**changed):
    told = {"score": "accuracy", "observed": 0.75, "null": np.zeros(1500), "p_value": 0.0125,
            "smallest_p": 0.002, "scheme": "labels exchanged among all scans",
            "n_distinct": 12870, "exact": False, "stopped_early": False,
            "hyperparameters": "none", "complete": True}  # fmt: skip
    return PermutationResult(**told | changed)


def test_statement_of_a_test():
    said = outcome().statement
    assert "12,870 distinct relabellings" in said
    assert "1,500 random ones" in said
    assert "0.002" in said
    assert "accuracy of 0.750" in said
    assert "stopped early" not in said
    assert "interrupted" not in said
    assert "all of them" in outcome(exact=True).statement
    assert "more than 10^9" in outcome(n_distinct=10**9).statement
    assert "999,999,999" in outcome(n_distinct=10**9 - 1).statement
    assert "more than 10^20" in outcome(n_distinct=3 * 10**20).statement
    assert "stopped early" in outcome(stopped_early=True).statement
    assert "interrupted" in outcome(complete=False).statement


def test_statement_of_a_stand_in():
    known = {"stands_for": "the score of X", "decoder": "a ridge"}
    assert "labels carr" in outcome(p_value=0.05, **known).statement
    assert "not shown" not in outcome(p_value=0.05, **known).statement
    assert "not shown" in outcome(p_value=0.051, **known).statement
    second = outcome(secondary=(Secondary("margin", 0.25, 0.5),), **known).statement
    assert "mean held-out margin" in second
    assert "0.250" in second


def test_short_form_of_a_test():
    assert "1500 random relabellings" in repr(outcome())
    assert "all 1500 relabellings" in repr(outcome(exact=True))
    assert "stopped early" in repr(outcome(stopped_early=True))
    assert "stopped early" not in repr(outcome())
    assert "interrupted" in repr(outcome(complete=False))
    assert "of a ridge" not in repr(outcome(decoder="a ridge"))
    assert "of a ridge" in repr(outcome(decoder="a ridge", stands_for="x"))
    assert outcome(score="r2")._repr_html_().startswith("<p>Permutation test: R²")
    assert outcome().summary()["n_relabellings"] == 1500


def test_p_and_its_floor_by_hand():
    """Five runs of two scans: 32 relabellings, two of which are the same but for names."""
    y, runs = np.tile([0, 1], 5), np.repeat(range(5), 2)
    X = np.random.default_rng(0).normal(size=(10, 3)) + 5 * y[:, None]
    known = (GaussianNB(), X, y, runs)
    found = permutation_test(*known, stop_after=None, n_permutations=31)
    assert (found.exact, len(found.null), found.n_distinct) == (True, 31, 32)
    assert found.smallest_p == found.p_value == pytest.approx(2 / 32)
    few = permutation_test(*known, stop_after=None, n_permutations=30)
    assert (few.exact, len(few.null), few.test) == (False, 30, "refit")
    assert few.smallest_p == pytest.approx(2 / 32)
    least = permutation_test(*known, stop_after=None, n_permutations=9)
    assert least.smallest_p == pytest.approx(1 / 10)
    with pytest.raises(ValueError, match="tests nothing"):
        permutation_test(*known, n_permutations=0)
    once = permutation_test(*known, n_permutations=1)
    assert len(once.null) == 1
