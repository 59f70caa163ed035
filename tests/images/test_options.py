"""Options that cannot be are refused before any file is looked at."""

import math

import numpy as np
import pandas as pd
import pytest
from nilearn.maskers import NiftiLabelsMasker

from voxprior import Decoder
from voxprior.errors import InputError, InputTypeError
from voxprior.images import (
    Cleaning,
    fit_image_space,
    join_table,
    load_differences,
    load_maps,
    load_runs,
    load_starplus,
)

NOWHERE = "nowhere.nii.gz"  # reading it would be another error
WAYS = {
    "fit_image_space": lambda **options: fit_image_space(NOWHERE, **options),
    "load_maps": lambda **options: load_maps(NOWHERE, **options),
    "load_runs": lambda **options: load_runs(NOWHERE, labels=["a"], **options),
    "load_differences": lambda **options: load_differences(NOWHERE, NOWHERE, **options),
    "Decoder": lambda **options: Decoder(**options).fit(NOWHERE, ["a"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"smoothing_fwhm": -5},
        {"smoothing_fwhm": math.nan},
        {"smoothing_fwhm": math.inf},
        {"smoothing_fwhm": 1e6},
        {"smoothing_fwhm": "wide"},
        {"t_r": 0},
        {"t_r": -1.0},
        {"t_r": math.nan},
        {"t_r": "2"},
        {"high_pass": 0},
        {"low_pass": -0.1},
        {"low_pass": math.inf},
        {"high_pass": 0.1, "low_pass": 0.1},
        {"high_pass": 0.2, "low_pass": 0.1},
        {"high_pass": 0.25, "t_r": 2},
        {"low_pass": 0.3, "t_r": 2},
    ],
    ids=str,
)
def test_numbers_that_cannot_be(way, options):
    with pytest.raises(InputError, match=next(iter(options))):
        WAYS[way](**options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{"standardize": "zscore"}, {"resample": "yes"}], ids=str)
def test_choices_that_are_not_there(way, options):
    with pytest.raises(InputError, match=f"{next(iter(options))}='.*' is not a choice"):
        WAYS[way](**options)


@pytest.mark.parametrize("way", ["load_maps", "load_runs", "load_differences"])
def test_parameters_that_are_not_there(way):
    with pytest.raises(
        InputTypeError, match=r"smooth: is not a parameter. Expected one of detrend"
    ):
        WAYS[way](smooth=3)


@pytest.mark.parametrize("way", WAYS)
def test_a_masker_of_regions(way):
    with pytest.raises(InputTypeError, match="NiftiLabelsMasker averages over regions"):
        WAYS[way](mask=NiftiLabelsMasker())


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"unit": "trial"}, "unit='trial' is not a choice"),
        ({"unit": "window"}, "unit='window' needs a number of volumes"),
        ({"unit": "window", "window": 1.5}, "window=1.5 cannot be used"),
        ({"unit": "window", "window": 0}, "window=0 cannot be used"),
        ({"window": 3}, "window=3 has no effect with unit='block'"),
        ({"group_by": "day"}, "group_by='day' is not a choice"),
        ({"confounds": {"strategy": ()}}, "strategy of the confounds is empty"),
        ({"events": "events.tsv"}, "events .* or labels .* but both are there"),
        ({"labels": None}, "events .* or labels .* but neither is there"),
        ({"groups": ["a", "b"]}, "groups must have one value per file. Expected 1, got 2"),
        ({"confounds": ["a.tsv", "b.tsv"]}, "confounds must have one table per run. Expected 1"),
    ],
    ids=str,
)
def test_trials_that_cannot_be(options, found):
    with pytest.raises(InputError, match=found):
        load_runs(NOWHERE, **{"labels": ["a"], **options})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"unmatched": "skip"}, "unmatched='skip' is not a choice"),
        ({"table": "no.tsv", "unmatched": "skip"}, "unmatched='skip' is not a choice"),
        ({"label": "dx"}, "label names a column of a table"),
        ({"groups": "site"}, "groups names a column of a table"),
        ({"table": "no.tsv", "y": ["a"]}, "Labels are given twice"),
    ],
    ids=str,
)
def test_labels_that_cannot_be(options, found):
    for way in ("load_maps", "load_differences"):
        with pytest.raises(InputError, match=found):
            WAYS[way](**options)


def test_other_choices_that_are_not_there():
    with pytest.raises(InputError, match="sign='loss' is not a choice"):
        load_differences(NOWHERE, NOWHERE, sign="loss")
    with pytest.raises(InputError, match="images='third' is not a choice"):
        load_starplus("nowhere.mat", images="third")
    with pytest.raises(InputError, match="unmatched='skip' is not a choice"):
        join_table(["a.nii"], "no.tsv", unmatched="skip")


def test_what_can_be_is_taken():
    Cleaning(detrend=True, high_pass=0.01, low_pass=np.float32(0.1), t_r=2)
    with pytest.raises(FileNotFoundError):
        fit_image_space(NOWHERE, smoothing_fwhm=0, high_pass=0.01, t_r=np.float64(2))


def test_filters_are_held_against_the_header_before_the_data(save, rng, monkeypatch):
    run = save(rng.normal(size=(4, 4, 3, 20)), "run.nii.gz", t_r=2.0)
    monkeypatch.setattr("voxprior.images.masks.array_of", None)  # no data may be read
    monkeypatch.setattr("voxprior.images.volumes.volume_array", None)
    with pytest.raises(InputError, match=r"run.nii.gz: low_pass=0.3 .* up to 0.25 Hz"):
        load_runs(run, labels=["a", "b"] * 10, low_pass=0.3)


def test_new_runs_are_held_against_the_filter_too(save, rng):
    run = save(rng.normal(size=(4, 4, 3, 40)), "run.nii.gz", t_r=2.0)
    slow = save(rng.normal(size=(4, 4, 3, 40)), "slow.nii.gz", t_r=5.0)
    images = fit_image_space(run, "data", low_pass=0.2)
    assert images.transform(run).shape == (40, 48)
    with pytest.raises(InputError, match=r"slow.nii.gz: low_pass=0.2 is not below"):
        images.transform(slow)


@pytest.mark.parametrize("t_r", [np.nan, np.inf, 0.0])
def test_a_header_without_a_time_says_none(save, rng, t_r):
    import nibabel

    path = save(rng.normal(size=(4, 4, 3, 20)), "run.nii.gz", t_r=2.0)
    image = nibabel.load(path)
    image.header["pixdim"][4] = t_r
    with pytest.raises(ValueError, match="Give t_r"):
        load_runs(image, labels=["a", "b"] * 10, mask="data", low_pass=0.1)


@pytest.mark.parametrize("delay", [math.nan, math.inf, 1e300, "5"])
def test_delays_that_cannot_be(delay):
    with pytest.raises(InputError, match="delay"):
        load_runs(NOWHERE, labels=["a"], delay=delay)


@pytest.mark.parametrize("covariates", [["age", "sex", "age"], ["age", "group"], "group"])
def test_columns_that_cannot_be(covariates):
    with pytest.raises(InputError, match=r"covariates names '(age|group)'"):
        load_maps(NOWHERE, table="no.tsv", label="group", covariates=covariates)
    table = pd.DataFrame({"file": ["a.nii"], "age": [3], "sex": ["f"], "group": [1]})
    names = [covariates] if isinstance(covariates, str) else covariates
    with pytest.raises(InputError, match=r"covariates names '(age|group)'"):
        join_table(["a.nii"], table, label="group", covariates=names)


def test_a_table_of_covariates_names_each_once(maps):
    table = pd.DataFrame(np.ones((6, 2)), columns=["age", "age"])
    with pytest.raises(InputError, match="'age' more than once"):
        load_maps(maps[0], list("ababab"), covariates=table)
    assert load_maps(maps[0], list("ababab"), covariates=np.ones((6, 1))).n_samples == 6


@pytest.mark.parametrize("n_jobs", [0, -5, 1.5, "2", True])
def test_workers_that_cannot_be(n_jobs):
    with pytest.raises(InputError, match=r"n_jobs=.* is not a number of workers"):
        Decoder(n_jobs=n_jobs).evaluate(NOWHERE, ["a"])
