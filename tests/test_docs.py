"""The page of the API lists what there is."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import voxprior
import voxprior.models

API = (Path(__file__).parents[1] / "docs" / "api.rst").read_text("utf-8")
LISTED = set(re.findall(r"^   ([\w.]+)$", API, re.MULTILINE))


def test_every_public_name_is_listed():
    assert set(voxprior.__all__) - {"__version__"} <= LISTED


@pytest.mark.parametrize("package", ["images", "simulate", "validation", "decision", "report"])
def test_every_name_of_a_package_is_listed(package):
    module = import_module(f"voxprior.{package}")
    ours = {n for n in module.__all__ if getattr(module, n).__module__.startswith("voxprior")}
    assert {n for n in ours if n not in LISTED and f"{package}.{n}" not in LISTED} == set()


def test_the_algorithms_of_every_family_are_listed():
    """Modules of estimators are not listed themselves: their classes are."""
    families = voxprior.models.__path__
    modules = {
        found.name.removeprefix("voxprior.")
        for found in pkgutil.walk_packages(families, "voxprior.models.")
        if not found.ispkg
    }
    public = (getattr(voxprior, name) for name in voxprior.__all__)
    estimators = {getattr(one, "__module__", "").removeprefix("voxprior.") for one in public}
    assert modules - estimators - LISTED == set()


def test_what_is_listed_is_there():
    for section in API.split(".. currentmodule:: ")[1:]:
        prefix = section.split(maxsplit=1)[0]
        for name in re.findall(r"^   ([\w.]+)$", section, re.MULTILINE):
            pkgutil.resolve_name(f"{prefix}.{name}")
