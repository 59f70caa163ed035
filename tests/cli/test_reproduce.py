import sys

import pytest

import voxprior
from voxprior.cli.reproduce import described


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A source checkout with one paper, whose run prints its arguments."""
    paper = tmp_path / "benchmarks" / "papers" / "smith1999"
    paper.mkdir(parents=True)
    for folder in (paper.parent.parent, paper.parent):
        (folder / "__init__.py").touch()
    (paper / "__init__.py").write_text('"""Smith 1999: how voxels behave."""\n')
    (paper / "run.py").write_text(
        "def main(argv=None):\n"
        "    print('ran', argv)\n"
        "    if '--data' not in argv:\n"
        "        raise FileNotFoundError('data set not found')\n"
    )
    package = tmp_path / "src" / "voxprior" / "__init__.py"
    package.parent.mkdir(parents=True)
    monkeypatch.setattr(voxprior, "__file__", str(package))
    others = {name for name in sys.modules if name.split(".")[0] == "benchmarks"}
    for name in others:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_papers_are_listed(run, checkout):
    assert "Smith 1999: how voxels behave." in run("reproduce").output
    assert described(checkout / "benchmarks" / "papers").keys() == {"smith1999"}


def test_arguments_reach_the_paper(run, checkout, refused):
    result = run("reproduce", "smith1999", "--quick", "--data", checkout)
    assert result.exit_code == 0, result.output
    assert f"ran ['--data', '{checkout}', '--quick']" in result.output
    assert refused("reproduce", "smith1999") == "voxprior: data set not found"
    assert str(checkout) not in sys.path


def test_bad_input_is_one_line(refused, checkout, tmp_path, monkeypatch):
    assert "choose one of smith1999" in refused("reproduce", "jones2001")
    assert "no such folder" in refused("reproduce", "smith1999", "--data", tmp_path / "no")
    monkeypatch.setattr(voxprior, "__file__", str(tmp_path / "a" / "b" / "c" / "__init__.py"))
    assert "source checkout" in refused("reproduce")


def test_this_checkout_has_papers(run):
    assert run("reproduce").exit_code == 0
