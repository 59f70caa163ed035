"""What a reproduction leaves: results.md with figures for each paper, and one page of claims."""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from voxprior import __version__
from voxprior.papers.claims import Claim, Verdict
from voxprior.papers.frame import LEFT_OUT, Reproduction, Table
from voxprior.papers.tables import cell, machine, markdown
from voxprior.report.page import template
from voxprior.writing import write_whole

PAGE, CLAIMS, RESULTS = "index.html", "claims.md", "results.md"
QUICK = "Quick run: small and few, to see that everything works; its verdicts mean nothing."
RULE = (
    "A claim gives a range to an effect that is measured once in every unit. It holds where the "
    "95 % Student interval of the mean lies inside the range, is refuted where it lies outside, "
    "and is undecided where it reaches across a bound or there are fewer than five units."
)


def results(found: Reproduction, pictures: bool = True) -> str:
    """One paper as Markdown: its claims, tables and figures; or where no file is, their titles."""
    parts = [f"# {found.title}"] + ([QUICK] if found.quick else [])
    parts += [f"Written by `voxprior reproduce {found.name}`. {machine('numba')}."]
    if found.part.claims:
        parts += ["## Claims", RULE, markdown([claim.row() for claim in found.part.claims])]
    for title, table in found.part.tables.items():
        parts += [f"## {title}", _body(table), *([table.differs] if table.differs else [])]
    for name, drawn in found.part.figures.items() if pictures else ():
        parts += [f"## {_titled(name)}", f"![{_titled(name)}]({name}.png)", drawn.caption]
    if found.part.figures and not pictures:
        titles = "; ".join(map(_titled, found.part.figures))
        parts += [f"Pictures are drawn with --out: {titles}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def claims_in_markdown(found: Sequence[Reproduction]) -> str:
    """All claims of all papers."""
    parts = ["# The claims of the papers", *([QUICK] if found[0].quick else []), RULE]
    parts += [f"{count(found)} {machine('numba')}."]
    for one in found:
        rows = [claim.row() for claim in one.part.claims]
        parts += [f"## {one.title}", markdown(rows) if rows else "No claim was tested."]
    return "\n\n".join(parts) + "\n"


def count(found: Sequence[Reproduction]) -> str:
    """How many claims there are of each verdict."""
    verdicts = Counter(claim.verdict for one in found for claim in one.part.claims)
    told = (f"{verdicts[verdict]} {verdict.value}" for verdict in Verdict)
    return f"{verdicts.total()} claims: {', '.join(told)}."


def page(found: Sequence[Reproduction]) -> str:
    """All claims of all papers with their figures, as one HTML page that opens offline."""
    environment = Environment(
        loader=PackageLoader("voxprior.papers", "template"), autoescape=True, trim_blocks=True
    )
    papers = [
        {
            "name": one.name,
            "title": one.title,
            "claims": [_shown(claim) for claim in one.part.claims],
            "absent": _absent(one),
            "tables": [_cells(*item) for item in one.part.tables.items()],
            "figures": [
                {
                    "title": _titled(name),
                    "caption": drawn.caption,
                    "image": "data:image/png;base64," + b64encode(drawn.png).decode(),
                }
                for name, drawn in one.part.figures.items()
            ],
        }
        for one in found
    ]
    return environment.get_template("claims.html").render(
        papers=papers,
        css=template("page.css"),
        rule=RULE,
        quick=QUICK if found[0].quick else "",
        count=count(found),
        software=f"voxprior {__version__}; {machine('numba')}",
    )


def write(found: Reproduction, folder: Path) -> None:
    """Write results.md and the figures of one paper into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RESULTS, results(found))
    for name, drawn in found.part.figures.items():
        write_whole(folder / f"{name}.png", drawn.png)


def write_all(found: Sequence[Reproduction], folder: Path) -> None:
    """Write a paper into the folder, or several into one subfolder each; then the page."""
    for one in found:
        write(one, folder / one.name if len(found) > 1 else folder)
    write_whole(folder / CLAIMS, claims_in_markdown(found))
    write_whole(folder / PAGE, page(found))


def _body(table: Table) -> str:
    return table.rows if isinstance(table.rows, str) else markdown(table.rows)


def _titled(name: str) -> str:
    """Title of a figure from the name of its file.

    >>> _titled("figure2_all_voxels")
    'Figure 2: all voxels'
    """
    head, _, rest = name.partition("_")
    number = head.removeprefix("figure")
    if head.startswith("figure") and number:
        return f"Figure {number}: {rest.replace('_', ' ')}".rstrip(": ")
    return name.replace("_", " ").capitalize()


def _absent(found: Reproduction) -> list[str]:
    """What was left out for want of data, each reason once with the steps that it stopped."""
    steps: dict[str, list[str]] = {}
    for title, table in found.part.tables.items():
        if title.startswith(LEFT_OUT):
            steps.setdefault(str(table.rows), []).append(title.removeprefix(LEFT_OUT))
    return [f"{', '.join(names)}: {reason}" for reason, names in steps.items()]


def _shown(claim: Claim) -> dict:
    return {"row": claim.row(), "verdict": claim.verdict.value}


def _cells(title: str, table: Table) -> dict:
    if isinstance(table.rows, str):
        return {"title": title, "text": table.rows, "rows": [], "columns": []}
    columns = list(table.rows[0])
    rows = [[cell(row[name]) for name in columns] for row in table.rows]
    return {"title": title, "text": table.differs, "columns": columns, "rows": rows}
