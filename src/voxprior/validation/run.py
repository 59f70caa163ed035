"""The one parallel loop: folds, or any tasks, run alike on one core, n cores or a cluster.

A task gets the same arrays, the same seed and the same number of threads wherever it runs:

* task i is seeded by the i-th child of one ``SeedSequence``, whatever the number of workers;
* BLAS, OpenMP and numba are held at one thread inside a task (parallel sums depend on how many
  threads share them), so workers do not fight for cores either; where tasks run one after the
  other, blocks of voxels go over the cores, which changes no bit (`voxprior.blocks.threads`);
* results are put back into the order of the tasks.

`run_tasks` is that loop, for any function. `cross_validate` runs an estimator over the folds of a
splitter with it and returns a `Result`. The backend is joblib's: processes by default, or what a
``joblib.parallel_config`` context names, or the workers of a `Cluster`. Less than a second of work
stays in this process.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import joblib
import numpy as np
from joblib.parallel import BACKENDS, get_active_backend

from voxprior.blocks import blocked, max_memory, memory_limit
from voxprior.blocks.threads import block_threads
from voxprior.errors import InputError, OutOfMemoryError, option, remember_refusal
from voxprior.validation.audit import Finding, audit_predictions, heed
from voxprior.validation.cluster import Shared, active_cluster, closed, cluster_results
from voxprior.validation.folds import (
    audit_once,
    build_result,
    check_data,
    describe,
    fit_fold,
    fold_codec,
    make_folds,
    refuse_what_memory_cannot_hold,
)
from voxprior.validation.progress import progress_bar
from voxprior.validation.result import Result
from voxprior.validation.store import TaskStore
from voxprior.validation.threads import one_thread

# --- the loop ---------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came back from the tasks: their numbers in ascending order, and what each returned."""

    indices: list[int]
    values: list[Any]
    complete: bool


# Names of joblib's backends whose workers are on this machine, and are processes there.
LOCAL = ("loky", "threading", "multiprocessing", "sequential")
PROCESSES = ("loky", "multiprocessing")
# How long a worker may go on after the process that started it has gone.
SECONDS_ALONE = 0.5
# Tasks that are expected to take less in all stay in this process; the expectation is that of the
# last task, once some time has been seen (the first task may have to compile).
SECONDS_HERE = 1.0
SECONDS_SEEN = 0.25

_imported_by = os.getpid()


def _guarded(
    index: int,
    n_tasks: int,
    limit: int,
    work: Callable,
    seed: Any,
    task: Any,
    shared: Shared,
    threads: int | None = 1,
) -> tuple:
    try:
        with one_thread(), max_memory(limit), block_threads(threads):
            return index, work(task, seed, *shared.arguments)
    except Exception as error:
        error.add_note(f"This happened in task {index + 1} of {n_tasks}.")
        remember_refusal(error)
        raise


def _end_with(starter: int) -> None:
    """End this worker when the process that started it has gone, killed without a message.

    Workers left alone would otherwise wait in memory, for minutes or, in the middle of a message,
    for ever. This is the first that a worker does, so it may find the other gone already.
    """

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(SECONDS_ALONE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _first_of_workers() -> dict[str, Any]:
    """Options of joblib that make processes it starts here end with this one."""
    starts = _is_active(PROCESSES)
    return {"initializer": _end_with, "initargs": (os.getpid(),)} if starts else {}


def _is_active(names: Sequence[str]) -> bool:
    """Whether joblib's backend is one of these."""
    return type(get_active_backend()[0]) in [BACKENDS.get(name) for name in names]


def check_jobs(n_jobs: Any) -> None:
    """Raise unless this is a number of workers: 1 or more, -1 for all cores, or None."""
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and (n_jobs >= 1 or n_jobs == -1)):
        raise InputError(
            f"{option('n_jobs', n_jobs)} is not a number of workers",
            expected="1 or more, or -1 for all cores",
        )


def _workers(n_jobs: int | None, n_tasks: int) -> int:
    """Bound workers on this machine by its cores and the tasks; other backends keep theirs.

    A forked process has no workers: those of its parent do not answer it.
    """
    if os.getpid() != _imported_by and _is_active(PROCESSES):
        return 1
    wanted = joblib.effective_n_jobs(n_jobs)
    return max(1, min(wanted, joblib.cpu_count(), n_tasks) if _is_active(LOCAL) else wanted)


def run_tasks(
    work: Callable,
    tasks: Sequence,
    shared: Sequence = (),
    *,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool = False,
    name: str = "tasks",
    store: TaskStore | None = None,
    on_result: Callable[[int, Any], None] | None = None,
    stop: Callable[[], bool] | None = None,
    long: bool = False,
) -> Outcome:
    """Call ``work(task, seed, *shared)`` for every task and collect what it returns.

    Parameters
    ----------
    work : callable
        A function of a module (workers import it by name).
    tasks : sequence
        One small object per task.
    shared : sequence
        Arguments common to all tasks; large arrays belong here, they are sent to a worker once.
    n_jobs : int or None
        Workers; -1 for all cores; None for one, or what ``joblib.parallel_config`` sets. On this
        machine never more than its cores or the tasks; a cluster keeps its own number.
    random_state : int or None
        Root of the tasks' seeds; None draws one.
    progress : bool
        Show a bar on the standard error.
    name : str
        What the bar calls the tasks.
    store : TaskStore
        Keeps what finished tasks returned; tasks that it holds are not run again. The seeds of the
        others do not change.
    on_result : callable
        Called with (number, value) in this process as soon as a task has finished, in any order;
        with those of the store before all others.
    stop : callable
        Called after every result; when it returns True, the tasks that remain are dropped.
    long : bool
        Tasks are known to take seconds: all go to workers, none is spent on finding out.

    Returns
    -------
    Outcome
        Finished tasks; ``complete`` is False after Ctrl-C or `stop`.

    Raises
    ------
    OutOfMemoryError
        Memory ran out in a task, or a worker process was killed.

    Examples
    --------
    >>> from voxprior.validation.run import run_tasks
    >>> def draw(task, seed, scale):
    ...     return round(scale * np.random.default_rng(seed).random(), 6)
    >>> run_tasks(draw, ["a", "b"], [10.0]).values
    [9.429376, 6.771969]
    """
    seeds = np.random.SeedSequence(random_state).spawn(len(tasks))
    done = {} if store is None else store.finished(tasks)
    on_result = on_result or (lambda index, value: None)
    for index in sorted(done):
        on_result(index, done[index])
    enough = bool(done) and stop is not None and stop()
    todo = [] if enough else [i for i in range(len(tasks)) if i not in done]
    check_jobs(n_jobs)
    limit = memory_limit()
    calls = [(i, len(tasks), limit, work, seeds[i], tasks[i]) for i in todo]
    with progress_bar(progress and bool(todo), name, len(todo)) as advance:
        stream = _results(calls, Shared(shared), n_jobs, long)
        try:
            for index, value in stream:
                done[index] = value
                if store is not None:
                    store.save(index, value)
                on_result(index, value)
                advance()
                if stop is not None and stop():
                    break
        except KeyboardInterrupt:
            if not done or len(done) == len(tasks):  # nothing to keep, or nothing left to stop
                raise
        except Exception as error:
            if not isinstance(error, MemoryError | BrokenExecutor) and not _was_killed(error):
                raise
            raise _out_of_memory(error, name, len(done), len(tasks), store is not None) from error
        finally:
            stream.close()
    order = sorted(done)
    return Outcome(order, [done[i] for i in order], len(order) == len(tasks))


def _results(
    calls: Sequence[tuple], shared: Shared, n_jobs: int | None, long: bool
) -> Generator[tuple]:
    """Index and value of every call as it ends: the first here, by workers if the rest is long.

    Where there are few tasks for a worker, none is spent on finding out how long they take.
    """
    cluster = active_cluster()
    n_workers = cluster.n_workers if cluster else _workers(n_jobs, len(calls))
    alone = n_workers == 1 and cluster is None
    began, n_here = time.perf_counter(), 0
    if alone or (len(calls) > 2 * n_workers and not long):
        for call in calls:
            started = time.perf_counter()
            yield _guarded(*(*call, shared, None if alone else 1))
            n_here, now = n_here + 1, time.perf_counter()
            to_come = (now - started) * (len(calls) - n_here)
            if not alone and now - began > SECONDS_SEEN and to_come > SECONDS_HERE:
                break
    rest = calls[n_here:]
    if rest and cluster is not None:
        yield from cluster_results(cluster, _guarded, rest, shared)
    elif rest:
        yield from _worker_results(rest, shared, n_workers)


def _worker_results(calls: Sequence[tuple], shared: Shared, n_workers: int) -> Iterator[tuple]:
    """Index and value of every call, by joblib's workers on this machine.

    Where they are threads BLAS is held from here: some will not be limited by another thread.
    """
    parallel = joblib.Parallel(
        n_jobs=n_workers,
        return_as="generator_unordered",
        pre_dispatch="2*n_jobs",
        **_first_of_workers(),
    )
    with one_thread() if _is_active(["threading"]) else nullcontext():
        stream = parallel(joblib.delayed(_guarded)(*call, shared) for call in calls)
        try:
            yield from stream
        finally:
            closed(stream)


def _was_killed(error: BaseException) -> bool:
    """Whether Dask gave a task up because its workers died time and again."""
    return type(error).__name__ == "KilledWorker"


def _out_of_memory(error: BaseException, *facts: Any) -> OutOfMemoryError:
    if isinstance(error, BrokenExecutor) or _was_killed(error):
        what = "A worker process was killed, most likely because memory ran out"
    else:
        what = "Memory ran out"
    return OutOfMemoryError(what, *facts)


# --- cross-validation -------------------------------------------------------------------------


def cross_validate(
    estimator,
    X,
    y,
    groups=None,
    cv=None,
    *,
    fit_params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool = False,
    keep_models: bool = False,
    variables: Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    findings: Sequence[tuple[str, str]] = (),
    looked: Collection[str] = (),
    allow: Collection[str] = (),
    audited: Sequence[Finding] | None = None,
    folder: str | os.PathLike | None = None,
) -> Result:
    """Fit and test an estimator on every fold of a split.

    The audit comes first: see `audit`. Ctrl-C stops the run and returns the finished folds, with
    ``complete=False``.

    Parameters
    ----------
    estimator : classifier or regressor
        Copied for each fold; any ``random_state`` that is None is set from the fold's seed, others
        are kept.
    X : array-like of shape (n_samples, n_features)
        Scans; a list works too where the estimator takes one, and a square Gram matrix for
        estimators whose tags say ``pairwise``. A memory map, zarr or dask array that does not fit
        into `voxprior.max_memory` is read a block of voxels at a time, by families that can.
    y : array-like of shape (n_samples,)
        Labels or targets.
    groups : array-like of shape (n_samples,) or None
        Run or subject of each scan. Given to the splitter, and to estimators that can use them: a
        `fit` that names `groups`, also as a step of a pipeline, or a search.
    cv : splitter, its name, iterable of (train, test), int or None
        A name is one of `voxprior.registry.splitter`, for instance "groups" or
        "few-shot:3". None: `LeaveOneGroupOut`, where most groups hold several labels; up to 5 folds
        of groups with every class, where most hold one; 5 folds of scans where there are no groups
        or every scan is one, stratified for classes (fewer where a class, or all of regression, has
        less than 5 scans).
    fit_params : dict
        Handed to `fit`; values as long as X are cut to the training scans.
    n_jobs, random_state, progress
        See `run_tasks`.
    keep_models : bool
        Keep the fitted estimators in ``Result.models``.
    variables, columns, names, findings, looked, allow
        For the audit, see `audit`: other things known of each scan, the other columns of a table
        (``columns={"site": site, "age": age}`` are tested against the labels),
        what the scans are called, what was found when they were read and which checks that took,
        and the names of findings to override.
    audited : sequence of Finding or None
        An earlier audit of the same scans, for instance ``Result.audit``: it was heeded then, so
        that no further audit is made. None audits now, and the probabilities after the run.
    folder : path
        Keep finished folds there; the same call goes on where it was stopped.

    Returns
    -------
    Result

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior.validation import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(LogisticRegression(max_iter=500), X, y)
    >>> round(float(result.scores["accuracy"].mean()), 2)
    0.96
    """
    X = blocked(X)
    y, groups, classes = check_data(estimator, X, y, groups)
    folds, split = make_folds(estimator, X, y, groups, cv)
    refuse_what_memory_cannot_hold(estimator, X, folds)
    if random_state is None:
        random_state = secrets.randbits(64)
    known: dict[str, Any] = {"variables": variables, "columns": columns, "names": names}
    known |= {"findings": findings, "looked": looked, "allow": allow}
    found = audit_once(audited, estimator, X, y, groups, folds, **known)
    settings = describe(estimator, X, y, groups, classes) | {
        **split,
        "n_folds": len(folds),
        "random_state": random_state,
    }
    shared = (estimator, X, y, groups, dict(fit_params or {}), classes, keep_models)
    outcome = run_tasks(
        fit_fold,
        folds,
        shared,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        name="folds",
        store=_fold_store(folder, folds, shared, settings),
    )
    result = build_result(outcome, y, groups, classes, settings, found)
    return result if audited is not None else _audited_after(result, allow)


def _audited_after(result: Result, allow: Collection[str]) -> Result:
    """Add what the audit finds in the predictions, and heed it."""
    after = audit_predictions(result, allow)
    heed(after, stacklevel=4)
    findings, checks = (*result.findings, *after.findings), (*result.checks, *after.checks)
    return replace(result, findings=findings, checks=checks)


def _fold_store(folder, folds, shared, settings) -> TaskStore | None:
    estimator, *arrays, classes, keep_models = shared
    if keep_models and folder is not None:
        raise InputError(
            "Models are not kept in a folder",
            remedy=f"Leave out {option('keep_models')} or {option('folder')}",
        )
    known = [(np.asarray(a), np.asarray(b)) for a, b in folds]
    codec = fold_codec(lambda fold: fold, classes)
    return TaskStore.of(folder, "folds", [estimator], (*arrays, classes), known, settings, **codec)
