"""Sphinx configuration: warnings are errors in ``make docs``."""

import os
import shutil
import sys
from pathlib import Path

# The gallery's matrices are small: more threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import voxprior

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# Pages of names that are gone would be warned about.
shutil.rmtree(HERE / "generated", ignore_errors=True)

project = "voxprior"
author = "The voxprior developers"
copyright = "2026, the voxprior developers"
version = release = voxprior.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "katex",
    "tour",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "code"
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
autodoc_typehints = "none"
# The gallery's scraper is a function, which Sphinx cannot keep between builds and need not.
suppress_warnings = ["config.cache"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "figures.WalksFirst",
    "image_scrapers": ("figures.scrape",),
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "thumbnail_size": (720, 440),
    "first_notebook_cell": "%matplotlib inline",  # shows figures that belong to no window, too
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its page would load scripts from the web
}

html_math_renderer = "katex"
html_theme = "furo"
html_title = "voxprior"
html_static_path = ["_static"]
html_css_files = ["style.css"]
