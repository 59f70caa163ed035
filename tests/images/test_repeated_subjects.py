"""Maps of one subject are kept together where nothing else is said, and that is said."""

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.errors import InputError, InputWarning
from voxprior.images import load_maps
from voxprior.images.tables import repeated_subject


@pytest.fixture
def maps(tmp_path):
    """Two maps of each of 10 subjects in files, and their table."""
    rng = np.random.default_rng(0)
    files = []
    for i in range(20):
        path = tmp_path / f"map{i:02d}.nii.gz"
        nibabel.save(nibabel.Nifti1Image(rng.normal(5, 1, (4, 4, 3)), np.eye(4)), path)
        files.append(str(path))
    table = pd.DataFrame(
        {
            "file": [f"map{i:02d}" for i in range(20)],
            "Subject": np.repeat(np.arange(10), 2),
            "group": np.repeat(np.tile(["a", "b"], 5), 2),
            "visit": np.tile([1, 2], 10),
        }
    )
    return files, table


def test_by_a_column_of_the_table(maps):
    files, table = maps
    with pytest.warns(InputWarning, match=r"Subject: 10 subjects, 20 maps"):
        data = load_maps(files, table=table, label="group")
    assert data.groups.tolist() == table["Subject"].tolist()
    assert "kept together (Subject: 10 subjects" in data.notes[-1]
    assert data.columns.columns.tolist() == ["file", "Subject", "visit"]
    assert data.take([3, 5]).columns["file"].tolist() == ["map03", "map05"]
    assert data.known()["columns"].keys() == {"file", "Subject", "visit"}


def test_what_is_given_is_taken(maps, recwarn):
    files, table = maps
    data = load_maps(files, table=table, label="group", groups="visit")
    assert data.groups.tolist() == table["visit"].tolist()
    assert not [w for w in recwarn if "kept together" in str(w.message)]


def test_folds_divide_no_subject(maps):
    files, table = maps
    with pytest.warns(InputWarning, match="kept together"):
        data = load_maps(files, table=table, label="group")
    result = Decoder("logistic").evaluate(data)
    assert result.settings["n_groups"] == 10
    told = {check.name: check.outcome for check in result.checks}
    assert told["shared-group"] == told["column-straddles"] == "not found"
    # Subjects are of one class, five of each: every fold leaves one of both out.
    assert told["leave-one-out"] == "not found"
    assert len(result.scores) == 5
    assert (result.predictions.groupby("fold")["y_true"].nunique() == 2).all()
    # Where the user leaves runs out instead, every subject is on both sides.
    data = load_maps(files, table=table, label="group", groups="visit")
    made = {c.name: c for c in Decoder("logistic").evaluate(data, allow="labels-confounded").checks}
    assert made["column-straddles"].outcome != "not checked"


FILES = [f"maps/sub-{i // 2}_ses-{i % 2}.nii" for i in range(6)]


@pytest.mark.parametrize(
    ("files", "columns", "y", "expected"),
    [
        (FILES, None, None, "sub-"),
        (FILES, {"patient_ID": list("aabbcc")}, None, "patient_ID"),
        (list("abcdef"), {"PARTICIPANT": [1, 1, 2, 2, 3, 4]}, None, "PARTICIPANT"),
        (list("abcdef"), {"subject": list("abcdef")}, None, None),
        (list("abcdef"), {"subject": ["a"] * 6}, None, None),
        (list("abcdef"), {"subject": ["a", "d", "b", None, "c", "e"]}, None, None),
        (FILES, {"subject": ["a", "a", "b", None, "c", "d"]}, None, "sub-"),
        (list("abcdef"), {"subject": ["a", "a", "b", "b", "b", None]}, list("xxyyyz"), "refused"),
        (list("abcdef"), {"subject": list("aabbcc")}, list("xxyyzz"), None),
        (list("abcdef"), {"subject": list("aabbcc")}, list("xxyyxx"), "subject"),
        (list("abcdef"), {"subjective": list("aabbcc")}, None, None),
        ([*FILES[:5], "other.nii"], None, None, None),
    ],
)
def test_who_has_several_scans(files, columns, y, expected):
    table = None if columns is None else pd.DataFrame(columns)
    if expected == "refused":
        with pytest.raises(InputError, match="no subject for 1 of 6 scans"):
            repeated_subject(files, table, y)
        return
    found = repeated_subject(files, table, y)
    assert (found and found[0]) == expected
