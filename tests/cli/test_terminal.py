"""Tables keep all of their digits, however narrow the terminal is."""

import io

import pytest
from rich.console import Console

from voxprior.cli.terminal import PlainConsole, print_table

HEADINGS = ["model", "balanced accuracy", "log loss", "auc", "gain", "p", "seconds"]
ROWS = [
    ["gp", "0.812", "0.401", "0.912", "+0.013", "0.031", "123.4"],
    ["naive-bayes *", "0.799", "12.377", "0.855", "-", "-", "0.2"],
]


@pytest.mark.parametrize(("width", "tables"), [(200, 1), (80, 1), (60, 2), (40, 3)])
def test_what_does_not_fit_goes_below(width, tables):
    console = Console(width=width, file=io.StringIO())
    print_table(console, HEADINGS, ROWS, "a title", "a caption")
    text = console.file.getvalue()
    assert all(cell in text for row in ROWS for cell in row[1:])
    assert text.count("naive-bayes") == text.count("model") == tables
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.index("a title") < text.index("gp") < text.index("a caption")


def test_cells_of_several_words_stay_in_a_line(capsys):
    print_table(PlainConsole(), ["model", "a long heading"], [["lda *", "+0.1 [0.0, 0.2]"]])
    assert "lda *   +0.1 [0.0, 0.2]" in capsys.readouterr().out
