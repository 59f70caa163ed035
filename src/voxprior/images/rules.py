"""Which preparation scans need: two rules that look at the scans, and what each decided in words.

**Gain.** Scans of PET or structure show one common image times a gain that differs from scan to
scan for reasons that have nothing to do with what is decoded. With |x_i| the length of scan i, v
the first right singular vector of the scans x_i / |x_i|, and c_i the cosine of scan i with v:

    r = mean_i (1 - c_i²) / c_i²,    a_i = c_i |x_i|,    g = var_i(log a_i), divisor n - 1     (1)

1 / r is the power of the common image over that of the rest, and g / (g + r) the share of the gain
in the differences between scans. Neither depends on the unit of the scans, and the first does not
depend on the gains, so wild gains cannot hide the common image. Scans are divided by their means
over voxels where all c_i have one sign, all means are positive, 1 / r > 3 and g / (g + r) > .3.

**Groups.** Betas of one run share an offset that is far larger than the differences of conditions.
With m the mean of all n scans, m_g that of the n_g scans of group g, of G groups:

    F = [Σ_g n_g |m_g - m|² / (G - 1)] / [Σ_i |x_i - m_g(i)|² / (n - G)]                       (2)

summed over voxels. Scans are centred by group (each minus the mean of its own group) where F > 1.2,
or there is one group, and groups cross what is decoded: for classes, where in every group the class
shares p_c|g are like those of all scans,

    max_g  ½ Σ_c |p_c|g - p_c|  <=  .25                                                        (3)

and for numbers, where (2) of the numbers themselves is below 2 and every group has two scans. This
is the only use of the labels: were each group of one class, its mean would be the answer.

| symbol | variable | shape |
|---|---|---|
| x_i | `X` | (n, V) |
| cosines of scans | `cosines` | (n, n) |
| c_i, cosines with the common image | `c` | (n,) |
| 1 / r | `common` | |
| g / (g + r) | `share` | |
| group number g(i) | `codes` | (n,) |
| F | `ratio` | |
| left side of (3), or F of the numbers | `difference` | |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from voxprior.blocks import BlockedScans, gram_matrix, voxel_blocks
from voxprior.blocks.sums import reading
from voxprior.blocks.threads import sum_over_blocks
from voxprior.labels import kind_of

__all__ = ["GainRule", "GroupRule", "gain_rule", "group_ratio", "group_rule", "scan_means"]

COMMON, SHARE = 3.0, 0.3  # limits of 1 / r and of g / (g + r)
RATIO, SHARES_APART, NUMBERS_APART = 1.2, 0.25, 2.0  # limits of (2), of (3), of (2) for numbers
SMALLEST = 1e-25  # squared length that float32 still holds with all digits
ROUNDING = 1e-20  # variance of the logarithms of equal gains
# Voxels handled at once in float64, so that scans are never held twice at double precision.
VOXELS_AT_ONCE = 8192


class GainRule(NamedTuple):
    """Whether scans are to be divided by their means, by which numbers, and that in words."""

    divide: bool
    common: float
    share: float
    reason: str


class GroupRule(NamedTuple):
    """Whether scans are to be centred by group, by which numbers, and that in words."""

    center: bool
    ratio: float
    difference: float
    reason: str


def _parts(X: np.ndarray) -> Iterator[np.ndarray]:
    """Go through the scans in float64, some voxels at a time."""
    for start in range(0, X.shape[1], VOXELS_AT_ONCE):
        yield np.asarray(X[:, start : start + VOXELS_AT_ONCE], dtype=np.float64)


# ---------------------------------------------------------------- gain


def scan_means(X: np.ndarray) -> np.ndarray:
    """Mean of every scan over its voxels, (n,), accumulated in float64."""
    if not isinstance(X, BlockedScans):
        return np.asarray(X).mean(axis=1, dtype=np.float64)
    return np.sum([part.sum(axis=1) for part in _parts(X)], axis=0) / X.shape[1]


def gain_rule(X: np.ndarray) -> GainRule:
    """Decide by (1) whether scans (n, V) are to be divided by their means over voxels.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.rules import gain_rule
    >>> scans = np.array([[2, 4, 6], [4, 8, 13], [1, 2, 2.5], [3, 6, 9.5]])
    >>> gain_rule(scans).reason  # doctest: +NORMALIZE_WHITESPACE
    'Every scan was divided by its mean: gain makes up 0.99 of how scans of one common image differ
    (limit 0.3).'
    """
    if len(X) < 2 or X.shape[1] < 2:
        return _kept(np.nan, np.nan, "there are too few scans or voxels to tell")
    lengths, c = _with_common(_products(X))
    if not lengths.all():
        return _kept(np.nan, np.nan, "a scan is zero in all voxels")
    if not _same_sign(c):
        return _kept(np.nan, np.nan, "they do not show one common image, their signs differ")
    r = _rest(c)
    g = float(np.var(np.log(np.abs(c) * lengths), ddof=1))
    common = 1 / r if r > 0 else np.inf
    share = g / (g + r) if g > ROUNDING else 0.0
    if not common > COMMON:
        why = f"they do not show one common image, whose power would be {common:.2g} times that of"
        return _kept(common, share, f"{why} the rest (limit {COMMON:g})")
    told = f"gain makes up {share:.2g} of how scans of one common image differ (limit {SHARE:g})"
    if not share > SHARE:
        return _kept(common, share, told)
    if not (scan_means(X) > 0).all():
        return _kept(common, share, f"a mean over voxels is not positive, although {told}")
    return GainRule(True, common, share, f"Every scan was divided by its mean: {told}.")


def _kept(common: float, share: float, why: str) -> GainRule:
    return GainRule(False, common, share, f"Scans were not divided by their means: {why}.")


def _with_common(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of scans, and c = √λ q: λ is the largest eigenvalue of their cosines, q its vector.

    A scan of zeros has cosines of 0.
    """
    lengths = np.sqrt(np.diag(gram))
    unit = np.where(lengths > 0, lengths, 1.0)
    values, vectors = np.linalg.eigh(gram / unit / unit[:, None])
    return lengths, np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]


def _same_sign(c: np.ndarray) -> bool:
    return bool((c > 0).all() or (c < 0).all())


def _rest(c: np.ndarray) -> float:
    """Return r, the power of what is not the common image, relative to that of the image."""
    return float(np.mean(np.maximum(1 - c**2, 0) / c**2))


def _products(X: np.ndarray) -> np.ndarray:
    """Inner products of scans; of float32 by quicker sums where these rule a common image out."""
    if X.dtype != np.float32:
        return gram_matrix(X)

    def add(block: slice, total: np.ndarray) -> None:
        part = X[:, block]
        total += part @ part.T

    n = len(X)
    with reading(X), np.errstate(over="ignore", invalid="ignore"):
        (gram,) = sum_over_blocks(add, voxel_blocks(*X.shape), (n, n))
    if np.isfinite(gram).all() and np.diag(gram).min() > SMALLEST:
        _, c = _with_common(gram)
        if not _same_sign(c) or _rest(c) * COMMON > 2:
            return gram
    return gram_matrix(X)


# ---------------------------------------------------------------- groups


def group_ratio(X: np.ndarray, groups: Any) -> float:
    """F of (2): how much more groups differ than scans within a group; NaN where it has no meaning.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.rules import group_ratio
    >>> group_ratio(np.array([[5, 1, 0], [4, 2, 1], [1, 1, 3], [0, 3, 3]]), [0, 0, 1, 1])
    11.25
    """
    labels, codes = np.unique(np.asarray(groups), return_inverse=True)
    n, G = len(codes), len(labels)
    if not 1 < G < n:
        return np.nan
    between = within = 0.0
    member = np.eye(G)[:, codes]
    counts = member.sum(axis=1)
    for part in _parts(X):
        means = member @ part / counts[:, None]
        between += float(counts @ ((means - part.mean(axis=0)) ** 2).sum(axis=1))
        within += float(((part - means[codes]) ** 2).sum())
    if within == 0:  # scans of a group are copies: nothing remains without its mean
        return np.nan
    return (between / (G - 1)) / (within / (n - G))


def group_rule(X: np.ndarray, groups: Any, y: Any) -> GroupRule:
    """Decide by (2) and (3) whether scans (n, V) are to be centred by group.

    Parameters
    ----------
    X : array of shape (n, V)
    groups : sequence of n, or None
    y : sequence of n, or None
        Classes or numbers (`voxprior.labels.kind_of` decides which).

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.rules import group_rule
    >>> scans = np.array([[5, 1, 0], [4, 2, 1], [1, 1, 3], [0, 3, 3]])
    >>> runs = [0, 0, 1, 1]
    >>> group_rule(scans, runs, ["a", "b", "a", "b"]).reason  # doctest: +NORMALIZE_WHITESPACE
    'Every scan had the mean of its group subtracted: groups differ 11 times as much as scans within
    them (limit 1.2), and class shares in a group differ from those of all scans by 0 at most (limit
    0.25).'
    >>> group_rule(scans, runs, ["a", "a", "b", "b"]).center
    False
    """
    if groups is None:
        return _uncentered(np.nan, np.nan, "there are no groups")
    if y is None:
        return _uncentered(np.nan, np.nan, "labels, which groups may follow, are not known")
    groups, y = np.asarray(groups), np.asarray(y)
    numbers = kind_of(y) == "regressor"
    difference, told, crosses = (_numbers_cross if numbers else _classes_cross)(groups, y)
    ratio = group_ratio(X, groups)
    if not crosses:
        return _uncentered(ratio, difference, told)
    if len(np.unique(groups)) == 1:
        return GroupRule(True, ratio, difference, f"{CENTERED}: there is one group.")
    if np.isnan(ratio):
        return _uncentered(ratio, difference, "nothing differs within groups")
    differ = f"groups differ {ratio:.2g} times as much as scans within them (limit {RATIO:g})"
    if not ratio > RATIO:
        return _uncentered(ratio, difference, differ)
    return GroupRule(True, ratio, difference, f"{CENTERED}: {differ}, and {told}.")


CENTERED = "Every scan had the mean of its group subtracted"


def _uncentered(ratio: float, difference: float, why: str) -> GroupRule:
    return GroupRule(False, ratio, difference, f"Scans were not centred by group: {why}.")


def _classes_cross(groups: np.ndarray, y: np.ndarray) -> tuple[float, str, bool]:
    """Left side of (3), that in words, and whether it is small enough."""
    classes, code = np.unique(y, return_inverse=True)
    shares = np.eye(len(classes))[code]
    overall = shares.mean(axis=0)
    apart = max(
        float(np.abs(shares[groups == g].mean(axis=0) - overall).sum() / 2)
        for g in np.unique(groups)
    )
    told = (
        f"class shares in a group differ from those of all scans by {apart:.2g} at most (limit "
        f"{SHARES_APART:g})"
    )
    return apart, told, apart <= SHARES_APART + 1e-12  # shares such as 3/8 - 1/8 are rounded


def _numbers_cross(groups: np.ndarray, y: np.ndarray) -> tuple[float, str, bool]:
    """F of the numbers, that in words, and whether it is small enough."""
    counts = np.unique(groups, return_counts=True)[1]
    if counts.min() < 2:
        return np.nan, "a group has a single scan", False
    if len(counts) == 1:
        return np.nan, "there is one group", True
    apart = group_ratio(y[:, None].astype(float), groups)
    if np.isnan(apart):
        return apart, "the numbers do not vary within groups", False
    told = (
        f"means of the numbers in groups differ {apart:.2g} times as much as numbers within them "
        f"(limit {NUMBERS_APART:g})"
    )
    return apart, told, apart < NUMBERS_APART
