"""Replacing an output: ours by the manifest, and nothing that the user has put or changed there."""

import json
import os

import pytest

from voxprior.errors import InputWarning
from voxprior.output.folders import MANIFEST, output_folder
from voxprior.output.manifest import publish, read_manifest

OLD = {"result.json": "old", "report.html": "old", "maps/a.txt": "old", "maps/b.txt": "old"}
NEW = {"result.json": "new", "report.html": "new", "maps/a.txt": "new", "maps/c.txt": "new"}
FOREIGN = {"notes.txt": "mine", "maps/mine.txt": "mine", "mine/deep/a.txt": "mine"}


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write(out, files):
    with output_folder(out, "result.json") as work:
        put(work, files)


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


@pytest.fixture
def out(tmp_path):
    """An output folder, in which the user has put files."""
    write(tmp_path / "out", OLD)
    put(tmp_path / "out", FOREIGN)
    return tmp_path / "out"


def test_the_manifest_names_what_was_written(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, NEW | {"run.json": f"times of {name}"})
    first = (tmp_path / "a" / MANIFEST).read_text()
    assert first == (tmp_path / "b" / MANIFEST).read_text()
    files = json.loads(first)["files"]
    assert list(files) == sorted([*NEW, "run.json"])
    assert files["run.json"] == {}
    assert files["report.html"]["bytes"] == 3
    # of the three letters "new", as `printf new | sha256sum` says
    known = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"
    assert files["report.html"]["sha256"] == known


@pytest.mark.filterwarnings("error")
def test_what_the_user_has_put_there_stays(out):
    write(out, NEW)
    assert content(out) == NEW | FOREIGN
    write(out, {"result.json": "newest"})
    assert content(out) == {"result.json": "newest"} | FOREIGN


def test_an_edited_file_is_kept(out):
    put(out, {"report.html": "edited", "maps/b.txt": "edited", "result.json": "edited"})
    told = "report.html: is not as voxprior wrote it, so it is kept as report.html.old"
    with pytest.warns(InputWarning, match=told):
        write(out, NEW)
    kept = {"report.html.old": "edited", "maps/b.txt": "edited", "result.json.old": "edited"}
    assert content(out) == NEW | FOREIGN | kept
    put(out, {"report.html": "again"})
    write(out, NEW)
    assert content(out) == NEW | FOREIGN | kept | {"report.html.old-2": "again"}


def test_a_file_of_the_user_with_a_new_name_of_ours_is_kept(out):
    put(out, {"maps/c.txt": "mine"})
    write(out, NEW)
    assert content(out) == NEW | FOREIGN | {"maps/c.txt.old": "mine"}


def test_a_file_that_the_user_makes_during_the_work_is_kept(tmp_path):
    with output_folder(tmp_path / "out", "result.json") as work:
        put(work, NEW)
        put(tmp_path / "out", {"report.html": "mine"})
    assert content(tmp_path / "out") == NEW | {"report.html.old": "mine"}


def test_files_and_links_where_folders_are_to_be(out, tmp_path):
    (out / "maps").rename(tmp_path / "elsewhere")
    (out / "maps").symlink_to(tmp_path / "elsewhere")
    before = content(tmp_path / "elsewhere")
    (out / "more").write_text("mine")
    write(out, NEW | {"more/a.txt": "new"})
    assert content(tmp_path / "elsewhere") == before
    assert (out / "maps.old").is_symlink()
    assert (out / "more.old").read_text() == "mine"
    assert (out / "maps" / "a.txt").read_text() == "new"


def test_an_output_of_version_0_1_gives_way_by_name(out):
    (out / MANIFEST).unlink()
    write(out, NEW)
    assert content(out) == NEW | FOREIGN | {"maps/b.txt": "old"}


@pytest.mark.parametrize("text", ["mine", "[]", '{"files": 3}', '{"files": {"../x": {}}}'])
def test_a_manifest_that_is_not_ours_is_kept(out, tmp_path, text):
    put(tmp_path, {"x": "mine"})
    (out / MANIFEST).write_text(text)
    write(out, NEW)
    assert content(out) == NEW | FOREIGN | {"maps/b.txt": "old", f"{MANIFEST}.old": text}
    assert (tmp_path / "x").exists()
    assert set(read_manifest(out / MANIFEST)) == set(NEW)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "..\\x", "C:\\x", "", "\\x"])
def test_names_that_lead_outside_are_not_believed(tmp_path, name):
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({"files": {name: {}}}))
    assert read_manifest(path) is None


# ---------------------------------------------------------------- crashes


def crash_at(step, work):
    """Do some work in another process, which ends at its n-th change of the file system.

    Returns whether it came so far.
    """
    child = os.fork()
    if child == 0:
        left = [step]

        def counted(change):
            def call(*args, **kwargs):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(1)
                return change(*args, **kwargs)

            return call

        for name in ("replace", "rename", "unlink", "rmdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("older", ["nothing", "ours", "version 0.1"])
def test_a_crash_at_any_step_loses_nothing(tmp_path, older):
    steps = 0
    while True:
        out = tmp_path / str(steps) / "out"
        foreign = {} if older == "nothing" else FOREIGN
        if older != "nothing":
            write(out, OLD)
            put(out, FOREIGN)
        if older == "version 0.1":
            (out / MANIFEST).unlink()
        steps += 1
        if not crash_at(steps, lambda out=out: write(out, NEW)):
            break
        found = content(out) if out.exists() else {}
        assert foreign.items() <= found.items()
        if "result.json" in found:  # the sign: what is there is whole
            assert (OLD if found["result.json"] == "old" else NEW).items() <= found.items()
        # Stopped at once, the next command has moved what was whole.
        with pytest.raises(ZeroDivisionError), output_folder(out, "result.json"):
            raise ZeroDivisionError
        after = content(out) if out.exists() else {}
        ours = {name: text for name, text in after.items() if name not in foreign}
        assert not ours or ours.keys() >= {"result.json", "report.html", "maps/a.txt"}
        assert len({ours[name] for name in ours if name in NEW}) < 2
        write(out, NEW)
        assert content(out).items() >= (NEW | foreign).items()
    assert steps > (3 if older == "nothing" else 8)


def test_moving_goes_on_where_it_stopped(tmp_path):
    out, work = tmp_path / "out", tmp_path / "work"
    write(out, OLD)
    write(work, NEW)
    (work / "report.html").replace(out / "report.html")
    (out / "result.json").unlink()
    publish(work, out, MANIFEST, "result.json")
    assert content(out) == NEW
    assert not work.exists()
