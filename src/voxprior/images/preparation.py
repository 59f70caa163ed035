"""What is done to every scan before any fold: divided by its mean, centred by its group.

    x_i  ->  x_i / mean over voxels of x_i                                scale "global"
    x_i  ->  x_i - m_g(i),   m_g the mean of the scans of group g         standardize "group"

Both use a scan or the scans of its own group, and no label, so that they may come before scans are
parted into training and test sets; a new scan is prepared the same way. Whether they are needed is
decided by `voxprior.images.rules` where the setting is "auto".

**New scans.** A group of two or more scans is centred by its own mean. A scan whose group is not
known, or that is alone in it, is centred by the mean of the training scans, and what its group adds
stays in it: `LOSS` says what that costs. A group that holds the classes in other shares than the
training groups did, one class only at worst, loses its difference from them with its mean: such
scans are given without a group (None).

`ScanPreparation` does the same for those who have arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_selection import f_classif, f_regression
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from voxprior.blocks import BlockedScans, column_means
from voxprior.errors import InputError, InputWarning, nearest, option
from voxprior.images.rules import VOXELS_AT_ONCE, gain_rule, group_rule, scan_means
from voxprior.labels import kind_of
from voxprior.space import VoxelSpace

__all__ = ["SCALES", "Centered", "PreparedScans", "ScanPreparation", "center_by_group"]
__all__ += ["check_center", "check_choice", "divide_by_means", "prepare_scans", "warn_of_alone"]

SCALES = ("auto", "global", "none")
CENTERINGS = ("auto", "group", "none")
# p of a test of the divided means against the labels; above it there is no warning.
BY_CHANCE = 0.001
LOSS = (
    "what their group adds to every scan counts as signal then, which took betas of five finger "
    "movements from 91 % right to 68 %"
)


def check_center(center: Any, space: VoxelSpace) -> None:
    """Refuse a mean of training maps that is not one: it may come from a file."""
    if center is not None and not (
        center.shape == (space.n_voxels,) and center.dtype.kind == "f" and np.isfinite(center).all()
    ):
        raise InputError(
            "The mean of the training maps must have one finite value per voxel",
            got=f"shape {center.shape} and {space.n_voxels} voxels",
        )


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a setting that is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            f"{option(name, value)} is not a choice{nearest(str(value), choices)}",
            expected=f"one of {', '.join(choices)}",
        )


# ---------------------------------------------------------------- the two steps


def divide_by_means(X: np.ndarray, names: Sequence[str] = ()) -> np.ndarray:
    """Divide every scan (n, V) by its mean over voxels, which must be positive.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.preparation import divide_by_means
    >>> divide_by_means(np.array([[1.0, 3.0], [20.0, 60.0]]))
    array([[0.5, 1.5],
           [0.5, 1.5]])
    """
    means = scan_means(X)
    bad = np.flatnonzero(~(means > 0))
    if len(bad):
        raise InputError(
            f"{names[bad[0]] if names else f'scan {bad[0]}'}: its mean over voxels is "
            f"{means[bad[0]]:.3g}, so {option('scale', 'global')} cannot divide by it",
            expected="a mean above 0",
            remedy=f"Set {option('scale', 'none')}, or leave the scan out",
        )
    if isinstance(X, BlockedScans):
        return X.changed(Division(means).of)
    out = np.empty(X.shape, dtype=X.dtype)
    # Means as arrays of one number: in threads numpy 2.1 rounds a scalar to float32.
    for row, values, mean in zip(out, X, means[:, None]):
        np.divide(values, mean, out=row, casting="same_kind")
    return out


class Division(NamedTuple):
    """Division of every scan by its mean (n,)."""

    means: np.ndarray

    def of(self, values: np.ndarray, voxels: Any) -> np.ndarray:
        """All scans at some voxels, divided."""
        return np.divide(values, self.means[:, None]).astype(values.dtype, copy=False)


class Centering(NamedTuple):
    """Rows of each group of two scans or more, which scans have none, and the mean for these."""

    groups: list[np.ndarray]
    alone: np.ndarray
    center: np.ndarray

    def of(self, values: np.ndarray, voxels: Any) -> np.ndarray:
        """All scans at some voxels, without the means of their groups."""
        out = np.empty_like(values)
        for rows in self.groups:
            part = values[rows].astype(np.float64)
            out[rows] = part - part.mean(axis=0)
        out[self.alone] = values[self.alone] - self.center[voxels]
        return out


class Centered(NamedTuple):
    """Scans without the means of their groups, and which had no group of two scans or more."""

    X: np.ndarray
    alone: np.ndarray


def center_by_group(X: np.ndarray, groups: Any, center: np.ndarray) -> Centered:
    """Subtract from every scan (n, V) the mean of its group, or `center` (V,) where it is alone.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.preparation import center_by_group
    >>> X = np.array([[5.0, 1.0], [3.0, 3.0], [9.0, 9.0]])
    >>> center_by_group(X, ["run1", "run1", None], center=np.array([4.0, 2.0])).X
    array([[ 1., -1.],
           [-1.,  1.],
           [ 5.,  7.]])
    """
    codes = _codes(groups, len(X))
    counts = np.bincount(codes[codes >= 0], minlength=1)
    alone = (codes < 0) | (counts[codes] < 2)
    parts = [np.flatnonzero((codes == g) & ~alone) for g in np.unique(codes[~alone])]
    centering = Centering(parts, alone, np.broadcast_to(center, X.shape[1]))
    if isinstance(X, BlockedScans):
        return Centered(X.changed(centering.of), alone)
    out = np.empty(X.shape, dtype=X.dtype)
    for start in range(0, X.shape[1], VOXELS_AT_ONCE):
        voxels = slice(start, start + VOXELS_AT_ONCE)
        out[:, voxels] = centering.of(X[:, voxels], voxels)
    return Centered(out, alone)


def _codes(groups: Any, n: int) -> np.ndarray:
    """Numbers of the groups (n,), -1 where a scan has none: None or NaN."""
    if groups is None:
        return np.full(n, -1)
    return pd.factorize(np.asarray(groups, dtype=object))[0]


def warn_of_alone(alone: np.ndarray, stacklevel: int = 3) -> None:
    """Warn of scans that were centred by the training mean, and of what that costs."""
    if alone.any():
        told = (
            f"{alone.sum()} of {len(alone)} scans have no group of two or more new scans, so the "
            f"mean of the training scans was subtracted in place of their group's: {LOSS}. Give "
            f"{option('groups')}, with all scans of each."
        )
        warnings.warn(InputWarning(told), stacklevel=stacklevel)


# ---------------------------------------------------------------- scans to learn from


class PreparedScans(NamedTuple):
    """Prepared scans, what was done to them, their mean before centring, and automatic choices."""

    X: np.ndarray
    scale: str
    standardize: str
    center: np.ndarray
    decisions: tuple[str, ...]


def prepare_scans(
    X: np.ndarray,
    y: Any = None,
    groups: Any = None,
    *,
    scale: str = "auto",
    standardize: str = "auto",
    names: Sequence[str] = (),
) -> PreparedScans:
    """Prepare scans to learn from, as the settings or the rules say.

    Parameters
    ----------
    X : array of shape (n, V), float32 or float64
    y : sequence of n, optional
        Labels or numbers: "auto" asks whether groups follow them.
    groups : sequence of n, optional
    scale : {"auto", "global", "none"}
    standardize : {"auto", "group", "none"}
    names : sequence of n str
        What scans are called in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.images.preparation import prepare_scans
    >>> X = np.array([[5.0, 1, 0], [4, 2, 1], [1, 1, 3], [0, 3, 3]])
    >>> done = prepare_scans(X, ["a", "b", "a", "b"], [0, 0, 1, 1])
    >>> done.scale, done.standardize, done.X[0].tolist()
    ('none', 'group', [0.5, -0.5, -0.5])
    """
    decisions = []
    if scale == "auto":
        gain = gain_rule(X)
        scale = "global" if gain.divide else "none"
        decisions.append(gain.reason)
        if gain.divide and y is not None:
            decisions += _told_by_means(scan_means(X), np.asarray(y))
    if scale == "global":
        X = divide_by_means(X, names)
    if standardize == "auto":
        by_group = group_rule(X, groups, y)
        standardize = "group" if by_group.center else "none"
        if groups is not None:
            decisions.append(by_group.reason)
    center = column_means(X)
    if standardize == "group":
        X = _centered_to_learn(X, groups, center)
    return PreparedScans(X, scale, standardize, center, tuple(decisions))


def _told_by_means(means: np.ndarray, y: np.ndarray) -> list[str]:
    """Warn if the means, which are divided away, predict the labels; this decides nothing."""
    numbers = kind_of(y) == "regressor"
    if not numbers and len(np.unique(y)) < 2:
        return []
    with np.errstate(all="ignore"):
        p = float((f_regression if numbers else f_classif)(np.log(means)[:, None], y)[1][0])
    if not p < BY_CHANCE:
        return []
    told = f"What was divided away differs with the labels (p = {p:.2g})"
    advice = f"{told}: if it may be an effect, such as atrophy or uptake, set "
    warnings.warn(InputWarning(f"{advice}{option('scale', 'none')}."), stacklevel=6)
    return [f"{told}."]


def _centered_to_learn(X: np.ndarray, groups: Any, center: np.ndarray) -> np.ndarray:
    """Centre scans by group; without any group of two scans there is nothing to centre by."""
    found = center_by_group(X, groups, center)
    if found.alone.all():
        what = "there are none" if groups is None else "each scan is alone in its own"
        raise InputError(
            f"{option('standardize', 'group')} needs groups of two scans or more, and {what}",
            remedy=f"Give {option('groups')}, the run of every scan, or set "
            f"{option('standardize', 'train')}",
        )
    warn_of_alone(found.alone, stacklevel=5)
    return found.X


class ScanPreparation(TransformerMixin, BaseEstimator):
    """Divide scans by their means and centre them by group, where the scans ask for it.

    What `voxprior.Decoder` and the readers of images do to maps, for those who have arrays. It
    belongs before the folds of a cross-validation: a scan is changed by the scans of its own group
    only, and labels are used only to check whether groups follow them. Groups that are centred
    must be whole on one side of every fold.

    Parameters
    ----------
    scale : {"auto", "global", "none"}, default="auto"
        "global" divides every scan by its mean over voxels, which must be positive; "auto" does so
        where gain makes up more than .3 of how scans of one common image differ.
    standardize : {"auto", "group", "none"}, default="auto"
        "group" subtracts from every scan the mean of its group; "auto" does so where groups differ
        more than 1.2 times as much as scans within them and hold the classes in like shares.

    Attributes
    ----------
    scale_, standardize_ : str
        What is done.
    mean_ : ndarray of shape (n_features,)
        Mean of the training scans, for new ones without a group.
    decisions_ : list of str
        One sentence for each automatic choice, with the number that made it.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import ScanPreparation
    >>> rng = np.random.default_rng(0)
    >>> runs, y = np.repeat([0, 1, 2], 4), np.tile(["face", "house"], 6)
    >>> X = rng.normal(size=(12, 30)) + 5 * rng.normal(size=(3, 30))[runs]
    >>> preparation = ScanPreparation()
    >>> X = preparation.fit_transform(X, y, groups=runs)
    >>> preparation.scale_, preparation.standardize_
    ('none', 'group')
    >>> abs(X[runs == 1].mean()) < 1e-12
    np.True_
    """

    def __init__(self, scale="auto", standardize="auto"):
        self.scale = scale
        self.standardize = standardize

    def fit(self, X, y=None, groups=None) -> ScanPreparation:
        """Decide what is to be done, and learn the mean of the scans.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
        groups : array-like of shape (n_samples,), optional
            Run, session or site of each scan.

        Returns
        -------
        ScanPreparation
        """
        self._prepare(X, y, groups)
        return self

    def fit_transform(self, X, y=None, groups=None) -> np.ndarray:
        """Do `fit`, and return the scans prepared; parameters are those of `fit`."""
        return self._prepare(X, y, groups)

    def _prepare(self, X, y, groups) -> np.ndarray:
        check_choice("scale", self.scale, SCALES)
        check_choice("standardize", self.standardize, CENTERINGS)
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        check_consistent_length(X, y, groups)
        done = prepare_scans(X, y, groups, scale=self.scale, standardize=self.standardize)
        self.scale_, self.standardize_ = done.scale, done.standardize
        self.mean_, self.decisions_ = done.center, list(done.decisions)
        return done.X

    def transform(self, X, groups=None) -> np.ndarray:
        """Prepare new scans.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), optional
            Group of each scan, None or NaN where it is not known: such scans, and those alone in
            their group, are centred by the mean of the training scans, with a warning.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        check_consistent_length(X, groups)
        if self.scale_ == "global":
            X = divide_by_means(X)
        if self.standardize_ != "group":
            return X
        found = center_by_group(X, groups, self.mean_)
        warn_of_alone(found.alone)
        return found.X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
