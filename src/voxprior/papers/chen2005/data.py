"""Simulated longitudinal maps of the paper's size: two tissues, each with an age and a sex label.

A tissue has four latent states, each driving a ball of voxels in smooth noise; "age" is the
conjunction of the first two and "sex" of the last two, each label flipped with probability .08. A
voxel is 1 where the first time point minus the second is positive (volume loss), which is what the
simulator's binary maps are.
"""

from typing import NamedTuple

import numpy as np

from voxprior.models.network.bits import pack
from voxprior.simulate import latent_clusters

SHAPE = (128, 128, 94)
SMALL = (24, 24, 20)
N_SUBJECTS = 119
LABEL_NOISE = 0.08


class Study(NamedTuple):
    """Packed maps of one tissue, labels by name, and the cluster (V,) of each voxel (0: none)."""

    words: np.ndarray
    labels: dict[str, np.ndarray]
    cluster: np.ndarray


def simulate(tissue: str, quick: bool = False) -> Study:
    """One tissue; the seed depends on its name only."""
    seed = {"GM": 1, "WM": 2}[tissue]
    data = latent_clusters(
        SMALL if quick else SHAPE,
        n_samples=N_SUBJECTS,
        n_latent=4,
        prevalence=0.25,  # of all four states: a pair is on in half the subjects
        cluster_radius=2.5 if quick else 5.0,
        smoothness=1.0 if quick else 2.0,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    latent = data.truth["latent"].astype(bool)
    labels = {}
    for name, pair in (("Age", [0, 1]), ("Sex", [2, 3])):
        flips = rng.random(N_SUBJECTS) < LABEL_NOISE
        labels[f"{tissue}_{name}"] = (latent[:, pair].all(axis=1) ^ flips).astype(np.int64)
    return Study(pack(data.X), labels, data.truth["cluster"])
