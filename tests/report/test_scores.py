"""Scores are told by name, with their interval or why there is none, beside chance."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from voxprior.report.scores import Score, scores_of
from voxprior.validation import Interval, chance_level, cross_validate, interval


def test_chance_of_numbers_is_their_mean():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 5)), rng.normal(size=12)
    result = cross_validate(Ridge(), X, y, cv=3)
    assert chance_level(result, "mae") == pytest.approx(np.abs(y - y.mean()).mean())
    assert chance_level(result, "r2") == 0


def test_scores_are_those_of_the_result(result):
    scores = scores_of(result)
    assert [score.key for score in scores] == result.score_names
    assert scores[0].interval == interval(result, "accuracy")
    rows = {row["key"]: row for row in (score.row() for score in scores)}
    assert rows["auc"]["name"] == "area under ROC"
    assert [rows[key]["better"] for key in ("accuracy", "log_loss")] == ["higher", "lower"]


def test_the_share_inside_intervals_is_good_near_what_was_asked_for():
    inside = Interval("interval_coverage", 0.97, 0.9, 1.0, 0.95, "group bootstrap", "")
    assert Score("interval_coverage", inside, None).row()["better"] == "near 0.9"


def test_a_score_without_interval_says_why():
    none = Interval("accuracy", 0.75, np.nan, np.nan, 0.95, "none", "too few groups")
    row = Score("accuracy", none, None).row()
    assert (row["mean"], row["interval"], row["chance"]) == ("0.750", "-", "-")
    assert row["method"] == "too few groups"
