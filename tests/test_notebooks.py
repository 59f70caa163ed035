"""Notebooks in a real kernel: an example of the gallery, and what work that takes long leaves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[1] / "examples"
CELLS = [
    """
from voxprior import Decoder
from voxprior.simulate import blobs
data = blobs((6, 6, 5), n_per_class=16, n_groups=8, n_blobs=1, random_state=0)
images = data.images(), data.y, data.groups
decoder = Decoder("sharing", mask=data.mask_image(), verbose=1)
""",
    "decoder.evaluate(*images)",
    "decoder.permutation_test(*images, n_permutations=20)",
    "decoder.map_test(*images, n_permutations=20)",
    "decoder.searchlight(*images, radius=4, n_permutations=20)",
    "decoder.fit(*images)",
    "data.space",
]
FIRST_WORDS = ["Result of", "Permutation test", "Map test", "Searchlight", "Decoder", "VoxelSpace"]


def executed(notebook, folder):
    """The outputs of every cell; an error in one is raised."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": folder}}
    ).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_a_notebook_of_the_gallery_shows_its_figures_and_its_report(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("sphinx_gallery")
    script = tmp_path / "plot_walk_phd_student.py"
    script.write_bytes((EXAMPLES / script.name).read_bytes())
    convert = "from sphinx_gallery.notebook import python_to_jupyter_cli as main; main()"
    subprocess.run([sys.executable, "-c", convert, str(script)], check=True)
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%matplotlib inline"))
    outputs = executed(notebook, str(tmp_path))
    shown = [one.data for cell in outputs for one in cell if "data" in one]
    assert any("image/png" in one for one in shown)
    assert shown[-1]["text/html"].startswith("<iframe")


def test_a_notebook_keeps_one_full_bar_per_work_and_shows_results(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    _, *outputs = executed(notebook, str(tmp_path))
    for words, (*before, last) in zip(FIRST_WORDS, outputs, strict=True):
        assert re.search(rf"<p>{words}", last.data["text/html"])
        assert all(re.search(r"\b(\d+)/\1, \d+ s$", one.data["text/plain"]) for one in before)
        assert all("<progress" in one.data["text/html"] for one in before)
    assert [len(one) for one in outputs] == [2, 2, 2, 2, 1, 1]
