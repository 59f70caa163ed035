"""The split where none is named: every class in every fold, whoever is a group of their own."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from voxprior import Decoder, VoxelSpace
from voxprior.decision import TemperatureCalibrated
from voxprior.decision.held_out import inner_split
from voxprior.images import Dataset
from voxprior.mapping import searchlight
from voxprior.validation import compare_with_covariates, cross_validate, permutation_test
from voxprior.validation.folds import default_split, make_folds

LOGISTIC = LogisticRegression()
NUMBERS = np.random.default_rng(9).normal(size=30)


def noise(seed, n=24, V=27):
    rng = np.random.default_rng(seed)
    people = np.array([f"sub-{k:02d}" for k in range(n)])
    return (
        rng.normal(size=(n, V)),
        rng.permutation(np.repeat(["control", "patient"], n // 2)),
        people,
    )


def dataset(X, y, people):
    return Dataset(X.astype(np.float32), y, VoxelSpace.grid((3, 3, 3)), groups=people)


def by_function(X, y, people):
    return cross_validate(LOGISTIC, X, y, people).pooled()["accuracy"]


def by_decoder(X, y, people):
    return Decoder(LOGISTIC).evaluate(dataset(X, y, people)).pooled()["accuracy"]


def by_compare(X, y, people):
    compared = Decoder(LOGISTIC).compare(dataset(X, y, people), models={"it": LOGISTIC}, repeats=0)
    return compared.results["it"].pooled()["accuracy"]


def by_permutation(X, y, people):
    return permutation_test(LOGISTIC, X, y, people, n_permutations=1, score="accuracy").observed


def by_refit(X, y, people):
    test = permutation_test(
        LOGISTIC, X, y, people, n_permutations=1, score="accuracy", test="refit"
    )
    return test.observed


def by_covariates(X, y, people):
    age = pd.DataFrame({"age": X[:, 0]})
    return compare_with_covariates(LOGISTIC, X, y, age, people).images.pooled()["accuracy"]


def by_searchlight(X, y, people):
    space = VoxelSpace.grid((3, 3, 3))
    options = {"units": "voxel", "score": "accuracy", "n_permutations": 19}
    return searchlight(X, y, people, space, radius=9, **options).score.mean()


DOORS = [
    by_function,
    by_decoder,
    by_compare,
    by_permutation,
    by_refit,
    by_covariates,
    by_searchlight,
]


@pytest.mark.parametrize("door", DOORS)
def test_noise_of_people_with_one_map_each_is_at_chance(door):
    """Leaving one person out scored far below chance by each of these."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = [door(*noise(seed)) for seed in range(20)]
    assert 0.40 <= np.mean(scores) <= 0.60


def test_people_with_one_map_each_are_split_as_scans_without_groups():
    X, y, people = noise(0, 30)
    alone = cross_validate(LOGISTIC, X, y, people)
    free = cross_validate(LOGISTIC, X, y)
    assert alone.scores.equals(free.scores)
    assert alone.settings["split"] == free.settings["split"]
    assert alone.predictions["group"].tolist() == people[alone.predictions["sample"]].tolist()
    assert alone.settings["n_groups"] == 30
    assert "leave-one-out" not in {finding.name for finding in alone.findings}
    numbers = cross_validate(Ridge(), X, NUMBERS, people)
    assert numbers.scores.equals(cross_validate(Ridge(), X, NUMBERS).scores)


def test_nothing_is_said_of_groups_that_are_passed_over(recwarn):
    X, y, people = noise(0, 30)
    cross_validate(LOGISTIC, X, y, people)
    permutation_test(Ridge(), X, NUMBERS, people, n_permutations=3)
    TemperatureCalibrated(LOGISTIC).fit(X, y, groups=people)
    assert not [w for w in recwarn if "groups parameter is ignored" in str(w.message)]


def test_people_with_one_map_each_are_relabelled_inside_folds():
    X, y, people = noise(0, 30)
    for test in ("auto", "refit"):
        made = permutation_test(LOGISTIC, X, y, people, n_permutations=9, test=test)
        free = permutation_test(LOGISTIC, X, y, n_permutations=9, test=test)
        assert (made.p_value, made.observed) == (free.p_value, free.observed)


@pytest.mark.parametrize(
    ("groups", "y", "kind", "n_folds"),
    [
        (np.arange(30), np.tile([0, 1], 15), StratifiedKFold, 5),
        (np.arange(30), np.linspace(0, 1, 30), KFold, 5),
        # Some have two maps, one of them with both labels.
        (np.r_[np.arange(28), 0, 1], np.r_[np.tile([0, 1], 14), 0, 1], StratifiedGroupKFold, 5),
        (np.r_[np.arange(28), 0, 1], np.r_[np.tile([0, 1], 14), 1, 1], StratifiedGroupKFold, 5),
        (np.r_[np.arange(28), 0, 1], np.r_[np.arange(28.0), 0, 1], GroupKFold, 5),
        (np.repeat(np.arange(22), 2), np.repeat([0, 1], [20, 24]), StratifiedGroupKFold, 5),
        (np.repeat(np.arange(8), 2), np.repeat([0, 1], 8), StratifiedGroupKFold, 4),
        (np.repeat(np.arange(12), 2), np.repeat([0, 1], 12), StratifiedGroupKFold, 3),
        # Runs hold every class.
        (np.repeat(np.arange(6), 4), np.tile([0, 1], 12), LeaveOneGroupOut, 6),
        (np.repeat(np.arange(6), 4), np.r_[np.zeros(4), np.tile([0, 1], 10)], LeaveOneGroupOut, 6),
        (np.repeat(np.arange(6), 4), np.random.default_rng(0).normal(size=24), LeaveOneGroupOut, 6),
        (np.repeat(np.arange(3), 4), np.repeat([0, 1, 1], 4), LeaveOneGroupOut, 3),
    ],
)
def test_which_split(groups, y, kind, n_folds):
    classes = len(np.unique(y)) == 2
    estimator = LOGISTIC if classes else Ridge()
    assert type(default_split(estimator, y, groups)) is kind
    folds, _ = make_folds(estimator, np.zeros((len(y), 2)), y, groups, None)
    assert len(folds) == n_folds
    if kind in (StratifiedKFold, StratifiedGroupKFold):
        assert all(len(np.unique(y[part])) == 2 for fold in folds for part in fold)
    if classes and kind is not StratifiedKFold:
        assert type(inner_split(y, groups)) is kind


@pytest.mark.parametrize("per_person", [1, 2])
def test_the_class_that_makes_folds_few_is_named(per_person):
    y = np.repeat(["patient", "control"], [3 * per_person, 57 * per_person])
    people = np.repeat(np.arange(60), per_person)
    _, told = make_folds(LOGISTIC, np.zeros((len(y), 2)), y, people, None)
    unit = "scans" if per_person == 1 else "groups"
    assert f"(fewer than 5 folds, because 'patient' has 3 {unit})" in told["split"]
    assert told["split"].startswith("3-fold cross-validation, stratified by class")
    _, told = make_folds(LOGISTIC, np.zeros((60, 2)), np.tile([0, 1], 30), None, None)
    assert told["split"] == "5-fold cross-validation, stratified by class"
