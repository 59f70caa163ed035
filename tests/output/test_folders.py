import pytest

from voxprior.output import folders
from voxprior.output.folders import FINISHED, MANIFEST, output_files, output_folder
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


def write(out, files):
    """Write an output folder of these files."""
    with output_folder(out, "result.json") as work:
        put(work, files)


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content(folder):
    """Files of a folder but the manifest, with what is in them."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def hidden(tmp_path):
    return [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_it_appears_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with output_folder(out, "result.json") as work:
        (work / "result.json").write_text("new")
        keep_a_fold(work)
        assert not out.exists()
    assert sorted(p.name for p in out.iterdir()) == ["manifest.json", "result.json"]
    assert not hidden(out.parent)


def test_an_older_output_is_replaced_only_at_the_end(tmp_path):
    out = tmp_path / "out"
    write(out, {"result.json": "old", "more/a.txt": "old"})
    with pytest.raises(ZeroDivisionError):
        stopped(output_folder(out, "result.json"), ZeroDivisionError, "result.json")
    assert content(out) == {"result.json": "old", "more/a.txt": "old"}
    assert not hidden(tmp_path)
    write(out, {"result.json": "new"})
    assert content(out) == {"result.json": "new"}
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
    put(tmp_path, {"other.txt": "", "y_a.txt": "", "x_sign.json": "old"})
    with pytest.raises(ZeroDivisionError):
        stopped(output_files(tmp_path, "x", "x_sign.json"), ZeroDivisionError, "x_sign.json")
    assert content(tmp_path) == {"other.txt": "", "y_a.txt": "", "x_sign.json": "old"}
    for files in ({"x_sign.json": "new", "x_b.txt": ""}, {"x_sign.json": "newer", "x_a.txt": ""}):
        with output_files(tmp_path, "x", "x_sign.json") as work:
            put(work, files)
    found = content(tmp_path)
    assert set(found) == {"other.txt", "y_a.txt", "x_sign.json", "x_a.txt", "x_manifest.json"}
    assert found["x_sign.json"] == "newer"


def test_files_that_are_called_as_ours_are_refused(tmp_path):
    put(tmp_path, {"x_report.html": "somebody's"})
    with (
        pytest.raises(ValueError, match=r"x_report\.html: has a name that voxprior would write"),
        output_files(tmp_path, "x", "x_sign.json"),
    ):
        pass
    assert content(tmp_path) == {"x_report.html": "somebody's"}


def test_a_manifest_of_another_command_does_not_make_a_folder_ours(tmp_path):
    write(tmp_path / "out", {"result.json": ""})
    put(tmp_path / "out", {"comparison.json": "somebody's"})
    with (
        pytest.raises(ValueError, match=r"holds no comparison\.json of voxprior"),
        output_folder(tmp_path / "out", "comparison.json"),
    ):
        pass


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    write(tmp_path / "out", {"result.json": "new"})
    assert (tmp_path / "out").is_symlink()
    assert content(tmp_path / "disk") == {"result.json": "new"}


def test_work_is_done_inside_a_folder_that_is_a_file_system_of_its_own(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(folders, "_place_for_hidden", lambda out: out)
    for text in ("old", "new"):
        with output_folder(out, "result.json") as work:
            assert work.parent == out
            put(work, {"result.json": text})
        assert content(out) == {"result.json": text}
    assert not hidden(tmp_path)


def test_folders_made_for_nothing_are_taken_away(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="bad"):
        stopped(output_folder(tmp_path / "mine" / "a" / "b", "result.json"), ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        stopped(output_files(tmp_path / "c" / "d", "sub-01", "sub-01_r.json"), ValueError("bad"))
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_folders_that_hold_finished_folds_stay(tmp_path):
    with pytest.raises(ValueError, match="bad"):
        stopped(output_folder(tmp_path / "a" / "b", "result.json"), ValueError("bad"), "fold")
    assert hidden(tmp_path / "a") == [".b.partial"]
