"""The report as data and as text: what a page says must come from the result."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voxprior.report import render, summarize
from voxprior.validation import chance_level, cross_validate


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    y = np.repeat(["<b>face</b>", "house"], 12)
    X = rng.normal(size=(24, 30)) + 0.5 * (y == "house")[:, None]
    return cross_validate(LogisticRegression(), X, y, np.tile(np.arange(4), 6))


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


def test_page_is_self_contained_and_escapes_labels(result):
    page = render(summarize(result, title="<script>alert(1)</script>"))
    assert "<script>alert(1)" not in page
    assert "<b>face" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "http" not in re.sub(r"data:image[^\"]*", "", page).replace("http-equiv", "")


def test_page_without_probabilities_has_no_controls():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    regression = render(summarize(cross_validate(Ridge(), X, y, cv=4)))
    assert 'id="reject"' not in regression
    assert "R²" in regression


def test_the_page_speaks_of_scans_not_of_columns(result):
    summary = summarize(result, names=[f"scan-{i}" for i in range(24)])
    columns = summary["predictions"]["columns"]
    assert columns[:1] + columns[3:6] == ["scan", "truth", "prediction", "right"]
    assert "P(house)" in columns
    rights = [row[5] for row in summary["predictions"]["rows"]].count("yes")
    assert f"({rights} of 24 scans right)" in summary["headline"]["text"]
    assert "LeaveOneGroupOut" not in summary["methods"]
    assert "leaving one run, subject or other group out" in summary["methods"]


def test_numbers_and_parameters_are_told_as_people_write_them():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    model = make_pipeline(StandardScaler(), Ridge(alpha=0.1 + 0.2))
    summary = summarize(cross_validate(model, X, y, cv=4))
    told = summary["done"]["Hyper-parameters"]
    assert told["ridge: alpha"] == "0.3"
    assert "steps" not in told
    assert "ridge" not in told
    assert "group" not in summary["predictions"]["columns"]


def test_folds_of_one_scan_have_no_picture_of_their_r2(recwarn):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 5)), rng.normal(size=12)
    result = cross_validate(Ridge(), X, y, cv=12)
    mean = np.abs(y - y.mean()).mean()
    assert chance_level(result, "mae") == pytest.approx(mean)
    titles = [figure["title"] for figure in summarize(result)["figures"]]
    assert titles == ["Predicted against true"]
    assert not [w for w in recwarn if "empty slice" in str(w.message)]
