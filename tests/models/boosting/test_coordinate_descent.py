import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.boosting.oracle import (
    naive_boost,
    naive_exact_step,
    naive_kernel,
    naive_pool,
)

from voxprior.models.boosting.coordinate_descent import (
    Settings,
    boost,
    conservative_step,
    decision_values,
    exact_step,
    staged_values,
    step_size,
)
from voxprior.models.boosting.penalty import DiagonalPenalty, MatrixPenalty, PermutedPenalty
from voxprior.models.boosting.stumps import presort

X7 = np.array(
    [
        [2, 1, 0],
        [1, 2, 1],
        [-1, 1.5, 2],
        [-2, -1, 0.5],
        [0.5, 1.8, 1.5],
        [-1.5, -0.5, 3],
        [3, 0.2, -1],
    ]
)
Y7 = np.array([1, 1, 1, -1, -1, -1, 1])
ROW = MatrixPenalty(naive_kernel(np.arange(3)[:, None], 1.0))
RULES = ["exact", "conservative", 0.1]


def random_problem(seed, n=14, side=4, levels=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, side * side))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[y > 0, :3] += 1.0
    if levels is not None:
        X = np.round(X * levels)
    places = np.array([(i, j) for i in range(side) for j in range(side)])
    return X, y, naive_kernel(places, 1.2)


def test_four_exact_steps_of_the_worked_example():
    found = boost(presort(X7), Y7, ROW, Settings(0.5, 4))
    assert found.stumps["feature"].tolist() == [0, 0, 1, 1]
    assert found.stumps["sign"].tolist() == [1, 1, -1, 1]
    assert found.stumps["threshold"] == pytest.approx([-1.25, 0.75, 1.65, -0.15])
    assert found.steps["change"] == pytest.approx(
        [0.718817, 0.594669, 0.600063, 0.445291], abs=1e-6
    )
    assert found.objective[1:] == pytest.approx([5.289368, 4.406252, 3.657787, 3.287498], abs=1e-6)
    assert found.importance == pytest.approx([1.313486, 1.045354, 0], abs=1e-6)


def test_four_conservative_steps_of_the_worked_example():
    found = boost(presort(X7), Y7, ROW, Settings(0.5, 4, step="conservative"))
    assert found.stumps["threshold"] == pytest.approx([-1.25, 0.75, 1.65, -0.15])
    assert found.steps["change"] == pytest.approx(
        [0.608786, 0.518698, 0.489241, 0.443182], abs=1e-6
    )
    assert found.objective[1:] == pytest.approx([5.327056, 4.398390, 3.794559, 3.337689], abs=1e-6)
    assert found.importance == pytest.approx([1.127484, 0.932423, 0], abs=1e-6)


def test_without_penalty_it_is_adaboost_on_the_worked_example():
    found = boost(presort(X7), Y7, ROW, Settings(0.0, 3))
    assert found.steps["change"] == pytest.approx([0.895880, 1.198948, 0.922913], abs=1e-6)
    assert found.objective[1:] == pytest.approx([4.898979, 2.708013, 1.858641], abs=1e-6)


def adaboost(X, y, n_iterations):
    """Discrete AdaBoost with normalised weights and stumps of least weighted error."""
    pool = naive_pool(X, X.shape[1])
    w, F = np.full(len(y), 1 / len(y)), np.zeros(len(y))
    for _ in range(n_iterations):
        errors = (pool.H * y < 0) @ w
        j = np.flatnonzero(errors <= errors.min() + 1e-12)[0]
        step = 0.5 * np.log((1 - errors[j]) / errors[j])
        F += step * pool.H[j]
        w *= np.exp(-step * y * pool.H[j])
        w /= w.sum()
    return F


@pytest.mark.parametrize("seed", range(5))
def test_without_penalty_it_is_naive_adaboost(seed):
    X, y, K = random_problem(seed, n=20)
    found = boost(presort(X), y, MatrixPenalty(K), Settings(0.0, 12))
    np.testing.assert_allclose(decision_values(X, found.stumps), adaboost(X, y, 12), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_equals_the_naive_algorithm(seed, lam, backward, levels):
    X, y, K = random_problem(seed, levels=levels)
    a = np.random.default_rng(seed).uniform(0.5, 2, len(y))
    _, _, path, alpha = naive_boost(X, y, K, lam, 12, backward, a)
    found = boost(
        presort(X), y, MatrixPenalty(K), Settings(lam, 12, backward=backward, tol=1e-13), a
    )
    np.testing.assert_allclose(found.objective, path[: len(found.objective)], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.objective[-1], path[-1], rtol=1e-9, atol=1e-10)
    if path[-1] > 1e-9:  # a separable sample drives the loss to 0; where to stop then is rounding
        np.testing.assert_allclose(
            decision_values(X, found.stumps), alpha @ naive_pool(X, len(K)).H, atol=1e-7
        )


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(RULES), st.booleans(), st.sampled_from([0.0, 0.1, 2.0])
)
def test_every_rule_lowers_the_objective_and_keeps_its_books(seed, rule, backward, lam):
    X, y, K = random_problem(seed)
    found = boost(presort(X), y, MatrixPenalty(K), Settings(lam, 150, rule, backward))
    assert (np.diff(found.objective) <= 1e-10).all()
    F, beta = decision_values(X, found.stumps), found.importance
    assert found.objective[-1] == pytest.approx(
        np.exp(-y * F).sum() + lam * beta @ K @ beta, rel=1e-9
    )
    expected = np.bincount(found.stumps["feature"], found.stumps["weight"], len(K))
    np.testing.assert_allclose(beta, expected, atol=1e-12)
    assert (found.stumps["weight"] >= 0).all()
    np.testing.assert_allclose(staged_values(X, found.stumps, found.steps, 150)[-1], F, atol=1e-9)


def test_the_chosen_stump_has_no_edge_after_an_exact_step():
    X, y, K = random_problem(3)
    found = boost(presort(X), y, MatrixPenalty(K), Settings(0.0, 1))
    F = decision_values(X, found.stumps)
    h = np.sign(F)
    assert np.sum(y * h * np.exp(-y * F)) == pytest.approx(0, abs=1e-12)


def converged(X, y, K, lam):
    found = boost(presort(X), y, MatrixPenalty(K), Settings(lam, 20_000, backward=True, tol=1e-9))
    assert found.converged
    w = np.exp(-y * decision_values(X, found.stumps))
    pool = naive_pool(X, len(K))
    edges = pool.H @ (y * w)
    best = np.array([edges[pool.place == k].max() for k in range(len(K))])
    return found, best


@pytest.mark.parametrize("seed", range(4))
def test_optimality_and_the_grouping_bound_at_convergence(seed):
    X, y, K = random_problem(seed, n=12, side=3)
    lam = 0.3
    found, best = converged(X, y, K, lam)
    beta = found.importance
    gamma = -2 * lam * K @ beta
    # Lemma 2: -γ_k >= the best edge at k, with equality where β_k > 0.
    assert (best + gamma <= 1e-7).all()
    np.testing.assert_allclose((best + gamma)[beta > 1e-6], 0, atol=1e-6)
    # Theorem 2, with the constant 1 / (2 λ μ), which is half the printed one.
    mu = K[0, 0] + 1
    smooth = mu * beta - K @ beta
    for k in range(len(K)):
        bound = np.abs(smooth - smooth[k]) / mu + np.abs(best - best[k]) / (2 * lam * mu)
        assert (np.abs(beta - beta[k]) <= bound + 1e-6).all()


def test_copies_at_neighbouring_places_share_the_weight_only_with_a_penalty(rng):
    X = rng.standard_normal((16, 5))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(16) > 0, 1.0, -1.0)
    X = np.column_stack([X[:, 0], X[:, 0], X[:, 1:]])
    # The copies are neighbours and the others far away, so that both see the same surroundings.
    K = naive_kernel(np.array([0, 1, 100, 200, 300, 400])[:, None], 1.0, 1.3)
    grouped, _ = converged(X, y, K, 0.3)
    assert grouped.importance[0] > 0.1
    assert grouped.importance[0] == pytest.approx(grouped.importance[1], rel=1e-6)
    alone = boost(presort(X), y, MatrixPenalty(K), Settings(0.0, 30))
    assert alone.importance[0] > 0
    assert alone.importance[1] == 0


def test_moving_voxels_moves_the_result_only_with_their_coordinates(rng):
    X, y, K = random_problem(5)
    order = rng.permutation(len(K))
    plain, moved = Settings(0.0, 10), Settings(0.5, 10)
    penalty, weights = MatrixPenalty(K), rng.uniform(0.5, 2, len(y))

    def importance(X, penalty, settings):
        # Uneven weights, lest ties of the first stumps go to another voxel.
        return boost(presort(X), y, penalty, settings, weights).importance

    expected = importance(X, penalty, plain)[order]
    np.testing.assert_allclose(importance(X[:, order], penalty, plain), expected)
    expected = importance(X, penalty, moved)[order]
    with_places = importance(X[:, order], PermutedPenalty(penalty, order), moved)
    np.testing.assert_allclose(with_places, expected, atol=1e-9)
    assert not np.allclose(importance(X[:, order], penalty, moved), expected)


def test_rising_transformations_of_voxels_change_nothing_but_thresholds(rng):
    X, y, K = random_problem(6)
    one, other = (
        boost(presort(Z), y, MatrixPenalty(K), Settings(0.5, 20)) for Z in (X, np.exp(3 * X) + 5)
    )
    np.testing.assert_allclose(one.importance, other.importance)


def test_a_warm_start_continues_where_it_was():
    X, y, K = random_problem(7)
    penalty = MatrixPenalty(K)
    whole = boost(presort(X), y, penalty, Settings(0.5, 30))
    first = boost(presort(X), y, penalty, Settings(0.5, 10))
    rest = boost(presort(X), y, penalty, Settings(0.5, 20), start=first.stumps)
    np.testing.assert_allclose(rest.importance, whole.importance, rtol=1e-9)
    np.testing.assert_allclose(rest.objective, whole.objective[10:], rtol=1e-9)


def test_several_features_per_location_share_its_weight(rng):
    X = rng.standard_normal((14, 12))
    y = np.where(np.arange(14) % 2, 1.0, -1.0)
    K = naive_kernel(np.arange(4)[:, None], 1.0)
    found = boost(presort(X), y, MatrixPenalty(K), Settings(0.5, 25))
    _, _, path, alpha = naive_boost(X, y, K, 0.5, 25)
    assert found.objective == pytest.approx(path, rel=1e-9)
    np.testing.assert_allclose(
        found.importance, np.bincount(naive_pool(X, 4).place, alpha, 4), atol=1e-7
    )


def test_a_separating_stump_without_penalty_is_capped():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    found = boost(
        presort(X), np.array([-1, -1, 1, 1]), DiagonalPenalty(np.ones(1)), Settings(0.0, 5)
    )
    assert np.isfinite(found.importance).all()
    assert found.steps["change"][0] == 10


def test_nothing_to_split_ends_at_once():
    found = boost(
        presort(np.ones((4, 2))), np.array([-1, -1, 1, 1]), DiagonalPenalty(np.ones(2)), Settings()
    )
    assert found.converged
    assert len(found.stumps) == 0
    np.testing.assert_array_equal(found.objective, [4.0])


def test_weights_stay_exact_over_many_iterations():
    X, y, K = random_problem(8)
    found = boost(presort(X), y, MatrixPenalty(K), Settings(0.01, 1000, tol=0.0))
    F, beta = decision_values(X, found.stumps), found.importance
    expected = np.exp(-y * F).sum() + 0.01 * beta @ K @ beta
    assert found.objective[-1] == pytest.approx(expected, rel=1e-10)


# ---------------------------------------------------------------- how far a step goes

weight = st.floats(1e-6, 1e3)


def objective(step, W_plus, W_minus, gamma, curvature):
    return W_minus * np.exp(step) + W_plus * np.exp(-step) - gamma * step + curvature * step**2


def test_worked_example_of_the_step_rules():
    assert exact_step(3, 1, 0.4, 0.25, 10) == pytest.approx(0.580922, abs=1e-6)
    assert conservative_step(3, 1, 0.4, 0.25) == pytest.approx(0.533333, abs=1e-6)


def test_without_penalty_the_exact_step_is_half_the_log_odds():
    assert exact_step(3.0, 1.0, 0.0, 0.0, 10) == pytest.approx(0.5 * np.log(3), rel=1e-14)


def test_a_stump_without_errors_goes_to_the_longest_step():
    assert exact_step(3.0, 0.0, 0.0, 0.0, 10) == 10


def test_no_step_without_descent():
    assert exact_step(1.0, 3.0, 0.5, 1.0, 10) == 0
    assert conservative_step(1.0, 3.0, 0.5, 1.0) == 0


@settings(max_examples=200, deadline=None)
@given(weight, weight, st.floats(-50, 50), st.floats(0, 100))
def test_exact_step_is_the_root_that_bisection_finds(W_plus, W_minus, gamma, curvature):
    if W_plus - W_minus + gamma <= 1e-9:
        return
    found = exact_step(W_plus, W_minus, gamma, curvature, 10)
    assert found == pytest.approx(
        naive_exact_step(W_plus, W_minus, gamma, curvature), rel=1e-9, abs=1e-12
    )


@settings(max_examples=200, deadline=None)
@given(
    weight, weight, st.floats(-50, 50), st.floats(0, 100), st.sampled_from(["conservative", 0.3])
)
def test_every_rule_goes_downhill_and_not_past_the_minimum(W_plus, W_minus, gamma, c, rule):
    if W_plus - W_minus + gamma <= 1e-9:
        return
    step = step_size(rule, W_plus, W_minus, gamma, c, 10.0)
    assert 0 < step <= exact_step(W_plus, W_minus, gamma, c, 10.0) * (1 + 1e-9)
    scale = W_plus + W_minus + abs(gamma) + c
    before, after = (objective(e, W_plus, W_minus, gamma, c) for e in (0.0, step))
    assert after <= before + 1e-12 * scale


def test_location_may_win_against_the_labels():
    """(8) as printed forbids any step where W₊ <= W₋; the gap case must still descend."""
    step = conservative_step(1.0, 2.0, 3.0, 0.5)
    assert step > 0
    assert objective(step, 1.0, 2.0, 3.0, 0.5) < objective(0.0, 1.0, 2.0, 3.0, 0.5)


def test_lemma_behind_the_conservative_step(rng):
    """0 < ε <= 3D/S implies W₋ e^ε - W₊ e^-ε <= S ε - D."""
    W_minus = rng.exponential(size=20_000)
    W_plus = W_minus + rng.exponential(size=20_000)
    D, S = W_plus - W_minus, W_plus + W_minus
    step = rng.uniform(size=20_000) * 3 * D / S
    slack = S * step - D - (W_minus * np.exp(step) - W_plus * np.exp(-step))
    assert (slack >= -1e-12 * S).all()
