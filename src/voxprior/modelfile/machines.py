"""Support vector machines of a file: their arrays must fit together before libsvm sees them.

libsvm takes all sizes from two of its arrays and reads the others without looking at theirs: a
model whose arrays are shorter reads foreign memory, or ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC

from voxprior.errors import InputError

# Kernels of scans; with "precomputed" the support vectors are places in a row, which may be none.
KERNELS = ("linear", "poly", "rbf", "sigmoid")


def check_machines(state: Any) -> None:
    """Refuse a state with a support vector machine that libsvm would read past its arrays."""
    for machine in _machines(state):
        try:
            fits = _fits(machine)
        except Exception:
            # Attributes may be missing or of any type.
            fits = False
        if not fits:
            raise InputError(
                "holds a support vector machine whose parts do not fit together",
                remedy="Fit and save it again",
            )


def _machines(thing: Any) -> Iterator[SVC]:
    """Every machine inside a state; the schema was not nested deeply, so neither is this.

    One without support vectors is a parameter, not fitted, and never gets to libsvm.
    """
    if isinstance(thing, SVC) and hasattr(thing, "support_vectors_"):
        yield thing
    if not isinstance(thing, dict | list | tuple | set):
        thing = getattr(thing, "__dict__", {})
    for part in thing.values() if isinstance(thing, dict) else thing:
        yield from _machines(part)


def _fits(machine: SVC) -> bool:
    """Whether k classes and l support vectors are those of every array."""
    k, counts = len(machine.classes_), machine._n_support
    n_vectors, n_pairs = len(machine.support_vectors_), k * (k - 1) // 2
    shapes: dict[str, list[tuple[int, ...]]] = {
        "_n_support": [(k,)],
        "support_": [(n_vectors,)],
        "support_vectors_": [(n_vectors, machine.n_features_in_)],
        "_dual_coef_": [(k - 1, n_vectors)],
        "_intercept_": [(n_pairs,)],
        "_probA": [(0,), (n_pairs,)],
        "_probB": [np.shape(machine._probA)],
    }
    return (
        machine.kernel in KERNELS
        and machine._sparse is False
        and k > 1
        and min(counts) >= 0
        and sum(counts.tolist()) == n_vectors
        and all(np.shape(getattr(machine, name)) in may for name, may in shapes.items())
    )
