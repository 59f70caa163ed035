"""The same image, or nearly the same, on both sides of a split.

Equal images are found by their bytes; a copy that was scaled, shifted, rounded or noised, by its
correlation r over voxels with the original:

    d_ij = 1 - r_ij,    near-duplicate where  d_ij < 0.001 · median d                       (1)

The median makes the rule one for images that are nearly alike (anatomy) and for those that are not
(contrasts). Correlations are taken over evenly spaced voxels, as many as the work allows, and those
below the bound once more over all.

| symbol | variable | shape |
|---|---|---|
| d | `distance` | (n, n) |
"""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
from scipy import sparse

from voxprior.images.findings import listed
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.folds import NO_FOLDS
from voxprior.validation.audit.scans import FEW_VOXELS, AuditedScans, spaced_columns

NEAR = 1e-3
MOST_SCANS = 4000
# Products of two numbers that a matrix of similarities may take: a second or so.
MOST_PRODUCTS = 1e10
FEWEST_FOR_MEDIAN = 5
ROWS_AT_ONCE = 512
PAIRS_CONFIRMED = 200


def duplicate_images(scans: AuditedScans) -> Answer:
    """The same image is in training and in test of one fold."""
    if not scans.folds:
        return NO_FOLDS
    X = scans.X
    if isinstance(scans.voxels, NotChecked) and scans.voxels is FEW_VOXELS:
        return FEW_VOXELS
    keys = image_keys(X)
    if len(set(keys)) == len(keys):
        return []
    same = np.unique(np.array(keys), return_inverse=True)[1]
    first = np.flatnonzero(same == np.bincount(same).argmax()).tolist()
    named = [str(scans.names[i] if len(scans.names) else i) for i in first]
    hit = [1 for train, test in scans.folds if np.isin(same[test], same[train]).any()]
    if not hit:
        return []
    return [
        f"{len(keys) - len(set(keys))} images are copies of others, for instance "
        f"{listed(named)} are one, and in {len(hit)} of {len(scans.folds)} folds an image is in "
        "training and in test: drop copies."
    ]


def image_keys(X) -> list:
    """One key per image; equal images have equal keys."""
    if sparse.issparse(X):
        X = X.tocsr()
        return [_digest(X[i].toarray()) for i in range(X.shape[0])]
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if not hasattr(X, "shape"):
        return [_digest(x) if isinstance(x, np.ndarray) else str(x) for x in X]
    # A few voxels distinguish nearly all images; only those alike there are read in full.
    few = X[:, :: max(1, X.shape[1] // 50)] if X.ndim > 1 else X
    keys = [_digest(row) for row in few]
    again = {key for key, count in Counter(keys).items() if count > 1}
    return [_digest(X[i]) if key in again else key for i, key in enumerate(keys)]


def _digest(row) -> str:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).hexdigest()


def near_duplicate(scans: AuditedScans) -> Answer:
    """An image in training is, up to scale, shift and little noise, one in test."""
    if not scans.folds:
        return NO_FOLDS
    rows = comparable_rows(scans)
    voxels = scans.voxels
    if isinstance(rows, NotChecked) or isinstance(voxels, NotChecked):
        return rows if isinstance(rows, NotChecked) else FEW_VOXELS
    if len(rows) < FEWEST_FOR_MEDIAN:
        return NotChecked(f"fewer than {FEWEST_FOR_MEDIAN} scans say nothing of what is usual")
    pairs, bound = near_pairs(rows)
    pairs = [(i, j) for i, j in pairs if _near(voxels[[i, j]], bound)]
    met = [(i, j) for i, j in pairs if _divided(i, j, scans.judged_folds)]
    if not met:
        return []
    told = listed([f"{_name(scans, i)} and {_name(scans, j)}" for i, j in met])
    return [
        f"Images that are one up to scale, shift or little noise are in training and in test of "
        f"one fold: {told} ({len(met)} pairs). Drop the copies."
    ]


def comparable_rows(scans: AuditedScans) -> np.ndarray | NotChecked:
    """Evenly spaced voxels of all scans, few enough to compare each scan with each."""
    voxels = scans.voxels
    if isinstance(voxels, NotChecked):
        return voxels
    n = len(voxels)
    if n > MOST_SCANS:
        return NotChecked(f"more than {MOST_SCANS} scans are too many to compare each with each")
    rows = spaced_columns(voxels, int(max(200, min(5000, MOST_PRODUCTS / n**2))))
    if not np.isfinite(rows).all():
        return NotChecked("some voxels are NaN or infinite")
    return rows


def near_pairs(rows: np.ndarray) -> tuple[list[tuple[int, int]], float]:
    """Pairs that (1) finds, equal ones included, and the bound."""
    unit = unit_rows(rows - rows.mean(axis=1, keepdims=True))
    varies = np.any(unit != 0, axis=1)
    distance = np.empty((len(rows), len(rows)), dtype=np.float32)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        distance[part] = 1 - unit[part] @ unit.T
    upper = np.triu(varies[:, None] & varies, 1)
    if not upper.any():
        return [], 0.0
    bound = NEAR * float(np.median(distance[upper]))
    found = np.argwhere(upper & (distance < bound))[:PAIRS_CONFIRMED]
    return [(int(i), int(j)) for i, j in found], bound


def _near(pair: np.ndarray, bound: float) -> bool:
    """Whether two images are near in all voxels, but not equal: that is another finding."""
    if np.array_equal(*pair):
        return False
    pair = pair.astype(float)
    first, second = unit_rows(pair - pair.mean(axis=1, keepdims=True))
    return bool(1 - first @ second < bound)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows at length 1; rows of zeros stay."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


def _divided(i: int, j: int, folds: list) -> bool:
    """Whether some fold trains on one of two scans and tests the other."""
    return any((i in train and j in test) or (j in train and i in test) for train, test in folds)


def _name(scans: AuditedScans, i: int) -> str:
    return scans.names[i] if len(scans.names) else f"scan {i}"
