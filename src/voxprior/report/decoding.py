"""The report of a decoding: a Result together with the model that was fitted on all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.pipeline import Pipeline

from voxprior.images import ImageSpace
from voxprior.registry import model_of
from voxprior.report.figures import Album
from voxprior.report.page import Report
from voxprior.report.pictures import LINEAR_LEGENDS, Picture
from voxprior.report.shown import model_entries, show_maps
from voxprior.report.summary import result_pictures, standing_picture, summarize
from voxprior.space import VoxelSpace
from voxprior.validation import Result


def make_report(
    model: Any,
    images: ImageSpace,
    result: Result,
    title: str = "Decoding report",
    training: tuple[np.ndarray, np.ndarray] | None = None,
    atlas: Any = None,
    of_model: Mapping[str, np.ndarray] | None = None,
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
    atlas : Atlas, optional
        Names peaks, see `voxprior.mapping.read_atlas`.
    of_model : mapping of str to array, optional
        What `model_maps` returns for the model, where it is known already.
    **parts
        Further arguments of `report_of` and `summarize`.
    """
    done: dict[str, dict[str, Any]] = {
        "Data": {"n_features": _n_values(images, result)},
        "Preprocessing": _preprocessing(images, model),
        "Model": _described(model),
    }
    for section, items in parts.pop("done", {}).items():
        done[section] = done.get(section, {}) | dict(items)
    of_model = model_maps(model) if of_model is None else of_model
    pictures = []
    if training is not None:
        pictures = family_pictures(model, *training, images.space, of_model)
    pictures += parts.pop("pictures", ())
    final = _steps(model)[-1]
    where = parts.pop("where", None)
    tested = [] if where is None else where["maps"]
    legends, classes = _of_family(final, "LEGENDS", LINEAR_LEGENDS), getattr(final, "classes_", ())
    entries = model_entries(images.space, of_model, legends, classes)
    ground = {"names": parts.get("names", ()), "mean": parts.pop("mean", None), "atlas": atlas}
    maps, stage, viewers = show_maps(images.space, [*tested, *entries], **ground)
    if where is not None:
        parts["where"] = where | {"maps": maps[: len(tested)]}
    parts |= {"maps": maps[len(tested) :], "stage": stage, "viewers": viewers}
    decisions = [*parts.pop("decisions", ()), *map(str, getattr(final, "decisions_", ()))]
    return report_of(
        result, title=title, done=done, pictures=pictures, decisions=decisions, **parts
    )


def report_of(
    result: Result,
    *,
    pictures: Sequence[Picture] = (),
    maps: Sequence[Mapping[str, Any]] = (),
    where: Mapping[str, Any] | None = None,
    others: Mapping[str, Result] | None = None,
    **parts: Any,
) -> Report:
    """Draw the pictures of a Result, and put them and those that come with it onto a page.

    Parameters
    ----------
    result : Result
        Of a validation run.
    pictures : sequence of Picture
        What the family draws.
    others : mapping of str to Result, optional
        Other decoders on the same folds, by name, for the first figure.
    maps : sequence of dict
        Maps, as `voxprior.report.shown.show_maps` returns them.
    where : mapping, optional
        Where classes differ, see `voxprior.report.where.where_summary`, its maps as above.
    **parts
        Further arguments of `summarize`.
    """
    own = result_pictures(
        result, parts.get("permutation"), parts.get("learning"), parts.get("positive")
    )
    album = Album()
    first = standing_picture(result, others or {}, parts.get("permutation"))
    parts["standing"] = {"title": first.title, "caption": first.caption} | album.add(
        first.title, first.figure
    )
    parts["beside"] = [_with_figure(one, album) for one in parts.get("beside", ())]
    told = [
        [
            {"title": one.title, "caption": one.caption} | album.add(one.title, one.figure)
            for one in kind
        ]
        for kind in (own, pictures)
    ]
    parts |= {"figures": told[0], "pictures": told[1], "maps": album.add_maps(maps, "map")}
    if where is not None:
        parts["where"] = dict(where) | {"maps": album.add_maps(where["maps"], "where")}
    return Report(summarize(result, **parts), tuple(album.drawn))


def _with_figure(table: Mapping[str, Any], album: Album) -> dict[str, Any]:
    """Return a table that is shown with the scores, its picture drawn if it has one."""
    shown = dict(table)
    one = shown.pop("picture", None)
    if one is not None:
        drawn = album.add(one.title, one.figure)
        shown["figure"] = {"title": one.title, "caption": one.caption} | drawn
    return shown


# ---------------------------------------------------------------- what was done

STANDARDIZING = {
    "run": "every voxel by its mean and deviation over the run (so a whole run is predicted at a "
    "time)",
    "baseline": "every voxel by its mean and deviation over the rest volumes of the run (so a "
    "whole run is predicted at a time)",
    "group": "every map minus the mean of the maps of its own group (so a whole group is predicted "
    "at a time)",
    "train": "every voxel by its mean and deviation over the training scans",
    "inside": "every voxel by its mean over the training scans, and inside the model by its "
    "deviation",
    "none": "none",
}


def _preprocessing(images: ImageSpace, model: Any) -> dict[str, Any]:
    cleaning = images.cleaning
    inside = images.standardize == "train" and getattr(_steps(model)[-1], "scales_voxels", False)
    steps = ["linear detrending of every run"] if cleaning.detrend else []
    steps += [
        f"{name.replace('_', '-')} filter at {getattr(cleaning, name):g} Hz"
        for name in ("high_pass", "low_pass")
        if getattr(cleaning, name)
    ]
    return {
        "voxels": _place(images.space),
        "mask": images.mask_source or None,
        "smoothing": f"{images.smoothing_fwhm:g} mm FWHM" if images.smoothing_fwhm else "none",
        "temporal cleaning": ", ".join(steps) or "none",
        "scaling": "every image by its mean inside the mask" if images.scale == "global" else None,
        "standardising": STANDARDIZING.get(
            "inside" if inside else images.standardize, images.standardize
        ),
        "notes": "; ".join(images.notes) or None,
    }


def _n_values(images: ImageSpace, result: Result) -> int | None:
    """How many values a scan has, without the covariates that follow them."""
    n = result.settings.get("n_features")
    return n - n % images.space.n_voxels if n else None


def _place(space: VoxelSpace) -> str:
    """State how many voxels there are, and where."""
    if space.kind != "volume":
        return f"{space.n_voxels:,} {'vertices' if space.kind == 'mesh' else 'places'}"
    grid = " x ".join(map(str, space.shape))
    if space.affine is None:
        return f"{space.n_voxels:,} in a grid of {grid}"
    sizes = " x ".join(f"{size:.3g}" for size in space.voxel_sizes)
    return f"{space.n_voxels:,} in a grid of {grid}, {sizes} mm each"


def _described(model: Any) -> dict[str, str]:
    """The model by the names of its steps, and in words where its family has some."""
    *before, final = _steps(model)
    found = {"estimator": ", then ".join(type(step).__name__ for step in (*before, final))}
    registered = model_of(final)
    words = getattr(final, "words", "") if registered is None else registered.words
    if not words:
        return found
    told = " and ".join(step.words for step in before if getattr(step, "words", ""))
    return {"decoder": f"{words}, after {told}" if told else words} | found


# ---------------------------------------------------------------- pictures and maps


def family_pictures(
    model: Any,
    X: np.ndarray,
    y: np.ndarray,
    space: VoxelSpace | None = None,
    maps: Mapping[str, np.ndarray] | None = None,
) -> list[Picture]:
    """Pictures that the model's family draws of itself; none for other models.

    X and y are the training scans: controls and resampling need them again. The space gives the
    places of features; `maps` is what `model_maps` returns.
    """
    *before, final = _steps(model)
    draw, draw_maps = (_of_family(final, name, None) for name in ("draw", "draw_maps"))
    shown = []
    if draw is not None:
        for step in before:
            X = step.transform(X)
        shown += draw(final, X, y, space)
    if draw_maps is not None:
        shown += draw_maps(final, model_maps(model) if maps is None else maps)
    return shown


def _of_family(final: Any, name: str, otherwise: Any) -> Any:
    """What the family's pictures module has by a name; families need not have a module or name.

    A model that is not in the registry, as it needs more than parameters, may name its module.
    """
    registered, named = model_of(final), getattr(final, "pictures", None)
    if registered is not None:
        return getattr(registered.drawing(), name, otherwise)
    return otherwise if named is None else getattr(import_module(named), name, otherwise)


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
        elif _projects(step):
            values = values @ step.components_
    return values


def _projects(step: Any) -> bool:
    """Whether a step's output are the scans' parts along its components, as those of PCA are.

    Components of a kernel map are scans, not directions.
    """
    own_outputs = isinstance(step, ClassNamePrefixFeaturesOutMixin)
    return own_outputs and hasattr(step, "components_") and not hasattr(step, "kernel")


def _steps(model: Any) -> list[Any]:
    return [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
