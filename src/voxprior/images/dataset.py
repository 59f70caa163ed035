"""Dataset: what every reader here returns, the arrays a decoder needs and where they came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.errors import InputError
from voxprior.images.sources import relative_folders
from voxprior.labels import kind_of, refuse_alike
from voxprior.notebook import facts_html
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    import pandas as pd

    from voxprior.images.imagespace import ImageSpace

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples with their labels, groups, covariates and place in the brain.

    Every row belongs to one sample: a map, a block, a volume or a window of volumes. What is given
    per sample has n entries in the order of the rows; what is None was not known.

    Attributes
    ----------
    X : ndarray of shape (n, T * V), float32
        One row per sample: V voxels, or T volumes of them, time-major: ``X.reshape(n, T, V)``.
    y : ndarray of shape (n,) or None
        Labels, text or numbers; None where they are to be predicted.
    space : VoxelSpace
        Where the V voxels are; column v of a volume is voxel v of the space.
    groups : ndarray of shape (n,) or None
        What training and test sets must not share: the run, the subject, or the block.
    covariates : DataFrame with n rows or None
        Age, sex, site and the like, one column each; the index is 0 to n - 1.
    names : tuple of n str
        Where each row comes from, for messages and reports: the file, and the volumes in it. Empty
        where nothing is known.
    blocks : ndarray of shape (n,) or None
        Number of the block each row was cut from, counted over all runs; volumes of one block
        share it. None where samples are maps.
    images : ImageSpace or None
        The fitted reader: reads further images the same way, and turns maps back into images.
    standardize : {"run", "baseline", "group", "train", "none"}
        "run", "baseline" and "group" are done in `X` (the unit of prediction is then a run or
        group); "train" is still to be done, inside the training folds: see `scaled_by_training`.
    trials : dict or None
        How runs were cut, as keywords of `load_runs`: unit, window, delay, conditions, rest and
        label_column. None where samples are maps.
    dropped : tuple of str
        One line for each sample left out, with the reason.
    notes : tuple of str
        What else a reader of the report should know, such as voxels that the mask left out.
    findings : tuple of (name, message)
        What the reader found in the files that cannot be right, by the names of the audit, see
        `voxprior.validation.audit`.
    columns : DataFrame with n rows or None
        The other columns of the table of labels, for the audit.
    looked : tuple of str
        Names of the checks of the audit that the reader has made.
    settings : dict or None
        Settings with which a Decoder has read the images.
    decisions : tuple of str
        One sentence for each automatic choice of preparation, with the number that made it.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images import Dataset
    >>> from voxprior.space import VoxelSpace
    >>> data = Dataset(np.zeros((2, 12), np.float32), np.array(["a", "b"]), VoxelSpace.grid((2, 2)))
    >>> data
    Dataset(2 samples, 4 voxels x 3 times, labels a: 1, b: 1)
    >>> data.take([1]).y
    array(['b'], dtype='<U1')
    """

    X: np.ndarray
    y: np.ndarray | None
    space: VoxelSpace
    groups: np.ndarray | None = None
    covariates: pd.DataFrame | None = None
    names: tuple[str, ...] = ()
    blocks: np.ndarray | None = None
    images: ImageSpace | None = None
    standardize: str = "none"
    trials: dict[str, Any] | None = None
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[tuple[str, str], ...] = ()
    settings: dict[str, Any] | None = None
    decisions: tuple[str, ...] = ()
    columns: pd.DataFrame | None = None
    looked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.shape[1] % self.space.n_voxels:
            raise InputError(
                "X must have one row per sample, and a multiple of the number of voxels as columns",
                got=f"shape {self.X.shape} and {self.space.n_voxels} voxels",
            )
        columns: dict[str, Any] = {"y": self.y, "groups": self.groups, "blocks": self.blocks}
        columns |= {"covariates": self.covariates, "columns": self.columns}
        columns["names"] = self.names or None
        for name, values in columns.items():
            if values is not None and len(values) != len(self.X):
                raise InputError(
                    f"{name} must have one entry per sample",
                    expected=f"{len(self.X)}",
                    got=f"{len(values)}",
                )
        for name, values in (("labels", self.y), ("groups", self.groups)):
            refuse_alike(name, values)
        for covariate, levels in {} if self.covariates is None else dict(self.covariates).items():
            refuse_alike(f"values of the covariate {covariate!r}", levels)

    @property
    def n_samples(self) -> int:
        """Number of samples n."""
        return len(self.X)

    @property
    def n_times(self) -> int:
        """Number of time points T in a row: 1 unless windows of volumes were cut."""
        return self.X.shape[1] // self.space.n_voxels

    def known(self) -> dict[str, Any]:
        """Return what the audit should know of the scans, as keywords of `cross_validate`."""
        return {
            "variables": None if self.covariates is None else dict(self.covariates.items()),
            "columns": None if self.columns is None else dict(self.columns.items()),
            "names": self.names,
            "findings": self.findings,
            "looked": self.looked,
        }

    def named_near(self, *folders: Any) -> Dataset:
        """Return the dataset without folder names that reveal whose machine it was.

        In names and in all messages, file names start at the first of these folders that contains
        all of them, or else at the folder that they share.
        """
        near = [Path(folder).absolute() for folder in folders]
        shorter = relative_folders(self.names, near)

        def moved(text: str) -> str:
            for folder, shown in shorter.items():
                text = text.replace(folder, shown)
            return text

        return replace(
            self,
            names=tuple(map(moved, self.names)),
            dropped=tuple(map(moved, self.dropped)),
            notes=tuple(map(moved, self.notes)),
            decisions=tuple(map(moved, self.decisions)),
            findings=tuple((name, moved(said)) for name, said in self.findings),
        )

    def take(self, rows: Any) -> Dataset:
        """Return the dataset of these rows only (numbers or booleans), in this order."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows

        def pick(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        def pick_rows(table: pd.DataFrame | None) -> pd.DataFrame | None:
            return None if table is None else table.iloc[rows].reset_index(drop=True)

        return replace(
            self,
            X=self.X[rows],
            y=pick(self.y),
            groups=pick(self.groups),
            blocks=pick(self.blocks),
            covariates=pick_rows(self.covariates),
            columns=pick_rows(self.columns),
            names=tuple(self.names[r] for r in rows) if self.names else (),
        )

    def _repr_html_(self) -> str:
        """Summarise the samples: how many, of what, in which voxels, and what is missing."""
        facts: dict[str, Any] = {"samples": self.n_samples} | self._of_labels()
        if self.groups is not None:
            facts["groups"] = len(np.unique(self.groups))
        facts["voxels"] = f"{self.space.n_voxels:,}"
        if self.images is not None:
            facts["mask"] = self.images.mask_words
        if self.n_times > 1:
            facts["volumes per sample"] = self.n_times
        if self.covariates is not None:
            facts["covariates"] = ", ".join(map(str, self.covariates.columns))
        facts["left out"] = "; ".join(self.dropped) or "nothing"
        facts |= {f"decision {n}": one for n, one in enumerate(self.decisions, start=1)}
        facts |= {f"note {n}": one for n, one in enumerate(self.notes, start=1)}
        return facts_html("Dataset", facts)

    def _of_labels(self) -> dict[str, str]:
        """Samples of each class, or the range of numbers."""
        if self.y is None:
            return {"labels": "none"}
        if kind_of(self.y) == "regressor":
            return {"numbers": f"{np.min(self.y):g} to {np.max(self.y):g}"}
        labels, counts = np.unique(self.y, return_counts=True)
        return {"classes": ", ".join(f"{label}: {n}" for label, n in zip(labels, counts))}

    def __repr__(self) -> str:
        times = f" x {self.n_times} times" if self.n_times > 1 else ""
        parts = [f"{self.n_samples} samples", f"{self.space.n_voxels} voxels{times}"]
        if self.y is not None:
            labels, counts = np.unique(self.y, return_counts=True)
            if len(labels) <= 10:
                parts.append("labels " + ", ".join(f"{a}: {n}" for a, n in zip(labels, counts)))
        if self.groups is not None:
            parts.append(f"{len(np.unique(self.groups))} groups")
        if self.dropped:
            parts.append(f"{len(self.dropped)} dropped")
        return f"Dataset({', '.join(parts)})"
