"""What a model keeps of its training sample in order to recognise scans and people.

A model file holds no name, and no scan for this. It holds the mean m of the training scans, how far
the farthest of them lies from the mean of the others, and digests. A new scan x is

    u(x) = |x - m| / max_i |x_i - m_(i)|,    m_(i) the mean without scan i                  (1)

times as far from the training scans as the farthest of these is. Where new scans are drawn as the
training scans were, one in n + 1 has u > 1.

The digest of a scan is that of K numbers, each rounded to whole steps of h:

    s_k = Σ_v g_kv x_v / |x|,    g = ±1, drawn from a key                                   (2)

Scans whose correlation is r differ in s by √(2(1 - r)), so another order of the scans, or a copy
that was scaled or saved in other digits, changes no step, and two scans are one with probability
10^-8 if r < .999. The key is the digest of m: digests of two models cannot be compared, and K
numbers do not give a scan back. Scans that are centred by group are known again where their group
is whole.

People are known by a slow digest of their identifier with the same key. Who has the file can try
identifiers out: one that anybody could guess is hidden from readers, not from that.

| symbol | variable | shape |
|---|---|---|
| x | `X` | (n, p) |
| m | `mean` | (p,) |
| max_i | `farthest` | scalar |
| digests of scans, of people | `scans`, `people` | (n, 2), (g, 2) |
| mean and sd of log √(|x|²/p) | `scale` | (2,) |
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from voxprior.blocks import column_means, voxel_blocks
from voxprior.blocks.sums import read_block, reading
from voxprior.errors import InputError
from voxprior.images import Dataset, ImageSpace
from voxprior.registry import kind_of

__all__ = ["Seen", "TrainingSample", "group_counts", "people_of"]

N_SUMS, STEP = 12, 0.01  # K and h of (2)
SLOW = 10_000  # rounds of the digest of an identifier
# Tolerance: a difference from rounding alone does not count as farther.
BEYOND = 1 + 1e-6


class Seen(NamedTuple):
    """What is known of scans (n): distance to a mean, log root mean square, and digest."""

    distance: NDArray[np.float64]
    log_scale: NDArray[np.float64]
    digest: NDArray[np.int64]


class TrainingSample(NamedTuple):
    """What is kept of the training scans of a decoder, see the module.

    `numbers` has mean and standard deviation of covariates that are numbers, `levels` the counts of
    those in words, `target` mean and standard deviation of a number that is predicted, and
    `n_units` the number of groups, or of scans without groups.
    """

    mean: NDArray[np.float32]
    farthest: float
    scans: NDArray[np.int64]
    people: NDArray[np.int64] | None
    scale: NDArray[np.float64]
    target: NDArray[np.float64] | None
    numbers: dict[str, Any]
    levels: dict[str, Any]
    n_units: int

    @classmethod
    def of(cls, data: Dataset, masker: ImageSpace) -> TrainingSample:
        """Learn from labelled training scans."""
        mean = column_means(data.X).astype(np.float32)
        n, seen = data.n_samples, _seen(data.X, mean)
        people = people_of(data, masker)
        digests = None if isinstance(people, str) else _identifiers(people, mean)
        numbers, levels = _covariates(data.covariates)
        return cls(
            mean,
            float(seen.distance.max() * n / max(n - 1, 1)),  # |x_i - m_(i)| = |x_i - m| n/(n-1)
            _in_order(seen.digest),
            digests,
            _spread(seen.log_scale),
            _spread(data.y) if kind_of(data.y) == "regressor" else None,
            numbers,
            levels,
            group_counts(data),
        )

    def seen(self, X: Any) -> Seen:
        """Look at new scans (n, p) once."""
        return _seen(X, self.mean)

    def unlike(self, seen: Seen) -> NDArray[np.float64]:
        """Distance u of (1) for each new scan."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(seen.distance / self.farthest, nan=0.0, posinf=np.inf)

    def shared_scans(self, seen: Seen) -> NDArray[np.intp]:
        """Indices of the new scans that are training scans."""
        return _members(seen.digest, self.scans)

    def shared_people(self, people: NDArray) -> list[str]:
        """Identifiers of those who are in the training sample."""
        known = np.zeros((0, 2), np.int64) if self.people is None else self.people
        names = np.unique(people)
        found = _members(_digests(list(map(str, names)), self.mean), known)
        return [str(names[i]) for i in found]

    @classmethod
    def from_dict(cls, content: Any, n_features: int | None) -> TrainingSample:
        """Read what `_asdict` returned, from a file that anybody may have written."""
        if not _is_sample(content, n_features):
            raise InputError("holds a training sample that is not what it should be")
        return cls(**content)


def _seen(X: Any, mean: NDArray) -> Seen:
    """One pass over blocks of voxels."""
    n, p = X.shape
    draws = np.random.RandomState(np.frombuffer(_key(mean), "<u4"))  # its stream never changes
    away, power, sums = np.zeros(n), np.zeros(n), np.zeros((n, N_SUMS))
    with reading(X):
        for block in voxel_blocks(n, p):
            part = read_block(X, block)
            power += np.square(part).sum(axis=1)
            away += np.square(part - mean[block]).sum(axis=1)
            sums += part @ _signs(draws, part.shape[1])
    length = np.sqrt(power)
    length[length == 0] = 1.0
    steps = np.round(sums / length[:, None] / STEP).astype("<i8")
    digest = _digests([row.tobytes() for row in steps], mean, rounds=1)
    return Seen(np.sqrt(away), np.log(length / np.sqrt(p)), digest)


def _signs(draws: np.random.RandomState, width: int) -> NDArray[np.float64]:
    """The next rows of g; whole words of the stream, so that blocks may have any width."""
    bits = np.unpackbits(np.frombuffer(draws.bytes(4 * width), np.uint8)).reshape(width, 32)
    return np.where(bits[:, :N_SUMS], 1.0, -1.0)


def _key(mean: NDArray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(mean, dtype="<f4").tobytes()).digest()


def _digests(contents: list[Any], mean: NDArray, rounds: int = SLOW) -> NDArray[np.int64]:
    """Two whole numbers for each content."""
    key = _key(mean)
    texts = [one.encode() if isinstance(one, str) else one for one in contents]
    found = [hashlib.pbkdf2_hmac("sha256", text, key, rounds, 16) for text in texts]
    return np.frombuffer(b"".join(found), "<i8").reshape(-1, 2).astype(np.int64)


def _identifiers(people: NDArray, mean: NDArray) -> NDArray[np.int64]:
    return _in_order(_digests(list(map(str, np.unique(people))), mean))


def _in_order(digests: NDArray) -> NDArray:
    """Sorted digests, which do not reveal the order of scans or people."""
    return digests[np.lexsort(digests.T)]


def _members(digests: NDArray, known: NDArray) -> NDArray[np.intp]:
    there = set(map(tuple, known.tolist()))
    return np.flatnonzero([tuple(one) in there for one in digests.tolist()])


def _spread(values: Any) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=float)
    sd = values.std(ddof=1) if len(values) > 1 else 0.0
    return np.array([values.mean(), sd], dtype=np.float64)


def _covariates(table: pd.DataFrame | None) -> tuple[dict[str, Any], dict[str, Any]]:
    numbers: dict[str, Any] = {}
    levels: dict[str, Any] = {}
    for name, column in {} if table is None else dict(table.items()).items():
        if column.dtype.kind in "iuf":
            numbers[str(name)] = _spread(column)
        else:
            counts = column.astype(str).value_counts(sort=False)
            levels[str(name)] = {level: int(counts[level]) for level in sorted(counts.index)}
    return numbers, levels


def group_counts(data: Dataset) -> int:
    """Number of groups, or of scans where there are none."""
    return data.n_samples if data.groups is None else len(np.unique(data.groups))


def people_of(data: Dataset, masker: ImageSpace) -> NDArray | str:
    """Identifiers of people, one per scan, or why there are none.

    Groups of runs, and those that are only counted, 0 to g - 1 or 1 to g, name nobody.
    """
    if data.groups is None:
        return "the scans have no groups"
    if data.trials is not None or masker.standardize in ("group", "run", "baseline"):
        return "groups are runs"
    found = np.unique(data.groups)
    try:
        values = np.sort(found.astype(float))
    except ValueError:
        return data.groups
    if len(values) and values[0] in (0, 1) and (np.diff(values) == 1).all():
        return f"groups are counted, {found[0]} to {values[-1]:g}, which names nobody"
    return data.groups


# ---------------------------------------------------------------- from files


def _is_sample(content: Any, n_features: int | None) -> bool:
    if not isinstance(content, dict) or set(content) != set(TrainingSample._fields):
        return False
    people, target, farthest = (content[name] for name in ("people", "target", "farthest"))
    return (
        _is_array(content["mean"], "f", (n_features,))
        and isinstance(farthest, float)
        and 0 <= farthest < np.inf
        and _is_array(content["scans"], "i", (None, 2))
        and (people is None or _is_array(people, "i", (None, 2)))
        and _is_array(content["scale"], "f", (2,))
        and (target is None or _is_array(target, "f", (2,)))
        and isinstance(content["numbers"], dict)
        and all(_is_array(one, "f", (2,)) for one in content["numbers"].values())
        and isinstance(content["levels"], dict)
        and all(map(_are_counts, content["levels"].values()))
        and type(content["n_units"]) is int
        and content["n_units"] >= 1
    )


def _is_array(value: Any, kind: str, shape: tuple[int | None, ...]) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind == kind
        and value.ndim == len(shape)
        and all(want is None or have == want for have, want in zip(value.shape, shape))
        and bool(np.isfinite(value).all())
    )


def _are_counts(counts: Any) -> bool:
    return isinstance(counts, dict) and all(
        isinstance(level, str) and type(count) is int and count > 0
        for level, count in counts.items()
    )
