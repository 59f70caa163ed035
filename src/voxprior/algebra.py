"""Numerics that several families share, each named for its mathematics.

| symbol | variable | shape |
|---|---|---|
| log p(x_i, c), unnormalised log-probabilities | `log_joint` | (n, C) |
| K, symmetric positive semi-definite | `K` | (n, n) |
| L, lower triangular, L L' = K + ε I | `Cholesky.L` | (n, n) |
| ε, the jitter that made K positive definite | `Cholesky.jitter` | scalar |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import log_softmax
from threadpoolctl import ThreadpoolController

__all__ = [
    "Cholesky",
    "blas_threads_for",
    "cholesky",
    "cholesky_logdet",
    "kernel_threads",
    "launch",
    "log_softmax_rows",
]

# Jitter relative to the mean of the diagonal: first a few units of rounding, at last a change of
# the model that the caller should not be given in silence.
FIRST_JITTER = 1e-12
LAST_JITTER = 1e-4
# Matrices with fewer rows are factorised faster by one thread than by several that wait.
MANY_ROWS = 512
# Multiply-adds below which a parallel kernel runs on the calling thread: waking others costs more
# than they bring, much more on a busy machine.
SMALL_WORK = 2_000_000


def log_softmax_rows(log_joint: ArrayLike) -> NDArray[np.float64]:
    """Return log p(c | x_i) = log p(x_i, c) - log Σ_c' p(x_i, c'), row by row.

    An entry of -inf (an impossible class) is allowed; a row of nothing else is an error, as is NaN
    or +inf.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.algebra import log_softmax_rows
    >>> np.exp(log_softmax_rows([[-10000.0, -10000.0], [0.0, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    log_joint = np.asarray(log_joint, dtype=np.float64)
    if log_joint.ndim != 2:
        raise ValueError(f"log_joint must have shape (n, C). Got {log_joint.shape} instead.")
    broken = ~np.isfinite(log_joint.max(axis=1))
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise ValueError(
            f"{broken.sum()} rows have no finite largest log-probability; the first is row {row}: "
            f"{log_joint[row]}. Check the input of these samples for NaN or extreme values."
        )
    return log_softmax(log_joint, axis=1)


class Cholesky(NamedTuple):
    """A lower Cholesky factor and the jitter it needed."""

    L: NDArray[np.float64]
    jitter: float


def cholesky(K: ArrayLike) -> Cholesky:
    """Factor a symmetric positive semi-definite matrix: L L' = K + ε I with the smallest ε tried.

    ε is 0 if that works. Otherwise it grows tenfold from 1e-12 to 1e-4 of the mean diagonal; the ε
    that was needed is returned and a RuntimeWarning tells it.

    Raises
    ------
    numpy.linalg.LinAlgError
        If K is not positive definite even then, or not finite.

    Examples
    --------
    >>> from voxprior.algebra import cholesky, cholesky_logdet
    >>> L, jitter = cholesky([[4.0, 2.0], [2.0, 3.0]])
    >>> jitter
    0.0
    >>> round(cholesky_logdet(L), 6)  # log 8
    2.079442
    """
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be square. Got shape {K.shape} instead.")
    if not np.isfinite(K).all():
        raise np.linalg.LinAlgError("K has NaN or infinite entries, so it has no Cholesky factor.")
    scale = float(np.mean(np.diag(K))) if len(K) else 1.0
    relative = 0.0
    while relative <= LAST_JITTER * 1.001:
        jitter = relative * scale
        try:
            L = linalg.cholesky(K + jitter * np.eye(len(K)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            relative = max(10 * relative, FIRST_JITTER)
            continue
        if jitter:
            warnings.warn(
                f"A {len(K)} x {len(K)} matrix was not positive definite; {jitter:.2g} "
                f"({relative:.0e} of its mean diagonal) was added to its diagonal.",
                RuntimeWarning,
                stacklevel=2,
            )
        return Cholesky(L, jitter)
    raise np.linalg.LinAlgError(
        f"A {len(K)} x {len(K)} matrix is not positive semi-definite: adding {LAST_JITTER:.0e} of "
        f"its mean diagonal ({scale:.3g}) did not help. Is it a kernel or covariance matrix?"
    )


def cholesky_logdet(L: ArrayLike) -> float:
    """Return log |L L'| = 2 Σ_i log L_ii of a Cholesky factor."""
    return float(2 * np.sum(np.log(np.diag(L))))


def blas_threads_for(n_rows: int) -> AbstractContextManager:
    """BLAS held at one thread within the context where matrices have only `n_rows` rows.

    Examples
    --------
    >>> from voxprior.algebra import blas_threads_for
    >>> with blas_threads_for(n_rows=40):
    ...     pass
    """
    return _controller().limit(limits=1, user_api="blas") if n_rows < MANY_ROWS else nullcontext()


@cache
def _controller() -> ThreadpoolController:
    """Finding the libraries takes milliseconds, so it is done once."""
    return ThreadpoolController()


def launch(kernel: Callable[..., None], work: int, *arguments: Any) -> None:
    """Call a parallel numba kernel that has about ``work`` multiply-adds to do.

    Small work stays on one thread. Kernels sum in blocks of fixed size, so that results do not
    depend on the number of threads.

    Examples
    --------
    >>> seen = []
    >>> launch(lambda: seen.append(numba.get_num_threads()), 1_000)
    >>> seen
    [1]
    """
    with kernel_threads(work):
        kernel(*arguments)


@contextmanager
def kernel_threads(work: int) -> Iterator[None]:
    """Numba held at one thread within the context where kernels have little ``work`` each."""
    threads = numba.get_num_threads()
    if work >= SMALL_WORK or threads == 1:
        yield
        return
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(threads)
