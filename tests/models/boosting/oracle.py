"""Spatially regularised boosting by its definition: every stump of the pool as a row, K dense."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


class Pool(NamedTuple):
    stumps: list  # (feature, threshold, sign), in the order that breaks ties
    H: np.ndarray  # (p, m), responses
    place: np.ndarray  # (p,), location of each


def naive_pool(X, n_locations):
    stumps, H = [], []
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature].astype(float))
        for low, high in zip(values[:-1], values[1:]):
            theta = (low + high) / 2
            for sign in (1, -1):
                stumps.append((feature, theta, sign))
                H.append(np.where(X[:, feature] > theta, sign, -sign))
    place = np.array([f % n_locations for f, _, _ in stumps], dtype=int)
    return Pool(stumps, np.array(H, dtype=float).reshape(len(stumps), len(X)), place)


def first_highest(scores, slack):
    best = 0
    for j in range(1, len(scores)):
        if scores[j] > scores[best] + slack:
            best = j
    return best


def naive_objective(pool, y, a, K, lam, alpha):
    beta = np.bincount(pool.place, alpha, len(K))
    return a @ np.exp(-y * (alpha @ pool.H)) + lam * beta @ K @ beta


def naive_exact_step(W_plus, W_minus, gamma, curvature, longest=10.0):
    def slope(e):
        return W_minus * np.exp(e) - W_plus * np.exp(-e) - gamma + 2 * curvature * e

    return longest if slope(longest) <= 0 else brentq(slope, 0, longest, xtol=1e-15)


def naive_boost(X, y, K, lam, n_iterations, backward=False, a=None):
    """Return picks, steps, objective and the final α over the whole pool, with exact steps."""
    pool = naive_pool(X, len(K))
    a = np.ones(len(y)) if a is None else a
    alpha = np.zeros(len(pool.stumps))
    picks, steps, path = [], [], [naive_objective(pool, y, a, K, lam, alpha)]
    for _ in range(n_iterations):
        for direction in (1, -1) if backward else (1,):
            w = a * np.exp(-y * (alpha @ pool.H))
            gamma = -2 * lam * K @ np.bincount(pool.place, alpha, len(K))
            scores = pool.H @ (y * w) + gamma[pool.place]
            if direction == 1:
                j = first_highest(scores, 1e-12 * w.sum())
            else:
                active = np.flatnonzero(alpha > 0)
                j = active[np.argmin(scores[active])]
            if direction * scores[j] <= 1e-12:
                continue
            right = pool.H[j] * y * direction > 0
            k = pool.place[j]
            step = naive_exact_step(
                w[right].sum(), w[~right].sum(), direction * gamma[k], lam * K[k, k]
            )
            if direction == -1:
                step = min(step, alpha[j])
            alpha[j] += direction * step
            picks.append(pool.stumps[j])
            steps.append(direction * step)
        path.append(naive_objective(pool, y, a, K, lam, alpha))
    return picks, np.array(steps), np.array(path), alpha


def naive_gaussian(coordinates, radius):
    distances = ((coordinates[:, None] - coordinates[None]) ** 2).sum(-1)
    return np.exp(-distances / (2 * radius**2))


def naive_kernel(coordinates, radius, multiple=1.0):
    G = naive_gaussian(np.asarray(coordinates, dtype=float), radius)
    return multiple * G.sum(0).max() * np.eye(len(G)) - G
