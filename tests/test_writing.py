"""Files that are written whole or not at all, whatever stands in their place."""

import ast
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

import voxprior
from voxprior import writing
from voxprior.errors import InputError
from voxprior.images import write_map
from voxprior.lock import exclusive
from voxprior.modelfile import files
from voxprior.output import output_folder
from voxprior.report.figures import blank
from voxprior.report.page import Drawn, Report
from voxprior.space import VoxelSpace
from voxprior.validation import cross_validate
from voxprior.writing import check_name, private_folder, reading, write_whole

posix = pytest.mark.skipif(os.name != "posix", reason="links, FIFOs and modes are of POSIX")


def a_result():
    y = np.repeat(["a", "b"], 4)
    return cross_validate(DummyClassifier(), np.arange(8.0)[:, None], y, cv=2, random_state=0)


DOORS = {
    "text": ("a.txt", lambda path: write_whole(path, "new")),
    "model": ("a.skops", lambda path: files.write(path, {"digest": "a"})),
    "map": ("a.nii.gz", lambda path: write_map(np.ones(8), VoxelSpace.grid((2, 2, 2)), path)),
    "result": ("a.json", lambda path: a_result().to_json(path)),
    "figure": (
        "a.png",
        lambda path: Report({}, (Drawn("a", blank(1, 1)),)).save_figures(path.parent),
    ),
}
# Modules that write bit by bit what a crash must leave: locks, journals, rows; and logs of faults.
BY_THEMSELVES = {"writing.py", "lock.py", "images/packing.py", "validation/store.py"}
BY_THEMSELVES |= {"cli/errors.py"}


@pytest.fixture(params=DOORS)
def door(request, tmp_path):
    """A way to write a file, and where it goes."""
    name, write = DOORS[request.param]
    return write, tmp_path / "new" / name


@pytest.fixture
def thesis(tmp_path):
    file = tmp_path / "thesis.tex"
    file.write_text("years of work")
    return file


def test_a_file_appears_alone(door):
    write, path = door
    path.parent.mkdir()
    path.write_text("old")
    write(path)
    assert path.read_bytes() != b"old"
    assert {p.name for p in path.parent.iterdir()} <= {path.name, "a.svg"}
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((_new(path.parent)).stat().st_mode)


def _new(folder):
    (folder / "usual").touch()
    return folder / "usual"


@posix
def test_a_link_in_the_place_of_a_file_is_refused(door, thesis):
    write, path = door
    path.parent.mkdir()
    path.symlink_to(thesis)
    with pytest.raises(InputError, match=rf"{path.name}: is a link to {thesis}"):
        write(path)
    assert path.is_symlink()
    assert thesis.read_text() == "years of work"


@posix
def test_a_file_that_is_read_stays(door):
    write, path = door
    path.parent.mkdir()
    path.write_text("read")
    with reading([path]), pytest.raises(InputError, match="is read here"):
        write(path)
    assert path.read_text() == "read"
    write(path)


@posix
@pytest.mark.parametrize("door", ["text", "model", "map", "result"], indirect=True)
def test_a_fifo_stays_one_and_gets_the_content(door, tmp_path):
    write, path = door
    path.parent.mkdir()
    write(path)
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert got == [content]
    assert stat.S_ISFIFO(path.lstat().st_mode)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@posix
def test_a_descriptor_of_the_process_is_written_to_as_it_is(tmp_path):
    with (tmp_path / "log").open("w+b", buffering=0) as file:
        file.write(b"before ")
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            if Path(name).exists():
                write_whole(name, "table ")
        assert (tmp_path / "log").read_text().startswith("before table ")


@posix
def test_a_device_stays_one(tmp_path):
    before = os.stat("/dev/null")
    (tmp_path / "null").symlink_to("/dev/null")
    for path in ("/dev/null", tmp_path / "null"):
        write_whole(path, "gone")
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_rdev) == (after.st_mode, after.st_rdev)
    with pytest.raises(OSError, match="/dev/full: cannot be written"):
        write_whole("/dev/full", "gone")


@posix
def test_a_planted_name_is_not_written_through(tmp_path, thesis, monkeypatch):
    """The names of version 0.2, and one that was guessed: a new folder is never an old one."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in (f".p.tsv.{os.getpid()}.partial", ".p.tsv.partial", ".voxprior-guessed"):
        (folder / name).symlink_to(thesis)
    guesses = iter(["guessed", "guessed", "new"])
    monkeypatch.setattr("tempfile._get_candidate_names", lambda: guesses)
    write_whole(folder / "p.tsv", "table")
    assert (folder / "p.tsv").read_text() == "table"
    assert thesis.read_text() == "years of work"


def test_no_two_names_are_the_same_and_none_can_be_entered(tmp_path):
    seen = []
    for _ in range(3):
        with writing.written_whole(tmp_path / "p.tsv") as new:
            seen.append(new.parent.name)
            assert os.name != "posix" or stat.S_IMODE(new.parent.stat().st_mode) == 0o700
            new.touch()
    assert len(set(seen)) == 3


def test_what_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "p.tsv"
    write_whole(path, "old")
    with pytest.raises(ZeroDivisionError), writing.written_whole(path) as new:
        new.write_text(f"half {1 / 0}")
    assert [p.name for p in tmp_path.iterdir()] == ["p.tsv"]
    assert path.read_text() == "old"
    with pytest.raises(OSError, match=r"nowhere.p\.tsv: cannot be written"):
        write_whole(tmp_path / "nowhere" / "p.tsv", "new")
    with pytest.raises(InputError, match="is a folder"):
        write_whole(tmp_path, "new")


def test_a_name_that_is_not_utf8():
    assert check_name("é.nii") == "é.nii"
    with pytest.raises(InputError, match=r"m\\udcff\.nii: its name is not UTF-8"):
        check_name("m\udcff.nii")


@pytest.mark.parametrize("mark", ["\n", "\t", "\r", "\x1b", "\u2028", "\x85"])
def test_a_name_with_a_line_break(mark):
    with pytest.raises(InputError, match="line break or another control") as raised:
        check_name(f"m{mark}.nii")
    assert mark not in str(raised.value)


# ---------------------------------------------------------------- work of somebody else


def _another_users(path):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 65534, 65534)


STRANGE = {
    "another user's": _another_users,
    "open to the group": lambda path: path.chmod(0o775 if path.is_dir() else 0o664),
    "open to all": lambda path: path.chmod(0o757 if path.is_dir() else 0o646),
}


@posix
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("end", ["partial", "lock"])
def test_what_others_may_have_prepared_is_not_taken_over(tmp_path, end, strange):
    place = tmp_path / f".out.{end}"
    planted = place / "maps" if end == "partial" else place
    if end == "partial":
        place.mkdir()
    planted.write_text("planted")
    STRANGE[strange](place)
    with pytest.raises(InputError, match=rf"\.out\.{end}: "), output_folder(tmp_path / "out", "r"):
        pass
    assert planted.read_text() == "planted"
    assert not (tmp_path / "out").exists()


@posix
def test_a_whole_output_of_somebody_else_is_not_published(tmp_path):
    work = tmp_path / ".out.partial"
    work.mkdir()
    (work / "r").write_text("planted")
    (work / "manifest.json").write_text('{"files": {}}')
    work.chmod(0o777)
    with pytest.raises(InputError, match="can be written by other users"):
        output_folder(tmp_path / "out", "r").__enter__()
    assert not (tmp_path / "out").exists()


@posix
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_is_a_file(tmp_path, make):
    make(tmp_path / "lock")
    with pytest.raises((InputError, OSError)), exclusive(tmp_path / "lock", tmp_path):
        pass
    assert (tmp_path / "lock").exists()


@posix
def test_a_lock_is_not_another_file_of_mine(tmp_path, thesis):
    os.link(thesis, tmp_path / "lock")
    lock = exclusive(tmp_path / "lock", tmp_path)
    with pytest.raises(InputError, match="has another name"), lock:
        pass
    assert thesis.read_text() == "years of work"


@posix
def test_unfinished_work_is_closed_and_the_output_open(tmp_path):
    before = os.umask(0o002)
    try:
        with output_folder(tmp_path / "out", "r") as work:
            assert stat.S_IMODE(work.stat().st_mode) == 0o700
            private_folder(work)  # taken over by the same user
            (work / "r").touch()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o775
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["manifest.json", "r"]


def test_half_a_file_of_a_killed_command_makes_no_folder_somebody_elses(tmp_path):
    (tmp_path / "out" / f"{writing.HIDDEN}a1b2").mkdir(parents=True)
    with output_folder(tmp_path / "out", "r") as work:
        (work / "r").touch()
    assert (tmp_path / "out" / "r").exists()


@posix
def test_where_modes_are_not_kept_nothing_is_refused(tmp_path, monkeypatch):
    """A file system that shows all as open, such as a mounted disk of Windows."""
    monkeypatch.setattr(writing, "OPEN", 0)
    (tmp_path / "work").mkdir(mode=0o777)
    private_folder(tmp_path / "work")


# ---------------------------------------------------------------- all of the package


def _writes(call):
    """Whether a call writes a file by itself."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    words = [one.value for one in call.args if isinstance(one, ast.Constant)]
    if name == "open":
        modes = [word for word in words if isinstance(word, str) and word.strip("rwaxbt+") == ""]
        on_new = ast.unparse(call.func) == "new.open"  # inside `written_whole`
        return not on_new and any(set(mode) & set("wax+") for mode in modes)
    if name == "to_csv":
        return bool(call.args) or any(one.arg == "path_or_buf" for one in call.keywords)
    return name in ("write_text", "write_bytes", "mkstemp", "copyfile", "copy2")


def test_no_module_writes_files_by_itself():
    root = Path(voxprior.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _writes(node)
    }
    assert found <= BY_THEMSELVES
