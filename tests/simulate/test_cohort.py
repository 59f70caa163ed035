"""Cohorts are the sum of what they say they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.errors import InputError
from voxprior.simulate import cohort

SMALL = (12, 10, 8)


def test_without_noise_scans_are_the_sum_of_their_parts():
    data = cohort(SMALL, 20, noise=0, n_sites=3, random_state=0)
    truth = data.truth
    t = (truth["age"] - 50) / 15
    wanted = truth["common"] + truth["loadings"] @ truth["anatomy"]
    wanted = wanted + truth["site_maps"][truth["site"]]
    wanted += t[:, None] * truth["age_map"] + truth["sex"][:, None] * truth["sex_map"]
    wanted += truth["disease"][:, None] * (truth["distributed"] + truth["focal"])
    assert_allclose(data.X, truth["gain"][:, None] * wanted, rtol=1e-5)


def test_subjects_are_as_many_as_asked_for():
    data = cohort(SMALL, 30, prevalence=0.2, n_sites=3, random_state=1)
    assert data.y.sum() == 6
    assert np.bincount(data.truth["site"]).tolist() == [10, 10, 10]
    assert len(np.unique(data.groups)) == 30
    assert cohort(SMALL, 10, prevalence=0.01, random_state=1).y.sum() == 1
    assert cohort(SMALL, 10, prevalence=0, random_state=1).y.sum() == 0


def test_the_target_may_be_age():
    data = cohort(SMALL, 200, target="age", random_state=2)
    assert_allclose(data.y, data.truth["age"])
    assert abs(data.y.mean() - 50) < 4
    assert abs(data.y.std() - 15) < 3


def test_foci_are_where_they_are_said_to_be():
    data = cohort(SMALL, 10, focal=0.3, n_foci=2, focus_radius=1, random_state=3)
    assert set(np.unique(data.truth["focal"])) == {0, 0.3}
    assert 2 <= (data.truth["focal"] > 0).sum() <= 14


def test_one_site_has_no_site_effect():
    assert not cohort(SMALL, 6, random_state=4).truth["site_maps"].any()


def test_imbalance_makes_patients_older_and_gathers_them():
    truth = cohort(SMALL, 400, n_sites=4, imbalance=1, random_state=5).truth
    ill = truth["disease"] == 1
    assert 11 < truth["age"][ill].mean() - truth["age"][~ill].mean() < 19
    assert set(truth["site"][ill]) == {0, 1}
    assert set(truth["site"][~ill]) == {0, 1, 2, 3}


def test_the_same_seed_gives_the_same_cohort():
    one, other = (cohort(SMALL, 8, random_state=6) for _ in range(2))
    assert_allclose(one.X, other.X, rtol=0)


@pytest.mark.parametrize(
    "wrong", [{"target": "height"}, {"n_sites": 0}, {"n_sites": 9}, {"prevalence": 1.5}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        cohort(SMALL, 8, **wrong)
