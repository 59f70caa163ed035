"""Hyper-parameters that are integrated out: against brute force over both of them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.errors import InputError
from voxprior.models.sharing.integrated import (
    Pool,
    effective_members,
    integrate_shrinkage,
)


def brute_force(z, own, s2):
    """E[θ_own] under p(μ, τ) ∝ 1, by sums over a grid of both; z are all means, own among them."""
    s = np.sqrt(s2)
    spread = max(np.ptp(z), s)
    mu = np.linspace(min(z) - 20 * spread, max(z) + 20 * spread, 801)[:, None]
    # Equal steps of an angle: fine near 0, and out to hundreds of standard deviations.
    angle = (np.arange(400) + 0.5) / 400 * np.pi / 2
    tau, step = spread * np.tan(angle), spread / np.cos(angle) ** 2
    total = tau**2 + s2
    log_p = sum(-0.5 * np.log(total) - 0.5 * (value - mu) ** 2 / total for value in z)
    p = np.exp(log_p - log_p.max()) * step
    theta = (tau**2 * own + s2 * mu) / total
    return (p * theta).sum() / p.sum()


def integrated(space=None, **changes):
    return FeatureSharingNB(
        space, hyperparameters="integrated", shrinkage=None, variances="median", **changes
    )


@pytest.mark.parametrize("G", [4, 9])
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_equals_brute_force(rng, G, scale):
    """Voxels that are all members of each other, at several ratios of signal to noise."""
    V = G + 1
    everybody = sparse.csr_array(1.0 - np.eye(V))
    y = np.repeat([0, 1], 3)
    X = rng.normal(size=(6, V)) + scale * rng.normal(size=V)
    model = integrated(means=everybody).fit(X, y)
    for c, v in ((0, 0), (1, V - 1)):
        s2 = model.var_[c, v] / 3
        expected = brute_force(model.mean_[c], model.mean_[c, v], s2)
        assert model.theta_[c, v] == pytest.approx(expected, abs=5e-3 * np.sqrt(s2))


def test_all_features_are_one_large_group(rng):
    """`means="all"` is the group of everybody, of any size."""
    V, y = 40, np.repeat([0, 1], 2)
    X = rng.normal(size=(4, V)) + 0.5 * rng.normal(size=V)
    members = sparse.csr_array(1.0 - np.eye(V))
    one, other = (integrated(means=means).fit(X, y).theta_ for means in ("all", members))
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("members", [2.0, 3.0, 26.0, 1e5])
def test_limits(members):
    """Far more spread than noise keeps the mean; far less pulls it to the middle."""
    shape = (1, 1)
    mean, center = np.full(shape, 1.0), np.zeros(shape)

    def pull(q):
        pool = Pool(center, np.full(shape, q), np.full(shape, members))
        return 1 - integrate_shrinkage(mean, pool, np.ones(shape))[0][0, 0]

    pulls = [pull(q) for q in (0.0, 1e-3, 1.0, members, 10 * members, 1e9, np.inf)]
    assert all(a >= b for a, b in zip(pulls, pulls[1:]))
    assert pulls[-1] == 0
    assert pulls[-2] < 1e-3
    # ∫ sin^G / ∫ sin^(G−2) over a quarter of a circle
    assert pulls[0] == pytest.approx((members - 1) / members, rel=1e-6)


def test_voxels_with_fewer_than_two_members_keep_their_means(rng):
    X, y = rng.normal(size=(4, 2)), np.repeat([0, 1], 2)
    pair = integrated(VoxelSpace.grid((2,))).fit(X, y)
    np.testing.assert_allclose(pair.theta_, pair.mean_)
    alone = integrated(None).fit(X, y)
    np.testing.assert_allclose(alone.theta_, alone.mean_)
    nobody = integrated(VoxelSpace.grid((2,)), means="none").fit(X, y)
    np.testing.assert_allclose(nobody.theta_, nobody.mean_)


def test_ugly_scans(rng):
    """Constant and doubled voxels, float32, one scan per class, three classes, string labels."""
    space = VoxelSpace.grid((4, 4, 2))
    y = np.array(["a", "b", "c"] * 2)
    X = rng.normal(size=(6, 3 * 32)).astype(np.float32)
    X[:, 5], X[:, 6] = 1.0, X[:, 7]
    for rows in (slice(6), slice(3)):
        model = FeatureSharingNB(space, hyperparameters="integrated").fit(X[rows], y[rows])
        assert np.isfinite(model.theta_).all()
        assert np.isfinite(model.predict_proba(X)).all()
        again = clone(model).fit(X[rows], y[rows])
        np.testing.assert_array_equal(again.theta_, model.theta_)


def test_an_estimate_pulls_harder_than_doubt(rng):
    """A point estimate of τ² near zero is believed; the integral knows that it may be wrong."""
    space, y = VoxelSpace.grid((6, 6, 6)), np.repeat([0, 1], 2)
    X = rng.normal(size=(4, 216))
    X[y == 1, 100] += 6.0  # a lone strong voxel
    kept = [
        FeatureSharingNB(space, hyperparameters=how, shrinkage=None).fit(X, y).theta_[1, 100]
        for how in ("estimated", "integrated")
    ]
    assert kept[1] > kept[0]


def test_members_count_by_their_weights():
    weights = sparse.csr_array([[0, 1, 1, 1e-9], [3, 0, 3, 3], [0, 0, 7, 0], [0, 0, 0, 0.0]])
    np.testing.assert_allclose(effective_members(weights), [2, 3, 0, 0], atol=1e-6)


def test_chunks_and_forgetting_are_exact(rng):
    space, y = VoxelSpace.grid((3, 3)), np.tile([0, 1], 4)
    X = rng.normal(size=(8, 9))
    whole = FeatureSharingNB(space, hyperparameters="integrated").fit(X, y)
    parts = clone(whole).partial_fit(X[:4], y[:4], classes=[0, 1]).partial_fit(X[4:], y[4:])
    np.testing.assert_allclose(parts.theta_, whole.theta_)
    forgot = parts.forget(X[4:], y[4:])
    np.testing.assert_allclose(forgot.theta_, clone(whole).fit(X[:4], y[:4]).theta_)


@pytest.mark.parametrize("changes", [{"tau_ddof": 1}, {"tau_floor": 0.5}])
def test_what_has_no_effect_is_refused(rng, changes):
    model = FeatureSharingNB(hyperparameters="integrated", **changes)
    with pytest.raises(InputError, match=next(iter(changes))):
        model.fit(rng.normal(size=(4, 3)), [0, 0, 1, 1])
