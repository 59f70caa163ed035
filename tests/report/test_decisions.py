"""Numbers for a clinic: they follow from the table of decisions and the prevalence."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior.errors import InputError
from voxprior.report.decisions import check_interest, clinic, decided, predictive_values
from voxprior.validation import cross_validate


def study(groups=None, n=40):
    rng = np.random.default_rng(1)
    y = np.tile(["ill", "well"], n // 2)
    X = rng.normal(size=(n, 6)) + 0.6 * (y == "ill")[:, None]
    return cross_validate(LogisticRegression(), X, y, groups, cv=4 if groups is None else None)


def test_predictive_values_are_bayes_rule():
    """Counted in a population of 100,000 of whom 2 % are ill: 1,800 found, 4,900 false alarms."""
    found, cleared = predictive_values(0.9, 0.95, 0.02)
    assert found == pytest.approx(1800 / (1800 + 4900))
    assert cleared == pytest.approx(93100 / (93100 + 200))


def test_the_class_of_interest_is_the_one_that_was_asked_for():
    result = study()
    ill, well = decided(result, "ill"), decided(result, "well")
    assert (ill["positive"], well["positive"]) == (0, 1)
    assert ill["clinic"][0]["value"] == well["clinic"][1]["value"]
    assert ill["clinic"][0]["of"] == well["clinic"][1]["of"]
    truth, guess = result.predictions["y_true"], result.predictions["y_pred"]
    assert float(ill["clinic"][0]["value"]) == pytest.approx(
        (guess == truth)[truth == "ill"].mean()
    )
    assert decided(result)["positive"] == 1


def test_a_rare_class_is_decided_for_more_rarely():
    result = study()
    usual, rare = decided(result, "ill"), decided(result, "ill", prevalence=0.02)
    assert sum(rare["confusion"][0]["counts"]) < sum(usual["confusion"][0]["counts"])
    assert rare["prevalence"] == pytest.approx([0.02, 0.98])
    assert rare["clinic"][2]["of"] == "at a prevalence of 0.02"


def test_intervals_only_where_scans_stand_for_themselves():
    assert decided(study())["clinic"][0]["interval"] != "-"
    grouped = decided(study(np.repeat(np.arange(10), 4)))
    assert grouped["clinic"][0]["interval"] == "-"
    assert "not independent" in grouped["clinic_note"]
    assert decided(study())["clinic_note"] == ""


def test_an_empty_side_is_told_by_a_dash():
    rows = clinic(np.array([[0, 0], [0, 7]]), 1, np.array([0.5, 0.5]), alone=True)
    assert [row["value"] for row in rows] == ["1.000", "-", "-", "-"]


@pytest.mark.parametrize(
    ("y", "positive", "prevalence", "told"),
    [
        (["a", "b"], "c", None, "positive='c' is not a class"),
        ([0.5, 1.5, 2.7], "a", None, "labels are numbers"),
        (["a", "b"], "a", 1.0, "prevalence=1.0 is not a share"),
        (["a", "b", "c"], None, 0.2, "is for two classes"),
    ],
)
def test_what_cannot_be_is_refused(y, positive, prevalence, told):
    with pytest.raises(InputError, match=told):
        check_interest(np.array(y), positive, prevalence)
