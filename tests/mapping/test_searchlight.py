"""Searchlights: inference by the maximum, designs, other decoders, what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.mapping import neighborhoods, searchlight
from voxprior.mapping.local_test import corrected, threshold
from voxprior.report.local import light_headline

SPACE = VoxelSpace.grid((12,))
NEAR = {"radius": 1, "units": "voxel"}


@pytest.fixture
def data(rng):
    y, runs = np.tile(["face", "house"], 12), np.repeat(np.arange(6), 4)
    X = rng.normal(size=(24, 12))
    X[:, 4:6] += 2.5 * (y == "face")[:, None]
    return X, y, runs


@pytest.mark.parametrize("score", ["accuracy", "auc"])
def test_p_by_hand(rng, score):
    """Four runs of two scans: all sixteen relabellings, one at a time; accuracy, then margin."""
    y, runs = np.tile([0, 1], 4), np.repeat(np.arange(4), 2)
    X, given = rng.normal(size=(8, 12)) + runs[:, None], NEAR | {"score": score}
    found = searchlight(X, y, runs, SPACE, **given)
    assert found.exact
    assert found.smallest_p == 2 / 16
    flips = [[(k >> r) & 1 for r in range(4)] for k in range(16)]
    labels = [np.where(np.repeat(flip, 2), 1 - y, y) for flip in flips]
    maps = np.array([searchlight(X, one, runs, SPACE, **given).score for one in labels])
    if score == "accuracy":
        options = NEAR | {"score": "margin"}
        margins = np.array([searchlight(X, one, runs, SPACE, **options).score for one in labels])
        maps = maps + np.tanh(margins / 3) / 32
    highest = maps.max(axis=1)
    np.testing.assert_allclose(np.sort(found.null_max), np.sort(highest[1:]), rtol=1e-6)
    expected = [np.mean(highest >= own - 1e-6) for own in maps[0]]
    np.testing.assert_allclose(found.p_fwer, expected)
    assert found.p_fwer.min() >= 2 / 16
    alone = [np.mean(maps[:, v] >= maps[0, v] - 1e-6) for v in range(12)]
    np.testing.assert_allclose(found.p_uncorrected, alone)


def test_finds_what_is_there(data):
    found = searchlight(*data, SPACE, n_permutations=200, **NEAR)
    assert set(np.flatnonzero(found.significant)) <= {3, 4, 5, 6}
    assert found.significant[[4, 5]].all()
    assert found.score[found.significant].min() > found.threshold
    assert found.score[~found.significant].max() <= found.threshold
    assert found.size.tolist() == [2, *[3] * 10, 2]
    assert "tell face and house apart" in found.hypothesis
    assert "not the voxel at its centre" in found.hypothesis
    assert repr(found).startswith("Searchlight: ")
    assert "familywise error 0.05" in repr(found)


def test_pattern_whose_means_cancel(rng):
    """Two voxels that agree in one class and disagree in the other hold no mean difference."""
    y, runs = np.tile([0, 1], 40), np.repeat(np.arange(8), 10)
    X = rng.normal(size=(80, 12))
    common = 3 * rng.normal(size=80)
    X[:, 4], X[:, 5] = common + y + 0.5 * X[:, 4], common - y + 0.5 * X[:, 5]
    found = searchlight(X, y, runs, SPACE, n_permutations=200, **NEAR)
    assert found.significant[[4, 5]].all()


@pytest.mark.parametrize("score", ["accuracy", "auc", "margin"])
def test_scores_agree_on_where(data, score):
    found = searchlight(*data, SPACE, score=score, n_permutations=100, **NEAR)
    assert found.score.argmax() in (3, 4, 5, 6)
    assert found.p_fwer.min() <= 0.02


def test_three_classes(rng):
    y, runs = np.tile(["cat", "face", "house"], 8), np.repeat(np.arange(4), 6)
    X = rng.normal(size=(24, 12))
    X[:, 4] += 4 * (y == "cat")
    X[:, 5] += 4 * (y == "face")
    found = searchlight(X, y, runs, SPACE, n_permutations=100, **NEAR)
    assert found.significant[[4, 5]].all()
    assert "cat, face and house" in found.hypothesis


def test_scans_without_groups(rng):
    y = np.repeat(["patient", "control"], 15)
    X = rng.normal(size=(30, 12))
    X[:, 4:6] += 2 * (y == "patient")[:, None]
    found = searchlight(X, y, None, SPACE, n_permutations=200, **NEAR)
    assert "among all scans" in found.scheme
    assert found.significant[[4, 5]].all()


def test_groups_of_one_class(rng):
    y, subjects = np.repeat([0, 1], 16), np.repeat(np.arange(8), 4)
    X = rng.normal(size=(32, 12)) + rng.normal(size=(8, 12))[subjects]
    found = searchlight(X, y, subjects, SPACE, score="auc", **NEAR)
    assert "whole groups" in found.scheme
    assert found.n_distinct == 70


def test_blocks_move_together(rng):
    y, runs, blocks = (
        np.tile([0, 0, 1, 1], 6),
        np.repeat(np.arange(6), 4),
        np.repeat(np.arange(12), 2),
    )
    found = searchlight(rng.normal(size=(24, 12)), y, runs, SPACE, blocks=blocks, **NEAR)
    assert found.n_distinct == 64
    assert found.exact


def test_times_of_a_voxel_stay_together(data):
    X, y, runs = data
    later = np.hstack([np.zeros_like(X), X])
    once = searchlight(X, y, runs, SPACE, n_permutations=20, **NEAR)
    twice = searchlight(later, y, runs, SPACE, n_permutations=20, **NEAR, alpha=0.3)
    assert twice.size.tolist() == once.size.tolist()
    assert twice.score.argmax() in (3, 4, 5, 6)


@pytest.mark.parametrize("standardize", ["zscore", "center", "none"])
def test_run_offsets_need_standardising(data, standardize):
    X, y, runs = data
    offsets = 20 * np.random.default_rng(1).normal(size=(6, 12))[runs]
    found = searchlight(X + offsets, y, runs, SPACE, standardize=standardize, **NEAR)
    plain = searchlight(X, y, runs, SPACE, standardize=standardize, **NEAR)
    same = np.allclose(found.score, plain.score)
    assert same == (standardize != "none")


def test_constant_and_duplicated_voxels(data):
    X, y, runs = data
    X = X.copy()
    X[:, 8:] = 0.1
    X[:, 1] = X[:, 0]
    found = searchlight(X.astype(np.float32), y, runs, SPACE, n_permutations=50, **NEAR)
    np.testing.assert_array_equal(found.score[9:], 0.5)
    assert (found.p_uncorrected[9:] == 1).all()


class TestOtherDecoders:
    def test_ridge_refitted(self, data):
        """With the penalty of the searchlight given, labels of a ridge classifier are the same."""
        X, y, runs = data
        X = X - np.array([X[runs == run].mean(axis=0) for run in range(6)])[runs]
        ours = searchlight(X, y, runs, SPACE, alpha=1e-9, n_permutations=3, **NEAR)
        theirs = searchlight(
            X, y, runs, SPACE, estimator=RidgeClassifier(1e-9), n_permutations=3, **NEAR
        )
        np.testing.assert_allclose(ours.score, theirs.score)
        # Less than a quarter of a scan is added by margins, which other decoders need not have.
        np.testing.assert_allclose(ours.null_max, theirs.null_max, atol=0.25 / len(y))
        assert theirs.decoder == "RidgeClassifier"

    @pytest.mark.parametrize("score", ["accuracy", "auc", "margin"])
    def test_scores(self, data, score):
        found = searchlight(
            *data, SPACE, estimator=GaussianNB(), score=score, n_permutations=5, **NEAR
        )
        assert found.score.argmax() in (3, 4, 5, 6)

    def test_families_know_where_the_voxels_are(self, data):
        found = searchlight(*data, SPACE, estimator=FeatureSharingNB(), n_permutations=1, **NEAR)
        assert found.score.argmax() in (3, 4, 5, 6)

    def test_labels_alone_have_no_margin(self, data):
        class LabelsOnly(GaussianNB):
            predict_proba = property(lambda self: self.absent)

        with pytest.raises(ValueError, match=r"labels alone.*score='accuracy'"):
            searchlight(
                *data, SPACE, estimator=LabelsOnly(), score="margin", n_permutations=1, **NEAR
            )


class TestRefused:
    def test_one_line_each(self, data):
        X, y, runs = data
        for words, changes in {
            "space=, a VoxelSpace|Give space": {"space": None},
            "multiple of its 7 voxels": {"space": VoxelSpace.grid((7,))},
            "accuracy, auc, margin": {"score": "f1"},
            "auto, zscore": {"standardize": "run"},
            "between 0 and 1": {"level": 5},
            "not a penalty": {"alpha": 0},
            "labels of classes": {"y": np.linspace(0, 1, 24)},
            "2 groups or more": {"groups": np.zeros(24)},
            "NaN": {"X": np.full_like(X, np.nan)},
        }.items():
            given = {"X": X, "y": y, "groups": runs, "space": SPACE} | NEAR | changes
            with pytest.raises(ValueError, match=words):
                searchlight(**given)


def test_threshold_is_what_must_be_exceeded(rng):
    null = rng.normal(size=199).round(1)
    for level in (0.01, 0.05, 0.3):
        found = threshold(null, level)
        scores = np.unique(np.concatenate([null, null + 0.05]))
        np.testing.assert_array_equal(
            corrected(scores, null) <= level + 1e-12, scores > found + 1e-9
        )
    assert threshold(null, 0.001) == np.inf


@pytest.mark.parametrize(
    ("runs", "options", "words"),
    [
        (6, {}, "threshold 1.012, which no accuracy can exceed (among those of 1 the margin"),
        (6, {"score": "auc"}, "threshold 1.000, which no area under ROC can exceed"),
        (4, {}, "no threshold: too few relabellings for a level of 0.05"),
    ],
)
def test_says_that_no_score_can_exceed_the_threshold(runs, options, words):
    """Of few scans some neighbourhood decodes all under most relabellings."""
    y, groups = np.tile([0, 1], runs), np.repeat(np.arange(runs), 2)
    X = np.random.default_rng(0).normal(size=(2 * runs, 300))
    found = searchlight(X, y, groups, VoxelSpace.grid((300,)), **NEAR, **options)
    assert np.nanmax(found.score) == 1.0
    assert words in repr(found)
    assert words[1:] in light_headline(found)
    assert not found.told()["threshold_is_reachable"]
    margin = searchlight(X, y, groups, VoxelSpace.grid((300,)), **NEAR, score="margin")
    assert margin.reachable == (runs == 6)


@pytest.mark.slow
def test_familywise_error_on_noise():
    """No signal, 150 data sets: any claim in at most 5 % and two standard errors."""
    space = VoxelSpace.grid((6, 6, 4))
    claims = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        y, runs = np.tile([0, 1], 16), np.repeat(np.arange(8), 4)
        X = rng.normal(size=(32, space.n_voxels)) + rng.normal(size=(8, space.n_voxels))[runs]
        found = searchlight(
            X, y, runs, space, radius=1, units="voxel", n_permutations=99, random_state=seed
        )
        claims.append(found.significant.any())
    assert np.mean(claims) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)


def test_neighbourhoods_are_those_of_the_space():
    assert neighborhoods(SPACE, **NEAR).members(3).tolist() == [2, 3, 4]


@pytest.mark.parametrize("score", ["auc", "accuracy"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_equal_values_tie_whatever_their_last_digits(score, n_classes):
    """Voxels of 0 and 1 in another unit are decoded alike, however their products are rounded."""
    rng, space = np.random.default_rng(0), VoxelSpace.grid((4, 4, 3))
    y, groups = np.tile(np.arange(n_classes), 24 // n_classes), np.repeat(np.arange(4), 6)
    X = (rng.normal(size=(24, 48)) > 0) * 1.0
    options = {"radius": 1.5, "units": "voxel", "n_permutations": 100, "score": score}
    found = [searchlight(one, y, groups, space, **options) for one in (X, 0.5 * X + 0.3)]
    np.testing.assert_array_equal(found[0].p_uncorrected, found[1].p_uncorrected)
    np.testing.assert_array_equal(found[0].p_fwer, found[1].p_fwer)
