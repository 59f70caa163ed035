"""``voxprior decode --prior-from``: a folder of other subjects."""

import shutil

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import SHAPE, save

from voxprior import Decoder
from voxprior.decoder import with_prior_from


@pytest.fixture
def study(tmp_path):
    """Four subjects, each with maps of two classes in four runs, and a table."""
    rng = np.random.default_rng(0)
    pattern = rng.normal(size=SHAPE)
    for subject in ("ann", "bob", "cat", "dan"):
        place = tmp_path / "study" / subject
        rows = []
        for run in range(4):
            offset = rng.normal(size=SHAPE)
            for label, sign in (("face", 1), ("house", -1)):
                values = sign * pattern + offset + rng.normal(size=SHAPE)
                name = f"run{run}_{label}.nii"
                save(values.astype("f4"), place / name)
                rows.append({"file": name, "label": label, "run": run})
        pd.DataFrame(rows).to_csv(place / "labels.tsv", sep="\t", index=False)
    save(np.ones(SHAPE, "u1"), tmp_path / "mask.nii")
    return tmp_path


def options(study):
    own = study / "study" / "ann"
    return [
        own / "*.nii", "--labels", own / "labels.tsv", "--groups", "run",
        "--mask", study / "mask.nii", "--prior-from", study / "study", "--model", "logistic",
    ]  # fmt: skip


def test_others_teach_and_the_subject_itself_is_left_out(study, run_json, run):
    asked = ["--curve", "--no-stock"]
    found = run_json("decode", *options(study), *asked, "--out", study / "out")
    assert found["setting"].endswith("Model: logistic with a prior from 3 others.")
    assert found["scores"]["accuracy"]["value"] >= 0.75
    page = (study / "out" / "report.html").read_text("utf-8")
    assert "from 3 others" in page
    assert "learned from other subjects" in page
    for name in ("own-scans-and-others", "what-helped-the-others", "learning-curve"):
        assert f'data-file="{name}"' in page
    curve = pd.read_csv(study / "out" / "learning.tsv", sep="\t")
    assert set(curve["estimator"]) == {"decoder with others", "decoder without others"}
    assert "The accuracy of decoder with others against that of decoder without others:" in page
    new = study / "study" / "bob" / "run0_face.nii"
    predicted = run("predict", study / "out" / "model.skops", new)
    assert predicted.exit_code == 0, predicted.output


def test_a_copy_of_the_subject_under_another_name_is_refused(study, refused):
    shutil.copytree(study / "study" / "ann", study / "study" / "eve")
    line = refused("decode", *options(study), "--out", study / "out")
    assert "as scans of eve" in line
    assert not (study / "out" / "result.json").exists()


@pytest.mark.parametrize("groups", [(), ("--groups", "run")])
def test_one_scan_of_each_class_is_fitted_in_python(study, refused, groups):
    """Nothing is left to test on: the line says what can be done, and that is so."""
    own = study / "study" / "ann"
    one = [own / "run0_face.nii", own / "run0_house.nii", "--labels", own / "labels.tsv"]
    one += [*groups, "--unmatched", "drop", *options(study)[5:]]
    line = refused("decode", *one, "--out", study / "out")
    assert "to fit without a test, use Decoder.fit in Python" in line
    decoder = Decoder("logistic", mask=study / "mask.nii")
    others = {}
    for name in ("bob", "cat", "dan"):
        table = pd.read_csv(study / "study" / name / "labels.tsv", sep="\t")
        files = [study / "study" / name / file for file in table["file"]]
        others[name] = decoder.read(files, table["label"], table["run"])
    taught = with_prior_from(decoder, others).fit(one[:2], ["face", "house"])
    assert taught.predict([own / "run3_face.nii", own / "run3_house.nii"]).shape == (2,)


def test_folders_that_are_not_subjects_are_refused(study, refused):
    (study / "study" / "empty").mkdir()
    assert "has no image" in refused("decode", *options(study), "--out", study / "out")
    shutil.rmtree(study / "study" / "empty")
    (study / "study" / "bob" / "labels.tsv").unlink()
    assert "no table labels.tsv" in refused("decode", *options(study), "--out", study / "out")


def test_a_prior_needs_others(study, refused):
    for name in ("bob", "cat", "dan"):
        shutil.rmtree(study / "study" / name)
    line = refused("decode", *options(study), "--out", study / "out")
    assert "holds no folder of another subject" in line
    absent = [*options(study)[:-3], study / "absent"]
    assert "is not a folder" in refused("decode", *absent, "--out", study / "out")


def test_bids_refuses_a_prior_where_it_has_no_effect(tmp_path, refused):
    line = refused(
        "bids", tmp_path, tmp_path / "out", "group", "--task", "x", "--prior-from", "group"
    )
    assert "would have no effect" in line
