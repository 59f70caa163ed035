"""Scans that cannot be right, and voxels that are not finite.

**Scans that cannot be right** are what readers and the audit look for, as (name, message) each; the
names are those of `voxprior.validation.audit`. A scan that holds one value in all voxels has not
been written properly. The scale of a scan is its root mean square s; scan i is far from the others
where

    d_i = | log s_i - median_j log s_j |  >  max(log 100, 5 · 1.4826 · median_j d_j)        (1)

Units of a scanner and gains of PET differ by factors of up to 30 or so: the first term lets these
pass. 1.4826 times the median of d estimates a standard deviation whatever the few far ones are, so
the second term lets pass what is ordinary among scans that differ even more.

**Voxels that are NaN or infinite in some scan.** SPM writes NaN outside the brain, and the brain of
every scan ends elsewhere, so a mask loses a rim of voxels; the notes say how many. Where more than
half of the voxels would go, it is not a rim: the mask does not fit the scans, or a scan is broken,
which a smaller mask would only hide. That is an error, and names the scans that lack most. A fitted
model cannot lose voxels: `check_finite` refuses new scans that lack some.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from voxprior.blocks import BlockedScans, voxel_blocks
from voxprior.errors import InputError, InputWarning, option
from voxprior.space import VoxelSpace

__all__ = ["FEWEST_VOXELS", "NotFiniteError", "check_finite", "listed", "refuse_most"]
__all__ += ["mask_findings", "repetition_findings", "scan_findings", "scan_scale", "volume_names"]
__all__ += ["scan_scales", "warn_constant_voxels", "warn_of_constant"]

# Fewer numbers are not an image, and may be equal or constant by chance.
FEWEST_VOXELS = 20
FEWEST_SCANS = 3
FAR = 100.0
FAR_IN_DEVIATIONS = 5 * 1.4826
NAMED = 3
# Repetition times are rounded in headers.
SAME_TIME = 1e-3
# Litres; with all fluid inside the skull.
LARGEST_BRAIN = 2.2
# More than this share of the voxels is not a rim.
MOST = 0.5

Found = list[tuple[str, str]]
# Goes through the images: their names, and where their values are finite, time last.
FiniteParts = Callable[[], Iterable[tuple[str, np.ndarray]]]


def listed(names: Sequence[str]) -> str:
    """Name at most three, and count the rest.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def volume_names(name: str, n: int) -> list[str]:
    """Name the volumes of an image; a single one has the name of the image."""
    return [name] if n == 1 else [f"{name}, volume {v}" for v in range(n)]


def scan_scale(values: np.ndarray) -> float:
    """Root mean square of a scan; 0 if it is constant, NaN if it has too few voxels to judge."""
    if len(values) < FEWEST_VOXELS:
        return np.nan
    if values.min() == values.max():
        return 0.0
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def scan_scales(X: Any) -> list[float]:
    """`scan_scale` of every scan (n, V).

    >>> scan_scales(np.array([[3.0, 4.0] * 50, [1.0, 1.0] * 50]))[1]
    0.0
    """
    if not isinstance(X, BlockedScans):
        return [scan_scale(x) for x in X]
    squares, low, high = np.zeros(len(X)), np.full(len(X), np.inf), np.full(len(X), -np.inf)
    for block in voxel_blocks(*X.shape):
        part = X[:, block]
        squares += np.square(part, dtype=np.float64).sum(axis=1)
        low, high = np.minimum(low, part.min(axis=1)), np.maximum(high, part.max(axis=1))
    if X.shape[1] < FEWEST_VOXELS:
        return [np.nan] * len(X)
    return np.where(low == high, 0.0, np.sqrt(squares / X.shape[1])).tolist()


def scan_findings(scales: Iterable[float], names: Sequence[str] = (), what: str = "scans") -> Found:
    """Find scans that are constant, and scans of a scale far from the others.

    Parameters
    ----------
    scales : iterable of float
        `scan_scale` of values before any standardising, which hides what is looked for.
    names : sequence of str
        What the scans are called; their numbers by default.
    what : str
        What they are, in a word.

    Examples
    --------
    >>> [name for name, _ in scan_findings([1.0, 0.0, 1.2, 1e20, 0.8])]
    ['constant-scan', 'scan-scale']
    """
    scale = np.array(list(scales))
    n = len(scale)
    names = names or [f"scan {i}" for i in range(n)]
    constant = [names[i] for i in np.flatnonzero(scale == 0).tolist()]
    far = [f"{names[i]} ({times:.3g} times)" for i, times in _far_factors(scale).items()]
    found = []
    if constant:
        message = (
            f"One value in all voxels: {listed(constant)} ({len(constant)} of {n} {what}). Such "
            "an image was not written properly: leave it out, or make it again."
        )
        found.append(("constant-scan", message))
    if far:
        message = (
            f"Values far larger or smaller than those of the other {what}: {listed(far)} "
            f"({len(far)} of {n} {what}). Check units and scaling factors, or leave them out."
        )
        found.append(("scan-scale", message))
    return found


def _far_factors(scale: np.ndarray) -> dict[int, float]:
    """Scans that (1) finds, and how many times the median their scale is."""
    known = np.flatnonzero(scale > 0)
    if len(known) < FEWEST_SCANS:
        return {}
    logs = np.log(scale[known])
    middle = np.median(logs)
    if not np.isfinite(middle):
        return {}
    d = np.abs(logs - middle)
    far = d > max(np.log(FAR), FAR_IN_DEVIATIONS * np.median(d))
    with np.errstate(over="ignore"):
        return {int(i): float(np.exp(log - middle)) for i, log in zip(known[far], logs[far])}


def repetition_findings(times: Sequence[float | None], names: Sequence[str]) -> Found:
    """Find runs with other seconds between volumes than most; None where it is not known.

    >>> repetition_findings([2.0, 2.0, None, 3.0], ["a", "b", "c", "d"])[0][0]
    'repetition-time'
    """
    known = [time for time in times if time is not None]
    if not known:
        return []
    usual = Counter(known).most_common(1)[0][0]
    other = [
        f"{name} ({time:g} s)"
        for name, time in zip(names, times)
        if time is not None and abs(time - usual) > SAME_TIME * usual
    ]
    if not other:
        return []
    return [
        (
            "repetition-time",
            f"Most runs have a volume every {usual:g} s, but not {listed(other)} ({len(other)} of "
            f"{len(times)} runs): trials and filters do not mean the same there. Leave them out, "
            "or say how many seconds are between volumes where the headers are wrong.",
        )
    ]


def mask_findings(space: VoxelSpace) -> Found:
    """Find a mask that is larger than any human brain: air and skull take part.

    >>> everywhere = VoxelSpace.grid((91, 109, 91), np.diag([2.0, 2.0, 2.0, 1.0]))
    >>> mask_findings(everywhere)[0][0]
    'mask-size'
    """
    if space.kind != "volume" or space.affine is None:
        return []
    litres = space.n_voxels * abs(np.linalg.det(np.asarray(space.affine)[:3, :3])) / 1e6
    if litres <= LARGEST_BRAIN:
        return []
    message = (
        f"The mask holds {space.n_voxels:,} voxels, {litres:.1f} litres; a human brain has 1 to "
        f"{LARGEST_BRAIN:g}, so air or skull take part in the decoding. Give the image of a brain "
        f"mask as {option('mask')}."
    )
    return [("mask-size", message)]


def warn_of_constant(findings: Iterable[tuple[str, str]]) -> None:
    """Warn of constant scans, where nothing else stops a prediction from them."""
    for name, message in findings:
        if name == "constant-scan":
            warnings.warn(message, stacklevel=3)


# ---------------------------------------------------------------- NaN and infinite voxels


class NotFiniteError(InputError):
    """A scan is NaN or infinite in voxels of the mask by which it is read."""


def check_finite(rows: np.ndarray, name: str) -> None:
    """Raise `NotFiniteError` naming the file where any voxel is NaN or infinite."""
    bad = ~np.isfinite(rows).all(axis=0)
    if bad.any():
        raise NotFiniteError(
            f"{name}: {bad.sum()} of {len(bad)} voxels inside the mask are NaN or infinite",
            remedy=f"Repair the image, or fit with a {option('mask')} without these voxels",
        )


def refuse_most(lost: np.ndarray, usable: np.ndarray, parts: FiniteParts) -> None:
    """Raise InputError if more than half of the usable voxels are lost; it names the scans.

    Parameters
    ----------
    lost, usable : boolean arrays over voxels
        Voxels that are not finite in some scan, and all that the scans could have.
    parts : callable
        Goes through the images again; called only where there is an error to explain.
    """
    limit = MOST * usable.sum()
    if lost.sum() <= limit:
        return
    lacking: dict[str, int] = {}
    for name, finite in parts():
        counts = (~finite[usable]).sum(axis=0).tolist()
        lacking |= dict(zip(volume_names(name, len(counts)), counts))
    worst = sorted(lacking, key=lambda name: -lacking[name])
    broken = [name for name in worst if lacking[name] > limit]
    if 0 < len(broken) <= len(lacking) / 2:
        remedy = f"Leave out {listed(broken)}: more than half are lacking there alone"
    else:
        told = listed([f"{name} ({lacking[name]})" for name in worst if lacking[name]])
        remedy = (
            f"Give a {option('mask')} of voxels that all scans have, or leave out what lacks most: "
            f"{told}"
        )
    raise InputError(
        f"{lost.sum()} of {usable.sum()} voxels are NaN or infinite in some scan, more than half",
        remedy=remedy,
    )


def _never_change(part: np.ndarray) -> np.ndarray:
    """Mark the voxels that are the same in all rows; most differ in two already."""
    same = part[0] == part[-1]
    same[same] = (part[:, same] == part[0, same]).all(axis=0)
    return same


def warn_constant_voxels(rows: np.ndarray, name: str) -> np.ndarray:
    """Mark the voxels that never change over these rows, and warn if there are any."""
    blocks = voxel_blocks(*rows.shape) if isinstance(rows, BlockedScans) else [slice(None)]
    parts = (rows[:, block] for block in blocks)
    constant = np.concatenate([_never_change(part) for part in parts])
    if constant.any():
        warnings.warn(
            InputWarning(
                f"{name}: {constant.sum()} of {len(constant)} voxels inside the mask are constant "
                f"and carry no information. A computed mask ({option('mask', None)}) leaves them "
                "out."
            ),
            stacklevel=2,
        )
    return constant
