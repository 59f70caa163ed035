"""Bounds at which a check of the audit turns, one by one."""

from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from tests.validation.test_audit_numbers import audited, noise

from voxprior.validation import Check, cross_validate, interval
from voxprior.validation.audit import duplicates, likeness
from voxprior.validation.audit.estimators import own_prior
from voxprior.validation.audit.finding import NotChecked
from voxprior.validation.audit.probabilities import probability_scale, surplus_p
from voxprior.validation.audit.scans import FEW_VOXELS
from voxprior.validation.audit.voxels import looks_selected
from voxprior.validation.intervals import choose_method

FOLDS = [(np.arange(4, 20), np.arange(4)), (np.arange(16), np.arange(16, 20))]


def classes(n_groups, cv=None):
    rng, y = np.random.default_rng(0), np.tile([0, 1], 2 * n_groups)
    X, groups = rng.normal(size=(len(y), 3)) + y[:, None], np.repeat(np.arange(n_groups), 4)
    return cross_validate(GaussianNB(), X, y, groups, cv, allow=["labels-confounded"])


def test_the_first_score_is_the_default():
    result = classes(6)
    assert interval(result).score == result.score_names[0] == "accuracy"


def test_random_splits_of_classes_are_drawn_by_group():
    cv = ShuffleSplit(6, test_size=0.25, random_state=0)
    rng, y = np.random.default_rng(0), np.tile([0, 1], 12)
    result = cross_validate(GaussianNB(), rng.normal(size=(24, 3)) + y[:, None], y, cv=cv)
    assert choose_method(result, "brier")[0] == "group bootstrap"


def test_five_groups_are_enough_to_judge_probabilities():
    assert isinstance(probability_scale(classes(4)), NotChecked)
    assert not isinstance(probability_scale(classes(5)), NotChecked)


def test_a_surplus_that_does_not_vary_says_nothing():
    log_p = np.log(np.tile([[0.8, 0.2]], (10, 1)))
    assert surplus_p(log_p, np.zeros(10, int), np.repeat(np.arange(5), 2)) == 1.0


def test_a_twentieth_above_one_half_is_no_selection():
    p = np.repeat([0.0, 0.4, 0.6], [500, 450, 50])
    assert not looks_selected(p)
    assert looks_selected(np.repeat([0.0, 0.4, 0.6], [500, 451, 49]))


def test_outcomes_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Check("a", "found").outcome = "not found"


@pytest.mark.parametrize(("n", "enough"), [(4, False), (5, True)])
def test_five_scans_say_what_is_usual(n, enough):
    X = noise(20)[0][:n]
    folds = [(np.arange(1, n), np.arange(1))]
    found = duplicates.near_duplicate(audited(X, np.arange(n) % 2, folds=folds))
    assert isinstance(found, list) == enough


def test_a_few_numbers_per_scan_are_no_images():
    X, y = np.ones((20, 3)), np.tile([0, 1], 10)
    assert duplicates.duplicate_images(audited(X, y, folds=FOLDS)) == FEW_VOXELS
    wide = np.ones((20, 120))
    assert "19 images are copies of others" in duplicates.duplicate_images(
        audited(wide, y, folds=FOLDS)
    )[0]  # fmt: skip


def test_voxels_that_do_not_vary_are_not_sampled():
    X, y = noise(20)
    X[:, 7] = 3.0
    np.testing.assert_array_equal(audited(X, y).sampled, np.delete(X, 7, axis=1))


def test_groups_of_any_size_are_exchanged_if_their_classes_are_alike():
    """Groups of two and of four scans, all half of each class, and one of a single class."""
    X, _ = noise(12)
    groups = np.repeat([0, 1, 2, 3], [2, 4, 4, 2])
    y = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1])
    exchange, level, _ = likeness._exchangeable(
        np.eye(12, dtype=np.float32), groups % 2, audited(X, y, groups)
    )
    strata = exchange.strata
    assert strata[0] == strata[1] == strata[2] != strata[3]
    np.testing.assert_array_equal(level, [0, 1, 0, 1])
    np.testing.assert_allclose(np.diag(exchange.K), [1 / 2, 1 / 4, 1 / 4, 1 / 2])


class Taught(LogisticRegression):
    """Knows who taught its prior."""

    prior = SimpleNamespace(subjects=["s1", "s2"])


def test_only_those_who_are_decoded_count_as_teachers():
    X, y = noise(4)
    others, own = np.array(["s3", "s4"] * 2), np.array(["s3", "s2"] * 2)
    assert own_prior(audited(X, y, others, estimator=Taught())) == []
    assert own_prior(audited(X, y, own, estimator=Taught()))[0].startswith("s2 taught")
    told = own_prior(audited(X, y, estimator=Taught(), columns={"subject": own}))
    assert told[0].startswith("s2 taught")
    assert isinstance(own_prior(audited(X, 1.0 * y, own, estimator=Ridge())), NotChecked)
