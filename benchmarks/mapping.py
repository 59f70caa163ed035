"""What map tests claim that is not so, what they find, and what they call it.

* **Errors**: share of data sets in which anything is claimed falsely, at level .05. *Complete*: no
  voxel differs. *Partial*: six of 40 voxels differ strongly, and claims elsewhere count (for
  neighbourhoods, claims whose neighbourhood holds none of the six; cluster and tfce control only
  the complete null, so their partial column shows the price of borrowing strength).
* **Unequal spread**: the same where means are equal and one class spreads more. `auto` is Welch's t
  for two classes of 20 scans or more, and t or moderated t below.
* **Power**: share of truly different voxels that are found at level .05, beside nilearn's
  `permuted_ols`, and the share of claims that are right.
* **Support recovery**: of the k voxels that a map ranks highest, k the number that truly differ,
  the share that does; beside SpaceNet and FREM of nilearn.
* **Names**: a simulated brain in MNI space, an atlas of cubes, two planted regions, and the table.

    python -m benchmarks.mapping [--quick]        writes benchmarks/mapping.md
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
from nilearn.decoding import FREMClassifier, SpaceNetClassifier
from nilearn.mass_univariate import permuted_ols
from threadpoolctl import threadpool_limits

from voxprior.images import ImageSpace
from voxprior.mapping import cluster_tables, map_test, read_atlas
from voxprior.mapping.enhancement import tfce
from voxprior.papers.tables import machine, save
from voxprior.simulate import blobs, brain
from voxprior.space import VoxelSpace

N_DATA_SETS, N_FOR_POWER = 500, 20
SCHEMES = ("free", "within", "whole", "signs")
STATISTICS = ("t", "moderated", "shared", "tfce", "cluster", "pattern", "weight")
SPACE = VoxelSpace.grid((5, 4, 2))
PLANTED = np.array([0, 1, 2, 3, 8, 9])  # a corner: neighbours of each other
LEVEL = 0.05


# ---------------------------------------------------------------- errors


def noise(scheme: str, rng: np.random.Generator, effect: float) -> tuple:
    """Scans of 40 voxels of unlike scale, with what runs or subjects have in common."""
    scales = np.exp(0.35 * rng.normal(size=40))
    n, groups = 16, np.repeat(np.arange(8), 2)
    y = np.tile([0, 1], 8) if scheme != "whole" else np.repeat([0, 1], 8)
    X = rng.normal(size=(n, 40))
    if scheme in ("within", "whole"):
        X += rng.normal(size=(8, 40))[groups]
    X[:, PLANTED] += effect * (y[:, None] if scheme != "signs" else 1.0)
    X *= scales
    if scheme == "signs":
        return X, None, None
    return X, y, None if scheme == "free" else groups


def falsely_claimed(found, effect: float) -> bool:
    """Whether anything is claimed that is not so."""
    if effect == 0:
        return found.p_global <= LEVEL
    right = np.isin(np.arange(40), PLANTED)
    if found.name == "shared":
        right |= SPACE.adjacency(6) @ right
    return bool(found.significant[~right].any())


def error_rate(scheme: str, statistic: str, effect: float, n_sets: int) -> float:
    """Share of data sets with a false claim; each has its own noise and relabellings."""
    rng = np.random.default_rng([SCHEMES.index(scheme), STATISTICS.index(statistic), int(effect)])
    wrong = 0
    for seed in range(n_sets):
        X, y, groups = noise(scheme, rng, effect)
        options = {"scheme": scheme, "n_permutations": 59, "random_state": seed}
        found = map_test(X, y, groups, space=SPACE, statistic=statistic, **options)
        wrong += falsely_claimed(found, effect)
    return wrong / n_sets


def error_table(n_sets: int) -> list[dict]:
    """Rates of every scheme and statistic."""
    rows = []
    for scheme in SCHEMES:
        for statistic in STATISTICS:
            row = {"labels exchanged": scheme, "statistic": statistic}
            row["complete null"] = error_rate(scheme, statistic, 0.0, n_sets)
            partial = "-"
            if statistic not in ("pattern", "weight"):
                partial = f"{error_rate(scheme, statistic, 3.0, n_sets):.3g}"
            rows.append(row | {"partial null": partial})
    return rows


# ---------------------------------------------------------------- unequal spread

# Scans of two classes, and how much larger the standard deviation of the first is.
SPREADS = ((20, 20, 1.0), (12, 12, 2.0), (6, 18, 1.5), (20, 60, 1.5), (60, 20, 1.5), (20, 20, 2.0))


def spread_table(n_sets: int) -> list[dict]:
    """Data sets with equal means in which a voxel is claimed, and in which the check speaks."""
    rows = []
    for first, second, ratio in SPREADS:
        y = np.repeat(["a", "b"], [first, second])
        found: dict[str, list[bool]] = {"t": [], "auto": [], "the check speaks": []}
        for seed in range(n_sets):
            X = np.random.default_rng(seed).normal(size=(len(y), 40))
            X[:first] *= ratio
            for statistic in ("t", "auto"):
                test = map_test(X, y, statistic=statistic, n_permutations=199, random_state=seed)
                found[statistic].append(bool(test.significant.any()))
            found["the check speaks"].append(any("spread more" in note for note in test.notes))
        shares = {name: float(np.mean(values)) for name, values in found.items()}
        rows.append({"scans": f"{first} : {second}", "spread": f"{ratio:g} : 1"} | shares)
    return rows


# ---------------------------------------------------------------- power and support


def simulated(seed: int, effect: float, per_class: int):
    """Two blobs under correlated noise, and which voxels are in them."""
    data = blobs((10, 10, 6), per_class, effect=effect, noise="correlated", random_state=seed)
    signal = np.abs(data.truth["signal"])
    return data, signal > 0.1 * signal.max()


def power_table(n_sets: int) -> list[dict]:
    """Recall and precision of ours and of nilearn's."""
    found: dict[str, list] = {}
    for seed in range(n_sets):
        data, true = simulated(seed, 1.5, 20)
        claims = {
            f"voxprior {s}": map_test(
                data.X, data.y, space=data.space, statistic=s, n_permutations=999
            ).significant
            for s in ("t", "moderated", "tfce")
        }
        claims["voxprior t, false discovery rate"] = map_test(
            data.X, data.y, statistic="t", correction="fdr"
        ).significant
        labels = (data.y == np.unique(data.y)[1]).astype(float)[:, None]
        peer = permuted_ols(labels, data.X, n_perm=999, random_state=seed, output_type="dict")
        claims["nilearn permuted_ols"] = peer["logp_max_t"][0] >= -np.log10(LEVEL)
        for name, claimed in claims.items():
            found.setdefault(name, []).append((claimed, true))
    return [
        {
            "test": name,
            "recall": float(np.mean([c[t].mean() for c, t in pairs])),
            "precision": float(np.nanmean([c[t].sum() / max(c.sum(), 1) for c, t in pairs])),
        }
        for name, pairs in found.items()
    ]


def maps_of(data) -> dict[str, np.ndarray]:
    """Maps of one data set, absolute values."""
    t = map_test(data.X, data.y, n_permutations=1, statistic="t").statistic
    weight = map_test(data.X, data.y, n_permutations=1, statistic="weight").statistic
    found = {"t": t, "tfce": tfce(t, data.space.adjacency(6)), "ridge weight": weight}
    space = data.space
    affine = np.eye(4)
    mask = nibabel.Nifti1Image(space.mask.astype("i1"), affine)
    images = nibabel.Nifti1Image(np.moveaxis(space.unmask(data.X), 0, -1), affine)
    peers = {
        "SpaceNet graph-net": SpaceNetClassifier(
            mask=mask, penalty="graph-net", max_iter=100, cv=3, screening_percentile=100
        ),
        "FREM (SVC)": FREMClassifier(mask=mask, cv=5, clustering_percentile=30),
    }
    for name, peer in peers.items():
        peer.fit(images, data.y)
        coef = (
            peer.coef_img_
            if isinstance(peer.coef_img_, nibabel.Nifti1Image)
            else next(iter(peer.coef_img_.values()))
        )
        found[name] = space.apply_mask(np.asarray(coef.dataobj).reshape(space.shape))
    return {name: np.abs(values) for name, values in found.items()}


def recovered(seed: int) -> dict[str, float]:
    """Share of the true voxels among as many of the highest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, true = simulated(seed, 1.5, 21)
        k = int(true.sum())
        return {
            name: float(true[np.argsort(-values, kind="stable")[:k]].mean())
            for name, values in maps_of(data).items()
        }


def support_table(n_sets: int) -> list[dict]:
    """Mean over data sets, and its standard error."""
    found = [recovered(seed) for seed in range(n_sets)]
    rows = []
    for name in found[0]:
        values = np.array([one[name] for one in found])
        rows.append(
            {"map": name, "recovered": values.mean(), "se": values.std() / len(values) ** 0.5}
        )
    return sorted(rows, key=lambda row: -row["recovered"])


# ---------------------------------------------------------------- names


def name_table() -> list[dict]:
    """Clusters of a simulated brain with the names of an atlas of 40 mm cubes."""
    space = brain(8)
    places = space.coordinates @ space.affine[:3, :3].T + space.affine[:3, 3]
    cube = np.floor((places + 200) / 40).astype(int) @ [100, 10, 1]
    numbers = np.unique(cube, return_inverse=True)[1] + 1
    planted = {
        "left temporal cube": np.array([-60.0, -20.0, -20.0]),
        "right parietal cube": np.array([20.0, -60.0, 20.0]),
    }
    names = {int(n): f"cube {n}" for n in np.unique(numbers)}
    rng = np.random.default_rng(0)
    y, runs = np.tile(["rest", "task"], 10), np.repeat(np.arange(10), 2)
    X = rng.normal(size=(20, space.n_voxels)) + rng.normal(size=(10, 1))[runs]
    for name, center in planted.items():
        near = np.linalg.norm(places - center, axis=1) < 12
        X[:, near] += 3.5 * (y == "task")[:, None]
        names[int(np.bincount(numbers[near]).argmax())] = name
    image = nibabel.Nifti1Image(space.unmask(numbers).astype("i2"), space.affine)
    atlas = read_atlas(image, ImageSpace(space), names)
    found = map_test(X, y, runs, space=space)
    table = cluster_tables(found, space, atlas).clusters
    return table[["voxels", "x", "y", "z", "statistic", "p", "region"]].to_dict("records")


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Errors, power and names of map tests.")
    parser.add_argument("--quick", action="store_true", help="few data sets, nothing written")
    quick = parser.parse_args(argv).quick
    n_sets, n_power = (5, 1) if quick else (N_DATA_SETS, N_FOR_POWER)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = {
            "Errors": error_table(n_sets),
            "Unequal spread": spread_table(n_sets),
            "Power": power_table(n_power),
            "Support recovery": support_table(n_power),
            "Names": name_table(),
        }
    note = (
        f"Errors: {n_sets} data sets each (standard error {np.sqrt(0.05 * 0.95 / n_sets):.3f} at "
        f".05), 16 scans of 40 voxels, 59 relabellings. Unequal spread: as many data sets, 40 "
        f"voxels, 199 relabellings; spread is the ratio of standard deviations. Power: {n_power} "
        "data sets, 40 scans of 600 voxels, two blobs under correlated noise. Support: "
        f"{n_power} data sets of 42 scans; "
        f"SpaceNet with 100 iterations and 3 folds, FREM with 5. {machine()}."
    )
    path = Path("/dev/null") if quick else Path(__file__).with_suffix(".md")
    save(path, "Map tests: errors, power, names", tables, note)


if __name__ == "__main__":
    main()
