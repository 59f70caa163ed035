"""Voxels that have seen the labels: chosen by them, scaled with test scans, or the label itself.

F is the ratio of variances between and within classes (of the straight line, where the target is a
number) and p its tail. With p of every voxel:

* **chosen**:  share(p > ½) < .05,  share(p > q/2) > .15  and  share(p < q/10) > .02, where q is
  the 99 % quantile of p. Voxels that were chosen for small p end at a sharp bound, below which they
  spread evenly: the best 2,500 of 20,000 voxels of noise have p uniform on (0, .125), none above ½,
  half above q/2 = .062 and a tenth below q/10. A region with signal has p near 0 and a thin tail; a
  scan or a gain that all voxels share gives them all about the same p.
* **the label**:  V min p < 10⁻⁶, and the largest F is over ten times that of the voxel at the
  first 0.1 % (the second one at least); a number must be explained to .999. A voxel with few values
  can sort n scans by chance; there are n!/∏ n_c! ways, so that as many voxels of few values, times
  10⁶, must be fewer than those.

| symbol | variable | shape |
|---|---|---|
| F, p | `F`, `p` | (V,) |
| n_c | `counts` | (C,) |

Reference: Kaufman, Rosset & Perlich, "Leakage in data mining", KDD 2011.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import gammaln

from voxprior.blocks.sums import reading
from voxprior.blocks.threads import side_by_side
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans, spaced_columns

FEWEST_SCANS = 4
# The tail of p is judged by this many voxels, evenly spaced.
VOXELS_JUDGED = 20_000
FEWEST_CHOSEN = 50
CHANCE = 1e-6
FIRST = 0.001
FAR_AHEAD = 10.0
COPY = 0.999
# Numbers that are read for the F of every voxel: seconds.
MOST_NUMBERS = 10**9
VOXELS_AT_ONCE = 1024  # float64 of hundreds of scans stays in the cache of a core


def fitted_outside(scans: AuditedScans) -> Answer:
    """Scaling, or a frozen step, has seen the test scans."""
    params = scans.estimator.get_params(deep=True)
    frozen = [n for n, v in params.items() if type(v).__name__ == "FrozenEstimator"]
    told = [
        f"{frozen} are frozen: fitted once before the folds, so they may have seen the test "
        "scans. Fit them inside the fold."
    ]
    told = told if frozen else []
    values = scans.sampled
    if isinstance(values, NotChecked) or len(values) < FEWEST_SCANS:
        return told or (values if isinstance(values, NotChecked) else _FEW)
    groups = scans.groups
    by_group = groups is not None and all(_standardized(values[groups == g]) for g in set(groups))
    if _standardized(values) and not by_group:
        told.append(
            "Every voxel has mean 0 and standard deviation 1 over all scans: they were scaled with "
            "the test scans among them. Scale inside the fold (a pipeline), or run by run."
        )
    return told


_FEW = NotChecked(f"there are fewer than {FEWEST_SCANS} scans")


def _standardized(values: np.ndarray) -> bool:
    if len(values) < 2:
        return False
    mean, sd = values.mean(axis=0), values.std(axis=0)
    sd1 = values.std(axis=0, ddof=1)
    unit = np.minimum(np.abs(sd - 1), np.abs(sd1 - 1))
    return bool(np.all(np.abs(mean) < 1e-3) and np.all((unit < 1e-3) | (sd == 0)))


def voxels_selected(scans: AuditedScans) -> Answer:
    """Voxels were chosen by the labels of all scans."""
    voxels = scans.voxels
    if isinstance(voxels, NotChecked):
        return voxels
    few = spaced_columns(voxels, VOXELS_JUDGED)
    found = _tails(few, scans)
    if isinstance(found, NotChecked):
        return found
    _, p = found
    if len(p) < FEWEST_CHOSEN:
        return NotChecked(f"fewer than {FEWEST_CHOSEN} voxels vary, too few to see a bound")
    if not looks_selected(p):
        return []
    return [
        f"No voxel is far from going along with the labels: p ends at {np.quantile(p, 0.99):.2g} "
        "and spreads evenly below, as where voxels were chosen by p with these labels. Choose "
        "inside the fold (a pipeline); a region chosen beforehand is fine: allow it."
    ]


def looks_selected(p: np.ndarray) -> bool:
    """Whether p-values of voxels end at a sharp bound.

    >>> import numpy as np
    >>> looks_selected(np.linspace(0, 0.125, 2500)), looks_selected(np.linspace(0, 1, 2500))
    (True, False)
    """
    bound = np.quantile(p, 0.99)
    ends, even = np.mean(p > 0.5) < 0.05, np.mean(p > bound / 2) > 0.15
    return bool(ends and even and np.mean(p < bound / 10) > 0.02)


def label_voxel(scans: AuditedScans) -> Answer:
    """A voxel holds the label."""
    voxels = scans.voxels
    if isinstance(voxels, NotChecked):
        return voxels
    if voxels.size > MOST_NUMBERS:
        return NotChecked("the scans are too large to look at every voxel")
    found = _tails(voxels, scans)
    if isinstance(found, NotChecked):
        return found
    F, p = found
    ranked = np.sort(F)[::-1]
    if len(F) < 2 or p.min() * len(F) >= CHANCE:
        return []
    ahead = ranked[0] > FAR_AHEAD * ranked[max(1, round(FIRST * len(F)))]
    if not scans.classifying:  # a copy; it is normal that one voxel goes along with age
        ahead &= ranked[0] > COPY / (1 - COPY) * (len(scans.y) - 2)
    if not ahead or _sorted_by_chance(voxels, scans):
        return []
    return [
        "A voxel goes along with the labels far better than all others, as if it held the label "
        f"(F = {ranked[0]:.3g}, the next {ranked[1]:.3g}): check how the images were written, and "
        "leave it out of the mask."
    ]


def _sorted_by_chance(voxels: np.ndarray, scans: AuditedScans) -> bool:
    """Whether voxels of few values are so many that one of them is the label by chance."""
    counts = np.bincount(scans.codes)
    ways = gammaln(len(scans.y) + 1) - gammaln(counts + 1).sum() if scans.classifying else np.inf
    few = spaced_columns(voxels, 2000)
    distinct = (np.diff(np.sort(few, axis=0), axis=0) > 0).sum(axis=0) + 1
    share = np.mean((distinct > 1) & (distinct <= len(few) / 2))
    several = share * voxels.shape[1]
    return bool(several > 1 and np.log(several) - ways > np.log(CHANCE))


def _tails(voxels: np.ndarray, scans: AuditedScans) -> tuple[np.ndarray, np.ndarray] | NotChecked:
    """F and p of the voxels that vary."""
    y, n = scans.y, len(scans.y)
    within = n - len(np.unique(y)) if scans.classifying else n - 2
    if n < FEWEST_SCANS or within < 1:
        return NotChecked("there are too few scans per class to judge a voxel")
    between = len(np.unique(y)) - 1 if scans.classifying else 1
    targets = _targets(scans)
    starts = range(0, voxels.shape[1], VOXELS_AT_ONCE)
    blocks = [slice(start, start + VOXELS_AT_ONCE) for start in starts]
    with reading(voxels):
        explained = side_by_side(lambda at: _explained(voxels[:, at], targets), blocks)
    share = np.concatenate(explained)
    share = share[np.isfinite(share)]
    if len(share) == 0:
        return NotChecked("no voxel varies between scans, or all are NaN or infinite")
    with np.errstate(divide="ignore"):
        F = share / (1 - share) * within / between
    return F, stats.f.sf(F, between, within)


def _targets(scans: AuditedScans) -> np.ndarray:
    """Orthonormal columns that the target spans, the mean left out, (n, C - 1) or (n, 1)."""
    columns = np.eye(scans.codes.max() + 1)[scans.codes] if scans.classifying else scans.y[:, None]
    centered = np.asarray(columns, dtype=float) - columns.mean(axis=0)
    U, s, _ = np.linalg.svd(centered, full_matrices=False)
    return U[:, s > 1e-10 * max(s[0], 1e-300)]


def _explained(part: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Share of each voxel's variance that the target explains; NaN where it does not vary."""
    values = np.array(part, dtype=float)
    values -= values.mean(axis=0)
    total = np.einsum("ij,ij->j", values, values)
    fitted = np.square(targets.T @ values).sum(axis=0)
    size = np.maximum(part.max(axis=0).astype(float), -part.min(axis=0).astype(float))
    varies = total > len(values) * (1e-12 * size) ** 2
    share = np.divide(fitted, total, out=np.full(len(total), np.nan), where=varies)
    return np.where(share > 1 - 1e-12, 1.0, share)
