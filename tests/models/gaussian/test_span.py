"""Variance beyond the span: leave-one-out against dense algebra, and what the share does."""

import numpy as np
import pytest

from voxprior.models.gaussian import GPClassifier
from voxprior.models.gaussian.ep import expectation_propagation
from voxprior.models.gaussian.laplace import laplace
from voxprior.models.gaussian.span import left_out, share_beyond


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_left_out_moments_against_dense_algebra(rng, inference):
    """Remove one site from the Gaussian posterior, with all matrices written out."""
    Z, sign = rng.normal(size=(9, 20)), rng.choice([-1.0, 1.0], size=9)
    K = Z @ Z.T / 5 + 1
    fit = laplace(K, sign) if inference == "laplace" else expectation_propagation(K, sign)[0]
    out = left_out(fit, K)
    precision = fit.root**2
    natural = fit.a + precision * fit.f
    for i in range(9):
        rest = np.arange(9) != i
        covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(precision * rest))
        assert out.mean[i] == pytest.approx((covariance @ (natural * rest))[i], rel=1e-6, abs=1e-9)
        assert out.variance[i] == pytest.approx(covariance[i, i], rel=1e-6)
        given = K[i, rest] @ np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert out.beyond[i] == pytest.approx(K[i, i] - given, rel=1e-5, abs=1e-7)


def test_scans_within_the_span_of_others_leave_the_share_at_zero(rng):
    Z, sign = rng.normal(size=(20, 3)), rng.choice([-1.0, 1.0], size=20)
    K = Z @ Z.T + 1
    fit = expectation_propagation(K, sign)[0]
    np.testing.assert_allclose(left_out(fit, K).beyond, 0, atol=1e-6)
    codes = (sign > 0).astype(int)
    assert share_beyond([left_out(fit, K)], codes, "probit") == 0.0


def test_automatic_share_avoids_both_blur_and_overconfidence():
    """Weak to strong patterns in many voxels: held-out log-loss with the chosen share."""
    for strength in (0.03, 0.05, 0.1, 0.2):
        losses = dict.fromkeys(("auto", True, False), 0.0)
        for seed in range(4):
            rng = np.random.default_rng(seed)
            codes = np.arange(60) % 3
            patterns = strength * rng.normal(size=(3, 2000))
            X, new = (rng.normal(size=(60, 2000)) + patterns[codes] for _ in range(2))
            for span in losses:
                p = GPClassifier(span=span).fit(X, codes).predict_proba(new)
                losses[span] -= np.log(p[np.arange(60), codes]).mean() / 4
        assert losses["auto"] < max(losses[True], losses[False])
        assert losses["auto"] < losses[False] + 0.02
        assert losses["auto"] < min(losses[True], losses[False]) + 0.3


def test_wrong_span_is_explained(rng):
    with pytest.raises(ValueError, match="'span' parameter"):
        GPClassifier(span="maybe").fit(rng.normal(size=(6, 4)), [0, 1] * 3)
