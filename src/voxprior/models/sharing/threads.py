"""One thread for small work: waking others costs more than they bring, much more on a busy machine.

The parallel kernels of this family sum in blocks of fixed size, so results do not depend on the
number of threads.
"""

from collections.abc import Callable
from typing import Any

import numba

# Multiply-adds below which a kernel runs on the calling thread.
_SMALL = 2_000_000


def launch(kernel: Callable[..., None], work: int, *arguments: Any) -> None:
    """Call a parallel numba kernel that has about ``work`` multiply-adds to do.

    Examples
    --------
    >>> seen = []
    >>> launch(lambda: seen.append(numba.get_num_threads()), 1_000)
    >>> seen
    [1]
    """
    threads = numba.get_num_threads()
    if work >= _SMALL:
        kernel(*arguments)
        return
    numba.set_num_threads(1)
    try:
        kernel(*arguments)
    finally:
        numba.set_num_threads(threads)
