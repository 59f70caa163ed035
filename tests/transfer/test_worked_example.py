"""Four subjects of three classes, three runs and six voxels, calculated beforehand.

The scans are those of `study.worked_subject`; the first three subjects teach the fourth.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.transfer.study import RUNS, UNIFORM, worked_others, worked_subject

from voxprior.transfer import TransferPrior
from voxprior.transfer.episodes import episode, geometry, moments, noise_share, scans_of
from voxprior.transfer.levels import log_probabilities, mixing, scaled, scores
from voxprior.transfer.maps import GroupMaps, group_maps, map_scorer
from voxprior.transfer.weights import own_evidence


def scans(s):
    return scans_of(*worked_subject(s), 3)


@pytest.fixture(scope="module")
def prior():
    return TransferPrior(UNIFORM).fit(worked_others()).prior_


def own_episode(n):
    new = scans(4)
    known = moments(new, np.flatnonzero(n > RUNS))
    tests = new.X[n <= RUNS]
    return episode(known, tests, new.codes[n <= RUNS], np.zeros((len(tests), 3)))


def test_scans_are_centred_by_run():
    first = [-1.75, -1 / 3, 7 / 12, -1 / 3, -0.75, 13 / 12]
    assert_allclose(scans(1).X[0], first)


def test_variances_that_spread_no_more_than_chance_are_one():
    known = moments(scans(4), np.arange(9))
    assert known.degrees == 4
    assert_allclose(known.sample, [0.371528] * 3 + [0.791667] + [0.371528] * 2, atol=1e-6)
    assert_allclose(known.variances, 0.441551, atol=1e-6)


def test_geometry_and_noise_share():
    traces = [np.trace(geometry(scans(s))) for s in (1, 2, 3, 4)]
    assert_allclose(traces, [3.524378, 2.64, 2.350979, 4.411533], atol=1e-6)
    G = geometry(scans(1))
    assert_allclose(G[0], [1.390381, -0.069320, -1.321061], atol=1e-6)
    assert_allclose(G[1:, 1:].ravel(), [0.441128, -0.371808, -0.371808, 1.692869], atol=1e-6)
    shares = [noise_share(scans(s)) for s in (1, 2, 3, 4)]
    assert_allclose(shares, [0.362032, 0.431034, 0.459667, 0.311938], atol=1e-6)


def test_shape_of_the_group(prior):
    lesson = prior.lessons[1]
    assert lesson.trust == 0.25
    assert_allclose(lesson.noise_share, 0.417578, atol=1e-6)
    assert_allclose(lesson.shape[0], [0.455775, -0.187974, -0.267801], atol=1e-6)
    assert_allclose(np.diag(lesson.shape)[1:], [0.232199, 0.312026], atol=1e-6)


EXPECTED = {
    1: {
        "rho": 0.582422,
        "F": [1.850806, -0.217742, -1.633065],
        "Q": [3.850806, 3.850806, 4.298387],
        "S": [2.642037, -0.243101, -2.398936],
        "shaped": [2.626750, -0.203320, -2.423429],
        "t": (1.318539, 1.283176),
        "E": -0.018493,
        "offset": [-0.507866, 0.172222, 0.335645],
    },
    2: {
        "rho": 0.799358,
        "F": [9.024, -2.28, -6.744],
        "Q": [9.376, 7.888, 12.640],
        "S": [7.402542, -1.158004, -6.244538],
        "shaped": [7.420786, -1.123573, -6.297213],
        "t": (1.636440, 1.554322),
        "E": 0.001580,
        "offset": [-0.108383, 0.053403, 0.054980],
    },
}


@pytest.mark.parametrize("n", [1, 2])
def test_scores_and_lessons(prior, n):
    expected, lesson, one = EXPECTED[n], prior.lessons[n], own_episode(n)
    assert_allclose(one.F[0], expected["F"], atol=1e-6)
    assert_allclose(np.diag(one.Q), expected["Q"], atol=1e-6)
    known = scaled(one, lesson.units)
    assert_allclose(mixing(known, lesson.shape, 0.0)[0, 0] * 3 / 2, expected["rho"], atol=1e-6)
    assert_allclose(scores(known, lesson.shape, 0.0)[0], expected["S"], atol=1e-6)
    assert_allclose(scores(known, lesson.shape, lesson.trust)[0], expected["shaped"], atol=1e-6)
    assert_allclose([lesson.temperature, lesson.temperature_geometry], expected["t"], rtol=1e-4)
    assert_allclose(own_evidence(one, lesson), expected["E"], atol=1e-5)
    assert_allclose(lesson.offset, expected["offset"], atol=5e-4)


def test_readout_and_probabilities_at_one_scan_per_class(prior):
    lesson = prior.lessons[1]
    slope = [
        [1.420636, -0.081285, -0.020812],
        [-0.035365, 1.291895, 0.062009],
        [-0.066731, 0.107929, 1.277342],
    ]
    assert_allclose(lesson.slope, slope, atol=1e-4)
    p = {level: np.exp(one[0]) for level, one in log_probabilities(own_episode(1), lesson).items()}
    assert_allclose(p["calibration"], [0.976967, 0.021765, 0.001268], atol=1e-6)
    assert_allclose(p["geometry"], [0.972753, 0.025756, 0.001492], atol=1e-6)
    assert_allclose(p["readout"], [0.974013, 0.024100, 0.001887], atol=1e-5)


def test_losses_left_out_decide_what_is_admitted(prior):
    first, second = prior.left_out[1], prior.left_out[2]
    assert_allclose(first["calibration"], [0.165308, 0.608715, 0.117508], atol=1e-4)
    assert_allclose(first["geometry"], [0.162232, 0.705902, 0.126138], atol=1e-4)
    assert_allclose(first["readout"], [0.276974, 0.830382, 0.128901], atol=2e-3)
    assert_allclose(second["calibration"], [0.035536, 3.592754, 0.024118], atol=1e-3)
    assert prior.levels[1] == ["calibration"]
    assert prior.levels[2] == []  # 1.217 is above log 3, the loss of the base


def test_nothing_admitted_leaves_the_base_alone(prior):
    X, y, runs = worked_subject(4)
    model = TransferPrior(UNIFORM).fit(worked_others()).adapt(X[:6], y[:6], runs[:6])
    assert model.levels_["base"] == 1
    assert_allclose(model.predict_proba(X[6:]), 1 / 3)
    assert "Nothing is taken from the 3 others" in model.decisions_[0]


def test_maps_of_three_others():
    """Class means (a, -a) of three others, noise 1, four scans per class, nothing smoothed."""

    def smooth(width, maps):
        return maps

    a = np.array([[1, 0.2, 0], [1.4, -0.2, 0.1], [0.6, 0, -0.1]])
    empty = moments(scans(1), np.arange(9))
    others = [
        empty._replace(
            means=np.stack([one, -one]),
            sample=np.ones(3),
            counts=np.array([4, 4]),
            degrees=6,
        )
        for one in a
    ]
    group = group_maps(others, [np.stack([one.means for one in others])], smooth)
    assert_allclose(group.mean, [[1, 0, 0], [-1, 0, 0]], atol=1e-12)
    assert_allclose(group.spread, [0.23, 0.0001, 0.0001])
    new = empty._replace(means=np.array([[1.0, 1, 0], [-1, -1, 0]]), counts=np.array([1, 1]))
    scored = map_scorer(group, new).scores(np.array([[1.0, -1, 0]]))
    assert_allclose(scored, [[0.763215, -0.763215]], atol=1e-6)


def test_the_posterior_of_a_map_is_between_own_and_others():
    mean, new = np.array([[1.0, -2.0], [-1.0, 2.0]]), np.array([[3.0, 0.5], [-3.0, -0.5]])
    known = moments(scans(1), np.arange(9))._replace(means=new, counts=np.array([2, 2]))
    tight = GroupMaps(mean, np.full(2, 1e-12), np.ones(2), 0.0, 5)
    loose = GroupMaps(mean, np.full(2, 1e12), np.ones(2), 0.0, 5)
    towards_others, own = map_scorer(tight, known).weights, map_scorer(loose, known).weights
    assert_allclose(towards_others / towards_others[0, 0], mean / mean[0, 0], rtol=1e-6)
    assert_allclose(own / own[0, 0], new / new[0, 0], rtol=1e-6)
