"""Scans that cannot be right: what readers and the audit look for, as (name, message) each.

A scan that holds one value in all voxels has not been written properly. The scale of a scan is its
root mean square s; scan i is far from the others where

    d_i = | log s_i - median_j log s_j |  >  max(log 100, 5 · 1.4826 · median_j d_j)        (1)

Units of a scanner and gains of PET differ by factors of up to 30 or so: the first term lets these
pass. 1.4826 times the median of d estimates a standard deviation whatever the few far ones are, so
the second term lets pass what is ordinary among scans that differ even more.

The names of findings are those of `voxprior.validation.audit`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["FEWEST_VOXELS", "listed", "repetition_findings", "scan_findings", "scan_scale"]
__all__ += ["volume_names", "warn_of_constant"]

# Fewer numbers are not an image, and may be equal or constant by chance.
FEWEST_VOXELS = 20
FEWEST_SCANS = 3
FAR = 100.0
FAR_BY_SPREAD = 5 * 1.4826
NAMED = 3
# Repetition times are rounded in headers.
SAME_TIME = 1e-3

Found = list[tuple[str, str]]


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
    far = d > max(np.log(FAR), FAR_BY_SPREAD * np.median(d))
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
            f"{len(times)} runs): trials and filters do not mean the same there. Leave them out. "
            "Give t_r where it is the headers that are wrong.",
        )
    ]


def warn_of_constant(findings: Iterable[tuple[str, str]]) -> None:
    """Warn of constant scans, where nothing else stops a prediction from them."""
    for name, message in findings:
        if name == "constant-scan":
            warnings.warn(message, stacklevel=3)
