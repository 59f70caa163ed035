"""Long fits are told before they start, and short ones are not."""

import warnings

import numpy as np
import pytest

from voxprior import GPClassifier, RVMClassifier, RVMRegressor
from voxprior.errors import InputWarning
from voxprior.models.gaussian import growth
from voxprior.models.gaussian.growth import tell_if_long


@pytest.mark.parametrize(
    ("n_scans", "n_classes", "words"),
    [
        (2000, 2, "32 seconds"),
        (2000, 5, "3 minutes"),
        (20_000, 2, "8.9 hours"),
    ],
)
def test_the_estimate_grows_with_the_cube_of_scans_and_with_classes(n_scans, n_classes, words):
    with pytest.warns(InputWarning, match=f"about {words} for {n_scans} scans"):
        tell_if_long(GPClassifier(), 4.0, n_scans, n_classes)


def test_short_fits_are_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_if_long(GPClassifier(), 4.0, 1900)


@pytest.mark.parametrize("model", [GPClassifier(), RVMClassifier(doubt=None), RVMRegressor()])
def test_models_tell_it(rng, model, monkeypatch):
    monkeypatch.setattr(growth, "LONG", 0.0)
    with pytest.warns(InputWarning, match=f"{type(model).__name__} takes about 0 seconds"):
        model.fit(rng.normal(size=(8, 5)), np.tile([0, 1], 4))
