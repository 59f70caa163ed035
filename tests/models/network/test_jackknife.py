"""The pruned search of all leave-one-out samples against searches of their own."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.bits import pack
from voxprior.models.network.bdeu import TIE, family, gains
from voxprior.models.network.greedy import grow
from voxprior.models.network.jackknife import _slack, leave_one_out_paths


def study(n, n_classes, n_noise, density, seed):
    """Parents with near copies, exact copies, constants and noise; the copies make many ties."""
    rng = np.random.default_rng(seed)
    base = rng.random((n, 3)) < density
    near = base[:, rng.integers(0, 3, 8)] ^ (rng.random((n, 8)) < 0.08)
    noise = rng.random((n, n_noise)) < density
    columns = [near, near[:, :3], np.zeros((n, 2)), np.ones((n, 1)), noise, noise[:, :2], ~near]
    X = np.column_stack(columns).astype(np.int64)
    y = base.sum(axis=1) % n_classes
    y = np.where(rng.random(n) < 0.15, rng.integers(0, n_classes, n), y)
    order = rng.permutation(X.shape[1])
    return X[:, order], y


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(3, 24),
    n_classes=st.integers(2, 4),
    density=st.sampled_from([0.1, 0.5]),
    alpha=st.sampled_from([1.0, "bdeu", 0.2]),
    limit=st.sampled_from([1, 3, 9]),
    seed=st.integers(0, 10**6),
)
def test_jackknife_equals_naive_searches(oracle, n, n_classes, density, alpha, limit, seed):
    X, y = study(n, n_classes, 6, density, seed)
    for i, found in enumerate(leave_one_out_paths(pack(X), y, n_classes, alpha, limit)):
        rows = np.delete(np.arange(n), i)
        assert list(found) == oracle.search(X, y, n_classes, alpha, limit, rows)[0]


@settings(max_examples=12, deadline=None)
@given(
    n=st.sampled_from([63, 64, 65, 90, 119, 130]),
    n_classes=st.integers(2, 4),
    density=st.sampled_from([0.05, 0.5, 0.8]),
    alpha=st.sampled_from([1.0, "bdeu"]),
    seed=st.integers(0, 10**6),
)
def test_jackknife_equals_refits_on_the_other_samples(n, n_classes, density, alpha, seed):
    X, y = study(n, n_classes, 3000, density, seed)
    words = pack(X)
    for i, found in enumerate(leave_one_out_paths(words, y, n_classes, alpha, 5)):
        if i % 9 == 0:
            weights = np.ones(n, dtype=np.int64)
            weights[i] = 0
            refit = grow(words, y, n_classes, alpha, 5, weights=weights)
            assert list(found) == refit.parents.tolist()


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(3, 80),
    n_parents=st.integers(0, 3),
    alpha=st.sampled_from([1.0, "bdeu", 0.2]),
    seed=st.integers(0, 10**6),
)
def test_no_voxel_rises_by_more_than_its_slack(n, n_parents, alpha, seed):
    X, y = study(n, 3, 40, 0.4, seed)
    words, parents = pack(X), list(range(n_parents))
    cells = family(words, y, 3, parents, alpha)
    scores = cells.score + gains(words, cells)
    slack = _slack(cells, y, np.arange(n))
    for i in range(n):
        weights = np.ones(n, dtype=np.int64)
        weights[i] = 0
        without = family(words, y, 3, parents, alpha, weights)
        delta = gains(words, without)
        counts = delta != 0.0
        assert np.all((without.score + delta)[counts] <= scores[counts] + slack[i] + TIE)
