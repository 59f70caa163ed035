"""Folds: groups on both sides, classes that training lacks, rare ones, and leave-one-out.

Where every test set has one class, training always has less of it [1]_.

References
----------
.. [1] Kohavi, "A study of cross-validation and bootstrap for accuracy estimation and model
   selection", IJCAI 1995.
"""

from __future__ import annotations

import numpy as np

from voxprior.errors import option
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans

NO_FOLDS = NotChecked("no folds are given")
NUMBERS = NotChecked("the target is a number")
# Share of chance below which a guess by the frequencies of training is reported.
BELOW_CHANCE = 0.9
# Shares of all scans, and of what it would have were classes equal, below which a class is rare.
RARE, FAR_FROM_EVEN = 0.1, 0.5


def shared_group(scans: AuditedScans) -> Answer:
    """A run or subject is in training and in test of one fold."""
    if scans.groups is None:
        return scans.no_groups
    if not scans.folds:
        return NO_FOLDS
    groups = scans.groups
    shared = [np.intersect1d(groups[train], groups[test]) for train, test in scans.folds]
    hit = [names for names in shared if len(names)]
    if not hit:
        return []
    return [
        f"{len(hit)} of {len(scans.folds)} folds have the same group in training and in test, for "
        f"instance {hit[0][0]!s}: split by group, {option('cv', 'groups')}."
    ]


def class_missing(scans: AuditedScans) -> Answer:
    """A training fold has no scan of some class."""
    if not scans.classifying:
        return NUMBERS
    if not scans.folds:
        return NO_FOLDS
    classes = np.unique(scans.y)
    missing = [np.setdiff1d(classes, scans.y[train]) for train, _ in scans.folds]
    hit = [(number, names) for number, names in enumerate(missing) if len(names)]
    if not hit:
        return []
    number, names = hit[0]
    return [
        f"{len(hit)} of {len(scans.folds)} training folds lack a class (fold {number} has no scan "
        f"of {names.tolist()}): use a split that keeps every class in training."
    ]


def rare_class(scans: AuditedScans) -> Answer:
    """A class has less than a tenth of the scans, or of the groups where each is of one class."""
    if not scans.classifying:
        return NUMBERS
    y, unit = scans.y, "scans"
    if scans.groups is not None:
        pairs = {*zip(scans.groups.tolist(), y.tolist())}
        if len(pairs) == len(np.unique(scans.groups)) < len(y):
            y, unit = np.array([label for _, label in pairs]), "groups"
    classes, counts = np.unique(y, return_counts=True)
    share = counts / len(y)
    rare = np.flatnonzero((share < RARE) & (share < FAR_FROM_EVEN / len(classes)))
    if not len(rare):
        return []
    told = ", ".join(f"{counts[c]} of '{classes[c]!s}'" for c in rare)
    return [
        f"Of {len(y)} {unit} there are {told}, less than a tenth: a decoder that never names "
        f"{'it' if len(rare) == 1 else 'them'} is right in {1 - share[rare].sum():.0%}. Read the "
        f"balanced accuracy and its interval, add {unit} of the class, or leave it out."
    ]


def leave_one_out(scans: AuditedScans) -> Answer:
    """Training has less of the classes that are tested: a guess by frequency is mostly wrong."""
    if not scans.classifying:
        return NUMBERS
    if not scans.folds:
        return NO_FOLDS
    y = scans.y
    counts = np.unique(y, return_counts=True)[1]
    single = all(len(np.unique(y[test])) == 1 for _, test in scans.folds)
    tested = set(np.concatenate([y[test] for _, test in scans.folds]).tolist()) if single else set()
    if not (single and len(counts) > 1 and counts.min() == counts.max() and len(tested) > 1):
        return _reversed_shares(scans)
    return [
        "Classes are balanced and every test set holds one class, so training always has less "
        "of the class that is tested, and noise scores below chance: leave one of each class "
        f"out together, {option('cv', 'two-out')}."
    ]


def _reversed_shares(scans: AuditedScans) -> list[str]:
    """The message where the frequent classes of training are the rarer ones in tests."""
    codes = scans.codes
    n_classes = int(codes.max()) + 1
    drawn, likeliest, tested = np.zeros((3, n_classes))
    for train, test in scans.judged_folds:
        tests = np.bincount(codes[test], minlength=n_classes)
        share = np.bincount(codes[train], minlength=n_classes) / max(len(train), 1)
        most = share == share.max()
        drawn += tests * share
        likeliest += tests * most / most.sum()
        tested += tests
    if not tested.all():
        return []
    # Equal classes that do not divide into the folds move one of the two, and little.
    guess = (drawn / tested).mean()
    if max(guess, (likeliest / tested).mean()) >= BELOW_CHANCE / n_classes:
        return []
    return [
        "Training sets have more of the classes that their test sets have less of: a guess by the "
        f"frequencies of training is right in {guess:.0%} of the scans of a class, where chance is "
        f"{1 / n_classes:.0%}, so that noise scores below chance. Balance classes in each group, "
        "or leave several groups out together."
    ]
