"""Tasks are held at one thread each: sums depend on how many threads share them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_inside = 0
_limits: Any = None
_door = threading.Lock()
_own = threading.local()


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> ThreadpoolController:
    """Find the libraries that have threads, milliseconds; again once more modules are loaded."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold the libraries at one thread each; tasks in threads of one process share the hold.

    The limit of BLAS belongs to the whole process: the first task sets it and the last one lifts
    it, else a task that ends would give the threads back while others still run. OpenMP and numba
    have a limit for every thread that calls them.
    """
    global _inside, _limits
    threads = numba.get_num_threads()  # loads the threads of numba, so that they are found
    pools = _thread_pools(len(sys.modules))
    with _door:
        if _inside == 0:
            _limits = pools.select(user_api="blas").limit(limits=1)
        _inside += 1
    depth = _own.__dict__.setdefault("depth", 0)
    if depth == 0:
        _own.limits = pools.select(user_api="openmp").limit(limits=1)
    _own.depth = depth + 1
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(threads)
        _own.depth -= 1
        if _own.depth == 0:
            _own.limits.restore_original_limits()
        with _door:
            _inside -= 1
            if _inside == 0:
                _limits.restore_original_limits()
