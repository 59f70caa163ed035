import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.boosting.oracle import first_highest, naive_pool

from voxprior import algebra
from voxprior.models.boosting.search import best_stump
from voxprior.models.boosting.stumps import presort, responses, subset, threshold


def problem(seed, n, n_locations, n_times, levels, dtype):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n, n_locations * n_times)).astype(dtype)
    return X, rng.standard_normal(n), rng.standard_normal(n_locations)


problems = st.builds(
    problem,
    st.integers(0, 10**6),
    st.integers(2, 25),
    st.integers(1, 20),
    st.integers(1, 3),
    st.sampled_from([2, 5, 1000]),
    st.sampled_from([np.float32, np.float64]),
)


@settings(max_examples=60, deadline=None)
@given(problems)
def test_best_stump_is_that_of_the_whole_pool(given_problem):
    X, u, gamma = given_problem
    pool, every = presort(X), naive_pool(X, len(gamma))
    found = best_stump(pool, u, gamma)
    if not every.stumps:
        assert found.score == -np.inf
        return
    scores = every.H @ u + gamma[every.place]
    j = first_highest(scores, 1e-12 * np.abs(u).sum())
    assert found.score == pytest.approx(scores[j], abs=1e-12)
    theta = threshold(pool, found.feature, found.position)
    assert (found.feature, theta, found.sign) == every.stumps[j]
    h = responses(pool, found.feature, found.position, found.sign)
    np.testing.assert_array_equal(h, every.H[j])


@settings(max_examples=40, deadline=None)
@given(problems, st.integers(0, 10**6))
def test_filtering_equals_sorting_anew(given_problem, seed):
    X = given_problem[0]
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(rng.random(len(X)) < 0.7)
    if len(rows) < 2:
        return
    for n_thresholds in (None, 3):
        filtered, sorted_anew = (
            subset(presort(X, n_thresholds), rows),
            presort(X[rows], n_thresholds),
        )
        for name in ("order", "distinct", "candidates"):
            np.testing.assert_array_equal(getattr(filtered, name), getattr(sorted_anew, name))


@pytest.mark.parametrize("n", [2, 200, 256, 257, 700])
def test_orders_take_the_smallest_type_and_agree_with_a_stable_sort(rng, n):
    X = rng.integers(0, 50, (n, 21)).astype(np.float32)
    pool = presort(X)
    assert pool.order.dtype == (np.uint8 if n <= 256 else np.uint16)
    order = pool.order.transpose(1, 0, 2).reshape(n, -1)[:, :21]
    np.testing.assert_array_equal(order, np.argsort(X, axis=0, kind="stable"))


def test_memory_is_under_two_bytes_per_sample_and_voxel(rng):
    pool = presort(rng.standard_normal((100, 4000)).astype(np.float32))
    assert pool.candidates is pool.distinct
    assert pool.order.nbytes + pool.distinct.nbytes <= 1.2 * 100 * 4000


def test_threads_change_nothing(rng, monkeypatch):
    X = rng.integers(0, 9, (30, 3001)).astype(float)
    u, gamma = rng.standard_normal(30), 0.1 * rng.standard_normal(3001)
    pool = presort(X)
    alone = best_stump(pool, u, gamma)
    monkeypatch.setattr(algebra, "SMALL_WORK", 0)
    assert best_stump(pool, u, gamma) == alone
    for ours, theirs in zip(presort(X)[:3], pool[:3]):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "read-only", "memory-mapped"])
def test_any_memory_layout(rng, layout, tmp_path):
    X = rng.standard_normal((20, 40)).astype(np.float32)
    u, gamma = rng.standard_normal(20), np.zeros(40)
    expected = best_stump(presort(X), u, gamma)
    if layout == "F":
        given_X = np.asfortranarray(X)
    elif layout == "strided":
        given_X = np.repeat(X, 2, axis=1)[:, ::2]
    elif layout == "read-only":
        given_X = X.copy()
        given_X.flags.writeable = False
    elif layout == "memory-mapped":
        np.save(tmp_path / "X.npy", X)
        given_X = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        given_X = X
    assert best_stump(presort(given_X), u, gamma) == expected


def test_equal_values_are_never_split():
    X = np.array([[1.0], [1.0], [1.0], [2.0]])
    pool = presort(X)
    found = best_stump(pool, np.array([1.0, -1.0, -1.0, 1.0]), np.zeros(1))
    assert threshold(pool, 0, found.position) == 1.5


def test_constant_features_have_no_stump():
    found = best_stump(presort(np.ones((5, 3))), np.arange(5.0), np.zeros(3))
    assert found.score == -np.inf


def test_thresholds_lie_between_neighbouring_floats():
    for dtype in (np.float32, np.float64):
        low = dtype(1.0)
        high = np.nextafter(low, dtype(2.0))
        pool = presort(np.array([[low], [high]]))
        theta = threshold(pool, 0, 0)
        assert float(low) <= theta < float(high)


def test_quantile_thresholds_are_a_spread_subset(rng):
    X = rng.standard_normal((40, 8))
    pool = presort(X, 3)
    positions = [np.flatnonzero((pool.candidates[0] >> lane) & 1) for lane in range(8)]
    for found in positions:
        np.testing.assert_array_equal(found, [9, 19, 29])


def test_a_quantile_inside_a_tie_moves_up_to_the_next_boundary():
    X = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 2.0])[:, None]
    pool = presort(X, 1)
    np.testing.assert_array_equal(np.flatnonzero(pool.candidates[0] & 1), [4])
