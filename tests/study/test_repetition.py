"""Seconds between volumes of BIDS runs: JSON file, header and option, and which one counts."""

import nibabel
import pytest

from voxprior.errors import InputError
from voxprior.images.volumes import header_t_r
from voxprior.study import Study

MS, S = "msec", "sec"


@pytest.fixture
def of_one(bids, tmp_path):
    """A study of one participant, whose first run is changed: JSON text, header value and unit."""

    def build(text=None, header=None, **settings):
        func = bids / "derivatives" / "fmriprep" / "sub-01" / "func"
        side = next(func.glob("*run-1*_bold.json"))
        if text is not None:
            side.write_text(text)
        if header is not None:
            path = side.with_name(side.name.replace(".json", ".nii.gz"))
            old = nibabel.load(path)
            image = nibabel.Nifti1Image(old.get_fdata(dtype="f4"), old.affine)
            image.header["pixdim"][4], unit = header
            image.header.set_xyzt_units("mm", unit)
            nibabel.save(image, path)
        wanted = {"task": "faces", "conditions": ["face", "house"], "participants": ["01"]}
        study = Study.from_bids(bids, tmp_path / "out", **wanted, **settings)
        return study.read(study.runs["01"])

    return build


@pytest.mark.parametrize(
    "value",
    ["true", "false", '"2.0"', "null", "[2.0]", "{}", "0", "-2", "1e308", "1e999", "NaN", "2000000"]
    + ["1" + "0" * 400, "1" + "0" * 5000],
)
def test_what_is_not_a_time_is_refused_in_a_line(of_one, value):
    with pytest.raises(InputError, match=r"_bold.json: ") as refusal:
        of_one(f'{{"RepetitionTime": {value}}}')
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["[]", '"2.0"', "2.0", "[" * 100_000, "{", '{"a": {"b": 1}, }'])
def test_a_file_that_describes_no_image_is_refused(of_one, text):
    with pytest.raises(InputError, match=r"_bold.json: "):
        of_one(text)


@pytest.mark.parametrize(("seconds", "unit"), [(20.0, S), (2.05, S), (1.0, S), (2.0, MS)])
def test_a_header_that_disagrees_is_refused_with_both_values(of_one, seconds, unit):
    with pytest.raises(InputError, match=r"run-1.*every (20|2\.05|1|0\.002) s, but .* says 2 s"):
        of_one(header=(seconds, unit))


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(2.0, S), (2.01, S), (1.99, S), (2000.0, MS), (2e6, "usec"), (2.0, 0), (0.0, S), (1.0, 0)]
    + [(2.0, "hz")],
)
def test_a_header_that_agrees_or_is_silent_changes_nothing(of_one, seconds, unit):
    data = of_one(header=(seconds, unit))
    assert len(data.X) == 12
    assert data.images.cleaning.t_r == 2.0


@pytest.mark.parametrize("text", ['{"RepetitionTime": true}', '{"RepetitionTime": 20.0}', "[]"])
def test_what_the_user_gives_counts_more_than_both(of_one, text):
    data = of_one(text, header=(3.0, S), t_r=2.0)
    assert data.images.cleaning.t_r == 2.0


def test_a_run_of_which_neither_says_it_is_refused(of_one):
    with pytest.raises(InputError, match=r"run-1.*does not say how many.*Give t_r"):
        of_one('{"EchoTime": 0.03}')


def test_a_unit_that_is_not_in_the_standard_is_silent(rng):
    image = nibabel.Nifti1Image(rng.normal(size=(2, 2, 2, 3)), None)
    image.header["pixdim"][4], image.header["xyzt_units"] = 2.0, 7 + 56
    assert header_t_r(image) is None
