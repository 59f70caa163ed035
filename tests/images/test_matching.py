"""Rows find their files whatever SPM put before the names; what is not certain is refused."""

import numpy as np
import pandas as pd
import pytest

from voxprior.images import join_table, read_table
from voxprior.images.matching import find_column, match_rows, volume_rows


def rows(files, keys):
    return match_rows(files, pd.Series(keys), "the table").tolist()


class TestPrefixes:
    @pytest.mark.parametrize(
        ("files", "keys"),
        [
            (["swsub-01.nii", "swsub-02.nii"], ["sub-02", "sub-01"]),
            (["swsub-01_T1w.nii", "swsub-02_T1w.nii"], ["sub-02", "01"]),
            (["out/s01.hdr", "out/s02.img"], ["02", "01"]),
            (["con_0001.nii", "con_0002.nii"], ["0002.img", "0001.img"]),
            (["scon_0001.nii", "scon_0002.nii"], ["con_0002.nii", "con_0001.nii"]),
            (["smwc1anna.nii.gz", "smwc1bert.nii.gz"], ["bert", "anna.nii"]),
            (["mri/mwp1anna.nii", "mri/mwp1bert.nii"], ["bert", "anna"]),
            (["mri/mwp1sub-01_T1w.nii", "mri/mwp1sub-02_T1w.nii"], ["sub-02", "sub-01"]),
            (["s6mwp1IXI002.nii", "s6mwp1IXI003.nii"], ["IXI003", "IXI002"]),
            (["m0wp1anna.nii", "m0wp1bert.nii"], ["bert", "anna"]),
            (["anna.nii", "bert.nii"], ["wbert.nii.gz", "wanna.nii.gz"]),
            (["a/anna.nii", "b/bert.nii"], ["con_bert", "con_anna"]),
        ],
    )
    def test_one_prefix_for_all(self, files, keys):
        assert rows(files, keys) == [1, 0]

    def test_a_plain_name_comes_first(self):
        assert rows(["s01.nii", "01.nii"], ["01", "s01"]) == [1, 0]
        # The row has its file by name, so that the smoothed one has no row.
        assert rows(["s01.nii", "01.nii"], ["01"]) == [-1, 0]

    def test_other_letters_are_not_a_prefix(self):
        assert rows(["x01.nii", "s02.nii"], ["01", "02"]) == [-1, 1]
        assert rows(["s01.nii"], ["w01"]) == [-1]

    def test_the_prefix_of_most_files_is_the_prefix(self):
        assert rows(["w1.nii", "w2.nii", "s3.nii"], ["1", "2", "3"]) == [0, 1, -1]

    def test_two_prefixes_that_explain_as_much_are_refused(self):
        with pytest.raises(
            ValueError, match=r"'s' before the names of files or 'w' before the nam"
        ):
            rows(["s01.nii", "w01.nii"], ["01"])

    def test_several_rows_of_a_file_are_refused_too(self):
        with pytest.raises(ValueError, match=r"s01.nii has 2 rows"):
            rows(["s01.nii"], ["01", "01.nii"])


class TestColumns:
    def test_whatever_their_case(self, tmp_path):
        path = tmp_path / "people.csv"
        path.write_text("SUBJECT,Group ,AGE\n01,a,61\n02,b,74\n")
        assert read_table(path)["SUBJECT"].tolist() == ["01", "02"]
        found = join_table(["sub-02.nii", "sub-01.nii"], path, label="group", covariates=["Age"])
        assert found.y.tolist() == ["b", "a"]
        assert found.covariates.columns.tolist() == ["Age"]  # as it was asked for
        by_key = join_table(["sub-02.nii"], path, key="subject", label="AGE", unmatched="drop")
        assert by_key.y.tolist() == [74]

    def test_a_key_of_any_name_stays_text(self, tmp_path):
        path = tmp_path / "people.csv"
        path.write_text("code,group\n01,a\n02,b\n")
        found = join_table(["02.nii", "01.nii"], path, key="Code", label="group")
        assert found.y.tolist() == ["b", "a"]

    def test_two_columns_that_differ_by_case_are_refused(self):
        frame = pd.DataFrame(columns=["Age", "AGE", "sex"])
        assert find_column(frame, "AGE") == "AGE"
        with pytest.raises(ValueError, match=r"'age' may be any of the columns 'Age', 'AGE'"):
            find_column(frame, "age")
        assert find_column(frame, "site") is None


class TestNearestNames:
    def test_what_has_no_partner_is_told_with_the_nearest(self):
        table = pd.DataFrame({"file": ["patient_1.nii", "patient_02.nii"], "dx": ["a", "b"]})
        with pytest.raises(ValueError) as told:
            join_table(["maps/patient_01.nii", "maps/patient_02.nii"], table, label="dx")
        text = str(told.value)
        assert "patient_01.nii: has no row in the table (the nearest is 'patient_1.nii')" in text
        assert "'patient_1.nii' has no image (the nearest is 'patient_01')" in text

    def test_among_all_files_where_each_has_a_row(self):
        table = pd.DataFrame({"file": ["patient_1", "patient_2"], "dx": ["a", "b"]})
        with pytest.raises(
            ValueError, match=r"'patient_2' has no image \(the nearest is 'patient_1"
        ):
            join_table(["patient_1.nii"], table, label="dx")

    def test_nothing_where_no_name_is_like_it(self):
        table = pd.DataFrame({"file": ["patient_1", "xyz"], "dx": ["a", "b"]})
        with pytest.raises(ValueError, match=r"'xyz' has no image\. Mend"):
            join_table(["patient_1.nii"], table, label="dx")


class TestVolumes:
    BETAS = pd.DataFrame({"finger": list("abab"), "run": [1, 1, 2, 2]})

    def test_one_file_and_as_many_rows(self):
        assert volume_rows(["betas.nii"], [4], self.BETAS, None, "t").tolist() == [0, 1, 2, 3]
        found = join_table(["betas.nii"], self.BETAS, label="Finger", volumes=[4])
        assert found.y.tolist() == list("abab")

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_column_may_count_the_volumes(self, first):
        table = self.BETAS.assign(Volume=np.array([3, 1, 0, 2]) + first)
        assert volume_rows(["betas.nii"], [4], table, None, "t").tolist() == [2, 1, 3, 0]
        for wrong in ([0, 1, 2, 2], [2, 3, 4, 5], ["a", 1, 2, 3]):
            with pytest.raises(ValueError, match=r"'Volume' does not count the volumes"):
                volume_rows(["betas.nii"], [4], table.assign(Volume=wrong), None, "t")

    def test_several_files_are_named(self):
        table = self.BETAS.assign(file=["two.nii", "two.nii", "one.nii", "one.nii"])
        assert volume_rows(["one.nii.gz", "two.nii"], [2, 2], table, "file", "t").tolist() == [
            2, 3, 0, 1,
        ]  # fmt: skip
        with pytest.raises(ValueError, match=r"no column that names the file"):
            join_table(["one.nii", "two.nii"], self.BETAS, label="finger", volumes=[2, 2])

    @pytest.mark.parametrize("n", [3, 5])
    def test_other_numbers_of_rows_are_refused(self, n):
        with pytest.raises(ValueError, match=rf"has {n} volumes, but t has 4 rows for it"):
            volume_rows(["betas.nii"], [n], self.BETAS, None, "t")

    def test_a_volume_without_a_label_is_told_or_left_out(self):
        table = self.BETAS.assign(finger=["a", None, "a", "b"])
        with pytest.raises(ValueError, match=r"betas.nii, volume 1: no value of 'finger'"):
            join_table(["betas.nii"], table, label="finger", volumes=[4])
        found = join_table(["betas.nii"], table, label="finger", volumes=[4], unmatched="drop")
        assert found.positions.tolist() == [0, 2, 3]
