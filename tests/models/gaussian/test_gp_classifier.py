"""The estimators' contract: input forms, kernels, folds, maps, odd data, scikit-learn checks."""

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from voxprior.models.gaussian import GPClassifier, GPRegressor
from voxprior.models.gaussian.ep import expectation_propagation
from voxprior.models.gaussian.ep_multinomial import multinomial_propagation


@pytest.fixture
def three(rng):
    centers = rng.normal(size=(3, 30))
    codes = np.repeat([0, 1, 2], 8)
    X = 0.6 * centers[codes] + rng.normal(size=(24, 30))
    return X, np.array(["cat", "face", "house"])[codes]


MODELS = {
    "one against the rest": GPClassifier(),
    "softmax": GPClassifier(inference="laplace"),
    "unseen variance": GPClassifier(inference="laplace", unseen_variance=1.0),
    "per class": GPClassifier(inference="laplace", per_class=True),
    "rbf": GPClassifier("rbf", inference="laplace"),
    "poly": GPClassifier("poly", inference="laplace"),
    "sum": GPClassifier(["linear", "rbf"], inference="laplace"),
    "ep of rbf": GPClassifier("rbf"),
    "probit laplace": GPClassifier(likelihood="probit", inference="laplace"),
    "sobol": GPClassifier(inference="laplace", averaging="sobol"),
    "mode": GPClassifier(inference="laplace", averaging="mode"),
    "paper": GPClassifier.paper(),
    "multinomial": GPClassifier(multiclass="multinomial"),
    "multinomial per class": GPClassifier(multiclass="multinomial", per_class=True),
    "doubt": GPClassifier(doubt=(2, 1), optimize=False),
} | {
    f"kernels by class, {name}": GPClassifier(
        {"house": "rbf", "cat": "linear", "face": ["linear", "poly"]}, **options
    )
    for name, options in {
        "one against the rest": {},
        "multinomial": {"multiclass": "multinomial"},
        "softmax": {"inference": "laplace"},
    }.items()
}


def evidence(gp):
    """Of the labels as a whole, or of each class against the rest."""
    return gp.log_evidence_ if hasattr(gp, "log_evidence_") else gp.log_evidences_


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_right_and_do_not_depend_on_the_batch(three, name):
    X, y = three
    gp = clone(MODELS[name]).fit(X, y)
    p = gp.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(gp.predict(X), gp.classes_[p.argmax(axis=1)])
    assert (gp.predict(X) == y).mean() > 0.8
    assert gp.latent_.shape == (24, 3)
    # One against the rest is not a model of the labels as a whole, and has no evidence of them.
    assert hasattr(gp, "log_evidences_") == (gp.likelihood_ == "probit" and not gp._multinomial)
    assert np.isfinite(evidence(gp)).all()
    assert np.isfinite(gp.left_out_log_score_)
    for i in (0, 11):
        alone = gp.predict_log_proba(X[i : i + 1])
        np.testing.assert_allclose(alone[0], np.log(p[i]), rtol=1e-9)
    again = clone(MODELS[name]).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), p)


def test_richer_models_have_more_evidence(three):
    X, y = three
    softmax = {"inference": "laplace"}
    shared = GPClassifier(**softmax).fit(X, y)
    assert shared.log_evidence_ > GPClassifier(optimize=False, **softmax).fit(X, y).log_evidence_
    per_class = GPClassifier(per_class=True, **softmax).fit(X, y)
    assert per_class.log_evidence_ >= shared.log_evidence_ - 1e-6
    assert per_class.theta_.shape == (3, 1)
    both = GPClassifier(["linear", "rbf"], **softmax).fit(X, y)
    assert both.log_evidence_ >= shared.log_evidence_ - 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"inference": "laplace"}])
def test_precomputed_equals_voxels_and_folds_are_sub_blocks(three, n_classes, options):
    X, y = three
    X, y = X[: 8 * n_classes] + 5.0, y[: 8 * n_classes]
    G = X @ X.T
    train, test = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
    own, across = G[np.ix_(train, train)], G[np.ix_(test, train)]
    voxels = GPClassifier(**options).fit(X[train], y[train])
    given = GPClassifier("precomputed", **options).fit(own, y[train])
    np.testing.assert_allclose(evidence(given), evidence(voxels), rtol=1e-9)
    np.testing.assert_allclose(
        given.predict_proba(across), voxels.predict_proba(X[test]), rtol=1e-5
    )
    # Where unseen variance counts, the kernel of a new scan with itself must be known.
    voxels = GPClassifier(unseen_variance=1.0, **options).fit(X[train], y[train])
    given = GPClassifier("precomputed", unseen_variance=1.0, **options).fit(own, y[train])
    p = given.predict_proba(across, diagonal=np.diag(G)[test])
    np.testing.assert_allclose(p, voxels.predict_proba(X[test]), rtol=1e-5)
    folds = cross_val_predict(GPClassifier("precomputed", **options), G, y, cv=4)
    np.testing.assert_array_equal(folds, cross_val_predict(GPClassifier(**options), X, y, cv=4))


def test_regions_equal_a_list_of_gram_matrices(three, rng):
    X, y = three
    regions = rng.integers(2, size=30)
    by_region = GPClassifier(regions=regions).fit(X, y)
    parts = [X[:, regions == r] for r in (0, 1)]
    side_by_side = np.hstack([part @ part.T for part in parts])
    given = GPClassifier(["precomputed"] * 2).fit(side_by_side, y)
    np.testing.assert_allclose(given.log_evidences_, by_region.log_evidences_, rtol=1e-6)
    np.testing.assert_allclose(given.kernel_share_, by_region.kernel_share_, atol=1e-3)
    diagonal = [np.einsum("ij,ij->i", part, part) for part in parts]
    p = given.predict_proba(side_by_side, diagonal=np.array(diagonal))
    np.testing.assert_allclose(p, by_region.predict_proba(X), atol=1e-4)


def test_memory_map_dask_and_float32(three, tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = three
    X = X.astype(np.float32)
    expected = GPClassifier().fit(X.astype(float), y).predict_proba(X.astype(float))
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype="f4", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    for form in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), da.from_array(X, chunks=(10, 7))):
        gp = GPClassifier().fit(form, y)
        np.testing.assert_allclose(gp.predict_proba(form), expected, rtol=1e-6)
        maps = gp.voxel_maps()
        assert maps["weight:cat"].shape == (30,)
        if isinstance(form, np.memmap):
            assert np.shares_memory(gp.X_fit_, form)


@pytest.mark.parametrize("estimator", [GPClassifier(), GPClassifier(likelihood="logistic")])
def test_a_hundred_thousand_voxels(estimator, rng):
    y = np.repeat([0, 1], 10)
    X = (rng.normal(size=(20, 100_000)) + 1000 + 0.05 * y[:, None]).astype(np.float32)
    gp = clone(estimator).fit(X, y)
    p = gp.predict_proba(X)
    assert np.isfinite(gp.predict_log_proba(X)).all()
    assert (gp.predict(X) == y).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    maps = gp.voxel_maps()
    assert set(maps) == {"weight", "weight_sd", "pattern"}
    assert maps["pattern"].mean() > 0
    assert (maps["weight_sd"] >= 0).all()


def test_weights_reproduce_the_latent_mean(three):
    X, y = three
    gp = GPClassifier(offset=0.0, inference="laplace").fit(X, y)
    maps = gp.voxel_maps()
    mean, _ = gp.predict_latent(X)
    W = np.array([maps[f"weight:{label}"] for label in gp.classes_])
    np.testing.assert_allclose((X - X.mean(axis=0)) @ W.T, mean, atol=1e-8)
    np.testing.assert_allclose(mean, gp.latent_, atol=1e-6)
    two = GPClassifier(offset=0.0).fit(X[:16], y[:16])
    mean, _ = two.predict_latent(X[:16])
    centered = X[:16] - X[:16].mean(axis=0)
    np.testing.assert_allclose(centered @ two.voxel_maps()["weight"], mean, atol=1e-8)
    assert set(GPClassifier("rbf").fit(X[:16], y[:16]).voxel_maps()) == {"pattern"}


def test_voxel_permutation_scale_and_label_names_do_not_matter(three, rng):
    X, y = three
    p = GPClassifier().fit(X, y).predict_proba(X)
    order = rng.permutation(30)
    np.testing.assert_allclose(
        GPClassifier().fit(X[:, order], y).predict_proba(X[:, order]), p, rtol=1e-6
    )
    scaled = GPClassifier().fit(1e4 * X + 7, y).predict_proba(1e4 * X + 7)
    np.testing.assert_allclose(scaled, p, rtol=1e-4)
    renamed = np.select([y == "cat", y == "face"], [3, 1], 2)
    q = GPClassifier().fit(X, renamed).predict_proba(X)
    np.testing.assert_allclose(q[:, [2, 0, 1]], p, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"likelihood": "logistic"}, {"kernel": "rbf"}])
def test_odd_data(options):
    two = GPClassifier(**options).fit(np.array([[0.0], [1.0]]), ["a", "b"])
    p = two.predict_proba(np.array([[0.0], [1.0], [0.5]]))
    assert p[0, 0] >= 0.5
    np.testing.assert_allclose(p[2], 0.5, atol=1e-6)
    repeated = GPClassifier(**options).fit(np.ones((6, 4)), [0, 1] * 3)
    np.testing.assert_allclose(repeated.predict_proba(np.ones((1, 4))), 0.5, atol=1e-6)
    contradicted = GPClassifier(**options).fit(np.ones((6, 4)), [0, 1, 2] * 2)
    np.testing.assert_allclose(contradicted.predict_proba(np.ones((1, 4))), 1 / 3, atol=1e-6)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        GPClassifier().fit(np.eye(3), ["a", "a", "a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cubic"}, "kernel of GPClassifier .* got 'cubic'"),
        ({"kernel": []}, "an empty list"),
        ({"kernel": ["linear", "precomputed"]}, "cannot be mixed"),
        ({"kernel": ["linear", "rbf", "rbf"], "regions": np.arange(4) // 2}, "2 regions"),
        ({"regions": np.arange(3)}, "each of the 4 features"),
        ({"likelihood": "poisson"}, "'likelihood' parameter"),
        ({"likelihood": "logistic", "inference": "ep"}, "likelihood='probit'"),
        ({"theta": [0.0, 1.0]}, "theta .* Expected 1 .* got 2"),
        ({"kernel": "precomputed"}, "square"),
    ],
)
def test_wrong_settings_are_explained(options, message, rng):
    with pytest.raises(ValueError, match=message):
        GPClassifier(**options).fit(rng.normal(size=(6, 4)), [0, 1] * 3)


def test_centring_may_make_a_covariance_of_a_given_kernel(three):
    """Minus half the squared distances is a covariance once centred, and that of the voxels."""
    X, y = three
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    given = GPClassifier("precomputed").fit(-0.5 * squares, y)
    expected = GPClassifier().fit(X, y).log_evidences_
    np.testing.assert_allclose(given.log_evidences_, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="positive semi-definite"):
        GPClassifier("precomputed", center=False).fit(-0.5 * squares, y)
    with pytest.raises(ValueError, match="not a distance"):
        GPClassifier("precomputed").fit(squares, y)


def test_wrong_kernels_are_explained(rng):
    with pytest.raises(ValueError, match="symmetric"):
        GPClassifier("precomputed").fit(rng.normal(size=(4, 4)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="positive semi-definite"):
        GPClassifier("precomputed", center=False, offset=0.0).fit(-np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="no voxels"):
        GPClassifier("precomputed").fit(np.eye(4), [0, 1, 0, 1]).voxel_maps()
    with pytest.raises(ValueError, match="up to 3 classes"):
        GPClassifier(inference="laplace", averaging="quadrature").fit(np.eye(8), np.arange(8) // 2)
    with pytest.raises(ValueError, match="diagonal cannot be used"):
        GPClassifier("precomputed").fit(np.eye(4), [0, 1, 0, 1]).predict_proba(np.eye(4), [1.0])


def test_paper_settings_stop_after_twenty_evaluations(three):
    X, y = three
    for gp in (GPClassifier.paper().fit(X, y), GPClassifier.paper().fit(X[:16], y[:16])):
        assert len(gp.evidence_path_) <= 20
    assert gp.inference_ == "ep"
    assert len(GPRegressor.paper().fit(X, np.arange(24.0)).evidence_path_) <= 20


def test_restarts_and_hyperprior(three):
    X, y = three
    once = GPClassifier("rbf").fit(X, y)
    again = GPClassifier("rbf", n_restarts=3).fit(X, y)
    assert (again.log_evidences_ >= once.log_evidences_ - 1e-4).all()
    held = GPClassifier(hyperprior=1e-3, theta=[0.7]).fit(X, y)
    np.testing.assert_allclose(held.theta_, 0.7, atol=1e-2)


def test_evidence_curve_peaks_at_the_fit(three):
    X, y = three
    gp = GPClassifier(inference="laplace").fit(X, y)
    curve = gp.evidence_surface(gp.theta_[0] + np.linspace(-2, 2, 9))
    assert curve.argmax() == 4
    assert curve[4] == pytest.approx(gp.log_evidence_, abs=1e-9)
    surface = GPClassifier("rbf").fit(X, y).evidence_surface(np.linspace(-1, 1, 3), [0.0, 0.5])
    assert surface.shape == (3, 2)


@pytest.mark.parametrize("model", [GPClassifier(), GPRegressor()])
def test_saved_and_loaded(model, three, tmp_path):
    X, y = three
    target = y if isinstance(model, GPClassifier) else np.arange(24.0)
    fitted = clone(model).fit(X, target)
    skops.io.dump(fitted, tmp_path / "gp.skops")
    unknown = skops.io.get_untrusted_types(file=tmp_path / "gp.skops")
    assert all(name.startswith("voxprior.") for name in unknown)
    loaded = skops.io.load(tmp_path / "gp.skops", trusted=unknown)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_shuffled_labels_give_chance():
    """With no signal the evidence flattens the function: probabilities stay near one half."""
    confident = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(30, 200)), rng.permutation(np.repeat([0, 1], 15))
        p = GPClassifier().fit(X, y).predict_proba(rng.normal(size=(20, 200)))
        confident.append(p.max(axis=1).mean())
    assert np.mean(confident) < 0.65


def test_real_fingers_are_decoded(data_folder):
    with np.load(data_folder("finger7t") / "finger7t_subjects1-4.npz") as data:
        X, y, run = data["X1"].astype(float), data["finger1"], data["run1"]
    for r in np.unique(run):
        X[run == r] -= X[run == r].mean(axis=0)
    correct = []
    for r in np.unique(run):
        gp = GPClassifier().fit(X[run != r], y[run != r])
        correct += (gp.predict(X[run == r]) == y[run == r]).tolist()
    assert np.mean(correct) > 0.8


def test_without_unseen_variance_training_scans_stay_and_others_sharpen(rng):
    """Training scans lie in their own span; a new scan loses only what could not be learned."""
    y = np.repeat([0, 1], 15)
    signal = 0.1 * rng.normal(size=2000)
    X, new = (rng.normal(size=(30, 2000)) + np.outer(2 * y - 1, signal) for _ in range(2))
    whole, seen = (GPClassifier(unseen_variance=rho).fit(X, y) for rho in (1.0, 0.0))
    np.testing.assert_allclose(seen.predict_proba(X), whole.predict_proba(X), rtol=1e-6)
    means = [gp.predict_latent(new)[0] for gp in (whole, seen)]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-9)
    half = GPClassifier(unseen_variance=0.5).fit(X, y)
    variances = [gp.predict_latent(new)[1] for gp in (whole, half, seen)]
    np.testing.assert_allclose(variances[1], (variances[0] + variances[2]) / 2, rtol=1e-6)
    right = np.arange(30), y
    assert (
        np.log(seen.predict_proba(new)[right]).mean()
        > np.log(whole.predict_proba(new)[right]).mean()
    )
    few = rng.normal(size=(20, 3))
    labels = (few[:, 0] > 0).astype(int)
    np.testing.assert_allclose(
        GPClassifier().fit(few, labels).predict_proba(new[:5, :3]),
        GPClassifier(unseen_variance=1.0).fit(few, labels).predict_proba(new[:5, :3]),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "wrong",
    [{"hyperprior": "gamma"}, {"hyperprior": -1.0}, {"bounds": 3}, {"bounds": (2, 1)},
     {"n_restarts": -1}, {"max_evals": 0}, {"offset": -1.0}, {"degree": 0}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("estimator", [GPClassifier, GPRegressor])
def test_wrong_numbers_are_explained(rng, estimator, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        estimator(**wrong).fit(rng.normal(size=(6, 4)), [0, 1] * 3)


@pytest.mark.parametrize("estimator", [GPClassifier, GPRegressor])
def test_scans_are_copied_only_on_request(rng, estimator):
    X, new = rng.normal(size=(10, 6)), rng.normal(size=(3, 6))
    own, shared = (estimator(copy_X=copy).fit(X, [0, 1] * 5) for copy in (True, False))
    assert shared.X_fit_ is X
    before = own.predict(new)
    X[:] = 0.0
    np.testing.assert_array_equal(own.predict(new), before)


BY_CLASS = {"house": "rbf", "cat": "linear", "face": ["linear", "poly"]}


def dense_kernels(gp, X, new):
    """(C, n, n), (C, m, n) and (C, m): the kernels of `BY_CLASS` from the voxels and `theta_`."""
    center = X.mean(axis=0)
    unit = ((X - center) ** 2).sum() / len(X)

    def kernel(theta, name, A, B):
        inner = A @ B.T / unit
        if name == "rbf":
            squares = ((A[:, None] - B[None]) ** 2).sum(axis=-1) / unit
            return np.exp(2 * theta[0]) * np.exp(-0.5 * squares / np.exp(2 * theta[1]))
        return np.exp(2 * theta[0]) * (0.1 + inner) ** (2 if name == "poly" else 1)

    A, B = X - center, new - center
    cat, first, second, house = gp.theta_[:1], gp.theta_[1:2], gp.theta_[2:3], gp.theta_[3:]
    build = [
        lambda U, V: kernel(cat, "linear", U, V),
        lambda U, V: kernel(first, "linear", U, V) + kernel(second, "poly", U, V),
        lambda U, V: kernel(house, "rbf", U, V),
    ]
    own = np.array([np.diag(each(B, B)) for each in build])
    return np.array([k(A, A) for k in build]), np.array([k(B, A) for k in build]), own


@pytest.mark.parametrize(
    "options", [{}, {"multiclass": "multinomial"}, {"inference": "laplace", "averaging": "mode"}]
)
def test_kernels_of_their_own_per_class_against_dense_algebra(three, rng, options):
    X, y = three
    new = X[:5] + 0.3 * rng.normal(size=(5, 30))
    gp = GPClassifier(BY_CLASS, unseen_variance=1.0, **options).fit(X, y)
    K, K_new, own = dense_kernels(gp, X, new)
    codes = np.unique(y, return_inverse=True)[1]
    mean, variance = gp.predict_latent(new)
    if "inference" in options:
        n, C = codes.size, 3
        p = np.exp(gp.latent_) / np.exp(gp.latent_).sum(axis=1, keepdims=True)
        blocks, W, cross = (
            np.zeros((n * C, n * C)),
            np.zeros((n * C, n * C)),
            np.zeros((C, n * C)),
        )
        for c in range(C):
            blocks[c * n : (c + 1) * n, c * n : (c + 1) * n] = K[c]
            cross[c, c * n : (c + 1) * n] = K_new[c, 0]
            for d in range(C):
                block = np.diag((c == d) * p[:, c] - p[:, c] * p[:, d])
                W[c * n : (c + 1) * n, d * n : (d + 1) * n] = block
        whole = W @ np.linalg.inv(np.eye(n * C) + blocks @ W)
        covariance = np.diag(own[:, 0]) - cross @ whole @ cross.T
        np.testing.assert_allclose(variance[0], covariance, rtol=1e-4, atol=1e-7)
        residual = np.eye(3)[codes] - p
        np.testing.assert_allclose(mean, np.einsum("cij,jc->ic", K_new, residual), atol=1e-4)
        return
    for c in range(3):
        fit = gp.posteriors_[c]
        precision = fit["root"] ** 2
        natural = fit["a"] + precision * fit["f"]
        Sigma = np.linalg.inv(np.linalg.inv(K[c] + 1e-9 * np.eye(24)) + np.diag(precision))
        np.testing.assert_allclose(gp.latent_[:, c], Sigma @ natural, rtol=1e-3, atol=1e-5)
        R = np.linalg.inv(K[c] + np.diag(1 / precision))
        np.testing.assert_allclose(
            variance[:, c], own[c] - np.einsum("ij,jk,ik->i", K_new[c], R, K_new[c]), rtol=1e-4
        )
        np.testing.assert_allclose(mean[:, c], K_new[c] @ fit["a"], rtol=1e-6)
    if "multiclass" in options:
        expected = multinomial_propagation(K, codes)[0].log_evidence
        assert gp.log_evidence_ == pytest.approx(expected, abs=1e-5)
    else:
        for c in range(3):
            sign = np.where(codes == c, 1.0, -1.0)
            expected = expectation_propagation(K[c], sign)[0].log_evidence
            assert gp.log_evidences_[c] == pytest.approx(expected, abs=1e-6)


def test_the_same_kernel_by_class_is_one_scale_per_class(three):
    X, y = three
    by_class = GPClassifier(dict.fromkeys(["cat", "face", "house"], "linear"), inference="laplace")
    scales = GPClassifier(per_class=True, inference="laplace").fit(X, y)
    assert by_class.fit(X, y).log_evidence_ == pytest.approx(scales.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(by_class.theta_, scales.theta_)
    np.testing.assert_allclose(by_class.predict_proba(X), scales.predict_proba(X))


def test_two_classes_have_the_sum_of_their_kernels(three):
    X, y = three[0][:16], three[1][:16]
    by_class = GPClassifier({"face": "rbf", "cat": "linear"}).fit(X, y)
    together = GPClassifier(["rbf", "linear"]).fit(X, y)
    np.testing.assert_array_equal(by_class.predict_proba(X), together.predict_proba(X))


def test_given_kernels_by_class(three):
    """Gram matrices side by side, in the order of the dict; here one region per class."""
    X, y = three
    parts = [X[:, :10], X[:, 10:20], X[:, 20:]]
    side_by_side = np.hstack([part @ part.T for part in parts])
    names = {"house": "precomputed", "cat": "precomputed", "face": "precomputed"}
    gp = GPClassifier(names, multiclass="multinomial").fit(side_by_side, y)
    assert gp.theta_.shape == (3, 1)
    codes = np.unique(y, return_inverse=True)[1]
    kernels = []
    for part, theta in zip((parts[1], parts[2], parts[0]), gp.theta_):
        centered = part - part.mean(axis=0)
        gram = centered @ centered.T
        kernels.append(np.exp(2 * theta[0]) * (0.1 + gram / (np.trace(gram) / 24)))
    expected = multinomial_propagation(np.array(kernels), codes)[0].log_evidence
    assert gp.log_evidence_ == pytest.approx(expected, abs=1e-5)
    assert (gp.predict(side_by_side) == y).mean() > 0.8


def test_wrong_kernels_by_class_are_explained(three):
    X, y = three
    with pytest.raises(ValueError, match=r"a kernel of each class: 'cat', 'face', 'house', got"):
        GPClassifier({"cat": "linear", "face": "rbf"}).fit(X, y)
    with pytest.raises(ValueError, match="cannot be used with regions"):
        GPClassifier(BY_CLASS, regions=np.arange(30) % 2).fit(X, y)
    with pytest.raises(ValueError, match="inference='ep'"):
        GPClassifier(inference="laplace", multiclass="multinomial").fit(X, y)
    with pytest.raises(ValueError, match="'kernel' parameter"):
        GPRegressor({"a": "linear"}).fit(X, np.arange(24.0))


def test_multinomial_hyper_prior_and_power(three):
    X, y = three
    free = GPClassifier(multiclass="multinomial").fit(X, y)
    assert free.power_.shape == (37,)
    assert free.theta_[0] == pytest.approx(2, abs=2)
    given = GPClassifier(multiclass="multinomial", theta=[1.0], hyperprior=1e-3).fit(X, y)
    assert given.theta_[0] == pytest.approx(1, abs=0.01)
    held = GPClassifier(multiclass="multinomial", optimize=False).fit(X, y)
    assert held.theta_[0] == 2
    two = GPClassifier(multiclass="multinomial").fit(X[:16], y[:16])
    np.testing.assert_array_equal(
        two.predict_proba(X), GPClassifier().fit(X[:16], y[:16]).predict_proba(X)
    )
    assert not hasattr(two, "log_evidences_")
    assert not hasattr(two.fit(X, y), "log_evidences_")
    plain = GPClassifier().fit(X[:16], y[:16])
    assert not hasattr(plain.fit(X, y), "log_evidence_")


def test_evidence_of_a_multinomial_probit_peaks_at_the_fit(three):
    X, y = three
    gp = GPClassifier(multiclass="multinomial", hyperprior=100.0).fit(X, y)
    curve = gp.evidence_surface(gp.theta_[0] + np.linspace(-2, 2, 5))
    # Of separable classes the evidence is flat from here on; a climb ends where it gains nothing.
    assert curve[2] > curve[0] + 0.001
    assert curve[2] > curve.max() - 0.01
    assert curve[2] == pytest.approx(gp.log_evidence_, abs=1e-4)


@pytest.mark.parametrize("model", [GPClassifier(), GPRegressor()])
def test_scans_that_hardly_differ_are_told(rng, model):
    """Centring leaves few digits of scans far from 0, and none of a constant but for the last."""
    X, y = rng.normal(size=(12, 20)), np.repeat([0, 1], 6)
    expected = clone(model).fit(X, y).latent_
    np.testing.assert_allclose(clone(model).fit(X + 1e3, y).latent_, expected, rtol=1e-4)
    with pytest.warns(UserWarning, match="subtract their mean first"):
        clone(model).fit(X + 1e6, y)
    with pytest.warns(UserWarning, match="subtract their mean first"):
        nothing = clone(model).fit(7.3 * (1 + 1e-15 * X), y)
    assert not nothing.gram_.any()
