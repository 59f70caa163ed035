"""Hostile files and options at the command line: exit code 2, one line, nothing written."""

import gzip

import nibabel
import numpy as np
import pytest
from tests.cli.conftest import save


@pytest.fixture
def refused(run, tmp_path):
    """Run `decode`; it must end with exit code 2 and one line, without output. Returns the line."""

    def call(*arguments):
        out = tmp_path / "out"
        result = run("decode", *arguments, "--out", out)
        assert result.exit_code == 2, result.output
        assert result.output.count("\n") == 1
        assert result.output.startswith("voxprior: ")
        assert not list(tmp_path.glob("*out*")) + list(tmp_path.glob(".*out*"))
        return result.output

    return call


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--smoothing -5", "--smoothing -5.0 cannot be used"),
        ("--smoothing nan", "--smoothing nan cannot be used"),
        ("--t-r 0", "--t-r 0.0 cannot be used"),
        ("--high-pass -1", "--high-pass -1.0 cannot be used"),
        ("--high-pass .2 --low-pass .1", "--high-pass 0.2 and --low-pass 0.1 leave no frequency"),
        ("--low-pass .3 --t-r 2", "--low-pass 0.3 is not below the Nyquist frequency"),
        ("--jobs 0", "--jobs 0 is not a number of workers"),
        ("--jobs -5", "--jobs -5 is not a number of workers"),
        ("--covariates age,sex,age", "--covariates names 'age' more than once"),
        ("--covariates age,group", "--covariates names 'group', which is the label"),
    ],
)
def test_options_that_cannot_be(refused, study, options, said):
    assert said in refused(*study, *options.split())


def test_filters_beyond_the_header(refused, runs):
    given = ["--events", runs / "run-*_events.tsv", "--low-pass", "0.25", "--mask", "data"]
    said = refused(runs / "run-*_bold.nii.gz", *given)
    assert "run-1_bold.nii.gz: --low-pass 0.25 is not below" in said


def with_bomb(path):
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content + bytes(10**6)))


def as_complex(path):
    save(np.ones((5, 4, 3), np.complex64), path)


def with_header(**fields):
    def change(path):
        image = nibabel.load(path)
        image.header["vox_offset"] = 352  # nibabel sets it to 0 once it has read it
        for name, value in fields.items():
            image.header[name] = value
        voxels = gzip.decompress(path.read_bytes())[352:]
        path.write_bytes(gzip.compress(image.header.binaryblock + bytes(4) + voxels))

    return change


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (with_bomb, "trailing data"),
        (as_complex, "the voxels are complex numbers"),
        (with_header(dim=[4, 32767, 32767, 32767, 32767, 1, 1, 1]), "truncated or corrupt"),
        (with_header(dim=[3, -5, 4, 3, 1, 1, 1, 1]), "at least one voxel"),
        (with_header(srow_x=[np.nan] * 4), "affine"),
        (with_header(vox_offset=2e9), "voxels start at byte"),
        (with_header(vox_offset=0), "voxels start at byte 0. Expected at least 352"),
        (lambda path: path.write_bytes(b"\x1f\x8b garbage"), "cannot be read as an image"),
    ],
)
def test_images_that_cannot_be(refused, study, maps, spoil, said):
    spoil(maps / "sub-03_map.nii.gz")
    line = refused(*study)
    assert "sub-03_map.nii.gz: " in line
    assert said in line


@pytest.mark.parametrize("content", [b"", bytes(3000), b"\xff\xfe\t\n", b"a\tb\n1\t2\t3\n"])
def test_tables_that_cannot_be(refused, study, maps, content):
    (maps.parent / "participants.tsv").write_bytes(content)
    assert "participants.tsv" in refused(*study)
