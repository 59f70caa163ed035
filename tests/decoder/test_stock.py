"""Stock decoders on the folds of a run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA

from voxprior import Decoder, VoxelSpace
from voxprior.decoder import stock as stock_module
from voxprior.decoder.experiment import Experiment
from voxprior.decoder.stock import ScanSpan, stock_decoders, stock_results, stock_tables
from voxprior.images import Dataset

RUNNING = {"n_jobs": 1, "random_state": 0, "progress": False}


def scans(y, n_voxels=27):
    X = np.random.default_rng(0).normal(size=(len(y), n_voxels)).astype("f4")
    X[:, :5] += 1.5 * (np.asarray(y) == y[0])[:, None]
    return Dataset(X, np.asarray(y), VoxelSpace.grid((3, 3, 3)))


def tables(known, result, **options):
    return stock_tables(stock_results(known, result, **options), result)


def test_they_are_told_in_a_table():
    known = Experiment(scans(["a", "b"] * 10), 4, (), None, RUNNING)
    result = known.evaluate("naive-bayes")
    (table,) = tables(known, result)
    assert table["rows"][0][1] == f"{result.pooled()['accuracy']:.3f}"
    assert [row[0] for row in table["rows"][1:]] == [
        "tuned logistic regression", "shrinkage LDA", "nearest centroid",
    ]  # fmt: skip
    lda = known.evaluate("lda").pooled()["accuracy"]
    assert table["rows"][2][1] == f"{lda:.3f}"
    assert lda > 0.7


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("kept", [1.0, 0.9])
def test_the_span_is_that_of_principal_components(monkeypatch, kind, kept):
    monkeypatch.setattr(stock_module, "VOXELS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(12, 40)) * np.linspace(3, 0.1, 40) + 100).astype(kind)
    X[:, 5], X[:, 6] = 2.0, X[:, 7]
    theirs = PCA(kept if kept < 1 else 11, svd_solver="full").fit(X)
    ours = ScanSpan(kept).fit(X)
    assert ours.components_.shape == theirs.components_.shape
    new = rng.normal(size=(4, 40)).astype(kind)
    sides = np.sign((ours.components_ * theirs.components_).sum(axis=1))
    assert_allclose(ours.transform(new), sides * theirs.transform(new), rtol=1e-2, atol=2e-3)
    assert ours.components_.dtype == kind


def test_the_span_of_scans_that_are_all_the_same():
    assert (ScanSpan().fit_transform(np.ones((5, 8))) == 0).all()
    assert ScanSpan().fit_transform(np.zeros((1, 8))).shape == (1, 1)


def test_a_long_test_has_to_be_asked_for(monkeypatch):
    monkeypatch.setattr(stock_module, "MOST_SECONDS", 0.0)
    known = Experiment(scans(["a", "b"] * 10), 4, (), None, RUNNING)
    result = known.evaluate("naive-bayes")
    (told,) = tables(known, result)
    assert told["line"].startswith("Stock decoders were not tested: 4 folds of 20 scans of 27")
    assert "Ask for them with --stock" in told["line"]
    assert told["rows"] == []
    assert len(tables(known, result, asked=True)[0]["rows"]) == 4


def test_probabilities_of_another_rule_than_the_answers_are_not_told():
    """Two voxels of unequal spread: the nearest centroid is not the most probable one."""
    rng, y = np.random.default_rng(0), np.array(["a", "b"] * 20)
    X = np.column_stack([(y == "a") + 0.1 * rng.normal(size=40), 9 * rng.normal(size=40)])
    data = Dataset(X.astype("f4"), y, VoxelSpace.grid(2), standardize="none")
    known = Experiment(data, 4, (), None, RUNNING)
    (table,) = tables(known, known.evaluate("naive-bayes"))
    columns = table["columns"]
    centroid = dict(zip(columns, table["rows"][-1]))
    assert centroid["decoder"] == "nearest centroid"
    assert centroid["accuracy"] != "-"
    assert centroid["log loss"] == centroid["area under ROC"] == "-"


@pytest.mark.parametrize("covariates", [None, pd.DataFrame({"age": np.linspace(20, 60, 20) % 7})])
@pytest.mark.parametrize("standardize", ["train", "none"])
def test_scans_turned_once_for_all_give_the_scores_of_each_decoder_alone(covariates, standardize):
    data = scans(["a", "b"] * 10)
    data.X[:, 7], data.X[:, 8] = 3.0, data.X[:, 9]
    data = replace(data, covariates=covariates, standardize=standardize)
    known = Experiment(data, 4, (), None, RUNNING)
    result = known.evaluate("naive-bayes")
    (table,) = tables(known, result)
    for row, (name, decoder) in zip(table["rows"][1:], stock_decoders("classifier").items()):
        alone = known.evaluate(decoder).pooled()
        told = dict(zip(result.score_names, row[1:]))
        assert row[0] == name
        shown = [key for key in told if told[key] != "-"]
        assert len(shown) == (2 if name == "nearest centroid" else len(told))
        assert [told[key] for key in shown] == [f"{alone[key]:.3f}" for key in shown]


def test_one_that_cannot_be_fitted_is_told_with_the_reason():
    known = Experiment(scans(["a", "b"] * 2), [([0, 1, 2], [3])], (), None, RUNNING)
    (table,) = tables(known, known.evaluate("naive-bayes"))
    assert "Tuned logistic regression could not be fitted" in table["line"]
    assert "nearest centroid" in [row[0] for row in table["rows"]]


@pytest.mark.parametrize("stock", [True, False])
def test_numbers_have_ridge_regression_beside_them(stock):
    data = scans(np.random.default_rng(1).normal(size=20))
    done = Decoder("ridge").decode(data, cv=4, stock=stock)
    assert ("ridge regression" in str(done.report.summary["beside"])) == stock
