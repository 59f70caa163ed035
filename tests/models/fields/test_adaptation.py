"""Adaptation against the recursion and against refitting; streaming against one fit."""

import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from voxprior import RandomFieldClassifier
from voxprior.errors import InputWarning
from voxprior.models.fields.adaptation import adapt_class, adapted_variance
from voxprior.models.fields.dual import dual_system, plain_field
from voxprior.models.fields.field import Training, residual_variance
from voxprior.models.fields.training import train_class
from voxprior.simulate import chains

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
NEW = np.array([[1.0, 1, 0], [0, 2, 1]])


def test_two_new_scans_change_a_field_of_four():
    """Three nodes, γ = 0.1: coefficients of the first node and its noise afterwards."""
    coef, intercept = adapt_class(ROWS, NEW, Training(gamma=0.1, bias=None))
    np.testing.assert_allclose(coef[0], [0, 0.439082, 0.010943], atol=1e-6)
    noise = residual_variance(plain_field(dual_system(ROWS, 0.1, None)).residual)
    error = NEW - NEW @ coef.T - intercept
    np.testing.assert_allclose(adapted_variance(noise, 4, error)[0], 0.927412, atol=1e-6)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_literal_adaptation_is_a_refit_to_all_scans(rng, bias):
    own, new = rng.normal(size=(6, 5)) + 1, rng.normal(size=(3, 5))
    whole = plain_field(dual_system(np.vstack([own, new]), 0.4, bias))
    coef, intercept = adapt_class(own, new, Training(gamma=0.4, bias=bias))
    np.testing.assert_allclose(coef, whole.coef, rtol=1e-9, atol=1e-12)
    # The filter that goes on, at a damping that is one but for rounding, arrives there too.
    coef, intercept = adapt_class(own, new, Training(gamma=0.4, bias=bias), 1 - 1e-13)
    np.testing.assert_allclose(coef, whole.coef, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(intercept, whole.intercept, rtol=1e-8, atol=1e-10)


def test_damped_adaptation_against_the_recursion(rng):
    own, new, d = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), 0.4
    coef, _ = adapt_class(own, new, Training(gamma=0.5, bias=None), damping=d)
    G, x = own[:, 1:], own[:, 0]
    P = np.linalg.inv(0.5 * np.eye(3) + G.T @ G)
    beta = P @ G.T @ x
    for row in new:
        g = row[1:]
        D = d * P @ g / (g @ P @ g + 1)
        beta = (np.eye(3) - np.outer(D, g)) @ beta + D * row[0]  # (1.26)
        P = (np.eye(3) - np.outer(D, g)) @ P
    np.testing.assert_allclose(coef[0, 1:], beta, rtol=1e-8)


@pytest.mark.parametrize("mode", ["end", "each"])
def test_no_damping_left_is_no_adaptation(rng, mode):
    own, new = rng.normal(size=(6, 5)), rng.normal(size=(3, 5))
    training = Training(gamma=0.5, r_eps=20.0, n_pseudo=4, mode=mode)
    faint, _ = adapt_class(own, new, training, damping=1e-12)
    more, _ = adapt_class(own, new, training, damping=0.9)
    trained = train_class(own, training)[0].coef
    if mode == "end":
        np.testing.assert_allclose(faint, trained, atol=1e-8)
    assert not np.allclose(more, trained, atol=1e-3)


def two_classes(rng, k=14, n=5):
    X, y = rng.normal(size=(2 * k, n)), np.repeat([0, 1], k)
    X[:k, 1] += X[:k, 0]
    X[k:, 1] += 1.0 - X[k:, 0]
    return X, y


def test_assigned_scans_go_to_their_class_only(rng):
    X, y = two_classes(rng)
    model = RandomFieldClassifier(gamma=1.0, compression=None, adaptation="assigned").fit(X, y)
    new = X[y == 0][:4] + 0.01
    new = new[model.predict(new) == 0]
    adapted = model.adapt(new)
    np.testing.assert_array_equal(adapted.coef_[1], model.coef_[1])
    np.testing.assert_array_equal(adapted.noise_[1], model.noise_[1])
    Z = (np.vstack([X[y == 0], new]) - model.center_) / model.scale_
    whole = plain_field(dual_system(Z, 1.0))
    np.testing.assert_allclose(adapted.coef_[0], whole.coef, rtol=1e-8, atol=1e-10)


def test_sigma_keeps_the_coefficients_and_the_original(rng):
    X, y = two_classes(rng)
    model = RandomFieldClassifier(gamma=1.0, compression=None, adaptation="sigma").fit(X, y)
    before = model.noise_.copy()
    adapted = model.adapt(X[:3])
    np.testing.assert_array_equal(adapted.coef_, model.coef_)
    np.testing.assert_array_equal(model.noise_, before)
    Z = (X[:3] - model.center_) / model.scale_
    error = Z - Z @ model.coef_[1].T - model.intercept_[1]
    expected = (13 * before[1] + (error**2).sum(axis=0)) / 16
    np.testing.assert_allclose(adapted.noise_[1], expected, rtol=1e-10)


HOW = pytest.mark.parametrize("how", ["literal", "assigned", "sigma"])


def parted_chains(seed, **settings):
    """A printed classifier of 40 scans of 50 nodes, 20 scans with labels, and 60 without."""
    data = chains(n_nodes=50, n_per_class=60, n_runs=1, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, dev, new = np.split(order, [40, 60])
    model = RandomFieldClassifier.paper(n_pseudo=10, **settings).fit(data.X[train], data.y[train])
    return model, (data.X[dev], data.y[dev]), (data.X[new], data.y[new])


@pytest.mark.filterwarnings("ignore:Adapted")
@pytest.mark.parametrize("threshold", ["tuned", "exact", "zero"])
def test_adapting_never_leaves_one_class_of_several(threshold):
    for seed in (2, 5):
        model, dev, (X, _) = parted_chains(seed, adaptation="assigned", threshold=threshold)
        before = len(set(model.predict(X)))
        assert len(set(model.adapt(X).predict(X))) >= before
        assert len(set(model.adapt(X, *dev).predict(X))) >= before


@HOW
def test_the_tuned_threshold_is_that_of_the_adapted_fields(how):
    model, dev, (X, _) = parted_chains(2, adaptation=how)
    adapted = model.adapt(X)
    again = copy.deepcopy(adapted)
    Z = again.scans_ * again.scale_ + again.center_
    again.tune_threshold(Z, again.classes_[again.scan_codes_])
    np.testing.assert_allclose(adapted.threshold_, again.threshold_)
    assert not np.allclose(adapted.threshold_, model.threshold_)
    by_hand = again.tune_threshold(*dev)
    np.testing.assert_allclose(model.adapt(X, *dev).threshold_, by_hand.threshold_)


def test_where_one_class_would_be_left_nothing_changes():
    model, _, (X, _) = parted_chains(2, adaptation="sigma", threshold="zero")
    model.threshold_ = model.threshold_ + [np.median(np.diff(-model._scores(X))), 0.0]
    assert len(set(model.predict(X))) == 2
    with pytest.warns(InputWarning, match="put all 60 scans into one class.*X_dev"):
        adapted = model.adapt(X)
    np.testing.assert_array_equal(adapted.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("given", [{"X_dev": np.ones((2, 5))}, {"y_dev": [0, 1]}])
def test_development_scans_and_labels_come_together(rng, given):
    X, y = two_classes(rng)
    model = RandomFieldClassifier(gamma=1.0, compression=None, adaptation="sigma").fit(X, y)
    with pytest.raises(ValueError, match=r"requires y|2D array"):
        model.adapt(X, **given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Adapted")
def test_adapted_chains_keep_what_they_knew():
    rows = []
    for seed in range(12):
        model, dev, new = parted_chains(seed, adaptation="assigned")
        adapted, by_labels = model.adapt(new[0]), model.adapt(new[0], *dev)
        rows.append([one.score(*new) for one in (model, adapted, by_labels)])
    before, after, with_labels = np.mean(rows, axis=0)
    assert min(after, with_labels) > before - 0.03


def test_adapt_says_what_it_needs(rng):
    X, y = two_classes(rng)
    model = RandomFieldClassifier(gamma=1.0, compression=None).fit(X, y)
    with pytest.raises(ValueError, match="adaptation='literal'"):
        model.adapt(X)
    assert not hasattr(model, "scans_")


@pytest.mark.parametrize("mode", ["end", "each"])
@pytest.mark.parametrize("compression", [None, 0.5])
@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_streaming_equals_one_fit(rng, mode, compression, bias):
    X, y = two_classes(rng)
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    parameters = {
        "nodes": [0, 1, 3, 4],
        "standardize": False,
        "gamma": 0.5,
        "compression": compression,
        "mode": mode,
        "n_pseudo": 5,
        "bias": bias,
        "temperature": 2.0,
        "threshold": "tuned",
    }
    batch = RandomFieldClassifier(**parameters).fit(X, y)
    stream = RandomFieldClassifier(**parameters)
    for x, label in zip(X, y, strict=True):
        stream.partial_fit(x[None], [label], classes=[0, 1])
    np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(stream.noise_, batch.noise_, rtol=1e-8)
    np.testing.assert_allclose(stream.predict_proba(X), batch.predict_proba(X), rtol=1e-7)


def test_streaming_learns_the_same_temperature(rng):
    X, y = two_classes(rng)
    parameters = {"nodes": [0, 1, 2], "standardize": False, "gamma": 1.0, "compression": None}
    batch = RandomFieldClassifier(**parameters).fit(X, y)
    stream = RandomFieldClassifier(**parameters)
    stream.partial_fit(X[:20], y[:20], classes=[0, 1]).partial_fit(X[20:], y[20:])
    np.testing.assert_allclose(stream.temperature_, batch.temperature_, rtol=1e-8)


def test_streaming_refuses_what_it_cannot_do_and_says_so(rng):
    X, y = two_classes(rng)
    with pytest.raises(AttributeError) as error:
        RandomFieldClassifier().partial_fit(X, y, classes=[0, 1])
    reason = str(error.value.__cause__ or error.value)
    for word in ("nodes given", "standardize=False", "gamma and compression as numbers"):
        assert word in reason
    going_on = RandomFieldClassifier(mode="each", solver="kalman")
    with pytest.raises(AttributeError) as error:
        going_on.partial_fit(X, y, classes=[0, 1])
    assert "solver='auto'" in str(error.value.__cause__ or error.value)
    ready = RandomFieldClassifier(nodes=[0, 1], standardize=False, gamma=1.0, compression=None)
    with pytest.raises(ValueError, match="Give classes"):
        ready.partial_fit(X, y)
    ready.partial_fit(X[:1], y[:1], classes=[0, 1])
    with pytest.raises(ValueError, match="unknown labels"):
        ready.partial_fit(X[:1], [7])


def test_a_stream_is_fitted_once_every_class_has_two_scans(rng):
    X, y = two_classes(rng)
    model = RandomFieldClassifier(nodes=[0, 1], standardize=False, gamma=1.0, compression=None)
    model.partial_fit(X[:3], y[:3], classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.partial_fit(X[3:], y[3:]).predict(X).shape == y.shape
