"""Jackknife and bootstrap, in scikit-learn's form: delete a unit, or draw units with replacement.

References
----------
Efron & Tibshirani, "An introduction to the bootstrap", 1993.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.utils.multiclass import type_of_target

from voxprior.validation.units import MAX_DRAWS, Fold, Splitter, cut

__all__ = ["Bootstrap", "Jackknife"]


class Jackknife(Splitter):
    """Test on each unit once, train on all others.

    Parameters
    ----------
    by : {"group", "sample"}, default="group"
        Delete groups where groups are given, or always single scans.

    Examples
    --------
    >>> from voxprior.validation import Jackknife
    >>> [test.tolist() for _, test in Jackknife().split([0, 1, 2], groups=["a", "b", "a"])]
    [[0, 2], [1]]
    """

    def __init__(self, *, by="group"):
        self.by = by

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        """Return the number of units."""
        return len(self._unlabelled_units(X, y, groups).holds)

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, units in the order of their sorted names."""
        units = self._unlabelled_units(X, y, groups)
        if len(units.holds) < 2:
            raise ValueError("Jackknife needs at least two scans or groups. Got one.")
        for unit in range(len(units.holds)):
            yield cut(units, np.array([unit]))


def _is_continuous(y) -> bool:
    return type_of_target(y).startswith("continuous")


class Bootstrap(Splitter):
    """Train on units drawn with replacement, test on those that were not drawn (out of bag).

    A unit drawn twice appears twice in the training indices.

    Parameters
    ----------
    n_repeats : int, default=200
        Number of bootstrap samples.
    stratify : bool, default=True
        Draw within each kind of unit (the set of classes it holds), so that every class is trained
        on. A real-valued target has no classes; for whole-numbered ages and the like say False.
    by : {"group", "sample"}, default="group"
        Draw whole groups where groups are given, or always single scans.
    random_state : int or None, default=0
        Seed.

    Examples
    --------
    >>> from voxprior.validation import Bootstrap
    >>> train, test = next(Bootstrap(n_repeats=1).split([0, 1, 2, 3], [0, 0, 1, 1]))
    >>> len(train), bool(set(train) & set(test))
    (4, False)
    """

    def __init__(self, n_repeats=200, *, stratify=True, by="group", random_state=0):
        self.n_repeats = n_repeats
        self.stratify = stratify
        self.by = by
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        """Return the number of bootstrap samples."""
        return self.n_repeats

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, one pair a bootstrap sample."""
        self._check_count("n_repeats")
        labelled = self.stratify and y is not None and not _is_continuous(y)
        units = (self._units if labelled else self._unlabelled_units)(X, y, groups)
        strata = units.strata()
        members = [np.flatnonzero(strata == s) for s in np.unique(strata)]
        for rng in self._generators(self.n_repeats):
            drawn = self._draw(rng, members)
            train = np.concatenate([np.flatnonzero(units.of_sample == u) for u in drawn])
            yield train, np.flatnonzero(~np.isin(units.of_sample, drawn))

    def _draw(self, rng, members: list[np.ndarray]) -> np.ndarray:
        n_units = sum(map(len, members))
        for _ in range(MAX_DRAWS):
            drawn = np.concatenate([rng.choice(m, size=len(m)) for m in members])
            if len(np.unique(drawn)) < n_units:
                return np.sort(drawn)
        raise ValueError(
            "Bootstrap left no unit out of the bag: it needs at least one kind of unit (one class) "
            f"with two of them. Got {n_units} units of {len(members)} kinds."
        )
