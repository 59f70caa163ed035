"""No command writes over what it was given, whichever option named it."""

import os
from inspect import signature
from typing import get_args

import pytest
from tests.cli.conftest import save
from typer.models import ArgumentInfo, OptionInfo

from voxprior.cli import app
from voxprior.cli.arguments import is_output, takes_files
from voxprior.cli.words import flags_of
from voxprior.output.manifest import write_manifest

COMMANDS = {
    (one.name or one.callback.__name__).rstrip("_"): one.callback for one in app.registered_commands
}
OPTIONS = {name: signature(command).parameters for name, command in COMMANDS.items()}
WRITING = [name for name, options in OPTIONS.items() if any(map(is_output, options.values()))]
# These must be folders: what is in them has tests of its own below.
FOLDERS = {"bids_dir", "derivatives", "data"}
# Their help speaks of files, but what they take is a word or a number.
WORDS = {"label", "key", "groups", "unmatched", "set", "model", "searchlight", "split"}
WORDS |= {"scale", "standardize", "space", "units", "name"}
CASES = [
    (name, option)
    for name in WRITING
    for option, taken in OPTIONS[name].items()
    if takes_files(taken) and option not in FOLDERS
]


def info(option):
    """How an option or argument is told to typer."""
    marks = option.annotation.__metadata__
    return next(mark for mark in marks if isinstance(mark, OptionInfo | ArgumentInfo))


def arguments(name):
    return [o.name for o in OPTIONS[name].values() if isinstance(info(o), ArgumentInfo)]


def command_line(name, out, **given):
    """Arguments of a command, of which those that it needs are there."""
    more = {"task": "faces", "level": "participant"} if name == "bids" else {}
    given = dict.fromkeys(arguments(name), "nothing-there") | more | given
    given |= {option: out for option, taken in OPTIONS[name].items() if is_output(taken)}
    words = [given.pop(option) for option in arguments(name)]
    flags = flags_of(COMMANDS[name])
    return [name, *words, *(word for o, value in given.items() for word in (flags[o].on, value))]


def place_of(name, tmp_path, request):
    """An output that stands, and a file in it that the command would replace or delete."""
    if name == "predict":
        return tmp_path / "p.tsv", tmp_path / "p.tsv", {}
    if name == "pack":
        return tmp_path / "s.zarr", tmp_path / ".s.zarr.partial" / "plan", {}
    if name != "bids":
        return tmp_path / "o", tmp_path / "o" / "maps" / "effect.nii.gz", {}
    start = "sub-01_task-faces_contrast-all_space-MNI152NLin2009cAsym_desc-auto_"
    folder = tmp_path / "o" / "sub-01" / "func"
    more = {"bids_dir": request.getfixturevalue("bids")}
    return tmp_path / "o", folder / f"{start}map.json", more


@pytest.fixture
def stands(tmp_path, request):
    """Make an older output with a file in it, and a name for that file."""

    def make(name, kind):
        out, file, more = place_of(name, tmp_path, request)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        if name not in ("predict", "pack"):
            start = file.name.removesuffix("map.json") if name == "bids" else ""
            write_manifest(file.parent if start else out, f"{start}manifest.json", "finished")
        called = tmp_path / "given.json"
        if kind == "itself":
            called = file
        elif kind == "link":
            called.symlink_to(file)
        else:
            os.link(file, called)
        return out, file, called, more

    return make


@pytest.mark.parametrize("kind", ["itself", "link", "hard link"])
@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_input_is_never_an_output(name, option, kind, stands, tmp_path, refused):
    out, file, called, more = stands(name, kind)
    before = sorted(p for p in file.parent.iterdir())
    line = refused(*command_line(name, out, **more | {option: called}))
    assert "is read here, so it cannot be an output as well" in line
    assert str(file) in line
    assert file.read_text() == "{}"
    assert sorted(p for p in file.parent.iterdir()) == before
    assert not list(tmp_path.rglob("*.lock"))


def test_every_command_that_writes_says_where():
    assert set(WRITING) == {
        "demo",
        "decode",
        "predict",
        "score",
        "compare",
        "map",
        "pack",
        "reproduce",
        "bids",
    }
    assert len(CASES) > 40


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_that_names_files_is_forgotten(name):
    for option in OPTIONS[name].values():
        is_text = "str" in str(get_args(option.annotation)[0])
        told = (info(option).help or "").lower()
        speaks = any(word in told for word in ("file", "table", "image", "mesh", "mask", "folder"))
        if is_text and speaks:
            assert takes_files(option) or option.name in WORDS, option.name


@pytest.mark.parametrize("name", WRITING)
def test_a_name_that_is_not_utf8_is_refused_before_work(name, tmp_path, refused):
    bad = os.fsdecode(b"m\xff.nii")
    given = {option: bad for option in arguments(name) if option in ("images", "bids_dir")}
    out = tmp_path / ("p.zarr" if name == "pack" else "p")
    line = refused(*command_line(name, out if given else tmp_path / bad, **given))
    assert "its name is not UTF-8" in line
    assert not list(tmp_path.iterdir())


def test_a_pattern_finds_names_that_are_not_utf8(tmp_path, mask, maps, study, refused):
    os.rename(next(maps.iterdir()), os.fsencode(maps) + b"/sub-01\xff_map.nii.gz")
    assert "its name is not UTF-8" in refused("decode", *study, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_the_folder_of_data_sets_is_not_that_of_the_page(tmp_path, refused):
    line = refused("reproduce", "palatucci2007", "--data", tmp_path, "--out", tmp_path)
    assert "is read here" in line


@pytest.mark.parametrize("level", ["participant", "group"])
def test_runs_are_not_replaced_where_outputs_lie_among_them(level, bids, tmp_path, refused):
    out = bids / "derivatives" / "fmriprep"
    text = '{"GeneratedBy": [{"Name": "fMRIPrep"}, {"Name": "voxprior"}]}'
    (out / "dataset_description.json").write_text(text)
    start = "task-faces_contrast-all_space-MNI152NLin2009cAsym_desc-auto_"
    folder, start = (
        (out / "sub-02" / "func", f"sub-02_{start}")
        if level == "participant"
        else (out / "group", start)
    )
    folder.mkdir(exist_ok=True)
    run = next((out / "sub-02" / "func").glob("*bold.nii.gz"))
    if level == "group":
        os.link(run, folder / run.name)
    write_manifest(folder, f"{start}manifest.json", "finished")
    before = run.read_bytes()
    assert "is read here" in refused("bids", bids, out, level, "--task", "faces")
    assert run.read_bytes() == before
    assert not list(out.rglob("*_result.json"))


def test_half_of_an_image_is_an_input_too(tmp_path, refused):
    for end in ("img", "hdr"):
        (tmp_path / f"m.{end}").write_text("")
    line = refused("predict", tmp_path / "x.skops", tmp_path / "m.img", "--out", tmp_path / "m.hdr")
    assert "is read here" in line


def test_a_pattern_names_inputs(tmp_path, refused):
    save([[[1.0]]], tmp_path / "m1.nii")
    pattern, model = tmp_path / "m*.nii", tmp_path / "x.skops"
    assert "is read here" in refused("predict", model, pattern, "--out", tmp_path / "m1.nii")


def test_one_packed_study_is_all_of_its_files(tmp_path, refused):
    store = tmp_path / "s.zarr"
    (store / "scans").mkdir(parents=True)
    for name in ("zarr.json", "scans/zarr.json"):
        (store / name).write_text("{}")
    line = refused("predict", "x.skops", store, "--out", store / "scans" / "zarr.json")
    assert "is read here" in line
