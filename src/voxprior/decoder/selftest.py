"""Does every model give the same numbers here as where it was tested?

Every family learns a small study of waves, made without random numbers. Its predictions are
compared with ``selftest.json``, which ``python -m voxprior.decoder.selftest`` writes anew where a
model has changed on purpose.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from voxprior import registry
from voxprior.errors import fault
from voxprior.space import VoxelSpace
from voxprior.writing import write_whole

EXPECTED = Path(__file__).with_name("selftest.json")
SHAPE, N_TRAIN, N_TEST = (6, 6, 4), 20, 6
# Probabilities, and predictions in deviations of the target, may differ by this much: other
# versions of the libraries stop optimising elsewhere.
TOLERANCE = 2e-3


class Outcome(NamedTuple):
    """How far a model is from the expected numbers, its seconds, and why it failed, if it did."""

    difference: float
    seconds: float
    failure: str = ""

    @property
    def well(self) -> bool:
        """Whether the model gives the expected numbers."""
        return not self.failure and self.difference <= TOLERANCE


def study() -> tuple[np.ndarray, np.ndarray, VoxelSpace]:
    """Return scans, a number for each, and their space: waves, and a blob that follows it."""
    space, n = VoxelSpace.grid(SHAPE), N_TRAIN + N_TEST
    scan, voxel = np.arange(n)[:, None], np.arange(space.n_voxels)[None, :]
    waves = np.sin(12.9898 * scan + 78.233 * voxel + 0.37 * scan * voxel)
    target = np.sin(2.4 * np.arange(n))
    far = np.linalg.norm(space.coordinates - np.array([2, 3, 1]), axis=1)
    blob = 0.35 * np.exp(-(far**2) / 4)
    return waves + np.outer(np.where(target > 0, 1.0, -1.0), blob), target, space


def answers(model: registry.Model) -> np.ndarray:
    """Fit a model to the first scans and return its predictions for the others."""
    X, target, space = study()
    classifies = model.kind == "classifier"
    y = np.where(target > 0, "b", "a") if classifies else target
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.make(space).fit(X[:N_TRAIN], y[:N_TRAIN])
        new = X[N_TRAIN:]
        return fitted.predict_proba(new)[:, 1] if classifies else fitted.predict(new)


def self_test() -> Iterator[tuple[str, Outcome]]:
    """Test every family of this package, one after the other."""
    expected = json.loads(EXPECTED.read_text("utf-8"))
    for model in registry.MODELS:
        if model.role != "family":
            continue
        start = perf_counter()
        try:
            found = answers(model)
            difference = float(np.abs(found - expected[model.name]).max())
            told = "" if np.isfinite(difference) else "it says no numbers"
        except Exception as error:  # whatever it is, the others are tested too
            difference, told = float("nan"), fault(error)
        yield model.name, Outcome(difference, perf_counter() - start, told)


if __name__ == "__main__":
    digits = {
        model.name: [round(float(value), 6) for value in answers(model)]
        for model in registry.MODELS
        if model.role == "family"
    }
    write_whole(EXPECTED, json.dumps(digits, indent=1) + "\n")
