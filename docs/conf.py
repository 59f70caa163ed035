"""Sphinx configuration: warnings are errors in ``make docs``."""

import voxprior

project = "voxprior"
author = "The voxprior developers"
copyright = "2026, the voxprior developers"
version = release = voxprior.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"
suppress_warnings = ["config.cache"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = "voxprior"
