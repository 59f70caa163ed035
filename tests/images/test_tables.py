import numpy as np
import pandas as pd
import pytest

from voxprior.errors import InputError
from voxprior.images import join_table, read_table

FILES = ["out/sub-02/anat/sub-02_T1w.nii.gz", "out/sub-01/anat/sub-01_T1w.nii.gz"]


@pytest.fixture
def participants(tmp_path):
    path = tmp_path / "participants.tsv"
    path.write_text("participant_id\tage\tsex\tdx\nsub-01\t61\tF\tcontrol\nsub-02\t74\tM\tn/a\n")
    return path


def test_participants_join_by_subject(participants):
    found = join_table(FILES, participants, label="age", covariates=["sex"])
    assert found.y.tolist() == [74, 61]
    assert found.covariates["sex"].tolist() == ["M", "F"]
    assert found.positions.tolist() == [0, 1]
    assert found.dropped == ()


def test_numbers_without_prefix_and_leading_zeros(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("subject,group\n01,a\n02,b\n")
    assert read_table(path)["subject"].tolist() == ["01", "02"]
    assert join_table(FILES, path, label="group").y.tolist() == ["b", "a"]


@pytest.mark.parametrize(
    "keys",
    [
        ["sub-01_T1w.nii.gz", "sub-02_T1w.nii.gz"],
        ["sub-01_T1w", "sub-02_T1w"],
        ["sub-01/anat/sub-01_T1w.nii.gz", "sub-02/anat/sub-02_T1w.nii.gz"],
        ["out/sub-01/anat/sub-01_T1w.nii.gz", "out/sub-02/anat/sub-02_T1w.nii.gz"],
    ],
)
def test_files_join_by_name(keys):
    table = pd.DataFrame({"file": keys, "dx": ["a", "b"]})
    assert join_table(FILES, table, label="dx").y.tolist() == ["b", "a"]


def test_equal_names_in_different_folders():
    files = ["p1/map.nii.gz", "p2/map.nii.gz"]
    by_path = pd.DataFrame({"file": ["p2/map.nii", "p1/map.nii"], "dx": ["b", "a"]})
    by_folder = pd.DataFrame({"id": ["p2", "p1"], "dx": ["b", "a"]})
    for table in (by_path, by_folder):
        assert join_table(files, table, label="dx").y.tolist() == ["a", "b"]
    vague = pd.DataFrame({"file": ["map.nii", "map.nii"], "dx": ["b", "a"]})
    with pytest.raises(ValueError, match=r"p1/map.nii.gz has 2 rows"):
        join_table(files, vague, label="dx")


def test_several_files_of_a_subject_share_its_row():
    table = pd.DataFrame({"participant_id": ["sub-01"], "dx": ["a"]})
    found = join_table(["sub-01_ses-1.nii", "sub-01_ses-2.nii"], table, label="dx")
    assert found.y.tolist() == ["a", "a"]


def test_images_without_labels_and_labels_without_images(participants):
    more = [*FILES, "out/sub-03_T1w.nii.gz"]
    with pytest.raises(ValueError, match=r"sub-03_T1w.nii.gz: has no row in .*participants.tsv"):
        join_table(more, participants, label="age")
    with pytest.raises(ValueError, match=r"participants.tsv: 'sub-01' has no image"):
        join_table(FILES[:1], participants, label="age")
    with pytest.raises(ValueError, match=r"sub-02_T1w.nii.gz: no value of 'dx'"):
        join_table(FILES, participants, label="dx")
    found = join_table(more, participants, label="dx", unmatched="drop")
    assert found.y.tolist() == ["control"]
    assert found.positions.tolist() == [1]
    assert len(found.dropped) == 2
    with pytest.raises(ValueError, match="no file has a complete row"):
        join_table(["x.nii"], participants, label="age", unmatched="drop")


def test_missing_columns_and_files(participants, tmp_path):
    with pytest.raises(ValueError, match=r"participants.tsv: has no column 'site'. Got 'part"):
        join_table(FILES, participants, label="age", covariates=["site"])
    with pytest.raises(ValueError, match=r"no column that names the file .*got 'name'. Say .* key"):
        join_table(FILES, pd.DataFrame({"name": ["a"]}))
    with pytest.raises(FileNotFoundError, match=r"no.tsv"):
        read_table(tmp_path / "no.tsv")
    empty = tmp_path / "empty.tsv"
    empty.write_text("")
    with pytest.raises(ValueError, match=r"empty.tsv: cannot be read as a table"):
        read_table(empty)
    with pytest.raises(ValueError, match=r"unmatched='.*' is not a choice"):
        join_table(FILES, participants, unmatched="ignore")


def test_labels_keep_their_kind(participants):
    assert np.issubdtype(join_table(FILES, participants, label="age").y.dtype, np.integer)
    assert join_table(FILES, participants, label="sex").y.dtype.kind == "U"
    assert join_table(FILES, participants).y is None


@pytest.mark.parametrize("named", [{"label": ""}, {"label": "age", "key": ""}])
def test_a_column_without_a_name_is_not_no_column(participants, named):
    with pytest.raises(ValueError, match="has no column ''"):
        join_table(FILES, participants, **named)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_blanks_around_cells_make_no_other_subject_or_class(tmp_path, name):
    sep = "," if name.endswith("csv") else "\t"
    rows = [
        ["subject", "group", "age"],
        ["p1", " a ", " 61"],
        ["p1 ", "a", "62 "],
        ["p2", "b", " "],
    ]
    (tmp_path / name).write_text("\n".join(sep.join(row) for row in rows) + "\n")
    found = read_table(tmp_path / name)
    assert found["subject"].tolist() == ["p1", "p1", "p2"]
    assert found["group"].tolist() == ["a", "a", "b"]
    np.testing.assert_array_equal(found["age"], [61, 62, np.nan])


def test_an_empty_cell_at_the_end_of_rows_shifts_no_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,run\nface,1,\nhouse,2,\n")
    assert read_table(path).to_dict("list") == {"label": ["face", "house"], "run": [1, 2]}
    path.write_text("label,run\nface,1,,\nhouse,2,,\n")
    assert read_table(path).to_dict("list") == {"label": ["face", "house"], "run": [1, 2]}
    path.write_text("label,run\nface,1,x\nhouse,2,\n")
    with pytest.raises(InputError, match="rows have 3 cells, but the header names 2 columns"):
        read_table(path)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["inf"], "infinite"),
        (["unknown"], "because of 'unknown'"),
        (["20,5"] * 3, "because of '20,5'"),
    ],
)
def test_numbers_that_are_not_read_as_such_are_told(tmp_path, cells, told):
    names = [f"sub-{n:02d}" for n in range(20 + len(cells))]
    table = pd.DataFrame({"subject": names, "age": [*(f"{30.5 + n}" for n in range(20)), *cells]})
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    with pytest.raises(InputError, match=told):
        join_table([f"{name}.nii" for name in names], tmp_path / "t.tsv", label="age")


def test_words_and_a_few_numbers_are_classes(tmp_path):
    table = pd.DataFrame({"subject": ["s1", "s2", "s3"], "group": ["1", "2", "3b"]})
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    found = join_table(["s1.nii", "s2.nii", "s3.nii"], tmp_path / "t.tsv", label="group")
    assert found.y.tolist() == ["1", "2", "3b"]


def test_another_separator_is_told(tmp_path):
    (tmp_path / "t.tsv").write_text("file;label\na;b\n")
    with pytest.raises(InputError, match="parted by semicolons"):
        join_table(["a.nii"], tmp_path / "t.tsv", label="label")
