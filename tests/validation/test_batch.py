"""Permutation tests in batch: what is chosen, that it is what it says, and how it is told."""

import warnings

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from voxprior import FeatureSharingNB, GPClassifier, RVMClassifier
from voxprior.validation import FewShotSplit, Jackknife, permutation_test
from voxprior.validation.batch import choose_test, column_score, folds_without_labels
from voxprior.validation.folds import make_folds
from voxprior.validation.relabel import random_relabellings, within_folds
from voxprior.validation.ridge import EvidenceRidge
from voxprior.validation.scores import margins_of


@pytest.fixture
def data(rng):
    y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
    return rng.normal(size=(24, 30)) + 0.4 * y[:, None], y, runs


class TestChoice:
    @pytest.mark.parametrize(
        ("model", "expected"),
        [
            (GPClassifier(), "batch"),
            (make_pipeline(StandardScaler(), GPClassifier()), "batch"),
            (GPClassifier(kernel="rbf"), "fast"),
            (RVMClassifier(), "fast"),
            (RVMClassifier(basis="voxels"), "refit"),
            (LogisticRegression(), "fast"),
            (SVC(), "fast"),
            (FeatureSharingNB(), "batch"),
            (FeatureSharingNB.paper(), "refit"),
            (GaussianNB(), "refit"),
            (RandomForestClassifier(), "refit"),
            (GridSearchCV(LogisticRegression(), {"C": [1.0]}), "refit"),
            (make_pipeline(SelectKBest(k=3), LogisticRegression()), "refit"),
            (make_pipeline(LogisticRegression()), "fast"),
            (Ridge(), "fast"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )
    def test_by_the_decoder(self, data, model, expected):
        assert choose_test("auto", model, data[0], None) == expected

    def test_many_scans_of_a_process_are_not_fitted_in_batch(self, rng):
        assert choose_test("auto", GPClassifier(), rng.normal(size=(201, 2)), None) == "fast"

    def test_scores_of_probabilities_need_the_decoder(self, data):
        assert choose_test("auto", GPClassifier(), data[0], "log_loss") == "refit"
        with pytest.raises(ValueError, match=r"test='fast'.*log_loss.*test='refit'"):
            choose_test("fast", GPClassifier(), data[0], "log_loss")

    def test_lists_are_left_to_the_decoder(self):
        assert choose_test("auto", LogisticRegression(), [[0.0], [1.0]], None) == "refit"

    def test_two_gram_matrices(self, data):
        model = GPClassifier(["precomputed", "precomputed"])
        assert choose_test("auto", model, np.zeros((4, 8)), None) == "refit"
        assert choose_test("auto", GPClassifier(["linear", "rbf"]), data[0], None) == "fast"

    @pytest.mark.parametrize(
        ("test", "model", "words"),
        [
            ("batch", GaussianNB(), "GaussianNB does not fit many"),
            ("fast", make_pipeline(SelectKBest(k=3), GaussianNB()), "needs labels"),
            ("quick", GaussianNB(), "auto, batch, fast, refit"),
        ],
    )
    def test_what_cannot_be_done_is_refused(self, data, test, model, words):
        with pytest.raises(ValueError, match=words):
            choose_test(test, model, data[0], None)


@pytest.mark.parametrize(
    ("cv", "free"),
    [
        (LeaveOneGroupOut(), True),
        ("groups", True),
        (StratifiedGroupKFold(2), False),
        (KFold(3), True),
        ([(np.arange(12), np.arange(12, 24))], True),
        (Jackknife(), True),
        (StratifiedKFold(3), False),
        (FewShotSplit(3, 2), False),
        (KFold(3, shuffle=True), False),  # not the same twice
        (4, False),
    ],
    ids=str,
)
def test_folds_that_labels_do_not_change_are_known(data, cv, free):
    X, y, runs = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        folds, _ = make_folds(LogisticRegression(), X, y, runs, cv)
        assert folds_without_labels(folds, X, runs, cv, LogisticRegression()) == free


def naive(X, y, folds_of_labels, score):
    """Held-out values of the ridge by evidence, one labelling and one fold at a time."""
    values, truth = [], []
    for train, test in folds_of_labels:
        ridge = EvidenceRidge()
        gram = ridge.prepare(X)
        values.append(ridge.fit_many(gram, train, y[train, None], 2).decision_function(test)[:, 0])
        truth.append(y[test])
    values, truth = np.concatenate(values), np.concatenate(truth)
    if score == "accuracy":
        return np.mean((values > 0) == truth)
    return np.mean(np.where(truth == 1, values, -values))


class TestFast:
    @pytest.mark.parametrize("cv", [None, StratifiedKFold(3), FewShotSplit(2, 3)], ids=str)
    def test_is_a_plain_loop(self, data, cv):
        """With folds that labels change and folds that they do not."""
        X, y, runs = (part[:12] for part in data)
        groups = runs if cv is None else None
        found = permutation_test(LogisticRegression(), X, y, groups, cv, n_permutations=9)
        assert found.test == "fast"
        splitter = LeaveOneGroupOut() if cv is None else cv
        expected = naive(X, y, splitter.split(X, y, groups), "margin")
        assert found.observed == pytest.approx(expected, abs=1e-9)
        assert found.secondary[0].observed == naive(X, y, splitter.split(X, y, groups), "accuracy")

    def test_exact_p_by_hand(self, data):
        X, y, runs = (part[:8] for part in data)
        found = permutation_test(SVC(), X, y, runs)
        assert found.exact
        assert found.n_distinct == 36
        halves = [
            [0, 0, 1, 1],
            [0, 1, 0, 1],
            [0, 1, 1, 0],
            [1, 0, 0, 1],
            [1, 0, 1, 0],
            [1, 1, 0, 0],
        ]
        null = [
            naive(X, np.array(a + b), LeaveOneGroupOut().split(X, y, runs), "margin")
            for a in halves
            for b in halves
        ]
        assert found.p_value == np.mean(np.array(null) >= found.observed - 1e-9)
        assert sorted([found.observed, *found.null]) == pytest.approx(sorted(null), abs=1e-9)
        assert found.p_value >= found.smallest_p == 2 / 36

    def test_accuracy_can_be_chosen_before_the_test(self, data):
        X, y, runs = data
        found = permutation_test(SVC(), X, y, runs, score="accuracy", n_permutations=99)
        assert found.score == "accuracy"
        assert [one.score for one in found.secondary] == ["margin"]
        other = permutation_test(SVC(), X, y, runs, n_permutations=99)
        assert other.score == "margin"
        assert other.secondary[0].p_value == found.p_value

    def test_area_under_roc(self, data):
        X, y, runs = data
        found = permutation_test(SVC(), X, y, runs, score="auc", n_permutations=19)
        assert 0.5 < found.observed <= 1
        assert [one.score for one in found.secondary] == ["margin", "accuracy"]

    def test_steps_before_the_model_learn_in_the_fold(self, data):
        X, y, runs = data
        X = X * np.linspace(1, 50, X.shape[1])
        found = permutation_test(
            make_pipeline(StandardScaler(), SVC()), X, y, runs, n_permutations=3
        )
        values = []
        for train, test in LeaveOneGroupOut().split(X, y, runs):
            scaled = StandardScaler().fit(X[train]).transform(X)
            ridge = EvidenceRidge()
            many = ridge.fit_many(ridge.prepare(scaled), train, y[train, None], 2)
            values.append(many.decision_function(test)[:, 0])
        expected = np.mean(np.where(y == 1, 1, -1) * np.concatenate(values))
        assert found.observed == pytest.approx(expected, abs=1e-9)

    def test_steps_in_folds_that_labels_change(self, data):
        X, y, _ = data
        model = make_pipeline(StandardScaler(), SVC())
        found = permutation_test(model, X, y, cv=StratifiedKFold(3), n_permutations=3)
        assert found.test == "fast"
        assert np.isfinite(found.null).all()

    def test_a_given_gram_matrix_is_used(self, data):
        X, y, runs = data
        gram = permutation_test(SVC(kernel="precomputed"), X @ X.T, y, runs, n_permutations=9)
        scans = permutation_test(SVC(kernel="linear"), X, y, runs, n_permutations=9)
        np.testing.assert_allclose(gram.null, scans.null)

    def test_numbers(self, rng):
        X = rng.normal(size=(30, 3))
        age = X[:, 0] + 0.3 * rng.normal(size=30)
        found = permutation_test(Ridge(), X, age, cv=KFold(5), n_permutations=40)
        assert (found.test, found.score, found.p_value) == ("fast", "r2", 1 / 41)
        losses = permutation_test(Ridge(), X, age, cv=KFold(5), n_permutations=40, score="mae")
        assert losses.observed < losses.null.min()
        assert losses.p_value == 1 / 41

    def test_three_classes_by_name(self, rng):
        y, runs = np.tile(["cat", "face", "house"], 8), np.repeat(np.arange(4), 6)
        X = rng.normal(size=(24, 10)) + 4 * (np.unique(y)[:, None] == y).T @ np.eye(3, 10)
        found = permutation_test(LogisticRegression(), X, y, runs, n_permutations=50)
        assert found.p_value == 1 / 51
        assert found.secondary[0].score == "accuracy"
        assert found.secondary[0].observed > 0.8

    def test_workers_and_blocks_do_not_change_it(self, data, monkeypatch):
        X, y, runs = data
        one = permutation_test(SVC(), X, y, runs, n_permutations=40)
        monkeypatch.setattr(EvidenceRidge, "labels_at_once", 7)
        many = permutation_test(SVC(), X, y, runs, n_permutations=40, n_jobs=1)
        np.testing.assert_allclose(one.null, many.null, atol=1e-12)
        assert one.p_value == many.p_value

    def test_goes_on_where_it_was_stopped(self, data, tmp_path, monkeypatch):
        X, y, runs = data
        options = {"n_permutations": 20, "folder": tmp_path}
        whole = permutation_test(SVC(), X, y, runs, **options)
        monkeypatch.setattr(EvidenceRidge, "fit_many", None)  # nothing is fitted again
        again = permutation_test(SVC(), X, y, runs, **options)
        np.testing.assert_array_equal(whole.null, again.null)

    def test_blocks_of_another_size_are_not_mixed_up_with_those_that_were_kept(
        self, data, tmp_path, monkeypatch
    ):
        X, y, runs = data
        options = {"n_permutations": 20, "folder": tmp_path}
        whole = permutation_test(SVC(), X, y, runs, **options)
        monkeypatch.setattr(EvidenceRidge, "labels_at_once", 5)
        again = permutation_test(SVC(), X, y, runs, **options)
        np.testing.assert_allclose(whole.null, again.null, atol=1e-12)

    def test_interrupted(self, data, monkeypatch):
        X, y, runs = data
        monkeypatch.setattr(EvidenceRidge, "labels_at_once", 5)
        calls, fit = [], EvidenceRidge.fit_many

        def cut_short(self, *arguments):
            calls.append(1)
            if len(calls) > 12:  # two blocks of six folds
                raise KeyboardInterrupt
            return fit(self, *arguments)

        monkeypatch.setattr(EvidenceRidge, "fit_many", cut_short)
        found = permutation_test(SVC(), X, y, runs, n_permutations=20)
        assert not found.complete
        assert len(found.null) == 9
        assert "interrupted" in found.statement


class TestBatch:
    def test_of_a_process(self, data):
        X, y, runs = data
        X = X + 0.6 * y[:, None]
        found = permutation_test(GPClassifier(), X, y, runs, n_permutations=60)
        assert (found.test, found.p_value) == ("batch", 1 / 61)
        assert "Laplace" in found.decoder
        assert found.stands_for == "the score of GPClassifier"

    def test_true_labels_go_the_same_way(self, data):
        """A column of true labels among the relabelled ones scores as the observed."""
        X, y, runs = (part[:8] for part in data)
        found = permutation_test(GPClassifier(), X, y, runs)
        gp = GPClassifier()
        gram, values = gp.prepare(X), []
        for train, test in LeaveOneGroupOut().split(X, y, runs):
            values.append(gp.fit_many(gram, train, y[train, None], 2).decision_function(test)[:, 0])
        expected = np.mean(np.where(y == 1, 1, -1) * np.concatenate(values))
        assert found.observed == pytest.approx(expected, abs=1e-9)
        # The mirrored labels score the same, which is why p has a floor.
        assert np.isclose(found.null, found.observed, atol=1e-9).sum() >= 1


class TestWords:
    def test_the_order_of_what_is_said(self, data):
        X, y, runs = data
        found = permutation_test(SVC(), X + y[:, None], y, runs, n_permutations=99)
        said = found.statement
        parts = [
            "labels exchanged among scans within each group, 46,656 distinct relabellings existed",
            "99 random ones were used",
            "The smallest p that this could give was 0.01.",
            f"p was {found.p_value:.3g} for the mean held-out margin of {found.observed:.3f} of",
            "labels carried information in these scans; it was not the p of the score of SVC.",
            "Secondary, of the same decoder: accuracy",
        ]
        places = [said.index(part) for part in parts]
        assert places == sorted(places)
        assert found.summary()["statement"] == said
        assert found.summary()["secondary"][0]["score"] == "accuracy"
        assert "of a ridge decoder" in repr(found)

    def test_nothing_is_claimed_of_a_large_p(self, data):
        X, y, runs = data
        found = permutation_test(SVC(), X, y, runs, n_permutations=9)._replace(p_value=0.4)
        assert "was not shown" in found.statement

    def test_of_a_decoder_that_was_refitted(self, data):
        X, y, runs = (part[:8] for part in data)
        found = permutation_test(GaussianNB(), X, y, runs, stop_after=None)
        assert "all of them were used." in found.statement
        assert f"for the accuracy of {found.observed:.3f} (what the estimator" in found.statement
        assert "stopped early" in found._replace(stopped_early=True).statement

    def test_endless_designs_are_counted_roughly(self, data):
        found = permutation_test(SVC(), *data, n_permutations=3)._replace(n_distinct=10**400)
        assert "more than 10^400 distinct" in found.statement


class TestScores:
    def test_are_those_of_single_columns(self, rng):
        for n_classes in (2, 4):
            truth = rng.integers(0, n_classes, size=(40, 3))
            values = rng.normal(size=(40, 3, n_classes)).round(1)
            if n_classes == 2:
                values = values[..., 0]
            for b in range(3):
                single = values[:, b] if n_classes > 2 else np.c_[-values[:, b], values[:, b]] / 2
                guess = single.argmax(axis=1)
                expected = {
                    "accuracy": accuracy_score(truth[:, b], guess),
                    "balanced_accuracy": balanced_accuracy_score(truth[:, b], guess),
                    "margin": margins_of(single, truth[:, b]).mean(),
                    "auc": np.mean(
                        [roc_auc_score(truth[:, b] == c, single[:, c]) for c in range(n_classes)]
                    ),
                }
                for name, value in expected.items():
                    found = column_score(name, values, truth, n_classes)[b]
                    assert found == pytest.approx(value, abs=1e-12), name

    def test_margins_of_values_without_information_are_zero(self, rng):
        """However large values are, over all labels that a scan may have they tell nothing."""
        values, labels = rng.normal(size=(1, 5)) * 7, np.arange(5)
        assert margins_of(np.repeat(values, 5, axis=0), labels).mean() == pytest.approx(0)
        batch = np.repeat(values[None], 5, axis=0)
        assert column_score("margin", batch, labels[:, None], 5)[0] == pytest.approx(0)

    def test_little_information_about_many_classes_is_found(self):
        """Values grow with what is found; the best of nine wrong classes must not hide it."""
        rng = np.random.default_rng(0)
        y, runs = np.tile(np.arange(10), 6), np.repeat(np.arange(6), 10)
        X = rng.normal(size=(60, 200)) + 0.2 * rng.normal(size=(10, 200))[y]
        found = permutation_test(LogisticRegression(), X, y, runs, n_permutations=99)
        assert (found.score, found.test, found.p_value) == ("margin", "fast", 0.01)

    def test_a_class_that_is_never_tested(self):
        truth, values = np.array([[0], [0]]), np.array([[-1.0], [2.0]])
        assert column_score("balanced_accuracy", values, truth, 2)[0] == 0.5
        assert np.isnan(column_score("auc", values, truth, 2)[0])

    def test_numbers_that_do_not_vary(self):
        assert not np.isfinite(column_score("r2", np.zeros((2, 1)), np.ones((2, 1)), 0)[0])


class TestFoldsHeld:
    """Without groups, labels are exchanged inside stratified folds, which stay as they are."""

    def test_is_a_naive_loop_over_the_same_folds(self, rng):
        X, y = rng.normal(size=(24, 30)), np.tile([0, 1], 12)
        model = make_pipeline(StandardScaler(), LogisticRegression())
        found = permutation_test(model, X, y, n_permutations=40, random_state=1)
        assert "within each fold" in found.statement
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        structure = within_folds(y, folds)
        codes = random_relabellings(structure, 40, np.random.default_rng((1, 1)))
        for number in (0, 7, 39):
            labels, held = codes[number], []
            for train, test in folds:
                assert np.bincount(labels[test]).tolist() == np.bincount(y[test]).tolist()
                Z = StandardScaler().fit(X[train]).transform(X)
                many = EvidenceRidge().fit_many(Z @ Z.T, train, labels[train, None], 2)
                sign = 2.0 * labels[test] - 1
                held.append(sign * many.decision_function(test)[:, 0])
            assert found.null[number] == pytest.approx(np.concatenate(held).mean(), rel=1e-6)

    def test_scans_are_prepared_once_per_fold(self, rng, monkeypatch):
        X, y, made = rng.normal(size=(24, 30)), np.tile([0, 1], 12), []
        prepare = EvidenceRidge.prepare
        monkeypatch.setattr(EvidenceRidge, "prepare", lambda *a: made.append(1) or prepare(*a))
        model = make_pipeline(StandardScaler(), LogisticRegression())
        permutation_test(model, X, y, n_permutations=40)
        assert len(made) == 5

    @pytest.mark.parametrize("options", [{"scheme": "free"}, {"cv": "few-shot:3"}])
    def test_other_folds_are_made_anew(self, rng, options):
        X, y = rng.normal(size=(24, 30)), np.tile([0, 1], 12)
        found = permutation_test(LogisticRegression(), X, y, n_permutations=20, **options)
        assert "among all scans" in found.statement

    def test_few_scans_keep_all_relabellings(self, rng):
        X, y = rng.normal(size=(8, 30)), np.tile([0, 1], 4)
        found = permutation_test(LogisticRegression(), X, y, n_permutations=200)
        assert found.exact
        assert found.smallest_p == pytest.approx(2 / 70)

    def test_p_is_even_where_there_is_nothing(self):
        rng = np.random.default_rng(0)
        y = np.tile([0, 1], 12)
        p = [
            permutation_test(LogisticRegression(), rng.normal(size=(24, 10)), y,
                             n_permutations=99, random_state=k).p_value
            for k in range(150)
        ]  # fmt: skip
        assert kstest(p, "uniform").pvalue > 0.01
        assert np.mean(np.array(p) <= 0.05) <= 0.1
