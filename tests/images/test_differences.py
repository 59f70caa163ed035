import nibabel
import numpy as np
import pytest
from nilearn.image import smooth_img

from voxprior.images import fit_image_space, load_differences, write_map


@pytest.fixture
def pairs(save, rng):
    before, after = rng.normal(size=(2, 4, 5, 4, 3)).astype(np.float32)
    before[:, 0], after[:, 0] = 0.0, 0.0
    return (
        [save(v, f"sub-0{i}_ses-1.nii.gz") for i, v in enumerate(before)],
        [save(v, f"sub-0{i}_ses-2.nii.gz") for i, v in enumerate(after)],
        before,
        after,
    )


def test_state_1_is_loss(pairs):
    first, second, before, after = pairs
    data = load_differences(first, second, list("abab"))
    mask = data.space.mask
    assert not mask[0].any()  # the background is constant
    expected = np.array([b[mask] - a[mask] > 0 for b, a in zip(before, after)])
    np.testing.assert_array_equal(data.X, expected)
    assert data.X.dtype == np.float32
    assert data.standardize == "none"
    assert data.notes[-1] == "state 1 iff t1 - t2 > 0"
    gain = load_differences(first, second, list("abab"), sign="t2-t1")
    np.testing.assert_array_equal(gain.X, 1 - data.X)  # no ties in continuous values


def test_smoothing_comes_first(pairs, mask_path):
    first, second, *_ = pairs
    data = load_differences(first, second, mask=mask_path, smoothing_fwhm=6.0)
    mask = np.asarray(nibabel.load(mask_path).dataobj) > 0
    smoothed = [
        smooth_img(str(b), 6.0).get_fdata()[mask] - smooth_img(str(a), 6.0).get_fdata()[mask]
        for b, a in zip(first, second)
    ]
    np.testing.assert_array_equal(data.X, np.array(smoothed) > 0)


def test_differences_themselves(pairs, mask_path):
    first, second, before, after = pairs
    data = load_differences(first, second, mask=mask_path, binary=False)
    np.testing.assert_array_equal(data.X, [(b - a)[data.space.mask] for b, a in zip(before, after)])
    assert data.standardize == "train"
    new = load_differences(first[:1], second[:1], images=data.images, binary=False)
    np.testing.assert_array_equal(new.X, data.X[:1])


def test_no_change_is_state_0(pairs, mask_path):
    first, *_ = pairs
    assert not load_differences(first, first, mask=mask_path).X.any()


def test_bad_pairs(pairs, run_path, mask_path):
    first, second, *_ = pairs
    with pytest.raises(ValueError, match=r"sub-03_ses-1.nii.gz has no partner"):
        load_differences(first, second[:3])
    with pytest.raises(
        ValueError, match=r"sub-00_ses-1.nii.gz and .*sub-01_ses-2.* different subj"
    ):
        load_differences(first, second[1:] + second[:1])
    with pytest.raises(
        ValueError, match=r"run-1_bold.nii.gz: is 4-D. Expected one 3-D map per time point"
    ):
        load_differences(first[:1], [run_path])
    with pytest.raises(ValueError, match=r"sign=.loss. is not a choice"):
        load_differences(first, second, sign="loss")
    data = load_differences(first, second, mask=mask_path)
    with pytest.raises(ValueError, match="Leave out mask"):
        load_differences(first, second, mask=mask_path, images=data.images)


def test_a_table_joins_by_the_first_map(pairs, tmp_path):
    first, second, *_ = pairs
    table = tmp_path / "participants.tsv"
    table.write_text("participant_id\tsex\nsub-03\tF\nsub-01\tM\nsub-00\tF\n")
    data = load_differences(first, second, table=table, label="sex", unmatched="drop")
    assert data.y.tolist() == ["F", "M", "F"]
    assert data.names == tuple(str(first[i]) for i in (0, 1, 3))
    assert "sub-02" in data.dropped[0]


def test_surfaces_take_their_mesh(surface, tmp_path):
    maps = [surface(seed=s) for s in range(4)]
    images = fit_image_space(maps)
    files = [
        write_map(row, images, tmp_path / f"map{n}.gii")
        for n, row in enumerate(images.transform(maps))
    ]
    pairs = [dict(zip(("left", "right"), sides)) for sides in files]
    X = load_differences(pairs[:2], pairs[2:], mesh=maps[0].mesh, binary=False).X
    rows = images.transform(maps)
    np.testing.assert_allclose(X, rows[:2] - rows[2:], rtol=1e-6)
