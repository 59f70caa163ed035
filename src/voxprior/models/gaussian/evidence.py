"""Type-II maximum likelihood: climb log p(y | θ) within bounds, from the best of a few starts.

    θ̂ = argmax_θ  log p(y | X, θ) − ½ Σ_k ((θ_k − θ⁰_k) / sd)²      (the second term is optional)

L-BFGS-B with analytic gradients; every evaluation is remembered, so the best point ever seen is
returned even where the number of evaluations is limited (PRoNTo allows 20).

Reference: Rasmussen & Williams 2006, section 5.4.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

STRIDE = 2.0
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Optimum(NamedTuple):
    """Maximiser, its value, and the values in the order in which they were evaluated."""

    theta: np.ndarray
    value: float
    path: np.ndarray


class _SpentError(Exception):
    """The allowed number of evaluations has been used."""


class _Recorder:
    """Counts evaluations, keeps the best, and adds the hyper-prior."""

    def __init__(self, objective: Objective, center: np.ndarray, sd: float | None, limit: int):
        self.objective, self.center, self.sd, self.limit = objective, center, sd, limit
        self.best, self.best_theta = -np.inf, center
        self.path: list[float] = []
        # The best start is climbed from, and so is the edge of a box: they are not computed again.
        self.seen: dict[bytes, tuple[float, np.ndarray]] = {}

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if theta.tobytes() not in self.seen:
            self.seen[theta.tobytes()] = self._evaluate(theta)
        return self.seen[theta.tobytes()]

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if len(self.path) >= self.limit:
            raise _SpentError
        value, gradient = self.objective(theta)
        if self.sd is not None:
            away = (theta - self.center) / self.sd
            value, gradient = value - 0.5 * away @ away, gradient - away / self.sd
        self.path.append(value)
        if value > self.best:
            self.best, self.best_theta = value, theta.copy()
        return -value, -gradient


def maximise(
    objective: Objective,
    starts: Sequence[np.ndarray],
    bounds: np.ndarray,
    *,
    n_climbs: int = 1,
    max_evals: int | None = None,
    prior_sd: float | None = None,
) -> Optimum:
    """Climb from the best `n_climbs` of the starts; the first start is the centre of the prior.

    Parameters
    ----------
    objective : callable
        θ -> (log evidence, gradient).
    starts : sequence of arrays (P,)
        All are evaluated, the best are climbed from.
    bounds : array (P, 2)
    n_climbs : int
    max_evals : int, optional
        Total number of evaluations allowed; no limit by default.
    prior_sd : float, optional
        Standard deviation of a normal hyper-prior on θ around the first start.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda t: (-float((t[0] - 1) ** 2), -2 * (t - 1))
    >>> maximise(bowl, [np.zeros(1)], np.array([[-5.0, 5.0]])).theta.round(2)
    array([1.])
    """
    limit = np.iinfo(np.int64).max if max_evals is None else max_evals
    record = _Recorder(objective, np.asarray(starts[0], dtype=float), prior_sd, limit)
    try:
        # One start needs no scan: the climb evaluates it anyway.
        if len(starts) > n_climbs:
            values = [record(np.clip(start, bounds[:, 0], bounds[:, 1]))[0] for start in starts]
            starts = [starts[i] for i in np.argsort(values, kind="stable")[:n_climbs]]
        for start in starts:
            _climb(record, np.clip(start, bounds[:, 0], bounds[:, 1]), bounds)
    except _SpentError:
        pass
    return Optimum(record.best_theta, record.best, np.array(record.path))


def _climb(record: _Recorder, point: np.ndarray, bounds: np.ndarray) -> None:
    """L-BFGS-B in boxes of STRIDE nats around the point reached, until it stops inside one.

    Far from the maximum the gradient is of the order of n: a free line search would leap over the
    hill to the plateau of a vanishing kernel, where the evidence is flat and the climb would end.
    """
    inside = False
    while not inside:
        low, high = (
            np.maximum(bounds[:, 0], point - STRIDE),
            np.minimum(bounds[:, 1], point + STRIDE),
        )
        box = np.column_stack([low, high])
        # Where a scale e times larger would gain less than 1e-2 nats, the climb has arrived.
        options = {"ftol": 1e-6, "gtol": 1e-2}
        found = minimize(record, point, jac=True, bounds=box, method="L-BFGS-B", options=options).x
        stopped = (found <= low) & (low > bounds[:, 0]) | (found >= high) & (high < bounds[:, 1])
        inside = not stopped.any() or np.array_equal(found, point)
        point = found


def scan(objective: Objective, theta: np.ndarray, axes: dict[int, np.ndarray]) -> np.ndarray:
    """Log evidence over a grid of one or more hyper-parameters, the others held at θ.

    Parameters
    ----------
    axes : dict position in θ -> values
        The result has one dimension an entry, in this order.
    """
    grids = np.meshgrid(*axes.values(), indexing="ij")
    surface = np.empty(grids[0].shape)
    for index in np.ndindex(surface.shape):
        point = theta.copy()
        for position, grid in zip(axes, grids):
            point[position] = grid[index]
        surface[index] = objective(point)[0]
    return surface
