"""What contradicts itself is refused in one line by every command and every option of a table."""

import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder

LIKE = ["decode", "map", "compare", "pack"]
# What is wrong with a table, and what is said of it.
WRONG = {
    "a column twice": (lambda text: twice(text, "x"), "stands there twice, with different cells"),
    "the first column twice": (lambda text: twice(text), "stands there twice, with different"),
    "a stray quotation mark": (lambda text: text.replace("\n", '\n"', 1), "quotation mark"),
    "one that swallows rows": (lambda text: text.replace("\n", '\n"', 1)[:-1] + '"\n', "mark"),
    "headers that look alike": (
        lambda text: twice(text, seen="\u200b"),
        "look the same",
    ),
}


def twice(text, name=None, seen=""):
    """Add the first column once more, its cells exchanged, or two columns of a name."""
    rows = [line.split("\t") for line in text.splitlines()]
    if name is not None:
        added = [[name, name], *([str(i), str(-i)] for i in range(1, len(rows)))]
    else:
        added = [[rows[0][0] + seen], *([row[0]] for row in reversed(rows[1:]))]
    return "\n".join("\t".join([*row, *more]) for row, more in zip(rows, added)) + "\n"


@pytest.fixture
def tables(maps, runs, mask, tmp_path):
    """Words of a command by the option that takes a table, and the table."""
    model = tmp_path / "model.skops"
    people = tmp_path / "participants.tsv"
    frame = pd.read_csv(people, sep="\t")
    images = sorted(maps.glob("*.nii.gz"))
    Decoder("logistic").fit(images, frame["group"].tolist(), covariates=frame[["age"]]).save(model)
    events, confounds = runs / "run-1_events.tsv", tmp_path / "confounds.tsv"
    confounds.write_text("drift\tother\n" + "".join(f"{i}\t{-i}\n" for i in range(24)))
    costs, atlas = tmp_path / "costs.tsv", tmp_path / "atlas.tsv"
    costs.write_text("action\till\twell\ntreat\t0\t1\nwait\t5\t0\n")
    atlas.write_text("index\tname\n1\tone\n2\ttwo\n")
    scans = [*map(str, images)]
    bold = str(runs / "run-1_bold.nii.gz")
    of_run = ["--mask", mask, "--events", events, "--out", tmp_path / "o"]
    return {
        **{
            f"{name} --labels": (
                [name, *scans, "--labels", people, "--label", "group", "--out",
                 tmp_path / ("o.zarr" if name == "pack" else "o")], people,
            )
            for name in LIKE
        },
        **{f"{name} --events": ([name, bold, *of_run], events) for name in LIKE[:3]},
        **{
            f"{name} --confounds": ([name, bold, *of_run, "--confounds", confounds], confounds)
            for name in LIKE[:2]
        },
        "predict --covariates": (["predict", model, *scans, "--covariates", people], people),
        "predict --costs": (
            ["predict", model, *scans, "--covariates", people, "--costs", costs], costs,
        ),
        "predict --events": (["predict", model, bold, "--events", events], events),
        "decode --atlas-labels": (
            ["decode", *scans, "--labels", people, "--label", "group", "--out", tmp_path / "o",
             "--atlas", mask, "--atlas-labels", atlas], atlas,
        ),
    }  # fmt: skip


OPTIONS = [f"{name} --labels" for name in LIKE]
OPTIONS += [f"{name} --events" for name in LIKE[:3]] + [f"{name} --confounds" for name in LIKE[:2]]
OPTIONS += ["predict --covariates", "predict --costs", "predict --events", "decode --atlas-labels"]


@pytest.mark.parametrize("option", OPTIONS)
def test_contradictory_tables_are_refused_and_nothing_is_written(refused, tables, tmp_path, option):
    assert sorted(tables) == sorted(OPTIONS)
    words, table = tables[option]
    good = table.read_text()
    for change, told in WRONG.values():
        table.write_text(change(good))
        line = refused(*words)
        assert told in line
        assert table.name in line
        assert not list(tmp_path.glob("o*"))


@pytest.mark.parametrize("command", ["decode", "map", "compare"])
@pytest.mark.parametrize("option", ["--events", "--confounds"])
def test_tables_of_another_run_are_refused(refused, runs, tmp_path, command, option):
    bolds = sorted(runs.glob("*_bold.nii.gz"))
    tables = {"--events": sorted(runs.glob("*_events.tsv")), "--confounds": []}
    for number in range(1, 5):
        drift = pd.DataFrame({"drift": np.arange(24.0)})
        drift.to_csv(runs / f"run-0{number}_confounds.tsv", sep="\t", index=False)
        tables["--confounds"].append(runs / f"run-0{number}_confounds.tsv")
    tables[option][:2] = tables[option][1::-1]
    words = [word for name, files in tables.items() for word in (name, *files)]
    line = refused(command, *bolds, *words, "--out", tmp_path / "o")
    assert "is of run-" in line
    assert "run-1_bold.nii.gz" in line
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["a", "a\u00a0", "b"], "U+0061 U+00A0"),
        (["caf\u00e9", "cafe\u0301", "b"], "U+0065 U+0301"),
        (["a", "a\u200b", "b"], "U+0061 U+200B"),
    ],
)
@pytest.mark.parametrize("column", ["group", "site", "sex"])
def test_texts_that_look_the_same_are_refused(refused, study, tmp_path, labels, told, column):
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    frame[column] = np.tile(labels, 4)
    frame.to_csv(table, sep="\t", index=False)
    more = ["--groups", "site", "--covariates", "sex"]
    line = refused("decode", *study, *more, "--out", tmp_path / "o")
    assert told in line
    assert "look the same" in line


def test_trial_types_that_look_the_same_are_refused(refused, runs, mask, tmp_path):
    path = runs / "run-2_events.tsv"
    path.write_text(path.read_text().replace("face", "face\u200b", 1))
    words = ["decode", runs / "*_bold.nii.gz", "--events", runs / "*_events.tsv", "--mask", mask]
    for more in ([], ["--conditions", "face,house"]):
        assert "U+0065 U+200B" in refused(*words, *more, "--out", tmp_path / "o")
    plain = ["decode", runs / "run-1_bold.nii.gz", "--events", runs / "run-1_events.tsv"]
    plain += ["--mask", mask]
    line = refused(*plain, "--conditions", "face\u00a0,house", "--out", tmp_path / "o")
    assert "U+00A0" in line


def test_trial_types_of_a_run_with_a_missing_one_are_kept(run, runs, mask, tmp_path, bare_report):
    for number in range(1, 5):
        path = runs / f"run-{number}_events.tsv"
        text = path.read_text().replace("face", "1").replace("house", "2")
        path.write_text(text + ("18.0\t6.0\tn/a\n" if number == 2 else ""))
    words = ["decode", runs / "*_bold.nii.gz", "--events", runs / "*_events.tsv"]
    words += ["--conditions", "1,2", "--model", "naive-bayes", "--mask", mask]
    words += ["--out", tmp_path / "o"]
    result = run(*words)
    assert result.exit_code == 0, result.output
    predictions = pd.read_csv(tmp_path / "o" / "predictions.tsv", sep="\t")
    assert predictions["group"].nunique() == 4


@pytest.mark.parametrize("option", ["--priors", "--train-priors"])
def test_what_is_given_twice_and_differs_is_refused(refused, maps, tmp_path, option):
    images = sorted(maps.glob("*.nii.gz"))
    model = Decoder("logistic").fit(images, ["ill", "well"] * 6).save(tmp_path / "model.skops")
    more = [] if option == "--priors" else ["--priors", "ill=.5,well=.5"]
    line = refused("predict", model, *images, *more, option, "ill=.1,ill=.9,well=.1")
    assert "'ill' is given twice, with 0.1 and 0.9" in line
    assert "U+00A0" in refused("predict", model, *images, *more, option, "ill\u00a0=.1,well=.9")


def test_actions_are_names_and_have_one_row(run, refused, maps, tmp_path):
    images = sorted(maps.glob("*.nii.gz"))
    model = Decoder("logistic").fit(images, ["ill", "well"] * 6).save(tmp_path / "model.skops")
    costs = tmp_path / "costs.tsv"
    costs.write_text("action\till\twell\ntreat\t0\t1\ntreat\t5\t0\n")
    assert "'treat' stands there twice" in refused("predict", model, *images, "--costs", costs)
    costs.write_text("action\till\twell\n01\t0\t1\n1\t5\t0\n01\t0\t1\n")
    shown = run("predict", model, *images, "--costs", costs)
    assert shown.exit_code == 0, shown.output
    chosen = {line.split("\t")[2] for line in shown.output.splitlines() if "\t" in line}
    assert chosen == {"decision", "01", "1"}


def test_runs_of_new_maps_written_in_two_ways_stay_two(maps, tmp_path):
    from voxprior.cli.inputs import groups_of_maps

    images = [str(path) for path in sorted(maps.glob("*.nii.gz"))[:4]]
    table = tmp_path / "runs.tsv"
    cells = zip(images, ["1", "01", "n/a", "02"])
    table.write_text("file\trun\n" + "".join(f"{file}\t{run}\n" for file, run in cells))
    assert groups_of_maps(images, table, None, None).tolist() == ["1", "01", None, "02"]


def test_a_run_that_is_missing_is_refused_where_runs_would_group(refused, study, tmp_path):
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t").assign(run=[1.0] * 6 + [2.0] * 5 + [None])
    frame.to_csv(table, sep="\t", index=False)
    line = refused("decode", *study, "--out", tmp_path / "o")
    assert "'run' has no run for 1 of 12 scans" in line
    assert "--groups" in line


@pytest.mark.parametrize("command", ["decode", "map", "compare", "pack"])
def test_a_row_of_another_subject_than_its_file_is_refused(refused, study, tmp_path, command):
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    frame.insert(0, "file", [f"{person}_map.nii.gz" for person in frame["participant_id"][::-1]])
    frame.to_csv(table, sep="\t", index=False)
    line = refused(command, *study, "--out", tmp_path / "o.zarr")
    assert "'participant_id' says 'sub-12' of" in line
    assert "sub-01_map.nii.gz" in line


@pytest.mark.parametrize("command", ["decode", "map"])
@pytest.mark.parametrize("cell", ["abc", "inf", "1e308", "n/a", "1_0"])
def test_confounds_that_cannot_be_taken_out_are_refused(
    refused, runs, mask, tmp_path, cell, command
):
    table = tmp_path / "confounds.tsv"
    table.write_text(
        "drift\tother\n" + "".join(f"{i}\t{cell if i == 7 else -i}\n" for i in range(24))
    )
    words = [runs / "run-1_bold.nii.gz", "--events", runs / "run-1_events.tsv"]
    words += ["--mask", mask, "--out", tmp_path / "o", "--confounds", table]
    line = refused(command, *words)
    assert "'other' of the confounds holds" in line or "missing values in other" in line


@pytest.mark.parametrize("command", ["decode", "map", "compare"])
def test_volumes_without_a_run_are_refused(refused, runs, mask, tmp_path, command):
    labels = tmp_path / "labels.csv"
    rows = [f"face#{i // 3 % 2 + 1},{i // 6 + 1}" for i in range(24)]
    labels.write_text("\n".join([*rows[:23], "face#2,"]) + "\n")
    words = [runs / "run-1_bold.nii.gz", "--volume-labels", labels]
    words += ["--mask", mask, "--out", tmp_path / "o"]
    assert "1 volumes have no run, the first is volume 24" in refused(command, *words)


@pytest.mark.parametrize("level", ["participant", "group"])
@pytest.mark.parametrize("wrong", ["a column twice", "a stray quotation mark"])
def test_contradictory_events_of_a_study_are_refused(run, bids, tmp_path, level, wrong):
    for table in bids.rglob("*_events.tsv"):
        table.write_text(WRONG[wrong][0](table.read_text()))
    words = [bids, tmp_path / "o", level, "--task", "faces", "--model", "naive-bayes"]
    result = run("bids", *words)
    assert result.exit_code == 2, result.output
    assert WRONG[wrong][1] in " ".join(result.output.split())
    assert "Traceback" not in result.output
