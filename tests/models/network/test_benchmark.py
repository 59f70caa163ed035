"""The reproduction of the paper runs, and says what it should on a small brain."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.speed import network as speed

from voxprior import InverseTreeClassifier
from voxprior.models.network.bits import pack, unpack
from voxprior.papers.chen2005 import run
from voxprior.papers.chen2005.comparators import COMPARATORS, predict
from voxprior.papers.chen2005.data import simulate
from voxprior.papers.chen2005.folds import choose, probabilities
from voxprior.papers.chen2005.prism import UNCLASSIFIED, Prism
from voxprior.papers.frame import Run


@pytest.mark.slow
def test_the_paper_in_a_small_brain():
    found = run.tissue_step("GM", Run(quick=True))
    rows = found.tables[run.TABLE_3].rows
    assert ("GM_Sex", "inverse tree", 0.9) in [tuple(row.values())[:3] for row in rows]
    assert set(found.figures) >= {"figure6_GM_Age", "figure7_GM_Sex"}
    published = pd.read_csv(run.HERE / "published.csv", index_col=["table", "row"])
    assert (
        published.loc["Table 2"]
        .loc["leave-one-out"]
        .equals(published.loc["Table 3"].loc["inverse tree"])
    )


def test_selection_outside_the_folds_is_optimistic_and_inside_is_not():
    study = simulate("GM", quick=True)
    row = run.noise_control(study.words, 119)
    assert row["leaky CV(10)"] > 0.7
    assert abs(row["nested CV(10)"] - 0.5) < 0.15


@pytest.mark.parametrize("timing", ["after", "during"])
def test_a_fold_equals_a_fit_on_its_training_subjects(timing):
    study = simulate("GM", quick=True)
    y = study.labels["GM_Age"]
    X = unpack(study.words, len(y))
    train = np.arange(len(y)) % 4 > 0
    rules = run.PRINTED._replace(timing=timing)
    choice = choose(study.words, y, train, rules)
    settings = {"select": "gain", "max_parents": 4, "state": "hard", "doubt": None}
    model = InverseTreeClassifier(timing=timing, **settings)
    model.fit(X[train], y[train])
    assert choice.parents.tolist() == model.parents_.tolist()
    p = probabilities(study.words, y, train, choice, rules, soft=False)
    np.testing.assert_allclose(p, model.predict_proba(X[~train])[:, 1])


def test_prism_separates_and_conquers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 4))
    y = X[:, 1] & (1 - X[:, 3])
    model = Prism().fit(X, y)
    assert np.array_equal(model.predict(X), y)
    assert (1, {1: 1, 3: 0}) in model.rules_
    contradictory = Prism().fit(np.zeros((3, 1)), np.array([0, 1, 1]))
    assert contradictory.predict(np.ones((1, 1))).tolist() == [UNCLASSIFIED]


@pytest.mark.parametrize("name", COMPARATORS)
def test_comparators_learn_a_conjunction_and_do_without_variables(name):
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    y = X[:, 0] & X[:, 1]
    assert np.mean(predict(name, X, y, X) == y) >= 0.75
    assert predict(name, X[:, :0], y, X[:2, :0]).tolist() == [0, 0]


def test_peers_agree_on_scores():
    pytest.importorskip("pgmpy")
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (50, 6)), rng.integers(0, 2, 50)
    assert all(seconds > 0 for seconds in speed.peers(X, y, 6).values())
    assert len(pack(X)) == 6
