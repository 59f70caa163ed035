"""A checklist of what a paper should report, filled in from what was done.

The items follow the tables of the COBIDAS report on predictive (multivariate) analyses [1]_, as far
as a decoding can fill them in. An item that only the authors can fill in is marked for them, never
left out.

References
----------
.. [1] Nichols et al., "Best practices in data analysis and sharing in neuroimaging using MRI",
   Nature Neuroscience 20, 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxprior.report.scores import Score

YOURS = "for you to add"
Tables = Mapping[str, Mapping[str, str]]


def checklist(tables: Tables, score: Score, test: str, extra: Mapping[str, Any]) -> list[dict]:
    """Items in the order of the report: ``item``, ``told``, and whether it is ``filled``.

    Parameters
    ----------
    tables : mapping of section to mapping of item to text
        What was done, as `voxprior.report.methods.fact_tables` writes it.
    score : Score
        The first score.
    test : str
        The sentence on a permutation test; empty where none was made.
    extra : mapping
        ``findings`` (names of what the audit found), ``maps`` (titles of the maps shown) and
        ``beside`` (captions of the tables shown next to the scores).
    """
    data, before = tables.get("Data", {}), tables.get("Preprocessing", {})
    split, model = tables.get("Validation", {}), tables.get("Model", {})
    told = {
        "Participants: recruitment, demographics, ethics": "",
        "Image acquisition and reconstruction": "",
        "Scans analysed": _joined(data, "scans", "a scan is", "groups (runs or subjects)"),
        "Scans left out, and why": data.get("left out", "none left out by the program"),
        "Target of the prediction": _joined(data, "classes", "conditions") or "a number per scan",
        "Features: voxels, mask, region": before.get("voxels", data.get("values per scan", "")),
        "Preprocessing before the decoder": "",
        "Preprocessing by the decoder": _joined(
            before, "smoothing", "temporal cleaning", "standardising"
        ),
        "Confounds": before.get("covariates", "none regressed out by the decoder"),
        "Model": model.get("decoder", model.get("estimator", "")),
        "Hyper-parameters, and how they were set": _joined(
            tables.get("Hyper-parameters", {}), *tables.get("Hyper-parameters", {})
        ),
        "Split into training and test scans": _joined(split, "split", "folds", "seed"),
        "Independence of training and test": _independence(extra),
        "Metric": f"{score.name}, {score.value}",
        "Chance level": "not known" if score.chance is None else f"{score.chance:.3f}",
        "Uncertainty": f"95 % interval {score.range}, {score.how}"
        if score.has_interval
        else f"no interval: {score.interval.reason}",
        "Statistical test": test or "none made",
        "Comparison with other decoders": "; ".join(extra.get("beside", ())) or "none made",
        "Maps, and what they show": ", ".join(extra.get("maps", ())) or "none",
        "Software": ", ".join(f"{name} {v}" for name, v in tables.get("Software", {}).items()),
        "Sharing of data and code": "",
    }  # fmt: skip
    return [
        {"item": item, "told": text or YOURS, "filled": bool(text)} for item, text in told.items()
    ]


def _joined(table: Mapping[str, str], *names: str) -> str:
    return "; ".join(f"{name}: {table[name]}" for name in names if table.get(name))


def _independence(extra: Mapping[str, Any]) -> str:
    found = extra.get("findings", ())
    if not found:
        return "the audit found nothing that training and test scans share"
    return f"findings of the audit: {', '.join(found)}"
