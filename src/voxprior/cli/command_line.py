"""The command line as results keep it: what decides them, without the folders of a machine."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from voxprior.cli.arguments import CALLED, Called
from voxprior.cli.options import MACHINES

# Files that a pattern stands for are named up to this many.
MOST_FILES = 4
# A path that is absolute, or climbs: from the beginning of a word, behind = or behind a comma.
FAR = re.compile(r"(?:^|(?<=[=,]))(?:/|~/|(?:[^,=]*/)?\.\.(?:/|$))[^,]*")


def command_line() -> str:
    """Return the command that runs, without what changes nothing of its answer; "" outside one.

    Where it writes and which workers it has is left out. Files are named from the working folder or
    from the home of the user, and those elsewhere by their last name.
    """
    called = CALLED.get()
    if called is None:
        return ""
    left = [FAR.sub(lambda path: _near(path[0]), word) for word in _telling(called)]
    return " ".join(["voxprior", *map(_quoted, [called.name, *_shortened(left)])])


def _telling(called: Called) -> Iterator[str]:
    """Words without options that change nothing of the answer, and their values."""
    flags: dict[str, bool] = {}
    for option in called.params:
        machines = getattr(option, "rich_help_panel", None) == MACHINES
        if machines or option.name in ("out", "as_json", "max_memory", "jobs"):
            flags |= dict.fromkeys(option.opts, bool(getattr(option, "is_flag", False)))
    skip = False
    for word in called.words:
        name = word.partition("=")[0]
        if skip:
            skip = False
        elif name in flags:
            skip = not flags[name] and "=" not in word
        elif not (word[:2] in flags and not word.startswith("--")):  # -oname
            yield word


def _near(path: str) -> str:
    """A path as it is seen from the working folder, or from the home of the user.

    >>> _near("/elsewhere/of/somebody/participants.tsv")
    '.../participants.tsv'
    """
    home, here = Path.home(), Path.cwd()
    whole = Path(os.path.abspath(os.path.expanduser(path)))
    if whole.is_relative_to(here) and here not in (*home.parents, Path(here.anchor)):
        return str(whole.relative_to(here))
    if whole.is_relative_to(home) and home != Path(home.anchor):
        return str("~" / whole.relative_to(home))
    return f".../{whole.name}"


def _shortened(words: Sequence[str]) -> Iterator[str]:
    """Words with long lists of files cut: a shell may have written them for a pattern."""
    for option, some in groupby(words, lambda word: word.startswith("-")):
        found = list(some)
        many = not option and len(found) > MOST_FILES
        yield from (found[0], f"[{len(found) - 2} more]", found[-1]) if many else found


def _quoted(word: str) -> str:
    if re.fullmatch(r"\[\d+ more\]", word):
        return word
    start = "~/" if word.startswith("~/") else ""
    return start + shlex.quote(word.removeprefix("~/"))
