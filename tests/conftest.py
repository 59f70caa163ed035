"""Fixtures that all tests share."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

from voxprior import registry

# A script of `make mutants`, which needs a tool that tests do not.
collect_ignore = ["mutants.py"]

# The same examples in every run: a law that breaks must break for everybody.
settings.register_profile("voxprior", derandomize=True, deadline=None)
settings.load_profile("voxprior")


# Families of other packages that happen to be installed are not what these tests are about.
INSTALLED = {entry.value for entry in registry.entry_points(group=registry.ENTRY_POINTS)}
_entry_points = registry.entry_points
registry.entry_points = lambda **how: [
    entry for entry in _entry_points(**how) if entry.value not in INSTALLED
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def at_once(monkeypatch):
    """Workers are used however short the tasks are."""
    from voxprior.validation import run

    monkeypatch.setattr(run, "SECONDS_HERE", 0.0)
    monkeypatch.setattr(run, "SECONDS_SEEN", 0.0)


@pytest.fixture
def bare_report(monkeypatch):
    """Write a page without content, where a test looks at other things; it saves seconds each."""

    from voxprior import Decoder
    from voxprior.decoder import decoding
    from voxprior.decoder.stock import StockTest

    def bare(self, result, title, data=None, **parts):
        summary = {"headline": {"text": title, "detail": ""}}
        written = {"save": lambda path: path.write_text(title), "save_figures": lambda *_: []}
        return SimpleNamespace(summary=summary, **written)

    monkeypatch.setattr(Decoder, "generate_report", bare)
    monkeypatch.setattr(decoding, "stock_results", lambda *_, **__: StockTest({}, {}))


@pytest.fixture(scope="session")
def data_folder():
    """Find a real data set by name, or skip with the reason where it is absent."""
    root = os.environ.get("VOXPRIOR_DATA")

    def find(name):
        if not root or not (Path(root) / name).is_dir():
            pytest.skip(f"real data set '{name}' is absent: set VOXPRIOR_DATA to its folder")
        return Path(root) / name

    return find


# A browser without a screen that looks for nothing in the web.
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()
