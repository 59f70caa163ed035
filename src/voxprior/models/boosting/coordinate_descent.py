"""Spatially regularised boosting: coordinate descent on exponential loss plus a spatial penalty.

    minimise over α ≥ 0:   Σ_i a_i exp(-y_i F(x_i)) + λ β'Kβ                        (3)
    F = Σ_j α_j h_j,   β_k = Σ of α_j over the stumps at location k

α_j is the weight of stump h_j, β the component importance map: how much the classifier relies on
each location. Each iteration takes the stump of steepest descent (4)

    j' = argmax_j Σ_i y_i h_j(x_i) w_i + γ_s(j)                                     (5)
    w_i = a_i exp(-y_i F(x_i)),   γ = -2 λ K β,   s(j) the location of stump j

and adds a step ε to its weight (Algorithm 1). Weights are not normalised, because their scale
competes with γ. Algorithm 2 follows with a backward step on the active stump that most deserves to
shrink, clipped at zero. λ = 0 is AdaBoost with stumps of least weighted error.

How far to go: adding ε to the weight of a stump at location k changes the objective to

    const + W₋ e^ε + W₊ e^-ε - γ ε + c ε²,   W± = Σ of w where y h = ±1,   c = λ K_kk  (6)

whose derivative W₋ e^ε - W₊ e^-ε - γ + 2 c ε (7) is increasing, so that it has one root, the exact
step; (8) is a shorter one for which a decrease is proved. With D = W₊ - W₋ and S = W₊ + W₋ the
negative slope at 0 is D + γ, the score by which the stump was chosen.

| symbol | variable | shape |
|---|---|---|
| y, labels ±1 | `y` | (n,) |
| a, sample weights (1, or 1/n for a mean loss) | `weights` | (n,) |
| w, F | `w`, `F` | (n,) |
| h_j(x_i) of the stumps in use | `h[j]` | (n,) |
| α | `alpha` | number of stumps in use |
| β | `importance` | (V,) |
| γ | `gamma` | (V,) |
| λ | `regularization` | scalar |
| ε | `step` | scalar |
| W₊, W₋, D, S | `W_plus`, `W_minus`, `D`, `S` | scalars |
| c = λ K_kk | `curvature` | scalar |

γ changes by one column of K per step, so a step costs O(V) in addition to the search for the stump.
β itself is not needed on the way: the penalty λ β'Kβ changes by -γ_k ε + λ K_kk ε².

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, Algorithms
1 and 2, equations (3) to (9).
"""

from __future__ import annotations

from math import cosh, exp, isnan, sinh
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from voxprior.models.boosting.penalty import Penalty
from voxprior.models.boosting.search import StumpSearch
from voxprior.models.boosting.stumps import Presorted, responses, threshold

__all__ = [
    "STEP",
    "STUMP",
    "Boosted",
    "Settings",
    "boost",
    "conservative_step",
    "decision_values",
    "exact_step",
    "staged_values",
    "step_size",
]

STUMP = np.dtype([("feature", "i8"), ("threshold", "f8"), ("sign", "i1"), ("weight", "f8")])
STEP = np.dtype([("iteration", "i8"), ("stump", "i8"), ("change", "f8")])
# Products of many factors drift from exp(-y F) in the last digits; this many iterations are well
# before it shows.
REFRESH = 100


class Settings(NamedTuple):
    """How to descend; the same for every problem, fold and control of an estimator."""

    regularization: float = 0.5
    n_iterations: int = 100
    step: str | float = "exact"
    backward: bool = False
    tol: float = 1e-6
    longest: float = 10.0


class Boosted(NamedTuple):
    """A fitted sum of stumps and the path that led to it."""

    stumps: NDArray  # STUMP: each stump in use with its final weight α_j
    steps: NDArray  # STEP: every change of a weight, backward ones negative
    objective: NDArray[np.float64]  # (iterations + 1,), the start first
    importance: NDArray[np.float64]  # β, (V,)
    converged: bool  # no stump had a score above the tolerance


def boost(
    pool: Presorted,
    y: NDArray,
    penalty: Penalty,
    settings: Settings,
    weights: NDArray | None = None,
    start: NDArray | None = None,
) -> Boosted:
    """Run Algorithm 1, or Algorithm 2 with `settings.backward`.

    Parameters
    ----------
    pool : Presorted
        The sorted features of the training samples.
    y : ndarray of shape (n,)
        Labels, ±1.
    penalty : Penalty
        K over the V locations; feature f is at location f modulo V.
    settings : Settings
        λ and how to descend; the tolerance on the score is relative to Σ a.
    weights : ndarray of shape (n,), optional
        Sample weights a; 1 by default.
    start : ndarray of STUMP, optional
        Stumps to continue from.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.coordinate_descent import Settings, boost
    >>> from voxprior.models.boosting.penalty import DiagonalPenalty
    >>> from voxprior.models.boosting.stumps import presort
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5]])
    >>> y, K = np.array([-1, -1, 1, 1]), DiagonalPenalty(np.ones(2))
    >>> found = boost(presort(X), y, K, Settings(n_iterations=3))
    >>> found.importance.round(3)
    array([1.202, 0.451])
    >>> bool((np.diff(found.objective) <= 0).all())
    True
    """
    run = _Descent(pool, y, penalty, settings, weights)
    if start is not None:
        run.resume(start)
    objective, converged = [run.objective()], False
    for iteration in range(settings.n_iterations):
        converged = not run.iterate(iteration)
        if converged:
            break
        objective.append(run.objective())
    steps = np.array(run.steps, dtype=STEP)
    return Boosted(run.stumps(), steps, np.array(objective), run.importance(), converged)


class _Descent:
    """The variables of Algorithm 1 as they stand between two steps."""

    def __init__(self, pool, y, penalty, settings, weights):
        self.pool, self.penalty, self.settings = pool, penalty, settings
        self.search, self.length = StumpSearch(pool), _longest_by_rule(settings.step)
        self.y = np.asarray(y, dtype=np.float64)
        self.a = np.ones(len(self.y)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.tol = settings.tol * self.a.sum()
        self.w, self.F = self.a.copy(), np.zeros(len(self.y))  # line 1
        self.alpha: list[float] = []  # line 2
        self.h: list[NDArray] = []
        self.keys: list[tuple[int, int, int]] = []  # (feature, position, sign)
        self.resumed: list[float] = []  # thresholds of stumps of an earlier fit
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.steps: list[tuple[int, int, float]] = []
        self.gamma, self.price = np.zeros(penalty.shape[0]), 0.0

    def resume(self, stumps: NDArray) -> None:
        """Take over the stumps and weights of an earlier fit."""
        for feature, theta, sign, weight in stumps.tolist():
            above = self.pool.X[self.pool.rows, feature] > np.float64(theta)
            self._add((feature, int((~above).sum()) - 1, sign), weight)
            self.F += weight * self.h[-1]
            self.resumed.append(theta)
        self.w = self.a * np.exp(-self.y * self.F)
        beta = self.importance()
        self.gamma = -2.0 * self.settings.regularization * (self.penalty @ beta)
        self.price = -0.5 * float(beta @ self.gamma)

    def stumps(self) -> NDArray:
        """Return the stumps in use, STUMP."""
        feature, position, sign = np.array(self.keys, dtype=np.int64).reshape(-1, 3).T
        new = slice(len(self.resumed), None)
        table = np.empty(len(self.keys), dtype=STUMP)
        table["feature"], table["sign"], table["weight"] = feature, sign, self.alpha
        table["threshold"][: new.start] = self.resumed
        table["threshold"][new] = threshold(self.pool, feature[new], position[new])
        return table

    def objective(self) -> float:
        """Return (3)."""
        return float(self.w.sum() + self.price)

    def importance(self) -> NDArray[np.float64]:
        """Return β = Q α (line 4)."""
        n_locations = self.penalty.shape[0]
        place = np.array([feature % n_locations for feature, _, _ in self.keys], dtype=np.int64)
        return np.bincount(place, self.alpha, n_locations).astype(np.float64)

    def iterate(self, iteration: int) -> bool:
        """Make the steps of one iteration; return False if there is nowhere left to go."""
        moved = self._forward(iteration)
        if self.settings.backward:
            moved = self._backward(iteration) or moved
        if iteration % REFRESH == REFRESH - 1:
            self.w = self.a * np.exp(-self.y * self.F)
        return moved

    def _forward(self, iteration: int) -> bool:
        best = self.search.best(self.y * self.w, self.gamma)  # line 6
        if best.score <= self.tol:
            return False
        j = self._number(best.feature, best.position, best.sign)
        return self._move(iteration, j, 1.0, self.settings.longest)

    def _backward(self, iteration: int) -> bool:
        """Algorithm 2: shrink the active stump of lowest score, if that score is negative."""
        active = [j for j, a in enumerate(self.alpha) if a > 0]
        if not active:
            return False
        at = np.array([self.keys[j][0] % len(self.gamma) for j in active])
        scores = np.array([self.h[j] for j in active]) @ (self.y * self.w) + self.gamma[at]
        if scores.min() >= -self.tol:
            return False
        j = active[int(np.argmin(scores))]
        return self._move(iteration, j, -1.0, min(self.alpha[j], self.settings.longest))

    def _move(self, iteration: int, j: int, direction: float, longest: float) -> bool:
        """Make a step up or down along a stump; return False if it has no length."""
        k, regularization = self.keys[j][0] % len(self.gamma), self.settings.regularization
        gamma_k, curvature = self.gamma[k], regularization * self.penalty.self_penalty(k)
        terms = (gamma_k, curvature, self.length, longest, direction)
        change = _step_along(self.h[j], self.y, self.w, self.F, *terms)  # lines 7, 8
        if change == 0:
            return False
        self.alpha[j] += change
        self.steps.append((iteration, j, change))
        if regularization > 0:
            self.price += change * (change * curvature - gamma_k)
            self.penalty.add_column(k, -2.0 * regularization * change, self.gamma)  # line 5
        return True

    def _number(self, feature: int, position: int, sign: int) -> int:
        """Return the number of a stump among those in use; a new one is added at weight zero."""
        key = (feature, position, sign)
        if key not in self.numbers:
            self._add(key, 0.0)
        return self.numbers[key]

    def _add(self, key: tuple[int, int, int], weight: float) -> None:
        self.numbers.setdefault(key, len(self.alpha))
        self.keys.append(key)
        self.h.append(responses(self.pool, *key))
        self.alpha.append(weight)


@njit(cache=True)
def _step_along(h, y, w, F, gamma, curvature, length, longest, direction):
    """Step up (direction 1) or down (-1) along a stump; change w and F, and return the change."""
    W_plus, W_minus = 0.0, 0.0
    for i in range(len(w)):
        if y[i] * h[i] > 0:
            W_plus += w[i]
        else:
            W_minus += w[i]
    # Going down is going up along -h, for which right and wrong, and γ, change sides.
    if direction < 0:
        W_plus, W_minus, gamma = W_minus, W_plus, -gamma
    change = direction * _step_length(length, W_plus, W_minus, gamma, curvature, longest)
    right, wrong = exp(-change), exp(change)
    for i in range(len(w)):
        F[i] += change * h[i]
        w[i] *= right if y[i] * h[i] > 0 else wrong
    return change


def step_size(
    rule: str | float, W_plus: float, W_minus: float, gamma: float, curvature: float, longest: float
) -> float:
    """Return the step ε in [0, longest] of a rule: "exact", "conservative", or a fixed length.

    A fixed length is shortened to the exact step where it would go past it, so every rule lowers
    the objective.

    Examples
    --------
    >>> from voxprior.models.boosting.coordinate_descent import step_size
    >>> weights = dict(W_plus=3.0, W_minus=1.0, gamma=0.4, curvature=0.25, longest=10.0)
    >>> round(step_size("exact", **weights), 6)
    0.580922
    >>> round(step_size("conservative", **weights), 6)
    0.533333
    >>> step_size(0.1, **weights)
    0.1
    """
    return _step_length(_longest_by_rule(rule), W_plus, W_minus, gamma, curvature, longest)


def _longest_by_rule(rule: str | float) -> float:
    """The length of a step by its rule: no bound for the exact one, NaN for the conservative."""
    if rule == "conservative":
        return float("nan")
    return float("inf") if rule == "exact" else float(rule)


@njit(cache=True)
def _step_length(length, W_plus, W_minus, gamma, curvature, longest):
    if isnan(length):
        return min(conservative_step(W_plus, W_minus, gamma, curvature), longest)
    return exact_step(W_plus, W_minus, gamma, curvature, min(length, longest))


@njit(cache=True)
def exact_step(
    W_plus: float, W_minus: float, gamma: float, curvature: float, longest: float
) -> float:
    """Solve (7) by Newton's method kept inside a shrinking bracket; a root past `longest` returns
    `longest`.

    The root is infinite where a stump errs on no sample and nothing penalises it: `longest` is for
    that.
    """
    if W_minus - W_plus - gamma >= 0:
        return 0.0
    if _slope(longest, W_plus, W_minus, gamma, curvature) <= 0:
        return longest
    low, high = 0.0, longest
    S, D = W_plus + W_minus, W_plus - W_minus
    step = min((D + gamma) / (S + 2 * curvature), longest)
    for _ in range(100):
        value = _slope(step, W_plus, W_minus, gamma, curvature)
        low, high = (step, high) if value < 0 else (low, step)
        curve = W_minus * exp(step) + W_plus * exp(-step) + 2 * curvature
        following = step - value / curve
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - step) <= 1e-15 * max(1.0, step):
            return following
        step = following
    return step


@njit(cache=True)
def _slope(step, W_plus, W_minus, gamma, curvature):
    return W_minus * exp(step) - W_plus * exp(-step) - gamma + 2 * curvature * step


@njit(cache=True)
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


def stump_values(X: NDArray, feature: int, theta: float, sign: int) -> NDArray[np.float64]:
    """Return h(x) of one stump for every row of X, (n,)."""
    # A float64 scalar, lest numpy round the threshold to the float32 of X.
    return np.where(X[:, feature] > np.float64(theta), float(sign), -float(sign))


def staged_values(X: NDArray, stumps: NDArray, steps: NDArray, n_stages: int) -> NDArray:
    """Return F(x) after each iteration, (n_stages, n).

    A descent that converged earlier stays where it ended.
    """
    changes = np.zeros((n_stages, len(X)))
    for iteration, j, change in steps.tolist():
        if iteration < n_stages:
            feature, theta, sign, _ = stumps[j].tolist()
            changes[iteration] += change * stump_values(X, feature, theta, sign)
    return np.cumsum(changes, axis=0)


def decision_values(X: NDArray, stumps: NDArray) -> NDArray[np.float64]:
    """Return F(x) = Σ_j α_j h_j(x) for every row of X, (n,)."""
    above = X[:, stumps["feature"]] > stumps["threshold"]
    signed = stumps["sign"] * stumps["weight"]
    # Each row in one piece, so that its sum does not depend on the other rows.
    return np.ascontiguousarray(np.where(above, signed, -signed)).sum(axis=1)
