"""Show docstrings as they read in the source: formulas and tables of symbols line by line.

The package writes formulas as indented lines and tables of symbols with bars. Sphinx would fold
both into paragraphs; this extension puts them into literal blocks, and takes the bars of |x| and
the star of *shape for what they are. Methods that scikit-learn adds are left out.
"""

import re

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
    """Return the first paragraph as prose and all that follows line by line."""
    end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    rest = lines[end:]
    if not any(line.strip() for line in rest):
        return lines
    return [*lines[:end], "", "::", "", *(f"    {line}" for line in rest), ""]


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
