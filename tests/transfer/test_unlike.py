"""Subjects who are not alike: what they teach wrongly must do next to no harm."""

import pytest
from benchmarks.transfer import alike, joined, losses


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shuffled", "geometries"])
def test_others_who_disagree_cost_less_than_a_hundredth(kind):
    """Labels permuted, or another geometry, in every subject: as good as calibration alone."""
    found = joined([losses(alike(seed, kind), (1, 2), ["s0", "s1"], 7, {}) for seed in range(2)])
    for rows in found.values():
        assert (rows["**pool**"] - rows["calibration"])[:, 1].mean() < 0.01
