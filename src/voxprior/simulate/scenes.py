"""Scenes: one small experiment per family in which what the family takes for granted is true.

| scene | families | what is true in it |
|---|---|---|
| time courses | sharing | neighbouring voxels answer alike over time |
| connectivity | fields | classes differ in which regions go together, in nothing else |
| compact blob | boosting | one ball of voxels tells the classes apart |
| probabilities | gp, rvm | smooth maps; labels are drawn from known probabilities |
| latent regions | network | binary maps; two hidden regions drive the class |

A seed draws the whole experiment anew: where the signal is, the scans and the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from voxprior.simulate.boosting import blobs
from voxprior.simulate.data import Simulated
from voxprior.simulate.fields import chains
from voxprior.simulate.gaussian import smooth_maps
from voxprior.simulate.geometry import brain
from voxprior.simulate.network import latent_clusters
from voxprior.simulate.sharing import time_courses

__all__ = ["SCENES", "Scene"]

# Millimetres: a brain of 3,666 voxels, so that every family learns in parts of a second.
RESOLUTION = 8


@dataclass(frozen=True)
class Scene:
    """An experiment to learn from, and at how many scans.

    Attributes
    ----------
    title, claim : str
        Its name, and what is true in it.
    families : tuple of str
        Names of the models that take this for granted.
    draw : callable
        Seed to experiment; the first scans of each class are there to train, later ones to test.
    sizes : tuple of int
        Training scans per class.
    decisive : int
        The size at which families are compared with stock decoders.
    score : {"accuracy", "log_loss"}
        The measure they are compared by.
    truth : callable, optional
        Where the classes differ in truth, (V,), or which nodes go together, (n, n).
    maps : dict of str to callable
        What the fitted model of a decoder shows of the same, by the decoder's name.
    """

    title: str
    claim: str
    families: tuple[str, ...]
    draw: Callable[[int], Simulated]
    sizes: tuple[int, ...]
    decisive: int
    score: str = "accuracy"
    truth: Callable[[Simulated], NDArray] | None = None
    maps: Mapping[str, Callable[[Any], NDArray]] = field(default_factory=dict)


def _time_courses(seed: int) -> Simulated:
    return time_courses(
        brain(RESOLUTION), 60, n_times=8, amplitude=0.3, n_regions=10, active_regions=2,
        random_state=seed,
    )  # fmt: skip


def _connectivity(seed: int) -> Simulated:
    return chains(n_per_class=80, n_nodes=24, coupling=0.8, random_state=seed)


def _blob(seed: int) -> Simulated:
    return blobs(brain(RESOLUTION), 80, n_blobs=1, random_state=seed)


def _probabilities(seed: int) -> Simulated:
    return smooth_maps(
        brain(RESOLUTION), 240, strength=2.0, smoothness=3.0, weight_smoothness=3.0,
        random_state=seed,
    )  # fmt: skip


def _latent_regions(seed: int) -> Simulated:
    return latent_clusters(brain(RESOLUTION), 260, random_state=seed)


def _mean_over_time(model: Any) -> NDArray:
    difference = model.voxel_maps()["difference"]
    return difference.reshape(-1, model.space.n_voxels).mean(axis=0)


SCENES = (
    Scene(
        "time courses",
        "neighbouring voxels answer alike over time",
        ("sharing",),
        _time_courses,
        sizes=(2, 4, 8),
        decisive=2,
        truth=lambda data: data.truth["amplitude"][1] - data.truth["amplitude"][0],
        maps={"sharing": _mean_over_time},
    ),
    Scene(
        "connectivity",
        "classes differ only in which regions go together",
        ("fields",),
        _connectivity,
        sizes=(5, 10, 20),
        decisive=10,
        truth=lambda data: data.truth["coef"][1] - data.truth["coef"][0],
        maps={"fields": lambda model: model.coef_[1] - model.coef_[0]},
    ),
    Scene(
        "compact blob",
        "one ball of voxels tells the classes apart",
        ("boosting",),
        _blob,
        sizes=(5, 10, 15),
        decisive=15,
        truth=lambda data: data.truth["signal"],
        maps={"boosting": lambda model: model.voxel_maps()["smoothed"]},
    ),
    Scene(
        "probabilities",
        "smooth maps, labels drawn from known probabilities",
        ("gp", "rvm"),
        _probabilities,
        sizes=(5, 10, 20),
        decisive=20,
        score="log_loss",
        truth=lambda data: data.truth["pattern"][0],
        maps={"gp": lambda model: model.voxel_maps()["pattern"]},
    ),
    Scene(
        "latent regions",
        "in binary maps, two hidden regions drive the class",
        ("network",),
        _latent_regions,
        sizes=(10, 20, 40),
        decisive=40,
        truth=lambda data: data.truth["cluster"],
        maps={"network": lambda model: model.voxel_maps()["clusters"]},
    ),
)
