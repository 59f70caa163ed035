"""Volumes to rows and back: against nilearn's maskers, plain indexing, and with bad input."""

import nibabel
import numpy as np
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from nilearn.maskers import NiftiLabelsMasker, NiftiMasker

from voxprior.images import ImageSpace, fit_image_space
from voxprior.images.volumes import header_t_r
from voxprior.space import VoxelSpace


def test_rows_are_plain_indexing_in_mask_order(maps, mask_path):
    paths, values = maps
    images = fit_image_space(paths, mask_path)
    mask = np.asarray(nibabel.load(mask_path).dataobj) > 0
    X = images.transform(paths)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, [v[mask] for v in values])
    assert images.space == VoxelSpace.from_mask(mask, nibabel.load(mask_path).affine)
    assert images.standardize == "train"


@pytest.mark.parametrize("smoothing", [None, 5.0])
def test_smoothing_is_nilearns(run_path, mask_path, smoothing):
    images = fit_image_space(run_path, mask_path, smoothing_fwhm=smoothing, standardize="none")
    masker = NiftiMasker(mask_path, smoothing_fwhm=smoothing, standardize=None, dtype="float64")
    np.testing.assert_allclose(
        images.transform(run_path), masker.fit_transform(run_path), rtol=2e-5
    )


def test_cleaning_is_nilearns(run_path, mask_path):
    cleaning = {"detrend": True, "high_pass": 0.02, "t_r": 2.0}
    images = fit_image_space(run_path, mask_path, standardize="none", **cleaning)
    masker = NiftiMasker(mask_path, standardize=None, dtype="float64", **cleaning)
    X = images.transform(run_path)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, masker.fit_transform(run_path), atol=2e-3)


def test_masker_reads_the_same_rows(run_path, mask_path):
    images = fit_image_space(run_path, mask_path, detrend=True, t_r=2.0, standardize="none")
    masker = images.masker()
    np.testing.assert_allclose(masker.transform(run_path), images.transform(run_path), atol=1e-2)
    np.testing.assert_array_equal(masker.mask_img_.affine, images.space.affine)


def test_region_maskers_are_refused(maps, save):
    atlas = save(np.ones((5, 4, 3), np.int16), "atlas.nii.gz")
    with pytest.raises(TypeError, match="NiftiLabelsMasker averages over regions"):
        fit_image_space(maps[0], NiftiLabelsMasker(atlas))


@pytest.mark.parametrize(
    ("zoom", "unit", "expected"),
    [
        (2.5, "sec", 2.5),
        (800, "msec", 0.8),
        (1, "sec", 1.0),
        (1, "unknown", None),
        (0, "sec", None),
    ],
)
def test_time_between_volumes_from_the_header(zoom, unit, expected):
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2, 3)), np.eye(4))
    image.header.set_zooms((1, 1, 1, zoom))
    image.header.set_xyzt_units("mm", unit)
    assert header_t_r(image) == (None if expected is None else pytest.approx(expected))


def test_filters_need_the_time_between_volumes(save, rng, mask_path):
    path = save(rng.normal(size=(5, 4, 3, 20)), "run.nii.gz", t_r=0.0)
    with pytest.raises(ValueError, match=r"run.nii.gz: high_pass .* Give t_r"):
        fit_image_space(path, mask_path, high_pass=0.01).transform(path)


def test_a_masker_lends_its_mask_and_settings(run_path, mask_path):
    masker = NiftiMasker(mask_path, smoothing_fwhm=4, detrend=True, t_r=2.0).fit()
    images = fit_image_space(run_path, masker)
    assert images.smoothing_fwhm == 4
    assert images.cleaning.detrend
    assert images.space.n_voxels == int(np.asarray(nibabel.load(mask_path).dataobj).sum())


def test_run_masks_are_intersected(run_path, save):
    one, two = np.zeros((5, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)
    one[:3], two[2:] = 1, 1
    masks = [save(one, "run-1_mask.nii.gz"), save(two, "run-2_mask.nii.gz")]
    images = fit_image_space(run_path, masks)
    np.testing.assert_array_equal(images.space.mask, (one & two) > 0)


def test_computed_mask_leaves_out_nan_and_constant_voxels(save, rng):
    values = rng.normal(size=(4, 5, 4, 3))
    values[:, 0] = 0.0
    values[2, 1, 1, 1] = np.nan
    paths = [save(v, f"map{i}.nii.gz") for i, v in enumerate(values)]
    expected = np.ones((5, 4, 3), dtype=bool)
    expected[0] = False
    expected[1, 1, 1] = False
    np.testing.assert_array_equal(fit_image_space(paths).space.mask, expected)


def test_computed_mask_of_runs_is_the_epi_mask_of_every_run(save, rng):
    ball = np.indices((12, 12, 12)) - 5.5
    inside = (ball**2).sum(axis=0) < 25
    values = np.where(inside[..., None], 1000.0, 10.0) + rng.normal(size=(12, 12, 12, 6))
    values[5, 5, 5] = 1000.0
    runs = [save(values + shift, f"run{shift}.nii.gz") for shift in (0, 1)]
    images = fit_image_space(runs)
    assert not images.space.mask[5, 5, 5]
    assert (images.space.mask <= inside).all()
    assert images.space.n_voxels > 0.6 * inside.sum()
    assert "1 voxels were left out" in images.notes[0]


def test_constant_voxels_in_a_given_mask_are_warned_about(run_path, mask_path, save):
    values = np.asarray(nibabel.load(run_path).dataobj).copy()
    values[2, 1, 1] = 7
    path = save(values, "still.nii.gz", t_r=2.0)
    images = fit_image_space(path, mask_path, detrend=True)
    with pytest.warns(
        UserWarning, match=r"still.nii.gz: 1 of 12 voxels inside the mask are constant"
    ):
        X = images.transform(path)
    column = np.flatnonzero(images.space.sites == np.ravel_multi_index((2, 1, 1), (5, 4, 3)))
    np.testing.assert_array_equal(X[:, column], 0)


def test_one_volume_has_no_run_statistics(maps, run_path, mask_path):
    with pytest.raises(ValueError, match="needs 4-D runs"):
        fit_image_space(maps[0], standardize="run")
    images = fit_image_space(run_path, mask_path)
    with pytest.raises(ValueError, match=r"sub-01_map.nii.gz: is not a 4-D run"):
        images.transform(maps[0][0])


def test_maps_and_runs_do_not_mix(maps, run_path):
    with pytest.raises(ValueError, match=r"sub-01_map.nii.gz: is a single volume while .*bold"):
        fit_image_space([maps[0][0], run_path])


def test_another_grid_is_refused_or_resampled(maps, save, affine):
    paths, values = maps
    images = fit_image_space(paths, "data")
    shifted = affine.copy()
    shifted[0, 3] += 1.5
    moved = save(values[0], "moved.nii.gz", affine=shifted)
    small = save(values[0][:4], "small.nii.gz")
    with pytest.raises(ValueError, match=r"moved.nii.gz: its affine differs .* resample=True"):
        images.transform(moved)
    with pytest.raises(ValueError, match=r"small.nii.gz: its grid is 4 x 4 x 3 but the mask has 5"):
        images.transform(small)
    with pytest.raises(ValueError, match=r"small.nii.gz: its grid"):
        fit_image_space([*paths, small])
    lenient = fit_image_space([*paths, moved], resample=True)
    assert np.isfinite(lenient.transform(moved)).all()


def test_resampling_finds_the_same_places(save, affine):
    """A linear ramp in millimetres is the same function on both grids."""
    fine = affine.copy()
    fine[:3, :3] /= 2
    ijk = np.indices((14, 14, 14)).reshape(3, -1)
    world = fine[:3, :3] @ ijk + fine[:3, 3:]
    path = save((world[0] + 2 * world[1]).reshape(14, 14, 14).astype(np.float32), "f.nii.gz", fine)
    mask = np.zeros((7, 7, 7), bool)
    mask[2:5, 2:5, 2:5] = True
    images = ImageSpace(VoxelSpace.from_mask(mask, affine), resample=True)
    places = affine[:3, :3] @ images.space.coordinates.T + affine[:3, 3:]
    np.testing.assert_allclose(images.transform(path)[0], places[0] + 2 * places[1], atol=0.05)


def test_nan_inside_a_given_mask_is_counted_and_named(maps, mask_path, save):
    values = maps[1][0].copy()
    values[2, 1, 1] = np.nan
    values[0, 0, 0] = np.nan  # outside the mask: harmless
    path = save(values, "holes.nii.gz")
    with pytest.raises(ValueError, match=r"holes.nii.gz: 1 of 12 voxels .* NaN"):
        fit_image_space(path, mask_path).transform(path)


def test_nan_outside_the_mask_does_not_spread_by_smoothing(maps, mask_path, save):
    values = maps[1][0].copy()
    values[0] = np.nan
    path = save(values, "border.nii.gz")
    zero = save(np.nan_to_num(values), "zero.nii.gz")
    images = fit_image_space(path, mask_path, smoothing_fwhm=6)
    np.testing.assert_allclose(images.transform(path), images.transform(zero))


def test_bad_masks(maps, save, mask_path):
    paths = maps[0]
    empty = save(np.zeros((5, 4, 3), np.uint8), "empty.nii.gz")
    with pytest.raises(ValueError, match=r"mask is empty.*empty.nii.gz"):
        fit_image_space(paths, empty)
    with pytest.raises(ValueError, match="mask is empty"):
        fit_image_space([paths[0], paths[0]], "data")
    slab = save(np.random.default_rng(0).normal(size=(5, 4, 1, 6)), "slab.nii.gz", t_r=2.0)
    with pytest.raises(ValueError, match=r"mask is empty.*'epi'.*slab.nii.gz.*mask='data'"):
        fit_image_space(slab)
    atlas = save(np.arange(60, dtype=np.int16).reshape(5, 4, 3), "atlas.nii.gz")
    with pytest.raises(ValueError, match=r"atlas.nii.gz: a mask must hold two values"):
        fit_image_space(paths, atlas)
    other = save(np.ones((4, 4, 3), np.uint8), "other.nii.gz")
    with pytest.raises(ValueError, match=r"sub-01_map.nii.gz: its grid is 5 x 4 x 3 but the mask"):
        fit_image_space(paths, other)
    with pytest.raises(ValueError, match=r"other.nii.gz: its grid"):
        fit_image_space(paths, [mask_path, other])
    four = save(np.ones((5, 4, 3, 2), np.uint8), "four.nii.gz")
    with pytest.raises(ValueError, match=r"four.nii.gz: a mask must be 3-D"):
        fit_image_space(paths, four)
    with pytest.raises(ValueError, match="boolean"):
        fit_image_space(paths, np.ones((5, 4, 3)))


def test_a_run_is_standardised_alone(run_path, save, mask_path, rng):
    other = save(rng.normal(9, 5, size=(5, 4, 3, 11)), "other.nii.gz", t_r=2.0)
    images = fit_image_space([run_path, other], mask_path)
    assert images.standardize == "run"
    X = images.transform([run_path, other])
    np.testing.assert_array_equal(X[:20], images.transform(run_path))
    for part in (X[:20], X[20:]):
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(part.std(axis=0), 1, atol=1e-5)


def test_runs_inside_one_image(run_path, mask_path):
    raw = fit_image_space(run_path, mask_path, standardize="none").transform(run_path)
    runs = np.array([0, 1] * 10)
    X = fit_image_space(run_path, mask_path).transform(run_path, runs=runs)
    for run in (0, 1):
        part = raw[runs == run].astype(float)
        expected = (part - part.mean(axis=0)) / part.std(axis=0)
        np.testing.assert_allclose(X[runs == run], expected, atol=1e-5)
    with pytest.raises(ValueError, match="runs must have one value for each of the 20 volumes"):
        fit_image_space(run_path, mask_path).transform(run_path, runs=runs[:5])


def test_baseline_needs_rest(run_path, mask_path):
    images = fit_image_space(run_path, mask_path, standardize="baseline")
    with pytest.raises(ValueError, match="which volumes are rest"):
        images.transform(run_path)
    rest = np.arange(20) < 6
    X = images.transform(run_path, rest=rest)
    np.testing.assert_allclose(X[rest].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(X[rest].std(axis=0), 1, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(mask=arrays(bool, (3, 2, 2)), times=st.integers(1, 3), seed=st.integers(0, 99))
def test_maps_survive_the_round_trip(mask, times, seed):
    if not mask.any():
        return
    images = ImageSpace(VoxelSpace.from_mask(mask, np.diag([2.0, 3, 4, 1])))
    values = np.random.default_rng(seed).normal(size=(times, mask.sum())).astype(np.float32)
    image = images.inverse_transform(values.ravel())
    assert image.shape == ((3, 2, 2, times) if times > 1 else (3, 2, 2))
    np.testing.assert_array_equal(image.affine, images.space.affine)
    np.testing.assert_array_equal(images.transform(image), values)


def test_a_map_of_another_length_is_refused():
    images = ImageSpace(VoxelSpace.grid((2, 2, 2)))
    with pytest.raises(ValueError, match=r"each of the 8 voxels.*\(9,\)"):
        images.inverse_transform(np.zeros(9))
    with pytest.raises(ValueError, match=r"\(3, 4\)"):
        images.inverse_transform(np.zeros((3, 4)))


def test_it_is_kept_as_plain_arrays(run_path, mask_path):
    images = fit_image_space(run_path, mask_path, smoothing_fwhm=3.0, detrend=True)
    state = skops.io.loads(skops.io.dumps(images.to_dict()))  # nothing to be trusted
    again = ImageSpace.from_dict(state)
    assert again == images
    assert hash(again) == hash(images)
    np.testing.assert_array_equal(again.transform(run_path), images.transform(run_path))


def test_four_dimensions_with_one_volume_are_a_map(save, maps, mask_path):
    path = save(maps[1][0][..., None], "one.nii.gz")
    images = fit_image_space(maps[0], mask_path)
    np.testing.assert_array_equal(images.transform(path), images.transform(maps[0][0]))
