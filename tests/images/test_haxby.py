"""One slice of Haxby 2001, real NIfTI files with a label and a run for every volume."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

from voxprior.images import load_runs, scaled_by_training

PAIR = ["face", "house"]


@pytest.fixture(scope="module")
def haxby(data_folder):
    folder = data_folder("haxby_slice")

    def load(conditions=PAIR, **options):
        return load_runs(
            folder / "bold.nii.gz",
            labels=folder / "attributes_literal.txt",
            mask=folder / "mask.nii.gz",
            conditions=conditions,
            **options,
        )

    return load


def test_block_means(haxby):
    data = haxby()
    assert data.X.shape == (24, 530)
    assert data.X.dtype == np.float32
    assert sorted(data.groups.tolist()) == sorted([*range(12)] * 2)
    for run in range(12):
        assert sorted(data.y[data.groups == run]) == PAIR
    assert data.space.n_voxels == 530


def test_volumes_and_windows(haxby):
    blocks, volumes, windows = haxby(), haxby(unit="volume"), haxby(unit="window", window=9)
    assert volumes.X.shape == (216, 530)
    np.testing.assert_array_equal(np.bincount(volumes.blocks)[volumes.blocks], 9)
    means = [volumes.X[volumes.blocks == b].mean(axis=0) for b in np.unique(volumes.blocks)]
    np.testing.assert_allclose(blocks.X, means, atol=1e-5)
    trials = windows.X.reshape(24, 9, 530)
    np.testing.assert_allclose(trials.mean(axis=1), blocks.X, atol=1e-5)
    assert windows.n_times == 9


def test_baseline_is_rest(haxby):
    """Standardised by rest, the rest volumes have mean 0 and variance 1 in every run."""
    data = haxby(standardize="baseline")
    raw = haxby(standardize="none", unit="volume")
    assert data.standardize == "baseline"
    rest = haxby(["rest"], rest=(), unit="volume", standardize="none")
    for run in range(12):
        part = rest.X[rest.groups == run].astype(float)
        block = raw.X[(raw.groups == run) & (raw.y == "face")].mean(axis=0, dtype=float)
        expected = (block - part.mean(axis=0)) / part.std(axis=0)
        ours = data.X[(data.groups == run) & (data.y == "face")][0]
        np.testing.assert_allclose(ours, expected, atol=1e-3)


def leave_one_run_out(data):
    model = LogisticRegression(max_iter=500)
    model = scaled_by_training(model) if data.standardize == "train" else model
    return cross_val_score(model, data.X, data.y, groups=data.groups, cv=LeaveOneGroupOut()).mean()


def test_faces_and_houses_are_told_apart(haxby):
    for mode in ("run", "baseline", "train"):
        assert leave_one_run_out(haxby(standardize=mode)) > 0.85


def test_runs_standardised_by_themselves_decode_better(haxby):
    """All 8 categories: runs differ in offset and scale, which frozen statistics leave in."""
    scores = {mode: leave_one_run_out(haxby(None, standardize=mode)) for mode in ("run", "train")}
    assert scores["run"] > 0.65
    assert scores["run"] > scores["train"] + 0.1


def test_maps_go_back_to_the_slice(haxby):
    data = haxby()
    image = data.images.inverse_transform(data.X[0])
    assert image.shape == (40, 20, 1)
    np.testing.assert_allclose(image.affine, data.space.affine)
    np.testing.assert_array_equal(
        data.space.apply_mask(image.get_fdata(dtype=np.float32)), data.X[0]
    )
