import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.errors import InputError
from voxprior.simulate import brain, subjects


def test_blobs_are_shared_up_to_the_shift():
    study = subjects(3, (10, 10, 6), n_runs=2, shift=0, gain=0, own=0, random_state=0)
    thetas = [one.truth["theta"] for one in study.values()]
    assert_allclose(thetas[0], thetas[1])
    assert_allclose(thetas[0].sum(axis=0), 0, atol=1e-12)
    moved = subjects(3, (10, 10, 6), n_runs=2, shift=2, gain=0, own=0, random_state=0)
    one = moved["sub-01"].truth
    assert 0.5 < np.std(one["own_centers"] - one["centers"]) < 4


def test_scans_have_the_signal_of_their_class():
    one = subjects(1, (8, 8, 4), n_runs=400, run_offset=0.3, random_state=1)["sub-01"]
    means = np.stack([one.X[one.y == c].mean(axis=0) for c in range(3)])
    means -= means.mean(axis=0)
    assert np.abs(means - one.truth["theta"]).max() < 0.3
    assert len(np.unique(one.groups)) == 400


def test_the_same_seed_gives_the_same_study_in_a_brain():
    space = brain(10)
    first = subjects(2, space, n_runs=2, random_state=3)
    again = subjects(2, space, n_runs=2, random_state=3)
    assert_allclose(first["sub-02"].X, again["sub-02"].X)
    assert first["sub-01"].space == space


@pytest.mark.parametrize("wrong", [{"n_subjects": 0}, {"n_classes": 1}, {"n_runs": 0}])
def test_too_small_studies_are_refused(wrong):
    with pytest.raises(InputError, match="is too small"):
        subjects(**{"n_subjects": 2, "space": (4, 4, 4), **wrong})
