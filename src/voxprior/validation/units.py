"""Units of a split: the scans that stay together, and what every splitter has in common."""

from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

Fold = tuple[np.ndarray, np.ndarray]

# A draw can miss a class by bad luck; that many draws missing it means that it cannot be had.
MAX_DRAWS = 100


class Units(NamedTuple):
    """Scans put together into the units that a splitter moves."""

    of_sample: np.ndarray  # (n_samples,) the unit of every scan
    holds: np.ndarray  # (n_units, n_classes) how many scans of each class a unit holds
    classes: np.ndarray  # (n_classes,)

    def samples(self, chosen: np.ndarray) -> np.ndarray:
        """Indices of the scans of the chosen units, in ascending order."""
        return np.flatnonzero(np.isin(self.of_sample, chosen))

    def strata(self) -> np.ndarray:
        """(n_units,) a code for the set of classes that a unit holds."""
        return np.unique(self.holds > 0, axis=0, return_inverse=True)[1].ravel()


def units_of(y, groups=None) -> Units:
    """Units of a labelled data set: its groups, or its scans where there are no groups."""
    y = column_or_1d(y)
    classes, label = np.unique(y, return_inverse=True)
    if groups is None:
        of_sample = np.arange(len(y))
    else:
        check_consistent_length(y, groups)
        of_sample = np.unique(column_or_1d(groups), return_inverse=True)[1]
    holds = np.zeros((of_sample.max() + 1, len(classes)), dtype=np.intp)
    np.add.at(holds, (of_sample, label), 1)
    return Units(of_sample, holds, classes)


class Splitter(BaseEstimator):
    """What the splitters share: parameters that clone, groups that are asked for, a seed."""

    # The groups reach `split` by themselves where scikit-learn routes metadata.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    by = "group"

    def _units(self, X, y, groups) -> Units:
        if self.by not in ("group", "sample"):
            raise ValueError(
                f"The 'by' parameter of {type(self).__name__} must be 'group' or 'sample'. "
                f"Got {self.by!r} instead."
            )
        if y is None:
            y = np.zeros(self._n_samples(X, groups), dtype=int)
        return units_of(y, groups if self.by == "group" else None)

    def _n_samples(self, *arrays) -> int:
        for array in arrays:
            if array is not None:
                return array.shape[0] if hasattr(array, "shape") else len(array)
        raise ValueError(f"{type(self).__name__} needs X, y or groups to know how many scans.")

    def _unlabelled_units(self, X, y, groups) -> Units:
        return self._units(None, np.zeros(self._n_samples(X, y, groups), dtype=int), groups)

    def _labelled_units(self, X, y, groups) -> Units:
        if y is None:
            raise ValueError(f"{type(self).__name__} needs the labels: give y to split.")
        return self._units(X, y, groups)

    def _one_class_units(self, X, y, groups) -> list[np.ndarray]:
        """Units of each class; a group with scans of two classes belongs to none of them."""
        units = self._labelled_units(X, y, groups)
        mixed = np.count_nonzero((units.holds > 0).sum(axis=1) > 1)
        if mixed:
            raise ValueError(
                f"{type(self).__name__} takes one group a class out, so a group must carry one "
                f"class. Got {mixed} groups with several: use LeaveOneGroupOut, or by='sample'."
            )
        members = [np.flatnonzero(column) for column in units.holds.T]
        if len(members) < 2 or min(map(len, members)) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes with two units each, one to train and "
                f"one to test. Got units a class: "
                f"{ {str(c): len(m) for c, m in zip(units.classes, members)} }."
            )
        return members

    def _generators(self, n: int) -> Iterator[np.random.Generator]:
        for seed in np.random.SeedSequence(self.random_state).spawn(n):
            yield np.random.default_rng(seed)

    def _check_count(self, name: str, smallest: int = 1) -> None:
        value = getattr(self, name)
        if not isinstance(value, Integral) or value < smallest:
            raise ValueError(
                f"The '{name}' parameter of {type(self).__name__} must be an integer of at least "
                f"{smallest}. Got {value!r} instead."
            )


def cut(units: Units, test_units: np.ndarray) -> Fold:
    """Train on every unit that does not test."""
    in_test = np.isin(units.of_sample, test_units)
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)
