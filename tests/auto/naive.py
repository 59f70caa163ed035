"""The automatic classifier spelled out in voxels: explicit covariances, explicit views, loops."""

import numpy as np
from scipy.special import log_softmax, softmax

from voxprior import FeatureSharingNB

TAUS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)


def view_matrices(X, space=None, degrees=None):
    """Views as matrices on voxels, by name, of scans that were centred."""
    n, p = X.shape
    d = n - 1 if degrees is None else degrees
    V = (X**2).sum(axis=0) / d
    varies = 1e-12 * V.max() < V
    s = np.where(varies, 1, 0) / np.sqrt(
        np.where(varies, (d * V + 4 * V[varies].mean()) / (d + 4), 1)
    )
    views = {"raw": np.eye(p), "z": np.diag(s)}
    if space is not None:
        at = space.coordinates
        h = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
        S = np.where(h <= 1.8, np.exp(-(h**2) / 2), 0)
        S /= S.sum(axis=1, keepdims=True)
        times = p // len(at)
        views["smooth"] = np.kron(np.eye(times), S) @ np.diag(s)
    return views


def scores(X, y, new, tau):
    """Scores of a shrunk discriminant, from the covariance within classes (p, p)."""
    classes = np.unique(y)
    n, C = len(y), len(classes)
    means = np.array([X[y == c].mean(axis=0) for c in classes])
    m = means.mean(axis=0)
    u = means - m
    rest = X - means[y]
    df, p = n - C, X.shape[1]
    if df:
        noise = (rest**2).sum() / df
        n_c = np.array([(y == c).sum() for c in classes])
        rho = max(0.05, 1 - noise * np.mean(1 / n_c) / ((u**2).sum() / (C - 1)))
    else:
        rho = 0.3
    Sigma = np.eye(p)
    if np.isfinite(tau) and df:
        Sigma = rest.T @ rest / df + tau * (rest**2).sum() / df**2 * np.eye(p)
    inverse = np.linalg.inv(Sigma)
    norms = np.einsum("ci,ij,cj->c", u, inverse, u)
    D = 2 * norms.sum() / (C - 1)
    return ((new - m) @ inverse @ u.T - rho / 2 * norms) / D


def weight_grid(low, high, center, deviation):
    log_w = np.arange(low, high + 0.1, 0.3)
    prior = np.exp(-((log_w - center) ** 2) / (2 * deviation**2))
    return np.exp(log_w), prior / prior.sum()


def probabilities(X, y, new, folds, n_eff, space=None, degrees=None, sharing=False):
    """Class probabilities of new scans, given the test parts of the folds."""
    n, C = len(y), len(np.unique(y))
    mean = X.mean(axis=0)
    X, new = X - mean, new - mean
    b = np.log(np.bincount(y) / n)
    tests = [np.array(test) for test in folds]
    trains = [np.setdiff1d(np.arange(n), test) for test in tests]
    members = []  # mass, weights, prior of weights, left-out scores, scores of new scans
    views = view_matrices(X, space, degrees).values()
    for A in views:
        for tau in TAUS:
            Z, Z_new = X @ A.T, new @ A.T
            left = [scores(Z[i], y[i], Z[j], tau) for i, j in zip(trains, tests)]
            prior = (np.log(12), 2) if folds or C > 2 else (np.log(7), 1)
            grid = weight_grid(-2.4, 7.2, *prior)
            members.append((0.7 / len(views) / len(TAUS), *grid, left, scores(Z, y, Z_new, tau)))
    if sharing and min([n, *map(len, trains)]) > C:

        def shared(train, z):
            model = FeatureSharingNB(space, shrinkage="james-stein").fit(X[train], y[train])
            counts = np.bincount(y[train]) / len(train)
            return np.log(np.maximum(model.predict_proba(z), 1e-15)) - np.log(counts)

        left = [shared(i, X[j]) for i, j in zip(trains, tests)]
        grid = weight_grid(-1.8, 1.8, 0, 0.6)
        members.append((0.22, *grid, left, shared(np.arange(n), new)))
    if folds:
        left = [np.zeros((len(j), C)) for j in tests]
        even = sum(member[0] for member in members)
        members.append((even, np.ones(1), np.ones(1), left, np.zeros((len(new), C))))
    return _average(members, y, tests, b, n_eff)


def _average(members, y, tests, b, n_eff):
    weight, told = [], []
    for mass, grid, prior, left, ahead in members:
        for w, share in zip(grid, prior):
            right = [
                log_softmax(b + w * s[k])[y[i]]
                for s, test in zip(left, tests)
                for k, i in enumerate(test)
            ]
            weight.append(np.log(mass * share) + (n_eff * np.mean(right) if right else 0))
            told.append(softmax(b + w * ahead, axis=1))
    weight = softmax(weight)
    eps = 0.2 / (n_eff + 1)
    return (1 - eps) * np.tensordot(weight, np.array(told), 1) + eps * np.exp(b)
