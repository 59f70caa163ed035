"""Packed studies against the images they were packed from, and what is wrong with damaged ones."""

import errno
import json
import os
import pickle
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder, max_memory
from voxprior.blocks import BlockedScans
from voxprior.errors import InputError, InputWarning
from voxprior.images import chunks, load_maps, pack_maps, packing
from voxprior.images.packed import description_digest, open_packed

N = 12


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder of maps with two voxels outside the mask, and their table."""
    folder, rng = tmp_path_factory.mktemp("study"), np.random.default_rng(0)
    y, runs = np.tile(["cat", "dog"], 6), np.repeat([1, 2, 3], 4)
    for i in range(N):
        values = 5 + rng.normal(size=(5, 5, 4))
        values[:2] += 2 * (y[i] == "dog")
        values[0, 0, :2] = 0
        nibabel.save(nibabel.Nifti1Image(values.astype("f4"), np.diag([2, 2, 3, 1.0])),
                     folder / f"scan{i:02}.nii.gz")  # fmt: skip
    table = pd.DataFrame({"file": [f"scan{i:02}" for i in range(N)], "animal": y, "run": runs})
    table["age"] = rng.normal(50, 9, N)
    table["note"] = [None, *"abcdefghijk"]
    table.to_csv(folder / "labels.tsv", sep="\t", index=False)
    return folder


class StoppedError(Exception):
    """What ends a run in the middle."""


LABELS = {"label": "animal", "groups": "run", "covariates": ["age"]}


@pytest.fixture(scope="module")
def store(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("packed") / "study.zarr"
    return pack_maps(f"{study}/*.nii.gz", out, table=study / "labels.tsv", **LABELS)


@pytest.fixture
def copy(store, tmp_path):
    return shutil.copytree(store, tmp_path / "copy.zarr")


def from_images(study, **changes):
    return load_maps(f"{study}/*.nii.gz", table=study / "labels.tsv", **LABELS | changes)


def assert_same(found, expected, rtol=0.0):
    np.testing.assert_allclose(np.asarray(found.X[:, :]), expected.X, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.groups, expected.groups)
    assert found.space == expected.space
    assert [os.path.basename(name) for name in expected.names] == [*found.names]
    assert found.decisions == expected.decisions
    assert found.standardize == expected.standardize
    assert found.images == expected.images


@pytest.mark.parametrize(
    "settings",
    [{}, {"standardize": "group"}, {"standardize": "none"}, {"scale": "global"}],
    ids=str,
)
def test_a_store_is_the_images(study, store, settings):
    found, expected = load_maps(store, **settings), from_images(study, **settings)
    assert_same(found, expected)
    pd.testing.assert_frame_equal(found.covariates, expected.covariates)
    assert list(found.columns) == ["run", "age"]
    with max_memory("5KB"):
        blocks = load_maps([str(store)], **settings)
        assert isinstance(blocks.X, BlockedScans)
        assert_same(blocks, expected, rtol=1e-6)


def test_other_columns_tables_and_labels(study, store):
    assert set(load_maps(store, label="run", groups=np.arange(N)).groups) == set(range(N))
    whole = {"table": study / "labels.tsv", "label": "note", "unmatched": "drop"}
    assert len(load_maps(store, **whole).y) == N - 1
    with pytest.raises(InputError, match=r"store has no column 'note'.*animal, run, age.*table"):
        load_maps(store, label="note")
    assert load_maps(store, groups="age", covariates="run").covariates.columns.tolist() == ["run"]
    by_hand = load_maps(store, np.arange(N))
    np.testing.assert_array_equal(by_hand.y, np.arange(N))
    np.testing.assert_array_equal(by_hand.groups, np.repeat([1, 2, 3], 4))
    few = pd.read_csv(study / "labels.tsv", sep="\t")[2:5]
    joined = load_maps(store, table=few, label="animal", unmatched="drop", standardize="none")
    np.testing.assert_array_equal(joined.X, load_maps(store, standardize="none").X[2:5])
    with pytest.raises(
        InputError, match=r"study.zarr: the store has no column 'plant'. Expected one of animal"
    ):
        load_maps(store, label="plant")


def test_decoders_take_it(study, store):
    expected = Decoder("gp").fit(from_images(study)).predict_proba(from_images(study))
    data = load_maps(store)
    decoder = Decoder("gp").fit(data)
    np.testing.assert_array_equal(decoder.predict_proba(data), expected)
    new = load_maps(store, images=decoder.masker_)
    np.testing.assert_allclose(new.X, data.X, atol=1e-6)
    with max_memory("5KB"):
        blocks = Decoder("gp").evaluate(load_maps(store))
    whole = Decoder("gp").evaluate(data)
    np.testing.assert_allclose(blocks.probabilities(), whole.probabilities(), rtol=1e-4)


def test_maps_without_labels_and_of_several_volumes(tmp_path):
    values = np.random.default_rng(1).normal(size=(4, 4, 3, 5))
    runs = [nibabel.Nifti1Image(values + i, np.eye(4)) for i in range(2)]
    found = load_maps(pack_maps(runs, tmp_path / "a.zarr"), standardize="none")
    assert found.y is None
    assert found.X.shape == (10, 48)
    assert (found.groups == np.repeat(found.groups[[0, 5]], 5)).all()
    assert found.groups[0] != found.groups[5]
    np.testing.assert_allclose(found.X[7], (values + 1)[..., 2].ravel(), rtol=1e-6)
    covered = pack_maps(runs, tmp_path / "b.zarr", covariates=pd.DataFrame({"q": np.arange(10)}))
    assert load_maps(covered).covariates["q"].tolist() == list(range(10))


def test_voxels_that_are_not_finite_are_left_out(study, tmp_path):
    values = np.ones((3, 3, 2)) * np.arange(1, 5)[:, None, None, None]
    values[2, 1, 1, 1] = np.nan
    maps = [nibabel.Nifti1Image(v, np.eye(4)) for v in values]
    mask = nibabel.Nifti1Image(np.ones((3, 3, 2), "u1"), np.eye(4))
    with pytest.warns(UserWarning, match="no information|constant"):
        found = load_maps(pack_maps(maps, tmp_path / "a.zarr", list("abab"), mask=mask))
    assert found.X.shape == (4, 17)


def test_surfaces(tmp_path):
    from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

    rng = np.random.default_rng(0)
    side = InMemoryMesh(rng.normal(size=(6, 3)), np.array([[0, 1, 2], [2, 3, 4], [3, 4, 5]]))
    mesh = PolyMesh(left=side, right=side)
    maps = [
        SurfaceImage(mesh, {"left": rng.normal(size=6), "right": rng.normal(size=6)})
        for _ in range(4)
    ]
    found = load_maps(pack_maps(maps, tmp_path / "a.zarr", list("abab")))
    expected = load_maps(maps, list("abab"))
    np.testing.assert_array_equal(found.X, expected.X)
    assert found.space == expected.space


class Killed(BaseException):
    """Stands for a kill: no handler of errors sees it."""


@pytest.mark.parametrize("at", [("scans", 5), ("blocks of voxels", 3)], ids=str)
def test_a_killed_run_goes_on(study, store, tmp_path, monkeypatch, at):
    monkeypatch.setattr(chunks, "CHUNK", 4 * N * 10)
    reads = []
    read = packing.ImageSpace.read
    monkeypatch.setattr(
        packing.ImageSpace, "read", lambda *a, **k: reads.append(a[1].name) or read(*a, **k)
    )

    class Steps:
        def __init__(self, name, total):
            self.name, self.left = name, at[1] if stops and name == at[0] else -1

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def __call__(self, done=1):
            self.left -= done
            if self.left == 0:
                raise Killed

    def pack():
        given = {"table": study / "labels.tsv", "progress": Steps, **LABELS}
        return pack_maps(f"{study}/*.nii.gz", tmp_path / "a.zarr", **given)

    stops = True
    with pytest.raises(Killed):
        pack()
    work, before = tmp_path / ".a.zarr.partial", len(reads)
    assert not (tmp_path / "a.zarr").exists()
    with (work / "rows.done").open("a") as book:
        book.write("3 7")  # a line that was cut short
    if at[0] == "scans":
        rows = np.memmap(work / "rows", np.float32, "r+").reshape(N, -1)
        rows[1] += 1  # a row that did not reach the disk whole
    else:
        next(work.glob("scans/c/0/1")).write_bytes(b"cut")
    stops = False
    again = load_maps(pack())
    monkeypatch.undo()
    assert_same(again, load_maps(store))
    assert len(reads) - before == (N - 5 + 2 if at[0] == "scans" else 1)
    assert not work.exists()
    assert not (tmp_path / "a.zarr" / "rows").exists()


def test_another_plan_starts_anew(study, tmp_path):
    work = tmp_path / ".a.zarr.partial"
    work.mkdir()
    (work / "plan").write_text("other")
    (work / "rows").write_text("other")
    found = pack_maps(f"{study}/*.nii.gz", tmp_path / "a.zarr", table=study / "labels.tsv")
    assert len(load_maps(found).X) == N


def test_a_scan_of_another_content_starts_anew(study, tmp_path):
    """A run that was stopped, and a scan replaced by one of the same name, size and time."""
    copy = shutil.copytree(study, tmp_path / "study")
    path = copy / "scan02.nii"
    (copy / "scan02.nii.gz").unlink()
    image = nibabel.load(study / "scan02.nii.gz")
    image.to_filename(path)

    class Stopped:
        def __init__(self, name, total):
            self.left = 8

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def __call__(self, done=1):
            self.left -= done
            if self.left == 0:
                raise Killed

    given = {"table": copy / "labels.tsv", **LABELS}
    with pytest.raises(Killed):
        pack_maps(f"{copy}/*.nii*", tmp_path / "a.zarr", progress=Stopped, **given)
    state = path.stat()
    nibabel.Nifti1Image(np.asarray(image.dataobj) * np.float32(2), image.affine).to_filename(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    again = load_maps(pack_maps(f"{copy}/*.nii*", tmp_path / "a.zarr", **given))
    np.testing.assert_array_equal(again.X, load_maps(f"{copy}/*.nii*", **given).X)


def test_names_that_are_taken(study, store, tmp_path):
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr" / "mine").write_text("")
    for out, told in (
        (store, "holds 12 packed scans already"),
        (tmp_path / "b.zarr", "holds other files already"),
        (tmp_path / "study", "ends in .zarr"),
    ):
        with pytest.raises(InputError, match=told):
            pack_maps(f"{study}/*.nii.gz", out)


def changed(copy, **attributes):
    """Give a store another description, with its digest."""
    path = copy / "zarr.json"
    content = json.loads(path.read_text())
    content["attributes"] |= attributes
    content["attributes"]["digest"] = description_digest(content["attributes"])
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda c: (c / "zarr.json").unlink(), "is not a packed study"),
        (lambda c: (c / "zarr.json").write_text("{"), "cannot be read as JSON"),
        (lambda c: changed(c, kind="holiday"), "not packed by this version.*got holiday"),
        (lambda c: changed(c, version=9), "not packed by this version.*version 9"),
        (lambda c: changed(c, complete=False), "not packed to its end.*again, which goes on"),
        (lambda c: changed(c, names=["a"]), "has not one entry per scan"),
        (lambda c: changed(c, names=None), "is damaged .its description"),
        (lambda c: changed(c, images={}), "is damaged .its description"),
        (lambda c: changed(c, groups=[1]), "groups has not one entry per scan"),
        (lambda c: shutil.rmtree(c / "mask"), "mask/zarr.json: is damaged .it is missing"),
        (lambda c: (c / "scans/c/0/0").unlink(), "lacks 1 of 1 parts of the scans"),
        (lambda c: flip(c / "scans/c/0/0"), "scans/c/0/0: is damaged .it is not what was packed"),
        (lambda c: (c / "scans/c/0/0").write_bytes(b"x"), "scans/c/0/0: is damaged"),
    ],
)
def test_damage_is_told_in_a_line(copy, damage, told):
    damage(copy)
    with pytest.raises(InputError, match=rf"copy.zarr.*{told}") as caught:
        load_maps(copy)
    assert "\n" not in str(caught.value)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_store_of_another_study(study, store):
    other = load_maps(f"{study}/*.nii.gz", list("ab") * 6, mask=whole_mask(study))
    with pytest.raises(InputError, match=r"is of another study than the decoder. Expected Voxel"):
        load_maps(store, images=other.images)


def whole_mask(study):
    image = nibabel.load(study / "scan00.nii.gz")
    mask = np.ones(image.shape, "u1")
    mask[4] = 0
    return nibabel.Nifti1Image(mask, image.affine)


def test_settings_that_came_too_late(store):
    with pytest.raises(InputError, match=r"is packed, so smoothing_fwhm would have no effect"):
        load_maps(store, smoothing_fwhm=4.0, detrend=False, mask=None)
    with pytest.raises(InputError, match=r"standardize='run' is for runs"):
        load_maps(store, standardize="run")


@pytest.mark.parametrize("name", ["zarr", "numcodecs"])
def test_without_zarr_a_line_says_what_to_install(store, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"need the package zarr. Run: pip install"):
        load_maps(store) if name == "numcodecs" else pack_maps("a.nii", tmp_path / "s.zarr")


# ---------------------------------------------------------------- stores that somebody else made


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


PICKLED = [
    {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}], "compressor": None},
    {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}],
     "compressor": None},
    {"dtype": "<f8", "filters": None, "compressor": {"id": "pickle", "protocol": 5}},
]  # fmt: skip


@pytest.mark.parametrize("how", PICKLED, ids=str)
def test_pickles_of_the_older_format_are_not_read(copy, tmp_path, how):
    attributes = json.loads((copy / "zarr.json").read_text())["attributes"]
    (copy / "zarr.json").unlink()
    (copy / ".zgroup").write_text('{"zarr_format": 2}')
    (copy / ".zattrs").write_text(json.dumps(attributes))
    (copy / "mask" / "zarr.json").unlink()
    described = {"zarr_format": 2, "shape": [1], "chunks": [1], "fill_value": 0, "order": "C"}
    (copy / "mask" / ".zarray").write_text(json.dumps(described | how))
    (copy / "mask" / "0").write_bytes(pickle.dumps(Trap(str(tmp_path / "sprung"))))
    with pytest.raises(InputError, match=r"copy.zarr: is not a packed study"):
        load_maps(copy)
    assert not (tmp_path / "sprung").exists()


def described(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | changes))


@pytest.mark.parametrize("name", ["mask", "scans"])
def test_other_codecs_are_refused(copy, name):
    path = copy / name / "zarr.json"
    codecs = json.loads(path.read_text())["codecs"]
    described(path, codecs=[codecs[0], {"name": "gzip", "configuration": {"level": 5}}])
    with pytest.raises(InputError, match=rf"copy.zarr/{name}: is not written as.*another codecs"):
        load_maps(copy)


def test_texts_in_place_of_numbers_are_refused(copy):
    described(copy / "affine" / "zarr.json", data_type="bool", fill_value=False)
    with pytest.raises(InputError, match="affine: is not written as voxprior pack writes it"):
        load_maps(copy)


def test_an_array_that_would_fill_the_memory_is_not_read(copy):
    shape = [10**4, 10**4, 10**3]
    described(copy / "mask" / "zarr.json", shape=shape)
    listed = json.loads((copy / "zarr.json").read_text())["attributes"]["arrays"]
    changed(copy, arrays=listed | {"mask": listed["mask"] | {"shape": shape}})
    with pytest.raises(InputError, match="mask: would take 100 GB"):
        load_maps(copy)


def test_a_full_disk_is_an_error_and_packing_goes_on(study, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "study.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(packing.os, "posix_fallocate", full, raising=False)
        with pytest.raises(OSError, match="No space left"):
            pack_maps(f"{study}/*.nii.gz", out)
    assert not out.exists()
    again = load_maps(pack_maps(f"{study}/*.nii.gz", out))
    assert np.isfinite(again.X).all()
    assert [path.name for path in tmp_path.iterdir()] == ["study.zarr"]


def test_parts_that_are_all_zero_are_there(tmp_path, monkeypatch):
    """Zarr does not write what equals its fill value, and readers count parts."""
    monkeypatch.setattr(chunks, "CHUNK", 4 * N * 10)
    values = np.random.default_rng(0).normal(size=(N, 5, 4, 3)).astype("f4")
    values[:, :2] = 0
    maps = [nibabel.Nifti1Image(one, np.eye(4)) for one in values]
    inside = nibabel.Nifti1Image(np.ones((5, 4, 3), "u1"), np.eye(4))
    store = pack_maps(maps, tmp_path / "s.zarr", ["a", "b"] * 6, mask=inside)
    assert (store / "scans" / "c" / "0" / "5").exists()
    np.testing.assert_array_equal(load_maps(store, scale="none", standardize="none").X,
                                  values.reshape(N, -1))  # fmt: skip


def test_images_in_memory_are_not_those_of_a_run_that_was_stopped(tmp_path):
    def maps(value):
        values = np.random.default_rng(0).uniform(size=(4, 4, 3, 2))
        return [nibabel.Nifti1Image(one + value, np.eye(4)) for one in values]

    def stopping(name, total):
        if name == "blocks of voxels":
            raise StoppedError
        return packing._silent(name, total)

    with pytest.raises(StoppedError):
        pack_maps(maps(1.0), tmp_path / "s.zarr", ["a", "b"] * 2, progress=stopping)
    store = pack_maps(maps(100.0), tmp_path / "s.zarr", ["a", "b"] * 2)
    assert load_maps(store, scale="none", standardize="none").X.min() >= 100


@pytest.mark.parametrize("name", ["affine", "mask"])
def test_a_flipped_bit_beside_the_scans_is_told(copy, name):
    chunk = next(path for path in (copy / name / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        load_maps(copy)
    shutil.rmtree(copy / name)
    with pytest.raises(InputError, match="damaged"):
        load_maps(copy)


@pytest.mark.parametrize(
    "attributes",
    [
        {"label": ["animal"]},
        {"covariates": ["age", ["age"]]},
        {"groups": [[1], [2]] * 6},
        {"groups": [None] * N},
        {"said": {"notes": []}},
        {"said": []},
        {"table": []},
        {"arrays": []},
    ],
)
def test_hostile_descriptions_are_refused(copy, attributes):
    changed(copy, **attributes)
    with pytest.raises(InputError, match=r"damaged"):
        load_maps(copy)


@pytest.mark.parametrize("content", ["3", "null", '"x"', "[" * 100_000, "{}"])
def test_roots_that_are_no_description_are_refused(copy, content):
    (copy / "zarr.json").write_text(content)
    with pytest.raises(InputError, match=r"is not a packed study|nested more than 50 deep"):
        load_maps(copy)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("zarr.json", b""),
        ("zarr.json", b"{"),
        ("scans/zarr.json", b""),
        ("rows.done", "\u00b2 3\n".encode() + b"\xff\n"),
        ("plan", b"\xff"),
    ],
)
def test_what_a_loss_of_power_cut_is_made_again(study, store, tmp_path, name, content):
    def stopping(told, total):
        if told == "blocks of voxels" and (work / "zarr.json").exists():
            raise StoppedError
        return packing._silent(told, total)

    out, work = tmp_path / "s.zarr", tmp_path / ".s.zarr.partial"
    table = {"table": study / "labels.tsv", **LABELS}
    with pytest.raises(StoppedError):
        pack_maps(f"{study}/*.nii.gz", out, progress=stopping, **table)
    (work / name).write_bytes(content)
    pack_maps(f"{study}/*.nii.gz", out, **table)
    assert_same(load_maps(out), load_maps(store))


def test_a_covariate_is_not_called_as_the_labels_are(tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 4, 3, 2))
    maps = [nibabel.Nifti1Image(one, np.eye(4)) for one in values]
    table = pd.DataFrame({"label": [1.0, 2, 3, 4]})
    with pytest.raises(InputError, match="covariate is called 'label'"):
        pack_maps(maps, tmp_path / "s.zarr", ["a", "b"] * 2, covariates=table)


def test_dates_of_a_table_are_kept_as_text(study, tmp_path):
    table = pd.read_csv(study / "labels.tsv", sep="\t")
    table["day"] = pd.Timestamp("2026-01-02")
    given = {"table": table} | LABELS | {"groups": "day"}
    store = pack_maps(f"{study}/*.nii.gz", tmp_path / "s.zarr", **given)
    assert open_packed(store).table["day"].iloc[0].startswith("2026-01-02")
    assert set(load_maps(store).groups) == {"2026-01-02 00:00:00"}


# ---------------------------------------------------------------- what leaves with a store


def everything_in(store):
    return b"".join(path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file())


def people(study, folder):
    """The study in the home of somebody, with names of persons, and a row without an image."""
    home = folder / "home" / "surname"
    shutil.copytree(study, home / "maps")
    table = pd.read_csv(study / "labels.tsv", sep="\t")
    table["person"] = [f"Person {i}" for i in range(N)]
    table.loc[N] = ["surname-left-out", "cat", 3, 50.0, "z", "Person Absent"]
    (home / "maps" / "labels.tsv").unlink()
    return home, table


@pytest.mark.parametrize("at", ["table", "working folder", "elsewhere", "root"])
def test_a_store_holds_no_folders_and_no_column_that_nothing_uses(study, tmp_path, monkeypatch, at):
    home, table = people(study, tmp_path)
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    monkeypatch.chdir({"working folder": home, "root": "/"}.get(at, elsewhere))
    path = (home if at == "table" else elsewhere) / "labels.tsv"
    table.to_csv(path, sep="\t", index=False)
    with pytest.warns(InputWarning, match="1 left out, the first: .*surname-left-out"):
        store = pack_maps(
            f"{home}/maps/*.nii.gz", elsewhere / "s.zarr", table=path, unmatched="drop", **LABELS
        )
    content = everything_in(store)
    for word in (b"surname", b"home", b"Person", b"person", b'"note"'):
        assert word not in content
    packed = open_packed(store)
    assert list(packed.table) == ["animal", "run", "age"]
    shown = "scan00.nii.gz" if at in ("elsewhere", "root") else "maps/scan00.nii.gz"
    assert packed.names[0] == shown
    assert len(load_maps(store).dropped) == 1


def test_another_table_is_joined_by_the_names_of_a_store(study, store):
    table = pd.read_csv(study / "labels.tsv", sep="\t")[::-1]
    joined = load_maps(store, table=table, label="run", covariates=["age"])
    np.testing.assert_array_equal(joined.y, np.repeat([1, 2, 3], 4))


def test_subjects_in_folders_stay_apart(tmp_path):
    """Files of one name in folders of subjects are known by these."""
    rng = np.random.default_rng(0)
    for i in range(4):
        (tmp_path / f"sub-{i:02}").mkdir()
        image = nibabel.Nifti1Image(rng.normal(size=(4, 4, 3)), np.eye(4))
        nibabel.save(image, tmp_path / f"sub-{i:02}" / "T1w.nii")
    store = pack_maps(f"{tmp_path}/sub-*/T1w.nii", tmp_path / "s.zarr")
    people = pd.DataFrame({"participant_id": ["03", "02", "01", "00"], "sex": list("fmfm")})
    assert load_maps(store, table=people, label="sex").y.tolist() == list("mfmf")


def test_a_description_too_large_to_read_is_not_written(study, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "DOCUMENT_BYTES", 1000)
    with pytest.raises(InputError, match=r"names and columns of 12 scans take .* at most 0.001 MB"):
        pack_maps(f"{study}/*.nii.gz", tmp_path / "s.zarr", table=study / "labels.tsv", **LABELS)
    assert not [*tmp_path.iterdir()]


def test_what_a_store_is_read_for_cannot_be_regressed_out(store):
    with pytest.raises(InputError, match="names 'animal', which is the label"):
        load_maps(store, covariates=["animal"])


# ---------------------------------------------------------------- several programs at once


def test_programs_that_pack_one_name_at_once_leave_one_whole_store(study, tmp_path):
    """One packs, and the others are refused in a line, at whatever moment they come."""
    given = {"table": study / "labels.tsv", **LABELS}
    out, started, go_on = tmp_path / "s.zarr", threading.Event(), threading.Event()

    def waiting(name, total):
        started.set()
        assert go_on.wait(60)
        return packing._silent(name, total)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(pack_maps, f"{study}/*.nii.gz", out, progress=waiting, **given)
        assert started.wait(60)
        for _ in range(2):
            with pytest.raises(InputError, match=r"another voxprior .* writes there"):
                pack_maps(f"{study}/*.nii.gz", out, **given)
        go_on.set()
        assert first.result() == out
    with pytest.raises(InputError, match="holds 12 packed scans already"):
        pack_maps(f"{study}/*.nii.gz", out, **given)
    assert_same(load_maps(out), from_images(study))
    assert [path.name for path in tmp_path.iterdir()] == ["s.zarr"]


def test_a_link_in_the_place_of_a_store_is_refused(study, tmp_path):
    (tmp_path / "s.zarr").symlink_to(tmp_path / "elsewhere.zarr")
    with pytest.raises(InputError, match=r"s.zarr: is a link to .*elsewhere.zarr"):
        pack_maps(f"{study}/*.nii.gz", tmp_path / "s.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["s.zarr"]
