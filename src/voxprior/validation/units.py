"""Units of a split: the scans that stay together, and what every splitter has in common."""

from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from voxprior.errors import InputError, option

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

    def fold_testing(self, chosen: np.ndarray) -> Fold:
        """Fold in which the chosen units test and all others train."""
        in_test = np.isin(self.of_sample, chosen)
        return np.flatnonzero(~in_test), np.flatnonzero(in_test)

    def strata(self) -> np.ndarray:
        """(n_units,) a code for the set of classes that a unit holds."""
        return np.unique(self.holds > 0, axis=0, return_inverse=True)[1].ravel()

    def per_class(self) -> str:
        """How many units hold each class, in words."""
        held = (self.holds > 0).sum(axis=0)
        return ", ".join(f"{k} of {c}" for c, k in zip(self.classes, held))


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

    def _units(self, y, groups) -> Units:
        self._check_choice("by", "group", "sample")
        return units_of(y, groups if self.by == "group" else None)

    def _unlabeled_units(self, *arrays) -> Units:
        """Units by the groups, the last of these arrays; some of them may be None."""
        given = [array for array in arrays if array is not None]
        if not given:
            raise InputError(
                f"{type(self).__name__} cannot know how many scans there are",
                expected="X, y or groups",
            )
        n = given[0].shape[0] if hasattr(given[0], "shape") else len(given[0])
        return self._units(np.zeros(n, dtype=int), arrays[-1])

    def _labeled_units(self, y, groups) -> Units:
        if y is None:
            raise InputError(f"{type(self).__name__} needs the labels", remedy="Give y to split")
        return self._units(y, groups)

    def _one_class_units(self, y, groups) -> list[np.ndarray]:
        """Units of each class; a group with scans of two classes belongs to none of them."""
        units = self._labeled_units(y, groups)
        mixed = np.count_nonzero((units.holds > 0).sum(axis=1) > 1)
        if mixed:
            raise InputError(
                "One group per class cannot be left out",
                expected="groups of one class each",
                got=f"{mixed} groups with several classes",
                remedy=f"Leave whole groups out, {option('cv', 'groups')}",
            )
        members = [np.flatnonzero(column) for column in units.holds.T]
        if len(members) < 2 or min(map(len, members)) < 2:
            raise InputError(
                "One scan or group per class cannot be left out",
                expected="two classes with two each, one to train and one to test",
                got=units.per_class(),
            )
        return members

    def _generators(self, n: int) -> Iterator[np.random.Generator]:
        for seed in np.random.SeedSequence(self.random_state).spawn(n):
            yield np.random.default_rng(seed)

    def _check_count(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, Integral) or value < 1:
            self._refuse(name, "a whole number of at least 1")

    def _check_choice(self, name: str, *choices: str) -> None:
        if getattr(self, name) not in choices:
            self._refuse(name, " or ".join(map(repr, choices)))

    def _refuse(self, name: str, expected: str) -> None:
        given = option(name, getattr(self, name))
        raise InputError(f"{given} of {type(self).__name__} cannot be used", expected=expected)
