import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from voxprior.models.sharing.means import (
    PriorMeans,
    grand_prior,
    group_prior,
    james_stein_factor,
    member_weights,
    no_prior,
    shrink,
)


def courses_of(array, V):
    """(C, J) time-major to (C, V, T)."""
    return array.reshape(len(array), -1, V).transpose(0, 2, 1)


def lists_of(groups):
    return [groups.indices[a:b] for a, b in zip(groups.indptr[:-1], groups.indptr[1:])]


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 5), st.sampled_from(
    ["identity", "scale", "affine"]))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_equals_loops_on_random_graphs(oracle, seed, V, T, mean_map):
    rng = np.random.default_rng(seed)
    groups = sparse.csr_array(rng.random((V, V)) < 0.4)
    groups.setdiag(False)
    groups.eliminate_zeros()
    means = rng.normal(size=(2, T * V))
    means.reshape(2, T, V)[0, :, 0] = 0.0  # a course without power: its maps do not exist
    prior = group_prior(means, groups, mean_map)
    for c in range(2):
        trials = courses_of(means, V)[c][None]
        _, _, mu, tau2 = oracle.fit_class(trials, lists_of(groups), mean_map, np.ones((V, T)))
        np.testing.assert_allclose(courses_of(prior.mean, V)[c], mu, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(courses_of(prior.variance, V)[c], tau2, rtol=1e-8, atol=1e-12)


def test_sparse_products_give_the_same(rng, scattered):
    """B = A diag(1/d), μ̂ = B X̄ / G and τ̂² = (B∘B)(X̄∘X̄)/G − μ̂²: the algebraic form of (4)-(5)."""
    _, _, space = scattered
    V, A = space.n_voxels, space.adjacency().astype(float)
    means = rng.normal(size=(1, 3 * V))
    course = courses_of(means, V)[0]
    gram, size = course @ course.T, np.asarray(A.sum(axis=1)).ravel()
    B = A.toarray() * gram / np.diag(gram)
    linked = size > 0
    mu = (B @ course)[linked] / size[linked, None]
    tau2 = (B**2 @ course**2)[linked] / size[linked, None] - mu**2
    prior = group_prior(means, A, "scale")
    np.testing.assert_allclose(courses_of(prior.mean, V)[0][linked], mu, rtol=1e-9)
    np.testing.assert_allclose(courses_of(prior.variance, V)[0][linked], tau2, atol=1e-9)
    np.testing.assert_array_equal(prior.size[0], size)
    assert np.isinf(courses_of(prior.variance, V)[0][~linked]).all()


def test_proportional_courses_have_no_spread(rng):
    """μ̂ = X̄ and τ̂² = 0, to rounding and not to its square root: two passes, not one."""
    amplitude, shape = rng.uniform(1, 100, size=30), rng.normal(size=8)
    means = np.outer(shape, amplitude).reshape(1, -1)
    groups = sparse.csr_array(1.0 - np.eye(30))
    prior = group_prior(means, groups, "scale")
    np.testing.assert_allclose(prior.mean, means, rtol=1e-12)
    assert (prior.variance <= 1e-24 * (means**2).max()).all()


def test_maps_are_reciprocal_cosines(rng):
    """β_{k→j} β_{j→k} = cos² of the two courses."""
    course = rng.normal(size=(2, 5))
    prior = group_prior(course.T.reshape(1, -1), sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    mu = courses_of(prior.mean, 2)[0]
    beta_to_0, beta_to_1 = mu[0, 0] / course[1, 0], mu[1, 0] / course[0, 0]
    cosine2 = (course[0] @ course[1]) ** 2 / (course[0] @ course[0]) / (course[1] @ course[1])
    assert beta_to_0 * beta_to_1 == pytest.approx(cosine2, rel=1e-9)
    assert cosine2 <= 1


def test_weights_average_and_the_diagonal_is_ignored(rng):
    means = rng.normal(size=(1, 3))
    groups = sparse.csr_array([[9.0, 3.0, 1.0], [0, 0, 0], [0, 0, 0]])
    prior = group_prior(means, groups, "identity", tau_ddof=1)
    mu = (3 * means[0, 1] + means[0, 2]) / 4
    spread = 3 * (means[0, 1] - mu) ** 2 + (means[0, 2] - mu) ** 2
    assert prior.mean[0, 0] == pytest.approx(mu)
    assert prior.variance[0, 0] == pytest.approx(spread / (4 - 10 / 4))
    np.testing.assert_array_equal(prior.size[0], [2, 0, 0])


def test_clean_groups_are_taken_as_they_are(scattered):
    groups = member_weights(scattered[2].adjacency())
    assert member_weights(groups) is groups
    loops = sparse.csr_array(np.eye(3) + np.eye(3, k=1))
    np.testing.assert_array_equal(member_weights(loops).toarray(), np.eye(3, k=1))


def test_tau_ddof_is_the_sample_variance_of_the_members(rng):
    means = rng.normal(size=(1, 4))
    groups = sparse.csr_array([[0.0, 1, 1, 1], [1, 0, 0, 0], [0] * 4, [0] * 4])
    prior = group_prior(means, groups, "identity", tau_ddof=1)
    assert prior.variance[0, 0] == pytest.approx(means[0, 1:].var(ddof=1))
    assert prior.variance[0, 1] == 0.0


def test_pooled_maps_fit_one_slope_for_all_classes(rng):
    means = rng.normal(size=(2, 2 * 6))
    groups = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])
    course = courses_of(means, 2)
    joined = np.concatenate(list(course), axis=1)
    beta = joined[0] @ joined[1] / (joined[1] @ joined[1])
    prior = group_prior(means, groups, "scale", pooled_maps=True)
    np.testing.assert_allclose(courses_of(prior.mean, 2)[:, 0], beta * course[:, 1])


def test_standard_hierarchical_model():
    """N = 2, σ² = 4, τ² = 1, X̄ = 3, μ = 1 give 5/3; and equation (2) over all features."""
    prior = PriorMeans(np.array([[1.0]]), np.array([[1.0]]), np.array([[1]]))
    assert shrink(np.array([[3.0]]), prior, np.array([[2.0]]))[0][0, 0] == pytest.approx(5 / 3)
    means = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    prior = grand_prior(means)
    np.testing.assert_allclose(prior.mean, [[3.0] * 3, [1.0] * 3])
    np.testing.assert_allclose(prior.variance, [[14 / 3] * 3, [2.0] * 3])
    np.testing.assert_allclose(grand_prior(means, tau_ddof=1).variance[0], 7.0)


@pytest.mark.parametrize(
    ("tau2", "noise", "expected"),
    [(np.inf, 1.0, 5.0), (0.0, 1.0, 2.0), (0.0, 0.0, 5.0), (1.0, 0.0, 5.0), (1.0, 2.0, 3.0)],
)
def test_limits_of_shrinkage(tau2, noise, expected):
    prior = PriorMeans(np.array([[2.0]]), np.array([[tau2]]), np.array([[1]]))
    theta, weight = shrink(np.array([[5.0]]), prior, np.array([[noise]]))
    assert theta[0, 0] == expected
    assert 0 <= weight[0, 0] <= 1


def test_a_floor_keeps_some_of_the_sample():
    prior = PriorMeans(np.array([[2.0]]), np.array([[0.0]]), np.array([[1]]))
    theta, weight = shrink(np.array([[5.0]]), prior, np.array([[4.0]]), tau_floor=0.5)
    assert weight[0, 0] == pytest.approx(1 / 3)
    assert theta[0, 0] == pytest.approx(3.0)


def test_no_prior_keeps_the_samples(rng):
    means = rng.normal(size=(2, 6))
    theta, weight = shrink(means, no_prior(means, 3), np.ones((2, 6)))
    np.testing.assert_array_equal(theta, means)
    np.testing.assert_array_equal(weight, 1.0)


def test_james_stein_factor_is_the_best_one(rng):
    """ρ comes near the factor that a regression of the true means on the sample means gives."""
    J, N = 20_000, 2
    truth = 0.6 * rng.normal(size=(3, J))
    means = truth + rng.normal(size=(3, J)) / np.sqrt(N)
    best = (truth * means).sum() / (means**2).sum()
    rho = james_stein_factor(means, means, np.ones((3, J)), np.full(3, N))
    assert rho == pytest.approx(best, abs=0.02)
    far = james_stein_factor(means + 100, means + 100, np.ones((3, J)), np.full(3, N))
    assert far == pytest.approx(1.0, abs=1e-3)
    assert james_stein_factor(0 * means, 0 * means, np.ones((3, J)), np.full(3, N)) == 1.0
