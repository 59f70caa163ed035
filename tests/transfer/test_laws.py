"""What must hold of a prior from others, whatever the numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.transfer.study import UNIFORM, alike

from voxprior.errors import InputError
from voxprior.simulate import subjects
from voxprior.transfer import TransferClassifier, TransferPrior
from voxprior.transfer.episodes import (
    effective_voxels,
    episodes_of,
    geometry,
    moments,
    scans_of,
    sizes_of,
)
from voxprior.transfer.levels import Units, best_readout, best_temperature, mixing, scaled, scores
from voxprior.validation import audit

FAST = {"base": UNIFORM, "max_episodes": 4}


def split_first(study, name="s0"):
    """Others, and the first run of a subject against its other runs, all centred by run."""
    X, y, runs = study[name]
    X = centred(X, runs)
    others = {key: one for key, one in study.items() if key != name}
    return others, (X, y, runs), runs == 0


def predicted(study, **options):
    others, (X, y, runs), first = split_first(study)
    model = TransferPrior(**{**FAST, **options}).fit(others).adapt(X[first], y[first], runs[first])
    return model.predict_proba(X[~first])


def centred(X, runs):
    return np.stack([x - X[runs == run].mean(axis=0) for x, run in zip(X, runs)])


def test_more_is_right_with_others_than_alone():
    others, (X, y, runs), first = split_first(alike(6, seed=3))
    prior = TransferPrior(LogisticRegression(), max_episodes=5).fit(others)
    model = prior.adapt(X[first], y[first], runs[first])
    tests, truth = X[~first], y[~first]
    rows = np.arange(len(truth))
    loss = -model.predict_log_proba(tests)[rows, truth].mean()
    alone = -model.base_.predict_log_proba(tests)[rows, truth].mean()
    assert loss < alone
    assert model.levels_["base"] == 0
    assert sum(model.levels_.values()) == pytest.approx(1)


def test_exchangeable_classes_are_james_stein():
    one = scaled(first_episode(alike()), Units(0.5, 60, 60))
    W = mixing(one, np.eye(4), 0.0)
    H = np.eye(4) - 1 / 4
    assert_allclose(W, W[0, 0] / H[0, 0] * H, atol=1e-12)
    assert 0 < W[0, 0] / H[0, 0] < 1


def first_episode(study):
    from voxprior.transfer.episodes import episode

    X, y, runs = study["s0"]
    scans = scans_of(X, y, runs, 4)
    rows = runs > 1
    known = moments(scans, np.flatnonzero(~rows))
    return episode(known, scans.X[rows], y[rows], np.zeros((rows.sum(), 4)))


def test_a_heavy_ridge_makes_the_readout_a_calibration():
    one = first_episode(alike())
    S, weights = scores(one, np.eye(4), 0.0), np.full(len(one.y), 1 / len(one.y))
    t = best_temperature(S, one.y, weights)
    readout = best_readout(S, one.y, weights, t, ridge=1e9)
    assert_allclose(readout.slope, t * np.eye(4), atol=1e-6)
    assert_allclose(readout.offset, 0, atol=1e-6)


def test_the_readout_is_a_minimum():
    one = first_episode(alike())
    S, weights = scores(one, np.eye(4), 0.0), np.full(len(one.y), 1 / len(one.y))
    ridge, t = 0.01, best_temperature(S, one.y, weights)
    best = best_readout(S, one.y, weights, t, ridge)
    k = np.sqrt((weights @ S**2).sum() / 4)

    def objective(slope, offset):
        z = S @ slope.T + offset
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        penalty = ((slope * k - t * k * np.eye(4)) ** 2).sum() + (offset**2).sum()
        return -weights @ np.log(p[np.arange(len(p)), one.y]) + ridge / 2 * penalty

    at = objective(best.slope, best.offset)
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = best.slope + 1e-3 / k * rng.standard_normal((4, 4))
        assert at <= objective(moved, best.offset + 1e-3 * rng.standard_normal(4))


def test_order_of_voxels_and_scale_of_a_subject_change_nothing():
    study = alike()
    rng = np.random.default_rng(1)
    changed = {
        name: (3.5 * X[:, rng.permutation(X.shape[1])] if name != "s0" else X, y, runs)
        for name, (X, y, runs) in study.items()
    }
    assert_allclose(predicted(changed), predicted(study), rtol=1e-6, atol=1e-9)


def test_order_and_names_of_others_change_nothing():
    study = alike()
    renamed = {"s0": study["s0"]} | {f"x{name}": study[name] for name in reversed(study)}
    del renamed["xs0"]
    assert_allclose(predicted(renamed), predicted(study), rtol=1e-6, atol=1e-9)


def test_renaming_classes_permutes_probabilities():
    study = alike()
    other = {name: (X, 3 - y, runs) for name, (X, y, runs) in study.items()}
    assert_allclose(predicted(other), predicted(study)[:, ::-1], rtol=1e-4, atol=1e-6)


def test_labels_that_are_strings():
    names = np.array(["thumb", "index", "ring", "little"])
    study = {name: (X, names[y], runs) for name, (X, y, runs) in alike().items()}
    others, (X, y, runs), first = split_first(study)
    model = TransferPrior(**FAST).fit(others).adapt(X[first], y[first], runs[first])
    assert set(model.predict(X[~first])) <= set(names)


def test_geometry_of_noise_is_zero_on_average():
    rng = np.random.default_rng(0)
    y, runs = np.tile([0, 1, 2], 4), np.repeat(np.arange(4), 3)
    found = [geometry(scans_of(rng.standard_normal((12, 80)), y, runs, 3)) for _ in range(300)]
    error = np.std(found, axis=0) / np.sqrt(len(found))
    # The variances come from the same scans, which adds a multiple of the centring matrix.
    assert np.all(np.abs(np.mean(found, axis=0)) < 4 * error + 0.02)


def test_episodes_are_all_or_evenly_spread():
    scans = scans_of(*alike(1, n_runs=8)["s0"], 4)
    assert sizes_of(scans) == [1, 2, 3, 4, 6]
    assert len(episodes_of(scans, 1, 24)) == 8
    assert len(episodes_of(scans, 4, 24)) == 24
    assert episodes_of(scans, 8, 24) == []


@pytest.mark.parametrize("n_others", [1, 2])
def test_few_others(n_others):
    study = alike(n_others + 1)
    others, (X, y, runs), first = split_first(study)
    model = TransferPrior(**FAST).fit(others).adapt(X[first], y[first], runs[first])
    p = model.predict_proba(X[~first])
    assert_allclose(p.sum(axis=1), 1)
    if n_others == 1:
        assert model.levels_["calibration"] == 1


def test_two_classes_unequal_counts_and_no_runs():
    rng = np.random.default_rng(0)
    direction, study = rng.standard_normal(40), {}
    for name in ("s0", "s1", "s2", "s3"):
        y = np.repeat(["a", "b"], [4, 7])
        X = np.where(y == "a", 1, -1)[:, None] * direction + rng.standard_normal((11, 40)) + 5
        study[name] = (X, y, None)
    others = {name: study[name] for name in ("s1", "s2", "s3")}
    X, y, _ = study["s0"]
    prior = TransferPrior(**FAST).fit(others)
    assert sorted(prior.prior_.lessons) == [1, 2, 3]
    model = prior.adapt(X[[0, 5]], y[[0, 5]])
    rest = np.setdiff1d(np.arange(11), [0, 5])
    assert model.score(X[rest], y[rest]) > 0.8


def test_other_numbers_of_voxels():
    study = alike()
    X, y, runs = study["s1"]
    study["s1"] = (X[:, :40], y, runs)
    assert np.isfinite(predicted(study)).all()


def test_voxels_that_others_have_several_times_change_little(monkeypatch):
    """Each value four times, with its noise: scores of the others must count for a quarter."""
    study = alike(6, n_voxels=90)
    finer = {
        name: (np.repeat(X, 4, axis=1) if name != "s0" else X, y, runs)
        for name, (X, y, runs) in study.items()
    }
    usual = predicted(study)
    assert np.abs(predicted(finer) - usual).max() < 0.08
    monkeypatch.setattr(Units, "weight", lambda self, n_voxels: 1.0)
    assert np.abs(predicted(finer) - usual).max() > 0.2


def test_voxels_count_by_what_they_have_of_their_own():
    units = Units(0.5, n_voxels=400, n_effective=100)
    assert units.weight(400) == units.weight(300) == units.weight(600) == 1
    assert units.weight(100) == units.weight(800) ** -2 == 4
    assert units.weight(50) == 4  # none of them twice
    assert Units(0.5, 400, 400).weight(100) == 1


def test_effective_voxels_against_the_eigenvalues_of_the_noise():
    rng, y = np.random.default_rng(0), np.tile([0, 1, 2], 400)
    mixing = rng.normal(size=(20, 60)) * np.linspace(3, 0.2, 20)[:, None]
    X = rng.normal(size=(1200, 20)) @ mixing + 0.3 * rng.normal(size=(1200, 60))
    found = effective_voxels(scans_of(X + y[:, None], y, None, 3))
    values = np.linalg.eigvalsh(np.corrcoef(X.T))
    assert found == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=0.1)
    assert np.isnan(effective_voxels(scans_of(X[:4], y[:4], None, 3)))
    assert effective_voxels(scans_of(np.ones((9, 5)), y[:9], None, 3)) == 5


def test_constant_and_duplicated_voxels_and_single_precision():
    study = {}
    for name, (X, y, runs) in alike().items():
        X = np.column_stack([X, np.ones(len(X)), X[:, :5]]).astype(np.float32)
        X.setflags(write=False)
        study[name] = (np.asfortranarray(X), y, runs)
    assert np.isfinite(predicted(study)).all()


def test_all_voxels_constant():
    study = {name: (np.ones_like(X), y, runs) for name, (X, y, runs) in alike().items()}
    study["s0"] = alike()["s0"]
    assert np.isfinite(predicted(study)).all()


def test_base_scores_leave_the_geometry_out():
    others, (X, y, runs), first = split_first(alike())
    prior = TransferPrior(LogisticRegression(), scores="base", max_episodes=4).fit(others)
    model = prior.adapt(X[first], y[first], runs[first])
    assert model.levels_["geometry"] == 0
    assert_allclose(model.predict_proba(X[~first]).sum(axis=1), 1)


def test_maps_help_where_subjects_are_aligned():
    study = subjects(6, (9, 9, 5), n_runs=5, shift=0.0, random_state=1)
    others = {name: (one.X, one.y, one.groups) for name, one in list(study.items())[1:]}
    new = study["sub-01"]
    first, X = new.groups == 0, centred(new.X, new.groups)
    prior = TransferPrior(UNIFORM, space=new.space, max_episodes=3).fit(others)
    alone = TransferPrior(UNIFORM, max_episodes=3).fit(others)
    with_maps = prior.adapt(X[first], new.y[first], new.groups[first])
    without = alone.adapt(X[first], new.y[first], new.groups[first])
    tests, truth = X[~first], new.y[~first]
    assert with_maps.levels_["maps"] >= 0.5
    assert with_maps.score(tests, truth) > without.score(tests, truth)
    assert "Maps of the others" in " ".join(with_maps.decisions_)
    maps = with_maps.voxel_maps()
    assert {m.shape for m in maps.values()} == {(new.space.n_voxels,)}


def test_voxel_maps_are_the_gradient_of_the_log_probabilities():
    others, (X, y, runs), first = split_first(alike(6, seed=3))
    model = TransferPrior(**FAST).fit(others).adapt(X[first], y[first], runs[first])
    maps = np.stack(list(model.voxel_maps().values()))
    x, step = X[~first][:1], 1e-4
    for voxel in (0, 7):
        moved = x.copy()
        moved[0, voxel] += step
        change = (model.predict_log_proba(moved) - model.predict_log_proba(x))[0] / step
        assert_allclose(change - change.mean(), maps[:, voxel], rtol=1e-3, atol=1e-4)


def test_a_scan_alone_gets_what_it_gets_in_a_batch():
    others, (X, y, runs), first = split_first(alike())
    model = TransferPrior(**FAST).fit(others).adapt(X[first], y[first], runs[first])
    batch = model.predict_log_proba(X[~first])
    single = np.concatenate([model.predict_log_proba(x[None]) for x in X[~first]])
    assert_allclose(single, batch, rtol=1e-9)


def test_the_classifier_is_cloned_with_its_prior():
    others, (X, y, runs), first = split_first(alike())
    model = TransferClassifier(TransferPrior(**FAST).fit(others).prior_, base=UNIFORM)
    again = clone(model).fit(X[first], y[first], runs[first])
    assert again.prior is model.prior
    assert again.prior_subjects_ == ["s1", "s2", "s3"]


def test_nothing_stored_has_the_size_of_a_scan():
    others, _, _ = split_first(alike())
    prior = TransferPrior(**FAST).fit(others).prior_
    arrays = [value for lesson in prior.lessons.values() for value in vars(lesson).values()]
    arrays += list(prior.sketches.values())
    assert all(60 not in np.shape(value) for value in arrays)


# ---------------------------------------------------------------- refusals


def test_a_subject_in_its_own_prior_is_refused():
    study = alike()
    others, (X, y, runs), _ = split_first(study)
    noisy = X + 0.01 * np.random.default_rng(0).standard_normal(X.shape)
    prior = TransferPrior(**FAST).fit(others | {"twin": (noisy, y, runs)})
    with pytest.raises(InputError, match="as scans of twin"):
        prior.adapt(X, y, runs)


def test_missing_classes_are_named():
    study = alike()
    X, y, runs = study["s1"]
    study["s1"] = (X[y > 0], y[y > 0], runs[y > 0])
    with pytest.raises(InputError, match=r"Subject s1 lacks classes .* none of \[0\]"):
        TransferPrior(**FAST).fit(study)
    others, (X, y, runs), first = split_first(alike())
    keep = first & (y != 2)
    with pytest.raises(InputError, match=r"new subject lacks .* none of \[2\]"):
        TransferPrior(**FAST).fit(others).adapt(X[keep], y[keep], runs[keep])


@pytest.mark.parametrize("nobody", [{}, None, [1, 2]])
def test_no_others(nobody):
    with pytest.raises(InputError, match="no other subjects"):
        TransferPrior(**FAST).fit(nobody)


def test_too_few_scans_of_others():
    study = {name: (X[:4], y[:4], None) for name, (X, y, runs) in alike().items()}
    with pytest.raises(InputError, match="too few scans"):
        TransferPrior(**FAST).fit(study)


def test_spaces_that_do_not_fit():
    study = subjects(4, (5, 5, 4), n_runs=3, random_state=0)
    others = {name: (one.X, one.y, one.groups) for name, one in study.items()}
    with pytest.raises(InputError, match="do not share"):
        TransferPrior(UNIFORM, space=subjects(1, (4, 4, 4))["sub-01"].space).fit(others)
    prior = TransferPrior(UNIFORM, space=study["sub-01"].space, max_episodes=2).fit(others)
    fewer = study["sub-02"].X[:, :40]
    with pytest.raises(InputError, match="Scans do not fit"):
        prior.adapt(fewer, study["sub-02"].y, study["sub-02"].groups)
    elsewhere = TransferClassifier(prior.prior_, UNIFORM, space=None)
    elsewhere.fit(fewer, study["sub-02"].y, study["sub-02"].groups)
    assert elsewhere.levels_["maps"] == 0


def test_scans_that_are_not_numbers():
    study = alike()
    study["s1"][0][0, 0] = np.nan
    with pytest.raises(ValueError, match="X of s1"):
        TransferPrior(**FAST).fit(study)


def test_the_audit_refuses_a_subject_in_its_own_prior():
    others, (X, y, _), _ = split_first(alike())
    model = TransferClassifier(TransferPrior(**FAST).fit(others).prior_, base=UNIFORM)
    mine, theirs = np.repeat(["s0", "x"], 8), np.repeat(["s0", "s2"], 8)
    check = {"own-prior"}
    assert check <= {one.name for one in audit(model, X, y, theirs).findings}
    assert not check & {one.name for one in audit(model, X, y, mine).findings}
    assert check <= {one.name for one in audit(model, X, y, columns={"who": theirs}).findings}
