"""AutoClassifier against its definition in voxels, and the laws that it keeps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from tests.auto import naive

from voxprior import AutoClassifier, VoxelSpace
from voxprior.auto.discriminant import spectrum_of
from voxprior.auto.folds import design_of
from voxprior.auto.members import fit_discriminants, with_nothing, with_sharing
from voxprior.auto.views import views_of
from voxprior.auto.weights import mixture, posterior_of

SIX = np.array(
    [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]], float
)
CLASSES = np.array([0, 0, 0, 1, 1, 1])
NEW = np.array([[2.0, 1, 1, 1], [1, 2, 1, 0]])
SPACE = VoxelSpace.grid((4, 3, 2))


def problem(n=12, n_classes=2, times=1, seed=0, effect=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    x = rng.normal(size=(n, 24 * times)) * rng.uniform(0.5, 3, 24 * times) + 10
    x[np.arange(n), 3 * y] += 3 * effect
    x[np.arange(n), 3 * y + 1] += 3 * effect
    return x, y, rng.normal(size=(5, 24 * times)) + 10


# ---------------------------------------------------------------- worked examples


def members_of(x, y, groups=None, sharing=False):
    """Members, and the posterior and mixture of other prior masses than the package's."""
    views = views_of(x, groups)
    design = design_of(y, 2, groups, views.centered)
    spectra = [spectrum_of(gram) for gram in views.grams]
    members = fit_discriminants(views, spectra, y[:, None], 2, design.folds)
    if sharing:
        members = with_sharing(members, x, views, y, 2, design.folds, None)
    return with_nothing(members), design.n_effective


EVEN = np.log([[0.5, 0.5]])


def test_six_scans_of_four_voxels_with_other_masses():
    """Discriminants .70, sharing .22, nothing .08."""
    members, worth = members_of(SIX, CLASSES, sharing=True)
    mass = np.array([0.7 / 16] * 16 + [0.22, 0.08])
    known = (members.left_out, members.grids)
    posterior = posterior_of(*known, mass, members.codes, EVEN, np.array([worth]))
    total = [one.sum() for one in posterior]
    raw = [0.058472, 0.058474, 0.058480, 0.058489, 0.058451, 0.058153, 0.057094, 0.052885]
    z = [0.055640, 0.055665, 0.055746, 0.055928, 0.056241, 0.056233, 0.054946, 0.041500]
    assert_allclose(total, [*raw, *z, 0.105050, 0.002551], atol=6e-7)
    center = posterior[6][:, 0] @ members.grids[6].log_weight / total[6]
    assert center == pytest.approx(3.524791, abs=6e-7)
    model = AutoClassifier(sharing=True).fit(SIX, CLASSES)
    scores, grids = [one[:, None] for one in model._scores(NEW)], model._grids()
    p = mixture(scores, grids, posterior, EVEN, np.array([worth]))[:, 0]
    assert_allclose(p, [[0.942819, 0.057181], [0.098454, 0.901546]], atol=6e-7)


def test_six_scans_of_four_voxels():
    model = AutoClassifier().fit(SIX, CLASSES)
    assert model.n_effective_ == 6
    folds = [[0, 3], [1, 4], [2, 5], [0, 5], [1, 3], [2, 4], [0, 4], [1, 5], [2, 3]]
    wanted = naive.probabilities(SIX, CLASSES, NEW, folds, 6)
    assert_allclose(model.predict_proba(NEW), wanted, rtol=1e-9)


def test_one_scan_of_each_of_three_classes():
    p = AutoClassifier().fit(np.eye(3), [0, 1, 2]).predict_proba([[2.0, 0, 1]])
    assert_allclose(p, [[0.847207, 0.056943, 0.095850]], atol=6e-7)


def test_two_runs_of_two_scans_centred_by_run():
    x = np.array([[0.5, -0.5, -0.5], [-0.5, 0.5, 0.5], [0.5, -1, 0], [-0.5, 1, 0]])
    y, groups = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    model = AutoClassifier(sharing=True).fit(x, y, groups)
    assert model.n_effective_ == 2
    assert model.sharing_ is None
    members, worth = members_of(x, y, groups)
    known, worth = (members.left_out, members.grids), np.array([worth])
    mass = np.array([0.7 / 16] * 16 + [0.08]) / 0.78
    posterior = posterior_of(*known, mass, members.codes, EVEN, worth)
    assert posterior[-1].sum() == pytest.approx(0.034447, abs=6e-7)
    scores = [one[:, None] for one in model._scores(np.array([[0.5, -1, 0], [-0.5, 1, 0]]))]
    p = mixture(scores, members.grids, posterior, EVEN, worth)[:, 0]
    assert_allclose(p, [[0.904665, 0.095335], [0.095335, 0.904665]], atol=6e-7)


# ---------------------------------------------------------------- the definition in voxels


@pytest.mark.parametrize(
    ("n", "n_classes", "times", "space"),
    [(2, 2, 1, None), (4, 2, 1, SPACE), (7, 3, 1, None), (13, 3, 1, SPACE), (10, 2, 2, SPACE)],
)
@pytest.mark.parametrize("sharing", [False, True])
def test_it_is_its_definition(n, n_classes, times, space, sharing):
    x, y, new = problem(n, n_classes, times)
    x[:, 7] = 3.0
    x[:, 9] = x[:, 8]
    model = AutoClassifier(space, sharing=sharing).fit(x, y)
    folds = [test for _, test in naive_folds(y)]
    wanted = naive.probabilities(x, y, new, folds, n, space, sharing=sharing)
    assert_allclose(model.predict_proba(new), wanted, rtol=1e-6, atol=1e-9)


def naive_folds(y):
    """Folds without groups, by counting."""
    counts = np.bincount(y)
    k = min(counts.min(), 5)
    repeats = 1 if counts.min() >= 10 else 2 if k > 4 else k
    if counts.min() < 2:
        return
    for r in range(repeats):
        number = [(list(np.flatnonzero(y == c)).index(i) + r * c) % k for i, c in enumerate(y)]
        for fold in range(k):
            yield np.flatnonzero(np.array(number) != fold), np.flatnonzero(np.array(number) == fold)


def test_it_is_its_definition_with_groups():
    x, y, new = problem(12)
    groups = np.array(list("ccccaaaabbbb"))
    x -= np.array([x[groups == g].mean(axis=0) for g in groups])
    new -= new.mean(axis=0)
    folds = [np.flatnonzero(groups == g) for g in "abc"]
    wanted = naive.probabilities(x, y, new, folds, 9, SPACE, degrees=9)
    made = AutoClassifier(SPACE).fit(x, y, groups).predict_proba(new)
    assert_allclose(made, wanted, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------- laws


def test_one_factor_and_one_image_on_all_scans_change_nothing():
    x, y, new = problem()
    image = np.random.default_rng(1).normal(size=24)
    wanted = AutoClassifier(SPACE).fit(x, y).predict_proba(new)
    moved = AutoClassifier(SPACE).fit(1e5 * x + image, y).predict_proba(1e5 * new + image)
    assert_allclose(moved, wanted, rtol=1e-8)


def test_a_rotation_of_voxels_does_not_change_the_raw_view():
    x, y, new = problem()
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(24, 24)))[0]
    straight, turned = (AutoClassifier().fit(one, y) for one in (x, x @ turn))
    scores, again = straight._scores(new)[:8], turned._scores(new @ turn)[:8]
    assert_allclose(again, scores, rtol=1e-7, atol=1e-10)


def test_scans_of_other_classes_may_come_in_between():
    x, y, new = problem(12, 3)
    order = np.argsort(y, kind="stable")
    wanted = AutoClassifier(SPACE).fit(x, y).predict_proba(new)
    again = AutoClassifier(SPACE).fit(x[order], y[order]).predict_proba(new)
    assert_allclose(again, wanted, rtol=1e-8)


def test_with_groups_scans_have_no_order_at_all():
    x, y, new = problem(16)
    groups = np.repeat(np.arange(4), 4)
    order = np.random.default_rng(3).permutation(16)
    wanted = AutoClassifier(SPACE).fit(x, y, groups).predict_proba(new)
    again = AutoClassifier(SPACE).fit(x[order], y[order], groups[order]).predict_proba(new)
    assert_allclose(again, wanted, rtol=1e-8)


def test_a_single_group_says_nothing():
    x, y, new = problem()
    wanted = AutoClassifier().fit(x, y).predict_proba(new)
    assert_allclose(AutoClassifier().fit(x, y, np.ones(12)).predict_proba(new), wanted)


def test_probabilities_are_never_below_the_doubt():
    x, y, new = problem(20, effect=50)
    model = AutoClassifier().fit(x, y)
    p = model.predict_proba(np.vstack([new, x]))
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert p.min() >= 0.2 / 21 / 2 * (1 - 1e-9)
    assert_array_equal(model.predict(x), y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_groups", [False, True])
def test_fit_prepared_is_fit(dtype, with_groups):
    x, y, new = problem(16, 2)
    x, groups = x.astype(dtype), np.repeat(list("abcd"), 4) if with_groups else None
    model = AutoClassifier(SPACE)
    prepared = model.prepare(x, groups)
    rng = np.random.default_rng(0)
    for rows in (np.arange(12), np.arange(4, 16), np.arange(12)):
        labels = rng.permutation(y[rows])
        part = None if groups is None else groups[rows]
        wanted = AutoClassifier(SPACE).fit(x[rows], labels, part)
        made = model.fit_prepared(prepared, rows, labels)
        assert_array_equal(made.predict_proba(new), wanted.predict_proba(new))
        assert made.decisions_ == wanted.decisions_
    assert len(prepared.known) == 2  # the passes over voxels that were needed


def test_a_million_features_are_finite():
    rng, y = np.random.default_rng(0), np.arange(4) % 2
    x = rng.standard_normal((4, 1_000_000), dtype=np.float32) + 0.1 * y[:, None].astype("f4")
    model = AutoClassifier().fit(x, y)
    assert np.isfinite(model.predict_proba(x)).all()
    assert model.basis_.dtype == np.float32
    assert np.isfinite(model.voxel_maps()["weights"]).all()


@pytest.mark.parametrize("sharing", [True, False])
def test_scans_that_are_all_alike_give_the_class_frequencies(sharing):
    x, y = np.full((6, 5), 3.0), np.array([0, 0, 0, 0, 1, 1])
    model = AutoClassifier(sharing=sharing).fit(x, y)
    assert_allclose(model.predict_proba(x[:1]), [[2 / 3, 1 / 3]], rtol=1e-6)
    assert all(np.isfinite(one).all() for one in model.voxel_maps().values())


# ---------------------------------------------------------------- what it tells


def test_weights_make_the_average_log_odds():
    x, y, new = problem(14)
    model = AutoClassifier(SPACE).fit(x, y)
    expected = model.weight_posterior_ @ np.exp(model.log_weights_)
    logits = np.tensordot(expected.ravel(), np.array(model._scores(new)[:-1]), 1)
    odds = logits[:, 1] - logits[:, 0]
    weights = model.voxel_maps()["weights"]
    assert_allclose((new[1:] - new[0]) @ weights, odds[1:] - odds[0], rtol=1e-7)
    f = (x - x.mean(axis=0)) @ weights
    pattern = (x - x.mean(axis=0)).T @ f / (f @ f)
    assert_allclose(model.voxel_maps()["pattern"], pattern, rtol=1e-7, atol=1e-12)


def test_maps_find_the_voxels_that_differ():
    x, y, _ = problem(60, 3, effect=2)
    maps = AutoClassifier().fit(x, y).voxel_maps()
    assert list(maps) == [f"{kind}[{c}]" for kind in ("weights", "pattern") for c in range(3)]
    for c in range(3):
        assert set(np.argsort(maps[f"pattern[{c}]"])[-2:]) == {3 * c, 3 * c + 1}
    assert_allclose(sum(maps[f"weights[{c}]"] for c in range(3)), 0, atol=1e-9)


def test_every_choice_is_told_with_its_number():
    x, y, _ = problem(16)
    model = AutoClassifier(SPACE, sharing=True).fit(x, y, np.repeat(np.arange(4), 4))
    told = " ".join(model.decisions_)
    for word in ("3 views", "8 shrinkages", "Feature sharing", "no class information", "log-loss"):
        assert word in told
    assert "Effective sample size: 16" in told
    alone = AutoClassifier(sharing=True).fit(x[:2], y[:2])
    assert np.isnan(alone.left_out_log_loss_)
    assert "those of the prior" in alone.decisions_[-1]
    assert "too few scans would be left" in " ".join(alone.decisions_)
    assert "Feature sharing" not in " ".join(AutoClassifier().fit(x, y).decisions_)
    subjects = AutoClassifier().fit(x, np.repeat([0, 1], 8), np.repeat(np.arange(8), 2))
    assert "Effective sample size: 8 (not more" in subjects.decisions_[-1]


def test_left_out_log_loss_is_that_of_noise_on_noise():
    x, y, _ = problem(80, effect=0, seed=4)
    model = AutoClassifier(SPACE).fit(x, y)
    assert abs(model.left_out_log_loss_ - np.log(2)) < 0.05
    assert model.nothing_weight_ > 0.5


# ---------------------------------------------------------------- what is refused, what is routed


def test_groups_must_fit_the_scans():
    x, y, _ = problem()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AutoClassifier().fit(x, y, np.arange(5))
    with pytest.raises(ValueError, match="multiple of its 24 voxels"):
        AutoClassifier(SPACE).fit(x[:, :23], y)


def test_groups_are_requested_where_metadata_are_routed():
    from voxprior.decision.base import offer_groups

    with config_context(enable_metadata_routing=True):
        assert list(offer_groups(AutoClassifier(), np.arange(3))) == ["groups"]


@pytest.mark.parametrize("space", [None, SPACE])
def test_scans_that_do_not_differ_say_nothing(space):
    """As residuals of as many covariates as there are scans are."""
    model = AutoClassifier(space).fit(np.ones((6, 24)), ["a", "a", "b", "b", "a", "b"])
    assert_allclose(model.predict_proba(np.ones((2, 24))), 0.5)
    assert not model.voxel_maps()["weights"].any()
