"""The reproduction of the paper runs, and says what it should on a small brain."""

import numpy as np
import pytest
from benchmarks.speed import network as speed

from voxprior import InverseTreeClassifier
from voxprior.models.network.bits import pack, unpack
from voxprior.papers.chen2005 import data, measures, run
from voxprior.papers.chen2005.comparators import COMPARATORS, ClusterVotes, predict
from voxprior.papers.chen2005.folds import (
    Choice,
    choose,
    cluster_votes,
    parent_states,
    probabilities,
)
from voxprior.papers.chen2005.prism import UNCLASSIFIED, Prism
from voxprior.papers.frame import Run


@pytest.fixture(scope="module")
def study():
    return data.simulate("GM", 0, data.SMALL)


@pytest.mark.slow
def test_the_paper_in_a_small_brain():
    found = run.samples(Run(quick=True))
    rows = found.tables[run.TABLE_3].rows
    told = {(row["data"], row["method"]): row["published"] for row in rows}
    assert told["GM_Sex", "inverse tree"] == 0.9
    assert set(found.figures) >= {"figure6_GM_Age", "figure7_WM_Sex"}
    assert len(found.claims) == 2 * len(COMPARATORS) + 5
    assert {len(claim.effects) for claim in found.claims} == {4}


def test_published_tables_agree_with_each_other():
    printed = run.published()
    one, other = ("Table 2", "leave-one-out"), ("Table 3", "inverse tree")
    assert printed.loc[one].equals(printed.loc[other])


def test_selection_outside_the_folds_is_optimistic_and_inside_is_not(study):
    row = run.noise_control(study.words)
    assert row["leaky CV(10)"] > 0.7
    assert abs(row["nested CV(10)"] - 0.5) < 0.15


@pytest.mark.parametrize("timing", ["after", "during"])
@pytest.mark.parametrize("joint", [False, True])
def test_a_fold_equals_a_fit_on_its_training_subjects(study, timing, joint):
    y = study.labels["GM_Age"]
    X = unpack(study.words, len(y))
    train = np.arange(len(y)) % 4 > 0
    rules = measures.PRINTED._replace(timing=timing)
    choice = choose(study.words, y, train, rules)
    settings = {"select": "gain", "max_parents": 4, "state": "hard", "doubt": None}
    new = "joint" if joint else "fixed"
    model = InverseTreeClassifier(timing=timing, new_samples=new, **settings)
    model.fit(X[train], y[train])
    assert choice.parents.tolist() == model.parents_.tolist()
    p = probabilities(study.words, y, train, choice, rules, soft=False, joint=joint)
    np.testing.assert_allclose(p, model.predict_proba(X[~train])[:, 1])


def test_variables_are_states_or_majorities():
    X = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 1]])
    choice = Choice(np.array([3, 0]), [np.array([1, 2]), np.array([2])])
    words = pack(X)
    assert parent_states(words, 3, choice).tolist() == [[0, 1], [1, 0], [1, 0]]
    assert cluster_votes(words, 3, choice).tolist() == [[0, 1], [1, 0], [0, 0]]
    assert cluster_votes(words, 3, Choice(np.array([]), [])).shape == (3, 0)


def test_votes_in_a_pipeline_are_the_votes_of_a_fold(study):
    y = study.labels["GM_Sex"]
    X = unpack(study.words, len(y))
    choice = choose(study.words, y, np.ones(len(y), dtype=bool), measures.PRINTED)
    votes = ClusterVotes().fit(X, y).transform(X)
    np.testing.assert_array_equal(votes[:, 1:], cluster_votes(study.words, len(y), choice))
    assert (votes[:, 0] == 0).all()


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
