"""Every number of the page comes from the result: here it is made again from result.json."""

import json
import re

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression, Ridge
from tests.report.reading import Page, numbers, shown

from voxprior.report import report_of
from voxprior.validation import Result, cross_validate, permutation_test
from voxprior.validation.intervals import interval

# Of the page's own sentences: 95 % intervals, 80 % confidence, costs, and numbers of controls.
OF_THE_TEXT = {"95", "80", "0.00", "1", "0.3"}
# Years of what is cited.
CITED = {"1997", "2001", "2003", "2010", "2011", "2014", "2019"}


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    rng = np.random.default_rng(3)
    y, runs = np.tile(["house", "face", "face"], 16), np.repeat(np.arange(8), 6)
    X = rng.normal(size=(48, 12)) + 0.7 * (y == "face")[:, None]
    result = cross_validate(LogisticRegression(), X, y, runs)
    test = permutation_test(LogisticRegression(), X, y, runs, n_permutations=19)
    report = report_of(result, permutation=test, positive="face", prevalence=0.25)
    path = tmp_path_factory.mktemp("result") / "result.json"
    result.to_json(path)
    return Page(report.html), Result.from_json(path), test


def scores_of(result):
    table = result.predictions
    p = table[["p_face", "p_house"]].to_numpy()
    truth, is_face = table["y_true"], (table["y_true"] == "face").to_numpy()
    one_hot = np.column_stack([is_face, ~is_face])
    return {
        "accuracy": metrics.accuracy_score(truth, table["y_pred"]),
        "balanced accuracy": metrics.balanced_accuracy_score(truth, table["y_pred"]),
        "log loss": metrics.log_loss(truth, p),
        "Brier score": 0.5 * ((p - one_hot) ** 2).sum(axis=1).mean(),
        "area under ROC": metrics.roc_auc_score(is_face, p[:, 0]),
    }


def chance_of(result):
    return {
        "accuracy": 2 / 3,
        "balanced accuracy": 0.5,
        "log loss": -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)),
        "Brier score": (2 / 3) * (1 / 3),
        "area under ROC": 0.5,
    }


def test_the_scores(two_classes):
    page, result, _ = two_classes
    expected, chance = scores_of(result), chance_of(result)
    keys = dict(zip(expected, ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc")))
    first = [row[0] for row in page.tables["scores"][1:]]
    assert first == ["balanced accuracy", "log loss"]
    assert len(page.tables["all-scores"]) == 1 + len(keys)
    for name, value, limits, by_chance, *_ in (
        *page.tables["scores"][1:],
        *page.tables["all-scores"][1:],
    ):
        found = interval(result, keys[name])
        assert value == shown(expected[name]), name
        assert limits == f"{shown(found.low)} to {shown(found.high)}", name
        assert by_chance == shown(chance[name]), name


def clinic_of(result):
    """At a prevalence of 0.25 where two thirds were tested: odds are divided by 6."""
    p = result.predictions["p_face"].to_numpy()
    called = (p / (1 - p)) * (0.25 / 0.75) / 2 > 1
    face = (result.predictions["y_true"] == "face").to_numpy()
    s, t = called[face].mean(), (~called[~face]).mean()
    ppv = s * 0.25 / (s * 0.25 + (1 - t) * 0.75)
    npv = t * 0.75 / (t * 0.75 + (1 - s) * 0.25)
    return called, face, [s, t, ppv, npv]


def test_the_numbers_for_a_clinic(two_classes):
    page, result, _ = two_classes
    called, face, expected = clinic_of(result)
    rows = page.tables["clinic"][1:]
    assert [row[1] for row in rows] == [shown(value) for value in expected]
    assert rows[0][3] == f"{called[face].sum()} of {face.sum()}"
    assert rows[1][3] == f"{(~called[~face]).sum()} of {(~face).sum()}"
    assert {row[2] for row in rows} == {"-"}  # scans of a run do not stand for themselves


def test_the_decisions(two_classes):
    page, result, _ = two_classes
    called, face, _ = clinic_of(result)
    table = metrics.confusion_matrix(np.where(face, 0, 1), np.where(called, 0, 1)).T
    assert [row[1:] for row in page.tables["confusion"][1:3]] == table.astype(str).tolist()
    data = json.loads(page.scripts["data"])
    np.testing.assert_allclose(
        data["probabilities"], result.predictions[["p_face", "p_house"]], atol=1e-6
    )


def test_the_predictions_and_groups(two_classes):
    page, result, _ = two_classes
    told = json.loads(page.scripts["data"])["predictions"]
    table = result.predictions
    column = {name: [row[i] for row in told["rows"]] for i, name in enumerate(told["columns"])}
    assert column["truth"] == table["y_true"].tolist()
    assert column["prediction"] == table["y_pred"].tolist()
    assert column["P(face)"] == [shown(p) for p in table["p_face"]]
    right = table["y_true"] == table["y_pred"]
    (groups,) = [rows for rows in page.tables.values() if rows[0][:2] == ["group", "scans"]]
    by_run = right.groupby(table["group"]).agg(["size", "mean"])
    expected = [[str(int(n)), shown(mean)] for n, mean in by_run.to_numpy()]
    assert [row[1:] for row in groups[1:]] == expected


def test_no_other_number_is_on_the_page(two_classes):
    """What is not in a set made from result.json and the test must not be told."""
    page, result, test = two_classes
    table, settings = result.predictions, result.settings
    known = {shown(v) for v in (*scores_of(result).values(), *chance_of(result).values())}
    for key in result.score_names:
        known |= {shown(limit) for limit in interval(result, key)[2:4]}
    called, face, values = clinic_of(result)
    known |= {shown(v) for v in values} | {"0.25"}
    right = table["y_true"] == table["y_pred"]
    known |= {shown(v) for v in right.groupby(table["group"]).mean()}
    counts = [len(table), right.sum(), face.sum(), (~face).sum(), called[face].sum()]
    counts += [(~called[~face]).sum(), (called & ~face).sum(), (~called & face).sum(), 0]
    counts += [settings[key] for key in ("n_samples", "n_features", "n_groups", "n_folds")]
    counts += [*settings["class_counts"].values(), settings["random_state"], len(test.null)]
    counts += [*range(8), *table.groupby("group").size()]
    known |= {str(int(n)) for n in counts}
    known |= {f"{test.p_value:.3g}", f"{test.smallest_p:.3g}", shown(test.observed)}
    known |= {str(len(result.checks))}
    known |= set().union(*(numbers(str(check.to_dict())) for check in result.checks))
    ece = re.search(r"calibration error\) (\S+)\.", page.text["sure"])
    known.add(ece[1])  # of the picture above it, see test_figures
    assert test.line in page.text["answer"]  # it has tests of its own
    known |= numbers(test.line)
    told = set().union(*(numbers(page.text[part]) for part in ("answer", "sure", "predictions")))
    assert told - known - OF_THE_TEXT == set()
    known |= numbers(test.statement)  # which the methods hold whole
    methods = numbers(re.sub(r"\d+\.\d+\.\d+", "", page.text["methods"]))  # but for versions
    assert methods - known - OF_THE_TEXT - CITED == set()


def test_numbers_that_are_predicted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    result = cross_validate(Ridge(), X + y[:, None], y, cv=5)
    page = Page(report_of(result).html)
    table = result.predictions
    found = {row[0]: row[1] for row in page.tables["scores"][1:]}
    assert found["R²"] == shown(metrics.r2_score(table["y_true"], table["y_pred"]))
    error = metrics.mean_absolute_error(table["y_true"], table["y_pred"])
    assert found["mean absolute error"] == shown(error)
