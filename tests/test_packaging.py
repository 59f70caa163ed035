"""What others install from: metadata, the conda recipe, the container and shell completion."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import voxprior

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RECIPE = ROOT / "recipe" / "recipe.yaml"
# Names that conda-forge has given otherwise: plots without a toolkit for windows.
ON_CONDA = {"matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load(RECIPE.read_text("utf-8"))


def test_versions_agree(recipe):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    versions = [PROJECT["version"], recipe["context"]["version"], citation["version"]]
    assert {*map(str, versions)} == {voxprior.__version__}


def test_the_recipe_asks_for_what_the_package_asks_for(recipe):
    asked = {
        ON_CONDA.get(one.name, one.name): str(one.specifier)
        for one in map(
            Requirement, [*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"]
        )
    }
    written = dict(one.split(" ", 1) for one in recipe["requirements"]["run"])
    assert written == asked


def test_the_recipe_builds_and_tests_what_there_is(recipe):
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["build"]["noarch"] == "python"
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_commands_of_the_recipe_exist(recipe):
    from typer.main import get_command

    from voxprior.cli import app

    known = {*get_command(app).commands, "--version"}
    _, commands = recipe["tests"]
    assert {shlex.split(line)[1] for line in commands["script"]} <= known


def test_the_recipe_is_one_that_conda_forge_can_build():
    """Where its builder is installed (the extra ``dev``): keys, types and templates are right."""
    rattler_build = pytest.importorskip("rattler_build")
    found = rattler_build.Stage0Recipe.from_yaml(RECIPE.read_text("utf-8"))
    (package,) = found.render(rattler_build.VariantConfig())
    assert f"version='{voxprior.__version__}'" in repr(package)


# ---------------------------------------------------------------- the container


def instructions(kind):
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{kind} (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("home", ["own", "none"])
def test_the_container_is_the_command_for_bids(tmp_path, home):
    """What follows the name of the image goes to ``voxprior bids``, as for any BIDS App.

    Caches go to a folder that is the user's own, never to one that others can write.
    """
    (entry,), (otherwise,) = instructions("ENTRYPOINT"), instructions("CMD")
    named = next(iter(PROJECT["scripts"]))
    script = f"import os; from {PROJECT['scripts'][named].replace(':', ' import ')}; "
    script += "print('HOME', os.environ['HOME']); main()"
    stands_for = tmp_path / named
    stands_for.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
    stands_for.chmod(0o700)
    homes = {"own": str(tmp_path), "none": str(tmp_path / "none")}
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        [*json.loads(entry), *json.loads(otherwise)], capture_output=True, text=True,
        env=os.environ | {"HOME": homes[home], "PATH": path, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("bids_dir", "participant", "--task"))
    where = done.stdout.splitlines()[0].removeprefix("HOME ")
    assert stat.S_IMODE(os.stat(where).st_mode) == 0o700
    assert not re.search(r"/tmp\b", "".join(instructions("ENV")))


def test_the_container_copies_what_is_installed():
    """All files that building the package reads pass the list of what the container may see."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert ignored[0] == "*"
    seen = {line[1:] for line in ignored if line.startswith("!")}
    assert {"src", "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]} == seen
    (base,) = instructions("FROM")
    python = re.fullmatch(r"python:(3\.\d+)-slim", base).group(1)
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


# ---------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("words", "expected"), [("voxprior de", {"decode", "demo"}), ("voxprior decode --lab", None)]
)
def test_a_shell_can_complete(words, expected):
    asked = {"_VOXPRIOR_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    script = "import sys; sys.argv = ['voxprior']; from voxprior.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True
    )
    found = set(done.stdout.split())
    assert found == (expected or {"--label", "--labels"}), done.stderr
