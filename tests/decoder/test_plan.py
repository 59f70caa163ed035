"""A plan says beforehand what a decoding says afterwards, and fits no model to all scans."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from voxprior import Decoder, VoxelSpace
from voxprior.decoder.plan import Growth, _every_class_in_turn, _fitted_power
from voxprior.errors import InputError
from voxprior.images import Dataset

pytestmark = pytest.mark.filterwarnings("ignore::voxprior.validation.AuditWarning")
SPACE = VoxelSpace.grid((3, 3, 2))


def data_of(y, groups=None, **more):
    X = np.random.default_rng(0).normal(size=(len(y), SPACE.n_voxels)).astype("f4")
    return Dataset(X, np.asarray(y), SPACE, groups, **more)


TWO = np.tile(["a", "b"], 10)
DESIGNS = {
    "no groups": data_of(TWO),
    "runs": data_of(TWO, np.repeat(range(5), 4)),
    "two runs": data_of(TWO[:4], np.repeat(range(2), 2)),
    "people of one class": data_of(np.repeat(["a", "b"], 10), np.repeat(range(10), 2)),
    "one map per person": data_of(TWO, np.arange(20)),
    "three classes": data_of(np.tile(["a", "b", "c"], 6)),
    "numbers": data_of(np.arange(20) * 1.5),
    "few scans": data_of(TWO[:6]),
}


@pytest.mark.parametrize("test", ["auto", "fast", "refit"])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_plan_says_what_the_test_will_say(design, test):
    data = DESIGNS[design]
    decoder = Decoder("ridge" if data.y.dtype.kind == "f" else "logistic")
    plan = decoder.plan(data, permutations=9, test=test)
    result = decoder.evaluate(data)
    found = decoder.permutation_test(data, n_permutations=9, test=test, stop_after=None)
    assert_allclose(plan.permutation.smallest_p, found.smallest_p)
    assert (plan.permutation.scheme, plan.permutation.test) == (found.scheme, found.test)
    assert plan.permutation.n == len(found.null)
    assert result.settings["split"] in plan.setting
    assert plan.class_counts == result.settings["class_counts"]
    after = {check.name for check in result.checks} - {check.name for check in plan.audit.checks}
    assert after <= {"probability-scale"}
    before = [finding.name for finding in result.findings if finding.name not in after]
    assert [finding.name for finding in plan.audit] == before


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that notes how many scans it is fitted to."""

    sizes: ClassVar[list[int]] = []

    def fit(self, X, y):
        self.sizes.append(len(X))
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_no_fit_has_all_scans_and_the_work_does_not_grow_with_folds():
    Counting.sizes.clear()
    Decoder(Counting()).plan(data_of(np.tile(["a", "b"], 60)), permutations=1000, curve=True)
    assert 0 < len(Counting.sizes) < 20
    assert max(Counting.sizes) < 120


class NeverFits(Counting):
    def fit(self, X, y):
        raise ValueError("too few")


def test_a_model_that_cannot_be_fitted_has_no_time():
    plan = Decoder(NeverFits()).plan(data_of(TWO), permutations=9)
    assert plan.seconds is None
    assert plan.memory > 0
    assert "to estimate the time" in repr(plan)


def test_findings_are_shown_and_stop_nothing():
    data = data_of(TWO, findings=(("scan-scale", "A scan is far larger than the others."),))
    plan = Decoder("logistic").plan(data)
    assert [finding.name for finding in plan.audit if finding.severity == "error"]
    assert "(error)" in repr(plan)


def test_a_plan_shows_itself_in_a_notebook_and_escapes_labels():
    data = data_of(np.tile(["<i>", "b"], 10), dropped=("<b> has no label",))
    shown = Decoder("logistic").plan(data, permutations=9)._repr_html_()
    assert "&lt;i&gt; 10" in shown
    assert "<i>" not in shown
    assert "<b>" not in shown
    assert "smallest possible p 0.1" in shown


def test_what_cannot_be_reported_is_refused_before():
    with pytest.raises(InputError, match="curve needs classes"):
        Decoder("ridge").plan(DESIGNS["numbers"], curve=True)
    with pytest.raises(InputError, match="positive"):
        Decoder("logistic").plan(DESIGNS["no groups"], positive="c")


def test_seconds_grow_with_the_power_that_was_seen():
    few, more = np.arange(16), np.arange(32)
    growth = _fitted_power([(few, 1.0), (more, 4.0)])
    assert_allclose(growth.power, 2.0)
    assert_allclose(growth.of(64), 16.0)
    assert _fitted_power([(few, 1.0), (more, 0.5)]).power == 1.0  # never less than linear
    assert _fitted_power([(few, 1e-4), (more, 1.0)]).power == 1.0  # a clock of noise
    assert _fitted_power([(few, 1.0)]) == Growth(few, 1.0, 1.0)


def test_every_beginning_has_all_classes():
    y = np.repeat(["a", "b", "c"], [5, 2, 9])
    order = _every_class_in_turn(y)
    assert sorted(order) == list(range(16))
    assert pd.Series(y[order[:6]]).value_counts().to_dict() == {"a": 2, "b": 2, "c": 2}
