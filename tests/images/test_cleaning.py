import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior.errors import InputError
from voxprior.images import scaled_by_training
from voxprior.images.cleaning import check_settings, resolve_mode, standardize, statistics


def test_auto_is_run_for_runs_and_train_for_maps():
    assert resolve_mode("auto", runs=True) == "run"
    assert resolve_mode("auto", runs=False) == "train"
    assert resolve_mode("none", runs=True) == "none"
    with pytest.raises(InputError, match=r"standardize='zscore' is not a choice. Expected one of"):
        check_settings(standardize="zscore")
    with pytest.raises(InputError, match="single image"):
        resolve_mode("baseline", runs=False)


def test_statistics_are_exact_though_values_are_float32(rng):
    volumes = rng.normal(1e5, 1.0, size=(300, 40)).astype(np.float32)
    by = statistics(volumes)
    exact = volumes.astype(float)
    np.testing.assert_allclose(by.center, exact.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(by.scale, exact.std(axis=0), rtol=1e-9)
    Z = standardize(volumes, by)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, (exact - by.center) / by.scale, atol=1e-6)


def test_constant_voxels_become_zero():
    volumes = np.full((7, 3), 0.1, dtype=np.float32)
    np.testing.assert_array_equal(standardize(volumes, statistics(volumes)), np.zeros((7, 3)))


def test_offset_and_scale_of_a_run_do_not_matter(rng):
    volumes = rng.normal(size=(30, 5))
    other = volumes * rng.uniform(1, 9, 5) + rng.normal(size=5)
    ours, theirs = (standardize(v, statistics(v)) for v in (volumes, other))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_too_few_volumes():
    with pytest.raises(ValueError, match=r"at least 2 volumes. Got 1"):
        statistics(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"run 7: .* at least 2 rest volumes. Got 0"):
        statistics(np.zeros((5, 3)), np.zeros(5, bool), "run 7")


def test_training_statistics_are_frozen(rng):
    X, y = rng.normal(5, 3, size=(40, 6)), np.repeat([0, 1], 20)
    X[20:] += 2
    model = scaled_by_training(LogisticRegression()).fit(X, y)
    new = rng.normal(50, 9, size=(8, 6))
    alone = np.vstack([model.predict_log_proba(row[None]) for row in new])
    np.testing.assert_allclose(model.predict_log_proba(new), alone, rtol=1e-9)
    by_hand = LogisticRegression().fit(standardize(X, statistics(X)), y)
    expected = by_hand.predict(standardize(new, statistics(X)))
    np.testing.assert_array_equal(model.predict(new), expected)
