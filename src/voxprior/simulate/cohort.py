"""A cohort: one map per subject, with all that makes subjects differ besides the disease.

    x_i = g_i (m + a_i'A + t_i T + s_i S + B_{k(i)} + d_i (P + F) + ε_i),     g_i = exp(N(0, gain²))

Every map is smooth with unit variance times its size, in units of the common image, whose mean is 1. The
disease has a distributed part P, a little everywhere, and a focal part F, in a few balls. With
``imbalance`` the patients are older and more of them come from the first sites: what a decoder can
know of the disease without seeing it.

| symbol | variable | shape |
|---|---|---|
| m, the image that all share | `truth["common"]` | (V,) |
| g, gains of scanner and day | `truth["gain"]` | (n,) |
| A, a, anatomy: few factors and their loadings | `truth["anatomy"]`, `truth["loadings"]` | (k, V), (n, k) |
| t, T, age in units of its deviation | `truth["age"]` (years), `truth["age_map"]` | (n,), (V,) |
| s, S, sex, 0 or 1 | `truth["sex"]`, `truth["sex_map"]` | (n,), (V,) |
| k, B, sites | `truth["site"]`, `truth["site_maps"]` | (n,), (n_sites, V) |
| d, disease, 0 or 1 | `truth["disease"]` | (n,) |
| P, F | `truth["distributed"]`, `truth["focal"]` | (V,) |
"""  # noqa: E501

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space, balls
from voxprior.simulate.noise import SmoothField
from voxprior.space import VoxelSpace

__all__ = ["cohort"]

# Ages, in years.
MEAN_AGE, AGE_DEVIATION = 50.0, 15.0


def cohort(
    space: VoxelSpace | tuple[int, ...] | None = None,
    n_subjects: int = 60,
    *,
    target: Literal["disease", "age"] = "disease",
    prevalence: float = 0.5,
    distributed: float = 0.02,
    focal: float = 0.05,
    n_foci: int = 3,
    focus_radius: float = 2.0,
    gain: float = 0.1,
    n_factors: int = 10,
    anatomy: float = 0.05,
    age: float = 0.05,
    sex: float = 0.05,
    n_sites: int = 1,
    site: float = 0.05,
    imbalance: float = 0.0,
    noise: float = 0.1,
    smoothness: float = 2.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate structural maps of patients and controls, one per subject.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (16, 16, 10)
        Where the voxels are.
    n_subjects : int
        Number of subjects.
    target : {"disease", "age"}
        Whether y is the disease, 0 or 1, or the age in years.
    prevalence : float
        Share of patients; their number is rounded, and at least one where it is above 0.
    distributed, focal : float
        Size of the disease's distributed map, and of its foci, in units of the common image.
    n_foci : int
        Number of foci.
    focus_radius : float
        Their radius in voxels.
    gain : float
        Standard deviation of the logarithm of the gains.
    n_factors : int
        Factors of the anatomy.
    anatomy, age, sex, site, noise : float
        Sizes of what else differs, in units of the common image.
    n_sites : int
        Sites that the subjects come from, in turns.
    imbalance : float
        How many standard deviations older patients are; and from 0 to 1 the chance that a patient
        moves to the first half of the sites.
    smoothness : float
        Radius in voxels over which maps and noise are alike.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is float32 (n, V); each subject is a group. The truth is as in the table of the module.

    Examples
    --------
    >>> from voxprior.simulate import cohort
    >>> data = cohort((10, 10, 6), 40, n_sites=2, random_state=0)
    >>> data.X.shape, data.y.sum(), data.truth["site"].max()
    ((40, 600), np.int64(20), np.int64(1))
    """
    _check(target, n_subjects, n_sites, prevalence)
    rng = np.random.default_rng(random_state)
    space = as_space(space, (16, 16, 10))
    field = SmoothField(space, smoothness)
    people = _people(n_subjects, prevalence, n_sites, imbalance, rng)
    maps = {
        "common": 1 + 0.2 * field.sample(1, rng)[0],
        "anatomy": anatomy * field.sample(n_factors, rng),
        "age_map": age * field.sample(1, rng)[0],
        "sex_map": sex * field.sample(1, rng)[0],
        "site_maps": (site if n_sites > 1 else 0.0) * field.sample(n_sites, rng),
        "distributed": distributed * field.sample(1, rng)[0],
        "focal": focal * (balls(space, n_foci, focus_radius, rng) > 0),
    }
    loadings = rng.standard_normal((n_subjects, n_factors))
    gains = np.exp(gain * rng.standard_normal(n_subjects))
    X = _scans(maps, people, loadings, noise * field.sample(n_subjects, rng))
    X = (gains[:, None] * X).astype(np.float32)
    truth = {**maps, **people, "loadings": loadings, "gain": gains}
    return Simulated(X, people[target], np.arange(n_subjects), space, truth)


def _check(target: str, n_subjects: int, n_sites: int, prevalence: float) -> None:
    if target not in ("disease", "age"):
        raise InputError(
            f"{option('target', target)} cannot be used", expected="'disease' or 'age'"
        )
    if not 1 <= n_sites <= n_subjects:
        raise InputError(
            f"{option('n_sites', n_sites)} cannot be used",
            expected=f"1 to {n_subjects}, the number of subjects",
        )
    if not 0 <= prevalence <= 1:
        raise InputError(
            f"{option('prevalence', prevalence)} cannot be used", expected="a number from 0 to 1"
        )


def _people(
    n: int, prevalence: float, n_sites: int, imbalance: float, rng: np.random.Generator
) -> dict[str, NDArray]:
    """Disease, age, sex and site of every subject."""
    patients = min(n, max(int(prevalence > 0), round(prevalence * n)))
    disease = rng.permutation(np.arange(n) < patients).astype(np.int64)
    site = np.arange(n) % n_sites
    moved = (disease == 1) & (rng.random(n) < imbalance)
    site[moved] %= max(1, n_sites // 2)
    years = rng.standard_normal(n) + imbalance * disease
    return {
        "disease": disease,
        "age": MEAN_AGE + AGE_DEVIATION * years,
        "sex": rng.integers(2, size=n),
        "site": site,
    }


def _scans(
    maps: dict[str, NDArray], people: dict[str, NDArray], loadings: NDArray, noise: NDArray
) -> NDArray[np.float64]:
    """Scans without gains: the sum of all maps, and noise."""
    t = (people["age"] - MEAN_AGE) / AGE_DEVIATION
    X = maps["common"] + loadings @ maps["anatomy"] + maps["site_maps"][people["site"]] + noise
    X += np.outer(t, maps["age_map"]) + np.outer(people["sex"], maps["sex_map"])
    return X + np.outer(people["disease"], maps["distributed"] + maps["focal"])
