"""Every row of the page on messages: a command makes the mistake and says what the page says."""

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from tests.cli.conftest import SHAPE, save
from typer.main import get_command

from voxprior import Decoder
from voxprior.cli import app
from voxprior.errors import InputError
from voxprior.images import load_maps
from voxprior.validation import cross_validate

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text("utf-8")
CELLS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = {row[0]: row[2] for row in CELLS if row[0] != "the message says" and "---" not in row[0]}
N = 12
EASY = ["--model", "naive-bayes", "--no-stock"]


@dataclass
class Made:
    """A mistake: commands (one per message of the row, or one), exit code, remedy as printed."""

    commands: list
    remedy: str
    code: int = 2


def maps(labels=None, names="sub-{:02d}", edit=None, **columns):
    """Write maps of noise with an effect and their table; returns the options of `decode`."""
    rng = np.random.default_rng(0)
    labels = np.tile(["ill", "well"], N // 2) if labels is None else labels
    for k, label in enumerate(labels):
        values = rng.normal(5, 1, SHAPE)
        values[:2] += 3 * (label == "ill")
        if edit is not None:
            edit(k, values)
        save(values.astype("f4"), Path("maps", names.format(k) + ".nii.gz"))
    keys = {"participant_id": [names.format(k) for k in range(len(labels))], "group": labels}
    frame = pd.DataFrame(keys | columns)
    frame.to_csv("table.tsv", sep="\t", index=False)
    return decoding()


def decoding(images="maps/*.nii.gz", table="table.tsv"):
    given = ["--labels", table, "--label", "group", "--out", "out", "--mask", "data", *EASY]
    return ["decode", images, *given]


def table_of(*lines):
    """Maps whose table has these lines in place of its own."""
    options = maps()
    Path("table.tsv").write_text("\n".join(lines) + "\n")
    return options


def rows_of(header, row):
    """A header, and a row per map."""
    return [header, *(row(k, f"sub-{k:02d}", "ill" if k % 2 else "well") for k in range(N))]


def runs(t_r=2.0, shift=0.0, names="run-{}"):
    """Write three runs and their events; returns the options of `decode`."""
    rng = np.random.default_rng(0)
    events = pd.DataFrame({"onset": np.arange(8) * 6.0 + shift, "duration": 6.0})
    events["trial_type"] = np.tile(["face", "house"], 4)
    for k in (1, 2, 3):
        values = 100 + rng.normal(size=(*SHAPE, 24)).astype("f4")
        save(values, Path("runs", names.format(k) + "_bold.nii.gz"), t_r=t_r)
        events.to_csv(Path("runs", names.format(k) + "_events.tsv"), sep="\t", index=False)
    mask = save(np.ones(SHAPE, np.uint8), Path("mask.nii.gz"))
    files = [sorted(map(str, Path("runs").glob(f"*_{one}.*"))) for one in ("bold", "events")]
    return ["decode", *files[0], "--events", *files[1], "--mask", mask, "--out", "out", *EASY]


def bids(sidecar):
    """Write a study of one participant whose images have this sidecar."""
    for k in (1, 2):
        name = f"sub-01_task-faces_run-{k}"
        func, derived = (
            Path("bids", *p, "sub-01", "func") for p in ((), ("derivatives/fmriprep",))
        )
        prepared = derived / f"{name}_space-MNI152NLin2009cAsym_desc"
        rng = np.random.default_rng(k)
        save(
            100 + rng.normal(size=(*SHAPE, 24)).astype("f4"),
            Path(f"{prepared}-preproc_bold.nii.gz"),
            2,
        )
        save(np.ones(SHAPE, np.uint8), Path(f"{prepared}-brain_mask.nii.gz"))
        Path(f"{prepared}-preproc_bold.json").write_text(json.dumps(sidecar))
        events = pd.DataFrame({"onset": np.arange(8) * 6.0, "duration": 6.0})
        events["trial_type"] = np.tile(["face", "house"], 4)
        func.mkdir(parents=True, exist_ok=True)
        events.to_csv(func / f"{name}_events.tsv", sep="\t", index=False)
    return ["bids", "bids", "out", "participant", "--task", "faces", *EASY]


def changed(edit, code=np.float32):
    """Maps of which the fourth is written again, uncompressed where its header is edited."""
    options = maps()
    path = Path("maps/sub-03.nii.gz")
    image = nibabel.load(path)
    values = image.get_fdata(dtype=code)
    path.unlink()
    edit(values, image.affine.copy())
    return options


def written(values, affine, name="maps/sub-03.nii.gz"):
    nibabel.Nifti1Image(values, affine).to_filename(name)


def damaged(values, affine):
    """A header that says that voxels start inside of it."""
    written(values, affine, "maps/sub-03.nii")
    content = bytearray(Path("maps/sub-03.nii").read_bytes())
    content[108:112] = np.float32(100).tobytes()
    Path("maps/sub-03.nii").write_bytes(content)


def files_mistaken():
    options = maps()
    none = [*options[:1], "maps/sub-99.nii.gz", *options[2:]]
    return Made([none, [*options[:1], "none/*.nii.gz", *options[2:]]], "")


def grids_differ():
    def narrow(values, affine):
        written(values[1:], affine)

    def moved(values, affine):
        affine[0, 3] += 40
        written(values, affine)

    return Made([changed(narrow), lambda: changed(moved)], "--resample")


def four_d():
    options = maps()
    save(np.random.default_rng(0).normal(size=(*SHAPE, 9)).astype("f4"), Path("all.nii.gz"))
    return Made([[options[0], "all.nii.gz", *options[2:]]], "one row per volume")


def empty_mask():
    save(np.zeros(SHAPE, np.uint8), Path("empty.nii.gz"))
    return Made([[*maps(), "--mask", "empty.nii.gz"]], "--mask data")


def far_from_zero():
    def far(values, affine):
        written(3e7 + values.astype("f8"), affine)

    return Made([changed(far, np.float64)], "double precision")


def extreme():
    y = np.tile(["ill", "well"], N // 2)
    X = np.zeros((N, 5))
    return Made([lambda: cross_validate(GaussianNB(), X, y, audited=())], "mask")


def mostly_nan():
    def edit(k, values):
        if k == 3:
            values[1:] = np.nan

    return Made([maps(edit=edit)], "Leave out maps/sub-03.nii.gz")


def workbook():
    with zipfile.ZipFile("book.tsv", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    return decoding(table="book.tsv")


def volume_labels():
    options = runs()
    Path("labels.txt").write_text("\n".join(f"{'ab'[k // 3 % 2]} {k // 12}" for k in range(24)))
    text = Path("labels.txt").read_text().split("\n")
    Path("labels.csv").write_text("labels,runs\n" + "\n".join(t.replace(" ", ",") for t in text))
    one = Path("labels.csv")
    one.write_text(one.read_text().replace("b,1", "b,", 1))
    given = ["decode", options[1], "--volume-labels", one, "--mask", "mask.nii.gz"]
    return Made([[*given, "--out", "out", *EASY]], "Give every volume one")


def untrusted():
    maps()
    data = load_maps("maps/*.nii.gz", table="table.tsv", label="group", mask="data")
    Decoder(DecisionTreeClassifier()).fit(data).save("tree.skops")
    return Made([["predict", "tree.skops", "maps/sub-00.nii.gz"]], "--trust")


def surfaces_mixed():
    for side in "LR":
        corners = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
        faces = np.array([[0, 1, 2], [2, 3, 4], [4, 5, 6], [5, 6, 7]], "i4")
        kinds = ((corners, "NIFTI_INTENT_POINTSET"), (faces, "NIFTI_INTENT_TRIANGLE"))
        parts = [nibabel.gifti.GiftiDataArray(a, intent=i) for a, i in kinds]
        nibabel.save(nibabel.GiftiImage(darrays=parts), f"hemi-{side}.surf.gii")
        for k in range(N):
            values = np.random.default_rng(k).normal(size=8).astype("f4")
            part = nibabel.gifti.GiftiDataArray(values)
            nibabel.save(nibabel.GiftiImage(darrays=[part]), f"sub-{k:02d}_hemi-{side}.func.gii")
    volumes = maps()
    given = ["--surface", "hemi-L.surf.gii", "hemi-R.surf.gii"]
    mixed = [
        "predict",
        "out/model.skops",
        "sub-00_hemi-L.func.gii",
        "sub-00_hemi-R.func.gii",
        *given,
    ]
    computed = ["decode", "sub-*.func.gii", *given, *volumes[2:], "--mask", "epi"]
    return Made([computed, lambda: (volumes, mixed)], "kind of images")


def groups_mixed():
    options = maps(run=np.repeat([1, 2, 3, 4], 3))
    del options
    data = load_maps("maps/*.nii.gz", table="table.tsv", label="group", groups="run", mask="data")
    return Made(
        [lambda: Decoder("naive-bayes").evaluate(data, cv=KFold(3, shuffle=True))],
        "split by group",
    )


def offset(k, values):
    values += 30 * (k // 4)


def copied(exact):
    def edit(k, values):
        if k == 4:
            values[:] = np.random.default_rng(7).normal(5, 1, SHAPE)
        if k == 5:
            values[:] = np.random.default_rng(7).normal(5, 1, SHAPE) * (1 if exact else 1.5)

    return edit


def duplicates():
    return Made([maps(edit=copied(True)), lambda: maps(edit=copied(False))], "drop")


def straddling():
    rng = np.random.default_rng(3)
    own = rng.normal(size=(8, *SHAPE)) * 4

    def edit(k, values):
        values += own[k // 4]

    labels = np.tile(["ill", "well"], 16)
    options = maps(
        labels, edit=edit, names="scan-{:02d}", visit=np.repeat([f"v{k}" for k in range(8)], 4)
    )
    return Made([options], "visit", 0)


def overconfident():
    rng = np.random.default_rng(0)
    labels = np.tile(["ill", "well"], 40)

    def edit(k, values):
        values[:] = rng.normal(size=SHAPE) + 1.2 * (labels[k] == "ill") + rng.normal()

    return Made([[*maps(labels, edit=edit), "--scale", "none"]], "TemperatureCalibrated", 0)


CASES = {
    "no such image file": files_mistaken,
    "is a folder. Give its images": lambda: Made([decoding("maps")] if maps() else [], "*"),
    "is an events table": lambda: Made(
        [table_of("onset\tduration\ttrial_type", "1\t2\tface", "4\t2\thouse")], "--events"
    ),
    "not a table": lambda: Made(
        [[*(o := maps())[:3], "maps/sub-00.nii.gz", *o[4:]], workbook], "as the table"
    ),
    "has no column that names the file or the subject": lambda: Made(
        [table_of(*rows_of("group\tage", lambda k, who, g: f"{g}\t{k}"))], "--key"
    ),
    "no file has a complete row": lambda: Made(
        [[*table_of("participant_id\tgroup", "x-1\till", "x-2\twell"), "--unmatched", "drop"]],
        "--key",
    ),
    "Name the file in a column 'file', or remove the other rows": lambda: Made(
        [table_of(*rows_of("participant_id\tgroup", lambda k, who, g: f"sub-00\t{g}"))], "'file'"
    ),
    "rows for it": four_d,
    "cells, but the header names": lambda: Made(
        [table_of(*rows_of("participant_id\tgroup", lambda k, who, g: f"{who}\t{g}\tx"))], "header"
    ),
    "but is read as words because of": lambda: Made(
        [
            [
                *table_of(
                    *rows_of(
                        "participant_id\tgroup\tage", lambda k, who, g: f"{who}\t{g}\t{k or '?'}"
                    )
                ),
                "--covariates",
                "age",
            ]
        ],
        "n/a",
    ),
    "Its cells seem to be parted by": lambda: Made(
        [table_of(*rows_of("participant_id,group", lambda k, who, g: f"{who},{g}"))], ".csv"
    ),
    "stands there twice, with different cells": lambda: Made(
        [table_of(*rows_of("participant_id\tgroup\tgroup", lambda k, who, g: f"{who}\t{g}\tx"))],
        "row 1",
    ),
    "a cell begins with a quotation mark that does not end it": lambda: Made(
        [table_of(*rows_of("participant_id\tgroup", lambda k, who, g: f'{who}\t"{g}'))], "line 2"
    ),
    "look the same and are not": lambda: Made(
        [
            table_of(
                *rows_of(
                    "participant_id\tgroup", lambda k, who, g: f"{who}\t{g}" + "\u200b" * (k == 3)
                )
            )
        ],
        "U+200B",
    ),
    "writes a number in two ways": lambda: Made(
        [
            [
                *table_of(
                    *rows_of(
                        "participant_id\tgroup\tage",
                        lambda k, who, g: f"{who}\t{g}\t{'0' * (k == 3)}{k // 2}",
                    )
                ),
                "--covariates",
                "age",
            ]
        ],
        "Write it in one",
    ),
    "its grid is": grids_differ,
    "The mask is empty": empty_mask,
    "too far from zero for single precision": far_from_zero,
    "says that the voxels start at byte": lambda: Made(
        [[*changed(damaged)[:1], "maps/*", *decoding()[2:]]], "convert it again"
    ),
    "has no finite answer": extreme,
    "are NaN or infinite in some scan, more than half": mostly_nan,
    "and the image header does not say": lambda: Made([runs(t_r=None)], "--t-r"),
    "its header says that a volume came every": lambda: Made(
        [bids({"RepetitionTime": 3.0})], "--t-r"
    ),
    "its RepetitionTime cannot be used": lambda: Made([bids({"RepetitionTime": "fast"})], "--t-r"),
    "has no trial in these runs": lambda: Made(
        [[*runs(), "--conditions", "face,hose"]], "Expected labels among face, house"
    ),
    "was given to": lambda: Made(
        [[*(o := runs(names="sub-01_run-{}"))[:5], *reversed(o[5:8]), *o[8:]]], "order of the runs"
    ),
    "volumes have no": volume_labels,
    "No trial is left": lambda: Made([[*runs(), "--delay", "45"]], "--delay"),
    "no usable fMRIPrep confounds": lambda: Made([[*runs(), "--confounds", "motion"]], "tables"),
    "needs 4-D runs": lambda: Made([[*maps(), "--standardize", "run"]], "--standardize group"),
    "needs groups of two scans or more": lambda: Made(
        [[*maps(), "--standardize", "group"]], "--groups"
    ),
    "[shared-group]": groups_mixed,
    "[leave-one-out]": lambda: Made(
        [[*maps(), "--groups", "participant_id", "--split", "groups"]], "two-out", 0
    ),
    "[labels-confounded]": lambda: Made([maps(site=np.tile(["Oslo", "Rome"], N // 2))], "site", 0),
    "[group-offsets]": lambda: Made(
        [
            [
                *maps(edit=offset, run=np.repeat([1, 2, 3], 4)),
                "--groups",
                "run",
                "--standardize",
                "none",
                "--scale",
                "none",
            ]
        ],
        "--standardize",
        0,
    ),
    "[rare-class]": lambda: Made([maps(np.repeat(["ill", "well"], [2, 28]))], "balanced", 0),
    "[duplicate-images]": duplicates,
    "[column-straddles]": straddling,
    "[probability-scale]": overconfident,
    "-": lambda: Made(
        [[*maps(run=np.repeat([1, 2, 3], 4)), "--groups", "run"]],
        "fewer than 5 independent groups",
        0,
    ),
    "holds what voxprior does not trust": untrusted,
    "is for volumes": surfaces_mixed,
}


def quoted(row):
    return re.findall(r"`([^`]+)`", row)


def outcome(command, run):
    """Exit code and words of a command, of several in turn, or of a call from Python."""
    try:
        steps = command() if callable(command) else command
    except InputError as error:
        return 2, str(error)
    for step in steps if isinstance(steps, tuple) else (steps,):
        result = run(*step)
    return result.exit_code, result.output


@pytest.mark.parametrize("row", ROWS, ids=lambda row: quoted(row)[0])
def test_a_row_is_what_the_command_says(row, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = CASES[quoted(row)[0]]()
    printed = []
    for command in made.commands:
        code, text = outcome(command, run)
        assert code == made.code, text
        assert "Traceback" not in text
        printed.append(" ".join(text.split()))
    for message in quoted(row):
        assert any(message in text for text in printed), printed
    assert any(made.remedy in text for text in printed), printed


def test_every_row_has_a_case():
    assert [quoted(row)[0] for row in ROWS] == list(CASES)


def test_options_of_the_page_exist():
    commands = get_command(app).commands.values()
    known = {name for one in commands for p in one.params for name in p.opts + p.secondary_opts}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= known
