"""Words that stand for plainer ones are kept out of what people read; pairs are in CONTRIBUTING."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

import voxprior
from voxprior.cli import app

ROOT = Path(__file__).parents[1]
REPORT = Path(voxprior.__file__).parent / "report"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), REPORT / "guide.md", REPORT / "audit.md"]
PAGES.append(ROOT / "README.md")
PAGES = [page for page in PAGES if not {"_build", "auto_examples"} & {*page.parts}]
COMMANDS = get_command(app).commands
WORST = re.compile(
    r"\b(told|beside|beforehand|is worth|are worth|hangs? on|is well(?! formed)"
    r"|(is|are) its(?=[.,:;)])|gives? (its|their) digits|counts? for \d+ scans"
    r"|seed of all|up to the cores|is no name of|of the model that was fitted"
    r"|says? nothing about the classes|(do(es)? not|cannot|can) tell[.,])",
    re.IGNORECASE,
)


def prose(text):
    """Words of a page on one line, without code and quoted messages."""
    return " ".join(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL).split())


def worst(text):
    return [prose(text)[max(0, m.start() - 30) : m.end() + 30] for m in WORST.finditer(prose(text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert worst(page.read_text("utf-8")) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    one = COMMANDS[command]
    texts = [one.help, *(getattr(parameter, "help", None) for parameter in one.params)]
    assert [found for text in texts if text for found in worst(text)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Trials beside stock decoders.",
        "What a classifier knows\nbeforehand decides.",
        "Predictive values are its.",
        "They count for 60 scans.",
        "Every family is well.",
    ],
)
def test_the_worst_are_found(sentence):
    assert worst(sentence)


def test_messages_and_code_are_passed_over():
    assert not worst("The tree is well formed; `tell` and `beside`.\n```\nbeside=print\n```")
