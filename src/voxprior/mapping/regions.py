"""Regions: how well each region of an atlas decodes, tested over all regions.

A region is a set of voxels that is decoded alone and tested with all others, see
`voxprior.mapping.local_test`. Its row in the table has

* the score of its held-out scans; for accuracy with a 95 % interval over groups;
* p corrected for the number of regions, and p of the region alone;
* its peak: the voxel of the largest |t| (F beyond two classes), and its p corrected for all voxels;
* its share of what a decoder of all voxels reads: with weights w and f_r = X_r w_r of the region's
  voxels alone, var(f_r) / Σ_r' var(f_r'). The weights are those given, or of a ridge on all voxels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.blocks import gram_matrix
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import ImageSpace
from voxprior.mapping.atlas import Atlas, read_atlas
from voxprior.mapping.local_ridge import Labellings, operators, predicted
from voxprior.mapping.local_test import (
    LocalDesign,
    LocalOptions,
    LocalResult,
    local_design,
    local_frame,
    local_options,
    local_test,
)
from voxprior.mapping.maptest import map_test
from voxprior.mapping.searchlight import columns_of
from voxprior.mapping.vicinity import Neighborhoods
from voxprior.space import VoxelSpace
from voxprior.validation.folds import FoldOutcome, build_result
from voxprior.validation.intervals import interval
from voxprior.validation.result import html_table
from voxprior.validation.ridge import center_by_training
from voxprior.validation.run import Outcome

__all__ = ["RegionTest", "region_test"]


CLAIM = "The voxels of this region, together, tell {classes} apart."


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegionTest(LocalResult):
    """Outcome of `region_test`."""

    table: pd.DataFrame  # one row per region, the best first
    absent: tuple[str, ...]  # regions of the atlas without a voxel in the mask

    def __repr__(self) -> str:
        return f"{self._title()}\n{self.table.to_string(float_format='%.3g', index=False)}"

    def _repr_html_(self) -> str:
        shown = self.table.round(3).astype(str).set_index(self.table.columns[0])
        return html_table(self._title(), shown)

    def _title(self) -> str:
        claimed = int((self.table["p_fwer"] <= self.level).sum())
        return (
            f"Regions: {claimed} of {len(self.table)} significant (familywise error "
            f"{self.level:g}), {self.needed}, {self.relabellings}"
        )


def region_test(
    X,
    y,
    groups=None,
    labels=None,
    *,
    names=None,
    space: VoxelSpace | None = None,
    weights=None,
    **options: Any,
) -> RegionTest:
    """Decode every region of an atlas, and test them all against relabelled scans.

    Parameters
    ----------
    X, y, groups
        As in `searchlight`.
    labels : array of shape (V,), Atlas, path, image or nilearn atlas
        Region of every voxel, by number (0 is none) or name (empty is none); or an atlas, see
        `voxprior.mapping.read_atlas`, whose image needs `space`.
    names : mapping, path, DataFrame or sequence, optional
        Names of the numbers; for an array, a mapping.
    space : VoxelSpace, optional
        Where the voxels are: needed for images, for windows of volumes, and to say where peaks are.
    weights : array of shape (V,) or (K, V), optional
        Of the decoder of all voxels whose latent variance is shared out; a ridge by default.
    **options
        As in `searchlight`: score, estimator, blocks, scheme, standardize, alpha, level, ...

    Returns
    -------
    RegionTest
        Its `table` has the columns region, voxels, score, low, high, p_fwer, p_uncorrected,
        peak_voxel, peak_x, peak_y, peak_z (where the space is known), peak_statistic, peak_p and
        share.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.mapping import region_test
    >>> y, runs = np.tile(["face", "house"], 16), np.repeat(range(8), 4)
    >>> X = np.random.default_rng(0).normal(size=(32, 60))
    >>> X[:, 20:25] += 3.0 * (y == "house")[:, None]
    >>> atlas = np.repeat(["V1", "FFA", "PPA"], 20)
    >>> found = region_test(X, y, runs, atlas)
    >>> found.table[["region", "voxels", "accuracy"]].head(1).values.tolist()
    [['FFA', 20, 0.96875]]
    >>> found.table["p_fwer"].le(0.05).tolist()
    [True, False, False]
    """
    given = local_options(options)
    if labels is None:
        raise InputError("There are no regions to test", remedy=f"Give {option('labels')}")
    n_voxels = np.shape(X)[-1] if space is None else space.n_voxels
    regions = read_regions(labels, names, space, n_voxels)
    design = local_design(X, y, groups, given)
    sizes = regions.sets.sizes
    if space is not None:
        regions = regions._replace(sets=columns_of(regions.sets, np.shape(X)[-1], space))
    found = local_test(design, regions.sets, space, given)
    table = pd.DataFrame(
        {
            "region": regions.names,
            "voxels": sizes,
            given.score: found.observed,
            **_intervals(design, regions, groups, given),
            "p_fwer": found.p_fwer,
            "p_uncorrected": found.p_uncorrected,
            **_peaks(X, y, groups, regions, space, given),
            "share": _shares(design, regions, weights, given.alpha),
        }
    )
    table = table.sort_values(["p_fwer", given.score], ascending=[True, False], ignore_index=True)
    frame = local_frame(design, found, given, CLAIM)
    return RegionTest(table=table, absent=regions.absent, **frame)


# --- regions ----------------------------------------------------------------------------------


class Regions(NamedTuple):
    """Regions that have voxels, and those that an atlas names without one."""

    names: tuple[str, ...]
    sets: Neighborhoods  # voxels of each
    absent: tuple[str, ...]


def read_regions(labels: Any, names: Any, space: VoxelSpace | None, n_voxels: int) -> Regions:
    """Find the voxels of every region.

    >>> found = read_regions(np.array(["V1", "V1", "", "V2"]), None, None, 4)
    >>> found.names, found.sets.members(1)
    (('V1', 'V2'), array([3]))
    """
    if isinstance(labels, Atlas):
        codes, called = labels
    elif isinstance(labels, np.ndarray | list | tuple):
        codes, called = _by_voxel(np.asarray(labels), names, n_voxels)
    elif space is None:
        raise InputError("An atlas image needs voxels in a space", remedy=f"Give {option('space')}")
    else:
        codes, called = read_atlas(labels, ImageSpace(space), names)
    found = [int(code) for code in np.unique(codes) if code]
    if not found:
        raise InputError("No region has a voxel", expected="labels above 0 where the voxels are")
    members = [np.flatnonzero(codes == code) for code in found]
    absent = [str(name) for code, name in called.items() if code and code not in found]
    if absent:
        shown = ", ".join(absent[:3]) + (", ..." if len(absent) > 3 else "")
        told = f"Without a voxel in the mask, and left out: {shown} ({len(absent)} regions)"
        warnings.warn(InputWarning(told), stacklevel=3)
    pointers = np.concatenate([[0], np.cumsum([len(one) for one in members])])
    sets = Neighborhoods(np.concatenate(members), pointers)
    return Regions(tuple(called.get(c, str(c)) for c in found), sets, tuple(absent))


def _by_voxel(labels: np.ndarray, names: Any, n_voxels: int) -> tuple[np.ndarray, dict[int, str]]:
    """Numbers of the regions, 0 for none, and their names, from one label per voxel."""
    if labels.shape != (n_voxels,):
        raise InputError(
            f"{option('labels')} does not fit the scans",
            expected=f"one label for each of {n_voxels} voxels",
            got=f"shape {labels.shape}",
        )
    if labels.dtype.kind in "iub":
        return labels.astype(int), {int(c): str(n) for c, n in (names or {}).items()}
    if labels.dtype.kind == "f":
        raise InputError(
            f"{option('labels')} cannot be used", expected="whole numbers or names", got="fractions"
        )
    known, codes = np.unique(labels.astype(str), return_inverse=True)
    order = [name for name in known.tolist() if name]
    number = np.array([order.index(name) + 1 if name else 0 for name in known.tolist()])
    return number[codes.ravel()], dict(enumerate(order, start=1))


# --- columns of the table ---------------------------------------------------------------------


def _intervals(design: LocalDesign, regions: Regions, groups, options: LocalOptions) -> dict:
    """Limits of 95 % intervals of accuracies; none for other scores and other decoders."""
    n = len(regions.names)
    if options.score != "accuracy" or options.estimator is not None:
        return {"low": np.full(n, np.nan), "high": np.full(n, np.nan)}
    X, labels, _ = design
    limits = []
    for number in range(n):
        operator = operators(X, regions.sets, np.array([number]), labels.fold, options.alpha)[0]
        found = _interval(predicted(operator, labels).argmax(axis=1), labels, groups)
        limits.append((found.low, found.high))
    low, high = np.array(limits).T
    return {"low": low, "high": high}


def _interval(guess: np.ndarray, labels: Labellings, groups: Any) -> Any:
    truth, fold = labels.codes[:, 0].astype(int), labels.fold
    outcomes = []
    for g in range(int(fold.max()) + 1):
        test = np.flatnonzero(fold == g)
        n_train = len(fold) - len(test)
        outcomes.append(FoldOutcome(test, n_train, guess[test], None, "", 0.0, 0.0, None))
    outcome = Outcome(list(range(len(outcomes))), outcomes, True)
    groups = None if groups is None else np.asarray(groups)
    result = build_result(outcome, truth, groups, np.arange(labels.n_classes), {})
    return interval(result, "accuracy")


def _peaks(
    X, y, groups, regions: Regions, space: VoxelSpace | None, options: LocalOptions
) -> dict[str, Any]:
    """The voxel of the largest statistic of every region, where it is, and its corrected p."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the high floor is reported elsewhere
        test = map_test(
            X,
            y,
            groups,
            blocks=options.blocks,
            scheme=options.scheme,
            n_permutations=options.n_permutations,
            random_state=options.random_state,
        )
    members = [regions.sets.members(number) for number in range(len(regions.names))]
    peak = np.array([one[np.argmax(np.abs(test.statistic[one]))] for one in members])
    columns: dict[str, Any] = {}
    voxel = peak if space is None else peak % space.n_voxels
    columns["peak_voxel"] = voxel
    if space is not None:
        places = space.coordinates[voxel]
        if space.affine is not None:
            places = places @ space.affine[:3, :3].T + space.affine[:3, 3]
        columns |= {f"peak_{axis}": places[:, a] for a, axis in enumerate("xyz")}
    p = np.full(len(peak), np.nan) if test.p_fwer is None else test.p_fwer[peak]
    return columns | {"peak_statistic": test.statistic[peak], "peak_p": p}


def _shares(design: LocalDesign, regions: Regions, weights: Any, alpha: float) -> np.ndarray:
    """Share of every region in the latent variance of a decoder of all voxels."""
    X = design.X - design.X.mean(axis=0)
    if weights is None:
        weights = X.T @ _dual(design, alpha)
    else:
        weights = np.atleast_2d(np.asarray(weights, dtype=float)).T
        if len(weights) != X.shape[1]:
            raise InputError(
                f"{option('weights')} does not fit the scans",
                expected=f"{X.shape[1]} weights",
                got=f"{len(weights)}",
            )
    parts = np.empty(len(regions.names))
    for number in range(len(parts)):
        members = regions.sets.members(number)
        parts[number] = (X[:, members] @ weights[members]).var(axis=0).sum()
    return parts / parts.sum() if parts.sum() > 0 else parts


def _dual(design: LocalDesign, alpha: float) -> np.ndarray:
    """Dual weights of a ridge of all scans on all voxels, one column per class beyond two."""
    labels, everything = design.labels, np.arange(len(design.X))
    inner = center_by_training(gram_matrix(design.X), everything, everything[:0]).inner
    width = labels.columns.shape[1] // labels.codes.shape[1]
    columns = labels.columns[:, :width].astype(float)
    penalty = alpha * np.trace(inner) / len(inner)
    if penalty == 0:
        return np.zeros_like(columns)
    return np.linalg.solve(inner + penalty * np.eye(len(inner)), columns - columns.mean(axis=0))
