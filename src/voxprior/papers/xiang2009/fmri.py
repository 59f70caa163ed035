"""Experiment 3: faces against objects, on simulated movie-like fMRI and on Haxby's subject 1.

The movie data were never published. The simulation has their size: 14 subjects, 26 + 18 volumes in
10 groups, smooth noise, and two blobs that differ between the classes.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.svm import SVC

from voxprior.papers.datasets import haxby_vt, standardize_by
from voxprior.papers.frame import Part, Run, Table
from voxprior.papers.xiang2009.arms import arms, mean_sd, morans_i
from voxprior.simulate import blobs


def movie_like(run: Run) -> Part:
    title = "Movie-like simulation: 14 subjects, 26 + 18 volumes, 10 groups"
    return Part({title: Table(movie(run.quick))})


def haxby_pairs(run: Run) -> Part:
    tables = {}
    for volumes in run.each([False] if run.quick else [False, True]):
        what = "volumes" if volumes else "block means"
        title = f"Haxby subject 1, face against each other category, {what}, leave one run out"
        tables[title] = Table(haxby(volumes, run.quick))
    return Part(tables)


def subject(seed: int, shape):
    """One subject: 26 volumes of one class and 18 of the other, spread over 10 groups."""
    data = blobs(
        shape, n_per_class=26, effect=1.2, blob_radius=2.5, noise="correlated", random_state=seed
    )
    keep = np.concatenate([np.flatnonzero(data.y == 0), np.flatnonzero(data.y == 1)[:18]])
    groups = np.concatenate([np.arange(26) % 10, np.arange(18) % 10])
    return data.X[keep], data.y[keep], groups, data.space, data.truth


def movie(quick: bool) -> list[dict]:
    n_subjects, shape = (1, (8, 8, 4)) if quick else (14, (20, 20, 10))
    methods = arms(regularization=0.1, radius=5.0, n_iterations=10 if quick else 100)
    rows = {
        name: {"true": [], "shuffled": [], "moran": [], "null": [], "share": []} for name in methods
    }
    for seed in range(n_subjects):
        X, y, groups, space, truth = subject(seed, shape)
        wrong = np.random.default_rng(seed).permutation(y)
        graph = space.adjacency(26)
        inside = np.abs(truth["signal"]) > 0.25
        for name, make in methods.items():
            kept = rows[name]
            for labels, accuracy, clustering in ((y, "true", "moran"), (wrong, "shuffled", "null")):
                kept[accuracy].append(scored(make(space), X, labels, groups))
                beta = make(space).fit(X, labels).importance_
                kept[clustering].append(morans_i(beta, graph))
                if labels is y:
                    kept["share"].append(beta[inside].sum() / beta.sum() / inside.mean())
    published = {"AdaBoost (λ = 0)": "0.755 ± 0.049", "SRB, conservative step (8)": "0.733 ± 0.093"}
    return [
        {
            "method": name,
            "published (other data)": published.get(name),
            "accuracy": mean_sd(kept["true"]),
            "labels shuffled": mean_sd(kept["shuffled"]),
            "Moran's I": mean_sd(kept["moran"]),
            "Moran's I, labels shuffled": mean_sd(kept["null"]),
            "β in the blobs over chance": float(np.mean(kept["share"])),
        }
        for name, kept in rows.items()
    ]


def scored(model, X, y, groups) -> float:
    return float(np.mean(cross_val_predict(model, X, y, groups=groups, cv=LeaveOneGroupOut()) == y))


def haxby(volumes: bool, quick: bool) -> list[dict]:
    patterns = haxby_vt(volumes)
    X = standardize_by(patterns.X, patterns.run).astype(np.float32)
    graph = patterns.space.adjacency(26)
    n_iterations = 10 if quick else 100
    methods = arms(regularization=0.5, radius=2.0, n_iterations=n_iterations)
    methods |= {
        f"{name}, λ = 0.1, r = 5": make
        for name, make in list(arms(0.1, 5.0, n_iterations).items())[2:3]
    }
    methods["linear SVM"] = lambda space: SVC(kernel="linear")
    others = sorted(set(patterns.y) - {"face"})[: 1 if quick else None]
    rows = []
    for name, make in methods.items():
        accuracy, clustering, null, used = [], [], [], []
        for other in others:
            keep = np.isin(patterns.y, ["face", other])
            data = X[keep], patterns.y[keep]
            accuracy.append(scored(make(patterns.space), *data, patterns.run[keep]))
            if name == "linear SVM":
                continue
            beta = make(patterns.space).fit(*data).importance_
            wrong = np.random.default_rng(0).permutation(data[1])
            clustering.append(morans_i(beta, graph))
            null.append(morans_i(make(patterns.space).fit(data[0], wrong).importance_, graph))
            used.append(int((beta > 0).sum()))
        row = {"method": name, "accuracy": mean_sd(accuracy)}
        row["Moran's I"] = mean_sd(clustering) if clustering else None
        row["Moran's I, labels shuffled"] = mean_sd(null) if null else None
        row["voxels used of 577"] = float(np.mean(used)) if used else None
        rows.append(row)
    return rows
