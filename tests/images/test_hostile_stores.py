"""Stores that somebody changed are refused in one line, whoever reads them, and within bounds."""

import pickle
import shutil
import signal
import tracemalloc

import numpy as np
import pytest
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage
from tests import hostile_stores
from tests.hostile_stores import CHUNK, HOSTILE, before_digests, exchanged, good_store

from voxprior import max_memory
from voxprior.blocks import BlockedScans
from voxprior.errors import InputError, InputWarning
from voxprior.images import chunks, load_maps, pack_maps

MOST_BYTES = 10**9


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", CHUNK)
        yield good_store(tmp_path_factory.mktemp("study"))


@pytest.fixture
def copy(store, tmp_path):
    return shutil.copytree(store, tmp_path / "copy.zarr")


@pytest.fixture
def in_time():
    """Ends what waits for ever, as who opens a FIFO does."""

    def late(*_):
        raise TimeoutError("waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def whole(store):
    return np.asarray(load_maps(store, standardize="none", scale="none").X)


def in_blocks(store):
    with max_memory("5KB"):
        scans = load_maps(store, standardize="none", scale="none").X
        assert isinstance(scans, BlockedScans)
        return np.hstack([scans[:, k : k + 10] for k in range(0, scans.shape[1], 10)])


def by_a_worker(store):
    with max_memory("5KB"):
        scans = load_maps(store, standardize="none", scale="none").X
        return pickle.loads(pickle.dumps(scans))[:, :]


READERS = [whole, in_blocks, by_a_worker]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.filterwarnings("ignore::voxprior.errors.InputWarning")
@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_changed_store_is_refused_in_a_line(copy, in_time, read, change):
    change(copy)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read(copy)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("read", READERS)
def test_a_good_store_is_read_in_parts(store, read):
    np.testing.assert_array_equal(read(store), whole(store))


def test_a_store_of_version_0_2_is_read_with_a_line_of_what_it_cannot_prove(store, copy):
    expected = load_maps(store)
    before_digests(copy)
    with pytest.warns(InputWarning, match="copy.zarr: was packed by version 0.2, which kept no"):
        found = load_maps(copy)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    exchanged(copy)
    with pytest.warns(InputWarning, match="nothing proves"):
        load_maps(copy)


def test_a_chunk_that_changes_while_it_is_read_in_blocks_is_found(copy):
    with max_memory("5KB"):
        scans = load_maps(copy, standardize="none", scale="none").X
        scans[:, :5]
        exchanged(copy)
        with pytest.raises(InputError, match="is not what was packed at this place"):
            scans[:, :]


def test_the_fingerprint_of_scans_is_of_their_content(copy, tmp_path):
    with max_memory("5KB"):
        first = load_maps(copy, standardize="none", scale="none").X.digest()
        hostile_stores.setting(label="run")(copy)
        assert load_maps(copy, standardize="none", scale="none").X.digest() == first
        hostile_stores.chunk()(hostile_stores.numbers(hostile_stores.put(7)))(copy)
        assert load_maps(copy, standardize="none", scale="none").X.digest() != first


@pytest.fixture(scope="module")
def surface_store(tmp_path_factory):
    rng, out = np.random.default_rng(0), tmp_path_factory.mktemp("mesh") / "s.zarr"
    side = InMemoryMesh(rng.normal(size=(6, 3)), np.array([[0, 1, 2], [2, 3, 4], [3, 4, 5]]))
    mesh = PolyMesh(left=side, right=side)
    sides = [{part: rng.normal(size=6) for part in ("left", "right")} for _ in range(4)]
    return pack_maps([SurfaceImage(mesh, data) for data in sides], out, list("abab"))


@pytest.mark.parametrize(
    "change",
    [
        hostile_stores.inside("images", parts=[["left", 6], ["right", 7]]),
        hostile_stores.inside("images", parts=[["left", 12], ["up", 0]]),
        hostile_stores.inside("images", parts=None),
        hostile_stores.chunk("points")(lambda body: np.full(36, np.nan).tobytes()),
        hostile_stores.chunk("points", seal=False)(lambda body: np.ones(36).tobytes()),
        hostile_stores.chunk("faces")(lambda body: np.full(18, 12).tobytes()),
        hostile_stores.chunk("faces")(lambda body: np.full(18, -1).tobytes()),
        hostile_stores.flipped("faces"),
    ],
)
def test_a_changed_store_of_surfaces_is_refused(surface_store, tmp_path, change):
    copy = shutil.copytree(surface_store, tmp_path / "copy.zarr")
    change(copy)
    with pytest.raises(InputError, match=r"copy.zarr.* is damaged"):
        load_maps(copy)
