"""Where the real data sets are and how they are read; they are never part of the project.

They are looked for in the folder named by the variable ``VOXPRIOR_DATA``, one subfolder each; the
option ``--data`` of ``voxprior reproduce`` sets it. `SOURCES` says where each is from.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


# Subfolder: its files and where they can be had.
SOURCES = {
    "haxby_vt": "haxby_subj1_vt_trials.npz and haxby_subj1_vt_patterns.npz: Haxby 2001, subject 1, "
    "ventral temporal, from the data of github.com/bbuchsbaum/rMVPA",
    "haxby_slice": "bold.nii.gz, mask.nii.gz and attributes_literal.txt: Haxby 2001, subject 1, "
    "one slice, from the data of github.com/PyMVPA/PyMVPA",
    "finger7t": "finger7t_subjects1-4.npz: finger movements at 7 T (Ejaz et al. 2015), from the "
    "data of github.com/DiedrichsenLab/PcmPy",
    "imm_faces": "the 240 images and landmarks.npz of the IMM face database (Stegmann et al. "
    "2003), for instance from github.com/tonytu16/cs194-26",
    "optdigits": "optdigits_orig_tra.npz: the 32 x 32 bitmaps of the UCI optical digits (Alpaydin "
    "& Kaynak 1998), archive.ics.uci.edu/dataset/80",
    "starplus": "data-starplus-*-v7.mat: six subjects of the StarPlus study, "
    "www.cs.cmu.edu/afs/cs.cmu.edu/project/theo-81/www",
}


class DataAbsentError(FileNotFoundError):
    """A real data set is not there; the text says where it was looked for and where to get it."""


@contextmanager
def looking_in(root: Path | None) -> Iterator[None]:
    """Look for data sets in this folder until the end of the block; None changes nothing."""
    before = os.environ.get("VOXPRIOR_DATA")
    if root is not None:
        os.environ["VOXPRIOR_DATA"] = str(root)
    try:
        yield
    finally:
        if root is not None:
            os.environ.pop("VOXPRIOR_DATA")
            os.environ |= {"VOXPRIOR_DATA": before} if before is not None else {}


def folder(name: str) -> Path:
    """The folder of one data set, or DataAbsentError that says where to get it."""
    root = os.environ.get("VOXPRIOR_DATA")
    if not root or not (Path(root) / name).is_dir():
        # The text goes into results, which do not name places of a machine.
        where = "in the folder of data sets" if root else "because VOXPRIOR_DATA is not set"
        raise DataAbsentError(
            f"data set '{name}' was not found {where}: name the folder that holds it by --data or "
            f"VOXPRIOR_DATA. It is {SOURCES[name]}."
        )
    return Path(root) / name


def starplus_files() -> list[Path]:
    """The original StarPlus files, in the folder ``starplus``, or DataAbsentError."""
    return sorted(folder("starplus").glob("data-starplus-*.mat"))


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


def haxby_slice() -> Patterns:
    """Haxby 2001, subject 1, the posterior half of one slice: volumes without those of rest."""
    import nibabel

    root = folder("haxby_slice")
    mask = np.asarray(nibabel.load(root / "mask.nii.gz").dataobj) > 0
    X = np.asarray(nibabel.load(root / "bold.nii.gz").dataobj)[mask].T.astype(float)
    rows = [line.split() for line in (root / "attributes_literal.txt").read_text().splitlines()]
    label, run = np.array([row[0] for row in rows]), np.array([int(row[1]) for row in rows])
    shown = label != "rest"
    return Patterns(X[shown], label[shown], run[shown], VoxelSpace.from_mask(mask))


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
