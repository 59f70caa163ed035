"""Relevance vector estimators: solvers, bases, input forms, maps, odd data, sklearn checks."""

import tracemalloc

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior.models.gaussian import GPRegressor, RVMClassifier, RVMRegressor


@pytest.mark.slow
@parametrize_with_checks(
    [RVMClassifier("voxels", doubt=None), RVMRegressor("voxels", intervals="evidence")]
)
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
        basis, alpha="each", solver=solver, multiclass=multiclass, kernel=kernel, doubt=None
    )
    for basis, kernel in (("kernel", "linear"), ("kernel", "rbf"), ("voxels", "linear"))
    for solver in ("fast", "em", "mackay")
    for multiclass in ("ovr", "softmax")
} | {
    f"{basis} tied {multiclass} {kernel}": RVMClassifier(
        basis, alpha="tied", multiclass=multiclass, kernel=kernel
    )
    for basis, kernel in (("kernel", "linear"), ("kernel", "rbf"), ("voxels", "linear"))
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
    # One against the rest is not a model of the labels as a whole, and has no evidence of them.
    assert hasattr(rvm, "log_evidence_") == (rvm.multiclass == "softmax")
    assert np.isfinite(getattr(rvm, "log_evidence_", rvm.__dict__.get("log_evidences_"))).all()


def test_moons_need_few_relevant_samples():
    X, y = make_moons(120, noise=0.2, random_state=0)
    rvm = RVMClassifier(alpha="each", kernel="rbf", length_scale=0.5, doubt=None)
    rvm.fit(X[:80], y[:80])
    assert (rvm.predict(X[80:]) == y[80:]).mean() > 0.9
    assert len(rvm.relevance_) < 15
    assert rvm.alpha_.shape == rvm.relevance_.shape
    assert (np.diff(rvm.evidence_path_) > 0).all()


def test_sinc_is_found_with_few_samples(rng):
    x = np.linspace(-10, 10, 100)[:, None]
    truth = np.sinc(x[:, 0] / np.pi)
    rvm = RVMRegressor(alpha="each", kernel="rbf", length_scale=0.3)
    rvm.fit(x, truth + 0.1 * rng.normal(size=100))
    mean, sd = rvm.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.06
    assert len(rvm.relevance_) < 20
    assert rvm.noise_ == pytest.approx(0.1, rel=0.3)
    assert (sd > 0.9 * rvm.noise_).all()


@pytest.mark.parametrize("solver", ["fast", "em", "mackay"])
def test_predictive_moments_against_the_primal_posterior(rng, solver):
    X, new = rng.normal(size=(25, 6)), rng.normal(size=(4, 6))
    y = X @ rng.normal(size=6) + 0.3 * rng.normal(size=25)
    rvm = RVMRegressor("voxels", solver=solver, column_cost=0.0, intervals="evidence")
    rvm.fit(X, y)
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
    sure = RVMClassifier(kernel="precomputed", doubt=None)
    folds = cross_val_predict(sure, G, y, cv=3)
    np.testing.assert_array_equal(folds, cross_val_predict(RVMClassifier(doubt=None), X, y, cv=3))
    with pytest.raises(ValueError, match="no voxels"):
        given.voxel_maps()


def test_any_symmetric_matrix_is_a_basis(three):
    """Columns of a kernel are regressors: unlike a covariance they may be indefinite."""
    X, y = three
    G = np.tanh(X @ X.T - 5.0)
    assert np.linalg.eigvalsh(G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean())[0] < -0.1
    rvm = RVMClassifier(kernel="precomputed", doubt=None).fit(G, y)
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
    expected = (
        RVMClassifier(basis, doubt=None).fit(X.astype(float), y).predict_proba(X.astype(float))
    )
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype="f4", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    for form in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), da.from_array(X, chunks=(9, 7))):
        p = RVMClassifier(basis, doubt=None).fit(form, y).predict_proba(form)
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
    rvm = RVMClassifier("voxels", doubt=None).fit(X, y)
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
@pytest.mark.parametrize("solver", ["tied", "fast", "em", "mackay"])
def test_odd_data(basis, solver):
    options = {"basis": basis, "solver": solver, "alpha": "tied" if solver == "tied" else "each"}
    options["solver"] = "fast" if solver == "tied" else solver
    doubt = (2, 1) if solver in ("tied", "fast") else None
    intervals = "held_out" if doubt else "evidence"
    two = RVMClassifier(doubt=doubt, **options).fit(np.array([[0.0], [1.0]]), ["a", "b"])
    p = two.predict_proba(np.array([[0.0], [1.0]]))
    assert np.isfinite(p).all()
    same = RVMClassifier(doubt=doubt, **options).fit(np.ones((6, 4)), [0, 1] * 3)
    np.testing.assert_allclose(same.predict_proba(np.ones((1, 4))), 0.5, atol=1e-6)
    three = RVMClassifier(multiclass="softmax", doubt=None, **options).fit(
        np.ones((6, 4)), [0, 1, 2] * 2
    )
    np.testing.assert_allclose(three.predict_proba(np.ones((1, 4))), 1 / 3, atol=1e-6)
    constant = RVMRegressor(intervals=intervals, **options).fit(np.ones((6, 4)), np.full(6, 3.0))
    np.testing.assert_allclose(constant.predict(np.ones((2, 4))), 3.0)
    line = RVMRegressor(intervals=intervals, **options).fit(np.array([[0.0], [1.0]]), [1.0, 2.0])
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


def test_one_precision_for_all_is_a_process_with_the_squared_kernel(rng):
    """f = Φw with w ~ N(0, v) is a Gaussian process of covariance vΦΦᵀ + v_b."""
    X, new = rng.normal(size=(20, 30)), rng.normal(size=(5, 30))
    y = X[:, :5].sum(axis=1) + rng.normal(size=20)
    rvm = RVMRegressor(intervals="evidence").fit(X, y)
    v, v_bias = rvm.variances_[0, 0], rvm.variances_[0, -1]
    np.testing.assert_array_equal(rvm.relevance_, np.arange(20))
    np.testing.assert_allclose(rvm.alpha_, 1 / v)
    center = X.mean(axis=0)
    scale = ((X - center) ** 2).sum() / 20
    Phi, phi = (X - center) @ (X - center).T / scale, (new - center) @ (X - center).T / scale
    A = v * Phi @ Phi.T + v_bias + rvm.noise_**2 * np.eye(20)
    K = v * phi @ Phi.T + v_bias
    mean, sd = rvm.predict(new, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + K @ np.linalg.solve(A, y - y.mean()), rtol=1e-6)
    latent = v * (phi**2).sum(axis=1) + v_bias - np.einsum("ij,ji->i", K, np.linalg.solve(A, K.T))
    np.testing.assert_allclose(sd**2, latent + rvm.noise_**2, rtol=1e-6)
    given = RVMRegressor(alpha=1 / v, intervals="evidence").fit(X, y)
    np.testing.assert_allclose(given.predict(new), mean, rtol=1e-3)


def test_held_out_noise_against_refits_by_hand(rng):
    X, y = rng.normal(size=(12, 40)), rng.normal(size=12)
    G = X @ X.T
    voxels, given = RVMRegressor().fit(X, y), RVMRegressor(kernel="precomputed").fit(G, y)
    assert given.interval_noise_ == pytest.approx(voxels.interval_noise_, rel=1e-5)
    residual, variance = [], []
    for k in range(10):
        test = np.arange(12) % 10 == k
        fitted = RVMRegressor(intervals="evidence").fit(X[~test], y[~test])
        mean, sd = fitted.predict(X[test], return_std=True)
        residual.append(y[test] - mean)
        variance.append(sd**2 - fitted.noise_**2)
    e, latent = np.concatenate(residual), np.concatenate(variance)
    grid = np.exp(np.linspace(-6, 3, 3001))
    density = [-(e**2 / (latent + s2) + np.log(latent + s2)).sum() for s2 in grid]
    student = (len(y) - 1) / (len(y) - 3)
    assert voxels.interval_noise_**2 == pytest.approx(student * grid[np.argmax(density)], rel=0.01)
    assert voxels.interval_noise_ > 1.5 * voxels.noise_


@pytest.mark.parametrize(
    "model",
    [
        RVMRegressor(),
        RVMRegressor(alpha=3.0),
        RVMRegressor(center=False),
        RVMRegressor(normalize=False),
        RVMRegressor(alpha="each"),
        RVMRegressor(kernel="rbf"),
    ],
)
def test_moments_of_held_out_scans_equal_those_of_refits(rng, model, monkeypatch):
    X = rng.normal(size=(21, 40)).astype(np.float32) + 1.0
    X[3], X[:, 7] = X[4], 2.0
    y = X[:, 0] + 0.3 * rng.normal(size=21)
    found = clone(model).fit(X, y).interval_noise_

    def naive(self, _, y, test):
        train = np.setdiff1d(np.arange(len(y)), test)
        fitted = clone(model).set_params(intervals="evidence").fit(X[train], y[train])
        mean, sd = fitted.predict(X[test], return_std=True)
        return mean, sd**2 - fitted.noise_**2

    monkeypatch.setattr(RVMRegressor, "_moments_without", naive)
    assert found == pytest.approx(clone(model).fit(X, y).interval_noise_, rel=1e-4)


@pytest.mark.parametrize("n", [2, 3])
def test_intervals_of_scans_too_few_to_hold_out_are_those_of_the_targets(rng, n):
    X, y = rng.normal(size=(n, 5)), rng.normal(size=n)
    assert RVMRegressor().fit(X, y).interval_noise_ == pytest.approx(y.std(ddof=1))


@pytest.mark.parametrize(
    ("model", "matrices"),
    [
        (RVMRegressor(intervals="evidence"), 2.5),
        (RVMRegressor(), 4.2),
        (RVMClassifier(doubt=None), 4.5),
        (RVMClassifier(), 6.8),
    ],
)
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_a_fit_holds_few_matrices_of_all_scans(rng, model, matrices, kernel):
    """The Gram matrix and one to three more, beside the two of the fit while scans are held out."""
    n = 700  # fewer have less than the grids of doubt do
    X = rng.normal(size=(n, 20))
    t = X[:, 0] + rng.normal(size=n)
    target = t if isinstance(model, RVMRegressor) else (t > 0).astype(int)
    given = X if kernel == "linear" else X @ X.T
    kept = given.copy()
    model = clone(model).set_params(kernel=kernel, max_iter=2)
    tracemalloc.start()
    with pytest.warns(ConvergenceWarning):
        model.fit(given, target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < matrices * 8 * n**2
    np.testing.assert_array_equal(given, kept)


def interval_coverage(model, signal, n, seeds):
    """Part of new measurements within the 90 % intervals of models of n scans."""
    inside = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n + 200, 216)), rng.normal(size=n + 200)
        if signal:
            latent = rng.normal(size=n + 200)
            X[:, :60] += 0.5 * latent[:, None]
            y = latent + 0.5 * y
        mean, sd = clone(model).fit(X[:n], y[:n]).predict(X[n:], return_std=True)
        inside.append(np.abs(y[n:] - mean) <= 1.6448536 * sd)
    return np.mean(inside)


@pytest.mark.slow
@pytest.mark.parametrize("signal", [False, True])
@pytest.mark.parametrize(
    "model", [RVMRegressor(), RVMRegressor(alpha="each"), RVMRegressor("voxels")]
)
def test_intervals_cover_white_noise_and_signal(model, signal):
    """By the evidence, samples with an α each cover 4 to 18 % at 10 to 40 scans."""
    for n in (10, 20, 40):
        # Which voxels ten scans choose is a lottery: .80 of a signal, .47 by the evidence.
        least = 0.75 if model.basis == "voxels" and signal and n == 10 else 0.82
        assert least < interval_coverage(model, signal, n, range(100, 112)) < 0.96
    sparse = RVMRegressor(alpha="each", intervals="evidence")
    assert interval_coverage(sparse, signal, 20, range(100, 104)) < 0.3


@pytest.mark.slow
def test_more_scans_do_not_make_it_worse():
    """Two classes that a map over many voxels tells apart; with an α each accuracy falls."""
    accuracy = {"auto": [], "each": []}
    for n in (2, 3, 5, 10, 20):
        for alpha, curve in accuracy.items():
            right = []
            for seed in range(8):
                rng = np.random.default_rng(seed)
                pattern = 0.35 * rng.normal(size=400)
                y = np.repeat([0, 1], n + 50)
                X = rng.normal(size=(len(y), 400)) + np.outer(y - 0.5, pattern)
                train = np.r_[:n, n + 50 : 2 * n + 50]
                test = np.setdiff1d(np.arange(len(y)), train)
                model = RVMClassifier(alpha=alpha, doubt=None).fit(X[train], y[train])
                right.append((model.predict(X[test]) == y[test]).mean())
            curve.append(np.mean(right))
    tied = np.array(accuracy["auto"])
    assert (tied >= np.maximum.accumulate(tied) - 0.05).all()
    assert tied[-1] > 0.95
    assert (tied >= np.array(accuracy["each"]) - 0.01).all()
    assert tied[3] > accuracy["each"][3] + 0.02


@pytest.mark.parametrize("problem", [4, 19])
def test_the_last_bits_of_the_scans_do_not_decide(problem):
    """A climb that ends a rounding before the edge of its box goes on all the same."""
    rng = np.random.default_rng(problem)
    y, means = np.repeat(np.arange(10), 5), rng.normal(size=(10, 25))
    X, new = means[y] + rng.normal(size=(50, 25)), means + rng.normal(size=(10, 25))
    expected = RVMClassifier().fit(X, y).predict_proba(new)
    for _ in range(4):
        nearly = X * (1 + 1e-15 * rng.normal(size=X.shape))
        found = RVMClassifier().fit(nearly, y).predict_proba(new)
        np.testing.assert_allclose(found, expected, atol=1e-6)
