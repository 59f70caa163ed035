import sys
from types import ModuleType

import pytest


@pytest.fixture
def paper(monkeypatch):
    """A paper whose run prints its arguments, and misses its data without --data."""
    run = ModuleType("voxprior.papers.smith1999.run")

    def main(argv=None):
        print("ran", argv)
        if "--data" not in argv:
            raise FileNotFoundError("data set not found")

    run.main = main
    monkeypatch.setitem(sys.modules, run.__name__, run)
    module = sys.modules["voxprior.cli.reproduce"]
    monkeypatch.setattr(module, "described", lambda: {"smith1999": "How voxels behave."})


def test_papers_are_listed(run, paper):
    assert "smith1999" in run("reproduce").output
    assert "How voxels behave." in run("reproduce").output


def test_arguments_reach_the_paper(run, paper, refused, tmp_path):
    result = run("reproduce", "smith1999", "--quick", "--data", tmp_path, "--out", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert f"ran ['--data', '{tmp_path}', '--out', '{tmp_path / 'o'}', '--quick']" in result.output
    assert refused("reproduce", "smith1999") == "voxprior: data set not found"


def test_bad_input_is_one_line(refused, paper, tmp_path):
    assert "one of smith1999" in refused("reproduce", "jones2001")
    assert "no such folder" in refused("reproduce", "smith1999", "--data", tmp_path / "no")


def test_the_five_papers_are_in_the_package(run):
    listed = run("reproduce").output
    assert all(name in listed for name in ("palatucci2007", "carmi2009", "xiang2009", "rao2017"))
    assert "chen2005" in listed
