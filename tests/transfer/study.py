"""Small subjects of known numbers, for tests of priors from others."""

import numpy as np
from sklearn.dummy import DummyClassifier

UNIFORM = DummyClassifier(strategy="uniform")
RUNS = np.arange(9) // 3


def worked_subject(s):
    """Three classes, three runs, six voxels; every number follows from s, 1 to 4."""
    i, j = np.arange(9)[:, None], np.arange(6)[None]
    y = i % 3
    X = ((5 * i**2 + 3 * i * j + 7 * j * s + 2 * s * i) % 11) / 4
    X = X + 2 * ((j + s) % 3 == y) + (((j + s + 1) % 3 == y) & (y > 0))
    return X, y.ravel(), RUNS


def worked_others(names="abc"):
    return {name: worked_subject(s) for s, name in enumerate(names, start=1)}


def alike(n_subjects=4, n_classes=4, n_voxels=60, n_runs=4, seed=0, shuffle=False):
    """Subjects whose class means have one second moment, or one per subject with `shuffle`."""
    rng = np.random.default_rng(seed)
    loadings = np.array([[1.5, 0], [1.2, 0.3], [0, 1], [-1, 0.2], [-2, -1]])[:n_classes]
    study = {}
    for number in range(n_subjects):
        order = rng.permutation(n_classes) if shuffle else np.arange(n_classes)
        means = 0.4 * loadings[order] @ rng.standard_normal((2, n_voxels))
        y = np.tile(np.arange(n_classes), n_runs)
        runs = np.repeat(np.arange(n_runs), n_classes)
        X = means[y] + rng.standard_normal((len(y), n_voxels))
        study[f"s{number}"] = (X + rng.standard_normal((n_runs, n_voxels))[runs], y, runs)
    return study
