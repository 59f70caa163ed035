import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import FeatureSharingNB, NoiseWhitening, VoxelSpace
from voxprior.models.sharing import TimeAverage, few_shot_decoder


@parametrize_with_checks([TimeAverage()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_time_average(rng):
    X = rng.normal(size=(5, 4, 6))
    averaged = TimeAverage(VoxelSpace.grid((6,))).fit_transform(X.reshape(5, 24))
    np.testing.assert_allclose(averaged, X.mean(axis=1))
    with pytest.raises(ValueError, match="multiple of its 7 voxels as features, got 24"):
        TimeAverage(VoxelSpace.grid((7,))).fit(X.reshape(5, 24))


def test_is_the_sum_of_its_parts(rng):
    space = VoxelSpace.grid((4, 4))
    trials, y = rng.normal(size=(20, 9 * 16)), np.arange(20) % 2
    assembled = few_shot_decoder(space).fit(trials, y)
    white = NoiseWhitening(space).fit_transform(trials)
    patterns = white.reshape(20, 9, 16).mean(axis=1)
    by_hand = FeatureSharingNB(space).fit(patterns, y)
    np.testing.assert_allclose(assembled.predict_proba(trials), by_hand.predict_proba(patterns))
    assert clone(assembled).get_params()["classify__variances"] == "moderated"


def test_parts_can_be_changed(rng):
    space = VoxelSpace.grid((4, 4))
    patterns, y = rng.normal(size=(6, 16)), np.arange(6) % 2
    plain = few_shot_decoder(space, whiten=False, means="none").fit(patterns, y)
    assert [name for name, _ in plain.steps] == ["average", "classify"]
    volumes = rng.normal(size=(200, 16))
    peer = few_shot_decoder(space, volumes).set_params(classify=LogisticRegression())
    assert peer.fit(patterns, y).predict_proba(patterns).shape == (6, 2)


def test_without_neighbours_means_are_drawn_toward_the_run_mean():
    assert few_shot_decoder().get_params()["classify__shrinkage"] == "james-stein"
    assert few_shot_decoder(VoxelSpace.grid((3,))).get_params()["classify__shrinkage"] is None
    assert few_shot_decoder(shrinkage=None).get_params()["classify__shrinkage"] is None


@pytest.mark.slow
def test_beats_stock_classifiers_on_real_runs(data_folder):
    """Haxby, two runs per class, pairs of categories: directions only."""
    data_folder("haxby_vt")
    from voxprior.papers.datasets import haxby_vt

    data = haxby_vt()
    cleaned = np.empty(data.X.shape)
    for run in np.unique(data.run):
        rows = data.run == run
        drift = np.column_stack([np.ones(rows.sum()), np.linspace(-1, 1, rows.sum())])
        part = data.X[rows].astype(float)
        cleaned[rows] = part - drift @ np.linalg.lstsq(drift, part)[0]
    blocks, first = np.unique(data.block, return_index=True)
    trials = np.stack([cleaned[data.block == block].ravel() for block in blocks])
    y, run = data.y[first], data.run[first]
    scores = {"assembled": [], "plain": [], "logistic": []}
    for pair in (("face", "cat"), ("shoe", "chair"), ("house", "bottle")):
        chosen = np.isin(y, pair)
        for runs in ((0, 1), (2, 3), (4, 5)):
            train, test = chosen & np.isin(run, runs), chosen & ~np.isin(run, runs)
            models = {
                "assembled": few_shot_decoder(data.space, cleaned[np.isin(data.run, runs)]),
                "plain": FeatureSharingNB.paper(data.space),
                "logistic": LogisticRegression(),
            }
            for name, model in models.items():
                scores[name].append(model.fit(trials[train], y[train]).score(trials[test], y[test]))
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["assembled"] > means["logistic"] + 0.02
    assert means["assembled"] > means["plain"] + 0.05
