"""What commands print for people.

Labels, file names and messages may hold anything: markup of the library that draws tables, codes
that move the cursor, line breaks. They are shown as the text that they are.
"""

import sys
from typing import Any

from rich.console import Console
from rich.text import Text


def printable(text: str) -> str:
    r"""Write characters that would act on a terminal, and those that nobody sees, as escapes.

    >>> print(printable("face\n\x1b[31m"))
    face\n\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """Tell people something, beside the output that programs read."""
    print(printable(text), file=sys.stderr)


class PlainConsole(Console):
    """A console that shows every text as it is: a label may look like markup."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make what the console prints of a text; titles and cells of tables come here too."""
        return super().render_str(printable(text), **options)
