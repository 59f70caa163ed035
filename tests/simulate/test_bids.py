"""A simulated study on disk is read as one that fMRIPrep has preprocessed."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.images import load_runs
from voxprior.simulate import blobs, cohort, subjects, time_courses, write_bids
from voxprior.study import Study

SHAPE = (6, 6, 4)


@pytest.fixture(scope="module")
def study():
    return subjects(2, SHAPE, n_classes=2, n_runs=3, random_state=0)


@pytest.fixture(scope="module")
def folder(study, tmp_path_factory):
    place = tmp_path_factory.mktemp("bids") / "study"
    return write_bids(place, study, ["face", "house"], noise=0.1, random_state=0)


def of(folder, subject):
    return folder / subject / "func", folder / "derivatives/fmriprep" / subject / "func"


def test_every_run_has_all_its_files(folder, study):
    for subject, data in study.items():
        raw, made = of(folder, subject)
        for run in range(1, 4):
            name = f"{subject}_task-objects_run-{run}"
            start = f"{name}_space-MNI152NLin2009cAsym_desc-"
            image = nibabel.load(made / f"{start}preproc_bold.nii.gz")
            assert image.header.get_zooms()[3] == 2.0
            described = json.loads((made / f"{start}preproc_bold.json").read_text())
            assert described == {"RepetitionTime": 2.0, "TaskName": "objects"}
            mask = nibabel.load(made / f"{start}brain_mask.nii.gz")
            assert np.asarray(mask.dataobj).sum() == data.space.n_voxels
            events = pd.read_csv(raw / f"{name}_events.tsv", sep="\t")
            assert sorted(events["trial_type"]) == ["face", "house"]
            confounds = pd.read_csv(made / f"{name}_desc-confounds_timeseries.tsv", sep="\t")
            assert len(confounds) == image.shape[3]
    assert not list(folder.rglob(".*"))


def test_blocks_hold_the_scans_when_they_are_read(folder, study):
    raw, made = of(folder, "sub-01")
    data = load_runs(
        f"{made}/*_bold.nii.gz",
        events=f"{raw}/*_events.tsv",
        delay=4,
        confounds={"strategy": ("motion",), "motion": "basic"},
        mask=next(made.glob("*run-1*_mask.nii.gz")),
    )
    truth = study["sub-01"]
    assert len(data.X) == len(truth.X)
    for run in (1, 2, 3):
        read, made_of = data.X[(run - 1) * 2 : run * 2], truth.X[truth.groups == run - 1]
        faces = data.y[(run - 1) * 2 : run * 2] == "face"
        difference = read[faces][0] - read[~faces][0]
        true = made_of[0] - made_of[1]
        assert np.corrcoef(difference, true)[0, 1] > 0.8


def test_a_bids_app_finds_and_decodes_it(folder, tmp_path, bare_report):
    given = {"task": "objects", "decoder": Decoder("logistic"), "model": "logistic", "delay": 4}
    study = Study.from_bids(folder, tmp_path / "out", participants=["01"], **given)
    (found,) = study.decode_participants()["participants"].values()
    assert found["scores"]["accuracy"]["value"] >= 0


def test_the_same_seed_gives_the_same_files(study, tmp_path):
    one, two = (write_bids(tmp_path / name, study, random_state=3) for name in "ab")
    for path in one.rglob("*_bold.nii.gz"):
        other = two / path.relative_to(one)
        assert_allclose(nibabel.load(path).get_fdata(), nibabel.load(other).get_fdata())


SCANS = blobs(SHAPE, 4, n_groups=2, n_blobs=1, blob_radius=1, random_state=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"study": {}}, "study is empty"),
        ({"study": {"one": SCANS}}, "'one' is not a BIDS name"),
        ({"study": {"sub-../x": SCANS}}, "is not a BIDS name"),
        ({"study": {"sub-01": time_courses(SHAPE, 4, n_regions=4)}}, "cannot be written as blocks"),
        (
            {"study": {"sub-01": cohort((9, 9, 6), 8, target="age", n_foci=1)}},
            "cannot be written as blocks",
        ),
        ({"conditions": ["face"]}, "Expected 2 different names, got face"),
        ({"conditions": ["face", "face"]}, "Expected 2 different names"),
        ({"task": "two words"}, "task='two words' cannot be used"),
        ({"t_r": 0}, "t_r=0 cannot be used"),
        ({"t_r": float("nan")}, "t_r=nan cannot be used"),
    ],
)
def test_what_cannot_be_written_is_refused_before(tmp_path, wrong, message):
    given = {"study": {"sub-01": SCANS}} | wrong
    with pytest.raises(InputError) as refused:
        write_bids(tmp_path / "new", **given)
    assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(InputError, match="is there already"):
            write_bids(place, {"sub-01": SCANS})
