"""How a decoding describes itself: what was decoded, by what, from which scans, and the choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.blocks import column_means
from voxprior.decoder.preparation import name_of
from voxprior.images import Dataset
from voxprior.registry import kind_of
from voxprior.report.sample import sample_tables
from voxprior.validation import Result
from voxprior.validation.audit.scans import AuditedScans
from voxprior.validation.audit.variables import tested_columns


def choices(data: Dataset, cv: Any, result: Result) -> list[str]:
    """List automatic choices with their reasons: the split, and how scans were read."""
    found = []
    if cv is None:
        grouped = data.groups is not None
        why = "the scans have groups" if grouped else "the scans have no groups"
        found.append(f"Split: {result.settings.get('split', 'automatic')}, because {why}.")
    images = data.images
    if images is not None and images.mask_source.startswith("computed"):
        found.append(f"Mask: {images.mask_words}.")
    return found + [str(sentence) for sentence in getattr(data, "decisions", ())]


def mean_image(data: Dataset) -> np.ndarray | None:
    """Mean of all scans, to draw maps over; None where values are no longer those of images."""
    if data.n_times > 1 or data.standardize not in ("train", "none"):
        return None
    return column_means(data.X)


def facts(data: Dataset) -> dict[str, dict[str, Any]]:
    """Say in the report's words what is known of the data beyond the Result."""
    trials = data.trials or {}
    return {
        "Data": {
            "a scan is": _unit(trials) if trials else None,
            "conditions": ", ".join(trials.get("conditions") or []) or None,
            "response delay": f"{trials['delay']:g} s" if trials.get("delay") else None,
            "left out": "; ".join(data.dropped) or None,
            "voxels dropped": (data.images and data.images.voxels_dropped) or None,
            "notes": "; ".join(data.notes) or None,
        },
        "Preprocessing": {
            "covariates": None
            if data.covariates is None
            else f"{', '.join(data.covariates.columns)} regressed out of every voxel, as learned "
            "on the training scans",
            "decided from the scans": " ".join(data.decisions) or None,
        },
    }


def sample(data: Dataset, result: Result) -> list[dict[str, Any]]:
    """Tables of who was scanned, from all columns that were handed over."""
    known = AuditedScans(None, data.X, data.y, data.groups, (), *_columns(data), data.names)
    asked = () if data.covariates is None else tuple(data.covariates.columns)
    return sample_tables(result, data.y, data.groups, tested_columns(known), asked)


def _columns(data: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    known = data.known()
    return known["variables"] or {}, known["columns"] or {}


def _unit(trials: dict[str, Any]) -> str:
    return {
        "block": "the mean over the volumes of a block",
        "volume": "a single volume of a block",
        "window": f"{trials['window']} volumes from the onset of a block",
    }[trials["unit"]]


def subject(data: Dataset, name: str | None = None) -> str:
    """Say what is decoded: the classes, or a range of numbers, called by the name of its column."""
    if kind_of(data.y) == "regressor":
        return f"{name or 'a number'} from {np.min(data.y):g} to {np.max(data.y):g}"
    labels = np.unique(data.y)
    return " against ".join(map(str, labels)) if len(labels) <= 4 else f"{len(labels)} classes"


def setting(estimator: Any, data: Dataset, split: str) -> str:
    """Say on one line what the scores are of: scans, people or runs, voxels, mask, split, model."""
    said = [f"{data.n_samples} scans"]
    if data.groups is not None:
        said.append(f"{len(np.unique(data.groups))} groups")
    said.append(
        f"{data.space.n_voxels:,} voxels" if data.images is None else data.images.mask_words
    )
    said.append(split)
    if data.covariates is not None:
        said.append(f"{', '.join(data.covariates.columns)} regressed out")
    prior = getattr(estimator, "prior", None)  # learned from other subjects
    taught = "" if prior is None else f" with a prior from {len(prior.subjects)} others"
    model = name_of(estimator if prior is None else estimator.base, data.y)
    return f"{'; '.join(said)}. Model: {model}{taught}."
