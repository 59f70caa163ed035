"""Prepared fits: the same model as an ordinary fit to those rows, whatever the labels."""

import numpy as np
import pytest
from scipy import sparse

from voxprior import FeatureSharingNB, VoxelSpace

SPACE = VoxelSpace.grid((4, 5))
MODELS = {
    "default": FeatureSharingNB(SPACE),
    "paper": FeatureSharingNB.paper(SPACE),
    "uncalibrated": FeatureSharingNB(SPACE, calibration=None, shrinkage="james-stein"),
    "without space": FeatureSharingNB(variances="median"),
    "all features": FeatureSharingNB(means="all", variances="neighbors"),
    "own groups": FeatureSharingNB(means=sparse.csr_array(np.ones((20, 20)))),
}


@pytest.fixture
def scans(rng):
    """Twelve scans of three time points, with an offset."""
    return rng.normal(size=(12, 60)) + 100.0


@pytest.mark.parametrize("name", MODELS)
def test_is_the_ordinary_fit(rng, scans, name):
    model = MODELS[name]
    prepared = model.prepare(scans)
    for _ in range(3):
        rows = rng.choice(12, size=9, replace=False)
        y = rng.permutation(np.repeat(["a", "b", "c"], 3))
        reused = vars(model.fit_prepared(prepared, rows, y)).copy()
        fitted = vars(model.fit(scans[rows], y))
        assert reused.keys() == fitted.keys()
        for key in fitted:
            if key.endswith("_"):
                np.testing.assert_array_equal(reused[key], fitted[key], err_msg=key)


@pytest.mark.parametrize("kind", ["float32", "F-ordered", "read-only"])
def test_any_array(scans, kind):
    X = {"float32": scans.astype(np.float32), "F-ordered": np.asfortranarray(scans)}.get(
        kind, scans
    )
    X.flags.writeable = kind != "read-only"
    y, rows = np.tile([0, 1], 5), np.arange(1, 11)
    model = FeatureSharingNB(SPACE)
    theta = model.fit_prepared(model.prepare(X), rows, y).theta_
    np.testing.assert_array_equal(theta, model.fit(X[rows], y).theta_)


def test_scans_are_not_copied(scans):
    assert FeatureSharingNB(SPACE).prepare(scans).scans is scans
    assert FeatureSharingNB(SPACE, calibration=None).prepare(scans).examples.size == 0


def test_bad_input(scans):
    model = FeatureSharingNB(SPACE)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit_prepared(model.prepare(scans), np.arange(4), np.zeros(4))
    with pytest.raises(ValueError, match="NaN"):
        model.prepare(np.where(scans > 101, np.nan, scans))
