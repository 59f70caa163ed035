"""Which voxels matter: a statistic per voxel, tested against relabelled scans.

| step | module |
|---|---|
| how labels may be exchanged | `exchange` |
| what is removed from scans and labels | `design` |
| values of all relabellings | `relabelled`, by `product`, `moderation` and `enhancement` |
| p, and what they say | `verdict`, in the words of `statistics` |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from voxprior.blocks import blocked
from voxprior.errors import InputError, InputWarning, option
from voxprior.mapping.design import choose_design
from voxprior.mapping.exchange import choose_exchange
from voxprior.mapping.relabelled import relabelled_values
from voxprior.mapping.spread import refuse_welch, welch_fits
from voxprior.mapping.statistics import FEW, STATISTICS
from voxprior.mapping.verdict import MapTest, floor_words, judge, reach_words
from voxprior.space import VoxelSpace
from voxprior.validation.progress import progress_bar

__all__ = ["map_test"]

CORRECTIONS = ("fwer", "fdr", "none")
# Relabellings where no number is asked for; maps of neighbourhoods cost more than a product.
MANY, FEWER = 10_000, 1_000


def map_test(
    X,
    y,
    groups=None,
    *,
    space: VoxelSpace | None = None,
    blocks=None,
    scheme: str = "auto",
    statistic: str = "auto",
    correction: str = "fwer",
    level: float = 0.05,
    n_permutations: int | None = None,
    nuisance=None,
    radius: float | None = None,
    random_state: int = 0,
    progress: bool = False,
    despite_floor: bool = True,
    tell: Callable[[str], None] | None = None,
) -> MapTest:
    """Test every voxel of a map against relabelled scans.

    Parameters
    ----------
    X : array of shape (n, V)
        Scans.
    y : array of shape (n,) or None
        Labels of classes, or numbers. None tests the mean of the maps against zero.
    groups : array of shape (n,), optional
        Runs or subjects. Where they hold several labels, their means are removed.
    space : VoxelSpace, optional
        Where voxels are, for the statistics of neighbourhoods.
    blocks : array of shape (n,), optional
        Scans that carry one label together, such as volumes of one stimulus block. They are
        averaged, as are the scans of a group that holds one label.
    scheme : {"auto", "free", "within", "whole", "signs"}
        How labels are exchanged, see `voxprior.validation.relabelling`; signs are flipped where
        there are no labels.
    statistic : {"auto", "t", "moderated", "welch", "shared", "tfce", "cluster", "pattern", \
        "weight"}
        See `voxprior.mapping.statistics`. "auto" is "welch" for two classes of 20 scans or more
        that are not exchanged within groups, else "moderated" below 20 degrees of freedom and "t"
        above; "tfce" and "cluster" enhance what "auto" would be.
    correction : {"fwer", "fdr", "none"}
        What makes a voxel significant: p_fwer, q_fdr or p_uncorrected of at most `level`.
    level : float
        Of significance.
    n_permutations : int, optional
        Relabellings; 10,000 by default, 1,000 for "tfce" and "cluster". Where the design has no
        more than twice as many, all are used and p is exact.
    nuisance : array of shape (n, q), optional
        Variables whose linear effect is taken out of scans and labels, such as age and sex.
    radius : float, optional
        Voxels at most this far apart are neighbours, in voxels or units of the coordinates; by
        default those that share a face, or an edge of a mesh.
    random_state : int
        Seed of the relabellings.
    progress : bool
        Show a bar.
    despite_floor : bool
        Whether to go on, with a warning, where the design cannot reach the level at all.
    tell : callable, optional
        Called, before anything long, with a sentence on the relabellings and the smallest p.

    Returns
    -------
    MapTest

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.mapping import map_test
    >>> y, runs = np.tile(["face", "house"], 8), np.repeat(range(8), 2)
    >>> X = np.random.default_rng(0).normal(size=(16, 50)) + runs[:, None]
    >>> X[:, 3] += 4.0 * (y == "house")
    >>> found = map_test(X, y, runs)
    >>> found
    Map test by moderated t: 1 of 50 voxels significant (familywise error 0.05), p of the whole map
    0.00781 (smallest possible 0.00781); all 256 relabellings, labels exchanged among scans within
    each group
    >>> found.hypothesis[:52]
    'In this voxel house and face differ, in mean or in s'
    """
    X = checked_scans(X)
    _check_choices(statistic, correction, level)
    if n_permutations is None:
        n_permutations = FEWER if statistic in ("tfce", "cluster") else MANY
    exchange = choose_exchange(
        checked_labels(y, len(X), "y"),
        checked_labels(groups, len(X), "groups"),
        checked_labels(blocks, len(X), "blocks"),
        n=len(X),
        scheme=scheme,
        n_permutations=n_permutations,
        random_state=random_state,
    )
    design = choose_design(exchange, nuisance)
    if exchange.smallest_p > level:
        _tell_floor(floor_words(exchange, level), despite_floor)
    if tell is not None:
        tell(reach_words(exchange))
    name = statistic
    if statistic == "auto":
        name = "welch" if welch_fits(exchange) else "moderated" if design.df < FEW else "t"
    if name == "welch":
        refuse_welch(exchange)
    with progress_bar(progress, "relabellings", len(exchange.targets) - 1) as advance:
        found = relabelled_values(name, X, exchange, design, space, radius, advance)
    return judge(name, found, exchange, design, correction, level)


def _tell_floor(told: str, despite_floor: bool) -> None:
    if not despite_floor:
        raise InputError(
            told.rstrip("."), remedy=f"To see the map all the same: {option('despite_floor', True)}"
        )
    warnings.warn(InputWarning(told), stacklevel=3)


def checked_scans(X: Any) -> NDArray:
    """Scans (n, V) as an array of finite numbers, or an error."""
    X = np.asarray(blocked(X))
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(
            "There is nothing to test", expected="scans with voxels, (n, V)", got=f"shape {X.shape}"
        )
    if X.dtype.kind not in "fiub":
        raise InputError("Scans are not numbers", expected="an array of numbers", got=str(X.dtype))
    if not all(np.isfinite(row).all() for row in X):
        raise InputError("Scans hold NaN or infinite values", remedy="Leave these voxels out")
    return X


def checked_labels(values: Any, n: int, name: str) -> NDArray | None:
    """What is given per scan as an array of n values, none missing, or an error."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.shape != (n,):
        raise InputError(
            f"{option(name)} does not fit the scans", expected=f"{n} values", got=f"{values.shape}"
        )
    if pd.isna(values).any():
        raise InputError(f"{option(name)} has missing values", remedy="Leave these scans out")
    return values.astype(str) if values.dtype.kind == "O" else values


def _check_choices(statistic: str, correction: str, level: float) -> None:
    if statistic not in ("auto", *STATISTICS):
        raise InputError(
            f"{option('statistic', statistic)} is not known",
            expected=f"one of auto, {', '.join(STATISTICS)}",
        )
    if correction not in CORRECTIONS:
        raise InputError(
            f"{option('correction', correction)} is not known",
            expected=f"one of {', '.join(CORRECTIONS)}",
        )
    if not 0 < level < 1:
        raise InputError(f"{option('level', level)} is not a level", expected="between 0 and 1")
    if correction != "fwer" and statistic != "auto" and STATISTICS[statistic].control != "strong":
        raise InputError(
            f"{option('correction', correction)} is for single voxels, which "
            f"{option('statistic', statistic)} does not test",
            remedy=f"Take {option('correction', 'fwer')}, or {option('statistic', 't')}",
        )
