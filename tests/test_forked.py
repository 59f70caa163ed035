"""A process that was forked from one that has fitted: it fits too, or says why not."""

import multiprocessing
import os

import numpy as np
import pytest

from voxprior import algebra, registry
from voxprior.simulate import time_courses
from voxprior.validation import Cluster
from voxprior.validation.run import run_tasks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
PATIENCE = 240


def forked(work, *given):
    """What a function returns in a forked process, which must end by itself."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: there.send(work(*given)))
    child.start()
    there.close()
    child.join(PATIENCE)
    ended = child.exitcode
    if ended is None:
        child.kill()
        child.join()
    assert ended == 0  # not killed, and not waiting for ever
    return here.recv()


@pytest.fixture(scope="module")
def data():
    return time_courses((6, 6, 4), amplitude=1.0, n_regions=4, active_regions=1, random_state=0)


def predicted(name, data):
    one = registry.model(name)
    y = np.arange(len(data.y)) / 7 if one.kind == "regressor" else data.y
    return one.make(data.space).fit(data.X, y).predict(data.X)


@pytest.mark.parametrize("name", registry.models())
def test_every_model_fits_before_and_after_a_fork(name, data):
    before = predicted(name, data)
    np.testing.assert_array_equal(forked(predicted, name, data), before)


def test_kernels_stay_on_one_thread_after_a_fork(data):
    predicted("sharing", data)
    assert forked(algebra.stays_on_one_thread, algebra.SMALL_WORK)


def where(task, seed):
    return os.getpid()


def tasks_in_this_process():
    return set(run_tasks(where, range(6), n_jobs=2).values) == {os.getpid()}


def test_tasks_stay_in_a_forked_process(at_once):
    run_tasks(where, range(6), n_jobs=2)
    assert forked(tasks_in_this_process)
    assert run_tasks(where, range(6), n_jobs=2).complete


def test_a_forked_process_leaves_a_cluster_to_its_parent(at_once):
    with Cluster("local:2") as workers:
        workers.client  # noqa: B018 - starts them
        assert forked(tasks_in_this_process)
        assert forked(workers.__exit__) is None
        assert len(set(run_tasks(where, range(6)).values) - {os.getpid()}) > 0
