"""A search that knows earlier ones, against the search of every stump."""

import numpy as np
import pytest
from tests.models.boosting.oracle import first_highest, naive_pool

from voxprior import VoxelSpace, algebra
from voxprior.models.boosting import search as search_module
from voxprior.models.boosting.coordinate_descent import Settings, boost
from voxprior.models.boosting.penalty import make_penalty
from voxprior.models.boosting.search import StumpSearch, best_stump
from voxprior.models.boosting.stumps import presort, threshold


def scans(kind, n=20, n_features=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    if kind == "ugly":
        X[:, 3], X[:, 20:24], X[:, 9] = 2.0, X[:, 4:5], np.round(X[:, 9])
        X[:, 26] = -X[:, 4]
    return X


def walk(rng, n, n_steps, longest):
    """Signed weights as boosting changes them: by two factors in every step."""
    u = rng.choice([-1.0, 1.0], n)
    for _ in range(n_steps):
        yield u
        u = u * np.exp(rng.uniform(0, longest) * rng.choice([-1.0, 1.0], n, p=[0.7, 0.3]))


@pytest.mark.parametrize("longest", [0.05, 0.5, 30.0])
@pytest.mark.parametrize("kind", ["fair", "ugly"])
@pytest.mark.parametrize("n_locations", [150, 75, 6])
def test_every_search_finds_what_the_first_would(kind, longest, n_locations, rng, monkeypatch):
    monkeypatch.setattr(search_module, "MOST_SEARCHES", 20)
    pool = presort(scans(kind))
    search, gamma = StumpSearch(pool), np.zeros(n_locations)
    looked_at = []
    for u in walk(rng, 20, 50, longest):
        assert search.best(u, gamma) == best_stump(pool, u, gamma)
        looked_at.append((search.found_by == (search.n_searches - 1) % 20).mean())
        gamma += 0.1 * np.abs(u).sum() / 20 * rng.standard_normal(n_locations)
    if longest == 0.05 and n_locations == 150:
        assert np.median(looked_at) < 0.8


@pytest.mark.parametrize("kind", ["fair", "ugly"])
def test_it_is_the_best_of_all_stumps(kind, rng):
    X = scans(kind, n=11, n_features=30)
    pool, every = presort(X), naive_pool(X, 30)
    search = StumpSearch(pool)
    for u in walk(rng, 11, 25, 0.3):
        gamma = 0.2 * rng.standard_normal(30)
        found = search.best(u, gamma)
        scores = every.H @ u + gamma[every.place]
        j = first_highest(scores, 1e-12 * np.abs(u).sum())
        theta = threshold(pool, found.feature, found.position)
        assert (found.feature, theta, found.sign) == every.stumps[j]
        assert found.score == pytest.approx(scores[j], abs=1e-12)


def test_weights_that_turn_or_vanish_are_searched_all_the_same(rng):
    pool, gamma = presort(scans("ugly")), np.zeros(150)
    search = StumpSearch(pool)
    for u in (rng.standard_normal(20), np.zeros(20), rng.standard_normal(20), np.eye(20)[3]):
        assert search.best(u, gamma) == best_stump(pool, u, gamma)


def test_threads_change_nothing(rng, monkeypatch):
    pool, gamma = presort(scans("ugly", n_features=3001)), np.zeros(3001)
    alone, together = StumpSearch(pool), StumpSearch(pool)
    for u in walk(rng, 20, 10, 0.1):
        expected = alone.best(u, gamma)
        with monkeypatch.context() as patch:
            patch.setattr(algebra, "SMALL_WORK", 0)
            assert together.best(u, gamma) == expected


@pytest.mark.parametrize("kernel", ["gaussian", "equalized", "identity"])
def test_boosting_with_it_is_boosting_without(kernel, monkeypatch):
    space = VoxelSpace.grid((5, 6, 5))
    penalty = make_penalty(kernel, space, 150, 1.0, 1.0, "voxel")
    X, y = scans("ugly"), np.where(np.arange(20) % 2, 1.0, -1.0)
    found = boost(presort(X), y, penalty, Settings(0.5, 60, backward=True))
    monkeypatch.setattr(search_module, "MOST_SEARCHES", 1)  # all edges anew, every time
    plain = boost(presort(X), y, penalty, Settings(0.5, 60, backward=True))
    for ours, theirs in zip(found[:4], plain[:4]):
        np.testing.assert_array_equal(ours, theirs)
