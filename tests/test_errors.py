"""Errors that speak each front end's words, and the line between bad input and a fault."""

import os
import pickle

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.errors import InputError, InputWarning, in_python, nearest_file, option, refuses_input
from voxprior.validation.run import run_tasks


def refuse(task, seed):
    VoxelSpace.from_mask(np.zeros((2, 2, 2), dtype=bool))


def fail(task, seed):
    int("no number")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("work", "refused"), [(refuse, True), (fail, False)])
def test_workers_refuse_input_as_one_process_does(work, refused, n_jobs):
    """Between processes the traceback is lost, by which a refusal is known."""
    with pytest.raises(ValueError) as caught:
        run_tasks(work, range(2), n_jobs=n_jobs)
    assert refuses_input(caught.value) is refused


def test_an_error_that_was_never_raised_is_known_by_its_type():
    assert refuses_input(InputError("x"))
    assert not refuses_input(ValueError("x"))


@pytest.mark.parametrize("value", [1, "two\nlines", np.eye(3), {"a": [1]}, None])
def test_marks_hold_any_value(value):
    assert in_python(option("l1_ratio", value)) == f"l1_ratio={value!r}"


def test_a_warning_has_its_marks_after_a_pickle():
    warning = pickle.loads(pickle.dumps(InputWarning(f"Check {option('t_r')}.")))
    assert str(warning) == "Check t_r."
    assert warning.marked == f"Check {option('t_r')}."


def test_a_fifo_is_not_its_own_nearest_name(tmp_path):
    os.mkfifo(tmp_path / "f.skops")
    assert nearest_file(tmp_path / "f.skops") == " (what has that name is not a regular file)"
