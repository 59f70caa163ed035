import pytest

from voxprior.cli.folder import FINISHED, output_files, output_folder
from voxprior.validation.store import TaskStore


def keep_a_fold(work):
    TaskStore(work / FINISHED, "folds", "abc", {}).save(0, 0.5)


def stopped(work_in, error, *files):
    """Write files and a fold if asked for, then stop by an error."""
    with work_in as work:
        for name in files:
            if name == "fold":
                keep_a_fold(work)
            else:
                (work / name).parent.mkdir(exist_ok=True)
                (work / name).write_text("half")
        raise error


def hidden(tmp_path):
    return [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_it_appears_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with output_folder(out, "result.json") as work:
        (work / "result.json").write_text("new")
        keep_a_fold(work)
        assert not out.exists()
    assert [p.name for p in out.iterdir()] == ["result.json"]
    assert not hidden(out.parent)


def test_an_older_output_is_replaced_only_at_the_end(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "result.json").write_text("old")
    (out / "more").touch()
    with pytest.raises(ZeroDivisionError):
        stopped(output_folder(out, "result.json"), ZeroDivisionError, "result.json")
    assert (out / "result.json").read_text() == "old"
    assert not hidden(tmp_path)
    with output_folder(out, "result.json") as work:
        (work / "result.json").write_text("new")
    assert (out / "result.json").read_text() == "new"
    assert not (out / "more").exists()


def test_folds_outlive_a_stop_and_nothing_else_does(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match="1 finished folds are kept"):
        stopped(
            output_folder(out, "result.json"), KeyboardInterrupt, "fold", "a.html", "maps/a.nii"
        )
    assert not out.exists()
    with output_folder(out, "result.json") as work:
        assert [p.name for p in work.iterdir()] == [FINISHED]
        assert TaskStore(work / FINISHED, "folds", "abc", {}).finished() == {0: 0.5}
        (work / "result.json").touch()
    assert out.exists()


def test_a_stop_before_the_first_fold_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="nothing was written"):
        stopped(output_folder(tmp_path / "out", "result.json"), KeyboardInterrupt)
    assert not list(tmp_path.iterdir())


def test_other_peoples_folders_and_files_are_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(ValueError, match="not empty"), output_folder(tmp_path / "thesis", "r.json"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="a file has that name"):
        output_folder(tmp_path / "file", "r.json").__enter__()
    with pytest.raises(OSError, match="cannot be written"):
        output_folder(tmp_path / "file" / "below", "r.json").__enter__()


def test_files_join_others_and_the_sign_comes_last(tmp_path):
    (tmp_path / "other.txt").touch()
    (tmp_path / "sign.json").write_text("old")
    with pytest.raises(ZeroDivisionError):
        stopped(output_files(tmp_path, "x", "sign.json"), ZeroDivisionError, "sign.json")
    assert {p.name for p in tmp_path.iterdir()} == {"other.txt"}
    with output_files(tmp_path, "x", "sign.json") as work:
        (work / "sign.json").write_text("new")
        (work / "a.txt").touch()
    assert {p.name for p in tmp_path.iterdir()} == {"other.txt", "sign.json", "a.txt"}
    assert (tmp_path / "sign.json").read_text() == "new"
