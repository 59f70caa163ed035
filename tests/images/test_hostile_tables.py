"""Tables, events, labels and confounds: whatever the file is, one line says what is wrong."""

import bz2
import gzip
import io
import pickle
import zipfile

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from voxprior.errors import InputError
from voxprior.images import load_runs, read_table, tables
from voxprior.images.confounds import confounds_of
from voxprior.images.trials import blocks_of_events, read_volume_labels

READERS = {
    "table": read_table,
    "events": lambda path: blocks_of_events(path, 10, 2.0),
    "labels": lambda path: read_volume_labels(path, 10),
    "confounds": lambda path: confounds_of(path, None, 10, "run"),
}
HOSTILE = {
    "binary": bytes(range(256)) * 40,
    "zeros": bytes(5000),
    "nul in a name": b"participant_id\tage\nsub-01\0\t3\n",
    "empty": b"",
    "blank lines": b"\n" * 100,
    "not utf-8": b"participant_id\tage\nsub-\xff\xfe\t3\n",
    "ragged": b"a\tb\n1\t2\n1\t2\t3\t4\n",
    "open quote": b'a\tb\n"1\t2\n' * 3,
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(200)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", HOSTILE)
def test_bad_content_is_told_in_a_value_error_that_names_the_file(tmp_path, reader, content):
    path = tmp_path / "bad.tsv"
    path.write_bytes(HOSTILE[content])
    with pytest.raises(ValueError, match=r"bad.tsv"):
        READERS[reader](path)


def workbook(*names):
    """A ZIP file with members of these names, as Office writes its documents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            kind = "application/vnd.oasis.opendocument.spreadsheet"
            archive.writestr(name, kind if name == "mimetype" else "")
    return stream.getvalue()


def made_by(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


NIFTI = nib.Nifti1Image(np.zeros((2, 2, 2), np.float32), np.eye(4)).to_bytes()
FOREIGN = {
    "an Excel workbook": workbook("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"),
    "an Excel workbook, or of": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "an OpenDocument spreadsheet": workbook("mimetype", "content.xml"),
    "a Word document": workbook("[Content_Types].xml", "word/document.xml"),
    "a ZIP archive": workbook("participants.tsv"),
    "a NumPy archive": made_by(lambda f: np.savez(f, labels=np.arange(3))),
    "a NumPy array": made_by(lambda f: np.save(f, np.arange(3))),
    "compressed by gzip": gzip.compress(b"participant_id\tage\n"),
    "compressed": bz2.compress(b"participant_id\tage\n"),
    "a NIfTI image": NIFTI,
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\n",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(200)),
    "a MATLAB file": made_by(lambda f: savemat(f, {"y": np.arange(3)})),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "a Parquet": b"PAR1" + bytes(40),
    "an SPSS file": b"$FL2@(#) SPSS DATA FILE",
    "a pickle": pickle.dumps(pd.DataFrame({"age": [1, 2]})),
    "an SQLite database": b"SQLite format 3\0",
    "a Stata file": made_by(lambda f: pd.DataFrame({"age": [1]}).to_stata(f)),
    "text in UTF-16": "participant_id\tage\nsub-01\t3\n".encode("utf-16"),
    "a web page": b"<!DOCTYPE html><html>",
    "JSON": b'{\n  "age": {"Description": "years"}\n}',
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("name", ["people.tsv", "people.xlsx"])
def test_files_of_other_programs_are_called_what_they_are(tmp_path, reader, what, name):
    path = tmp_path / name
    path.write_bytes(FOREIGN[what])
    with pytest.raises(InputError, match=rf"{name}: is {what}.*, not a ") as refused:
        READERS[reader](path)
    assert refused.value.remedy


def test_an_image_compressed_is_an_image(tmp_path):
    path = tmp_path / "map.nii.gz"
    path.write_bytes(gzip.compress(NIFTI))
    with pytest.raises(InputError, match=r"map.nii.gz: is a NIfTI image, not a table"):
        read_table(path)


def test_a_text_is_a_table_whatever_its_name(tmp_path):
    path = tmp_path / "participants.xlsx"
    path.write_text("pk\tage\nsub-01\t3\n")
    assert read_table(path)["age"].tolist() == [3]


@pytest.mark.parametrize("reader", READERS)
def test_absurd_sizes_are_refused(tmp_path, monkeypatch, reader):
    monkeypatch.setattr(tables, "TABLE_BYTES", 10_000)
    monkeypatch.setattr(tables, "LINE_BYTES", 1_000)
    large, wide, bomb = (tmp_path / name for name in ("large.tsv", "wide.tsv", "bomb.tsv.gz"))
    large.write_bytes(b"a\tb\n" * 3_000)
    wide.write_bytes(b"a\t" * 600)
    bomb.write_bytes(gzip.compress(b"a\tb\n" * 10**6))
    for path, words in ((large, "more than 0 MB"), (wide, "a line has"), (bomb, "more than 0 MB")):
        with pytest.raises(ValueError, match=rf"{path.name}: cannot be read as a .*{words}"):
            READERS[reader](path)


@pytest.mark.parametrize("reader", READERS)
def test_folders_and_absent_files(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match="is a folder"):
        READERS[reader](tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none.tsv: no such"):
        READERS[reader](tmp_path / "none.tsv")


def test_a_gzipped_table_is_a_table(tmp_path):
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress(b"participant_id\tage\n01\t3\n"))
    assert read_table(path).to_dict("records") == [{"participant_id": "01", "age": 3}]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(ValueError, match=r"table.tsv.gz: cannot be read as a table"):
        read_table(path)


@pytest.mark.parametrize(
    ("onset", "duration"), [(0.0, 1e300), (0.0, 1e9), (-1e300, 1.0), (-1e5, 1.0)]
)
def test_events_far_outside_the_run_are_refused(save, rng, onset, duration):
    """With one sample per volume they would be listed one by one, without end."""
    run = save(rng.normal(size=(3, 3, 3, 12)), "run.nii.gz", t_r=2.0)
    events = pd.DataFrame(
        {"onset": [4.0, onset], "duration": [2.0, duration], "trial_type": ["a", "b"]}
    )
    with pytest.raises(ValueError, match=r"the event in row 2 starts at .* in seconds"):
        load_runs(run, events, unit="volume", mask="data")


def test_an_event_may_reach_past_the_end(save, rng):
    run = save(rng.normal(size=(3, 3, 3, 12)), "run.nii.gz", t_r=2.0)
    events = pd.DataFrame({"onset": [4.0, 20.0], "duration": [4.0, 30.0], "trial_type": ["a", "b"]})
    data = load_runs(run, events, unit="volume", mask="data")
    assert np.unique(data.y, return_counts=True)[1].tolist() == [2, 2]
