"""Simulated longitudinal maps: two tissues, each with an age and a sex label, as many as wanted.

A tissue has four latent states, each driving a ball of voxels in smooth noise; "age" is the
conjunction of the first two and "sex" of the last two, each label flipped with probability .08. A
voxel is 1 where the first time point minus the second is positive (volume loss), which is what the
simulator's binary maps are. The balls have the size they would have in the paper's brain of
1,540,096 voxels; most samples have a smaller brain around them, so that there can be many.
"""

from typing import NamedTuple

import numpy as np

from voxprior.models.network.bits import pack
from voxprior.simulate import latent_clusters

FULL = (128, 128, 94)
SHAPE = (32, 32, 24)
SMALL = (24, 24, 20)
N_SUBJECTS = 119
LABEL_NOISE = 0.08
TISSUES = ("GM", "WM")


class Study(NamedTuple):
    """Packed maps of one tissue, labels by name, and the cluster (V,) of each voxel (0: none)."""

    words: np.ndarray
    labels: dict[str, np.ndarray]
    cluster: np.ndarray


def simulate(tissue: str, sample: int = 0, shape: tuple[int, int, int] = SHAPE) -> Study:
    """One sample of a tissue; the seed depends on its name and number only."""
    seed = 1 + TISSUES.index(tissue) + len(TISSUES) * sample
    small = shape == SMALL
    data = latent_clusters(
        shape,
        n_samples=N_SUBJECTS,
        n_latent=4,
        prevalence=0.25,  # of all four states: a pair is on in half the subjects
        cluster_radius=2.5 if small else 5.0,
        smoothness=1.0 if small else 2.0,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    latent = data.truth["latent"].astype(bool)
    labels = {}
    for name, pair in (("Age", [0, 1]), ("Sex", [2, 3])):
        flips = rng.random(N_SUBJECTS) < LABEL_NOISE
        labels[f"{tissue}_{name}"] = (latent[:, pair].all(axis=1) ^ flips).astype(np.int64)
    return Study(pack(data.X), labels, data.truth["cluster"])
