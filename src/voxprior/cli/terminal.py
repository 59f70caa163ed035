"""What commands print for people.

Labels, file names and messages may hold anything: markup of the library that draws tables, codes
that move the cursor, line breaks. They are shown as the text that they are.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Of what --json prints, see voxprior/output/schema.json: one more where a program that reads it may
# have to change.
JSON_VERSION = 1
# Blanks that a column of a table takes beside its text, and those at both ends of the table.
PADDING, EDGES = 3, 2


def printable(text: str) -> str:
    r"""Write characters that would act on a terminal, and those that nobody sees, as escapes.

    >>> print(printable("face\n\x1b[31m"))
    face\n\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """Tell people something, beside the output that programs read."""
    print(printable(text), file=sys.stderr)


def versioned(content: Mapping[str, Any]) -> str:
    """Write what programs read, with the number of its schema first."""
    return json.dumps({"schema_version": JSON_VERSION, **content}, indent=1)


class PlainConsole(Console):
    """A console that shows every text as it is: a label may look like markup."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make what the console prints of a text; titles and cells of tables come here too."""
        return super().render_str(printable(text), **options)


def print_table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    caption: str = "",
) -> None:
    """Print a table with all of its digits: columns that do not fit go below, with the first."""
    widths = [
        max(len(word) for word in [*heading.split(), *(printable(row[c]) for row in rows)])
        for c, heading in enumerate(headings)
    ]
    for number, part in enumerate(parts := _fitting(widths, console.width)):
        table = Table(box=box.SIMPLE)
        table.title = title if number == 0 else None
        table.caption = caption if number == len(parts) - 1 else None
        for column in part:
            justify: Any = "right" if column else "left"
            table.add_column(headings[column], justify=justify, width=widths[column], no_wrap=False)
        for row in rows:
            table.add_row(*(Text(printable(row[c]), no_wrap=True) for c in part))
        console.print(table, crop=False, width=max(console.width, _taken(widths, part)))


def _fitting(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns in parts that fit the room, each with the first column."""
    parts = [[0]]
    for column in range(1, len(widths)):
        if len(parts[-1]) > 1 and _taken(widths, [*parts[-1], column]) > room:
            parts.append([0])
        parts[-1].append(column)
    return parts


def _taken(widths: Sequence[int], part: Sequence[int]) -> int:
    return sum(widths[column] + PADDING for column in part) + EDGES
