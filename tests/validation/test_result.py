"""Result: scores against scikit-learn's, a faithful round trip, tables that mean what they say."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut

from voxprior.validation import Finding, Result, chance_level, cross_validate, interval
from voxprior.validation.scores import score_predictions


def table(truth, p, labels):
    labels = np.array(labels)
    columns = {"y_true": truth, "y_pred": labels[np.argmax(p, axis=1)].tolist()}
    return pd.DataFrame(columns | {f"p_{c}": p[:, k] for k, c in enumerate(labels.tolist())})


@pytest.fixture
def result(rng):
    y = np.repeat(["a", "b", "c"], [10, 10, 16])
    X = rng.normal(size=(36, 5)) + (y == "a")[:, None]
    return cross_validate(LogisticRegression(), X, y, np.tile(np.arange(4), 9))


class TestScores:
    def test_worked_example(self):
        p = np.array([[0.8, 0.05, 0.15], [0.31, 0.34, 0.35]])
        scores = score_predictions(table([1, 2], p, [1, 2, 3]), "classification", (1, 2, 3))
        assert scores["accuracy"] == 0.5
        assert scores["log_loss"] == pytest.approx(-(np.log(0.8) + np.log(0.34)) / 2)
        brier = (0.2**2 + 0.05**2 + 0.15**2 + 0.31**2 + 0.66**2 + 0.35**2) / 4
        assert scores["brier"] == pytest.approx(brier)
        assert np.isnan(scores["auc"])

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10_000), st.integers(2, 4))
    def test_are_scikit_learns(self, seed, n_classes):
        rng = np.random.default_rng(seed)
        truth = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=12)])
        p = rng.dirichlet(np.ones(n_classes), size=len(truth))
        labels = tuple(range(n_classes))
        scores = score_predictions(table(truth, p, labels), "classification", labels)
        guess = p.argmax(axis=1)
        assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(truth, guess))
        expected = metrics.balanced_accuracy_score(truth, guess)
        assert scores["balanced_accuracy"] == pytest.approx(expected)
        assert scores["log_loss"] == pytest.approx(metrics.log_loss(truth, p, labels=labels))
        if n_classes == 2:
            assert scores["brier"] == pytest.approx(metrics.brier_score_loss(truth, p[:, 1]))
            assert scores["auc"] == pytest.approx(metrics.roc_auc_score(truth, p[:, 1]))
        else:
            expected = metrics.roc_auc_score(truth, p, multi_class="ovr")
            assert scores["auc"] == pytest.approx(expected)

    def test_certain_and_wrong_stays_finite(self):
        p = np.array([[1.0, 0.0]])
        scores = score_predictions(table([1], p, [0, 1]), "classification", (0, 1))
        assert scores["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps))
        assert scores["brier"] == 1

    def test_abstentions(self):
        predictions = pd.DataFrame(
            {"y_true": ["a", "a", "b", "b"], "y_pred": ["a", "reject", "b", "a"]}
        )
        scores = score_predictions(predictions, "classification", ("a", "b"))
        assert scores["accuracy"] == 0.5
        assert scores["coverage"] == 0.75
        assert scores["selective_accuracy"] == pytest.approx(2 / 3)

    def test_regression(self, rng):
        truth, guess = rng.normal(size=(2, 9))
        predictions = pd.DataFrame({"y_true": truth, "y_pred": guess})
        scores = score_predictions(predictions, "regression", ())
        assert scores["r2"] == pytest.approx(metrics.r2_score(truth, guess))
        assert scores["mae"] == pytest.approx(metrics.mean_absolute_error(truth, guess))
        assert np.isnan(score_predictions(predictions[:1], "regression", ())["r2"])


class TestRoundTrip:
    def test_through_json_text(self, result):
        text = result.to_json()
        again = Result.from_dict(json.loads(text))
        assert again.equals(result)
        assert again.settings == result.settings
        assert again.to_json() == text
        assert result.seconds > 0
        assert again.summary()["seconds"] is None

    def test_timings_are_not_saved(self, result):
        slower = replace(result, timings=result.timings + 1)
        assert slower.to_json() == result.to_json()

    def test_a_file_with_timings_is_read(self, result):
        old = result.to_dict() | {"format": 1, "timings": {"columns": [], "float": [], "data": {}}}
        del old["schema_version"]
        assert Result.from_dict(old).equals(result)

    def test_through_a_file(self, result, tmp_path):
        result.to_json(tmp_path / "result.json")
        assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
        assert Result.from_json(tmp_path / "result.json").equals(result)

    @pytest.mark.parametrize("labels", [["x", "y"], [3, 7], [False, True]])
    def test_any_labels(self, rng, labels):
        y = np.repeat(labels, 6)
        result = cross_validate(LogisticRegression(), rng.normal(size=(12, 2)), y, cv=3)
        again = Result.from_dict(json.loads(result.to_json()))
        assert again.classes == tuple(labels)
        assert again.equals(result)

    def test_missing_scores_come_back(self, rng):
        X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
        result = cross_validate(Ridge(), X, y, cv=LeaveOneOut())
        assert result.scores["r2"].isna().all()
        assert Result.from_dict(json.loads(result.to_json())).equals(result)

    def test_other_format(self, result):
        with pytest.raises(ValueError, match="schema_version 99"):
            Result.from_dict(result.to_dict() | {"schema_version": 99})


class TestSummary:
    def test_says_what_was_run(self, result):
        summary = result.summary()
        assert summary["n_samples"] == 36
        assert summary["n_groups"] == 4
        assert summary["n_folds"] == 4
        assert summary["settings"]["parameters"]["C"] == 1.0
        assert summary["settings"]["class_counts"] == {"a": 10, "b": 10, "c": 16}
        assert summary["scores"]["accuracy"]["mean"] == result.scores["accuracy"].mean()
        json.dumps(summary)

    def test_unequal_classes_put_balanced_accuracy_first(self, result, rng):
        assert result.score_names[0] == "balanced_accuracy"
        assert next(iter(result.summary()["scores"])) == "balanced_accuracy"
        y = np.repeat([0, 1], 8)
        even = cross_validate(LogisticRegression(), rng.normal(size=(16, 2)), y)
        assert even.score_names[0] == "accuracy"

    def test_no_probabilities_is_said(self, rng):
        result = cross_validate(Ridge(), rng.normal(size=(6, 2)), rng.normal(size=6))
        with pytest.raises(ValueError, match="no probabilities"):
            result.probabilities()

    def test_is_frozen(self, result):
        with pytest.raises(AttributeError):
            result.task = "regression"


class TestTable:
    def test_is_the_intervals_and_chance_levels(self, rng):
        y, runs = np.tile([0, 1], 12), np.repeat(range(6), 4)
        result = cross_validate(LogisticRegression(), rng.normal(size=(24, 3)), y, runs)
        table = result.table()
        assert table.index.tolist() == result.score_names
        for name, row in table.iterrows():
            found = interval(result, name)
            assert (row["value"], row["low"], row["high"]) == found[1:4]
            assert row["chance"] == chance_level(result, name)
            assert row["method"] == found.method
        wide = result.table(level=0.99)
        assert (wide["low"] < table["low"]).all()

    def test_no_interval_says_why(self, result):
        table = result.table()
        assert table[["low", "high"]].isna().all(axis=None)
        assert set(table["method"]) == {"fewer than 5 independent groups"}

    def test_a_score_without_chance(self, result):
        abstained = replace(result, scores=result.scores.assign(coverage=0.5))
        assert np.isnan(abstained.table().loc["coverage", "chance"])
        assert "coverage" in repr(abstained)


class TestShown:
    def test_title_scores_and_findings(self, result):
        known = (
            Finding("scan-scale", "error", "x", True),
            Finding("leave-one-out", "warning", "x"),
        )
        lines = repr(replace(result, findings=known)).splitlines()
        assert lines[0] == (
            "Result of classification: 36 scans, 4 groups, 4 folds; leaving one run, subject or "
            "other group out at a time"
        )
        assert lines[1].split() == ["value", "95", "%", "interval", "chance", "method"]
        assert [line.split()[0] for line in lines[2:-1]] == result.score_names
        value = f"{result.pooled()['balanced_accuracy']:.3f}"
        assert lines[2].split()[1:5] == [value, "-", "0.333", "fewer"]
        assert lines[-1] == "Audit: scan-scale (allowed), leave-one-out (warning)"
        assert str(result) == repr(result)

    def test_scans_without_groups_and_an_interrupted_run(self, rng):
        done = cross_validate(Ridge(), rng.normal(size=(12, 2)), rng.normal(size=12), cv=3)
        assert repr(done).startswith("Result of regression: 12 scans, 3 folds; 3-fold")
        assert "groups" not in repr(done).splitlines()[0]
        assert "3 of 3 (interrupted) folds" in repr(replace(done, complete=False))

    def test_a_result_that_was_read(self, result):
        assert repr(Result.from_dict(result.to_dict())) == repr(result)
        bare = replace(result, settings={})
        assert repr(bare).startswith("Result of classification: 36 scans, 4 folds\n")

    def test_html_shows_markup_and_does_not_obey_it(self, result):
        odd = replace(
            result,
            settings=result.settings | {"split": "<script>alert(1)</script>"},
            findings=(Finding("<b>", "warning", "x"),),
        )
        page = odd._repr_html_()
        assert "<script>" not in page
        assert "&lt;script&gt;alert(1)" in page
        assert "Audit: &lt;b&gt; (warning)" in page
        assert page.count("<tr") == 1 + len(result.score_names)
        assert "fewer than 5 independent groups" in page
