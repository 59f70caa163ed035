"""The discriminant path on Gram matrices is the shrunk discriminant in voxels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.auto import naive

from voxprior.auto.discriminant import SHRINKAGES, discriminant_path

X = np.array(
    [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]], float
)
Y = np.array([0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("tau", "first", "second"),
    [
        (0.1, [0.046747, -0.242901], [-0.180408, -0.015746]),
        (1.0, [0.042257, -0.238411], [-0.179342, -0.016811]),
        (np.inf, [0.036538, -0.232692], [-0.171154, -0.025000]),
    ],
)
def test_six_scans_of_four_voxels(tau, first, second):
    new = np.array([[2.0, 1, 1, 1], [1, 2, 1, 0]])
    path = discriminant_path(X @ X.T, Y, 2, (tau,))
    assert_allclose(path.scores(new @ X.T)[0], [first, second], atol=6e-7)


@pytest.mark.parametrize(("n_classes", "n", "p"), [(2, 5, 3), (2, 9, 40), (3, 8, 5), (5, 17, 30)])
def test_gram_form_is_voxel_form(n_classes, n, p):
    rng = np.random.default_rng(n)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    x, new = rng.normal(size=(n, p)) + y[:, None], rng.normal(size=(4, p))
    made = discriminant_path(x @ x.T, y, n_classes).scores(new @ x.T)
    for tau, scores in zip(SHRINKAGES, made):
        assert_allclose(scores, naive.scores(x, y, new, tau), rtol=1e-8, atol=1e-9)


def test_the_path_ends_in_the_nearest_mean():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 6)), np.arange(9) % 3
    far, end = discriminant_path(x @ x.T, y, 3, (1e9, np.inf)).scores(x @ x.T)
    assert_allclose(far, end, rtol=1e-6, atol=1e-8)


def test_one_scan_per_class_has_no_covariance():
    x, y = np.random.default_rng(1).normal(size=(3, 5)), np.arange(3)
    made = discriminant_path(x @ x.T, y, 3).scores(x @ x.T)
    assert_allclose(made, np.broadcast_to(naive.scores(x, y, x, np.inf), made.shape))


def test_repeated_scans_leave_no_noise_to_shrink():
    x = np.repeat(np.random.default_rng(1).normal(size=(2, 5)), 3, axis=0)
    y = np.repeat([0, 1], 3)
    made = discriminant_path(x @ x.T, y, 2).scores(x @ x.T)
    assert_allclose(made, np.broadcast_to(made[-1], made.shape))
    assert (made[:, y == 0, 0] > made[:, y == 0, 1]).all()


def test_equal_class_means_give_no_score():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])
    path = discriminant_path(x @ x.T, np.array([0, 0, 1, 1]), 2)
    assert not path.dual.any()
    assert not path.offset.any()
