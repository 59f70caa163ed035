"""Show docstrings as they read in the source: formulas and tables of symbols line by line.

The package writes formulas as indented lines and tables of symbols with bars. Sphinx would fold
both into paragraphs; this extension makes literal blocks and tables of them, and takes the bars of
|x| and the star of *shape for what they are. Methods that scikit-learn adds are left out.
"""

import re

# Code and bold words; and the signs that mean something to Sphinx, in what is left.
PLAIN = re.compile(r"(`+[^`]*`+|\*\*[^*]+\*\*)|([*|\\]|_(?!\w))")
LIST = re.compile(r"\s*([*-]|\d+\.) ")
UNDERLINE = re.compile(r"^\s*(-{3,}|={3,})\s*$")
# A bar or an unpaired star outside of backticks.
MARKUP = re.compile(r"(`+[^`]*`+)|(\||(?<=[\s(\[])\*(?=\w)(?![^*]*\*))")


def translate(app, what, name, obj, options, lines):
    """Rewrite one docstring in place."""
    if what == "module":
        lines[:] = module_text(lines)
    else:
        underlines = (i - 1 for i, line in enumerate(lines) if i and UNDERLINE.match(line))
        end = next(underlines, len(lines))  # numpydoc takes care of its sections
        examples = lines.index("Examples") if "Examples" in lines else len(lines)
        lines[end:examples] = map(escaped, lines[end:examples])
        lines[:end] = formulas(lines[:end])


def module_text(lines):
    """Return prose as prose, indented blocks as they stand, and bars as tables."""
    out, listed = [], False
    for block in blocks(lines):
        if block[0].startswith("    "):
            out += ["  ::" if listed else "::", "", *block, ""]
            continue
        listed = LIST.match(block[0]) is not None or (listed and block[0].startswith("  "))
        if block[0].startswith("|"):
            out += [*table(block), ""]
        elif len(block) > 1 and UNDERLINE.match(block[1]):
            out += [f"**{block[0]}**", "", *map(reference, block[2:]), ""]
        else:
            out += [*map(prose, block), ""]
    return out


def blocks(lines):
    """Yield runs of lines without a blank one between."""
    run = []
    for line in [*lines, ""]:
        if line.strip():
            run.append(line)
        elif run:
            yield run
            run = []


def prose(line):
    """Return a line whose signs mean themselves, but for code, bold words and marks of lists."""
    mark = LIST.match(line)[0] if LIST.match(line) else ""
    line = re.sub(r"::$", ":", line[len(mark) :])
    return mark + PLAIN.sub(lambda match: match[1] or "\\" + match[2], line)


def reference(line):
    """Return a line of a list of references, whose numbers are not links."""
    return prose(re.sub(r"^\.\. (\[\d+\])", r"* \1", line.replace("   ", "  ", 1)))


def table(lines):
    """Return a table of bars as Sphinx wants it."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    width = len(rows[0])
    out = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows[:1] + rows[2:]:
        cells = [*row, *[""] * (width - len(row))]
        marks = ["   * -", *["     -"] * (width - 1)]
        out += [f"{mark} {prose(cell)}".rstrip() for mark, cell in zip(marks, cells)]
    return out


def escaped(line):
    """Return a line of prose whose bars and lone stars mean themselves."""
    return MARKUP.sub(lambda match: match[1] or "\\" + match[2], line)


def formulas(lines):
    """Return indented lines after a blank one as literal blocks, unless a list has them."""
    out = []
    held = inside = False
    for before, line in zip([""] + lines, lines):
        if line and not line.startswith(" "):
            held = line.startswith(("..", "- ", "* ")) or line.endswith("::")
            inside = False
        elif line.startswith("    ") and not inside and not held and not before.strip():
            out += ["::", ""]
            inside = True
        out.append(line if inside else escaped(line))
    return out


def skip(app, what, name, obj, skip, options):
    """Leave out metadata routing, which every scikit-learn estimator inherits, and bare fields.

    Fields of named tuples are told by their class; their own text is the number they have.
    """
    field = type(obj).__name__ == "_tuplegetter"
    routing = name == "get_metadata_routing" or bool(re.fullmatch(r"set_\w+_request", name))
    return skip or routing or field


def setup(app):
    """Connect before numpydoc, which works on what this leaves."""
    app.connect("autodoc-process-docstring", translate, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
