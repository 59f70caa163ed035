"""Mistakes of a first hour: each is refused in one line that says what was meant."""

import zipfile

import pandas as pd
import pytest

from voxprior.images import join_table


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        ("--model", "sharring", "(the nearest is 'sharing')"),
        ("--set", "raduis=2", "no parameter raduis (the nearest is 'radius')"),
        ("--mask", "mask.nii", "(the nearest is 'mask.nii.gz')"),
        ("--allow", "leave-one-outs", "leave-one-outs (the nearest is 'leave-one-out')"),
        ("--standardize", "groups", "(the nearest is 'group')"),
        ("--split", "few-shots:2", "few-shot"),
        ("--label", "grup", "'group'"),
        ("--covariates", "aeg", "'age'"),
    ],
)
def test_the_nearest_name_is_given(refused, study, mask, option, wrong, said, monkeypatch):
    monkeypatch.chdir(mask.parent)
    given = {"--model": "sharing"} | {option: wrong}
    options = [word for pair in given.items() for word in pair]
    assert said in refused("decode", *study, *options, "--out", "out")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda good: [good[0], "--labels", "participant.tsv"], "nearest is 'participants.tsv'"),
        (lambda good: ["map/*.nii.gz", *good[1:]], "no file matches"),
        (lambda good: ["maps/sub-1_map.nii.gz", *good[1:]], "(the nearest is 'sub-"),
        (lambda good: ["mapz/sub-01_map.nii.gz", *good[1:]], "there is no folder 'mapz'"),
        (lambda good: [*good[:-1], "participant_id"], "such a column names scans"),
    ],
    ids=["table", "pattern", "image", "folder", "identifier"],
)
def test_files_and_columns_that_were_meant(refused, study, monkeypatch, maps, make, words):
    monkeypatch.chdir(maps.parent)
    assert words in refused("decode", *make(study), "--model", "naive-bayes", "--out", "out")


def test_a_label_that_one_scan_has_is_named_with_its_twin(refused, study, maps):
    table = maps.parent / "participants.tsv"
    table.write_text(table.read_text().replace("well", "Well", 1))
    line = refused("decode", *study, "--model", "naive-bayes", "--out", maps.parent / "out")
    assert "'Well' is the label of 1 of 12 scans" in line
    assert "'ill': 6, 'well': 5. It may have been meant as 'well'." in line


@pytest.mark.parametrize("value", ["true", "False", "1", "no"])
@pytest.mark.parametrize("flag", ["--map", "--detrend", "--curve", "--json"])
def test_a_flag_takes_no_value(run, study, tmp_path, flag, value):
    result = run("decode", *study, flag, value, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert f"{flag} takes no value: leave '{value}' out." in " ".join(result.output.split())


@pytest.mark.parametrize("command", ["decode", "map", "compare", "bids", "predict", "demo", "pack"])
def test_help_shows_no_value_of_a_flag(run, command):
    assert "bool" not in run(command, "--help").output


def test_two_maps_to_predict_are_not_held_against_each_other(run, study, maps, tmp_path):
    out = tmp_path / "out"
    assert run("decode", *study, "--model", "logistic", "--no-stock", "--out", out).exit_code == 0
    same = [maps / "sub-01_map.nii.gz", maps / "sub-01_map.nii.gz"]
    result = run("predict", out / "model.skops", *same)
    assert result.exit_code == 0
    assert "constant" not in result.output


@pytest.mark.parametrize("label", ["trial_type", "group"])
@pytest.mark.parametrize("images", ["maps", "runs"])
@pytest.mark.parametrize("command", ["decode", "map", "compare"])
def test_events_in_place_of_labels(refused, request, tmp_path, command, images, label):
    folder = request.getfixturevalue(images)
    events = tmp_path / "events.tsv"
    events.write_text("onset\tduration\ttrial_type\n1\t2\tface\n4\t2\thouse\n")
    files = sorted(folder.glob("*.nii.gz"))[:2]
    line = refused(command, *files, "--labels", events, "--label", label, "--out", tmp_path / "o")
    assert "is an events table" in line
    assert "Give it as --events, one per 4-D run" in line


def test_a_table_of_trials_with_a_row_per_volume_is_read(maps):
    table = pd.DataFrame({"onset": [0, 9], "duration": 2, "trial_type": ["face", "house"]})
    files = [maps / "sub-01_map.nii.gz"]
    joined = join_table(files, table, label="trial_type", volumes=[2])
    assert joined.y.tolist() == ["face", "house"]


def test_a_workbook_in_place_of_labels(refused, study, tmp_path):
    book = tmp_path / "participants.tsv.xlsx"
    with zipfile.ZipFile(book, "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    given = [book if str(one).endswith(".tsv") else one for one in study]
    line = refused("decode", *given, "--out", tmp_path / "out")
    assert "is an Excel workbook, not a table. Export it as text" in line
