"""How long a fit will take, reported before it starts if that is long.

Kernel methods factorise matrices of the size of the scans again and again; from some hundred scans
on that is nearly all that they do. Methods that read voxels again and again take the time of that:

    seconds ≈ c · (problems) · (n / 1000)³        or        seconds ≈ c · n · V

with c measured for each model on one core, and one problem per class beyond two classes. Other
machines and data differ by a factor of two or three, and two cores take about half: the number is
there to tell minutes from hours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from voxprior.errors import InputWarning

# Fits that take longer are announced.
LONG = 30.0
# Seconds of one problem of 1,000 scans; relevance vectors are learned ten times more for doubt, or
# for intervals. A view of auto is one problem where it learns numbers.
GP_CLASSES, RVM_CLASSES, AUTO = 3.0, 15.0, 1.6
GP_NUMBERS, RVM_NUMBERS, AUTO_NUMBERS = 0.25, 0.8, 0.35
# Seconds of a scan of one voxel, for one fit, with a few parents that pass.
NETWORK = 5e-8

_told: ContextVar[bool] = ContextVar("told", default=False)


def cubic(seconds: float, n_scans: int, n_classes: int = 2) -> float:
    """Return the time for n scans, given that for 1,000; one problem per class beyond two classes.

    >>> cubic(4.0, 5000), cubic(4.0, 5000, 3)
    (500.0, 1500.0)
    """
    return seconds * (1 if n_classes == 2 else n_classes) * (n_scans / 1000.0) ** 3


def tell_if_long(
    model: Any,
    seconds: float,
    n_scans: int,
    n_voxels: int | None = None,
    less: str = "the model auto",
) -> None:
    """Warn, with an estimate, that a fit will take long.

    Parameters
    ----------
    model : estimator
        Its name is reported.
    seconds : float
        What the fit is expected to take.
    n_scans : int
    n_voxels : int, optional
        Where the time grows with scans times voxels; else it grows with the cube of scans.
    less : str
        What takes less time, other than fewer scans.

    Examples
    --------
    >>> import warnings
    >>> from voxprior import GPClassifier
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     tell_if_long(GPClassifier(), cubic(4.0, 5000), 5000)
    >>> print(told[0].message)
    GPClassifier takes about 8 minutes for 5000 scans on one core, and eight times as long for twice
    as many. Fewer scans (means of blocks or runs), or the model auto, take less.
    """
    if seconds <= LONG or _told.get():
        return
    size = f"{n_scans} scans" if n_voxels is None else f"{n_scans} scans of {n_voxels} voxels"
    twice = "eight times as long for twice as many" if n_voxels is None else "longer with either"
    fewer = "Fewer scans (means of blocks or runs)"
    fewer = fewer if n_voxels is None else f"{fewer}, a smaller mask"
    text = (
        f"{type(model).__name__} takes about {time_in_words(seconds)} for {size} on one core, and"
    )
    warnings.warn(InputWarning(f"{text} {twice}. {fewer}, or {less}, take less."), stacklevel=3)


@contextmanager
def already_told() -> Iterator[None]:
    """Fits inside another one, whose time was already reported, stay silent."""
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)


def time_in_words(seconds: float) -> str:
    """Return a time in everyday words.

    >>> time_in_words(40.0), time_in_words(500.0), time_in_words(20_000.0)
    ('40 seconds', '8 minutes', '5.6 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
