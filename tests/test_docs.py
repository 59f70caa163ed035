"""The page of the API lists what there is, and the family on the page about families works."""

import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import voxprior
import voxprior.auto
import voxprior.models
from voxprior.validation.audit import SEVERITY

DOCS = Path(__file__).parents[1] / "docs"
AUDIT = Path(voxprior.__file__).parent / "report" / "audit.md"
API = "".join((DOCS / name).read_text("utf-8") for name in ("reference.rst", "api.rst"))
LISTED = set(re.findall(r"^   ([\w.]+)$", API, re.MULTILINE))


def test_every_public_name_is_listed():
    assert set(voxprior.__all__) - {"__version__"} <= LISTED


PACKAGES = ["images", "simulate", "validation", "mapping", "decision", "report", "transfer"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_listed(package):
    module = import_module(f"voxprior.{package}")
    ours = {n for n in module.__all__ if getattr(module, n).__module__.startswith("voxprior")}
    assert {n for n in ours if n not in LISTED and f"{package}.{n}" not in LISTED} == set()


def test_the_algorithms_of_every_family_are_listed():
    """Modules of estimators are not listed themselves: their classes are."""
    modules = {
        found.name.removeprefix("voxprior.")
        for package in (voxprior.auto, voxprior.models)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
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


def test_every_finding_is_explained():
    names = re.findall(r"^### ([a-z-]+)$", AUDIT.read_text("utf-8"), re.M)
    assert names == list(SEVERITY)


# ---------------------------------------------------------------- the family of the page


@pytest.fixture(scope="module")
def page():
    """What the code of the page defines, without the line that stands for one of the registry."""
    text = (DOCS / "adding-a-family.md").read_text("utf-8")
    module = sys.modules["page"] = ModuleType("page")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(block, vars(module))
    yield module
    del sys.modules["page"]


def test_the_family_of_the_page_obeys_scikit_learn(page):
    check_estimator(page.NearestMean())
    assert page.FAMILY.label == "NearestMean"


def test_the_pictures_of_the_page_explain_its_maps(page):
    X, y = np.random.default_rng(0).normal(size=(8, 12)), np.arange(8) % 2
    fitted = page.NearestMean.paper().fit(X, y)
    assert set(fitted.voxel_maps()) == set(page.LEGENDS)
    assert all(one.title and one.caption for one in page.draw(fitted, X, y, None))
