"""Formulas as MathML, which browsers draw themselves: pages need neither a script nor the web."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def convert(tex, as_block):
    """Return the MathML of a formula; one that cannot be converted stops the build."""
    # Brackets of a given size are for print; these grow with what they hold.
    fenced = re.sub(r"\\[Bb]igg?(?=[\[(])", r"\\left", tex)
    fenced = re.sub(r"\\[Bb]igg?(?=[\])])", r"\\right", fenced)
    # A fraction of two digits, as in \\tfrac12, would be read as the number 12 over what follows.
    fenced = re.sub(r"\\([td]?frac)(\d)(\d)", r"\\\1{\2}{\3}", fenced)
    try:
        return tex2mathml(fenced, as_block=as_block)
    except MathError as error:
        raise ExtensionError(f"The formula '{tex}' cannot be written as MathML: {error}") from error


def visit_math(self, node):
    """Write a formula inside a line."""
    self.body.append(convert(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_displaymath(self, node):
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="math">{convert(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Make it the renderer of HTML pages."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
