"""Long fits are told before they start, and short ones are not."""

import warnings

import numpy as np
import pytest

from voxprior import (
    AutoClassifier,
    AutoRegressor,
    GPClassifier,
    GPRegressor,
    InverseTreeClassifier,
    RVMClassifier,
    RVMRegressor,
)
from voxprior.errors import InputWarning
from voxprior.models import growth
from voxprior.models.gaussian import rvm
from voxprior.models.growth import cubic, tell_if_long
from voxprior.models.network import estimator


@pytest.mark.parametrize(
    ("n_scans", "n_classes", "words"),
    [
        (2000, 2, "32 seconds"),
        (2000, 5, "3 minutes"),
        (20_000, 2, "8.9 hours"),
    ],
)
def test_the_estimate_grows_with_the_cube_of_scans_and_with_classes(n_scans, n_classes, words):
    with pytest.warns(InputWarning, match=f"about {words} for {n_scans} scans on one core"):
        tell_if_long(GPClassifier(), cubic(4.0, n_scans, n_classes), n_scans)


def test_short_fits_are_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_if_long(GPClassifier(), cubic(4.0, 1900), 1900)


def test_what_grows_with_voxels_says_so():
    with pytest.warns(InputWarning, match="2 minutes for 50 scans of 900 voxels.*smaller mask"):
        tell_if_long(InverseTreeClassifier(), 120.0, 50, 900, less="doubt=None")


@pytest.mark.parametrize(
    "model",
    [
        AutoClassifier(),
        AutoRegressor(),
        GPClassifier(),
        GPRegressor(),
        GPRegressor("rbf"),
        RVMClassifier(doubt=None),
        RVMClassifier(),
        RVMRegressor(),
        InverseTreeClassifier(),
    ],
)
def test_models_tell_it_once(rng, model, monkeypatch):
    monkeypatch.setattr(growth, "LONG", 0.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(rng.normal(size=(8, 5)), np.tile([0, 1], 4))
    # The fits that learn doubt or intervals are part of it.
    (one,) = [str(w.message) for w in told if issubclass(w.category, InputWarning)]
    assert one.startswith(f"{type(model).__name__} takes about 0 seconds for 8 scans")


@pytest.mark.parametrize(
    ("whole", "plain"),
    [
        (RVMClassifier(), RVMClassifier(doubt=None)),
        (RVMRegressor(), RVMRegressor(intervals="evidence")),
        (InverseTreeClassifier(), InverseTreeClassifier(doubt=None)),
    ],
)
def test_without_what_is_held_out_less_time_is_told(rng, whole, plain, monkeypatch):
    expected = []
    for module in (rvm, estimator):
        monkeypatch.setattr(module, "tell_if_long", lambda _, s, *a, **k: expected.append(s))
    for model in (plain, whole):
        model.fit(rng.normal(size=(8, 5)), np.tile([0, 1], 4))
    assert expected[1] == pytest.approx(11 * expected[0])
