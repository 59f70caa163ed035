"""Map tests: worked digits, laws, naive oracles, and nilearn's permuted_ols."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nilearn.mass_univariate import permuted_ols
from scipy import stats

from voxprior.errors import InputError, InputWarning
from voxprior.mapping import map_test
from voxprior.mapping.enhancement import tfce
from voxprior.mapping.statistics import STATISTICS, decoder_columns
from voxprior.space import VoxelSpace

# Welch's t needs more scans: see test_spread.py.
FOR_FEW = {name: one for name, one in STATISTICS.items() if name != "welch"}

STRONG = ["t", "moderated", "shared"]


def runs_of_pairs(n_runs, V=30, seed=0, effect=0.0):
    """One scan per class and run, with run offsets; the first voxels differ by the effect."""
    rng = np.random.default_rng(seed)
    y, runs = np.tile(["a", "b"], n_runs), np.repeat(range(n_runs), 2)
    X = rng.normal(size=(2 * n_runs, V)) + 5 * rng.normal(size=(n_runs, 1))[runs]
    X[:, :3] += effect * (y == "b")[:, None]
    return X, y, runs


# ---------------------------------------------------------------- worked by hand


class TestThreeRunsOfTwoScans:
    X = np.array([[1, 2, 0], [3, 1, 1], [0, 1, 2], [2, 2, 0], [1, 0, 1], [4, 1, 3]])
    y, runs = np.array(["-", "+"] * 3), np.repeat([1, 2, 3], 2)

    @pytest.fixture
    def found(self):
        with pytest.warns(InputWarning, match="6 such groups would suffice"):
            return map_test(self.X, self.y, self.runs, statistic="t")

    def test_a_t_of_seven_is_nothing_here(self, found):
        np.testing.assert_allclose(np.abs(found.statistic), [7, 0.5, 0.2773500981], rtol=1e-8)
        np.testing.assert_allclose(found.p_fwer, [4 / 8, 1, 1])
        np.testing.assert_allclose(found.p_uncorrected, [2 / 8, 1, 1])
        assert (found.smallest_p, found.n_distinct, found.exact) == (2 / 8, 8, True)
        assert found.threshold == np.inf
        assert "No p below 0.25" in found.notes[0]

    def test_maxima_of_the_eight_swaps(self, found):
        r = np.array([0.5773502692, 0.9622504486, 1, 1, 0.9622504486, 0.5773502692, 0.9801960588])
        largest = np.sort(found.null_max)
        naive = np.sort(r * np.sqrt(2 / np.maximum(1 - r**2, 1e-10)))
        np.testing.assert_allclose(largest[:5], naive[:5], rtol=1e-5)
        assert (largest[5:] > 100).all()

    def test_effects_are_differences_of_means(self, found):
        # "+" sorts before "-": the difference is that of "-" above "+".
        np.testing.assert_allclose(found.effect, [-7 / 3, -1 / 3, -1 / 3], rtol=1e-12)
        assert found.contrast == "positive where - is above +"


def test_a_voxel_that_cancels_noise_has_weight_and_no_pattern():
    """Voxel 2 is the noise of voxel 1 and says nothing of y, yet has 97 % of its weight."""
    e = np.array([1, 1, -1, -1, 1, -1, 1, -1])
    y = np.array([1, -1, 1, -1, 1, -1, -1, 1.0])
    X = np.column_stack([y + 2 * e, 2 * e])
    gram = X @ X.T
    w = X.T @ np.linalg.solve(gram + np.eye(8), y)
    np.testing.assert_allclose(w, [0.8024316109, -0.7781155015], atol=1e-10)
    f = gram @ np.linalg.solve(gram + np.eye(8), y)
    np.testing.assert_allclose(X.T @ f / (f @ f), [1.3921546203, 0.1505032022], atol=1e-10)
    # The package's columns are those of the mean eigenvalue as penalty.
    penalty = np.trace(gram) / 8
    dual = np.linalg.solve(gram + penalty * np.eye(8), y)
    mine = decoder_columns("weight", gram, 1)(y[:, None])[:, 0]
    np.testing.assert_allclose(mine, penalty * dual, rtol=1e-10)
    read = gram @ dual
    mine = decoder_columns("pattern", gram, 1)(y[:, None])[:, 0]
    np.testing.assert_allclose(np.abs(mine), np.abs(read) / np.linalg.norm(read), rtol=1e-8)


# ---------------------------------------------------------------- peers and oracles


@pytest.mark.filterwarnings("ignore")
def test_t_and_p_are_those_of_permuted_ols():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 60)), np.tile([0, 1], 15)
    X[:, 0] += 1.2 * y
    age = rng.normal(size=(30, 1))
    peer = permuted_ols(
        y[:, None].astype(float), X, age, n_perm=2000, random_state=0, output_type="dict"
    )
    found = map_test(X, y, nuisance=age, statistic="t", n_permutations=2000)
    np.testing.assert_allclose(found.statistic, peer["t"][0], atol=1e-5)
    ours, theirs = -np.log10(found.p_fwer), peer["logp_max_t"][0]
    np.testing.assert_allclose(ours, theirs, atol=0.25)
    assert "approximate" in found.notes[0]


def test_f_of_three_classes_is_scipys():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(24, 20)), np.repeat(["a", "b", "c"], 8)
    found = map_test(X, y, statistic="t", n_permutations=200)
    F, p = stats.f_oneway(*(X[y == c] for c in "abc"))
    np.testing.assert_allclose(found.statistic, F, rtol=1e-6)
    assert found.effect.shape == (3, 20)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(found.effect[1], centered[y == "b"].mean(axis=0), atol=1e-6)
    many = map_test(X, y, statistic="t", correction="fdr", n_permutations=99)
    np.testing.assert_allclose(many.q_fdr, stats.false_discovery_control(p), rtol=1e-6)
    assert "t distribution" in many.notes[0]
    assert "3 classes" in many.hypothesis


def test_numbers_are_tested_by_their_correlation():
    rng = np.random.default_rng(6)
    age = rng.normal(50, 10, 25)
    X = rng.normal(size=(25, 10))
    X[:, 4] += 0.2 * age
    found = map_test(X, age, n_permutations=500)
    r = np.array([stats.pearsonr(x, age)[0] for x in X.T])
    np.testing.assert_allclose(found.statistic, r * np.sqrt(23 / (1 - r**2)), rtol=1e-6)
    slopes = [stats.linregress(age, x).slope for x in X.T]
    np.testing.assert_allclose(found.effect, slopes, rtol=1e-6)
    assert found.significant[4]
    assert found.smallest_p == 1 / 501
    assert "number" in found.hypothesis
    assert "number" in found.contrast


def test_one_sample_flips_signs():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(8, 15))
    X[:, 2] += 3
    found = map_test(X, None, statistic="t")
    np.testing.assert_allclose(found.statistic, stats.ttest_1samp(X, 0).statistic, rtol=1e-6)
    np.testing.assert_allclose(found.effect, X.mean(axis=0), rtol=1e-6)
    signs = 1 - 2 * (np.arange(256)[:, None] >> np.arange(8) & 1)
    r = np.abs(signs @ (X / np.linalg.norm(X, axis=0))) / np.sqrt(8)
    naive = (r.max(axis=1)[:, None] >= r[0] * (1 - 1e-9)).mean(axis=0)
    np.testing.assert_allclose(found.p_fwer, naive)
    np.testing.assert_allclose(found.p_uncorrected, (r >= r[0] * (1 - 1e-9)).mean(axis=0))
    assert found.smallest_p == 2 / 256
    assert found.p_fwer[2] == 2 / 256


def test_sign_flips_take_whole_subjects_and_centred_nuisance():
    rng = np.random.default_rng(9)
    X, age = rng.normal(1, 1, size=(24, 5)), rng.normal(40, 5, size=24)
    subjects = np.repeat(np.arange(12), 2)
    found = map_test(X, None, subjects, statistic="t")
    means = X.reshape(12, 2, 5).mean(axis=1)
    np.testing.assert_allclose(found.statistic, stats.ttest_1samp(means, 0).statistic, rtol=1e-6)
    assert "averaged to 12 groups" in found.notes[0]
    adjusted = map_test(X, None, statistic="t", nuisance=age, n_permutations=50)
    Z = np.column_stack([np.ones(24), age - age.mean()])
    beta, left, *_ = np.linalg.lstsq(Z, X, rcond=None)
    se = np.sqrt(left / 22 / 24)
    np.testing.assert_allclose(adjusted.statistic, beta[0] / se, rtol=1e-5)
    assert any("approximate" in note for note in adjusted.notes)


def test_blocks_and_whole_groups_are_averaged():
    rng = np.random.default_rng(10)
    y = np.repeat(["patient", "control"], 12)
    subjects, X = np.repeat(np.arange(12), 2), rng.normal(size=(24, 6))
    found = map_test(X, y, subjects, statistic="t")
    means = X.reshape(12, 2, 6).mean(axis=1)
    t = stats.ttest_ind(means[:6], means[6:]).statistic
    np.testing.assert_allclose(found.statistic, t, rtol=1e-6)
    assert found.scheme == "labels exchanged among whole groups"
    blocks = map_test(X, y, blocks=subjects, statistic="t")
    np.testing.assert_allclose(blocks.p_fwer, found.p_fwer)


def test_tfce_of_the_map_and_of_every_relabelling():
    X, y, runs = runs_of_pairs(6, 27, effect=3.0)
    space = VoxelSpace.grid((3, 3, 3))
    found = map_test(X, y, runs, space=space, statistic="tfce")
    base = map_test(X, y, runs, statistic="moderated")
    graph = space.adjacency(6)
    np.testing.assert_allclose(found.statistic, tfce(base.statistic, graph), rtol=1e-5)
    naive = []
    for swaps in np.ndindex(*[2] * 6):
        swapped = np.where(np.array(swaps)[runs] == 1, np.where(y == "a", "b", "a"), y)
        t = map_test(X, swapped, runs, statistic="moderated").statistic
        naive.append(np.abs(tfce(t, graph)).max())
    size = np.abs(found.statistic)
    expected = (np.array(naive)[:, None] >= size * (1 - 1e-5)).mean(axis=0)
    np.testing.assert_allclose(found.p_fwer, expected)
    assert found.p_uncorrected is None
    assert found.q_fdr is None


# ---------------------------------------------------------------- laws


def cube(statistic):
    return (
        {"space": VoxelSpace.grid((3, 5, 2))} if statistic in ("shared", "tfce", "cluster") else {}
    )


@pytest.mark.parametrize("statistic", FOR_FEW)
@pytest.mark.parametrize("n_runs", [6, 13])
def test_p_are_shares_of_relabellings_and_stay_when_classes_swap(statistic, n_runs):
    X, y, runs = runs_of_pairs(n_runs, effect=2.0)
    options = {"statistic": statistic, "n_permutations": 150} | cube(statistic)
    found = map_test(X, y, runs, **options)
    swapped = map_test(X, np.where(y == "a", "b", "a"), runs, **options)
    n = len(found.null_max) + 1
    assert n == (64 if n_runs == 6 else 151)
    assert found.p_global == swapped.p_global
    np.testing.assert_allclose(found.statistic, -swapped.statistic, rtol=1e-4, atol=1e-6)
    if found.control == "global":
        assert found.p_fwer is None
        assert not found.significant.any()
    else:
        np.testing.assert_allclose(n * found.p_fwer, np.round(n * found.p_fwer))
        np.testing.assert_array_equal(found.p_fwer, swapped.p_fwer)
    assert n * found.p_global == pytest.approx(round(n * found.p_global))
    assert found.smallest_p <= found.p_global
    shifted = X + 7.0 * np.random.default_rng(1).normal(size=(n_runs, 1))[runs]
    assert map_test(shifted, y, runs, **options).p_global == found.p_global


@pytest.mark.parametrize("statistic", STRONG)
def test_adding_a_nuisance_column_changes_nothing(statistic):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), np.tile([0, 1], 10)
    age = rng.normal(size=20)
    options = {"statistic": statistic, "nuisance": age, "n_permutations": 300} | cube(statistic)
    found = map_test(X, y, **options)
    again = map_test(X + np.outer(age, rng.normal(size=30)), y, **options)
    np.testing.assert_array_equal(found.p_fwer, again.p_fwer)
    np.testing.assert_array_equal(found.p_uncorrected, again.p_uncorrected)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_scaling_and_reordering_voxels(seed):
    X, y, runs = runs_of_pairs(6, 12, seed, effect=1.5)
    rng = np.random.default_rng(seed)
    plain, moderated = (map_test(X, y, runs, statistic=s) for s in ("t", "moderated"))
    scaled = map_test(X * np.exp(rng.normal(size=12)), y, runs, statistic="t")
    np.testing.assert_array_equal(plain.p_fwer, scaled.p_fwer)
    larger = map_test(X * 37.0, y, runs, statistic="moderated")
    np.testing.assert_array_equal(moderated.p_fwer, larger.p_fwer)
    order = rng.permutation(12)
    again = map_test(X[:, order], y, runs, statistic="moderated")
    np.testing.assert_array_equal(moderated.p_fwer[order], again.p_fwer)


@pytest.mark.parametrize("statistic", ["t", "moderated", "tfce"])
@pytest.mark.parametrize("n_runs", [6, 8, 14])
def test_the_floor_is_reached_by_a_voxel_that_is_the_label(statistic, n_runs):
    X, y, runs = runs_of_pairs(n_runs)
    X[:, 4] = (y == "b") * 10.0 + 3.0 * runs
    found = map_test(X, y, runs, statistic=statistic, n_permutations=5000, **cube(statistic))
    expected = 2 / 2**n_runs if 2**n_runs <= 10_000 else 1 / 5001
    assert found.smallest_p == pytest.approx(expected)
    assert found.p_fwer[4] <= max(found.smallest_p, 4 / 5001)
    if found.exact:
        assert found.p_fwer[4] == found.smallest_p


def test_thresholds_divide_significant_voxels_from_others():
    X, y, runs = runs_of_pairs(12, 40, effect=4.0)
    for correction in ("fwer", "fdr", "none"):
        found = map_test(X, y, runs, correction=correction)
        size = np.abs(found.statistic)
        assert found.significant[:3].any()
        assert size[found.significant].min() >= found.threshold * (1 - 1e-4)
        assert size[~found.significant].max() <= found.threshold * (1 + 1e-4)
    assert map_test(X, y, runs, level=0.99).threshold < 2


def test_the_words_of_every_statistic():
    X, y, runs = runs_of_pairs(7, effect=3.0)
    for name, one in FOR_FEW.items():
        found = map_test(X, y, runs, statistic=name, **cube(name))
        assert found.control == one.control
        assert one.symbol in repr(found)
        said = "in this voxel b and a differ, in mean or in spread" in found.hypothesis.lower()
        assert said == (name in ("t", "moderated"))
        assert ("voxels significant" in repr(found)) == (found.control != "global")
        assert found.summary()["voxels"] == 30
    two = map_test(X, np.tile(["a", "b", "c"], 5)[:14], statistic="cluster", **cube("cluster"))
    assert two.contrast == "without sign"
    assert "mean of the maps" in map_test(X, None).hypothesis


# ---------------------------------------------------------------- false discoveries


def test_discoveries_rest_on_permutations_only_where_these_reach_far_enough():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 400)), np.tile([0, 1], 20)
    X[:, :40] += 1.5 * y[:, None]
    few = map_test(X, y, correction="fdr", n_permutations=199)
    assert "t distribution" in few.notes[0]
    assert few.significant[:40].mean() > 0.8
    many = map_test(X, y, correction="fdr", n_permutations=9999)
    assert many.notes == ("False discovery rate of permutation p.",)
    naive = stats.false_discovery_control(many.p_uncorrected)
    np.testing.assert_array_equal(many.q_fdr, naive)
    X, y, runs = runs_of_pairs(6, 400, effect=8.0)
    floor = map_test(X, y, runs, correction="fdr")
    assert "the design allows none below 0.031" in floor.notes[0]
    np.testing.assert_array_equal(floor.q_fdr, stats.false_discovery_control(floor.p_uncorrected))


# ---------------------------------------------------------------- ugly and bad input


@pytest.mark.parametrize("statistic", FOR_FEW)
def test_ugly_scans(statistic):
    X, y, runs = runs_of_pairs(6)
    X[:, 0], X[:, 1], X[:, 2] = 5.0, X[:, 3], runs
    X = np.asfortranarray(X.astype("f4"))
    X.flags.writeable = False
    found = map_test(X, y, runs, statistic=statistic, **cube(statistic))
    assert np.isfinite(found.statistic).all()
    if statistic in ("t", "moderated", "tfce"):
        np.testing.assert_array_equal(found.statistic[[0, 2]], 0.0)
        np.testing.assert_array_equal(found.p_fwer[[0, 2]], 1.0)
    if statistic in ("t", "moderated"):
        assert found.p_fwer[1] == found.p_fwer[3]
    nothing = map_test(np.zeros((12, 30)), y, runs, statistic=statistic, **cube(statistic))
    assert nothing.p_global == 1.0


def test_meshes_and_points():
    faces = np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4]])
    corners = np.random.default_rng(0).normal(size=(5, 3))
    X, y, runs = runs_of_pairs(6, 5, effect=4.0)
    mesh = map_test(X, y, runs, space=VoxelSpace.from_mesh(corners, faces), statistic="tfce")
    points = VoxelSpace.from_coordinates(corners)
    wide = map_test(X, y, runs, space=points, radius=100.0, statistic="tfce")
    assert mesh.significant.any()
    assert (np.abs(wide.statistic) >= np.abs(mesh.statistic) - 1e-9).all()


X, Y, RUNS = runs_of_pairs(6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"X": np.zeros((12, 0))}, "nothing to test.*voxels"),
        ({"X": np.zeros(12)}, "nothing to test"),
        ({"X": np.full((12, 3), "a")}, "not numbers"),
        ({"X": np.where(X > 1, np.nan, X)}, "NaN"),
        ({"y": Y[:5]}, "y does not fit the scans"),
        ({"y": np.full(12, np.nan)}, "y has missing values"),
        ({"y": np.zeros(12)}, "nothing to tell apart"),
        ({"groups": RUNS[:3]}, "groups does not fit"),
        ({"scheme": "some"}, "scheme='some' is not known"),
        ({"scheme": "signs"}, "without labels"),
        ({"y": None, "scheme": "within"}, "needs labels"),
        ({"y": None, "groups": np.zeros(12)}, "Signs of one map"),
        ({"y": Y == "a", "groups": Y, "scheme": "free"}, "nested in groups"),
        ({"y": Y, "groups": Y, "scheme": "within"}, "No labels can be exchanged"),
        ({"statistic": "z"}, "statistic='z' is not known"),
        ({"correction": "bonferroni"}, "correction='bonferroni'"),
        ({"correction": "fdr", "statistic": "tfce"}, "single voxels"),
        ({"level": 0.0}, "level=0.0 is not a level"),
        ({"n_permutations": 0}, "tests nothing"),
        ({"n_permutations": 1.5}, "not a whole number"),
        ({"nuisance": np.ones(3)}, "nuisance does not fit"),
        ({"nuisance": np.random.default_rng(0).normal(size=(12, 6))}, "too few scans"),
        ({"nuisance": Y == "a"}, "explain the labels entirely"),
        ({"statistic": "tfce"}, "Give space"),
        ({"space": VoxelSpace.grid((2, 2, 2))}, "space does not fit"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, told):
    known = {"X": X, "y": Y, "groups": RUNS} | arguments
    with pytest.raises(InputError, match=told) as refused:
        map_test(**known)
    assert "\n" not in str(refused.value)


def test_a_floor_above_the_level_is_refused_or_told():
    scans, y, runs = runs_of_pairs(5)
    with pytest.raises(
        InputError, match=r"0\.062.*6 such groups would suffice.*despite_floor=True"
    ):
        map_test(scans, y, runs, despite_floor=False)
    with pytest.warns(InputWarning, match="cannot|nothing can reach"):
        map_test(scans, y, runs)
    with pytest.warns(InputWarning, match="draw at least 19"):
        map_test(*runs_of_pairs(12), n_permutations=9)


def test_mixed_labels_are_words():
    labels = np.array(["a", 1] * 6, dtype=object)
    assert map_test(X, labels, RUNS).contrast == "positive where a is above 1"


# ---------------------------------------------------------------- error rates


def null_data(scheme, rng):
    """Noise of 40 voxels with run or subject offsets, as each scheme meets it."""
    X = rng.normal(size=(16, 40)) * np.exp(0.35 * rng.normal(size=40))
    y, groups = np.tile(["a", "b"], 8), np.repeat(range(8), 2)
    offsets = 2 * rng.normal(size=(8, 40))
    if scheme == "within":
        return X + offsets[groups], y, groups
    if scheme == "whole":
        return X + offsets[groups], np.repeat(["a", "b"], 8), groups
    return X, (None if scheme == "signs" else y), None


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["auto", "tfce"])
@pytest.mark.parametrize("scheme", ["free", "within", "whole", "signs"])
def test_familywise_errors_are_at_most_the_level(scheme, statistic):
    """The relabellings are drawn anew for each data set: those of one seed are not a group."""
    rng = np.random.default_rng(20)
    space = VoxelSpace.grid((5, 4, 2))
    wrong = 0
    for seed in range(200):
        scans, y, groups = null_data(scheme, rng)
        options = {"scheme": scheme, "n_permutations": 59, "random_state": seed}
        found = map_test(scans, y, groups, statistic=statistic, space=space, **options)
        wrong += found.p_global <= 0.05
    assert wrong / 200 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)
