import copy
import pickle

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.models.sharing.calibration import excerpt_of
from voxprior.models.sharing.statistics import class_statistics, remove


def trials_of(X, V):
    """(n, T V) time-major to (n, V, T)."""
    return X.reshape(len(X), -1, V).transpose(0, 2, 1)


@pytest.mark.slow
@parametrize_with_checks(
    [
        FeatureSharingNB.paper(),
        FeatureSharingNB(means="all", variances="moderated"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_worked_example_means(line):
    """Three voxels on a line, computed by hand: σ̂² = 2 in both classes."""
    X, y, space = line
    model = FeatureSharingNB.paper(space).fit(X, y)
    A, B = trials_of(model.theta_, 3)
    expected = [[1.299363, 2.382166], [3.511867, 5.015362], [3.859873, 7.076433]]
    np.testing.assert_allclose(A, expected, atol=5e-7)
    np.testing.assert_allclose(B, [[0, 1.5], [0.064092, 0.751991], [0, -1]], atol=5e-7)
    np.testing.assert_array_equal(model.var_, 2.0)
    np.testing.assert_allclose(trials_of(model.mean_, 3)[0], [[2, 2], [3, 5.5], [4, 7]])


def test_worked_example_probability(line):
    """The same model, one new trial, by hand."""
    X, y, space = line
    model = FeatureSharingNB.paper(space).fit(X, y)
    x = np.array([[2.0, 2], [1, 3], [3, 4]]).T.reshape(1, 6)
    scores = model.predict_joint_log_proba(x)
    np.testing.assert_allclose(scores, [[-13.589200, -19.331087]], atol=5e-7)
    assert model.predict_proba(x)[0, 0] == pytest.approx(0.996802, abs=5e-7)
    assert model.predict(x) == ["A"]


@pytest.mark.parametrize("mean_map", ["scale", "identity", "affine"])
def test_equals_loops(oracle, scattered, mean_map):
    X, y, space = scattered
    V = space.n_voxels
    neighbors = oracle.neighbor_lists(space.coordinates)
    assert min(len(near) for near in neighbors) == 0
    model = FeatureSharingNB.paper(space, mean_map=mean_map).fit(X, y)
    scores = model.predict_joint_log_proba(X)
    for c, label in enumerate(model.classes_):
        theta, sigma2, _, _ = oracle.fit_class(trials_of(X, V)[y == label], neighbors, mean_map)
        np.testing.assert_allclose(trials_of(model.theta_, V)[c], theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(trials_of(model.var_, V)[c], sigma2, rtol=1e-12)
        naive = [oracle.log_joint(x, np.mean(y == label), theta, sigma2) for x in trials_of(X, V)]
        np.testing.assert_allclose(scores[:, c], naive, rtol=1e-9)


def test_shared_scope_equals_loops(oracle, scattered):
    X, y, space = scattered
    V = space.n_voxels
    trials = trials_of(X, V)
    means = {label: trials[y == label].mean(axis=0) for label in "abc"}
    residuals = np.array([x - means[label] for x, label in zip(trials, y)])
    sigma2 = np.full(residuals.shape[1:], np.median((residuals**2).sum(axis=0) / (len(y) - 3)))
    neighbors = oracle.neighbor_lists(space.coordinates)
    model = FeatureSharingNB.paper(space, variance_scope="shared").fit(X, y)
    for c, label in enumerate("abc"):
        theta = oracle.fit_class(trials[y == label], neighbors, "scale", sigma2)[0]
        np.testing.assert_allclose(trials_of(model.theta_, V)[c], theta, rtol=1e-9, atol=1e-12)


def plain(**changes):
    return FeatureSharingNB(
        means="none",
        variances="none",
        variance_scope="class",
        ddof=0,
        calibration=None,
        **changes,
    )


@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]])
def test_collapses_to_scikit_learns_naive_bayes(scattered, priors):
    X, y, _ = scattered
    ours, theirs = plain(priors=priors).fit(X, y), GaussianNB(priors=priors).fit(X, y)
    np.testing.assert_allclose(ours.theta_, theirs.theta_)
    np.testing.assert_allclose(ours.var_, theirs.var_)
    np.testing.assert_allclose(
        ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-9
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_empty_groups_are_naive_bayes(scattered):
    """No neighbours and own variances leave nothing to share."""
    X, y, space = scattered
    nobody = sparse.csr_array((space.n_voxels, space.n_voxels))
    ours = FeatureSharingNB.paper(space, means=nobody, variances="none", ddof=0).fit(X, y)
    np.testing.assert_allclose(ours.theta_, plain().fit(X, y).theta_)


def test_many_examples_keep_their_mean(rng, scattered):
    """θ̂ → X̄ as N → ∞, at the rate 1/N."""
    X, y, space = scattered
    gaps = []
    for repeats in (10, 100, 1000):
        many = np.repeat(X, repeats, axis=0) + rng.normal(size=(len(X) * repeats, X.shape[1]))
        model = FeatureSharingNB.paper(space).fit(many, np.repeat(y, repeats))
        gaps.append(np.median(abs(model.theta_ - model.mean_)))
    assert gaps[2] < 0.2 * gaps[1] < 0.04 * gaps[0] * 2


def test_theta_lies_between_sample_and_group(oracle, scattered):
    X, y, space = scattered
    V, neighbors = space.n_voxels, oracle.neighbor_lists(space.coordinates)
    model = FeatureSharingNB.paper(space).fit(X, y)
    for c, label in enumerate(model.classes_):
        _, _, mu, _ = oracle.fit_class(trials_of(X, V)[y == label], neighbors)
        theta, mean = trials_of(model.theta_, V)[c], trials_of(model.mean_, V)[c]
        assert (np.minimum(mean, mu) - 1e-12 <= theta).all()
        assert (theta <= np.maximum(mean, mu) + 1e-12).all()


@pytest.mark.parametrize("scale", [1e-3, -4.0, 1e5])
def test_scaling_changes_units_only(scattered, scale):
    X, y, space = scattered
    one, other = (FeatureSharingNB.paper(space).fit(data, y) for data in (X, scale * X))
    np.testing.assert_allclose(other.theta_, scale * one.theta_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.var_, scale**2 * one.var_, rtol=1e-9)
    np.testing.assert_allclose(other.predict_proba(scale * X), one.predict_proba(X), atol=1e-9)


def test_voxel_permutation_moves_theta_along(rng, scattered):
    X, y, space = scattered
    V, order = space.n_voxels, rng.permutation(space.n_voxels)
    moved = X.reshape(len(X), -1, V)[:, :, order].reshape(X.shape)
    one = FeatureSharingNB.paper(space).fit(X, y)
    other = FeatureSharingNB.paper(space.take(order)).fit(moved, y)
    theta = one.theta_.reshape(3, -1, V)[:, :, order].reshape(3, -1)
    np.testing.assert_allclose(other.theta_, theta, rtol=1e-9, atol=1e-12)


def test_not_translation_invariant(scattered):
    """The maps go through the origin: a shift must change θ̂ by more than the shift."""
    X, y, space = scattered
    one, other = (FeatureSharingNB.paper(space).fit(X + shift, y) for shift in (0.0, 5.0))
    assert np.abs(other.theta_ - 5.0 - one.theta_).max() > 0.01


def test_label_names_do_not_matter(scattered):
    X, y, space = scattered
    renamed = np.array([{"a": 30, "b": 20, "c": 10}[label] for label in y])
    one, other = (FeatureSharingNB(space).fit(X, labels) for labels in (y, renamed))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1])


def test_streaming_equals_batch(scattered):
    X, y, space = scattered
    batch = FeatureSharingNB(space).fit(X, y)
    stream = FeatureSharingNB(space)
    for rows in (slice(0, 2), slice(2, 3), slice(3, 9)):
        stream.partial_fit(X[rows], y[rows], classes=["a", "b", "c"])
    np.testing.assert_allclose(stream.theta_, batch.theta_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stream.predict_log_proba(X), batch.predict_log_proba(X), rtol=1e-9)


def test_chunks_of_a_dask_array_equal_batch(scattered):
    X, y, space = scattered
    classes, codes = np.unique(y, return_inverse=True)
    lazy = da.from_array(X, chunks=(4, 30))
    batch = FeatureSharingNB(space).fit(X, y)
    chunked = FeatureSharingNB(space).fit_statistics(
        class_statistics(lazy, codes, 3), classes, excerpt_of(lazy, codes)
    )
    np.testing.assert_allclose(
        chunked.predict_log_proba(X), batch.predict_log_proba(X), rtol=1e-9, atol=1e-12
    )
    with pytest.raises(ValueError, match="needs an excerpt"):
        FeatureSharingNB(space).fit_statistics(class_statistics(X, codes, 3), classes)
    with pytest.raises(ValueError, match="each of the 3 classes once"):
        FeatureSharingNB(calibration=None).fit_statistics(class_statistics(X, codes, 3), ["a", "b"])


def test_cross_validation_from_statistics_alone(scattered):
    """Leave one out without the raw data: remove its statistics, estimate, compare with a refit."""
    X, y, space = scattered
    classes, codes = np.unique(y, return_inverse=True)
    whole = class_statistics(X, codes, 3)
    for i in range(len(y)):
        rest = remove(whole, class_statistics(X[i : i + 1], codes[i : i + 1], 3))
        model = FeatureSharingNB(space, calibration=None)
        held_out = model.fit_statistics(rest, classes).predict_joint_log_proba(X[i : i + 1])
        fresh = clone(model).fit(np.delete(X, i, axis=0), np.delete(y, i))
        expected = fresh.predict_joint_log_proba(X[i : i + 1])
        np.testing.assert_allclose(held_out, expected, rtol=1e-8)


def test_forgetting_equals_never_having_seen(scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space).fit(X, y)
    for i in (4, 0):
        fresh = FeatureSharingNB(space).fit(np.delete(X, i, axis=0), np.delete(y, i))
        model.forget(X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(model.theta_, fresh.theta_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(
            model.predict_log_proba(X), fresh.predict_log_proba(X), rtol=1e-8
        )
        model.partial_fit(X[i : i + 1], y[i : i + 1])


def test_says_what_is_missing_until_it_can_predict(scattered):
    X, y, space = scattered
    model = FeatureSharingNB.paper(space).partial_fit(X[:3], y[:3], classes=["a", "b", "c"])
    with pytest.raises(NotFittedError, match="Too few examples to predict yet"):
        model.predict(X)
    model.partial_fit(X[3:], y[3:])
    assert model.predict(X).shape == y.shape
    model.forget(X[[0]], y[[0]])
    with pytest.raises(NotFittedError, match="Too few"):
        model.voxel_maps()


@pytest.mark.parametrize("changes", [{}, {"variances": "moderated"}, {"calibration": "effective"}])
def test_waits_for_a_second_example_whatever_the_divisor(scattered, changes):
    """One example has variance 0 with ddof=0 too: there is nothing to predict with yet."""
    X, y, space = scattered
    order = np.argsort(y, kind="stable")[[0, 1, 3, 4, 5, 6]]  # two of each class
    X, y = X[order], y[order]
    model = FeatureSharingNB.paper(space, ddof=0, **changes)
    model.partial_fit(X[::2], y[::2], classes=["a", "b", "c"])
    with pytest.raises(NotFittedError, match="Too few examples to predict yet"):
        model.predict(X)
    model.partial_fit(X[1::2], y[1::2])
    fresh = clone(model).fit(X, y)
    np.testing.assert_allclose(model.theta_, fresh.theta_, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="at least 2 examples of every class"):
        clone(model).fit(X[::2], y[::2])


def test_one_example_of_each_class_is_enough(scattered):
    """Means are drawn to .3 of their distance from their mean, whatever the offset of the scans."""
    X, y, space = scattered
    first = [list(y).index(label) for label in "abc"]
    for place in (space, None):
        model = FeatureSharingNB(place).fit(X[first], y[first])
        far = FeatureSharingNB(place).fit(X[first] + 100, y[first])
        P = model.predict_proba(X)
        np.testing.assert_allclose(far.predict_proba(X + 100), P, rtol=1e-6)
        np.testing.assert_array_equal(model.predict(X[first]), y[first])
        assert P.max() < 0.999
        stream = FeatureSharingNB(place).partial_fit(X[first], y[first], classes=["a", "b", "c"])
        np.testing.assert_allclose(stream.predict_proba(X), P, rtol=1e-12)
    mean = X[first].mean(axis=0)
    np.testing.assert_allclose(model.theta_, mean + 0.3 * (X[first] - mean))
    with pytest.raises(ValueError, match="at least 2 examples of every class"):
        FeatureSharingNB.paper(space).fit(X[first], y[first])


def test_means_are_drawn_together_without_neighbours_or_about_zero(scattered):
    X, y, space = scattered
    drawn, plain_means = FeatureSharingNB().fit(X, y), FeatureSharingNB(shrinkage=None).fit(X, y)
    asked = FeatureSharingNB(shrinkage="james-stein").fit(X, y)
    np.testing.assert_array_equal(drawn.theta_, asked.theta_)
    rho = drawn.theta_ / plain_means.theta_
    np.testing.assert_allclose(rho, rho[0, 0])
    assert 0.05 <= rho[0, 0] < 1
    X = X + 3
    near = FeatureSharingNB(space).fit(X, y)
    np.testing.assert_array_equal(
        near.theta_, FeatureSharingNB(space, shrinkage=None).fit(X, y).theta_
    )
    X -= X.mean(axis=0)
    near, asked = (
        FeatureSharingNB(space).fit(X, y),
        FeatureSharingNB(space, shrinkage="james-stein"),
    )
    np.testing.assert_array_equal(near.theta_, asked.fit(X, y).theta_)


@pytest.mark.parametrize("means", ["none", "all"])
def test_who_asks_for_other_means_gets_them(scattered, means):
    X, y, _ = scattered
    chosen, none = (FeatureSharingNB(means=means, shrinkage=s).fit(X, y) for s in ("auto", None))
    np.testing.assert_array_equal(chosen.theta_, none.theta_)


def test_as_good_as_logistic_regression_without_coordinates(data_folder):
    """Five fingers of four subjects, betas centred by run, two runs to learn from."""
    data = np.load(data_folder("finger7t") / "finger7t_subjects1-4.npz")
    for subject in "1234":
        X, y, run = (data[name + subject] for name in ("X", "finger", "run"))
        X = np.vstack([X[run == r] - X[run == r].mean(axis=0) for r in np.unique(run)])
        y = np.concatenate([y[run == r] for r in np.unique(run)])
        run, gains = np.sort(run), []
        for first in np.unique(run)[::2]:
            train = np.isin(run, [first, first + 1])
            pair = FeatureSharingNB(), LogisticRegression(max_iter=1000)
            fits = [model.fit(X[train], y[train]) for model in pair]
            ours, theirs = ((fit.predict(X[~train]) == y[~train]).mean() for fit in fits)
            gains.append(ours - theirs)
        assert np.mean(gains) > 0


def test_smoothing_stands_in_for_the_variance_of_one_example(scattered):
    X, y, _ = scattered
    stream = plain().partial_fit(X[:3], y[:3], classes=["a", "b", "c"])
    theirs = GaussianNB().partial_fit(X[:3], y[:3], classes=["a", "b", "c"])
    np.testing.assert_allclose(stream.var_, theirs.var_)
    np.testing.assert_array_equal(stream.predict(X), theirs.predict(X))


def test_two_examples_of_one_class_are_enough_when_variances_are_shared(scattered):
    X, _, space = scattered
    y = ["a", "a", "b"]
    assert FeatureSharingNB(space).fit(X[:3], y).theta_.shape == (2, X.shape[1])
    with pytest.raises(ValueError, match="at least 2 examples of every class"):
        FeatureSharingNB.paper(space).fit(X[:3], y)


def test_one_time_point_uses_the_identity(rng):
    space = VoxelSpace.grid((4, 4, 4))
    X, y = rng.normal(size=(6, 64)), np.array([0, 1] * 3)
    auto, identity = (
        FeatureSharingNB(space, mean_map=name).fit(X, y) for name in ("auto", "identity")
    )
    np.testing.assert_array_equal(auto.theta_, identity.theta_)
    assert np.abs(auto.theta_ - auto.mean_).max() > 0.01
    with pytest.warns(UserWarning, match="means are not shared"):
        printed = FeatureSharingNB.paper(space).fit(X, y)
    np.testing.assert_allclose(printed.theta_, printed.mean_)


def test_group_matrix_without_a_space(scattered):
    X, y, space = scattered
    own = FeatureSharingNB(means=space.adjacency()).fit(X, y)
    np.testing.assert_array_equal(own.theta_, FeatureSharingNB(space).fit(X, y).theta_)


def test_standard_hierarchical_model_shrinks_to_the_grand_mean(scattered):
    X, y, _ = scattered
    model = FeatureSharingNB(means="all", variance_scope="class").fit(X, y)
    for c, label in enumerate(model.classes_):
        mean, N = X[y == label].mean(axis=0), sum(y == label)
        mu, tau2, sigma2 = mean.mean(), mean.var(), model.var_[c]
        theta = (N / sigma2 * mean + mu / tau2) / (N / sigma2 + 1 / tau2)
        np.testing.assert_allclose(model.theta_[c], theta)
    with pytest.raises(ValueError, match="got mean_map='scale'"):
        FeatureSharingNB(means="all", mean_map="scale").fit(X, y)


def test_james_stein_draws_all_means_toward_zero(scattered):
    X, y, space = scattered
    plain = FeatureSharingNB(space).fit(X, y)
    drawn = FeatureSharingNB(space, shrinkage="james-stein").fit(X, y)
    ratio = drawn.theta_ / plain.theta_
    assert 0.05 <= ratio[0, 0] < 1
    np.testing.assert_allclose(ratio, ratio[0, 0])
    assert drawn.temperature_ == pytest.approx(plain.temperature_ * ratio[0, 0])


def test_same_bits_alone_as_in_a_batch(rng, scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space).fit(X, y)
    batch = model.predict_log_proba(X)
    alone = np.concatenate([model.predict_log_proba(x[None]) for x in X])
    np.testing.assert_array_equal(batch, alone)


@pytest.mark.parametrize("kind", ["float32", "fortran", "read_only"])
def test_any_layout_predicts_alike(scattered, kind):
    X, y, space = scattered
    other = {
        "float32": X.astype("float32"), "fortran": np.asfortranarray(X), "read_only": X.copy()
    }[kind]  # fmt: skip
    other.flags.writeable = False
    expected = FeatureSharingNB(space).fit(X, y).predict_proba(X)
    got = FeatureSharingNB(space).fit(other, y).predict_proba(other)
    np.testing.assert_allclose(got, expected, atol=1e-4 if kind == "float32" else 1e-9)


def test_a_million_features_stay_finite(rng):
    X = rng.normal(1e4, 1.0, size=(4, 1_000_000)).astype("float32")
    model = FeatureSharingNB().fit(X, [0, 0, 1, 1])
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), [0, 0, 1, 1])


def test_voxel_maps(scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space).fit(X, y)
    maps = model.voxel_maps()
    np.testing.assert_allclose(maps["mean_before[b]"], X[y == "b"].mean(axis=0))
    np.testing.assert_array_equal(maps["mean_after[b]"], model.theta_[1])
    np.testing.assert_array_equal(
        maps["group_size"], np.asarray(space.adjacency().sum(axis=1)).ravel()
    )
    spread = np.average(
        (model.theta_ - np.average(model.theta_, axis=0, weights=[3, 2, 4])) ** 2,
        axis=0, weights=[3, 2, 4],
    )  # fmt: skip
    np.testing.assert_allclose(maps["discriminability"], spread / model.var_[0])
    assert "difference" not in maps
    two = FeatureSharingNB(space).fit(X[y != "c"], y[y != "c"])
    name, difference = next(iter(two.voxel_maps().items()))
    assert name == "difference"
    np.testing.assert_allclose(difference, (two.theta_[1] - two.theta_[0]) / np.sqrt(two.var_[0]))


def test_copies_and_pickles(scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space).fit(X, y)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "theta_")


def test_refusals(scattered):
    X, y, space = scattered
    with pytest.raises(ValueError, match=f"multiple of its {space.n_voxels} voxels"):
        FeatureSharingNB(space).fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="Expected a square one"):
        FeatureSharingNB(means=sparse.csr_array((3, 4))).fit(X, y)
    with pytest.raises(ValueError, match="one row per voxel"):
        FeatureSharingNB(space, means=sparse.csr_array((4, 4))).fit(X, y)
    with pytest.raises(ValueError, match="not negative"):
        FeatureSharingNB(means=-space.adjacency().astype(float)).fit(X, y)
    with pytest.raises(ValueError, match="sum to 1"):
        FeatureSharingNB(priors=[0.5, 0.6, 0.1]).fit(X, y)
    with pytest.raises(ValueError, match="Expected 3 probabilities"):
        FeatureSharingNB(priors=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="do not fit the means of FeatureSharingNB"):
        FeatureSharingNB(means=sparse.csr_array((5, 5))).fit(X[:, :12], y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        FeatureSharingNB().partial_fit(X[:1], y[:1], classes=["b"])
    with pytest.raises(ValueError, match="'means' parameter"):
        FeatureSharingNB(means="friends").fit(X, y)
    with pytest.raises(ValueError, match=r"got \['d'\] too"):
        FeatureSharingNB().fit(X, y).partial_fit(X[:1], ["d"])
