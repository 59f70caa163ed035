"""Parts of a real report for the tour of it, made while the pages are built.

The directive ``report-part`` shows one of `PARTS` of a report on a simulated study: the page,
without what does not belong to the part, so that its controls work. ``report-number`` stands for a
number of that report, so that the words beside a part cannot differ from it.
"""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

import voxprior
from voxprior import Decoder
from voxprior.simulate import blobs, brain

# Section of the page, and what of it is not shown.
PARTS = {
    "answer": ("answer", "#clinic-h, #clinic-h ~ *"),
    "clinic": ("answer", "#answer > :not(#clinic-h, #clinic-h ~ *), #choices-h, #choices-h ~ *"),
    "choices": ("answer", "#answer > :not(#choices-h, #choices-h ~ *), #audit, #audit ~ *"),
    "audit": ("answer", "#answer > :not(#audit, #audit ~ *)"),
    "where": ("where", "#where figure ~ figure"),
    "maps": ("maps", ""),
    "decisions": ("sure", "#sure .grid"),
    "curves": ("sure", "#sure > :not(h2, .grid)"),
    "model": ("model", ""),
    "predictions": ("predictions", ""),
    "done": ("done", ""),
}
ALWAYS_HIDDEN = ".skip, body > header, .reading a"


def make_report():
    """Decode forty simulated people, and return the page with the numbers that are told of it."""
    people = blobs(brain(8), n_per_class=20, effect=1.0, blob_radius=3, random_state=2)
    rng = np.random.default_rng(0)
    age = (62 + 2 * people.y + rng.normal(0, 8, len(people.y))).round()
    known = pd.DataFrame({"age": age, "site": rng.choice(["north", "south"], len(age))})
    decoder = Decoder(mask=people.mask_image(), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the finding is shown in the report
        done = decoder.decode(
            people.images(),
            np.array(["control", "patient"])[people.y],
            covariates=known,
            title="Patients and controls",
            permutations=99,
            curve=True,
            stock=True,
            positive="patient",
            prevalence=0.2,
            mapping=lambda data, atlas: decoder.map(data, atlas=atlas, n_permutations=1000),
        )
    return done.report.html, numbers(done)


def numbers(done):
    """Return what the tour quotes, as text by name."""
    told = done.report.summary
    scores = {row["name"]: row for row in told["scores"]}
    clinic = {row["name"]: row for row in told["clinic"]}
    alone = next(row for row in told["beside"][0]["rows"] if row[0].endswith(" alone"))
    stock = [float(row[1]) for row in told["beside"][1]["rows"][1:]]
    return {
        "accuracy": scores["accuracy"]["mean"],
        "interval": scores["accuracy"]["interval"],
        "right": re.search(r"\d+ of \d+", told["headline"]["text"])[0],
        "log loss": scores["log loss"]["mean"],
        "log loss of chance": scores["log loss"]["chance"],
        "covariates alone": alone[1],
        "stock": f"{min(stock):.3f} to {max(stock):.3f}",
        "p": f"{done.permutation.p_value:.3g}",
        "smallest p": f"{done.permutation.smallest_p:.3g}",
        "sensitivity": clinic["sensitivity"]["value"],
        "sensitivity of": clinic["sensitivity"]["of"],
        "sensitivity interval": clinic["sensitivity"]["interval"],
        "npv": clinic["negative predictive value"]["value"],
        "significant": f"{int(done.mapping.test.significant.sum())}",
    }


def part_of(page, name):
    """Return the page with one section, of which some is not shown."""
    section, hidden = PARTS[name]
    # The page's script fills the table of predictions, so that must be there.
    ids = dict.fromkeys([section, "predictions"])
    kept = [re.search(rf'<section id="{one}".*?</section>', page, re.DOTALL)[0] for one in ids]
    others = f"main > section:not(#{section})"
    rules = ", ".join(filter(None, [ALWAYS_HIDDEN, others, hidden]))
    style = f"<style>{rules} {{ display: none !important }}</style></head>"
    start, end = page.index("<main>"), page.index("</main>")
    return page[:start].replace("</head>", style) + "<main>" + "".join(kept) + page[end:]


def write_parts(app):
    """Write the parts beside the pages, anew only where the package or this file has changed."""
    folder = Path(app.outdir) / "tour"
    app.env.report_numbers = {}
    if app.builder.format != "html":
        return
    kept, sources = folder / "numbers.json", [Path(__file__)]
    sources += Path(voxprior.__file__).parent.rglob("*.*")
    changed = max(path.stat().st_mtime for path in sources if path.suffix != ".pyc")
    if not kept.exists() or kept.stat().st_mtime < changed:
        page, told = make_report()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.html").write_text(page, "utf-8")
        for name in PARTS:
            (folder / f"{name}.html").write_text(part_of(page, name), "utf-8")
        kept.write_text(json.dumps(told), "utf-8")
    app.env.report_numbers = json.loads(kept.read_text("utf-8"))


class ReportPart(SphinxDirective):
    """A part of the report in a frame, for instance ``report-part:: audit``."""

    required_arguments = 1
    option_spec = {"height": directives.positive_int}  # noqa: RUF012

    def run(self):
        """Return the frame; `height` is in pixels, and what is longer can be scrolled."""
        name = self.arguments[0]
        if name not in PARTS:
            raise self.error(f"no part {name}; there are {', '.join(PARTS)}")
        up = "../" * self.env.docname.count("/")
        frame = (
            f'<iframe class="report-part" title="Part of a report: {name}" loading="lazy" '
            f'src="{up}tour/{name}.html" height="{self.options.get("height", 500)}"></iframe>'
        )
        return [nodes.raw("", frame, format="html")]


class ReportNumber(SphinxRole):
    """A number of the report by its name."""

    def run(self):
        """Return it as text."""
        told = self.env.report_numbers
        if told and self.text not in told:
            raise KeyError(f"no number {self.text!r}; there are {', '.join(told)}")
        return [nodes.Text(told.get(self.text, self.text))], []


def setup(app):
    """Make the parts before pages are read."""
    app.connect("builder-inited", write_parts)
    app.add_directive("report-part", ReportPart)
    app.add_role("report-number", ReportNumber())
    return {"parallel_read_safe": False}
