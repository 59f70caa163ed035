"""Relevance vector estimators: solvers, bases, input forms, maps, odd data, sklearn checks."""

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior.models.gaussian import GPRegressor, RVMClassifier, RVMRegressor


@parametrize_with_checks([RVMClassifier("voxels"), RVMRegressor("voxels")])
def test_sklearn_compatible(estimator, check):
    check(estimator)


@pytest.fixture
def three(rng):
    centers = rng.normal(size=(3, 30))
    codes = np.repeat([0, 1, 2], 10)
    X = centers[codes] + rng.normal(size=(30, 30))
    return X, np.array(["cat", "face", "house"])[codes]


MODELS = {
    f"{basis} {solver} {multiclass} {kernel}": RVMClassifier(
        basis, solver=solver, multiclass=multiclass, kernel=kernel
    )
    for basis, kernel in (("kernel", "linear"), ("kernel", "rbf"), ("voxels", "linear"))
    for solver in ("fast", "em", "mackay")
    for multiclass in ("ovr", "softmax")
}


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_right_and_do_not_depend_on_the_batch(three, name):
    X, y = three
    rvm = clone(MODELS[name]).fit(X, y)
    p = rvm.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(rvm.predict(X), rvm.classes_[p.argmax(axis=1)])
    assert (rvm.predict(X) == y).mean() > 0.8
    for i in (0, 17):
        alone = rvm.predict_log_proba(X[i : i + 1])
        np.testing.assert_allclose(alone[0], np.log(p[i]), rtol=1e-9)
    assert rvm.coef_.shape == (3, len(rvm.relevance_))
    assert np.isfinite(rvm.log_evidence_)


def test_moons_need_few_relevant_samples():
    X, y = make_moons(120, noise=0.2, random_state=0)
    rvm = RVMClassifier(kernel="rbf", length_scale=0.5).fit(X[:80], y[:80])
    assert (rvm.predict(X[80:]) == y[80:]).mean() > 0.9
    assert len(rvm.relevance_) < 15
    assert rvm.alpha_.shape == rvm.relevance_.shape
    assert (np.diff(rvm.evidence_path_) > 0).all()


def test_sinc_is_found_with_few_samples(rng):
    x = np.linspace(-10, 10, 100)[:, None]
    truth = np.sinc(x[:, 0] / np.pi)
    rvm = RVMRegressor(kernel="rbf", length_scale=0.3).fit(x, truth + 0.1 * rng.normal(size=100))
    mean, sd = rvm.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.06
    assert len(rvm.relevance_) < 20
    assert rvm.noise_ == pytest.approx(0.1, rel=0.3)
    assert (sd > 0.9 * rvm.noise_).all()


@pytest.mark.parametrize("solver", ["fast", "em", "mackay"])
def test_predictive_moments_against_the_primal_posterior(rng, solver):
    X, new = rng.normal(size=(25, 6)), rng.normal(size=(4, 6))
    y = X @ rng.normal(size=6) + 0.3 * rng.normal(size=25)
    rvm = RVMRegressor("voxels", solver=solver, column_cost=0.0).fit(X, y)
    v = rvm.variances_[0]
    used = v > 0
    Phi = np.column_stack([X - X.mean(axis=0), np.ones(25)])[:, np.append(rvm.relevance_, 6)][
        :, used
    ]
    fresh = np.column_stack([new - X.mean(axis=0), np.ones(4)])[:, np.append(rvm.relevance_, 6)]
    Sigma = np.linalg.inv(Phi.T @ Phi / rvm.noise_**2 + np.diag(1 / v[used]))
    mu = Sigma @ Phi.T @ (y - y.mean()) / rvm.noise_**2
    mean, sd = rvm.predict(new, return_std=True)
    np.testing.assert_allclose(mean, fresh[:, used] @ mu + y.mean(), rtol=1e-6)
    variance = np.einsum("ij,jk,ik->i", fresh[:, used], Sigma, fresh[:, used])
    np.testing.assert_allclose(sd**2, variance + rvm.noise_**2, rtol=1e-6)


def test_precomputed_equals_voxels_and_folds_are_sub_blocks(three):
    X, y = three
    X = X + 3.0
    G = X @ X.T
    train, test = np.arange(30) % 3 != 0, np.arange(30) % 3 == 0
    voxels = RVMClassifier().fit(X[train], y[train])
    given = RVMClassifier(kernel="precomputed").fit(G[np.ix_(train, train)], y[train])
    np.testing.assert_array_equal(given.relevance_, voxels.relevance_)
    p = given.predict_proba(G[np.ix_(test, train)])
    np.testing.assert_allclose(p, voxels.predict_proba(X[test]), rtol=1e-5)
    folds = cross_val_predict(RVMClassifier(kernel="precomputed"), G, y, cv=3)
    np.testing.assert_array_equal(folds, cross_val_predict(RVMClassifier(), X, y, cv=3))
    with pytest.raises(ValueError, match="no voxels"):
        given.voxel_maps()


def test_any_symmetric_matrix_is_a_basis(three):
    """Columns of a kernel are regressors: unlike a covariance they may be indefinite."""
    X, y = three
    G = np.tanh(X @ X.T - 5.0)
    assert np.linalg.eigvalsh(G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean())[0] < -0.1
    rvm = RVMClassifier(kernel="precomputed").fit(G, y)
    assert (rvm.predict(G) == y).mean() > 0.8
    with pytest.raises(ValueError, match="symmetric"):
        RVMClassifier(kernel="precomputed").fit(np.triu(G), y)
    with pytest.raises(ValueError, match="NaN"):
        rvm.predict(np.full((1, 30), np.nan))


@pytest.mark.parametrize("basis", ["kernel", "voxels"])
def test_memory_map_dask_and_float32(three, basis, tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = three
    X = X.astype(np.float32)
    expected = RVMClassifier(basis).fit(X.astype(float), y).predict_proba(X.astype(float))
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype="f4", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    for form in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), da.from_array(X, chunks=(9, 7))):
        p = RVMClassifier(basis).fit(form, y).predict_proba(form)
        np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_kernel_maps_are_gradients_of_the_latent_mean(three, kernel):
    X, y = three
    rvm = RVMClassifier(kernel=kernel).fit(X[:20], y[:20])
    ((name, slope),) = rvm.voxel_maps().items()
    assert name == ("weight" if kernel == "linear" else "gradient")
    center = X[:20].mean(axis=0)
    for j in (0, 13):
        step = np.eye(30)[j] * 1e-4
        up, down = (rvm._latent(rvm._features((center + s)[None]))[0][0, 0] for s in (step, -step))
        assert slope[j] == pytest.approx((up - down) / 2e-4, rel=1e-4, abs=1e-8)


def test_voxel_map_has_the_relevant_voxels_only(rng):
    X = rng.normal(size=(40, 5000)).astype(np.float32)
    y = np.where(X[:, 77] - X[:, 4000] > 0, "b", "a")
    rvm = RVMClassifier("voxels").fit(X, y)
    weight = rvm.voxel_maps()["weight"]
    np.testing.assert_array_equal(np.flatnonzero(weight), rvm.relevance_)
    assert {77, 4000} & set(rvm.relevance_)
    assert len(rvm.relevance_) < 8


def test_equal_relevance_is_ridge(rng):
    """EM stopped at its start has one α for all voxels: a Gaussian process with that scale."""
    X = rng.normal(size=(20, 8))
    y = X @ rng.normal(size=8)
    with pytest.warns(ConvergenceWarning, match="max_iter=0"):
        rvm = RVMRegressor("voxels", solver="em", max_iter=0).fit(X, y)
    power = (X - X.mean(axis=0)).var(axis=0)
    s2 = rvm.variances_[0, :8] * power
    np.testing.assert_allclose(s2, s2[0], rtol=1e-9)
    Z = (X - X.mean(axis=0)) / np.sqrt(power)
    theta = [0.5 * np.log(s2[0]), np.log(rvm.noise_)]
    gp = GPRegressor(theta=theta, optimize=False, normalize=False, offset=0.0).fit(Z, y)
    np.testing.assert_allclose(gp.predict(Z), rvm.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("basis", ["kernel", "voxels"])
@pytest.mark.parametrize("solver", ["fast", "em", "mackay"])
def test_odd_data(basis, solver):
    two = RVMClassifier(basis, solver=solver).fit(np.array([[0.0], [1.0]]), ["a", "b"])
    p = two.predict_proba(np.array([[0.0], [1.0]]))
    assert np.isfinite(p).all()
    same = RVMClassifier(basis, solver=solver).fit(np.ones((6, 4)), [0, 1] * 3)
    np.testing.assert_allclose(same.predict_proba(np.ones((1, 4))), 0.5, atol=1e-6)
    three = RVMClassifier(basis, solver=solver, multiclass="softmax").fit(
        np.ones((6, 4)), [0, 1, 2] * 2
    )
    np.testing.assert_allclose(three.predict_proba(np.ones((1, 4))), 1 / 3, atol=1e-6)
    constant = RVMRegressor(basis, solver=solver).fit(np.ones((6, 4)), np.full(6, 3.0))
    np.testing.assert_allclose(constant.predict(np.ones((2, 4))), 3.0)
    line = RVMRegressor(basis, solver=solver).fit(np.array([[0.0], [1.0]]), [1.0, 2.0])
    assert np.isfinite(line.predict(np.array([[0.5]]), return_std=True)).all()


def test_wrong_settings_are_explained(rng):
    X, y = rng.normal(size=(6, 4)), [0, 1] * 3
    with pytest.raises(ValueError, match="at least 2 classes"):
        RVMClassifier().fit(X, ["a"] * 6)
    with pytest.raises(ValueError, match="'basis' parameter"):
        RVMClassifier("regions").fit(X, y)
    with pytest.raises(ValueError, match="'solver' parameter"):
        RVMRegressor(solver="newton").fit(X, y)
    with pytest.raises(ValueError, match="'kernel' parameter"):
        RVMClassifier(kernel=["linear", "rbf"]).fit(X, y)
    with pytest.raises(ValueError, match="'length_scale' parameter"):
        RVMClassifier(kernel="rbf", length_scale=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="'column_cost' parameter"):
        RVMRegressor(column_cost="cheap").fit(X, y)
    with pytest.raises(ValueError, match="y contains NaN"):
        RVMRegressor().fit(X, [np.nan] * 6)


def test_paper_settings(three):
    X, y = three
    assert (RVMClassifier.paper().fit(X, y).predict(X) == y).mean() > 0.8
    assert np.isfinite(RVMRegressor.paper().fit(X, np.arange(30.0)).predict(X)).all()


@pytest.mark.parametrize("model", [RVMClassifier(), RVMClassifier("voxels"), RVMRegressor()])
def test_saved_and_loaded(model, three, tmp_path):
    X, y = three
    target = y if isinstance(model, RVMClassifier) else np.arange(30.0)
    fitted = clone(model).fit(X, target)
    skops.io.dump(fitted, tmp_path / "rvm.skops")
    unknown = skops.io.get_untrusted_types(file=tmp_path / "rvm.skops")
    assert all(name.startswith("voxprior.") for name in unknown)
    loaded = skops.io.load(tmp_path / "rvm.skops", trusted=unknown)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
