"""Feature scores against numpy, their definition and their laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from voxprior import RandomFieldClassifier
from voxprior.models.fields.nodes import (
    MARGINALS,
    best_features,
    choose_nodes,
    correlation_score,
    mutual_information_score,
    rank_features,
)

FEATURE = np.array([1.0, 2, 3, 2, 4, 6])[:, None]
CODES = np.array([0, 0, 0, 1, 1, 1])


def test_scores_of_one_feature_in_two_classes_of_three_scans():
    np.testing.assert_allclose(correlation_score(FEATURE, CODES), 0.612372, atol=1e-6)
    expected = {"printed": 0.182228, "total": 0.145704, "mixture": 0.129081, "continuous": 0.223984}
    for marginal, value in expected.items():
        np.testing.assert_allclose(
            mutual_information_score(FEATURE, CODES, marginal), value, atol=1e-6
        )


def naive_information(x, codes):
    """(A.10) and (A.11) term by term for two classes."""
    parts = [x[codes == c] for c in (0, 1)]
    mean, var = [p.mean() for p in parts], [p.var(ddof=1) for p in parts]
    k = len(x)
    bar_mean = sum(mean) / 2
    bar_var = sum((len(p) - 1) / (k - 1) * v for p, v in zip(parts, var, strict=True))
    bar = np.exp(-0.5 * (x - bar_mean) ** 2 / bar_var)
    bar /= bar.sum()
    total = 0.0
    for m, v in zip(mean, var, strict=True):
        p = np.exp(-0.5 * (x - m) ** 2 / v)
        p /= p.sum()
        total += 0.5 * (p * np.log(p / bar)).sum()
    return total


def test_printed_information_term_by_term(rng):
    X, codes = rng.normal(size=(11, 5)), np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1])
    expected = [naive_information(x, codes) for x in X.T]
    np.testing.assert_allclose(mutual_information_score(X, codes), expected, rtol=1e-10)


def test_continuous_information_by_adaptive_quadrature(rng):
    x, codes = rng.normal(size=(12, 1)) * 2 + 1, np.repeat([0, 1], 6)
    laws = [stats.norm(x[codes == c].mean(), x[codes == c].std(ddof=1)) for c in (0, 1)]

    def integrand(v):
        p = [law.pdf(v) for law in laws]
        return sum(0.5 * q * np.log(q / np.mean(p)) for q in p if q > 1e-300)

    exact = integrate.quad(integrand, -30, 30, limit=300)[0]
    np.testing.assert_allclose(mutual_information_score(x, codes, "continuous"), exact, rtol=1e-6)


def test_correlation_is_numpys(rng):
    X, codes = rng.normal(size=(20, 7)), rng.permutation(np.arange(20) % 2)
    expected = [abs(np.corrcoef(x, codes)[0, 1]) for x in X.T]
    np.testing.assert_allclose(correlation_score(X, codes), expected, rtol=1e-10)


def test_correlation_ratio_of_three_classes(rng):
    X, codes = rng.normal(size=(15, 3)), np.arange(15) % 3
    onehot = np.eye(3)[codes]
    fitted = onehot @ np.linalg.lstsq(onehot, X)[0]
    expected = np.sqrt(((fitted - X.mean(0)) ** 2).sum(0) / ((X - X.mean(0)) ** 2).sum(0))
    np.testing.assert_allclose(correlation_score(X, codes), expected, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 8),
    st.sampled_from(MARGINALS),
    st.floats(0.01, 100),
    st.floats(-50, 50),
    st.integers(0, 10**6),
)
def test_information_is_non_negative_and_affine_invariant(k, marginal, scale, shift, seed):
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(3 * k, 4)), np.arange(3 * k) % 3
    one = mutual_information_score(X, codes, marginal)
    assert (one >= 0).all()
    other = mutual_information_score(scale * X + shift, codes, marginal)
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


def test_any_layout_and_type(rng):
    X, codes = rng.normal(size=(10, 6)).astype(np.float32), np.arange(10) % 2
    X.setflags(write=False)
    one = correlation_score(X, codes)
    np.testing.assert_allclose(correlation_score(np.asfortranarray(X), codes), one)
    np.testing.assert_allclose(correlation_score(X.astype(float), codes), one, rtol=1e-10)


def test_constant_features_score_zero(rng):
    X, codes = rng.normal(size=(8, 3)), np.arange(8) % 2
    X[:, 1] = 7.0
    for ranking in ("correlation", "mutual_information", "mutual_information_continuous"):
        score = rank_features(X, codes, ranking)
        assert score[1] == 0
        assert np.isfinite(score).all()


def test_a_class_without_variance_stays_finite():
    X = np.array([[1.0], [1], [1], [2], [3], [5]])
    for marginal in MARGINALS:
        score = mutual_information_score(X, CODES, marginal)
        assert np.isfinite(score).all()
        assert score[0] > 0.1


def test_nodes_are_the_best_with_ties_to_the_first():
    score = np.array([0.1, 0.5, 0.5, 0.2, 0.5])
    np.testing.assert_array_equal(best_features(score, 2, None), [1, 2])
    np.testing.assert_array_equal(best_features(score, None, 0.2), [1, 2, 3, 4])
    with pytest.raises(ValueError, match="No feature reaches"):
        choose_nodes(np.ones((3, 5)), score, min_score=0.9)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="ranking='correlation'"):
        mutual_information_score(FEATURE, np.array([0, 0, 0, 0, 0, 1]))
    with pytest.raises(ValueError, match="marginal is not known"):
        mutual_information_score(FEATURE, CODES, "other")


def test_signed_correlation_is_the_printed_rule(rng):
    """(A.4) and (A.5): ρ̂ by its sums with y = ±1, and only features above ρ_Th."""
    X = rng.normal(size=(15, 40))
    X[:, 3] = 2.5
    codes = rng.permutation(np.repeat([0, 1], [7, 8]))
    y, k = 2.0 * codes - 1, len(codes)
    rho = np.zeros(40)
    for i in np.delete(np.arange(40), 3):
        x = X[:, i]
        above = k * (x * y).sum() - x.sum() * y.sum()
        spread = (k * (x**2).sum() - x.sum() ** 2) * (k * (y**2).sum() - y.sum() ** 2)
        rho[i] = above / np.sqrt(spread)
    score = rank_features(X, codes, "signed_correlation")
    np.testing.assert_allclose(score, rho, rtol=1e-9, atol=1e-12)
    model = RandomFieldClassifier(
        None, ranking="signed_correlation", min_score=0.2, temperature=1.0, gamma=1.0
    ).fit(X, codes)
    np.testing.assert_array_equal(model.nodes_, np.flatnonzero(rho >= 0.2))
    with pytest.raises(ValueError, match="two classes"):
        rank_features(X, np.arange(15) % 3, "signed_correlation")
