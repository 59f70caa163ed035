"""Groups of one class that lose it where scans are centred by group: seen whatever the model."""

import nibabel
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from voxprior import AutoClassifier, AutoRegressor, Decoder
from voxprior.decoder.one_class import ClassSpread
from voxprior.errors import InputError
from voxprior.validation import cross_validate

RUNS = np.repeat(np.arange(5), 6)


def scans(seed=0, effect=1.0, n_classes=2, V=60, sizes=RUNS):
    """Scans of runs that differ from one another by an image each."""
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(n_classes), len(sizes) // n_classes)
    X = rng.normal(size=(len(y), V)) + 5 * rng.normal(size=(5, V))[sizes]
    X[np.arange(len(y))[:, None], 8 * y[:, None] + np.arange(8)] += 1.5 * effect
    return X, np.array(["thumb", "index", "ring"])[y]


def centred(X, groups=RUNS):
    return X - np.array([X[groups == g].mean(axis=0) for g in groups])


def naive_spread(X, y, groups):
    """F, group by group."""
    total, degrees = 0.0, 0
    for g in np.unique(groups):
        rest = groups != g
        U = np.array([X[rest & (y == c)].mean(axis=0) for c in np.unique(y)])
        S = (X[~rest] - X[~rest].mean(axis=0)) @ (U - U.mean(axis=0)).T
        total, degrees = total + (S**2).sum(), degrees + (~rest).sum() - 1
    return total / degrees


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spread_is_that_of_the_definition(n_classes, dtype):
    X, y = scans(n_classes=n_classes)
    X = centred(X).astype(dtype)
    known = ClassSpread.of(X, y, RUNS)
    assert known.spread == pytest.approx(naive_spread(X, y, RUNS), rel=1e-4)
    U = np.array([X[y == c].mean(axis=0) for c in np.unique(y)])
    assert_allclose(known.means, U - U.mean(axis=0), atol=1e-5)
    part = X[:4] - X[:4].mean(axis=0)
    V = ((part @ known.means.T) ** 2).sum() / 3
    nu = 3 * (n_classes - 1)
    for factor, expected in ((1.01, True), (0.99, False)):
        bound = min(0.4, stats.chi2.ppf(0.05, nu) / nu)
        judged = known._replace(spread=float(factor * V / bound))
        assert judged.is_one_class(part) == expected


def test_few_scans_are_not_judged_by_luck():
    X, y = scans(effect=3.0)
    known = ClassSpread.of(centred(X), y, RUNS)
    pair = X[y == "thumb"][:2]
    assert not known.is_one_class(pair[:1] - pair[:1])
    assert known.is_one_class(np.zeros((2, 60)))
    noise = scans(effect=0.0, seed=3)
    blind = ClassSpread.of(centred(noise[0]), noise[1], RUNS)
    found = [blind.is_one_class(centred(noise[0])[g == RUNS]) for g in range(5)]
    assert sum(found) <= 1


@pytest.mark.parametrize("sizes", ["one run", "class of one run", "runs of one scan"])
def test_where_nothing_is_told(sizes):
    X, y = scans()
    groups = {"one run": np.zeros(30), "class of one run": RUNS, "runs of one scan": np.arange(30)}
    if sizes == "class of one run":
        y = np.where(RUNS == 0, "ring", y)
    assert ClassSpread.of(X, y, groups[sizes]) is None
    assert ClassSpread.of(X, np.ones(30), RUNS) is None


def images(X):
    padded = np.zeros((len(X), 4, 4, 4), dtype="f4")
    padded.reshape(len(X), -1)[:, :60] = X + 20
    return [nibabel.Nifti1Image(x, np.eye(4)) for x in padded]


@pytest.mark.parametrize("model", [None, "gp", "sharing", "logistic"])
def test_every_model_warns_alike(model, tmp_path, recwarn):
    X, y = scans(effect=2.0)
    train = RUNS < 4
    decoder = Decoder(model).fit(images(X[train]), y[train], RUNS[train])
    assert decoder.masker_.standardize == "group"
    decoder.predict(images(X[~train]), ["new"] * 6)
    assert not [w for w in recwarn.list if "class means" in str(w.message)]
    own = np.random.default_rng(7).normal(size=(6, 60)) + 5 * np.ones(60)
    own[:, :8] += 3.0
    told = "scans of new differ along the class means no more than scans of one class"
    with pytest.warns(UserWarning, match=told):
        decoder.predict(images(own), ["new"] * 6)
    again = Decoder.load(decoder.save(tmp_path / "model.skops"))
    assert_allclose(again.class_spread_.means, decoder.class_spread_.means)
    with pytest.warns(UserWarning, match=told):
        again.predict_proba(images(own), ["new"] * 6)


def test_maps_without_groups_need_no_spread():
    X, y = scans()
    assert Decoder().fit(images(centred(X)), y).class_spread_ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"means": np.zeros((2, 3))},
        {"means": np.zeros(3), "spread": 1.0},
        {"means": np.zeros((2, 3)), "spread": "1"},
    ],
)
def test_a_file_with_another_spread_is_refused(wrong, tmp_path, monkeypatch):
    X, y = scans()
    decoder = Decoder().fit(images(X), y, RUNS)
    monkeypatch.setattr(ClassSpread, "_asdict", lambda self: wrong)
    path = decoder.save(tmp_path / "model.skops")
    with pytest.raises(InputError, match="whose class_spread"):
        Decoder.load(path)


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("what", ["y", "groups"])
def test_missing_labels_and_groups_are_named(what, missing):
    X, y = scans()
    given = {"y": y.astype(object), "groups": RUNS.astype(object)}
    given[what][[3, 5]] = missing
    told = rf"{what} is missing for 2 of 30 scans, the first is scan 3"
    with pytest.raises(InputError, match=told):
        Decoder().fit(images(X), **given)
    with pytest.raises(InputError, match=told):
        cross_validate(AutoClassifier(), X, given["y"], given["groups"])
    with pytest.raises(ValueError, match=f"{told}|contains NaN"):
        AutoClassifier().fit(X, given["y"], given["groups"])
    if what == "groups":
        with pytest.raises(InputError, match=told):
            AutoRegressor().fit(X, np.arange(30.0), given["groups"])
