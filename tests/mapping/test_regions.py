"""Regions: their table, atlases of all kinds, and what is refused."""

import nibabel
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import Bunch

from voxprior import VoxelSpace
from voxprior.errors import InputWarning
from voxprior.mapping import Atlas, map_test, region_test, searchlight
from voxprior.mapping.regions import read_regions

AFFINE = np.array([[2.0, 0, 0, -10], [0, 2, 0, -20], [0, 0, 2, -30], [0, 0, 0, 1]])
SPACE = VoxelSpace.grid((4, 5, 3), AFFINE)
ATLAS = np.repeat([0, 1, 2, 3], 15)


@pytest.fixture
def data(rng):
    y, runs = np.tile(["face", "house"], 12), np.repeat(np.arange(6), 4)
    X = rng.normal(size=(24, 60))
    X[:, 30:34] += 3 * (y == "face")[:, None]
    return X, y, runs


class TestTable:
    def test_the_region_that_differs(self, data):
        found = region_test(
            *data, ATLAS, names={1: "V1", 2: "FFA", 3: "PPA"}, space=SPACE, n_permutations=200
        )
        table = found.table
        assert table["region"].tolist()[0] == "FFA"
        assert table["voxels"].tolist() == [15, 15, 15]
        assert (table["p_fwer"] <= 0.05).tolist() == [True, False, False]
        first = table.iloc[0]
        assert first["low"] <= first["accuracy"] <= first["high"]
        assert first["peak_voxel"] in range(30, 34)
        place = np.array(np.unravel_index(first["peak_voxel"], (4, 5, 3)))
        np.testing.assert_allclose(
            first[["peak_x", "peak_y", "peak_z"]].astype(float),
            AFFINE[:3, :3] @ place + AFFINE[:3, 3],
        )
        assert first["share"] == table["share"].max()
        assert table["share"].sum() == pytest.approx(1.0)
        assert repr(found).startswith("Regions: 1 of 3 significant")

    def test_a_region_is_a_set_like_any(self, data):
        """The neighbourhood of a searchlight given as a region has the same score."""
        X, y, runs = data
        light = searchlight(X, y, runs, SPACE, radius=100, n_permutations=20)
        found = region_test(X, y, runs, np.ones(60, int), n_permutations=20)
        assert found.table["accuracy"][0] == light.score[0]
        np.testing.assert_array_equal(found.null_max, light.null_max)

    def test_peaks_are_those_of_the_map(self, data):
        X, y, runs = data
        found = region_test(X, y, runs, ATLAS, n_permutations=100)
        test = map_test(X, y, runs, n_permutations=100)
        for row in found.table.itertuples():
            members = int(row.region) == ATLAS
            assert abs(row.peak_statistic) == np.abs(test.statistic[members]).max()
            assert row.peak_p == test.p_fwer[row.peak_voxel]

    def test_shares_of_given_weights(self, data):
        X, y, runs = data
        weights = np.zeros(60)
        weights[20] = 1.0
        found = region_test(
            X, y, runs, ATLAS, weights=weights, n_permutations=10, standardize="none"
        )
        by_name = found.table.set_index("region")["share"]
        assert by_name.to_dict() == {"1": 1.0, "2": 0.0, "3": 0.0}
        with pytest.raises(ValueError, match="60 weights"):
            region_test(X, y, runs, ATLAS, weights=weights[1:], n_permutations=10)

    def test_three_classes(self, rng):
        y, runs = np.tile([0, 1, 2], 8), np.repeat(np.arange(4), 6)
        X = rng.normal(size=(24, 60)) + 3 * (y == 1)[:, None] * (ATLAS == 2)
        found = region_test(X, y, runs, ATLAS, n_permutations=50)
        assert found.table["region"][0] == "2"
        assert found.table["share"].idxmax() == 0

    @pytest.mark.parametrize("options", [{"score": "auc"}, {"estimator": GaussianNB()}])
    def test_no_interval_where_none_belongs(self, data, options):
        found = region_test(*data, ATLAS, n_permutations=3, **options)
        assert found.table["low"].isna().all()

    def test_several_times(self, data):
        X, y, runs = data
        found = region_test(np.hstack([X, X]), y, runs, ATLAS, space=SPACE, n_permutations=10)
        assert found.table["peak_voxel"].max() < 60
        assert found.table["voxels"].tolist() == [15, 15, 15]

    def test_scans_all_alike(self):
        y, runs = np.tile([0, 1], 4), np.repeat(np.arange(4), 2)
        found = region_test(np.ones((8, 60)), y, runs, ATLAS)
        assert (found.table["accuracy"] == 0.5).all()
        assert (found.table["share"] == 0).all()


class TestAtlas:
    def test_of_an_image(self, data, tmp_path):
        image = nibabel.Nifti1Image(ATLAS.reshape(4, 5, 3).astype(np.int16), AFFINE)
        path, table = tmp_path / "atlas.nii.gz", tmp_path / "atlas.tsv"
        nibabel.save(image, path)
        table.write_text("index\tname\n1\tleft\n2\tright\n3\tmiddle\n")
        atlas = Bunch(maps=image, labels=["Background", "left", "right", "middle"])
        for labels, names in ((image, table), (path, table), (atlas, None)):
            found = read_regions(labels, names, SPACE, 60)
            assert found.names == ("left", "right", "middle")
            assert found.sets.members(0).tolist() == list(range(15, 30))

    def test_that_was_read_before(self):
        found = read_regions(Atlas(ATLAS, {1: "a", 2: "b"}), None, None, 60)
        assert found.names == ("a", "b", "3")

    def test_words_instead_of_numbers(self):
        words = np.array(["", "V1", "V2", "V3"], dtype=object)[ATLAS]
        found = read_regions(words, None, None, 60)
        assert found.names == ("V1", "V2", "V3")
        assert found.sets.members(2).tolist() == list(range(45, 60))

    def test_regions_outside_the_mask_are_told(self):
        with pytest.warns(InputWarning, match=r"left out: d, e, f, \.\.\. \(4 regions\)"):
            found = read_regions(ATLAS, dict(enumerate("abcdefg", 1)), None, 60)
        assert found.absent == ("d", "e", "f", "g")


class TestRefused:
    def test_another_grid(self, data):
        small = nibabel.Nifti1Image(np.ones((4, 5, 2), np.int16), AFFINE)
        with pytest.raises(ValueError, match="grid is 4 x 5 x 2"):
            region_test(*data, small, space=SPACE)
        moved = nibabel.Nifti1Image(np.ones((4, 5, 3), np.int16), np.eye(4))
        with pytest.raises(ValueError, match="affine differs"):
            region_test(*data, moved, space=SPACE)

    def test_no_voxel_in_any_region(self, data):
        with pytest.raises(ValueError, match="No region has a voxel"):
            region_test(*data, np.zeros(60, int))
        with pytest.raises(ValueError, match="no region inside"):
            region_test(*data, nibabel.Nifti1Image(np.zeros((4, 5, 3), "i2"), AFFINE), space=SPACE)

    def test_what_does_not_fit(self, data):
        for words, given in {
            "no regions": {},
            "one label for each of 60": {"labels": ATLAS[1:]},
            "shape \\(4, 5, 3\\)": {"labels": ATLAS.reshape(4, 5, 3)},
            "fractions": {"labels": np.full(60, 0.5)},
            "needs voxels in a space": {
                "labels": nibabel.Nifti1Image(np.ones((4, 5, 3), np.int16), AFFINE)
            },
        }.items():
            with pytest.raises(ValueError, match=words):
                region_test(*data, **given)

    def test_a_file_that_is_not_there(self, data):
        with pytest.raises(FileNotFoundError, match=r"atlas.nii"):
            region_test(*data, "atlas.nii", space=SPACE)
