"""The benchmarks run, in their quick form, and sharing brings what it should."""

import numpy as np
import pytest
from benchmarks.speed import sharing
from scipy.io import savemat

from voxprior.papers.frame import Run
from voxprior.papers.palatucci2007 import fewshot, run
from voxprior.simulate import time_courses


@pytest.mark.slow
def test_paper():
    found = run.simulated_subjects(Run(quick=True))
    gains = [c.effect for c in found.claims if c.text == "feature sharing beats naive Bayes"]
    assert len(gains) == 2
    assert min(gains) > 0.1
    assert [name[:7] for name in found.figures] == ["figure1", "figure2", "figure3"]


def struct_array(records):
    array = np.empty((1, len(records)), dtype=[(name, object) for name in records[0]])
    for position, record in enumerate(records):
        for name, value in record.items():
            array[name][0, position] = value
    return array


def test_original_files(tmp_path):
    """A simulated subject written as a StarPlus file comes back the same, and runs."""
    data = time_courses((5, 5, 3), 6, random_state=0)
    trials = np.empty((len(data.y), 1), dtype=object)
    for i, x in enumerate(data.X):
        trials[i, 0] = x.reshape(16, -1).astype(float)
    coordinates = data.space.coordinates + 1
    calc = np.flatnonzero(data.space.coordinates[:, 2] == 0) + 1
    rois = struct_array([{"name": "CALC", "coords": coordinates, "columns": calc[None]}])
    meta = {"dimx": 5, "dimy": 5, "dimz": 3, "colToCoord": coordinates, "rois": rois}
    info = struct_array([{"cond": 2, "firstStimulus": "PS"[label]} for label in data.y])
    path = tmp_path / "data-starplus-1-v7.mat"
    savemat(path, {"meta": meta, "info": info, "data": trials})
    subject = run.starplus(path)
    np.testing.assert_allclose(subject["all"][0], data.X)
    assert subject["roi"][1].n_voxels == 25
    (row,) = run.bars([(1, subject)], repeats=2)
    assert 0 <= row["roi: both (as printed)"] <= 1


@pytest.mark.slow
def test_few_shot(data_folder, tmp_path):
    data_folder("haxby_vt")
    rows = fewshot.main(["--quick", "--out", str(tmp_path)])
    methods = [row["method"] for table in rows.values() for row in table]
    assert "**few_shot_decoder**" in methods


@pytest.mark.slow
def test_speed(tmp_path):
    rows = sharing.main(["--quick", "--output", str(tmp_path / "sharing.md")])
    assert len(rows) == 4
    assert (tmp_path / "sharing.md").read_text().startswith("# Feature sharing")
