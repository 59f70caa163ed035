"""Searchlight and regions of images: the numbers of arrays, and files that can be read."""

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.decoder.local_maps import Located, searchlight_maps, write_regions
from voxprior.mapping import searchlight

AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])


@pytest.fixture
def images(rng):
    y, runs = np.tile(["face", "house"], 16), np.repeat(np.arange(8), 4)
    values = rng.normal(size=(32, 5, 5, 3)).astype("f4") + 10
    values[:, 1:3, 1:3, 1] += 3 * (y == "face")[:, None, None]
    return [nibabel.Nifti1Image(v, AFFINE) for v in values], y, runs


@pytest.fixture
def decoder():
    return Decoder(mask=np.ones((5, 5, 3), bool), standardize="none")


def test_searchlight(images, decoder, tmp_path):
    found = decoder.searchlight(*images, radius=3.5, n_permutations=50)
    data = decoder.read(*images)
    same = searchlight(data.X, data.y, data.groups, data.space, radius=3.5, n_permutations=50)
    np.testing.assert_array_equal(found.score, same.score)
    assert found.significant.any()
    maps = searchlight_maps(found)
    assert list(maps) == ["accuracy", "logp", "significant"]
    Located(data, found).write(tmp_path, tmp_path)
    read = nibabel.load(tmp_path / "searchlight-accuracy.nii.gz").get_fdata()
    np.testing.assert_allclose(data.space.apply_mask(read), found.score, atol=1e-6)


def test_region_test(images, decoder, tmp_path):
    labels = np.zeros((5, 5, 3), np.int16)
    labels[1:3, 1:3, 1], labels[4] = 1, 2
    atlas = nibabel.Nifti1Image(labels, AFFINE)
    found = decoder.region_test(*images, atlas=atlas, names=["FFA", "V1"], n_permutations=50)
    assert found.table["region"].tolist() == ["FFA", "V1"]
    write_regions(found, tmp_path / "regions.tsv")
    table = pd.read_csv(tmp_path / "regions.tsv", sep="\t")
    assert table["region"].tolist() == ["FFA", "V1"]
    assert table["p_fwer"][0] == pytest.approx(found.table["p_fwer"][0], rel=1e-5)


def test_covariates_are_refused(images, decoder):
    scans, y, runs = images
    data = decoder.read(scans, y, runs, pd.DataFrame({"age": np.arange(32.0)}))
    with pytest.raises(ValueError, match="without covariates"):
        decoder.searchlight(data)
