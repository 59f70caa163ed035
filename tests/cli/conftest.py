"""Small studies on disk, and a way to run commands in this process."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from voxprior.cli import app

AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
SHAPE = (5, 4, 3)


def save(values, path, t_r=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(np.asarray(values), AFFINE)
    if t_r is not None:
        image.header.set_zooms((*image.header.get_zooms()[:3], t_r))
        image.header.set_xyzt_units("mm", "sec")
    image.to_filename(path)
    return path


@pytest.fixture
def run():
    """Run a command; returns its result, with what it printed in `output`."""

    def call(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return call


@pytest.fixture
def run_json(run):
    """Run a command that must succeed with --json, and read what it printed."""

    def call(*arguments):
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


@pytest.fixture
def refused(run):
    """Run a command that must end with exit code 2 and one line; returns the line."""

    def call(*arguments):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        lines = [line for line in result.output.splitlines() if line.startswith("voxprior: ")]
        assert len(lines) == 1, result.output
        assert "Traceback" not in result.output
        return lines[0]

    return call


@pytest.fixture
def mask(tmp_path):
    inside = np.zeros(SHAPE, dtype=np.uint8)
    inside[1:, :3] = 1
    return save(inside, tmp_path / "mask.nii.gz")


@pytest.fixture
def maps(tmp_path, rng):
    """Folder of 12 maps, patients and controls, with participants.tsv beside it."""
    group = np.tile(["ill", "well"], 6)
    for number, label in enumerate(group):
        values = rng.normal(size=SHAPE) + (label == "ill") * np.eye(5, 4)[:, :, None] * 3
        save(values.astype("f4"), tmp_path / "maps" / f"sub-{number + 1:02d}_map.nii.gz")
    pd.DataFrame(
        {
            "participant_id": [f"sub-{n + 1:02d}" for n in range(12)],
            "group": group,
            "age": 40.5 + np.arange(12) * 3 % 17,
            "sex": np.repeat(["f", "m"], 6),
            "site": np.repeat(["a", "b", "c"], 4),
        }
    ).to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    return tmp_path / "maps"


@pytest.fixture
def study(maps):
    """Options of `decode` that name the maps and their labels."""
    table = maps.parent / "participants.tsv"
    return [str(maps / "*.nii.gz"), "--labels", str(table), "--label", "group"]


def make_run(rng, n_blocks=4):
    """One run every 2 s, blocks of 3 volumes of face and house with rest between, and events."""
    labels = np.tile(["rest", "face", "rest", "house"], n_blocks // 2)
    volumes = np.repeat(labels, 3)
    values = 100 + rng.normal(size=(*SHAPE, len(volumes)))
    values[2, 2, :, volumes == "face"] += 4
    values[3, 1, :, volumes == "house"] += 4
    shown = np.flatnonzero(labels != "rest")
    events = pd.DataFrame({"onset": shown * 6.0, "duration": 6.0, "trial_type": labels[shown]})
    return values.astype("f4"), events, volumes


@pytest.fixture
def runs(tmp_path, rng):
    """Four runs, run-1_bold.nii.gz and so on, with run-1_events.tsv beside them."""
    for number in range(1, 5):
        values, events, _ = make_run(rng)
        save(values, tmp_path / "runs" / f"run-{number}_bold.nii.gz", t_r=2.0)
        events.to_csv(tmp_path / "runs" / f"run-{number}_events.tsv", sep="\t", index=False)
    return tmp_path / "runs"


@pytest.fixture
def bids(tmp_path, rng):
    """A BIDS folder of 3 participants and 3 runs, preprocessed as fMRIPrep does."""
    root = tmp_path / "bids"
    for subject in ("01", "02", "03"):
        for number in (1, 2, 3):
            name = f"sub-{subject}_task-faces_run-{number}"
            values, events, _ = make_run(rng)
            func = root / f"sub-{subject}" / "func"
            func.mkdir(parents=True, exist_ok=True)
            events.to_csv(func / f"{name}_events.tsv", sep="\t", index=False)
            prepared = root / "derivatives" / "fmriprep" / f"sub-{subject}" / "func"
            start = f"{name}_space-MNI152NLin2009cAsym"
            save(values, prepared / f"{start}_desc-preproc_bold.nii.gz")
            (prepared / f"{start}_desc-preproc_bold.json").write_text('{"RepetitionTime": 2.0}')
            save(np.ones(SHAPE, "u1"), prepared / f"{start}_desc-brain_mask.nii.gz")
    return root
