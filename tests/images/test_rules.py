"""The rules of preparation: worked examples, the formulas written out naively, and invariances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.images import rules
from voxprior.images.rules import gain_rule, group_ratio, group_rule

SIX = np.array(
    [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]], float
)
GAINS = np.array([[2, 4, 6], [4, 8, 13], [1, 2, 2.5], [3, 6, 9.5]])
FOUR = np.array([[5, 1, 0], [4, 2, 1], [1, 1, 3], [0, 3, 3]], float)


def naive_gain(X):
    """1 / r and g / (g + r) by the singular vectors of the scans themselves."""
    X = np.asarray(X, float)
    length = np.array([np.sqrt(sum(v * v for v in x)) for x in X])
    v = np.linalg.svd(X / length[:, None], full_matrices=False)[2][0]
    c = np.array([x @ v for x in X]) / length
    r = np.mean([(1 - a * a) / (a * a) for a in c])
    g = np.var(np.log(np.abs(c * length)), ddof=1)
    return c, 1 / r, g / (g + r)


def naive_ratio(X, groups):
    """F voxel by voxel and scan by scan."""
    X, groups = np.asarray(X, float), np.asarray(groups)
    between = within = 0.0
    for v in range(X.shape[1]):
        for g in set(groups.tolist()):
            inside = [X[i, v] for i in range(len(X)) if groups[i] == g]
            mean = sum(inside) / len(inside)
            between += len(inside) * (mean - X[:, v].mean()) ** 2
            within += sum((x - mean) ** 2 for x in inside)
    G = len(set(groups.tolist()))
    return between / (G - 1) / (within / (len(X) - G))


class TestGain:
    def test_six_scans_of_four_voxels_without_a_common_image(self):
        found = gain_rule(SIX)
        assert not found.divide
        assert_allclose(found[1:3], [1.644931, 0.068298], atol=5e-7)
        assert "1.6 times that of the rest (limit 3)" in found.reason

    def test_one_image_at_four_gains(self):
        found = gain_rule(GAINS)
        assert found.divide
        assert_allclose(found[1:3], [403.082125, 0.994568], rtol=1e-6)
        assert "0.99 of how scans" in found.reason

    def test_the_numbers_are_those_of_the_naive_form(self, rng, monkeypatch):
        monkeypatch.setattr(rules, "VOXELS_AT_ONCE", 7)
        for n, V in [(2, 2), (3, 40), (30, 5), (12, 50)]:
            image = rng.normal(2, 1, size=V)
            X = (image + rng.normal(size=(n, V))) * np.exp(rng.normal(0, 0.5, n))[:, None]
            c, common, share = naive_gain(X)
            if len(set(np.sign(c))) > 1:
                assert "signs differ" in gain_rule(X).reason
                continue
            assert_allclose(gain_rule(X)[1:3], [common, share], rtol=1e-8)

    @pytest.mark.parametrize("unit", [1.0, 1e-30, 1e25])
    @pytest.mark.parametrize("image", [0.0, 0.3, 1.0, 5.0, 5000.0])
    def test_scans_in_single_precision_are_judged_as_in_double(self, rng, unit, image):
        # Squares of the smallest and the largest do not fit into single precision.
        X = image + rng.normal(size=(20, 400))
        X = ((X * np.exp(rng.normal(0, 0.01, 20))[:, None]) * unit).astype(np.float32)
        ours, exact = gain_rule(X), gain_rule(X.astype(float))
        assert ours.reason == exact.reason
        assert_allclose(ours[1:3], exact[1:3], rtol=1e-9 if exact.common > 3 else 1e-4)

    def test_gains_of_a_common_image_are_found_by_their_share(self, rng):
        image = rng.uniform(2, 6, size=300)
        X = image * (1 + 0.2 * rng.normal(size=(40, 300)))
        noise = rng.normal(size=40)
        shares = [gain_rule(X * np.exp(s * noise)[:, None]) for s in (0, 0.05, 0.4, 1.5)]
        assert [one.divide for one in shares] == [False, False, True, True]
        # The first number does not change with the gains, however wild.
        assert_allclose([one.common for one in shares], shares[0].common, rtol=1e-9)
        assert [one.share for one in shares] == sorted(one.share for one in shares)

    def test_neither_the_unit_nor_the_order_of_voxels_counts(self, rng):
        X = rng.uniform(1, 2, size=(9, 30))
        first = gain_rule(X)
        for other in (1000 * X, X[:, ::-1], X[::-1], np.asfortranarray(X)):
            assert_allclose(gain_rule(other)[1:3], first[1:3], rtol=1e-9)
        read_only = X.astype(np.float32)
        read_only.flags.writeable = False
        assert_allclose(gain_rule(read_only)[1:3], first[1:3], rtol=1e-4)

    @pytest.mark.parametrize(
        ("X", "why"),
        [
            (np.ones((1, 5)), "too few scans"),
            (np.ones((5, 1)), "too few scans or voxels"),
            (np.vstack([GAINS, np.zeros(3)]), "zero in all voxels"),
            (-GAINS, "not positive"),
            (np.vstack([GAINS, -GAINS[0]]), "signs differ"),
            (np.ones((4, 5)), "makes up 0 of"),
        ],
    )
    def test_scans_that_are_left_alone(self, X, why):
        found = gain_rule(X)
        assert not found.divide
        assert why in found.reason


class TestGroups:
    def test_two_runs_of_two_scans(self):
        found = group_rule(FOUR, [0, 0, 1, 1], [0, 1, 0, 1])
        assert found.center
        assert (found.ratio, found.difference) == (11.25, 0)

    def test_the_ratio_is_that_of_the_naive_form(self, rng, monkeypatch):
        monkeypatch.setattr(rules, "VOXELS_AT_ONCE", 4)
        for groups in (["a", "b", "b", "a", "c", "c", "c"], [0, 0, 0, 1, 1, 1, 2]):
            X = rng.normal(size=(7, 11)).astype(np.float32)
            X[:, 3] = 5
            assert_allclose(group_ratio(X, groups), naive_ratio(X, groups), rtol=1e-9)

    def test_centred_scans_are_left_alone(self, rng):
        X = rng.normal(size=(12, 20))
        groups = np.repeat([0, 1, 2], 4)
        X -= np.array([X[groups == g].mean(axis=0) for g in range(3)])[groups]
        found = group_rule(X, groups, np.tile([0, 1], 6))
        assert found.ratio < 1e-20
        assert not found.center

    @pytest.mark.parametrize(("inside", "crosses"), [(3, True), (4, False)])
    def test_class_shares_may_differ_by_a_quarter(self, inside, crosses):
        """Two groups of four with `inside` of class a in the first and 4 - inside in the second."""
        y = np.array(["a"] * inside + ["b"] * (4 - inside) + ["b"] * inside + ["a"] * (4 - inside))
        groups = np.repeat([0, 1], 4)
        X = np.arange(8.0)[:, None] + 100 * groups[:, None]
        found = group_rule(X, groups, y)
        assert found.difference == abs(inside / 4 - 0.5)
        assert found.center == crosses

    def test_a_group_of_one_class_among_many_is_enough(self, rng):
        groups = np.repeat(np.arange(6), 4)
        y = np.tile([0, 1], 12)
        X = rng.normal(size=(24, 9)) + 10 * groups[:, None]
        assert group_rule(X, groups, y).center
        y[:4] = 1
        assert not group_rule(X, groups, y).center

    def test_numbers_that_vary_within_groups(self, rng):
        groups = np.repeat([0, 1, 2], 5)
        ages = rng.uniform(20, 80, size=15)
        X = rng.normal(size=(15, 9)) + 10 * groups[:, None]
        found = group_rule(X, groups, ages)
        assert found.center
        assert_allclose(found.difference, naive_ratio(ages[:, None], groups), rtol=1e-9)
        assert not group_rule(X, groups, ages + 100.0 * groups).center
        assert "single scan" in group_rule(X, np.minimum(np.arange(15), 13), ages).reason
        assert group_rule(X, np.zeros(15), ages).center
        repeated = np.repeat([31.5, 42.25, 53.75], 5)
        assert "do not vary" in group_rule(X, groups, repeated).reason

    @pytest.mark.parametrize(
        ("X", "groups", "y", "why"),
        [
            (FOUR, None, [0, 1, 0, 1], "no groups"),
            (FOUR, [0, 0, 1, 1], None, "not known"),
            (FOUR[[0, 0, 2, 2]], [0, 0, 1, 1], [0, 1, 0, 1], "nothing differs"),
            (FOUR[:, 1:2], [0, 0, 1, 1], [0, 1, 0, 1], "(limit 1.2)"),
            (FOUR, [0, 1, 2, 3], [0, 1, 0, 1], "differ from those of all scans by 0.5"),
        ],
    )
    def test_scans_that_are_left_alone(self, X, groups, y, why):
        found = group_rule(X, groups, y)
        assert not found.center
        assert why in found.reason

    def test_one_group_is_centred(self):
        found = group_rule(FOUR, ["a"] * 4, [0, 1, 0, 1])
        assert found.center
        assert "one group" in found.reason
