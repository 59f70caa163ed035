from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from voxprior.decoder import race
from voxprior.images import Dataset
from voxprior.simulate import Scene, blobs, scenes
from voxprior.space import VoxelSpace


def draw(seed):
    return blobs((4, 4, 3), 10, n_blobs=1, blob_radius=1, effect=3.0, random_state=seed)


SCENE = Scene("balls", "a ball", ("gp",), draw, (2, 4), 4)


@pytest.fixture(scope="module")
def table():
    return race.race([SCENE], 3)


def test_one_row_per_fit(table):
    assert len(table) == 3 * 2 * 5
    assert not table.duplicated(["seed", "size", "decoder"]).any()
    found = race.means(table, SCENE)
    expected = table[(table["decoder"] == "lda") & (table["size"] == 2)]["accuracy"].mean()
    assert found.loc["lda", 2] == pytest.approx(expected)


def test_scores_are_those_of_a_plain_count(table):
    data = draw(1)
    train, test = race.rows_of(data, slice(2)), race.rows_of(data, slice(4, 54))
    assert not set(train) & set(test)
    model = race.fitted("gp", data, train, 2)
    p = model.predict_proba(data.X[test])
    cost, likeliest, undecided, right, loss = 0.0, 0.0, 0, 0, 0.0
    for row, label in zip(p, data.y[test]):
        expected = [5 * row[1], 1 * row[0], 0.5]  # say 0, say 1, leave it open
        action = int(np.argmin(expected))
        cost += 0.5 if action == 2 else [[0, 5], [1, 0]][action][label]
        likeliest += [[0, 5], [1, 0]][int(row[1] > row[0])][label]
        undecided += action == 2
        right += (row[1] > row[0]) == label
        loss -= np.log(row[label])
    (found,) = table.query("seed == 1 and size == 2 and decoder == 'gp'").to_dict("records")
    n = len(test)
    told = [found[key] for key in ("cost", "cost_of_likeliest", "open", "accuracy", "log_loss")]
    assert told == pytest.approx([cost / n, likeliest / n, undecided / n, right / n, loss / n])


@pytest.mark.parametrize("score", ["accuracy", "log_loss"])
def test_verdicts_are_paired_t_intervals(score, rng):
    names = ["gp", "auto", "logistic", "lda", "centroid"]
    scene = Scene("x", "", ("gp",), draw, (3,), 3, score)
    values = rng.random((6, 5))
    rows = [
        {"scene": "x", "seed": s, "size": 3, "decoder": name, score: values[s, i]}
        for s in range(6)
        for i, name in enumerate(names)
    ]
    found = race.verdict(pd.DataFrame(rows), scene, "gp")
    sign = -1 if score == "log_loss" else 1
    best = 2 + int(np.argmax(sign * values[:, 2:].mean(axis=0)))
    assert found.rival == names[best]
    interval = ttest_rel(sign * values[:, 0], sign * values[:, best]).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("low", "high", "word"), [(0.1, 0.2, "ahead"), (-0.1, 0.2, "not ahead"), (-0.2, -0.1, "behind")]
)
def test_words(low, high, word):
    assert race.Verdict("lda", (low + high) / 2, low, high).word == word


def test_one_seed_has_no_spread():
    assert np.isnan(race.spread(np.array([0.5])))


def test_runs_of_real_scans_do_not_train_and_test(rng):
    runs = np.repeat(np.arange(12), 2)
    X = runs[:, None] + rng.random((24, 8))
    data = Dataset(X, np.tile(["b", "a"], 12), VoxelSpace.grid((2, 2, 2)), groups=runs)
    first, second = race.real_scenes(lambda pair: data)
    assert first.title == "a and b"
    assert first.sizes == (2, 4, 8)
    drawn = first.draw(3)
    train, test = race.rows_of(drawn, slice(8)), race.rows_of(drawn, slice(8, 58))
    assert not set(drawn.groups[train]) & set(drawn.groups[test])
    np.testing.assert_array_equal(np.floor(drawn.X[:, 0]).astype(int), drawn.groups)
    assert not np.array_equal(drawn.groups, second.draw(4).groups)


def test_what_is_stopped_is_not_told(monkeypatch):
    from voxprior.validation.run import Outcome

    monkeypatch.setattr(race, "run_tasks", lambda *_, **__: Outcome([0], [[]], False))
    with pytest.raises(KeyboardInterrupt):
        race.race([SCENE], 2)


@pytest.mark.slow
@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.title)
def test_families_are_ahead_where_their_assumption_is_true(scene):
    """What the demo shows: ahead of every stock decoder at the decisive size."""
    sizes = tuple(dict.fromkeys([scene.decisive, scene.sizes[-1]]))  # the last says what tests
    table = race.race([replace(scene, sizes=sizes)], 6)
    for name in scene.families:
        assert race.verdict(table, scene, name).word == "ahead", race.means(table, scene)
