"""What the automatic classifier is worth on simulated scans: honest on noise, good on signal."""

import numpy as np
import pytest

from voxprior import AutoClassifier
from voxprior.simulate import blobs, cohort

pytestmark = pytest.mark.slow


def log_loss(model, X, y):
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("n", [1, 2, 4, 20])
def test_noise_costs_next_to_nothing(n):
    """Chance is .693; the mean over draws is known to about .005."""
    found = []
    for seed in range(100):
        x = np.random.default_rng(1000 + seed).standard_normal((2 * n + 60, 300))
        y = np.arange(len(x)) % 2
        model = AutoClassifier().fit(x[: 2 * n], y[: 2 * n])
        found.append(log_loss(model, x[2 * n :], y[2 * n :]))
    assert np.mean(found) <= 0.72


@pytest.mark.parametrize(("n", "accuracy", "loss"), [(2, 0.85, 0.55), (8, 0.97, 0.1)])
def test_blobs_are_found_from_few_scans(n, accuracy, loss):
    right, losses = [], []
    for seed in range(6):
        data = blobs((12, 12, 8), n + 40, random_state=seed)
        model = AutoClassifier(data.space).fit(data.X[: 2 * n], data.y[: 2 * n])
        right.append(model.score(data.X[2 * n :], data.y[2 * n :]))
        losses.append(log_loss(model, data.X[2 * n :], data.y[2 * n :]))
    assert np.mean(right) >= accuracy
    assert np.mean(losses) <= loss


def test_patients_are_told_from_controls_by_what_the_disease_does():
    data = cohort((16, 16, 12), 200, distributed=0.03, focal=0.15, random_state=0)
    x = data.X / data.X.mean(axis=1, keepdims=True)
    model = AutoClassifier(data.space).fit(x[:80], data.y[:80])
    assert model.score(x[80:], data.y[80:]) >= 0.9
    pattern = np.abs(model.voxel_maps()["pattern"])
    focal = data.truth["focal"] > 0
    assert pattern[focal].mean() > 2 * pattern[~focal].mean()
