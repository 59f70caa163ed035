import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import NoiseWhitening, VoxelSpace
from voxprior.models.noise import noise_covariance, whiten


@parametrize_with_checks([NoiseWhitening(), NoiseWhitening(shrinkage=0.3, standardize=False)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def correlated(rng, n, V):
    return rng.normal(size=(n, V)) @ rng.normal(size=(V, V)) / np.sqrt(V)


def dense_whitening(Z, shrinkage):
    """Σ^(-1/2) √μ from the voxel-by-voxel covariance."""
    S = Z.T @ Z / len(Z)
    mu = np.trace(S) / len(S)
    values, vectors = np.linalg.eigh((1 - shrinkage) * S + shrinkage * mu * np.eye(len(S)))
    return np.sqrt(mu) * (vectors / np.sqrt(values)) @ vectors.T


@pytest.mark.parametrize(("n", "V"), [(200, 30), (40, 90), (60, 60)])
def test_thin_form_equals_dense_form(rng, n, V):
    Z = correlated(rng, n, V)
    noise = noise_covariance(Z)
    assert noise.shrinkage == pytest.approx(ledoit_wolf(Z, assume_centered=True)[1], rel=1e-9)
    X = rng.normal(size=(5, V))
    np.testing.assert_allclose(whiten(X, noise), X @ dense_whitening(Z, noise.shrinkage), atol=1e-9)


def test_full_rank_covariance_needs_no_shrinkage(rng):
    Z = correlated(rng, 300, 20)
    white = NoiseWhitening(shrinkage=0.0, standardize=False).fit_transform(Z)
    covariance = np.cov(white.T, bias=True)
    np.testing.assert_allclose(covariance, np.eye(20) * covariance[0, 0], atol=1e-9)
    with pytest.raises(ValueError, match="span only 109 of 200"):
        NoiseWhitening(shrinkage=0.0).fit(correlated(rng, 110, 200))


def test_full_shrinkage_only_standardizes(rng):
    Z = correlated(rng, 150, 60)
    white = NoiseWhitening(shrinkage=1.0).fit_transform(Z)
    np.testing.assert_allclose(white, (Z - Z.mean(axis=0)) / Z.std(axis=0), atol=1e-9)


def test_voxel_permutation_and_units(rng):
    """Symmetric whitening moves with its voxels, and standardising forgets their units."""
    Z, order = correlated(rng, 150, 30), rng.permutation(30)
    white = NoiseWhitening().fit_transform(Z)
    np.testing.assert_allclose(NoiseWhitening().fit_transform(Z[:, order]), white[:, order])
    units = rng.uniform(0.1, 10, size=30)
    np.testing.assert_allclose(NoiseWhitening().fit_transform(Z * units), white, atol=1e-9)


def test_every_time_point_is_whitened(rng):
    space = VoxelSpace.grid((6, 5))
    trials = correlated(rng, 40 * 4, 30).reshape(40, 120)
    whole = NoiseWhitening(space).fit(trials)
    volumes = NoiseWhitening().fit(trials.reshape(-1, 30))
    np.testing.assert_allclose(
        whole.transform(trials).reshape(-1, 30), volumes.transform(trials.reshape(-1, 30))
    )
    given = NoiseWhitening(volumes=trials.reshape(-1, 30)).fit(trials[:3, :30])
    np.testing.assert_array_equal(given.components_, volumes.components_)


def test_a_scan_alone_equals_a_scan_in_a_batch(rng):
    Z = correlated(rng, 150, 400)
    model = NoiseWhitening().fit(Z)
    alone = np.concatenate([model.transform(z[None]) for z in Z[:5]])
    np.testing.assert_allclose(alone, model.transform(Z)[:5], rtol=1e-9, atol=1e-12)


def test_labels_are_never_looked_at(rng):
    Z, y = correlated(rng, 150, 30), rng.integers(0, 2, 150)
    one, other = NoiseWhitening().fit(Z, y), NoiseWhitening().fit(Z, 1 - y)
    np.testing.assert_array_equal(one.transform(Z), other.transform(Z))


def test_helps_any_classifier_where_noise_is_shared(rng):
    """Strong noise along a few patterns hides a weak difference between two classes."""
    V, patterns = 120, rng.normal(size=(3, 120))

    def noise(n):
        return rng.normal(size=(n, 3)) @ patterns * 3 + rng.normal(size=(n, V))

    difference, y = rng.normal(size=V) * 0.6, np.array([0, 1] * 50)
    train, test = (noise(len(labels)) + np.outer(labels, difference) for labels in (y[:8], y))
    white = make_pipeline(NoiseWhitening(volumes=noise(300)), LogisticRegression())
    plain = LogisticRegression()
    scores = [model.fit(train, y[:8]).score(test, y) for model in (white, plain)]
    assert scores[0] > scores[1] + 0.1


def test_refuses_too_few_volumes_with_advice(rng):
    maps = rng.normal(size=(40, 500))
    with pytest.raises(ValueError, match="at least 100 volumes, got n_samples = 40"):
        NoiseWhitening().fit(maps)
    assert NoiseWhitening(min_volumes=30).fit(maps).n_volumes_ == 40


def test_refusals(rng):
    Z = rng.normal(size=(120, 12))
    with pytest.raises(ValueError, match="multiple of its 5 voxels"):
        NoiseWhitening(VoxelSpace.grid((5,))).fit(Z)
    with pytest.raises(ValueError, match="12 columns, one per voxel, got 7"):
        NoiseWhitening(volumes=Z[:, :7]).fit(Z)
    with pytest.raises(ValueError, match="do not vary"):
        NoiseWhitening().fit(np.ones((50, 3)))
    assert clone(NoiseWhitening(min_volumes=7)).min_volumes == 7
