"""Blocks of connections and coefficients that move in time, against the printed matrix forms."""

import nibabel
import numpy as np
import pytest
from sklearn.base import clone

from voxprior import Decoder, RandomFieldClassifier
from voxprior.models.fields.adaptation import adapt_class
from voxprior.models.fields.blocks import blocks_at
from voxprior.models.fields.dual import dual_system, held_out_path, left_out_residuals
from voxprior.models.fields.field import Training
from voxprior.models.fields.kalman import recursive_rows
from voxprior.models.fields.training import SOLVERS, train_class

FAST = {"temperature": 1.0, "gamma": 2.0, "n_pseudo": 4}


def vec_filter(targets, sources, gamma, a=1.0, q=0.0):
    """(1.20) and (1.24) as printed, with matrices A and Q: one state vec(β) of r·m entries."""
    r, m = targets.shape[1], sources.shape[1]
    A, Q = a * np.eye(r * m), q * np.eye(r * m)
    beta, P = np.zeros(r * m), np.eye(r * m) / gamma
    innovations = []
    for target, g in zip(targets, sources, strict=True):
        beta, P = A @ beta, A @ P @ A.T + Q
        H = np.kron(g[None], np.eye(r))
        innovations.append(target - H @ beta)
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + np.eye(r))
        beta = beta + K @ innovations[-1]
        P = (np.eye(r * m) - K @ H) @ P
    return beta.reshape(r, m, order="F"), np.array(innovations)


def row_filter(x, G, gamma, r_eps, n_pseudo, each, a=1.0, q=0.0, n_free=0):
    """One node with pseudo-measurements, written out; the last regressors are not compressed."""
    p = G.shape[1]
    beta, P = np.zeros(p), np.eye(p) / gamma
    for t in range(len(x)):
        beta, P = a * beta, a * a * P + q * np.eye(p)
        K = P @ G[t] / (G[t] @ P @ G[t] + 1)
        beta, P = beta + K * (x[t] - G[t] @ beta), P - np.outer(K, G[t] @ P)
        for _ in range(n_pseudo if each or t == len(x) - 1 else 0):
            s = np.sign(beta)
            s[p - n_free :] = 0
            K = P @ s / (s @ P @ s + r_eps)
            beta, P = beta - K * (s @ beta), P - np.outer(K, s @ P)
    return beta


def scans(rng, k, n):
    """Scans with a constant and two equal nodes."""
    X = rng.normal(size=(k, n)) + 0.3
    X[:, 1] = 0.7
    X[:, n - 1] = X[:, 0]
    return X


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("k", "gamma"), [(2, 1.0), (5, 0.3), (14, 0.01)])
def test_a_block_is_the_filter_of_its_vectorised_connections(rng, solver, k, gamma):
    X, block = scans(rng, k, 7), np.array([0, 2, 0, 1, 2, 1, 2])
    training = Training(gamma, bias=None, solver=solver, block_of=block, variance="innovation")
    field, variance = train_class(X, training)
    for b in range(3):
        own, others = block == b, block != b
        beta, innovations = vec_filter(X[:, own], X[:, others], gamma)
        np.testing.assert_allclose(field.coef[np.ix_(own, others)], beta, rtol=1e-7, atol=1e-9)
        assert (field.coef[np.ix_(own, own)] == 0).all()
        np.testing.assert_allclose(variance[own], (innovations**2).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(field.residual, X - X @ field.coef.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("solver", ["compiled", "kalman"])
@pytest.mark.parametrize(("a", "q"), [(0.9, 0.0), (1.0, 0.05), (0.8, 0.2)])
def test_coefficients_that_move_are_the_filter_with_a_and_q(rng, solver, a, q):
    X, block = scans(rng, 6, 6), np.array([0, 0, 1, 1, 1, 2])
    how = {"solver": solver, "transition": a, "drift": q, "block_of": block}
    field, variance = train_class(X, Training(0.5, bias=None, variance="innovation", **how))
    centred = train_class(X, Training(0.5, bias="centered", **how))[0]
    rows = recursive_rows(X)
    for b in range(3):
        own, others = block == b, block != b
        beta, innovations = vec_filter(X[:, own], X[:, others], 0.5, a, q)
        np.testing.assert_allclose(field.coef[np.ix_(own, others)], beta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(variance[own], (innovations**2).mean(axis=0), rtol=1e-8)
        beta, _ = vec_filter(rows[:, own], rows[:, others], 0.5, a, q)
        np.testing.assert_allclose(centred.coef[np.ix_(own, others)], beta, rtol=1e-8, atol=1e-10)
    mean = X.mean(axis=0)
    np.testing.assert_allclose(centred.intercept, mean - centred.coef @ mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", ["end", "each"])
@pytest.mark.parametrize(("a", "q"), [(1.0, 0.0), (0.9, 0.1)])
@pytest.mark.parametrize("bias", ["penalized", None])
@pytest.mark.parametrize("k", [4, 11])
def test_compressed_blocks_row_by_row(rng, mode, a, q, bias, k):
    X, block = rng.normal(size=(k, 7)), np.array([3, 0, 0, 1, 1, 1, 0])
    training = Training(
        0.7, 20.0, 5, mode, bias=bias, transition=a, drift=q, block_of=block, variance="residual"
    )
    still = a == 1.0 and q == 0.0
    names = ["compiled", "kalman"] + (["dual"] if still and mode == "end" else [])
    fields = [train_class(X, training._replace(solver=name))[0] for name in names]
    ones = np.ones((k, 1 if bias else 0))
    for i in range(7):
        G = np.hstack([X[:, block != block[i]], ones])
        beta = row_filter(X[:, i], G, 0.7, 20.0, 5, mode == "each", a, q, ones.shape[1])
        for field in fields:
            weights = field.coef[i, block != block[i]]
            np.testing.assert_allclose(weights, beta[: len(weights)], rtol=1e-6, atol=1e-9)
            assert (field.coef[i, block == block[i]] == 0).all()
            if bias:
                np.testing.assert_allclose(field.intercept[i], beta[-1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
@pytest.mark.parametrize("k", [5, 12])
def test_left_out_residuals_of_blocks_are_those_of_refits(rng, bias, k):
    X, block = rng.normal(size=(k, 6)) + 1.0, np.array([0, 0, 1, 1, 1, 2])
    left_out = left_out_residuals(dual_system(X, 0.4, bias, block))
    training = Training(0.4, bias=bias, block_of=block)
    for j in range(k):
        field, _ = train_class(np.delete(X, j, axis=0), training)
        error = X[j] - field.coef @ X[j] - field.intercept
        np.testing.assert_allclose(left_out[j], error, rtol=1e-7, atol=1e-9)
    for solver in ("compiled", "kalman"):
        variance = train_class(X, training._replace(solver=solver))[1]
        np.testing.assert_allclose(variance, (left_out**2).mean(axis=0), rtol=1e-7)


def test_the_path_over_strengths_stops_at_fields_of_blocks(rng):
    X, new, block = rng.normal(size=(8, 6)), rng.normal(size=(3, 6)), np.array([0, 1, 1, 0, 2, 2])
    path = held_out_path(dual_system(X, 2.0, block_of=block), new, 15.0, 4)
    for stop in (0, 2, 4):
        r_eps = 15.0 if stop else np.inf
        training = Training(2.0, r_eps, stop, block_of=block, solver="kalman", variance="residual")
        field, _ = train_class(X, training)
        error = new - new @ field.coef.T - field.intercept
        np.testing.assert_allclose(path[stop], (error**2).sum(axis=0), rtol=1e-8)


def test_blocks_of_one_node_and_time_that_stands_still_change_nothing(rng):
    X, y = rng.normal(size=(30, 9)), np.repeat(["a", "b"], 15)
    usual = RandomFieldClassifier(6, cv=3).fit(X, y)
    alone = RandomFieldClassifier(6, cv=3, blocks=np.arange(9)).fit(X, y)
    np.testing.assert_allclose(alone.coef_, usual.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(alone.predict_proba(X), usual.predict_proba(X), rtol=1e-6)


def test_one_block_for_all_leaves_no_connection(rng):
    X, y = rng.normal(size=(12, 5)), np.repeat([0, 1], 6)
    for settings in ({}, {"mode": "each"}, {"norm": 0.5, "solver": "kalman"}, {"drift": 0.1}):
        model = RandomFieldClassifier(blocks=["all"] * 5, **FAST | settings).fit(X, y)
        assert (model.coef_ == 0).all()
        assert np.isfinite(model.predict_proba(X)).all()


def test_blocks_follow_the_chosen_nodes(rng):
    """Nodes are chosen by rank, also inside folds; a block is that of the feature."""
    X, y = rng.normal(size=(40, 30)), np.arange(40) % 2
    blocks = np.array([f"region {i % 4}" for i in range(30)])
    model = RandomFieldClassifier(10, blocks=blocks, gamma=5.0, compression=None).fit(X, y)
    same = blocks[model.nodes_][:, None] == blocks[model.nodes_]
    assert (model.coef_[:, same] == 0).all()
    assert (model.coef_[:, ~same] != 0).all()
    order = rng.permutation(30)
    moved = clone(model).set_params(blocks=blocks[order]).fit(X[:, order], y)
    np.testing.assert_allclose(
        moved.predict_proba(X[:, order]), model.predict_proba(X), rtol=1e-6, atol=1e-9
    )


def test_the_latest_scans_count_where_the_field_moves(rng):
    """Node 1 follows node 0 upwards at first, then downwards."""
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    sign = np.where(np.arange(120) < 80, 1.0, -1.0)
    X[:, 1] += 2 * sign * X[:, 0]
    still = RandomFieldClassifier(gamma=1.0, compression=None, temperature=1.0).fit(X, y)
    moving = clone(still).set_params(drift=0.05).fit(X, y)
    assert (still.coef_[:, 1, 0] > 0).all()
    assert (moving.coef_[:, 1, 0] < -0.3).all()


@pytest.mark.parametrize("settings", [{}, {"mode": "each"}, {"compression": None}])
def test_a_stream_of_moving_blocks_equals_one_fit(rng, settings):
    X, y = rng.normal(size=(16, 6)), np.arange(16) % 2
    given = {
        "nodes": [0, 2, 3, 5], "standardize": False, "compression": 0.5, "transition": 0.95,
        "drift": 0.02, "blocks": [0, 9, 0, 1, 9, 1],
    }  # fmt: skip
    batch = RandomFieldClassifier(**FAST | given | settings).fit(X, y)
    stream = clone(batch)
    for x, label in zip(X, y, strict=True):
        stream.partial_fit(x[None], [label], classes=[0, 1])
    np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(stream.predict_proba(X), batch.predict_proba(X), rtol=1e-7)


def test_adaptation_goes_on_in_time_and_in_blocks(rng):
    own, new, block = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), np.array([0, 0, 1, 1])
    moving = Training(0.5, bias=None, transition=0.9, drift=0.1, block_of=block)
    coef, _ = adapt_class(own, new, moving)
    together, _ = train_class(np.vstack([own, new]), moving)
    np.testing.assert_allclose(coef, together.coef, rtol=1e-9, atol=1e-12)
    X, y = rng.normal(size=(20, 6)), np.arange(20) % 2
    settings = {"blocks": [0, 0, 1, 1, 2, 2], "adaptation": "literal", "compression": None}
    model = RandomFieldClassifier(**FAST | settings).fit(X, y)
    adapted = model.adapt(X[:3])
    assert (adapted.coef_[:, 0, 1] == 0).all()
    Z = (np.vstack([X[y == 1], X[:3]]) - model.center_) / model.scale_
    whole, _ = train_class(Z, Training(2.0, block_of=np.repeat([0, 1, 2], 2)))
    np.testing.assert_allclose(adapted.coef_[1], whole.coef, rtol=1e-7, atol=1e-10)


def test_strength_is_chosen_where_fields_move(rng):
    X, y = rng.normal(size=(30, 6)).astype(np.float32), np.repeat(["x", "y", "z"], 10)
    model = RandomFieldClassifier(drift=0.01, cv=2, n_pseudo=5).fit(X, y)
    assert model.n_pseudo_ in (0, 5)
    assert np.isfinite(model.predict_proba(X)).all()


def test_the_model_file_keeps_blocks_and_time(rng, tmp_path):
    maps = [nibabel.Nifti1Image(v, np.eye(4)) for v in rng.normal(size=(20, 3, 2, 1))]
    names = ["v1", "v1", "v2", "v2", "mt", "mt"]
    model = RandomFieldClassifier(blocks=names, drift=0.1, **FAST)
    decoder = Decoder(model).fit(maps, ["a", "b"] * 10)
    loaded = Decoder.load(decoder.save(tmp_path / "field.skops"))
    np.testing.assert_array_equal(loaded.predict_proba(maps), decoder.predict_proba(maps))
    assert loaded.estimator_[-1].blocks == names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"blocks": [0, 1]}, "one number or name for each of the 6 features"),
        ({"blocks": np.zeros((6, 1))}, "one number or name for each"),
        ({"blocks": [0, 1, np.nan, 1, 0, 1.0]}, "not a number in places"),
        ({"blocks": [None] * 6}, "type object"),
        ({"transition": 0.0}, "'transition' parameter"),
        ({"transition": 1.2}, "'transition' parameter"),
        ({"drift": -1.0}, "'drift' parameter"),
        ({"drift": 0.1, "solver": "dual"}, "cannot move coefficients in time"),
        ({"drift": 0.1, "variance": "loo", "compression": None}, "drift=0"),
    ],
)
def test_errors_say_what_is_wrong(rng, settings, message):
    with pytest.raises(ValueError, match=message):
        RandomFieldClassifier(**settings).fit(rng.normal(size=(12, 6)), [0, 1] * 6)


def test_blocks_are_numbered_by_the_nodes():
    assert blocks_at(None, np.array([0]), 3) is None
    np.testing.assert_array_equal(blocks_at(["c", "a", "b"], np.array([0, 2]), 3), [1, 0])
