"""Class labels and their codes 0, 1, ...: checked and numbered here for all modules."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from voxprior.errors import InputError, option

__all__ = ["Encoded", "check_two_classes", "encode", "kind_of", "known_codes"]
__all__ += ["refuse_alike", "refuse_single_scans", "refuse_unclear"]

# Letters of Greek and Cyrillic, hyphens and apostrophes that look like those of ASCII; and what
# takes no room or is blank, beyond the categories of Unicode that say so.
TWINS = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧνοАВЕЅІЈКМНОРСТУХаесһіјорѕухԁԛԝ‐‑‒–—−‘’",
    "ABEZHIKMNOPTYXvoABESIJKMHOPCTYXaechijopsyxdqw------''",
)
INVISIBLE = dict.fromkeys([0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0xFE00, 0xFE10)])
INVISIBLE |= dict.fromkeys([*range(0xE0100, 0xE01F0)]) | dict.fromkeys([0x2800, 0x3164], " ")


class Encoded(NamedTuple):
    """Sorted classes (C,), and the number of the class of each label (n,)."""

    classes: NDArray
    codes: NDArray[np.intp]


def encode(y: Any) -> Encoded:
    """Classes of labels to learn from, two at least, and their codes.

    >>> encode(["b", "a", "b"]).codes
    array([1, 0, 1])
    """
    y = column_or_1d(y, warn=True)
    refuse_unclear("y", y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    check_two_classes(classes)
    return Encoded(classes, codes)


def refuse_unclear(name: str, values: Any) -> None:
    """Refuse labels or groups of which some are None or NaN, or look like others that differ.

    >>> refuse_unclear("y", ["a", None, "b"])
    Traceback (most recent call last):
    voxprior.errors.InputError: y is missing for 1 of 3 scans, the first is scan 1. Leave these
    scans out, or give what is missing.
    """
    missing = np.flatnonzero(pd.isna(np.asarray(values)).reshape(-1))
    if len(missing):
        raise InputError(
            f"{option(name)} is missing for {len(missing)} of {len(values)} scans, the first is "
            f"scan {missing[0]}",
            remedy="Leave these scans out, or give what is missing",
        )
    refuse_alike("labels" if name == "y" else name, values)


def refuse_alike(what: str, values: Any) -> None:
    r"""Refuse texts that look the same and are not: blanks, invisible characters, forms of Unicode.

    Parameters
    ----------
    what : str
        What the texts are, for the message.
    values : array-like
        Texts among anything else.

    Examples
    --------
    >>> refuse_alike("labels", ["a", "b", "a\u00a0"])
    Traceback (most recent call last):
    voxprior.errors.InputError: Two labels look the same and are not: 'a' and 'a\u00a0'. Got U+0061
    and U+0061 U+00A0. Write them alike, or so that they can be told apart.
    """
    seen: dict[str, str] = {}
    for text in _texts(values):
        other = seen.setdefault(_looks(text), text)
        if other != text:
            start = 0
            if len(other + text) > 100:  # then from where they differ
                start = [a == b for a, b in zip_longest(other, text)].index(False)
            ends = (one[start : start + 50] for one in (other, text))
            points = (" ".join(f"U+{ord(c):04X}" for c in end) or "nothing" for end in ends)
            raise InputError(
                f"Two {what} look the same and are not: {_shown(other)} and {_shown(text)}",
                got=" and ".join(points),
                remedy="Write them alike, or so that they can be told apart",
            )


def _texts(values: Any) -> Iterable[str]:
    """The different texts among values."""
    values = np.asarray(values)
    if values.dtype.kind not in "OUT":
        return ()
    return dict.fromkeys(str(one) for one in values.reshape(-1).tolist() if isinstance(one, str))


def _looks(text: str) -> str:
    """A text as a reader sees it."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    text = unicodedata.normalize("NFKD", text.translate(INVISIBLE)).translate(TWINS)
    shown = (c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf"))
    text = "".join(" " if c.isspace() else c for c in shown)
    return " ".join(unicodedata.normalize("NFC", text).split())


def _shown(text: str) -> str:
    return "'" + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text) + "'"


def check_two_classes(classes: NDArray) -> None:
    """Refuse labels that leave nothing to tell apart."""
    if len(classes) < 2:
        raise InputError(
            "There is nothing to tell apart",
            expected="labels of at least 2 classes",
            got=f"1 class, {classes.tolist()[0]!r}" if len(classes) else "none",
            remedy="Check the labels; if only some folds have one class, take a split that keeps "
            "all classes in training",
        )


def refuse_single_scans(y: NDArray, remedy: str) -> None:
    """Refuse a class of one scan; name what it may have been meant to be.

    >>> refuse_single_scans(np.array(["ill", "Well", "ill", "well", "well"]), "Add scans of it")
    Traceback (most recent call last):
    voxprior.errors.InputError: 'Well' is the label of 1 of 5 scans, which cannot both train and
    test. Got 'ill': 2, 'well': 2. It may have been meant as 'well'. Add scans of it.
    """
    classes, counts = np.unique(y, return_counts=True)
    labels = classes.tolist()
    alone = [label for label, count in zip(labels, counts) if count < 2]
    if not alone:
        return
    if len(alone) == len(labels) > 2:
        raise InputError(
            f"Every scan has another label, {labels[0]!r}, {labels[1]!r} and so on: such a column "
            "names scans, not their classes",
            remedy=f"Give the column of the classes as {option('label')}",
        )
    others = {str(label): int(count) for label, count in zip(labels, counts) if count > 1}
    alike = {name.casefold().strip(): name for name in others}
    meant = alike.get(str(alone[0]).casefold().strip()) or next(
        iter(get_close_matches(str(alone[0]), others, n=1)), None
    )
    twin = "" if meant is None else f"It may have been meant as {meant!r}. "
    raise InputError(
        f"{alone[0]!r} is the label of 1 of {len(y)} scans, which cannot both train and test",
        got=", ".join(f"{name!r}: {count}" for name, count in others.items()) or None,
        remedy=f"{twin}{remedy}",
    )


def known_codes(y: Any, classes: NDArray) -> NDArray[np.intp]:
    """Codes of labels among classes in any order; a label that is not among them is an error.

    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise InputError(
            "y has unknown labels",
            expected=f"labels among {np.asarray(classes).tolist()}",
            got=f"{unknown.tolist()} too",
        )
    order = np.argsort(classes, kind="stable")
    return order[np.searchsorted(classes, y, sorter=order)]


def kind_of(y: Any) -> str:
    """Say what a target asks for: "classifier" for classes, "regressor" for numbers.

    Whole numbers are classes where there are at most 10 of them, or each has two scans.

    >>> kind_of(["face", "house"]), kind_of([1, 2, 1]), kind_of([61.5, 74.2])
    ('classifier', 'classifier', 'regressor')
    """
    y = np.asarray(y)
    if y.dtype.kind not in "fiu":
        return "classifier"
    values, counts = np.unique(y, return_counts=True)
    whole = bool(np.all(values == np.round(values)))
    return "classifier" if whole and (len(values) <= 10 or counts.min() > 1) else "regressor"
