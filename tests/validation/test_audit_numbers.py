"""Numbers inside the audit against naive forms, and the bounds at which a check turns."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut

from voxprior.validation import Check, Finding
from voxprior.validation.audit import duplicates, likeness, variables, voxels
from voxprior.validation.audit.finding import Audit, AuditError, AuditWarning, NotChecked, heed
from voxprior.validation.audit.folds import class_missing, leave_one_out, shared_group
from voxprior.validation.audit.likeness import Exchange, Pairs
from voxprior.validation.audit.scans import AuditedScans, spaced_columns


def audited(X, y, groups=None, folds=(), estimator=None, **known):
    known = {"variables": {}, "columns": {}, "names": ()} | known
    return AuditedScans(estimator or LogisticRegression(), X, y, groups, folds, **known)


def noise(n=20, V=120, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, V)), np.tile([0, 1], n // 2)


# ---------------------------------------------------------------- voxels that know the labels


@pytest.mark.parametrize("kind", ["two", "three", "number"])
@pytest.mark.parametrize("width", [7, 8192])
def test_f_and_p_of_every_voxel(kind, width, monkeypatch):
    monkeypatch.setattr(voxels, "VOXELS_AT_ONCE", width)
    X, y = noise()
    y = {"two": y, "three": np.arange(20) % 3, "number": X[:, 3] + 0.5 * y}[kind]
    estimator = Ridge() if kind == "number" else LogisticRegression()
    X[:, 5], X[0, 9] = 4.0, np.nan
    found = voxels._tails(X, audited(X, y, estimator=estimator))
    kept = np.delete(X, [5, 9], axis=1)
    wanted = (f_regression if kind == "number" else f_classif)(kept, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_a_voxel_that_is_the_label_is_explained_wholly():
    X, y = noise()
    share = voxels._explained(
        np.column_stack([y, X[:, 0], np.ones(20)]), voxels._targets(audited(X, y))
    )
    r2 = np.corrcoef(X[:, 0], y)[0, 1] ** 2
    np.testing.assert_allclose(share, [1, r2, np.nan], rtol=1e-12)


@pytest.mark.parametrize(
    ("y", "enough"), [(np.repeat([0, 1], 15), 156), (np.repeat([0, 1, 2], [4, 10, 10]), None)]
)
def test_voxels_of_few_values_that_are_the_label_by_chance(y, enough):
    """30 scans of two classes have 155,117,520 orders: 156 binary voxels are too many."""
    rng = np.random.default_rng(0)
    many = rng.integers(2, size=(len(y), 200)).astype(float)
    many[0], many[1] = 0.0, 1.0
    for V in (155, 156):
        few = many[:, :V]
        expected = enough is not None and enough <= V
        assert voxels._sorted_by_chance(few, audited(few, y)) == expected
    assert not voxels._sorted_by_chance(many, audited(many, 1.0 * y, estimator=Ridge()))


def test_what_counts_as_few_values():
    """Half as many values as scans are few, one more is not, and one is none."""
    y, rng = np.repeat([0, 1], 15), np.random.default_rng(0)
    for values, expected in ((15, True), (16, False), (1, False)):
        column = np.arange(30.0) % values
        few = np.column_stack([rng.permutation(column) for _ in range(200)])
        assert voxels._sorted_by_chance(few, audited(few, y)) == expected


def test_one_voxel_that_varies_is_compared_with_none():
    X, y = np.ones((20, 120)), np.tile([0, 1], 10)
    X[:, 7] = y
    assert voxels.label_voxel(audited(X, y)) == []
    X[:, 8] = noise()[0][:, 8]
    assert "F = inf" in voxels.label_voxel(audited(X, y))[0]


def test_a_voxel_must_be_ten_times_ahead_and_beyond_chance():
    X, y = noise(20, 1000)
    F = np.sort(f_classif(X, y)[0])[::-1]
    for effect, found in ((0.0, False), (30.0, True)):
        one = X.copy()
        one[:, 3] += effect * y
        assert bool(voxels.label_voxel(audited(one, y))) == found
    assert F[0] < 10 * F[1]
    both = X.copy()
    both[:, [3, 4]] += 30 * y[:, None]  # the second is not left behind
    assert voxels.label_voxel(audited(both, y)) == []


def test_standardized_scans():
    X = noise()[0]
    for ddof in (0, 1):
        Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=ddof)
        assert voxels._standardized(Z)
        assert voxels._standardized(np.column_stack([Z, np.zeros(20)]))
        assert not voxels._standardized(Z + 2e-3)
        assert not voxels._standardized(1.1 * Z)
        assert voxels._standardized(Z + 5e-4)
    assert not voxels._standardized(Z[:1])
    assert voxels._standardized(np.array([[1.0], [-1.0]]))


def test_pairs_scaled_run_by_run_are_no_leak():
    X = np.tile([[1.0], [-1.0]], (5, 120)) * np.sign(noise(10)[0][:, :1])
    X[1::2] = -X[::2]
    runs = np.repeat(np.arange(5), 2)
    assert voxels.fitted_outside(audited(X, np.tile([0, 1], 5), runs)) == []
    assert voxels.fitted_outside(audited(X, np.tile([0, 1], 5))) != []
    few = voxels.fitted_outside(audited(X[:3], np.array([0, 1, 0])))
    assert few == NotChecked("there are fewer than 4 scans")


# ---------------------------------------------------------------- likeness


def test_likeness_is_the_correlation_of_residuals():
    X, y = noise(8, 30)
    residual = X - np.array([X[y == c].mean(axis=0) for c in (0, 1)])[y]
    u = residual / np.linalg.norm(residual, axis=1)[:, None]
    np.testing.assert_allclose(likeness.likeness(X, y, y), u @ u.T, atol=1e-6)
    age = np.arange(8.0) ** 2
    A = np.column_stack([np.ones(8), age])
    residual = X - A @ np.linalg.lstsq(A, X, rcond=None)[0]
    u = residual / np.linalg.norm(residual, axis=1)[:, None]
    found = likeness.likeness(X, age, np.zeros(8, int))
    np.testing.assert_allclose(found, u @ u.T, atol=1e-6)


def test_exchange_p_counts_exchanges():
    rng = np.random.default_rng(1)
    K = rng.normal(size=(9, 9))
    strata = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    pairs = Pairs(np.arange(8), np.arange(1, 9), np.full(8, 1 / 8))
    draw, reached, done = np.random.default_rng(0), 1, 0
    observed = sum(K[i, i + 1] for i in range(8)) / 8
    while reached <= 2:
        done += 1
        keys = draw.random(9)
        order = np.empty(9, int)
        for s in (0, 1):
            members = np.flatnonzero(strata == s)
            order[members] = members[np.argsort(keys[members])]
        reached += sum(K[order[i], order[i + 1]] for i in range(8)) / 8 >= observed
    assert likeness.exchange_p(Exchange(K, strata), pairs) == pytest.approx(reached / (done + 1))
    K = np.zeros((40, 40), dtype=np.float32)
    K[np.arange(39), np.arange(1, 40)] = 1
    pairs = Pairs(np.arange(39), np.arange(1, 40), np.full(39, 1 / 39))
    assert likeness.exchange_p(Exchange(K, np.zeros(40, int)), pairs) == pytest.approx(1 / 2000)


def test_a_part_of_pairs_keeps_their_weight():
    w = np.repeat([0.5, -0.25], [10, 4])
    pairs = Pairs(np.arange(14), np.arange(14) + 1, w)
    part = likeness._at_most(pairs, 5, np.random.default_rng(0))
    assert len(part.a) == 9
    assert part.w[part.w > 0].sum() == pytest.approx(5.0)
    assert part.w[part.w < 0].sum() == pytest.approx(-1.0)
    np.testing.assert_array_equal(part.b - part.a, 1)
    whole = likeness._at_most(pairs, 10, np.random.default_rng(0))
    assert sorted(whole.a) == list(range(14))


def test_a_sorted_list_of_people_has_no_neighbours_in_time():
    X = noise(20)[0]
    X[10:] += 3 * np.random.default_rng(5).normal(size=120)  # patients after controls
    folds = [(np.arange(20) % 5 != k, np.arange(20) % 5 == k) for k in range(5)]
    folds = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in folds]
    people = [f"sub-{i:02d}_pet.nii" for i in range(20)]
    age = np.random.default_rng(6).normal(size=20)
    known = {"folds": folds, "estimator": Ridge()}
    told = likeness.serial_neighbors(audited(X, age, names=people, **known))
    assert "every scan is of another subject" in told.reason
    assert likeness.serial_neighbors(audited(X, age, **known)) != []
    twice = [f"sub-{i // 2:02d}_run-{i % 2}.nii" for i in range(20)]
    assert likeness.serial_neighbors(audited(X, age, names=twice, **known)) != []


def test_neighbours_met():
    first = np.array([0, 1, 3])  # scans 2 and 3 are of different runs
    folds = [(np.array([0, 3]), np.array([1, 2, 4])), (np.array([0, 1, 2]), np.array([3, 4]))]
    assert likeness._neighbors_met(first, 5, folds) == pytest.approx((1 + 0 + 1) / 5)


@pytest.mark.parametrize("quantity", [True, False])
@pytest.mark.parametrize("design", ["none", "whole", "crossed"])
def test_pairs_of_one_level(design, quantity, monkeypatch):
    X, y = noise(12, 30)
    K = likeness.likeness(X, y, y)
    groups = {"none": None, "whole": np.repeat(np.arange(6), 2), "crossed": np.tile([0, 1, 2], 4)}
    level = np.array([0, 0, 1, 1, 2, 2, 0, 0, 3, 3, 1, 1])
    seen = []
    monkeypatch.setattr(likeness, "exchange_p", lambda *given: seen.append(given) or 0.5)
    scans = audited(X, y, groups[design])
    assert likeness.column_p(K, level, quantity, scans) == 0.5
    exchange, pairs = seen[0]
    unit, n = np.arange(12), 12
    if design == "whole":
        n, level = 6, level[::2]
        K = np.array([[K[2 * a : 2 * a + 2, 2 * b : 2 * b + 2].mean() for b in range(6)]
                      for a in range(6)])  # fmt: skip
    apart = groups["crossed"] if design == "crossed" else unit
    every = [(a, b) for a in range(n) for b in range(a + 1, n) if apart[a] != apart[b]]
    same = [pair for pair in every if level[pair[0]] == level[pair[1]]]
    near = [(a, b) for a, b in every if abs(level[a] - level[b]) == 1] if quantity else []
    wanted = dict.fromkeys(same, 1 / len(same)) | dict.fromkeys(near, -1 / max(len(near), 1))
    found = {(int(a), int(b)): w for a, b, w in zip(*pairs)}
    assert found == pytest.approx(wanted)
    np.testing.assert_allclose(exchange.K, K, rtol=1e-5)
    strata = {"none": y, "whole": np.zeros(6), "crossed": 3 * y + np.tile([0, 1, 2], 4)}[design]
    np.testing.assert_array_equal(
        np.unique(exchange.strata, return_inverse=True)[1],
        np.unique(strata, return_inverse=True)[1],
    )


def test_levels_and_what_is_missing():
    scans = audited(*noise(8))
    code = likeness.level_codes("site", np.array(["a", "a", None, "b", "c", None, "a", "b"]), scans)
    assert len(set(code[[0, 1, 6]])) == 1
    assert code[3] == code[7] != code[0]
    assert len({*code[[2, 5]], *code[[0, 3, 4]]}) == 5
    assert np.abs(np.subtract.outer(code[[2, 5]], code)).min(where=~np.eye(8, dtype=bool)[[2, 5]],
                                                            initial=99) > 1  # fmt: skip
    assert likeness.level_codes("sex", np.array(list("abababab")), scans) is None
    assert likeness.level_codes("subject", np.array(list("abababab")), scans) is not None
    assert likeness.level_codes("subject", np.array(list("aaaaaaaa")), scans) is None
    assert likeness.level_codes("subject", np.arange(8), scans) is None
    crossed = audited(*noise(8), np.repeat([0, 1], 4))
    assert likeness.level_codes("dose", np.tile([1, 2, 3, 4], 2), crossed) is None
    assert likeness.level_codes("dose", np.tile([1, 2, 3, 4], 2), scans) is not None
    assert likeness.level_codes("dose", np.array([1, 2, 3, 4, 1, 2, 3, 3]), crossed) is not None


def test_quantities_have_more_than_five_values():
    assert likeness._is_quantity("age", np.arange(6))
    assert not likeness._is_quantity("age", np.arange(5))
    assert not likeness._is_quantity("run", np.arange(6))
    assert not likeness._is_quantity("age", np.array(list("abcdef")))


# ---------------------------------------------------------------- variables


@pytest.mark.parametrize(("fewest", "found"), [(2, True), (3, False)])
@pytest.mark.parametrize("per_group", [1, 4])
def test_groups_of_one_class_must_be_three(fewest, found, per_group):
    y = np.repeat([0] * 5 + [1] * fewest, per_group)
    groups = np.repeat(np.arange(5 + fewest), per_group)
    told = variables._confounded_groups(y, groups)
    assert bool(told) == found
    if found:
        assert "only 2 groups" in told[0]


def test_groups_that_hold_classes_unlike():
    groups = np.repeat([0, 1], 20)
    for share, found in ((10, False), (13, False), (15, True), (19, True)):
        y = np.concatenate([np.arange(20) < share, np.arange(20) >= share]).astype(int)
        table = [[20 - share, share], [share, 20 - share]]
        assert (stats.chi2_contingency(table)[1] < 0.01) == found
        assert bool(variables._confounded_groups(y, groups)) == found


@pytest.mark.parametrize(("crossed", "level"), [(False, 0.05), (True, 0.04)])
def test_columns_are_told_below_a_twentieth(monkeypatch, crossed, level):
    """Groups that cross the classes have a hundredth of it."""
    X, y = noise()
    known = {"variables": {"age": X[:, 0]}, "columns": {"score": X[:, 1]}}
    groups = np.arange(20) // 2 if crossed else None
    for p, found in ((level - 0.001, 2), (level, 0)):
        monkeypatch.setattr(
            variables, "adjusted_p", lambda _y, _c, columns, _s, p=p: dict.fromkeys(columns, p)
        )
        assert len(variables.labels_confounded(audited(X, y, groups, **known))) == found


# ---------------------------------------------------------------- copies


def test_near_pairs_by_correlation(monkeypatch):
    X = noise(12, 60)[0]
    X[5], X[7], X[9] = 3 * X[2] + 1, X[2] + 1e-4 * X[0], 8.0
    varies = np.delete(np.arange(12), 9)
    apart = 1 - np.corrcoef(X[varies])
    bound = 1e-3 * np.median(apart[np.triu_indices(11, 1)])
    for width in (1, 5, 512):
        monkeypatch.setattr(duplicates, "ROWS_AT_ONCE", width)
        pairs, found = duplicates.near_pairs(X)
        assert found == pytest.approx(bound, rel=1e-5)
        assert pairs == [(2, 5), (2, 7), (5, 7)]
    assert duplicates.near_pairs(np.ones((3, 4))) == ([], 0.0)
    monkeypatch.setattr(duplicates, "PAIRS_CONFIRMED", 2)
    assert len(duplicates.near_pairs(X)[0]) == 2


def test_rows_of_any_length_become_one_long():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e-9, 0.0]])
    wanted = [[0.6, 0.8], [0.6, 0.8], [0, 0], [1, 0]]
    np.testing.assert_allclose(duplicates.unit_rows(rows), wanted)


def test_keys_of_images():
    X = noise(5, 210)[0]
    X[3] = X[1]
    X[4] = X[1]
    X[4, 1] += 1  # apart only in a voxel that is not looked at first
    keys = duplicates.image_keys(X)
    assert keys[1] == keys[3]
    assert len(set(keys)) == 4
    assert duplicates.image_keys(["a.nii", "b.nii", "a.nii"]) == ["a.nii", "b.nii", "a.nii"]
    column = duplicates.image_keys(np.array([1.0, 2.0, 1.0]))
    assert (column[0] == column[2], len(set(column))) == (True, 2)


def test_scans_are_compared_on_as_many_voxels_as_time_allows(monkeypatch):
    X, y = noise(10, 4000)
    for products, V in ((4e4, 400), (1e9, 4000), (1.0, 200)):
        monkeypatch.setattr(duplicates, "MOST_PRODUCTS", products)
        assert duplicates.comparable_rows(audited(X, y)).shape == (10, V)
    monkeypatch.setattr(duplicates, "MOST_SCANS", 10)
    assert isinstance(duplicates.comparable_rows(audited(X, y)), np.ndarray)
    monkeypatch.setattr(duplicates, "MOST_SCANS", 9)
    assert "more than 9" in duplicates.comparable_rows(audited(X, y)).reason


def test_divided_pairs():
    folds = [(np.array([0, 1]), np.array([2])), (np.array([2]), np.array([0]))]
    assert duplicates._divided(1, 2, folds)
    assert duplicates._divided(2, 1, folds)
    assert not duplicates._divided(0, 1, folds)


# ---------------------------------------------------------------- folds, and what is looked at


def test_folds_that_are_judged():
    X, y = noise(6)
    for n, step in ((0, 1), (1, 1), (200, 1), (201, 2), (400, 2), (401, 3)):
        folds = [([i], [i + 1]) for i in range(n)]
        judged = audited(X, y, folds=folds).judged_folds
        assert [int(train[0]) for train, _ in judged] == list(range(0, n, step))


def test_share_of_test_scans_whose_level_was_trained_on():
    folds = [(np.array([0, 1]), np.array([2, 3])), (np.array([2, 3]), np.array([0, 1, 4]))]
    scans = audited(*noise(6), folds=folds)
    assert scans.straddling(np.array([0, 1, 1, 2, 2, 0])) == pytest.approx((1 + 0 + 0 + 1 + 1) / 5)
    assert audited(*noise(6)).straddling(np.zeros(6)) == 0


def test_columns_evenly_spaced():
    X = np.arange(40.0).reshape(2, 20)
    np.testing.assert_array_equal(spaced_columns(X, 20), X)
    np.testing.assert_array_equal(spaced_columns(X, 7), X[:, ::2])
    np.testing.assert_array_equal(spaced_columns(X, 100), X)


def test_balanced_classes_tested_one_at_a_time():
    X, y = noise(8)
    loo = list(LeaveOneOut().split(X))
    assert "two-out" in leave_one_out(audited(X, y, folds=loo))[0]
    unequal = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    assert leave_one_out(audited(X, unequal, folds=loo)) == []
    assert leave_one_out(audited(X, np.zeros(8, int), folds=loo)) == []
    only = [(train, test) for train, test in loo if y[test[0]] == 0]
    assert leave_one_out(audited(X, y, folds=only)) == []
    both = [(np.arange(2, 8), np.array([0, 1])), *loo]
    assert "frequencies" in leave_one_out(audited(X, y, folds=both))[0]
    two = [(np.arange(1, 8), np.array([0])), (np.arange(7), np.array([7]))]
    assert leave_one_out(audited(X, y, folds=two)) != []


@pytest.mark.parametrize(("more", "told"), [(6, None), (7, None), (8, "44%"), (9, "38%")])
def test_sites_with_opposite_shares_of_the_classes(more, told):
    X, site = np.zeros((24, 1)), np.repeat([0, 1], 12)
    y = np.tile(np.arange(12) >= more, 2) ^ (site == 1)
    folds = [(np.flatnonzero(site != s), np.flatnonzero(site == s)) for s in (0, 1)]
    found = leave_one_out(audited(X, y, folds=folds))
    assert found == [] if told is None else told in found[0]


def test_counts_in_messages_about_folds():
    X, y = noise(8)
    folds = [(np.array([1, 2]), np.array([0])), (np.array([0, 2]), np.array([1])),
             (np.array([1, 3]), np.array([5]))]  # fmt: skip
    told = class_missing(audited(X, y, folds=folds))[0]
    assert "2 of 3 training folds" in told
    assert "fold 1 has no scan of [1]" in told
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    told = shared_group(audited(X, y, groups, folds))[0]
    assert "2 of 3 folds" in told
    assert "for instance 0" in told


# ---------------------------------------------------------------- findings


def test_findings_are_alike_whatever_their_marks():
    plain, marked = (
        Finding("a", "error", "Say x."),
        Finding("a", "error", "Say x.", marked="Say x."),
    )
    assert plain == marked
    assert Finding("a", "error", "y", marked="z") == Finding("a", "error", "z")
    assert "marked" not in repr(plain)
    assert plain.allowed is False
    assert plain.to_dict() == {"name": "a", "severity": "error", "message": "Say x.",
                               "allowed": False}  # fmt: skip


def test_only_what_is_not_allowed_is_heeded():
    error, warning = Finding("a", "error", "x"), Finding("b", "warning", "y")
    with pytest.raises(AuditError, match=r"\[a\] x"):
        heed([warning, error])
    with pytest.warns(AuditWarning, match=r"\[b\] y"):
        heed([warning, Finding("a", "error", "x", allowed=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed([Finding("b", "warning", "y", allowed=True)])
    assert str(Check("a", "found")) == "a: found"
    assert list(Audit((error, warning))) == [error, warning]
