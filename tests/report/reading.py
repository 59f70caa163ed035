"""A page taken apart: the text of its parts, the cells of its tables, the numbers in a text."""

import re
from html.parser import HTMLParser

NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?(?![\w])")


class Page(HTMLParser):
    """Text of each element that has an id, cells of each table by row, and those folded away."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tables, self.scripts = [], {}, {}, {}
        self.folded, self.title = {}, ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag in ("input", "meta", "link", "img", "br"):
            return
        name = dict(attrs).get("id")
        self.open.append((tag, name))
        if tag == "table":
            inside = next((held for _, held in reversed(self.open) if held), None)
            known = name or (inside if inside == "checklist" else len(self.tables))
            self.rows = self.tables.setdefault(known, [])
            if self.title and any(tag == "details" for tag, _ in self.open):
                self.folded[self.title] = self.rows
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if "script" in tags or "style" in tags:
            self.scripts[self.open[-1][1]] = data
            return
        if tags and tags[-1] == "summary":
            self.title = data.strip()
        if ("td" in tags or "th" in tags) and "table" in tags:
            self.rows[-1][-1] += data.strip()
        for name in {name for _, name in self.open if name}:
            self.text[name] = self.text.get(name, "") + " " + data


def numbers(text):
    return set(NUMBER.findall(text.replace(",000", "000")))


def shown(value):
    return f"{value:.3f}"
