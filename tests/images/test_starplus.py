"""StarPlus files of the published structure, written here with known values."""

import numpy as np
import pytest
from scipy.io import savemat

from voxprior.images import load_starplus

SHAPE = (4, 5, 2)
# Columns in an order of their own, coordinates from 1, as in the published files.
COORDINATES = np.array([[3, 2, 1], [1, 1, 1], [4, 5, 2], [2, 2, 2], [1, 1, 2]])
REGIONS = {"CALC": [2, 5], "LIPL": [1, 3], "LT": [3, 4]}


def struct_array(records):
    """A MATLAB 1 x n struct array."""
    fields = [(name, object) for name in records[0]]
    array = np.empty((1, len(records)), dtype=fields)
    for position, record in enumerate(records):
        for name, value in record.items():
            array[name][0, position] = value
    return array


def value(trial, image, column):
    return 1000 * trial + 10 * image + column / 10


def write_starplus(path, conditions, stimuli, lengths, drop=()):
    cells = np.empty((len(conditions), 1), dtype=object)
    records, time = [], 1
    for trial, (cond, stimulus, length) in enumerate(zip(conditions, stimuli, lengths), start=1):
        images, columns = np.mgrid[1 : length + 1, 1 : len(COORDINATES) + 1]
        cells[trial - 1, 0] = value(trial, images, columns)
        record = {"mint": time, "maxt": time + length - 1, "len": length, "cond": cond}
        record |= {"firstStimulus": stimulus, "sentence": "", "img": "", "actionRT": 100 * trial}
        records.append(record)
        time += length
    rois = [
        {"name": name, "coords": COORDINATES[np.array(c) - 1], "columns": np.array([c])}
        for name, c in REGIONS.items()
    ]
    where = np.zeros(SHAPE)
    where[tuple(COORDINATES.T - 1)] = np.arange(1, len(COORDINATES) + 1)
    meta = {"study": "data-starplus-ps", "subject": "04847", "ntrials": len(conditions)}
    meta |= {"nvoxels": len(COORDINATES), "nsnapshots": time - 1}
    meta |= {"dimx": SHAPE[0], "dimy": SHAPE[1], "dimz": SHAPE[2]}
    meta |= {
        "colToCoord": COORDINATES.astype(float),
        "coordToCol": where,
        "rois": struct_array(rois),
    }
    for name in drop:
        del meta[name]
    savemat(path, {"meta": meta, "info": struct_array(records), "data": cells}, do_compression=True)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "data-starplus-04847-v7.mat"
    write_starplus(
        file,
        conditions=[0, 1, 2, 3, 2, 1, 3, 2],
        stimuli=["P", "P", "P", "P", "P", "S", "S", "S"],
        lengths=[5, 20, 54, 55, 54, 20, 54, 30],
    )
    return file


def test_first_stimulus(path):
    data = load_starplus(path)
    assert data.y.tolist() == ["picture"] * 3 + ["sentence"] * 2
    assert data.covariates["trial"].tolist() == [3, 4, 5, 7, 8]
    assert data.covariates["cond"].tolist() == [2, 3, 2, 3, 2]
    assert data.covariates["actionRT"].tolist() == [300, 400, 500, 700, 800]
    assert data.X.shape == (5, 16 * 5)
    assert data.X.dtype == np.float32
    assert data.dropped == ()


def test_columns_follow_the_space(path):
    """Voxel v of the space is the column whose coordinate it has; time is the slow axis."""
    data = load_starplus(path)
    trials = data.X.reshape(5, 16, 5)
    for v, place in enumerate(data.space.coordinates.astype(int)):
        column = 1 + next(i for i, c in enumerate(COORDINATES - 1) if (c == place).all())
        for t in (0, 7, 15):
            assert trials[1, t, v] == np.float32(value(4, t + 1, column))
    assert data.space.shape == SHAPE
    image = data.images.inverse_transform(trials[0, 0])
    assert image.get_fdata()[2, 1, 0] == np.float32(value(3, 1, 1))


def test_second_stimulus_is_the_other_one(path):
    data = load_starplus(path, images="second")
    assert data.y.tolist() == ["sentence"] * 3 + ["picture"]
    assert data.dropped == (f"{path}, trial 8: 30 images, 32 expected",)
    assert data.X[0, 0] == np.float32(value(3, 17, 2))  # (1, 1, 1) is the first voxel in C order


def test_both_stimuli_share_their_trial(path):
    data = load_starplus(path, images="both")
    assert data.n_samples == 9
    assert data.groups.tolist() == [3, 3, 4, 4, 5, 5, 7, 7, 8]
    assert data.y[:2].tolist() == ["picture", "sentence"]


def test_a_slice_of_images(path):
    data = load_starplus(path, images=slice(2, 6))
    np.testing.assert_array_equal(data.X, load_starplus(path).X[:, 2 * 5 : 6 * 5])
    assert load_starplus(path, images=slice(16, 20)).y[0] == "sentence"
    for wrong in (slice(0, 8, 2), slice(3, 3), slice(4, None), "third"):
        with pytest.raises(ValueError, match=r"images=.* (cannot be used|is not a choice)"):
            load_starplus(path, images=wrong)


def test_regions(path):
    whole = load_starplus(path)
    calc = load_starplus(path, rois="CALC")
    assert calc.space.n_voxels == 2
    kept = np.isin(whole.space.sites, calc.space.sites)
    np.testing.assert_array_equal(calc.X.reshape(5, 16, 2), whole.X.reshape(5, 16, 5)[:, :, kept])
    assert load_starplus(path, rois=["LIPL", "LT"]).space.n_voxels == 3  # column 3 is in both
    with pytest.raises(
        ValueError, match=r"04847-v7.mat: has no region V1. Expected rois among CALC, LIPL, LT"
    ):
        load_starplus(path, rois=["CALC", "V1"])


def test_bad_files(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.mat"):
        load_starplus(tmp_path / "absent.mat")
    other = tmp_path / "other.mat"
    savemat(other, {"meta": 1, "x": 2})
    with pytest.raises(ValueError, match=r"other.mat: is not a StarPlus file.*info, data"):
        load_starplus(other)
    noise = tmp_path / "noise.mat"
    noise.write_bytes(b"not a matlab file" * 20)
    with pytest.raises(OSError, match=r"noise.mat: cannot be read as a MATLAB file"):
        load_starplus(noise)
    cut = tmp_path / "cut.mat"
    cut.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(OSError, match=r"cut.mat: cannot be read as a MATLAB file"):
        load_starplus(cut)
    bare = tmp_path / "bare.mat"
    write_starplus(bare, [2], ["P"], [20], drop=["colToCoord"])
    with pytest.raises(ValueError, match=r"bare.mat: .* lacks the field 'colToCoord'"):
        load_starplus(bare)
    rest = tmp_path / "rest.mat"
    write_starplus(rest, [1, 0], ["P", "S"], [20, 20])
    with pytest.raises(ValueError, match=r"rest.mat: no trial with cond 2 or 3"):
        load_starplus(rest)
    odd = tmp_path / "odd.mat"
    write_starplus(odd, [2], ["X"], [20])
    with pytest.raises(ValueError, match=r"odd.mat: firstStimulus of trial 1 is 'X'"):
        load_starplus(odd)
