"""Learning curves: nested training sets, paired differences, every size from two to all."""

import json

import joblib
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import (
    AuditError,
    AuditWarning,
    FewShotSplit,
    LearningCurve,
    cross_validate,
    learning_curve,
)
from voxprior.validation.intervals import difference_interval

BOTH = {"nb": GaussianNB(), "blind": DummyClassifier()}


@pytest.fixture(scope="module")
def data():
    y = np.tile(["a", "b"], 20)
    X = np.random.default_rng(0).normal(size=(40, 8)) + (y == "b")[:, None]
    X.flags.writeable = False
    return X, y


@pytest.fixture(scope="module")
def curve(data):
    return learning_curve(BOTH, *data, n_repeats=6)


def test_sizes_from_two_to_all(curve):
    assert sorted({size for _, size in curve.results}) == [2, 3, 5, 8, 10]
    assert curve.complete
    assert all(len(result.scores) == 6 for result in curve.results.values())


def test_a_point_is_a_cross_validation(data, curve):
    direct = cross_validate(GaussianNB(), *data, cv=FewShotSplit(5, n_repeats=6))
    point = curve.results["nb", 5]
    assert point.predictions.equals(direct.predictions)
    assert point.settings["cv"] == direct.settings["cv"]


def test_shows_means_by_size_and_decoder(curve):
    title, head, *rows = repr(curve).splitlines()
    assert "mean accuracy over 6 random splits" in title
    assert head.split() == ["per", "class", "nb", "blind"]
    assert [row.split()[0] for row in rows] == ["2", "3", "5", "8", "10"]
    mean = curve.results["nb", 8].scores["accuracy"].mean()
    assert rows[3].split()[1] == f"{mean:.3f}"
    assert "interrupted" in repr(LearningCurve(curve.results, complete=False))


def test_names_of_decoders_are_not_markup(curve):
    odd = {("<b>nb</b>", size): result for (_, size), result in curve.results.items()}
    page = LearningCurve(odd)._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;nb" in page


def test_training_sets_grow(data):
    X, y = data
    small, large = (list(FewShotSplit(n).split(X, y)) for n in (2, 8))
    for (few, test_few), (many, test_many) in zip(small, large):
        assert set(few) < set(many)
        assert np.array_equal(test_few, test_many)


def test_tables(curve):
    assert len(curve.table) == 2 * 5 * 6
    assert curve.table.columns[:3].tolist() == ["estimator", "n_per_class", "fold"]
    summary = curve.summary("accuracy").set_index(["estimator", "n_per_class"])
    assert summary.loc[("nb", 10), "mean"] > summary.loc[("nb", 2), "mean"]
    assert summary.loc[("blind", 10), "mean"] == 0.5


def test_differences_are_paired(curve):
    gain = curve.differences("blind")
    assert gain["estimator"].unique().tolist() == ["nb"]
    table = curve.table
    for row in gain.itertuples():
        mine = table.query("estimator == 'nb' and n_per_class == @row.n_per_class")["accuracy"]
        assert row.difference == pytest.approx(mine.mean() - 0.5)
        assert row.low < row.difference < row.high
        pair = (curve.results[name, row.n_per_class] for name in ("nb", "blind"))
        found = difference_interval(*pair, "accuracy")
        assert (row.low, row.high) == (found.low, found.high)
    with pytest.raises(ValueError, match="no decoder"):
        curve.differences("svm")


def test_differences_are_told_from_two_scans_a_class(rng):
    """An effect that every repeat shows is shown at the smallest size, not only at the largest."""
    y = np.tile([0, 1], 30)
    X = rng.normal(size=(60, 6)) + 3 * y[:, None]
    curve = learning_curve(BOTH, X, y, sizes=[2, 15])
    gain = curve.differences("blind").set_index("n_per_class")
    assert gain.loc[2, "difference"] > 0.2
    assert gain.loc[2, "low"] > 0
    width = gain["high"] - gain["low"]
    assert width[2] < 2 * width[15]


def test_audit(data):
    X, y = data
    with pytest.warns(AuditWarning, match="'age'"):
        learning_curve(BOTH, X, y, sizes=[2], n_repeats=2, variables={"age": y})
    twice, labels = np.tile(X, (2, 3)), np.tile(y, 2)  # 24 voxels, every image two times
    with pytest.raises(AuditError, match="duplicate-images"):
        learning_curve(BOTH, twice, labels, sizes=[2], n_repeats=2)
    allow = ["duplicate-images", "labels-confounded", "fitted-outside"]
    curve = learning_curve(BOTH, twice, labels, sizes=[2], n_repeats=2, allow=allow)
    names = {f.name for result in curve.results.values() for f in result.findings}
    assert "duplicate-images" in names


def test_workers_do_not_change_it(data, curve):
    with joblib.parallel_config("threading", n_jobs=3):
        other = learning_curve(BOTH, *data, n_repeats=6)
    assert other.table.equals(curve.table)


def test_runs_drawn_whole(rng):
    y, runs = np.tile([0, 1], 24), np.repeat(np.arange(12), 4)
    X = rng.normal(size=(48, 4))
    curve = learning_curve({"nb": GaussianNB()}, X, y, runs, draw="group", pool=None, n_repeats=2)
    assert [size for _, size in curve.results] == [2, 3, 5, 8, 11]
    assert curve.results["nb", 3].scores["n_train"].tolist() == [12, 12]


def test_round_trip(curve):
    again = LearningCurve.from_dict(json.loads(json.dumps(curve.to_dict())))
    assert again.table.equals(curve.table)


class Stops(GaussianNB):
    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits > 8:
            raise KeyboardInterrupt
        return super().fit(X, y)


def test_interrupt_keeps_finished_fits(data):
    Stops.fits = 0
    curve = learning_curve({"stops": Stops()}, *data, n_repeats=6)
    assert not curve.complete
    assert {size: len(r.scores) for (_, size), r in curve.results.items()} == {2: 6, 3: 2}
    assert not curve.results["stops", 3].complete


def test_differences_use_the_folds_that_both_have(data):
    Stops.fits = 0
    curve = learning_curve({"nb": GaussianNB(), "stops": Stops()}, *data, sizes=[3, 4], n_repeats=6)
    gain = curve.differences("nb").set_index("n_per_class")
    assert len(curve.results["stops", 4].scores) == 2
    assert gain["difference"].tolist() == [0, 0]


def test_bad_input(data):
    X, y = data
    with pytest.raises(TypeError, match="Expected a classifier"):
        learning_curve({"ridge": Ridge()}, X, np.arange(40.0))
    with pytest.raises(ValueError, match="too few scans for a learning curve"):
        learning_curve({"lr": LogisticRegression()}, X[:4], y[:4])
