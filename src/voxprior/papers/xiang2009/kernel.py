"""What the kernel does: its cheapest maps (Figure 1), the effect of μ, and what λ > 0 costs."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import average_precision_score

from voxprior import SpatialBoostingClassifier, VoxelSpace
from voxprior.models.boosting.coordinate_descent import Settings, boost
from voxprior.models.boosting.penalty import make_penalty
from voxprior.models.boosting.stumps import presort
from voxprior.papers.claims import Claim, paired
from voxprior.papers.frame import Drawing, Part, Run, Table, drawing
from voxprior.papers.measure import measure
from voxprior.papers.xiang2009.arms import mean_sd, morans_i
from voxprior.simulate import blobs


def properties(run: Run) -> Part:
    values, maps = eigenmaps()
    clustering, multiples_rows = multiples(run, 1 if run.quick else 20)
    blobs_title = "Larger μ, simulated blobs on 20 x 20, 15 scans per class"
    larger = Claim(
        "a larger μ (twice) makes the grouping effect more dominant (Moran's I)",
        paired(clustering[2.0], clustering[1.0]),
        f"{len(clustering[1.0])} simulated data sets",
        "Sec. 4, after (10)",
    )
    return Part(
        {
            "Eigenvalues of K on a 20 x 20 grid, r = 2": Table(values),
            blobs_title: Table(multiples_rows),
            "An iteration with λ > 0 over one with λ = 0, 100 samples": Table(cost(run.quick)),
        },
        {"figure1_cheapest_maps": maps},
        [larger],
    )


def eigenmaps() -> tuple[list[dict], Drawing]:
    """The six maps of least penalty: slow waves that vanish at the border."""
    from matplotlib.figure import Figure

    side = 20
    penalty = make_penalty(
        "gaussian", VoxelSpace.grid((side, side)), side * side, 2.0, 1.0, "voxel"
    )
    K = np.column_stack([penalty @ e for e in np.eye(side * side)])
    values, vectors = np.linalg.eigh(K)
    figure = Figure(figsize=(9, 1.8), layout="constrained")
    for axis, value, vector in zip(figure.subplots(1, 6), values, vectors.T):
        top = np.abs(vector).max()
        axis.imshow(vector.reshape(side, side), cmap="RdBu_r", vmin=-top, vmax=top)
        axis.set(title=f"{value:.2f}", xticks=[], yticks=[])
    row = {f"{k + 1}": float(value) for k, value in enumerate(values[:6])}
    caption = "Published: eigenvectors of a kernel on a square; here of K on 20 x 20, r = 2."
    return [row | {"largest": values[-1]}], drawing(figure, caption)


def multiples(run: Run, n_draws: int) -> tuple[dict[float, list[float]], list[dict]]:
    """Moran's I of every data set by μ over the largest row sum, and a table."""
    clustering, rows = {}, []
    for mu in run.each((1.0, 1.2, 2.0, 5.0)):
        accuracy, precision, moran = [], [], []
        for seed in range(n_draws):
            data = blobs((20, 20), n_per_class=65, effect=1.0, random_state=seed)
            train = np.concatenate([np.flatnonzero(data.y == c)[:15] for c in (0, 1)])
            test = np.setdiff1d(np.arange(len(data.y)), train)
            model = SpatialBoostingClassifier(data.space, regularization=0.5, mu=mu)
            model.fit(data.X[train], data.y[train])
            accuracy.append(model.score(data.X[test], data.y[test]))
            precision.append(average_precision_score(data.truth["blob"] > 0, model.importance_))
            moran.append(morans_i(model.importance_, data.space.adjacency(26)))
        clustering[mu] = moran
        rows.append(
            {
                "μ over the largest row sum": mu,
                "accuracy": mean_sd(accuracy),
                "average precision of the blobs": mean_sd(precision),
                "Moran's I": mean_sd(moran),
            }
        )
    return clustering, rows


def cost(quick: bool) -> list[dict]:
    rows = []
    for shape in ((10, 10, 10),) if quick else ((20, 25, 20), (40, 50, 40), (115, 115, 115)):
        space = VoxelSpace.grid(shape)
        rng = np.random.default_rng(0)
        X = rng.standard_normal((100, space.n_voxels), dtype=np.float32)
        y = np.where(np.arange(100) % 2, 1.0, -1.0)
        pool = presort(X)
        penalty = make_penalty("gaussian", space, space.n_voxels, 2.0, 1.0, "voxel")
        n = 20 if space.n_voxels < 1e5 else 5
        seconds = {lam: iteration_seconds(pool, y, penalty, lam, n) for lam in (0.0, 0.5)}
        rows.append(
            {
                "voxels": space.n_voxels,
                "λ = 0, ms": 1e3 * seconds[0.0],
                "λ > 0, ms": 1e3 * seconds[0.5],
                "ratio": seconds[0.5] / seconds[0.0],
            }
        )
    return rows


def iteration_seconds(pool, y, penalty, lam: float, n: int) -> float:
    return measure(lambda: boost(pool, y, penalty, Settings(lam, n, tol=0.0))).seconds / n
