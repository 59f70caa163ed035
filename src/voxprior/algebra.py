"""Numerics that several families share, each named for its mathematics.

| symbol | variable | shape |
|---|---|---|
| log p(x_i, c), unnormalised log-probabilities | `log_joint` | (n, C) |
| p, probabilities | `p` | any |
| S², sample variances with d degrees of freedom | `sample`, `degrees` | (J,), scalar |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, log_softmax, polygamma
from threadpoolctl import ThreadpoolController

from voxprior.errors import InputError

__all__ = [
    "blas_threads_for",
    "chi2_prior_of_logs",
    "finite_or_refused",
    "floored_log",
    "in_this_process",
    "inverse_chi2_prior",
    "kernel_threads",
    "launch",
    "log_softmax_rows",
    "stays_on_one_thread",
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
        raise InputError(
            f"{broken.sum()} rows have no finite largest log-probability; the first is row {row}: "
            f"{log_joint[row]}",
            remedy="Check the input of these samples for NaN or extreme values",
        )
    return log_softmax(log_joint, axis=1)


def finite_or_refused(values: ArrayLike, whose: str, also: float = 0.0) -> NDArray:
    """Return the answers of a model, or raise InputError unless all of them are finite.

    Labels pass, and so does the one value `also`.

    Examples
    --------
    >>> finite_or_refused([-0.5, -np.inf], "the model", also=-np.inf)
    array([-0.5, -inf])
    """
    values = np.asarray(values)
    if values.dtype.kind != "f":
        return values
    bad = ~np.isfinite(values) & (values != also)
    if bad.any():
        scans = bad.reshape(len(values), -1).any(axis=1)
        raise InputError(
            f"{whose} has no finite answer for {scans.sum()} of {len(scans)} scans",
            remedy="Leave out scans, and mask out voxels, that are constant or of extreme values; "
            "give the scans in another unit, or choose another model",
        )
    return values


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
    spread = logs.var(ddof=1) if logs.size > 1 else 0.0
    d0, s0 = chi2_prior_of_logs(logs.mean(), spread, degrees)
    return float(d0), float(s0)


def chi2_prior_of_logs(
    mean: ArrayLike, variance: ArrayLike, degrees: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """d₀ and s₀² of `inverse_chi2_prior` from mean and variance of log S², of many priors at once.

    Examples
    --------
    >>> d0, s0 = chi2_prior_of_logs([0.0, 0.0], [1.0, 5.0], 4)
    >>> d0.round(3), s0.round(3)
    (array([6.575, 1.077]), array([1.117, 0.408]))
    """
    half = np.asarray(degrees, dtype=np.float64) / 2
    excess = variance - polygamma(1, half)
    # Beyond d₀ = 10⁸ the prior is a constant.
    known = excess > polygamma(1, 0.5e8)
    half_prior = inverse_trigamma(np.where(known, excess, 1.0))
    shift = np.where(known, digamma(half_prior) - np.log(half_prior), 0.0)
    d0 = np.where(known, 2 * half_prior, np.inf)
    return d0, np.exp(mean - digamma(half) + np.log(half) + shift)


def inverse_trigamma(value: ArrayLike) -> NDArray[np.float64]:
    """Solve ψ'(h) = value by Newton's steps on 1/ψ', which come from below and never overshoot.

    >>> polygamma(1, inverse_trigamma([0.5, 2.0])).round(9)
    array([0.5, 2. ])
    """
    value = np.asarray(value, dtype=np.float64)
    h = 0.5 + 1 / value
    for _ in range(50):
        now = polygamma(1, h)
        step = now * (1 - now / value) / polygamma(2, h)
        h = h + step
        if np.all(np.abs(step) <= 1e-13 * h):
            break
    return h


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
        in_this_process(kernel)(*arguments)


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


def stays_on_one_thread(work: int) -> bool:
    """Whether about ``work`` multiply-adds are not shared out to other threads."""
    return work < SMALL_WORK or numba.get_num_threads() == 1 or _threads_were_left_behind


def in_this_process(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return a parallel numba kernel, or its form on one thread where its threads cannot run.

    GNU OpenMP ends a process that was forked from one in which its threads had started, as soon as
    the process uses them. The form on one thread is compiled there and gives the same numbers.

    Examples
    --------
    >>> in_this_process(abs)(-2)
    2
    """
    if not _threads_were_left_behind or not is_jitted(kernel):
        return kernel
    return _on_one_thread(kernel)


@cache
def _on_one_thread(kernel: Any) -> Any:
    py = kernel.py_func
    alone = FunctionType(py.__code__, py.__globals__, py.__name__, py.__defaults__, py.__closure__)
    # Under one name on disk each form would be taken for the other.
    alone.__qualname__, alone.__module__ = f"{py.__qualname__}_on_one_thread", py.__module__
    return numba.jit(**(kernel.targetoptions | {"parallel": False, "cache": True}))(alone)


_threads_were_left_behind = False


def _look_for_threads_left_behind() -> None:
    """Note, in a forked process, whether the threads of kernels had started before the fork."""
    global _threads_were_left_behind
    try:
        started = numba.threading_layer() == "omp"
    except ValueError:  # not started
        started = False
    _threads_were_left_behind |= started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_look_for_threads_left_behind)
