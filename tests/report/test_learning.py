"""Whether more scans would help is told by the end of the curve."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from voxprior.report.learning import learning_sentence
from voxprior.validation import learning_curve


@pytest.fixture(scope="module")
def scans():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 60)
    return rng.normal(size=(120, 30)) + 0.6 * y[:, None], y


def test_a_curve_that_rises_asks_for_more(scans):
    told = learning_sentence(learning_curve({"bayes": GaussianNB()}, *scans, sizes=[2, 30]))
    assert told.startswith("From 2 to 30 training scans per class the accuracy of bayes improved")
    assert told.endswith("more scans would probably help.")


def test_a_flat_curve_does_not(scans):
    told = learning_sentence(learning_curve({"dummy": DummyClassifier()}, *scans, sizes=[5, 10]))
    assert "changed by +0.000 (standard error 0.000)" in told
    assert told.endswith("does not show that more scans would help.")


def test_a_single_size_or_split_tells_nothing(scans):
    one = learning_sentence(learning_curve({"bayes": GaussianNB()}, *scans, sizes=[5]))
    assert "one size only" in one
    once = learning_curve({"bayes": GaussianNB()}, *scans, sizes=[2, 5], n_repeats=1)
    assert "one split cannot tell" in learning_sentence(once)
