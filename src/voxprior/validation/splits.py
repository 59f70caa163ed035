"""Splitters for few scans, in scikit-learn's form: which scans train, which scans test.

All of them work on *units*: a unit is a scan, or the scans of one group (a run, a subject) where
groups are given, and the scans of a unit always stay together: train and test never share a group.

| splitter | which units train and test |
|---|---|
| `FewShotSplit` | half are a pool, n per class of it train, the other half tests [1]_ |
| `LeaveOnePerClassOut` | every choice of one unit per class tests ("two-out" for 2 classes) |
| `MonteCarloLeaveOnePerClassOut` | runs of it: random pairings, one pair tests at a time [2]_ |
| `LeaveOneGroupOut` | scikit-learn's: every group tests once |
| `Jackknife` | every unit tests once [3]_ |
| `Bootstrap` | units drawn with replacement train, those not drawn test [3]_ |

Chance enters through ``random_state``; repeat r uses the r-th child of its seed, so the first
repeats stay the same when more are asked for.

References
----------
.. [1] Palatucci & Mitchell, "Classification in very high dimensional problems with handfuls of
   examples", ECML/PKDD 2007.
.. [2] Carmi, Cecchi, Kanevsky, Ramabhadran & Rish, "Compressed random fields", IBM report.
.. [3] Efron & Tibshirani, "An introduction to the bootstrap", 1993.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from voxprior.errors import InputError, option
from voxprior.validation.units import MAX_DRAWS, Fold, Splitter, Units

__all__ = [
    "Bootstrap",
    "FewShotSplit",
    "Jackknife",
    "LeaveOneGroupOut",
    "LeaveOnePerClassOut",
    "MonteCarloLeaveOnePerClassOut",
]


class FewShotSplit(Splitter):
    """Train on n scans per class from one half of the units, test on the other half.

    Units are halved within their kind (the set of classes that they hold), so that classes which
    are equal stay equal: 20 + 20 scans become a pool of 10 + 10 and a test set of 10 + 10.

    Parameters
    ----------
    n_per_class : int or None, default=2
        Scans (or units, see `draw`) of each class to train on; None trains on the whole pool.
    n_repeats : int, default=10
        How many random splits.
    pool : float or None, default=0.5
        Fraction of the units that may train; the others test. None: everything that does not
        share a unit with the training scans tests.
    draw : {"sample", "group"}, default="sample"
        Draw n single scans per class, or whole units until each class is held by n of them
        ("n runs train").
    by : {"group", "sample"}, default="group"
        The unit that stays together: the group where groups are given, or always the scan.
    random_state : int or None, default=0
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation import FewShotSplit
    >>> y = np.repeat(["picture", "sentence"], 20)
    >>> train, test = next(FewShotSplit(n_per_class=2).split(y, y))
    >>> y[train].tolist(), len(test)
    (['picture', 'picture', 'sentence', 'sentence'], 20)
    """

    def __init__(
        self, n_per_class=2, n_repeats=10, *, pool=0.5, draw="sample", by="group", random_state=0
    ):
        self.n_per_class = n_per_class
        self.n_repeats = n_repeats
        self.pool = pool
        self.draw = draw
        self.by = by
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        """Return the number of repeats."""
        return self.n_repeats

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, one pair per repeat."""
        self._check_parameters()
        units = self._labeled_units(y, groups)
        label = np.searchsorted(units.classes, column_or_1d(y))
        for rng in self._generators(self.n_repeats):
            yield self._one_split(rng, units, label)

    def _check_parameters(self) -> None:
        self._check_count("n_repeats")
        if self.n_per_class is not None:
            self._check_count("n_per_class")
        elif self.pool is None:
            raise InputError(
                "With neither n_per_class nor pool all scans would train",
                remedy=f"Give {option('n_per_class')} or {option('pool')}",
            )
        if self.pool is not None and not 0 < self.pool < 1:
            self._refuse("pool", "a fraction between 0 and 1, or None")
        self._check_choice("draw", "sample", "group")

    def _one_split(self, rng, units: Units, label: np.ndarray) -> Fold:
        need = self.n_per_class or 1
        for _ in range(MAX_DRAWS):
            pool = self._draw_pool(rng, units)
            train = self._draw_train(rng, units, label, pool, need)
            if self.pool is None:
                test_units = np.setdiff1d(np.arange(len(units.holds)), units.of_sample[train])
            else:
                test_units = np.setdiff1d(np.arange(len(units.holds)), pool)
            if self._enough(units, label, train, need) and np.all(
                units.holds[test_units].sum(axis=0) > 0
            ):
                return train, units.samples(test_units)
        kind = "scans" if self.draw == "sample" else "groups"
        raise InputError(
            f"No split has {need} {kind} per class in training and every class in test",
            got=f"scans or groups per class: {units.per_class()}",
            remedy="Train on fewer per class, change the pool, or use smaller groups",
        )

    def _draw_pool(self, rng, units: Units) -> np.ndarray:
        """Take every (1/pool)-th unit of a random order sorted by kind: the kinds stay even."""
        order = rng.permutation(len(units.holds))
        if self.pool is None:
            return order
        order = order[np.argsort(units.strata()[order], kind="stable")]
        steps = np.floor((np.arange(len(order) + 1) + rng.random() / self.pool) * self.pool)
        return rng.permutation(order[np.diff(steps) > 0])

    def _draw_train(self, rng, units, label, pool, need) -> np.ndarray:
        if self.n_per_class is None:
            return units.samples(pool)
        if self.draw == "sample":
            candidates = rng.permutation(units.samples(pool))
            chosen = [candidates[label[candidates] == c][:need] for c in range(len(units.classes))]
            return np.sort(np.concatenate(chosen))
        held = np.zeros(len(units.classes), dtype=int)
        taken = []
        for unit in pool:
            classes = units.holds[unit] > 0
            if np.any(held[classes] < need):
                held += classes
                taken.append(unit)
        return units.samples(np.array(taken, dtype=int))

    def _enough(self, units: Units, label: np.ndarray, train: np.ndarray, need: int) -> bool:
        if self.draw == "group":
            trained = np.unique(units.of_sample[train])
            return bool(np.all((units.holds[trained] > 0).sum(axis=0) >= need))
        return bool(np.all(np.bincount(label[train], minlength=len(units.classes)) >= need))


class LeaveOnePerClassOut(Splitter):
    """Test on every choice of one unit per class, train on all others: "two-out" for two classes.

    Leave-one-out on balanced classes always trains on one scan too few of the class it tests,
    which pushes accuracy below chance on pure noise. Taking one of each class out cures that.

    Parameters
    ----------
    by : {"group", "sample"}, default="group"
        Leave groups out where groups are given (a subject, whose scans all carry one label), or
        always single scans.

    Examples
    --------
    >>> from voxprior.validation import LeaveOnePerClassOut
    >>> y = [0, 0, 1, 1, 1]
    >>> LeaveOnePerClassOut().get_n_splits(y, y)
    6
    """

    def __init__(self, *, by="group"):
        self.by = by

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        """Return the product of the classes' unit counts."""
        return int(np.prod([len(m) for m in self._one_class_units(y, groups)]))

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, the last class's unit moving fastest."""
        members = self._one_class_units(y, groups)
        units = self._labeled_units(y, groups)
        for chosen in product(*members):
            yield units.fold_testing(np.array(chosen))


class MonteCarloLeaveOnePerClassOut(Splitter):
    """Runs of leave-one-per-class-out over random pairings of the units.

    One run puts the units of every class into a random order; the first of each class test
    together, then the second, and so on, as many as the smallest class has. With ``n_pairs`` a run
    is instead that many pairs drawn independently, so that a pair may come back.

    Parameters
    ----------
    n_runs : int, default=20
        Number of random permutations.
    n_pairs : int or None, default=None
        Independent random pairs per run (for instance 84), rather than one disjoint pairing.
    by : {"group", "sample"}, default="group"
        As in `LeaveOnePerClassOut`.
    random_state : int or None, default=0
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation import MonteCarloLeaveOnePerClassOut
    >>> y = np.repeat([-1, 1], 42)
    >>> MonteCarloLeaveOnePerClassOut(n_runs=20).get_n_splits(y, y)
    840
    """

    def __init__(self, n_runs=20, *, n_pairs=None, by="group", random_state=0):
        self.n_runs = n_runs
        self.n_pairs = n_pairs
        self.by = by
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        """Return runs times pairs per run."""
        members = self._one_class_units(y, groups)
        return self.n_runs * (self.n_pairs or min(map(len, members)))

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, run after run."""
        self._check_count("n_runs")
        if self.n_pairs is not None:
            self._check_count("n_pairs")
        members = self._one_class_units(y, groups)
        units = self._labeled_units(y, groups)
        for rng in self._generators(self.n_runs):
            for chosen in self._pairs(rng, members):
                yield units.fold_testing(chosen)

    def _pairs(self, rng, members: list[np.ndarray]) -> np.ndarray:
        if self.n_pairs is not None:
            return np.column_stack([rng.choice(m, size=self.n_pairs) for m in members])
        smallest = min(map(len, members))
        return np.column_stack([rng.permutation(m)[:smallest] for m in members])


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
        return len(self._unlabeled_units(X, y, groups).holds)

    def split(self, X, y=None, groups=None) -> Iterator[Fold]:
        """Yield (train, test) indices, units in the order of their sorted names."""
        units = self._unlabeled_units(X, y, groups)
        if len(units.holds) < 2:
            raise InputError("Nothing can be left out", expected="two scans or groups", got="one")
        for unit in range(len(units.holds)):
            yield units.fold_testing(np.array([unit]))


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
        on. A real-valued target has no classes; for whole-numbered ages and the like set False.
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
        """Yield (train, test) indices, one pair per bootstrap sample."""
        self._check_count("n_repeats")
        has_classes = self.stratify and y is not None and not _is_continuous(y)
        units = self._units(y, groups) if has_classes else self._unlabeled_units(X, y, groups)
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
        raise InputError(
            "No scan or group is left to test a bootstrap sample on",
            expected="a class with at least two scans or groups",
            got=f"{n_units} in all, of {len(members)} kinds",
        )
