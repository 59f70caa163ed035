"""Scans that cannot be right, told by every command that decodes, and NaN in its report."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest

COMMON = ["--model", "logistic"]


def change(path, edit, t_r=None):
    """Write an image again with other values."""
    image = nibabel.load(path)
    values = image.get_fdata(dtype=np.float32)
    edit(values)
    new = nibabel.Nifti1Image(values, image.affine, image.header)
    if t_r is not None:
        new.header.set_zooms((*image.header.get_zooms()[:3], t_r))
    new.to_filename(path)


def blank(values):
    values[:] = 0


def huge(values):
    values *= 1e20


@pytest.mark.parametrize(("edit", "name"), [(blank, "constant-scan"), (huge, "scan-scale")])
def test_a_map(run, refused, study, maps, tmp_path, bare_report, edit, name):
    change(maps / "sub-03_map.nii.gz", edit)
    fixed = [*study, "--out", tmp_path / "out"]
    for command in (["decode", *fixed, *COMMON], ["compare", *fixed, "--models", "logistic"]):
        line = refused(*command)
        assert f"[{name}]" in line
        assert "sub-03_map.nii.gz" in line
        assert line.endswith(f"--allow {name}")
    result = run("decode", *fixed, *COMMON, "--allow", name, "--permutations", 3)
    assert result.exit_code == 0, result.output
    (finding,) = json.loads((tmp_path / "out" / "result.json").read_text())["findings"]
    assert (finding["name"], finding["allowed"]) == (name, True)


def test_a_scan_that_is_not_decoded_does_not_matter(run, study, maps, tmp_path, bare_report):
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    frame.loc[2, "group"] = "unknown"
    frame.to_csv(table, sep="\t", index=False)
    change(maps / "sub-03_map.nii.gz", blank)
    options = [*COMMON, "--conditions", "ill,well", "--out", tmp_path / "out"]
    result = run("decode", *study, *options)
    assert result.exit_code == 0, result.output


def test_an_identifier_as_covariate(refused, study, tmp_path):
    options = ["--covariates", "age,participant_id", "--out", tmp_path / "out", *COMMON]
    line = refused("decode", *study, *options)
    assert "[identifier-covariate] 'participant_id'" in line


@pytest.fixture
def of_runs(runs, mask, tmp_path):
    """Options that name runs, events and mask."""
    events = sorted(runs.glob("*_events.tsv"))
    return [runs / "*_bold.nii.gz", "--events", *events, "--mask", mask, "--out", tmp_path / "out"]


def test_runs(run, refused, runs, of_runs, tmp_path):
    change(runs / "run-2_bold.nii.gz", lambda values: None, t_r=2.5)
    events = pd.read_csv(runs / "run-3_events.tsv", sep="\t")
    pd.concat([events, events[:1]]).to_csv(runs / "run-3_events.tsv", sep="\t", index=False)
    line = refused("decode", *of_runs, *COMMON)
    assert "run-2_bold.nii.gz (2.5 s) (1 of 4 runs)" in line
    assert "seconds are between volumes where the headers are wrong" in line
    assert "run-3_bold.nii.gz (1 in all)" in line
    assert line.endswith("--allow repetition-time,repeated-events")
    assert "repetition-time" not in refused("decode", *of_runs, *COMMON, "--t-r", 2)
    allowed = ["--allow", "repetition-time,repeated-events"]
    result = run("decode", *of_runs, *COMMON, *allowed)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "repetition-time" in page
    assert "run-3_bold.nii.gz (1 in all)" in page


def test_bids(run, refused, bids, tmp_path, bare_report):
    func = bids / "derivatives" / "fmriprep" / "sub-02" / "func"
    side = next(func.glob("*run-3*_bold.json"))
    fixed = ["bids", bids, tmp_path / "out", "participant", "--task", "faces", *COMMON]
    side.write_text('{"RepetitionTime": 3.0}')
    for path in func.glob("*_bold.nii.gz"):
        change(path, lambda values: None, t_r=2.0)
    line = refused(*fixed, "--participant-label", "02")
    assert "its header says that a volume came every 2 s, but its JSON file says" in line
    assert "or give --t-r" in line
    change(next(func.glob("*run-3*_bold.nii.gz")), lambda values: None, t_r=3.0)
    line = refused(*fixed, "--participant-label", "02")
    assert "[repetition-time]" in line
    assert "run-3" in line
    assert "(3 s) (1 of 3 runs)" in line
    allowed = ["--participant-label", "02", "--allow", "repetition-time"]
    assert run(*fixed, *allowed).exit_code == 0
    assert run(*fixed, "--participant-label", "01").exit_code == 0


class TestNaN:
    def test_dropped_voxels_are_in_the_report_and_the_model(
        self, run, refused, study, maps, mask, tmp_path
    ):
        def edge(values):
            values[4, 2] = np.nan

        change(maps / "sub-03_map.nii.gz", edge)
        change(maps / "sub-05_map.nii.gz", edge)
        out = tmp_path / "out"
        result = run("decode", *study, "--mask", mask, "--out", out, *COMMON)
        assert result.exit_code == 0, result.output
        page = (out / "report.html").read_text()
        assert "3 of 36 voxels inside the mask were dropped: NaN or infinite in a scan" in page
        assert "voxels dropped" in page
        new = maps / "sub-03_map.nii.gz"
        assert run("predict", out / "model.skops", new).exit_code == 0
        change(new, lambda values: values.__setitem__((1, 1, 1), np.inf))
        line = refused("predict", out / "model.skops", new)
        assert "sub-03_map.nii.gz: 1 of 33 voxels inside the mask are NaN" in line

    def test_too_many_are_one_line(self, refused, study, maps, mask, tmp_path):
        change(maps / "sub-03_map.nii.gz", lambda values: values.__setitem__(2, np.nan))
        change(maps / "sub-07_map.nii.gz", lambda values: values.fill(np.nan))
        for options in (["--mask", mask], []):
            line = refused("decode", *study, *options, "--out", tmp_path / "out", *COMMON)
            assert "more than half" in line
            assert "sub-07_map.nii.gz: more than half" in line


def test_predict_warns_of_a_constant_scan(run, study, maps, tmp_path, bare_report):
    run("decode", *study, "--out", tmp_path / "out", *COMMON)
    change(maps / "sub-03_map.nii.gz", blank)
    result = run("predict", tmp_path / "out" / "model.skops", maps / "sub-03_map.nii.gz")
    assert result.exit_code == 0
    lines = [line for line in result.output.splitlines() if line.startswith("warning: One value")]
    assert len(lines) == 1
    assert "sub-03_map.nii.gz (1 of 1 scans)" in lines[0]
