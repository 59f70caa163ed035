"""How far to go along a chosen stump: the three step rules and the objective they lower.

Adding ε to the weight of a stump at location k changes the objective to (6)

    const + W₋ e^ε + W₊ e^-ε - γ ε + c ε²,   W± = Σ of w where y h = ±1,   c = λ K_kk

whose derivative W₋ e^ε - W₊ e^-ε - γ + 2 c ε (7) is increasing, so that it has one root. With D =
W₊ - W₋ and S = W₊ + W₋ the negative slope at 0 is D + γ, the score by which the stump was chosen.

| symbol | variable | shape |
|---|---|---|
| ε | `step` | scalar |
| W₊, W₋ | `W_plus`, `W_minus` | scalar |
| γ, compensation of the location | `gamma` | scalar |
| c = λ K_kk | `curvature` | scalar |
| D, S | `D`, `S` | scalar |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, equations
(6) to (9).
"""

from __future__ import annotations

from math import cosh, exp, sinh

__all__ = ["conservative_step", "exact_step", "step_size"]


def step_size(
    rule: str | float, W_plus: float, W_minus: float, gamma: float, curvature: float, longest: float
) -> float:
    """Return the step ε in [0, longest] of a rule: "exact", "conservative", or a fixed length.

    A fixed length is shortened to the exact step where it would go past it, so every rule lowers
    the objective.

    Examples
    --------
    >>> from voxprior.models.boosting.steps import step_size
    >>> weights = dict(W_plus=3.0, W_minus=1.0, gamma=0.4, curvature=0.25, longest=10.0)
    >>> round(step_size("exact", **weights), 6)
    0.580922
    >>> round(step_size("conservative", **weights), 6)
    0.533333
    >>> step_size(0.1, **weights)
    0.1
    """
    if rule == "conservative":
        return min(conservative_step(W_plus, W_minus, gamma, curvature), longest)
    furthest = longest if rule == "exact" else min(float(rule), longest)
    return exact_step(W_plus, W_minus, gamma, curvature, furthest)


def exact_step(
    W_plus: float, W_minus: float, gamma: float, curvature: float, longest: float
) -> float:
    """Solve (7) by Newton's method kept inside a shrinking bracket; a root past `longest` returns
    `longest`.

    The root is infinite where a stump errs on no sample and nothing penalises it: `longest` is for
    that.
    """

    def slope(step: float) -> float:
        return W_minus * exp(step) - W_plus * exp(-step) - gamma + 2 * curvature * step

    if slope(0.0) >= 0:
        return 0.0
    if slope(longest) <= 0:
        return longest
    low, high = 0.0, longest
    S, D = W_plus + W_minus, W_plus - W_minus
    step = min((D + gamma) / (S + 2 * curvature), longest)
    for _ in range(100):
        value = slope(step)
        low, high = (step, high) if value < 0 else (low, step)
        curve = W_minus * exp(step) + W_plus * exp(-step) + 2 * curvature
        following = step - value / curve
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - step) <= 1e-15 * max(1.0, step):
            return following
        step = following
    return step


def conservative_step(W_plus: float, W_minus: float, gamma: float, curvature: float) -> float:
    """Return the step (8), for which a decrease of the objective is proved.

    With ε ≤ 3 D / S, W₋ e^ε - W₊ e^-ε ≤ S ε - D (the paper's lemma), so the root of the right-hand
    side less γ - 2 c ε, capped at 3 D / S and at 1, is never past the root of (7). Where D ≤ 0,
    because the stump won by its location, or D is small, that cap forbids any progress; then sinh
    and cosh are bounded on [0, 1] instead: the derivative is S sinh ε - D cosh ε - γ + 2 c ε ≤ (S
    sinh 1 + (cosh 1 - 1) max(-D, 0) + 2 c) ε - D - γ. Both steps are safe, so the longer is taken.
    """
    D, S = W_plus - W_minus, W_plus + W_minus
    if D + gamma <= 0:
        return 0.0
    linear = (D + gamma) / (S + 2 * curvature)
    by_lemma = min(linear, 3 * D / S, 1.0)
    bend = S * sinh(1.0) + (cosh(1.0) - 1.0) * max(-D, 0.0) + 2 * curvature
    by_bounds = min((D + gamma) / bend, 1.0)
    return max(by_lemma, by_bounds)
