"""Resuming: a run that stopped goes on, and never with folds of another run."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from voxprior.validation import LeaveOneGroupOut, cross_validate


class Counted(ClassifierMixin, BaseEstimator):
    """Counts its fits, and stops the run at one of them."""

    fits = 0
    stop_at = None

    def __init__(self, C=1.0, random_state=None):
        self.C = C
        self.random_state = random_state

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits == type(self).stop_at:
            raise KeyboardInterrupt
        rng = np.random.default_rng(self.random_state)
        self.model_ = LogisticRegression(C=self.C).fit(X + 0.1 * rng.normal(size=X.shape), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.fixture(autouse=True)
def _reset():
    Counted.fits, Counted.stop_at = 0, None


@pytest.fixture
def data(rng):
    y = np.tile(["a", "b"], 18)
    return rng.normal(size=(36, 4)), y, np.repeat(np.arange(6), 6)


def test_goes_on_where_it_stopped(data, tmp_path):
    whole = cross_validate(Counted(), *data)
    Counted.fits, Counted.stop_at = 0, 4
    partial = cross_validate(Counted(), *data, folder=tmp_path)
    assert not partial.complete
    assert len(partial.scores) == 3
    Counted.fits, Counted.stop_at = 0, None
    again = cross_validate(Counted(), *data, folder=tmp_path)
    assert Counted.fits == 3
    assert again.complete
    assert again.equals(whole)
    cross_validate(Counted(), *data, folder=tmp_path)
    assert Counted.fits == 3


def test_interrupted_before_any_new_fold_keeps_the_old_ones(data, tmp_path):
    Counted.stop_at = 3
    cross_validate(Counted(), *data, folder=tmp_path)
    Counted.fits, Counted.stop_at = 0, 1
    partial = cross_validate(Counted(), *data, folder=tmp_path)
    assert len(partial.scores) == 2
    assert not partial.complete


def test_anything_else_starts_anew(data, tmp_path):
    X, y, runs = data
    cross_validate(Counted(), X, y, runs, folder=tmp_path)
    changed = [
        (Counted(C=2.0), X, y, runs, {}),
        (Counted(), X + 1e-9, y, runs, {}),
        (Counted(), X, np.roll(y, 1), runs, {}),
        (Counted(), X, y, runs, {"random_state": 1}),
        (Counted(), X, y, runs, {"cv": list(LeaveOneGroupOut().split(X, y, runs))[::-1]}),
    ]
    for estimator, A, labels, groups, kwargs in changed:
        Counted.fits = 0
        cross_validate(estimator, A, labels, groups, folder=tmp_path, **kwargs)
        assert Counted.fits == 6
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("estimator", [LinearSVC(), Ridge()], ids=["decisions", "regression"])
def test_every_kind_of_fold_comes_back(data, tmp_path, estimator, rng):
    X, y, runs = data
    y = rng.normal(size=36) if isinstance(estimator, Ridge) else y
    first = cross_validate(estimator, X, y, runs, folder=tmp_path)
    assert cross_validate(estimator, X, y, runs, folder=tmp_path).equals(first)


def test_no_half_written_file(data, tmp_path):
    cross_validate(Counted(), *data, folder=tmp_path)
    names = sorted(p.name for p in next(tmp_path.iterdir()).iterdir())
    assert names == [*(f"fold-{i:05d}.json" for i in range(6)), "settings.json"]


def test_models_are_not_kept(data, tmp_path):
    with pytest.raises(ValueError, match="keep_models"):
        cross_validate(Counted(), *data, folder=tmp_path, keep_models=True)
