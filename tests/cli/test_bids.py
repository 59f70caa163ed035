import json

import pandas as pd
import pytest

from voxprior.validation import Result

SPACE = "MNI152NLin2009cAsym"
COMMON = ["--task", "faces", "--conditions", "face", "house", "--model", "logistic"]


def test_each_participant_then_the_group(run, bids, tmp_path):
    out = tmp_path / "out"
    regions, atlas = next(bids.glob("derivatives/**/*_mask.nii.gz")), tmp_path / "regions.tsv"
    atlas.write_text("index\tname\n1\tthe only region\n")
    asked = ["--positive", "house", "--prevalence", 0.2, "--curve", "--no-stock"]
    asked += ["--atlas", regions, "--atlas-labels", atlas]
    result = run("bids", bids, out, "participant", *COMMON, *asked)
    assert result.exit_code == 0, result.output
    description = json.loads((out / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    start = f"sub-02_task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic_"
    func = out / "sub-02" / "func"
    names = {p.name for p in func.iterdir()}
    due = ("report.html", "result.json", "predictions.tsv", "model.skops", "decoding.json")
    assert {start + name for name in (*due, "learning.tsv")} < names
    page = (func / f"{start}report.html").read_text()
    assert "The class of interest is <strong>house</strong>, against face." in page
    assert "at a prevalence of 0.2" in page
    assert "the only region" in page
    assert f"{start}stat-weights_statmap.nii.gz" in names
    found = Result.from_json(func / f"{start}result.json")
    assert len(found.scores) == 3
    assert found.scores["accuracy"].mean() > 0.9
    sources = json.loads((func / f"{start}decoding.json").read_text())["Sources"]
    assert len(sources) == 9

    result = run("bids", bids, out, "group", *COMMON)
    assert result.exit_code == 0, result.output
    assert "Between (each participant held out from the others): mean accuracy" in result.output
    start = f"task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic_"
    table = pd.read_csv(out / "group" / f"{start}secondlevel.tsv", sep="\t")
    assert table["participant_id"].tolist() == ["sub-01", "sub-02", "sub-03"]
    assert (table[["within", "between"]] > 0.7).all().all()
    assert table["n_trials"].tolist() == [12, 12, 12]
    group = Result.from_json(out / "group" / f"{start}result.json")
    assert sorted(group.predictions["group"].unique()) == ["sub-01", "sub-02", "sub-03"]
    assert "held out from the others" in (out / "group" / f"{start}report.html").read_text()


def test_finished_participants_are_kept(run, bids, tmp_path, bare_report):
    out = tmp_path / "out"
    one = ["bids", bids, out, "participant", *COMMON, "--participant-label", "01"]
    assert "3 runs" in run(*one).output
    description = out / "dataset_description.json"
    described = json.dumps(json.loads(description.read_text()) | {"Authors": ["me"]})
    description.write_text(described)
    assert [p.name for p in out.iterdir() if p.is_dir()] == ["sub-01"]
    assert "kept" in run(*one).output
    assert "kept" in run(*one, "--jobs", 2).output
    assert "3 runs" in run(*one, "--seed", 3).output
    events = bids / "sub-01" / "func" / "sub-01_task-faces_run-1_events.tsv"
    events.write_text(events.read_text() + "\n")
    notes = out / "sub-01" / "func" / "notes.txt"
    notes.write_text("mine")
    assert "3 runs" in run(*one, "--seed", 3).output
    assert notes.read_text() == "mine"
    assert description.read_text() == described


def test_bad_input_is_one_line(refused, bids, tmp_path):
    out = tmp_path / "out"
    fixed = ["bids", bids, out, "participant"]
    assert "no such BIDS folder" in refused("bids", tmp_path / "no", out, "group", *COMMON)
    assert "Tasks there: faces" in refused(*fixed, "--task", "rest")
    assert f"Spaces there: {SPACE}" in refused(*fixed, *COMMON, "--space", "T1w")
    assert "--participant-label among 01, 02, 03" in refused(
        *fixed, *COMMON, "--participant-label", "9"
    )
    assert "--derivatives" in refused(*fixed, *COMMON, "--derivatives", tmp_path / "no")
    assert "no model 'best'" in refused(*fixed, "--task", "faces", "--model", "best")
    assert not out.exists()
    assert "Expected at least 2, got 1" in refused(
        "bids", bids, out, "group", *COMMON, "--participant-label", "01"
    )
    assert "--conditions cat: has no trial" in refused(
        *fixed, "--task", "faces", "--conditions", "cat", "face"
    )
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    assert "not empty" in refused("bids", bids, tmp_path / "thesis", "participant", *COMMON)
    description = bids / "dataset_description.json"
    description.write_text('{"GeneratedBy": [{"Name": "fMRIPrep"}]}')
    assert "not empty" in refused("bids", bids, bids, "participant", *COMMON)
    assert "fMRIPrep" in description.read_text()
    for path in (bids / "derivatives" / "fmriprep" / "sub-01" / "func").glob("*run-[23]*"):
        path.unlink()
    assert "one run" in refused(*fixed, *COMMON)


@pytest.mark.parametrize("level", ["participant", "group"])
def test_a_model_of_numbers_is_refused_for_classes(refused, bids, tmp_path, level):
    words = ["bids", bids, tmp_path / "o", level, *COMMON[:-1], "ridge"]
    assert "'ridge' predicts a number, but the labels are classes" in refused(*words)


def test_a_searchlight_is_for_the_group(refused, bids, tmp_path):
    said = refused("bids", bids, tmp_path / "o", "participant", *COMMON, "--searchlight", "6")
    assert "it is for the level group" in said


def test_what_is_relabelled_can_be_chosen(run, bids, tmp_path, bare_report):
    chosen = ["--permutations", "5", "--test", "fast", "--participant-label", "01"]
    run("bids", bids, tmp_path / "out", "participant", *COMMON, *chosen)
    written = next((tmp_path / "out").rglob("*_decoding.json")).read_text("utf-8")
    assert '"Test": "fast"' in written
    found = json.loads(next((tmp_path / "out").rglob("*_result.json")).read_text("utf-8"))
    assert "fast" in json.dumps(found)


def test_the_group_alone_has_no_scores_within(run, bids, tmp_path):
    result = run("bids", bids, tmp_path / "out", "group", *COMMON)
    assert result.exit_code == 0, result.output
    assert "Within (held-out runs of each participant): no scores" in result.output
    assert "run the level participant first" in result.output


OTHERS = [["--delay", 6], ["--unit", "volume"], ["--smoothing", 4], ["--seed", 3], ["--set", "C=2"]]


@pytest.mark.parametrize("other", OTHERS, ids=lambda given: given[0])
def test_the_group_refuses_participants_of_other_settings(run, refused, bids, tmp_path, other):
    out = tmp_path / "out"
    labels = ["--participant-label", "01", "02", "--no-stock"]
    assert run("bids", bids, out, "participant", *COMMON, *labels).exit_code == 0
    line = refused("bids", bids, out, "group", *COMMON, *labels, *other)
    assert "sub-01 was not decoded as the group is" in line
    assert str(other[0]) in line
    assert not (out / "group").exists()
