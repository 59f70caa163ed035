"""Bounds and defaults of Bayes decisions."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from voxprior import BayesDecision
from voxprior.decision import decide
from voxprior.decision.bayes import cost_matrix, reject_rule
from voxprior.decision.priors import estimate_priors

CLASSES = np.array(["a", "b"])


class Counted(ClassifierMixin, BaseEstimator):
    """States fixed probabilities, and counts of classes that do not sum to 1."""

    def __init__(self, counts=(3.0, 1.0)):
        self.counts = counts

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.class_prior_ = np.array(self.counts)
        return self

    def predict_proba(self, X):
        return np.column_stack([X[:, 0], 1 - X[:, 0]])


def data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    y = np.tile([0, 1], n // 2)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y


def test_priors_inside_are_made_to_sum_to_one():
    X, y = data()
    model = BayesDecision(Counted()).fit(X, y)
    np.testing.assert_allclose(model.train_priors_, [0.75, 0.25])
    np.testing.assert_array_equal(model.priors_, model.train_priors_)
    assert model.priors_ is not model.train_priors_
    given = BayesDecision(Counted(), train_priors=[0.4, 0.6], priors=[0.5, 0.5]).fit(X, y)
    np.testing.assert_allclose(given.train_priors_, [0.4, 0.6])
    p = given.predict_proba(np.array([[0.3, 0.0]]))[0]
    wanted = np.array([0.3 * 0.5 / 0.4, 0.7 * 0.5 / 0.6])
    np.testing.assert_allclose(p, wanted / wanted.sum())


def test_adapting_goes_on_until_it_stands_still():
    X, y = data()
    new = data(1)[0][data(1)[1] == 1]
    model = BayesDecision(GaussianNB()).fit(X, y)
    p = model.estimator_.predict_proba(new)
    wanted = estimate_priors(p, model.train_priors_, max_iterations=1000, tolerance=1e-8).priors
    np.testing.assert_array_equal(model.adapt_priors(new).priors_, wanted)
    once = estimate_priors(p, model.train_priors_, max_iterations=1, tolerance=1e-8).priors
    model.adapt_priors(new, max_iterations=1)
    np.testing.assert_array_equal(model.priors_, once)
    assert np.abs(once - wanted).max() > 1e-3


@pytest.mark.parametrize(
    ("labels", "abstention"),
    [([0, 1], -1), (["x", "y"], "reject"), (np.array(["x", "y"], dtype=object), "reject"),
     (np.array([1, 2], dtype="u1"), -1)],
)  # fmt: skip
def test_the_usual_label_of_abstentions(labels, abstention):
    X, y = data()
    model = BayesDecision(GaussianNB(), reject=0.9).fit(X, np.asarray(labels)[y])
    assert model.reject_label_ == abstention


def test_words_that_are_kept_as_objects_have_one_too():
    y = np.array(["x", "y"], dtype=object)[np.tile([0, 1], 5)]
    model = BayesDecision(Counted(), reject=0.9).fit(np.full((10, 1), 0.5), y)
    assert model.classes_.dtype == object
    assert model.reject_label_ == "reject"


@pytest.mark.parametrize("labels", [np.array([0.0, 1.0]), np.array([False, True])])
def test_labels_without_a_usual_one_need_one(labels):
    X, y = data()
    with pytest.raises(ValueError, match="no usual label"):
        BayesDecision(GaussianNB(), reject=0.9).fit(X, labels[y])
    told = BayesDecision(GaussianNB(), reject_label="?").fit(X, labels[y])
    assert told.reject_label_ == "?"  # without abstentions it is left alone


def test_thresholds_and_costs_at_their_bounds():
    assert reject_rule(0, CLASSES) == (0.0, None)
    assert reject_rule(1, CLASSES) == (1.0, None)
    for bad in (-0.001, 1.001):
        with pytest.raises(ValueError, match="not a threshold"):
            reject_rule(bad, CLASSES)
    with pytest.raises(ValueError, match="cannot be used"):
        reject_rule(True, CLASSES)
    np.testing.assert_array_equal(reject_rule({"cost": 0.2}, CLASSES)[1], [0.2, 0.2])
    np.testing.assert_array_equal(reject_rule({"cost": {"b": 1, "a": 2}}, CLASSES)[1], [2, 1])
    for bad in ([1.0], [1.0, np.inf], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="a finite number, or 2"):
            reject_rule({"cost": bad}, CLASSES)
    with pytest.raises(ValueError, match="are not the classes"):
        reject_rule({"cost": {"a": 1, "c": 1}}, CLASSES)


def test_costs_in_the_order_of_the_classes():
    np.testing.assert_array_equal(cost_matrix(None, CLASSES), [[0, 1], [1, 0]])
    told = cost_matrix({"b": {"a": 5}, "a": {"b": 2}}, CLASSES)
    np.testing.assert_array_equal(told, [[0, 2], [5, 0]])
    own = cost_matrix({"b": {"a": 5}, "a": {"b": 2, "a": -1}}, CLASSES)
    np.testing.assert_array_equal(own, [[-1, 2], [5, 0]])
    for bad in ([[0, 1]], [[0, 1], [1, np.nan]], np.zeros((3, 3))):
        with pytest.raises(ValueError, match=r"finite numbers of shape \(2, 2\)"):
            cost_matrix(bad, CLASSES)
    for bad in ({"a": {"b": 1}}, {"a": {"b": 1}, "b": {"a": 1}, "c": {}}):
        with pytest.raises(ValueError, match="The actions of costs"):
            cost_matrix(bad, CLASSES)


def test_answers_win_at_equal_cost():
    p = [[0.5, 0.5], [0.7, 0.3], [0.71, 0.29]]
    assert decide(p, threshold=0.7).tolist() == [-1, 0, 0]
    assert decide([[0.75, 0.25], [0.5, 0.5]], abstain=[0.25, 0.25]).tolist() == [0, -1]
    assert decide(p, [[0, 4], [1, 0]]).tolist() == [1, 1, 1]
    assert decide([[0.8, 0.2], [0.81, 0.19]], [[0, 4], [1, 0]]).tolist() == [0, 0]


def test_expected_costs_and_decisions():
    X, y = np.array([[0.9, 0], [0.6, 0], [0.2, 0]]), np.array([0, 1, 1])
    model = BayesDecision(Counted(), costs=[[0, 10], [1, 0]], reject={"cost": 0.5}).fit(X, y)
    p = model.predict_proba(X)
    wanted = np.column_stack([10 * p[:, 1], p[:, 0], np.full(3, 0.5)])
    np.testing.assert_allclose(model.expected_costs(X), wanted)
    assert model.predict(X).tolist() == [-1, -1, 1]
    plain = BayesDecision(Counted()).fit(X, y)
    np.testing.assert_allclose(plain.expected_costs(X), 1 - p)
    assert plain.predict(X).tolist() == [0, 0, 1]
