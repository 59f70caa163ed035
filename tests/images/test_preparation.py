"""Scans divided by their means and centred by group: arrays, maps and new scans alike."""

import nibabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import ScanPreparation
from voxprior.images import fit_image_space, load_maps, load_runs, preparation
from voxprior.images.imagespace import ImageSpace
from voxprior.images.preparation import center_by_group, divide_by_means, prepare_scans

SHAPE = (3, 3, 2)
RUNS, FINGERS = np.repeat(["r1", "r2", "r3"], 4), np.tile(["thumb", "index"], 6)


def images_of(X):
    """One volume per row."""
    rows = np.asarray(X, dtype="f4").reshape(-1, *SHAPE)
    return [nibabel.Nifti1Image(row, np.eye(4)) for row in rows]


@pytest.fixture
def betas(rng):
    """Twelve betas of three runs with offsets of their own; two fingers in every run."""
    X = rng.normal(size=(12, 18)) + 3 * rng.normal(size=(3, 18))[np.repeat([0, 1, 2], 4)]
    X[FINGERS == "thumb", :3] += 2
    return X.astype("f4")


@pytest.fixture
def pet(rng):
    """Ten scans of one image at gains of their own."""
    image = rng.uniform(2, 6, size=18)
    X = image * (1 + 0.05 * rng.normal(size=(10, 18))) * np.exp(rng.normal(0, 0.5, (10, 1)))
    return X.astype("f4")


@parametrize_with_checks([ScanPreparation(), ScanPreparation("none", "none")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestCentering:
    def test_is_the_naive_form(self, rng, monkeypatch):
        monkeypatch.setattr(preparation, "VOXELS_AT_ONCE", 4)
        X = rng.normal(size=(7, 10)).astype("f4")
        groups = ["a", None, "b", "a", "c", "b", float("nan")]
        center = rng.normal(size=10)
        found = center_by_group(X, groups, center)
        for i, group in enumerate(groups):
            mine = [X[j].astype(float) for j in range(7) if groups[j] == group and group in "ab"] \
                if isinstance(group, str) else []  # fmt: skip
            mean = np.mean(mine, axis=0) if len(mine) > 1 else center
            assert_allclose(found.X[i], X[i] - mean, atol=1e-6)
        assert found.alone.tolist() == [False, True, False, False, True, False, True]
        assert found.X.dtype == np.float32

    def test_a_group_is_the_same_alone_and_in_any_batch(self, betas):
        center = betas.mean(axis=0)
        together = center_by_group(betas, RUNS, center).X
        order = np.random.default_rng(1).permutation(12)
        assert_allclose(center_by_group(betas[order], RUNS[order], center).X, together[order],
                        rtol=1e-6, atol=1e-6)  # fmt: skip
        for run in set(RUNS):
            alone = center_by_group(betas[run == RUNS], RUNS[run == RUNS], center).X
            assert_array_equal(alone, together[run == RUNS])

    def test_an_image_added_to_every_scan_of_a_group_changes_nothing(self, betas, rng):
        X = betas.astype(float)
        moved = X + 100 * rng.normal(size=(3, 18))[np.repeat([0, 1, 2], 4)]
        ours, theirs = (prepare_scans(one, FINGERS, RUNS).X for one in (X, moved))
        assert_allclose(ours, theirs, atol=1e-10)


class TestDividing:
    def test_gains_change_nothing(self, pet):
        X = pet.astype(float)
        wild = X * np.exp(np.linspace(-8, 8, 10))[:, None]
        ours, theirs = (prepare_scans(one) for one in (X, wild))
        assert ours.scale == theirs.scale == "global"
        assert_allclose(ours.X, theirs.X, rtol=1e-12)
        assert_allclose(ours.X.mean(axis=1), 1)

    def test_means_that_tell_the_labels_are_warned_about(self, pet):
        """The rule sees no label; whoever has them is told what is lost."""
        y = np.repeat(["low", "high"], 5)
        equal = pet / pet.mean(axis=1, keepdims=True)
        high = equal * (np.repeat([1, 3], 5) + np.linspace(0, 0.1, 10))[:, None]
        with pytest.warns(UserWarning, match=r"divided away differs .* set scale='none'"):
            done = prepare_scans(high, y)
        assert done.scale == "global"
        assert "differs with the labels" in done.decisions[1]
        with pytest.warns(UserWarning, match=r"divided away differs"):
            prepare_scans(equal * np.linspace(1, 3, 10)[:, None], np.linspace(20, 70.5, 10))
        assert len(prepare_scans(high, np.tile(["low", "high"], 5)).decisions) == 1
        assert len(prepare_scans(pet, np.zeros(10)).decisions) == 1

    @pytest.mark.parametrize("mean", [0.0, -1.0])
    def test_a_mean_that_is_not_positive_is_refused_by_name(self, mean):
        X = np.array([[1.0, 2.0], [mean, mean]])
        with pytest.raises(ValueError, match=r"two.nii: its mean .* scale='global' cannot divide"):
            divide_by_means(X, ["one.nii", "two.nii"])
        with pytest.raises(ValueError, match=r"scan 1: its mean"):
            ScanPreparation(scale="global").fit(X)


class TestArrays:
    def test_new_scans_are_prepared_as_training_scans_were(self, betas):
        both = ScanPreparation()
        done = both.fit_transform(betas, FINGERS, groups=RUNS)
        assert both.standardize_ == "group"
        assert len(both.decisions_) == 2
        assert_array_equal(both.transform(betas, groups=RUNS), done)
        with pytest.warns(UserWarning, match=r"4 of 4 scans have no group .* 91 % right to 68 %"):
            without = both.transform(betas[:4])
        assert_allclose(without, betas[:4] - betas.mean(axis=0), atol=1e-5)

    def test_without_groups_there_is_nothing_to_centre(self, betas):
        both = ScanPreparation().fit(betas, FINGERS)
        assert both.standardize_ == "none"
        assert_array_equal(both.transform(betas), betas)
        with pytest.raises(
            ValueError, match=r"needs groups of two scans or more, and there are no"
        ):
            ScanPreparation(standardize="group").fit(betas)
        with pytest.raises(ValueError, match=r"each scan is alone"):
            ScanPreparation(standardize="group").fit(betas, groups=range(12))

    def test_choices_and_lengths_are_checked(self, betas):
        with pytest.raises(ValueError, match=r"scale='mean' is not a choice"):
            ScanPreparation(scale="mean").fit(betas)
        with pytest.raises(ValueError, match=r"standardize='run' is not a choice"):
            ScanPreparation(standardize="run").fit(betas)
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
            ScanPreparation().fit(betas, FINGERS, groups=RUNS[:-1])
        both = ScanPreparation(standardize="group").fit(betas, groups=RUNS)
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
            both.transform(betas, groups=RUNS[:-1])


class TestMaps:
    def test_betas_of_runs_are_centred_and_the_reason_is_told(self, betas):
        data = load_maps(images_of(betas), FINGERS, groups=RUNS)
        assert (data.standardize, data.images.scale) == ("group", "none")
        expected = betas - np.array([betas[run == RUNS].mean(axis=0) for run in RUNS])
        assert_allclose(data.X, expected, atol=1e-5)
        assert "subtracted: groups differ" in data.decisions[1]
        assert_allclose(data.images.center, betas.mean(axis=0), atol=1e-5)

    def test_3d_files_and_a_4d_file_are_the_same_maps(self, betas):
        maps = load_maps(images_of(betas), FINGERS, groups=RUNS)
        stacked = np.moveaxis(betas.reshape(-1, *SHAPE), 0, -1)
        beta_series = nibabel.Nifti1Image(stacked, np.eye(4))
        series = load_maps(beta_series, FINGERS, groups=RUNS)
        assert_array_equal(series.X, maps.X)
        assert series.standardize == "group"
        by_run = load_maps(beta_series, FINGERS, groups=RUNS, standardize="run")
        assert_allclose(by_run.X[RUNS == "r2"].mean(axis=0), 0, atol=1e-6)
        assert_allclose(by_run.X[RUNS == "r2"].std(axis=0), 1, atol=1e-5)
        new = by_run.images.transform(beta_series, groups=RUNS)
        assert_array_equal(new, by_run.X)

    def test_sites_that_hold_one_class_each_are_not_centred(self, betas):
        data = load_maps(images_of(betas), RUNS, groups=RUNS)
        assert data.standardize == "train"
        assert_array_equal(data.X, betas)
        assert "not centred by group: class shares" in data.decisions[1]

    def test_by_hand(self, betas, pet):
        data = load_maps(images_of(betas), RUNS, groups=RUNS, standardize="group", scale="none")
        assert data.standardize == "group"
        assert data.decisions == ()
        assert load_maps(images_of(pet), scale="none").images.scale == "none"
        scaled = load_maps(images_of(pet), scale="global")
        assert_allclose(scaled.X.mean(axis=1), 1, rtol=1e-5)
        assert scaled.decisions == ()
        with pytest.raises(ValueError, match=r"image 0 of the list: its mean over voxels is -"):
            load_maps(images_of(-pet), scale="global")

    def test_pet_is_divided_and_new_scans_too(self, pet):
        data = load_maps(images_of(pet), np.tile(["ill", "well"], 5))
        assert (data.standardize, data.images.scale) == ("train", "global")
        assert_allclose(data.X, pet / pet.mean(axis=1, keepdims=True), rtol=1e-5)
        new = load_maps(images_of(7 * pet[:1]), images=data.images)
        assert_allclose(new.X[0], data.X[0], rtol=1e-5)

    def test_new_maps_of_a_whole_run_alone_and_unknown(self, betas):
        images = load_maps(images_of(betas), FINGERS, groups=RUNS).images
        again = ImageSpace.from_dict(images.to_dict())
        assert again == images
        new = images_of(betas[:5] + 50)
        whole = again.transform(new, groups=["new"] * 4 + [None])
        assert_allclose(whole[:4], load_maps(images_of(betas), FINGERS, groups=RUNS).X[:4],
                        atol=1e-4)  # fmt: skip
        with pytest.warns(UserWarning, match="1 of 5 scans"):
            again.transform(new, groups=["new"] * 4 + ["other"])
        with pytest.raises(ValueError, match=r"groups must have one entry per scan. Expected 5"):
            again.transform(new, groups=["new"] * 4)

    def test_a_new_4d_file_is_a_group(self, betas):
        images = load_maps(images_of(betas), FINGERS, groups=RUNS).images
        run = np.moveaxis(betas[:4].reshape(-1, *SHAPE), 0, -1)
        assert_allclose(images.transform(nibabel.Nifti1Image(run, np.eye(4))).mean(axis=0), 0,
                        atol=1e-6)  # fmt: skip

    def test_a_reader_without_training_maps_cannot_centre_a_lone_map(self, betas):
        reader = fit_image_space(images_of(betas), standardize="group")
        assert_allclose(reader.transform(images_of(betas), groups=RUNS)[:4].mean(axis=0), 0,
                        atol=1e-6)  # fmt: skip
        with pytest.raises(ValueError, match=r"mean of the training maps is not known"):
            reader.transform(images_of(betas[:1]))

    def test_what_is_wrong_with_a_map_is_found_before_it_is_centred(self, rng):
        groups, y = np.repeat([0, 1], 4), np.tile(["a", "b"], 4)
        X = rng.normal(size=(8, 27)) + 5 * groups[:, None]
        X[2] = 5
        images = [nibabel.Nifti1Image(x.reshape(3, 3, 3).astype("f4"), np.eye(4)) for x in X]
        data = load_maps(images, y, groups=groups)
        assert data.standardize == "group"
        assert [name for name, _ in data.findings] == ["constant-scan"]

    def test_runs_cut_into_trials_are_not_maps(self, rng):
        run = nibabel.Nifti1Image(rng.normal(size=(3, 3, 2, 12)), np.eye(4))
        labels = ["rest", "rest", "face", "face", "rest", "house"] * 2
        with pytest.raises(ValueError, match=r"standardize='group' is for maps"):
            load_runs(run, labels=labels, standardize="group")
        raw = load_runs(run, labels=labels, mask="data", standardize="none")
        assert raw.images.scale == "none"
        bold = nibabel.Nifti1Image(run.get_fdata() + 100, np.eye(4))
        scaled = load_runs(bold, labels=labels, mask="data", standardize="none", scale="global")
        assert_allclose(scaled.X.mean(axis=1), 1, rtol=1e-5)

    @pytest.mark.parametrize("center", [np.zeros(3), np.full(18, np.nan), np.zeros(18, int)])
    def test_a_mean_that_is_not_one_is_refused(self, betas, center):
        saved = load_maps(images_of(betas), FINGERS, groups=RUNS).images.to_dict()
        with pytest.raises(ValueError, match=r"one finite value per voxel"):
            ImageSpace.from_dict(saved | {"center": center})
