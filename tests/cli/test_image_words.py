"""Messages about images name the options of the command, not the parameters of Python."""

import re

import nibabel
import numpy as np
import pytest

PARAMETER = re.compile(r"\b[a-z_]+=")


@pytest.fixture
def of_maps(study, tmp_path):
    return ["decode", *study, "--out", tmp_path / "out"]


@pytest.fixture
def of_runs(runs, mask, tmp_path):
    events = sorted(runs.glob("*_events.tsv"))
    given = [runs / "*_bold.nii.gz", "--events", ",".join(map(str, events)), "--mask", mask]
    return ["decode", *given, "--out", tmp_path / "out"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--high-pass", 0.01], "--detrend, --high-pass and --low-pass need 4-D runs"),
        (["--standardize", "baseline"], "--standardize baseline needs 4-D runs"),
        (["--standardize", "zscore"], "--standardize zscore is not a choice. Expected one of auto"),
        (["--unmatched", "skip"], "--unmatched skip is not a choice. Expected 'raise' or 'drop'"),
        (["--covariates", "age,group"], "--covariates names 'group', which is the label"),
        (["--key", "age"], "or leave these out by --unmatched drop"),
        (["--smoothing", 100], "--smoothing 100.0 is wider than the images"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_maps(refused, of_maps, options, told):
    line = refused(*of_maps, *options)
    assert told in line
    assert not PARAMETER.search(line)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--unit", "trial"],
            "--unit trial is not a choice. Expected one of block, volume, window",
        ),
        (["--unit", "window"], "--unit window needs a number of volumes. Give --window"),
        (["--unit", "window", "--window", 0], "--window 0 cannot be used"),
        (["--window", 3], "--window 3 has no effect with --unit block"),
        (["--delay", 1e9], "--delay 1000000000.0 cannot be used"),
        (["--conditions", "face,tree"], "--conditions tree: has no trial in these runs"),
        (["--low-pass", 0.3], "--low-pass 0.3 is not below the Nyquist frequency"),
        (["--high-pass", 1e-9], "--high-pass 1e-09 is too slow for volumes every 2 s"),
        (["--confounds", "absent.tsv"], "--confounds must have one table per run. Expected 4"),
        (["--delay", 500], "No trial is left"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_runs(refused, of_runs, options, told):
    line = refused(*of_runs, *options)
    assert told in line
    assert not PARAMETER.search(line)


def test_maps_for_runs_and_runs_for_maps(refused, of_maps, maps, runs):
    events = ["--events", runs / "run-1_events.tsv", "--out", maps.parent / "out"]
    line = refused("decode", maps / "sub-01_map.nii.gz", *events)
    assert line.endswith("For one map per scan give --labels labels.tsv.")
    line = refused("decode", runs / "run-1_bold.nii.gz", *of_maps[2:])
    assert line.endswith("or a label per volume (--volume-labels).")


def test_a_surface_without_its_mesh(refused, of_maps, tmp_path):
    (tmp_path / "sub-01_hemi-L.func.gii").touch()
    line = refused("decode", tmp_path / "sub-01_hemi-L.func.gii", *of_maps[2:])
    assert "where its vertices are. Give --surface: the mesh file of each hemisphere" in line


def test_a_header_without_a_time(refused, of_runs, runs):
    path = runs / "run-1_bold.nii.gz"
    image = nibabel.load(path)
    values = image.get_fdata(dtype=np.float32)
    nibabel.Nifti1Image(values, image.affine).to_filename(path)
    assert refused(*of_runs).endswith("how many are between volumes. Give --t-r.")


def test_another_grid_and_an_empty_mask(refused, of_maps, maps, tmp_path):
    image = nibabel.Nifti1Image(np.ones((3, 3, 3), "u1"), np.eye(4))
    image.to_filename(tmp_path / "other.nii.gz")
    line = refused(*of_maps, "--mask", tmp_path / "other.nii.gz")
    assert line.endswith("Bring the images to one grid, or set --resample.")
    affine = nibabel.load(maps / "sub-01_map.nii.gz").affine
    nibabel.Nifti1Image(np.zeros((5, 4, 3), "u1"), affine).to_filename(tmp_path / "none.nii.gz")
    line = refused(*of_maps, "--mask", tmp_path / "none.nii.gz")
    assert line.endswith("as --mask, or set --mask data for every voxel that varies.")


def test_a_table_without_a_key(refused, of_maps, tmp_path):
    table = tmp_path / "participants.tsv"
    table.write_text(table.read_text().replace("participant_id", "who", 1))
    assert refused(*of_maps).endswith("Say which column does by --key.")


def test_the_warning_of_constant_voxels(run, of_maps, maps, mask, bare_report):
    for path in maps.glob("*.nii.gz"):
        image = nibabel.load(path)
        values = image.get_fdata(dtype=np.float32)
        values[1, 1, 1] = 7.0
        nibabel.Nifti1Image(values, image.affine).to_filename(path)
    printed = run(*of_maps, "--mask", mask).output
    assert "A computed mask (no --mask) leaves them out." in " ".join(printed.split())


@pytest.mark.parametrize(
    "options",
    [
        ["--standardize", "zscore"],
        ["--unmatched", "skip"],
        ["--smoothing", -1],
        ["--covariates", "age,age"],
    ],
    ids=str,
)
def test_options_are_refused_before_files_are_read(refused, options, tmp_path):
    table = tmp_path / "labels.tsv"
    table.write_text("file\tlabel\nabsent.nii.gz\ta\n")
    given = ["absent.nii.gz", "--labels", table, "--out", tmp_path / "out"]
    line = refused("decode", *given, *options)
    assert options[0] in line
