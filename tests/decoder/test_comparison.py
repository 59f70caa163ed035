"""What is said where the best of several models is shown."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from voxprior.decoder.comparison import Comparison, caution
from voxprior.validation import cross_validate


def test_the_best_of_several_is_told_with_its_corrected_score(rng):
    X, y, runs = rng.normal(size=(24, 30)), np.tile(["a", "b"], 12), np.repeat(range(6), 4)
    results = {
        f"coin {seed}": cross_validate(
            DummyClassifier(strategy="uniform", random_state=seed), X, y, runs
        )
        for seed in range(2)
    }
    text = caution("coin 0", results)
    assert text.startswith("coin 0 was chosen as the best of 2 by this very accuracy")
    assert "corrected for the choice: 0." in text
    assert caution("coin 0", {"coin 0": results["coin 0"]}) == ""


@pytest.fixture
def noise(rng):
    return rng.normal(size=(24, 30)), np.tile(["a", "b"], 12), np.repeat(range(6), 4)


class TestBestBaseline:
    def test_it_has_the_lowest_log_loss(self, noise):
        """One that is right more often and far too sure is not what to beat."""
        X, y, runs = noise
        flipped = np.isin(np.arange(24), [1, 6, 12, 17])
        X = 0.5 * X + np.where((y == "b") ^ flipped, 3.0, -3.0)[:, None]
        models = {"naive-bayes": GaussianNB(), "logistic": DummyClassifier()}
        models |= {"sharing": LogisticRegression()}
        results = {n: cross_validate(m, X, y, runs) for n, m in models.items()}
        sure, flat = (results[name].pooled() for name in ("naive-bayes", "logistic"))
        assert sure["accuracy"] > flat["accuracy"]
        assert sure["log_loss"] > flat["log_loss"]
        table = Comparison(results).table.set_index("model")
        assert set(table["against"].dropna()) == {"logistic"}
        assert table.loc["sharing", "difference"] == pytest.approx(
            results["sharing"].pooled()["accuracy"] - flat["accuracy"]
        )

    def test_without_probabilities_the_score_ranks(self, noise):
        X, y, runs = noise
        X = X[:, :5]
        models = {"svm": LinearSVC(), "logistic": LinearSVC(C=1e-9), "sharing": GaussianNB()}
        X[:, 0] += np.where(y == "b", 4.0, -4.0)
        results = {n: cross_validate(m, X, y, runs) for n, m in models.items()}
        best = max(("svm", "logistic"), key=lambda n: results[n].pooled()["accuracy"])
        table = Comparison(results).table.set_index("model")
        assert table.loc["sharing", "against"] == best

    def test_numbers_by_their_absolute_error(self, noise):
        X, _, runs = noise
        y = np.arange(24.0) ** 2
        models = {"ridge": Ridge(), "lda": DummyRegressor(), "gp": Ridge(10.0)}
        results = {n: cross_validate(m, X, y, runs) for n, m in models.items()}
        best = min(("ridge", "lda"), key=lambda n: results[n].pooled()["mae"])
        table = Comparison(results).table.set_index("model")
        assert table.loc["gp", "against"] == best
