"""What a fitted decoder shows of itself: a table in a notebook, and its maps as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voxprior.decoder.facts import mean_image
from voxprior.decoder.preparation import name_of
from voxprior.errors import InputError, nearest
from voxprior.images import Dataset
from voxprior.notebook import facts_html
from voxprior.report.shown import Told, draw_together, model_entries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.decoder.decoder import Decoder


def decoder_html(decoder: Decoder) -> str:
    """Describe target and model; once it is fitted, also the scans and its decisions."""
    fitted = hasattr(decoder, "estimator_")
    facts: dict[str, Any] = {"model": name_of(decoder.estimator), "fitted": "yes"}
    if not fitted:
        return facts_html("Decoder", facts | {"fitted": "no"})
    facts["scans are of"] = repr(decoder.masker_.space)
    facts["mask"] = decoder.masker_.mask_words
    if hasattr(decoder, "classes_"):
        facts["classes"] = ", ".join(map(str, decoder.classes_))
    if decoder.covariates_ is not None:
        facts["regressed out"] = ", ".join(map(str, decoder.covariates_.levels))
    told = getattr(decoder.estimator_, "decisions_", ())
    return facts_html("Decoder", facts | {f"decision {n}": one for n, one in enumerate(told, 1)})


def maps_figure(decoder: Decoder, names: tuple[str, ...], data: Dataset | None) -> Figure:
    """Draw maps of a fitted decoder below each other."""
    maps, space = decoder.voxel_maps(), decoder.masker_.space
    unknown = [name for name in names if name not in maps]
    if unknown or not maps:
        model = name_of(decoder.estimator)
        what = "no maps" if not maps else f"no map {unknown[0]!r}{nearest(unknown[0], maps)}"
        expected = f"some of {', '.join(maps)}" if maps else None
        raise InputError(f"The model {model} has {what}", expected=expected)
    chosen = {name: maps[name] for name in names or maps}
    entries = model_entries(space, chosen, {})
    told = [Told(name, "", one.values) for name, one in zip(chosen, entries)]
    ground: dict[str, Any] = {}
    if data is not None:
        ground = {"names": data.names, "mean": mean_image(data)}
    return draw_together(space, told, **ground)
