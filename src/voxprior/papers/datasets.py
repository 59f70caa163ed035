"""Where the real data sets are and how they are read; they are never part of the project.

They are looked for in the folder named by the variable ``VOXPRIOR_DATA``.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from voxprior import VoxelSpace


class Patterns(NamedTuple):
    """Samples with labels and runs; ``space`` is None where coordinates are unknown."""

    X: np.ndarray
    y: np.ndarray
    run: np.ndarray
    space: VoxelSpace | None
    block: np.ndarray | None = None


def folder(name: str) -> Path:
    """The folder of one data set, or FileNotFoundError that says where it was looked for."""
    root = os.environ.get("VOXPRIOR_DATA")
    if not root or not (Path(root) / name).is_dir():
        where = f"in {root}" if root else "because VOXPRIOR_DATA is not set"
        raise FileNotFoundError(
            f"data set '{name}' was not found {where}: set VOXPRIOR_DATA to the folder that holds "
            "it."
        )
    return Path(root) / name


def starplus_files() -> list[Path]:
    """The original StarPlus files, in the folder ``starplus``; none where it is absent."""
    root = Path(os.environ.get("VOXPRIOR_DATA") or os.devnull)
    return sorted(root.glob("starplus/data-starplus-*.mat"))


def haxby_vt(volumes: bool = True) -> Patterns:
    """Haxby 2001, subject 1, ventral temporal: 864 raw volumes (9 per block), or 96 block means."""
    name = "trials" if volumes else "patterns"
    with np.load(folder("haxby_vt") / f"haxby_subj1_vt_{name}.npz") as data:
        mask = np.zeros(data["mask_dim"], dtype=bool)
        where = np.unravel_index(data["mask_idx_1based_fortran"] - 1, mask.shape, order="F")
        mask[where] = True
        # VoxelSpace orders voxels as numpy does (C order); the file is in Fortran order.
        order = np.argsort(np.ravel_multi_index(where, mask.shape))
        block = data["block"] if volumes else None
        space = VoxelSpace.from_mask(mask)
        return Patterns(data["X"][:, order], data["y"], data["run"], space, block)


def finger7t(subject: int) -> Patterns:
    """Finger movements at 7 T, primary motor cortex, subject 1 to 4; pre-whitened betas."""
    with np.load(folder("finger7t") / "finger7t_subjects1-4.npz") as data:
        X, y, run = (data[f"{key}{subject}"] for key in ("X", "finger", "run"))
        return Patterns(X, y, run, None)


def standardize_by(X: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Z-score every feature within each run (constant features become 0)."""
    Z = np.empty_like(X, dtype=float)
    for r in np.unique(run):
        part = X[run == r].astype(float)
        scale = part.std(axis=0)
        Z[run == r] = (part - part.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return Z
