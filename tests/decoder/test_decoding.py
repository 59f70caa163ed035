import json

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

from voxprior import VoxelSpace
from voxprior.decoder import prepared
from voxprior.decoder.comparison import decimals, summary_of
from voxprior.decoder.facts import facts, subject
from voxprior.images import Dataset
from voxprior.validation import cross_validate


@pytest.fixture
def data(rng):
    y = np.tile(["a", "b"], 6)
    age = pd.DataFrame({"age": np.arange(12.0)})
    X = rng.normal(size=(12, 24)).astype("f4")
    return Dataset(X, y, VoxelSpace.grid((4, 3, 2)), covariates=age, dropped=("x: no label",))


def test_covariates_come_last(data):
    _, rows = prepared("logistic", data)
    assert np.array_equal(rows[:, :24], data.X)
    assert np.array_equal(rows[:, 24], np.arange(12.0))


def test_what_is_said_of_the_data(data):
    assert subject(data) == "a against b"
    assert facts(data)["Data"]["left out"] == "x: no label"
    ages = Dataset(data.X, np.arange(12) + 0.5, data.space)
    assert subject(ages) == "a number from 0.5 to 11.5"


def test_scores_are_json_and_those_that_do_not_exist_are_left_out(data):
    found = summary_of(cross_validate(SVC(kernel="linear"), data.X, data.y))
    assert "log_loss" not in found["scores"]
    assert found["scores"]["accuracy"]["chance"] == 0.5
    json.dumps(found, allow_nan=False)


def test_numbers_have_three_decimals():
    assert [decimals(v) for v in (None, np.nan, -1e-9, 0.12345)] == ["-", "-", "0.000", "0.123"]
