"""The score after choosing: made anew for every group, by fits that have not seen it."""

import numpy as np
import pytest
from benchmarks import choice as benchmark
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from voxprior.validation import cross_validate, score_after_nested_choice
from voxprior.validation.choice import nested_score, why_not_nested

MODELS = {"1": KNeighborsClassifier(1), "3": KNeighborsClassifier(3), "nb": GaussianNB()}


@pytest.fixture
def runs(rng):
    y, groups = np.tile([0, 1], 12), np.repeat(np.arange(4), 6)
    return rng.normal(size=(24, 8)) + 0.5 * y[:, None], y, groups


def results_of(models, X, y, groups=None, cv=None, **options):
    return {name: cross_validate(m, X, y, groups, cv, **options) for name, m in models.items()}


def naive(models, X, y, groups):
    """(1) fit by fit, for accuracy and runs of equal size."""
    total = []
    for g in np.unique(groups):
        judged = {}
        for name, model in models.items():
            scores = []
            for h in np.unique(groups):
                if h != g:
                    kept = (groups != g) & (groups != h)
                    fitted = model.fit(X[kept], y[kept])
                    scores.append(fitted.score(X[groups == h], y[groups == h]))
            judged[name] = np.mean(scores)
        best = [name for name in models if np.isclose(judged[name], max(judged.values()))]
        inside, outside = groups == g, groups != g
        total.append(
            np.mean(
                [models[n].fit(X[outside], y[outside]).score(X[inside], y[inside]) for n in best]
            )
        )
    return np.mean(total)


def test_worked_example():
    """Run 1 chooses B, run 2 chooses A, run 3 both: (.75 + .5 + .625)/3."""
    a = np.array([[1, 0.5, 0.75], [0.75, 0.75, 0.5]])
    b = np.full((2, 3, 3), np.nan)
    for g, (first, second) in enumerate([(0.5, 0.625), (0.875, 0.625), (0.625, 0.625)]):
        for m, mean in enumerate((first, second)):
            others = [h for h in range(3) if h != g]
            b[m, g, others] = mean - 0.125, mean + 0.125
    assert nested_score(a, b) == pytest.approx(0.625)


def test_fits_are_those_of_the_naive_form(runs):
    results = results_of(MODELS, *runs)
    found = score_after_nested_choice(MODELS, *runs, results)
    assert found == pytest.approx(naive(MODELS, *runs))
    # Only those that there are results of are chosen from.
    two = {name: results[name] for name in ("1", "nb")}
    expected = naive({name: MODELS[name] for name in two}, *runs)
    assert score_after_nested_choice(MODELS, *runs, two) == pytest.approx(expected)


def test_names_of_groups_and_order_of_scans_do_not_matter(runs, rng):
    X, y, groups = runs
    order = rng.permutation(24)
    named = np.array(["d", "a", "c", "b"])[groups]
    found = score_after_nested_choice(
        MODELS,
        X[order],
        y[order],
        named[order],
        results_of(MODELS, X[order], y[order], named[order]),
    )
    assert found == pytest.approx(naive(MODELS, *runs))


def test_unequal_classes_are_scored_alike(rng):
    y, groups = np.tile([0, 0, 1], 8), np.repeat(np.arange(4), 6)
    X = rng.normal(size=(24, 8)) + y[:, None]
    results = results_of(MODELS, X, y, groups)
    assert results["nb"].score_names[0] == "balanced_accuracy"
    assert 0 < score_after_nested_choice(MODELS, X, y, groups, results) <= 1


def test_where_it_cannot_be_done(runs, rng):
    X, y, groups = runs
    results = results_of(MODELS, X, y, groups)
    assert why_not_nested(results) == ""
    assert score_after_nested_choice(MODELS, X, y, groups, {"nb": results["nb"]}) is None
    by_scan = results_of(MODELS, X, y, None, KFold(4))
    assert "not 3 to 20 groups" in why_not_nested(by_scan)
    assert score_after_nested_choice(MODELS, X, y, None, by_scan) is None
    two = [(np.flatnonzero(groups > 1), np.flatnonzero(groups < 2))]
    two += [(np.flatnonzero(groups < 2), np.flatnonzero(groups > 1))]
    assert "one group out" in why_not_nested(results_of(MODELS, X, y, groups, two))
    numbers = {"r": cross_validate(Ridge(), X, X[:, 0], groups)}
    assert "R²" in why_not_nested(numbers)
    pairs = np.repeat(np.arange(12), 2)
    single = np.repeat([0, 0, 1], 8)
    results = results_of(
        MODELS, X, single, pairs, "groups", allow=["labels-confounded", "leave-one-out"]
    )
    assert "do not have all" in why_not_nested(results)
    lone = np.where(groups == 0, 1, 0)  # without the first run there is one class
    allow = ["labels-confounded", "class-missing", "leave-one-out"]
    lone[6] = 1
    results = results_of({"1": MODELS["1"], "3": MODELS["3"]}, X, lone, groups, allow=allow)
    assert score_after_nested_choice(MODELS, X, lone, groups, results) is None


class CountsFits(ClassifierMixin, BaseEstimator):
    """Nearest neighbour that writes down every fit."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.inner_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


def test_finished_fits_are_kept(runs, tmp_path):
    models = {"counted": CountsFits(), "nb": GaussianNB()}
    results = results_of(models, *runs)
    CountsFits.fits = 0
    first = score_after_nested_choice(models, *runs, results, folder=tmp_path)
    assert CountsFits.fits == 6  # one for every two of four runs
    assert score_after_nested_choice(models, *runs, results, folder=tmp_path) == first
    assert CountsFits.fits == 6


@pytest.mark.slow
def test_table(tmp_path):
    """The script runs, in its quick form, and names every design."""
    benchmark.main(["--quick", "--out", str(tmp_path / "choice.md")])
    text = (tmp_path / "choice.md").read_text()
    assert all(name in text for name in benchmark.DESIGNS)


@pytest.mark.slow
def test_luck_is_taken_off():
    """Nothing is there: nested is at .5 within three standard errors, the bootstrap is above."""
    design = benchmark.DESIGNS["nothing there, 6 runs of 4"]
    found = benchmark.row("", design, 200)
    assert found["best"] > 0.6
    assert found["bootstrap"] > 0.515
    assert found["nested"] == pytest.approx(0.5, abs=3 * found["s.e. of nested"])
