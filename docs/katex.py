"""Formulas by KaTeX while the pages are built: readers need neither a script nor the web.

``make docs`` fetches KaTeX once into a cache; ``VOXPRIOR_KATEX`` names another copy. Without one,
formulas stay as they are written, and the build says so.
"""

import json
import os
import shutil
import subprocess
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
KATEX = Path(os.environ.get("VOXPRIOR_KATEX") or CACHE / "voxprior" / "katex" / "package" / "dist")
# One formula per line, in and out; a faulty one comes back as its error.
SERVER = """
const katex = require(process.argv[1]);
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const [tex, displayMode] = JSON.parse(line);
  let answer;
  try { answer = {html: katex.renderToString(tex, {displayMode, strict: "error"})}; }
  catch (error) { answer = {error: error.message}; }
  console.log(JSON.stringify(answer));
});
"""


class Renderer:
    """A process of Node.js that draws formulas as HTML."""

    def __init__(self, folder=KATEX):
        self.folder, self.process = Path(folder), None

    def is_there(self):
        """Tell whether KaTeX and Node.js are on this machine."""
        return (self.folder / "katex.min.js").is_file() and shutil.which("node") is not None

    def draw(self, tex, as_block):
        """Return the HTML of a formula; one that KaTeX cannot read stops the build."""
        if not self.is_there():
            return f"<code>{escape(tex)}</code>"
        if self.process is None:
            command = ["node", "-e", SERVER, str(self.folder / "katex.min.js")]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
        self.process.stdin.write(json.dumps([tex, as_block]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise ExtensionError(f"The formula '{tex}' cannot be drawn: {answer['error']}")
        return answer["html"]

    def close(self):
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


RENDERER = Renderer()


def visit_math(self, node):
    """Write a formula inside a line."""
    self.body.append(RENDERER.draw(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_displaymath(self, node):
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="math">{RENDERER.draw(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def copy_style(app, error):
    """Put style sheet and fonts beside the pages."""
    RENDERER.close()
    if error is None and app.builder.format == "html" and RENDERER.is_there():
        target = Path(app.outdir) / "_static" / "katex"
        shutil.copytree(RENDERER.folder / "fonts", target / "fonts", dirs_exist_ok=True)
        shutil.copy(RENDERER.folder / "katex.min.css", target)


def setup(app):
    """Make it the renderer of HTML pages."""
    app.add_html_math_renderer("katex", (visit_math, None), (visit_displaymath, None))
    if RENDERER.is_there():
        app.add_css_file("katex/katex.min.css")
    else:
        print("Formulas stay as they are written: KaTeX or Node.js is absent")
    app.connect("build-finished", copy_style)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
