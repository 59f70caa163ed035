"""The report of a decoding: a Result together with the model that was fitted on all images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from voxprior.images import ImageSpace
from voxprior.report.figures import as_uri
from voxprior.report.maps import draw_maps
from voxprior.report.page import Report
from voxprior.report.summary import summarize
from voxprior.validation import Result

# An interactive viewer of a map weighs about a megabyte: only the first maps get one.
VIEWERS = 2


def make_report(
    model: Any,
    images: ImageSpace,
    result: Result,
    title: str = "Decoding report",
    training: tuple[np.ndarray, np.ndarray] | None = None,
    **parts: Any,
) -> Report:
    """Assemble the report of a fitted model and its validation.

    Parameters
    ----------
    model : estimator
        Fitted on all images.
    images : ImageSpace
        What the images were read with.
    result : Result
        Of the validation.
    title : str
        Heading.
    training : (X, y), optional
        The training scans; with them the family's own pictures are drawn.
    **parts
        Further arguments of `summarize`.
    """
    steps = ", then ".join(type(step).__name__ for step in _steps(model))
    done = {"Preprocessing": _preprocessing(images), "Model": {"estimator": steps}}
    done |= dict(parts.pop("done", {}))
    pictures = [] if training is None else family_pictures(model, *training)
    pictures += parts.pop("pictures", ())
    shown = _shown_maps(images, model_maps(model))
    return Report(summarize(result, title=title, done=done, maps=shown, pictures=pictures, **parts))


def _preprocessing(images: ImageSpace) -> dict[str, Any]:
    cleaning = images.cleaning
    filters = [
        f"{n} {getattr(cleaning, n)} Hz" for n in ("high_pass", "low_pass") if getattr(cleaning, n)
    ]
    unit = "a run" if images.standardize in ("run", "baseline") else "a scan"
    return {
        "space": repr(images.space),
        "smoothing": f"{images.smoothing_fwhm} mm FWHM" if images.smoothing_fwhm else "none",
        "temporal cleaning": ", ".join((["detrended"] if cleaning.detrend else []) + filters)
        or "none",
        "standardising": f"{images.standardize} (the unit of prediction is {unit})",
        "notes": "; ".join(images.notes) or None,
    }


def family_pictures(model: Any, X: np.ndarray, y: np.ndarray) -> list[tuple[str, Any]]:
    """Figures that the model's family draws of itself as (title, Figure); none for others.

    X and y are the training scans: controls and resampling need them again.
    """
    *before, final = _steps(model)
    package, _, room = type(final).__module__.rpartition(".")[0].rpartition(".")
    drawing = f"voxprior.report.pictures.{room}"
    if package != "voxprior.models" or find_spec(drawing) is None:
        return []
    for step in before:
        X = step.transform(X)
    return list(import_module(drawing).draw(final, X, y).items())


def _shown_maps(images: ImageSpace, maps: Mapping[str, np.ndarray]) -> list[dict[str, str]]:
    shown = []
    for number, (name, values) in enumerate(maps.items()):
        values = np.asarray(values, dtype=float)
        entry = {"name": name}
        if len(values) > images.space.n_voxels:
            entry["caption"] = "mean over time"
            values = values.reshape(-1, images.space.n_voxels).mean(axis=0)
        entry["image"] = as_uri(draw_maps(images.space, {"": values}))
        if number < VIEWERS and images.space.kind == "volume" and min(images.space.shape) > 1:
            entry["viewer"] = _viewer(images.inverse_transform(values), name)
        shown.append(entry)
    return shown


def _viewer(image: Any, name: str) -> str:
    """Build nilearn's interactive viewer as a whole HTML document that fetches nothing."""
    from nilearn.plotting import view_img

    html = view_img(image, bg_img=False, threshold=None, title=name).get_standalone()
    return re.sub(r"<link[^>]*>", "", html)


def model_maps(model: Any) -> dict[str, np.ndarray]:
    """Maps of a fitted model: its own, or a linear one's weights, led back through a pipeline."""
    steps = _steps(model)
    final = steps[-1]
    if hasattr(final, "voxel_maps"):
        maps = final.voxel_maps()
    elif hasattr(final, "coef_"):
        weights = np.atleast_2d(final.coef_)
        labels = getattr(final, "classes_", [""])
        names = (
            [f"weights[{c}]" for c in labels] if len(weights) == len(labels) > 1 else ["weights"]
        )
        maps = dict(zip(names, weights))
    else:
        return {}
    return {name: _led_back(np.asarray(values), steps[:-1]) for name, values in maps.items()}


def _led_back(values: np.ndarray, steps: Sequence[Any]) -> np.ndarray:
    """Weights on selected or projected features as weights on the features that went in."""
    for step in reversed(steps):
        if hasattr(step, "get_support"):
            full = np.zeros(len(step.get_support()))
            full[step.get_support()] = values
            values = full
        elif type(step).__module__.startswith("sklearn.decomposition"):
            values = values @ step.components_
    return values


def _steps(model: Any) -> list[Any]:
    return [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
