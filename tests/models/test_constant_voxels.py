"""Voxels that do not vary, but for the last bit, change nothing: neither answers nor doubt."""

import numpy as np
import pytest

from voxprior import (
    AutoClassifier,
    FeatureSharingNB,
    GPClassifier,
    InverseTreeClassifier,
    RandomFieldClassifier,
    RVMClassifier,
    SpatialBoostingClassifier,
    VoxelSpace,
)

FAMILIES = [
    AutoClassifier,
    FeatureSharingNB,
    GPClassifier,
    InverseTreeClassifier,
    RandomFieldClassifier,
    RVMClassifier,
    SpatialBoostingClassifier,
]
Y = np.repeat([0, 1], 10)


def scans(rng):
    """Twenty voxels of some signal; 20 scans to learn from and 40 to tell."""
    return (
        rng.normal(size=(20, 20)) + 0.7 * Y[:, None],
        rng.normal(size=(40, 20)) + 0.7 * np.repeat([0, 1], 20)[:, None],
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [0.0, 7.3])
@pytest.mark.parametrize("rounding", [0.0, 2e-16])
def test_constant_voxels_change_nothing(rng, family, value, rounding):
    X, new = scans(rng)

    def with_constants(scans):
        bits = 1 + rounding * rng.choice([-1, 0, 1], size=(len(scans), 200))
        return np.hstack([scans, value * bits])

    alone = family().fit(X, Y).predict_proba(new)
    beside = family().fit(with_constants(X), Y).predict_proba(with_constants(new))
    np.testing.assert_allclose(beside, alone, atol=1e-6)


def test_constant_voxels_lend_their_neighbors_nothing(rng):
    X, new = scans(rng)
    inside = np.zeros((6, 6), dtype=bool)
    inside[1:5, 1:6] = True

    def outside_too(scans):
        return np.where(inside.ravel(), np.pad(scans, [(0, 0), (7, 9)]), 3.0)

    spaces = VoxelSpace.grid((6, 6)), VoxelSpace.from_mask(inside)
    X, new = outside_too(X), outside_too(new)
    whole = FeatureSharingNB(spaces[0]).fit(X, Y)
    part = FeatureSharingNB(spaces[1]).fit(X[:, inside.ravel()], Y)
    np.testing.assert_allclose(
        whole.predict_log_proba(new), part.predict_log_proba(new[:, inside.ravel()]), rtol=1e-9
    )
    np.testing.assert_array_equal(whole.group_size_[inside.ravel()], part.group_size_)
    assert not whole.voxel_maps()["discriminability"][~inside.ravel()].any()


def test_many_labellings_leave_constant_voxels_out_as_fit_does(rng):
    X, new = scans(rng)
    rows, labels = np.arange(20), np.column_stack([Y, rng.permutation(Y)])
    X, new = (np.hstack([part, np.full((len(part), 30), 7.3)]) for part in (X, new))
    model = FeatureSharingNB(calibration=None)
    many = model.fit_many(model.prepare(np.vstack([X, new])), rows, labels, 2)
    found = many.decision_function(np.arange(20, 60))
    for column in range(2):
        odds = np.diff(model.fit(X, labels[:, column]).predict_log_proba(new))[:, 0]
        np.testing.assert_allclose(found[:, column], odds, rtol=1e-8, atol=1e-8)
