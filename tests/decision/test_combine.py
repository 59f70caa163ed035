"""Combining posteriors: the prior counts once, weights follow evidence."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import GPClassifier
from voxprior.decision import (
    CombinedClassifier,
    combine_mean,
    combine_product,
    evidence_weights,
    log_loss_weights,
)
from voxprior.errors import InputError

BOTH = [("nb", GaussianNB()), ("logistic", LogisticRegression())]


@parametrize_with_checks(
    [
        CombinedClassifier(BOTH),
        CombinedClassifier(BOTH, rule="product", weights="log_loss"),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


class Evident(GaussianNB):
    def __init__(self, log_evidence=0.0):
        super().__init__()
        self.log_evidence = log_evidence

    def fit(self, X, y):
        self.log_evidence_ = self.log_evidence
        return super().fit(X, y)


@pytest.fixture
def data(rng):
    y = np.tile(["a", "a", "b"], 12)
    X = rng.normal(size=(36, 6)) + (y == "b")[:, None]
    return X, y


class TestFunctions:
    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 4))
    def test_product_of_independent_data_is_bayes_rule(self, seed, K, C):
        rng = np.random.default_rng(seed)
        prior, likelihood = rng.dirichlet(np.ones(C)), rng.random((K, 5, C)) + 0.01
        posteriors = likelihood * prior
        posteriors /= posteriors.sum(axis=2, keepdims=True)
        together = likelihood.prod(axis=0) * prior
        together /= together.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(combine_product(posteriors, prior), together, rtol=1e-9)

    def test_ignorant_classifiers_change_nothing(self, rng):
        p, prior = rng.dirichlet(np.ones(3), size=6), np.array([0.2, 0.3, 0.5])
        ignorant = np.tile(prior, (6, 1))
        np.testing.assert_allclose(combine_product([p, ignorant, ignorant], prior), p)

    def test_weights_of_one_classifier(self, rng):
        p, q = rng.dirichlet(np.ones(3), size=(2, 6))
        np.testing.assert_allclose(combine_mean([p, q], [1, 0]), p)
        np.testing.assert_allclose(combine_product([p, q], np.ones(3) / 3, [0, 1]), q)

    def test_mean_is_the_mean(self, rng):
        p = rng.dirichlet(np.ones(3), size=(4, 6))
        np.testing.assert_allclose(combine_mean(p), p.mean(axis=0))

    def test_certainty_stays_finite(self):
        p = combine_product([[[1.0, 0.0]], [[0.0, 1.0]]], [0.5, 0.5])
        np.testing.assert_allclose(p, [[0.5, 0.5]])

    def test_evidence_and_log_loss_weights(self):
        np.testing.assert_allclose(evidence_weights([-1000, -1000 + np.log(3)]), [0.25, 0.75])
        np.testing.assert_allclose(log_loss_weights([0.5, 0.5 + np.log(3) / 10], 10), [0.75, 0.25])


class TestEstimator:
    @pytest.mark.parametrize("rule", ["mean", "product"])
    @pytest.mark.parametrize("weights", [None, "log_loss"])
    def test_one_classifier_is_itself(self, data, rule, weights):
        X, y = data
        alone = CombinedClassifier([("nb", GaussianNB())], rule=rule, weights=weights).fit(X, y)
        expected = GaussianNB().fit(X, y).predict_proba(X)
        np.testing.assert_allclose(alone.predict_proba(X), expected, rtol=1e-9)

    def test_uninformed_classifier_gets_no_weight(self, data):
        X, y = data
        pair = [("blind", DummyClassifier()), ("logistic", LogisticRegression())]
        weights = CombinedClassifier(pair, weights="log_loss").fit(X, y).weights_
        assert weights[1] > 0.9

    def test_evidence(self, data):
        X, y = data
        pair = [("a", Evident(-12.0)), ("b", Evident(-12.0 + np.log(4)))]
        combined = CombinedClassifier(pair, weights="evidence").fit(X, y)
        np.testing.assert_allclose(combined.weights_, [0.2, 0.8])
        with pytest.raises(ValueError, match="log_evidence_"):
            CombinedClassifier(BOTH, weights="evidence").fit(X, y)

    def test_parameters_of_the_parts(self, data):
        combined = clone(CombinedClassifier(BOTH)).set_params(logistic__C=3.0)
        assert combined.get_params()["logistic__C"] == 3.0
        assert combined.fit(*data).estimators_[1].C == 3.0

    def test_weights_and_groups_reach_the_parts(self, data):
        X, y = data
        w = np.linspace(0.1, 2, 36)
        combined = CombinedClassifier(BOTH).fit(X, y, sample_weight=w)
        expected = (
            GaussianNB().fit(X, y, w).predict_proba(X)
            + LogisticRegression().fit(X, y, w).predict_proba(X)
        ) / 2
        np.testing.assert_allclose(combined.predict_proba(X), expected)
        with sklearn.config_context(enable_metadata_routing=True):
            parts = [(n, clone(m).set_fit_request(sample_weight=True)) for n, m in BOTH]
            routed = CombinedClassifier(parts).fit(X, y, sample_weight=w)
        np.testing.assert_allclose(routed.predict_proba(X), expected)

    def test_held_out_by_group(self, data):
        X, y = data
        groups = np.repeat(np.arange(4), 9)
        by_group = CombinedClassifier(BOTH, weights="log_loss").fit(X, y, groups=groups)
        by_scan = CombinedClassifier(BOTH, weights="log_loss").fit(X, y)
        assert not np.allclose(by_group.weights_, by_scan.weights_)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"rule": "vote"}, "rule"),
            ({"weights": [1.0]}, "2 numbers"),
            ({"weights": [0.0, 0.0]}, "not all 0"),
            ({"weights": "size"}, "evidence"),
            ({"estimators": []}, "at least one"),
        ],
    )
    def test_bad_parameters(self, data, params, message):
        with pytest.raises(ValueError, match=message):
            CombinedClassifier(**{"estimators": BOTH} | params).fit(*data)

    def test_needs_probabilities(self, data):
        with pytest.raises(TypeError, match="predict_proba"):
            CombinedClassifier([("svm", LinearSVC())]).fit(*data)


class TestEvidence:
    """An evidence is the probability of all labels; other numbers do not weigh models."""

    @pytest.fixture
    def three(self, rng):
        y = np.tile(["a", "b", "c"], 6)
        return rng.normal(size=(18, 5)) + 2 * (np.unique(y, return_inverse=True)[1])[:, None], y

    def test_one_against_the_rest_is_refused(self, three):
        pair = [("linear", GPClassifier()), ("rbf", GPClassifier("rbf"))]
        with pytest.raises(InputError, match="one for each class against the rest") as refusal:
            CombinedClassifier(pair, weights="evidence").fit(*three)
        assert "weights='left_out'" in str(refusal.value)
        weights = CombinedClassifier(pair, weights="left_out").fit(*three).weights_
        scores = [model.fit(*three).left_out_log_score_ for _, model in pair]
        np.testing.assert_allclose(weights, evidence_weights(scores), rtol=1e-6)

    def test_models_of_the_labels_as_a_whole_are_weighed(self, three):
        pair = [
            ("multinomial", GPClassifier(multiclass="multinomial")),
            ("softmax", GPClassifier(inference="laplace")),
        ]
        weights = CombinedClassifier(pair, weights="evidence").fit(*three).weights_
        evidences = [model.fit(*three).log_evidence_ for _, model in pair]
        np.testing.assert_allclose(weights, evidence_weights(evidences), rtol=1e-6)

    @pytest.mark.parametrize("value", [np.nan, -np.inf, np.array([-1.0, -2.0])])
    def test_other_numbers_are_refused(self, data, value):
        pair = [("a", Evident(-3.0)), ("b", Evident(value))]
        with pytest.raises(InputError, match="evidence of the labels as a whole"):
            CombinedClassifier(pair, weights="evidence").fit(*data)

    def test_models_without_a_score_are_refused(self, data):
        with pytest.raises(InputError, match="GaussianNB, which has none"):
            CombinedClassifier([("nb", GaussianNB())], weights="left_out").fit(*data)
