import numpy as np
import pytest

from voxprior import registry
from voxprior.simulate import scenes

CASES = pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.title)


def test_every_family_has_one_scene():
    named = [name for scene in scenes.SCENES for name in scene.families]
    assert sorted([*named, "auto"]) == sorted(registry.models("classifier", "family"))
    assert len({scene.title for scene in scenes.SCENES}) == len(scenes.SCENES)


@CASES
def test_there_are_scans_to_train_and_to_test(scene):
    assert scene.decisive in scene.sizes
    assert list(scene.sizes) == sorted(scene.sizes)
    for seed in (0, 5):
        data = scene.draw(seed)
        counts = np.bincount(data.y)
        assert len(counts) == 2
        assert counts.min() >= scene.sizes[-1] + 40


@CASES
def test_a_seed_draws_the_truth_anew(scene):
    one, again, other = (scene.truth(scene.draw(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@CASES
def test_maps_are_of_the_same_things_as_the_truth(scene):
    data, size = scene.draw(0), scene.sizes[0]
    rows = np.concatenate([np.flatnonzero(data.y == label)[:size] for label in (0, 1)])
    for name, map_of in scene.maps.items():
        model = registry.model(name).make(data.space).fit(data.X[rows], data.y[rows])
        assert np.shape(map_of(model)) == np.shape(scene.truth(data))


def test_connectivity_is_all_that_differs():
    """No region alone tells the classes apart, in mean or variance."""
    (scene,) = [one for one in scenes.SCENES if one.title == "connectivity"]
    X = np.concatenate([scene.draw(seed).X for seed in range(20)])
    y = np.concatenate([scene.draw(seed).y for seed in range(20)])
    for moment in (np.mean, np.var):
        gap = moment(X[y == 1], axis=0) - moment(X[y == 0], axis=0)
        assert np.abs(gap).max() < 0.2
