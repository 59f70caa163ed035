"""Relabellings: counted by hand, listed as brute force lists them, drawn evenly."""

from itertools import permutations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.validation import relabelling
from voxprior.validation.relabel import (
    every_relabelling,
    random_relabelling,
    random_relabellings,
)


def brute_force(y, same_stratum):
    """All distinct label vectors from permutations inside strata, by enumeration of everything."""
    found = set()
    for order in permutations(range(len(y))):
        if all(same_stratum[i] == same_stratum[j] for i, j in enumerate(order)):
            found.add(tuple(y[j] for j in order))
    return found


class TestRelabelling:
    def test_five_runs_of_two_betas(self):
        """32 relabellings, in pairs that score alike: p cannot be below 1/16."""
        found = relabelling(np.tile([0, 1], 5), np.repeat(np.arange(5), 2))
        assert (found.scheme, found.n_distinct, found.n_symmetric) == ("within", 32, 2)

    def test_subjects(self):
        y, subjects = np.repeat([0, 1], 8), np.repeat(np.arange(8), 2)
        found = relabelling(y, subjects)
        assert found.scheme == "whole"
        assert found.n_distinct == comb(8, 4)
        assert "whole groups" in found.statement
        for codes in every_relabelling(found):
            labels = found.labels(codes)
            assert all(len(set(labels[subjects == s])) == 1 for s in range(8))

    def test_blocks_move_together(self):
        y = np.repeat([0, 1, 0, 1], 3)
        found = relabelling(y, blocks=np.repeat([7, 8, 9, 10], 3))
        assert found.scheme == "free"
        assert found.n_distinct == comb(4, 2)
        assert "blocks" in found.statement
        labels = {tuple(found.labels(codes)) for codes in every_relabelling(found)}
        assert len(labels) == 6
        assert all(len(set(row[3 * b : 3 * b + 3])) == 1 for row in labels for b in range(4))

    def test_block_names_may_come_back_in_other_runs(self):
        y, runs = np.tile(np.repeat([0, 1], 2), 2), np.repeat([0, 1], 4)
        found = relabelling(y, runs, blocks=np.tile(np.repeat([0, 1], 2), 2))
        assert len(found.code) == 4
        assert found.n_distinct == 4

    def test_three_classes_have_six_symmetries(self):
        found = relabelling(np.tile([0, 1, 2], 4), np.repeat(np.arange(4), 3))
        assert found.n_distinct == factorial(3) ** 4
        assert found.n_symmetric == 6

    def test_unequal_classes_have_none(self):
        assert relabelling([0, 0, 1]).n_symmetric == 1

    def test_regression_has_none(self):
        found = relabelling([1.0, 2.0, 3.0], symmetric=False)
        assert (found.n_distinct, found.n_symmetric) == (6, 1)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=2, max_size=6))
    def test_count_and_list_are_brute_force(self, scans):
        y, groups = np.array(scans).T
        found = relabelling(y, groups, scheme="within")
        expected = brute_force(found.labels(found.code).tolist(), groups.tolist())
        listed = [tuple(found.labels(codes).tolist()) for codes in every_relabelling(found)]
        assert len(listed) == len(set(listed)) == len(expected) == found.n_distinct
        assert set(listed) == expected
        assert listed[0] == tuple(found.labels(found.code).tolist())

    def test_long_lists_too(self):
        found = relabelling(np.repeat([0, 1], 5))
        assert len({tuple(c) for c in every_relabelling(found)}) == comb(10, 5)

    def test_random_ones_are_even(self, rng):
        found = relabelling([0, 0, 1, 1])
        drawn = [tuple(random_relabelling(found, rng)) for _ in range(3000)]
        counts = np.unique(drawn, axis=0, return_counts=True)[1]
        assert len(counts) == 6
        assert np.all(np.abs(counts - 500) < 100)

    def test_many_random_ones_at_once_are_even(self, rng):
        found = relabelling([0, 1, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1])
        drawn = random_relabellings(found, 6000, rng)
        listed, counts = np.unique(drawn, axis=0, return_counts=True)
        every = np.unique(list(every_relabelling(found)), axis=0)
        np.testing.assert_array_equal(listed, every)
        assert np.all(np.abs(counts - 6000 / len(every)) < 200)

    def test_bad_designs(self):
        with pytest.raises(ValueError, match="one label"):
            relabelling([0, 1, 0], blocks=[0, 0, 1])
        with pytest.raises(ValueError, match="needs groups"):
            relabelling([0, 1], scheme="within")
        with pytest.raises(ValueError, match="one label per group"):
            relabelling([0, 1, 0, 1], [0, 0, 1, 1], scheme="whole")
        with pytest.raises(ValueError, match="scheme='"):
            relabelling([0, 1], scheme="any")
