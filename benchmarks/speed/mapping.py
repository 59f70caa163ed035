"""Map tests and TFCE against nilearn, in one process, as ratios.

python -m benchmarks.speed.mapping [--quick]
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from nilearn.mass_univariate import permuted_ols
from nilearn.mass_univariate._utils import calculate_tfce
from scipy import ndimage
from threadpoolctl import threadpool_limits

from voxprior.mapping import map_test
from voxprior.mapping.enhancement import graph_of, tfce
from voxprior.papers.tables import machine, save
from voxprior.simulate import brain

# Scans and voxels of the map test; millimetres of the brains whose maps are enhanced.
SCANS, VOXELS = 100, 80_000
RESOLUTIONS = (8, 4, 3)


def seconds(call: Callable, repeats: int) -> float:
    """Processor time, best of several: other work on the machine does not count."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)


def race_maps(n: int, voxels: int, repeats: int, peer_n: int) -> list[dict]:
    """The map test at two numbers of relabellings; nilearn is timed at fewer and extrapolated."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, voxels)).astype(np.float32), np.tile([0, 1], n // 2)
    map_test(X[:, :100], y, n_permutations=100)  # compile
    peer = seconds(
        lambda: permuted_ols(y[:, None].astype(float), X, n_perm=peer_n, random_state=0), 1
    )
    none = seconds(lambda: permuted_ols(y[:, None].astype(float), X, n_perm=0, random_state=0), 1)
    per_map = (peer - none) / peer_n
    rows = []
    for draws in (1_000, 10_000):
        ours = seconds(lambda draws=draws: map_test(X, y, n_permutations=draws), repeats)
        theirs = none + draws * per_map
        row = {"scans": n, "voxels": voxels, "relabellings": draws, "seconds": ours}
        rows.append(row | {"permuted_ols, s (extrapolated)": theirs, "ratio": theirs / ours})
    rows[1]["times 1,000"] = rows[1]["seconds"] / rows[0]["seconds"]
    rows[0]["times 1,000"] = 1.0
    return rows


def race_tfce(resolution: int, repeats: int) -> dict:
    """One enhancement of a smooth map by each; nilearn's goes over the whole grid of the image."""
    rng, space = np.random.default_rng(0), brain(resolution)
    volume = ndimage.gaussian_filter(rng.normal(size=space.shape), 1.0) * space.mask
    volume *= 5 / np.abs(volume).max()
    graph, values = graph_of(space), space.apply_mask(volume)
    tfce(values, graph)  # compile
    ours = seconds(lambda: tfce(values, graph), 5 * repeats)
    struct = ndimage.generate_binary_structure(3, 1)
    theirs = seconds(lambda: calculate_tfce(volume[..., None], struct), repeats)
    row = {
        "voxels": values.size,
        "grid": volume.size,
        "ms per map": 1e3 * ours,
        "nilearn, ms": 1e3 * theirs,
    }
    return row | {"ratio": theirs / ours}


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Race of map tests against nilearn.")
    parser.add_argument("--quick", action="store_true", help="small, once, nothing written")
    quick = parser.parse_args(argv).quick
    size, repeats, brains = (2_000, 1, (8,)) if quick else (VOXELS, 3, RESOLUTIONS)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = {
            "Map test": race_maps(SCANS, size, repeats, 20),
            "TFCE of one map": [race_tfce(mm, repeats) for mm in brains],
        }
    note = (
        f"Processor time, best of {repeats}, one thread, in one process, on a busy machine. "
        "`permuted_ols` is timed at 20 relabellings and none, and extrapolated; its TFCE goes over "
        f"the whole grid of the image. {machine()}."
    )
    path = Path("/dev/null") if quick else Path(__file__).with_suffix(".md")
    save(path, "Map tests", tables, note)


if __name__ == "__main__":
    main()
