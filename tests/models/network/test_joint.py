"""New samples inferred jointly with the training samples, against plain counting."""

import nibabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from voxprior import Decoder, InverseTreeClassifier
from voxprior.models.network.joint import joint_probabilities, joint_states
from voxprior.models.network.tree import Rules


def naive_joint(oracle, children, sample, start, alpha):
    """ICM from the start over all n + 1 samples, every score counted in full."""
    X = np.vstack([children, sample])

    def score(L):
        own = oracle.score(L, np.empty((len(L), 0)), 2, alpha)
        return own + sum(oracle.score(x, L[:, None], 2, alpha) for x in X.T)

    L = X[:, 0].copy() if start == "parent" else (2 * X.sum(axis=1) > X.shape[1]).astype(int)
    moved = True
    while moved:
        moved = False
        for j in range(len(L)):
            other = L.copy()
            other[j] = 1 - L[j]
            if score(other) > score(L) + 1e-10:
                L, moved = other, True
    if 2 * np.sum(X[:, 0] == L) < len(L):
        L = 1 - L
    on, off = L.copy(), L.copy()
    on[-1], off[-1] = 1, 0
    return L[:-1], score(on) - score(off)


@pytest.mark.parametrize("alpha", [1.0, "bdeu", 0.3])
@pytest.mark.parametrize("start", ["parent", "majority"])
def test_joint_states_equal_full_counting(oracle, alpha, start):
    rng = np.random.default_rng(1)
    for n, sizes in ((1, [1]), (2, [3, 1]), (9, [4, 2]), (30, [7, 5])):
        truth = rng.integers(0, 2, (n + 1, len(sizes)))
        flips = [rng.random((n + 1, m)) < 0.2 for m in sizes]
        X = [(truth[:, [i]] ^ f).astype(int) for i, f in enumerate(flips)]
        if n == 9:
            X[0][:, 2], X[0][:, 3] = X[0][:, 1], 1  # a copy, and a constant voxel
        rules = Rules(alpha=alpha, start=start)
        latent, odds = joint_states([x[:n] for x in X], [x[n] for x in X], rules, None)
        for i, x in enumerate(X):
            states, expected = naive_joint(oracle, x[:n], x[n], start, alpha)
            assert_array_equal(latent[:, i], states)
            assert_allclose(odds[0, i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("state", ["hard", "soft"])
def test_the_estimator_counts_the_table_of_joint_states(oracle, state):
    rng = np.random.default_rng(3)
    L = rng.integers(0, 2, (40, 2))
    X = np.hstack([(L[:, [i]] ^ (rng.random((40, 6)) < 0.12)).astype(int) for i in (0, 1)])
    y = np.where((L[:, 0] & L[:, 1]) == 1, "ill", "well")
    settings = {"state": state, "doubt": None, "select": "gain", "max_parents": 2}
    model = InverseTreeClassifier(new_samples="joint", tolerance=0.3, **settings).fit(X, y)
    fixed = InverseTreeClassifier(tolerance=0.3, **settings).fit(X, y)
    assert_array_equal(model.latent_, fixed.latent_)
    clusters = [np.append(p, E) for p, E in zip(model.parents_, model.equivalents_)]
    assert max(map(len, clusters)) > 1
    new = rng.integers(0, 2, (12, 12))
    odds = model.latent_log_odds(new)
    p = model.predict_proba(new)
    for j, x in enumerate(new):
        found = [naive_joint(oracle, X[:, c], x[c], "parent", 1.0) for c in clusters]
        states = np.column_stack([s for s, _ in found])
        assert_allclose(odds[j], [o for _, o in found], rtol=1e-9, atol=1e-9)
        expected = 0.0
        for configuration in np.ndindex(*(2,) * len(clusters)):
            there = (states == configuration).all(axis=1)
            ill = (np.sum(there & (y == "ill")) + 1) / (there.sum() + 2)
            weight = 1.0
            for (_, o), on in zip(found, configuration):
                share = 1 / (1 + np.exp(-o)) if state == "soft" else float(o > 0)
                weight *= share if on else 1 - share
            expected += weight * ill
        assert_allclose(p[j, 0], expected, rtol=1e-9)
    assert_allclose(model.predict_proba(new[3:4]), p[3:4], rtol=1e-12)
    assert np.mean(model.predict(X) == y) > 0.85


def test_random_methods_repeat_and_say_the_same_of_a_sample_alone():
    rng = np.random.default_rng(0)
    bits, y = rng.integers(0, 2, (20, 5)), rng.integers(0, 2, 20)
    new = rng.integers(0, 2, (6, 5))
    for how in ({"latent": "gibbs"}, {"latent": "synchronous"}, {"n_restarts": 3}):
        args = ([bits], [new], y, 2, Rules(**how), True, 7)
        p = joint_probabilities(*args)
        assert_allclose(p.sum(axis=1), 1.0)
        alone = joint_probabilities([bits], [new[2:3]], y, 2, Rules(**how), True, 7)
        assert_array_equal(alone[0], p[2])


def test_without_latent_states_or_parents_nothing_is_joint():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (30, 8)), np.arange(30) % 2
    X[:, 5] = y
    for settings in ({"latent": None}, {"max_parents": 0}):
        usual = InverseTreeClassifier(doubt=None, **settings).fit(X, y)
        joint = InverseTreeClassifier(doubt=None, new_samples="joint", **settings).fit(X, y)
        assert_array_equal(joint.predict_proba(X), usual.predict_proba(X))


def test_the_model_file_keeps_the_training_clusters(tmp_path):
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 15)
    maps = [
        nibabel.Nifti1Image(v + 3 * c, np.eye(4)) for v, c in zip(rng.normal(size=(30, 3, 2, 1)), y)
    ]
    model = InverseTreeClassifier(new_samples="joint")
    decoder = Decoder(model).fit(maps, np.array(["a", "b"])[y])
    loaded = Decoder.load(decoder.save(tmp_path / "network.skops"))
    assert_array_equal(loaded.predict_proba(maps), decoder.predict_proba(maps))
