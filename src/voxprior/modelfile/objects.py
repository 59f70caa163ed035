"""The objects that were built from a file, each checked by what it is, whatever holds it.

Arrays of other shapes, types or ranges than a model would have read foreign memory in compiled
code, fill the memory, or predict what is not a number. The rules are those of
`voxprior.modelfile.parts`; objects of the user's own types are searched, but have no rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm._base import BaseLibSVM

from voxprior.errors import InputError
from voxprior.modelfile.machines import is_whole_machine
from voxprior.modelfile.parts import MOST, PARTS, SCANS, TOLD, Rules

# Sites of a domain, for which maps have a value each: a brain at half a millimetre.
MOST_SITES = 2**26
RULE = re.compile(r"([^<>]*?) ?(?:(<|>=|>) (.*))?")
NUMBERS = [np.dtype(kind) for kind in ("?", "i1", "i4", "i8", "u1", "u8", "f4", "f8")]
AGAIN = {"remedy": "Fit and save it again"}
PLAIN = str | bool | int | float | np.generic | None


def check_objects(state: Any, n_voxels: int) -> None:
    """Refuse a state with an object whose parts are not those of its type.

    Parameters
    ----------
    state : object
        What was built: anything that may hold objects.
    n_voxels : int
        Voxels inside the mask.
    """
    for thing in objects(state):
        if isinstance(thing, BaseLibSVM) and not is_whole_machine(thing):
            raise InputError(
                "holds a support vector machine whose parts do not fit together", **AGAIN
            )
        rules = PARTS.get(f"{type(thing).__module__}.{type(thing).__qualname__}")
        why = {}
        try:
            wrong = None if rules is None else _wrong_part(thing, rules, n_voxels)
        except Exception as error:
            # Attributes may be missing, or of any type.
            wrong = "parts"
            why = {"got": ascii(" ".join(f"{type(error).__name__}: {error}".split()))[1:-1][:200]}
        if wrong is not None:
            name = type(thing).__name__
            raise InputError(f"holds {name} whose {wrong} cannot be right", **why, **AGAIN)


def objects(state: Any) -> Iterator[Any]:
    """Every object with attributes inside a state, once, whatever holds it."""
    waiting, seen = [state], set()
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, PLAIN | type) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            waiting.extend(thing.ravel().tolist() if thing.dtype.hasobject else ())
        elif isinstance(thing, dict):
            waiting.extend([*thing, *thing.values()])
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting.extend(thing)
        else:
            waiting.extend(_attributes(thing).values())
            yield thing


def n_scans_kept(state: Any) -> int:
    """How many training scans, or parts of them, the objects of a state hold as they are."""
    held = [
        vars(thing).get(name)
        for thing in objects(state)
        for name in SCANS
        if hasattr(thing, "__dict__")
    ]
    return max((len(scans) for scans in held if scans is not None), default=0)


def _attributes(thing: Any) -> dict[str, Any]:
    """Attributes of an object, those in slots too."""
    slots = [name for base in type(thing).__mro__ for name in _slots(base)]
    in_slots = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return in_slots | getattr(thing, "__dict__", {})


def _slots(base: type) -> list[str]:
    named = vars(base).get("__slots__", ())
    named = [named] if isinstance(named, str) else list(named)
    return [name for name in named if name not in ("__dict__", "__weakref__")]


# ---------------------------------------------------------------------- rules


def _wrong_part(thing: Any, rules: Rules, n_voxels: int) -> str | None:
    """The first part of an object that is not plain, finite, in its order, or by the rules."""
    attributes = _attributes(thing)
    for name, value in attributes.items():
        if not _is_plain(value, finite=name not in TOLD, records=_fields_of(name, rules)):
            return name
        if name in MOST and isinstance(value, int | float | np.number) and value > MOST[name]:
            return name
    for name in ("classes_", "classes"):
        if name in attributes and not _are_classes(attributes[name]):
            return name
    if hasattr(thing, "_parameter_constraints") and not isinstance(thing, type):
        thing._validate_params()
    if not _is_fitted(attributes, rules):
        return None
    sizes = _sizes(attributes, n_voxels)
    for path, rule in rules.items():
        if not all(_obeys(rule, leaf, sizes) for leaf in _leaves(attributes, path.split("."))):
            return path
    return None


def _is_fitted(attributes: dict[str, Any], rules: Rules) -> bool:
    return "n_features_in_" in attributes or any(path.split(".")[0] in attributes for path in rules)


def _fields_of(name: str, rules: Rules) -> list[str]:
    """Fields that the records of an attribute may have: those that the rules name."""
    return [path.partition(".")[2] for path in rules if path.startswith(f"{name}.")]


def _is_plain(value: Any, finite: bool, records: list[str]) -> bool:
    """Whether numbers in a value are of plain types, and finite where they must be."""
    if isinstance(value, np.ndarray):
        return _is_plain_array(value, finite, records)
    if sparse.issparse(value):
        return _is_plain_array(value.data, finite, records)
    if isinstance(value, float | np.floating):
        return not finite or math.isfinite(value)
    if isinstance(value, complex | np.complexfloating | np.void):
        return False
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple | set):
        return True
    return all(_is_plain(one, finite, records) for one in value)


def _is_plain_array(array: np.ndarray, finite: bool, records: list[str]) -> bool:
    if array.dtype.names is not None:
        known = set(array.dtype.names) == set(records) and array.ndim == 1
        return known and all(_is_plain_array(array[name], finite, []) for name in records)
    if array.dtype.kind == "O":
        return all(isinstance(one, PLAIN) for one in array.ravel().tolist())
    if array.dtype.kind not in "biufU" or not array.dtype.isnative or array.dtype.itemsize == 0:
        return array.size == 0 and array.dtype.kind == "U"
    return not finite or array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _are_classes(labels: Any) -> bool:
    """Whether these are labels as `numpy.unique` gives them."""
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or len(labels) == 0:
        return False
    return bool(np.all(labels[:-1] < labels[1:]))


# ---------------------------------------------------------------------- shapes


def _sizes(attributes: dict[str, Any], n_voxels: int) -> dict[str, int]:
    """Sizes that are known before any array was looked at."""
    sizes: dict[str, int] = {}
    space = attributes.get("space")
    sizes["V"] = n_voxels if space is None else len(space.sites)
    if "sites" in attributes:
        sizes["V"], sizes["G"] = len(attributes["sites"]), math.prod(attributes["shape"])
        if not (min(attributes["shape"]) > 0 and sizes["G"] <= MOST_SITES):
            raise ValueError("a domain of too many sites")
    if "n_features_in_" in attributes:
        sizes["p"] = attributes["n_features_in_"]
    classes = attributes.get("classes_")
    if classes is not None:
        C = len(classes)
        sizes |= {"C": C, "R": 1 if C == 2 else C, "D": C - 1, "Q": C * (C - 1) // 2}
    return sizes


def _leaves(holder: Any, path: list[str]) -> Iterator[Any]:
    """What a path leads to, in every item of the lists on its way."""
    if not path or holder is None:
        yield holder
    elif isinstance(holder, list):
        for one in holder or [None]:
            yield from _leaves(one, path)
    elif isinstance(holder, np.ndarray):
        yield holder[path[0]]
    else:
        yield from _leaves(holder.get(path[0]), path[1:])


def _obeys(rule: str, value: Any, sizes: dict[str, int]) -> bool:
    """Whether a value obeys a rule; learns the sizes that the rule is the first to name."""
    if value is None:
        return rule.endswith(" ?")
    count, _, rest = rule.removesuffix(" ?").rpartition(" of ")
    if count:
        items = list(value.values() if isinstance(value, dict) else value)
        right = not isinstance(value, np.ndarray) and _is_size(count, len(items), sizes)
        optional = " ?" if rule.endswith(" ?") else ""
        return right and all(_obeys(rest + optional, one, sizes) for one in items)
    return any(_is_right(way, value, sizes) for way in rest.split(" | "))


def _is_right(way: str, value: Any, sizes: dict[str, int]) -> bool:
    """Whether a word is the one that is meant, or numbers have the shape and the range."""
    if way.startswith("'"):
        return isinstance(value, str) and value == way.strip("'")
    if not isinstance(value, np.ndarray | Number):
        return False
    value = np.asarray(value)
    letters, sign, bound = RULE.fullmatch(way).groups()  # type: ignore[union-attr]
    shape, known = letters.split(), dict(sizes)
    right = value.dtype in NUMBERS and len(shape) == value.ndim
    right = right and all(_is_size(*each, known) for each in zip(shape, value.shape))
    if right and _is_in_range(value, sign, known.get(bound, math.inf)):
        sizes.update(known)
        return True
    return False


def _is_size(letter: str, size: int, sizes: dict[str, int]) -> bool:
    if letter == "*":
        return True
    return size == (int(letter) if letter.isdigit() else sizes.setdefault(letter, size))


def _is_in_range(value: np.ndarray, sign: str | None, most: float) -> bool:
    """Whether all values are above 0, at least 0, or whole numbers from 0 to below the bound."""
    if sign is None or value.size == 0:
        return True
    if value.dtype == bool:
        return False
    least = value.min()
    if sign == "<":
        return value.dtype.kind in "iu" and least >= 0 and value.max() < most
    return least > 0 if sign == ">" else least >= 0
