"""What a command reads is never replaced by what it writes; its own files in between may lie."""

import os

import pytest

from voxprior.errors import InputError
from voxprior.output.folders import MANIFEST, output_files, output_folder
from voxprior.writing import reading

SIGN = "x_result.json"


def folder(place):
    return output_folder(place / "out", SIGN)


def files(place):
    return output_files(place / "out", "x", SIGN)


def written(work_in, names):
    with work_in as work:
        for name in names:
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text("new")


@pytest.fixture(params=[folder, files])
def output(request, tmp_path):
    """An older output: its sign, and a map."""
    (tmp_path / "out").mkdir()
    written(request.param(tmp_path), [SIGN, "maps/x_effect.nii"])
    return lambda: request.param(tmp_path)


@pytest.mark.parametrize("name", ["maps/x_effect.nii", SIGN])
@pytest.mark.parametrize("manifest", ["with a manifest", "without one", "as a hard link"])
def test_older_files_that_are_read_are_not_replaced(output, tmp_path, name, manifest):
    read = tmp_path / "out" / name
    if manifest == "as a hard link":
        read = tmp_path / "elsewhere"
        os.link(tmp_path / "out" / name, read)
    if manifest == "without one":
        next((tmp_path / "out").glob(f"*{MANIFEST}")).unlink()
    before = read.read_text()
    with reading([read]), pytest.raises(InputError, match=r"is read here"):
        written(output(), [SIGN])
    assert read.read_text() == before
    assert not list(tmp_path.rglob(".*"))


def test_a_folder_that_is_read_keeps_its_files(output, tmp_path):
    with reading([tmp_path / "out" / "maps"]), pytest.raises(InputError, match=r"is read here"):
        written(output(), [SIGN])
    assert (tmp_path / "out" / "maps" / "x_effect.nii").exists()


def test_the_output_is_not_the_folder_that_is_read(tmp_path):
    with reading([tmp_path]), pytest.raises(InputError, match=r"is read here"):
        written(output_folder(tmp_path, SIGN), [SIGN])


def test_files_of_ones_own_may_be_read_where_the_output_goes(output, tmp_path):
    mine = tmp_path / "out" / "mine.tsv"
    mine.write_text("mine")
    with reading([mine, tmp_path]):
        written(output(), [SIGN])
    assert mine.read_text() == "mine"


def test_a_name_that_only_the_new_output_has_is_refused_at_its_end(output, tmp_path):
    mine = tmp_path / "out" / "x_learning.tsv"
    mine.write_text("mine")
    with reading([mine]), pytest.raises(InputError, match=r"x_learning\.tsv: is read here"):
        written(output(), [SIGN, mine.name])
    assert mine.read_text() == "mine"
    assert sorted(p.name for p in mine.parent.glob("*.old")) == []
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("end", ["partial/labels.tsv", "lock"])
def test_unfinished_work_and_locks_that_are_read_stay(output, tmp_path, end):
    with output() as work:
        pass
    read = work.parent / (work.name.removesuffix("partial") + end)
    read.parent.mkdir(exist_ok=True)
    read.write_text("mine")
    with reading([read]), pytest.raises(InputError, match=r"is read here"):
        written(output(), [SIGN])
    assert read.read_text() == "mine"
