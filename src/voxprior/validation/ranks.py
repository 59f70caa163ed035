"""Results in order, and the p-value of the true labels among relabelled ones.

A result is a score and what breaks its ties; large is good. With b of m relabellings at least as
good as the true labels,

    p = (1 + b) / (1 + m)                                                                   (1)

and, where the test may stop once h relabellings were as good, after l of them, p = h / l [1]_.

References
----------
.. [1] Besag & Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991.
.. [2] Phipson & Smyth, "Permutation p-values should never be zero", 2010.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Results closer than this, relative to their size, differ by rounding alone.
ROUNDING = 1e-7


def p_value(
    observed: Any, null: np.ndarray, stop_after: int | None = None, planned: int = 0
) -> tuple[float, int, bool]:
    """Return p of (1) or of the stopping rule, relabellings used, and whether it stopped early.

    The rule applies where it holds before the `planned` number of relabellings is reached.

    Parameters
    ----------
    observed : float or sequence
        A score, or a score and what breaks its ties; large is good.
    null : array of shape (m,) or (m, length of the sequence)
        The same of the relabellings.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.ranks import p_value
    >>> p_value(0.9, np.array([0.5, 0.9, 0.4]))
    (0.5, 3, False)
    >>> p_value((0.75, -0.6), np.array([(0.75, -0.65), (0.75, -0.55), (0.5, -0.4), (0.875, -0.7)]))
    (0.6, 4, False)
    """
    counted = as_good(observed, null)
    reached = np.cumsum(counted)
    if stop_after is not None and len(null) and reached[-1] >= stop_after:
        used = int(np.searchsorted(reached, stop_after)) + 1
        if used < max(planned, len(null)):
            return stop_after / used, used, True
    return float((1 + counted.sum()) / (1 + len(null))), len(null), False


def as_good(observed: Any, null: np.ndarray) -> np.ndarray:
    """Which results are at least as good: by the score, and where it ties by what breaks ties."""
    columns = np.reshape(null, (len(null), np.size(observed))).T
    better, equal = np.zeros(len(null), dtype=bool), np.ones(len(null), dtype=bool)
    for value, column in zip(np.atleast_1d(observed), columns):
        slack = ROUNDING * max(1.0, abs(value))
        better |= equal & (column > value + slack)
        equal &= np.abs(column - value) <= slack
    return better | equal
