"""Links where hidden files go, and manifests of others: no file elsewhere, or of the user, is lost.

Folders are shared: who may write there can lay a link under the names that voxprior uses.
"""

import json

import pytest

from voxprior.errors import InputError
from voxprior.modelfile import files
from voxprior.output.folders import output_folder
from voxprior.output.manifest import read_manifest


@pytest.fixture
def thesis(tmp_path):
    """A file of the user in another folder."""
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "thesis.tex"
    file.write_text("years of work")
    return file


@pytest.mark.parametrize("end", ["partial", "lock"])
def test_a_link_under_a_hidden_name_is_refused(tmp_path, thesis, end):
    target = thesis.parent if end == "partial" else thesis
    (tmp_path / f".out.{end}").symlink_to(target)
    writing = output_folder(tmp_path / "out", "result.json")
    with pytest.raises(InputError, match=rf"\.out\.{end}: is a link"), writing:
        pass
    assert thesis.read_text() == "years of work"


def test_a_model_is_not_written_through_a_link(tmp_path, thesis):
    (tmp_path / ".model.skops.partial").symlink_to(thesis)
    files.write(tmp_path / "model.skops", {"digest": "a"})
    assert thesis.read_text() == "years of work"
    assert not (tmp_path / "model.skops").is_symlink()


def test_a_manifest_claims_no_file_without_its_content(tmp_path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"files": {"run.json": {}}}))
    assert read_manifest(manifest) == {"run.json": {}}
    manifest.write_text(json.dumps({"files": {"thesis.tex": {}}}))
    assert read_manifest(manifest) is None
