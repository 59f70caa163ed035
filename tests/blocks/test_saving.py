"""Models that keep scans on disk, written to a file that stands alone, or refused with the size."""

import numpy as np
import pytest

from voxprior import GPClassifier, RVMClassifier, VoxelSpace, max_memory
from voxprior.blocks import BlockedScans, TooLargeError
from voxprior.decoder import Decoder
from voxprior.images import Dataset
from voxprior.mapping import map_test
from voxprior.modelfile.files import in_memory

SPACE, Y = VoxelSpace.grid((6, 6, 5), np.eye(4)), np.tile(["a", "b"], 12)
SIZE = 24 * 180 * 4


@pytest.fixture
def mapped(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "f4", (24, 180))
    X[:] = np.random.default_rng(0).normal(size=X.shape) + 2.0 * (Y == "b")[:, None]
    return X


@pytest.mark.parametrize("name", ["gp", "rvm"])
def test_a_saved_model_holds_its_scans(name, mapped, tmp_path):
    with max_memory(3 * SIZE):
        decoder = Decoder(name).fit(Dataset(mapped, Y, SPACE))
        expected = decoder.predict_proba(Dataset(mapped, Y, SPACE))
        decoder.save(tmp_path / "model.skops")
    (tmp_path / "x.npy").unlink()
    loaded = Decoder.load(tmp_path / "model.skops")
    found = loaded.predict_proba(Dataset(np.array(mapped), Y, SPACE))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_scans_too_large_are_refused_with_their_size(mapped, tmp_path):
    with max_memory(SIZE):
        decoder = Decoder("gp").fit(Dataset(mapped, Y, SPACE))
        with pytest.raises(TooLargeError, match=r"needs 0.0346 MB.*max_memory"):
            decoder.save(tmp_path / "model.skops")
    assert not (tmp_path / "model.skops").exists()


@pytest.mark.parametrize("model", [GPClassifier(), RVMClassifier()])
def test_only_what_holds_scans_is_copied(model, mapped):
    with max_memory(3 * SIZE):
        model.fit(mapped, Y)
        state = {"estimator": model, "steps": [("a", model)], "plain": {"x": (1, 2)}}
        found = in_memory(state)
    kept = "X_fit_" if hasattr(model, "X_fit_") else "scans_"
    assert isinstance(getattr(model, kept), BlockedScans)
    assert isinstance(getattr(found["estimator"], kept), np.ndarray)
    assert isinstance(getattr(found["steps"][0][1], kept), np.ndarray)
    assert found["plain"] is state["plain"]
    plain = {"estimator": GPClassifier(), "n": [1, 2]}
    assert in_memory(plain) is plain


def test_maps_are_tested_in_memory_or_refused(mapped):
    with max_memory(SIZE), pytest.raises(TooLargeError, match=r"needs 0.0346 MB.*max_memory"):
        map_test(mapped, Y, n_permutations=20)
    expected = map_test(np.array(mapped), Y, n_permutations=20)
    with max_memory(3 * SIZE):
        found = map_test(mapped, Y, n_permutations=20)
    np.testing.assert_array_equal(found.statistic, expected.statistic)
