"""Filters of runs: what is too short, and what scrubbed volumes may reach."""

import numpy as np
import pytest
from nilearn.signal import clean

from voxprior.errors import InputError
from voxprior.images.cleaning import Cleaning, clean_run

HIGH, BAND = Cleaning(high_pass=0.01), Cleaning(high_pass=0.01, low_pass=0.1)


@pytest.mark.parametrize(("cleaning", "fewest"), [(HIGH, 19), (BAND, 34)])
def test_runs_too_short_to_be_filtered(rng, cleaning, fewest):
    values = rng.normal(size=(fewest, 3))
    assert clean_run(values, cleaning, t_r=2.0).shape == (fewest, 3)
    with pytest.raises(InputError, match=f"at least {fewest} volumes, got {fewest - 1}"):
        clean_run(values[1:], cleaning, t_r=2.0)


def test_scrubbed_ends_do_not_count(rng):
    kept = np.ones(22, dtype=bool)
    kept[[0, 1, 21]] = False
    assert clean_run(rng.normal(size=(22, 3)), HIGH, kept=kept, t_r=2.0).shape == (19, 3)
    kept[2] = False
    with pytest.raises(InputError, match="got 18"):
        clean_run(rng.normal(size=(22, 3)), HIGH, kept=kept, t_r=2.0)
    with pytest.raises(InputError, match="got 0"):
        clean_run(rng.normal(size=(22, 3)), HIGH, kept=np.zeros(22, dtype=bool), t_r=2.0)


@pytest.mark.parametrize("scrubbed", [[7], [7, 32], [0, 39], [0, 1, 39], [19, 20], [0, 1, 2]])
@pytest.mark.parametrize("with_confounds", [False, True])
def test_scrubbed_volumes_have_no_influence(rng, scrubbed, with_confounds):
    values, confounds = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    kept = np.ones(40, dtype=bool)
    kept[scrubbed] = False
    cleaned = []
    for artefact in (0.0, 1000.0):
        values[scrubbed], confounds[scrubbed] = artefact, -artefact
        given = confounds.copy() if with_confounds else None
        cleaned.append(clean_run(values.copy(), BAND, given, kept, 2.0))
    assert len(cleaned[0]) == kept.sum()
    np.testing.assert_allclose(cleaned[0], cleaned[1], atol=1e-4)


def test_one_scrubbed_volume_is_bridged_as_nilearn_does(rng):
    values, kept = rng.normal(size=(40, 3)), np.arange(40) != 7
    theirs = clean(
        values.copy(),
        detrend=False,
        standardize=None,
        filter="butterworth",
        high_pass=0.01,
        t_r=2.0,
        sample_mask=np.flatnonzero(kept),
    )
    np.testing.assert_allclose(clean_run(values, HIGH, kept=kept, t_r=2.0), theirs, atol=1e-5)


@pytest.mark.parametrize("name", ["high_pass", "low_pass"])
def test_frequencies_too_low_to_be_computed(rng, name):
    run = rng.normal(size=(40, 3))
    with pytest.raises(InputError, match=f"{name}=1e-45 is too slow"):
        clean_run(run, Cleaning(**{name: 1e-45}), t_r=2.0)
    slowest = Cleaning(**{name: 2.6e-4})  # just above a thousandth of 1 / (2 * 2 s)
    assert np.isfinite(clean_run(run, slowest, t_r=2.0)).all()
