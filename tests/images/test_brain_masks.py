"""A computed mask that covers far more than a brain, and what is said of every mask."""

import nibabel
import numpy as np
import pytest

from voxprior import Decoder
from voxprior.images import load_maps, load_runs
from voxprior.images.template import in_brain
from voxprior.space import VoxelSpace

# The grid of FSL's MNI152 in voxels of 6 mm.
SHAPE, SIZE, FIRST = (31, 37, 31), 6.0, (-90, -126, -72)
LABELS = ["patient", "control"] * 4


def affine(first=FIRST, size=SIZE):
    found = np.diag([size] * 3 + [1.0])
    found[:3, 3] = first
    return found


def scans(first=FIRST, where=1.0, n=8, shape=SHAPE, size=SIZE):
    """Images that vary in every voxel, background and all, or only where something is."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, *shape)).astype("f4") * where
    return [nibabel.Nifti1Image(one, affine(first, size)) for one in values]


def brain():
    space = VoxelSpace.grid(SHAPE, affine())
    return space.unmask(in_brain(space).astype("f4")) > 0


def test_air_is_left_out_in_the_space_of_the_template():
    data = load_maps(scans(), LABELS)
    assert np.array_equal(data.space.mask, brain())
    assert "brain of the MNI152 template" in data.images.mask_words
    assert f"{np.prod(SHAPE):,} voxels that vary" in data.images.mask_words
    assert data.findings == ()


def test_names_of_files_tell_the_space_too(tmp_path):
    elsewhere = (-84, -118, -62)  # the grid of no template that is known
    paths = []
    for number, image in enumerate(scans(elsewhere)):
        paths.append(tmp_path / f"sub-{number}_space-MNI152NLin6Asym_pet.nii.gz")
        nibabel.save(image, paths[-1])
    assert load_maps(paths, LABELS).space.n_voxels < 0.5 * np.prod(SHAPE)


def test_the_name_of_a_folder_says_nothing_of_the_space(tmp_path):
    paths = []
    for number, image in enumerate(scans((-84, -118, -62))):
        paths.append(tmp_path / "MNI" / f"sub-{number}_pet.nii.gz")
        paths[-1].parent.mkdir(exist_ok=True)
        nibabel.save(image, paths[-1])
    assert load_maps(paths, LABELS).space.n_voxels == np.prod(SHAPE)


@pytest.mark.parametrize(
    "given",
    [
        {"maps": scans(), "mask": "data"},  # asked for
        {"maps": scans(first=(0, 0, 0))},  # of no known space
        {"maps": scans(where=brain())},  # a brain already
    ],
    ids=["asked", "elsewhere", "brain"],
)
def test_all_that_varies_is_kept_otherwise(given):
    data = load_maps(**given, y=LABELS)
    varies = np.ptp([image.get_fdata() for image in given["maps"]], axis=0) > 0
    assert np.array_equal(data.space.mask, varies)
    assert data.images.mask_words.endswith(
        "(computed: voxels that are finite in every scan and vary)"
    )


def test_a_brain_that_lies_elsewhere_on_the_grid_is_not_cut():
    far = np.zeros(SHAPE, "f4")
    far[:, :, 24:] = 1  # above the head: little of the template's brain is in there
    data = load_maps(scans(where=far), LABELS)
    assert data.space.n_voxels == far.sum()


def test_a_mask_larger_than_a_brain_is_a_finding():
    found = dict(load_maps(scans(), LABELS, mask="data").findings)
    assert "7.7 litres" in found["mask-size"]
    assert "mask-size" in load_maps(scans(), LABELS).looked
    with pytest.warns(UserWarning, match="mask-size"):
        result = Decoder("naive-bayes", mask="data").evaluate(scans(), LABELS)
    assert {check.name: check.outcome for check in result.checks}["mask-size"] == "found"


def test_a_small_mask_is_no_finding():
    assert load_maps(scans(shape=(8, 8, 8), size=2.0), LABELS).findings == ()


def test_where_a_mask_comes_from_is_said(tmp_path):
    path = tmp_path / "brain.nii.gz"
    nibabel.save(nibabel.Nifti1Image(brain().astype("u1"), affine()), path)
    named = load_maps(scans(), LABELS, mask=path).images
    assert named.mask_words == f"{brain().sum():,} voxels (brain.nii.gz)"
    image = load_maps(scans(), LABELS, mask=nibabel.load(path).slicer[:]).images
    assert image.mask_words.endswith("(an image that was given)")
    array = load_maps(scans(), LABELS, mask=brain()).images
    assert array.mask_words.endswith("(an array that was given)")
    run = nibabel.Nifti1Image(np.random.default_rng(0).normal(size=(3, 3, 2, 12)), np.eye(4))
    labels = ["rest", "rest", "face", "face", "rest", "house"] * 2
    assert "that are finite" in load_runs(run, labels=labels, mask="data").images.mask_words
    assert type(named).from_dict(named.to_dict()).mask_words == named.mask_words


def test_the_result_and_the_page_name_the_mask():
    decoded = Decoder("naive-bayes").decode(scans(), LABELS, stock=False)
    words = decoded.data.images.mask_words
    assert decoded.result.settings["mask"] == words
    page = decoded.report.html
    assert "The mask was computed: voxels that are finite in every scan and vary" in page
    assert f"Mask: {words}." in page
