import numpy as np
import pytest
from scipy import sparse
from scipy.special import digamma, polygamma
from scipy.stats import chi2

from voxprior.algebra import inverse_chi2_prior
from voxprior.models.sharing.statistics import class_statistics
from voxprior.models.sharing.variances import (
    sample_variances,
    share_variances,
    variances_exist,
)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(9, 12)) * rng.uniform(0.5, 2.0, size=12)
    codes = np.array([0, 0, 1, 1, 1, 1, 0, 2, 2])
    return X, codes, class_statistics(X, codes, 3)


@pytest.mark.parametrize("ddof", [0, 1])
def test_sample_variances_per_class_and_shared(data, ddof):
    X, codes, statistics = data
    per_class = [X[codes == c].var(axis=0, ddof=ddof) for c in range(3)]
    np.testing.assert_allclose(sample_variances(statistics, "class", ddof).value, per_class)
    residuals = X - np.array([X[codes == c].mean(axis=0) for c in range(3)])[codes]
    shared = (residuals**2).sum(axis=0) / (9 - 3 * ddof)
    np.testing.assert_allclose(sample_variances(statistics, "shared", ddof).value, [shared])


def test_median_and_mean(data):
    _, _, statistics = data
    S2 = sample_variances(statistics).value
    for rule, function in (("median", np.median), ("mean", np.mean)):
        shared = share_variances(statistics, rule)
        np.testing.assert_allclose(shared.value, function(S2, axis=1)[:, None] * np.ones((3, 12)))
        assert np.isinf(shared.degrees).all()


def test_neighbours_average_at_the_same_time(data):
    """Eq. (6): three voxels on a line and one alone, T = 3."""
    _, _, statistics = data
    groups = sparse.csr_array(
        np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=bool)
    )
    S2 = sample_variances(statistics).value.reshape(3, 3, 4)
    expected = np.stack(
        [S2[..., 1], (S2[..., 0] + S2[..., 2]) / 2, S2[..., 1], S2[..., 3]], axis=-1
    )
    shared = share_variances(statistics, "neighbors", groups=groups)
    np.testing.assert_allclose(shared.value, expected.reshape(3, 12))
    with_itself = sparse.csr_array(groups + sparse.eye_array(4))
    again = share_variances(statistics, "neighbors", groups=with_itself)
    np.testing.assert_allclose(again.value, shared.value)


@pytest.mark.parametrize(
    ("N", "factor"), [(2, 0.454936), (3, 0.693147), (5, 0.839173), (10, 0.926981)]
)
def test_median_correction(rng, N, factor):
    X = rng.normal(size=(N, 40_001))
    statistics = class_statistics(X, np.zeros(N, int), 1)
    plain = share_variances(statistics).value[0, 0]
    for ddof in (0, 1):
        corrected = share_variances(statistics, ddof=ddof, median_correction=True).value[0, 0]
        assert corrected == pytest.approx(plain / factor, rel=1e-5)
    assert corrected == pytest.approx(1.0, abs=0.05)


def test_shared_median_correction_uses_all_degrees_of_freedom(rng):
    X, codes = rng.normal(size=(4, 40_001)), np.array([0, 0, 1, 1])
    statistics = class_statistics(X, codes, 2)
    plain = share_variances(statistics, scope="shared").value[0, 0]
    for ddof in (0, 1):
        corrected = share_variances(
            statistics, scope="shared", ddof=ddof, median_correction=True
        ).value[0, 0]
        assert corrected == pytest.approx(plain / (chi2.median(2) / 2), rel=1e-9)


def test_moderation_finds_its_prior(rng):
    sigma2 = 2.5 * 6 / rng.chisquare(6, size=60_000)
    S2 = sigma2 * rng.chisquare(3, size=60_000) / 3
    d0, s0 = inverse_chi2_prior(S2, 3)
    assert d0 == pytest.approx(6, rel=0.1)
    assert s0 == pytest.approx(2.5, rel=0.03)
    logs = np.log(S2)  # the two moment equations hold
    assert logs.var(ddof=1) == pytest.approx(polygamma(1, 1.5) + polygamma(1, d0 / 2), rel=1e-9)
    mean = np.log(s0) + digamma(1.5) - np.log(1.5) - digamma(d0 / 2) + np.log(d0 / 2)
    assert logs.mean() == pytest.approx(mean, rel=1e-9)


def test_moderation_pools_where_variances_are_equal_and_keeps_them_where_not(rng):
    equal = rng.normal(size=(4, 5000))
    statistics = class_statistics(equal, np.zeros(4, int), 1)
    moderated = share_variances(statistics, "moderated").value
    assert moderated.std() < 0.1 * sample_variances(statistics).value.std()
    unequal = equal * np.exp(rng.normal(0, 3, size=5000))
    statistics = class_statistics(unequal, np.zeros(4, int), 1)
    moderated = share_variances(statistics, "moderated")
    correlation = np.corrcoef(
        np.log(moderated.value[0]), np.log(sample_variances(statistics).value[0])
    )[0, 1]
    assert correlation > 0.9
    assert 3 < moderated.degrees[0] < 6


def test_moderation_lies_between_sample_and_prior(data):
    _, _, statistics = data
    S2 = sample_variances(statistics, "shared").value[0]
    _, s0 = inverse_chi2_prior(S2, 6)
    moderated = share_variances(statistics, "moderated", "shared").value[0]
    assert ((moderated - s0) * (S2 - s0) >= 0).all()
    assert (abs(moderated - s0) <= abs(S2 - s0) + 1e-12).all()


@pytest.mark.parametrize("count", [[1, 1], [1, 2], [2, 2], [0, 3]])
@pytest.mark.parametrize("smoothing", [0.0, 1e-9])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("scope", ["class", "shared"])
@pytest.mark.parametrize("rule", ["none", "neighbors", "mean", "median", "moderated"])
def test_variances_exist_where_sharing_them_works(rng, rule, scope, ddof, smoothing, count):
    codes = np.repeat([0, 1], count)
    statistics = class_statistics(rng.normal(size=(len(codes), 6)), codes, 2)
    try:
        share_variances(statistics, rule, scope, ddof, var_smoothing=smoothing)
        works = True
    except ValueError:
        works = False
    assert variances_exist(np.array(count), rule, scope, ddof, smoothing) == works
    # One example has no variance whatever the divisor; smoothing alone may stand in for it.
    if scope == "class" and not (rule in ("none", "neighbors") and ddof == 0 and smoothing):
        assert works == (min(count) > 1)


@pytest.mark.parametrize("ddof", [0, 1])
def test_one_example_of_each_class_varies_about_the_mean_of_all(rng, ddof):
    X = rng.normal(size=(3, 40))
    shared = sample_variances(class_statistics(X, np.arange(3), 3), "shared", ddof)
    np.testing.assert_allclose(shared.value[0], X.var(axis=0, ddof=ddof))
    assert shared.degrees == [2]
    np.testing.assert_allclose(shared.value * shared.inflation, X.var(axis=0, ddof=1)[None])


def test_where_no_variance_can_be_had(rng):
    one = class_statistics(rng.normal(size=(3, 4)), np.array([0, 0, 1]), 2)
    with pytest.raises(ValueError, match="class with n_samples = 1"):
        share_variances(one)
    assert share_variances(one, scope="shared").value.shape == (1, 4)
    empty = class_statistics(rng.normal(size=(2, 4)), np.array([0, 0]), 2)
    with pytest.raises(ValueError, match="one of every class"):
        share_variances(empty, scope="shared")
    flat = class_statistics(np.zeros((4, 3)), np.array([0, 0, 1, 1]), 2)
    with pytest.raises(ValueError, match="Mask out constant voxels"):
        share_variances(flat)
    with pytest.raises(ValueError, match="3 features have no variance"):
        share_variances(flat, "none", var_smoothing=1e-9)
    with pytest.raises(ValueError, match="Every sample variance is 0"):
        share_variances(flat, "moderated")
