"""Write and read the state of a decoder: the steps of the package in their order."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from voxprior.blocks import BlockedScans
from voxprior.errors import InputError, InputTypeError, nearest_file
from voxprior.modelfile import archive, schema
from voxprior.modelfile.archive import HEADER, SCHEMA
from voxprior.modelfile.objects import check_objects
from voxprior.writing import written_whole

FORMAT = 3
VERSIONED = ("voxprior", "scikit-learn", "numpy")
FEATURES_PER_BYTE = 8  # of a file, which has several arrays of so many numbers
COPIES = 3  # that reading makes: the bytes of the file, its members, its arrays

# The fields of a decoder and their types; files of version 0.2 have no "training".
FIELDS: dict[str, tuple[type, ...]] = {
    "images": (dict,),
    "digest": (str,),
    "estimator": (object,),
    "covariates": (dict, NoneType),
    "trials": (dict, NoneType),
    "class_frequencies": (np.ndarray, NoneType),
    "class_spread": (dict, NoneType),
    "training": (dict, NoneType),
    "versions": (dict,),
}


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Put the name of the file before every refusal."""
    try:
        yield
    except InputError as error:
        fields = {"expected": error.expected, "got": error.got, "remedy": error.remedy}
        raise InputError(f"{path}: {error.what}", **fields) from error


# ---------------------------------------------------------------------- writing


def write(path: Path, state: dict[str, Any]) -> None:
    """Write the state of a decoder; the same state gives the same bytes.

    Parameters
    ----------
    path : Path
        The file; it is replaced once the new one is whole.
    state : dict
        The fields of a decoder; versions are added.

    Raises
    ------
    TooLargeError
        The decoder keeps training scans on disk, which do not fit into memory.
    """
    state = state | {"versions": {package: version(package) for package in VERSIONED}}
    state = in_memory(state)
    with naming(path):
        members = _members(state)
    with written_whole(path) as new, new.open("xb") as stream:
        archive.pack(members, stream)


def in_memory(value: Any) -> Any:
    """The same state with arrays for scans on disk: a file must not depend on another one.

    >>> in_memory({"kept": [1, 2]})
    {'kept': [1, 2]}
    """
    if isinstance(value, BlockedScans):
        return np.asarray(value)
    if isinstance(value, BaseEstimator):
        changed = in_memory(vars(value))
        if changed is not vars(value):
            value = copy.copy(value)
            vars(value).update(changed)
    elif isinstance(value, dict):
        items = {key: in_memory(item) for key, item in value.items()}
        return items if any(items[key] is not value[key] for key in value) else value
    elif type(value) in (list, tuple):
        parts = [in_memory(item) for item in value]
        same = all(new is old for new, old in zip(parts, value))
        return value if same else type(value)(parts)
    return value


def _members(state: dict[str, Any]) -> dict[str, bytes]:
    """What skops makes of a state, without the names that it takes from memory or by chance."""
    import skops.io  # half a second: it imports all of scikit-learn

    raw = io.BytesIO()
    try:
        skops.io.dump(state, raw)
    except Exception as error:
        # skops calls methods of whatever the state holds.
        raise InputError(f"cannot be written: {_one_line(error)}") from error
    with zipfile.ZipFile(raw) as dumped:
        tree = schema.parse(dumped.read(SCHEMA), most_bytes=math.inf)
        root = {key: tree.pop(key) for key in ("protocol", "_skops_version")}
        members = _numbered(tree, dumped)
    text = json.dumps(tree | root, separators=(",", ":")).encode()
    schema.parse(text)  # refuses here what could not be read
    members = {SCHEMA: text} | members
    header = {"format": FORMAT, "sha256": archive.digest(members, FORMAT)}
    return {HEADER: json.dumps(header).encode()} | members


def _numbered(tree: schema.Node, dumped: zipfile.ZipFile) -> dict[str, bytes]:
    """Number members and shared objects in the order of the schema, and return the members."""
    names: dict[str, str] = {}
    members: dict[str, bytes] = {}
    found: list[schema.Node] = []
    shared: dict[int, list[schema.Node]] = {}
    for node in schema.nodes(tree):
        shared.setdefault(node.pop("__id__"), []).append(node)
        found.append(schema.normalize(node))
        if "file" in node:
            old, ending = node["file"], Path(node["file"]).suffix
            node["file"] = names.setdefault(old, f"{len(names) + 1}{ending}")
            content = dumped.read(old)
            members[node["file"]] = archive.stored(content) if ending == ".npz" else content
    for node in found:
        schema.check_attributes(node)
    for name, content in members.items():
        archive.check_content(name, content)
    schema.number(shared.values())
    return members


# ---------------------------------------------------------------------- reading


def read(path: Path, trusted: Sequence[str] = ()) -> dict[str, Any]:
    """Read the state of a decoder; refuse in one line whatever `write` would not have written.

    Parameters
    ----------
    path : Path
        The file.
    trusted : sequence of str
        Full names, ``package.module.Type``, that the file may hold beyond `schema.TRUSTED`.
    """
    if isinstance(trusted, str):
        raise InputTypeError("trusted is a list of names", got=f"the string {trusted!r}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such model file{nearest_file(path)}.")
    with naming(path):
        _check_memory(path.stat().st_size)
        data = path.read_bytes()  # once: what was checked is what is built
        state = _built(data, _checked(data, trusted))
        if isinstance(state, dict):
            state.setdefault("training", None)
        _check_fields(state)
        check_objects(state, _n_voxels(state["images"]))
        _warn_of_versions(path, state["versions"])
    return state


def _checked(data: bytes, trusted: Sequence[str]) -> list[str]:
    """Check a file, and return the names in it, which are all trusted."""
    members = archive.unpack(data)
    digest = _digest_in(members)
    if digest != archive.digest(members, FORMAT):
        raise InputError("was altered or damaged since it was saved")
    tree = schema.parse(members.pop(SCHEMA))
    names = schema.audit(tree, members, trusted)
    for name, content in members.items():
        archive.check_content(name, content)
    return names


def _digest_in(members: dict[str, bytes]) -> Any:
    """Take the header out of the members; refuse other formats."""
    if SCHEMA not in members:
        raise InputError("is not a model that voxprior saved")
    if HEADER not in members:
        _refuse_old(members[SCHEMA])
    header = schema.parse(members.pop(HEADER))
    number = header.get("format")
    if type(number) is not int or number != FORMAT:
        raise InputError(
            "was saved by another version of voxprior",
            expected=f"format {FORMAT}",
            got=schema.shown(f"format {number}"),
            remedy="Load it with the version that saved it, or fit and save it again",
        )
    return header.get("sha256")


def _refuse_old(text: bytes) -> None:
    """Report that a file without a header is of version 0.1, which wrote formats 1 and 2."""
    try:
        number = schema.parse(text)["content"]["format"]["content"]
    except (KeyError, TypeError):
        number = None
    if number not in ("1", "2"):
        raise InputError("is not a model that voxprior saved")
    raise InputError(
        f"was saved by voxprior 0.1 in format {number}, which could run code when it is loaded",
        remedy="Fit and save the decoder again with this version",
    )


def _built(data: bytes, names: list[str]) -> Any:
    import skops.io

    try:
        return skops.io.loads(data, trusted=names)
    except Exception as error:
        # Trusted types may raise anything when they are given nonsense.
        raise InputError(f"cannot be built: {_one_line(error)}") from error


def _check_fields(state: Any) -> None:
    """Refuse a state that is not a decoder's."""
    if not isinstance(state, dict) or set(state) != set(FIELDS):
        raise InputError("does not hold a decoder", expected=f"the fields {', '.join(FIELDS)}")
    fits = {name: isinstance(state[name], types) for name, types in FIELDS.items()}
    fits["estimator"] = hasattr(state["estimator"], "predict")
    covariates, frequencies = state["covariates"], state["class_frequencies"]
    if isinstance(covariates, dict):
        fits["covariates"] = all(map(_are_levels, covariates.values()))
    if isinstance(frequencies, np.ndarray):
        fits["class_frequencies"] = _are_shares(frequencies)
    spread = state["class_spread"]
    if isinstance(spread, dict):
        fits["class_spread"] = _is_spread(spread)
    wrong = [name for name, fit in fits.items() if not fit]
    if wrong:
        got = type(state[wrong[0]]).__name__
        raise InputError(f"holds a decoder whose {wrong[0]} is not what it should be", got=got)


def _n_voxels(images: dict[str, Any]) -> int:
    mask = images.get("mask")
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise InputError("holds images that are not what they should be", expected="a mask")
    return int(np.count_nonzero(mask))


def _are_levels(levels: Any) -> bool:
    """Whether these are the levels of a covariate, each once; none for numbers."""
    return isinstance(levels, list) and len(set(map(str, levels))) == len(levels)


def _are_shares(frequencies: np.ndarray) -> bool:
    """Whether these are shares of classes, which add up to 1."""
    plain = frequencies.ndim == 1 and frequencies.dtype in (np.float32, np.float64)
    return bool(plain and (frequencies >= 0).all() and np.isclose(frequencies.sum(), 1))


def _is_spread(spread: dict[str, Any]) -> bool:
    """Whether these are class means (C, p) and a number."""
    means: Any = spread.get("means")
    number: Any = spread.get("spread")
    matrix = isinstance(means, np.ndarray) and means.ndim == 2 and means.dtype.kind == "f"
    plain = set(spread) == {"means", "spread"} and matrix and isinstance(number, float)
    return plain and math.isfinite(number) and bool(np.isfinite(means).all())


def check_model(path: Any, state: dict[str, Any], n_covariates: int) -> None:
    """Refuse a model whose parts do not fit together: it is tried on a scan of zeros.

    Parameters
    ----------
    path : path
        The file.
    state : dict
        What `read` returned.
    n_covariates : int
        Columns behind the voxels.
    """
    estimator, why = state["estimator"], ""
    try:
        fits = _fits_images(path, state, estimator.n_features_in_ - n_covariates)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that a scan of zeros leads to
            zeros = np.zeros((1, estimator.n_features_in_ if fits else 0), dtype=np.float32)
            fits = fits and _answers(estimator, zeros)
    except Exception as error:
        # Attributes of any type and shape make an estimator raise anything.
        fits, why = False, f": {_one_line(error)}"
    if not fits:
        raise InputError(
            f"{path}: holds a model that cannot predict{why}", remedy="Fit and save it again"
        )


def _fits_images(path: Any, state: dict[str, Any], n_features: int) -> bool:
    """Whether the model takes what is read of an image, and the classes are those of the state.

    Scans read elsewhere may have several values per voxel: as many as the file has arrays for.
    """
    n_voxels, trials = _n_voxels(state["images"]), state["trials"] or {}
    window = trials.get("window") if trials.get("unit") == "window" else None
    most = n_voxels * window if window else FEATURES_PER_BYTE * Path(path).stat().st_size
    fits = n_features % n_voxels == 0 and n_voxels <= n_features <= most
    spread, frequencies = state["class_spread"], state["class_frequencies"]
    classes = getattr(state["estimator"], "classes_", ())
    if spread is not None:
        fits = fits and spread["means"].shape == (len(classes), n_features)
    if frequencies is not None:
        fits = fits and len(frequencies) == len(classes)
    return bool(fits)


def _answers(estimator: Any, X: np.ndarray) -> bool:
    """Whether predictions and probabilities of one scan are what they should be.

    Weights that are NaN give no error: the first class would be predicted of every scan.
    """
    predicted = estimator.predict(X)
    good = np.shape(predicted) == (1,)
    if hasattr(estimator, "classes_"):
        good = good and np.ndim(estimator.classes_) == 1
        if hasattr(estimator, "predict_proba"):
            P = estimator.predict_proba(X)
            good = good and P.shape == (1, len(estimator.classes_)) and P.dtype.kind == "f"
            good = good and np.isclose(P.sum(), 1) and P.min() >= 0
    else:
        good = good and np.isfinite(predicted).all()
    return bool(good)


def _warn_of_versions(path: Path, saved: dict[str, Any]) -> None:
    now = {package: version(package) for package in VERSIONED}
    differ = [
        f"{package} {schema.shown(str(saved.get(package)))} (now {installed})"
        for package, installed in now.items()
        if saved.get(package) != installed
    ]
    if differ:
        warnings.warn(
            f"{path}: was saved with {', '.join(differ)}; check its predictions on known scans.",
            stacklevel=4,
        )


def _one_line(error: Exception) -> str:
    return schema.shown(" ".join(f"{type(error).__name__}: {error}".split()))


# ---------------------------------------------------------------------- memory


def _check_memory(size: int) -> None:
    """Refuse a file that would not fit into memory, with the copies that reading makes."""
    there = available_memory()
    if there is not None and COPIES * size > there:
        raise InputError(
            "does not fit into memory",
            expected=f"{COPIES * size:,} bytes of free memory",
            got=f"{there:,}",
        )


def available_memory() -> int | None:
    """Bytes of memory that are free to take, or all there are; None where both are unknown."""
    try:
        told = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        if told:
            return int(told[1]) * 1024
    except OSError:
        pass  # not Linux
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
