"""Who was scanned, and scores by parts of the sample."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import RepeatedStratifiedKFold

from voxprior.report.sample import sample_tables
from voxprior.validation import cross_validate, interval

Y = np.tile(["ill", "well"], 20)


@pytest.fixture(scope="module")
def scans():
    return np.random.default_rng(0).normal(size=(40, 25)) + (Y == "ill")[:, None]


@pytest.fixture(scope="module")
def result(scans):
    return cross_validate(LogisticRegression(), scans, Y)


def rows_of(table):
    return {row[0]: row[1:] for row in table["rows"]}


def test_worked_example(result):
    age = pd.Series(np.arange(40.0)).where(np.arange(40) != 3)
    site = pd.Series(np.repeat(["oslo", "london"], [30, 10]))
    first, _ = sample_tables(result, Y, None, {"iq": age, "site": site})
    assert first["columns"] == ["", "ill", "well", "all"]
    ill = f"{np.arange(0, 40, 2).mean():.1f} ({np.arange(0, 40, 2).std(ddof=1):.1f})"
    rows = rows_of(first)
    assert list(rows) == ["scans", "site: oslo", "site: london", "iq", "iq: missing"]
    assert rows["scans"] == ["20", "20", "40"]
    assert rows["site: london"] == ["5", "5", "10"]
    assert rows["iq"][0] == ill
    assert rows["iq: missing"] == ["0", "1", "1"]


def test_people_count_once(result):
    """A person of two scans has one age; what differs between the scans counts for each."""
    people = np.repeat(np.arange(20), 2)
    y = np.repeat(["ill", "well"], 20)
    age = pd.Series(np.repeat(np.arange(20.0, 40.0), 2))
    first = sample_tables(result, y, people, {"age": age, "iq": pd.Series(np.arange(40.0))})[0]
    rows = rows_of(first)
    assert rows["groups"] == ["10", "10", "20"]
    assert rows["age"][2] == f"{np.arange(20, 40).mean():.1f} ({np.arange(20, 40).std(ddof=1):.1f})"
    assert rows["iq"][2] == f"{np.arange(40).mean():.1f} ({np.arange(40).std(ddof=1):.1f})"


def test_scores_by_part_are_those_of_its_scans(result):
    age, sex = pd.Series(np.arange(40.0)), pd.Series(np.repeat(["f", "m"], [24, 16]))
    columns = {"age": age, "sex": sex, "weight": age}
    _, scores = sample_tables(result, Y, None, columns)
    rows = rows_of(scores)
    assert list(rows) == ["age up to 19.5", "age above 19.5", "sex: f", "sex: m"]
    table = result.predictions[result.predictions["sample"] >= 24]
    right = table["y_true"] == table["y_pred"]
    expected = right.groupby(table["y_true"]).mean().mean()
    assert rows["sex: m"][:2] == ["16", f"{expected:.3f}"]
    low, high = map(float, rows["sex: m"][2].split(" to "))
    assert low <= round(expected, 3) <= high
    assert rows["sex: m"][3] == "bootstrap of scans"
    asked = sample_tables(result, Y, None, columns, ("weight",))[1]
    assert asked["rows"][0][0] == "weight up to 19.5"


def test_all_scans_as_one_part_have_the_interval_of_all(scans):
    """A level that everybody has but one scan of each class changes next to nothing."""
    cv = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    result = cross_validate(LogisticRegression(), scans, Y, cv=cv)
    site = pd.Series(["oslo"] * 38 + ["london"] * 2)
    rows = rows_of(sample_tables(result, Y, None, {"site": site})[1])
    whole = interval(result, "balanced_accuracy")
    low, high = map(float, rows["site: oslo"][2].split(" to "))
    assert low == pytest.approx(whole.low, abs=0.1)
    assert high == pytest.approx(whole.high, abs=0.1)
    assert rows["site: london"][2] == "-"
    assert "fewer than 5" in rows["site: london"][3]


def test_a_part_with_one_class_has_no_score(result):
    site = pd.Series(np.where(Y == "ill", "oslo", "london"))
    rows = rows_of(sample_tables(result, Y, None, {"site": site})[1])
    assert rows["site: oslo"][1:3] == ["-", "-"]
    assert "ill only" in rows["site: oslo"][3]


def test_numbers_have_no_classes(scans):
    y = np.arange(40.0)
    result = cross_validate(Ridge(), scans, y)
    first, scores = sample_tables(result, y, None, {"sex": pd.Series(np.tile(["f", "m"], 20))})
    assert first["columns"] == ["", "all"]
    assert scores["columns"][2] == "mean absolute error"
    table = result.predictions[result.predictions["sample"] % 2 == 0]
    expected = (table["y_true"] - table["y_pred"]).abs().mean()
    assert rows_of(scores)["sex: f"][1] == f"{expected:.3f}"


def test_wide_tables_are_cut_and_say_so(result):
    columns = {f"q{n}": pd.Series(np.tile([0, 1], 20)) for n in range(30)}
    columns["site"] = pd.Series([f"site {n}" for n in np.arange(40) // 2])
    first = sample_tables(result, Y, None, columns)[0]
    assert "10 of 31 columns" in first["caption"]
    assert rows_of(first)["site: 9 others"] == ["9", "9", "18"]


def test_no_columns_no_tables(result):
    assert sample_tables(result, Y, None, {}) == []
