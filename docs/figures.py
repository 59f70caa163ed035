"""The gallery: its order, and pictures of matplotlib figures that belong to no window.

`voxprior.report` returns figures without pyplot, so sphinx-gallery's own scraper does not see them;
this one saves every figure that a code block bound to a name, alone or in a dictionary.
"""

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import FileNameSortKey


class WalksFirst(FileNameSortKey):
    """Walks from files to a report, then examples of single models."""

    def __call__(self, filename):
        """Return a key that sorts walks before others."""
        return ("_walk_" not in str(filename), str(filename))


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
