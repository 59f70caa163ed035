"""What other subjects bring to a new one: real fingers, subjects unlike each other, shared maps.

Every new subject is decoded from n of its runs and tested on its other runs, with a prior from the
other subjects; it is in no prior that serves it. Accuracy / log-loss, means over subjects, and the
paired difference of the pool from its base with its standard error over subjects.

    python -m benchmarks.transfer [--quick]        writes benchmarks/transfer.md

The finger data are read from the folder that VOXPRIOR_DATA names, and left out without it. The
settings κ₀ = 9 and λ₀ = .03 were chosen on these very subjects, before this table; the simulations
were not used to choose anything.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

from voxprior.papers.tables import machine, save
from voxprior.simulate import subjects as simulated_subjects
from voxprior.space import VoxelSpace
from voxprior.transfer import TransferPrior
from voxprior.transfer.episodes import episodes_of, scans_of
from voxprior.transfer.levels import log_probabilities

NOTE = (
    "Accuracy / log-loss of new subjects, each decoded from n scans per class and tested on its "
    "other runs, with a prior from other subjects; means over subjects. κ₀ and λ₀ were chosen on "
    "the finger data, on nothing else here."
)

Subject = tuple[np.ndarray, np.ndarray, np.ndarray | None]
Study = Mapping[str, Subject]
BySize = dict[int, dict[str, np.ndarray]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few episodes and subjects")
    quick = parser.parse_args().quick
    sections = {**fingers(quick), **unlike(quick), **designs(quick), **maps(quick), **mni(quick)}
    few = " Few episodes and subjects (--quick): a first look." if quick else ""
    note = f"{NOTE}{few} {machine('scipy')}."
    save(Path(__file__).with_suffix(".md"), "A prior from other subjects", sections, note)


# ---------------------------------------------------------------- one study


def losses(
    study: Study,
    sizes: Sequence[int],
    news: Sequence[str],
    episodes: int,
    rivals: Mapping[str, Callable],
    **prior: Any,
) -> BySize:
    """(accuracy, log-loss) by size and row for every new subject, (subjects, 2)."""
    found: dict[int, dict[str, list]] = {n: {} for n in sizes}
    for name in news:
        others = {key: one for key, one in study.items() if key != name}
        learned = TransferPrior(**prior, max_episodes=episodes).fit(others)
        for n in sizes:
            rows: dict[str, list[tuple[float, float]]] = {}
            for key, p, y in _predictions(study[name], learned, n, episodes, rivals, others):
                hit = np.log(np.maximum(p[np.arange(len(y)), y], 1e-15))
                rows.setdefault(key, []).append(((p.argmax(axis=1) == y).mean(), -hit.mean()))
            for key, values in rows.items():
                found[n].setdefault(key, []).append(np.mean(values, axis=0))
    return {n: {key: np.array(one) for key, one in rows.items()} for n, rows in found.items()}


def joined(several: Sequence[BySize]) -> BySize:
    """Subjects of several studies, one below the other."""
    first = several[0]
    return {
        n: {key: np.concatenate([one[n][key] for one in several]) for key in first[n]}
        for n in first
    }


def _predictions(
    new: Subject, learned: TransferPrior, n: int, episodes: int, rivals: Mapping, others: Study
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Probabilities of every row in every episode of a new subject, with the true classes."""
    X, y, runs = new
    classes, codes = np.unique(y, return_inverse=True)
    scans = scans_of(X, codes, runs, len(classes))
    for split in episodes_of(scans, n, episodes):
        own = scans.X[split.train], codes[split.train], _some(scans.runs, split.train)
        tests, truth = scans.X[split.test], codes[split.test]
        for key, rival in rivals.items():
            yield key, rival(*own, tests, others), truth
        model = learned.adapt(own[0], classes[own[1]], own[2])
        centered = tests - model._center
        base = np.log(np.maximum(model.base_.predict_proba(centered), 1e-15))
        one = model._episode(model._known(), centered, base)
        lesson = model.prior.lessons[model.lesson_size_]
        for key, log_p in log_probabilities(one, lesson).items():
            yield key, np.exp(log_p), truth
        yield "**pool**", model.predict_proba(tests), truth


def _some(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[rows]


def logistic(X, y, runs, tests, others) -> np.ndarray:
    """Logistic regression, C by inner folds on log-loss where there are two runs."""
    model: Any = LogisticRegression(max_iter=1000)
    if runs is not None and len(np.unique(runs)) > 1:
        grid = {"C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]}
        model = GridSearchCV(model, grid, scoring="neg_log_loss", cv=LeaveOneGroupOut())
        return model.fit(X, y, groups=runs).predict_proba(tests)
    return model.fit(X, y).predict_proba(tests)


def lda(X, y, runs, tests, others) -> np.ndarray:
    """Shrinkage LDA in the span of the scans; uniform with one scan per class."""
    if np.bincount(y).min() < 2:
        return np.full((len(tests), y.max() + 1), 1 / (y.max() + 1))
    left, size, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    kept = size > 1e-10 * size[0]
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(left[:, kept] * size[kept], y)
    return model.predict_proba((tests - X.mean(axis=0)) @ right[kept].T)


def pooled_training(X, y, runs, tests, others) -> np.ndarray:
    """Logistic regression on the scans of all subjects, where voxels correspond."""
    scans = [scans_of(Xo, np.unique(yo, return_inverse=True)[1], ro, y.max() + 1)
             for Xo, yo, ro in others.values()]  # fmt: skip
    model = LogisticRegression(C=0.01, max_iter=1000)
    model.fit(np.vstack([X, *(s.X for s in scans)]), np.concatenate([y, *(s.codes for s in scans)]))
    return model.predict_proba(tests)


def table(by_size: BySize) -> str:
    """One row per method, one column per number of scans per class."""
    sizes = list(by_size)
    lines = ["| | " + " | ".join(f"n = {n}" for n in sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for key in by_size[sizes[0]]:
        cells = ["{:.3f}/{:.3f}".format(*by_size[n][key].mean(axis=0)) for n in sizes]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    for score, name in enumerate(("accuracy", "log-loss")):
        cells = [_paired(by_size[n]["**pool**"] - by_size[n]["base"], score) for n in sizes]
        lines.append(f"| pool minus base, {name} (s.e.), worst | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _paired(difference: np.ndarray, score: int) -> str:
    values = difference[:, score]
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    worst = values.min() if score == 0 else values.max()
    return f"{values.mean():+.3f} ({error:.3f}), {worst:+.3f}"


# ---------------------------------------------------------------- the parts


def fingers(quick: bool) -> dict[str, str]:
    """Real scans: 7 T, five fingers, four subjects whose voxels do not correspond."""
    title = "Fingers, 7 T, five classes, each of four subjects from the other three"
    path = Path(os.environ.get("VOXPRIOR_DATA", "")) / "finger7t" / "finger7t_subjects1-4.npz"
    if not path.is_file():
        return {title: "Not measured: VOXPRIOR_DATA names no folder with these data."}
    data = np.load(path)
    study = {f"{s}": (data[f"X{s}"], data[f"finger{s}"], data[f"run{s}"]) for s in range(1, 5)}
    rivals = {"logistic regression, tuned": logistic, "shrinkage LDA": lda}
    found = losses(study, (1, 2, 4), list(study), 4 if quick else 24, rivals)
    lines = ["| n | " + " | ".join(f"subject {s}" for s in study) + " |", "|---" * 5 + "|"]
    for n, one in found.items():
        both = zip(one["**pool**"][:, 1], one["base"][:, 1])
        lines.append(f"| {n} | " + " | ".join(f"{a:.3f} / {b:.3f}" for a, b in both) + " |")
    return {title: table(found), "Log-loss of fingers, pool / base, per subject": "\n".join(lines)}


def alike(seed: int, kind: str, n_subjects: int = 8, n_voxels: int = 300) -> Study:
    """Subjects whose class means have a common second moment, or not."""
    rng = np.random.default_rng(seed)
    C, V, n_runs = 5, n_voxels, 7
    H = np.eye(C) - 1 / C
    size = np.array([1.2, 0.7, 0.6, 0.6, 0.8])
    gap = np.abs(np.subtract.outer(np.arange(C), np.arange(C)))
    common = H @ (np.exp(-gap / 1.5) * np.outer(size, size)) @ H
    study = {}
    for s in range(n_subjects):
        G = {"exchangeable": H}.get(kind, common)
        if kind == "geometries":
            Q = rng.standard_normal((C, 3))
            G = H @ (Q @ Q.T + 0.1 * np.eye(C)) @ H
        order = rng.permutation(C)
        if kind == "shuffled" or (kind == "newcomer" and s == 0):
            G = G[np.ix_(order, order)]
        G = G / np.trace(G) * 0.5 * np.exp(rng.normal(0, 0.4))
        values, vectors = np.linalg.eigh(G)
        means = vectors * np.sqrt(np.maximum(values, 0)) @ rng.standard_normal((C, V))
        y = np.tile(np.arange(C), n_runs)
        study[f"s{s}"] = (means[y] + rng.standard_normal((len(y), V)), y, np.arange(len(y)) // C)
    return study


def unlike(quick: bool) -> dict[str, str]:
    """What happens where subjects are not alike."""
    seeds, news = (2, 2) if quick else (3, 4)
    sections = {}
    for kind in ("alike", "shuffled", "geometries", "newcomer", "exchangeable"):
        names = [f"s{i}" for i in range(1 if kind == "newcomer" else news)]
        each = [losses(alike(seed, kind), (1, 2), names, 7, {}) for seed in range(seeds)]
        sections[f"Simulated, 8 subjects, 5 classes, 300 voxels: {kind}"] = table(joined(each))
    return sections


def designs(quick: bool) -> dict[str, str]:
    """Two classes, unequal counts, no runs, other numbers of voxels."""
    sections = {}
    for title, (change, n_voxels) in DESIGNS.items():
        each = []
        for seed in range(1 if quick else 3):
            subjects = enumerate(alike(seed, "alike", n_voxels=n_voxels).items())
            study = {name: change(i, *one) for i, (name, one) in subjects}
            each.append(losses(study, (1, 2), ["s0", "s1"], 7, {}))
        sections[f"Simulated, alike: {title}"] = table(joined(each))
    return sections


def _two_classes(i, X, y, runs) -> Subject:
    return X[y < 2], y[y < 2], runs[y < 2]


def _no_runs(i, X, y, runs) -> Subject:
    return X, y, None


def _unequal(i, X, y, runs) -> Subject:
    keep = (y > 0) | (runs < 4)
    return X[keep], y[keep], None


def _finer(i, X, y, runs) -> Subject:
    """All but the first two subjects have each voxel four times, with the same noise."""
    return (X if i < 2 else np.repeat(X, 4, axis=1)), y, runs


def _larger(i, X, y, runs) -> Subject:
    """All but the first two subjects have four times the voxels, each with noise of its own."""
    return (X[:, ::4] if i < 2 else X), y, runs


DESIGNS = {
    "two classes": (_two_classes, 300),
    "no runs": (_no_runs, 300),
    "unequal counts, no runs": (_unequal, 300),
    "others have four times the voxels, each value four times": (_finer, 300),
    "others have four times the voxels, all of them different": (_larger, 1200),
}


def maps(quick: bool) -> dict[str, str]:
    """Shared spaces: prior maps at growing misalignment."""
    rivals = {"logistic regression, tuned": logistic, "pooled training": pooled_training}
    sections = {}
    for shift in (0.0, 1.0, 2.0, 4.0):
        study = simulated_subjects(5 if quick else 12, shift=shift, random_state=0)
        space = study["sub-01"].space
        arrays = {name: (one.X, one.y, one.groups) for name, one in study.items()}
        news, sizes = list(arrays)[: 1 if quick else 4], (1,) if quick else (1, 2, 4)
        title = f"Simulated, shared space of 14 x 14 x 8 voxels, blobs shifted by {shift:g} voxels"
        sections[title] = table(losses(arrays, sizes, news, 3, rivals, space=space))
    return sections


def mni(quick: bool) -> dict[str, str]:
    """The brain of the MNI template in voxels of 8 mm: blobs of 12 mm, shifted by 8 mm."""
    from nilearn.datasets import load_mni152_brain_mask

    mask = load_mni152_brain_mask(resolution=8)
    space = VoxelSpace.from_mask(np.asarray(mask.dataobj) > 0, mask.affine)
    study = simulated_subjects(5 if quick else 12, space, shift=1.0, random_state=0)
    arrays = {name: (one.X, one.y, one.groups) for name, one in study.items()}
    news, sizes = list(arrays)[: 1 if quick else 4], (1,) if quick else (1, 2, 4)
    title = f"Simulated, MNI space, {space.n_voxels:,} voxels of 8 mm, blobs shifted by 8 mm"
    rivals = {"logistic regression, tuned": logistic, "pooled training": pooled_training}
    return {title: table(losses(arrays, sizes, news, 3, rivals, space=space))}


if __name__ == "__main__":
    main()
