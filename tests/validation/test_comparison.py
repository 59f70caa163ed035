"""Decoders of the same folds: whether two differ, and what choosing the best is worth."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import compare_decoders, cross_validate, score_after_choice
from voxprior.validation.comparison import model_scores
from voxprior.validation.scores import score_predictions


def result_of(guess, truth, group, score="accuracy"):
    classes = tuple(np.unique(truth).tolist()) if score != "r2" else ()
    table = pd.DataFrame({"y_true": truth, "y_pred": guess, "group": group})
    return type("Held", (), {"predictions": table, "score_names": [score], "classes": classes})()


def test_luck_is_taken_off():
    rng, gains = np.random.default_rng(0), []
    for _ in range(10):
        truth = rng.integers(2, size=60)
        results = {
            f"m{k}": result_of(rng.integers(2, size=60), truth, np.arange(60)) for k in range(10)
        }
        best = max(
            (r.predictions["y_true"] == r.predictions["y_pred"]).mean() for r in results.values()
        )
        gains.append((best, score_after_choice(results)))
    best, honest = np.mean(gains, axis=0)
    assert best > 0.57  # ten coins look better than one
    assert honest == pytest.approx(0.5, abs=0.04)


def test_a_clear_winner_keeps_its_score():
    rng = np.random.default_rng(1)
    truth, group = np.tile(["a", "b"], 30), np.repeat(np.arange(12), 5)
    good = np.where(rng.random(60) < 0.9, truth, "a")
    results = {
        "good": result_of(good, truth, group),
        "bad": result_of(np.full(60, "a"), truth, group),
    }
    assert score_after_choice(results) == pytest.approx((good == truth).mean(), abs=0.02)


def test_without_a_choice_or_groups_there_is_nothing_to_tell():
    assert score_after_choice({"only": result_of(["a", "b"], ["a", "b"], [0, 1])}) is None
    same_group = {k: result_of(["a", "b"], ["a", "b"], [0, 0]) for k in "xy"}
    assert score_after_choice(same_group) is None


@pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy", "r2"])
def test_scores_are_those_of_results(score):
    rng = np.random.default_rng(2)
    if score == "r2":
        truth, guess, task, classes = rng.normal(size=20), rng.normal(size=20), "regression", ()
    else:
        truth, guess = rng.integers(3, size=20), rng.integers(3, size=20)
        task, classes = "classification", (0, 1, 2)
    table = pd.DataFrame({"y_true": truth, "y_pred": guess})
    expected = score_predictions(table, task, classes)[score]
    assert model_scores(truth, guess[:, None], score) == pytest.approx([expected])


class FirstLabel(ClassifierMixin, BaseEstimator):
    """Says the first label of every scan, and gives no probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


class TestComparison:
    def results(self, rng, n_groups=6):
        y, runs = np.tile([0, 1], 2 * n_groups), np.repeat(np.arange(n_groups), 4)
        X = rng.normal(size=(4 * n_groups, 3)) + 2 * y[:, None]
        models = (GaussianNB(), FirstLabel(), LogisticRegression())
        return [cross_validate(m, X, y, runs) for m in models]

    def test_exact_signs(self, rng):
        good, blind, _ = self.results(rng)
        found = compare_decoders(good, blind)
        assert found.exact
        assert found.smallest_p == 2 / 64
        assert found.p_value == 2 / 64
        assert found.difference > 0.3
        assert compare_decoders(blind, good).difference == -found.difference

    def test_alike(self, rng):
        good, _, same = self.results(rng)
        assert compare_decoders(good, good).p_value == 1
        assert compare_decoders(good, same).p_value > 0.05

    def test_random_signs(self, rng):
        good, blind, _ = self.results(rng, n_groups=20)
        found = compare_decoders(good, blind, n_permutations=500)
        assert not found.exact
        assert found.p_value == 1 / 501

    def test_must_be_paired(self, rng):
        good, blind, _ = self.results(rng)
        other = self.results(np.random.default_rng(5), n_groups=7)[0]
        with pytest.raises(ValueError, match="same scans"):
            compare_decoders(good, other)
        with pytest.raises(ValueError, match="not a mean"):
            compare_decoders(good, blind, "log_loss")

    @pytest.mark.slow
    def test_level(self):
        """Two decoders that are alike differ significantly in about 5 % of data sets."""
        p = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            y, runs = np.tile([0, 1], 18), np.repeat(np.arange(9), 4)
            X = rng.normal(size=(36, 6)) + 0.6 * y[:, None]
            pair = [
                cross_validate(GaussianNB(), X[:, part], y, runs)
                for part in (slice(3), slice(3, 6))
            ]
            p.append(compare_decoders(*pair, "log_loss").p_value)
        assert 0.01 < np.mean(np.array(p) <= 0.05) < 0.09
