"""Mistakes that are easily made are told in words, not by an error from deep inside."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.images import Dataset, load_maps
from voxprior.labels import check_two_classes
from voxprior.simulate import blobs
from voxprior.space import VoxelSpace


@pytest.fixture(scope="module")
def scans():
    data = blobs((5, 5, 5), n_blobs=1, n_per_class=4, n_groups=2, random_state=0)
    return data.images(), data.y, data.groups, data.mask_image()


@pytest.fixture
def mask_file(scans, tmp_path):
    scans[3].to_filename(tmp_path / "mask.nii.gz")
    return tmp_path / "mask.nii.gz"


def test_a_decoder_that_is_not_fitted_says_so(scans):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Decoder("gp").predict(scans[0])


@pytest.mark.parametrize("cv", [50, "folds:50"])
def test_too_many_folds(scans, cv):
    images, y, _, mask = scans
    with pytest.raises(InputError, match=r"too few scans for 50-fold .* got 8 scans\. .*fewer"):
        Decoder("gp", mask=mask).evaluate(images, y, cv=cv)


def test_a_test_without_permutations_is_refused(scans):
    images, y, groups, mask = scans
    with pytest.raises(InputError, match="n_permutations=0 tests nothing"):
        Decoder("gp", mask=mask).permutation_test(images, y, groups, n_permutations=0)


def test_one_name_stands_for_a_list_of_one(scans):
    images, y, groups, mask = scans
    decoder = Decoder("gp", mask=mask)
    data = decoder.read(images, y, groups)
    assert list(decoder.compare(data, models="logistic", repeats=0).results) == ["gp", "logistic"]
    with pytest.raises(InputError, match="No finding is called scale"):
        decoder.evaluate(data, allow="scale")


def test_arrays_are_not_images(scans):
    with pytest.raises(InputError, match=r"not an array of numbers.*cross_validate\(model, X, y\)"):
        Decoder("gp").fit(np.zeros((4, 10)), [0, 1, 0, 1])


def test_a_report_needs_a_result(scans):
    images, y, _, mask = scans
    decoder = Decoder("naive-bayes", mask=mask).fit(images, y)
    with pytest.raises(InputError, match=r"Expected a Result, got none.*decoder\.evaluate"):
        decoder.generate_report()


@pytest.mark.parametrize("kind", [str, Path], ids=["text", "path"])
def test_a_dataset_of_the_same_mask_is_no_conflict(scans, mask_file, kind):
    images, y, groups, _ = scans
    data = load_maps(images, y, groups=groups, mask=mask_file)
    decoder = Decoder("naive-bayes", mask=kind(mask_file))
    assert decoder.read(data).n_samples == len(y)
    with pytest.raises(InputError, match="already read, so smoothing_fwhm would have no effect"):
        Decoder(mask=kind(mask_file), smoothing_fwhm=4).read(data)


def test_the_same_path_is_the_same_mask(scans, mask_file):
    images, y, groups, _ = scans
    data = Decoder("gp", mask=str(mask_file)).read(images, y, groups)
    assert Decoder("logistic", mask=str(mask_file)).read(data).n_samples == len(y)


def test_another_mask_is_refused_with_a_way_out(scans, mask_file):
    images, y, groups, mask = scans
    data = Decoder("gp", mask=mask).read(images, y, groups)
    with pytest.raises(InputError, match=r"mask would have no effect\. Read the images with this"):
        Decoder("gp", mask=str(mask_file)).fit(data)


def test_a_split_that_needs_groups_names_the_setting(scans):
    images, y, _, mask = scans
    with pytest.raises(InputError, match="or take cv='auto'"):
        Decoder("gp", mask=mask).evaluate(images, y, cv="groups")


def test_one_class_says_what_to_check():
    with pytest.raises(InputError, match="Check the labels; if only some folds"):
        check_two_classes(np.array(["face"]))


def test_a_report_prints_its_headline(scans):
    images, y, groups, mask = scans
    decoder = Decoder("gp", mask=mask)
    data = decoder.read(images, y, groups)
    shown = repr(decoder.fit(data).generate_report(decoder.evaluate(data)))
    assert shown.startswith("Report('Decoding report'): Accuracy ")
    assert len(shown) < 200


@pytest.mark.parametrize(
    ("classes", "n_folds"),
    [([0, 1] * 6, 3), ([0] * 4 + [1] * 8, 4), ([0] * 7 + [1] * 5, 5), ([0, 1] * 2, 2)],
)
def test_subjects_of_one_class_are_left_out_with_others_of_every_class(classes, n_folds):
    """Two scans of each subject, nothing in them: leaving out single subjects is below chance."""
    rng = np.random.default_rng(0)
    y, subject = np.repeat(classes, 2), np.repeat(np.arange(len(classes)), 2)
    X = rng.normal(size=(len(y), 27)).astype("f4")
    data = Dataset(X, y, VoxelSpace.grid((3, 3, 3)), groups=subject)
    result = Decoder("logistic").evaluate(data, allow="labels-confounded")
    assert len(result.scores) == n_folds
    assert "leave-one-out" not in {finding.name for finding in result.findings}
    mixed = replace(data, y=np.tile([0, 1], len(classes)))
    assert len(Decoder("logistic").evaluate(mixed).scores) == len(classes)
