"""Families on scans that are read in blocks of voxels, against the same scans in memory."""

import pickle

import dask.array as da
import numpy as np
import pytest
import zarr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from voxprior import (
    AutoClassifier,
    AutoRegressor,
    FeatureSharingNB,
    GPClassifier,
    GPRegressor,
    InverseTreeClassifier,
    RandomFieldClassifier,
    RVMClassifier,
    RVMRegressor,
    SpatialBoostingClassifier,
    VoxelSpace,
    max_memory,
)
from voxprior.blocks import BlockedScans, VoxelScaler, blocked
from voxprior.errors import InputError
from voxprior.validation import (
    CovariateRemoval,
    cross_validate,
    learning_curve,
    permutation_test,
    with_covariates,
)

SPACE = VoxelSpace.grid((6, 6, 5))
RUNS, Y = np.repeat(np.arange(4), 6), np.tile([0, 1], 12)
# Scans of 17 kB: a limit below four times that has blocks of a few voxels.
TINY = 20_000

CLASSIFIERS = {
    "auto": AutoClassifier(SPACE),
    "auto with sharing": AutoClassifier(SPACE, sharing=True),
    "gp": GPClassifier(),
    "gp of an rbf kernel": GPClassifier("rbf", doubt=(1, 1)),
    "gp by region": GPClassifier(regions=np.arange(180) % 3),
    "rvm": RVMClassifier(),
    "rvm of voxels": RVMClassifier(basis="voxels"),
    "sharing": FeatureSharingNB(SPACE),
    "network": InverseTreeClassifier(SPACE, n_permutations=9),
    "network of medians": InverseTreeClassifier(SPACE, cut="median", doubt=None),
    "fields": RandomFieldClassifier(n_nodes=20),
    "fields by information": RandomFieldClassifier(n_nodes=20, ranking="mutual_information"),
    "fields by sign": RandomFieldClassifier(None, ranking="signed_correlation", min_score=0.4),
    "scaled gp": make_pipeline(VoxelScaler(), GPClassifier()),
    "scaled fields": make_pipeline(VoxelScaler(), RandomFieldClassifier(n_nodes=20)),
}
REGRESSORS = {
    "auto": AutoRegressor(SPACE),
    "gp": GPRegressor(),
    "rvm": RVMRegressor(),
    "rvm of voxels": RVMRegressor(basis="voxels"),
    "scaled auto": make_pipeline(VoxelScaler(), AutoRegressor(SPACE)),
}


@pytest.fixture(scope="module")
def scans():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 180)) + 2.0 * Y[:, None] * (np.arange(180) < 20) + 3.0
    X[:, 50], X[:, 60] = 7.0, X[:, 61]
    return X.astype(np.float32)


def stored(scans, kind, folder):
    if kind == "dask":
        return da.from_array(scans, chunks=(10, 70))
    if kind == "zarr":
        array = zarr.create_array(str(folder / "x"), shape=scans.shape, chunks=(7, 32), dtype="f4")
        array[:] = scans
        return array
    wide = kind == "view of a memory map"
    mapped = np.lib.format.open_memmap(folder / "x.npy", "w+", "f4", (24, 180 + 10 * wide))
    mapped[:, 10 * wide :] = scans
    return mapped[:, 10 * wide :]


@pytest.fixture(params=["memory map", "view of a memory map", "zarr", "dask"])
def on_disk(request, scans, tmp_path):
    return stored(scans, request.param, tmp_path)


@pytest.fixture
def mapped(scans, tmp_path):
    return stored(scans, "memory map", tmp_path)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_folds_of_classifiers(name, scans, mapped):
    model = CLASSIFIERS[name]
    expected = cross_validate(model, scans, Y, RUNS, cv="groups", audited=())
    with max_memory(TINY):
        found = cross_validate(model, mapped, Y, RUNS, cv="groups", audited=())
    np.testing.assert_allclose(found.probabilities(), expected.probabilities(), rtol=2e-5)
    assert found.settings["n_features"] == 180


@pytest.mark.parametrize("name", ["gp", "sharing", "fields"])
def test_every_kind_of_array(name, scans, on_disk):
    model, test = CLASSIFIERS[name], np.arange(18, 24)
    expected = model.fit(scans[:18], Y[:18]).predict_proba(scans[test])
    with max_memory(TINY):
        X = blocked(on_disk)
        found = model.fit(X[:18], Y[:18]).predict_proba(X[test])
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("name", REGRESSORS)
def test_folds_of_regressors(name, scans, mapped):
    model, y = REGRESSORS[name], scans[:, 3] + 0.1 * np.arange(24)
    expected = cross_validate(model, scans, y, RUNS, audited=())
    with max_memory(TINY):
        found = cross_validate(model, mapped, y, RUNS, audited=())
    for column in ("y_pred", *(c for c in expected.predictions if c.startswith("low"))):
        np.testing.assert_allclose(found.predictions[column], expected.predictions[column], 1e-4)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_maps(name, scans, mapped):
    model = CLASSIFIERS[name]
    if name.startswith("scaled"):
        model = model[-1]
    expected = model.fit(scans, Y).voxel_maps()
    with max_memory(TINY):
        found = model.fit(mapped, Y).voxel_maps()
    assert expected.keys() == found.keys()
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], rtol=2e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("test", ["batch", "fast", "refit"])
def test_permutations(test, scans, mapped):
    options = {"test": test, "n_permutations": 9, "score": "accuracy", "stop_after": None}
    model = FeatureSharingNB(SPACE) if test == "refit" else GPClassifier()
    expected = permutation_test(model, scans, Y, RUNS, **options)
    with max_memory(TINY):
        found = permutation_test(model, mapped, Y, RUNS, **options)
    assert found.p_value == expected.p_value
    np.testing.assert_array_equal(found.null, expected.null)


def test_learning_curves(scans, mapped):
    models = {name: CLASSIFIERS[name] for name in ("gp", "sharing")}
    expected = learning_curve(models, scans, Y, sizes=[2, 4], n_repeats=2)
    with max_memory(TINY):
        found = learning_curve(models, mapped, Y, sizes=[2, 4], n_repeats=2)
    for score in ("accuracy", "log_loss"):
        np.testing.assert_allclose(found.table[score], expected.table[score], rtol=1e-5)


def test_covariates_are_removed_in_blocks(scans, mapped):
    Z = np.random.default_rng(0).normal(size=(24, 2))
    model = make_pipeline(CovariateRemoval(2), VoxelScaler(), GPClassifier())
    expected = cross_validate(model, with_covariates(scans, Z), Y, RUNS)
    with max_memory(TINY):
        rows = with_covariates(mapped, Z)
        assert isinstance(rows, BlockedScans)
        found = cross_validate(model, rows, Y, RUNS)
    np.testing.assert_allclose(found.probabilities(), expected.probabilities(), rtol=1e-4)


def test_workers_read_for_themselves(on_disk):
    with max_memory(TINY):
        X = blocked(on_disk)
        X[:, :40]  # a window of chunks is not sent
        sent = pickle.dumps(X[3:9])
        assert len(sent) < 6000 or isinstance(on_disk, da.Array)
        np.testing.assert_array_equal(pickle.loads(sent)[:, 5:50], X[3:9, 5:50])


def test_n_workers_give_the_same_bytes(mapped):
    with max_memory(TINY):
        alone = cross_validate(GPClassifier(), mapped, Y, RUNS)
        found = cross_validate(GPClassifier(), mapped, Y, RUNS, n_jobs=2)
    np.testing.assert_array_equal(found.probabilities(), alone.probabilities())


def test_a_folder_knows_the_values(mapped, tmp_path):
    with max_memory(TINY):
        for X in (mapped, mapped, with_covariates(mapped, np.ones((24, 1)))):
            cross_validate(GPClassifier(), X, Y, RUNS, folder=tmp_path / "kept", audited=())
    assert len(list((tmp_path / "kept").iterdir())) == 2


@pytest.mark.parametrize("model", [SpatialBoostingClassifier(SPACE), LogisticRegression()])
def test_what_reads_no_blocks_refuses_with_the_size(model, mapped):
    with max_memory(TINY), pytest.raises(InputError, match=r"needs 0.0346 MB.*max_memory"):
        model.fit(blocked(mapped), Y)
    with max_memory(4 * TINY / 2):  # too large for four copies, but not for two
        assert model.fit(blocked(mapped), Y).predict(blocked(mapped)).shape == (24,)


def test_boosting_refuses_before_anything_is_read(mapped, monkeypatch):
    monkeypatch.setattr(BlockedScans, "_read", lambda *_: pytest.fail("scans were read"))
    model = make_pipeline(VoxelScaler(), SpatialBoostingClassifier(SPACE))
    with max_memory(TINY), pytest.raises(InputError, match=r"needs 0.0259 MB.*max_memory"):
        cross_validate(model, mapped, Y, RUNS)


REFUSING = [CLASSIFIERS[name] for name in ("gp", "sharing", "scaled gp")]


@pytest.mark.parametrize("model", [*REFUSING, CovariateRemoval(1)])
def test_nan_and_other_features_are_refused(model, scans, mapped):
    fitted = model.fit(scans, Y)
    with max_memory(TINY):
        ask = getattr(fitted, "predict", None) or fitted.transform
        with pytest.raises(ValueError, match="180"):
            ask(blocked(mapped[:, :-1]))
        mapped[2, 30] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.fit(mapped, Y)
