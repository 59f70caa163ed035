"""How long a fit will take, told before it starts where it is long.

Kernel methods factorise matrices of the size of the scans again and again; from some hundred scans
on that is nearly all that they do:

    seconds ≈ c · (problems) · (n / 1000)³

with c measured for each model on one core, and one problem per class beyond two classes. Other
machines differ by a factor of two or three, and two cores take about half: the number is there to
tell minutes from hours.
"""

from __future__ import annotations

import warnings
from typing import Any

from voxprior.errors import InputWarning

# A fit that takes longer is told.
LONG = 30.0
# Seconds of one problem of 1,000 scans; relevance vectors are learned ten times more for doubt, or
# for intervals.
GP_CLASSES, RVM_CLASSES, RVM_NUMBERS = 4.0, 30.0, 3.0


def tell_if_long(model: Any, seconds: float, n_scans: int, n_classes: int = 2) -> None:
    """Warn, with an estimate, that a fit will take long.

    Parameters
    ----------
    model : estimator
        Its name is told.
    seconds : float
        What one problem of 1,000 scans takes.
    n_scans, n_classes : int

    Examples
    --------
    >>> import warnings
    >>> from voxprior import GPClassifier
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     tell_if_long(GPClassifier(), 4.0, n_scans=5000)
    >>> print(told[0].message)
    GPClassifier takes about 8 minutes for 5000 scans on one core, and eight times as long for twice
    as many. Fewer scans (means of blocks or runs), or the model auto, take less.
    """
    expected = seconds * (1 if n_classes == 2 else n_classes) * (n_scans / 1000.0) ** 3
    if expected <= LONG:
        return
    warnings.warn(
        InputWarning(
            f"{type(model).__name__} takes about {_words(expected)} for {n_scans} scans on one "
            "core, and eight times as long for twice as many. Fewer scans (means of blocks or "
            "runs), or the model auto, take less."
        ),
        stacklevel=3,
    )


def _words(seconds: float) -> str:
    """Return a time as people say it.

    >>> _words(40.0), _words(500.0), _words(20_000.0)
    ('40 seconds', '8 minutes', '5.6 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
