"""The report as data: what a page says must come from the result."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from voxprior.report import report_of, summarize
from voxprior.validation import cross_validate


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 5)), rng.normal(size=12)


def test_summary_is_plain_and_says_what_the_result_says(result):
    summary = summarize(result, title="A study", done={"Data": {"scanner": "3 T"}})
    assert json.loads(json.dumps(summary)) == summary
    first = summary["scores"][0]
    assert first["key"] == "accuracy"
    assert float(first["mean"]) == pytest.approx(result.scores["accuracy"].mean(), abs=1e-3)
    counts = np.array([row["counts"] for row in summary["confusion"]])
    assert counts.sum() == 24
    right = result.predictions["y_true"] == result.predictions["y_pred"]
    assert counts.diagonal().sum() == right.sum()
    assert summary["done"]["Data"]["scanner"] == "3 T"
    assert "LogisticRegression" in summary["methods"]


def test_the_page_speaks_of_scans_not_of_columns(result):
    summary = summarize(result, names=[f"scan-{i}" for i in range(24)])
    columns = summary["predictions"]["columns"]
    assert columns[:1] + columns[3:6] == ["scan", "truth", "prediction", "right"]
    assert "P(house)" in columns
    rights = [row[5] for row in summary["predictions"]["rows"]].count("yes")
    assert f"({rights} of 24 scans right)" in summary["headline"]["text"]


def test_trials_have_a_column_of_volumes(result):
    trials = [f"sub-1/run-{i % 2}.nii, volumes {i} to {i + 2}, face" for i in range(23)]
    table = summarize(result, names=[*trials, "sub-1/run-9.nii, volumes 7 to 7"])["predictions"]
    assert table["columns"][:4] == ["scan", "volumes", "fold", "group"]
    found = {tuple(row[:2]) for row in table["rows"]}
    assert ("run-1.nii", "3 to 5") in found
    assert ("run-9.nii", "7") in found
    assert len(found) == 24


def test_scans_without_groups_have_no_column_of_groups(numbers):
    summary = summarize(cross_validate(Ridge(), *numbers, cv=4))
    assert "group" not in summary["predictions"]["columns"]


def test_folds_of_one_scan_have_no_picture_of_their_r2(numbers, recwarn):
    result = cross_validate(Ridge(), *numbers, cv=12)
    titles = [figure["title"] for figure in report_of(result).summary["figures"]]
    assert titles == ["Predicted against true"]
    assert not [w for w in recwarn if "empty slice" in str(w.message)]
