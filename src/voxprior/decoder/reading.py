"""Reading images with the settings of a decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_memory

from voxprior.content import content_of, versions
from voxprior.decoder.preparation import named, same_setting
from voxprior.errors import InputError, option
from voxprior.images import Dataset, ImageSpace, load_maps, load_runs
from voxprior.images.packed import is_packed
from voxprior.images.sources import find_sources
from voxprior.mapping import Atlas, read_atlas
from voxprior.validation.run import check_jobs

# Parameters of the constructor that say how images are read.
READING = (
    "mask", "mesh", "smoothing_fwhm", "detrend", "high_pass", "low_pass", "t_r", "standardize",
    "scale", "resample",
)  # fmt: skip


def atlas_of(data: Dataset, atlas: Any, labels: Any = None) -> Atlas | None:
    """Atlas that names places, read on the grid of the scans where it is not one yet.

    Parameters
    ----------
    data : Dataset
        The scans.
    atlas : path, image, Atlas or None
        Whole numbers in the space of the scans.
    labels : path, optional
        Table with the columns index and name.
    """
    if atlas is None and labels is not None:
        told = f"{option('atlas_labels')} would have no effect without {option('atlas')}"
        raise InputError(told)
    if atlas is None or isinstance(atlas, Atlas):
        return atlas
    return read_atlas(atlas, data.images or ImageSpace(data.space), labels)


def _load_as_of(content: Any, images: Any, given: dict[str, Any]) -> Dataset:
    """Read images; what was kept of the same names with another content is not taken."""
    return _load(images, given)


def _load(images: Any, given: dict[str, Any]) -> Dataset:
    return load_runs(images, **given) if "events" in given else load_maps(images, **given)


def _refuse_beside_trials(images: Any, y: Any, covariates: Any) -> None:
    """Refuse arguments that have no effect where events cut runs into trials."""
    given = {"images": isinstance(images, Dataset), "y": y is not None}
    given |= {"covariates": covariates is not None}
    what = next((name for name, there in given.items() if there), None)
    if what is not None:
        raise InputError(
            "A Dataset is already cut into trials, so events would have no effect"
            if what == "images"
            else f"Trials have their labels from events, so {option(what)} would have no effect",
            remedy="Leave one of them out",
        )


class ImageReader(BaseEstimator):
    """What a decoder reads images by: its parameters that `READING` names, and where to keep them.

    `Decoder` has these parameters in its constructor and documents them.
    """

    estimator: Any
    memory: Any
    n_jobs: int

    def read(
        self, images, y=None, groups=None, covariates=None, *, events=None, **trials
    ) -> Dataset:
        """Read images with this decoder's settings; a Dataset gets y, groups, covariates.

        Parameters
        ----------
        images, y, groups, covariates
            As in `fit`.
        events : path, DataFrame, glob, or list with one per run, optional
            BIDS events tables: the images are runs, which are cut into trials.
        **trials
            How, as keywords of `voxprior.images.load_runs`: labels (in place of events), unit,
            window, delay, conditions, confounds, ...
        """
        check_jobs(self.n_jobs)
        of_runs = {"events": events} | trials if events is not None or trials else {}
        if of_runs:
            _refuse_beside_trials(images, y, covariates)
        if isinstance(images, Dataset):
            self._refuse_reading_settings(images)
            given = {"y": y, "groups": groups, "covariates": covariates}
            return replace(images, **{k: v for k, v in given.items() if v is not None})
        settings = {name: getattr(self, name) for name in READING}
        labelled = of_runs or {"y": y, "covariates": covariates}
        given = {"groups": groups} | labelled | settings
        if self.memory is None or is_packed(images):  # a store is not read before it is needed
            data = _load(images, given)
        else:
            load = check_memory(self.memory).cache(_load_as_of)
            files = [file for one in find_sources(images, self.mesh) for file in one.files]
            data = load(content_of([files, of_runs, settings, versions()]), images, given)
        return replace(data, settings=settings)

    def _labelled(self, images, y, groups, covariates) -> Dataset:
        named(self.estimator)  # a wrong name is refused before anything is read
        data = self.read(images, y, groups, covariates)
        if data.y is None:
            raise InputError(
                "The images have no labels", remedy="Give y, or a Dataset that has labels"
            )
        return data

    def _refuse_reading_settings(self, data: Dataset) -> None:
        default = type(self)().get_params(deep=False)
        used = default | (data.settings or {})
        set_here = [
            name
            for name in READING
            if not same_setting(getattr(self, name), default[name])
            and not same_setting(getattr(self, name), used[name])
        ]
        if set_here:
            raise InputError(
                f"A Dataset is already read, so {', '.join(set_here)} would have no effect",
                remedy="Read the images with this decoder, or give the same to load_runs or "
                "load_maps and not to the decoder",
            )
