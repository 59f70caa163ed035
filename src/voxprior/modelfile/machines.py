"""Support vector machines of a file: their arrays must fit together before libsvm sees them.

libsvm takes all sizes from two of its arrays and reads the others without looking at theirs: a
model whose arrays are shorter reads foreign memory, or ends the process. This holds for every
machine of scikit-learn on libsvm, those that a user trusts too.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier
from sklearn.svm._base import BaseLibSVM

# Kernels of scans; with "precomputed" the support vectors are places in a row, which may be none.
KERNELS = ("linear", "poly", "rbf", "sigmoid")


def is_whole_machine(machine: BaseLibSVM) -> bool:
    """Whether k classes and l support vectors are those of every array.

    A machine without support vectors is a parameter, not fitted, and never gets to libsvm.
    """
    try:
        return not hasattr(machine, "support_vectors_") or _fits(machine)
    except Exception:
        # Attributes may be missing or of any type.
        return False


def _fits(machine: BaseLibSVM) -> bool:
    k = len(machine.classes_) if is_classifier(machine) else 2
    n_vectors, n_pairs = len(machine.support_vectors_), k * (k - 1) // 2
    counts = machine._n_support[: k if is_classifier(machine) else 1]
    arrays: dict[str, tuple[str, list[tuple[int, ...]]]] = {
        "_n_support": ("i4", [(k,)]),
        "support_": ("i4", [(n_vectors,)]),
        "support_vectors_": ("f8", [(n_vectors, machine.n_features_in_)]),
        "_dual_coef_": ("f8", [(k - 1, n_vectors)]),
        "_intercept_": ("f8", [(n_pairs,)]),
        "_probA": ("f8", [(0,), (n_pairs,)]),
        "_probB": ("f8", [np.shape(machine._probA)]),
    }
    return (
        machine.kernel in KERNELS
        and machine._sparse is False
        and k > 1
        and min(counts) >= 0
        and sum(counts.tolist()) == n_vectors
        and all(
            isinstance(getattr(machine, name), np.ndarray)
            and getattr(machine, name).dtype == np.dtype(kind)
            and getattr(machine, name).shape in shapes
            for name, (kind, shapes) in arrays.items()
        )
    )
