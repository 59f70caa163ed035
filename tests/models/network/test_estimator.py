"""InverseTreeClassifier: scikit-learn's checks, prediction, maps, cuts, selection, errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from voxprior import InverseTreeClassifier, VoxelSpace
from voxprior.models.network.tree import class_probabilities, class_table

SHAPE = (6, 6, 4)


def planted(n=80, seed=0, label_noise=0.05):
    """Two balls of voxels driven by two latent states; the class is their conjunction."""
    rng = np.random.default_rng(seed)
    latent = rng.random((n, 2)) < 0.7
    X = rng.integers(0, 2, (n, *SHAPE))
    X[:, :2, :2, :2] = latent[:, 0, None, None, None]
    X[:, 4:, 4:, 2:] = latent[:, 1, None, None, None]
    X ^= rng.random(X.shape) < 0.06
    y = latent.all(axis=1) ^ (rng.random(n) < label_noise)
    return X.reshape(n, -1), np.where(y, "old", "young"), latent


def truth_map():
    cluster = np.zeros(SHAPE)
    cluster[:2, :2, :2], cluster[4:, 4:, 2:] = 1, 2
    return cluster.ravel()


def test_class_table():
    latent = np.repeat([0, 1], 6)[:, None]
    y = np.array([0] * 5 + [1] + [0] + [1] * 5)
    configurations, table, unseen = class_table(latent, y, 2, 1.0, "laplace")
    assert configurations.tolist() == [[0], [1]]
    assert_allclose(table, [[0.75, 0.25], [0.25, 0.75]])
    assert_allclose(class_table(latent, y, 2, 1.0, "dirichlet")[1], table)
    assert_allclose(class_table(latent, y, 2, "bdeu", "dirichlet")[1][0], [5.25 / 6.5, 1.25 / 6.5])
    assert_allclose(class_table(latent, y, 2, 1.0, "ml")[1][1], [1 / 6, 5 / 6])
    assert_allclose(unseen, 0.5)


def test_soft_states_average_the_table_over_all_configurations():
    rng = np.random.default_rng(0)
    latent, y = rng.integers(0, 2, (20, 3)), rng.integers(0, 3, 20)
    configurations, table, unseen = class_table(latent, y, 3, 1.0, "laplace")
    odds = rng.normal(size=(5, 3))
    p = 1 / (1 + np.exp(-odds))
    expected = np.zeros((5, 3))
    for bits in np.ndindex(2, 2, 2):
        row = np.flatnonzero((configurations == bits).all(axis=1))
        theta = table[row[0]] if len(row) else unseen
        expected += np.where(bits, p, 1 - p).prod(axis=1)[:, None] * theta
    assert_allclose(class_probabilities(odds, configurations, table, unseen, True), expected)


@pytest.mark.parametrize("equivalence", ["dirichlet", "mean", "frequency", "belief"])
@pytest.mark.parametrize("timing", ["after", "during"])
def test_planted_clusters_are_found(equivalence, timing):
    X, y, latent = planted()
    tolerance = 0.2 if equivalence != "belief" else 0.1
    model = InverseTreeClassifier(
        VoxelSpace.grid(SHAPE),
        max_parents=2,
        equivalence=equivalence,
        tolerance=tolerance,
        timing=timing,
    ).fit(X, y)
    truth, maps = truth_map(), model.voxel_maps()
    assert set(truth[model.parents_]) == {1, 2}
    assert np.mean((maps["clusters"] > 0) == (truth > 0)) > 0.95
    for i, parent in enumerate(model.parents_):
        assert np.mean(model.latent_[:, i] == latent[:, int(truth[parent]) - 1]) > 0.97
    fresh, labels, _ = planted(seed=1)
    assert model.score(fresh, labels) > 0.85
    assert ("belief" in maps) == (equivalence == "belief")


def test_latent_states_beat_single_voxels_on_new_samples():
    X, y, _ = planted(n=119)
    fresh, labels, _ = planted(n=600, seed=1)
    accuracy = {
        latent: InverseTreeClassifier(max_parents=2, tolerance=0.2, latent=latent)
        .fit(X, y)
        .score(fresh, labels)
        for latent in ("icm", None)
    }
    assert accuracy["icm"] > accuracy[None] + 0.02


def test_maps_are_of_what_was_used():
    X, y, _ = planted()
    model = InverseTreeClassifier(select="gain").fit(X, y)
    maps = model.voxel_maps()
    assert maps["gain"].argmax() == model.parents_[0]
    assert_allclose(
        np.sort(maps["parents"])[-len(model.parents_) :], np.arange(len(model.parents_)) + 1
    )
    assert maps["gain_given_parents"].max() <= 1e-9
    assert_allclose(np.diff(model.score_path_)[0], maps["gain"].max())


def test_without_parents_the_prior_is_predicted():
    X = np.zeros((10, 4))
    y = np.array([0] * 7 + [1] * 3)
    model = InverseTreeClassifier(cut=0.5).fit(X, y)
    assert model.parents_.size == 0
    assert_allclose(model.predict_proba(X[:2]), [[8 / 12, 4 / 12]] * 2)
    assert all(np.all(values == 0) for values in model.voxel_maps().values())
    assert "no parent" in model.significance(X, y, 9).verdict()


def naive_doubt(p, codes, pi, n_scans, a, b):
    """Temperature and belief on their grids, point by point: strength of each temperature."""
    log_T, W = np.arange(-20, 21) / 5, np.arange(1, 40, 2) / 40
    strength = np.zeros(len(log_T))
    total = 0.0
    for t, u in enumerate(log_T):
        q = p ** np.exp(-u)
        q = (q / q.sum(axis=1, keepdims=True))[np.arange(len(p)), codes]
        for w in W:
            mass = np.prod(w * q + (1 - w) * pi[codes]) ** (n_scans / len(p))
            mass *= (
                np.exp(-0.5 * (u / (3 if u > 0 else 1)) ** 2) * w ** (a - 1) * (1 - w) ** (b - 1)
            )
            strength[t] += mass * w
            total += mass
    return strength / total, log_T


@pytest.mark.parametrize("found", [True, False])
def test_confidence_is_gated_by_the_permutation_test(found):
    """Twelve scans of two classes, held out in pairs; Beta(2, 1) if the test was passed."""
    rng = np.random.default_rng(3)
    y = np.tile([0, 1], 6)
    X = rng.normal(size=(12, 30))
    if found:
        X[:, :4] += 6 * y[:, None]
    model = InverseTreeClassifier().fit(X, y)
    assert model.validated_ is found
    plain = InverseTreeClassifier(doubt=None)
    held_out, codes = [], []
    for k in range(6):  # the k-th scan of each class
        test = [2 * k, 2 * k + 1]
        train = np.setdiff1d(np.arange(12), test)
        held_out.append(clone(plain).fit(X[train], y[train]).predict_proba(X[test]))
        codes += [0, 1]
    half = np.array([0.5, 0.5])
    a, b = (2, 1) if found else (1, 3)
    strength, log_T = naive_doubt(np.vstack(held_out), np.array(codes), half, 12, a, b)
    new = rng.normal(size=(3, 30))
    p = plain.fit(X, y).predict_proba(new)
    expected = (1 - strength.sum()) * np.tile(half, (3, 1))
    for mass, u in zip(strength, log_T):
        q = p ** np.exp(-u)
        expected += mass * q / q.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(new), expected, rtol=1e-9)
    assert (strength.sum() > 0.5) == found
    given = InverseTreeClassifier(doubt=(a, b)).fit(X, y)
    assert_allclose(given.predict_proba(new), expected, rtol=1e-9)


def test_one_scan_per_class_has_the_prior_alone():
    """With Beta(1, 3) a quarter of the table and three quarters of one half."""
    X = np.eye(2, 9)
    model = InverseTreeClassifier(random_state=0).fit(X, ["a", "b"])
    assert model.validated_ is False
    strength = np.array(model.doubt_["strength"])
    W = np.arange(1, 40, 2) / 40
    assert strength.sum() == pytest.approx(((1 - W) ** 2 * W).sum() / ((1 - W) ** 2).sum())


def test_doubt_that_cannot_be_used():
    with pytest.raises(ValueError, match="two positive numbers"):
        InverseTreeClassifier(doubt=(1, 0)).fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.slow
def test_noise_is_not_believed():
    """216 white voxels: log-loss near chance, .693; the table alone is far above."""
    for n in (2, 5):
        loss = {"gated": [], None: []}
        for seed in range(12):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(2 * n + 40, 216)), np.arange(2 * n + 40) % 2
            for doubt, found in loss.items():
                model = InverseTreeClassifier(doubt=doubt).fit(X[: 2 * n], y[: 2 * n])
                p = model.predict_proba(X[2 * n :])[np.arange(40), y[2 * n :]]
                found.append(-np.log(p).mean())
        assert np.mean(loss["gated"]) < 0.72 < np.mean(loss[None])


@pytest.mark.parametrize("select", ["jackknife", "permutation"])
def test_selection_drops_the_spurious_parents(select):
    X, y, _ = planted(n=100, seed=7, label_noise=0.15)
    noise = np.random.default_rng(0).integers(0, 2, (100, 3000))
    X = np.column_stack([X, noise])
    every = InverseTreeClassifier(tolerance=0.2, select="gain").fit(X, y)
    model = InverseTreeClassifier(tolerance=0.2, select=select, random_state=0).fit(X, y)
    assert len(model.parents_) < len(every.parents_)
    assert np.array_equal(model.parents_, every.parents_[: len(model.parents_)])
    assert len(model.score_path_) == len(model.parents_) + 1
    assert model.validated_
    assert {"jackknife": "dominates its jackknife", "permutation": "better than chance"}[
        select
    ] in (model.verdict_)
    assert every.validated_ is None


def test_noise_is_reported_as_noise():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (40, 5000)), np.arange(40) % 2
    model = InverseTreeClassifier(select="gain", random_state=0).fit(X, y)
    assert len(model.parents_) > 1  # positive gains are not evidence among many voxels
    assert "no better than chance" in model.significance(X, y, 39).verdict()
    guarded = InverseTreeClassifier(random_state=0).fit(X, y)
    assert guarded.parents_.tolist() == model.parents_[:1].tolist()
    assert guarded.validated_ is False
    assert "no better than chance" in guarded.verdict_
    assert "Not tested" in model.verdict_


def test_jackknife_and_bootstrap_name_the_network():
    X, y, _ = planted(n=119)
    model = InverseTreeClassifier(max_parents=2, tolerance=0.2, random_state=0).fit(X, y)
    by_voxel, by_cluster = model.jackknife(X, y), model.jackknife(X, y, by_cluster=True)
    assert by_cluster.model_frequency[0] >= by_voxel.model_frequency[0]
    assert by_cluster.selected == 0
    assert by_cluster.dominant
    assert_allclose(by_voxel.model_frequency.sum(), 1.0)
    drawn = model.bootstrap(X, y, 20, by_cluster=True)
    assert_allclose(drawn.model_frequency.sum(), 1.0)
    assert set(truth_map()[drawn.edges[:2]]) == {1, 2}


def test_paper_is_algorithm_one():
    X, y, _ = planted()
    model = InverseTreeClassifier.paper(max_parents=3).fit(X, y)
    assert (model.timing, model.state, model.table, model.alpha) == (
        "during",
        "hard",
        "laplace",
        1.0,
    )
    rows = [
        model.table_.tolist().index(p)
        for p in model.predict_proba(X).tolist()
        if p in model.table_.tolist()
    ]
    assert len(rows) > 0.9 * len(X)
    clusters = [set(e.tolist()) for e in model.equivalents_]
    assert not set.intersection(*clusters) or len(clusters) == 1


def test_binary_input_in_any_dress():
    X, y, _ = planted()
    P = InverseTreeClassifier(max_parents=2).fit(X, y).predict_proba(X)
    for dress in (
        X.astype(bool),
        X.astype(np.uint8),
        X.astype(np.float32),
        np.asfortranarray(X, dtype=float),
    ):
        dress.flags.writeable = False
        model = InverseTreeClassifier(max_parents=2).fit(dress, y)
        assert model.cut_.tolist() == [0.5]
        assert_allclose(model.predict_proba(dress), P)


def test_cuts_are_learned_in_training():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4 == 0
    X = rng.normal(size=(40, 30))
    X[:, 4] += 4 * y
    for cut in ("median", "class", "auto"):
        model = InverseTreeClassifier(cut=cut, max_parents=1, random_state=0).fit(X, y)
        assert model.cut_.shape == (30,)
        assert model.parents_[0] == 4
    assert_allclose(InverseTreeClassifier(cut="median").fit(X, y).cut_, np.median(X, axis=0))
    means = X[y].mean(axis=0), X[~y].mean(axis=0)
    assert_allclose(model.cut_, np.mean(means, axis=0))
    assert model.significance(X, y, 19).p_value[0] == pytest.approx(0.05)
    # the null of a cut learned with labels is wider than that of a fixed cut
    fixed = (
        InverseTreeClassifier(cut="median", max_parents=1, random_state=0)
        .fit(X, y)
        .significance(X, y, 99)
    )
    assert model.significance(X, y, 99).null.mean() > fixed.null.mean()


def test_time_points_have_their_own_belief_field():
    X, y, _ = planted()
    both = np.column_stack([np.random.default_rng(0).integers(0, 2, X.shape), X])
    space = VoxelSpace.grid(SHAPE)
    model = InverseTreeClassifier(space, max_parents=2, equivalence="belief").fit(both, y)
    assert np.all(model.parents_ >= X.shape[1])
    alone = InverseTreeClassifier(space, max_parents=2, equivalence="belief").fit(X, y)
    assert_allclose(model.voxel_maps()["belief"][X.shape[1] :], alone.voxel_maps()["belief"])
    with pytest.raises(ValueError, match="a multiple of its 144 voxels"):
        InverseTreeClassifier(space, equivalence="belief").fit(X[:, :-1], y)


@pytest.mark.parametrize("latent", ["synchronous", "gibbs"])
@pytest.mark.parametrize("start", ["parent", "majority"])
def test_other_roads_to_the_latent_state(latent, start):
    X, y, truth = planted()
    model = InverseTreeClassifier(
        max_parents=2, tolerance=0.2, latent=latent, start=start, n_restarts=1, random_state=0
    )
    model.fit(X, y)
    again = clone(model).fit(X, y)
    assert np.array_equal(model.latent_, again.latent_)
    order = truth_map()[model.parents_].astype(int) - 1
    assert np.mean(model.latent_ == truth[:, order]) > 0.97


@pytest.mark.slow
def test_leaky_selection_is_optimistic_on_noise():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 2, (40, 4000)), np.arange(40) % 2
    chosen = InverseTreeClassifier(max_parents=2).fit(X, y).parents_
    nested, leaky = [], []
    for i in range(0, 40, 2):
        train = np.setdiff1d(np.arange(40), [i, i + 1])
        nested.append(
            InverseTreeClassifier(max_parents=2)
            .fit(X[train], y[train])
            .score(X[[i, i + 1]], y[[i, i + 1]])
        )
        small = InverseTreeClassifier(max_parents=2).fit(X[train][:, chosen], y[train])
        leaky.append(small.score(X[[i, i + 1]][:, chosen], y[[i, i + 1]]))
    assert np.mean(leaky) > np.mean(nested) + 0.15
    assert abs(np.mean(nested) - 0.5) < 0.25


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("space", (2, 2), "VoxelSpace"),
        ("select", "best", "a str among"),
        ("alpha", -1.0, "range (0.0, inf)"),
        ("alpha", "k2", "{'bdeu'}"),
        ("cut", "mean", "a str among"),
        ("tolerance", 1.5, "range (0.0, 1.0)"),
        ("max_parents", 1.5, "an int in the range"),
        ("n_restarts", -1, "an int in the range"),
    ],
)
def test_bad_parameters(parameter, value, message):
    X, y, _ = planted(n=10)
    with pytest.raises(ValueError, match=f"'{parameter}' parameter") as error:
        InverseTreeClassifier(**{parameter: value}).fit(X, y)
    assert message in str(error.value)


def test_bad_labels():
    X, y, _ = planted(n=20)
    with pytest.raises(ValueError, match="at least 2 classes"):
        InverseTreeClassifier().fit(X, ["same"] * 20)
    model = InverseTreeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="unknown labels"):
        model.jackknife(X, ["other"] * 20)
