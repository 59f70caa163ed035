"""NaN and infinite voxels: the mask shrinks to what all scans have, and too many are an error."""

import nibabel
import numpy as np
import pytest

from voxprior import Decoder
from voxprior.images import fit_image_space, load_differences, load_maps, load_runs, volumes
from voxprior.images.findings import NotFiniteError

SHAPE = (5, 4, 3)
LABELS = ["rest", "rest", "face", "face", "rest", "rest", "house", "house", "rest", "rest"] * 2
# Voxel 0 of the mask fixture is (1, 1, 1), then (1, 1, 2), (1, 2, 1), ...: 12 in all.
HOLES = [(1, 1, 1), (3, 2, 2)]


@pytest.fixture
def less_two(save):
    """The mask of the fixture without the two voxels of HOLES."""
    mask = np.zeros(SHAPE, dtype=np.uint8)
    mask[1:4, 1:3, 1:] = 1
    for hole in HOLES:
        mask[hole] = 0
    return save(mask, "less_two.nii.gz")


@pytest.fixture
def holed(maps, save):
    """Six maps; the second is NaN in one voxel of the mask, the fifth infinite in another."""
    paths, values = maps[0].copy(), maps[1].copy()
    values[1][HOLES[0]], values[4][HOLES[1]] = np.nan, np.inf
    values[:, 0] = np.nan  # outside the mask
    return [save(v, path.name) for v, path in zip(values, paths)]


@pytest.fixture
def holed_runs(save, rng):
    """Two runs of 20 volumes; the second is NaN in two voxels, in some volumes only."""
    runs = rng.normal(500, 20, size=(2, *SHAPE, 20)).astype("f4")
    runs[1][(*HOLES[0], 3)] = np.nan
    runs[1][HOLES[1]] = np.nan
    return [save(run, f"run-{i + 1}_bold.nii.gz", t_r=2.0) for i, run in enumerate(runs)]


def same(data, other):
    assert data.space == other.space
    assert data.images == other.images
    np.testing.assert_array_equal(data.X, other.X)


class TestShrinking:
    @pytest.mark.parametrize("smoothing", [None, 5.0])
    def test_maps_read_as_by_the_smaller_mask(self, holed, mask_path, less_two, smoothing):
        data = load_maps(holed, mask=mask_path, smoothing_fwhm=smoothing)
        same(data, load_maps(holed, mask=less_two, smoothing_fwhm=smoothing))
        assert data.images.voxels_dropped == 2
        assert data.notes == (
            "2 of 12 voxels inside the mask were dropped: NaN or infinite in a scan",
        )

    @pytest.mark.parametrize("settings", [{}, {"standardize": "train"}, {"detrend": True}])
    def test_runs(self, holed_runs, mask_path, less_two, settings):
        options = {"labels": [LABELS, LABELS], **settings}
        data = load_runs(holed_runs, mask=mask_path, **options)
        other = load_runs(holed_runs, mask=less_two, **options)
        same(data, other)
        assert data.images.voxels_dropped == 2
        assert "2 of 12 voxels" in data.notes[0]

    def test_beta_series(self, holed_runs, mask_path, less_two):
        same(load_maps(holed_runs, mask=mask_path), load_maps(holed_runs, mask=less_two))

    def test_differences(self, holed, mask_path, less_two):
        first = holed[:3]
        second = [path.rename(path.with_name(f"later{path.name[4:]}")) for path in holed[3:]]
        data = load_differences(first, second, mask=mask_path)
        same(data, load_differences(first, second, mask=less_two))
        assert data.images.voxels_dropped == 2

    def test_surfaces(self, surface):
        scans = [surface(seed=seed) for seed in range(4)]
        inside = np.ones(8, dtype=bool)
        scans[2].data.parts["right"][1] = np.nan
        data = load_maps(scans, mask=inside)
        inside[5] = False
        same(data, load_maps(scans, mask=inside))
        same(data, load_maps(scans))
        assert (data.images.voxels_dropped, data.space.n_voxels) == (1, 7)

    def test_a_resampled_image(self, maps, mask_path, save, affine):
        moved = affine.copy()
        moved[0, 3] += 3.0  # by one voxel: (2, y, z) of the mask is (1, y, z) of this image
        values = maps[1][0].copy()
        values[1, 1, 1] = np.nan
        paths = [*maps[0], save(values, "moved.nii.gz", affine=moved)]
        data = load_maps(paths, mask=mask_path, resample=True)
        lost = np.flatnonzero(fit_image_space(maps[0], mask_path).space.mask & ~data.space.mask)
        assert np.ravel_multi_index((2, 1, 1), SHAPE) in lost

    def test_no_image_is_read_twice_without_need(self, maps, mask_path, monkeypatch):
        read, load = [], volumes.volume_array

        def counted(image, name):
            read.append(name)
            return load(image, name)

        monkeypatch.setattr(volumes, "volume_array", counted)
        assert load_maps(maps[0], mask=mask_path).notes == ()
        assert read == [str(path) for path in (mask_path, *maps[0])]


class TestComputedMasks:
    def test_voxels_that_some_scans_lack_are_counted(self, holed):
        """Plane x = 0 is NaN in every map, outside the brain: that is not noted."""
        data = load_maps(holed)
        assert data.space.n_voxels == 5 * 4 * 3 - 12 - 2
        assert data.images.voxels_dropped == 2
        assert data.notes == (
            "2 voxels were left out of the computed mask: NaN or infinite in some scan",
        )

    def test_background_of_zeros_beside_background_of_nan(self, maps, save):
        """Half of the maps by a program that writes 0 outside the brain, half by SPM."""
        values = maps[1].copy()
        values[:3, :, :, 0] = 0.0
        values[3:, :, :, 0] = np.nan
        data = load_maps([save(v, p.name) for v, p in zip(values, maps[0])])
        assert (data.space.n_voxels, data.images.voxels_dropped) == (40, 0)

    def test_runs(self, save, rng):
        values = 100 + rng.normal(size=(2, *SHAPE, 20))
        values[0, 2, 2, 2, 7] = np.nan
        values[1, 2, 2, 1] = np.nan  # in all volumes of one run
        runs = [save(run, f"run{i}.nii.gz", t_r=2.0) for i, run in enumerate(values)]
        for mask in ("data", "background"):
            data = load_runs(runs, labels=[LABELS, LABELS], mask=mask)
            assert not data.space.mask[2, 2, 2]
            assert data.images.voxels_dropped == 2

    def test_one_scan_has_all_voxels_that_it_can_have(self, maps, save):
        values = maps[1][0].copy()
        values[1:] = np.nan
        images = fit_image_space(save(values, "one.nii.gz"))
        assert (images.space.n_voxels, images.voxels_dropped) == (12, 0)


class TestTooMany:
    @pytest.mark.parametrize("mask", ["given", "data"])
    def test_a_broken_scan_is_named(self, maps, mask_path, save, mask):
        values = maps[1][2].copy()
        values[2:] = np.nan
        paths = [*maps[0][:5], save(values, "broken.nii.gz")]
        with pytest.raises(ValueError, match=r"Leave out \S*broken.nii.gz: more than half"):
            load_maps(paths, mask=mask_path if mask == "given" else "data")

    def test_a_broken_volume_is_named(self, run_path, mask_path, save):
        values = nibabel.load(run_path).get_fdata()
        values[..., 13] = np.inf
        with pytest.raises(ValueError, match=r"Leave out \S*holed.nii.gz, volume 13: more"):
            load_runs(save(values, "holed.nii.gz", t_r=2.0), labels=LABELS, mask=mask_path)

    def test_half_of_the_mask_is_still_read(self, maps, mask_path, save):
        """6 of 12 voxels may go, 7 may not; no scan lacks more than 4."""
        values = maps[1].copy()
        values[0, 1, 1:3, 1:] = np.nan  # 4 voxels
        values[1, 2, 1, 1:] = np.nan  # 2 voxels
        paths = [save(v, p.name) for v, p in zip(values, maps[0])]
        assert load_maps(paths, mask=mask_path).space.n_voxels == 6
        values[2, 2, 2, 1] = np.nan
        paths = [save(v, p.name) for v, p in zip(values, maps[0])]
        found = r"7 of 12 voxels .* more than half\. .*sub-01_map.nii.gz \(4\), .*sub-02_\S* \(2\)"
        with pytest.raises(ValueError, match=found):
            load_maps(paths, mask=mask_path)

    def test_a_mask_that_does_not_fit(self, maps, mask_path, save):
        values = maps[1].copy()
        values[:, 2:] = np.nan
        paths = [save(v, p.name) for v, p in zip(values, maps[0])]
        with pytest.raises(ValueError, match=r"8 of 12 .*Give a mask .* and 3 more\.$"):
            load_maps(paths, mask=mask_path)


class TestDecoder:
    @pytest.fixture
    def fitted(self, holed, mask_path):
        return Decoder(mask=mask_path).fit(holed, ["a", "b"] * 3)

    def test_the_model_file_has_the_smaller_mask(self, fitted, less_two, tmp_path):
        loaded = Decoder.load(fitted.save(tmp_path / "model.skops"))
        expected = nibabel.load(less_two).get_fdata() > 0
        np.testing.assert_array_equal(loaded.masker_.space.mask, expected)
        assert loaded.masker_ == fitted.masker_
        assert loaded.masker_.voxels_dropped == 2

    def test_a_new_scan_must_have_every_voxel_of_the_model(self, fitted, holed, maps, save):
        assert fitted.predict(holed).shape == (6,)
        values = maps[1][0].copy()
        values[1, 1, 2] = np.nan
        path = save(values, "new.nii.gz")
        with pytest.raises(NotFiniteError, match=r"new.nii.gz: 1 of 10 voxels"):
            fitted.predict([path])
        with pytest.raises(NotFiniteError, match=r"new.nii.gz: 1 of 10 voxels"):
            load_maps(path, images=fitted.masker_)
