import numpy as np
import pandas as pd
import pytest

from voxprior.images import Dataset, load_maps
from voxprior.space import VoxelSpace


def test_one_map_a_subject(maps, mask_path):
    paths, _ = maps
    data = load_maps(paths, list("aabbab"), mask=mask_path, covariates={"age": range(6)})
    assert data.X.shape == (6, 12)
    assert data.standardize == "train"
    assert data.groups is None
    assert data.covariates["age"].tolist() == list(range(6))
    assert data.names == tuple(str(p) for p in paths)
    half = data.take(data.y == "b")
    assert half.names == tuple(str(paths[i]) for i in (2, 3, 5))
    assert half.covariates["age"].tolist() == [2, 3, 5]
    np.testing.assert_array_equal(half.X, data.X[[2, 3, 5]])


def test_a_new_scan_is_read_the_same_way(maps, mask_path):
    paths, _ = maps
    data = load_maps(paths[:5], list("aabba"), mask=mask_path, smoothing_fwhm=4.0)
    new = load_maps(paths[5], images=data.images)
    assert new.y is None
    together = load_maps(paths, images=data.images)
    np.testing.assert_array_equal(new.X[0], together.X[5])
    with pytest.raises(ValueError, match="Leave out mask"):
        load_maps(paths, images=data.images, mask=mask_path)


def test_labels_from_a_table(maps, mask_path, tmp_path):
    paths, _ = maps
    table = tmp_path / "participants.tsv"
    frame = pd.DataFrame({"participant_id": [f"sub-0{i}" for i in (6, 5, 4, 3, 2, 1)]})
    frame["dx"], frame["age"], frame["site"] = list("xyxyxy"), range(60, 66), list("ppqqrr")
    frame.to_csv(table, sep="\t", index=False)
    data = load_maps(
        paths, table=table, label="dx", covariates=["age"], groups="site", mask=mask_path
    )
    assert data.y.tolist() == list("yxyxyx")
    assert data.covariates.columns.tolist() == ["age"]
    assert data.covariates["age"].tolist() == [65, 64, 63, 62, 61, 60]
    assert data.groups.tolist() == list("rrqqpp")
    fewer = load_maps(paths[:4], table=table, label="dx", unmatched="drop", mask=mask_path)
    assert fewer.n_samples == 4
    assert len(fewer.dropped) == 2


def test_beta_series_are_runs(save, rng, mask_path):
    values = rng.normal(size=(2, 5, 4, 3, 6))
    paths = [save(v, f"run-{i}_betas.nii.gz") for i, v in enumerate(values)]
    data = load_maps(paths, list("abcabc") * 2, mask=mask_path)
    assert data.X.shape == (12, 12)
    assert data.groups.tolist() == ["run-0_betas"] * 6 + ["run-1_betas"] * 6
    assert data.standardize == "run"
    np.testing.assert_allclose(data.X[:6].mean(axis=0), 0, atol=1e-6)
    assert data.names[7] == f"{paths[1]}, volume 1"
    assert load_maps(paths, list("abcabc") * 2).space.n_voxels == 60  # no EPI mask for betas
    with pytest.raises(ValueError, match=r"run-0_betas.nii.gz: has 6 volumes, but the table has 0"):
        load_maps(paths, table=pd.DataFrame({"file": []}), mask=mask_path)


def test_images_without_labels_and_labels_without_images(maps):
    paths, _ = maps
    with pytest.raises(ValueError, match=r"6 images but 4 labels: .* from .*sub-05_map.nii.gz on"):
        load_maps(paths, list("aabb"))
    with pytest.raises(ValueError, match="6 images but 7 labels: labels without images"):
        load_maps(paths, list("aabbabc"))
    with pytest.raises(ValueError, match="6 images but 5 groups"):
        load_maps(paths, list("aabbab"), groups=range(5))
    with pytest.raises(ValueError, match="Give table too"):
        load_maps(paths, label="dx")
    with pytest.raises(ValueError, match="given twice"):
        load_maps(paths, list("aabbab"), table=pd.DataFrame())


def test_constant_voxels_are_warned_about(maps, save, mask_path):
    values = maps[1].copy()
    values[:, 2, 1, 1] = 3
    paths = [save(v, f"still{i}.nii.gz") for i, v in enumerate(values)]
    with pytest.warns(UserWarning, match=r"6 maps, .*still0.nii.gz the first: 1 of 12 voxels"):
        load_maps(paths, mask=mask_path)


def test_a_dataset_checks_its_lengths():
    space = VoxelSpace.grid((2, 2))
    with pytest.raises(ValueError, match=r"shape \(2, 5\) and 4 voxels"):
        Dataset(np.zeros((2, 5)), None, space)
    with pytest.raises(
        ValueError, match=r"groups must have one entry per sample. Expected 2, got 3"
    ):
        Dataset(np.zeros((2, 4)), None, space, groups=np.zeros(3))


class TestBetasInATable:
    """One 4-D file and a table with one row per volume, beside the same betas as 3-D files."""

    RUNS, FINGERS = np.repeat([1, 2, 3], 4), np.tile(["thumb", "index"], 6)

    @pytest.fixture
    def betas(self, rng):
        offsets = 4 * rng.normal(size=(3, 5, 4, 3))[self.RUNS - 1]
        return (rng.normal(size=(12, 5, 4, 3)) + offsets).astype("f4")

    @pytest.fixture
    def table(self):
        return pd.DataFrame({"finger": self.FINGERS, "Run": self.RUNS})

    def test_volumes_are_maps(self, save, betas, table):
        series = save(np.moveaxis(betas, 0, -1), "betas.nii.gz")
        files = [save(beta, f"beta_{i:04d}.nii") for i, beta in enumerate(betas)]
        named = table.assign(file=[path.name for path in files])
        one = load_maps(series, table=table, label="finger")
        many = load_maps(files, table=named.sample(frac=1, random_state=0), label="finger")
        np.testing.assert_array_equal(one.X, many.X)
        np.testing.assert_array_equal(one.groups, self.RUNS)
        assert one.y.tolist() == many.y.tolist() == self.FINGERS.tolist()
        assert one.standardize == many.standardize == "group"
        assert one.decisions == many.decisions
        assert one.decisions[0] == "Scans were grouped by the column 'Run'."
        assert one.names[3] == f"{series}, volume 3"

    def test_a_volume_without_a_label_may_be_left_out(self, save, betas, table):
        series = save(np.moveaxis(betas, 0, -1), "betas.nii.gz")
        table.loc[2, "finger"] = None
        data = load_maps(series, table=table, label="finger", groups="run", unmatched="drop")
        kept = np.delete(np.arange(12), 2)
        np.testing.assert_array_equal(data.groups, self.RUNS[kept])
        assert data.n_samples == 11
        assert data.names[2] == f"{series}, volume 3"

    def test_files_are_the_groups_where_no_column_is(self, save, betas, table):
        paths = [
            save(np.moveaxis(betas[run == self.RUNS], 0, -1), f"run{run}.nii") for run in (1, 2, 3)
        ]
        named = table.drop(columns="Run").assign(image=[f"run{run}" for run in self.RUNS])
        data = load_maps(paths, table=named, label="finger")
        assert data.groups.tolist() == [f"run{run}" for run in self.RUNS]

    def test_other_columns_come_first_or_hide_the_runs(self, save, betas, table):
        series = save(np.moveaxis(betas, 0, -1), "betas.nii.gz")
        several = table.assign(subject=np.tile(["01", "02", "03"], 4))
        with pytest.warns(UserWarning, match="Maps of one subject are kept together"):
            data = load_maps(series, table=several, label="finger")
        assert data.groups.tolist() == several["subject"].tolist()
        assert load_maps(series, table=table, label="run").groups is None
        assert load_maps(series, table=table, label="finger", covariates=["run"]).groups is None
        constant = table.assign(Run=1)
        assert load_maps(series, table=constant, label="finger").groups is None
        by_run = load_maps(series, table=table.assign(chunk=0), label="finger")
        assert by_run.groups is None
        given = load_maps(series, table=table, label="finger", groups=self.RUNS + 1)
        assert given.groups.tolist() == (self.RUNS + 1).tolist()

    def test_surface_maps_in_one_image(self, surface, table):
        series = surface(12)
        data = load_maps(series, table=table, label="finger", standardize="none")
        whole = load_maps(series, self.FINGERS, standardize="none")
        np.testing.assert_array_equal(data.X, whole.X)
