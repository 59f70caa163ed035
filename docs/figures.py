"""The gallery: its order, and pictures of matplotlib figures that belong to no window.

`voxprior.report` returns figures without pyplot, so sphinx-gallery's own scraper does not see them;
this one saves every figure that a code block bound to a name, alone or in a dictionary.
"""

from pathlib import Path

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import FileNameSortKey

# Walks from files to a report, families as the table of them goes, then what any of them can do.
ORDER = (
    "walk_phd_student",
    "walk_clinic",
    "walk_methods",
    "sharing",
    "fields",
    "boosting",
    "gaussian",
    "rvm",
    "network",
    "age",
    "decision",
)


class WalksFirst(FileNameSortKey):
    """The order of the gallery: one that is not named comes last."""

    def __call__(self, filename):
        """Return the place of an example."""
        name = Path(filename).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def scrape(block, block_vars, gallery_conf):
    """Save the new figures among the example's variables, and return the text that shows them."""
    saved = []
    for value in block_vars["example_globals"].values():
        for figure in value.values() if isinstance(value, dict) else [value]:
            if isinstance(figure, Figure) and not getattr(figure, "_in_gallery", False):
                path = next(block_vars["image_path_iterator"])
                figure.savefig(path, dpi=100)
                figure._in_gallery = True
                saved.append(path)
    return figure_rst(saved, gallery_conf["src_dir"])
