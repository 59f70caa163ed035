import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.boosting.oracle import naive_exact_step

from voxprior.models.boosting.steps import conservative_step, exact_step, step_size

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
