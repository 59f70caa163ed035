"""AutoRegressor: worked digits, a naive form that refits everything, laws, and ugly input."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.stats import t as student

from voxprior import AutoRegressor, VoxelSpace
from voxprior.auto.student import STRETCHES, TAUS

# Six scans of four voxels, and two new ones.
X6 = np.array(
    [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]], float
)
Y6 = np.array([1.0, 2, 2, 4, 5, 7])
NEW = np.array([[2.0, 1, 1, 1], [0.0, 3, 1, 1]])


def problem(n=12, shape=(3, 4, 2), seed=0, n_new=5):
    """Scans with a linear signal in noise: X, y, new scans, space."""
    rng = np.random.default_rng(seed)
    space = VoxelSpace.grid(shape)
    X = rng.normal(size=(n + n_new, space.n_voxels)) * rng.uniform(0.5, 3, space.n_voxels)
    y = X[:, :5].sum(axis=1) + rng.normal(size=n + n_new)
    return X[:n], y[:n], X[n:], space


# ---------------------------------------------------------------- the naive form


def naive_views(X, new, space, degrees):
    """Scans and new scans in each view, written out."""
    m = X.mean(axis=0)
    V = ((X - m) ** 2).sum(axis=0) / degrees
    scale = np.sqrt((degrees * V + 4 * V.mean()) / (degrees + 4))
    views = {"raw": (X - m, new - m), "z": ((X - m) / scale, (new - m) / scale)}
    if space is not None:
        h = cdist(space.coordinates, space.coordinates)
        S = np.where(h <= 1.8, np.exp(-(h**2) / 2), 0.0)
        S /= S.sum(axis=1, keepdims=True)
        views["smooth"] = tuple(part @ S.T for part in views["z"])
    return views


def naive_kernels(train, new):
    """Linear and radial kernels of all scans together, centred by the training scans, scaled."""
    n, both = len(train), np.vstack([train, new])
    width = np.median(cdist(train, train, "sqeuclidean")[np.triu_indices(n, 1)])
    for K in (both @ both.T, np.exp(-cdist(both, both, "sqeuclidean") / (2 * width))):
        mean = K[:, :n].mean(axis=1)
        centered = K - mean[:, None] - mean[None, :] + mean[:n].mean()
        yield centered / (np.trace(centered[:n, :n]) / (n - 1))


def kriged(S, y, rest, i):
    """Location, squared scale (without sigma) and power of y_i given the rest, the mean unknown."""
    A = np.linalg.inv(S[np.ix_(rest, rest)])
    one = np.ones(len(rest))
    mu = one @ A @ y[rest] / (one @ A @ one)
    r = y[rest] - mu
    s = S[i, rest]
    v = S[i, i] - s @ A @ s + (1 - one @ A @ s) ** 2 / (one @ A @ one)
    return mu + s @ A @ r, v, r @ A @ r


def naive_effective(y, groups, centered):
    """Left-out units, effective scans, and how many groups the scans were centred by."""
    n = len(y)
    if groups is None:
        return [[i] for i in range(n)], float(n), 1
    units = [list(np.flatnonzero(groups == g)) for g in np.unique(groups)]
    G = len(units)
    between = sum(len(u) * (y[u].mean() - y.mean()) ** 2 for u in units) / (G - 1)
    within = sum(((y[u] - y[u].mean()) ** 2).sum() for u in units) / (n - G)
    F, m0 = between / within, (n - sum(len(u) ** 2 for u in units) / n) / (G - 1)
    icc = np.clip((F - 1) / (F - 1 + m0), 0, 1)
    n_eff = n / (1 + (m0 - 1) * icc)
    return units, min(n_eff, n - G) if centered else n_eff, G if centered else 1


def naive_mixture(X, y, new, space=None, groups=None, centered=False):
    """Weights (M, S), locations (n_new, M), scales (n_new, M) and nu: everything is refitted."""
    n, n_new = len(y), len(new)
    units, n_eff, lost = naive_effective(y, groups, centered)
    f = (n_eff - 1) / (n - 1)
    padded = np.append(y, np.full(n_new, np.nan))
    views = naive_views(X, new, space, n - lost).values()
    members = [(np.zeros((n + n_new, n + n_new)), 0.0)]
    members += [(K, 1 / (1 + tau)) for view in views for K in naive_kernels(*view) for tau in TAUS]
    log_prior = -((np.log(STRETCHES) / 0.3) ** 2) / 2
    log_weight, locations, scales = [], [], []
    for K, h in members:
        S = h * K + (1 - h) * np.eye(n + n_new)
        score, count = np.zeros(len(STRETCHES)), 0
        for unit in units:
            rest = [i for i in range(n) if i not in unit]
            degrees = n - 1 - len(unit)
            for i in unit if degrees >= 1 else []:
                mu, v, q = kriged(S, padded, rest, i)
                spread = STRETCHES * np.sqrt(q / degrees * v)
                score += student.logpdf(y[i], max(1, degrees * f), mu, spread)
                count += 1
        log_weight.append(log_prior + n_eff / max(count, 1) * score)
        found = [kriged(S, padded, list(range(n)), n + i) for i in range(n_new)]
        locations.append([mu for mu, _, _ in found])
        scales.append([np.sqrt(q / (n - 1) * v) for _, v, q in found])
    log_weight = np.array(log_weight)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum(), np.array(locations).T, np.array(scales).T, max(1, n_eff - 1)


def naive_quantile(weight, location, scale, nu, q):
    def excess(y):
        z = (y - location[:, None]) / (scale[:, None] * STRETCHES)
        return (weight * student.cdf(z, nu)).sum() - q

    far = 1e3 * scale.max()
    return brentq(excess, location.min() - far, location.max() + far, xtol=1e-12)


@pytest.mark.parametrize("case", ["alone", "groups", "centred", "space"])
def test_everything_equals_a_naive_form_that_refits(case):
    X, y, new, space = problem()
    groups = np.array(list("aabbbccddddd")) if case in ("groups", "centred") else None
    if case == "centred":
        X = np.vstack([X[groups == g] - X[groups == g].mean(axis=0) for g in "abcd"])
    space = space if case == "space" else None
    model = AutoRegressor(space).fit(X, y, groups)
    weight, location, scale, nu = naive_mixture(X, y, new, space, groups, case == "centred")
    assert_allclose(model.weights_, weight, rtol=1e-7, atol=1e-12)
    assert model.degrees_of_freedom_ == pytest.approx(nu, rel=1e-12)
    kept = weight.sum(axis=1) >= 1e-4
    weight = weight[kept] / weight[kept].sum()
    location, scale = location[:, kept], scale[:, kept]
    assert_allclose(model.predict(new), location @ weight.sum(axis=1), rtol=1e-8)
    ends = [
        [naive_quantile(weight, m, s, nu, q) for q in (0.05, 0.95)] for m, s in zip(location, scale)
    ]
    assert_allclose(model.predict_interval(new), ends, rtol=1e-7)
    value, spread = np.linspace(-2, 2, len(new)), scale[:, :, None] * STRETCHES
    z = (value[:, None, None] - location[:, :, None]) / spread
    assert_allclose(model.predict_cdf(new, value), (weight * student.cdf(z, nu)).sum((1, 2)))
    density = (weight * student.pdf(z, nu) / spread).sum((1, 2))
    assert_allclose(model.log_density(new, value), np.log(density))
    second = (weight * spread**2).sum((1, 2)) * nu / (nu - 2)
    second += (weight.sum(axis=1) * (location - model.predict(new)[:, None]) ** 2).sum(axis=1)
    assert_allclose(model.predict(new, return_std=True)[1], np.sqrt(second))


# ---------------------------------------------------------------- worked digits


def test_six_scans_of_four_voxels():
    model = AutoRegressor().fit(X6, Y6)
    assert model.kernel_names_ == ["raw linear", "raw radial", "z linear", "z radial"]
    known = [
        "0 0 0 .000045 .004510 .051566 .095578 .049801 .020887 .013650 .011406",
        ".003717 .003920 .004669 .007132 .018248 .049581 .069637 .039347 .018711 .013073 .011250",
        "0 0 0 .000038 .004070 .048991 .088647 .044802 .019578 .013281 .011304",
        ".009409 .009735 .010905 .014445 .027745 .056961 .065813 .035516 .017620 .012751 .011159",
    ]
    weights = [[float(number) for number in row.split()] for row in known]
    assert_allclose(model.member_weights_, weights, atol=6e-7)
    assert model.mean_weight_ == pytest.approx(0.010500, abs=6e-7)
    assert_allclose(model.stretch_posterior_, [0.202110, 0.567084, 0.218264, 0.012543], atol=6e-7)
    assert_allclose(model.predict(NEW), [2.909682, 5.093041], atol=6e-7)
    ends = [[-0.462419, 6.507856], [1.026992, 8.660829]]
    assert_allclose(model.predict_interval(NEW), ends, atol=6e-7)
    assert_allclose(model.log_density(NEW, [3, 6]), [-1.416353, -1.573893], atol=6e-7)
    assert_allclose(model.predict_cdf(NEW, [3, 6]), [0.538255, 0.666396], atol=6e-7)


def test_two_scans_are_wide_and_rightly_so():
    """One degree of freedom: intervals exist, a standard deviation does not."""
    model = AutoRegressor().fit(X6[[0, 5]], Y6[[0, 5]])
    assert_allclose(model.predict(NEW), [3.299138, 5.389578], atol=6e-7)
    ends = [[-18.681038, 25.677063], [-21.779488, 32.141572]]
    assert_allclose(model.predict_interval(NEW), ends, atol=6e-7)
    with pytest.warns(UserWarning, match="predict_interval"):
        assert np.isinf(model.predict(NEW, return_std=True)[1]).all()
    assert "equal weights" in " ".join(model.decisions_)
    assert np.isnan(model.left_out_r2_)


def test_groups_that_cross_the_targets():
    """Two runs with the same targets, centred by run beforehand; a third run to predict."""
    X = np.array([[5.0, 1, 0], [4, 2, 1], [3, 2, 2], [1, 1, 3], [0, 3, 3], [0, 3, 5]])
    X = np.vstack([part - part.mean(axis=0) for part in (X[:3], X[3:])])
    new = np.array([[9.0, 0, 0], [8, 2, 0], [7, 2, 2]])
    model = AutoRegressor().fit(X, [0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    assert model.n_eff_ == 4
    assert model.degrees_of_freedom_ == 3
    new -= new.mean(axis=0)
    assert_allclose(model.predict(new), [-0.049895, 0.861020, 2.189648], atol=6e-7)
    ends = [[-0.366090, 0.296490], [0.565632, 1.167213], [1.840048, 2.491083]]
    assert_allclose(model.predict_interval(new), ends, atol=6e-7)
    assert "scans were centred by group" in " ".join(model.decisions_)


# ---------------------------------------------------------------- laws


def told(model, new):
    return np.column_stack([model.predict(new), model.predict_interval(new)])


def test_units_of_the_targets_do_not_matter():
    X, y, new, space = problem()
    straight = told(AutoRegressor(space).fit(X, y), new)
    turned = told(AutoRegressor(space).fit(X, 7 - 3 * y), new)
    assert_allclose(turned[:, [0, 2, 1]], 7 - 3 * straight, rtol=1e-9, atol=1e-9)


def test_factor_image_and_order_do_not_matter():
    X, y, new, space = problem()
    expected = told(AutoRegressor(space).fit(X, y), new)
    image = np.random.default_rng(1).normal(size=X.shape[1])
    shifted = told(AutoRegressor(space).fit(5 * X + image, y), 5 * new + image)
    assert_allclose(shifted, expected, rtol=1e-9)
    order = np.random.default_rng(2).permutation(len(y))
    assert_allclose(told(AutoRegressor(space).fit(X[order], y[order]), new), expected, rtol=1e-9)


def test_the_raw_view_knows_no_axes():
    X, y, new, _ = problem()
    Q = np.linalg.qr(np.random.default_rng(3).normal(size=(X.shape[1],) * 2))[0]
    straight, turned = (AutoRegressor(views=["raw"]).fit(A, y) for A in (X, X @ Q))
    assert_allclose(told(turned, new @ Q), told(straight, new), rtol=1e-8)


def test_constant_voxels_change_nothing():
    X, y, new, _ = problem()
    padded, padded_new = (np.hstack([A, np.full((len(A), 9), 4.0)]) for A in (X, new))
    expected = told(AutoRegressor().fit(X, y), new)
    assert_allclose(told(AutoRegressor().fit(padded, y), padded_new), expected, rtol=1e-9)


def test_quantiles_rise_and_invert_the_distribution():
    X, y, new, space = problem()
    model = AutoRegressor(space).fit(X, y)
    shares = np.array([0.001, 0.05, 0.3, 0.5, 0.9, 0.999])
    values = np.array([model.predict_quantile(new, q) for q in shares])
    assert (np.diff(values, axis=0) > 0).all()
    back = np.array([model.predict_cdf(new, row) for row in values])
    assert_allclose(back, np.repeat(shares[:, None], len(new), axis=1), rtol=1e-9)


def test_the_map_is_the_slope_of_the_linear_members():
    X, y, new, space = problem()
    model = AutoRegressor(space, views=["smooth"]).fit(X, y)
    linear = model.member_weights_[0].sum()
    weight = model.voxel_maps()["weight"]
    assert model.linear_weight_ == pytest.approx(linear)
    model.weights_[len(TAUS) + 1 :] = 0  # only the mean and the linear members speak
    model.weights_ /= model.weights_.sum()
    steps = 1e3 * np.eye(X.shape[1])
    slopes = [(model.predict(new + step) - model.predict(new)) / 1e3 for step in steps]
    share = linear / (linear + model.mean_weight_)
    expected = np.repeat(share * weight[:, None], len(new), axis=1)
    assert_allclose(np.array(slopes), expected, rtol=1e-3, atol=1e-3 * np.abs(weight).max())


def test_time_points_are_smoothed_one_by_one():
    X, y, new, space = problem()
    joined, new = np.hstack([X, X[::-1]]), np.hstack([new, new])
    far_apart = np.vstack([space.coordinates, space.coordinates + 100])
    two = AutoRegressor(space).fit(joined, y)
    points = AutoRegressor(VoxelSpace.from_coordinates(far_apart)).fit(joined, y)
    assert_allclose(told(two, new), told(points, new), rtol=1e-9)
    maps = [model.voxel_maps()["weight"] for model in (two, points)]
    assert maps[0].shape == (2 * space.n_voxels,)
    assert_allclose(*maps, rtol=1e-8)


def test_groups_of_one_scan_or_one_group_are_no_groups():
    X, y, new, _ = problem()
    expected = told(AutoRegressor().fit(X, y), new)
    for groups in (np.arange(len(y)), np.zeros(len(y))):
        assert_array_equal(told(AutoRegressor().fit(X, y, groups), new), expected)


def test_groups_with_targets_alike_count_for_less():
    X, _, _, _ = problem()
    groups, y = np.repeat(np.arange(4), 3), np.repeat([1.0, 5.0, 9.0, 2.0], 3)
    model = AutoRegressor().fit(X, y + np.tile([0, 0.1, 0.2], 4), groups)
    assert 4 <= model.n_eff_ < 4.1
    assert "12 scans of 4 groups" in model.decisions_[1]
    assert AutoRegressor().fit(X, y, groups).n_eff_ == pytest.approx(4)


def test_a_group_of_nearly_all_scans_cannot_be_left_out():
    X, y, new, _ = problem()
    groups = np.array([0] * 11 + [1])
    model = AutoRegressor().fit(X, y, groups)
    assert np.isfinite(model.left_out_log_density_)
    assert np.isfinite(told(model, new)).all()


def test_nothing_there_is_said():
    X, y, _, _ = problem(n=40)
    noise = np.random.default_rng(5).normal(size=40)
    found, nothing = AutoRegressor().fit(X, y), AutoRegressor().fit(X, noise)
    high = TAUS >= 10
    weight = [m.mean_weight_ + m.member_weights_[:, high].sum() for m in (found, nothing)]
    assert weight[0] < 0.05
    assert weight[1] > 0.3
    assert f"have {weight[1]:.2f} of the weight" in " ".join(nothing.decisions_)
    assert found.left_out_r2_ > 0.4 > nothing.left_out_r2_


# ---------------------------------------------------------------- many labellings


def test_prepared_scans_give_the_same_model():
    X, y, new, space = problem()
    groups, rows = np.repeat(list("abcd"), 3), np.array([0, 1, 4, 5, 8, 9, 10])
    model = AutoRegressor(space)
    prepared = model.prepare(X, groups)
    Y = np.column_stack([y[rows], y[rows][::-1], np.ones(len(rows))])
    rest = np.setdiff1d(np.arange(len(X)), rows)
    many = model.fit_many(prepared, rows, Y, 0).decision_function(rest)
    for column, y_of in enumerate(Y.T):
        one = AutoRegressor(space).fit(X[rows], y_of, groups[rows])
        assert_allclose(many[:, column], one.predict(X[rest]), rtol=1e-9)
        assert_array_equal(told(model.fit_prepared(prepared, rows, y_of), new), told(one, new))
    assert len(prepared.known) == 1
    again = told(model.fit_prepared(model.prepare(X), rows, y[rows]), new)
    assert_array_equal(again, told(AutoRegressor(space).fit(X[rows], y[rows]), new))


# ---------------------------------------------------------------- ugly input


@pytest.mark.parametrize("value", [0.0, 3.0, -1e8])
def test_targets_that_do_not_vary(value):
    X, _, new, _ = problem()
    model = AutoRegressor().fit(X, np.full(len(X), value))
    assert_allclose(told(model, new), value, rtol=1e-8, atol=1e-100)
    assert np.isfinite(model.log_density(new, np.full(len(new), value))).all()
    assert "does not vary" in " ".join(model.decisions_)


def test_scans_that_do_not_vary_leave_the_mean():
    y = np.arange(5.0)
    model = AutoRegressor(VoxelSpace.grid((7,)))
    many = model.fit_many(model.prepare(np.ones((5, 7))), np.arange(4), y[:4, None])
    assert_allclose(many.decision_function(np.array([4])), 1.5)
    model = model.fit(np.ones((5, 7)), y)
    assert model.kernel_names_ == []
    assert model.mean_weight_ == pytest.approx(1)
    assert_allclose(model.predict(np.zeros((2, 7))), 2)
    assert np.isfinite(model.predict_interval(np.zeros((2, 7)))).all()
    assert_array_equal(model.voxel_maps()["weight"], 0)


def test_the_same_scan_many_times():
    X, y, new, _ = problem(n=6)
    same = np.vstack([X[:1]] * 5 + [X[1:2]])
    assert np.isfinite(told(AutoRegressor().fit(same, y[:6]), new)).all()


def test_equal_targets_but_one():
    """Leaving the odd one out leaves a target without variance."""
    model = AutoRegressor().fit(X6[:3], [1.0, 1.0, 5.0])
    assert np.isfinite(told(model, NEW)).all()
    assert np.isfinite(model.left_out_log_density_)


def test_a_million_voxels():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 1_000_000)).astype(np.float32)
    model = AutoRegressor().fit(X, np.arange(4.0))
    assert np.isfinite(told(model, X[:2])).all()


@pytest.mark.parametrize("kind", ["points", "mesh", "isolated", "one place"])
def test_any_space(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 8)), np.arange(6.0)
    places = rng.normal(size=(8, 3))
    space = {
        "points": VoxelSpace.from_coordinates(places),
        "mesh": VoxelSpace.from_mesh(places, [[0, 1, 2], [2, 3, 4]]),
        "isolated": VoxelSpace.from_coordinates(100.0 ** np.arange(8)[:, None]),
        "one place": VoxelSpace.from_coordinates(np.zeros((8, 3))),
    }[kind]
    model = AutoRegressor(space).fit(X, y)
    assert model.views_ == ["raw", "z", "smooth"][: 2 if kind == "one place" else 3]
    assert np.isfinite(told(model, X)).all()
    assert np.isfinite(model.voxel_maps()["weight"]).all()


@pytest.mark.parametrize(
    ("views", "match"), [([], "raw, z, smooth"), (["raww"], "some of"), (["smooth"], "space")]
)
def test_views_that_are_not_there(views, match):
    with pytest.raises(ValueError, match=match):
        AutoRegressor(views=views).fit(X6, Y6)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(ValueError, match="too large"):
        AutoRegressor().fit(X6 * 1e308, Y6)
    model = AutoRegressor().fit(X6, Y6)
    large = AutoRegressor().fit(X6 * 1e200, Y6)
    assert_allclose(large.predict(NEW * 1e200), model.predict(NEW), rtol=1e-9)
    with pytest.raises(ValueError, match="too large"):
        model.predict(NEW * 1e200)
    with pytest.raises(ValueError, match="level"):
        model.predict_interval(NEW, level=90)
    with pytest.raises(ValueError, match="q="):
        model.predict_quantile(NEW, "half")
    with pytest.raises(ValueError, match="inconsistent"):
        model.log_density(NEW, [1.0])
    with pytest.raises(ValueError, match="inconsistent"):
        AutoRegressor().fit(X6, Y6, groups=[1, 2])
    with pytest.raises(ValueError, match="minimum of 2"):
        AutoRegressor().fit(X6[:1], Y6[:1])


def test_no_warning_is_given_by_an_ordinary_fit():
    X, y, new, space = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoRegressor(space).fit(X, y).predict(new, return_std=True)


# ---------------------------------------------------------------- intervals that hold


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 20, 50])
def test_white_noise(n):
    r2, inside = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n + 100, 300)), rng.normal(size=n + 100)
        model = AutoRegressor().fit(X[:n], y[:n])
        test = y[n:]
        error = np.square(test - model.predict(X[n:])).sum()
        r2.append(1 - error / np.square(test - y[:n].mean()).sum())
        low, high = model.predict_interval(X[n:]).T
        inside.append(np.mean((low <= test) & (test <= high)))
    assert np.mean(r2) > -0.05
    assert 0.88 < np.mean(inside) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_what_they_say_where_there_is_signal(level):
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(130, 200))
        y = X @ rng.normal(size=200) / 10 + rng.normal(size=130)
        model = AutoRegressor().fit(X[:30], y[:30])
        low, high = model.predict_interval(X[30:], level=level).T
        inside.append(np.mean((low <= y[30:]) & (y[30:] <= high)))
    assert abs(np.mean(inside) - level) < 0.04
