"""Left-out folds are fixed, keep groups whole, and say how many scans they are worth."""

import numpy as np
import pytest

from voxprior.auto.folds import design_of


def left_out(design):
    return [test.tolist() for _, test in design.folds]


def test_six_scans_are_paired_anew_in_every_repeat():
    design = design_of(np.array([0, 0, 0, 1, 1, 1]), 2)
    assert left_out(design) == [
        [0, 3], [1, 4], [2, 5], [0, 5], [1, 3], [2, 4], [0, 4], [1, 5], [2, 3],
    ]  # fmt: skip
    assert design.n_effective == 6


@pytest.mark.parametrize(
    ("fewest", "n_folds"), [(1, 0), (2, 4), (4, 16), (5, 10), (9, 10), (12, 5)]
)
def test_repeats_by_the_smallest_class(fewest, n_folds):
    codes = np.repeat([0, 1, 2], [fewest, fewest + 3, fewest])
    design = design_of(codes, 3)
    assert len(design.folds) == n_folds
    for train, test in design.folds:
        assert sorted([*train, *test]) == list(range(len(codes)))
        assert len(set(codes[train])) == 3


def test_groups_with_all_classes_are_left_out_whole():
    groups, codes = np.repeat(np.arange(10), 2), np.tile([0, 1], 10)
    design = design_of(codes, 2, groups)
    assert len(design.folds) == 8
    assert design.n_effective == 20
    for train, test in design.folds:
        assert set(groups[train]).isdisjoint(groups[test])
    assert design_of(codes, 2, groups, centered=True).n_effective == 10


def test_groups_within_classes_are_dealt_out_by_class():
    groups, codes = np.repeat(np.arange(12), 3), np.repeat([0, 1], 18)
    design = design_of(codes, 2, groups)
    assert len(design.folds) == 5
    assert design.n_effective == 12
    for train, test in design.folds:
        assert set(codes[train]) == set(codes[test]) == {0, 1}
        assert set(groups[train]).isdisjoint(groups[test])


def test_groups_of_single_scans_are_free():
    codes = np.tile([0, 1], 6)
    assert design_of(codes, 2, np.arange(12)).n_effective == 12


def test_folds_without_a_class_are_dropped():
    assert design_of(np.array([0, 0, 1, 1]), 2, np.array([0, 0, 1, 1])).folds == []
    some = design_of(np.array([0, 0, 1, 1, 0]), 2, np.array([0, 0, 1, 1, 2]))
    assert left_out(some) == [[0, 1], [4]]
    lacking = design_of(np.array([0, 0, 0, 1, 0, 0]), 2, np.arange(6))
    assert len(lacking.folds) == 0


def test_runs_that_lack_a_class_still_cross():
    codes = np.delete(np.tile(np.arange(8), 12), 5)
    groups = np.delete(np.repeat(np.arange(12), 8), 5)
    design = design_of(codes, 8, groups)
    assert len(design.folds) == 8
    assert design.n_effective == 95
