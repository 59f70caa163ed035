"""Compiled kernels are kept where nobody else can put any, or nowhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import voxprior
from voxprior import compiled

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners and modes")


def test_a_folder_of_ones_own_is_private(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "there" / "sharing_1").mkdir(mode=0o755)
    assert compiled.is_private(tmp_path / "there")
    assert compiled.is_private(tmp_path / "new" / "numba")
    assert (tmp_path / "new" / "numba").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("where", ["folder", "inside", "above"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_what_others_can_write_is_not(tmp_path, where, mode):
    folder = tmp_path / "shared" / "numba"
    (folder / "sharing_1").mkdir(parents=True)
    place = {"folder": folder, "inside": folder / "sharing_1", "above": folder.parent}[where]
    place.chmod(mode)
    # In a sticky folder nobody renames what is another's; a group is trusted with folders above.
    assert compiled.is_private(folder) is (where == "above" and mode != 0o777)


@pytest.mark.parametrize("where", ["folder", "inside"])
def test_what_belongs_to_others_is_not(tmp_path, monkeypatch, where):
    (tmp_path / "numba" / "sharing_1").mkdir(parents=True, mode=0o700)
    real, stranger = Path.stat, {"folder": "numba", "inside": "sharing_1"}[where]

    def of_another(path, **options):
        state = list(real(path, **options))
        state[4] += path.name == stranger  # the owner
        return os.stat_result(state)

    monkeypatch.setattr(Path, "stat", of_another)
    assert not compiled.is_private(tmp_path / "numba")


def test_a_link_and_a_file_are_judged_by_what_they_are(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    (tmp_path / "file").write_text("")
    assert not compiled.is_private(tmp_path / "link")
    assert not compiled.is_private(tmp_path / "file")


SHOWN = """
{first}
import voxprior.space.kernels as k
print(k._add_lines.stats.cache_path)
"""


def kept(package, first="", **variables):
    """Where a process of its own keeps a kernel, and what it says."""
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", SHOWN.format(first=first)], capture_output=True, text=True,
        env=env | {"PYTHONPATH": str(package)} | variables, cwd=package, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package where this user cannot write beside its modules."""
    place = tmp_path_factory.mktemp("installed")
    source = Path(voxprior.__file__).parent
    shutil.copytree(source, place / "voxprior", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [*(place / "voxprior").rglob("*/"), place / "voxprior"]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("")  # not a folder, whoever the user is
    return place


@pytest.mark.parametrize("first", ["", "import numba"])
def test_a_shared_folder_is_not_used(package, tmp_path, first):
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    for variables in ({"NUMBA_CACHE_DIR": str(shared)}, {"XDG_CACHE_HOME": str(shared)}):
        (shared / "numba").mkdir(exist_ok=True)
        (shared / "numba").chmod(0o777)
        where, told = kept(package, first, HOME=str(own), **variables)
        assert not where.startswith(str(shared))
        assert ("NUMBA_CACHE_DIR" in told) is ("NUMBA_CACHE_DIR" in variables)
        assert [*os.listdir(shared), *os.listdir(shared / "numba")] == ["numba"]


def test_own_folders_are_used(package, tmp_path):
    named, told = kept(package, NUMBA_CACHE_DIR=str(tmp_path / "named"))
    assert named.startswith(str(tmp_path / "named"))
    at_home, also = kept(package, HOME=str(tmp_path))
    assert at_home.startswith(str(tmp_path / ".cache" / "numba"))
    assert not told + also


def test_without_any_they_go_with_the_process(package, tmp_path):
    (tmp_path / "home").write_text("")  # not a folder
    where, _ = kept(package, HOME=str(tmp_path / "home"), TMPDIR=str(tmp_path))
    assert where.startswith(str(tmp_path / "voxprior-kernels-"))
    assert not list(tmp_path.glob("voxprior-kernels-*"))
