"""Numerics that several families share, each named for its mathematics.

| symbol | variable | shape |
|---|---|---|
| log p(x_i, c), unnormalised log-probabilities | `log_joint` | (n, C) |
| p, probabilities | `p` | any |
| S², sample variances with d degrees of freedom | `sample`, `degrees` | (J,), scalar |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import digamma, log_softmax, polygamma
from threadpoolctl import ThreadpoolController

__all__ = [
    "blas_threads_for",
    "floored_log",
    "inverse_chi2_prior",
    "kernel_threads",
    "launch",
    "log_softmax_rows",
]

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


def floored_log(p: ArrayLike) -> NDArray[np.float64]:
    """Return log p, finite where p = 0: p counts as the smallest normal number at least.

    Examples
    --------
    >>> floored_log([0.0, 1.0]).round(1)
    array([-708.4,    0. ])
    """
    return np.log(np.maximum(np.asarray(p, dtype=np.float64), np.finfo(np.float64).tiny))


def inverse_chi2_prior(sample: np.ndarray, degrees: float) -> tuple[float, float]:
    """d₀ and s₀² of the prior σ² ~ s₀² d₀/χ²_{d₀}, from sample variances with d degrees of freedom.

    From the first two moments of log S² (Smyth 2004); at least one variance must be above 0.
    d₀ = ∞ where the sample variances differ by no more than chance gives.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sigma2 = 3.0 * 8 / rng.chisquare(8, size=20_000)
    >>> d0, s0 = inverse_chi2_prior(sigma2 * rng.chisquare(4, size=20_000) / 4, degrees=4)
    >>> round(d0), round(s0)
    (8, 3)
    """
    logs = np.log(sample[sample > 0])
    excess = (logs.var(ddof=1) if logs.size > 1 else 0.0) - polygamma(1, degrees / 2)
    level = logs.mean() - digamma(degrees / 2) + np.log(degrees / 2)
    # ψ'(d₀/2) = excess; ψ' falls from ∞ to 0, and beyond d₀ = 10⁸ the prior is a constant.
    if excess <= polygamma(1, 0.5e8):
        return np.inf, float(np.exp(level))
    half = brentq(lambda log_h: polygamma(1, np.exp(log_h)) - excess, np.log(1e-6), np.log(0.5e8))
    d0 = 2 * np.exp(half)
    return float(d0), float(np.exp(level + digamma(d0 / 2) - np.log(d0 / 2)))


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
