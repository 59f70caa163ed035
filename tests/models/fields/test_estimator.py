"""RandomFieldClassifier: scikit-learn's checks, the report's rule, probabilities, errors, maps."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import RandomFieldClassifier
from voxprior.models.fields.dual import dual_system, left_out_residuals, plain_field
from voxprior.models.fields.field import (
    count_connections,
    log_likelihood,
    log_partition,
    residual_variance,
)

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
OTHER = np.array([[1.0, -1, 0], [0, 1, -1], [2, -2, 1], [-1, 0, 1]])


@pytest.mark.slow
@parametrize_with_checks(
    [
        RandomFieldClassifier(n_nodes=5, gamma=1.0, compression=None, threshold="tuned"),
        # Without a bias the printed field sees no means, which these checks are made of.
        RandomFieldClassifier.paper(n_nodes=4, n_pseudo=3, bias="penalized"),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def chains(rng, n=20, k=20, m=200, strength=0.7):
    """Two classes, chains over the same nodes in two orders: equal marginals, other neighbours."""
    parts = []
    for _ in range(2):
        order = rng.permutation(n)
        Z = rng.normal(size=(k + m, n))
        for j in range(1, n):
            Z[:, j] = strength * Z[:, j - 1] + np.sqrt(1 - strength**2) * Z[:, j]
        X = np.empty_like(Z)
        X[:, order] = Z
        parts.append(X)
    train = np.vstack([p[:k] for p in parts])
    test = np.vstack([p[k:] for p in parts])
    return train, np.repeat(["a", "b"], k), test, np.repeat(["a", "b"], m)


def test_two_classes_of_four_scans_through_the_estimator():
    """The log-likelihood ratio of a new scan, less the ratio of the normalisers."""
    X, y = np.vstack([ROWS, OTHER]), np.repeat([0, 1], 4)
    x = np.array([[1, 1.5, 0.5]])
    model = RandomFieldClassifier.paper(gamma=0.1, r_eps=None, compression=None, threshold="exact")
    model.fit(X, y)
    np.testing.assert_allclose(model.threshold_[0] - model.threshold_[1], -3.250926, atol=1e-6)
    np.testing.assert_allclose(-model.decision_function(x)[0], 140.865395 + 3.250926, atol=1e-5)
    assert model.predict(x)[0] == 0


def test_scores_are_log_p_minus_log_z_plus_log_prior(rng):
    X, y, test, _ = chains(rng, n=8)
    y = np.array(["a"] * 25 + ["b"] * 15)
    model = RandomFieldClassifier(gamma=2.0, compression=None, temperature=3.0).fit(X, y)
    Z, T = ((rows - X.mean(0)) / X.std(0) for rows in (X, test[:5]))
    systems = [dual_system(Z[y == c], 2.0) for c in ("a", "b")]
    left = [left_out_residuals(s) ** 2 for s in systems]
    noise = np.vstack(left).mean(axis=0)
    scores = []
    for system, prior in zip(systems, (25 / 40, 15 / 40), strict=True):
        field = plain_field(system)
        log_p = log_likelihood(T, field.coef, field.intercept, noise)
        scores.append(log_p - log_partition(field.coef) + np.log(prior))
    odds = (scores[1] - scores[0]) / 3.0
    np.testing.assert_allclose(model.decision_function(test[:5]), odds, rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(test[:5])[:, 1], 1 / (1 + np.exp(-odds)))


def test_structure_without_means_is_learned_and_naive_bayes_cannot(rng):
    from sklearn.naive_bayes import GaussianNB

    X, y, test, truth = chains(rng)
    model = RandomFieldClassifier().fit(X, y)
    plain = RandomFieldClassifier(gamma=0.01, compression=None).fit(X, y)
    assert model.score(test, truth) > 0.85 > 0.65 > GaussianNB().fit(X, y).score(test, truth)
    assert model.score(test, truth) > plain.score(test, truth)


def test_means_are_learned_with_a_bias_and_not_without(rng):
    y = np.repeat([0, 1], 20)
    shift = rng.normal(size=30)
    X, test = (rng.normal(size=(40, 30)) + np.outer(y - 0.5, shift) for _ in range(2))
    assert RandomFieldClassifier().fit(X, y).score(test, y) > 0.9
    # Around the overall mean both classes look alike up to sign, so second moments say nothing.
    assert RandomFieldClassifier(bias=None).fit(X, y).score(test, y) < 0.75


def test_probabilities_are_calibrated_by_the_temperature(rng):
    X, y, test, truth = chains(rng, n=40, k=15, strength=0.5)
    model = RandomFieldClassifier().fit(X, y)
    cold = RandomFieldClassifier(temperature=1.0).fit(X, y)

    def loss(m):
        p = m.predict_proba(test)
        return -np.log(np.maximum(p[truth == "a", 0], 1e-300)).mean()

    assert model.temperature_ > 1
    assert loss(model) < 0.8 * loss(cold)
    np.testing.assert_array_equal(model.predict(test), cold.predict(test))


def test_batch_invariance(rng):
    X, y, test, _ = chains(rng)
    model = RandomFieldClassifier().fit(X, y)
    alone = np.vstack([model.predict_log_proba(x[None]) for x in test[:10]])
    np.testing.assert_allclose(model.predict_log_proba(test)[:10], alone, rtol=1e-9, atol=1e-12)


def test_feature_permutation_and_label_renaming(rng):
    X, y, test, _ = chains(rng, n=12)
    order = rng.permutation(12)
    one = RandomFieldClassifier(n_nodes=6).fit(X, y)
    moved = RandomFieldClassifier(n_nodes=6).fit(X[:, order], y)
    np.testing.assert_array_equal(np.sort(order[moved.nodes_]), one.nodes_)
    np.testing.assert_allclose(
        moved.predict_proba(test[:, order]), one.predict_proba(test), rtol=1e-6, atol=1e-9
    )
    swapped = RandomFieldClassifier(n_nodes=6).fit(X, np.where(y == "a", "z", "b"))
    np.testing.assert_allclose(
        swapped.predict_proba(test)[:, ::-1], one.predict_proba(test), rtol=1e-6, atol=1e-9
    )


def test_types_and_layouts(rng):
    X, y, test, _ = chains(rng)
    model = RandomFieldClassifier(gamma=10.0, compression=1.0)
    expected = clone(model).fit(X, y).predict_proba(test)
    frozen = np.asfortranarray(X)
    frozen.setflags(write=False)
    np.testing.assert_allclose(clone(model).fit(frozen, y).predict_proba(test), expected, rtol=1e-9)
    single = clone(model).fit(X.astype(np.float32), y).predict_proba(test.astype(np.float32))
    np.testing.assert_allclose(single, expected, atol=1e-3)


def test_many_features_stay_finite(rng):
    X, y = rng.normal(size=(12, 100_000)).astype(np.float32), np.arange(12) % 3
    p = RandomFieldClassifier(n_nodes=30).fit(X, y).predict_proba(X)
    assert p.shape == (12, 3)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_two_scans_a_class_are_enough(rng):
    X, y = rng.normal(size=(4, 50)), np.array([0, 0, 1, 1])
    X[y == 1] += 3.0
    model = RandomFieldClassifier(n_nodes=10).fit(X, y)
    assert (model.gamma_, model.n_pseudo_) == (10.0, 40)
    assert model.score(X, y) == 1.0
    # Four scans that are all right say 5/6 on average, whatever the number of nodes.
    assert model.predict_proba(X).max(axis=1).mean() == pytest.approx(5 / 6, abs=0.1)


def test_constant_and_duplicated_features(rng):
    X, y, test, _ = chains(rng, n=10)
    X = np.column_stack([X, X[:, 0], np.full(len(X), 5.0)])
    test = np.column_stack([test, test[:, 0], np.full(len(test), 5.0)])
    for settings in ({}, {"compression": None, "gamma": 1e-3}, {"standardize": False}):
        p = RandomFieldClassifier(**settings).fit(X, y).predict_proba(test)
        assert np.isfinite(p).all()


def test_node_choice_is_inside_the_folds_of_the_temperature(rng):
    """On noise, nodes chosen on all scans look decisive; held-out scores must say they are not."""
    X, y = rng.normal(size=(40, 5000)), np.arange(40) % 2
    model = RandomFieldClassifier(n_nodes=30, gamma=10.0, compression=1.0).fit(X, y)
    fresh = model.predict_proba(rng.normal(size=(200, 5000))).max(axis=1)
    assert fresh.mean() < 0.7


def test_variances_as_asked(rng):
    X, y, _, _ = chains(rng, n=6)
    Z = (X - X.mean(0)) / X.std(0)
    base = {"gamma": 1.0, "compression": None, "temperature": 1.0}
    printed = RandomFieldClassifier(variance="residual", variance_scope="class", **base).fit(X, y)
    field = plain_field(dual_system(Z[:20], 1.0))
    np.testing.assert_allclose(printed.noise_[0], residual_variance(field.residual), rtol=1e-8)
    shared = RandomFieldClassifier(variance="residual", **base).fit(X, y)
    np.testing.assert_allclose(shared.noise_[1], printed.noise_.mean(axis=0), rtol=1e-8)
    innovation = RandomFieldClassifier(variance="innovation", **base).fit(X, y)
    assert (innovation.noise_ > shared.noise_).all()
    with pytest.raises(ValueError, match="plain fields only"):
        RandomFieldClassifier(variance="loo", compression=1.0, gamma=1.0).fit(X, y)


def test_thresholds_as_asked(rng):
    X, y, test, truth = chains(rng)
    base = {"gamma": 10.0, "compression": 1.0, "temperature": 1.0}
    zero = RandomFieldClassifier(threshold="zero", **base).fit(X, y)
    shifted = RandomFieldClassifier(threshold=5.0, **base).fit(X, y)
    np.testing.assert_allclose(
        shifted.decision_function(test), zero.decision_function(test) + 5.0, rtol=1e-9, atol=1e-9
    )
    zero.tune_threshold(test, truth)
    assert zero.score(test, truth) >= shifted.score(test, truth)
    three = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="two classes"):
        RandomFieldClassifier(threshold=1.0, **base).fit(X, three)
    assert RandomFieldClassifier(threshold="tuned", **base).fit(X, three).threshold_.shape == (3,)


def test_maps_and_structure(rng):
    X, y, _, _ = chains(rng, n=12)
    model = RandomFieldClassifier(n_nodes=7).fit(X, y)
    maps = model.voxel_maps()
    assert all(values.shape == (12,) for values in maps.values())
    np.testing.assert_array_equal(np.flatnonzero(maps["selected"]), model.nodes_)
    assert (maps["degree"][maps["selected"] == 0] == 0).all()
    np.testing.assert_array_equal(np.sort(np.argsort(-maps["ranking"])[:7]), model.nodes_)
    np.testing.assert_array_equal(model.connections()[1], count_connections(model.coef_[1]))
    path = model.trajectory(X[:3], "a", "b")
    assert path.running_mean.shape == (3, 7)
    assert (path.limit >= 0).all()
    with pytest.raises(ValueError, match="labels among"):
        model.trajectory(X[:3], "a", "c")


@pytest.mark.parametrize(
    ("settings", "labels", "message"),
    [
        ({"nodes": [0, 99]}, None, "feature indices"),
        ({"nodes": [0.5]}, None, "feature indices"),
        ({"nodes": [1, 1]}, None, "twice"),
        ({"priors": [0.5, 0.6]}, None, "sum to 1"),
        ({"priors": [0.0, 1.0]}, None, "positive"),
        ({"r_eps": 3.0}, None, "gamma as a number"),
        ({"solver": "dual", "mode": "each"}, None, "cannot compress after each scan"),
        ({"solver": "newton"}, None, "'solver' parameter"),
        ({"min_score": 2.0}, None, "No feature reaches"),
        ({"norm": 1.5}, None, "'norm' parameter"),
        ({"mode": "middle"}, None, "'mode' parameter"),
        ({}, [0] * 11 + [1], "at least 2 scans"),
        ({}, [0] * 12, "at least 2 classes"),
    ],
)
def test_errors_say_what_is_wrong(rng, settings, labels, message):
    y = [0, 1] * 6 if labels is None else labels
    with pytest.raises(ValueError, match=message):
        RandomFieldClassifier(**settings).fit(rng.normal(size=(12, 6)), y)


@pytest.mark.parametrize("settings", [{"gamma": 1.0, "compression": None}, {"n_pseudo": 4}])
def test_every_solver_gives_the_same_classifier(rng, settings):
    X, y, test, _ = chains(rng, n=8, m=20)
    fitted = {
        solver: RandomFieldClassifier(6, solver=solver, **settings).fit(X, y)
        for solver in ("auto", "dual", "compiled", "kalman")
    }
    for model in fitted.values():
        np.testing.assert_allclose(model.coef_, fitted["auto"].coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.noise_, fitted["auto"].noise_, rtol=1e-6)
        expected = fitted["auto"].predict_log_proba(test)
        np.testing.assert_allclose(model.predict_log_proba(test), expected, rtol=1e-5, atol=1e-7)


def test_the_printed_classifier_runs(rng):
    X, y, test, truth = chains(rng, n=10, m=50)
    plain = RandomFieldClassifier.paper(compression=None, r_eps=None).fit(X, y)
    compressed = RandomFieldClassifier.paper().fit(X, y)
    assert compressed.mode == "each"
    assert compressed.n_pseudo_ == 40
    as_printed = RandomFieldClassifier.paper(solver="kalman").fit(X, y)
    np.testing.assert_allclose(as_printed.coef_, compressed.coef_, rtol=1e-6, atol=1e-9)
    assert plain.score(test, truth) > 0.6
    assert compressed.score(test, truth) > 0.6
