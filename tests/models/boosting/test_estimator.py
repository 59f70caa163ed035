import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import SpatialBoostingClassifier, VoxelSpace

SIDE = 8


@pytest.fixture
def data(rng):
    y = np.repeat(["face", "house"], 20)
    X = rng.standard_normal((40, SIDE, SIDE))
    X[y == "house", 2:5, 2:5] += 1.5
    return X.reshape(40, -1), y, VoxelSpace.grid((SIDE, SIDE))


@pytest.mark.slow
@parametrize_with_checks(
    [
        SpatialBoostingClassifier(
            n_iterations=8, backward=True, early_stopping=True, calibrate=True, cv=3, random_state=0
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_learns_and_names_its_labels(data):
    X, y, space = data
    model = SpatialBoostingClassifier(space)
    assert cross_val_score(model, X, y, cv=5).mean() > 0.8
    model.fit(X, y)
    assert list(model.classes_) == ["face", "house"]
    assert model.stumps_.dtype.names == ("problem", "feature", "threshold", "sign", "weight")
    assert len(model.objective_) == model.n_iter_ + 1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_decisions_and_labels_agree(rng, n_classes):
    X, y = make_classification(80, 20, n_informative=6, n_classes=n_classes, random_state=0)
    model = SpatialBoostingClassifier(n_iterations=30).fit(X, y)
    p, F = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    if n_classes == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-2 * F)))
    else:
        assert F.shape == (80, 4)
        assert model.objective_.shape == (4, model.n_iter_ + 1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_scan_alone_has_the_probabilities_it_has_in_a_batch(rng, n_classes):
    X, y = make_classification(60, 20, n_informative=6, n_classes=n_classes, random_state=0)
    model = SpatialBoostingClassifier(n_iterations=30).fit(X, y)
    alone = np.concatenate([model.predict_log_proba(x[None]) for x in X])
    np.testing.assert_allclose(alone, model.predict_log_proba(X), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_stages_end_at_the_fitted_model(n_classes):
    X, y = make_classification(60, 20, n_informative=6, n_classes=n_classes, random_state=0)
    model = SpatialBoostingClassifier(n_iterations=15, backward=True).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == model.n_iter_
    np.testing.assert_allclose(stages[-1], model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))
    shorter = clone(model).set_params(n_iterations=6).fit(X, y)
    np.testing.assert_allclose(stages[5], shorter.decision_function(X), atol=1e-9)


def test_maps_of_two_classes(data):
    X, y, space = data
    model = SpatialBoostingClassifier(space, n_iterations=25).fit(X, y)
    maps = model.voxel_maps()
    assert set(maps) == {"importance", "smoothed", "selection_order", "direction"}
    assert all(values.shape == (space.n_voxels,) for values in maps.values())
    np.testing.assert_allclose(maps["smoothed"], space.gaussian(1.0) @ maps["importance"])
    first = model.stumps_["feature"][0]
    assert maps["selection_order"][first] == 1
    assert ((maps["selection_order"] > 0) == (maps["importance"] > 0)).all()
    assert (np.abs(maps["direction"]) <= maps["importance"] + 1e-12).all()
    # "house", the last class, has the higher values in the blob.
    assert maps["direction"].reshape(SIDE, SIDE)[2:5, 2:5].sum() > 0


def test_maps_with_time_and_many_classes(rng):
    X, y = make_classification(60, 24, n_informative=6, n_classes=3, random_state=0)
    model = SpatialBoostingClassifier(VoxelSpace.grid((2, 4)), n_iterations=10).fit(X, y)
    maps = model.voxel_maps()
    assert maps["feature_importance"].shape == (24,)
    by_location = maps["feature_importance"].reshape(3, 8).sum(axis=0)
    np.testing.assert_allclose(by_location, maps["importance"])
    np.testing.assert_allclose(sum(maps[f"importance_{c}"] for c in range(3)), maps["importance"])


def test_features_must_fill_the_space(data):
    X, y, space = data
    with pytest.raises(ValueError, match=r"space of Spatial.* of its 64 voxels .* got 63"):
        SpatialBoostingClassifier(space).fit(X[:, :-1], y)


def test_float32_is_kept_and_thresholds_do_not_round(rng):
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    X = np.where(np.arange(8) % 2, high, low)[:, None].astype(np.float32)
    y = np.arange(8) % 2
    model = SpatialBoostingClassifier().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


def test_one_voxel_and_constant_voxels(rng):
    y = np.repeat([0, 1], 10)
    X = np.zeros((20, 3))
    X[:, 1] = y
    model = SpatialBoostingClassifier(VoxelSpace.grid(3)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_array_equal(model.importance_ > 0, [False, True, False])
    alone = SpatialBoostingClassifier(VoxelSpace.grid(1)).fit(X[:, [1]], y)
    np.testing.assert_array_equal(alone.predict(X[:, [1]]), y)


def test_names_of_labels_do_not_matter(data):
    X, y, space = data
    named = SpatialBoostingClassifier(space).fit(X, y)
    numbered = SpatialBoostingClassifier(space).fit(X, (y == "house").astype(int))
    np.testing.assert_array_equal(named.importance_, numbered.importance_)


def test_a_mean_loss_keeps_the_meaning_of_lambda(data):
    X, y, space = data
    once = SpatialBoostingClassifier(space, loss_scale="mean", regularization=0.02).fit(X, y)
    twice = clone(once).fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(once.importance_, twice.importance_, rtol=1e-6)
    summed = SpatialBoostingClassifier(space, regularization=0.02 * 40).fit(X, y)
    np.testing.assert_allclose(once.importance_, summed.importance_, rtol=1e-6)


def test_a_warm_start_equals_one_long_fit(data):
    X, y, space = data
    whole = SpatialBoostingClassifier(space, n_iterations=30).fit(X, y)
    model = SpatialBoostingClassifier(space, n_iterations=10, warm_start=True).fit(X, y)
    model.set_params(n_iterations=30).fit(X, y)
    np.testing.assert_allclose(model.importance_, whole.importance_)
    np.testing.assert_allclose(model.objective_, whole.objective_)
    stages = zip(model.staged_decision_function(X), whole.staged_decision_function(X))
    for ours, theirs in stages:
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    with pytest.raises(ValueError, match="at least the 30 already made"):
        model.set_params(n_iterations=20).fit(X, y)
    with pytest.raises(ValueError, match="same classes"):
        model.set_params(n_iterations=40).fit(X, np.arange(40) % 2)


def test_lambda_and_radius_are_chosen_by_inner_folds(data):
    X, y, space = data
    model = SpatialBoostingClassifier(
        space, regularization=[0.01, 0.5, 500.0], radius=(1.0, 2.0), n_iterations=20, random_state=0
    ).fit(X, y)
    table = model.selection_losses_
    assert len(table) == 6
    best = table[np.argmin(table["loss"])]
    assert (model.regularization_, model.radius_) == (best["regularization"], best["radius"])
    plain = SpatialBoostingClassifier(
        space, regularization=model.regularization_, radius=model.radius_, n_iterations=20
    ).fit(X, y)
    np.testing.assert_array_equal(plain.importance_, model.importance_)
    automatic = SpatialBoostingClassifier(
        space, regularization="auto", n_iterations=5, random_state=0
    )
    assert len(automatic.fit(X, y).selection_losses_) == 3


def test_calibration_tempers_probabilities_and_keeps_labels(rng):
    X, y = rng.standard_normal((40, 30)), np.repeat([0, 1], 20)
    sure = SpatialBoostingClassifier().fit(X, y)
    tempered = SpatialBoostingClassifier(calibrate=True, random_state=0).fit(X, y)
    fresh = rng.standard_normal((200, 30))
    np.testing.assert_array_equal(sure.predict(fresh), tempered.predict(fresh))
    # The labels are noise, so that probabilities should be near one half.
    assert np.abs(tempered.predict_proba(fresh) - 0.5).mean() < 0.1
    assert np.abs(sure.predict_proba(fresh) - 0.5).mean() > 0.2


def test_early_stopping_stops_early_on_noise(rng):
    X, y = rng.standard_normal((40, 30)), np.repeat([0, 1], 20)
    model = SpatialBoostingClassifier(
        n_iterations=60, regularization=0.0, early_stopping=True, random_state=0
    ).fit(X, y)
    assert model.n_iter_ < 60


def test_groups_reach_the_inner_folds(data):
    X, y, space = data
    with pytest.raises(ValueError, match="at least 2 groups"):
        SpatialBoostingClassifier(space, calibrate=True).fit(X, y, groups=y)


@pytest.mark.parametrize("thresholds", ["all", 5])
def test_own_kernel_and_thresholds(data, thresholds):
    X, y, space = data
    K = 3.0 * np.eye(64) - space.gaussian(0.5).to_dense()
    model = SpatialBoostingClassifier(kernel=K, thresholds=thresholds, n_iterations=20).fit(X, y)
    assert model.score(X, y) > 0.9


def test_own_kernel_says_how_many_locations_there_are(data):
    X, y, _ = data
    K = 3.0 * np.eye(32) - np.eye(32, k=1) - np.eye(32, k=-1)
    model = SpatialBoostingClassifier(kernel=K, n_iterations=5).fit(X, y)
    assert model.importance_.shape == (32,)
    assert model.voxel_maps()["feature_importance"].shape == (64,)
    with pytest.raises(ValueError, match=r"kernel of Spatial.* of its 32 voxels"):
        model.fit(X[:, :33], y)


def test_paper_settings_are_the_printed_ones():
    model = SpatialBoostingClassifier.paper(n_iterations=7)
    assert (model.regularization, model.radius, model.mu, model.n_iterations) == (0.1, 5.0, 1.0, 7)
    assert not model.backward


@pytest.mark.parametrize(
    "parameters",
    [
        {"mu": 0.5},
        {"regularization": -1.0},
        {"regularization": [0.1, -1.0]},
        {"radius": [0.0, 1.0]},
        {"step": "fast"},
        {"kernel": "laplace"},
        {"kernel": [[1.0]]},
    ],
)
def test_bad_parameters_are_refused_before_scans_are_looked_at(data, parameters):
    _, y, space = data
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SpatialBoostingClassifier(space, **parameters).fit("no scans", y)


def test_survives_saving(data):
    skops_io = pytest.importorskip("skops.io")
    X, y, _ = data
    model = SpatialBoostingClassifier(n_iterations=10, calibrate=True, random_state=0).fit(X, y)
    blob = skops_io.dumps(model)
    trusted = [t for t in skops_io.get_untrusted_types(data=blob) if t.startswith("voxprior.")]
    again = skops_io.loads(blob, trusted=trusted)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_spatial_penalty_gathers_the_map_on_real_scans(data_folder):
    """Haxby faces against houses: important voxels are neighbours, beyond what controls show."""
    data_folder("haxby_vt")
    from voxprior.papers.datasets import haxby_vt, standardize_by

    patterns = haxby_vt(volumes=False)
    keep = np.isin(patterns.y, ["face", "house"])
    X, y = standardize_by(patterns.X, patterns.run)[keep], patterns.y[keep]
    model = SpatialBoostingClassifier(patterns.space, radius=2.0, n_iterations=60).fit(X, y)
    found = model.controls(X, y, n_shuffles=1, random_state=0)
    graph = patterns.space.adjacency(26)

    def gathering(beta):
        centered = beta - beta.mean()
        return (centered @ (graph @ centered)) / graph.sum() / centered.var()

    assert gathering(found.importance) > gathering(found.permuted) + 0.1
    assert gathering(found.importance) > gathering(found.ridge) + 0.1
