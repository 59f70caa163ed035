"""Bayes decisions: the lecture's examples, laws of costs and of abstention."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior.decision import BayesDecision, correct_priors, decide, estimate_priors


class Says(ClassifierMixin, BaseEstimator):
    """A classifier whose posteriors are its input."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.classes_ = np.unique(y)
        self.sample_weight_, self.groups_ = sample_weight, groups
        return self

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)


SLIDES = np.array([[0.8, 0.05, 0.15], [0.31, 0.34, 0.35]])


def three(**kwargs):
    return BayesDecision(Says(), **kwargs).fit(np.eye(3), [1, 2, 3])


def two(**kwargs):
    return BayesDecision(Says(), **kwargs).fit(np.eye(2), ["healthy", "ill"])


@pytest.fixture
def data(rng):
    y = np.repeat(["control", "unipolar", "schizophrenia"], [30, 20, 10])
    X = rng.normal(size=(60, 4)) + 1.0 * (y[:, None] == np.unique(y)[[0, 1, 2, 0]])
    return X, y


@parametrize_with_checks(
    [
        BayesDecision(LogisticRegression()),
        BayesDecision(LogisticRegression(), priors="uniform"),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


class TestLecture:
    def test_clear_and_unclear_posteriors(self):
        assert three().predict(SLIDES).tolist() == [1, 3]
        assert three(reject=0.5).predict(SLIDES).tolist() == [1, -1]

    def test_ambiguous_against_confident(self):
        posteriors = [[0.45, 0.55], [0.01, 0.99]]
        assert two().predict(posteriors).tolist() == ["ill", "ill"]
        assert two(reject=0.9).predict(posteriors).tolist() == ["reject", "ill"]

    def test_disease_prevalence(self):
        """A test that is right 9 times of 10 on equal groups; 1 in 100 is ill: Bayes gives 1/12."""
        model = two(priors={"ill": 0.01, "healthy": 0.99})
        assert model.predict_proba([[0.1, 0.9]])[0, 1] == pytest.approx(1 / 12)
        assert model.predict([[0.1, 0.9]]).tolist() == ["healthy"]

    def test_missing_an_illness_costs_more(self):
        model = two(costs={"healthy": {"ill": 10}, "ill": {"healthy": 1}})
        assert model.predict([[0.8, 0.2], [0.95, 0.05]]).tolist() == ["ill", "healthy"]
        np.testing.assert_allclose(model.expected_costs([[0.8, 0.2]]), [[2.0, 0.8]])


posteriors = st.integers(2, 5).flatmap(
    lambda C: st.lists(
        st.lists(st.floats(0.001, 1), min_size=C, max_size=C), min_size=1, max_size=6
    )
)


class TestLaws:
    @settings(max_examples=80, deadline=None)
    @given(posteriors, st.floats(0, 1))
    def test_chow_is_the_cost_of_abstaining(self, raw, threshold):
        """With 0-1 costs, abstaining below t and abstaining at cost 1 - t are one rule."""
        p = np.array(raw) / np.sum(raw, axis=1, keepdims=True)
        clear = np.abs(p.max(axis=1) - threshold) > 1e-9
        by_threshold = decide(p, threshold=threshold)
        by_cost = decide(p, abstain=1 - threshold)
        assert np.array_equal(by_threshold[clear], by_cost[clear])

    @settings(max_examples=80, deadline=None)
    @given(posteriors, st.integers(0, 1000))
    def test_no_action_is_cheaper(self, raw, seed):
        p = np.array(raw) / np.sum(raw, axis=1, keepdims=True)
        C = p.shape[1]
        L = np.random.default_rng(seed).normal(size=(C, C))
        chosen = decide(p, L)
        for row, action in zip(p, chosen):
            expected = [sum(L[a, c] * row[c] for c in range(C)) for a in range(C)]
            assert expected[action] <= min(expected) + 1e-12

    def test_a_constant_for_a_class_changes_nothing(self, rng):
        p, L = rng.dirichlet(np.ones(4), size=50), rng.normal(size=(4, 4))
        assert np.array_equal(decide(p, L), decide(p, L + rng.normal(size=4)))

    def test_ties_go_to_the_first_class_and_to_answers(self):
        assert decide([[0.5, 0.5]]).tolist() == [0]
        assert decide([[0.5, 0.5]], abstain=0.5).tolist() == [0]
        assert decide([[0.5, 0.5]], threshold=0.5).tolist() == [0]

    def test_all_errors_alike_is_the_largest_posterior(self, rng):
        p = rng.dirichlet(np.ones(3), size=100)
        assert np.array_equal(decide(p), p.argmax(axis=1))
        assert np.array_equal(decide(p, 1 - np.eye(3)), p.argmax(axis=1))

    def test_cost_of_abstaining_by_class(self):
        p = [[0.6, 0.4], [0.4, 0.6]]
        assert decide(p, abstain=[0.0, 0.9]).tolist() == [-1, 1]


class TestPriors:
    def test_correction_is_bayes_rule(self, rng):
        likelihood = rng.random((20, 3))
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, 0.8])
        before, after = likelihood * p, likelihood * q
        before /= before.sum(axis=1, keepdims=True)
        after /= after.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(correct_priors(before, p, q), after, rtol=1e-12)
        back = correct_priors(correct_priors(before, p, q), q, p)
        np.testing.assert_allclose(back, before, rtol=1e-12)

    def test_lda_refitted_with_other_priors(self, data):
        """LDA takes priors itself: correcting its posteriors must give the same."""
        X, y = data
        q = np.array([0.2, 0.2, 0.6])
        ours = BayesDecision(LinearDiscriminantAnalysis(), priors=q).fit(X, y)
        theirs = LinearDiscriminantAnalysis(priors=q).fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8)

    def test_where_the_training_prior_comes_from(self, data):
        X, y = data
        frequencies = np.array([30, 10, 20]) / 60
        own = BayesDecision(GaussianNB(priors=[0.2, 0.3, 0.5])).fit(X, y)
        np.testing.assert_allclose(own.train_priors_, [0.2, 0.3, 0.5])
        inside = BayesDecision(make_pipeline(StandardScaler(), GaussianNB(priors=[0.2, 0.3, 0.5])))
        np.testing.assert_allclose(inside.fit(X, y).train_priors_, [0.2, 0.3, 0.5])
        searched = GridSearchCV(GaussianNB(priors=[0.2, 0.3, 0.5]), {"var_smoothing": [1e-9]})
        np.testing.assert_allclose(BayesDecision(searched).fit(X, y).train_priors_, [0.2, 0.3, 0.5])
        counted = BayesDecision(LogisticRegression()).fit(X, y)
        np.testing.assert_allclose(counted.train_priors_, frequencies)
        said = BayesDecision(LogisticRegression(), train_priors="uniform").fit(X, y)
        np.testing.assert_allclose(said.train_priors_, np.ones(3) / 3)

    def test_em_finds_the_prevalence(self, rng):
        truth = np.array([0.85, 0.15])
        y = rng.choice(2, size=4000, p=truth)
        x = rng.normal(size=4000) + 2 * y
        log_odds = 2 * x - 2  # at equal priors
        p = 1 / (1 + np.exp(-np.column_stack([-log_odds, log_odds])))
        estimate = estimate_priors(p, [0.5, 0.5])
        assert estimate.converged
        np.testing.assert_allclose(estimate.priors, truth, atol=0.02)
        assert np.all(np.diff(estimate.log_likelihood) >= -1e-9)

    def test_em_with_certain_posteriors_counts(self):
        p = np.repeat(np.eye(3), [5, 3, 2], axis=0)
        np.testing.assert_allclose(estimate_priors(p, np.ones(3) / 3).priors, [0.5, 0.3, 0.2])

    def test_adapting_is_explicit(self, rng):
        """Predictions of a scan never depend on its batch, before and after adapting."""
        model = two()
        batch = rng.dirichlet([1, 5], size=40)
        before = model.predict_proba(batch)
        np.testing.assert_array_equal(before, batch)
        model.adapt_priors(batch)
        assert model.priors_[1] > 0.7
        alone = np.concatenate([model.predict_proba(row[None]) for row in batch])
        np.testing.assert_allclose(alone, model.predict_proba(batch), rtol=1e-12)

    @pytest.mark.parametrize(
        ("priors", "message"),
        [
            ("flat", "uniform"),
            ([0.5, 0.4], "a sum of 1"),
            ([1.0, 0.0], "positive"),
            ([0.2, 0.3, 0.5], "2 positive"),
            ({"ill": 1.0}, "every class"),
        ],
    )
    def test_bad_priors(self, priors, message):
        with pytest.raises(ValueError, match=message):
            two(priors=priors)


class TestCosts:
    def test_three_ways_to_write_them(self, data):
        X, y = data
        labels = ["schizophrenia", "control", "unipolar"]
        L = pd.DataFrame([[0, 3, 2], [5, 0, 1], [4, 1, 0]], index=labels, columns=labels)
        ordered = L.loc[sorted(labels), sorted(labels)]
        nested = {a: {c: L.loc[a, c] for c in labels if c != a} for a in labels}
        models = [
            BayesDecision(LogisticRegression(), costs=c).fit(X, y)
            for c in (L, ordered.to_numpy(), nested)
        ]
        for model in models:
            np.testing.assert_array_equal(model.costs_, ordered.to_numpy())

    @pytest.mark.parametrize(
        "costs",
        [
            np.zeros((3, 2)),
            [[0, np.inf], [1, 0]],
            {"healthy": {"ill": 1}},
            {"healthy": {"sick": 1}, "ill": {"healthy": 1}},
            pd.DataFrame([[0, 1], [1, 0]]),
        ],
        ids=range(5),
    )
    def test_bad_costs(self, costs):
        with pytest.raises(ValueError, match="costs"):
            two(costs=costs)


class TestReject:
    def test_label_collision(self):
        with pytest.raises(ValueError, match="also the label"):
            BayesDecision(Says(), reject=0.5).fit(np.eye(2), [-1, 1])
        with pytest.raises(ValueError, match="also the label"):
            two(reject=0.5, reject_label="ill")
        BayesDecision(Says()).fit(np.eye(2), [-1, 1])  # no abstention, no collision

    def test_own_label(self):
        assert two(reject=0.9, reject_label="?").predict([[0.5, 0.5]]).tolist() == ["?"]
        model = BayesDecision(Says(), reject=0.9, reject_label=0).fit(np.eye(2), [-1, 1])
        assert model.predict([[0.5, 0.5]]).tolist() == [0]

    def test_labels_without_a_usual_one(self):
        with pytest.raises(ValueError, match="Give reject_label"):
            BayesDecision(Says(), reject=0.5).fit(np.eye(2), [0.5, 1.5])

    def test_by_cost(self):
        model = two(reject={"cost": 0.2})
        assert model.predict([[0.75, 0.25], [0.85, 0.15]]).tolist() == ["reject", "healthy"]
        np.testing.assert_allclose(model.expected_costs([[0.7, 0.3]]), [[0.3, 0.7, 0.2]])
        by_class = two(reject={"cost": {"ill": 0.0, "healthy": 1.0}})
        assert by_class.predict([[0.4, 0.6]]).tolist() == ["ill"]

    @pytest.mark.parametrize(
        "reject", [1.5, "no", {"price": 1}, {"cost": [1, 2, 3]}, {"cost": 1, "threshold": 0.5}]
    )
    def test_bad_rules(self, reject):
        with pytest.raises(ValueError, match=r"reject|abstaining"):
            two(reject=reject)

    def test_needs_probabilities(self, data):
        with pytest.raises(TypeError, match="predict_proba"):
            BayesDecision(LinearSVC()).fit(*data)


class TestMetadata:
    def test_clone_keeps_everything(self):
        model = two(
            costs={"healthy": {"ill": 3}, "ill": {"healthy": 1}},
            priors={"ill": 0.2, "healthy": 0.8},
            reject={"cost": 0.1},
            reject_label="?",
        )
        copy = clone(model)
        assert {k: v for k, v in copy.get_params(deep=False).items() if k != "estimator"} == {
            k: v for k, v in model.get_params(deep=False).items() if k != "estimator"
        }

    def test_weights_and_groups_reach_the_inside(self):
        weight, groups = np.array([1.0, 3.0]), np.array([5, 6])
        model = BayesDecision(Says()).fit(np.eye(2), [0, 1], sample_weight=weight, groups=groups)
        assert model.estimator_.sample_weight_ is weight
        assert model.estimator_.groups_ is groups
        np.testing.assert_allclose(model.train_priors_, [0.25, 0.75])

    def test_weights_through_a_pipeline(self, data):
        X, y = data
        weight = np.linspace(0.1, 2, len(y))
        pipeline = make_pipeline(StandardScaler(), BayesDecision(LogisticRegression()))
        pipeline.fit(X, y, bayesdecision__sample_weight=weight)
        inside = make_pipeline(StandardScaler(), LogisticRegression())
        inside.fit(X, y, logisticregression__sample_weight=weight)
        np.testing.assert_allclose(pipeline.predict_proba(X), inside.predict_proba(X))

    def test_routed_metadata(self, data):
        X, y = data
        weight = np.linspace(0.1, 2, len(y))
        with sklearn.config_context(enable_metadata_routing=True):
            inner = LogisticRegression().set_fit_request(sample_weight=True)
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            pipeline = make_pipeline(scaler, BayesDecision(inner, reject=0.4))
            predicted = cross_val_predict(pipeline, X, y, params={"sample_weight": weight})
            pipeline.fit(X, y, sample_weight=weight)
        expected = LogisticRegression().fit(StandardScaler().fit_transform(X), y, weight)
        p = expected.predict_proba(StandardScaler().fit_transform(X))
        np.testing.assert_allclose(pipeline.predict_proba(X), p)
        assert set(predicted) <= {*y, "reject"}

    def test_routed_groups(self):
        groups = np.array([5, 6])
        with sklearn.config_context(enable_metadata_routing=True):
            model = BayesDecision(Says().set_fit_request(groups=True))
            model.fit(np.eye(2), [0, 1], groups=groups)
        assert model.estimator_.groups_ is groups

    def test_cross_val_predict_with_abstentions(self, data):
        X, y = data
        model = BayesDecision(LogisticRegression(), reject=0.6)
        predicted = cross_val_predict(model, X, y)
        p = cross_val_predict(model, X, y, method="predict_proba")
        assert np.array_equal(predicted == "reject", p.max(axis=1) < 0.6)
        assert 0 < np.mean(predicted == "reject") < 1

    def test_maps_of_the_inside(self):
        class Mapped(Says):
            def voxel_maps(self):
                return {"weight": np.ones(2)}

        model = BayesDecision(Mapped())
        assert not hasattr(model, "voxel_maps")
        assert list(model.fit(np.eye(2), [0, 1]).voxel_maps()) == ["weight"]
        assert not hasattr(BayesDecision(Says()).fit(np.eye(2), [0, 1]), "voxel_maps")

    def test_class_without_weight_cannot_be_corrected(self):
        model = BayesDecision(Says(), priors="uniform")
        with pytest.raises(ValueError, match="no weight"):
            model.fit(np.eye(2), [0, 1], sample_weight=np.array([1.0, 0.0]))

    def test_integer_labels_stay_integers(self):
        assert three(reject=0.5).predict(SLIDES).dtype.kind == "i"
        assert three().predict(SLIDES).dtype == np.array([1]).dtype
