"""What checks look at: scans, labels, groups, folds and all else that is known of each scan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from voxprior.blocks import first_columns
from voxprior.images.findings import FEWEST_VOXELS, scan_scales
from voxprior.validation.audit.finding import NotChecked

# Whole-brain data are judged by this many voxels, evenly spaced: a leak shows in all of them.
VOXELS_LOOKED_AT = 2000
# Splits into more folds are judged by this many, evenly spaced.
FOLDS_LOOKED_AT = 200
FEW_VOXELS = NotChecked(f"fewer than {FEWEST_VOXELS} numbers per scan are not an image")

# Of file names as BIDS has them.
ENTITY = r"(?:^|[/\\_]){}-([A-Za-z0-9]+)"


@dataclass(frozen=True, eq=False)
class AuditedScans:
    """Everything for an audit; `voxels` and `sampled` give `NotChecked` where there are none."""

    estimator: Any
    X: Any
    y: np.ndarray
    groups: np.ndarray | None
    folds: Sequence
    variables: Mapping[str, Any]
    columns: Mapping[str, Any]
    names: Sequence[str]

    @cached_property
    def classifying(self) -> bool:
        """Whether labels are classes."""
        return is_classifier(self.estimator)

    @cached_property
    def codes(self) -> np.ndarray:
        """Class of each scan as a number; all 0 where the target is a number."""
        if not self.classifying:
            return np.zeros(len(self.y), dtype=int)
        return np.unique(self.y, return_inverse=True)[1]

    @cached_property
    def group_codes(self) -> np.ndarray | None:
        """Group of each scan as a number."""
        return None if self.groups is None else np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def entities(self) -> dict[str, np.ndarray]:
        """Subject, session and run of each scan, as far as file names give them."""
        return entity_columns(self.names)

    @property
    def each_of_another_subject(self) -> bool:
        """Whether file names show that no subject has two scans."""
        return len(set(self.entities.get("sub-", ()))) == len(self.y)

    @property
    def no_groups(self) -> NotChecked:
        """Report that there are no groups; the user may supply them unless there can be none."""
        if self.each_of_another_subject:
            return NotChecked("every scan is of another subject")
        return NotChecked("no runs or subjects are given as groups", askable=True)

    @cached_property
    def matrix(self) -> np.ndarray | NotChecked:
        """Rows of numbers (n, V) without the covariates that are the last columns of X."""
        if get_tags(self.estimator).input_tags.pairwise:
            return NotChecked("the estimator takes a Gram matrix")
        if sparse.issparse(self.X):
            return NotChecked("the scans are a sparse matrix")
        matrix = self.X.to_numpy() if hasattr(self.X, "to_numpy") else self.X
        if getattr(matrix, "ndim", 0) != 2 or matrix.dtype.kind not in "fiub":
            return NotChecked("the scans are not a table of numbers")
        return first_columns(matrix, matrix.shape[1] - self._n_covariates)

    @property
    def _n_covariates(self) -> int:
        params = self.estimator.get_params(deep=True)
        return sum(v for name, v in params.items() if name.split("__")[-1] == "n_covariates")

    @property
    def regresses(self) -> bool:
        """Whether the estimator takes out of every voxel what covariates explain."""
        return self._n_covariates > 0

    @cached_property
    def voxels(self) -> np.ndarray | NotChecked:
        """`matrix`, where it holds images."""
        matrix = self.matrix
        if not isinstance(matrix, NotChecked) and matrix.shape[1] < FEWEST_VOXELS:
            return FEW_VOXELS
        return matrix

    @cached_property
    def scales(self) -> list[float]:
        """`scan_scale` of every scan, where there are voxels."""
        return [] if isinstance(self.voxels, NotChecked) else scan_scales(self.voxels)

    @cached_property
    def sampled(self) -> np.ndarray | NotChecked:
        """Voxels that are looked at where not all need be, those that vary, as float64."""
        if isinstance(self.matrix, NotChecked):
            return self.matrix
        few = spaced_columns(self.matrix, VOXELS_LOOKED_AT)
        if not np.all(np.isfinite(few)):
            return NotChecked("some voxels are NaN or infinite")
        few = few[:, few.std(axis=0) > 0]
        return few if few.shape[1] else NotChecked("no voxel varies between scans")

    @cached_property
    def judged_folds(self) -> list:
        """The folds, or as many as are looked at."""
        step = -(-len(self.folds) // FOLDS_LOOKED_AT) or 1
        return [(np.asarray(train), np.asarray(test)) for train, test in self.folds[::step]]

    def straddling(self, level: np.ndarray) -> float:
        """Share of test scans, over folds, whose level is also that of a training scan."""
        met = [np.isin(level[test], level[train]) for train, test in self.judged_folds]
        return float(np.concatenate(met).mean()) if met else 0.0


def spaced_columns(matrix: np.ndarray, n: int) -> np.ndarray:
    """About n columns, evenly spaced, as float64."""
    return np.asarray(matrix[:, :: max(1, matrix.shape[1] // n)], dtype=float)


def entity_columns(names) -> dict[str, np.ndarray]:
    """Subjects, sessions and runs as far as file names give them, for all scans.

    >>> entity_columns(["sub-1_run-1.nii", "sub-1_run-2.nii"])["run-"].tolist()
    ['1 1', '1 2']
    """
    columns, before = {}, [""] * len(names)
    for key in ("sub", "ses", "run"):
        told = [re.findall(ENTITY.format(key), name) for name in names]
        if told and all(told):
            before = [f"{b} {t[-1]}".strip() for b, t in zip(before, told)]
            columns[f"{key}-"] = np.array(before)
    return columns
