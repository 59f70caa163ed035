"""Tables of what a map test found: clusters of significant voxels, and their peaks.

A cluster is a connected component of significant voxels of one sign. Its peaks are voxels that no
neighbour exceeds, the highest first; further ones count if they are at least 8 mm (or units of the
coordinates) from those before. Places are in millimetres where the images give them, in MNI space
if the images are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.mapping.atlas import Atlas
from voxprior.mapping.enhancement import components, graph_of
from voxprior.mapping.verdict import MapTest
from voxprior.space import VoxelSpace

__all__ = ["ClusterTables", "cluster_tables", "places"]

# Peaks of one cluster, and how far they are apart at least.
MOST_PEAKS, DISTANCE = 4, 8.0


class ClusterTables(NamedTuple):
    """Clusters, largest first, and their peaks, highest first."""

    clusters: pd.DataFrame
    peaks: pd.DataFrame


def places(space: VoxelSpace) -> np.ndarray:
    """Where voxels are, (V, 3): in millimetres where there is an affine, else their coordinates.

    >>> places(VoxelSpace.grid((1, 1, 2), np.diag([2.0, 2.0, 3.0, 1.0]))).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]
    """
    if space.affine is None:
        return np.asarray(space.coordinates)
    return space.coordinates @ space.affine[:3, :3].T + space.affine[:3, 3]


def cluster_tables(
    found: MapTest, space: VoxelSpace, atlas: Atlas | None = None, radius: float | None = None
) -> ClusterTables:
    """Find the clusters of significant voxels and their peaks.

    Parameters
    ----------
    found : MapTest
        What was tested; of a "global" map there is nothing to list.
    space : VoxelSpace
        Where the voxels are.
    atlas : Atlas, optional
        Names the regions.
    radius : float, optional
        As in `map_test`; a point set needs it.

    Examples
    --------
    >>> from voxprior.mapping import map_test
    >>> y, runs = np.tile([0, 1], 8), np.repeat(range(8), 2)
    >>> X = np.random.default_rng(1).normal(size=(16, 12))
    >>> X[:, 2:5] += 9 * y[:, None]
    >>> space = VoxelSpace.grid((12,))
    >>> cluster_tables(map_test(X, y, runs), space).clusters[["cluster", "voxels"]]
       cluster  voxels
    0        1       3
    """
    graph, where = graph_of(space, radius), places(space)
    label = components(found.significant & (found.statistic > 0), graph)
    negative = components(found.significant & (found.statistic < 0), graph)
    label = np.where(negative >= 0, negative + label.max() + 1, label)
    members = [np.flatnonzero(label == c) for c in range(label.max() + 1)]
    members.sort(key=lambda voxels: (-len(voxels), voxels[0]))
    clusters, peaks = [], []
    for number, voxels in enumerate(members, start=1):
        tops = _peaks(np.abs(found.statistic), voxels, label, graph, where)
        rows = [_row(number, top, found, where, atlas) for top in tops]
        peaks += [row | {"peak": k} for k, row in enumerate(rows, start=1)]
        clusters.append(rows[0] | _extent(voxels, space, atlas))
    place = ["x", "y", "z"]
    region = ["region"] if atlas is not None else []
    size = ["voxels", "mm3"] + (["regions"] if atlas is not None else [])
    return ClusterTables(
        pd.DataFrame(clusters, columns=["cluster", *size[:2], *place, "statistic", "p", *region,
                                        *size[2:]]),
        pd.DataFrame(peaks, columns=["cluster", "peak", *place, "statistic", "p", *region]),
    )  # fmt: skip


def _peaks(
    height: np.ndarray, voxels: np.ndarray, label: np.ndarray, graph: Any, where: np.ndarray
) -> list[int]:
    """Voxels of a cluster that no neighbour in it exceeds, far enough from each other."""
    chosen: list[int] = []
    for v in voxels[np.argsort(-height[voxels], kind="stable")]:
        near = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        near = near[label[near] == label[v]]
        apart = all(np.linalg.norm(where[v] - where[u]) >= DISTANCE for u in chosen)
        if apart and (height[near] <= height[v]).all():
            chosen.append(int(v))
        if len(chosen) == MOST_PEAKS:
            break
    return chosen


def _row(
    number: int, voxel: int, found: MapTest, where: np.ndarray, atlas: Atlas | None
) -> dict[str, Any]:
    value: Any = {"fwer": found.p_fwer, "fdr": found.q_fdr, "none": found.p_uncorrected}
    place = dict(zip("xyz", np.round(where[voxel], 2) + 0.0))
    row = {"cluster": number, **place, "statistic": float(found.statistic[voxel])}
    row["p"] = float(value[found.correction][voxel])
    return row if atlas is None else row | {"region": atlas.name(voxel)}


def _extent(voxels: np.ndarray, space: VoxelSpace, atlas: Atlas | None) -> dict[str, Any]:
    volume = np.nan
    if space.affine is not None:
        volume = float(len(voxels) * abs(np.linalg.det(space.affine[:3, :3])))
    row: dict[str, Any] = {"voxels": len(voxels), "mm3": volume}
    if atlas is not None:
        shares = list(atlas.shares(voxels).items())[:3]
        row["regions"] = "; ".join(f"{name} {share:.0%}" for name, share in shares)
    return row
