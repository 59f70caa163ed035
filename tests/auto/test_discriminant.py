"""The discriminant path on Gram matrices is the shrunk discriminant in voxels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.auto import naive

from voxprior.auto.discriminant import SHRINKAGES, discriminant_paths, spectrum_of

X = np.array(
    [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]], float
)
Y = np.array([0, 0, 0, 1, 1, 1])


def scores_of(x, y, new, n_classes, *shrinkages):
    """Scores (T, m, C) of one labelling."""
    paths = discriminant_paths(spectrum_of(x @ x.T), y[:, None], n_classes, *shrinkages)
    dual, offset = paths.of_scans()
    made = paths.scores(new @ x.T)[:, :, 0]
    assert_allclose(new @ x.T @ dual + offset[:, None], made, rtol=1e-9, atol=1e-9)
    return made


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
    assert_allclose(scores_of(X, Y, new, 2, (tau,))[0], [first, second], atol=6e-7)


@pytest.mark.parametrize(("n_classes", "n", "p"), [(2, 5, 3), (2, 9, 40), (3, 8, 5), (5, 17, 30)])
def test_gram_form_is_voxel_form(n_classes, n, p):
    rng = np.random.default_rng(n)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    x, new = rng.normal(size=(n, p)) + y[:, None], rng.normal(size=(4, p))
    made = scores_of(x, y, new, n_classes)
    for tau, scores in zip(SHRINKAGES, made):
        assert_allclose(scores, naive.scores(x, y, new, tau), rtol=1e-8, atol=1e-9)


def test_the_path_ends_in_the_nearest_mean():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 6)), np.arange(9) % 3
    far, end = scores_of(x, y, x, 3, (1e9, np.inf))
    assert_allclose(far, end, rtol=1e-6, atol=1e-8)


def test_one_scan_per_class_has_no_covariance():
    x, y = np.random.default_rng(1).normal(size=(3, 5)), np.arange(3)
    made = scores_of(x, y, x, 3)
    assert_allclose(made, np.broadcast_to(naive.scores(x, y, x, np.inf), made.shape))


def test_repeated_scans_leave_no_noise_to_shrink():
    x = np.repeat(np.random.default_rng(1).normal(size=(2, 5)), 3, axis=0)
    y = np.repeat([0, 1], 3)
    made = scores_of(x, y, x, 2)
    assert_allclose(made, np.broadcast_to(made[-1], made.shape))
    assert (made[:, y == 0, 0] > made[:, y == 0, 1]).all()


def test_equal_class_means_give_no_score():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])
    paths = discriminant_paths(spectrum_of(x @ x.T), np.array([[0], [0], [1], [1]]), 2)
    assert not paths.dual.any()
    assert not paths.offset.any()


def test_labellings_do_not_see_each_other():
    rng = np.random.default_rng(2)
    x, new = rng.normal(size=(10, 6)), rng.normal(size=(3, 6))
    x[1], x[:, 2] = x[0], 4.0
    Y = np.column_stack([rng.permutation(np.arange(10) % 3) for _ in range(5)])
    Y[:, 4] = [0, 0, 1, 2, 2, 2, 2, 2, 2, 2]
    together = discriminant_paths(spectrum_of(x @ x.T), Y, 3).scores(new @ x.T)
    for column, y in enumerate(Y.T):
        assert_allclose(together[:, :, column], scores_of(x, y, new, 3), rtol=1e-9)


def test_tiny_noise_does_not_cancel():
    """Class means a million times as far apart as scans of a class."""
    rng = np.random.default_rng(3)
    y = np.arange(8) % 2
    x = rng.normal(size=(8, 5)) * 1e-3 + 1e3 * y[:, None] * rng.normal(size=5)
    x -= x.mean(axis=0)
    made = scores_of(x, y, x, 2)
    for tau, scores in zip(SHRINKAGES, made):
        assert_allclose(scores, naive.scores(x, y, x, tau), rtol=1e-3, atol=1e-4)
