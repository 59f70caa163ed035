"""Offsets of groups that preparation would take away, and classes that are rare."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier

from voxprior import Decoder, ScanPreparation, VoxelSpace
from voxprior.images import Dataset
from voxprior.images.rules import group_rule
from voxprior.validation import AuditWarning, audit, cross_validate

RUNS, Y = np.repeat(np.arange(8), 6), np.tile(["a", "b", "c"], 16)


def scans(offset, seed=0, V=120):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(48, V)) + offset * rng.normal(size=(8, V))[RUNS]


def found(X, y=Y, groups=RUNS, estimator=None):
    made = audit(estimator or LogisticRegression(), X, y, groups)
    return [f.message for f in made if f.name == "group-offsets"]


@pytest.mark.parametrize("offset", [0.0, 0.15, 0.3, 2.0])
def test_the_rule_is_that_of_the_readers(offset):
    X = scans(offset)
    rule = group_rule(X, RUNS, Y)
    messages = found(X)
    assert bool(messages) == rule.center
    if rule.center:
        assert f"Groups differ {rule.ratio:.2g} times as much" in messages[0]
        assert "ScanPreparation()" in messages[0]
    assert found(ScanPreparation().fit_transform(X, Y, groups=RUNS)) == []


def test_groups_that_hold_labels_unlike_are_left_alone():
    X = scans(2.0)
    assert found(X, y=np.repeat(["a", "b"], 24)) == []
    assert found(X, groups=np.arange(48)) == []
    assert found(X, groups=np.zeros(48)) == []
    numbers = np.tile(np.linspace(-1, 1, 6), 8) + np.linspace(0, 0.01, 48)
    assert len(found(X, y=numbers, estimator=Ridge())) == 1
    assert found(X, y=numbers + 5 * RUNS, estimator=Ridge()) == []


def test_it_is_worth_preparing():
    rng = np.random.default_rng(3)
    X = scans(3.0) + 0.35 * rng.normal(size=(3, 120))[np.unique(Y, return_inverse=True)[1]]
    with pytest.warns(AuditWarning, match="group-offsets"):
        before = cross_validate(RidgeClassifier(), X, Y, RUNS).pooled()["accuracy"]
    X = ScanPreparation().fit_transform(X, Y, groups=RUNS)
    after = cross_validate(RidgeClassifier(), X, Y, RUNS, allow=["fitted-outside"])
    assert after.pooled()["accuracy"] > before + 0.05
    assert "group-offsets" not in {f.name for f in after.findings}


def test_a_decoder_says_so_of_its_rows():
    data = Dataset(scans(2.0, V=125).astype("f4"), Y, VoxelSpace.grid((5, 5, 5)), groups=RUNS)
    with pytest.warns(AuditWarning, match=r"group-offsets.*standardize='group'"):
        Decoder("logistic").evaluate(data)


def test_runs_that_were_standardised_are_not_looked_at_again():
    X = scans(2.0)
    made = audit(LogisticRegression(), X, Y, RUNS, looked=["group-offsets"])
    told = {check.name: check.outcome for check in made.checks}
    assert told["group-offsets"] == "not found"


# ---------------------------------------------------------------- rare classes


def rare(y, groups=None):
    X = np.random.default_rng(0).normal(size=(len(y), 30))
    made = audit(LogisticRegression(), X, np.asarray(y), groups)
    return [f.message for f in made if f.name == "rare-class"]


@pytest.mark.parametrize(
    ("counts", "is_rare"),
    [
        ((3, 57), True),
        ((5, 55), True),
        ((6, 54), False),
        ((30, 30), False),
        ((3, 29, 28), True),
        ((5,) * 12, False),
        ((1,) + (5,) * 12, True),
        ((3, 3, 54), True),
    ],
)
def test_less_than_a_tenth(counts, is_rare):
    names = [f"class{c}" for c in range(len(counts))]
    messages = rare(np.repeat(names, counts))
    assert bool(messages) == is_rare
    if is_rare:
        few = min(counts)
        assert f"{few} of 'class0'" in messages[0]
        assert f"Of {sum(counts)} scans" in messages[0]


def test_people_are_counted_where_each_is_of_one_class():
    people = np.r_[np.repeat([0, 1, 2], 19), np.arange(3, 60)]
    y = np.repeat(["patient", "control"], 57)
    (message,) = rare(y, people)
    assert message.startswith("Of 60 groups there are 3 of 'patient', less than a tenth")
    assert rare(y) == []
    (message,) = rare(np.repeat(["patient", "control"], [3, 57]), np.arange(60))
    assert message.startswith("Of 60 scans there are 3 of 'patient'")
