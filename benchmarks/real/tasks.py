"""The development tasks: data sets at several sizes, and the draws of training scans from each.

| data set | classes | groups | n counts |
|---|---|---|---|
| finger | 5 fingers, 4 subjects | runs | training runs |
| haxby, haxby-pairs | 8 categories, 5 pairs of them; ventral temporal blocks | runs | training runs |
| haxby-raw | the same blocks, not standardised by run | runs | training runs |
| slice | 8 categories, half of one slice | runs | training runs |
| sex, sex-gain | sex from neutral faces; each face times a random gain | - | scans per class |
| smile, smile-gain | neutral against smiling faces | people | training people |
| digits, digits-8 | 3 against 8; eight digits | - | scans per class |
| cohort | patients and controls, simulated whole maps | - | scans per class |
| low-rank, low-rank-4 | 2 and 4 classes in structured noise | - | scans per class |
| null, null-5 | nothing | - | scans per class |

Tasks are dealt into two halves by the md5 of their name, odd or even: whatever is chosen is chosen on
half A, and must hold on half B.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import md5
from typing import Any

import numpy as np

from voxprior.papers.datasets import finger7t, folder, haxby_vt, standardize_by
from voxprior.simulate import cohort
from voxprior.space import VoxelSpace

DRAWS = 5
PAIRS = (
    ("face", "house"),
    ("cat", "chair"),
    ("bottle", "shoe"),
    ("scissors", "face"),
    ("cat", "face"),
)


@dataclass(frozen=True, eq=False)
class Scans:
    """Scans of one data set, or of one subject of it."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None
    space: VoxelSpace | None = None


@dataclass(frozen=True)
class Task:
    """A data set at one size; `null` where there is nothing to find."""

    data: str
    n: str
    make: Callable[[], Iterator[tuple[Scans, np.ndarray, np.ndarray]]]
    null: bool = False

    @property
    def name(self) -> str:
        """Data set and size."""
        return f"{self.data}, n = {self.n}"

    @property
    def half(self) -> str:
        """A or B, by chance but always the same."""
        return "AB"[int(md5(self.name.encode()).hexdigest(), 16) % 2]


# ---------------------------------------------------------------- draws


def by_group(scans: Scans, n: int | None, draws: int, seed: int) -> Iterator:
    """Train on n whole groups and test on all others; all but two if n is None."""
    rng = np.random.default_rng(seed)
    known = np.unique(scans.groups)
    size = len(known) - 1 if n is None else n
    for _ in range(draws):
        drawn = rng.choice(known, size, replace=False)
        inside = np.isin(scans.groups, drawn)
        yield scans, np.flatnonzero(inside), np.flatnonzero(~inside)


def by_class(scans: Scans, n: int, draws: int, seed: int, most: int = 100) -> Iterator:
    """Train on n scans of every class, test on at most so many of the others."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        order = rng.permutation(len(scans.y))
        train = np.concatenate([order[scans.y[order] == c][:n] for c in np.unique(scans.y)])
        yield scans, np.sort(train), np.setdiff1d(order, train)[:most]


def over(parts: list[Scans], draw: Callable, *arguments: Any) -> Iterator:
    for seed, scans in enumerate(parts):
        yield from draw(scans, *arguments, seed)


# ---------------------------------------------------------------- data sets


@lru_cache
def finger() -> list[Scans]:
    found = [finger7t(subject) for subject in (1, 2, 3, 4)]
    return [Scans(one.X.astype(float), one.y, one.run) for one in found]


@lru_cache
def haxby(raw: bool = False) -> list[Scans]:
    volumes = haxby_vt()
    values = volumes.X.astype(float) if raw else standardize_by(volumes.X, volumes.run)
    first = np.unique(volumes.block, return_index=True)[1]
    means = np.array([values[volumes.block == b].mean(axis=0) for b in volumes.block[first]])
    return [Scans(means, volumes.y[first], volumes.run[first], volumes.space)]


@lru_cache
def haxby_pairs() -> list[Scans]:
    (whole,) = haxby()
    return [_of(whole, np.isin(whole.y, pair)) for pair in PAIRS]


@lru_cache
def half_slice() -> list[Scans]:
    import nibabel

    root = folder("haxby_slice")
    mask = np.asarray(nibabel.load(root / "mask.nii.gz").dataobj) > 0
    X = np.asarray(nibabel.load(root / "bold.nii.gz").dataobj)[mask].T.astype(float)
    rows = [line.split() for line in (root / "attributes_literal.txt").read_text().splitlines()]
    label, run = np.array([row[0] for row in rows]), np.array([int(row[1]) for row in rows])
    X = standardize_by(X, run)
    starts = np.flatnonzero(np.r_[True, (label[1:] != label[:-1]) | (run[1:] != run[:-1])])
    blocks = [b for b in np.split(np.arange(len(label)), starts[1:]) if label[b[0]] != "rest"]
    means = np.array([X[b].mean(axis=0) for b in blocks])
    firsts = [b[0] for b in blocks]
    return [Scans(means, label[firsts], run[firsts], VoxelSpace.from_mask(mask))]


@lru_cache
def faces(smile: bool, gain: float = 0.0) -> list[Scans]:
    from PIL import Image

    root = folder("imm_faces")
    files = sorted(root.glob("*.jpg"))
    kinds = ("1", "2") if smile else ("1",)
    files = [f for f in files if f.stem.split("-")[1][0] in kinds]
    X = np.array([np.asarray(Image.open(f).convert("L").resize((40, 30)), float) for f in files])
    X = X.reshape(len(X), -1)
    X = X * np.exp(gain * np.random.default_rng(0).standard_normal((len(X), 1)))
    person = np.array([int(f.stem[:2]) for f in files])
    kind, sex = (np.array([f.stem.split("-")[1][i] for f in files]) for i in (0, 1))
    space = VoxelSpace.grid((30, 40))
    return [Scans(X, kind, person, space) if smile else Scans(X, sex, None, space)]


@lru_cache
def digits(wanted: tuple[int, ...]) -> list[Scans]:
    from pathlib import Path

    file = sorted(Path(folder("optdigits")).glob("*tra*.npz"))[0]
    with np.load(file) as data:
        images, labels = (data[key] for key in sorted(data.files, key=lambda k: -data[k].ndim))
    scans = Scans(
        images.reshape(len(images), -1).astype(float), labels, None, VoxelSpace.grid((32, 32))
    )
    return [_of(scans, np.isin(labels, wanted))]


def _of(scans: Scans, rows: np.ndarray) -> Scans:
    groups = None if scans.groups is None else scans.groups[rows]
    return replace(scans, X=scans.X[rows], y=scans.y[rows], groups=groups)


@lru_cache
def cohorts() -> list[Scans]:
    made = [cohort((16, 16, 12), 260, n_sites=2, distributed=0.03, focal=0.15, random_state=seed)
            for seed in range(2)]  # fmt: skip
    return [Scans(one.X, one.y, None, one.space) for one in made]


@lru_cache
def low_rank(n_classes: int, p: int = 300, rank: int = 10, seeds: int = 2) -> list[Scans]:
    """Class means of length 2 in noise whose first directions are five times as strong."""
    made = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        y = np.arange(80 * n_classes) % n_classes
        factors = rng.standard_normal((rank, p)) / np.sqrt(p)
        means = 6 * rng.standard_normal((n_classes, p)) / np.sqrt(p)
        X = means[y] + 20 * rng.standard_normal((len(y), rank)) @ factors
        made.append(Scans(X + rng.standard_normal((len(y), p)), y))
    return made


@lru_cache
def noise(n_classes: int, p: int = 300, seeds: int = 10) -> list[Scans]:
    y = np.arange(100 * n_classes) % n_classes
    return [
        Scans(np.random.default_rng(seed).standard_normal((len(y), p)), y) for seed in range(seeds)
    ]


# ---------------------------------------------------------------- tasks


def people(scans: Scans, n: int, draws: int, seed: int) -> Iterator:
    """Train on n scans drawn in the proportions of the classes, test on the others."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        parts = [rng.permutation(np.flatnonzero(scans.y == c)) for c in np.unique(scans.y)]
        share = n / len(scans.y)
        train = np.concatenate([part[: round(share * len(part))] for part in parts])
        yield scans, np.sort(train), np.setdiff1d(np.arange(len(scans.y)), train)


def _task(data: str, n: Any, parts: Callable, draw: Callable, draws: int = DRAWS, **more) -> Task:
    size = None if n == "all" else n
    return Task(data, str(n), lambda: over(parts(), draw, size, draws), **more)


GAIN = 0.4
TASKS = (
    *(_task("finger", n, finger, by_group, 2) for n in (1, 2, 4, "all")),
    *(_task("haxby", n, haxby, by_group, 5) for n in (1, 2, 4, "all")),
    *(_task("haxby-pairs", n, haxby_pairs, by_group, 2) for n in (1, 2, 4, "all")),
    *(_task("haxby-raw", n, lambda: haxby(raw=True), by_group, 4) for n in (2, 4)),
    *(_task("slice", n, half_slice, by_group, 5) for n in (1, 2, 4, "all")),
    *(_task("sex", n, lambda: faces(False), by_class, 6) for n in (2, 4)),
    _task("sex", 30, lambda: faces(False), people, 6),
    *(_task("sex-gain", n, lambda: faces(False, GAIN), by_class, 6) for n in (2, 4)),
    _task("sex-gain", 30, lambda: faces(False, GAIN), people, 6),
    *(_task("smile", n, lambda: faces(True), by_group) for n in (2, 4, 30)),
    *(_task("smile-gain", n, lambda: faces(True, GAIN), by_group) for n in (2, 4, 30)),
    *(_task("digits", n, lambda: digits((3, 8)), by_class) for n in (1, 2, 4, 20, 100)),
    *(_task("digits-8", n, lambda: digits(tuple(range(8))), by_class) for n in (1, 2, 8)),
    *(_task("cohort", n, cohorts, by_class, 3) for n in (1, 2, 5, 10, 30, 80)),
    *(_task("low-rank", n, lambda: low_rank(2), by_class, 2) for n in (2, 8, 40)),
    *(_task("low-rank-4", n, lambda: low_rank(4), by_class, 2) for n in (2, 8, 40)),
    *(_task("null", n, lambda: noise(2), by_class, 5, null=True) for n in (1, 2, 4, 20)),
    *(_task("null-5", n, lambda: noise(5), by_class, 1, null=True) for n in (2, 6)),
)
