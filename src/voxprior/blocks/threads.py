"""Blocks of voxels side by side, one thread per core unless tasks share the cores already.

Blocks are parted into `LANES` of consecutive ones, and the sums of lanes are added up in their
order. Lanes run side by side where there are cores for them, and one after the other where there
are none: the bits of a sum do not depend on the number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from voxprior.algebra import blas_threads_for

Piece = TypeVar("Piece")
Made = TypeVar("Made")

# As many threads as pay off: blocks go through one memory, and each takes its own room.
LANES = 4
# Numbers that the totals of a lane may have: 8 MB, say the inner products of 1,024 scans.
LANE_NUMBERS = 2**20
# Fewer blocks are done before threads have started.
FEWEST = 2 * LANES

_allowed: ContextVar[int | None] = ContextVar("block_threads", default=None)


@contextmanager
def block_threads(count: int | None) -> Iterator[None]:
    """Set the number of threads that work on blocks within the context.

    Never more than `LANES`; None is one per core, or ``OMP_NUM_THREADS`` of the environment where
    that is less.
    """
    before = _allowed.set(count)
    try:
        yield
    finally:
        _allowed.reset(before)


def side_by_side(work: Callable[[Piece], Made], pieces: Iterable[Piece]) -> list[Made]:
    """Call a function for every piece, by threads where they are allowed; in the order of pieces.

    The function should spend its time in numpy, which lets other threads run meanwhile.

    >>> side_by_side(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    pieces = list(pieces)
    n_threads = min(_allowed.get() or _cores(), LANES, len(pieces))
    if n_threads <= 1:
        with blas_threads_for(n_rows=1):  # as in threads, for the same bits
            return [work(piece) for piece in pieces]
    with blas_threads_for(n_rows=1), ThreadPoolExecutor(n_threads) as pool:
        tasks = [pool.submit(copy_context().run, work, piece) for piece in pieces]
        try:
            return [task.result() for task in tasks]
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """Cores of this machine, or what the environment grants a program that takes all of them."""
    granted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cpu_count(), int(granted)) if granted.isdigit() and int(granted) else cpu_count()


def each_block(work: Callable[[slice], Any], blocks: Iterable[slice]) -> None:
    """Call a function for every block; it keeps what it makes itself."""

    def run(lane: Sequence[slice]) -> None:
        for block in lane:
            work(block)

    side_by_side(run, _lanes(list(blocks)))


def sum_over_blocks(
    add: Callable[..., Any], blocks: Iterable[slice], *shapes: tuple[int, ...]
) -> list[NDArray[np.float64]]:
    """Sums over blocks: ``add(block, *totals)`` adds to totals of these shapes, in place.

    >>> x = np.arange(12.0)
    >>> def add(block, total):
    ...     total += x[block].sum()
    >>> sum_over_blocks(add, [slice(k, k + 1) for k in range(12)], ())
    [array(66.)]
    """

    def run(lane: Sequence[slice]) -> list[NDArray[np.float64]]:
        totals = [np.zeros(shape) for shape in shapes]
        for block in lane:
            add(block, *totals)
        return totals

    small = sum(math.prod(shape) for shape in shapes) <= LANE_NUMBERS
    first, *others = side_by_side(run, _lanes(list(blocks)) if small else [list(blocks)])
    for other in others:
        for total, part in zip(first, other):
            total += part
    return first


def _lanes(blocks: list[slice]) -> list[list[slice]]:
    """Consecutive blocks, in as many parts as may run side by side.

    >>> [len(lane) for lane in _lanes([slice(0, 1)] * 9)]
    [3, 3, 3, 0]
    """
    if len(blocks) < FEWEST:
        return [blocks]
    length = -(-len(blocks) // LANES)
    return [blocks[lane * length : (lane + 1) * length] for lane in range(LANES)]
